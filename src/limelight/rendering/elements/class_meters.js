// <limelight-classes>: what the model says, class by class.
//
//   classes.outcomes = [{name, probability, logit, chosen}, …]
//
// The logit may be null, and so may be the probability of a model that has scores alone.

import { defineElement, makeSvg, makeElement } from "./nodes.js";
import { typographicMinus, formatPercent } from "./numbers_in_words.js";
import { visibleText } from "./text_parts.js";

export class ClassMeters extends HTMLElement {
  #outcomes = [];

  get outcomes() { return this.#outcomes; }
  set outcomes(outcomes) {
    this.#outcomes = outcomes;
    const signed = (logit) => `${logit >= 0 ? "+" : ""}${typographicMinus(logit.toFixed(3))}`;
    const sure = (probability, logit) => (probability === null ? [makeElement("b", {}, signed(logit))]
      : [makeElement("b", {}, formatPercent(probability)), logit === null ? null : makeElement("span", { class: "note" }, ` logit ${signed(logit)}`)]);
    const meter = (share) => makeElement("dd", { class: "meter", "aria-hidden": "true" }, makeSvg("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none" }, makeSvg("rect", { width: (100 * share).toFixed(2), height: 4 })));
    const rows = outcomes.map(({ name, probability, logit, chosen }) => makeElement("div", { class: chosen ? "outcome chosen" : "outcome" },
      makeElement("dt", {}, visibleText(name)), makeElement("dd", {}, ...sure(probability, logit)), probability === null ? null : meter(probability)));
    this.replaceChildren(makeElement("dl", {}, ...rows));
  }
}
defineElement("limelight-classes", ClassMeters);
