// Runs the engine of the page outside a browser: a file of requests in, a file of results out.

import { Explainer } from "../../src/limelight/live/engine/explainer.js";
import { unpackModel } from "../../src/limelight/live/engine/packed_model.js";
import { readText } from "../../src/limelight/live/engine/reading.js";
import { tokenizeText } from "../../src/limelight/live/engine/tokenizer.js";

const resultOrError = (compute) => {
  try { return compute(); } catch (/** @type {any} */ error) { return { error: error.message }; }
};

export function answersTo({ model, tokenize = [], digest = [], read = [], texts = [], methods = [], target = null }) {
  const unpacked = unpackModel(model), explainer = new Explainer(unpacked);
  return {
    tokens: tokenize.map(tokenizeText),
    digests: digest.map((text) => { const { strings, spans } = tokenizeText(text); return /** @type {any} */ (globalThis).digestOf(JSON.stringify([strings, spans])); }),
    read: read.map((text) => resultOrError(() => { const { ids, cutAt, warnings } = readText(unpacked, text); return { ids: [...ids], cutAt, warnings }; })),
    texts: texts.map((text) => resultOrError(() => {
      const start = performance.now();
      const results = { predict: explainer.predict(text), heads: explainer.heads(text, { target }), slopes: explainer.slopes(text, { target }) };
      for (const method of methods) {
        results[method] = resultOrError(() => ({ ...explainer.explain(text, method, { target }), faithfulness: explainer.faithfulness(text, method, { target }) }));
      }
      return { ...results, milliseconds: performance.now() - start };
    })),
  };
}
