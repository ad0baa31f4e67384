// The game behind every perturbation method (docs/theorems/ratio-game.md; theory/ratio_game.py).
//
// Words are kept (Z = 1) or replaced by UNK at all their places (Z = 0). For each head
//   f(Z) = (N0 + Σ_j [Z_j A_j + (1 − Z_j) B_j]) / (D0 + Σ_j [Z_j a_j + (1 − Z_j) b_j]).

import { outputError } from "./text_tables.js";

/** The games of the heads: D0, a, b, N0, A, B, and `error`, how far each f(Z) is from what is meant. */
export function ratioGame(heads, reading) {
  return heads.map((head) => headGame(head, reading));
}

function headGame(head, { ofPosition, features }) {
  const d = features.length, { logit, u, baseLogit, baseU, top } = head;
  const a = new Float64Array(d), b = new Float64Array(d), A = new Float64Array(d), B = new Float64Array(d);
  let D0 = 0, N0 = 0;
  for (let t = 0; t < logit.length; t += 1) {
    // The largest logit is taken off before the exponential: a ratio does not notice, and a logit of
    // 710 would overflow.
    const j = ofPosition[t], g = Math.exp(logit[t] - top);
    if (j < 0) { D0 += g; N0 += g * u[t]; continue; }
    const gone = Math.exp(baseLogit[t] - top);
    a[j] += g;
    A[j] += g * u[t];
    b[j] += gone;
    B[j] += gone * baseU[t];
  }
  let smallest = D0;
  for (let j = 0; j < d; j += 1) smallest += Math.min(a[j], b[j]);
  return { d, D0, a, b, N0, A, B, error: outputError(head, smallest) };
}

const mean = (game, of) => game.reduce((sum, head) => sum + of(head), 0) / game.length;
const sum = (x) => { let total = 0; for (const value of x) total += value; return total; };

/** f with every word kept: the model's own answer. */
export const fullValue = (game) => mean(game, ({ D0, N0, a, A }) => (N0 + sum(A)) / (D0 + sum(a)));

/** f with every word removed: the base value. */
export const emptyValue = (game) => mean(game, ({ D0, N0, b, B }) => (N0 + sum(B)) / (D0 + sum(b)));

/** The mean over heads of any number of theirs. */
export const headsMean = mean;

/** Σ x. */
export const sumOf = sum;
