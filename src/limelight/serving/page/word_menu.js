// The menu of a word: its scores, and buttons to change it. Escape and a click elsewhere close it.

import { makeElement } from "../../rendering/elements/nodes.js";
import { visibleText } from "../../rendering/elements/text_parts.js";

let menu = null, openedFrom = null;

/** Close the menu; with `focus`, its word gets the focus again. */
export function closeWordMenu({ focus = false } = {}) {
  menu?.remove();
  menu = null;
  if (focus && openedFrom?.isConnected) openedFrom.focus();
}

/**
 * Open the menu at `anchor`. `onAction` is called with "remove", "replace" (and a text) or "protect".
 * A document or a message, `isPart`, cannot be replaced. Its menu has the action "words".
 */
export function openWordMenu({ anchor, word, numbers, isPart = false, onAction }) {
  closeWordMenu();
  openedFrom = anchor;
  const choose = (action, replacement = null) => { closeWordMenu({ focus: true }); onAction(action, replacement); };
  const button = (name, action) => {
    const node = makeElement("button", { type: "button", "data-action": action }, name);
    node.addEventListener("click", () => choose(action));
    return node;
  };
  const replacementInput = makeElement("input", { type: "text", maxlength: 1000, "aria-label": `Replace ${word} with`, placeholder: "another word", autocomplete: "off" });
  const form = makeElement("form", {}, replacementInput, makeElement("button", { type: "submit" }, "Replace"));
  form.addEventListener("submit", (event) => { event.preventDefault(); if (replacementInput.value.trim()) choose("replace", replacementInput.value.trim()); });
  const rows = numbers.map(([label, number]) => makeElement("tr", {}, makeElement("th", { scope: "row" }, label), makeElement("td", {}, number)));
  menu = makeElement("div", { class: "word-menu", role: "dialog", "aria-label": visibleText(word) },
    makeElement("h3", {}, makeElement("bdi", {}, visibleText(word))), makeElement("table", {}, makeElement("tbody", {}, ...rows)),
    makeElement("div", { class: "actions" }, button("Remove", "remove"), button("Protect", "protect"), ...(isPart ? [button("Score its words", "words")] : [])), ...(isPart ? [] : [form]));
  menu.addEventListener("keydown", (event) => { if (event.key === "Escape") { event.preventDefault(); closeWordMenu({ focus: true }); } });
  document.body.append(menu);
  positionMenu(anchor);
  menu.querySelector("button").focus();
}

function positionMenu(anchor) {
  const word = anchor.getBoundingClientRect(), { width, height } = menu.getBoundingClientRect();
  const x = Math.max(8, Math.min(word.left, document.documentElement.clientWidth - width - 8));
  const below = word.bottom + 6, fits = below + height < innerHeight || word.top < height;
  menu.style.left = `${x + scrollX}px`;
  menu.style.top = `${(fits ? below : word.top - height - 6) + scrollY}px`;
}

addEventListener("pointerdown", (event) => { if (menu && !menu.contains(event.target)) closeWordMenu(); });
