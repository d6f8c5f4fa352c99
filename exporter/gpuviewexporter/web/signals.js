// What the page shows: the numbers of a device by name, the columns of the table, and the reasons for
// missing numbers. This module does not access the document.

import {windows} from "./windows.js"; // generated from the signal table

const sat = "gpu.saturation.";
const reasons = ["sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake"];
const violations = ["power", "thermal", "sync_boost", "board_limit"];
const words = {
  sw_power_cap: "software power cap", hw_slowdown: "hardware slowdown", sync_boost: "sync boost", sw_thermal: "software thermal",
  hw_thermal: "hardware thermal", hw_power_brake: "power brake", power: "power", thermal: "thermal", board_limit: "board limit",
};
const short = {
  sw_power_cap: "power cap", hw_slowdown: "hw slowdown", sync_boost: "sync boost", sw_thermal: "sw thermal",
  hw_thermal: "hw thermal", hw_power_brake: "power brake", power: "power", thermal: "thermal", board_limit: "board limit",
};

// key is the name of a number: the metric, and the value of its own attribute.
export const key = (metric, value = "") => value ? `${metric}{${value}}` : metric;

export const keys = {
  utilization: "gpu.utilization.avg", utilizationMax: "gpu.utilization.max",
  memory: sat + "memory.utilization.avg", memoryMax: sat + "memory.utilization.max", pressure: sat + "memory.pressure.ratio",
  xid: sat + "xid.errors", coverage: "gpu.window.coverage", samples: "gpu.window.samples",
  power: "hw.power", idle: "gpu.power.idle", active: "gpu.power.active", unattributed: "gpu.power.unattributed",
  instancePower: "gpu.instance.power", clock: "gpu.clock.frequency{sm}", temperature: "hw.temperature{gpu}", used: "hw.gpu.memory.usage", limit: "hw.gpu.memory.limit",
  clients: "gpu.sharing.clients", budget: "gpu.memory.budget.declared", headroom: "gpu.memory.headroom",
  unbudgeted: "gpu.memory.usage.unbudgeted",
};
export const holderKeys = {
  used: "k8s.container.gpu.memory.usage", budget: "k8s.container.gpu.memory.budget", power: "k8s.container.gpu.power",
  utilization: "k8s.container.gpu.utilization",
};
const link = (name, what, direction) => key(`${sat}${name}.${what}.avg`, direction);

// The hardware slowdown has no exact time counter.
export const throttles = [
  ...violations.map((v) => ({key: key(sat + "throttle.violation.ratio", v), value: v, how: "violation time"})),
  ...reasons.filter((v) => v !== "hw_slowdown").map((v) => ({key: key(sat + "throttle.time.ratio", v), value: v, how: "exact time"})),
  ...reasons.map((v) => ({key: key(sat + "throttle.reason.ratio", v), value: v, how: "share of samples"})),
];
export const throttleWord = (value) => words[value];

// throttled returns the largest share of time throttled, its reason, and whether it is a share of samples.
// The exporter chooses it and prefers exact counters.
const unknown = {ratio: NaN, by: ""};
export const throttled = (d) => d.lost ? unknown : d.throttle ?? unknown;

// A tile counts a device if the share of the window is at least this limit.
export const limits = {throttle: 0.1, pressure: 0.1};

// health is the hw.status of a board as an index in states, which are ordered from best to worst. NaN
// means unknown.
export const states = ["ok", "degraded", "predicted_failure", "failed"];
export const health = (d) => {
  const known = states.map((s) => d.get(key("hw.status", s)));
  const at = known.findLastIndex((v) => v > 0);
  return at < 0 ? NaN : at;
};

// Short descriptions of the findings of gpu_findings.
export const findingWords = {
  spinning: "kernels wait", latched_utilization: "utilization not true", slow_device: "slows its job", memory_degrading: "memory fails",
  frozen_telemetry: "values stand still",
};
const findingKey = (name) => key("gpu.finding", name);

