// Shapley values: Sh_j = ∫₀¹ (E_p[f | j kept] − E_p[f | j removed]) dp (docs/theorems/shapley.md).

/** One head's values and their bound, from its walk over the nodes of the plan. */
export function shapleyValues(form, walk, { omega, missed }) {
  const { d, keptIsHeavy, halfRange, magnitude } = form, { p, total, heavy } = walk;
  const scores = new Float64Array(d);
  let mass = missed, terms = 0;
  for (let m = 0; m < p.length; m += 1) {
    // E[f X] − v E[f] is p (1 − p) times what is wanted and cancels accordingly.
    const spread = omega[m] / (p[m] * (1 - p[m]));
    for (let j = 0; j < d; j += 1) {
      scores[j] += spread * (keptIsHeavy[j] ? heavy[m][j] - (1 - p[m]) * total[m] : p[m] * total[m] - heavy[m][j]);
    }
    mass += Math.abs(omega[m]);
    terms += Math.abs(spread);
  }
  // Two values of f enter each difference.
  const bound = 2 * (halfRange * (missed + walk.error * mass) + magnitude * walk.rounding * terms + form.error);
  return { scores, bound };
}
