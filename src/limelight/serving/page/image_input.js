// An image that is dropped, pasted or chosen, as an address that holds its bytes.

import { showTrouble } from "./asking.js";

const MOST = 8 * 2 ** 20; // bytes of a file

async function addressOf(file) {
  const read = new FileReader();
  await new Promise((done, failed) => { read.onload = done; read.onerror = failed; read.readAsDataURL(file); });
  return `data:image/*${file.name && `;name=${file.name.replace(/[;,]/g, "_")}`};base64,${String(read.result).split(",")[1]}`;
}

/** Hear of images at `input` and `place`; `take` gets each. What is too large is refused in a sentence. */
export function takeImages(input, place, take) {
  const taken = async (file) => {
    if (!file) return;
    if (!file.size || file.size > MOST) { showTrouble(file.size ? `An image may have ${MOST / 2 ** 20} MB; this one has ${(file.size / 2 ** 20).toFixed(1)}.` : "This file is empty."); return; }
    showTrouble(null);
    take(await addressOf(file));
  };
  input.addEventListener("change", () => taken(input.files[0]));
  addEventListener("paste", (event) => taken(event.clipboardData.files[0]));
  for (const name of ["dragenter", "dragover", "dragleave", "drop"]) addEventListener(name, (/** @type {any} */ event) => {
    event.preventDefault(); // a browser would open the file instead of the page
    place.classList.toggle("over", name === "dragenter" || name === "dragover");
    if (name === "drop") taken(event.dataTransfer.files[0]);
  });
}
