// <limelight-attention>: the attention matrix of each head; point at a cell to read its value.
//
//   attention.matrices = {tokens, block, heads: [{peak, most, weight, cells}, …]}
//
// `cells` are bytes in base64, row by row: the root of a value over the head's `peak`, which keeps
// small weights visible. A cell is the largest of `block` × `block` values. The classifier reads the
// first row alone, in which [cls] attends to token `most` with `weight`.

import { defineElement, makeElement } from "./nodes.js";
import { visibleText } from "./text_parts.js";

const INK = [58, 70, 186];
const LABELLED = 16; // more tokens than this leave no room for their names

const bytesOf = (content) => Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));

// Its opacity is the value, so that it lies on light and dark paper.
function drawCells(cells, size, label) {
  const canvas = makeElement("canvas", { width: size, height: size, class: "head", role: "img", "aria-label": label });
  const pixels = new ImageData(size, size);
  cells.forEach((value, i) => pixels.data.set([...INK, value], 4 * i));
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  return canvas;
}

export class AttentionHeads extends HTMLElement {
  set matrices({ tokens, block, heads }) {
    const labels = tokens.map(visibleText), labeled = labels.length <= LABELLED, size = Math.ceil(labels.length / block);
    const name = (cell) => {
      const first = labels[cell * block], last = labels[Math.min((cell + 1) * block, labels.length) - 1];
      return block > 1 && first !== last ? `“${first}” … “${last}”` : `“${first}”`;
    };
    const names = (side) => (labeled ? makeElement("ol", { class: side }, ...labels.map((token) => makeElement("li", {}, token))) : null);
    const readout = makeElement("p", { class: "readout" }, "Hover a cell to read its value.");
    const figures = heads.map(({ peak, strongest, weight, cells }, head) => {
      const values = bytesOf(cells);
      const label = `Head ${head + 1}. [cls] attends most to “${labels[strongest]}” (${weight.toFixed(2)}); largest value ${peak.toFixed(2)}.`;
      const canvas = drawCells(values, size, label);
      canvas.addEventListener("mousemove", (event) => {
        const box = canvas.getBoundingClientRect();
        const cell = (at, length) => Math.max(0, Math.min(size - 1, Math.floor((at / length) * size)));
        const column = cell(event.clientX - box.left, box.width), row = cell(event.clientY - box.top, box.height);
        const value = (values[row * size + column] / 255) ** 2 * peak;
        readout.textContent = `Head ${head + 1}: ${name(row)} attends to ${name(column)}, about ${value.toFixed(3)}`;
      });
      return makeElement("figure", {}, makeElement("figcaption", {}, makeElement("b", {}, `Head ${head + 1}`), ` full color = ${peak.toFixed(2)}`),
        makeElement("div", { class: labeled ? "grid matrix-frame" : "grid" }, names("down"), canvas, names("across")));
    });
    const pooled = block > 1 ? ` A cell shows the largest of ${block} × ${block} values.` : "";
    this.replaceChildren(makeElement("p", { class: "note" }, `Row: the token that asks; column: the token attended to. The classifier reads only the first row, that of [cls]. Each head has its own scale; opacity is the square root.${pooled}`),
      makeElement("div", { class: "heads" }, ...figures), readout);
  }
}
defineElement("limelight-attention", AttentionHeads);
