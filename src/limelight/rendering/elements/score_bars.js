// <limelight-bars>: the strongest features with their scores, errors and bars, as a table.
//
//   bars.explanation = {…}    one explanation, as limelight.explanation/2 has it
//   bars.count = 20           rows that are shown
//
// Sends "limelight-point" with {feature} when a row is pointed at.

import { selectAll, defineElement, makeSvg, makeElement } from "./nodes.js";
import { formatNumber } from "./numbers_in_words.js";
import { isSigned, methodLabel, largestScore, featureNoun, pluralize } from "./shades.js";
import { featureName, visibleText } from "./text_parts.js";

// A bar from zero, with a whisker of one standard error each way.
function bar(score, stderr, reach, signed) {
  const zero = signed ? 50 : 0, unit = zero ? 50 / reach : 100 / reach;
  const end = zero + (signed ? score : Math.abs(score)) * unit, start = Math.min(zero, end);
  const hue = !signed ? "n" : score >= 0 ? "f" : "a";
  const parts = [makeSvg("rect", { x: start.toFixed(2), y: 3, width: Math.abs(end - zero).toFixed(2), height: 6, class: `bar-${hue}` })];
  if (stderr !== null) {
    const low = (end - stderr * unit).toFixed(2), high = (end + stderr * unit).toFixed(2);
    parts.push(makeSvg("path", { d: `M${low} 6H${high}M${low} 4v4M${high} 4v4`, class: "whisker" }));
  }
  if (signed) parts.push(makeSvg("path", { d: "M50 0v12", class: "axis" }));
  return makeSvg("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" }, ...parts);
}

export class ScoreBars extends HTMLElement {
  #explanation = null;
  #count = 20;

  get explanation() { return this.#explanation; }
  set explanation(e) { this.#explanation = e; this.#show(); }
  get count() { return this.#count; }
  set count(rows) { this.#count = rows; this.#show(); }

  /** Mark the row of a feature; null marks none. */
  mark(feature) {
    for (const row of selectAll("tbody tr", this)) row.classList.toggle("highlighted", Number(row.dataset.f) === feature);
  }

  connectedCallback() { this.addEventListener("pointerover", this); this.addEventListener("pointerleave", this); }
  disconnectedCallback() { this.removeEventListener("pointerover", this); this.removeEventListener("pointerleave", this); }

  handleEvent(event) {
    const row = event.type === "pointerleave" ? null : event.target.closest?.("tbody tr");
    if (row === undefined) return;
    this.dispatchEvent(new CustomEvent("limelight-point", { bubbles: true, detail: { feature: row ? Number(row.dataset.f) : null } }));
  }

  #show() {
    const e = this.#explanation;
    if (e === null) return this.replaceChildren();
    const peak = largestScore(e), signed = isSigned(e), sampled = e.features.some(({ stderr }) => stderr != null);
    const reach = Math.max(...e.features.map(({ score, stderr }) => Math.abs(score) + (stderr ?? 0)), 0) || 1;
    const order = e.features.map((_, j) => j);
    order.sort((a, b) => Math.abs(e.features[b].score) - Math.abs(e.features[a].score) || a - b);
    const strongest = order.slice(0, this.#count);
    const rows = strongest.map((j) => {
      const { spans, score, stderr = null } = e.features[j];
      const times = spans.length > 1 ? makeElement("span", { class: "note" }, ` ×${spans.length}`) : null;
      return makeElement("tr", { "data-f": j },
        makeElement("th", { scope: "row" }, makeElement("bdi", {}, visibleText(featureName(e, j))), times),
        makeElement("td", {}, formatNumber(score, { peak, signed })),
        sampled ? makeElement("td", { class: "note" }, stderr === null ? "" : formatNumber(stderr, { peak, signed: false })) : null,
        makeElement("td", { class: "bar" }, bar(score, stderr, reach, signed)));
    });
    const noun = featureNoun(e), names = [noun, "score", ...(sampled ? ["± s.e."] : []), ""];
    const caption = strongest.length < order.length ? `The ${strongest.length} strongest of ${order.length} ${pluralize(noun)}` : `All ${pluralize(noun)}`;
    return this.replaceChildren(makeElement("table", { class: "scores" },
      makeElement("caption", {}, `${caption}, ${methodLabel(e)}`),
      makeElement("thead", {}, makeElement("tr", {}, ...names.map((name) => (name ? makeElement("th", { scope: "col" }, name) : makeElement("td"))))),
      makeElement("tbody", {}, ...rows)));
  }
}
defineElement("limelight-bars", ScoreBars);
