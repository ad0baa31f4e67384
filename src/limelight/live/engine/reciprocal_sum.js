// Certified sums of exponentials for 1/x on [1, R] (docs/theorems/reciprocal-sum.md).
//
// The trapezoid rule in y = log λ for 1/x = ∫ e^y e^{−x e^y} dy. Its error is known by formulas alone:
// Poisson's summation formula for even steps, a moment for the nodes that are merged below, and a
// tail for those that are dropped above. All weights are positive.

import { ROUNDING } from "./table_rounding.js";

/** Nodes, weights and a proven bound on |x Σ w e^{−λx} − 1| over 1 ≤ x ≤ R. */
export function reciprocalSum(R, tolerance) {
  let h = Math.PI ** 2 / (1.5 - Math.log(tolerance));
  while (alias(h) > 0.6 * tolerance) h *= 0.97;
  const low = ((0.4 * tolerance * -Math.expm1(-3 * h)) / h) ** (1 / 3) / R;
  let high = 1;
  while ((h * high + 1) * Math.exp(-high) > 0.2 * tolerance) high += 0.25;
  const first = Math.log(low), count = 1 + Math.ceil((Math.log(high) - first) / h);
  const nodes = Float64Array.from({ length: count }, (_, i) => Math.exp(first + h * i));
  const weights = nodes.map((node) => h * node);
  // The first node stands for itself and all below: a geometric series of masses.
  weights[0] /= -Math.expm1(-h);
  nodes[0] /= 1 + Math.exp(-h);
  const merged = (h / -Math.expm1(-3 * h) - (weights[0] / low) * (nodes[0] / low) ** 2) * (R * low) ** 3;
  const dropped = Math.exp(first + h * count);
  const moved = 2 * ROUNDING * Math.max(Math.abs(first), Math.abs(first + h * count));
  const error = alias(h) + merged / 2 + (h * dropped + 1) * Math.exp(-dropped) + moved + 4 * count * ROUNDING;
  return { nodes, weights, error };
}

// 2 Σ_m |Γ(1 + 2πim/h)|: what even steps h in log λ cost the sum.
function alias(h) {
  let total = 0;
  for (let m = 1; m <= 40; m += 1) {
    const eta = (2 * Math.PI * m) / h;
    total += 4 * Math.sqrt(Math.PI * eta) * Math.exp((-Math.PI * eta) / 2);
  }
  return total;
}
