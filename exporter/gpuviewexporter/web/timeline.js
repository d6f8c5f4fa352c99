// This module draws the history of one device. The history consists of curves with axes, and of
// events.
import {celsius, clock, duration, holderName, keys, percent, watts} from "./signals.js";
import {svg, trace} from "./table.js";
import {node} from "./dom.js";

// The maximum number of containers for which a lane is shown.
const maxLanes = 6;

// The series function returns the value of a number in each slot of the history. Absent values are
// null.
export const series = (d, past, name) => {
  const at = d.index.get(name);
  return (at >= 0 ? past?.v[at] : past?.g[-1 - at]) ?? [];
};

export class Timeline {
  // The at field is the index of the slot under the cursor, or -1 if there is none.
  at = -1;

  // The draw method returns a figure that shows the history of a device, or null if there is no
  // history.
  draw(d, past) {
    this.slots = Math.max(0, ...[...past?.v ?? [], ...past?.g ?? []].map((v) => v.length));
    if (!this.slots) return null;
    this.past = past;
    this.from = past.end - past.slot * this.slots;
    const get = (name) => series(d, past, name);
    const coverage = get(keys.coverage);
    this.curves = [
      {name: "utilization", className: "u", values: get(keys.utilization), format: percent, top: 1},
      {name: "memory", className: "m", values: get(keys.memory), format: percent, top: 1},
      {name: past.sampled ? "throttled (by samples)" : "throttled", className: "t", values: past.throttled, format: percent, top: 1, bars: true},
      {name: "power", className: "u", values: get(keys.power), format: watts, second: true},
      {name: "temperature", className: "t", values: get(keys.temperature), format: celsius, second: true, right: true},
    ].filter((c) => c.values.some((v) => v !== null));
    for (const c of this.curves) c.top ??= round(Math.max(...c.values.filter((v) => v !== null)));
    // Slots that were observed for less than half of their time, or not at all, are shown as not
    // observed.
    const blind = Array.from({length: this.slots}, (_, x) => coverage.length ? (coverage[x] ?? 0) < 0.5 : this.curves.every((c) => (c.values[x] ?? null) === null));

    this.readout = node("p", "", "none readout");
    this.cursors = [];
    this.figure = node("figure", "", "timeline");
    this.figure.tabIndex = 0;
    this.figure.ariaLabel = `Timeline of ${this.curves.map((c) => c.name).join(", ")}. Left and right arrows read it.`;
    this.figure.setAttribute("role", "group");
    this.figure.append(this.readout, this.panel(this.curves.filter((c) => !c.second), blind));
    if (this.curves.some((c) => c.second)) this.figure.append(this.panel(this.curves.filter((c) => c.second), blind));
    this.figure.append(...this.lanes(d), this.times());
    this.figure.addEventListener("pointermove", (e) => {
      const box = this.cursors[0].parentElement.getBoundingClientRect();
      this.read(Math.floor((e.clientX - box.left) / box.width * this.slots));
    });
    this.figure.addEventListener("pointerleave", () => this.read(-1));
    this.figure.addEventListener("keydown", (e) => {
      const step = {ArrowLeft: -1, ArrowRight: 1}[e.key];
      if (!step) return;
      e.preventDefault();
      this.read(Math.min(this.slots - 1, Math.max(0, (this.at < 0 ? this.slots : this.at) + step)));
    });
    this.read(this.at);
    return this.figure;
  }

  // The left method returns the horizontal position of a time, as a percentage of the width.
  left(seconds) { return Math.min(100, Math.max(0, (seconds - this.from) / (this.past.slot * this.slots) * 100)); }

  row(before, after, className) {
    const out = node("div", "", `axes ${className}`);
    const plot = node("div", "", "plot");
    const cursor = node("i", "", "cursor");
    this.cursors.push(cursor);
    plot.append(cursor);
    out.append(before, plot, after);
    return {out, plot};
  }

  panel(curves, blind) {
    const axis = (c) => {
      const out = node("div", "", "axis");
      out.append(...(c ? [c.top, c.top / 2, 0].map((v) => node("span", c.format(v))) : []));
      return out;
    };
    const {out, plot} = this.row(axis(curves.find((c) => !c.right)), axis(curves.find((c) => c.right)), "panel");
    const image = svg("svg");
    image.setAttribute("viewBox", `0 0 ${this.slots} 20`);
    image.setAttribute("preserveAspectRatio", "none");
    image.setAttribute("aria-hidden", "true");
    const draw = (className, path) => {
      const e = svg("path");
      e.setAttribute("class", className);
      e.setAttribute("d", path);
      image.append(e);
    };
    draw("blind", bars(blind.map((b) => b ? 1 : null)));
    draw("grid", [0, 5, 10, 15].map((y) => `M0 ${y}H${this.slots}`).join("") + [0.25, 0.5, 0.75].map((x) => `M${x * this.slots} 0V20`).join(""));
    for (const c of curves.toSorted((a, b) => (b.bars ?? false) - (a.bars ?? false))) {
      const share = c.values.map((v) => v === null ? null : v / c.top);
      draw(c.className + (c.bars ? " bars" : ""), c.bars ? bars(share) : trace(share.length, (x) => share[x] ?? NaN));
    }
    // Draw the points of curves in the middle of their slots.
    for (const path of image.querySelectorAll("path:not(.grid, .blind, .bars)")) path.setAttribute("transform", "translate(.5 0)");
    plot.prepend(image);
    const legend = node("p", "", "keys");
    legend.append(...curves.flatMap((c) => [node("i", "", c.className + (c.bars ? " bars" : "")), node("span", c.name)]),
      ...(blind.some(Boolean) ? [node("i", "", "blind"), node("span", "not observed")] : []));
    const both = node("div");
    both.append(legend, out);
    return both;
  }

