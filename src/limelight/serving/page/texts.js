// The texts of a run: sorted, filtered, and any of them in full.

import { GONE, showTrouble } from "./asking.js";
import "../../rendering/elements/class_meters.js";
import "../../rendering/elements/color_legend.js";
import "../../rendering/elements/colored_words.js";
import { selectAll, findById, readData, makeElement, parseMarkup, openingNodes } from "../../rendering/elements/nodes.js";
import { typographicMinus, formatPercent, precisionSentence } from "../../rendering/elements/numbers_in_words.js";
import { formatScale, formatScore } from "../../rendering/elements/score_words.js";
import { methodLabel, pluralize } from "../../rendering/elements/shades.js";
import { featureName, visibleText } from "../../rendering/elements/text_parts.js";
import { sortRows } from "../../rendering/elements/text_table.js";
import { readAddressState, writeAddressState } from "../../rendering/elements/address_state.js";

const facts = readData("limelight-facts");
const DEFAULTS = { sort: "text", falling: "", predicted: "", label: "", which: "", word: "", text: "" };
let state = readAddressState(DEFAULTS), data = null, table = null, withWord = null;

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
    findById("texts-status").textContent = `Reading the run: ${(100 * said.share).toFixed(0)}%`;
    await wait(250);
  }
}

const isWrong = (i) => data.columns.label[i] >= 0 && data.columns.label[i] !== data.columns.predicted[i];
const shownNumber = (x) => (x === null ? "–" : typographicMinus(x.toFixed(3)));

function columnsOf({ columns, classes, methods, noun, is_probability: isProbability }) {
  const sure = (i) => columns.confidence[i], labeled = columns.label.some((label) => label >= 0);
  return [
    { name: "text", label: "text", value: (i) => columns.row[i], shown: (i) => [makeElement("span", { class: "id" }, columns.id[i]), makeElement("bdi", {}, columns.opening[i])] },
    { name: "predicted", label: "predicted", value: (i) => columns.predicted[i], shown: (i) => classes[columns.predicted[i]] ?? "–" },
    { name: "sure", label: isProbability ? "probability" : "margin", value: sure, falling: true, shown: (i) => (sure(i) === null ? "–" : isProbability ? formatPercent(sure(i)) : shownNumber(sure(i))) },
    ...(labeled ? [
      { name: "label", label: "label", value: (i) => columns.label[i], shown: (i) => (columns.label_text[i] === null ? "–" : columns.label[i] < 0 ? columns.label_text[i] : classes[columns.label[i]]) },
      { name: "mistake", label: "mistake", falling: true, value: (i) => (isWrong(i) ? sure(i) ?? 0 : null), shown: (i) => makeElement("td", { class: isWrong(i) ? "wrong" : null }, columns.label[i] < 0 ? "–" : isWrong(i) ? "wrong" : "right") },
    ] : []),
    ...(methods.length > 1 ? [{ name: "disagreement", label: "disagreement", falling: true, value: (i) => columns.disagreement[i], shown: (i) => shownNumber(columns.disagreement[i]) }] : []),
    { name: "words", label: pluralize(noun), falling: true, value: (i) => columns.words[i], shown: (i) => String(columns.words[i]) },
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
  return sortRows(rows, wanted.value, falling);
}

function show({ top = true } = {}) {
  table.order = ordered();
  if (top) table.toTop();
  const every = data.columns.row.length, shown = table.order.length;
  const failed = data.unexplained.length ? ` ${data.unexplained.length.toLocaleString("en")} failed.` : "";
  findById("texts-status").textContent = shown === every ? `${every.toLocaleString("en")} texts.${failed}` : `${shown.toLocaleString("en")} of ${every.toLocaleString("en")} texts.${failed}`;
}

async function change(what) {
  const words = what.word !== undefined && what.word !== state.word;
  state = { ...state, ...what };
  writeAddressState(state, DEFAULTS);
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
    const select = makeElement("select", { "data-filter": name }, ...options.map(([value, text]) => makeElement("option", { value }, text)));
    select.value = state[name];
    if (select.selectedIndex < 0) { state[name] = ""; select.value = ""; } // a link of another run
    select.addEventListener("change", () => change({ [name]: select.value }));
    return makeElement("label", {}, label, select);
  };
  const classes = [["", "any class"], ...data.classes.map((name) => [name, name])], labeled = data.columns.label.some((label) => label >= 0);
  const word = makeElement("input", { type: "search", "data-filter": "word", placeholder: `any ${data.noun}`, maxlength: 200, autocomplete: "off" });
  word.value = state.word;
  let timer = 0;
  word.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => change({ word: word.value }), 200); });
  findById("filters").replaceChildren(choice("Predicted", "predicted", classes),
    ...(labeled ? [choice("labeled", "label", classes), choice("and", "which", [["", "right or wrong"], ["wrong", "wrong"], ["right", "right"]])] : []),
    makeElement("label", {}, `with the ${data.noun}`, word));
}

