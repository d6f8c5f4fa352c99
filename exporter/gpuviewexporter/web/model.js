// The devices that the page knows, from a snapshot and later patches. This module does not access the
// document.
import {byPlace, columns, key, keys, problem, throttled} from "./signals.js";

// If the scheduler's view is older than this many seconds, its time is shown.
const aged = 120;
const collator = new Intl.Collator(undefined, {numeric: true});
const sorted = (set) => [...set].sort(collator.compare);
const text = (code) => ({code, meaning: "", action: ""});

// Levels of a curve, one character each. A dash means absent.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const top = alphabet.length - 1;
export const level = (character) => character === "-" ? NaN : alphabet.indexOf(character) / top;
const character = (v) => Number.isNaN(v) ? "-" : alphabet[Math.round(Math.min(Math.max(v, 0), 1) * top)];

const curveOf = [(d) => d.get(keys.utilization), (d) => d.get(keys.memory), (d) => throttled(d).ratio];

class Device {
  // lost is true if no new point of the device arrived in time. If an exporter's outage is the cause,
  // lost is that exporter.
  lost = false;
  board = null;
  instances = null;
  placed = 0;
  xids = [];
  vendor = "";

  // words are all names of the device and its holders, in lower case.
  get words() {
    return this.known ??= [this.node, this.cluster, this.name, this.id, this.model, this.vendor, this.profile,
      ...this.holders.flatMap((h) => [h.namespace, h.pod, h.container, h.kind, h.workload, h.claim])].filter(Boolean).join(" ").toLowerCase();
  }

  // get returns a number of the newest window, or the last value of a gauge. NaN means absent.
  get(name) {
    if (this.lost) return NaN;
    const at = this.index.get(name);
    const v = at === undefined ? null : at >= 0 ? this.v[at] : this.g[-1 - at];
    return v ?? NaN;
  }

  xidText(code) { return this.meanings.get(code) ?? text(code); }

  // verdictsOn returns the verdicts on the signals from which the numbers are computed: the signal, and
  // the reason if it is missing.
  verdictsOn(names) {
    const at = new Set(names.flatMap((name) => this.diagnosis.of(name)));
    return this.verdictsAt([...at]);
  }

  // verdicts returns the verdicts on all signals.
  verdicts() { return this.verdictsAt(this.diagnosis.signals.keys()); }

  verdictsAt(positions) {
    const out = [];
    if (!this.said || this.lost) return out;
    for (const i of positions) {
      const said = this.said[i];
      if (said === "-") continue;
      const reason = said === "+" ? null : this.diagnosis.reason(said);
      out.push({signal: this.diagnosis.signals[i], reason});
    }
    return out;
  }
}

// Diagnosis has the signals and reasons to which the verdicts refer.
class Diagnosis {
  constructor(s) {
    this.signals = s.signals;
    this.reasons = s.reasons;
    this.byName = new Map();
    const add = (name, i) => this.byName.set(name, [...this.byName.get(name) ?? [], i]);
    for (const [i, {metric, part, feeds = []}] of s.signals.entries()) {
      for (const m of [metric, ...feeds]) {
        add(m, i);
        if (part) add(key(m, part), i);
      }
    }
  }

  // of returns the positions of the signals from which a number is computed. A signal without a part
  // applies to every value of the metric's own attribute.
  of(name) {
    const metric = name.split("{")[0];
    return this.byName.get(name) ?? (this.byName.get(metric) ?? []).filter((i) => !this.signals[i].part);
  }

  reason(letter) {
    const {code, text, lasting} = this.reasons[letter.charCodeAt(0) - 97] ?? {};
    return code ? {code, text, lasting} : {code: "", text: "the reason is not known here"};
  }
}

export class Model {
  devices = new Map();
  demand = [];
  exporters = {known: 0, heard: 0, down: [], silent: []};
  limits = [];
  meanings = new Map();
  sequence = 0;
  places = [];
  newest = 0;
  window = 0;
  // The optional columns that had a value for any device since the page was opened.
  used = new Set();

