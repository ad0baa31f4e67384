// Expectations of one head's game under independent removals, for all words at once
// (theory/conditionals.py).
//
// With v_j the probability of word j's heavier state, φ_j = 1 − v_j + v_j e^{−λδ_j},
// z_j = v_j e^{−λδ_j}/φ_j, P = e^{−λ} Π φ_k and R = n0 + Σ z_k Δ_k,
//   E_p[f − c] = ∫ P R dλ,   E_p[X_j (f − c)] = ∫ P z_j (R + (1 − z_j) Δ_j) dλ.

import { reciprocalSum } from "./reciprocal_sum.js";
import { ROUNDING } from "./table_rounding.js";

const TOLERANCE = 2e-11; // relative error of 1/D

/**
 * For each node p: `total[m]` = E_p[f − c] and `heavy[m]`, E_p[X_j (f − c)] for every word. LIME,
 * Shapley values and chance are sums of these over m with their own weights, so one walk serves all.
 * `error` is the relative error of 1/D, `rounding` that of a sum with Σ|ω| = 1 in units of magnitude.
 */
export function removalWalk(form, p) {
  const rule = reciprocalSum(Math.max(1, form.ratio), TOLERANCE);
  const Q = rule.nodes.length, decays = decaysOf(form, rule);
  const weights = rule.weights.map((w, q) => w * Math.exp(-rule.nodes[q]));
  const total = new Float64Array(p.length), heavy = [];
  const floor = 1e-30 / Math.max(1, form.ratio); // smaller terms are denormal numbers before long
  for (let m = 0; m < p.length; m += 1) {
    const sums = new Float64Array(form.d);
    total[m] = nodeSums(form, p[m], decays, weights, floor, sums);
    heavy.push(sums);
  }
  const steps = 4 * form.d + p.length * Q + 64;
  return { p, total, heavy, error: rule.error, rounding: ROUNDING * steps * (1 + rule.error) };
}

// e^{−λδ} for each node and word; the last term keeps z² from being denormal and moves z Δ by 1e-43 of f.
function decaysOf({ delta, ratio }, { nodes }) {
  const smallest = Math.exp(-100) / Math.max(1, ratio);
  return Array.from(nodes, (node) => delta.map((value) => Math.exp(-node * value) + smallest));
}

function nodeSums({ d, step, n0, keptIsHeavy }, p, decays, weights, floor, sums) {
  const v = new Float64Array(d), light = new Float64Array(d), z = new Float64Array(d), phi = new Float64Array(d);
  for (let j = 0; j < d; j += 1) { v[j] = keptIsHeavy[j] ? 1 - p : p; light[j] = keptIsHeavy[j] ? p : 1 - p; }
  let total = 0;
  for (let q = 0; q < weights.length; q += 1) {
    const E = decays[q];
    let P = weights[q], R = n0;
    for (let j = 0; j < d; j += 1) {
      z[j] = v[j] * E[j];
      phi[j] = light[j] + z[j];
      P *= phi[j];
    }
    if (P < floor) continue;
    for (let j = 0; j < d; j += 1) {
      z[j] /= phi[j];
      R += z[j] * step[j];
    }
    total += P * R;
    for (let j = 0; j < d; j += 1) sums[j] += P * z[j] * (R + (1 - z[j]) * step[j]);
  }
  return total;
}
