// Figures 2, 3 and 5 of the paper for any text: numbers of the shipped model, computed here.

import { findById, readData, makeSvg, makeElement } from "../../src/limelight/rendering/elements/nodes.js";
import { formatBound, formatPercent, formatNumber } from "../../src/limelight/rendering/elements/numbers_in_words.js";
import { shadeClass } from "../../src/limelight/rendering/elements/shades.js";
import { visibleText } from "../../src/limelight/rendering/elements/text_parts.js";
import { Explainer } from "../../src/limelight/live/engine/explainer.js";
import { unpackModel } from "../../src/limelight/live/engine/packed_model.js";

const data = readData("limelight-data");
const explainer = new Explainer(unpackModel(data));
const largest = (numbers) => numbers.reduce((largestValue, x) => Math.max(largestValue, Math.abs(x)), 0);
const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;
const heading = (name) => makeElement("th", { scope: "col" }, name);
const tintedCell = (x, { peak, signed }) => makeElement("td", { class: `cell ${shadeClass(x, { peak, signed })}` }, formatNumber(x, { peak, signed }));
const table = (label, heads, rows, name = "") => makeElement("div", { class: "figure", tabindex: 0, role: "region", "aria-label": label },
  makeElement("table", { class: name || null }, makeElement("thead", {}, makeElement("tr", {}, ...heads)), makeElement("tbody", {}, ...rows)));
const row = (name, ...cells) => makeElement("tr", {}, makeElement("th", { scope: "row" }, name), ...cells);
const shownWord = (word) => makeElement("bdi", {}, visibleText(word));
let head = 0; // the one of Figure 2 whose sum is spelt out

// Figure 2: words, attention and values, their average in every head, and the average of heads.
function architecture(text) {
  const { tokens, heads, value, target } = explainer.heads(text), { attention, values, output, cls, padding } = heads[head];
  const buttons = heads.map((head_, k) => {
    const button = makeElement("button", { type: "button", "aria-pressed": String(k === head) }, `head ${k + 1}: ${formatNumber(head_.output)}`);
    button.addEventListener("click", () => { head = k; show(); findById("figure-2").querySelectorAll("button")[k].focus(); });
    return button;
  });
  const products = attention.map((alpha, t) => alpha * values[t]), words = products.reduce((a, b) => a + b, 0);
  const [peakAttention, top, peak] = [attention, values, [...products, output - words]].map(largest);
  const rows = tokens.map((token, t) => row(shownWord(token), tintedCell(attention[t], { peak: peakAttention, signed: false }), tintedCell(values[t], { peak: top, signed: true }), tintedCell(products[t], { peak, signed: true })));
  return [
    makeElement("p", {}, `Each head averages the values of the tokens by the attention of [cls]. The model's logit of ${visibleText(target)} is the mean of its ${heads.length} heads:`),
    makeElement("div", { class: "heads", role: "group", "aria-label": "Heads" }, ...buttons, makeElement("span", {}, " mean ", makeElement("b", {}, formatNumber(mean(heads.map((head_) => head_.output)))), ` = logit, probability ${formatPercent(1 / (1 + Math.exp(-value)))}`)),
    table(`Head ${head + 1}`, [heading("token"), heading("attention α"), heading("value u"), heading("α × u")], [...rows,
      row("[cls] and padding", makeElement("td", { class: "cell" }, formatNumber(cls + padding, { signed: false })), makeElement("td"), tintedCell(output - words, { peak, signed: true })),
      row(`head ${head + 1}`, makeElement("td", { class: "cell" }, "1"), makeElement("td"), makeElement("td", { class: "cell" }, makeElement("b", {}, formatNumber(output))))]),
    makeElement("p", { class: "note" }, `Within ${formatBound(Math.max(...heads.map((head_) => head_.bound)))} of the model, the rounding of the stored tables included.`),
  ];
}

