// <limelight-legend>: what the colors of explanations mean, in the words of the reports.
//
//   legend.explanation = {…}        one explanation, as limelight.explanation/2 has it
//   legend.explanations = [{…}, …]  several of one text, each with its own scale

import { defineElement, makeElement } from "./nodes.js";
import { isSigned, featureNoun, pluralize } from "./shades.js";
import { splitText, visibleText } from "./text_parts.js";

function key(hue, meaning) {
  const swatches = [2, 6, 10].map((step) => makeElement("i", { class: `swatch ${hue}${step}` }));
  return makeElement("span", {}, makeElement("span", { "aria-hidden": "true" }, ...swatches), " ", visibleText(meaning));
}

export class ColorLegend extends HTMLElement {
  #explanations = [];

  get explanation() { return this.#explanations[0] ?? null; }
  set explanation(e) { this.explanations = e === null ? [] : [e]; }
  get explanations() { return this.#explanations; }
  set explanations(explanations) { this.#explanations = explanations; this.#show(); }

  #show() {
    const explanations = this.#explanations, [e] = explanations;
    if (!explanations.length) return this.replaceChildren();
    const against = e.against ? `for ${e.against}` : `against ${e.target}`;
    const [up, down] = e.query?.answer ? [`raises the ${e.query.per_token ? "mean log-probability per token" : "log-probability"}`, "lowers it"] : [`for ${e.target}`, against];
    const keys = explanations.some(isSigned) ? [key("f", up), key("a", down)] : [];
    if (!explanations.every(isSigned)) keys.push(key("n", "size only, no sign"));
    keys.push(makeElement("span", {}, makeElement("span", { class: e.image ? "w outlined" : "w top" }, featureNoun(e)), " strongest"));
    if (splitText(e).some(({ seen }) => !seen)) keys.push(makeElement("span", {}, makeElement("span", { class: "cut" }, "gray"), " not read by the model"));
    let note = "Darker: larger score.";
    if (explanations.length > 1) note += ` Each method has its own scale: the number after its ${pluralize(featureNoun(e))} is the darkest color.`;
    if (e.image) note += " Under the colors the image is gray.";
    if (e.features.some(({ spans }) => spans.length > 1)) note += ` Repeated ${pluralize(featureNoun(e))} share one score${e.parts ? " in each text" : ""}.`;
    return this.replaceChildren(makeElement("div", { class: "legend" }, ...keys, makeElement("span", { class: "note" }, note)));
  }
}
defineElement("limelight-legend", ColorLegend);
