// Weights on set sizes as mixtures of independent removals (docs/theorems/removal-mixture.md).
//
// Removing each of n words with probability p gives size s with probability Binom(s; n, p). Weights ω
// on Gauss–Legendre nodes p reproduce a target weight of each size; what they miss is computed from
// the weights as they came out, with the roundings, and goes into the bound.

import { leastSquares } from "./least_squares.js";
import { ROUNDING } from "./table_rounding.js";

/** Binom(s; n, p) for each node: an array of columns over s = 0..n. */
export function sizeProbabilities(n, p) {
  // In logarithms: binomial coefficients overflow from n = 1030 on, powers of p underflow. Sums run
  // from the nearer end, where they are shorter.
  const choose = new Float64Array(n + 1);
  for (let s = 1; 2 * s <= n; s += 1) choose[s] = choose[s - 1] + Math.log(n - s + 1) - Math.log(s);
  for (let s = 0; 2 * s < n; s += 1) choose[n - s] = choose[s];
  return Array.from(p, (probability) => {
    const logRemoved = Math.log(probability), logKept = Math.log1p(-probability);
    return choose.map((log, s) => Math.exp(log + s * logRemoved + (n - s) * logKept));
  });
}

/** What weights ω attain at each size, and a bound on what that misses of the target. */
export function boundMixture(laws, omega, target, { freeEnds = false } = {}) {
  const n = target.length - 1, attained = new Float64Array(n + 1), residual = new Float64Array(n + 1);
  laws.forEach((law, m) => {
    for (let s = 0; s <= n; s += 1) { attained[s] += omega[m] * law[s]; residual[s] += Math.abs(omega[m]) * law[s]; }
  });
  for (let s = 0; s <= n; s += 1) {
    const off = freeEnds && (s === 0 || s === n) ? 0 : Math.abs(attained[s] - target[s]);
    residual[s] = off + (8 + 4 * n + laws.length) * ROUNDING * residual[s];
  }
  return { omega, attained, residual };
}

/** Weights fitted to a target whose sizes 0 and n are the caller's to correct. */
export function fitMixture(laws, target, amplification) {
  const n = target.length - 1, inner = (x) => Float64Array.from({ length: n - 1 }, (_, i) => x[i + 1] * amplification[i + 1]);
  return boundMixture(laws, leastSquares(laws.map(inner), inner(target)), target, { freeEnds: true });
}
