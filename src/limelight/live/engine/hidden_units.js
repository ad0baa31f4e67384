// Logits that hidden units make, Σ_a w_a tanh h_a, where h_a is the sum of what a word and a position
// give to unit a: additive attention (theory/hidden_logits.py).

import { storedError } from "./table_rounding.js";

/**
 * One head's units where the word of a row stands at place t: their `logit`; `along`, its slope along
 * the embedding, Σ w_a (1 − tanh² h_a)(h_a − offset_a); `error`, what storing the word's part does to
 * the logit; `far`, the largest |h_a − offset_a|. Without units all of it is 0. A `factor` stretches
 * the embedding, and with it h_a − offset_a, which is read of it.
 */
export function hiddenUnitsAt({ K, units, rounding, unitWordInputs, unitPositionInputs }, head, row, t, factor = 1) {
  const result = { logit: 0, along: 0, error: 0, far: 0 };
  if (!units) return result;
  const { size, weight, offset } = units, unit = head * size, word = (row * K + head) * size, place = (t * K + head) * size;
  for (let a = 0; a < size; a += 1) {
    const w = weight[unit + a], x = unitWordInputs[word + a], h = x + unitPositionInputs[place + a], read = h - offset[unit + a];
    const answer = Math.tanh(factor === 1 ? h : offset[unit + a] + factor * read);
    result.logit += w * answer;
    result.along += w * (1 - answer * answer) * read;
    result.error += Math.abs(w) * storedError(rounding, Math.abs(x));
    result.far = Math.max(result.far, Math.abs(read));
  }
  return result;
}
