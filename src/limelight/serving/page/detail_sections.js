// Sections of the page with details. They are computed when they are open and the reader pauses.

import { RequestError, ServerUnreachable, sendRequest } from "./requests.js";
import "../../rendering/elements/attention_cells.js";
import { makeElement, parseMarkup } from "../../rendering/elements/nodes.js";
import { typographicMinus, precisionSentence, ranksSentence, formatNumber } from "../../rendering/elements/numbers_in_words.js";
import "../../rendering/elements/removal_curve.js";
import "../../rendering/elements/score_bars.js";
import { methodLabel, featureNoun, pluralize } from "../../rendering/elements/shades.js";
import { visibleText } from "../../rendering/elements/text_parts.js";
import { makeTable } from "../../rendering/elements/text_table.js";
import "../../rendering/elements/word_arcs.js";

const PAUSE = 500;

// Parse tables of the reports, and open those that are folded there.
function unfoldMarkup(html) {
  const content = parseMarkup(html);
  for (const folded of content.querySelectorAll("details")) folded.replaceWith(...[...folded.children].filter((child) => child.tagName !== "SUMMARY"));
  return content;
}

function showCurves({ lines, words, noun, ceiling_kind: kind, chance, ceiling, chance_error: error, methods, has_room: hasRoom }) {
  const curve = makeElement("limelight-curve");
  curve.dataset.units = pluralize(noun);
  curve.words = words;
  curve.lines = lines;
  const rows = methods.map(({ label, area, share }) => [label, area === null ? "–" : formatNumber(area), share === null || !hasRoom ? "–" : typographicMinus(share.toFixed(3))]);
  const ceilingNames = { proven: "ceiling (proven: no order is above it)", checked: "ceiling (checked, not proven)" };
  const ceilingName = ceilingNames[kind] ?? "best order found";
  const note = `${noun[0].toUpperCase()}${pluralize(noun).slice(1)} go in the order of each method's scores; the area is how far the output falls on average. Chance has ${formatNumber(chance)}${error === null ? "" : ` ± ${formatNumber(error, { signed: false })}`}, the ${ceilingName} ${formatNumber(ceiling)}; a share of 0 is chance, 1 is the ${ceilingNames[kind] ? "ceiling" : "best order found"}.`;
  const table = makeTable(["method", "area", "share"], rows, "From chance to ceiling, on this text");
  return [curve, makeElement("p", { class: "note" }, note, hasRoom ? "" : ` No order of these ${pluralize(noun)} is better than another.`), table];
}

function showPairs({ explanation }) {
  const arcs = makeElement("limelight-arcs");
  queueMicrotask(() => { arcs.explanation = explanation; }); // after it is in the page and has a width
  return [makeElement("p", { class: "note" }, `The effect of two ${pluralize(featureNoun(explanation))} together beyond their single effects: green arcs for ${visibleText(explanation.target)}, dashed ones against it. ${precisionSentence(explanation)}`), arcs];
}

function showAttention(matrices) {
  const heads = makeElement("limelight-attention");
  heads.matrices = matrices;
  return [heads];
}

/** @type {Record<string, {title: string, isLocal?: boolean, needsHeads?: boolean, needsText?: boolean, needs?: string, show?: (data: any) => Node[]}>} */
const SECTIONS = {
  scores: { title: "All scores", isLocal: true },
  curves: { title: "Deletion curves", show: showCurves },
  pairs: { title: "Interactions", show: showPairs, needs: "interactions" },
  counterfactual: { title: "What would change the prediction", show: ({ html }) => [parseMarkup(html)], needsText: true },
  disagreement: { title: "Where the methods disagree", show: ({ html }) => [unfoldMarkup(html)] },
  heads: { title: "Head by head", show: ({ html }) => [unfoldMarkup(html)], needsHeads: true },
  attention: { title: "What the heads attend to", show: showAttention, needsHeads: true },
};

export class DetailSections {
  #facts;
  #container;
  #state = null;
  #timer = 0;
  #abort = new AbortController();

