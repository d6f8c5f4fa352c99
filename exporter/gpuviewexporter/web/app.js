// This module contains the controls, the connection to the server, and everything around the table.
import {clock, columns, duration, keys, orders, percent, throttled, throttleSteps, whole, written, xidsNow} from "./signals.js";
import {problemShare} from "./windows.js";
import {Model} from "./model.js";
import {Details} from "./details.js";
import {FleetMap, fleet} from "./map.js";
import {Groups, ways} from "./groups.js";
import {Table} from "./table.js";
import {$, node} from "./dom.js";

const model = new Model();
const details = new Details(model, () => address());
const groups = new Groups({
  devices: () => shown,
  paced,
  onPick: (name) => { state.search = name.replace(/[/ ]+/g, " "); state.tile = ""; changed(); },
  onDevice: (d) => details.open(d),
  onChange: (by) => { state.groups = by; address(); },
});
const state = {search: "", vendor: "", problems: "", tile: "", map: "", groups: "", sort: "throttle", descending: true};
const order = () => orders.find((o) => o.id === state.sort);
// The text that describes why the last request failed, or "" if the last request succeeded.
let trouble = "Connecting";
let hasDocument = false;

const table = new Table(model, {
  onSort: (c) => {
    const id = c.id === "device" || c.id === "holders" ? "node" : c.id;
    state.descending = state.sort === id ? !state.descending : id !== "node";
    state.sort = id;
    changed();
  },
  onOpen: (d) => details.open(d),
  onExplain: explain,
});

const map = new FleetMap(model, {onNode: (name) => { state.search = name; changed(); }, onDevice: (d) => details.open(d)});

// Controls.
$("mapped").addEventListener("click", () => { state.map = $("map").hidden ? "on" : "off"; changed(); });
for (const o of orders) $("sort").append(new Option(o.label, o.id));
for (const id of ["search", "vendor"]) $(id).addEventListener("input", () => { state[id] = $(id).value.trim(); changed(); });
$("problems").addEventListener("input", () => { state.problems = $("problems").checked ? "only" : ""; changed(); });
$("search").addEventListener("keydown", (e) => {
  if (e.key === "Escape") $("search").value = state.search = "", changed();
});
document.addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]") || e.target.matches("input[type=search]")) return;
  e.preventDefault();
  $("search").select();
  $("search").focus();
});
$("sort").addEventListener("input", () => { state.sort = $("sort").value; state.descending = state.sort !== "node"; changed(); });
$("order").addEventListener("click", () => { state.descending = !state.descending; changed(); });
$("controls").addEventListener("submit", (e) => e.preventDefault());
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.querySelector(".bar button").addEventListener("click", () => dialog.close());
  // If the target of a click is the dialog itself and not its content, the click was on the
  // backdrop.
  dialog.addEventListener("click", (e) => { if (e.target === dialog) dialog.close(); });
}
$("details").addEventListener("close", () => $("grid").focus({preventScroll: true}));

// The URL contains the state of the page, so that the state can be bookmarked and shared.
const fromAddress = new URLSearchParams(location.hash.slice(1));
const filters = ["search", "vendor", "problems", "tile", "map", "groups"];
for (const id of filters) state[id] = fromAddress.get(id) ?? "";
if (!Object.hasOwn(ways, state.groups)) state.groups = "";
if (orders.some((o) => o.id === fromAddress.get("sort"))) state.sort = fromAddress.get("sort");
if (fromAddress.has("order")) state.descending = fromAddress.get("order") !== "ascending";

// Until the first document has arrived, deviceToOpen is the name of the device in the URL, and
// groupsToOpen is the grouping in the URL.
let deviceToOpen = fromAddress.get("device") ?? "";
let groupsToOpen = state.groups;
const nameOf = (d) => `${d.node ?? ""}/${d.id}`;

function address() {
  const parameters = new URLSearchParams();
  for (const id of filters) if (state[id]) parameters.set(id, state[id]);
  parameters.set("sort", state.sort);
  parameters.set("order", state.descending ? "descending" : "ascending");
  if (details.opened || deviceToOpen) parameters.set("device", details.opened ? nameOf(details.opened) : deviceToOpen);
  history.replaceState(null, "", `#${parameters}`);
}

