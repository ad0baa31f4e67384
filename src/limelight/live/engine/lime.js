// LIME without sampling: the coefficients to which it converges (docs/theorems/lime.md; theory/lime.py).
//
//   β_j = [c_j − κ/(V + dκ) · Σ_k c_k] / V,   c_j = E[ψ Z_j f] − (m1/m0) E[ψ f].

import { endValues } from "./heavy_form.js";
import { limeDesign } from "./lime_design.js";
import { ROUNDING } from "./table_rounding.js";

const MAX_ENUMERATED = 10; // words whose 2^d sets are all asked: there a mixture amplifies rounding

/** One head's coefficients, intercept and bound. Domain: d ≥ 2. */
export function limeValues(form, walk, plan) {
  const design = limeDesign(form.d);
  return form.d <= MAX_ENUMERATED ? limeFromAllSets(form, design) : limeFromMixture(form, design, walk, plan);
}

/** Whether `limeValues` needs a walk. */
export const limeWalks = (d) => d > MAX_ENUMERATED;

function limeFromMixture(form, design, walk, { omega, attained, residual, missed }) {
  const { d, keptIsHeavy } = form, { weight, m0, m1, V, pull, amplification } = design;
  const keptMeans = new Float64Array(d);
  let total = 0, sizeOmega = 0;
  omega.forEach((w, m) => {
    total += w * walk.total[m];
    sizeOmega += Math.abs(w);
    for (let j = 0; j < d; j += 1) keptMeans[j] += w * (keptIsHeavy[j] ? walk.heavy[m][j] : walk.total[m] - walk.heavy[m][j]);
  });
  // Sizes 0 and d are one set each, whose f is known: what the mixture gives them is corrected.
  const { full, empty } = endValues(form), first = weight[0] - attained[0], last = weight[d] - attained[d];
  total += first * full + last * empty;
  const c = keptMeans.map((value) => value + first * full - (m1 / m0) * total), sum = c.reduce((a, b) => a + b, 0);
  const scores = c.map((value) => (value - pull * sum) / V);
  const intercept = total / m0 - (m1 / m0) * scores.reduce((a, b) => a + b, 0) + form.c;
  const reached = attained.map((value, s) => Math.abs(value) + residual[s]);
  const byReciprocal = reached.reduce((a, value, s) => a + value * amplification[s], 0);
  const atStake = sizeOmega + reached[0] + reached[d] + weight[0] + weight[d];
  const byRounding = (atStake * (1 + m1 / m0 + 2 * d * Math.abs(pull))) / V;
  const bound = form.halfRange * (missed + walk.error * byReciprocal) + form.magnitude * walk.rounding * byRounding + form.error * design.reach;
  return { scores, intercept, bound };
}

function limeFromAllSets(form, design) {
  const { d, delta, step, n0, keptIsHeavy } = form, scores = new Float64Array(d);
  const sets = Array.from({ length: d + 1 }, (_, s) => choose(d, s));
  let intercept = form.c;
  for (let gone = 0; gone < 2 ** d; gone += 1) {
    let N = n0, D = 1, s = 0;
    for (let j = 0; j < d; j += 1) {
      const removed = (gone >> j) & 1;
      s += removed;
      if (removed !== keptIsHeavy[j]) { N += step[j]; D += delta[j]; }
    }
    const share = (design.weight[s] / sets[s]) * (N / D);
    intercept += share * design.intercept[s];
    for (let j = 0; j < d; j += 1) scores[j] += share * ((gone >> j) & 1 ? design.removed[s] : design.keptWeight[s]);
  }
  const rounding = ROUNDING * (2 ** d + 6 * d + 64);
  return { scores, intercept, bound: (form.error + form.magnitude * rounding) * design.reach };
}

function choose(n, k) {
  let out = 1;
  for (let i = 1; i <= k; i += 1) out = (out * (n - k + i)) / i;
  return out;
}