// Figure 3: the first row of every matrix, the only one that the classifier uses, and Eqs. (10), (11).
function firstRows(text) {
  const { tokens, heads } = explainer.heads(text), rows = heads.map(({ attention }) => attention);
  const across = (how) => tokens.map((_, t) => how(rows.map((alpha) => alpha[t]))), maximum = across((numbers) => Math.max(...numbers)), average = across(mean);
  const peak = largest(maximum), cells = (numbers) => numbers.map((x) => tintedCell(x, { peak, signed: false }));
  const elsewhere = (x) => makeElement("td", { class: "cell" }, formatPercent(x));
  return [
    table("Attention of [cls], head by head", [makeElement("td"), ...tokens.map((token) => heading(shownWord(token))), heading("[cls] and padding")], [
      ...rows.map((alpha, k) => row(`head ${k + 1}`, ...cells(alpha), elsewhere(heads[k].cls + heads[k].padding))), row("α-avg", ...cells(average), makeElement("td")), row("α-max", ...cells(maximum), makeElement("td"))]),
    makeElement("p", { class: "note" }, `Darker: more attention, on one scale for all heads. Within ${formatBound(Math.max(...heads.map((head_) => head_.attentionBound)))} of the model.`),
  ];
}

function bar(score, { peak, signed, practice = null }) {
  const zero = signed ? 50 : 0, unit = (signed ? 49 : 98) / (peak || 1), end = zero + score * unit;
  const hue = !signed ? "n" : score >= 0 ? "f" : "a";
  return makeSvg("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
    makeSvg("rect", { x: Math.min(zero, end).toFixed(2), y: 2, width: Math.abs(end - zero).toFixed(2), height: 8, class: `bar-${hue}` }),
    practice === null ? null : makeSvg("rect", { x: (zero + practice * unit - 0.6).toFixed(2), y: 0, width: 1.2, height: 12, class: "practice" }),
    signed ? makeSvg("path", { d: "M50 0v12", class: "axis" }) : null);
}

// Figure 5, and what it is compared with: attention, Theorem 4.1 times the input, and LIME.
function sideBySide(text) {
  const explanations = ["alpha-avg", "gxi", "lime"].map((method) => explainer.explain(text, method)), slopes = explainer.slopes(text);
  const peaks = explanations.map(({ scores }) => largest(scores)), [, gxi] = explanations;
  const cell = ({ scores, signed }, i, j) => makeElement("td", {}, makeElement("b", {}, formatNumber(scores[j], { peak: peaks[i], signed })), bar(scores[j], { peak: peaks[i], signed, practice: i === 1 ? slopes[j] : null }));
  const off = largest(slopes.map((slope, j) => slope - gxi.scores[j])), places = gxi.spans.map((spans) => spans.length);
  const rows = gxi.features.map((word, j) => row(makeElement("span", {}, shownWord(word), places[j] > 1 ? ` ×${places[j]}` : ""), ...explanations.map((e, i) => cell(e, i, j))));
  return [
    table("Attention, gradient and LIME", ["word", "α-avg", "gradient × input", "LIME"].map(heading), rows, "bars"),
    makeElement("p", { class: "note" }, "Bars are theory. The thin marks are practice: the model run twice for every word, its embedding stretched and shrunk by 0.0001. They differ by at most ",
      makeElement("b", {}, formatNumber(off, { signed: false })), `. Gradient × input is within ${formatBound(gxi.bound)} of the model, LIME within ${formatBound(explanations[2].bound)}.`),
  ];
}

const FIGURES = { 2: architecture, 3: firstRows, 5: sideBySide };
const addressParameters = () => new URLSearchParams(location.hash.slice(1));

function show() {
  const text = findById("text").value, figureName = addressParameters().get("figure"), says = findById("prediction-sentence");
  for (const [number, draw] of Object.entries(FIGURES)) {
    const section = findById(`figure-${number}`);
    section.hidden = figureName in FIGURES && figureName !== number;
    if (section.hidden) continue;
    try {
      const { prediction, probabilities, index } = explainer.predict(text);
      says.replaceChildren("The model predicts ", makeElement("b", {}, visibleText(prediction)), ` (${formatPercent(probabilities[index])}).`);
      section.lastElementChild.replaceChildren(...draw(text));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      says.textContent = error.message[0].toUpperCase() + error.message.slice(1);
      section.lastElementChild.replaceChildren();
    }
  }
}

function restore() {
  findById("text").value = addressParameters().get("text") ?? data.text;
  show();
}
findById("text").addEventListener("input", show);
addEventListener("hashchange", restore);
restore();