// findings returns the findings on a device, or null if gpu_findings has no result.
export const findings = (d) => {
  const judged = Object.keys(findingWords).filter((name) => !Number.isNaN(d.get(findingKey(name))));
  return judged.length ? judged.filter((name) => d.get(findingKey(name)) > 0) : null;
};

// problem reports whether a device has a problem: one that a tile counts, or poor health.
export const problem = (d) => d.lost !== false || throttled(d).ratio >= limits.throttle || d.get(keys.pressure) >= limits.pressure ||
  d.get(keys.xid) > 0 || health(d) > 0 || findings(d)?.length > 0;

// The color steps of throttling. One of them is the limit of the tile.
export const throttleSteps = [0.001, limits.throttle, 0.3, 0.6];

const greater = (a, b) => Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.max(a, b);

// holderName is the full name of a holder: a container of a pod, or a holder outside Kubernetes.
export const holderName = (h) => [h.namespace, h.pod, h.container].filter(Boolean).join("/");

// Formats. They are never called with NaN.
export const percent = (v) => {
  const p = v * 100;
  return (p > 0 && p < 9.95 ? p.toFixed(1) : p.toFixed(0)) + "%";
};
export function rate(v) {
  for (const unit of ["B/s", "kB/s", "MB/s", "GB/s"]) {
    if (v < 999.5) return `${v < 9.95 && v > 0 ? v.toFixed(1) : v.toFixed(0)} ${unit}`;
    v /= 1000;
  }
  return `${v.toFixed(1)} TB/s`;
}
export const bytes = (v) => `${(v / 2 ** 30).toFixed(1)} GiB`;
export const watts = (v) => `${v.toFixed(0)} W`;
export const whole = (v) => v.toFixed(0);
export function duration(s) {
  if (s < 90) return `${s.toFixed(0)} s`;
  if (s < 5400) return `${(s / 60).toFixed(0)} min`;
  if (s < 172800) return `${(s / 3600).toFixed(1)} h`;
  return `${(s / 86400).toFixed(1)} d`;
}
export const clock = (s) => new Date(s * 1000).toLocaleTimeString([], {hour12: false});

// xidTimes returns the count of a code: 48 x1. xidToDo adds the action: 48 x1 · replace.
const xidTimes = (x) => `${x.code} x${whole(x.count)}`;
export const xidToDo = (d, x) => [xidTimes(x), d.xidText(x.code).action].filter(Boolean).join(" · ");

// xidsNow returns the codes of the newest window, most urgent first.
export const xidsNow = (d) => d.lost ? [] : d.xids.filter((x) => x.count > 0);

// errors formats a number of XID errors so that it is not mistaken for a code.
export const errors = (v) => v === 0 ? "0" : `${whole(v)} error${v === 1 ? "" : "s"}`;

// xidRest describes the errors that the first code does not account for.
function xidRest(d) {
  const [first, ...others] = xidsNow(d);
  const nameless = d.get(keys.xid) - xidsNow(d).reduce((n, x) => n + x.count, 0);
  if (!first) return d.get(keys.xid) > 0 ? "codes unknown" : "";
  return [...others.map(xidTimes), ...(nameless > 0 ? [`${whole(nameless)} of unknown code`] : [])].join(", ");
}

// Why a number is missing. Boards with MIG instances lack what is measured per instance, and instances lack
// what is measured per board. Otherwise the reason is from gpu.signal.available, or the usual reason if there
// is no diagnosis.
const level = {
  board: "Measured for the whole board: see the board's row.",
  instance: "Measured for each MIG instance: see the instances' rows.",
};
const usual = (text) => `Usual reason: ${text}`;
const profiling = (field) => usual(`the exporter does not provide ${field}. It needs DCGM's profiling module (Volta or newer, not on every virtual GPU), and the field in the exporter's counters csv.`);
const plain = (field) => usual(`the exporter does not provide ${field}, which its counters csv must list.`);

