// The page: controls, connection, and the parts around the table.
import {bytes, clock, columns, duration, holderKeys, keys, orders, percent, rate, throttled, throttles, throttleWord, watts, whole, why, key} from "./signals.js";
import {Model} from "./model.js";
import {Table, svg, trace} from "./table.js";

const $ = (id) => document.getElementById(id);
const model = new Model();
const state = {node: "", namespace: "", model: "", sort: "throttle", descending: true};
const order = () => orders.find((o) => o.id === state.sort);
const hint = $("explain").textContent;
let opened = null;
// The kept time of the device that is open, once it is there.
let past = null;

const table = new Table(model, {
  onSort: (c) => {
    const id = c.id === "device" || c.id === "holders" ? "node" : c.id;
    state.descending = state.sort === id ? !state.descending : id !== "node";
    state.sort = id;
    changed();
  },
  onOpen: open,
  onExplain: (c) => {
    const b = document.createElement("b");
    b.textContent = c?.label ?? "";
    $("explain").replaceChildren(...(c ? [b, `: ${c.explain}`] : [hint]));
  },
});

// Controls.
for (const o of orders) $("sort").append(new Option(o.label, o.id));
for (const id of ["node", "namespace", "model"]) $(id).addEventListener("input", () => { state[id] = $(id).value.trim(); changed(); });
$("sort").addEventListener("input", () => { state.sort = $("sort").value; state.descending = state.sort !== "node"; changed(); });
$("order").addEventListener("click", () => { state.descending = !state.descending; changed(); });
$("controls").addEventListener("submit", (e) => e.preventDefault());
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.querySelector(".bar button").addEventListener("click", () => dialog.close());
  // Beside the dialog's content is its backdrop.
  dialog.addEventListener("click", (e) => { if (e.target === dialog) dialog.close(); });
}
$("details").addEventListener("close", () => { opened = past = null; $("grid").focus({preventScroll: true}); });

// The address says what is shown, so that it can be kept and handed on.
const given = new URLSearchParams(location.hash.slice(1));
for (const id of ["node", "namespace", "model"]) state[id] = given.get(id) ?? "";
if (orders.some((o) => o.id === given.get("sort"))) state.sort = given.get("sort");
if (given.has("order")) state.descending = given.get("order") !== "ascending";

function changed() {
  const said = new URLSearchParams();
  for (const id of ["node", "namespace", "model"]) if (state[id]) said.set(id, state[id]);
  said.set("sort", state.sort);
  said.set("order", state.descending ? "descending" : "ascending");
  history.replaceState(null, "", `#${said}`);
  rows();
}

function rows() {
  for (const c of columns) if (c.optional) $("sort").querySelector(`[value="${c.id}"]`).hidden = !model.used.has(c.id);
  $("sort").value = state.sort;
  $("order").textContent = state.sort === "node" ? (state.descending ? "Z to A ↓" : "A to Z ↑") : state.descending ? "Highest first ↓" : "Lowest first ↑";
  if ($("node").value !== state.node) $("node").value = state.node;
  const shown = model.rows(state, order().value, state.descending);
  table.sorted(state.sort, state.descending);
  table.show(shown);
  $("count").textContent = `${shown.length.toLocaleString()} of ${model.devices.size.toLocaleString()} devices`;
  empty(shown.length);
}

function empty(shown) {
  $("empty").hidden = shown > 0 || !answered;
  if ($("empty").hidden) return;
  const b = document.createElement("b");
  b.textContent = model.devices.size ? "No device passes the filter." : "No window has come yet.";
  const text = model.devices.size ? "Clear node, namespace or model to see the others."
    : "The first one comes when the first window closes. If none does, see that gpu_view stands behind gpu_synthesizer and gpu_window in its pipeline, and that the exporter answers.";
  $("empty").replaceChildren(b, text);
}

function choices() {
  const {nodes, namespaces, models} = model.choices();
  fill($("nodes"), nodes, (n) => new Option("", n));
  fill($("namespace"), namespaces, (n) => new Option(n, n), new Option("any", ""), state.namespace);
  fill($("model"), models, (n) => new Option(n, n), new Option("any", ""), state.model);
}

