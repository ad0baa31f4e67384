// <limelight-texts>: a table of any number of texts, of which only the visible rows are in the page.
//
//   table.columns = [{name, label, shown(i), value(i), falling}, …]    how to show and to sort row i
//   table.order = [i, …]                                               the rows, filtered and sorted
//   table.chosen = i                                                   the row that is open, or null
//
// Sends "limelight-sort" with {column} and "limelight-text" with {place}. Rows are walked with the
// arrow keys, Page Up and Down, Home and End, and opened with Enter; a screen reader hears of all of
// them by their numbers. Hence a grid, in which a row may have the focus and be selected.

import { defineElement, makeElement } from "./nodes.js";

const HEIGHT = 36, MORE = 8; // pixels of a row; rows beyond the edges

/** `rows` by their values, the other way round if `falling`; what is missing (null) comes last. */
export function sortRows(rows, value, falling) {
  const values = new Map(rows.map((i) => [i, value(i)])), sign = falling ? -1 : 1;
  const compared = (x, y) => (typeof x === "string" ? x.localeCompare(y) : x - y);
  return [...rows].sort((a, b) => {
    const x = values.get(a), y = values.get(b);
    if (x === null || y === null) return Number(x === null) - Number(y === null) || a - b;
    return sign * compared(x, y) || a - b;
  });
}

/** A plain table; the first cell of a row names it, and a cell may be a node. */
export function makeTable(heads, rows, caption = null) {
  const cell = (shown) => (shown instanceof Node ? shown : makeElement("td", {}, shown));
  return makeElement("table", { class: "numbers" }, caption === null ? null : makeElement("caption", {}, caption),
    makeElement("thead", {}, makeElement("tr", {}, ...heads.map((name) => makeElement("th", { scope: "col" }, name)))),
    makeElement("tbody", {}, ...rows.map(([name, ...others]) => makeElement("tr", {}, makeElement("th", { scope: "row" }, name), ...others.map(cell)))));
}

export class TextTable extends HTMLElement {
  #columns = [];
  #order = [];
  #chosen = null;
  #sorted = { column: 0, falling: false };
  #here = 0; // the row that the keyboard is on
  #drawn = "";
  #waiting = false;
  #window = makeElement("div", { class: "texts-window", tabindex: -1 });
  #head = makeElement("thead");
  #body = makeElement("tbody");
  #table = makeElement("table", { role: "grid", "aria-label": "Texts" });

  connectedCallback() {
    this.#table.append(this.#head, this.#body);
    this.#window.append(this.#table);
    this.replaceChildren(this.#window);
    this.#window.addEventListener("scroll", () => this.#soon(), { passive: true });
    this.#body.addEventListener("click", (event) => this.#open(event.target.closest("tr[data-place]")));
    this.#body.addEventListener("keydown", (event) => this.#walked(event));
    new ResizeObserver(() => this.#soon()).observe(this.#window);
  }

  set columns(columns) { this.#columns = columns; this.#layHead(); }
  get order() { return this.#order; }
  set order(order) {
    this.#order = order;
    this.#here = Math.max(0, order.indexOf(this.#chosen));
    this.#table.setAttribute("aria-rowcount", String(order.length + 1));
    this.#window.style.setProperty("--all", `${(order.length + 1) * HEIGHT + 2}px`); // no taller than its rows
    this.#drawn = "";
    this.#draw();
  }
  set chosen(i) { this.#chosen = i; this.#drawn = ""; this.#draw(); }
  set sorted(sorted) { this.#sorted = sorted; this.#layHead(); }

  /** Scroll to the top. */
  toTop() { this.#window.scrollTop = 0; }
  /** Scroll to the row of a text, if it is among those that are shown. */
  reveal(i) {
    const place = this.#order.indexOf(i);
    if (place < 0) return;
    this.#here = place;
    this.#into(place);
    this.#draw();
  }

  #layHead() {
    const focused = [...this.#head.querySelectorAll("button")].indexOf(document.activeElement);
    const cells = this.#columns.map(({ label }, c) => {
      const own = c === this.#sorted.column, falling = this.#sorted.falling;
      const button = makeElement("button", { type: "button" }, `${label}${own ? (falling ? " ↓" : " ↑") : ""}`);
      button.addEventListener("click", () => this.dispatchEvent(new CustomEvent("limelight-sort", { detail: { column: c } })));
      return makeElement("th", { scope: "col", "aria-sort": own ? (falling ? "descending" : "ascending") : null }, button);
    });
    this.#head.replaceChildren(makeElement("tr", { "aria-rowindex": 1 }, ...cells));
    if (focused >= 0) this.#head.querySelectorAll("button")[focused]?.focus();
  }

  #soon() {
    if (this.#waiting) return;
    this.#waiting = true;
    requestAnimationFrame(() => { this.#waiting = false; this.#draw(); });
  }

  #draw() {
    const seen = Math.ceil((this.#window.clientHeight || 400) / HEIGHT), top = Math.floor(this.#window.scrollTop / HEIGHT);
    const first = Math.max(0, Math.min(top - MORE, this.#order.length - seen)), last = Math.min(this.#order.length, top + seen + MORE);
    const drawn = `${first} ${last}`;
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    const focused = this.#body.contains(document.activeElement);
    const rows = this.#order.slice(first, last).map((i, k) => this.#row(i, first + k));
    const gap = (count) => (count > 0 ? [makeElement("tr", { class: "gap", "aria-hidden": "true" }, makeElement("td", { class: "gap", colspan: this.#columns.length }))] : []);
    const [above, below] = [gap(first), gap(this.#order.length - last)];
    if (above.length) above[0].style.height = above[0].firstChild.style.height = `${first * HEIGHT}px`;
    if (below.length) below[0].style.height = below[0].firstChild.style.height = `${(this.#order.length - last) * HEIGHT}px`;
    this.#body.replaceChildren(...above, ...rows, ...below);
    if (focused) this.#body.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
  }

  #row(i, place) {
    const [first, ...others] = this.#columns.map(({ shown }) => shown(i));
    const cells = others.map((shown) => (shown instanceof Node ? shown : makeElement("td", {}, shown)));
    return makeElement("tr", { "data-place": i, "aria-rowindex": place + 2, tabindex: place === this.#here ? 0 : -1, "aria-selected": String(i === this.#chosen) },
      makeElement("th", { scope: "row" }, ...(Array.isArray(first) ? first : [first])), ...cells);
  }

  #open(row) {
    if (!row) return;
    this.#here = Number(row.getAttribute("aria-rowindex")) - 2;
    this.dispatchEvent(new CustomEvent("limelight-text", { detail: { place: Number(row.dataset.place) } }));
  }

  #walked(event) {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.#open(event.target.closest("tr[data-place]")); return; }
    const page = Math.max(1, Math.floor(this.#window.clientHeight / HEIGHT) - 2), last = this.#order.length - 1;
    const there = { ArrowDown: this.#here + 1, ArrowUp: this.#here - 1, PageDown: this.#here + page, PageUp: this.#here - page, Home: 0, End: last }[event.key];
    if (there === undefined) return;
    event.preventDefault();
    this.#here = Math.max(0, Math.min(last, there));
    this.#into(this.#here);
    this.#drawn = "";
    this.#draw();
  }

  #into(place) {
    const top = place * HEIGHT, height = this.#window.clientHeight - 2 * HEIGHT;
    if (top < this.#window.scrollTop) this.#window.scrollTop = top;
    if (top > this.#window.scrollTop + height) this.#window.scrollTop = top - height;
  }
}
defineElement("limelight-texts", TextTable);