  // add processes a part of a snapshot or a patch. Its content is shown after settle. add returns false if
  // the page needs a new snapshot.
  add(p) {
    if (p.fields) {
      this.begin(p);
    } else if (!this.coming) {
      if (p.seq <= this.sequence) return true;
      if (p.now ? p.seq !== this.sequence + 1 || p.slot !== this.slot : p.seq !== this.under) return false;
    }
    if (p.now) this.head(p);
    for (const d of p.devices) this.take(d);
    if (p.more) return true;
    if (this.coming) {
      this.devices = this.coming;
      this.moved = true;
      this.coming = null;
    }
    this.sequence = p.seq;
    return true;
  }

  // begin reads the names of a snapshot's numbers. It keeps the device objects, so that a selected or open
  // device stays selected or open.
  begin(s) {
    this.index = new Map();
    s.fields.forEach((f, i) => this.index.set(key(f.metric, f.value), i));
    s.gauges.forEach((g, i) => this.index.set(key(g.metric, g.value), -1 - i));
    this.holderIndex = new Map(s.holderGauges.map((g, i) => [g.metric, i]));
    this.diagnosis = new Diagnosis(s);
    this.coming = new Map();
    this.points = s.points;
    this.slot = s.slot;
  }

  // know sets the properties that all devices share.
  know(device) { return Object.assign(device, {index: this.index, diagnosis: this.diagnosis, meanings: this.meanings}); }

  // head reads everything in a snapshot or a patch except its devices.
  head(s) {
    this.under = s.seq;
    this.verdicts = s.verdicts;
    this.newest = s.newest;
    this.window = s.window;
    this.kept = s.kept;
    this.said = s.now;
    this.heard = performance.now();
    this.retention = s.retention;
    this.demand = s.demand;
    this.exporters = s.exporters;
    this.limits = s.limits;
    for (const x of s.xids ?? []) this.meanings.set(x.code, x);
  }

  // now is the exporter's current time, computed from its last message. The clock of the browser may be
  // wrong.
  get now() { return this.said + (performance.now() - this.heard) / 1000; }

  take(d) {
    const device = this.know(this.devices.get(d.n) ?? new Device());
    (this.coming ?? this.devices).set(d.n, device);
    const curves = device.curves ?? Array(3).fill("-".repeat(this.points));
    const at = device.at ?? this.slotOf(this.newest);
    if (device.node !== (d.node ?? "") || device.name !== (d.name ?? "") || device.cluster !== (d.cluster ?? "")) this.moved = true;
    Object.assign(device, {parent: "", name: "", model: "", vendor: "", node: "", cluster: "", known: null, profile: "", holders: [], xids: [], throttle: null}, d,
      {lost: false, said: d.verdict ? this.verdicts[d.verdict - 1] : ""});
    if (d.curves) {
      device.at = this.slotOf(this.newest);
      return;
    }
    device.at = Math.max(at, this.slotOf(d.end));
    device.curves = curves.map((c, i) => {
      const moved = shift(c, device.at - at);
      const v = this.slotOf(d.end) === device.at ? curveOf[i](device) : NaN;
      const last = level(moved.at(-1));
      return moved.slice(0, -1) + character(Number.isNaN(last) ? v : Number.isNaN(v) ? last : Math.max(last, v));
    });
  }

  // held returns a number of a container on a device.
  held(holder, name) { return holder.g[this.holderIndex.get(name)] ?? NaN; }

  slotOf(end) { return Math.ceil(end / this.slot); }

  // curve returns a device's curve up to the newest window, or up to now if that window is old.
  curve(device, i) { return shift(device.curves[i], this.slotOf(Math.max(this.newest, this.now - 3 * this.slot)) - device.at); }

  // asShown sorts rows in the order of the shown rows. New devices follow their board or are at the end.
  asShown(rows, shown) {
    const at = new Map(shown.map((d, i) => [d, i]));
    const place = (d) => at.get(d) ?? at.get(d.board) ?? Infinity;
    return rows.map((d, i) => ({d, i, at: place(d)})).sort((a, b) => a.at - b.at || a.i - b.i).map((r) => r.d);
  }

  // age updates which devices are lost, and reports whether anything changed.
  age() {
    const now = this.now;
    const before = this.demand.length;
    this.demand = this.demand.filter((r) => r.due >= now);
    let changed = this.demand.length < before;
    for (const r of this.demand) {
      const old = now - r.at > aged;
      changed ||= old !== (r.old ?? false);
      r.old = old;
    }
    const [everywhere, places] = this.outages();
    for (const [n, d] of this.devices) {
      if (d.seen < now - this.retention) {
        this.devices.delete(n);
        this.moved = true;
        changed = true;
        continue;
      }
      const down = places.get(`${d.cluster}/${d.node}`) ?? places.get(`/${d.node}`) ?? everywhere;
      // A window that started before the outage of the exporter remains valid for the length of a window.
      const length = d.len || this.window;
      const lost = down && now > down.since + length && d.seen < down.since + length ? down : now > d.due;
      changed ||= lost !== d.lost;
      d.lost = lost;
    }
    return changed;
  }