  /** `onToggle` is called with the names of the open sections. */
  constructor(container, facts, onToggle) {
    [this.#container, this.#facts] = [container, facts];
    const sections = Object.entries(SECTIONS).filter(([, section]) => facts.models.some((model) => this.#isAvailable(section, model)));
    container.replaceChildren(...sections.map(([name, { title }]) => {
      const node = makeElement("details", { id: `section-${name}`, "data-section": name }, makeElement("summary", {}, title), makeElement("div", { class: "section-content", "aria-live": "polite" }));
      node.addEventListener("toggle", () => onToggle(this.open));
      return node;
    }));
  }

  /** @param {{needs?: string, needsHeads?: boolean, needsText?: boolean}} section @param {any} model */
  #isAvailable({ needs, needsHeads, needsText }, model) {
    return (!needsHeads || model.has_heads) && !((needs || needsText) && model.reads_images) && (!needs || model.methods.some(({ id }) => id === needs));
  }

  /** The names of the open sections. */
  get open() { return [...this.#container.children].filter((node) => node.open).map((node) => node.dataset.section); }

  show(state, readings) {
    this.#state = state;
    for (const node of this.#container.children) {
      const isOpen = state.open.includes(node.dataset.section);
      if (node.open !== isOpen) node.open = isOpen;
    }
    clearTimeout(this.#timer);
    this.#abort.abort();
    if (!state.open.length) return;
    this.showScores(readings);
    this.#timer = setTimeout(() => this.#request(), PAUSE);
  }

  #body(name) { return this.#container.querySelector(`[data-section="${name}"] .section-content`); }

  /** Fill the section of scores, which needs no request. */
  showScores(readings) {
    const body = this.#body("scores");
    if (!this.#state?.open.includes("scores") || !body) return;
    const cards = readings.flatMap(({ explanations, name }) => explanations.map((e) => {
      const bars = makeElement("limelight-bars");
      bars.explanation = e;
      return makeElement("div", {}, makeElement("h3", {}, `${name ? `${visibleText(name)} · ` : ""}${methodLabel(e)} `, makeElement("span", { class: "note" }, `${precisionSentence(e)} ${ranksSentence(e, featureNoun(e), pluralize(featureNoun(e)))}`)), bars);
    }));
    body.replaceChildren(makeElement("div", { class: "columns" }, ...cards));
  }

  async #request() {
    const { text, methods, target, against, scale, features, protect, open, inside, at } = this.#state;
    this.#abort = new AbortController();
    const signal = this.#abort.signal;
    for (const [i, model] of this.#facts.models.entries()) {
      const sections = open.filter((name) => SECTIONS[name] && !SECTIONS[name].isLocal && this.#isAvailable(SECTIONS[name], model));
      if (!sections.length || !text.trim()) continue;
      const usable = model.methods.map(({ id }) => id).filter((id) => methods.includes(id));
      for (const name of sections) this.#modelBody(name, i).classList.add("stale");
      try {
        const data = await sendRequest("sections?when=paused", { panel: `${i} sections`, model: i, text, methods: usable, target, against, scale, features, protect, at, sections, inside: inside.length ? inside.slice(0, 2) : null }, { signal });
        if (data === null || signal.aborted) return;
        for (const name of sections) this.#fill(name, i, data[name]);
      } catch (error) {
        if (error instanceof ServerUnreachable) return;
        if (!(error instanceof RequestError)) throw error;
        for (const name of sections) this.#fill(name, i, { error: error.message });
      }
    }
  }

  // The part of a section's body for one model.
  #modelBody(name, model) {
    const body = this.#body(name);
    let modelBody = body.querySelector(`:scope > [data-model="${model}"]`);
    if (!modelBody) { modelBody = makeElement("div", { "data-model": model }); body.append(modelBody); }
    return modelBody;
  }

  #fill(name, model, data) {
    const modelBody = this.#modelBody(name, model), hasTitles = this.#facts.models.length > 1;
    modelBody.classList.remove("stale");
    const nodes = data.error ? [makeElement("p", { class: "note" }, data.error)] : SECTIONS[name].show(data);
    modelBody.replaceChildren(...(hasTitles ? [makeElement("h3", {}, visibleText(this.#facts.models[model].name))] : []), ...nodes);
  }
}
