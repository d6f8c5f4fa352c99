// This module contains the devices that the page shows. The devices come from the document that the
// server sends. The server interprets all numbers, and this module only selects and sorts devices.
// The module does not access the DOM.
import {byPlace, columns, key, written} from "./signals.js";
import {expired} from "./windows.js";

const text = (code) => ({code, meaning: "", action: ""});

// Each character in a curve represents a level. A dash represents an absent value.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const top = alphabet.length - 1;
export const level = (character) => character === "-" ? NaN : alphabet.indexOf(character) / top;

// The properties that the server omits if they are empty.
const empty = {
  board: null, instances: null, parent: "", name: "", model: "", vendor: "", node: "", cluster: "", profile: "",
  lost: null, problems: [], idle: null, power: null, health: "", findings: null, throttle: null, xids: [], holders: [], reserved: [], diagnosis: 0, words: null,
};

class Device {
  // The names property contains all names of the device and its holders, in lowercase.
  get names() {
    return this.words ??= [this.node, this.cluster, this.name, this.id, this.model, this.vendor, this.profile,
      ...this.holders.flatMap((h) => [h.namespace, h.pod, h.container, h.kind, h.workload, h.claim]),
      ...this.reserved.flatMap((r) => [r.namespace, r.pod, r.name])].filter(Boolean).join(" ").toLowerCase();
  }

  // The get method returns a number from the newest window, or the last value of a gauge. If the
  // number is absent, get returns NaN.
  get(name) {
    const at = this.index.get(name);
    const v = at === undefined ? null : at >= 0 ? this.v[at] : this.g[-1 - at];
    return v ?? NaN;
  }

  has(problem) { return this.problems.includes(problem); }

  xidText(code) { return this.meanings.get(code) ?? text(code); }

  // The why method returns the reason why the device has no value for a number or column.
  why(name) {
    if (this.lost) return {text: written(this.lost.why)};
    return this.whys[this.reasons?.why[this.numbers.get(name)]] ?? {text: ""};
  }
}

export class Model {
  // The devices map contains the devices in the order of the document, keyed by cluster, node and
  // ID.
  devices = new Map();
  demand = [];
  unreserved = [];
  // The banners, state and missing fields contain text from the server. The lacking field is the
  // number of missing signals that could be enabled.
  banners = [];
  state = {text: ""};
  missing = [];
  lacking = undefined;
  places = [];
  newest = 0;
  window = 0;
  until = 0;
  // The used set contains the optional columns in which any device has had a value since the page
  // was opened.
  used = new Set();

  // The read method parses a document. Each device is on a separate line, so that the read method
  // can yield between devices. The previous document is kept until all devices have been parsed.
  *read(text) {
    const [first, ...lines] = text.split("\n");
    yield;
    const head = JSON.parse(`${first}]}`);
    const read = [];
    for (const line of lines) {
      if (line === "]}") break;
      read.push(JSON.parse(line.endsWith(",") ? line.slice(0, -1) : line));
      yield;
    }
    this.replace(head, read);
    yield* this.settle();
  }

  // The replace method replaces the document. The object for each device is reused, so that a
  // selected or open device stays selected or open, even if the server was restarted and assigned
  // new numbers to its devices.
  replace(head, read) {
    const index = new Map();
    head.fields.forEach((f, i) => index.set(key(f.metric, f.value), i));
    head.gauges.forEach((g, i) => index.set(key(g.metric, g.value), -1 - i));
    this.holderIndex = new Map(head.holderGauges.map((g, i) => [g.metric, i]));
    const shared = {index, numbers: new Map(head.numbers.map((name, i) => [name, i])), whys: head.why, meanings: new Map(head.xids.map((x) => [x.code, x]))};
    const {newest, window, until, curvePoints, demand, unreserved, state, banners, missing, lacking} = head;
    Object.assign(this, {newest, window, until, curvePoints, demand, unreserved, state, banners, missing, lacking});
    const devices = new Map();
    for (const [placed, d] of read.entries()) {
      const id = `${d.cluster ?? ""}/${d.node ?? ""}/${d.id}`;
      devices.set(id, Object.assign(this.devices.get(id) ?? new Device(), empty, d, shared, {placed, reasons: head.diagnoses[d.diagnosis - 1] ?? null}));
    }
    this.devices = devices;
  }

