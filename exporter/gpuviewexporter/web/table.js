// This module draws the table. Only visible rows are in the DOM, and all rows have the same height,
// so drawing a table of five thousand devices takes no longer than drawing a table of thirty
// devices.
import {clock, columns, holderName, keys, percent, step, throttled, xidToDo, xidsNow} from "./signals.js";
import {level} from "./model.js";

const rowHeight = 46;
const headHeight = 38;
// On narrow screens, there is no node column, and the device cell includes the node.
const narrow = matchMedia("(max-width: 620px)");
// The number of additional rows above and below the visible rows, so that users do not see blank
// space while they scroll.
const margin = 3;
// This style sheet contains the CSS rules that hide columns.
const hidden = new CSSStyleSheet();
document.adoptedStyleSheets.push(hidden);

const element = (tag, className = "", text = "") => {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text) e.textContent = text;
  return e;
};
export const svg = (tag) => document.createElementNS("http://www.w3.org/2000/svg", tag);

export class Table {
  rows = [];
  active = -1;
  pool = [];
  order = columns;
  sortedBy = "";

  constructor(model, {onSort, onOpen, onExplain}) {
    this.model = model;
    this.scroller = document.getElementById("scroller");
    this.grid = document.getElementById("grid");
    this.body = document.getElementById("body");
    this.above = this.space();
    this.below = this.space();
    this.onOpen = onOpen;
    this.head(onSort, onExplain);
    this.scroller.addEventListener("scroll", () => this.draw(), {passive: true});
    narrow.addEventListener("change", () => { this.arrange(); this.draw(); });
    new ResizeObserver(() => requestAnimationFrame(() => this.draw())).observe(this.scroller);
    this.grid.addEventListener("keydown", (e) => this.press(e));
    this.body.addEventListener("click", (e) => {
      const at = e.target.closest("tr.row")?.index;
      if (at !== undefined) {
        this.choose(at);
        this.onOpen(this.rows[at]);
      }
    });
  }

  head(onSort, onExplain) {
    const [cols, head] = [document.getElementById("columns"), document.getElementById("head")];
    for (const [i, c] of columns.entries()) {
      const col = element("col");
      col.style.width = `${c.width}px`;
      col.dataset.column = c.id;
      cols.append(col);
      const th = element("th", c.text ? "text" : "");
      th.scope = "col";
      th.ariaColIndex = i + 1;
      th.dataset.column = c.id;
      const button = element("button", "", c.label);
      button.type = "button";
      button.setAttribute("aria-description", c.explain);
      button.addEventListener("click", () => onSort(c));
      for (const type of ["mouseenter", "focus"]) button.addEventListener(type, () => onExplain(c));
      for (const type of ["mouseleave", "blur"]) button.addEventListener(type, () => onExplain(null));
      th.append(button);
      head.append(th);
    }
    this.grid.ariaColCount = columns.length;
    this.fit();
  }

  // The fit method hides optional columns that have no values.
  fit() {
    const shown = columns.filter((c) => !c.optional || this.model.used.has(c.id));
    const width = `${shown.reduce((sum, c) => sum + c.width, 0)}px`;
    if (this.grid.style.minWidth === width) return;
    this.grid.style.minWidth = width;
    hidden.replaceSync(columns.filter((c) => !shown.includes(c)).map((c) => `#grid [data-column="${c.id}"] { display: none; }`).join("\n"));
  }

  space() {
    const tr = element("tr", "space");
    tr.setAttribute("aria-hidden", "true");
    const td = element("td");
    tr.append(td);
    this.body.append(tr);
    return td;
  }

  // The sorted method marks the column that the table is sorted by.
  sorted(id, descending) {
    for (const th of document.getElementById("head").children) {
      if (th.dataset.column === id) th.ariaSort = descending ? "descending" : "ascending";
      else th.removeAttribute("aria-sort");
    }
    this.sortedBy = id;
    this.arrange();
  }

  // On narrow screens, the arrange method moves the sorted column next to the device column.
  arrange() {
    const first = narrow.matches && columns.find((c, i) => i > 0 && c.id === this.sortedBy);
    const order = first ? [columns[0], first, ...columns.slice(1).filter((c) => c !== first)] : columns;
    if (order.every((c, i) => c === this.order[i])) return;
    this.order = order;
    for (const of of [document.getElementById("columns"), document.getElementById("head"), ...this.pool.map((r) => r.tr)]) this.place(of);
  }

  // The place method arranges the cells of a row in the order of the columns.
  place(row) {
    const cells = new Map([...row.children].map((e) => [e.dataset.column, e]));
    row.append(...this.order.map((c) => cells.get(c.id)));
    if (row.tagName === "TR") for (const [i, e] of [...row.children].entries()) e.ariaColIndex = i + 1;
  }