const needs = {
  // The entries of the signal table have the metric as their kind.
  ...Object.fromEntries(windows.map((w) => [w.metric, {
    at: w.board ? "board" : "instance", names: w.values.map((v) => key(w.metric, v)),
    usual: w.fields.length ? (w.profiling ? profiling : plain)(w.fields.join(" and ")) : usual("the exporter does not provide it."),
  }])),
  utilization: {at: "instance", names: [keys.utilization], usual: profiling("DCGM_FI_PROF_GR_ENGINE_ACTIVE") + " Without it DCGM_FI_DEV_GPU_UTIL is taken, which MIG does not have."},
  memory: {at: "instance", names: [keys.memory], usual: plain("DCGM_FI_DEV_FB_USED and DCGM_FI_DEV_FB_FREE")},
  throttle: {at: "board", names: throttles.map((t) => t.key), usual: plain("DCGM_FI_DEV_*_VIOLATION or DCGM_FI_DEV_CLOCKS_EVENT_REASONS") + " A counter's first window has no increase yet."},
  pcie: {at: "board", names: [link("pcie", "throughput", "transmit"), link("pcie", "throughput", "receive")], usual: profiling("DCGM_FI_PROF_PCIE_TX_BYTES and _RX_BYTES")},
  nvlink: {at: "board", names: [link("nvlink", "throughput", "transmit"), link("nvlink", "throughput", "receive")], usual: profiling("DCGM_FI_PROF_NVLINK_TX_BYTES and _RX_BYTES") + " A GPU without NVLink has none."},
  xid: {names: [keys.xid], usual: plain("DCGM_FI_DEV_XID_ERRORS")},
  power: {at: "board", names: [keys.power], usual: plain("DCGM_FI_DEV_POWER_USAGE")},
  temperature: {at: "board", names: [keys.temperature], usual: plain("DCGM_FI_DEV_GPU_TEMP")},
  instancePower: {names: [], usual: usual("gpu_k8s has no section power, or does not know the board's idle power yet.")},
  budget: {names: [], usual: usual("no memory budget is declared on this device, or gpu_k8s has no section budget.")},
  finding: {names: [], usual: usual("the stage gpu_findings does not run, or a signal that its rules need is absent.")},
  holders: {names: ["gpu.device.holder"], usual: "No holder is known: the device is free, or neither the exporter's pod labels nor the gpu_k8s processor name its holder."},
  coverage: {names: [], usual: "The window does not report how much of it was observed."},
};

// why returns why a device has no number of the given kind, or none of the given names.
export function why(d, kind, names = needs[kind].names) {
  if (d.lost) return lostWhy(d);
  if (!d.end) return "No window of this device has arrived yet.";
  const {usual} = needs[kind];
  if (elsewhere(d, kind)) return elsewhere(d, kind);
  const told = d.verdictsOn(names);
  if (!told.length) return usual;
  const lacking = told.filter((v) => v.reason);
  if (!lacking.length) return "The exporter provides it, but no window has it: a counter's first window has no increase, and a limit may refuse it.";
  // A common reason is listed once, with all its signals or fields.
  const about = Map.groupBy(lacking, (v) => v.reason.text);
  return [...about].map(([text, of]) => {
    const fields = [...new Set(of.flatMap((v) => v.signal.fields ?? []))];
    return `${fields.length ? fields.join(", ") : of[0].signal.name}: ${text}.`;
  }).join("\n");
}

// lostWhy returns why no data arrives from a device, or, if the reason is unknown, since when. The last
// window may end after the outage of its exporter started.
function lostWhy(d) {
  return d.lost === true ? `Nothing since ${clock(d.end || d.seen)}: the device, its exporter or the way from there is gone.`
    : `${d.lost.url} gives no samples since ${clock(d.lost.since)}.`;
}

// diagnosed reports whether it is known which signals the exporter provides for a device.
export const diagnosed = (d) => d.said && !d.lost;

