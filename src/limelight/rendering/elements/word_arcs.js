// <limelight-arcs>: a text with its strongest pairs of words as arcs above the line.
//
//   arcs.explanation = {…}    one explanation with pairs, as limelight.explanation/2 has it
//   arcs.count = 12           pairs that are drawn
//
// An arc's hue is its sign and its width its size; every pair is said as text in the list below,
// and a pair that is pointed at, or has the focus, stands out.

import "./colored_words.js";
import { defineElement, makeSvg, makeElement } from "./nodes.js";
import { formatNumber } from "./numbers_in_words.js";
import { featureName, visibleText } from "./text_parts.js";

const LOWEST = 14, HIGHEST = 58, SLOPE = 0.12, THICKEST = 5; // pixels; arcs that reach far are higher

export class WordArcs extends HTMLElement {
  #explanation = null;
  #count = 12;
  #words = makeElement("limelight-words");
  #drawing = makeSvg("svg", { class: "arcs", "aria-hidden": "true" });
  #list = makeElement("ol", { class: "pair-list" });
  #watch = new ResizeObserver(() => this.#draw());

  get explanation() { return this.#explanation; }
  set explanation(e) { this.#explanation = e; this.#show(); }
  get count() { return this.#count; }
  set count(pairs) { this.#count = pairs; this.#show(); }

  /** The pairs that are drawn, strongest first. */
  get pairs() {
    const all = [...(this.#explanation?.pairs ?? [])];
    all.sort((a, b) => Math.abs(b.score) - Math.abs(a.score));
    return all.slice(0, this.#count).filter(({ score }) => score !== 0);
  }

  connectedCallback() {
    this.append(makeElement("div", { class: "arc-frame" }, this.#drawing, this.#words), this.#list);
    this.#watch.observe(this.#words);
  }
  disconnectedCallback() { this.#watch.disconnect(); this.replaceChildren(); }

  #show() {
    const e = this.#explanation;
    this.#words.explanation = e;
    const peak = Math.max(...this.pairs.map(({ score }) => Math.abs(score)), 0);
    this.#list.replaceChildren(...this.pairs.map((pair, k) => {
      const [first, second] = pair.features.map((j) => visibleText(featureName(e, j)));
      const error = pair.stderr === null || pair.stderr === undefined ? "" : ` ± ${formatNumber(pair.stderr, { peak, signed: false })}`;
      const listEntry = makeElement("li", { tabindex: 0, "data-pair": k }, makeElement("bdi", {}, first), " × ", makeElement("bdi", {}, second), ` ${formatNumber(pair.score, { peak })}${error}`);
      for (const [name, on] of [["pointerenter", true], ["focus", true], ["pointerleave", false], ["blur", false]]) listEntry.addEventListener(name, () => this.#stress(on ? k : null));
      return listEntry;
    }));
    this.#draw();
  }

  #stress(pair) {
    for (const arc of this.#drawing.children) arc.classList.toggle("faint", pair !== null && Number(arc.dataset.pair) !== pair);
  }

  // From word to word where the text has them; the first place of each.
  #draw() {
    const box = this.#drawing.parentElement?.getBoundingClientRect();
    if (!box?.width || this.#explanation === null) { this.#drawing.replaceChildren(); return; }
    const place = (j) => {
      const word = this.#words.querySelector(`.w[data-f="${j}"]`)?.getClientRects()[0];
      return word ? { x: word.left + word.width / 2 - box.left, y: word.top - box.top } : null;
    };
    const pairs = this.pairs, peak = Math.max(...pairs.map(({ score }) => Math.abs(score)), 0) || 1;
    this.#drawing.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    this.#drawing.replaceChildren(...pairs.flatMap(({ features, score }, k) => {
      const [start, end] = features.map(place);
      if (!start || !end) return [];
      const lift = Math.min(HIGHEST, LOWEST + SLOPE * Math.abs(start.x - end.x)), top = (Math.min(start.y, end.y) - lift).toFixed(1);
      return [makeSvg("path", {
        d: `M${start.x.toFixed(1)} ${start.y.toFixed(1)}C${start.x.toFixed(1)} ${top},${end.x.toFixed(1)} ${top},${end.x.toFixed(1)} ${end.y.toFixed(1)}`,
        class: score >= 0 ? "arc-f" : "arc-a", "stroke-width": (1 + (THICKEST - 1) * Math.abs(score) / peak).toFixed(1), "data-pair": k,
        "stroke-dasharray": score >= 0 ? null : "6 3",
      })];
    }));
  }
}
defineElement("limelight-arcs", WordArcs);
