// Type and see: the text, what each model makes of it, and what a change does.

import { BLOCKS, NAMES, layChoices } from "./choices.js";
import { CloserParts } from "./closer_parts.js";
import { selectAll, findById, readData, listen, makeElement } from "../../rendering/elements/nodes.js";
import { visibleText } from "../../rendering/elements/text_parts.js";
import { takeImages } from "./image_input.js";
import "./text_reading.js";
import { readAddressState, writeAddressState } from "../../rendering/elements/address_state.js";
import { closeWordMenu, openWordMenu } from "./word_menu.js";

const facts = readData("limelight-facts"), images = facts.models[0].images;
const { classes, scales, features, unit } = facts.models[0], offered = new Set(facts.models.flatMap((model) => model.methods.map(({ id }) => id)));
const DEFAULTS = {
  text: "", methods: facts.models[0].first, target: null, against: null, scale: scales[0],
  features: features.includes(unit) ? unit : "words", protect: [], changes: [], open: [], inside: [], at: null,
};
const isWord = (one) => typeof one === "string";
const isChange = (one) => Array.isArray(one) && one.length === 3 && isWord(one[0]) && Number.isInteger(one[1]) && one[1] >= 0 && (one[2] === null || isWord(one[2]));
const FITS = {
  target: (name) => name === "predicted" || classes.includes(name), against: (name) => classes.includes(name), scale: (name) => scales.includes(name),
  features: (name) => features.includes(name), methods: (ids) => ids.every((id) => offered.has(id)),
  protect: (words) => words.every(isWord), changes: (several) => several.every(isChange), open: (names) => names.every(isWord),
  inside: (place) => place.length === 3 && place.every(Number.isInteger), at: (place) => /^\d{1,9}:\d{1,9}$/.test(place),
};
const inAddress = () => readAddressState(DEFAULTS, FITS);
let state = inAddress();

function change(what, { address = true } = {}) {
  state = { ...state, ...what };
  layChoices(findById("choices"), facts, state, refocused);
  layChanges();
  if (String(Object.keys(what)) !== "open") layReadings(); // a part that opens asks nothing anew of the methods
  closer.show(state, originals());
  if (address) writeAddressState(images ? { ...state, text: "" } : state, DEFAULTS); // bytes are no link
}

const closer = new CloserParts(findById("closer"), facts, (open) => { if (String(open) !== String(state.open)) change({ open }); });
const originals = () => selectAll("[data-changed=false]", findById("readings"))
  .map((node) => ({ explanations: node.explanations, name: facts.models.length > 1 ? facts.models[Number(node.dataset.model)].name : "" }));
findById("readings").addEventListener("limelight-answer", () => closer.showOwn(originals()));

// The choices are laid anew; whoever changed one with the keyboard stays on it.
function refocused(what) {
  const controls = () => selectAll("select, input, summary", findById("choices")), here = controls().indexOf(document.activeElement);
  change(what);
  if (here >= 0) controls()[here]?.focus();
}

function layReadings() {
  const place = findById("readings"), changed = state.changes.length > 0, several = facts.models.length > 1;
  const wanted = facts.models.flatMap((model, i) => (changed ? [[model, i, false], [model, i, true]] : [[model, i, false]]));
  place.dataset.columns = wanted.length > 1 ? "2" : "1";
  const key = ([, i, own]) => `${i} ${own}`, known = new Map([...place.children].map((node) => [`${node.dataset.model} ${node.dataset.changed}`, node]));
  const nodes = wanted.map((one) => known.get(key(one)) ?? begun(one));
  if (nodes.length !== place.children.length || nodes.some((node, i) => place.children[i] !== node)) place.replaceChildren(...nodes);
  wanted.forEach(([model, , own], i) => {
    const what = own ? "With the changes" : !changed ? "In short" : images ? "The whole image" : "As you typed it";
    nodes[i].title_.textContent = several ? `${visibleText(model.name)}${changed ? ` · ${what.toLowerCase()}` : ""}` : what;
    nodes[i].show(state);
  });
}

