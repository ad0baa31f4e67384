// The page reads without this script; it adds the switch between methods, the texts of a word,
// the rows that wait for a click, and the theme.

const data = JSON.parse(document.getElementById("limelight-data").textContent);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const STEP = 100;

function made(tag, text, name) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (name) node.className = name;
  return node;
}

function written(score) {
  return (score > 0 ? "+" : "") + String(Number(score.toPrecision(3))).replace("-", "−");
}

// A click on a word shows the texts in which it scores most.
function example([id, score, before, found, after]) {
  const item = made("li"), text = made("bdi");
  text.append(before ? `…${before}` : "", made("b", found), after ? `${after}…` : "");
  item.append(made("span", `${id}  ${written(score)}`, "id"), text);
  return item;
}

for (const panel of all(".panel")) {
  const words = data.views[Number(panel.dataset.v)], place = panel.querySelector(".examples");
  const buttons = all("[data-w]", panel);
  for (const button of buttons) button.addEventListener("click", () => {
    const [word, examples] = words[Number(button.dataset.w)], list = made("ul");
    for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
    list.append(...examples.map(example));
    place.replaceChildren(made("h3", `Where “${word}” scores most`), list);
    place.hidden = false;
    place.scrollIntoView({ block: "nearest" });
  });
  for (const more of all(".more", panel)) more.addEventListener("click", () => {
    const rest = all("tr[hidden]", more.parentElement);
    for (const row of rest.slice(0, STEP)) row.hidden = false;
    more.hidden = rest.length <= STEP;
  });
}

// The switch between methods and classes.
const tabs = all("[role=tab]"), panels = all("[role=tabpanel]");
function choose(index, { focus = false } = {}) {
  tabs.forEach((tab, k) => {
    tab.setAttribute("aria-selected", String(k === index));
    tab.tabIndex = k === index ? 0 : -1;
  });
  panels.forEach((panel, k) => { panel.hidden = k !== index; });
  if (focus) tabs[index].focus();
  const address = index ? `#view=${index}` : location.pathname; // a view is a link
  if (location.hash !== (index ? address : "")) history.replaceState(null, "", address);
}
tabs.forEach((tab, k) => {
  tab.addEventListener("click", () => choose(k));
  tab.addEventListener("keydown", (event) => {
    const there = { ArrowRight: (k + 1) % tabs.length, ArrowLeft: (k + tabs.length - 1) % tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    if (there === undefined) return;
    event.preventDefault();
    choose(there, { focus: true });
  });
});
function restore() {
  const wanted = Number(new URLSearchParams(location.hash.slice(1)).get("view"));
  choose(wanted > 0 && wanted < tabs.length ? wanted : 0);
}
if (tabs.length) { restore(); addEventListener("hashchange", restore); }
