// Explanations: the elements draw what the page holds as JSON; here is what joins them. Where no
// script runs, the words and the tables of the page are read as they stand.

import "./attention_cells.js";
import "./class_meters.js";
import "./colored_words.js";
import { all, byId, dataIn, heard, made } from "./nodes.js";
import "./score_bars.js";
import { scoreInWords } from "./score_words.js";
import { labelOf } from "./shades.js";
import { switchedTabs } from "./tab_switch.js";
import { featureName, visibleText } from "./text_pieces.js";

const data = dataIn("limelight-data");
const methods = data.explanations ?? [data], view = dataIn("limelight-view");

function say(readout, m, j) {
  const e = methods[m], { score, spans } = e.features[j];
  const rank = 1 + e.features.filter((one, k) => Math.abs(one.score) > Math.abs(score) || (Math.abs(one.score) === Math.abs(score) && k < j)).length;
  const times = spans.length > 1 ? `, all ${spans.length} occurrences` : "";
  const others = methods.flatMap((other, k) => (k === m ? [] : [`${labelOf(other)} ${scoreInWords(other, j)}`]));
  const elsewhere = others.length ? ` · elsewhere: ${others.join(", ")}` : "";
  readout.replaceChildren(made("b", {}, visibleText(featureName(e, j))), `  ${labelOf(e)} ${scoreInWords(e, j)}, rank ${rank} of ${e.features.length}${times}${elsewhere}`);
}

const shown = all("limelight-words, limelight-bars");
for (const node of shown) {
  const drawing = all(`.overview limelight-words[data-m="${node.dataset.m}"]`)[0]; // of an image, which stands there
  if (!node.innerHTML.trim() && drawing) node.drawing = drawing.innerHTML;
  node.explanation = methods[Number(node.dataset.m)];
}
for (const node of all("limelight-classes")) node.outcomes = view.outcomes;
for (const node of all("limelight-attention")) node.matrices = view.attention;
for (const readout of all(".readout")) readout.hidden = false;
byId("every").open = false; // who has no script sees it at once
heard(document, "limelight-point", ({ target, detail: { feature } }) => {
  for (const node of shown) node.mark(feature);
  const readout = target.closest(".panel")?.querySelector(".readout");
  if (feature !== null && readout) say(readout, Number(target.dataset.m), feature);
});

// The switch between methods.
const tabs = all("[role=tab]"), choosers = all("[data-choose]");
const choose = switchedTabs(tabs, all("[role=tabpanel]"), (index) => {
  for (const button of choosers) button.setAttribute("aria-pressed", String(Number(button.dataset.choose) === index));
});
for (const button of choosers) button.addEventListener("click", () => {
  const k = Number(button.dataset.choose);
  choose(k);
  byId("closer").scrollIntoView({ block: "start" });
  tabs[k].focus({ preventScroll: true });
});
if (tabs.length) choose(0);

// A sentence of an answer is shown while it is pointed at; one that was clicked or walked to, after that too.
for (const list of all(".answer [role=tablist]")) {
  let kept = 0;
  tabs.forEach((tab, k) => {
    tab.addEventListener("pointerenter", () => choose(k));
    for (const name of ["click", "focus"]) tab.addEventListener(name, () => { kept = k; choose(k); });
  });
  list.addEventListener("pointerleave", () => choose(kept));
}
