// The page: a text, what the model says, which words speak for it, and how faithful that is. All of
// it is computed here, at every keystroke, from the tables that the page carries.

import { readAddressState, writeAddressState } from "../../rendering/elements/address_state.js";
import "../../rendering/elements/class_meters.js";
import "../../rendering/elements/color_legend.js";
import "../../rendering/elements/colored_words.js";
import "../../rendering/elements/removal_curve.js";
import "../../rendering/elements/score_bars.js";
import { findById, readData, listen, makeElement, openingNodes } from "../../rendering/elements/nodes.js";
import { formatBound, typographicMinus, formatPercent, precisionSentence, formatNumber } from "../../rendering/elements/numbers_in_words.js";
import { ringPosition } from "../../rendering/elements/tab_switch.js";
import { visibleText } from "../../rendering/elements/text_parts.js";
import { Explainer } from "../engine/explainer.js";
import { unpackModel } from "../engine/packed_model.js";

const data = readData("limelight-data");
const explainer = new Explainer(unpackModel(data));
globalThis.limelight = Object.freeze({
  predict: (text) => explainer.predict(text),
  explain: (text, method, settings) => explainer.explain(text, method, settings),
  faithfulness: (text, method, settings) => explainer.faithfulness(text, method, settings),
  heads: (text, settings) => explainer.heads(text, settings),
  get classes() { return explainer.classes; },
  get methods() { return explainer.methods; },
  model: data.fingerprint,
  version: data.version,
});

const [box, words, bars, curve] = ["text", "words", "bars", "curve"].map(findById);
const POINT = findById("readout").textContent;
const DEFAULTS = { text: data.text, method: data.methods[0].id, target: null };
const readAddress = () => readAddressState(DEFAULTS, { method: (id) => explainer.methods.includes(id), target: (name) => explainer.classes.includes(name) });
let state = readAddress();
let explanation = null;

const methodOf = (id) => data.methods.find((method) => method.id === id);

// An explanation as limelight.explanation/2 has it, which is what the elements take.
function record(e) {
  const features = e.features.map((text, j) => ({ text, spans: e.spans[j], score: e.scores[j], stderr: null }));
  return { text: e.text, method: e.method, target: e.target, bound: e.bound, features, settings: { label: methodOf(e.method).label, signed: e.signed, cut_at: e.cutAt } };
}

function outcomes({ probabilities, logits, index }) {
  // A single output is the logit of the second class, and stands there alone.
  return explainer.classes.map((name, c) => ({ name, probability: probabilities[c], logit: data.C === 1 && c === 0 ? null : logits[c], chosen: c === index }));
}

function show() {
  box.value === state.text || (box.value = state.text);
  for (const button of findById("methods").children) {
    const chosen = button.value === state.method;
    button.setAttribute("aria-checked", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
  }
  findById("target").value = state.target ?? "";
  findById("readout").textContent = POINT;
  const prediction = tryToAnswer(() => explainer.predict(state.text), (sentence) => {
    findById("classes").outcomes = [];
    findById("warnings").replaceChildren();
    findById("prediction-sentence").replaceChildren(makeElement("span", { class: "blank" }, sentence));
    showMessage("");
  });
  if (prediction === null) return;
  findById("classes").outcomes = outcomes(prediction);
  findById("prediction-sentence").replaceChildren(...openingNodes(opening(prediction)));
  findById("warnings").replaceChildren(...prediction.warnings.map((warning) => makeElement("li", {}, warning)));
  tryToAnswer(showMethod, showMessage);
}

// The sentence of the reports (rendering/wording.py): the predicted class, and the explained class.
/** @returns {[any, any, any]} */
function opening({ prediction, probabilities, logits, index }) {
  const { classes } = explainer;
  const target = state.target ?? (classes.length > 2 ? prediction : classes.at(-1)), place = classes.indexOf(target);
  const logit = formatNumber(logits[place], { digits: 4, peak: 1 });
  const other = classes.length === 2 ? `towards “${visibleText(classes[1 - place])}”` : "away from it";
  const role = target === prediction ? ", the predicted class" : classes.length === 2 && place === 1 ? ", the second class" : "";
  const what = methodOf(state.method).signed ? `: green words push towards it, orange words ${other}.` : ", without a sign: blue words matter, for or against it.";
  return ["The model predicts ", visibleText(prediction), ` (${formatPercent(probabilities[index])}). Scores are for “${visibleText(target)}”${role} (logit ${logit})${what}`];
}

// What cannot be answered is a RangeError with a sentence, which is told; null is returned then.
function tryToAnswer(compute, showError) {
  try { return compute() ?? undefined; } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    showError(error.message[0].toUpperCase() + error.message.slice(1));
    return null;
  }
}

