// Predictions and explanations of one model: what the page shows, and what its console offers.

import { gradientTimesInput, maxAttention, meanAttention } from "./attention_scores.js";
import { deletionArea, deletionCurve, greedyOrder, lowestValues, meanRemovedValue, randomRemovals, valueBound } from "./faithfulness.js";
import { headOutputs, measureSlopes } from "./head_by_head.js";
import { heavyForm } from "./heavy_form.js";
import { leaveOneOutValues } from "./leave_one_out.js";
import { limeValues, limeWalks } from "./lime.js";
import { emptyValue, fullValue, headsMean, ratioGame } from "./ratio_game.js";
import { readText } from "./reading.js";
import { removalPlan } from "./removal_plan.js";
import { removalWalk } from "./removal_walk.js";
import { shapleyValues } from "./shapley.js";
import { textTables } from "./text_tables.js";

/** One text under one model and target: everything is computed when first asked for, and once. */
class ExplainedText {
  #cache = new Map();

  constructor(model, reading, target) {
    this.model = model;
    this.reading = reading;
    this.target = target;
  }

  #once(name, make) {
    if (!this.#cache.has(name)) this.#cache.set(name, make());
    return this.#cache.get(name);
  }

  get d() { return this.reading.features.length; }
  get heads() { return this.#once("heads", () => textTables(this.model, this.reading, this.target)); }
  get attending() { return this.heads.slice(0, this.model.attended); }
  get game() { return this.#once("game", () => ratioGame(this.heads, this.reading)); }
  get forms() { return this.#once("forms", () => this.game.map(heavyForm)); }
  get plan() { return removalPlan(this.d); }
  get walks() { return this.#once("walks", () => this.forms.map((form) => removalWalk(form, this.plan.p))); }
  get full() { return this.#once("full", () => fullValue(this.game)); }

  // A prediction is there even where no bound is: attention may be too peaked for double precision.
  get fullBound() {
    try { return valueBound(this.forms); } catch (error) {
      if (error instanceof RangeError) return Infinity;
      throw error;
    }
  }

  get lowest() { return this.#once("lowest", () => lowestValues(this.forms)); }
  get meanRemoved() { return this.#once("meanRemoved", () => meanRemovedValue(this.forms, this.walks, this.plan.chance, this.full)); }
  get greedy() { return this.#once("greedy", () => deletionArea(deletionCurve(this.game, greedyOrder(this.game)))); }

  /** {scores, bound, intercept} by a method. */
  attribution(method) { return this.#once(method, () => METHODS[method](this)); }

  /** The mean over heads of what each head's values are. */
  mean(of) {
    const parts = this.forms.map(of);
    const scores = Array.from({ length: this.d }, (_, j) => headsMean(parts, (part) => part.scores[j]));
    const intercept = parts[0].intercept === undefined ? null : headsMean(parts, (part) => part.intercept);
    return { scores, intercept, bound: headsMean(parts, (part) => part.bound) };
  }
}

function lime(textCase) {
  // With one word, the line through the text with and without it.
  if (textCase.d < 2) return { ...textCase.mean(leaveOneOutValues), intercept: emptyValue(textCase.game) };
  return textCase.mean((form, i) => limeValues(form, limeWalks(textCase.d) ? textCase.walks[i] : null, textCase.plan.lime));
}

const METHODS = {
  lime,
  shapley: (textCase) => textCase.mean((form, i) => shapleyValues(form, textCase.walks[i], textCase.plan.shapley)),
  loo: (textCase) => textCase.mean(leaveOneOutValues),
  gxi: ({ heads, reading }) => gradientTimesInput(heads, reading),
  "alpha-avg": ({ attending, reading }) => meanAttention(attending, reading),
  "alpha-max": ({ attending, reading }) => maxAttention(attending, reading),
};
const UNSIGNED = new Set(["alpha-avg", "alpha-max"]);

function unknownNameMessage(what, name, choices) {
  return `no ${what} ${JSON.stringify(name)}; choose from: ${choices.join(", ")}.`;
}

/** The largest of several numbers; the first, where they are equal. */
const argmax = (x) => x.reduce((best, value, i) => (value > x[best] ? i : best), 0);

export class Explainer {
  #model;
  #last = { text: null, reading: null, cases: new Map() };

  constructor(model) { this.#model = model; }

  get classes() { return [...this.#model.classes]; }
  get methods() { return Object.keys(METHODS); }

  // The text that was asked about last is kept, with all that was computed for it: a page asks
  // for the prediction, a method and the curve of the same text.
  #reading(text) {
    if (this.#last.text !== text) this.#last = { text, reading: readText(this.#model, text), cases: new Map() };
    return this.#last.reading;
  }

  #case(text, index) {
    const reading = this.#reading(text), { cases } = this.#last;
    if (!cases.has(index)) cases.set(index, new ExplainedText(this.#model, reading, this.#target(index)));
    return cases.get(index);
  }

  // The logit of one of two classes is the log-odds against the other: a single output is that of
  // the second class, two outputs are subtracted. Each of more classes has its own output.
  #target(index) {
    const { C } = this.#model;
    if (C === 1) return [{ output: 0, sign: index === 1 ? 1 : -1 }];
    return C === 2 ? [{ output: index, sign: 1 }, { output: 1 - index, sign: -1 }] : [{ output: index, sign: 1 }];
  }

  /** The index of a class by name or number; null: the last of two, the predicted one of several. */
  #index(text, target) {
    const { classes } = this.#model;
    if (target === null || target === undefined) return classes.length > 2 ? this.predict(text).index : classes.length - 1;
    const index = typeof target === "number" ? target : classes.indexOf(target);
    if (!(Number.isInteger(index) && index >= 0 && index < classes.length)) throw new RangeError(unknownNameMessage("class", target, classes));
    return index;
  }

  /** {prediction, index, probabilities, logits, bound, warnings}: what the model says of a text. */
  predict(text) {
    const { classes } = this.#model, { warnings } = this.#reading(text);
    const cases = classes.map((_, c) => this.#case(text, c));
    const logits = cases.map((textCase) => textCase.full), top = Math.max(...logits);
    const odds = logits.map((f) => (classes.length === 2 ? 1 / (1 + Math.exp(-f)) : Math.exp(f - top)));
    const sum = odds.reduce((a, b) => a + b, 0), probabilities = odds.map((odd) => odd / sum), index = argmax(probabilities);
    return { prediction: classes[index], index, probabilities, logits, bound: Math.max(...cases.map((textCase) => textCase.fullBound)), warnings: [...warnings] };
  }

  /** {features, scores, bound, …}: one score per distinct word; spans count code points. */
  explain(text, method = "shapley", { target = null } = {}) {
    if (!Object.hasOwn(METHODS, method)) throw new RangeError(unknownNameMessage("method", method, this.methods));
    const index = this.#index(text, target), textCase = this.#case(text, index);
    const { scores, bound, intercept = null } = textCase.attribution(method), { features, cutAt, warnings } = textCase.reading;
    return {
      method, target: this.#model.classes[index], features: features.map((feature) => feature.text), scores: Array.from(scores), bound,
      signed: !UNSIGNED.has(method), spans: features.map(({ spans }) => spans.map((span) => [...span])), intercept,
      value: textCase.full, baseValue: emptyValue(textCase.game), text: textCase.reading.text, cutAt, warnings: [...warnings],
    };
  }

  /** {tokens, target, heads}: where [cls] looks in every head, and what the head answers. */
  heads(text, { target = null } = {}) {
    const index = this.#index(text, target), textCase = this.#case(text, index);
    return { tokens: [...textCase.reading.tokens], target: this.#model.classes[index], value: textCase.full, heads: headOutputs(textCase.heads, textCase.reading) };
  }

  /** Gradient × input by running the model twice for every word: a check of the formula. */
  slopes(text, { target = null } = {}) {
    const textCase = this.#case(text, this.#index(text, target));
    return measureSlopes(textCase.heads, textCase.reading);
  }

  /** The output while the words go in the order of a method's scores, between chance and ceiling. */
  faithfulness(text, method = "shapley", { target = null } = {}) {
    const { scores } = this.explain(text, method, { target }), textCase = this.#case(text, this.#index(text, target)), { full, fullBound } = textCase;
    const order = scores.map((_, j) => j).sort((a, b) => scores[b] - scores[a] || a - b);
    const curve = deletionCurve(textCase.game, order), area = deletionArea(curve);
    const { meanRemoved, lowest } = textCase;
    const ceiling = full + fullBound - lowest.reduce((a, b) => a + b, 0) / lowest.length, chance = full - meanRemoved.value;
    return {
      order, curve, area, chance, ceiling, greedy: textCase.greedy, share: ceiling > chance ? (area - chance) / (ceiling - chance) : null,
      bound: Math.max(2 * fullBound, meanRemoved.bound + fullBound), valueBound: fullBound, random: randomRemovals(textCase.forms, textCase.walks), lowest: [full, ...lowest],
    };
  }
}
