// The page reads without this script; it adds the switch between methods, the texts of a word, and
// the rows that wait for a click.

import { stateInAddress, stateToAddressNow } from "./address_state.js";
import { all, dataIn, made } from "./nodes.js";
import { written } from "./numbers_in_words.js";
import { switchedTabs } from "./tab_switch.js";

const data = dataIn("limelight-data");
const STEP = 100;

// A click on a word shows the texts in which it scores most.
function example([id, score, before, found, after]) {
  const text = made("bdi", {}, before ? `…${before}` : "", made("b", {}, found), after ? `${after}…` : "");
  return made("li", {}, made("span", { class: "id" }, `${id}  ${written(score)}`), text);
}

for (const panel of all(".panel")) {
  const words = data.views[Number(panel.dataset.v)], place = all(".examples", panel)[0];
  const buttons = all("[data-w]", panel);
  for (const button of buttons) button.addEventListener("click", () => {
    const [word, examples] = words[Number(button.dataset.w)];
    for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
    place.replaceChildren(made("h3", {}, `Where “${word}” scores most`), made("ul", {}, ...examples.map(example)));
    place.hidden = false;
    place.scrollIntoView({ block: "nearest" });
  });
  for (const more of all(".more", panel)) more.addEventListener("click", () => {
    const rest = all("tr[hidden]", more.parentElement);
    for (const row of rest.slice(0, STEP)) row.hidden = false;
    more.hidden = rest.length <= STEP;
  });
}

// The switch between methods and classes; a view is a link.
const tabs = all("[role=tab]"), DEFAULTS = { view: 0 };
const choose = switchedTabs(tabs, all("[role=tabpanel]"), (view) => stateToAddressNow({ view }, DEFAULTS));
const restore = () => choose(stateInAddress(DEFAULTS, { view: (index) => Boolean(tabs[index]) }).view);
if (tabs.length) { restore(); addEventListener("hashchange", restore); }
