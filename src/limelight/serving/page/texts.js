// The texts of a run: sorted, filtered, and any of them in full.

import { GONE, showTrouble } from "./asking.js";
import "../../rendering/elements/class_meters.js";
import "../../rendering/elements/color_legend.js";
import "../../rendering/elements/colored_words.js";
import { all, byId, dataIn, made, markupOf, openingNodes } from "../../rendering/elements/nodes.js";
import { minus, percent, precisionSentence } from "../../rendering/elements/numbers_in_words.js";
import { scaleInWords, scoreInWords } from "../../rendering/elements/score_words.js";
import { labelOf, pluralOf } from "../../rendering/elements/shades.js";
import { featureName, visibleText } from "../../rendering/elements/text_pieces.js";
import { sortedRows } from "../../rendering/elements/text_table.js";
import { stateInAddress, stateToAddress } from "../../rendering/elements/address_state.js";

const facts = dataIn("limelight-facts");
const DEFAULTS = { sort: "text", falling: "", predicted: "", label: "", which: "", word: "", text: "" };
let state = stateInAddress(DEFAULTS), data = null, table = null, withWord = null;

async function got(path) {
  let answer;
  try {
    answer = await fetch(path);
  } catch {
    showTrouble(GONE, () => location.reload());
    throw new Error("gone");
  }
  showTrouble(null);
  const said = await answer.json();
  if (said.failed) { showTrouble(said.failed); throw new Error(said.failed); }
  return said;
}

const wait = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });

async function load() {
  for (;;) {
    const said = await got("texts.json");
    if (said.columns) { performance.mark("limelight-data"); return said; }
    byId("texts-status").textContent = `Reading the run: ${(100 * said.share).toFixed(0)}%`;
    await wait(250);
  }
}

const isWrong = (i) => data.columns.label[i] >= 0 && data.columns.label[i] !== data.columns.predicted[i];
const shownNumber = (x) => (x === null ? "–" : minus(x.toFixed(3)));

function columnsOf({ columns, classes, methods, noun, is_probability: isProbability }) {
  const sure = (i) => columns.confidence[i], labeled = columns.label.some((label) => label >= 0);
  return [
    { name: "text", label: "text", value: (i) => columns.row[i], shown: (i) => [made("span", { class: "id" }, columns.id[i]), made("bdi", {}, columns.opening[i])] },
    { name: "predicted", label: "predicted", value: (i) => columns.predicted[i], shown: (i) => classes[columns.predicted[i]] ?? "–" },
    { name: "sure", label: isProbability ? "probability" : "margin", value: sure, falling: true, shown: (i) => (sure(i) === null ? "–" : isProbability ? percent(sure(i)) : shownNumber(sure(i))) },
    ...(labeled ? [
      { name: "label", label: "label", value: (i) => columns.label[i], shown: (i) => (columns.label_text[i] === null ? "–" : columns.label[i] < 0 ? columns.label_text[i] : classes[columns.label[i]]) },
      { name: "mistake", label: "mistake", falling: true, value: (i) => (isWrong(i) ? sure(i) ?? 0 : null), shown: (i) => made("td", { class: isWrong(i) ? "wrong" : null }, columns.label[i] < 0 ? "–" : isWrong(i) ? "wrong" : "right") },
    ] : []),
    ...(methods.length > 1 ? [{ name: "disagreement", label: "disagreement", falling: true, value: (i) => columns.disagreement[i], shown: (i) => shownNumber(columns.disagreement[i]) }] : []),
    { name: "words", label: pluralOf(noun), falling: true, value: (i) => columns.words[i], shown: (i) => String(columns.words[i]) },
  ];
}

let columns = [];

function ordered() {
  const { predicted, label } = data.columns, wanted = columns.find(({ name }) => name === state.sort) ?? columns[0];
  const falling = state.falling ? state.falling === "yes" : Boolean(wanted.falling);
  const rows = [];
  for (let i = 0; i < predicted.length; i += 1) {
    if (state.predicted && data.classes[predicted[i]] !== state.predicted) continue;
    if (state.label && data.classes[label[i]] !== state.label) continue;
    if (state.which === "wrong" && !isWrong(i)) continue;
    if (state.which === "right" && (label[i] < 0 || isWrong(i))) continue;
    if (withWord && !withWord.has(i)) continue;
    rows.push(i);
  }
  table.sorted = { column: columns.indexOf(wanted), falling };
  return sortedRows(rows, wanted.value, falling);
}

function show({ top = true } = {}) {
  table.order = ordered();
  if (top) table.toTop();
  const every = data.columns.row.length, shown = table.order.length;
  const failed = data.unexplained.length ? ` ${data.unexplained.length.toLocaleString("en")} failed.` : "";
  byId("texts-status").textContent = shown === every ? `${every.toLocaleString("en")} texts.${failed}` : `${shown.toLocaleString("en")} of ${every.toLocaleString("en")} texts.${failed}`;
}

async function change(what) {
  const words = what.word !== undefined && what.word !== state.word;
  state = { ...state, ...what };
  stateToAddress(state, DEFAULTS);
  if (words) await findWord();
  show();
}

