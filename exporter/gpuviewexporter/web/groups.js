// This module groups devices by workload, namespace, claim or node. For each group, the dialog
// shows the current numbers, and the idle GPU time during the retention period. The gather and
// spread functions are pure. Groups is the dialog.
import {clock, columns, duration, keys, megahertz, percent, throttled, watts} from "./signals.js";
import {idleShare} from "./windows.js";
import {$, node} from "./dom.js";

// The maximum number of groups that are listed. Users can search for other groups.
const most = 50;
// The minimum time between two requests for the idle GPU time, in milliseconds.
const lasting = 60_000;
const column = (id) => columns.find((c) => c.id === id);
// The numbers that are shown for each group.
const measures = [
  {label: "Utilization", value: (d) => d.get(keys.utilization), format: percent},
  {label: "SM activity", value: (d) => column("sm").value(d), format: percent},
  {label: "Clock", value: (d) => d.get(keys.clock), format: megahertz},
  {label: "Power", value: (d) => column("power").value(d), format: watts},
  {label: "Throttled", value: (d) => throttled(d).ratio, format: percent},
];

// Each of these functions returns the names of the groups that a device belongs to. A device with
// several holders belongs to the group of each holder.
const nobody = "no holder";
const held = (d, name) => d.holders.length ? new Set(d.holders.map(name)) : new Set([nobody]);
export const ways = {
  workload: (d) => held(d, (h) => h.workload ? `${h.namespace}/${h.kind} ${h.workload}` : h.namespace || h.pod ? `${h.namespace}/${h.pod}` : h.container),
  namespace: (d) => held(d, (h) => h.namespace || "no namespace"),
  claim: (d) => held(d, (h) => h.claim ? `${h.namespace}/${h.claim}` : "no claim"),
  node: (d) => new Set([d.node || "no node"]),
};

// The gather function groups the given devices, and yields from time to time. If a board is
// partitioned, the instances of the board are counted instead of the board itself. Lost devices are
// not counted.
export function* gather(devices, way) {
  const groups = new Map();
  for (const d of devices) {
    if (d.instances || d.lost) continue;
    for (const name of way(d)) {
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(d);
    }
    yield;
  }
  const out = [];
  for (const [name, of] of groups) {
    const known = of.filter((d) => d.idle !== null);
    out.push({
      name, devices: of.length, nodes: new Set(of.map((d) => `${d.cluster}/${d.node}`)).size,
      idle: known.length ? known.filter((d) => d.idle).length / known.length : NaN,
      measures: measures.map((m) => spread(of, m.value)),
    });
    yield;
  }
  return out;
}

// The spread function returns the mean, minimum, median and maximum of a number over the given
// devices, and the device that differs most from the median.
export function spread(devices, value) {
  const known = devices.map((d) => ({d, v: value(d)})).filter(({v}) => !Number.isNaN(v)).sort((a, b) => a.v - b.v);
  if (!known.length) return null;
  const middle = (known.length - 1) / 2;
  const median = (known[Math.floor(middle)].v + known[Math.ceil(middle)].v) / 2;
  const [low, high] = [known[0], known.at(-1)];
  const apart = high.v - median > median - low.v ? high : low;
  return {mean: known.reduce((sum, {v}) => sum + v, 0) / known.length, min: low.v, median, max: high.v, apart: apart.v === median ? null : apart};
}

// Groups can be sorted by the number of devices, the idle share, and the mean of each number.
const orders = [(g) => g.devices, (g) => g.idle, ...measures.map((m, i) => (g) => g.measures[i]?.mean ?? NaN)];

// The table function returns a table element with the given column headings and rows.
function table(head, rows) {
  const out = document.createElement("table");
  const line = out.createTHead().insertRow();
  for (const [i, name] of head.entries()) {
    const th = node("th", typeof name === "string" ? name : "", i ? "n" : "");
    th.scope = "col";
    if (typeof name !== "string") th.append(name);
    line.append(th);
  }
  const body = out.createTBody();
  for (const [first, ...cells] of rows) {
    const tr = body.insertRow();
    const th = node("th");
    th.scope = "row";
    th.append(first);
    tr.append(th, ...cells);
  }
  return out;
}

export class Groups {
  by = 0;
  asked = 0;
  waste = null;

  // The devices function returns the devices that pass the filter. The paced function runs a
  // generator. If the user selects a group, onPick is called with the name of the group. If the
  // user selects a device, onDevice is called with the device. When the dialog is opened or closed,
  // onChange is called.
  constructor({devices, paced, onPick, onDevice, onChange}) {
    Object.assign(this, {devices, paced, onPick, onDevice, onChange});
    $("idle-limit").textContent = `${Math.round((1 - idleShare) * 100)}%`;
    $("group").addEventListener("input", () => this.open($("group").value));
    $("by").addEventListener("click", () => this.open($("group").value));
    $("groups").addEventListener("close", () => { if (!$("groups").open) onChange(""); });
  }

  open(by) {
    $("group").value = by;
    this.waste = null;
    this.asked = 0;
    if (!$("groups").open) $("groups").showModal();
    this.onChange(by);
    this.paced(this.refresh());
  }

  // The ask method requests the allocated and idle time of the groups, because windows do not
  // contain these times.
  async ask() {
    if (this.asked && performance.now() - this.asked < lasting) return;
    this.asked = performance.now();
    const by = $("group").value;
    try {
      const answer = await fetch(`api/waste?by=${by}`);
      const waste = answer.ok ? await answer.json() : null;
      if (!waste || $("group").value !== by) return; // the grouping has changed in the meantime
      this.waste = waste;
      this.wasted();
    } catch {
      // Another part of the page reports that the connection is lost.
    }
  }

