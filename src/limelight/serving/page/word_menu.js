// The menu of a word: its numbers, and what can be done to it. Escape and a click elsewhere close it.

import { makeElement } from "../../rendering/elements/nodes.js";
import { visibleText } from "../../rendering/elements/text_parts.js";

let shown = null, home = null;

/** Close the menu; with `focus`, the word that it belongs to has the focus again. */
export function closeWordMenu({ focus = false } = {}) {
  shown?.remove();
  shown = null;
  if (focus && home?.isConnected) home.focus();
}

/** Open the menu at `anchor`; `act` hears "remove", "replace" (with a text) or "protect". */
export function openWordMenu({ anchor, word, said, act }) {
  closeWordMenu();
  home = anchor;
  const done = (what, instead = null) => { closeWordMenu({ focus: true }); act(what, instead); };
  const button = (name, what) => {
    const node = makeElement("button", { type: "button", "data-act": what }, name);
    node.addEventListener("click", () => done(what));
    return node;
  };
  const instead = makeElement("input", { type: "text", maxlength: 1000, "aria-label": `Replace ${word} with`, placeholder: "another word", autocomplete: "off" });
  const form = makeElement("form", {}, instead, makeElement("button", { type: "submit" }, "Replace"));
  form.addEventListener("submit", (event) => { event.preventDefault(); if (instead.value.trim()) done("replace", instead.value.trim()); });
  const rows = said.map(([label, number]) => makeElement("tr", {}, makeElement("th", { scope: "row" }, label), makeElement("td", {}, number)));
  shown = makeElement("div", { class: "word-menu", role: "dialog", "aria-label": visibleText(word) },
    makeElement("h3", {}, makeElement("bdi", {}, visibleText(word))), makeElement("table", {}, makeElement("tbody", {}, ...rows)),
    makeElement("div", { class: "actions" }, button("Remove", "remove"), button("Protect", "protect")), form);
  shown.addEventListener("keydown", (event) => { if (event.key === "Escape") { event.preventDefault(); closeWordMenu({ focus: true }); } });
  document.body.append(shown);
  place(anchor);
  shown.querySelector("button").focus();
}

function place(anchor) {
  const word = anchor.getBoundingClientRect(), menu = shown.getBoundingClientRect();
  const left = Math.max(8, Math.min(word.left, document.documentElement.clientWidth - menu.width - 8));
  const below = word.bottom + 6, fits = below + menu.height < innerHeight || word.top < menu.height;
  shown.style.left = `${left + scrollX}px`;
  shown.style.top = `${(fits ? below : word.top - menu.height - 6) + scrollY}px`;
}

addEventListener("pointerdown", (event) => { if (shown && !shown.contains(event.target)) closeWordMenu(); });