// elsewhere returns the level at which a kind of number is measured if it cannot exist on this device, which
// is a board with MIG instances or an instance. It returns "" if the number can exist.
export function elsewhere(d, kind) {
  const {at} = needs[kind];
  return at === "board" && d.parent ? level.board : at === "instance" && d.instances ? level.instance : "";
}

// A column for the two directions of a link. Its color is the share of the capacity, if known. It is sorted
// by throughput, which is not comparable with shares.
const twoWay = (name) => {
  const arrow = (sign, v) => `${sign} ${Number.isNaN(v) ? "–" : rate(v)}`;
  const get = (what, direction) => (d) => d.get(link(name, what, direction));
  const [tx, rx] = [get("throughput", "transmit"), get("throughput", "receive")];
  const [txShare, rxShare] = [get("utilization", "transmit"), get("utilization", "receive")];
  return {
    value: (d) => greater(tx(d), rx(d)),
    share: (d) => greater(txShare(d), rxShare(d)),
    main: (d) => arrow("↑", tx(d)),
    sub: (d) => arrow("↓", rx(d)),
  };
};

const ratio = (id, label, width, scale, explain, more = {}) => ({
  id, label, width, scale, explain, kind: id, value: (d) => d.get(keys[id]), format: percent, ...more,
});

// Columns and lines of the signal table. A metric with color steps is a saturation: high values are bad.
const formats = {"1": percent, "By/s": rate, "{error}": errors};
const format = (w) => formats[w.unit] ?? ((v) => `${Number(v.toPrecision(3))} ${w.unit}`);
const tableColumns = windows.filter((w) => w.column).map((w) => ({
  id: w.column.toLowerCase().replace(/[^a-z0-9]/g, ""), label: w.column, width: Math.max(52, 32 + 7 * w.column.length), scale: w.steps ? "s" : "u", steps: w.steps,
  explain: w.explain, kind: w.metric, optional: !w.always, value: (d) => d.get(w.metric), format: format(w), max: w.max,
}));
const ways = {transmit: "sent", receive: "received"};
// Metrics whose kind has a column of its own below.
const kinds = new Map([
  [keys.utilization, "utilization"], [keys.memory, "memory"], [keys.xid, "xid"],
  [sat + "pcie.throughput.avg", "pcie"], [sat + "nvlink.throughput.avg", "nvlink"],
]);
// Utilization is listed first.
export const lines = windows.toSorted((a, b) => a.metric.startsWith(sat) - b.metric.startsWith(sat)).flatMap((w) => w.values.map((v) => ({
  label: w.label.replace("*", ways[v] ?? v), key: key(w.metric, v), kind: kinds.get(w.first) ?? w.first, format: format(w),
})));