// The explain function shows the meaning of a column. If no column is given, explain shows how to
// read the page.
function explain(c) {
  $("explain").replaceChildren(...(c ? [node("b", c.label), `: ${c.explain}`] : [[
    "Numbers and order: newest window. Curves: stored history.",
    $("map").hidden ? "" : `Map: a cell for each board, by ${map.column.label}.`, "Hover or focus a column for its meaning.",
  ].filter(Boolean).join(" ")]));
}

function changed() {
  address();
  rows();
}

// While the mouse is over the table, held is true and new windows do not change the order of the
// rows. The user can still sort the table.
let held = false;
const mouse = (e) => e.pointerType === "mouse";
$("scroller").addEventListener("pointerenter", (e) => { held = mouse(e); });
$("scroller").addEventListener("pointerleave", () => { if (held) { held = false; rows(); } });

function rows(stay = false) {
  arrange(stay);
  list(stay);
  chart();
}

// The shown array contains the devices that pass the filter, in sorted order.
let shown = [];

function arrange(stay) {
  const chosen = order();
  shown = model.rows({...state, only: chosenTile()?.over}, chosen.value, state.descending);
  if (stay) shown = model.asShown(shown, table.rows);
}

const chosenTile = () => tiles.find((t) => t.id === state.tile && t.over);

// The list function updates the table and the controls.
function list(stay) {
  for (const c of columns) if (c.optional) $("sort").querySelector(`[value="${c.id}"]`).hidden = !model.used.has(c.id);
  $("sort").value = state.sort;
  $("order").textContent = state.sort === "node" ? (state.descending ? "Z to A ↓" : "A to Z ↑") : state.descending ? "Highest first ↓" : "Lowest first ↑";
  if ($("search").value.trim() !== state.search) $("search").value = state.search;
  $("problems").checked = state.problems !== "";
  for (const t of tiles) if (t.over) t.button.ariaPressed = t === chosenTile();
  table.sorted(state.sort, state.descending);
  table.show(shown);
  const [some, all] = [count(shown), count(model.devices.values())];
  $("count").textContent = [`${some.boards.toLocaleString()} of ${all.boards.toLocaleString()} boards`,
    ...(all.instances ? [`${some.instances.toLocaleString()} of ${all.instances.toLocaleString()} MIG instances`] : []),
    ...(stay ? ["order held under the pointer"] : [])].join(" · ");
  empty(shown.length);
}

// The chart function shows or hides the map of the fleet.
function chart() {
  const mapped = state.map ? state.map === "on" : count(model.devices.values()).boards > fleet;
  $("map").hidden = !mapped;
  $("mapped").ariaPressed = mapped;
  if (mapped) map.show(shown, state.sort);
  if (!document.querySelector("#head button:is(:hover, :focus)")) explain();
}

// The count function returns the number of boards and the number of MIG instances.
function count(devices) {
  const out = {boards: 0, instances: 0};
  for (const d of devices) out[d.parent ? "instances" : "boards"]++;
  return out;
}

// The instances function returns a string with the number of MIG instances, or "" if there are
// none.
const instances = (c) => c.instances ? `and ${c.instances.toLocaleString()} MIG instance${c.instances === 1 ? "" : "s"}` : "";

function empty(shown) {
  $("empty").hidden = shown > 0 || !hasDocument;
  if ($("empty").hidden) return;
  const b = document.createElement("b");
  b.textContent = model.devices.size ? "No device passes the filter." : "No window has arrived yet.";
  const text = model.devices.size ? "Clear the search, the vendor and \"Problems only\", or press the first tile, to see the others."
    : "The first one arrives when the first window closes. If none arrives, check that gpu_view comes after gpu_synthesizer and gpu_window in its pipeline, and that the exporter answers.";
  $("empty").replaceChildren(b, text);
}

// fillVendors updates the list of vendors. The selected vendor stays in the list even if there are
// no devices of that vendor.
function fillVendors() {
  const vendors = [...new Set([...model.vendors(), ...(state.vendor ? [state.vendor] : [])])];
  if ($("vendor").dataset.has !== vendors.join("\n")) {
    $("vendor").dataset.has = vendors.join("\n");
    $("vendor").replaceChildren(new Option("any", ""), ...vendors.map((v) => new Option(v, v)));
  }
  $("vendor").value = state.vendor;
}

