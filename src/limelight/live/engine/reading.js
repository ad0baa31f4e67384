// A text as the model reads it: rows of its vocabulary, words as features, what a reader must know.

import { tokenizeText, wellFormed } from "./tokenizer.js";

const CLS = 0, UNK = 1;
const hasWords = (strings) => strings.some((string) => /[\p{L}\p{N}]/u.test(string));

function warningsOf({ seen, beyond, replaced, unknown, strings }) {
  const warnings = [];
  if (replaced) warnings.push(`The text has ${replaced} lone surrogate(s), which are not characters. Each was read as U+FFFD.`);
  if (beyond) warnings.push(`The text has ${seen + beyond} tokens. The model reads the first ${seen}, and the last ${beyond} were cut off.`);
  if (!hasWords(strings)) warnings.push("The text has no letters and no digits, only other signs.");
  if (unknown === seen) warnings.push("No word of the text is in the model's vocabulary, so the model reads only UNK.");
  else if (unknown) warnings.push(`${unknown} of ${seen} tokens are not in the vocabulary. The model reads UNK instead.`);
  return warnings;
}

/**
 * What the model makes of `given`: `ids` over the whole window, [cls] first and UNK as padding;
 * `features`, the distinct tokens with their spans in code points, in order of first occurrence;
 * `ofPosition`, the feature at each place (-1: none); `cutAt`, the end of what was read, or null.
 */
export function readText(model, value) {
  if (typeof value !== "string") throw new TypeError(`a text must be a string, not ${typeof value}.`);
  const { text, replaced } = wellFormed(value);
  const all = tokenizeText(text), seen = Math.min(all.strings.length, model.T_max - 1);
  if (!seen) throw new RangeError("the text has no words. Give at least one word.");
  const strings = all.strings.slice(0, seen), beyond = all.strings.length - seen;
  const ids = new Int32Array(model.T_max).fill(UNK), ofPosition = new Int32Array(model.T_max).fill(-1);
  const features = [], index = new Map();
  ids[0] = CLS;
  strings.forEach((string, t) => {
    ids[1 + t] = model.rows.get(string) ?? UNK;
    if (!index.has(string)) { index.set(string, features.length); features.push({ text: string, spans: [] }); }
    ofPosition[1 + t] = index.get(string);
    features[ofPosition[1 + t]].spans.push(all.spans[t]);
  });
  const unknown = strings.filter((string) => !model.rows.has(string)).length;
  return {
    text, tokens: strings, ids, ofPosition, features, end: 1 + seen,
    cutAt: beyond ? all.spans[seen - 1][1] : null,
    warnings: warningsOf({ seen, beyond, replaced, unknown, strings }),
  };
}
