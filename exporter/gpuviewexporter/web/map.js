// This module draws the map of the fleet. The map has one line for each node and one cell for each
// board. The color of a cell depends on the board's value in the sorted column. Cells are hidden
// from screen readers, because the table and the button in each line contain the same information.
// Only visible lines are in the DOM.
import {columns, step} from "./signals.js";
import {$, node} from "./dom.js";

// If there are more boards than this number, the map is shown by default.
export const fleet = 64;
const throttle = columns.find((c) => c.id === "throttle");
const text = (column, {x, v}) => column.main?.(x) ?? column.format(v);

// The pitch constant is the height of a line, and the least constant is the minimum width of a line
// including the gap. Both of these constants must match the CSS. The margin constant is the number
// of additional lines that are drawn above and below the visible lines.
const pitch = 21;
const least = 244;
const margin = 3;

export class FleetMap {
  lines = new Map();
  places = [];
  width = 0;

  // If the user clicks a node, onNode is called with the name of the node. If the user clicks a
  // cell, onDevice is called with the board.
  constructor(model, {onNode, onDevice}) {
    this.model = model;
    this.onNode = onNode;
    this.scroller = $("map");
    this.body = $("lines");
    this.body.addEventListener("click", (e) => { if (e.target.device) onDevice(e.target.device); });
    this.scroller.addEventListener("scroll", () => this.draw(), {passive: true});
    new ResizeObserver(([e]) => { this.width = e.contentRect.width; requestAnimationFrame(() => this.draw()); }).observe(this.body);
  }

  // The show method gives each board that passes the filter a color that depends on the board's
  // value in a column. All other boards are pale.
  show(shown, sort) {
    this.column = columns.find((c) => c.id === sort && c.scale && c.value) ?? throttle;
    this.visible = new Set(shown);
    this.places = this.model.places;
    this.draw();
  }

  // The draw method updates the lines that are visible.
  draw() {
    if (this.scroller.hidden) return;
    const across = Math.max(1, Math.floor((this.width + 14) / least));
    const rows = Math.ceil(this.places.length / across);
    const from = Math.max(0, Math.min(rows, Math.floor(this.scroller.scrollTop / pitch)) - margin);
    const to = Math.min(rows, from + Math.ceil(innerHeight * 0.34 / pitch) + 2 * margin);
    this.body.style.paddingBlock = `${from * pitch}px ${(rows - to) * pitch}px`;
    const seen = this.places.slice(from * across, to * across).map((place) => [`${place[0].cluster}/${place[0].node}`, place]);
    const ids = new Set(seen.map(([id]) => id));
    for (const [id, line] of this.lines) {
      if (ids.has(id)) continue;
      line.row.remove();
      this.lines.delete(id);
    }
    for (const [i, [id, place]] of seen.entries()) {
      const line = this.lines.get(id) ?? this.line(id, place[0].node);
      if (this.body.children[i] !== line.row) this.body.insertBefore(line.row, this.body.children[i] ?? null);
      this.color(line, place.filter((d) => !d.board));
    }
  }

  // The color method sets the color and the title of each board on a node.
  color(line, boards) {
    const {column} = this;
    while (line.cells.childElementCount > boards.length) line.cells.lastChild.remove();
    while (line.cells.childElementCount < boards.length) line.cells.append(document.createElement("i"));
    let highest = null;
    for (const [i, d] of boards.entries()) {
      const cell = line.cells.children[i];
      const of = [d, ...d.instances ?? []].map((x) => ({x, v: column.value(x)})).filter(({v}) => !Number.isNaN(v)).sort((a, b) => b.v - a.v)[0];
      const name = !this.visible.has(d) ? "off" : d.lost ? "lost" : !of ? "none" : step(column, of.x, of.v);
      if (cell.className !== name) cell.className = name;
      const title = `${d.name || d.id}: ${of ? `${column.label} ${text(column, of)}` : "not observed"}`;
      if (cell.title !== title) cell.title = title;
      cell.device = d;
      if (of && !(highest?.v >= of.v)) highest = of;
    }
    const title = `${boards.length} board${boards.length === 1 ? "" : "s"}${highest ? `, ${column.label} up to ${text(column, highest)}` : ""}`;
    if (line.button.title !== title) line.button.title = title;
  }

  line(id, name) {
    const row = node("div");
    const button = node("button", name || "no node", "link");
    button.type = "button";
    button.addEventListener("click", () => this.onNode(name));
    const cells = node("span");
    cells.setAttribute("aria-hidden", "true");
    row.append(button, cells);
    const line = {row, button, cells};
    this.lines.set(id, line);
    return line;
  }
}
