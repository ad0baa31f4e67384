// Nodes from values. Whatever came from a text or a model is set as text, never read as markup.

const SVG = "http://www.w3.org/2000/svg";

function fillNode(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/**
 * The element of that id; whoever asks knows of which kind it is.
 * @returns {any}
 */
export const findById = (id) => document.getElementById(id);

/**
 * All elements inside `root` that a selector names.
 * @param {string} selector @param {ParentNode} root @returns {any[]}
 */
export const selectAll = (selector, root = document) => [...root.querySelectorAll(selector)];

/**
 * Hear an event of our own, which has a `detail`.
 * @param {EventTarget} node @param {string} name @param {(event: any) => void} then
 */
export const listen = (node, name, then) => node.addEventListener(name, then);

/** The JSON that the page holds in the script element of that id. */
export const readData = (id) => JSON.parse(findById(id).textContent);

/** An HTML element; attributes that are null or false are left out, strings become text. */
export function makeElement(tag, attributes = {}, ...children) {
  return fillNode(document.createElement(tag), attributes, children);
}

/** The sentence that opens a view: what the model says, its class in bold, and what scores mean. */
export function openingNodes([before, name, after]) {
  return [before, makeElement("b", {}, name), after];
}

/** What the renderers of the reports made, which escape whatever came from outside. */
export function parseMarkup(html) {
  const place = document.createElement("template");
  place.innerHTML = html;
  return place.content;
}

/** The same for SVG. */
export function makeSvg(tag, attributes = {}, ...children) {
  return fillNode(document.createElementNS(SVG, tag), attributes, children);
}

/** Register a custom element once: two scripts on a page may bring the same one. */
export function defineElement(name, element) {
  if (!customElements.get(name)) customElements.define(name, element);
}
