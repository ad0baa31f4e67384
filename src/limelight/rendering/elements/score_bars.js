// <limelight-bars>: the strongest features with their scores, errors and bars, as a table.
//
//   bars.explanation = {…}    one explanation, as limelight.explanation/2 has it
//   bars.most = 20            rows that are shown
//
// Sends "limelight-point" with {feature} when a row is pointed at.

import { all, defined, drawn, made } from "./nodes.js";
import { written } from "./numbers_in_words.js";
import { isSigned, labelOf, largestScore, nounOf, pluralOf } from "./shades.js";
import { featureName, visibleText } from "./text_pieces.js";

// A bar from zero, with a whisker of one standard error each way.
function bar(score, stderr, reach, signed) {
  const zero = signed ? 50 : 0, unit = zero ? 50 / reach : 100 / reach;
  const end = zero + (signed ? score : Math.abs(score)) * unit, left = Math.min(zero, end);
  const hue = !signed ? "n" : score >= 0 ? "f" : "a";
  const parts = [drawn("rect", { x: left.toFixed(2), y: 3, width: Math.abs(end - zero).toFixed(2), height: 6, class: `bar-${hue}` })];
  if (stderr !== null) {
    const low = (end - stderr * unit).toFixed(2), high = (end + stderr * unit).toFixed(2);
    parts.push(drawn("path", { d: `M${low} 6H${high}M${low} 4v4M${high} 4v4`, class: "whisker" }));
  }
  if (signed) parts.push(drawn("path", { d: "M50 0v12", class: "axis" }));
  return drawn("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" }, ...parts);
}

export class ScoreBars extends HTMLElement {
  #explanation = null;
  #most = 20;

  get explanation() { return this.#explanation; }
  set explanation(e) { this.#explanation = e; this.#show(); }
  get most() { return this.#most; }
  set most(rows) { this.#most = rows; this.#show(); }

  /** Mark the row of a feature; null marks none. */
  mark(feature) {
    for (const row of all("tbody tr", this)) row.classList.toggle("same", Number(row.dataset.f) === feature);
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
    const shown = order.slice(0, this.#most);
    const rows = shown.map((j) => {
      const { spans, score, stderr = null } = e.features[j];
      const times = spans.length > 1 ? made("span", { class: "note" }, ` ×${spans.length}`) : null;
      return made("tr", { "data-f": j },
        made("th", { scope: "row" }, made("bdi", {}, visibleText(featureName(e, j))), times),
        made("td", {}, written(score, { peak, signed })),
        sampled ? made("td", { class: "note" }, stderr === null ? "" : written(stderr, { peak, signed: false })) : null,
        made("td", { class: "bar" }, bar(score, stderr, reach, signed)));
    });
    const noun = nounOf(e), names = [noun, "score", ...(sampled ? ["± s.e."] : []), ""];
    const caption = shown.length < order.length ? `The ${shown.length} strongest of ${order.length} ${pluralOf(noun)}` : `All ${pluralOf(noun)}`;
    return this.replaceChildren(made("table", { class: "scores" },
      made("caption", {}, `${caption}, ${labelOf(e)}`),
      made("thead", {}, made("tr", {}, ...names.map((name) => (name ? made("th", { scope: "col" }, name) : made("td"))))),
      made("tbody", {}, ...rows)));
  }
}
defined("limelight-bars", ScoreBars);
