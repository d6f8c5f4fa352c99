// Groups of devices by workload, namespace or node: what they do now, and who wasted GPU time over the
// kept time. gather is pure; Groups is the dialog.
import {clock, columns, keys, percent, throttled, watts} from "./signals.js";
import {$, node} from "./dom.js";

// Below this share a device is idle in the window.
const idle = 0.01;
const column = (id) => columns.find((c) => c.id === id);
// The numbers of a group.
const measures = [
  {label: "Utilization", value: (d) => d.get(keys.utilization), format: percent},
  {label: "SM", value: (d) => column("sm").value(d), format: percent},
  {label: "Power", value: (d) => column("power").value(d), format: watts},
  {label: "Throttled", value: (d) => throttled(d).ratio, format: percent},
];

// Of a device, the groups that it is in. A device that several hold is in the group of each.
const nobody = "nobody holds them";
const held = (d, name) => d.holders.length ? new Set(d.holders.map(name)) : new Set([nobody]);
export const ways = {
  workload: (d) => held(d, (h) => h.workload ? `${h.namespace}/${h.kind} ${h.workload}` : h.namespace || h.pod ? `${h.namespace}/${h.pod}` : h.container),
  namespace: (d) => held(d, (h) => h.namespace || "no namespace"),
  node: (d) => new Set([d.node || "no node"]),
};

// gather returns the groups of devices, those with most devices first. Boards that are cut into instances
// are counted by these.
export function gather(devices, way) {
  const groups = new Map();
  for (const d of devices) {
    if (d.instances || d.lost) continue;
    for (const name of way(d)) {
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(d);
    }
  }
  return [...groups].map(([name, of]) => {
    const busy = of.map((d) => d.get(keys.utilization)).filter((v) => !Number.isNaN(v));
    return {
      name, devices: of.length, nodes: new Set(of.map((d) => `${d.cluster}/${d.node}`)).size,
      idle: busy.length ? busy.filter((v) => v < idle).length / busy.length : NaN,
      measures: measures.map((m) => spread(of, m.value)),
    };
  }).sort((a, b) => b.devices - a.devices || (a.name < b.name ? -1 : 1));
}

// spread says how a number is spread over devices, and which one differs most from the median.
export function spread(devices, value) {
  const known = devices.map((d) => ({d, v: value(d)})).filter(({v}) => !Number.isNaN(v)).sort((a, b) => a.v - b.v);
  if (!known.length) return null;
  const middle = (known.length - 1) / 2;
  const median = (known[Math.floor(middle)].v + known[Math.ceil(middle)].v) / 2;
  const [low, high] = [known[0], known.at(-1)];
  const apart = high.v - median > median - low.v ? high : low;
  return {mean: known.reduce((sum, {v}) => sum + v, 0) / known.length, min: low.v, median, max: high.v, apart: apart.v === median ? null : apart};
}

export class Groups {
  // onPick is called with the words by which the devices of a group are found.
  constructor(model, onPick) {
    this.model = model;
    this.onPick = onPick;
    this.spent = new Map();
    $("group").addEventListener("input", () => this.open());
    $("by").addEventListener("click", () => { $("groups").showModal(); this.open(); });
  }

  // open asks what was allocated over the kept time, which is more than the windows say.
  async open() {
    const by = $("group").value;
    this.spent = new Map();
    this.show();
    if (by === "node") return;
    try {
      const answer = await fetch(`allocation?window=${Math.max(1, Math.floor(this.model.retention / 60))}m&aggregate=${by}`);
      if (!answer.ok) return;
      const {data} = await answer.json();
      if ($("group").value !== by) return; // another question is under way
      this.spent = new Map(Object.entries(data[0] ?? {}));
      this.show();
    } catch {
      // The page says elsewhere that there is no connection.
    }
  }

  refresh() { if ($("groups").open) this.show(); }

  show() {
    const groups = gather(this.model.devices.values(), ways[$("group").value]);
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const name of [$("group").selectedOptions[0].text, "Devices", "Idle", ...measures.map((m) => m.label)]) {
      const th = node("th", name);
      th.scope = "col";
      head.append(th);
    }
    const body = table.createTBody();
    for (const g of groups) body.append(this.row(g));
    const at = $("groups-body").scrollTop;
    $("groups-body").replaceChildren(node("p", "The newest window: the mean, below it lowest · median · highest. A deviation is no verdict: a device that waits for others looks busy. " +
      "Idle is the share of devices below 1 % utilization."), table, ...this.waste());
    $("groups-body").scrollTop = at;
  }

  row(g) {
    const tr = document.createElement("tr");
    const th = document.createElement("th");
    th.scope = "row";
    if (g.name === nobody) {
      th.textContent = nobody;
    } else {
      const pick = node("button", g.name, "link");
      pick.type = "button";
      pick.addEventListener("click", () => { $("groups").close(); this.onPick(g.name); });
      th.append(pick);
    }
    const count = node("td", g.devices.toLocaleString(), "n");
    count.append(node("span", `${g.nodes.toLocaleString()} node${g.nodes === 1 ? "" : "s"}`, "sub"));
    tr.append(th, count, node("td", Number.isNaN(g.idle) ? "–" : percent(g.idle), "n"));
    for (const [i, s] of g.measures.entries()) {
      const {format} = measures[i];
      const td = node("td", s ? format(s.mean) : "–", "n");
      if (s && g.devices > 1) td.append(node("span", [s.min, s.median, s.max].map(format).join(" · "), "sub"));
      if (s?.apart) td.append(node("span", `${s.apart.d.node}/${s.apart.d.name || s.apart.d.id} ${format(s.apart.v)}`, "sub"));
      tr.append(td);
    }
    return tr;
  }

  // waste lists who had most idle GPU time over the kept time, where gpu_usage says so.
  waste() {
    const spent = [...this.spent].filter(([, a]) => a.gpuHours !== undefined)
      .map(([name, a]) => ({name, hours: a.gpuHours, idle: a.gpuIdleHours ?? NaN, cost: a.gpuCost ?? NaN, costIdle: a.gpuCostIdle ?? NaN,
        since: a.gpuIdleSince ? clock(Date.parse(a.gpuIdleSince) / 1000) : "–"}))
      .sort((a, b) => (b.idle || 0) - (a.idle || 0) || (a.name < b.name ? -1 : 1));
    if (!spent.length) return [];
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    const costs = spent.some((s) => !Number.isNaN(s.cost));
    for (const name of ["Over the kept time", "GPU hours", "Idle hours", "Idle", "All idle since", ...(costs ? ["Cost", "Idle cost"] : [])]) {
      const th = node("th", name);
      th.scope = "col";
      head.append(th);
    }
    const body = table.createTBody();
    const said = (v) => Number.isNaN(v) ? "–" : v.toFixed(v < 10 ? 2 : 0);
    for (const s of spent) {
      const tr = body.insertRow();
      const th = node("th", s.name);
      th.scope = "row";
      tr.append(th, node("td", said(s.hours), "n"), node("td", said(s.idle), "n"), node("td", s.hours > 0 && !Number.isNaN(s.idle) ? percent(Math.min(1, s.idle / s.hours)) : "–", "n"), node("td", s.since, "n"));
      if (costs) tr.append(node("td", said(s.cost), "n"), node("td", said(s.costIdle), "n"));
    }
    return [node("h3", "Allocated and idle"), table];
  }
}
