// Draw the prediction and the colored words of a reading as an image file.

import { makeSvg } from "../../rendering/elements/nodes.js";

const MARGIN = 24, LINE = 26;

// Return pieces of text without spaces and their boxes. A word that is broken over lines has several.
function findTextBoxes(root) {
  const textBoxes = [], walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), range = document.createRange();
  for (let node = /** @type {Text} */ (walker.nextNode()); node; node = /** @type {Text} */ (walker.nextNode())) {
    for (const { 0: text, index } of node.data.matchAll(/\S+/gu)) {
      range.setStart(node, index);
      range.setEnd(node, index + text.length);
      const boxes = range.getClientRects();
      if (boxes.length) textBoxes.push({ text, box: boxes[0], node: node.parentElement });
    }
  }
  return textBoxes;
}

const textNode = (x, y, text, style) => makeSvg("text", { x: x.toFixed(1), y: y.toFixed(1), "font-family": style.fontFamily, "font-size": style.fontSize,
  "font-weight": style.fontWeight, fill: style.color }, text);

/** The prediction and the colored words of a reading, as an SVG element. */
export function drawReading(reading) {
  const rows = reading.querySelector(".overview"), frame = rows.getBoundingClientRect(), page = getComputedStyle(document.documentElement);
  const prediction = [...reading.querySelectorAll(".outcome")].map((outcome) => [...outcome.querySelectorAll("dt, dd b")].map((node) => node.textContent).join(" ")).join(" · ");
  const shiftX = MARGIN - frame.left, shiftY = MARGIN + 2 * LINE - frame.top;
  const tints = [...rows.querySelectorAll(".w")].flatMap((word) => [...word.getClientRects()].map((box) => [box, getComputedStyle(word).backgroundColor]))
    .filter(([, color]) => color !== "rgba(0, 0, 0, 0)")
    .map(([box, color]) => makeSvg("rect", { x: (box.left + shiftX).toFixed(1), y: (box.top + shiftY).toFixed(1), width: box.width.toFixed(1), height: box.height.toFixed(1), rx: 4, fill: color }));
  const words = findTextBoxes(rows).map(({ text, box, node }) => {
    const style = getComputedStyle(node);
    return textNode(box.left + shiftX, box.top + shiftY + box.height / 2 + 0.35 * parseFloat(style.fontSize), text, style);
  });
  const width = Math.ceil(frame.width + 2 * MARGIN), height = Math.ceil(frame.height + 2 * MARGIN + 2 * LINE);
  return makeSvg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "img" }, makeSvg("title", {}, prediction),
    makeSvg("rect", { width, height, fill: page.backgroundColor }), textNode(MARGIN, MARGIN + 16, prediction, page), ...tints, ...words);
}

/** The drawing as the text of an SVG file. */
export const svgFile = (reading) => new XMLSerializer().serializeToString(drawReading(reading));

/** The drawing as a PNG file with doubled resolution. */
export async function pngFile(reading) {
  const image = new Image(), address = URL.createObjectURL(new Blob([svgFile(reading)], { type: "image/svg+xml" }));
  try {
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * image.naturalWidth, 2 * image.naturalHeight];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** Let the browser download a file. */
export function downloadFile(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
