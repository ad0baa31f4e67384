// How faithful an order of words is: its area between chance and ceiling
// (docs/theorems/faithfulness-ceiling.md; theory/faithfulness.py).
//
// Remove the words in an order; A = f(all) − mean over k of f(without the first k). Chance is the mean
// of A over all orders, the ceiling a proven bound on A for every order.

import { headsMean, sumOf } from "./ratio_game.js";
import { ROUNDING } from "./table_rounding.js";

const STEPS = 12; // of Dinkelbach's method; 2 to 4 are enough, and fewer would only loosen the bound

/** f without the first k words of the order, k = 0..d. */
export function deletionCurve(game, order) {
  const d = order.length, curves = game.map((head) => headCurve(head, order));
  return Array.from({ length: d + 1 }, (_, k) => curves.reduce((sum, curve) => sum + curve[k], 0) / curves.length);
}

// Two sums that only grow: taking a_j from D(all) would lose every digit where j holds nearly all.
function headCurve({ D0, a, b, N0, A, B }, order) {
  const d = order.length, D = new Float64Array(d + 1).fill(D0), N = new Float64Array(d + 1).fill(N0);
  for (let k = 1, gone = 0, value = 0; k <= d; k += 1) { gone += b[order[k - 1]]; value += B[order[k - 1]]; D[k] += gone; N[k] += value; }
  for (let k = d - 1, keptSum = 0, value = 0; k >= 0; k -= 1) { keptSum += a[order[k]]; value += A[order[k]]; D[k] += keptSum; N[k] += value; }
  return N.map((value, k) => value / D[k]);
}

/** A(π) = f(all) − mean of the curve after its first point. */
export const deletionArea = (curve) => curve[0] - curve.slice(1).reduce((a, b) => a + b, 0) / (curve.length - 1);

/** A bound on the error of f(all) and of every point of a curve. */
export const valueBound = (forms) => headsMean(forms, (form) => form.error + form.magnitude * ROUNDING * (8 + 2 * form.d));

/** (1/d) Σ_k E f without k words, with its bound; chance is f(all) less this. */
export function meanRemovedValue(forms, walks, { omega, missed }, full) {
  const d = forms[0].d, mass = omega.reduce((sum, w) => sum + Math.abs(w), 0);
  const heads = forms.map((form, i) => {
    const walk = walks[i], mean = omega.reduce((sum, w, m) => sum + w * walk.total[m], form.c * ((d + 1) / d));
    const off = form.halfRange * (missed + walk.error * mass) + form.magnitude * (ROUNDING * (8 + 2 * d) + walk.rounding * mass) + form.error;
    return { mean, off };
  });
  return { value: headsMean(heads, ({ mean }) => mean) - full / d, bound: headsMean(heads, ({ off }) => off) };
}

/** E_p f at the nodes of the walk: the output when every word goes with probability p. */
export function randomRemovals(forms, walks) {
  return Array.from(walks[0].p, (p, m) => [p, headsMean(forms.map((form, i) => walks[i].total[m] + form.c), (value) => value)]);
}

/** The order that removes, at every step, the word without which f is smallest. */
export function greedyOrder(game) {
  const d = game[0].d, remaining = Array.from({ length: d }, (_, j) => j), order = [];
  const sums = game.map(({ D0, N0, a, A }) => ({ D: D0 + sumOf(a), N: N0 + sumOf(A) }));
  const without = (j) => {
    let total = 0;
    for (let i = 0; i < game.length; i += 1) {
      const { a, b, A, B } = game[i];
      total += (sums[i].N + B[j] - A[j]) / (sums[i].D + b[j] - a[j]);
    }
    return total;
  };
  while (remaining.length) {
    const values = remaining.map(without), best = values.reduce((smallest, f, i) => (f < values[smallest] ? i : smallest), 0);
    const [j] = remaining.splice(best, 1);
    game.forEach(({ a, b, A, B }, i) => { sums[i].D += b[j] - a[j]; sums[i].N += B[j] - A[j]; });
    order.push(j);
  }
  return order;
}

/** A proven lower bound on f when k words are removed, whichever they are, for k = 1..d. */
export function lowestValues(forms) {
  const heads = forms.map(headLowest);
  return Array.from({ length: forms[0].d }, (_, k) => headsMean(heads, (low) => low[k]));
}

// Dinkelbach on −f: θ ← −N/D at the k words whose removal raises −N − θD most. For every θ,
// max(−f) ≤ θ + max(−N − θD)⁺, so the bound needs no convergence.
function headLowest(form) {
  const { d, delta, step, n0, keptIsHeavy, c, error } = form;
  const margin = 4 * ROUNDING * (d + 8) * form.magnitude;
  // Between one k and the next θ moves little and the order of the words with it: an insertion sort
  // of words that are nearly in order is nearly one pass.
  const order = Int32Array.from({ length: d }, (_, j) => j), raise = new Float64Array(d);
  const best = (theta, k) => {
    for (let j = 0; j < d; j += 1) { const gain = -step[j] - theta * delta[j]; raise[j] = keptIsHeavy[j] ? gain : -gain; }
    sortBy(order, raise);
    let N = -n0, D = 1;
    for (let i = 0; i < d; i += 1) {
      const j = order[i], removed = i < k ? 1 : 0;
      if (keptIsHeavy[j] !== removed) { N -= step[j]; D += delta[j]; }
    }
    return { N, D };
  };
  let theta = -n0;
  return Float64Array.from({ length: d }, (_, i) => {
    const { N: n, D: e } = best(theta, i + 1);
    theta = n / e;
    for (let round = 0; round < STEPS; round += 1) {
      const { N, D } = best(theta, i + 1);
      if (!(N / D > theta + margin)) break;
      theta = N / D;
    }
    const lifted = theta + margin, { N, D } = best(lifted, i + 1);
    return c - error - lifted - Math.max(N - lifted * D, 0);
  });
}

function sortBy(order, value) {
  for (let i = 1; i < order.length; i += 1) {
    const word = order[i], wordValue = value[word];
    let at = i;
    while (at > 0 && value[order[at - 1]] > wordValue) { order[at] = order[at - 1]; at -= 1; }
    order[at] = word;
  }
}