// fill replaces the options when they are others. What was asked for stays, also while nothing has it.
function fill(list, values, option, first, chosen) {
  if (chosen && !values.includes(chosen)) values = [chosen, ...values];
  const text = values.join("\n");
  if (list.dataset.has !== text) {
    list.dataset.has = text;
    list.replaceChildren(...(first ? [first] : []), ...values.map(option));
  }
  if (first) list.value = chosen;
}

const tiles = [
  {id: "all", label: "devices", sort: "node", value: (ds) => ds.length},
  {id: "throttled", label: "throttled", sort: "throttle", mark: "warn", counts: (d) => throttled(d).ratio, over: (v) => v > 0},
  {id: "pressure", label: "under memory pressure", sort: "pressure", mark: "warn", counts: (d) => d.get(keys.pressure), over: (v) => v > 0},
  {id: "xid", label: "XID errors in the window", sort: "xid", mark: "bad", counts: (d) => d.get(keys.xid), sum: true},
  {id: "stale", label: "not seen of late", sort: "coverage", mark: "bad", value: (ds) => ds.filter((d) => d.stale).length},
  {id: "missing", label: "signals missing", open: lacking, known: diagnosed, mark: "warn", value: () => missing().filter((m) => !m.reason.lasting).reduce((n, m) => n + m.signals.length, 0),
    says: "what exporters do not give though it could be turned on, and why", unknown: "nobody looked: see how to find out"},
];
for (const t of tiles) {
  t.button = document.createElement("button");
  t.button.type = "button";
  t.button.className = "tile";
  t.button.id = `tile-${t.id}`;
  t.number = document.createElement("b");
  t.number.textContent = "–";
  const label = document.createElement("span");
  label.textContent = t.label;
  t.button.append(t.number, label);
  if (t.open) t.button.ariaHasPopup = "dialog";
  t.button.addEventListener("click", () => {
    if (t.open) return t.open();
    state.sort = t.sort;
    state.descending = t.sort !== "node" && t.id !== "stale";
    changed();
  });
  $("tiles").append(t.button);
}

function overview() {
  const all = [...model.devices.values()];
  for (const t of tiles) {
    const known = t.counts ? all.map(t.counts).filter((v) => !Number.isNaN(v)) : t.known ? all.filter(t.known) : all;
    const v = t.value ? t.value(all) : t.sum ? known.reduce((a, b) => a + b, 0) : known.filter(t.over).length;
    t.number.textContent = known.length ? v.toLocaleString() : "–";
    t.button.title = t.says ? (known.length ? t.says : t.unknown) : known.length ? (t.counts ? `observed on ${known.length.toLocaleString()} devices` : "") : "no device gives this signal";
    t.button.classList.toggle(t.mark ?? "plain", known.length > 0 && v > 0);
  }
  $("window").textContent = model.newest ? `· ${duration(model.window)} window up to ${clock(model.newest)}` : "";
}

// diagnosed says whether it is known which signals the exporter gives of a device.
function diagnosed(d) { return d.said && !d.stale; }

// missing groups what exporters do not give by metric and reason: the signals, and the devices that
// lack them. A free device lacks nothing, and one that somebody is known to hold no labels.
function missing() {
  const groups = new Map();
  for (const d of model.devices.values()) {
    for (const {signal, reason} of d.verdicts()) {
      if (!reason || reason.code === "free" || (signal.metric === "gpu.device.holder" && d.holders.length)) continue;
      const id = `${signal.metric} ${reason.code}`;
      let g = groups.get(id);
      if (!g) groups.set(id, g = {metric: signal.metric, reason, signals: new Map(), devices: new Set()});
      g.signals.set(signal.name, signal);
      g.devices.add(d);
    }
  }
  return [...groups.values()].map((g) => ({...g, signals: [...g.signals.values()], devices: [...g.devices]}));
}

// lacking opens the list of what exporters do not give.
function lacking() {
  listMissing();
  $("missing").showModal();
}

