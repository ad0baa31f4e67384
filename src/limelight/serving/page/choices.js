// The choices of a reader: class, scale, features and methods.

import { makeElement } from "../../rendering/elements/nodes.js";

export const NAMES = { words: "words", positions: "positions", sentences: "sentences", paragraphs: "paragraphs", lines: "lines", tokens: "subword tokens", auto: "documents, messages or sentences" };
/** Features that are shown as blocks. A click opens one. */
export const BLOCKS = ["sentences", "paragraphs", "lines", "steps"];
/** Features that are whole documents or messages. A click opens their menu. */
export const PARTS = ["documents", "messages"];

function chooser(label, options, value, choose) {
  const nodes = options.map(([key, name]) => makeElement("option", { value: key ?? "" }, name));
  const select = makeElement("select", {}, ...nodes);
  select.value = value ?? "";
  select.addEventListener("change", () => choose(select.value || null));
  return makeElement("label", {}, label, select);
}

/** Put the choices into `container`. `change` is called with each new choice. */
export function showChoices(container, facts, state, change) {
  const { classes, scales, features, finds_spans: findsSpans } = facts.models[0], isOpen = container.querySelector("details")?.open ?? false;
  const classOptions = classes.map((name) => [name, name]);
  const defaultTarget = findsSpans ? "the tag that was found" : classes.length === 2 ? classes[1] : "the predicted class";
  const parts = [
    classes.length > 1 ? chooser("Explain", [[null, `${defaultTarget} (default)`], ["predicted", "the predicted class"], ...classOptions], state.target, (target) => change({ target })) : null,
    classes.length > 1 ? chooser("Compare with", [[null, "none"], ...classOptions], state.against, (against) => change({ against })) : null,
    scales.length > 1 ? chooser("Scale", scales.map((name) => [name, name]), state.scale, (scale) => change({ scale })) : null,
    chooser("Features", features.map((name) => [name, NAMES[name] ?? name]), state.features, (kind) => change({ features: kind, changes: [], inside: [] })),
    methodChoice(facts, state, change),
  ];
  container.replaceChildren(...parts.filter(Boolean));
  container.querySelector("details").open = isOpen;
}

function methodChoice(facts, state, change) {
  const methodsById = new Map(facts.models.flatMap(({ methods }) => methods.map((method) => [method.id, method])));
  const box = (method) => {
    const input = makeElement("input", { type: "checkbox", value: method.id, checked: state.methods.includes(method.id) });
    input.addEventListener("change", () => {
      const ids = new Set(state.methods);
      if (input.checked) ids.add(method.id); else ids.delete(method.id);
      change({ methods: [...methodsById.keys()].filter((id) => ids.has(id)) });
    });
    return makeElement("label", { title: method.formula }, input, ` ${method.label} `, makeElement("code", { class: "note" }, method.id));
  };
  const group = (name, methods) => (methods.length ? makeElement("fieldset", {}, makeElement("legend", {}, name), ...methods.map(box)) : null);
  const methods = [...methodsById.values()];
  return makeElement("details", { id: "methods" }, makeElement("summary", {}, `Methods: ${state.methods.length} of ${methods.length} shown`),
    ...[group("At every keystroke: these need few model calls", methods.filter(({ is_quick: isQuick }) => isQuick)),
      group("When you pause: these call the model many times", methods.filter(({ is_quick: isQuick }) => !isQuick))].filter(Boolean));
}
