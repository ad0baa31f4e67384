// The page reads without this script; it adds the switch between methods, numbers on hover and
// focus, arrow keys, the theme, and the values of the attention matrices.

import { readableAttention } from "./attention_cells.js";
import { made } from "./nodes.js";
import { scoreInWords } from "./score_words.js";
import { labelOf } from "./shades.js";
import { switchedTabs } from "./tab_switch.js";
import { featureName, visibleText } from "./text_pieces.js";

const data = JSON.parse(document.getElementById("limelight-data").textContent);
const methods = data.explanations ?? [data];
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function ranks(e) {
  const order = e.features.map((_, j) => j);
  order.sort((a, b) => Math.abs(e.features[b].score) - Math.abs(e.features[a].score));
  const rank = [];
  order.forEach((j, place) => { rank[j] = place + 1; });
  return rank;
}
const rank = methods.map(ranks);

function say(readout, m, j) {
  const e = methods[m], feature = e.features[j];
  const times = feature.spans.length > 1 ? `, all ${feature.spans.length} occurrences` : "";
  const others = methods
    .map((other, k) => (k === m ? null : `${labelOf(other)} ${scoreInWords(other, j)}`))
    .filter(Boolean);
  const elsewhere = others.length ? ` · elsewhere: ${others.join(", ")}` : "";
  readout.replaceChildren(made("b", {}, visibleText(featureName(e, j))), `  ${labelOf(e)} ${scoreInWords(e, j)}, rank ${rank[m][j]} of ${e.features.length}${times}${elsewhere}`);
}

function mark(j) {
  for (const node of all(".same")) node.classList.remove("same");
  if (j !== null) for (const node of all(`[data-f="${j}"]`)) node.classList.add("same");
}

// Words: hover, focus, arrow keys.
for (const text of all(".words[data-m]")) {
  const m = Number(text.dataset.m), walk = "walk" in text.dataset;
  const readout = walk ? text.parentElement.querySelector(".readout") : null;
  const words = all(".w", text);
  words.forEach((word, place) => {
    const j = Number(word.dataset.f), said = `${visibleText(featureName(methods[m], j))}: ${scoreInWords(methods[m], j)}`;
    word.title = `${labelOf(methods[m])} ${scoreInWords(methods[m], j)}`;
    word.addEventListener("mouseenter", () => { mark(j); if (walk) say(readout, m, j); });
    if (!walk) return;
    word.setAttribute("role", "button");
    word.setAttribute("aria-label", said);
    word.tabIndex = place ? -1 : 0;
    word.addEventListener("focus", () => { mark(j); say(readout, m, j); });
    word.addEventListener("click", () => focusWord(words, place));
  });
  text.addEventListener("mouseleave", () => mark(null));
  if (walk) text.addEventListener("keydown", (event) => {
    const here = words.indexOf(document.activeElement);
    const there = { ArrowRight: here + 1, ArrowLeft: here - 1, ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: words.length - 1 }[event.key];
    if (here < 0 || there === undefined || there < 0 || there >= words.length) return;
    event.preventDefault();
    focusWord(words, there);
  });
}

function focusWord(words, place) {
  words.forEach((word, k) => { word.tabIndex = k === place ? 0 : -1; });
  words[place].focus();
}

// The switch between methods.
const tabs = all("[role=tab]"), choosers = all("[data-choose]");
const choose = switchedTabs(tabs, all("[role=tabpanel]"), (index) => {
  choosers.forEach((button, k) => button.setAttribute("aria-pressed", String(k === index)));
});
choosers.forEach((button, k) => button.addEventListener("click", () => {
  choose(k);
  document.getElementById("closer").scrollIntoView({ block: "start" });
  tabs[k].focus({ preventScroll: true });
}));
if (tabs.length) choose(0);
for (const readout of all(".readout")) readout.setAttribute("aria-live", "polite");

readableAttention(document);
