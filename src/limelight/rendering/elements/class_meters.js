// <limelight-classes>: what the model says, class by class.
//
//   classes.outcomes = [{name, probability, logit, chosen}, …]
//
// The logit may be null, and so may be the probability of a model that has scores alone.

import { defined, drawn, made } from "./nodes.js";
import { minus, percent } from "./numbers_in_words.js";
import { visibleText } from "./text_pieces.js";

export class ClassMeters extends HTMLElement {
  #outcomes = [];

  get outcomes() { return this.#outcomes; }
  set outcomes(outcomes) {
    this.#outcomes = outcomes;
    const signed = (logit) => `${logit >= 0 ? "+" : ""}${minus(logit.toFixed(3))}`;
    const sure = (probability, logit) => (probability === null ? [made("b", {}, signed(logit))]
      : [made("b", {}, percent(probability)), logit === null ? null : made("span", { class: "note" }, ` logit ${signed(logit)}`)]);
    const meter = (share) => made("dd", { class: "meter", "aria-hidden": "true" }, drawn("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none" }, drawn("rect", { width: (100 * share).toFixed(2), height: 4 })));
    const rows = outcomes.map(({ name, probability, logit, chosen }) => made("div", { class: chosen ? "outcome chosen" : "outcome" },
      made("dt", {}, visibleText(name)), made("dd", {}, ...sure(probability, logit)), probability === null ? null : meter(probability)));
    this.replaceChildren(made("dl", {}, ...rows));
  }
}
defined("limelight-classes", ClassMeters);
