// The attention matrices of a page (pages/html.py): point at a cell to read its value.

function valuesOf(image) {
  const canvas = document.createElement("canvas"), size = image.naturalWidth;
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  return context.getImageData(0, 0, size, size).data;
}

/** Let the matrices inside `root` be read; where there are none, nothing is done. */
export function readableAttention(root) {
  const known = root.querySelector("#limelight-tokens"), readout = root.querySelector("#attention-readout");
  if (!known) return;
  const { tokens, block } = JSON.parse(known.textContent);
  const name = (cell) => {
    const first = tokens[cell * block], last = tokens[Math.min((cell + 1) * block, tokens.length) - 1];
    return block > 1 && first !== last ? `“${first}” … “${last}”` : `“${first}”`;
  };
  for (const image of root.querySelectorAll("img.head")) {
    let values = null;
    image.addEventListener("mousemove", (event) => {
      values ??= valuesOf(image);
      const box = image.getBoundingClientRect(), size = image.naturalWidth;
      const cell = (at, length) => Math.max(0, Math.min(size - 1, Math.floor((at / length) * size)));
      const column = cell(event.clientX - box.left, box.width), row = cell(event.clientY - box.top, box.height);
      // An image's opacity is the root of its value.
      const value = (values[4 * (row * size + column) + 3] / 255) ** 2 * Number(image.dataset.peak);
      readout.textContent = `Head ${Number(image.dataset.head) + 1}: ${name(row)} attends to ${name(column)}, about ${value.toFixed(3)}`;
    });
  }
}