function showMethod() {
  const options = { target: state.target }, { sees, blind } = methodOf(state.method);
  explanation = record(explainer.explain(state.text, state.method, options));
  words.explanation = explanation;
  bars.explanation = explanation;
  findById("legend").explanation = explanation;
  findById("precision").textContent = `${precisionSentence(explanation)} That includes the rounding of the stored tables.`;
  findById("about").textContent = `It sees ${sees}; it cannot see ${blind}.`;
  tryToAnswer(() => showCurve(options), (sentence) => { curve.lines = []; findById("share").textContent = sentence; });
}

function showCurve(options) {
  const faithfulness = explainer.faithfulness(state.text, state.method, options), d = faithfulness.order.length;
  curve.words = d;
  curve.lines = [
    { label: explanation.settings.label, kind: "method", points: faithfulness.curve.map((f, k) => [k / d, f]) },
    { label: "chance", kind: "chance", points: [[0, faithfulness.curve[0]], ...faithfulness.random, [1, faithfulness.curve[d]]] },
    { label: "ceiling", kind: "ceiling", points: faithfulness.lowest.map((f, k) => [k / d, f]) },
  ];
  findById("share").replaceChildren(...shareSentence(faithfulness));
}

function shareSentence({ share, area, chance, ceiling, greedy, bound }) {
  if (share === null || ceiling - chance <= bound) return ["No order of these words is better than another: removing them changes next to nothing."];
  const numbers = [area, chance, ceiling].map((number) => formatNumber(number, { signed: false }));
  const reached = typographicMinus(((greedy - chance) / (ceiling - chance)).toFixed(3));
  return [
    makeElement("b", {}, typographicMinus(share.toFixed(3))), ` of the way from chance to ceiling; greedy search reaches ${reached}. `,
    makeElement("span", { class: "note" }, `Area ${numbers[0]}, chance ${numbers[1]}, ceiling ${numbers[2]}, each within ${formatBound(bound)}.`),
  ];
}

// Nothing old is left where there is nothing to show.
function showMessage(sentence) {
  explanation = null;
  words.explanation = null;
  bars.explanation = null;
  findById("legend").explanation = null;
  curve.lines = [];
  for (const id of ["share", "about"]) findById(id).replaceChildren();
  findById("precision").textContent = sentence;
}

// One drawing for all keys that came since the last one; where a drawing takes long, not before the
// fingers rest.
let waiting = null, cost = 0;
function soon() {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    const before = performance.now();
    show();
    cost = performance.now() - before;
  }, cost > 80 ? 200 : 0);
  writeAddressState(state, DEFAULTS);
}

function change(part) {
  state = { ...state, ...part };
  soon();
}

function point(feature) {
  words.mark(feature);
  bars.mark(feature);
  if (feature === null || explanation === null) { findById("readout").textContent = POINT; return; }
  const { text, spans, score } = explanation.features[feature], size = (other) => Math.abs(other.score);
  const rank = 1 + explanation.features.filter((other) => size(other) > Math.abs(score)).length;
  const times = spans.length > 1 ? `, all ${spans.length} occurrences` : "";
  findById("readout").replaceChildren(makeElement("b", {}, visibleText(text)), `  ${explanation.settings.label} ${formatNumber(score, { signed: explanation.settings.signed })} (within ${formatBound(explanation.bound)}), rank ${rank} of ${explanation.features.length}${times}`);
}

function makeMethods() {
  findById("methods").replaceChildren(...data.methods.map(({ id, label, formula }) => makeElement("button", { type: "button", role: "radio", value: id, title: formula }, label)));
  findById("methods").addEventListener("click", ({ target }) => { if (target.value) change({ method: target.value }); });
  findById("methods").addEventListener("keydown", (event) => {
    const buttons = [...findById("methods").children], index = buttons.indexOf(document.activeElement);
    const target = ringPosition({ ArrowDown: "ArrowRight", ArrowUp: "ArrowLeft" }[event.key] ?? event.key, index, buttons.length);
    if (target === undefined || index < 0) return;
    event.preventDefault();
    buttons[target].focus();
    change({ method: buttons[target].value });
  });
}

function makeTargets() {
  const { classes } = explainer, usual = classes.length > 2 ? "the predicted class" : classes.at(-1);
  findById("target").append(makeElement("option", { value: "" }, usual), ...classes.filter((name) => name !== usual).map((name) => makeElement("option", { value: name }, visibleText(name))));
  findById("target").addEventListener("change", ({ target }) => change({ target: target.value || null }));
}

makeMethods();
makeTargets();
box.addEventListener("input", () => change({ text: box.value }));
listen(window, "limelight-point", ({ detail }) => point(detail.feature));
addEventListener("hashchange", () => { state = readAddress(); show(); });
show();