function listMissing() {
  const all = [...model.devices.values()].filter(diagnosed).length;
  const groups = missing();
  const body = $("missing-body");
  const at = body.scrollTop;
  const parts = [["Could be turned on", groups.filter((g) => !g.reason.lasting)], ["In the nature of the devices", groups.filter((g) => g.reason.lasting)]];
  const said = all ? [
    node("p", `By what the exporters of ${all.toLocaleString()} devices showed last. An exposition does not say why something is not in it: some reasons are the likely ones.`),
    ...(parts[0][1].length ? [lines("p", "The csv lines and flags that turn signals on are printed by", "gpudoctor http://EXPORTER:9400/metrics")] : []),
    ...(groups.length ? [] : [node("p", "Every signal that was looked for is there.", "none")]),
  ] : [
    node("p", "It is not known which signals the exporters give: the metric gpu.signal.available does not come. A number that is missing says the usual reason instead."),
    lines("p", "Turn it on in the collector that scrapes the exporters:", "processors:\n  gpu_synthesizer:\n    metrics: {gpu.signal.available: {enabled: true}}"),
    lines("p", "Or ask one exporter:", "gpudoctor http://EXPORTER:9400/metrics"),
  ];
  for (const [title, of] of parts) {
    if (!of.length) continue;
    const t = document.createElement("table");
    const head = t.createTHead().insertRow();
    for (const name of ["Signal", "Why not", "Devices"]) {
      const th = node("th", name);
      th.scope = "col";
      head.append(th);
    }
    const list = t.createTBody();
    for (const g of of) {
      const tr = list.insertRow();
      const values = g.signals.flatMap((s) => s.part ?? []);
      const th = node("th", g.metric);
      th.scope = "row";
      const fields = [...new Set(g.signals.flatMap((s) => s.fields ?? []))];
      if (values.length) th.append(node("span", ` {${values.join(", ")}}`));
      th.append(node("span", fields.join(" "), "sub"));
      const few = g.devices.slice(0, 3).map((d) => `${d.profile || d.name || d.id} on ${d.node}`).join(", ");
      const which = node("td", `${g.devices.length.toLocaleString()} of ${all.toLocaleString()}`);
      which.append(node("span", g.devices.length === all ? "" : few + (g.devices.length > 3 ? ` and ${(g.devices.length - 3).toLocaleString()} more` : ""), "sub"));
      tr.append(th, node("td", g.reason.text), which);
    }
    said.push(node("h3", title), t);
  }
  body.replaceChildren(...said);
  body.scrollTop = at;
}

// lines is a text with something to copy.
function lines(tag, text, code) {
  const out = node(tag, text);
  out.append(node("pre", code));
  return out;
}

function demand() {
  $("demand").hidden = !model.demand.length;
  const h = document.createElement("h2");
  h.textContent = "Scheduler";
  const ul = document.createElement("ul");
  for (const r of model.demand) {
    const [pods, units, ratio, age] = r.v.map((v) => v ?? NaN);
    const li = document.createElement("li");
    const b = document.createElement("b");
    b.textContent = r.resource;
    const said = [
      Number.isNaN(pods) ? "" : `${whole(pods)} pod${pods === 1 ? "" : "s"} pending`,
      Number.isNaN(units) ? "" : `${whole(units)} requested by them`,
      Number.isNaN(ratio) ? "" : `${percent(ratio)} of allocatable requested`,
      Number.isNaN(age) ? "" : `oldest waits ${duration(age)}`,
    ].filter(Boolean).join(" · ");
    li.classList.toggle("warn", pods > 0 || ratio > 1);
    li.append(b, ` ${said}`, r.cluster ? ` (${r.cluster})` : "");
    ul.append(li);
  }
  $("demand").replaceChildren(h, ul);
}

// Details of one device: every signal, or why it is missing.
function open(d) {
  opened = d;
  describe();
  $("details").showModal();
  look();
}

// look asks for the kept time of the device that is open.
async function look() {
  const d = opened;
  try {
    const answer = await fetch(`api/devices/${d.n}/history`);
    if (!answer.ok) return;
    const got = await answer.json();
    if (opened?.n !== d.n) return;
    past = got;
    describe();
  } catch {
    // The numbers are there without it, and the next window asks again.
  }
}

