// <limelight-curve>: the model's output while words are removed, from chance to ceiling.
//
//   curve.lines = [{label, kind, points: [[share removed, output], …]}, …]
//   curve.words = n           how many words there are to remove
//   curve.at = k              how many are removed where the cursor stands
//
// `kind` is "method" (solid, one hue each), "chance" (dashed) or "ceiling" (dotted; what lies below
// it no order reaches); a method keeps its `hue`, a number, where others are left out. A pointer or
// the arrow keys move a cursor; what it reads is said as text, and "limelight-step" is sent with
// {removed}.

import { defineElement, makeSvg, makeElement } from "./nodes.js";
import { formatNumber } from "./numbers_in_words.js";
import { HUES } from "./shades.js";

const DASHES = { chance: "6 4", ceiling: "1.5 3" };
const MORE_DASHES = [null, "5 3", "1.5 2.5", "8 3 2 3"]; // when all hues are taken
const NARROWEST = 240, WIDEST = 1000, HEIGHT = 300, LEFT = 58, RIGHT = 14, TOP = 12, BOTTOM = 36;
const EVENTS = ["pointerdown", "pointermove", "keydown"];
const LINE = 14; // what a line of an axis's numbers takes

/** The stroke of method number `m`: a hue, and dashes when all hues are taken. */
export function methodStroke(m) {
  return { stroke: HUES[m % HUES.length], "stroke-dasharray": MORE_DASHES[Math.floor(m / HUES.length) % MORE_DASHES.length] };
}

// The value of a line at x, between its points.
function valueAt(points, x) {
  const after = points.findIndex(([at]) => at >= x);
  if (after <= 0) return points[after < 0 ? points.length - 1 : 0][1];
  const [[x0, y0], [x1, y1]] = [points[after - 1], points[after]];
  return x1 > x0 ? y0 + ((y1 - y0) * (x - x0)) / (x1 - x0) : y1;
}

export class RemovalCurve extends HTMLElement {
  #lines = [];
  #words = 1;
  #at = 0;
  #width = 760;
  // Drawn as wide as its place, so that its words keep their size on any screen.
  #watch = new ResizeObserver(([{ contentRect }]) => {
    const width = Math.round(Math.max(NARROWEST, Math.min(WIDEST, contentRect.width)));
    if (width !== this.#width) { this.#width = width; this.#show(); }
  });

  get lines() { return this.#lines; }
  set lines(lines) { this.#lines = lines; this.#show(); }
  get words() { return this.#words; }
  set words(count) { this.#words = count; this.#at = Math.min(this.#at, count); this.#show(); }
  get #units() { return this.dataset.units ?? "words"; }
  get at() { return this.#at; }
  set at(removed) { this.#moved(removed); }

  connectedCallback() {
    this.tabIndex = 0;
    this.setAttribute("role", "slider");
    this.setAttribute("aria-label", `How many ${this.#units} are removed`);
    for (const name of EVENTS) this.addEventListener(name, this);
    this.#watch.observe(this);
  }
  disconnectedCallback() { this.#watch.disconnect(); for (const name of EVENTS) this.removeEventListener(name, this); }

  handleEvent(event) {
    if (event.type === "keydown") {
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10, Home: -Infinity, End: Infinity }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      this.#moved(this.#at + step);
      return;
    }
    const plot = this.querySelector("svg.plot");
    if (!plot) return;
    const box = plot.getBoundingClientRect();
    const x = (((event.clientX - box.left) / box.width) * this.#width - LEFT) / (this.#width - LEFT - RIGHT);
    this.#moved(Math.round(x * this.#words));
  }

  #moved(step) {
    this.#at = Math.max(0, Math.min(this.#words, step));
    this.#show();
    this.dispatchEvent(new CustomEvent("limelight-step", { bubbles: true, detail: { removed: this.#at } }));
  }

  #stroke(line) {
    if (line.kind !== "method") return { fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-dasharray": DASHES[line.kind] };
    const place = this.#lines.filter(({ kind }) => kind === "method").indexOf(line);
    return { fill: "none", "stroke-width": 2.5, ...methodStroke(line.hue ?? place) };
  }

  #show() {
    if (!this.#lines.length) { this.replaceChildren(); return; }
    const WIDTH = this.#width;
    const values = this.#lines.flatMap(({ points }) => points.map(([, y]) => y));
    const low = values.reduce((a, b) => Math.min(a, b), 0), high = values.reduce((a, b) => Math.max(a, b), 0), span = high - low || 1;
    const x = (share) => LEFT + share * (WIDTH - LEFT - RIGHT), y = (f) => TOP + ((high - f) / span) * (HEIGHT - TOP - BOTTOM);
    const label = (px, py, text, anchor) => makeSvg("text", { x: px, y: py, "text-anchor": anchor, "font-size": 12, fill: "currentColor" }, text);
    const isReadable = (f) => f === low || f === high || Math.min(y(low) - y(f), y(f) - y(high)) > LINE;
    const axes = [...new Set([low, 0, high])].filter(isReadable).flatMap((f) => [
      makeSvg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(f), y2: y(f), class: "axis" }),
      label(LEFT - 6, y(f) + 4, formatNumber(f, { signed: false }), "end"),
    ]);
    const paths = this.#lines.map((line) => makeSvg("polyline", { points: line.points.map(([s, f]) => `${x(s).toFixed(1)},${y(f).toFixed(1)}`).join(" "), ...this.#stroke(line) }));
    const share = this.#words ? this.#at / this.#words : 0;
    const cursor = makeSvg("line", { x1: x(share), x2: x(share), y1: TOP, y2: HEIGHT - BOTTOM, stroke: "currentColor", "stroke-width": 1 });
    const plot = makeSvg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", "aria-hidden": "true" }, ...axes,
      label(LEFT, HEIGHT - 12, "0", "middle"), label(WIDTH - RIGHT, HEIGHT - 12, String(this.#words), "end"),
      label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, `${this.#units} removed`, "middle"), ...paths, cursor);
    const readings = this.#lines.map((line) => `${line.label} ${formatNumber(valueAt(line.points, share))}`);
    this.setAttribute("aria-valuemin", "0");
    this.setAttribute("aria-valuemax", String(this.#words));
    this.setAttribute("aria-valuenow", String(this.#at));
    this.setAttribute("aria-valuetext", `${this.#at} of ${this.#words} ${this.#units} removed: ${readings.join(", ")}`);
    this.replaceChildren(plot, this.#keys(share));
  }

  // The legend, which says the values too: nothing here is told by color alone.
  #keys(share) {
    const keys = this.#lines.map((line) => makeElement("span", {},
      makeSvg("svg", { viewBox: "0 0 24 8", class: "key", "aria-hidden": "true" }, makeSvg("line", { x1: 0, x2: 24, y1: 4, y2: 4, ...this.#stroke(line), "stroke-width": 3 })),
      ` ${line.label} `, makeElement("b", {}, formatNumber(valueAt(line.points, share)))));
    return makeElement("p", { class: "legend" }, makeElement("span", {}, `after ${this.#at} of ${this.#words} ${this.#units}:`), ...keys);
  }
}
defineElement("limelight-curve", RemovalCurve);
