// <limelight-legend>: what the colours of one explanation mean, in the words of the reports.
//
//   legend.explanation = {…}   one explanation, as limelight.explanation/1 has it

import { defined, made } from "./nodes.js";
import { isSigned } from "./shades.js";
import { textPieces, visibleText } from "./text_pieces.js";

function key(hue, meaning) {
  const swatches = [2, 6, 10].map((step) => made("i", { class: `swatch ${hue}${step}` }));
  return made("span", {}, made("span", { "aria-hidden": "true" }, ...swatches), " ", visibleText(meaning));
}

export class ColourLegend extends HTMLElement {
  #explanation = null;

  get explanation() { return this.#explanation; }
  set explanation(e) { this.#explanation = e; this.#show(); }

  #show() {
    const e = this.#explanation;
    if (e === null) return this.replaceChildren();
    const against = e.against ? `for ${e.against}` : `against ${e.target}`;
    const keys = isSigned(e) ? [key("f", `for ${e.target}`), key("a", against)] : [key("n", "size only: the method gives no sign")];
    keys.push(made("span", {}, made("span", { class: "w top" }, "word"), " strongest"));
    if (textPieces(e).some(({ seen }) => !seen)) keys.push(made("span", {}, made("span", { class: "cut" }, "grey"), " not read by the model"));
    let note = "Deeper colour, larger score. The colours are safe for colour-blind readers.";
    if (e.features.some(({ spans }) => spans.length > 1)) note += " A score counts all occurrences of its word.";
    return this.replaceChildren(made("div", { class: "legend" }, ...keys, made("span", { class: "note" }, note)));
  }
}
defined("limelight-legend", ColourLegend);