// The columns. value is the number for sorting and coloring, format formats it, sub is the second line. An
// optional column appears once it has a value. Until then the missing signal is not reported.
export const columns = [
  {id: "device", label: "Device", width: 130, text: true, explain: "Board or MIG instance, with its model. Instances are nested under their board."},
  {id: "node", label: "Node", width: 104, text: true, explain: "Node that the device is on."},
  {id: "holders", label: "Held by", width: 144, text: true, kind: "holders", explain: "Pod and container that hold the device, how it is shared, and the claim that allocated it."},
  ratio("utilization", "Utilization", 110, "u", "Mean share of the window in which an engine was busy (U of USE); the curve is the stored history.", {curve: 0}),
  ratio("memory", "Memory", 132, "s", "Mean memory occupancy: used / (used + free). Below it, the share of samples at or above the pressure threshold.", {
    curve: 1, steps: [0.5, 0.75, 0.85, 0.93],
    sub: (d) => Number.isNaN(d.get(keys.pressure)) ? "" : `${percent(d.get(keys.pressure))} press.`,
  }),
  {id: "throttle", label: "Throttled", width: 128, scale: "s", kind: "throttle", curve: 2, steps: throttleSteps, format: percent,
    explain: "Greatest share of the window for which clocks were held down, and why. ~ is a share of samples, where there is no exact counter.",
    value: (d) => throttled(d).ratio, sub: (d) => { const t = throttled(d); return t.ratio > 0 ? short[t.by] : ""; },
    main: (d) => { const t = throttled(d); return t.sampled && t.ratio > 0 ? `~${percent(t.ratio)}` : percent(t.ratio); },
    aside: (d) => throttled(d).sampled && throttled(d).ratio > 0 ? "by samples" : ""},
  ...tableColumns,
  {id: "pcie", label: "PCIe", width: 98, scale: "u", kind: "pcie", ...twoWay("pcie"), explain: "Mean PCIe throughput sent and received; coloured by the share of the link's capacity where that is known."},
  {id: "nvlink", label: "NVLink", width: 92, scale: "u", kind: "nvlink", ...twoWay("nvlink"), explain: "Mean throughput over all NVLinks, sent and received; coloured by the share of their capacity where that is known."},
  {id: "xid", label: "XID", width: 118, scale: "error", kind: "xid", value: (d) => d.get(keys.xid),
    explain: "XID errors in the window: the code, how often it occurred, and what to do. 0 means that none occurred.",
    main: (d) => { const [x] = xidsNow(d); return x ? xidToDo(d, x) : errors(d.get(keys.xid)); }, sub: xidRest},
  {id: "finding", label: "Finding", width: 132, scale: "error", kind: "finding", optional: true, value: (d) => findings(d)?.length ?? NaN,
    explain: "What gpu_findings found: kernels that wait, a utilization that is not true, a GPU that slows its job, memory that fails, values that stand still.",
    main: (d) => findings(d).map((name) => findingWords[name]).join(", ") || "none", sub: () => ""},
  {id: "power", label: "Power", width: 88, kind: "power", format: watts, explain: "Power of the board; of a MIG instance, its share of active power. Below it, what no container is charged with.",
    value: (d) => d.parent ? d.get(keys.instancePower) : d.get(keys.power),
    kindOf: (d) => d.parent ? "instancePower" : "power",
    sub: (d) => Number.isNaN(d.get(keys.unattributed)) ? "" : `${watts(d.get(keys.unattributed))} unattr.`},
  {id: "budget", label: "Budget", width: 92, kind: "budget", optional: true, format: bytes, explain: "GPU memory that was promised to containers on the device. Below it, memory that is free.",
    value: (d) => d.get(keys.budget), sub: (d) => Number.isNaN(d.get(keys.headroom)) ? "" : `${bytes(d.get(keys.headroom))} free`},
  ratio("coverage", "Seen", 60, "", "Coverage: the share of the window that lies between samples: how much the other numbers are worth."),
];

// byPlace is the sort key for sorting by node and name only.
export const byPlace = () => NaN;

// The sort keys: the columns, by the number that they show, and signals without a column.
export const orders = [
  ...columns.filter((c) => !c.text || c.id === "node").map((c) => ({id: c.id, label: c.id === "node" ? "Node and device" : c.label, value: c.value ?? byPlace})),
  {id: "pressure", label: "Memory pressure", value: (d) => d.get(keys.pressure)},
  {id: "memorymax", label: "Memory, highest", value: (d) => d.get(keys.memoryMax)},
  ...tableColumns.filter((c) => c.max).map((c) => ({id: `${c.id}max`, label: `${c.label}, highest`, value: (d) => d.get(c.max)})),
  ...throttles.map((t) => ({id: `${t.how.split(" ")[0]}-${t.value}`, label: `Throttled: ${words[t.value]} (${t.how})`, value: (d) => d.get(t.key)})),
];

// step returns the CSS class of a value on its column's scale.
export function step(column, d, value) {
  const v = column.share ? column.share(d) : value;
  if (!column.scale || Number.isNaN(v)) return "";
  if (column.scale === "error") return v > 0 ? "error" : "";
  const at = (column.steps ?? [0.05, 0.3, 0.6, 0.85]).filter((s) => v >= s).length;
  return at ? column.scale + at : "";
}