function describe() {
  const d = opened;
  $("details-title").textContent = [d.profile || d.name || d.id, d.node].filter(Boolean).join(" on ");
  const body = $("details-body");
  const at = body.scrollTop;
  const number = (name, format, kind, about = [name]) => {
    const v = d.get(name);
    return [Number.isNaN(v) ? "–" : format(v), Number.isNaN(v) ? why(d, kind, about) : "", kept(d, name, format, kind)];
  };
  const direction = (name, what, format) => ["transmit", "receive"].map((way) =>
    [`${name === "pcie" ? "PCIe" : "NVLink"} ${way === "transmit" ? "sent" : "received"}${what === "utilization" ? ", share of the link" : ""}`,
      ...number(key(`gpu.saturation.${name}.${what}.avg`, way), format, name)]);
  const parts = [
    ["", [["Device", d.id], ["Model", d.model || "–"], ["Window", d.end ? `${duration(d.len)} up to ${clock(d.end)}` : why(d, "coverage")],
      ["Observed", ...number(keys.coverage, percent, "coverage")], ["Samples", ...number(keys.samples, whole, "coverage")]]],
    ["Utilization and saturation", [
      ["Utilization, mean", ...number(keys.utilization, percent, "utilization")], ["Utilization, highest", ...number(keys.utilizationMax, percent, "utilization")],
      ["Memory occupancy, mean", ...number(keys.memory, percent, "memory")], ["Memory occupancy, highest", ...number(keys.memoryMax, percent, "memory")],
      ["Memory pressure", ...number(keys.pressure, percent, "memory")], ["DRAM active, mean", ...number(keys.dram, percent, "dram")],
      ["DRAM active, highest", ...number(keys.dramMax, percent, "dram")], ["SM active", ...number(keys.sm, percent, "sm")],
      ["SM occupancy", ...number(keys.occupancy, percent, "occupancy")],
      ...direction("pcie", "throughput", rate), ...direction("pcie", "utilization", percent),
      ...direction("nvlink", "throughput", rate), ...direction("nvlink", "utilization", percent),
      ["XID errors", ...number(keys.xid, whole, "xid")]]],
    ["Throttling", throttles.map((t) => [`${throttleWord(t.value)}, ${t.how}`, ...number(t.key, percent, "throttle")])],
    ["Power and memory", [
      ["Power", ...number(keys.power, watts, "power")], ["Idle part", ...number(keys.idle, watts, "instancePower")],
      ["Active part", ...number(d.parent ? keys.instancePower : keys.active, watts, "instancePower")],
      ["Charged to nobody", ...number(keys.unattributed, watts, "instancePower")], ["Temperature", ...number(keys.temperature, (v) => `${v.toFixed(0)} °C`, "temperature", undefined)],
      ["Memory used", ...number(keys.used, bytes, "memory")], ["Memory size", ...number(keys.limit, bytes, "memory")],
      ["Budgets declared", ...number(keys.budget, bytes, "budget")], ["Used without a budget", ...number(keys.unbudgeted, bytes, "budget")],
      ["Free", ...number(keys.headroom, bytes, "budget")]]],
  ];
  const nodes = parts.flatMap(([title, lines]) => [...(title ? [node("h3", title)] : []), listing(lines)]);
  nodes.splice(1, 0, node("p", past?.slot ? `Curves: the kept time from ${clock(past.end - past.slot * (slots() - 1))} to ${clock(past.end)}, for each ${duration(past.slot)} the highest window.` : "Curves: the kept time.", "none"));
  nodes.push(node("h3", "Held by"), holders(d), node("h3", "What the exporter does not give"), notGiven(d));
  body.replaceChildren(...nodes);
  body.scrollTop = at;
}

// slots is the number of points of the open device's curves.
function slots() { return Math.max(0, ...past.v.map((v) => v.length)); }

// kept draws a number over the kept time: shares up to 1, others up to their greatest.
function kept(d, name, format, kind) {
  const values = past?.v[d.index.get(name)] ?? [];
  const seen = values.filter((v) => v !== null);
  if (!seen.length) return null;
  const [low, high] = [Math.min(...seen), Math.max(...seen)];
  const top = format === percent ? 1 : high || 1;
  const curve = svg("svg");
  const path = svg("path");
  curve.setAttribute("viewBox", `0 0 ${Math.max(1, values.length - 1)} 20`);
  curve.setAttribute("preserveAspectRatio", "none");
  curve.setAttribute("aria-hidden", "true");
  path.setAttribute("d", trace(values.length, (x) => (values[x] ?? NaN) / top));
  curve.append(path);
  if (["s", "error"].includes(columns.find((c) => c.kind === kind)?.scale)) curve.classList.add("sat");
  const out = node("div", "", "kept");
  out.append(curve, node("span", low === high ? `always ${format(low)}` : `${format(low)} to ${format(high)}`, "n"));
  return out;
}

