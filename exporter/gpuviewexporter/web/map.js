// The map of a fleet: a line for each node, a cell for each board in it, coloured as the column that is
// sorted by. Cells are pictures: what a line says, its button and the table say too.
import {columns, step} from "./signals.js";
import {$, node} from "./dom.js";

// From so many boards on the map shows by itself.
export const fleet = 64;
const throttle = columns.find((c) => c.id === "throttle");
const text = (column, {x, v}) => column.main?.(x) ?? column.format(v);

export class FleetMap {
  lines = new Map();

  // onNode is called with a node's name, onDevice with a board.
  constructor(model, {onNode, onDevice}) {
    this.model = model;
    this.onNode = onNode;
    this.body = $("map");
    this.body.addEventListener("click", (e) => { if (e.target.device) onDevice(e.target.device); });
  }

  // show colours the boards among shown by a column; others are pale. A fleet takes several turns, so that
  // the page goes on between them.
  show(shown, sort) {
    const column = columns.find((c) => c.id === sort && c.scale && c.value) ?? throttle;
    clearTimeout(this.turn);
    this.take([...this.model.places ?? []], 0, column, new Set(shown), new Set());
  }

  take(places, next, column, visible, kept) {
    const until = performance.now() + 10;
    for (; next < places.length; next++) {
      if (performance.now() > until) {
        this.turn = setTimeout(() => this.take(places, next, column, visible, kept));
        return;
      }
      const place = places[next];
      const boards = place.filter((d) => !d.board);
      const id = `${place[0].cluster}/${place[0].node}`;
      kept.add(id);
      const line = this.lines.get(id) ?? this.line(id, place[0].node);
      while (line.cells.childElementCount > boards.length) line.cells.lastChild.remove();
      while (line.cells.childElementCount < boards.length) line.cells.append(document.createElement("i"));
      let highest = null;
      for (const [i, d] of boards.entries()) {
        const cell = line.cells.children[i];
        const of = [d, ...d.instances ?? []].map((x) => ({x, v: column.value(x)})).filter(({v}) => !Number.isNaN(v)).sort((a, b) => b.v - a.v)[0];
        const name = !visible.has(d) ? "off" : d.lost ? "lost" : !of ? "none" : step(column, of.x, of.v);
        if (cell.className !== name) cell.className = name;
        const said = `${d.name || d.id}: ${of ? `${column.label} ${text(column, of)}` : "not observed"}`;
        if (cell.title !== said) cell.title = said;
        cell.device = d;
        if (of && !(highest?.v >= of.v)) highest = of;
      }
      const said = `${boards.length} board${boards.length === 1 ? "" : "s"}${highest ? `, ${column.label} up to ${text(column, highest)}` : ""}`;
      if (line.button.title !== said) line.button.title = said;
    }
    for (const [id, line] of this.lines) {
      if (kept.has(id)) continue;
      line.row.remove();
      this.lines.delete(id);
    }
  }

  line(id, name) {
    const row = node("div");
    const button = node("button", name || "no node", "link");
    button.type = "button";
    button.addEventListener("click", () => this.onNode(name));
    const cells = node("span");
    cells.setAttribute("aria-hidden", "true");
    row.append(button, cells);
    this.body.append(row);
    const line = {row, button, cells};
    this.lines.set(id, line);
    return line;
  }
}