  // setServerTime stores the current time of the server's clock, because the browser's clock may be
  // wrong.
  setServerTime(seconds) {
    this.serverTime = seconds;
    this.receivedAt = performance.now();
  }

  get now() { return this.serverTime + (performance.now() - this.receivedAt) / 1000; }

  // If the document has expired and no newer document could be loaded, expire removes the numbers
  // of all devices and returns true.
  expire() {
    if (!this.until || this.now <= this.until) return false;
    this.until = 0;
    this.state = expired.state;
    for (const d of this.devices.values()) {
      if (d.lost) continue;
      const {idle, power, health, findings, throttle, holders, reserved, diagnosis, words} = empty;
      const xids = d.xids.map((x) => ({...x, count: 0}));
      const last = d.end || this.serverTime;
      const lost = {last, why: expired.why.map((part) => typeof part === "number" ? last : part)};
      Object.assign(d, {idle, power, health, findings, throttle, holders, reserved, diagnosis, words, xids, v: [], g: [], reasons: null, problems: ["lost"], lost});
    }
    this.unreserved = [];
    for (const r of this.demand) Object.assign(r, {old: true, warn: false});
    return true;
  }

  // The held method returns a number that describes a container on a device.
  held(holder, name) { return holder.g[this.holderIndex.get(name)] ?? NaN; }

  // asShown sorts rows in the order in which they are currently shown. A new instance follows its
  // board, and other new devices are at the end.
  asShown(rows, shown) {
    const at = new Map(shown.map((d, i) => [d, i]));
    const place = (d) => at.get(d) ?? at.get(d.board) ?? Infinity;
    return rows.map((d, i) => ({d, i, at: place(d)})).sort((a, b) => a.at - b.at || a.i - b.i).map((r) => r.d);
  }

  // The settle method updates everything that depends on several devices: the instances of boards,
  // the devices of each node, and the optional columns. The method yields from time to time, so
  // that the browser can do other work.
  *settle() {
    const numbers = new Map();
    for (const d of this.devices.values()) numbers.set(d.n, d);
    for (const d of this.devices.values()) {
      d.board = numbers.get(d.board) ?? null;
      if (d.board) (d.board.instances ??= []).push(d);
    }
    yield;
    this.places = [...Map.groupBy(this.devices.values(), (d) => `${d.cluster}/${d.node}`).values()];
    yield;
    for (const c of columns) {
      if (c.optional && !this.used.has(c.id) && [...this.devices.values()].some((d) => !Number.isNaN(c.value(d)))) this.used.add(c.id);
      yield;
    }
  }

  // The rows method returns the devices that pass the filter, in sorted order. A device can pass
  // the filter only if its names contain every word in the search field. If an instance passes the
  // filter, its board is included. Instances follow their board. The sort key of a board is the
  // maximum over the board and its instances.
  rows(filter, order, descending) {
    const words = filter.search.toLowerCase().split(/\s+/).filter(Boolean);
    const passes = (d) => words.every((w) => d.names.includes(w)) && (!filter.vendor || d.vendor === filter.vendor) &&
      (!filter.problems || d.problems.length > 0) && (!filter.only || filter.only(d));
    const sign = descending ? -1 : 1;
    // Absent values are sorted last, whether the order is ascending or descending.
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

  // The vendors method returns the vendors of all devices.
  vendors() { return [...new Set([...this.devices.values()].map((d) => d.vendor).filter(Boolean))].sort(); }
}
