// The canonical form of one head's game, in which nothing under- or overflows (theory/heavy_form.py).
//
// Of its two states each word has a lighter one and a heavier one. With X_j = 1 in the heavier state,
//   f − c = (n0 + Σ X_j step_j) / (1 + Σ X_j delta_j),   delta_j = |a_j − b_j| / D_min.

import { ROUNDING } from "./table_rounding.js";

const TINY = 2.2250738585072014e-308, MOST_RATIO = 1e300;
const STEPS = 6; // of Dinkelbach's method; fewer would only widen the range

/** The form, shifted by the middle c of a proven range of f: |f − c| ≤ halfRange. */
export function heavyForm({ d, D0, a, b, N0, A, B, error }) {
  const { low, high } = denominators(D0, a, b);
  if (!(low >= TINY && high < Infinity && low >= high / MOST_RATIO)) {
    throw new RangeError("the attention of this model is too peaked on this text for exact scores in double precision.");
  }
  const delta = new Float64Array(d), step = new Float64Array(d), keptIsHeavy = new Uint8Array(d);
  let n0 = N0;
  for (let j = 0; j < d; j += 1) {
    const heavy = a[j] > b[j];
    keptIsHeavy[j] = heavy ? 1 : 0;
    delta[j] = Math.abs(a[j] - b[j]) / low;
    step[j] = (heavy ? A[j] - B[j] : B[j] - A[j]) / low;
    n0 += heavy ? B[j] : A[j];
  }
  n0 /= low;
  const u = valueRange(D0, a, b, N0, A, B), magnitude = magnitudeOf(low, N0, A, B, u);
  const margin = ROUNDING * (d + 8) * magnitude;
  const fHigh = Math.min(largest(n0, step, delta, 1, margin), u.high), fLow = Math.max(-largest(n0, step, delta, -1, margin), u.low);
  const c = (fLow + fHigh) / 2;
  for (let j = 0; j < d; j += 1) step[j] -= c * delta[j];
  return { d, delta, step, n0: n0 - c, keptIsHeavy, ratio: high / low, c, halfRange: Math.abs(fHigh - fLow) / 2 + margin, magnitude, error };
}

function denominators(D0, a, b) {
  let low = D0, high = D0;
  for (let j = 0; j < a.length; j += 1) { low += Math.min(a[j], b[j]); high += Math.max(a[j], b[j]); }
  return { low, high };
}

// f is an average of these u with weights D0, a, b: it lies between the smallest and the largest.
function valueRange(D0, a, b, N0, A, B) {
  let low = Infinity, high = -Infinity;
  const see = (N, g) => {
    if (g > 0) { low = Math.min(low, N / g); high = Math.max(high, N / g); } else if (N !== 0) { low = -Infinity; high = Infinity; }
  };
  see(N0, D0);
  for (let j = 0; j < a.length; j += 1) { see(A[j], a[j]); see(B[j], b[j]); }
  return { low, high };
}

// At least Σ|terms of N|/D and |c|: what rounding errors scale with.
function magnitudeOf(low, N0, A, B, u) {
  let terms = Math.abs(N0);
  for (let j = 0; j < A.length; j += 1) terms += Math.max(Math.abs(A[j]), Math.abs(B[j]));
  return Math.min(terms / low, Math.max(Math.abs(u.low), Math.abs(u.high)));
}

// A proven bound on max ±f. Dinkelbach: θ ← N/D at the set that maximises N − θD; for every θ,
// max f ≤ θ + max(N − θD)⁺, since D ≥ 1. The bound needs no convergence.
function largest(n0, step, delta, sign, margin) {
  let theta = sign * n0;
  const at = () => {
    let excess = sign * n0 - theta, D = 1;
    for (let j = 0; j < step.length; j += 1) {
      const gain = sign * step[j] - theta * delta[j];
      if (gain > 0) { excess += gain; D += delta[j]; }
    }
    return { excess, D };
  };
  for (let round = 0; round < STEPS; round += 1) {
    const { excess, D } = at();
    theta += excess / D;
  }
  theta += margin;
  return theta + Math.max(at().excess, 0);
}

/** f − c with every word kept, and with every word removed. */
export function endValues({ d, delta, step, n0, keptIsHeavy }) {
  let fullN = n0, fullD = 1, emptyN = n0, emptyD = 1;
  for (let j = 0; j < d; j += 1) {
    if (keptIsHeavy[j]) { fullN += step[j]; fullD += delta[j]; } else { emptyN += step[j]; emptyD += delta[j]; }
  }
  return { full: fullN / fullD, empty: emptyN / emptyD };
}
