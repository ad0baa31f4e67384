// Explanations: the elements draw what the page holds as JSON; here is what joins them. Where no
// script runs, the words and the tables of the page are read as they stand.

import "./attention_cells.js";
import "./class_meters.js";
import "./colored_words.js";
import { selectAll, findById, readData, listen, makeElement } from "./nodes.js";
import "./score_bars.js";
import { formatScore } from "./score_words.js";
import { methodLabel } from "./shades.js";
import { connectTabs } from "./tab_switch.js";
import { featureName, visibleText } from "./text_parts.js";

const data = readData("limelight-data");
const methods = data.explanations ?? [data], view = readData("limelight-view");

function showReadout(readout, m, j) {
  const e = methods[m], { score, spans } = e.features[j];
  const rank = 1 + e.features.filter((other, k) => Math.abs(other.score) > Math.abs(score) || (Math.abs(other.score) === Math.abs(score) && k < j)).length;
  const times = spans.length > 1 ? `, all ${spans.length} occurrences` : "";
  const otherScores = methods.flatMap((other, k) => (k === m ? [] : [`${methodLabel(other)} ${formatScore(other, j)}`]));
  const elsewhere = otherScores.length ? ` · elsewhere: ${otherScores.join(", ")}` : "";
  readout.replaceChildren(makeElement("b", {}, visibleText(featureName(e, j))), `  ${methodLabel(e)} ${formatScore(e, j)}, rank ${rank} of ${e.features.length}${times}${elsewhere}`);
}

const views = selectAll("limelight-words, limelight-bars");
for (const node of views) {
  const drawing = selectAll(`.overview limelight-words[data-m="${node.dataset.m}"]`)[0]; // of an image, which stands there
  if (!node.innerHTML.trim() && drawing) node.drawing = drawing.innerHTML;
  node.explanation = methods[Number(node.dataset.m)];
}
for (const node of selectAll("limelight-classes")) node.outcomes = view.outcomes;
for (const node of selectAll("limelight-attention")) node.matrices = view.attention;
for (const readout of selectAll(".readout")) readout.hidden = false;
findById("all-scores").open = false; // open without a script, so that all readers find the scores
listen(document, "limelight-point", ({ target, detail: { feature } }) => {
  for (const node of views) node.mark(feature);
  const readout = target.closest(".panel")?.querySelector(".readout");
  if (feature !== null && readout) showReadout(readout, Number(target.dataset.m), feature);
});

// The switch between methods.
const tabs = selectAll("[role=tab]"), choosers = selectAll("[data-choose]");
const choose = connectTabs(tabs, selectAll("[role=tabpanel]"), (index) => {
  for (const button of choosers) button.setAttribute("aria-pressed", String(Number(button.dataset.choose) === index));
});
for (const button of choosers) button.addEventListener("click", () => {
  const k = Number(button.dataset.choose);
  choose(k);
  findById("detail").scrollIntoView({ block: "start" });
  tabs[k].focus({ preventScroll: true });
});
if (tabs.length) choose(0);

// A sentence of an answer is shown while it is pointed at; one that was clicked or walked to, after that too.
for (const list of selectAll(".answer [role=tablist]")) {
  let selected = 0;
  tabs.forEach((tab, k) => {
    tab.addEventListener("pointerenter", () => choose(k));
    for (const name of ["click", "focus"]) tab.addEventListener(name, () => { selected = k; choose(k); });
  });
  list.addEventListener("pointerleave", () => choose(selected));
}