// If a tile has an over function, the tile counts the devices for which the function returns true.
// MIG instances are counted separately from boards, because an instance is part of a board. Devices
// without an observed value are not counted. If sum is true, the tile shows the sum of the values
// instead of the number of boards. If the user clicks a tile that has an over function, the table
// shows only the devices that the tile counts.
const tiles = [
  {id: "all", label: "boards", sort: "node"},
  {id: "throttled", label: `boards ≥ ${percent(problemShare)} throttled`, sort: "throttle", mark: "warn", value: (d) => throttled(d).ratio, over: (d) => d.has("throttled")},
  {id: "pressure", label: `boards ≥ ${percent(problemShare)} memory pressure`, sort: "pressure", mark: "warn", value: (d) => d.get(keys.pressure), over: (d) => d.has("pressure")},
  {id: "xid", label: "XID errors in the window", sort: "xid", mark: "bad", value: (d) => d.get(keys.xid), over: (d) => d.has("xid"), sum: true},
  {id: "lost", label: "boards not seen now", sort: "coverage", mark: "bad", over: (d) => d.has("lost")},
  {id: "missing", label: "signals missing", open: lacking, mark: "warn"},
];
for (const t of tiles) {
  t.button = document.createElement("button");
  t.button.type = "button";
  t.button.className = "tile";
  t.button.id = `tile-${t.id}`;
  t.number = node("b", "–");
  t.note = node("span", "", "note");
  t.button.append(t.number, node("span", t.label), t.note);
  if (t.open) t.button.ariaHasPopup = "dialog";
  t.button.addEventListener("click", () => {
    if (t.open) return t.open();
    state.tile = t.over && state.tile !== t.id ? t.id : "";
    state.sort = t.sort;
    state.descending = t.sort !== "node" && t.id !== "lost";
    changed();
  });
  $("tiles").append(t.button);
}
$("thresholds").textContent = `throttled from ${throttleSteps.map(percent).join(", ")} of the window · counted from ${percent(problemShare)}`;

function overview(t) {
  const all = [...model.devices.values()];
  const {number, note, title} = t.open ? missingContent() : tileContent(t, all);
  t.number.textContent = number === null ? "–" : number.toLocaleString();
  t.note.textContent = note;
  t.button.title = title;
  t.button.classList.toggle(t.mark ?? "plain", number > 0);
}

// The tileContent function returns the number, the note and the title of a tile. If nothing was
// observed, the number is null.
function tileContent(t, all) {
  const known = t.value ? all.filter((d) => !Number.isNaN(t.value(d))) : all;
  if (!known.length) return {number: null, note: "", title: t.value && all.length ? "no device has this signal now" : ""};
  const over = t.over ? known.filter(t.over) : known;
  const [counted, of] = [count(over), count(known)];
  const title = t.value ? `observed on ${[`${of.boards.toLocaleString()} boards`, instances(of)].filter(Boolean).join(" ")}` : "";
  if (t.sum) return {number: over.reduce((n, d) => n + t.value(d), 0), note: codes(over), title};
  return {number: counted.boards, note: instances(counted), title};
}

// The codes function returns a string with the XID codes of the devices and the total count of each
// code, most frequent first.
function codes(devices) {
  const sums = new Map();
  for (const x of devices.flatMap(xidsNow)) sums.set(x.code, (sums.get(x.code) ?? 0) + x.count);
  return [...sums].sort((a, b) => b[1] - a[1]).map(([code, n]) => `${code} x${whole(n)}`).join(", ");
}

function missingContent() {
  if (model.lacking === undefined) return {number: null, note: "", title: "not diagnosed: see how to enable the diagnosis"};
  return {number: model.lacking, note: "", title: "signals that could be turned on in the exporters, and why they are missing"};
}

// The status function shows the state of the connection, the time of the newest window, and the
// banners.
function status() {
  const all = [...model.devices.values()];
  const seen = all.filter((d) => !d.lost);
  const broken = trouble;
  const text = broken ? broken : hasDocument ? model.state.text : "Connected";
  $("dot").className = broken ? "off" : model.state.live ? "on" : "late";
  write($("connection"), text);
  const age = hasDocument && model.newest && !seen.length ? `, ${duration(Math.max(0, model.now - model.newest))} ago` : "";
  write($("window"), hasDocument && model.newest ? `· ${duration(model.window)} window up to ${clock(model.newest)}${age}` : "");
  if (hasDocument) banner(all, seen, broken);
}

// The write function does not set the text of an element again if the text has not changed, because
// a screen reader would read the text again.
function write(e, text) { if (e.textContent !== text) e.textContent = text; }

