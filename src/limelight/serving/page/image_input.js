// Read an image that is dropped, pasted or chosen, as a data URL.

import { showError } from "./requests.js";

const MAX_BYTES = 8 * 2 ** 20; // of a file

async function readDataUrl(file) {
  const reader = new FileReader();
  await new Promise((resolve, reject) => { reader.onload = resolve; reader.onerror = reject; reader.readAsDataURL(file); });
  return `data:image/*${file.name && `;name=${file.name.replace(/[;,]/g, "_")}`};base64,${String(reader.result).split(",")[1]}`;
}

/** Call `onImage` with each image that is chosen in `input`, dropped on `dropArea` or pasted. */
export function listenForImages(input, dropArea, onImage) {
  const readImage = async (file) => {
    if (!file) return;
    if (!file.size || file.size > MAX_BYTES) { showError(file.size ? `An image may have ${MAX_BYTES / 2 ** 20} MB; this one has ${(file.size / 2 ** 20).toFixed(1)}.` : "This file is empty."); return; }
    showError(null);
    onImage(await readDataUrl(file));
  };
  input.addEventListener("change", () => readImage(input.files[0]));
  addEventListener("paste", (event) => readImage(event.clipboardData.files[0]));
  for (const name of ["dragenter", "dragover", "dragleave", "drop"]) addEventListener(name, (/** @type {any} */ event) => {
    event.preventDefault(); // a browser would open the file instead of the page
    dropArea.classList.toggle("drag-over", name === "dragenter" || name === "dragover");
    if (name === "drop") readImage(event.dataTransfer.files[0]);
  });
}