  // The show method displays the given rows. A selected device stays selected at its new position.
  show(rows) {
    const chosen = this.rows[this.active];
    this.rows = rows;
    this.active = chosen ? rows.indexOf(chosen) : -1;
    this.grid.ariaRowCount = rows.length + 1;
    this.fit();
    this.draw();
  }

  draw() {
    const height = this.scroller.clientHeight;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / rowHeight) - margin);
    const last = Math.min(this.rows.length, Math.ceil((this.scroller.scrollTop + height) / rowHeight) + margin);
    const count = Math.max(0, last - first);
    while (this.pool.length < count) {
      const row = new Row(this.pool.length);
      if (this.order !== columns) this.place(row.tr);
      this.pool.push(row);
      this.below.parentElement.before(row.tr);
    }
    this.pool.forEach((row, i) => {
      row.tr.hidden = i >= count;
      if (i < count) row.show(this.model, this.rows[first + i], first + i, first + i === this.active);
    });
    this.above.style.height = `${first * rowHeight}px`;
    this.below.style.height = `${Math.max(0, this.rows.length - last) * rowHeight}px`;
    const row = this.pool.find((r) => !r.tr.hidden && r.tr.index === this.active);
    if (row) this.grid.setAttribute("aria-activedescendant", row.tr.id);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  choose(at) {
    this.active = Math.max(0, Math.min(this.rows.length - 1, at));
    const from = this.active * rowHeight;
    const room = this.scroller.clientHeight - headHeight - rowHeight;
    if (from < this.scroller.scrollTop) this.scroller.scrollTop = from;
    else if (from > this.scroller.scrollTop + room) this.scroller.scrollTop = from - room;
    this.draw();
  }

  press(e) {
    if (e.target !== this.grid || e.altKey || e.ctrlKey || e.metaKey || !this.rows.length) return;
    const page = Math.max(1, Math.floor((this.scroller.clientHeight - headHeight) / rowHeight) - 1);
    const to = {ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page, PageUp: this.active - page, Home: 0, End: this.rows.length - 1}[e.key];
    if (to !== undefined) this.choose(to);
    else if ((e.key === "Enter" || e.key === " ") && this.active >= 0) this.onOpen(this.rows[this.active]);
    else if (e.key === "ArrowRight" || e.key === "ArrowLeft") this.scroller.scrollLeft += e.key === "ArrowRight" ? 90 : -90;
    else return;
    e.preventDefault();
  }
}

class Row {
  constructor(i) {
    this.tr = element("tr", "row");
    this.tr.id = `row-${i}`;
    this.cells = columns.map((c, at) => {
      const cell = new Cell(c);
      cell.td.ariaColIndex = at + 1;
      this.tr.append(cell.td);
      return cell;
    });
  }

  show(model, d, index, active) {
    this.tr.index = index;
    this.tr.ariaRowIndex = index + 2;
    this.tr.dataset.device = d.id;
    const name = `row${active ? " active" : ""}${d.board ? " mig" : ""}${d.lost ? " lost" : ""}`;
    if (this.tr.className !== name) this.tr.className = name;
    this.tr.ariaSelected = active;
    for (const cell of this.cells) cell.show(model, d);
  }
}

class Cell {
  constructor(column) {
    this.column = column;
    this.td = element("td", column.text ? "text" : "");
    this.td.dataset.column = column.id;
    this.main = element("span", "main");
    this.sub = element("span", "sub");
    const pair = element("div", column.curve === undefined ? "" : "pair");
    if (column.curve !== undefined) {
      this.svg = svg("svg");
      this.svg.setAttribute("viewBox", "0 0 59 20");
      this.svg.setAttribute("preserveAspectRatio", "none");
      this.svg.setAttribute("aria-hidden", "true");
      if (column.scale === "s") this.svg.classList.add("sat");
      this.path = svg("path");
      const base = svg("line");
      for (const [k, v] of [["x1", 0], ["x2", 59], ["y1", 20], ["y2", 20]]) base.setAttribute(k, v);
      this.svg.append(base, this.path);
      const text = element("div", column.sub ? "num wide" : "num");
      text.append(this.main);
      pair.append(this.svg, text);
    } else {
      pair.append(this.main);
    }
    // In a column without a second line, the number is centered vertically.
    if (column.sub || column.text) this.main.after(this.sub);
    this.td.append(pair);
  }