// The banner function shows the banners that the server sent. If the last request failed, these
// banners are hidden. After all numbers have expired, a banner says that there is no connection.
function banner(all, seen, broken) {
  const banners = !broken ? model.banners.map((b) => [written(b.title), written(b.text)])
    : all.length && !seen.length ? [[`No data since ${clock(Math.max(...all.map((d) => d.lost.last)))}.`, "The page has no connection to gpu_view."]] : [];
  const text = banners.flat().join("\n");
  if ($("banner").dataset.text === text) return;
  $("banner").dataset.text = text;
  $("banner").replaceChildren(...banners.map(([what, more]) => {
    const p = node("p");
    p.append(node("b", what), ` ${more}`);
    return p;
  }));
  $("banner").hidden = !banners.length;
}

// The missing function returns the signals that exporters do not provide, and the devices for which
// each signal is missing.
function missing() {
  const out = model.missing.map((m) => ({...m, devices: []}));
  for (const d of model.devices.values()) for (const i of d.reasons?.lacks ?? []) out[i].devices.push(d);
  return out;
}

// The lacking function opens the dialog with the list of missing signals.
function lacking() {
  listMissing();
  $("missing").showModal();
}

function listMissing() {
  const all = [...model.devices.values()].filter((d) => d.reasons?.diagnosed).length;
  const groups = missing();
  const body = $("missing-body");
  const at = body.scrollTop;
  const parts = [["Could be turned on", groups.filter((g) => !g.lasting)], ["Not supported by the devices", groups.filter((g) => g.lasting)]];
  const content = all ? [
    node("p", `From the last scrapes of the exporters of ${all.toLocaleString()} boards and MIG instances. An exposition does not contain the reason why a signal is missing, so some reasons are only likely.`),
    ...(parts[0][1].length ? [lines("p", "To print the csv lines and flags that turn signals on, run", "gpudoctor http://EXPORTER:9400/metrics")] : []),
    ...(groups.length ? [] : [node("p", "Every diagnosed signal is available.", "none")]),
  ] : [
    node("p", "It is unknown which signals the exporters provide, because the metric gpu.signal.available is not received. A missing number shows the usual reason instead."),
    lines("p", "Turn it on in the collector that scrapes the exporters:", "processors:\n  gpu_synthesizer:\n    metrics: {gpu.signal.available: {enabled: true}}"),
    lines("p", "Or check one exporter:", "gpudoctor http://EXPORTER:9400/metrics"),
  ];
  for (const [title, of] of parts) {
    if (!of.length) continue;
    const t = document.createElement("table");
    const head = t.createTHead().insertRow();
    for (const name of ["Signal", "Why not", "Boards and instances"]) {
      const th = node("th", name);
      th.scope = "col";
      head.append(th);
    }
    const list = t.createTBody();
    for (const g of of) {
      const tr = list.insertRow();
      const th = node("th", g.metric);
      th.scope = "row";
      if (g.parts) th.append(node("span", ` {${g.parts.join(", ")}}`));
      th.append(node("span", (g.fields ?? []).join(" "), "sub"));
      const few = g.devices.slice(0, 3).map((d) => `${d.profile || d.name || d.id.slice(0, 12)} on ${d.node}`).join(", ");
      const which = node("td", `${g.devices.length.toLocaleString()} of ${all.toLocaleString()}`);
      which.append(node("span", g.devices.length === all ? "" : few + (g.devices.length > 3 ? ` and ${(g.devices.length - 3).toLocaleString()} more` : ""), "sub"));
      tr.append(th, node("td", g.text), which);
    }
    content.push(node("h3", title), t);
  }
  body.replaceChildren(...content);
  body.scrollTop = at;
}

// The lines function returns an element that contains text and a code block that users can copy.
function lines(tag, text, code) {
  const out = node(tag, text);
  out.append(node("pre", code));
  return out;
}

