// LIME's design: what its sampling and its weights alone say, before any model is asked
// (theory/lime_weights.py). A size s is drawn from 1..d, then a set of s words; it weighs
// ψ(s) = exp(−(1 − √(1 − s/d))²/(2ν²)), ν = 0.25 as in the `lime` package.

const BANDWIDTH = 0.25;
const dot = (x, y) => x.reduce((total, value, s) => total + value * y[s], 0);

/** Weights ψ(s)/d of the sizes, moments, and how a unit of weight at each size reaches β. */
export function limeDesign(d) {
  const sizes = Float64Array.from({ length: d + 1 }, (_, s) => s);
  const weight = sizes.map((s) => (s ? Math.exp(-((1 - Math.sqrt(1 - s / d)) ** 2) / (2 * BANDWIDTH ** 2)) / d : 0));
  const m0 = weight.reduce((total, value) => total + value, 0), m1 = dot(weight, sizes.map((s) => (d - s) / d));
  const V = dot(weight, sizes.map((s) => (s * (d - s)) / (d * (d - 1)))), mean = dot(weight, sizes) / m0;
  const excess = sizes.map((s) => mean - s);
  // V + dκ is the variance of the number of kept words, over d; the difference form would cancel.
  const spread = dot(weight, excess.map((value) => value * value)) / d;
  const pull = (spread - V) / d / spread;
  const keptWeight = excess.map((value) => (1 - m1 / m0 - pull * value) / V), removed = excess.map((value) => -(m1 / m0 + pull * value) / V);
  const intercept = excess.map((value) => (1 - (m1 * value) / spread) / m0);
  const amplification = sizes.map((s) => ((d - s) * Math.abs(keptWeight[s]) + s * Math.abs(removed[s])) / d);
  return { d, weight, m0, m1, V, spread, pull, keptWeight, removed, intercept, amplification, reach: dot(weight, amplification) };
}
