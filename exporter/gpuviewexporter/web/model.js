// The devices that the page knows: a snapshot, and patches applied to it. Nothing here touches the
// document.
import {byPlace, columns, key, keys, throttled} from "./signals.js";

// Levels of a curve: one character each, a dash is absent.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const top = alphabet.length - 1;
export const level = (character) => character === "-" ? NaN : alphabet.indexOf(character) / top;
const character = (v) => Number.isNaN(v) ? "-" : alphabet[Math.round(Math.min(Math.max(v, 0), 1) * top)];

// A device that missed this many windows is gone until it comes again.
const missed = 3;
const curveOf = [(d) => d.get(keys.utilization), (d) => d.get(keys.memory), (d) => throttled(d).ratio];

class Device {
  // get returns a number of the newest window, or the last value of a gauge; NaN is absent.
  get(name) {
    if (this.stale) return NaN;
    const at = this.index.get(name);
    const v = at === undefined ? null : at >= 0 ? this.v[at] : this.g[-1 - at];
    return v ?? NaN;
  }

  // verdictsOn returns what is known of the signals that numbers are made of: the signal, and the
  // reason where it is missing.
  verdictsOn(names) {
    const at = new Set(names.flatMap((name) => this.diagnosis.of(name)));
    return this.verdictsAt([...at]);
  }

  // verdicts returns what is known of every signal.
  verdicts() { return this.verdictsAt(this.diagnosis.signals.keys()); }

  verdictsAt(positions) {
    const out = [];
    if (!this.said || this.stale) return out;
    for (const i of positions) {
      const said = this.said[i];
      if (said === "-") continue;
      const reason = said === "+" ? null : this.diagnosis.reason(said);
      out.push({signal: this.diagnosis.signals[i], reason});
    }
    return out;
  }
}

// Diagnosis says what verdicts are about.
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

  // of returns the positions of the signals that a number is made of. A signal without a part is
  // what every value of an attribute is made of.
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
  sequence = 0;
  newest = 0;
  window = 0;
  // The optional columns of which some device had a value since the page was opened.
  used = new Set();

  // load takes a snapshot.
  load(s) {
    this.index = new Map();
    s.fields.forEach((f, i) => this.index.set(key(f.metric, f.value), i));
    s.gauges.forEach((g, i) => this.index.set(key(g.metric), -1 - i));
    this.holderIndex = new Map(s.holderGauges.map((g, i) => [g.metric, i]));
    this.diagnosis = new Diagnosis(s);
    // Devices stay the same objects, so that one that is chosen or open stays so.
    const before = this.devices;
    this.devices = new Map();
    for (const {n} of s.devices) {
      const device = before.get(n) ?? new Device();
      device.index = this.index;
      device.diagnosis = this.diagnosis;
      this.devices.set(n, device);
    }
    this.points = s.points;
    this.slot = s.slot;
    this.times(s);
    for (const d of s.devices) this.take(d, s.verdicts);
    this.finish();
  }

  // apply takes a patch; false says that only a snapshot can help.
  apply(p) {
    if (p.seq <= this.sequence) return true;
    if (p.seq !== this.sequence + 1 || p.slot !== this.slot) return false;
    this.times(p);
    for (const d of p.devices) this.take(d, p.verdicts);
    this.finish();
    return true;
  }

  times(s) {
    this.sequence = s.seq;
    this.newest = s.newest;
    this.window = s.window;
    this.now = s.now;
    this.oldest = s.now - s.retention;
    this.demand = s.demand;
  }

  take(d, verdicts) {
    let device = this.devices.get(d.n);
    if (!device) {
      this.devices.set(d.n, device = new Device());
      device.index = this.index;
      device.diagnosis = this.diagnosis;
    }
    const curves = device.curves ?? Array(3).fill("-".repeat(this.points));
    const at = device.at ?? this.slotOf(this.newest);
    Object.assign(device, {parent: "", name: "", model: "", node: "", cluster: "", profile: "", holders: []}, d, {stale: false, said: d.verdict ? verdicts[d.verdict - 1] : ""});
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

  // held returns a number of a container's hold on a device.
  held(holder, name) { return holder.g[this.holderIndex.get(name)] ?? NaN; }

  slotOf(end) { return Math.ceil(end / this.slot); }

  // curve returns a device's curve up to the newest window.
  curve(device, i) { return shift(device.curves[i], this.slotOf(this.newest) - device.at); }

  // finish forgets devices without a window for the retention and finds boards' instances.
  finish() {
    const byID = new Map();
    for (const [n, d] of this.devices) {
      if (d.end && d.end < this.oldest) {
        this.devices.delete(n);
        continue;
      }
      d.stale = d.end > 0 && d.end < this.newest - missed * Math.max(d.len, this.window);
      d.instances = null;
      byID.set(`${d.cluster}/${d.node}/${d.id}`, d);
    }
    for (const d of this.devices.values()) {
      const board = d.parent && byID.get(`${d.cluster}/${d.node}/${d.parent}`);
      d.board = board || null;
      if (board) (board.instances ??= []).push(d);
    }
    for (const c of columns) {
      if (c.optional && !this.used.has(c.id) && [...this.devices.values()].some((d) => !Number.isNaN(c.value(d)))) this.used.add(c.id);
    }
  }

  // rows returns the devices that pass the filter in order, instances after their board. A board
  // is kept for its instances, and ordered by the greatest value among them and itself.
  rows(filter, order, descending) {
    const node = filter.node.toLowerCase();
    const passes = (d) => (!node || d.node.toLowerCase().includes(node)) && (!filter.model || d.model === filter.model) &&
      (!filter.namespace || d.holders.some((h) => h.namespace === filter.namespace));
    const sign = descending ? -1 : 1;
    // What is absent comes last either way.
    const compare = (a, b) => (Number.isNaN(a.rank) - Number.isNaN(b.rank)) || sign * (a.rank - b.rank) || a.place.localeCompare(b.place, undefined, {numeric: true});
    const groups = [];
    for (const d of this.devices.values()) {
      if (d.board) continue;
      const instances = (d.instances ?? []).filter(passes).map((i) => ({d: i, rank: order(i), place: i.id}));
      const own = passes(d);
      if (!own && !instances.length) continue;
      const ranks = [order(d), ...instances.map((i) => i.rank)].filter((v) => !Number.isNaN(v));
      groups.push({d, own, instances, rank: ranks.length ? Math.max(...ranks) : NaN, place: `${d.node}/${d.name}/${d.id}`});
    }
    if (order === byPlace) for (const g of groups) g.rank = 0;
    groups.sort(compare);
    if (order === byPlace && descending) groups.reverse();
    return groups.flatMap((g) => [g.d, ...g.instances.sort(compare).map((i) => i.d)]);
  }

  // choices returns what can be filtered by.
  choices() {
    const [nodes, namespaces, models] = [new Set(), new Set(), new Set()];
    for (const d of this.devices.values()) {
      if (d.node) nodes.add(d.node);
      if (d.model) models.add(d.model);
      for (const h of d.holders) if (h.namespace) namespaces.add(h.namespace);
    }
    const sorted = (set) => [...set].sort((a, b) => a.localeCompare(b, undefined, {numeric: true}));
    return {nodes: sorted(nodes), namespaces: sorted(namespaces), models: sorted(models)};
  }
}

function shift(curve, by) {
  if (by <= 0) return curve;
  return by >= curve.length ? "-".repeat(curve.length) : curve.slice(by) + "-".repeat(by);
}
