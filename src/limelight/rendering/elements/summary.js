// The page reads without this script; it adds the switch between methods, the texts of a word, and
// the rows that wait for a click.

import { readAddressState, writeAddressStateNow } from "./address_state.js";
import { selectAll, readData, makeElement } from "./nodes.js";
import { formatNumber } from "./numbers_in_words.js";
import { connectTabs } from "./tab_switch.js";

const data = readData("limelight-data");
const STEP = 100;

// A click on a word shows the texts in which it scores most.
function example([id, score, before, match, after]) {
  const text = makeElement("bdi", {}, before ? `…${before}` : "", makeElement("b", {}, match), after ? `${after}…` : "");
  return makeElement("li", {}, makeElement("span", { class: "id" }, `${id}  ${formatNumber(score)}`), text);
}

for (const panel of selectAll(".panel")) {
  const words = data.views[Number(panel.dataset.v)], place = selectAll(".examples", panel)[0];
  const buttons = selectAll("[data-w]", panel);
  for (const button of buttons) button.addEventListener("click", () => {
    const [word, examples] = words[Number(button.dataset.w)];
    for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
    place.replaceChildren(makeElement("h3", {}, `Where “${word}” scores most`), makeElement("ul", {}, ...examples.map(example)));
    place.hidden = false;
    place.scrollIntoView({ block: "nearest" });
  });
  for (const more of selectAll(".more", panel)) more.addEventListener("click", () => {
    const hiddenRows = selectAll("tr[hidden]", more.parentElement);
    for (const row of hiddenRows.slice(0, STEP)) row.hidden = false;
    more.hidden = hiddenRows.length <= STEP;
  });
}

// The switch between methods and classes; a view is a link.
const tabs = selectAll("[role=tab]"), DEFAULTS = { view: 0 };
const choose = connectTabs(tabs, selectAll("[role=tabpanel]"), (view) => writeAddressStateNow({ view }, DEFAULTS));
const restore = () => choose(readAddressState(DEFAULTS, { view: (index) => Boolean(tabs[index]) }).view);
if (tabs.length) { restore(); addEventListener("hashchange", restore); }
