// What a reader can choose: class, scale, features and methods.

import { makeElement } from "../../rendering/elements/nodes.js";

export const NAMES = { words: "words", positions: "every token", sentences: "sentences", paragraphs: "paragraphs", lines: "lines", tokens: "pieces of words" };
/** Units that are opened with a click, and shown as blocks. */
export const BLOCKS = ["sentences", "paragraphs", "lines"];

function chooser(label, options, value, choose) {
  const nodes = options.map(([key, name]) => makeElement("option", { value: key ?? "" }, name));
  const select = makeElement("select", {}, ...nodes);
  select.value = value ?? "";
  select.addEventListener("change", () => choose(select.value || null));
  return makeElement("label", {}, label, select);
}

/** Put the choices into `place`; `change` hears of what is chosen. */
export function layChoices(place, facts, state, change) {
  const { classes, scales, features, spans } = facts.models[0], open = place.querySelector("details")?.open ?? false;
  const named = classes.map((name) => [name, name]);
  const usual = spans ? "the tag that was found" : classes.length === 2 ? classes[1] : "the predicted class";
  const parts = [
    classes.length > 1 ? chooser("Explain", [[null, `${usual} (usual)`], ["predicted", "the predicted class"], ...named], state.target, (target) => change({ target })) : null,
    classes.length > 1 ? chooser("against", [[null, "nothing"], ...named], state.against, (against) => change({ against })) : null,
    scales.length > 1 ? chooser("on the scale of", scales.map((name) => [name, name]), state.scale, (scale) => change({ scale })) : null,
    chooser("by", features.map((name) => [name, NAMES[name] ?? name]), state.features, (unit) => change({ features: unit, changes: [], inside: [] })),
    methodChoice(facts, state, change),
  ];
  place.replaceChildren(...parts.filter(Boolean));
  place.querySelector("details").open = open;
}

function methodChoice(facts, state, change) {
  const known = new Map(facts.models.flatMap(({ methods }) => methods.map((method) => [method.id, method])));
  const box = (method) => {
    const input = makeElement("input", { type: "checkbox", value: method.id, checked: state.methods.includes(method.id) });
    input.addEventListener("change", () => {
      const chosen = new Set(state.methods);
      if (input.checked) chosen.add(method.id); else chosen.delete(method.id);
      change({ methods: [...known.keys()].filter((id) => chosen.has(id)) });
    });
    return makeElement("label", { title: method.formula }, input, ` ${method.label} `, makeElement("code", { class: "note" }, method.id));
  };
  const group = (name, methods) => (methods.length ? makeElement("fieldset", {}, makeElement("legend", {}, name), ...methods.map(box)) : null);
  const all = [...known.values()];
  return makeElement("details", { id: "methods" }, makeElement("summary", {}, `Methods: ${state.methods.length} of ${all.length} shown`),
    ...[group("At every keystroke: these follow from what the model computes anyway", all.filter(({ quick }) => quick)),
      group("When you pause: these ask the model many times", all.filter(({ quick }) => !quick))].filter(Boolean));
}
