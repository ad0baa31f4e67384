// Looking closer: parts of the page that are computed when they are open and the reader pauses.

import { Refused, ServerGone, asked } from "./asking.js";
import "../../rendering/elements/attention_cells.js";
import { makeElement, parseMarkup } from "../../rendering/elements/nodes.js";
import { typographicMinus, precisionSentence, formatNumber } from "../../rendering/elements/numbers_in_words.js";
import "../../rendering/elements/removal_curve.js";
import "../../rendering/elements/score_bars.js";
import { methodLabel, featureNoun, pluralize } from "../../rendering/elements/shades.js";
import { visibleText } from "../../rendering/elements/text_parts.js";
import { makeTable } from "../../rendering/elements/text_table.js";
import "../../rendering/elements/word_arcs.js";

const PAUSE = 500;

// Tables of the reports, of which those that are folded there are open here.
function markup(html) {
  const found = parseMarkup(html);
  for (const folded of found.querySelectorAll("details")) folded.replaceWith(...[...folded.children].filter((child) => child.tagName !== "SUMMARY"));
  return found;
}

function curves({ lines, words, noun, kind, chance, ceiling, chance_error: error, methods, has_room: room }) {
  const curve = makeElement("limelight-curve");
  curve.dataset.units = pluralize(noun);
  curve.words = words;
  curve.lines = lines;
  const rows = methods.map(({ label, area, share }) => [label, area === null ? "–" : formatNumber(area), share === null || !room ? "–" : typographicMinus(share.toFixed(3))]);
  const tops = { proven: "ceiling (proven: no order is above it)", checked: "ceiling (checked, not proven)" };
  const top = tops[kind] ?? "best order found";
  const note = `${noun[0].toUpperCase()}${pluralize(noun).slice(1)} go in the order of each method's scores; the area is how far the output falls on average. Chance has ${formatNumber(chance)}${error === null ? "" : ` ± ${formatNumber(error, { signed: false })}`}, the ${top} ${formatNumber(ceiling)}; a share of 0 is chance, 1 is the ${tops[kind] ? "ceiling" : "best order found"}.`;
  const table = makeTable(["method", "area", "share"], rows, "From chance to ceiling, on this text");
  return [curve, makeElement("p", { class: "note" }, note, room ? "" : ` No order of these ${pluralize(noun)} is better than another.`), table];
}

function pairs({ explanation }) {
  const arcs = makeElement("limelight-arcs");
  queueMicrotask(() => { arcs.explanation = explanation; }); // when it is in the page and has a width
  return [makeElement("p", { class: "note" }, `What two ${pluralize(featureNoun(explanation))} do together beyond what each does alone: green arcs for ${visibleText(explanation.target)}, dashed ones against it. ${precisionSentence(explanation)}`), arcs];
}

function attention(matrices) {
  const heads = makeElement("limelight-attention");
  heads.matrices = matrices;
  return [heads];
}

/** @type {Record<string, {title: string, own?: boolean, heads?: boolean, needs?: string, show?: (found: any) => Node[]}>} */
const PARTS = {
  closer: { title: "Every score, method by method", own: true },
  curves: { title: "Curves from chance to ceiling", show: curves },
  pairs: { title: "What works together", show: pairs, needs: "interactions" },
  disagreement: { title: "Where the methods disagree", show: ({ html }) => [markup(html)] },
  heads: { title: "Head by head", show: ({ html }) => [markup(html)], heads: true },
  attention: { title: "What the heads attend to", show: attention, heads: true },
};

export class CloserParts {
  #facts;
  #place;
  #state = null;
  #timer = 0;
  #ending = new AbortController();

  constructor(place, facts, opened) {
    [this.#place, this.#facts] = [place, facts];
    const known = Object.entries(PARTS).filter(([, part]) => facts.models.some((model) => this.#fits(part, model)));
    place.replaceChildren(...known.map(([name, { title }]) => {
      const node = makeElement("details", { id: `part-${name}`, "data-part": name }, makeElement("summary", {}, title), makeElement("div", { class: "part", "aria-live": "polite" }));
      node.addEventListener("toggle", () => opened(this.open));
      return node;
    }));
  }

  /** @param {{needs?: string, heads?: boolean}} part @param {any} model */
  #fits({ needs, heads }, model) {
    return (!heads || model.heads) && !(needs && model.images) && (!needs || model.methods.some(({ id }) => id === needs));
  }

  /** The names of the parts that are open. */
  get open() { return [...this.#place.children].filter((node) => node.open).map((node) => node.dataset.part); }

  show(state, readings) {
    this.#state = state;
    for (const node of this.#place.children) {
      const wanted = state.open.includes(node.dataset.part);
      if (node.open !== wanted) node.open = wanted;
    }
    clearTimeout(this.#timer);
    this.#ending.abort();
    if (!state.open.length) return;
    this.showOwn(readings);
    this.#timer = setTimeout(() => this.#ask(), PAUSE);
  }

  #body(name) { return this.#place.querySelector(`[data-part="${name}"] .part`); }

  /** Fill what follows from the explanations that are there already. */
  showOwn(readings) {
    const place = this.#body("closer");
    if (!this.#state?.open.includes("closer") || !place) return;
    const cards = readings.flatMap(({ explanations, name }) => explanations.map((e) => {
      const bars = makeElement("limelight-bars");
      bars.explanation = e;
      return makeElement("div", {}, makeElement("h3", {}, `${name ? `${visibleText(name)} · ` : ""}${methodLabel(e)} `, makeElement("span", { class: "note" }, precisionSentence(e))), bars);
    }));
    place.replaceChildren(makeElement("div", { class: "columns" }, ...cards));
  }

  async #ask() {
    const { text, methods, target, against, scale, features, protect, open, inside, at } = this.#state;
    this.#ending = new AbortController();
    const signal = this.#ending.signal;
    for (const [i, model] of this.#facts.models.entries()) {
      const parts = open.filter((name) => PARTS[name] && !PARTS[name].own && this.#fits(PARTS[name], model));
      if (!parts.length || !text.trim()) continue;
      const usable = model.methods.map(({ id }) => id).filter((id) => methods.includes(id));
      for (const name of parts) this.#place_(name, i).classList.add("stale");
      try {
        const found = await asked("parts?when=paused", { place: `${i} parts`, model: i, text, methods: usable, target, against, scale, features, protect, at, parts, inside: inside.length ? inside.slice(0, 2) : null }, { signal });
        if (found === null || signal.aborted) return;
        for (const name of parts) this.#fill(name, i, found[name]);
      } catch (error) {
        if (error instanceof ServerGone) return;
        if (!(error instanceof Refused)) throw error;
        for (const name of parts) this.#fill(name, i, { refused: error.message });
      }
    }
  }

  // One place for every model inside a part.
  #place_(name, model) {
    const body = this.#body(name);
    let place = body.querySelector(`:scope > [data-model="${model}"]`);
    if (!place) { place = makeElement("div", { "data-model": model }); body.append(place); }
    return place;
  }

  #fill(name, model, found) {
    const place = this.#place_(name, model), several = this.#facts.models.length > 1;
    place.classList.remove("stale");
    const nodes = found.refused ? [makeElement("p", { class: "note" }, found.refused)] : PARTS[name].show(found);
    place.replaceChildren(...(several ? [makeElement("h3", {}, visibleText(this.#facts.models[model].name))] : []), ...nodes);
  }
}