// notGiven lists the signals that the exporter does not give of a device.
function notGiven(d) {
  if (!diagnosed(d)) return node("p", "Not known: gpu.signal.available does not come for this device. The reasons above are the usual ones.", "none");
  const lacks = d.verdicts().filter((v) => v.reason);
  if (!lacks.length) return node("p", "Every signal that was looked for is there.", "none");
  return listing(lacks.map(({signal, reason}) => [signal.name, `${(signal.fields ?? []).join(", ")}${signal.fields ? ": " : ""}${reason.text}`]));
}

const node = (tag, text = "", className = "") => {
  const e = document.createElement(tag);
  e.textContent = text;
  if (className) e.className = className;
  return e;
};

function listing(lines) {
  const t = document.createElement("table");
  const group = document.createElement("colgroup");
  group.append(...["", "", ""].map(() => document.createElement("col")));
  t.append(group);
  for (const [name, value, reason, curve] of lines) {
    const tr = t.insertRow();
    const th = node("th", name);
    th.scope = "row";
    tr.append(th);
    if (reason === undefined) {
      const td = node("td", value, "id");
      td.colSpan = 2;
      tr.append(td);
    } else {
      const td = node("td", reason, "why");
      if (curve) td.append(curve);
      tr.append(node("td", value, reason ? "n none" : "n"), td);
    }
  }
  return t;
}

function holders(d) {
  if (!d.holders.length) return node("p", d.instances ? "Its instances: see their rows." : why(d, "holders"), "none");
  const t = node("table", "", "holders");
  const head = t.createTHead().insertRow();
  for (const name of ["Container", "Sharing", "Memory", "Budget", "Busy", "Power"]) {
    const th = node("th", name);
    th.scope = "col";
    head.append(th);
  }
  const rowsOf = t.createTBody();
  for (const h of d.holders) {
    const say = (name, format) => { const v = model.held(h, name); return Number.isNaN(v) ? "–" : format(v); };
    const tr = rowsOf.insertRow();
    const th = node("th", `${h.namespace}/${h.pod}/${h.container}${h.claim ? ` · claim ${h.claim}` : ""}${h.class ? ` (${h.class})` : ""}`);
    th.scope = "row";
    tr.append(th, node("td", h.sharing || "–"), node("td", say(holderKeys.used, bytes), "n"), node("td", say(holderKeys.budget, bytes), "n"),
      node("td", say(holderKeys.utilization, percent), "n"), node("td", say(holderKeys.power, watts), "n"));
  }
  return t;
}

// Connection: patches come as events; a gap in them asks for a snapshot. What comes while one is
// under way is kept until it is there.
let waiting = null;
let answered = false;

async function load() {
  if (waiting) return;
  waiting = [];
  try {
    const answer = await fetch("api/devices");
    if (!answer.ok) throw new Error(String(answer.status));
    model.load(await answer.json());
    const kept = waiting;
    waiting = null;
    if (!kept.every((p) => model.apply(p))) return load();
    show();
  } catch {
    waiting = null;
    connection(false);
    setTimeout(load, 3000);
  }
}

function show() {
  const first = !answered;
  answered = true;
  choices();
  overview();
  demand();
  rows();
  if (opened) {
    opened = model.devices.get(opened.n) ?? null;
    if (opened) {
      describe();
      look();
    } else $("details").close();
  }
  if ($("missing").open) listMissing();
  if (first) requestAnimationFrame(() => performance.mark("rows"));
}

function connection(on) {
  $("dot").className = on ? "on" : "off";
  const said = on ? "Live" : "Connection lost, trying again";
  if ($("connection").textContent !== said) $("connection").textContent = said;
}

function connect() {
  const events = new EventSource("events");
  events.addEventListener("open", () => { connection(true); load(); });
  events.addEventListener("error", () => {
    connection(false);
    // An answer that is not a stream, as when too many pages are open, ends the source for good.
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 5000);
  });
  events.addEventListener("message", (e) => {
    const patch = JSON.parse(e.data);
    if (waiting) waiting.push(patch);
    else if (model.apply(patch)) show();
    else load();
  });
}
rows();
connect();
