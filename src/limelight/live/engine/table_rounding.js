// What the rounding of the tables does to everything computed from them
// (docs/theorems/table-rounding.md; theory/table_rounding.py).
//
// Errors ε of logits and η of values move an average Σ g u / Σ g, g = e^ℓ, by at most
//   η + tanh(ε/2) · (max u − min u).

export const ROUNDING = 2 ** -52; // twice the unit roundoff
const EXPONENTIAL = 8 * ROUNDING; // what Math.exp may be off by, relatively
const NORMAL = 2.2250738585072014e-308, DENORMAL = 2 ** -1074;

/** Errors of stored numbers of the size `size`, and of reading them. */
export const storedError = ({ unit, smallest }, size) => (unit + 4 * ROUNDING) * size + smallest;

/** A bound on the error of the average, `terms` numbers being added up and `smallest` the least Σ g. */
export function averageError({ logitError, valueError, low, high, terms, smallest }) {
  const size = Math.max(Math.abs(low), Math.abs(high));
  const moved = Math.tanh((logitError + EXPONENTIAL) / 2) * (high - low + 2 * valueError);
  const added = 2 * ROUNDING * (terms + 4) * size;
  const lost = smallest >= NORMAL ? (DENORMAL / smallest) * terms * (2 * size + 1) : Infinity;
  const error = (valueError + moved + added + lost) * (1 + 16 * ROUNDING);
  return Number.isNaN(error) ? Infinity : error;
}
