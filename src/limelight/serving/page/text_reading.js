// <limelight-reading>: the prediction of one model for one text, and its explanations by method.
//
//   reading.setUp({ facts, model, isChanged, title })   once
//   reading.show(state)                                 after every change
//
// Fast methods are requested at every change, slow methods when the reader pauses. Until the scores
// of a slow default method arrive, its row shows those of a fast method, the preview. The element
// sends "limelight-answer" when it shows a new answer, and "limelight-word" when a word is clicked.

import { BLOCKS, PARTS } from "./choices.js";
import { RequestError, ServerUnreachable, UNREACHABLE, sendRequest, showError } from "./requests.js";
import "../../rendering/elements/class_meters.js";
import "../../rendering/elements/color_legend.js";
import "../../rendering/elements/colored_words.js";
import { selectAll, defineElement, makeElement, parseMarkup, openingNodes } from "../../rendering/elements/nodes.js";
import { formatNumber } from "../../rendering/elements/numbers_in_words.js";
import { formatScale, formatScore } from "../../rendering/elements/score_words.js";
import { isSigned, methodLabel } from "../../rendering/elements/shades.js";
import { visibleText } from "../../rendering/elements/text_parts.js";
import { downloadFile, pngFile, svgFile } from "./export.js";

const PAUSE = 600; // milliseconds without a key

export class TextReading extends HTMLElement {
  #facts = null;
  #model = 0;
  #isChanged = false;
  #state = null;
  #version = 0;
  #shownVersion = 0;
  #finalVersion = 0; // of the last answer of the slow methods
  #timer = 0;
  #slowRequest = null;
  #rows = new Map();
  #parts = null;
  #card = null; // shows an image without scores

  /** The explanations of the displayed text. */
  explanations = [];
  prediction = null;

