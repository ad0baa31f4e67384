// Type a text and see its explanations by each model, and the effects of changes.

import { BLOCKS, NAMES, PARTS, showChoices } from "./choices.js";
import { isChat, showDocuments } from "./document_form.js";
import { DetailSections } from "./detail_sections.js";
import { selectAll, findById, readData, listen, makeElement } from "../../rendering/elements/nodes.js";
import { visibleText } from "../../rendering/elements/text_parts.js";
import { listenForImages } from "./image_input.js";
import "./text_reading.js";
import { readAddressState, writeAddressState } from "../../rendering/elements/address_state.js";
import { closeWordMenu, openWordMenu } from "./word_menu.js";

const facts = readData("limelight-facts"), readsImages = facts.models[0].reads_images, writesAnswers = facts.models.some((model) => model.writes_answers);
const { classes, scales, features, default_features: defaultFeatures } = facts.models[0];
const methodIds = new Set(facts.models.flatMap((model) => model.methods.map(({ id }) => id)));
const DEFAULTS = {
  text: facts.models[0].example, methods: facts.models[0].default_methods, target: null, against: null, scale: scales[0],
  features: features.includes(defaultFeatures) ? defaultFeatures : "words", protect: [], changes: [], open: [], inside: [], at: null, documents: [],
};
const isString = (value) => typeof value === "string";
const isChange = (value) => Array.isArray(value) && value.length === 3 && isString(value[0]) && Number.isInteger(value[1]) && value[1] >= 0 && (value[2] === null || isString(value[2]));
const IS_VALID = {
  target: (name) => name === "predicted" || classes.includes(name), against: (name) => classes.includes(name), scale: (name) => scales.includes(name),
  features: (name) => features.includes(name), methods: (ids) => ids.every((id) => methodIds.has(id)),
  protect: (words) => words.every(isString), changes: (changes) => changes.every(isChange), open: (names) => names.every(isString),
  inside: (span) => span.length === 3 && span.every(Number.isInteger), at: (span) => /^\d{1,9}:\d{1,9}$/.test(span),
  documents: (texts) => texts.length <= 100 && texts.every(isString),
};
const stateOfAddress = () => readAddressState(DEFAULTS, IS_VALID);
let state = stateOfAddress();

function changeState(changes, { address = true } = {}) {
  state = { ...state, ...changes };
  showChoices(findById("choices"), facts, state, changeAndKeepFocus);
  showChanges();
  if (writesAnswers) showDocuments(findById("documents"), state.documents, findById("text").maxLength, (documents) => changeState({ documents, changes: [], inside: [] }));
  if (String(Object.keys(changes)) !== "open") showReadings(); // opening a section needs no new scores
  sections.show(state, originals());
  if (address) writeAddressState(readsImages ? { ...state, text: "" } : state, DEFAULTS); // the bytes of an image do not fit into a link
}

const sections = new DetailSections(findById("sections"), facts, (open) => { if (String(open) !== String(state.open)) changeState({ open }); });
const originals = () => selectAll("[data-changed=false]", findById("readings"))
  .map((node) => ({ explanations: node.explanations, name: facts.models.length > 1 ? facts.models[Number(node.dataset.model)].name : "" }));
findById("readings").addEventListener("limelight-answer", () => sections.showScores(originals()));

// The choices are replaced. The one that was changed with the keyboard keeps the focus.
function changeAndKeepFocus(changes) {
  const controls = () => selectAll("select, input, summary", findById("choices")), focused = controls().indexOf(document.activeElement);
  changeState(changes);
  if (focused >= 0) controls()[focused]?.focus();
}

function showReadings() {
  const container = findById("readings"), hasChanges = state.changes.length > 0, hasModels = facts.models.length > 1;
  const readings = facts.models.flatMap((model, i) => (hasChanges ? [[model, i, false], [model, i, true]] : [[model, i, false]]));
  container.dataset.columns = readings.length > 1 ? "2" : "1";
  const oldNodes = new Map([...container.children].map((node) => [`${node.dataset.model} ${node.dataset.changed}`, node]));
  const nodes = readings.map(([model, i, isChanged]) => oldNodes.get(`${i} ${isChanged}`) ?? makeReading(model, i, isChanged));
  if (nodes.length !== container.children.length || nodes.some((node, i) => container.children[i] !== node)) container.replaceChildren(...nodes);
  readings.forEach(([model, , isChanged], i) => {
    const title = isChanged ? "With the changes" : !hasChanges ? "Overview" : readsImages ? "The whole image" : "As you typed it";
    nodes[i].heading.textContent = hasModels ? `${visibleText(model.name)}${hasChanges ? ` · ${title.toLowerCase()}` : ""}` : title;
    nodes[i].show({ ...state, messages: writesAnswers && isChat(state.text) });
  });
}

