// <limelight-reading>: what one model makes of one text, method by method.
//
//   reading.begin({ facts, model, changed })     once
//   reading.show(state)                          whenever something has changed
//
// What is quick is asked at every change, what is slow when the reader pauses. It sends
// "limelight-answer" when something new is shown, and "limelight-word" when a word is chosen.

import { BLOCKS } from "./choices.js";
import { GONE, Refused, ServerGone, asked, showTrouble } from "./asking.js";
import "../../rendering/elements/class_meters.js";
import "../../rendering/elements/color_legend.js";
import "../../rendering/elements/colored_words.js";
import { selectAll, defineElement, makeElement, parseMarkup, openingNodes } from "../../rendering/elements/nodes.js";
import { formatNumber } from "../../rendering/elements/numbers_in_words.js";
import { formatScale, formatScore } from "../../rendering/elements/score_words.js";
import { isSigned, methodLabel } from "../../rendering/elements/shades.js";
import { visibleText } from "../../rendering/elements/text_parts.js";
import { kept, pngFile, svgFile } from "./export.js";

const PAUSE = 600; // milliseconds without a key

export class TextReading extends HTMLElement {
  #facts = null;
  #model = 0;
  #changed = false;
  #state = null;
  #version = 0;
  #shown = 0;
  #timer = 0;
  #slow = null;
  #rows = new Map();
  #parts = null;
  #card = null; // of an image, as it is

  /** The explanations that belong to the text that is shown. */
  explanations = [];
  said = null;