  // If the dialog is open, the refresh method redraws the dialog and yields from time to time.
  *refresh() {
    if (!$("groups").open) return;
    this.ask();
    const groups = yield* gather(this.devices(), ways[$("group").value]);
    const value = orders[this.by];
    groups.sort((a, b) => ((a.name === nobody) - (b.name === nobody)) || (Number.isNaN(value(a)) - Number.isNaN(value(b))) || value(b) - value(a) || b.devices - a.devices || (a.name < b.name ? -1 : 1));
    const rows = [];
    for (const g of groups.slice(0, most)) {
      rows.push(this.row(g));
      yield;
    }
    const at = $("groups-body").scrollTop;
    const focused = document.activeElement?.dataset.by;
    const head = ["Devices", "Idle", ...measures.map((m) => m.label)].map((label, i) => {
      const sort = node("button", label, "link");
      sort.type = "button";
      sort.dataset.by = i;
      sort.ariaPressed = i === this.by;
      sort.addEventListener("click", () => { this.by = i; this.paced(this.refresh()); });
      return sort;
    });
    $("groups-now").replaceChildren(table([$("group").selectedOptions[0].text, ...head], rows), ...(groups.length > most
      ? [node("p", `${most} of ${groups.length.toLocaleString()} are listed. The search, the vendor and "Problems only" narrow them.`, "none")] : []));
    $("groups-body").scrollTop = at;
    if (focused) head[focused].focus({preventScroll: true});
  }

  row(g) {
    const count = node("td", g.devices.toLocaleString(), "n");
    count.append(node("span", `${g.nodes.toLocaleString()} node${g.nodes === 1 ? "" : "s"}`, "sub"));
    return [g.name === nobody ? nobody : this.pick(g.name), count, node("td", Number.isNaN(g.idle) ? "–" : percent(g.idle), "n"), ...g.measures.map((s, i) => {
      const {format, label} = measures[i];
      const td = node("td", s ? format(s.mean) : "–", "n");
      if (s && g.devices > 1) td.append(node("span", [s.min, s.median, s.max].map(format).map((text, j) => j < 2 ? text.replace(/ (W|MHz)$/, "") : text).join(" · "), "sub"));
      if (s?.apart) {
        const {d, v} = s.apart;
        const apart = node("button", `${g.nodes > 1 ? `${d.node}/` : ""}${d.profile || d.name || d.id} ${format(v)}`, "link sub");
        apart.type = "button";
        apart.title = `${label} differs most from the median here`;
        apart.addEventListener("click", () => this.onDevice(d));
        td.append(apart);
      }
      return td;
    })];
  }

  // The pick method returns a button that shows the name of a group and, when clicked, searches for
  // the devices of the group.
  pick(name) {
    const out = node("button", name, "link");
    out.type = "button";
    out.addEventListener("click", () => { $("groups").close(); this.onPick(name); });
    return out;
  }

  // The wasted method shows the groups with the most idle GPU time during the retention period, and
  // the holders that have been idle the longest. The data comes from the usage section of gpu_k8s.
  wasted() {
    const {from, to, groups, holders, counted, idle: idling, total, currency} = this.waste;
    if (!counted) return $("groups-waste").replaceChildren(node("p", "GPU hours are not known: gpu_k8s has no section usage.", "none"));
    const amount = (v) => v === undefined ? "–" : v.toFixed(v < 100 ? 2 : 0);
    const costs = total.cost !== undefined, unit = currency ? `, ${currency}` : "";
    const cells = (w) => [amount(w.allocated), amount(w.active), amount(w.idle), w.allocated > 0 && w.idle !== undefined ? percent(Math.min(1, w.idle / w.allocated)) : "–",
      ...(costs ? [amount(w.cost), amount(w.costIdle)] : [])].map((text) => node("td", text, "n"));
    const since = (w) => w.since ? [node("td", `${clock(w.since)}, ${duration(to - w.since)}`, "n")] : [node("td", "–", "n")];
    const name = (w) => w.name.startsWith("__") ? w.name : this.pick(w.name.replace("/Pod/", "/"));
    const hours = ["GPU hours", "Active", "Idle", "Idle share", ...(costs ? [`Cost${unit}`, `Idle cost${unit}`] : [])];
    const rest = (shown, of) => of > shown ? [node("p", `${shown} of ${of.toLocaleString()} are listed.`, "none")] : [];
    $("groups-waste").replaceChildren(
      node("h3", `GPU time of the last ${duration(to - from)}, most idle first`),
      table([$("group").selectedOptions[0].text, ...hours, "All idle since"], [...groups.map((w) => [name(w), ...cells(w), ...since(w)]), ["all", ...cells(total), node("td")]]), ...rest(groups.length, counted),
      node("h3", "Idle holders, longest idle time first"),
      ...(idling ? [table(["Holder", "Idle since", "Devices", ...hours.slice(2, 3), ...hours.slice(5)],
        holders.map((w) => [name(w), ...since(w), node("td", w.devices.toLocaleString(), "n"), node("td", amount(w.idle), "n"), ...(costs ? [node("td", amount(w.costIdle), "n")] : [])])), ...rest(holders.length, idling)]
        : [node("p", "None: all holders use their GPUs.", "none")]),
    );
  }
}
