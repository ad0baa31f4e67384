// The texts of a run: a table to sort and filter, and one text in full.

import { UNREACHABLE, showError } from "./requests.js";
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
const DEFAULTS = { sort: "text", descending: "", predicted: "", label: "", which: "", word: "", text: "" };
let state = readAddressState(DEFAULTS), data = null, table = null, positionsWithWord = null;

async function fetchJson(path) {
  let response;
  try {
    response = await fetch(path);
  } catch {
    showError(UNREACHABLE, () => location.reload());
    throw new Error("unreachable");
  }
  showError(null);
  const answer = await response.json();
  if (answer.error) { showError(answer.error); throw new Error(answer.error); }
  return answer;
}

const wait = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });

async function load() {
  for (;;) {
    const answer = await fetchJson("texts.json");
    if (answer.columns) { performance.mark("limelight-data"); return answer; }
    findById("texts-status").textContent = `Reading the run: ${(100 * answer.progress).toFixed(0)}%`;
    await wait(250);
  }
}

const isWrong = (i) => data.columns.label[i] >= 0 && data.columns.label[i] !== data.columns.predicted[i];
const formatCell = (x) => (x === null ? "–" : typographicMinus(x.toFixed(3)));

function makeColumns({ columns, classes, methods, noun, is_probability: isProbability }) {
  const confidence = (i) => columns.confidence[i], labeled = columns.label.some((label) => label >= 0);
  return [
    { name: "text", label: "text", value: (i) => columns.row[i], render: (i) => [makeElement("span", { class: "id" }, columns.id[i]), makeElement("bdi", {}, columns.opening[i])] },
    { name: "predicted", label: "predicted", value: (i) => columns.predicted[i], render: (i) => classes[columns.predicted[i]] ?? "–" },
    { name: "confidence", label: isProbability ? "probability" : "margin", value: confidence, descending: true, render: (i) => (confidence(i) === null ? "–" : isProbability ? formatPercent(confidence(i)) : formatCell(confidence(i))) },
    ...(labeled ? [
      { name: "label", label: "label", value: (i) => columns.label[i], render: (i) => (columns.label_text[i] === null ? "–" : columns.label[i] < 0 ? columns.label_text[i] : classes[columns.label[i]]) },
      { name: "mistake", label: "mistake", descending: true, value: (i) => (isWrong(i) ? confidence(i) ?? 0 : null), render: (i) => makeElement("td", { class: isWrong(i) ? "wrong" : null }, columns.label[i] < 0 ? "–" : isWrong(i) ? "wrong" : "right") },
    ] : []),
    ...(methods.length > 1 ? [{ name: "disagreement", label: "disagreement", descending: true, value: (i) => columns.disagreement[i], render: (i) => formatCell(columns.disagreement[i]) }] : []),
    { name: "words", label: pluralize(noun), descending: true, value: (i) => columns.words[i], render: (i) => String(columns.words[i]) },
  ];
}

let columns = [];

function visibleRows() {
  const { predicted, label } = data.columns, column = columns.find(({ name }) => name === state.sort) ?? columns[0];
  const descending = state.descending ? state.descending === "yes" : Boolean(column.descending);
  const rows = [];
  for (let i = 0; i < predicted.length; i += 1) {
    if (state.predicted && data.classes[predicted[i]] !== state.predicted) continue;
    if (state.label && data.classes[label[i]] !== state.label) continue;
    if (state.which === "wrong" && !isWrong(i)) continue;
    if (state.which === "right" && (label[i] < 0 || isWrong(i))) continue;
    if (positionsWithWord && !positionsWithWord.has(i)) continue;
    rows.push(i);
  }
  table.sorted = { column: columns.indexOf(column), descending };
  return sortRows(rows, column.value, descending);
}

function showTable({ top = true } = {}) {
  table.order = visibleRows();
  if (top) table.toTop();
  const total = data.columns.row.length, visible = table.order.length;
  const failures = data.failures.length ? ` ${data.failures.length.toLocaleString("en")} failed.` : "";
  findById("texts-status").textContent = visible === total ? `${total.toLocaleString("en")} texts.${failures}` : `${visible.toLocaleString("en")} of ${total.toLocaleString("en")} texts.${failures}`;
}

async function changeState(changes) {
  const isNewWord = changes.word !== undefined && changes.word !== state.word;
  state = { ...state, ...changes };
  writeAddressState(state, DEFAULTS);
  if (isNewWord) await findWord();
  showTable();
}

async function findWord() {
  const { word } = state;
  const positions = word.trim() ? new Set((await fetchJson(`texts/word?word=${encodeURIComponent(word.trim())}`)).positions) : null;
  if (word === state.word) positionsWithWord = positions;
}