  // The lanes method returns the lanes that show XID codes, driver restarts, exporter outages, and
  // the containers that held the device.
  lanes(d) {
    const xids = Map.groupBy(this.past.xids, (x) => `${x.code} ${Math.floor(this.left(x.at))}`);
    const out = [
      ...this.marks("XID", [...xids.values()].map((same) => {
        const [{code, at}] = same;
        const times = same.reduce((n, x) => n + x.count, 0);
        return {at, text: String(code), room: 5, title: `XID ${code}${times > 1 ? ` ×${times}` : ""} by ${clock(same.at(-1).at)}: ${d.xidText(code).meaning}`};
      })),
      ...this.marks("Restart", this.past.restarts.map((r) => ({
        at: r.by, text: "driver", room: 9,
        title: `The energy counter restarted between ${clock(r.after)} and ${clock(r.by)}: the driver was loaded, or the GPU reset.`,
      }))),
    ];
    const down = Map.groupBy(this.past.outages, (o) => o.url);
    for (const [i, [url, times]] of [...down].entries()) {
      const {out: lane, plot} = this.row(node("div", i ? "" : "Exporter", "axis"), node("div"), "lane down");
      for (const o of times) plot.append(this.bar(o.from, o.to || this.past.end));
      const last = times.at(-1);
      const text = `${times.length > 1 ? `${times.length} times without an answer, last` : "no answer"} ${clock(last.from)}${last.to ? ` to ${clock(last.to)}` : ", still"}`;
      plot.append(node("span", down.size > 1 ? `${text} · ${url}` : text));
      plot.title = url;
      out.push(lane);
    }
    const held = [...Map.groupBy(this.past.holders, holderName)];
    for (const [i, [name, spans]] of held.slice(-maxLanes).entries()) {
      const {out: lane, plot} = this.row(node("div", i ? "" : "Held by", "axis"), node("div"), "lane holder");
      for (const span of spans) plot.append(this.bar(span.from, span.to));
      const [first, last] = [Math.min(...spans.map((s) => s.from)), Math.max(...spans.map((s) => s.to))];
      plot.append(node("span", `${name} · ${first <= this.from ? "before" : "from"} ${clock(Math.max(first, this.from))}${last >= this.past.end ? "" : ` to ${clock(last)}`}`));
      out.push(lane);
    }
    if (held.length > maxLanes) out.push(node("p", `${held.length - maxLanes} further containers held it before.`, "none"));
    return out;
  }

  // The bar method returns an element that shows a time span as a bar.
  bar(from, to) {
    const out = node("s");
    out.style.left = `${this.left(from)}%`;
    out.style.width = `${Math.max(0.5, this.left(to) - this.left(from))}%`;
    return out;
  }

  // The marks method returns a lane that shows events, or nothing if there are no events. If a
  // label does not fit, it is shown only in the tooltip. Widths are percentages.
  marks(name, all) {
    if (!all.length) return [];
    const {out, plot} = this.row(node("div", name, "axis"), node("div"), "lane");
    let free = -1;
    for (const {at, text, room, title} of all) {
      const left = Math.min(this.left(at), 101 - room);
      const mark = node("b", left > free ? text : "");
      if (left > free) free = left + room;
      mark.style.left = `${left}%`;
      mark.title = title;
      plot.append(mark);
    }
    return [out];
  }

  times() {
    const {out, plot} = this.row(node("div"), node("div"), "times");
    const seconds = this.past.end - this.from;
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      const label = node("span", clock(this.from + part * seconds).slice(0, seconds < 1200 ? undefined : 5));
      label.style.left = `${part * 100}%`;
      plot.append(label);
    }
    return out;
  }

  // The read method shows the values in the slot with the given index.
  read(at) {
    this.at = at >= 0 && at < this.slots ? at : -1;
    for (const c of this.cursors) {
      c.hidden = this.at < 0;
      c.style.left = `${(this.at + 0.5) / this.slots * 100}%`;
    }
    const {past} = this;
    const [begin, end] = [this.from + past.slot * this.at, this.from + past.slot * (this.at + 1)];
    const came = [...past.xids.filter((x) => x.at > begin && x.at <= end).map((x) => `XID ${x.code}`),
      ...past.restarts.filter((r) => r.by > begin && r.by <= end).map(() => "the driver restarted"),
      ...past.outages.filter((o) => o.from <= end && (o.to || past.end) > begin).map((o) => `${o.url} gave no samples`)];
    this.readout.textContent = this.at < 0
      ? `${duration(past.slot * this.slots)} up to ${clock(past.end)}, for each ${duration(past.slot)} the highest window. The pointer or the arrow keys read it.`
      : `${clock(end)}: ` + [(this.curves.filter((c) => (c.values[this.at] ?? null) !== null)
        .map((c) => `${c.name} ${c.format(c.values[this.at])}`).join(", ") || "not observed"), ...came].join("; ");
  }
}

// The bars function returns an SVG path with one bar per slot. Values are between 0 and 1.
function bars(values) {
  return values.map((v, x) => v ? `M${x} 20V${(20 - v * 20).toFixed(2)}H${x + 1}V20Z` : "").join("");
}

// To determine the end of an axis, the round function returns a round number that is not less than
// the given maximum.
function round(v) {
  const step = 10 ** Math.floor(Math.log10(Math.max(v, 1)));
  return [1, 1.5, 2, 3, 4, 5, 7.5, 10].map((n) => n * step).find((n) => n >= v);
}
