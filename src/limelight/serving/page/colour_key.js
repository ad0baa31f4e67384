// What the colours mean, in the words of the reports (render/html_words.py).

import { made } from "./elements/nodes.js";
import { isSigned } from "./elements/shades.js";
import { visibleText } from "./elements/text_pieces.js";

const swatches = (hue) => made("span", { "aria-hidden": "true" }, ...[2, 6, 10].map((step) => made("i", { class: `swatch ${hue}${step}` })));
const meaning = (hue, text) => made("span", {}, swatches(hue), ` ${visibleText(text)}`);

/** The keys of the colours that the explanations use, as nodes. */
export function colourKey(explanations, { target, against }) {
  if (!explanations.length) return [];
  const signed = explanations.some(isSigned), unsigned = !explanations.every(isSigned);
  return [
    ...(signed ? [meaning("f", `for ${target}`), meaning("a", against ? `for ${against}` : `against ${target}`)] : []),
    ...(unsigned ? [meaning("n", "size only: the method gives no sign")] : []),
    made("span", {}, made("span", { class: "w top" }, "word"), " strongest"),
    made("span", { class: "note" }, "Deeper colour, larger score; each method has its own scale. The colours are safe for colour-blind readers."),
  ];
}
