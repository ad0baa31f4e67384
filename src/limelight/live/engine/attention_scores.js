// α-avg, α-max and gradient × input of the words, with what the rounding of the tables does to them.
//
// The attention of a word is an average of an indicator, and so moves by tanh(ε/2) at most. Gradient
// × input (docs/theorems/gradient.md) is, at each place, α_t (u_t + (u_t − f) ℓ_t): the average of
// these numbers over the word's places and of 0 over the others. Of the first u_t, what is read of no
// embedding is left out; for ℓ_t stands its slope along the embedding, where hidden units make it.

import { averageError, ROUNDING } from "./table_rounding.js";
import { headAttention, outputError } from "./text_tables.js";

function byWord({ ofPosition, features }, at) {
  const scores = new Float64Array(features.length);
  ofPosition.forEach((j, t) => { if (j >= 0) scores[j] += at(t); });
  return scores;
}

/** How far the attention of a head to any set of places may be off. */
export const attentionError = (head) => averageError({ ...head, valueError: 0, low: 0, high: 1, smallest: 1 });
const meanOf = (rows) => rows.reduce((a, b) => a + b, 0) / rows.length;

/** α-avg: the mean over heads of the attention to the word. */
export function meanAttention(heads, reading) {
  const alphas = heads.map(headAttention);
  return { scores: byWord(reading, (t) => meanOf(alphas.map((alpha) => alpha[t]))), bound: meanOf(heads.map(attentionError)) };
}

/** α-max: at each place the largest over heads, summed over the word's places. */
export function maxAttention(heads, reading) {
  const alphas = heads.map(headAttention), worst = heads.map(attentionError).reduce((a, b) => Math.max(a, b));
  const maxCount = reading.features.reduce((count, { spans }) => Math.max(count, spans.length), 1);
  return { scores: byWord(reading, (t) => alphas.reduce((top, alpha) => Math.max(top, alpha[t]), 0)), bound: maxCount * worst };
}

/** Gradient × input of the target's output. */
export function gradientTimesInput(heads, reading) {
  const parts = heads.map((head) => headProduct(head, reading));
  const scores = parts[0].scores.map((_, j) => meanOf(parts.map((part) => part.scores[j])));
  return { scores, bound: meanOf(parts.map((part) => part.bound)) };
}

function headProduct(head, reading) {
  const { readLogit, u, readError, valueError, offset } = head, alpha = headAttention(head);
  let f = 0;
  alpha.forEach((weight, t) => { f += weight * u[t]; });
  const fError = outputError(head, 1), at = (t) => u[t] - offset + (u[t] - f) * readLogit[t];
  let low = 0, high = 0, off = 0;
  for (let t = 1; t < reading.end; t += 1) {
    const size = Math.abs(readLogit[t]) + readError, distance = Math.abs(u[t] - f);
    low = Math.min(low, at(t));
    high = Math.max(high, at(t));
    const tableError = (offset ? 2 : 1) * valueError, rounded = 8 * ROUNDING * (Math.abs(u[t]) + Math.abs(f) + Math.abs(offset)) * (1 + size);
    off = Math.max(off, tableError + distance * readError + (valueError + fError) * size + rounded);
  }
  return { scores: byWord(reading, (t) => alpha[t] * at(t)), bound: averageError({ ...head, valueError: off, low, high, smallest: 1 }) };
}