function makeReading(model, i, isChanged) {
  const node = makeElement("limelight-reading");
  node.setUp({ facts: model, model: i, isChanged, title: "" });
  return node;
}

// Show the changes as chips, each with a button to undo it.
function showChanges() {
  const chip = (text, undo, name) => {
    const button = makeElement("button", { type: "button", "aria-label": `Undo: ${name}` }, "×");
    button.addEventListener("click", undo);
    return makeElement("span", { class: "chip" }, text, " ", button);
  };
  const without = (list, i) => list.filter((_, k) => k !== i);
  const nodes = state.changes.map(([word, , replacement], i) => {
    const description = replacement === null ? `“${visibleText(word)}” removed` : `“${visibleText(word)}” → “${visibleText(replacement)}”`;
    return chip(description, () => changeState({ changes: without(state.changes, i) }), description);
  });
  nodes.push(...state.protect.map((word, i) => chip(`“${visibleText(word)}” protected`, () => changeState({ protect: without(state.protect, i) }), `“${visibleText(word)}” protected`)));
  const isTyped = !readsImages && !(writesAnswers && (isChat(state.text) || state.documents.some((text) => text.trim())));
  if (state.changes.length && isTyped) {
    const keep = makeElement("button", { type: "button", id: "keep" }, "Keep the changes");
    keep.addEventListener("click", () => {
      const text = findById("readings").querySelector("[data-changed=true]")?.querySelector(".changed-text")?.textContent;
      if (text) { findById("text").value = text; changeState({ text, changes: [], at: null }); }
    });
    nodes.push(keep);
  }
  if (state.inside.length) {
    const name = NAMES[state.features] ?? state.features, [start, end, number] = state.inside;
    const shown = isTyped ? state.text : originals()[0]?.explanations[0]?.text ?? "";
    const part = Array.from(shown).slice(start, end).join(""), text = visibleText(part);
    const back = makeElement("button", { type: "button", id: "back" }, `‹ Back to all ${name}`), remove = makeElement("button", { type: "button" }, "Remove this one");
    back.addEventListener("click", () => changeState({ inside: [] }));
    remove.addEventListener("click", () => changeState({ changes: [[part, number, null]], inside: [] }));
    nodes.unshift(back, makeElement("span", { class: "note" }, "The words of “", makeElement("bdi", {}, text.length > 60 ? `${text.slice(0, 59)}…` : text), "”, the rest as it is."), ...(isTyped ? [remove] : []));
  }
  findById("changes").replaceChildren(...nodes);
}

listen(findById("readings"), "limelight-word", ({ detail: { word, number, numbers, anchor, span, kind } }) => {
  if (readsImages) { // a click removes a part, and a second click restores it
    const otherChanges = state.changes.filter(([other]) => other !== word);
    changeState({ changes: otherChanges.length < state.changes.length ? otherChanges : [...otherChanges, [word, number, null]] });
    return;
  }
  if (BLOCKS.includes(kind)) { if (!state.inside.length) changeState({ inside: span }); return; }
  openWordMenu({ anchor, word, numbers, isPart: PARTS.includes(kind), onAction: (action, replacement) => {
    if (action === "words") { changeState({ inside: span, changes: [] }); return; }
    if (action === "protect") { changeState({ protect: [...new Set([...state.protect, word])], changes: [] }); return; }
    const otherChanges = state.changes.filter(([other, k]) => other !== word || k !== number);
    changeState({ changes: [...otherChanges, [word, number, replacement]] });
  } });
});
if (readsImages) listenForImages(findById("file"), findById("drop"), (text) => changeState({ text, changes: [] }));
else findById("text").addEventListener("input", () => { closeWordMenu(); changeState({ text: findById("text").value, changes: [], inside: [], at: null }); });
listen(findById("readings"), "limelight-span", ({ detail: { at } }) => { closeWordMenu(); changeState({ at, changes: [], inside: [] }); });
findById("readings").addEventListener("keydown", (event) => { if (event.key === "Escape" && state.inside.length) changeState({ inside: [] }); });
const restore = () => { if (!readsImages) findById("text").value = state.text; changeState({}, { address: false }); };
addEventListener("hashchange", () => { state = { ...stateOfAddress(), ...(readsImages ? { text: state.text } : {}) }; restore(); });
restore();
findById(readsImages ? "file" : "text").focus({ preventScroll: true });
if (!readsImages && state.text === DEFAULTS.text) findById("text").select(); // typing replaces the example
