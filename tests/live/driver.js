// Runs the engine of the page outside a browser: a file of questions in, a file of answers out.

import { Explainer } from "../../src/limelight/live/engine/explainer.js";
import { unpackedModel } from "../../src/limelight/live/engine/packed_model.js";
import { readText } from "../../src/limelight/live/engine/reading.js";
import { tokenized } from "../../src/limelight/live/engine/tokenizer.js";

const answered = (ask) => {
  try { return ask(); } catch (/** @type {any} */ error) { return { error: error.message }; }
};

export function answersTo({ model, tokenize = [], digest = [], read = [], texts = [], methods = [], target = null }) {
  const known = unpackedModel(model), explainer = new Explainer(known);
  return {
    tokens: tokenize.map((text) => tokenized(text)),
    digests: digest.map((text) => { const { strings, spans } = tokenized(text); return /** @type {any} */ (globalThis).digestOf(JSON.stringify([strings, spans])); }),
    read: read.map((text) => answered(() => { const { ids, cutAt, warnings } = readText(known, text); return { ids: [...ids], cutAt, warnings }; })),
    texts: texts.map((text) => answered(() => {
      const start = performance.now();
      const found = { predict: explainer.predict(text), heads: explainer.heads(text, { target }), slopes: explainer.slopes(text, { target }) };
      for (const method of methods) {
        found[method] = answered(() => ({ ...explainer.explain(text, method, { target }), faithfulness: explainer.faithfulness(text, method, { target }) }));
      }
      return { ...found, milliseconds: performance.now() - start };
    })),
  };
}