function showFilters() {
  const choice = (label, name, options) => {
    const select = makeElement("select", { "data-filter": name }, ...options.map(([value, text]) => makeElement("option", { value }, text)));
    select.value = state[name];
    if (select.selectedIndex < 0) { state[name] = ""; select.value = ""; } // a link of another run
    select.addEventListener("change", () => changeState({ [name]: select.value }));
    return makeElement("label", {}, label, select);
  };
  const classes = [["", "any class"], ...data.classes.map((name) => [name, name])], labeled = data.columns.label.some((label) => label >= 0);
  const word = makeElement("input", { type: "search", "data-filter": "word", placeholder: `any ${data.noun}`, maxlength: 200, autocomplete: "off" });
  word.value = state.word;
  let timer = 0;
  word.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => changeState({ word: word.value }), 200); });
  findById("filters").replaceChildren(choice("Predicted", "predicted", classes),
    ...(labeled ? [choice("labeled", "label", classes), choice("and", "which", [["", "right or wrong"], ["wrong", "wrong"], ["right", "right"]])] : []),
    makeElement("label", {}, `with the ${data.noun}`, word));
}

// What someone would type to explain the same text again. Chats, documents and pairs give null.
function typedText({ text, parts, query }) {
  if (!parts) return text;
  return parts.length === 1 && parts[0].role === "user" && query?.question ? query.question : null;
}

// Show one text with the explanations of all methods of the run.
async function openText(position, { scroll = true } = {}) {
  const row = data.columns.row[position], section = findById("text");
  table.chosen = position;
  state = { ...state, text: String(row) };
  writeAddressState(state, DEFAULTS);
  const { explanations, opening, drawings } = await fetchJson(`texts/text?row=${row}`);
  if (state.text !== String(row)) return;
  const readout = makeElement("p", { class: "readout", "aria-live": "polite" }, `Hover a ${data.noun} for its numbers.`);
  const rows = explanations.map((e) => {
    const words = makeElement("limelight-words");
    words.drawing = drawings[e.method] ?? "";
    words.explanation = e;
    return makeElement("div", { class: "method" }, makeElement("h3", {}, methodLabel(e)), words, makeElement("span", { class: "scale", title: precisionSentence(e) }, formatScale(e)));
  });
  const labelText = data.columns.label_text[position];
  const legend = makeElement("limelight-legend");
  legend.explanations = explanations;
  const overview = makeElement("div", { class: drawings[""] ? "overview images" : explanations[0].text.length > 300 ? "overview long" : "overview" }, ...(drawings[""] ? [makeElement("div", { class: "method" }, makeElement("h3", {}, "The image"), parseMarkup(drawings[""]), makeElement("small", { class: "note" }, visibleText(explanations[0].text)))] : []), ...rows);
  overview.addEventListener("limelight-point", ({ target, detail: { feature } }) => {
    for (const words of selectAll("limelight-words", overview)) words.mark(feature);
    if (feature === null) return;
    const numbers = explanations.filter((e) => e.features.length > feature).map((e) => `${methodLabel(e)} ${formatScore(e, feature)}`);
    readout.replaceChildren(makeElement("b", {}, visibleText(featureName(target.explanation, feature))), `: ${numbers.join(" · ")}`);
  });
  const typed = typedText(explanations[0]);
  const links = facts.has_models && !drawings[""] && typed !== null ? [makeElement("a", { href: `./#${new URLSearchParams({ text: typed, ...(explanations[0].query?.span ? { at: explanations[0].query.span.join(":") } : {}) })}` }, "Open in “Type and see”")] : [];
  section.hidden = false;
  section.replaceChildren(makeElement("h2", {}, `Text ${data.columns.id[position]}`),
    makeElement("p", { class: "opening" }, ...openingNodes(opening), labelText === null ? "" : ` The label is “${data.columns.label[position] < 0 ? labelText : data.classes[data.columns.label[position]]}”.`, " ", ...links),
    overview, readout, legend);
  if (scroll) section.scrollIntoView({ block: "nearest" });
}

function restore() {
  showFilters();
  const position = state.text === "" ? -1 : data.columns.row.indexOf(Number(state.text));
  showTable();
  if (position >= 0) { openText(position, { scroll: false }); table.reveal(position); } else { findById("text").hidden = true; table.chosen = null; }
}

async function start() {
  data = await load();
  table = makeElement("limelight-texts");
  columns = makeColumns(data);
  findById("texts").replaceChildren(table);
  table.columns = columns;
  table.addEventListener("limelight-sort", ({ detail: { column: index } }) => {
    const column = columns[index], isDefaultDescending = Boolean(column.descending);
    const descending = state.sort === column.name ? !(state.descending ? state.descending === "yes" : isDefaultDescending) : isDefaultDescending;
    changeState({ sort: column.name, descending: descending === isDefaultDescending ? "" : descending ? "yes" : "no" });
  });
  table.addEventListener("limelight-text", ({ detail: { position } }) => openText(position));
  await findWord();
  restore();
  requestAnimationFrame(() => setTimeout(() => performance.mark("limelight-painted"))); // after the frame
  const failures = data.failures.map(({ id, error }) => makeElement("li", {}, makeElement("b", {}, id), `: ${error}`));
  findById("failed").hidden = !failures.length;
  findById("failed").querySelector("ul").replaceChildren(...failures);
  addEventListener("hashchange", async () => { state = readAddressState(DEFAULTS); await findWord(); restore(); });
}
start().catch((error) => { if (findById("error").hidden) throw error; });