  show(model, d) {
    const c = this.column;
    const {main, sub, tags = [], title = "", aside = "", missing = false} = (texts[c.id] ?? number)(model, d, c);
    const value = c.value ? c.value(d) : NaN;
    const name = [c.text ? "text" : "", missing ? "none" : step(c, d, value)].join(" ").trim();
    if (this.td.className !== name) this.td.className = name;
    if (this.td.title !== title) this.td.title = title;
    const spoken = missing ? `not observed: ${title}` : "";
    const state = `${main}\n${sub}\n${tags.join("\n")}\n${spoken}\n${aside}`;
    if (state !== this.state) {
      this.state = state;
      this.main.replaceChildren(missing ? dash(spoken) : main, ...tags.map((t) => element("span", "tag", t)));
      if (aside) this.main.append(element("span", "vh", ` ${aside}`));
      this.sub.textContent = sub;
      this.sub.hidden = missing;
    }
    if (this.path) {
      const curve = d.curves[c.curve];
      const line = trace(curve.length, (x) => level(curve[x]));
      const box = `${Math.min(curve.length - model.curvePoints, curve.length - 2)} 0 ${Math.max(1, model.curvePoints - 1)} 20`;
      if (box !== this.box) this.svg.setAttribute("viewBox", this.box = box);
      if (line !== this.line) this.path.setAttribute("d", this.line = line);
    }
  }
}

function dash(spoken) {
  const out = document.createDocumentFragment();
  const mark = element("span", "", "–");
  mark.setAttribute("aria-hidden", "true");
  out.append(mark, element("span", "vh", spoken));
  return out;
}

// The trace function returns an SVG path for a curve of n values between 0 and 1, with a height of
// 20. The curve has gaps where nothing was observed.
export function trace(n, value) {
  let out = "";
  let pen = false;
  for (let x = 0; x < n; x++) {
    const v = value(x);
    if (Number.isNaN(v)) {
      pen = false;
      continue;
    }
    const y = (19.3 - v * 18.6).toFixed(1);
    // Draw a single point as a short line, because a path that contains only a point would be
    // invisible.
    out += pen ? `L${x} ${y}` : `M${x} ${y}h.01`;
    pen = true;
  }
  return out;
}

function number(model, d, c) {
  const v = c.value(d);
  if (Number.isNaN(v)) return {main: "", sub: "", missing: true, title: d.why(c.kind).text};
  return {main: c.main ? c.main(d) : c.format(v), sub: c.sub ? c.sub(d) : "", title: titles[c.id]?.(d) ?? (c.max ? highest(d, c.max) : ""), aside: c.aside?.(d)};
}

const titles = {
  utilization: (d) => highest(d, keys.utilizationMax),
  memory: (d) => highest(d, keys.memoryMax),
  throttle: (d) => throttled(d).sampled ? "Share of samples: the exporter has no exact counter for this reason." : "",
  xid: (d) => xidsNow(d).map((x) => `${xidToDo(d, x)}\n${d.xidText(x.code).meaning}`).join("\n"),
};
const highest = (d, name) => Number.isNaN(d.get(name)) ? "" : `highest sample ${percent(d.get(name))}`;

const sharing = new Map([["time_slicing", "time-sliced"], ["mps", "MPS"], ["dra_shared", "DRA shared"], ["mig", "MIG"]]);

// The text cells.
const texts = {
  device: (model, d) => {
    const seen = d.lost ? `until ${clock(d.lost.last)}` : "";
    return d.board || d.parent
      ? {main: d.profile || d.id.split("/").pop(), sub: seen || `${d.name || ""} ${d.id.split("/").pop()}`.trim(), title: d.id}
      : {main: d.name || d.id, sub: narrow.matches ? d.node : seen || d.model, title: `${d.id}\n${d.model}`, tags: d.instances ? [`${d.instances.length} MIG`] : []};
  },
  node: (model, d) => ({main: d.node, sub: d.cluster, title: d.node}),
  holders: (model, d) => {
    const reserved = d.reserved.map((r) => `${r.namespace}/${r.pod} (claim ${r.name}): reserved, not running`);
    if (!d.holders.length && reserved.length) {
      const [r] = d.reserved;
      return {
        main: r.pod, tags: ["reserved"], title: reserved.join("\n"),
        sub: [r.namespace, r.name, reserved.length > 1 && `+${reserved.length - 1} more`].filter(Boolean).join(" · "),
      };
    }
    if (!d.holders.length) return {main: "", sub: "", missing: true, title: d.why("holders").text};
    const [h] = d.holders;
    const tags = sharing.has(h.sharing) ? [sharing.get(h.sharing)] : [];
    if (h.claim) tags.push("claim");
    if (reserved.length) tags.push(`${reserved.length} reserved`);
    return {
      main: h.pod || h.container, tags,
      sub: [h.namespace, h.pod && h.container, d.holders.length > 1 && `+${d.holders.length - 1} more`].filter(Boolean).join(" · "),
      title: [...d.holders.map((o) => `${holderName(o)}${o.claim ? ` (claim ${o.claim})` : ""}`), ...reserved].join("\n"),
    };
  },
};