  begin({ facts, model, changed, title }) {
    [this.#facts, this.#model, this.#changed] = [facts, model, changed];
    this.dataset.model = model;
    this.dataset.changed = changed;
    this.#card = facts.images ? makeElement("div", { class: "method" }, makeElement("h3", {}, changed ? "What is left" : "The image"), makeElement("div")) : null;
    const parts = {
      title: makeElement("h2", {}, title), text: makeElement("p", { class: "changed-text", dir: "auto", hidden: true }),
      classes: makeElement("limelight-classes"), spans: makeElement("p", { class: "spans", dir: "auto", hidden: true, role: "group", "aria-label": "Spans that the model finds" }), opening: makeElement("p", { class: "opening" }), difference: makeElement("p", { class: "difference", hidden: true }),
      trouble: makeElement("p", { class: "trouble", hidden: true }), warnings: makeElement("ul", { class: "warnings", role: "note", "aria-label": "Warnings" }),
      rows: makeElement("div", { class: "overview" }), readout: makeElement("p", { class: "readout", "aria-live": "polite" }), key: makeElement("limelight-legend"),
    };
    this.#parts = parts;
    const shown = [parts.rows, parts.readout, parts.key], said = [parts.classes]; // an image stands above its many classes
    this.replaceChildren(parts.title, parts.text, parts.spans, parts.opening, ...(this.#card ? [] : said), parts.difference, parts.trouble,
      ...shown, ...(this.#card ? said : []), parts.warnings, this.#downloads());
    for (const name of ["limelight-point", "limelight-choose"]) this.addEventListener(name, this);
  }

  // What is shown, to keep: a page that needs no server, an image, or the numbers.
  #downloads() {
    const button = (name, make) => {
      const node = makeElement("button", { type: "button", "data-file": name }, name);
      node.addEventListener("click", () => make().catch((error) => this.#failed(error, [])));
      return node;
    };
    const file = async (kind, type) => {
      const found = await asked("file?when=paused", { ...this.#question(this.methods), place: `${this.#place} file`, parts: [kind] });
      if (found) kept(`limelight.${kind}`, found.content, type);
    };
    const whole = [button("HTML", () => file("html", "text/html")), button("JSON", () => file("json", "application/json"))];
    if (this.#card) return makeElement("p", { class: "downloads", role: "group", "aria-label": "Download", hidden: this.#changed }, "Download: ", ...whole);
    return makeElement("p", { class: "downloads", role: "group", "aria-label": "Download" }, "Download: ",
      whole[0], button("SVG", async () => kept("limelight.svg", svgFile(this), "image/svg+xml")),
      button("PNG", async () => kept("limelight.png", await pngFile(this))), whole[1]);
  }

  get #place() { return `${this.#model}${this.#changed ? " changed" : ""}`; }

  #question(methods) {
    const { text, target, against, scale, features, protect, changes, inside, at } = this.#state;
    return { place: this.#place, model: this.#model, methods: methods.map(({ id }) => id), text, target, against, scale, features, protect, at, inside: inside.length ? inside.slice(0, 2) : null, changes: this.#changed ? changes : [] };
  }

  get title_() { return this.#parts.title; }

  disconnectedCallback() { clearTimeout(this.#timer); this.#slow?.abort(); }

  /** The methods of this model that are shown, in the order of the registry. */
  get methods() { return this.#card && this.#changed ? [] : this.#facts.methods.filter(({ id }) => this.#state.methods.includes(id)); }

  show(state) {
    this.#state = state;
    clearTimeout(this.#timer);
    this.#slow?.abort();
    this.#version += 1;
    this.#layRows();
    if (!state.text.trim()) return this.#empty();
    const slow = this.methods.filter(({ quick }) => !quick);
    this.classList.add("waiting");
    this.#ask(this.methods.filter(({ quick }) => quick), "now");
    for (const { id } of slow) this.#wait(id, "waiting for a pause");
    if (slow.length) this.#timer = setTimeout(() => this.#askSlowly(slow), PAUSE);
    return undefined;
  }

  async #askSlowly(methods) {
    this.#slow = new AbortController();
    for (const { id } of methods) this.#wait(id, "asking the model", 0);
    await this.#ask(methods, "paused", { signal: this.#slow.signal, share: (done) => {
      for (const { id } of methods) this.#wait(id, "asking the model", done);
    } });
    this.#slow = null;
  }

  async #ask(methods, when, options = {}) {
    const version = this.#version;
    try {
      const found = await asked(`text?when=${when}`, this.#question(methods), options);
      showTrouble(null);
      if (found === null || version < this.#shown) return;
      if (when === "paused" && version !== this.#version) return;
      this.#shown = version;
      this.#present(found, methods, when);
    } catch (error) {
      if (version === this.#version) this.#failed(error, methods);
    }
  }

  #failed(error, methods) {
    this.classList.remove("waiting");
    if (error instanceof ServerGone) { showTrouble(GONE, () => this.show(this.#state)); return; }
    if (!(error instanceof Refused)) throw error;
    if (this.#card) this.#empty(); // what is shown is of another image
    [this.#parts.trouble.hidden, this.#parts.spans.hidden] = [false, true];
    this.#parts.trouble.textContent = `${error.message[0].toUpperCase()}${error.message.slice(1)}`;
    for (const { id } of methods) this.#rows.get(id)?.note.replaceChildren("not computed");
  }

  #present(found, methods, when) {
    const { trouble, warnings, classes } = this.#parts;
    trouble.hidden = true;
    if (when === "now") this.classList.remove("waiting");
    this.said = found.says;
    classes.outcomes = found.says.outcomes;
    this.#sayDifference(found);
    this.#laySpans(found);
    const names = new Set(methods.map(({ id }) => id)), kept = this.explanations.filter((e) => !names.has(e.method) && e.text === found.text && String(e.query?.place ?? "") === String(found.at));
    const order = this.methods.map(({ id }) => id);
    this.explanations = [...kept, ...found.explanations].sort((a, b) => order.indexOf(a.method) - order.indexOf(b.method));
    if (this.#card) this.#card.lastChild.replaceChildren(parseMarkup(found.drawn[""]), makeElement("small", { class: "note" }, visibleText(found.text)));
    for (const e of found.explanations) this.#fill(e, found.drawn[e.method]);
    for (const [id, reason] of Object.entries(found.refused)) this.#rows.get(id)?.refuse(reason);
    const said = new Set([...found.warnings, ...kept.flatMap((e) => e.warnings)]);
    warnings.replaceChildren(...[...said].map((warning) => makeElement("li", {}, visibleText(warning))));
    this.#parts.key.explanations = this.explanations;
    const kindOf = (e) => (isSigned(e) ? "signed" : found.says.one_sided.includes(e.method) ? "one-sided" : "unsigned");
    const shown = this.explanations.map(kindOf);
    const kinds = ["signed", "unsigned", "one-sided"].filter((kind) => shown.some((each) => each === kind));
    this.#parts.opening.replaceChildren(...openingNodes(found.says.opening[kinds.join(" ") || "signed"]));
    this.#sayHow();
    this.dispatchEvent(new CustomEvent("limelight-answer", { bubbles: true }));
  }

  // The text with the spans that the model finds, each to be chosen; those that overlap come after it.
  #laySpans({ text, spans, at: [at] }) {
    const line = this.#parts.spans, letters = Array.from(text), nodes = [], after = [];
    line.hidden = !spans.length;
    let done = 0;
    for (const [start, end, tag] of spans) {
      const place = `${start}:${end}`, chosen = place === at?.join(":");
      const node = makeElement(this.#changed ? "span" : "button", { class: "span", type: "button", "data-at": place, "aria-pressed": String(chosen) }, visibleText(letters.slice(start, end).join("")), " ", makeElement("small", {}, visibleText(tag)));
      if (!this.#changed) node.addEventListener("click", () => this.dispatchEvent(new CustomEvent("limelight-span", { bubbles: true, detail: { at: place } })));
      if (start < done) { after.push(" ", node); continue; }
      nodes.push(visibleText(letters.slice(done, start).join("")), node);
      done = end;
    }
    const held = line.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.at : null;
    line.replaceChildren(...nodes, visibleText(letters.slice(done).join("")), ...after);
    if (held) /** @type {HTMLElement | null} */ (line.querySelector(`[data-at="${held}"]`))?.focus();
  }

  #sayDifference({ change, text, says }) {
    const { difference, text: place } = this.#parts;
    difference.hidden = change === null;
    place.hidden = change === null || this.#card !== null;
    if (change === null) return;
    place.textContent = visibleText(text);
    const step = change.after - change.before;
    const parts = [`The ${says.scale} of ${visibleText(says.target)} goes from ${formatNumber(change.before)} to ${formatNumber(change.after)}: `, makeElement("b", {}, formatNumber(step)), "."];
    if (this.#card) parts.push(makeElement("span", { class: "note" }, ` A removed part is replaced by: ${change.replacement}.`));
    else if (change.removed !== null) parts.push(makeElement("span", { class: "note" }, ` As the methods remove it (by ${change.replacement}): ${formatNumber(change.removed - change.before)}.`));
    difference.replaceChildren(...parts);
  }

  #empty() {
    this.explanations = [];
    this.said = null;
    this.classList.remove("waiting");
    this.#parts.classes.outcomes = [];
    this.#parts.key.explanations = [];
    for (const part of ["opening", "warnings"]) this.#parts[part].replaceChildren();
    for (const part of ["difference", "trouble", "text", "spans"]) this.#parts[part].hidden = true;
    for (const row of this.#rows.values()) { row.words.explanation = null; row.note.replaceChildren(); }
    this.#card?.lastChild.replaceChildren();
    this.#parts.readout.textContent = this.#card ? "Choose an image above." : "Type a text above.";
    this.dispatchEvent(new CustomEvent("limelight-answer", { bubbles: true }));
  }

  // One row for every method, kept while the text changes: nothing jumps under the reader's eyes.
  #layRows() {
    const wanted = this.methods;
    for (const [id, row] of this.#rows) if (!wanted.some((method) => method.id === id)) { row.node.remove(); this.#rows.delete(id); }
    for (const method of wanted) if (!this.#rows.has(method.id)) this.#rows.set(method.id, this.#row(method));
    const nodes = [...(this.#card && this.#state.text ? [this.#card] : []), ...wanted.map(({ id }) => this.#rows.get(id).node)];
    if (nodes.some((node, i) => this.#parts.rows.children[i] !== node)) this.#parts.rows.replaceChildren(...nodes);
    this.explanations = this.explanations.filter((e) => wanted.some(({ id }) => id === e.method));
    this.#parts.rows.classList.toggle(this.#card ? "images" : "long", Boolean(this.#card) || this.#state.text.length > 300);
  }

  #row({ id, label, formula }) {
    const words = makeElement("limelight-words"), note = makeElement("span", { class: "scale" });
    const node = makeElement("div", { class: "method", "data-method": id }, makeElement("h3", { title: formula }, label), words, note);
    const refuse = (reason) => { words.explanation = null; words.replaceChildren(makeElement("span", { class: "note" }, reason)); note.replaceChildren(); };
    return { node, words, note, refuse };
  }

  #fill(e, drawing = "") {
    const row = this.#rows.get(e.method);
    if (!row) return;
    const focused = /** @type {HTMLElement} */ (document.activeElement), word = row.words.contains(focused) ? focused.dataset.f : null;
    row.words.drawing = drawing;
    row.words.explanation = e;
    const gone = new Set(this.#card ? this.#state.changes.map(([name]) => name) : []);
    for (const part of selectAll(".w", row.words)) part.classList.toggle("gone", gone.has(e.features[Number(part.dataset.f)].text));
    row.words.classList.remove("stale");
    if (word !== null) (row.words.querySelector(`[data-f="${CSS.escape(word)}"]`) ?? row.words.querySelector(".w"))?.focus();
    row.note.title = "score drawn in full color";
    row.note.replaceChildren(formatScale(e));
  }

  #wait(id, why, share = null) {
    const row = this.#rows.get(id);
    if (!row) return;
    row.words.classList.add("stale");
    // A button that is made anew ten times a second is gone before a click on it has ended.
    const moving = row.note.querySelector("progress");
    if (moving && share !== null) { moving.value = share; return; }
    const bar = share === null ? null : makeElement("progress", { max: 1, value: share, "aria-label": `${row.node.firstChild.textContent}: ${why}` });
    const stop = share === null ? null : makeElement("button", { type: "button" }, "Stop");
    stop?.addEventListener("click", () => { this.#slow?.abort(); for (const one of this.#rows.values()) one.note.querySelector("progress")?.parentElement.replaceChildren("stopped"); });
    row.note.replaceChildren(makeElement("span", { class: "bar-of-time" }, why, ...[bar, stop].filter(Boolean)));
  }

  #sayHow() {
    if (this.#card) { if (!this.#parts.readout.querySelector("b")) this.#parts.readout.textContent = this.#changed ? "Removed parts are blank." : "Point at a part for its numbers; click it, or press Enter, to remove it, and again to put it back."; return; }
    const { features, inside } = this.#state, block = !inside.length && BLOCKS.includes(features) ? features.slice(0, -1) : null;
    const does = block ? "to see its words." : "to remove, replace or protect it.";
    const point = `Point at a ${block ?? "word"} for its numbers`;
    if (block) this.#parts.readout.textContent = `Click a ${block}, or press Enter on it, ${does}`;
    else if (!this.#parts.readout.querySelector("b")) this.#parts.readout.textContent = this.#changed || inside.length ? `${point}.` : `${point}; click it, or press Enter, ${does}`;
  }

  handleEvent(event) {
    const words = event.target, e = words.explanation, { feature } = event.detail;
    if (feature === null) { for (const row of this.#rows.values()) row.words.mark(null); return; }
    const said = this.numbers(e, feature);
    for (const row of this.#rows.values()) if (row.words.explanation?.text === e.text) row.words.mark(feature);
    const { text, spans } = e.features[feature], times = spans.length > 1 ? ` (all ${spans.length} occurrences)` : "";
    this.#parts.readout.replaceChildren(makeElement("b", {}, visibleText(text)), `${times}: ${said.map(([label, number]) => `${label} ${number}`).join(" · ")}`);
    if (event.type !== "limelight-choose" || this.#changed) return;
    const same = text.toLowerCase(), number = e.features.slice(0, feature).filter((one) => one.text.toLowerCase() === same).length; // as the server counts
    const anchor = words.querySelector(`.w[data-f="${feature}"]:focus`) ?? words.querySelector(`.w[data-f="${feature}"]`);
    this.dispatchEvent(new CustomEvent("limelight-word", { bubbles: true, detail: { word: text, number, said, anchor, place: spans.length ? [spans[0][0], spans.at(-1)[1], number] : [] } }));
  }

  /** [label, number in words] of a feature, for every method that has it. */
  numbers(e, feature) {
    return this.explanations.filter((one) => one.text === e.text && one.features.length === e.features.length).map((one) => [methodLabel(one), formatScore(one, feature)]);
  }
}
defineElement("limelight-reading", TextReading);