async function findWord() {
  const { word } = state;
  const found = word.trim() ? new Set((await got(`texts/word?word=${encodeURIComponent(word.trim())}`)).places) : null;
  if (word === state.word) withWord = found;
}

function layFilters() {
  const choice = (label, name, options) => {
    const select = made("select", { "data-filter": name }, ...options.map(([value, text]) => made("option", { value }, text)));
    select.value = state[name];
    if (select.selectedIndex < 0) { state[name] = ""; select.value = ""; } // a link of another run
    select.addEventListener("change", () => change({ [name]: select.value }));
    return made("label", {}, label, select);
  };
  const classes = [["", "any class"], ...data.classes.map((name) => [name, name])], labeled = data.columns.label.some((label) => label >= 0);
  const word = made("input", { type: "search", "data-filter": "word", placeholder: `any ${data.noun}`, maxlength: 200, autocomplete: "off" });
  word.value = state.word;
  let timer = 0;
  word.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => change({ word: word.value }), 200); });
  byId("filters").replaceChildren(choice("Predicted", "predicted", classes),
    ...(labeled ? [choice("labeled", "label", classes), choice("and", "which", [["", "right or wrong"], ["wrong", "wrong"], ["right", "right"]])] : []),
    made("label", {}, `with the ${data.noun}`, word));
}

// One text in full: what every method of the run says.
async function open(place, { scroll = true } = {}) {
  const row = data.columns.row[place], section = byId("one");
  table.chosen = place;
  state = { ...state, text: String(row) };
  stateToAddress(state, DEFAULTS);
  const { explanations, opening, drawn } = await got(`texts/one?row=${row}`);
  if (state.text !== String(row)) return;
  const readout = made("p", { class: "readout", "aria-live": "polite" }, `Point at a ${data.noun} for its numbers.`);
  const rows = explanations.map((e) => {
    const words = made("limelight-words");
    words.drawing = drawn[e.method] ?? "";
    words.explanation = e;
    return made("div", { class: "method" }, made("h3", {}, labelOf(e)), words, made("span", { class: "scale", title: precisionSentence(e) }, scaleInWords(e)));
  });
  const said = data.columns.label_text[place];
  const legend = made("limelight-legend");
  legend.explanations = explanations;
  const overview = made("div", { class: drawn[""] ? "overview images" : explanations[0].text.length > 300 ? "overview long" : "overview" }, ...(drawn[""] ? [made("div", { class: "method" }, made("h3", {}, "The image"), markupOf(drawn[""]), made("small", { class: "note" }, visibleText(explanations[0].text)))] : []), ...rows);
  overview.addEventListener("limelight-point", ({ target, detail: { feature } }) => {
    for (const words of all("limelight-words", overview)) words.mark(feature);
    if (feature === null) return;
    const numbers = explanations.filter((e) => e.features.length > feature).map((e) => `${labelOf(e)} ${scoreInWords(e, feature)}`);
    readout.replaceChildren(made("b", {}, visibleText(featureName(target.explanation, feature))), `: ${numbers.join(" · ")}`);
  });
  const typed = facts.typing && !drawn[""] ? [made("a", { href: `./#${new URLSearchParams({ text: explanations[0].text, ...(explanations[0].asked ? { at: explanations[0].asked.place.join(":") } : {}) })}` }, "Open in “Type and see”")] : [];
  section.hidden = false;
  section.replaceChildren(made("h2", {}, `Text ${data.columns.id[place]}`),
    made("p", { class: "opening" }, ...openingNodes(opening), said === null ? "" : ` The label is “${data.columns.label[place] < 0 ? said : data.classes[data.columns.label[place]]}”.`, " ", ...typed),
    overview, readout, legend);
  if (scroll) section.scrollIntoView({ block: "nearest" });
}

function restore() {
  layFilters();
  const place = state.text === "" ? -1 : data.columns.row.indexOf(Number(state.text));
  show();
  if (place >= 0) { open(place, { scroll: false }); table.reveal(place); } else { byId("one").hidden = true; table.chosen = null; }
}

async function begin() {
  data = await load();
  table = made("limelight-texts");
  columns = columnsOf(data);
  byId("texts").replaceChildren(table);
  table.columns = columns;
  table.addEventListener("limelight-sort", ({ detail: { column } }) => {
    const wanted = columns[column], usual = Boolean(wanted.falling);
    const falling = state.sort === wanted.name ? !(state.falling ? state.falling === "yes" : usual) : usual;
    change({ sort: wanted.name, falling: falling === usual ? "" : falling ? "yes" : "no" });
  });
  table.addEventListener("limelight-text", ({ detail: { place } }) => open(place));
  await findWord();
  restore();
  requestAnimationFrame(() => setTimeout(() => performance.mark("limelight-painted"))); // after the frame
  const failed = data.unexplained.map(({ id, error }) => made("li", {}, made("b", {}, id), `: ${error}`));
  byId("failed").hidden = !failed.length;
  byId("failed").querySelector("ul").replaceChildren(...failed);
  addEventListener("hashchange", async () => { state = stateInAddress(DEFAULTS); await findWord(); restore(); });
}
begin().catch((error) => { if (byId("trouble").hidden) throw error; });
