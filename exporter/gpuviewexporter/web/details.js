// This module contains the dialog with the details of a device. For each signal, the dialog shows
// the value, or the reason why the signal is missing.
import {bytes, celsius, clock, columns, duration, holderKeys, holderName, keys, lines, percent, watts, whole} from "./signals.js";
import {throttles} from "./windows.js";
import {svg, trace} from "./table.js";
import {Timeline, series} from "./timeline.js";
import {$, node} from "./dom.js";

export class Details {
  // The opened field is the device whose details are shown. The past field is the history of the
  // opened device, or null until the history has been loaded.
  opened = null;
  past = null;

  constructor(model, onChange) {
    this.model = model;
    this.onChange = onChange;
    $("details").addEventListener("close", () => {
      if ($("details").open) return; // another device was opened in the meantime
      this.opened = this.past = null;
      onChange();
    });
  }

  open(d) {
    this.opened = d;
    this.timeline = new Timeline();
    this.onChange();
    this.describe();
    $("details").showModal();
    this.loadHistory();
  }

  // The refresh method redraws the dialog with the current values of the device.
  refresh() {
    if (!this.opened) return;
    if (![...this.model.devices.values()].includes(this.opened)) return $("details").close();
    this.describe();
    this.loadHistory();
  }

  // loadHistory loads the history of the device and redraws the dialog.
  async loadHistory() {
    const d = this.opened;
    try {
      const answer = await fetch(`api/devices/${d.n}/history`);
      if (!answer.ok) return;
      const got = await answer.json();
      if (this.opened !== d) return;
      this.past = got;
      this.describe();
    } catch {
      // The dialog can show the numbers without the history. The page requests the history again
      // after the next window.
    }
  }

  describe() {
    const {opened: d, past} = this;
    $("details-title").textContent = [d.profile || d.name || d.id, d.node].filter(Boolean).join(" on ");
    const body = $("details-body");
    const at = body.scrollTop;
    // The number function returns the contents of the cells in a row: the value, the reason why the
    // value is missing, and the history. The last element is the reason object from the server, or
    // null if there is a value.
    const number = (name, format, kind) => {
      const v = d.get(name);
      const why = Number.isNaN(v) ? d.why(name) : null;
      return [why ? "–" : format(v), why?.text ?? "", historyOf(past, d, name, format, kind), why];
    };
    const parts = [
      ["", [["Device", d.id], ["Model", d.model || "–"], ["Window", d.end ? `${duration(d.len)} up to ${clock(d.end)}${d.lost ? `, the last one. ${d.why("coverage").text}` : ""}` : d.why("coverage").text],
        ["Observed", ...number(keys.coverage, percent, "coverage")], ["Samples", ...number(keys.samples, whole, "coverage")]]],
      ...[...Map.groupBy(lines, groupOf)].map(([title, of]) => [title, of.map((l) => [l.label, ...number(l.key, l.format, l.kind)])]),
      ["Throttling", throttles.filter((t) => t.usual || !Number.isNaN(d.get(t.key))).map((t) => [`${t.name}, ${t.how}`, ...number(t.key, percent, "throttle"), always0(d, past, t.key)])],
      ["Power and temperature", [
        ["Power", ...number(keys.power, watts, "power")], ["Idle part", ...number(keys.idle, watts, "instancePower")],
        ["Active part", ...number(d.parent ? keys.instancePower : keys.active, watts, "instancePower")],
        ["Unattributed", ...number(keys.unattributed, watts, "instancePower")], ["Temperature", ...number(keys.temperature, celsius, "temperature")]]],
      ["Memory in bytes", [
        ["Memory used", ...number(keys.used, bytes, "memory")], ["Memory size", ...number(keys.limit, bytes, "memory")],
        ["Budgets declared", ...number(keys.budget, bytes, "budget")], ["Used without a budget", ...number(keys.unbudgeted, bytes, "budget")],
        ["Free", ...number(keys.headroom, bytes, "budget")]]],
    ];
    body.classList.toggle("lost", d.lost !== null);
    const nodes = parts.flatMap(([title, lines]) => {
      // One sentence lists all causes of throttling that were 0 during the whole history.
      const never = lines.filter((l) => l[5]);
      const can = lines.filter((l) => !l[4]?.never && !l[5]);
      const not = [...new Set(lines.flatMap((l) => l[4]?.elsewhere ? [l[4].text] : []))];
      return [...(title ? [node("h3", title)] : []), ...(can.length ? [listing(can)] : []),
        ...(never.length ? [node("p", `Always 0: ${never.map((l) => l[0]).join("; ")}.`, "none")] : []),
        ...not.map((text) => node("p", `${can.length ? "The rest: " : ""}${text}`, "none"))];
    });
    const focused = this.timeline.figure === document.activeElement;
    const figure = this.timeline.draw(d, past);
    nodes.splice(1, 0, figure ?? node("p", "No history yet.", "none"));
    if (d.xids.length) nodes.push(node("h3", "XID codes"), xidCodes(d));
    nodes.push(node("h3", "Held by"), holders(this.model, d));
    if (d.reserved.length) nodes.push(node("h3", "Reserved, not running"), listing(d.reserved.map((r) => [`${r.namespace}/${r.pod}`, `claim ${r.name}${r.class ? ` (${r.class})` : ""}`])));
    nodes.push(node("h3", "Signals that the exporter does not provide"), notGiven(this.model, d));
    body.replaceChildren(...nodes);
    body.scrollTop = at;
    if (focused) figure?.focus({preventScroll: true});
  }
}