function demand() {
  $("demand").hidden = !model.demand.length && !model.unreserved.length;
  const h = document.createElement("h2");
  h.textContent = "Scheduler";
  const ul = document.createElement("ul");
  for (const r of model.demand) {
    const [pods, units, ratio, age] = r.v.map((v) => v ?? NaN);
    const li = document.createElement("li");
    const b = document.createElement("b");
    b.textContent = r.resource;
    const text = [
      Number.isNaN(pods) ? "" : `${whole(pods)} pod${pods === 1 ? "" : "s"} pending`,
      Number.isNaN(units) ? "" : `${whole(units)} requested by them`,
      Number.isNaN(ratio) ? "" : `${percent(ratio)} of allocatable requested`,
      Number.isNaN(age) ? "" : `oldest waits ${duration(age)}`,
    ].filter(Boolean).join(" · ");
    li.classList.toggle("warn", r.warn ?? false);
    li.append(b, ` ${text}`, r.cluster ? ` (${r.cluster})` : "", r.old ? ` · as of ${clock(r.at)}` : "");
    ul.append(li);
  }
  for (const c of model.unreserved) {
    const li = node("li");
    li.append(node("b", c.class), ` ${whole(c.count)} claim${c.count === 1 ? " has" : "s have"} devices that no pod reserves`, c.cluster ? ` (${c.cluster})` : "");
    ul.append(li);
  }
  $("demand").replaceChildren(h, ul);
}

// The page requests the document shortly after each window. The response contains the time until
// the next request. If nothing has changed, the response has no body. The timeout is in
// milliseconds. The retry time is in seconds.
const timeout = 30_000;
const retry = 3;
let tag = "";
let timer = 0;
let polling = false;

async function poll() {
  clearTimeout(timer);
  // A hidden page sends no requests until it becomes visible.
  if (polling || document.hidden) return;
  polling = true;
  const {wait, changed} = await load();
  polling = false;
  timer = setTimeout(poll, wait * 1000);
  if (changed) await show();
  else status();
}

// load requests the document. The result is the number of seconds to wait before the next request,
// and whether the document has changed.
async function load() {
  let why = "Connection lost. Retrying";
  try {
    const answer = await fetch("api/devices", {cache: "no-store", headers: tag ? {"If-None-Match": tag} : {}, signal: AbortSignal.timeout(timeout)});
    const changed = answer.status !== 304;
    if (changed && !answer.ok) {
      why = "Refused by the server. Retrying";
      throw new Error(String(answer.status));
    }
    const body = changed ? await answer.text() : "";
    // The Date header is missing only if a proxy removed it.
    model.setServerTime((Date.parse(answer.headers.get("Date") ?? "") || Date.now()) / 1000);
    if (changed) {
      begun = performance.now();
      await paced(model.read(body));
      tag = answer.headers.get("ETag") ?? "";
    }
    trouble = "";
    return {wait: Number(/max-age=(\d+)/.exec(answer.headers.get("Cache-Control"))?.[1] ?? retry), changed};
  } catch {
    trouble = why;
    return {wait: retry, changed: false};
  }
}

// The show function updates the page in steps, so that the browser can do other work between steps.
const steps = [fillVendors, ...tiles.map((t) => () => overview(t)), demand, () => arrange(held), () => list(held), chart, dialogs, status];
let drawing = false;
let again = false;

async function show() {
  again = drawing;
  if (drawing) return;
  drawing = true;
  const first = !hasDocument;
  hasDocument = true;
  try {
    do {
      again = false;
      for (const step of steps) {
        await paced(step() ?? []);
        await yieldToBrowser();
      }
    } while (again);
  } finally {
    drawing = false;
  }
  if (first) requestAnimationFrame(() => performance.mark("rows"));
}

// The paced function runs a generator to completion, and lets the browser do other work from time
// to time.
async function paced(steps) {
  for (const _ of steps) await yieldToBrowser();
}

// yieldToBrowser lets the browser do other work if the current work has taken a while.
let begun = 0;
async function yieldToBrowser() {
  if (performance.now() - begun < 8) return;
  await (globalThis.scheduler?.yield?.() ?? new Promise((done) => { setTimeout(done); }));
  begun = performance.now();
}

function dialogs() {
  const named = deviceToOpen && [...model.devices.values()].find((d) => nameOf(d) === deviceToOpen);
  if (deviceToOpen) deviceToOpen = "";
  if (named) details.open(named);
  else details.refresh();
  if (groupsToOpen) groups.open(groupsToOpen);
  groupsToOpen = "";
  if ($("missing").open) listMissing();
  return groups.refresh();
}

// If the page has not been able to load a newer document in time, the numbers expire.
function tick() {
  if (!hasDocument) return;
  if (model.expire()) {
    tag = "";
    show();
  } else {
    status();
  }
}
setInterval(tick, 1000);
document.addEventListener("visibilitychange", poll);
addEventListener("online", poll);
setTimeout(rows);
poll();
