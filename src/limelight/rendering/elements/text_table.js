// <limelight-texts>: a table of any number of texts. Only the visible rows are in the document.
//
//   table.columns = [{name, label, render(i), value(i), descending}, …]   how to show and to sort row i
//   table.order = [i, …]                                                    the rows, filtered and sorted
//   table.chosen = i                                                        the open row, or null
//
// Sends "limelight-sort" with {column} and "limelight-text" with {position}. The arrow
// keys, Page Up and Down, Home and End move between rows, and Enter opens one. The role "grid" lets
// a row have the focus and be selected, and tells a screen reader the number of each row.

import { defineElement, makeElement } from "./nodes.js";

const HEIGHT = 36; // pixels of a row
const EXTRA_ROWS = 8; // beyond each edge

/** Sort `rows` by their values. Missing values (null) come last. */
export function sortRows(rows, value, descending) {
  const values = new Map(rows.map((i) => [i, value(i)])), sign = descending ? -1 : 1;
  const compare = (x, y) => (typeof x === "string" ? x.localeCompare(y) : x - y);
  return [...rows].sort((a, b) => {
    const x = values.get(a), y = values.get(b);
    if (x === null || y === null) return Number(x === null) - Number(y === null) || a - b;
    return sign * compare(x, y) || a - b;
  });
}

/** Return a plain table. The first cell of a row is its heading, and a cell may be a node. */
export function makeTable(heads, rows, caption = null) {
  const makeCell = (content) => (content instanceof Node ? content : makeElement("td", {}, content));
  return makeElement("table", { class: "numbers" }, caption === null ? null : makeElement("caption", {}, caption),
    makeElement("thead", {}, makeElement("tr", {}, ...heads.map((name) => makeElement("th", { scope: "col" }, name)))),
    makeElement("tbody", {}, ...rows.map(([name, ...cells]) => makeElement("tr", {}, makeElement("th", { scope: "row" }, name), ...cells.map(makeCell)))));
}

export class TextTable extends HTMLElement {
  #columns = [];
  #order = [];
  #chosen = null;
  #sorted = { column: 0, descending: false };
  #current = 0; // position of the row that has the focus
  #drawnRows = "";
  #isScheduled = false;
  #window = makeElement("div", { class: "texts-window", tabindex: -1 });
  #head = makeElement("thead");
  #body = makeElement("tbody");
  #table = makeElement("table", { role: "grid", "aria-label": "Texts" });

