// <limelight-words>: a text with its words colored by their scores.
//
//   words.explanation = {…}   one explanation, as limelight.explanation/2 has it
//   words.drawing = "<svg…"   of an image, before: what rendering/images.py made of it
//
// The markup is that of the reports (rendering/html.py), so one style sheet serves both. Words
// can be pointed at and walked with the arrow keys; then the element sends "limelight-point" with
// {feature}, null when the pointer leaves, and "limelight-choose" on a click or Enter.

import { selectAll, defineElement, makeElement, parseMarkup } from "./nodes.js";
import { formatNumber } from "./numbers_in_words.js";
import { hasBlockFeatures, isSigned, methodLabel, largestScore, shadeClass, strongestFeature } from "./shades.js";
import { featureName, shortenPieces, visibleText } from "./text_parts.js";

const isSpaced = (text) => /^\s$/u.test(text);

// On which sides a tint has room: over a space, and never over the letter of a neighbor.
function roomAround(pieces, i) {
  const before = i && pieces[i - 1].text ? Array.from(pieces[i - 1].text).at(-1) : " ";
  const after = i + 1 < pieces.length && pieces[i + 1].text ? Array.from(pieces[i + 1].text)[0] : " ";
  return [isSpaced(before) ? "s" : "", isSpaced(after) ? "e" : ""];
}

// The part of an image below or above another: the nearest one in that direction.
function neighborIndex(parts, index, down) {
  const middle = (part) => { const box = part.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; };
  const [x, y] = middle(parts[index]);
  const far = (part) => { const [a, b] = middle(part), ahead = (b - y) * down; return ahead > 1 ? ahead + 2 * Math.abs(a - x) : Infinity; };
  const nearest = parts.reduce((best, part) => (far(part) < far(best) ? part : best), parts[index]);
  return parts.indexOf(nearest);
}

export class ColoredWords extends HTMLElement {
  #explanation = null;
  drawing = "";

  get explanation() { return this.#explanation; }
  set explanation(e) { this.#explanation = e; this.#show(); }

  /** Mark all places of a feature; null marks none. */
  mark(feature) {
    for (const word of selectAll(".w", this)) word.classList.toggle("highlighted", Number(word.dataset.f) === feature);
  }

  connectedCallback() {
    this.classList.add("words");
    if (!this.hasAttribute("dir")) this.setAttribute("dir", "auto");
    this.addEventListener("pointerover", this);
    this.addEventListener("pointerleave", this);
    this.addEventListener("focusin", this);
    this.addEventListener("click", this);
    this.addEventListener("keydown", this);
  }

  disconnectedCallback() {
    for (const name of ["pointerover", "pointerleave", "focusin", "click", "keydown"]) this.removeEventListener(name, this);
  }

  handleEvent(event) {
    if (event.type === "pointerleave") return this.#send("limelight-point", null);
    const word = event.target.closest?.(".w");
    if (!word) return undefined;
    const feature = Number(word.dataset.f);
    if (event.type === "keydown") return this.#walked(event, word);
    if (event.type === "click") { this.#focusWord(word); return this.#send("limelight-choose", feature); }
    return this.#send("limelight-point", feature);
  }

  #send(name, feature) {
    this.mark(feature);
    this.dispatchEvent(new CustomEvent(name, { bubbles: true, detail: { feature } }));
  }

  #walked(event, word) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return this.#send("limelight-choose", Number(word.dataset.f));
    }
    const words = selectAll(".w", this), index = words.indexOf(word), last = words.length - 1;
    const beside = (up) => (this.#explanation.image ? neighborIndex(words, index, up) : index + up);
    const target = { ArrowRight: index + 1, ArrowDown: beside(1), ArrowLeft: index - 1, ArrowUp: beside(-1), Home: 0, End: last }[event.key];
    if (target === undefined || target < 0 || target > last) return undefined;
    event.preventDefault();
    return this.#focusWord(words[target]);
  }

  #focusWord(word) {
    for (const other of selectAll(".w[tabindex='0']", this)) other.tabIndex = -1;
    word.tabIndex = 0;
    word.focus();
  }

  #show() {
    const e = this.#explanation;
    if (e === null) return this.replaceChildren();
    if (e.image) return this.#showImage();
    const peak = largestScore(e), signed = isSigned(e), top = strongestFeature(e), blocks = hasBlockFeatures(e);
    const hasPrompt = (e.parts ?? []).some(({ role }) => role !== "first" && role !== "second");
    let first = true;
    const nodes = shortenPieces(e).flatMap((piece, i, pieces) => {
      const text = visibleText(piece.text);
      if (piece.opens) return [makeElement("span", { class: "side" }, piece.opens)];
      if (!piece.seen) return [makeElement("span", { class: "stop" }, "not read from here"), makeElement("span", { class: "cut", title: "past the model's window: not read" }, text)];
      if (piece.feature === null && blocks && !text.trim()) return [];
      if (piece.feature === null) return [hasPrompt ? makeElement("span", { class: "prompt" }, text) : text];
      const { score } = e.features[piece.feature], name = featureName(e, piece.feature);
      const number = formatNumber(score, { peak, signed });
      const classes = ["w", ...(blocks ? ["b"] : roomAround(pieces, i)), shadeClass(score, { peak, signed }), piece.feature === top ? "top" : ""];
      const word = makeElement("span", {
        class: classes.filter(Boolean).join(" "), "data-f": piece.feature, title: `${methodLabel(e)} ${number}`,
        role: "button", tabindex: first ? 0 : -1, "aria-label": `${visibleText(name)}: ${number}`,
      }, text);
      first = false;
      return [word];
    });
    return this.replaceChildren(...nodes);
  }

  // An image is drawn by the renderer of the reports; here its parts learn to be reached.
  #showImage() {
    if (this.drawing) this.replaceChildren(parseMarkup(this.drawing));
    selectAll(".w", this).forEach((part, k) => {
      for (const [name, value] of [["role", "button"], ["tabindex", k ? -1 : 0], ["aria-label", part.textContent]]) part.setAttribute(name, value);
      part.closest("svg").setAttribute("role", "group");
    });
  }
}
defineElement("limelight-words", ColoredWords);
