// The documents of a question: one field for each, and a button for another.

import { makeElement } from "../../rendering/elements/nodes.js";

/** Whether `text` is a chat: a JSON list of messages, each with a role. */
export function isChat(text) {
  if (!text.trimStart().startsWith("[")) return false;
  try {
    const messages = JSON.parse(text);
    return Array.isArray(messages) && messages.length > 0 && messages.every((message) => typeof message?.role === "string");
  } catch {
    return false;
  }
}

/** Show a field for each of `documents` in `container`. `change` is called with the new documents. */
export function showDocuments(container, documents, maxLength, change) {
  const fields = [...container.querySelectorAll("textarea")];
  // While someone types, the fields stay, so that none loses the focus.
  if (container.children.length && fields.length === documents.length && fields.every((field, i) => field.value === documents[i])) return;
  const read = () => [...container.querySelectorAll("textarea")].map((field) => field.value);
  const nodes = documents.map((text, i) => {
    const field = makeElement("textarea", { rows: 2, maxlength: maxLength, spellcheck: "false", dir: "auto", "aria-label": `Document ${i}` });
    field.value = text;
    field.addEventListener("input", () => change(read()));
    const remove = makeElement("button", { type: "button", "aria-label": `Remove document ${i}` }, "×");
    remove.addEventListener("click", () => change(read().filter((_, k) => k !== i)));
    return makeElement("div", { class: "document" }, makeElement("span", { class: "note" }, `document ${i}`), field, remove);
  });
  const add = makeElement("button", { type: "button", id: "add-document" }, "Add a document");
  add.addEventListener("click", () => { change([...read(), ""]); container.querySelector(".document:last-of-type textarea").focus(); });
  container.replaceChildren(...nodes, add);
}
