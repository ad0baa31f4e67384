// Leave-one-out: f(all) − f(all but j), in closed form (docs/theorems/leave-one-out.md).

import { ROUNDING } from "./table_rounding.js";

/** One head's losses and their bound. */
export function leaveOneOutValues({ d, delta, step, n0, keptIsHeavy, magnitude, error }) {
  const D = delta.map((value, j) => value * keptIsHeavy[j]), N = step.map((value, j) => value * keptIsHeavy[j]);
  // f without j is summed afresh, from sums before and after it: where j holds nearly everything,
  // D − a_j would lose every digit.
  const otherSums = { D: without(D), N: without(N) };
  const full = (n0 + otherSums.N[0] + N[0]) / (1 + otherSums.D[0] + D[0]);
  const scores = Float64Array.from({ length: d }, (_, j) => {
    const gone = 1 - keptIsHeavy[j];
    return full - (n0 + otherSums.N[j] + step[j] * gone) / (1 + otherSums.D[j] + delta[j] * gone);
  });
  return { scores, bound: ROUNDING * (4 * d + 16) * 4 * magnitude + 2 * error };
}

// Σ_{k ≠ j} x_k for every j.
function without(x) {
  const out = new Float64Array(x.length);
  for (let j = 1, before = 0; j < x.length; j += 1) { before += x[j - 1]; out[j] += before; }
  for (let j = x.length - 2, after = 0; j >= 0; j -= 1) { after += x[j + 1]; out[j] += after; }
  return out;
}