  connectedCallback() {
    this.#table.append(this.#head, this.#body);
    this.#window.append(this.#table);
    this.replaceChildren(this.#window);
    this.#window.addEventListener("scroll", () => this.#scheduleDraw(), { passive: true });
    this.#body.addEventListener("click", (event) => this.#open(event.target.closest("tr[data-position]")));
    this.#body.addEventListener("keydown", (event) => this.#moveByKey(event));
    new ResizeObserver(() => this.#scheduleDraw()).observe(this.#window);
  }

  set columns(columns) { this.#columns = columns; this.#showHead(); }
  get order() { return this.#order; }
  set order(order) {
    this.#order = order;
    this.#current = Math.max(0, order.indexOf(this.#chosen));
    this.#table.setAttribute("aria-rowcount", String(order.length + 1));
    this.#window.style.setProperty("--all", `${(order.length + 1) * HEIGHT + 2}px`); // not taller than its rows
    this.#drawnRows = "";
    this.#draw();
  }
  set chosen(i) { this.#chosen = i; this.#drawnRows = ""; this.#draw(); }
  set sorted(sorted) { this.#sorted = sorted; this.#showHead(); }

  /** Scroll to the top. */
  toTop() { this.#window.scrollTop = 0; }
  /** Scroll to a row, if the table shows it. */
  reveal(i) {
    const position = this.#order.indexOf(i);
    if (position < 0) return;
    this.#current = position;
    this.#scrollTo(position);
    this.#draw();
  }

  #showHead() {
    const focused = [...this.#head.querySelectorAll("button")].indexOf(document.activeElement);
    const cells = this.#columns.map(({ label }, c) => {
      const isSorted = c === this.#sorted.column, { descending } = this.#sorted;
      const button = makeElement("button", { type: "button" }, `${label}${isSorted ? (descending ? " ↓" : " ↑") : ""}`);
      button.addEventListener("click", () => this.dispatchEvent(new CustomEvent("limelight-sort", { detail: { column: c } })));
      return makeElement("th", { scope: "col", "aria-sort": isSorted ? (descending ? "descending" : "ascending") : null }, button);
    });
    this.#head.replaceChildren(makeElement("tr", { "aria-rowindex": 1 }, ...cells));
    if (focused >= 0) this.#head.querySelectorAll("button")[focused]?.focus();
  }

  #scheduleDraw() {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    requestAnimationFrame(() => { this.#isScheduled = false; this.#draw(); });
  }

  #draw() {
    const visible = Math.ceil((this.#window.clientHeight || 400) / HEIGHT), top = Math.floor(this.#window.scrollTop / HEIGHT);
    const first = Math.max(0, Math.min(top - EXTRA_ROWS, this.#order.length - visible)), last = Math.min(this.#order.length, top + visible + EXTRA_ROWS);
    const rowRange = `${first} ${last}`;
    if (rowRange === this.#drawnRows) return;
    this.#drawnRows = rowRange;
    const focused = this.#body.contains(document.activeElement);
    const rows = this.#order.slice(first, last).map((i, k) => this.#makeRow(i, first + k));
    const gap = (count) => (count > 0 ? [makeElement("tr", { class: "gap", "aria-hidden": "true" }, makeElement("td", { class: "gap", colspan: this.#columns.length }))] : []);
    const [above, below] = [gap(first), gap(this.#order.length - last)];
    if (above.length) above[0].style.height = above[0].firstChild.style.height = `${first * HEIGHT}px`;
    if (below.length) below[0].style.height = below[0].firstChild.style.height = `${(this.#order.length - last) * HEIGHT}px`;
    this.#body.replaceChildren(...above, ...rows, ...below);
    if (focused) this.#body.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
  }

  #makeRow(i, position) {
    const [first, ...contents] = this.#columns.map(({ render }) => render(i));
    const cells = contents.map((content) => (content instanceof Node ? content : makeElement("td", {}, content)));
    return makeElement("tr", { "data-position": i, "aria-rowindex": position + 2, tabindex: position === this.#current ? 0 : -1, "aria-selected": String(i === this.#chosen) },
      makeElement("th", { scope: "row" }, ...(Array.isArray(first) ? first : [first])), ...cells);
  }

  #open(row) {
    if (!row) return;
    this.#current = Number(row.getAttribute("aria-rowindex")) - 2;
    this.dispatchEvent(new CustomEvent("limelight-text", { detail: { position: Number(row.dataset.position) } }));
  }

  #moveByKey(event) {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.#open(event.target.closest("tr[data-position]")); return; }
    const page = Math.max(1, Math.floor(this.#window.clientHeight / HEIGHT) - 2), last = this.#order.length - 1;
    const target = { ArrowDown: this.#current + 1, ArrowUp: this.#current - 1, PageDown: this.#current + page, PageUp: this.#current - page, Home: 0, End: last }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.#current = Math.max(0, Math.min(last, target));
    this.#scrollTo(this.#current);
    this.#drawnRows = "";
    this.#draw();
  }

  #scrollTo(position) {
    const top = position * HEIGHT, height = this.#window.clientHeight - 2 * HEIGHT;
    if (top < this.#window.scrollTop) this.#window.scrollTop = top;
    if (top > this.#window.scrollTop + height) this.#window.scrollTop = top - height;
  }
}
defineElement("limelight-texts", TextTable);