function begun([model, i, changed]) {
  const node = makeElement("limelight-reading");
  node.begin({ facts: model, model: i, changed, title: "" });
  return node;
}

// What was changed, as chips that take it back.
function layChanges() {
  const chip = (text, undo, name) => {
    const button = makeElement("button", { type: "button", "aria-label": `Undo: ${name}` }, "×");
    button.addEventListener("click", undo);
    return makeElement("span", { class: "chip" }, text, " ", button);
  };
  const without = (list, i) => list.filter((_, k) => k !== i);
  const nodes = state.changes.map(([word, , instead], i) => {
    const said = instead === null ? `“${visibleText(word)}” removed` : `“${visibleText(word)}” → “${visibleText(instead)}”`;
    return chip(said, () => change({ changes: without(state.changes, i) }), said);
  });
  nodes.push(...state.protect.map((word, i) => chip(`“${visibleText(word)}” protected`, () => change({ protect: without(state.protect, i) }), `“${visibleText(word)}” protected`)));
  if (state.changes.length && !images) {
    const keep = makeElement("button", { type: "button", id: "keep" }, "Keep the changes");
    keep.addEventListener("click", () => {
      const text = findById("readings").querySelector("[data-changed=true]")?.querySelector(".changed-text")?.textContent;
      if (text) { findById("text").value = text; change({ text, changes: [], at: null }); }
    });
    nodes.push(keep);
  }
  if (state.inside.length) {
    const name = NAMES[state.features] ?? state.features, [start, end, number] = state.inside;
    const own = Array.from(state.text).slice(start, end).join(""), text = visibleText(own);
    const back = makeElement("button", { type: "button", id: "back" }, `‹ Back to all ${name}`), remove = makeElement("button", { type: "button" }, "Remove this one");
    back.addEventListener("click", () => change({ inside: [] }));
    remove.addEventListener("click", () => change({ changes: [[own, number, null]], inside: [] }));
    nodes.unshift(back, makeElement("span", { class: "note" }, "The words of “", makeElement("bdi", {}, text.length > 60 ? `${text.slice(0, 59)}…` : text), "”, the rest as it is."), remove);
  }
  findById("changes").replaceChildren(...nodes);
}

listen(findById("readings"), "limelight-word", ({ detail: { word, number, said, anchor, place } }) => {
  if (images) { // a part goes with a click, and comes back with another
    const others = state.changes.filter(([other]) => other !== word);
    change({ changes: others.length < state.changes.length ? others : [...others, [word, number, null]] });
    return;
  }
  if (BLOCKS.includes(state.features)) { if (!state.inside.length) change({ inside: place }); return; }
  openWordMenu({ anchor, word, said, act: (what, instead) => {
    if (what === "protect") { change({ protect: [...new Set([...state.protect, word])], changes: [] }); return; }
    const others = state.changes.filter(([other, k]) => other !== word || k !== number);
    change({ changes: [...others, [word, number, instead]] });
  } });
});
if (images) takeImages(findById("file"), findById("drop"), (text) => change({ text, changes: [] }));
else findById("text").addEventListener("input", () => { closeWordMenu(); change({ text: findById("text").value, inside: [], at: null }); });
listen(findById("readings"), "limelight-span", ({ detail: { at } }) => { closeWordMenu(); change({ at, changes: [], inside: [] }); });
findById("readings").addEventListener("keydown", (event) => { if (event.key === "Escape" && state.inside.length) change({ inside: [] }); });
const restore = () => { if (!images) findById("text").value = state.text; change({}, { address: false }); };
addEventListener("hashchange", () => { state = { ...inAddress(), ...(images ? { text: state.text } : {}) }; restore(); });
restore();
findById(images ? "file" : "text").focus({ preventScroll: true });