  // outages returns the exporter that is down if all exporters are down. Otherwise it returns, by place, the
  // exporter that is down if no other exporter of the place answers.
  outages() {
    const {known, down} = this.exporters;
    const places = new Map();
    for (const e of down) if (e.node && !e.beside) places.set(`${e.cluster ?? ""}/${e.node}`, e);
    return [down.length > 0 && down.length === known ? down[0] : null, places];
  }

  // settle updates everything that depends on all devices: it deletes devices without a point within the
  // retention, and updates which devices are lost, the instances of boards and the order by place. It yields
  // so that the browser can do other work.
  *settle() {
    this.age();
    yield;
    if (this.moved) yield* this.place();
    const parents = new Set();
    for (const d of this.devices.values()) {
      d.instances = d.board = null;
      if (d.parent) parents.add(d.parent);
    }
    const boards = new Map();
    for (const d of this.devices.values()) if (parents.has(d.id)) boards.set(`${d.cluster}/${d.node}/${d.id}`, d);
    for (const d of this.devices.values()) {
      if (!d.parent) continue;
      d.board = boards.get(`${d.cluster}/${d.node}/${d.parent}`) ?? null;
      if (d.board) (d.board.instances ??= []).push(d);
    }
    yield;
    for (const c of columns) {
      if (c.optional && !this.used.has(c.id) && [...this.devices.values()].some((d) => !Number.isNaN(c.value(d)))) this.used.add(c.id);
      yield;
    }
  }

  // place numbers the devices by node, name and id, if devices appeared, disappeared or moved.
  *place() {
    this.moved = false;
    const nodes = Map.groupBy(this.devices.values(), (d) => `${d.node}\n${d.cluster}`);
    yield;
    const places = [];
    for (const place of sorted(nodes.keys())) {
      places.push(nodes.get(place).sort((a, b) => collator.compare(a.name, b.name) || collator.compare(a.id, b.id)));
      yield;
    }
    this.places = places;
    this.places.flat().forEach((d, i) => { d.placed = i; });
    yield;
  }

  // rows returns the sorted devices that pass the filter. Instances follow their board. A board is included
  // if one of its instances is, and is sorted by the maximum of its instances and itself. The names of a device
  // must contain every word of the search.
  rows(filter, order, descending) {
    const words = filter.search.toLowerCase().split(/\s+/).filter(Boolean);
    const passes = (d) => words.every((w) => d.words.includes(w)) && (!filter.vendor || d.vendor === filter.vendor) &&
      (!filter.problems || problem(d)) && (!filter.only || filter.only(d));
    const sign = descending ? -1 : 1;
    // Absent values come last in both directions.
    const compare = (a, b) => (Number.isNaN(a.rank) - Number.isNaN(b.rank)) || sign * (a.rank - b.rank) || a.d.placed - b.d.placed;
    const groups = [];
    for (const d of this.devices.values()) {
      if (d.board) continue;
      const instances = (d.instances ?? []).filter(passes).map((i) => ({d: i, rank: order(i)}));
      if (!instances.length && !passes(d)) continue;
      const ranks = [order(d), ...instances.map((i) => i.rank)].filter((v) => !Number.isNaN(v));
      groups.push({d, instances, rank: ranks.length ? Math.max(...ranks) : NaN});
    }
    if (order === byPlace) for (const g of groups) g.rank = 0;
    groups.sort(compare);
    if (order === byPlace && descending) groups.reverse();
    return groups.flatMap((g) => [g.d, ...g.instances.sort(compare).map((i) => i.d)]);
  }

  // vendors returns the vendors for the filter.
  vendors() { return sorted(new Set([...this.devices.values()].map((d) => d.vendor).filter(Boolean))); }
}

function shift(curve, by) {
  if (by <= 0) return curve;
  return by >= curve.length ? "-".repeat(curve.length) : curve.slice(by) + "-".repeat(by);
}
