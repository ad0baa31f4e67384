// <limelight-classes>: what the model says, class by class.
//
//   classes.outcomes = [{name, probability, logit, chosen}, …]    logit may be null

import { defined, drawn, made } from "./nodes.js";
import { minus, percent } from "./numbers_in_words.js";
import { visibleText } from "./text_pieces.js";

export class ClassMeters extends HTMLElement {
  #outcomes = [];

  get outcomes() { return this.#outcomes; }
  set outcomes(outcomes) {
    this.#outcomes = outcomes;
    const rows = outcomes.map(({ name, probability, logit, chosen }) => made("div", { class: chosen ? "outcome chosen" : "outcome" },
      made("dt", {}, visibleText(name)),
      made("dd", {}, made("b", {}, percent(probability)), logit === null ? null : made("span", { class: "note" }, ` logit ${logit >= 0 ? "+" : ""}${minus(logit.toFixed(3))}`)),
      drawn("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", class: "meter", "aria-hidden": "true" }, drawn("rect", { width: (100 * probability).toFixed(2), height: 4 }))));
    this.replaceChildren(made("dl", {}, ...rows));
  }
}
defined("limelight-classes", ClassMeters);
