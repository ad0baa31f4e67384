// Logits that hidden units make, Σ_a w_a tanh h_a, where h_a is the sum of what a word and a position
// give to unit a: additive attention (theory/hidden_logits.py).

import { storedError } from "./table_rounding.js";

/**
 * One head's units where the word of a row stands at place t: their `logit`; `along`, its slope along
 * the embedding, Σ w_a (1 − tanh² h_a)(h_a − offset_a); `error`, what storing the word's part does to
 * the logit; `far`, the largest |h_a − offset_a|. Without units all of it is 0. A `factor` stretches
 * the embedding, and with it h_a − offset_a, which is read of it.
 */
export function unitsAt({ K, units, rounding, wordGiven, positionGiven }, head, row, t, factor = 1) {
  const found = { logit: 0, along: 0, error: 0, far: 0 };
  if (!units) return found;
  const { size, weight, offset } = units, own = head * size, word = (row * K + head) * size, place = (t * K + head) * size;
  for (let a = 0; a < size; a += 1) {
    const w = weight[own + a], x = wordGiven[word + a], h = x + positionGiven[place + a], read = h - offset[own + a];
    const answer = Math.tanh(factor === 1 ? h : offset[own + a] + factor * read);
    found.logit += w * answer;
    found.along += w * (1 - answer * answer) * read;
    found.error += Math.abs(w) * storedError(rounding, Math.abs(x));
    found.far = Math.max(found.far, Math.abs(read));
  }
  return found;
}