// One text in full: what every method of the run says.
async function open(place, { scroll = true } = {}) {
  const row = data.columns.row[place], section = findById("one");
  table.chosen = place;
  state = { ...state, text: String(row) };
  writeAddressState(state, DEFAULTS);
  const { explanations, opening, drawn } = await got(`texts/one?row=${row}`);
  if (state.text !== String(row)) return;
  const readout = makeElement("p", { class: "readout", "aria-live": "polite" }, `Point at a ${data.noun} for its numbers.`);
  const rows = explanations.map((e) => {
    const words = makeElement("limelight-words");
    words.drawing = drawn[e.method] ?? "";
    words.explanation = e;
    return makeElement("div", { class: "method" }, makeElement("h3", {}, methodLabel(e)), words, makeElement("span", { class: "scale", title: precisionSentence(e) }, formatScale(e)));
  });
  const said = data.columns.label_text[place];
  const legend = makeElement("limelight-legend");
  legend.explanations = explanations;
  const overview = makeElement("div", { class: drawn[""] ? "overview images" : explanations[0].text.length > 300 ? "overview long" : "overview" }, ...(drawn[""] ? [makeElement("div", { class: "method" }, makeElement("h3", {}, "The image"), parseMarkup(drawn[""]), makeElement("small", { class: "note" }, visibleText(explanations[0].text)))] : []), ...rows);
  overview.addEventListener("limelight-point", ({ target, detail: { feature } }) => {
    for (const words of selectAll("limelight-words", overview)) words.mark(feature);
    if (feature === null) return;
    const numbers = explanations.filter((e) => e.features.length > feature).map((e) => `${methodLabel(e)} ${formatScore(e, feature)}`);
    readout.replaceChildren(makeElement("b", {}, visibleText(featureName(target.explanation, feature))), `: ${numbers.join(" · ")}`);
  });
  const typed = facts.typing && !drawn[""] ? [makeElement("a", { href: `./#${new URLSearchParams({ text: explanations[0].text, ...(explanations[0].query ? { at: explanations[0].query.place.join(":") } : {}) })}` }, "Open in “Type and see”")] : [];
  section.hidden = false;
  section.replaceChildren(makeElement("h2", {}, `Text ${data.columns.id[place]}`),
    makeElement("p", { class: "opening" }, ...openingNodes(opening), said === null ? "" : ` The label is “${data.columns.label[place] < 0 ? said : data.classes[data.columns.label[place]]}”.`, " ", ...typed),
    overview, readout, legend);
  if (scroll) section.scrollIntoView({ block: "nearest" });
}

function restore() {
  layFilters();
  const place = state.text === "" ? -1 : data.columns.row.indexOf(Number(state.text));
  show();
  if (place >= 0) { open(place, { scroll: false }); table.reveal(place); } else { findById("one").hidden = true; table.chosen = null; }
}

async function begin() {
  data = await load();
  table = makeElement("limelight-texts");
  columns = columnsOf(data);
  findById("texts").replaceChildren(table);
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
  const failed = data.unexplained.map(({ id, error }) => makeElement("li", {}, makeElement("b", {}, id), `: ${error}`));
  findById("failed").hidden = !failed.length;
  findById("failed").querySelector("ul").replaceChildren(...failed);
  addEventListener("hashchange", async () => { state = readAddressState(DEFAULTS); await findWord(); restore(); });
}
begin().catch((error) => { if (findById("trouble").hidden) throw error; });