// xidCodes returns a table of the device's XID codes, with the counts, meanings and recommended
// actions.
function xidCodes(d) {
  const t = node("table", "", "codes");
  const head = t.createTHead().insertRow();
  for (const name of ["Code", "Meaning", "What to do", "In the window", "In all"]) {
    const th = node("th", name);
    th.scope = "col";
    head.append(th);
  }
  const list = t.createTBody();
  for (const x of d.xids) {
    const {meaning, advice} = d.xidText(x.code);
    const tr = list.insertRow();
    const th = node("th", String(x.code));
    th.scope = "row";
    const total = node("td", `x${whole(x.total)}`, "n");
    total.append(node("span", [x.since ? `since ${clock(x.since)}` : "", x.last ? `last ${clock(x.last)}` : ""].filter(Boolean).join(", "), "sub"));
    tr.append(th, node("td", meaning), node("td", advice), node("td", d.lost ? "–" : `x${whole(x.count)}`, "n"), total);
  }
  return t;
}

// groupOf returns the heading under which a line of the signal table is shown.
const groups = [[/memory/, "Memory"], [/pcie|nvlink|xgmi/, "Links"], [/errors/, "Errors"], [/./, "Utilization and activity"]];
const groupOf = (l) => groups.find(([form]) => form.test(l.key))[1];

// always0 returns true if a number is 0 now and was 0 during the whole history.
const always0 = (d, past, name) => d.get(name) === 0 && !series(d, past, name).some((v) => v > 0);

// historyOf returns an element that shows the history of a number, or null if there is no history.
// The scale of percentages ends at 100%. The scale of other numbers ends at their maximum.
function historyOf(past, d, name, format, kind) {
  const values = series(d, past, name);
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
  const out = node("div", "", "history");
  out.append(curve, node("span", low === high ? `always ${format(low)}` : `${format(low)} to ${format(high)}`, "n"));
  return out;
}

// notGiven returns an element that lists the signals that the exporter does not provide for a
// device.
function notGiven(model, d) {
  if (!d.reasons?.diagnosed) return node("p", "Unknown: gpu.signal.available is not received for this device. The reasons above are the usual ones.", "none");
  const lacks = (d.reasons.lacks ?? []).map((i) => model.missing[i]);
  if (!lacks.length) return node("p", "Every diagnosed signal is available.", "none");
  return listing(lacks.map(({metric, parts, fields, text}) => [parts ? `${metric} {${parts.join(", ")}}` : metric, fields ? `${fields.join(", ")}: ${text}` : text]));
}

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

function holders(model, d) {
  if (!d.holders.length) return node("p", d.why("holders").text, "none");
  const t = node("table", "", "holders");
  const head = t.createTHead().insertRow();
  for (const name of ["Container", "Sharing", "Memory", "Budget", "Busy", "Power"]) {
    const th = node("th", name);
    th.scope = "col";
    head.append(th);
  }
  const rowsOf = t.createTBody();
  for (const h of d.holders) {
    const text = (name, format) => { const v = model.held(h, name); return Number.isNaN(v) ? "–" : format(v); };
    const tr = rowsOf.insertRow();
    const th = node("th", `${holderName(h)}${h.claim ? ` · claim ${h.claim}` : ""}${h.class ? ` (${h.class})` : ""}`);
    th.scope = "row";
    tr.append(th, node("td", h.sharing || "–"), node("td", text(holderKeys.used, bytes), "n"), node("td", text(holderKeys.budget, bytes), "n"),
      node("td", text(holderKeys.utilization, percent), "n"), node("td", text(holderKeys.power, watts), "n"));
  }
  return t;
}