  setUp({ facts, model, isChanged, title }) {
    [this.#facts, this.#model, this.#isChanged] = [facts, model, isChanged];
    this.dataset.model = model;
    this.dataset.changed = String(isChanged);
    this.#card = facts.reads_images ? makeElement("div", { class: "method" }, makeElement("h3", {}, isChanged ? "The changed image" : "The image"), makeElement("div")) : null;
    const parts = {
      title: makeElement("h2", {}, title), text: makeElement("p", { class: "changed-text", dir: "auto", hidden: true }),
      classes: makeElement("limelight-classes"), spans: makeElement("p", { class: "spans", dir: "auto", hidden: true, role: "group", "aria-label": "Spans that the model finds" }), opening: makeElement("p", { class: "opening" }), difference: makeElement("p", { class: "difference", hidden: true }),
      error: makeElement("p", { class: "error", hidden: true }), warnings: makeElement("ul", { class: "warnings", role: "note", "aria-label": "Warnings" }),
      rows: makeElement("div", { class: "overview" }), readout: makeElement("p", { class: "readout", "aria-live": "polite" }), key: makeElement("limelight-legend"),
    };
    this.#parts = parts;
    const scoreParts = [parts.rows, parts.readout, parts.key];
    this.replaceChildren(parts.title, parts.text, parts.spans, parts.opening, ...(this.#card ? [] : [parts.classes]), parts.difference, parts.error,
      ...scoreParts, ...(this.#card ? [parts.classes] : []), // an image comes before its many classes
      parts.warnings, this.#downloads());
    for (const name of ["limelight-point", "limelight-choose"]) this.addEventListener(name, this);
  }

  // Buttons that download a page which needs no server, a drawing, or the numbers.
  #downloads() {
    const button = (name, action) => {
      const node = makeElement("button", { type: "button", "data-file": name, disabled: true }, name);
      node.addEventListener("click", () => action().catch((error) => this.#showFailure(error, [])));
      return node;
    };
    const download = async (format, type) => {
      const file = await sendRequest("file?when=paused", { ...this.#requestFor(this.methods), panel: `${this.#panel} file`, sections: [format] });
      if (file) downloadFile(`limelight.${format}`, file.content, type);
    };
    const [html, json] = [button("HTML", () => download("html", "text/html")), button("JSON", () => download("json", "application/json"))];
    if (this.#card) return makeElement("p", { class: "downloads", role: "group", "aria-label": "Download", hidden: this.#isChanged }, "Download: ", html, json);
    return makeElement("p", { class: "downloads", role: "group", "aria-label": "Download" }, "Download: ",
      html, button("SVG", async () => downloadFile("limelight.svg", svgFile(this), "image/svg+xml")),
      button("PNG", async () => downloadFile("limelight.png", await pngFile(this))), json);
  }

  // Without a final result there is nothing to download.
  #enableDownloads() {
    const isFinal = this.explanations.length > 0 && ![...this.#rows.values()].some(({ preview }) => preview);
    for (const button of selectAll("button[data-file]", this)) /** @type {HTMLButtonElement} */ (button).disabled = !isFinal;
  }

  get #panel() { return `${this.#model}${this.#isChanged ? " changed" : ""}`; }

  #requestFor(methods) {
    const { text, target, against, scale, features, protect, changes, inside, at, documents, messages } = this.#state;
    return { panel: this.#panel, model: this.#model, methods: methods.map(({ id }) => id), text, documents, messages, target, against, scale, features, protect, at, inside: inside.length ? inside.slice(0, 2) : null, changes: this.#isChanged ? changes : [] };
  }

  get heading() { return this.#parts.title; }

  disconnectedCallback() { clearTimeout(this.#timer); this.#slowRequest?.abort(); }

  /** The displayed methods of this model that support the scale, the default method first. */
  get methods() {
    if (this.#card && this.#isChanged) return [];
    const { methods, scale } = this.#state;
    return this.#facts.methods.filter(({ id, logit_only: logitOnly }) => methods.includes(id) && !(logitOnly && scale === "probability"));
  }

  // The fast method whose scores are shown until those of the only, slow default method arrive.
  get #preview() {
    const { methods, default_methods: defaults, preview } = this.#facts;
    const isDefault = String(this.#state.methods) === String(defaults) && this.methods.length === 1;
    return isDefault ? methods.find(({ id, logit_only: logitOnly }) => id === preview && !(logitOnly && this.#state.scale === "probability")) : undefined;
  }

  show(state) {
    if (this.#state?.text !== state.text) this.#parts.readout.replaceChildren(); // its numbers belong to the other text
    this.#state = state;
    clearTimeout(this.#timer);
    this.#slowRequest?.abort();
    this.#version += 1;
    this.#updateRows();
    if (!state.text.trim()) return this.#clear();
    const slowMethods = this.methods.filter(({ is_quick: isQuick }) => !isQuick);
    this.classList.add("waiting");
    for (const row of this.#rows.values()) row.preview = null;
    const quickMethods = this.methods.filter(({ is_quick: isQuick }) => isQuick), preview = this.#preview;
    this.#request(preview ? [preview] : quickMethods, "now");
    for (const { id } of slowMethods) this.#showWaiting(id, "waiting for a pause");
    if (slowMethods.length) this.#timer = setTimeout(() => this.#requestSlow(slowMethods), PAUSE);
    return undefined;
  }

  async #requestSlow(methods) {
    this.#slowRequest = new AbortController();
    for (const { id } of methods) this.#showWaiting(id, "calling the model", 0);
    await this.#request(methods, "paused", { signal: this.#slowRequest.signal, onProgress: (progress) => {
      for (const { id } of methods) this.#showWaiting(id, "calling the model", progress);
    } });
    this.#slowRequest = null;
  }

  async #request(methods, when, options = {}) {
    const version = this.#version;
    try {
      const answer = await sendRequest(`text?when=${when}`, this.#requestFor(methods), options);
      showError(null);
      if (answer === null || version < this.#shownVersion) return;
      if (when === "paused" && version !== this.#version) return;
      if (when === "paused") this.#finalVersion = version;
      else if (this.#finalVersion === version && this.#preview) return; // a preview that comes late
      this.#shownVersion = version;
      this.#showAnswer(answer, methods, when);
    } catch (error) {
      if (version === this.#version) this.#showFailure(error, methods);
    }
  }

  #showFailure(error, methods) {
    this.classList.remove("waiting");
    if (error instanceof ServerUnreachable) { showError(UNREACHABLE, () => this.show(this.#state)); return; }
    if (!(error instanceof RequestError)) throw error;
    if (this.#card) this.#clear(); // the displayed image is an older one
    [this.#parts.error.hidden, this.#parts.spans.hidden] = [false, true];
    this.#parts.error.textContent = `${error.message[0].toUpperCase()}${error.message.slice(1)}`;
    for (const { id } of methods) this.#rows.get(id)?.showNote("not computed");
  }

  #showAnswer(answer, methods, when) {
    const { error, warnings, classes } = this.#parts;
    error.hidden = true;
    if (when === "now") this.classList.remove("waiting");
    this.prediction = answer.prediction;
    classes.outcomes = answer.prediction.outcomes;
    this.#showDifference(answer);
    this.#showSpans(answer);
    const preview = this.#preview, replacedIds = preview ? [preview.id, ...this.methods.map(({ id }) => id)] : []; // one of the two is shown
    const updatedIds = new Set([...methods.map(({ id }) => id), ...replacedIds]);
    const spanOf = ({ query }) => (query?.answer === undefined ? String(query?.span ?? "") : "");
    const unchanged = this.explanations.filter((e) => !updatedIds.has(e.method) && e.text === answer.text && spanOf(e) === String(answer.query_spans));
    const order = this.methods.map(({ id }) => id);
    this.explanations = [...unchanged, ...answer.explanations].sort((a, b) => order.indexOf(a.method) - order.indexOf(b.method));
    if (this.#card) this.#card.lastChild.replaceChildren(parseMarkup(answer.drawings[""]), makeElement("small", { class: "note" }, visibleText(answer.text)));
    for (const e of answer.explanations) this.#fill(e, answer.drawings[e.method]);
    for (const [id, message] of Object.entries(answer.errors)) this.#rows.get(id)?.showMessage(message);
    const messages = new Set([...answer.warnings, ...unchanged.flatMap((e) => e.warnings)]);
    warnings.replaceChildren(...[...messages].map((warning) => makeElement("li", {}, visibleText(warning))));
    this.#parts.key.explanations = this.explanations;
    this.#enableDownloads();
    const kindOf = (e) => (isSigned(e) ? "signed" : answer.prediction.one_sided_methods.includes(e.method) ? "one-sided" : "unsigned");
    const shownKinds = this.explanations.map(kindOf);
    const kinds = ["signed", "unsigned", "one-sided"].filter((kind) => shownKinds.some((shownKind) => shownKind === kind));
    this.#parts.opening.replaceChildren(...openingNodes(answer.prediction.openings[kinds.join(" ") || "signed"]));
    this.#showHint();
    this.dispatchEvent(new CustomEvent("limelight-answer", { bubbles: true }));
  }

  // The text with buttons for the spans that the model finds. Overlapping spans come after it.
  #showSpans({ text, spans, query_spans: [querySpan] }) {
    const line = this.#parts.spans, letters = Array.from(text), nodes = [], overlapping = [];
    line.hidden = !spans.length;
    let position = 0;
    for (const [start, end, tag] of spans) {
      const span = `${start}:${end}`, isChosen = span === querySpan?.join(":");
      const node = makeElement(this.#isChanged ? "span" : "button", { class: "span", type: "button", "data-at": span, "aria-pressed": String(isChosen) }, visibleText(letters.slice(start, end).join("")), " ", makeElement("small", {}, visibleText(tag)));
      if (!this.#isChanged) node.addEventListener("click", () => this.dispatchEvent(new CustomEvent("limelight-span", { bubbles: true, detail: { at: span } })));
      if (start < position) { overlapping.push(" ", node); continue; }
      nodes.push(visibleText(letters.slice(position, start).join("")), node);
      position = end;
    }
    const focusedSpan = line.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.at : null;
    line.replaceChildren(...nodes, visibleText(letters.slice(position).join("")), ...overlapping);
    if (focusedSpan) /** @type {HTMLElement | null} */ (line.querySelector(`[data-at="${focusedSpan}"]`))?.focus();
  }

  #showDifference({ change, typed, prediction }) {
    const { difference, text: changedText } = this.#parts;
    difference.hidden = change === null;
    changedText.hidden = change === null || this.#card !== null || typed === null;
    if (change === null) return;
    changedText.textContent = visibleText(typed ?? "");
    const effect = change.after - change.before;
    const parts = [`The ${prediction.scale} of ${visibleText(prediction.target)} goes from ${formatNumber(change.before)} to ${formatNumber(change.after)}: `, makeElement("b", {}, formatNumber(effect)), "."];
    if (this.#card) parts.push(makeElement("span", { class: "note" }, ` A removed part is replaced by: ${change.replacement}.`));
    else if (change.removed !== null) parts.push(makeElement("span", { class: "note" }, ` As the methods remove it (replacement: ${change.replacement}): ${formatNumber(change.removed - change.before)}.`));
    difference.replaceChildren(...parts);
  }

  #clear() {
    this.explanations = [];
    this.prediction = null;
    this.classList.remove("waiting");
    this.#parts.classes.outcomes = [];
    this.#parts.key.explanations = [];
    this.#enableDownloads();
    for (const part of ["opening", "warnings"]) this.#parts[part].replaceChildren();
    for (const part of ["difference", "error", "text", "spans"]) this.#parts[part].hidden = true;
    for (const row of this.#rows.values()) { row.words.explanation = null; row.note.replaceChildren(); }
    this.#card?.lastChild.replaceChildren();
    this.#parts.readout.textContent = this.#card ? "Choose an image above." : "Type a text above.";
    this.dispatchEvent(new CustomEvent("limelight-answer", { bubbles: true }));
  }

  // One row for every method. Rows stay while the text changes, so that nothing moves for a reader.
  #updateRows() {
    const { methods } = this;
    for (const [id, row] of this.#rows) if (!methods.some((method) => method.id === id)) { row.node.remove(); this.#rows.delete(id); }
    for (const method of methods) if (!this.#rows.has(method.id)) this.#rows.set(method.id, this.#makeRow(method));
    const nodes = [...(this.#card && this.#state.text ? [this.#card] : []), ...methods.map(({ id }) => this.#rows.get(id).node)];
    if (nodes.some((node, i) => this.#parts.rows.children[i] !== node)) this.#parts.rows.replaceChildren(...nodes);
    this.explanations = this.explanations.filter((e) => methods.some(({ id }) => id === e.method));
    this.#parts.rows.classList.toggle(this.#card ? "images" : "long", Boolean(this.#card) || this.#state.text.length > 300 || this.#state.documents.length > 0);
  }

  #makeRow({ id, label, formula }) {
    const words = makeElement("limelight-words"), note = makeElement("span", { class: "scale" });
    const node = makeElement("div", { class: "method", "data-method": id }, makeElement("h3", { title: formula }, label), words, note);
    const heading = node.firstChild, row = { node, words, note, label, preview: null, showMessage: null, showNote: null };
    row.showMessage = (message) => { row.preview = null; note.classList.remove("preliminary"); heading.textContent = label; words.explanation = null; words.replaceChildren(makeElement("span", { class: "note" }, message)); note.replaceChildren(); };
    row.showNote = (text) => note.replaceChildren(makeElement("span", { class: "bar-of-time" }, row.preview ? `${label}: ${text}` : text));
    return row;
  }

  // Show an explanation in the row of its method, or in the only row if it is a preview.
  #fill(e, drawing = "") {
    const preview = this.#rows.has(e.method) ? null : e, row = preview ? this.#rows.get(this.methods[0]?.id) : this.#rows.get(e.method);
    if (!row) return;
    const focused = /** @type {HTMLElement} */ (document.activeElement), word = row.words.contains(focused) ? focused.dataset.f : null;
    row.preview = preview;
    row.note.classList.toggle("preliminary", preview !== null);
    row.node.firstChild.textContent = preview ? methodLabel(e) : row.label;
    row.words.drawing = drawing;
    row.words.explanation = e;
    const removedNames = new Set(this.#card ? this.#state.changes.map(([name]) => name) : []);
    for (const part of selectAll(".w", row.words)) part.classList.toggle("removed", removedNames.has(e.features[Number(part.dataset.f)].text));
    row.words.classList.remove("stale");
    if (word !== null) (row.words.querySelector(`[data-f="${CSS.escape(word)}"]`) ?? row.words.querySelector(".w"))?.focus();
    if (preview) { this.#showReason(row, ""); return; }
    row.note.title = "score drawn in full color";
    row.note.replaceChildren(formatScale(e));
  }

  // Say why the scores of a row are missing or preliminary, before the bar and the button if they are there.
  #showReason(row, reason) {
    const text = row.preview ? `${methodLabel(row.preview)} values, for a first look. ${row.label} values follow.` : reason;
    const line = row.note.querySelector(".bar-of-time");
    row.note.title = "";
    if (line) line.firstChild.textContent = text;
    else row.note.replaceChildren(makeElement("span", { class: "bar-of-time" }, makeElement("span", {}, text)));
  }

  #showWaiting(id, reason, progress = null) {
    const row = this.#rows.get(id);
    if (!row) return;
    row.words.classList.toggle("stale", !row.preview);
    const oldBar = row.note.querySelector("progress");
    if (progress === null) { row.note.replaceChildren(); this.#showReason(row, reason); return; }
    this.#showReason(row, reason);
    // A button that is replaced ten times a second would disappear before a click on it ends.
    if (oldBar) { oldBar.value = progress; return; }
    const bar = makeElement("progress", { max: 1, value: progress, "aria-label": `${row.label}: ${reason}` }), stop = makeElement("button", { type: "button" }, "Stop");
    stop.addEventListener("click", () => { this.#slowRequest?.abort(); for (const otherRow of this.#rows.values()) if (otherRow.note.querySelector("progress")) otherRow.showNote("stopped"); });
    row.note.querySelector(".bar-of-time").append(bar, stop);
  }

  #showHint() {
    if (this.#card) { if (!this.#parts.readout.querySelector("b")) this.#parts.readout.textContent = this.#isChanged ? "Removed parts are blank." : "Point at a part for its numbers; click it, or press Enter, to remove it, and again to put it back."; return; }
    const kind = this.explanations[0]?.feature_kind ?? this.#state.features, { inside } = this.#state, block = !inside.length && BLOCKS.includes(kind) ? kind.slice(0, -1) : null;
    const isPart = PARTS.includes(kind), action = block ? "to see its words." : isPart ? "to remove or protect it." : "to remove, replace or protect it.";
    const point = `Point at a ${block ?? (isPart ? kind.slice(0, -1) : "word")} for its numbers`;
    if (block) this.#parts.readout.textContent = `Click a ${block}, or press Enter on it, ${action}`;
    else if (!this.#parts.readout.querySelector("b")) this.#parts.readout.textContent = this.#isChanged || inside.length ? `${point}.` : `${point}; click it, or press Enter, ${action}`;
  }

  handleEvent(event) {
    const words = event.target, e = words.explanation, { feature } = event.detail;
    if (feature === null) { for (const row of this.#rows.values()) row.words.mark(null); return; }
    const numbers = this.numbers(e, feature);
    for (const row of this.#rows.values()) if (row.words.explanation?.text === e.text) row.words.mark(feature);
    const { text, spans } = e.features[feature], occurrences = spans.length > 1 ? ` (all ${spans.length} occurrences)` : "";
    this.#parts.readout.replaceChildren(makeElement("b", {}, visibleText(text)), `${occurrences}: ${numbers.map(([label, number]) => `${label} ${number}`).join(" · ")}`);
    if (event.type !== "limelight-choose" || this.#isChanged) return;
    const lowerCase = text.toLowerCase(), number = e.features.slice(0, feature).filter((other) => other.text.toLowerCase() === lowerCase).length; // as the server counts
    const anchor = words.querySelector(`.w[data-f="${feature}"]:focus`) ?? words.querySelector(`.w[data-f="${feature}"]`);
    this.dispatchEvent(new CustomEvent("limelight-word", { bubbles: true, detail: { word: text, number, numbers, anchor, span: spans.length ? [spans[0][0], spans.at(-1)[1], number] : [], kind: e.feature_kind ?? "words" } }));
  }

  /** [label, number in words] of a feature, for every method that has it. */
  numbers(e, feature) {
    return this.explanations.filter((other) => other.text === e.text && other.features.length === e.features.length).map((other) => [methodLabel(other), formatScore(other, feature)]);
  }
}
defineElement("limelight-reading", TextReading);
