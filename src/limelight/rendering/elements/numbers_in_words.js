// Numbers as people read them: the same digits as in the reports (rendering/wording.py).

const SMALLEST_DECIMAL = 1e-4; // below it, powers of ten read better than rows of zeros

/** The number with a true minus sign. */
export const typographicMinus = (text) => text.replaceAll("-", "−");

/** `value` with as many decimals as give `peak` three digits. */
export function formatNumber(value, { peak = Math.abs(value), signed = true, digits = 3 } = {}) {
  const sign = signed && value >= 0 ? "+" : "";
  if (peak && (peak < SMALLEST_DECIMAL || peak >= 1e6)) return sign + typographicMinus(value.toExponential(digits - 1));
  const decimals = peak ? digits - 1 - Math.floor(Math.log10(peak)) : digits - 1;
  return sign + typographicMinus(value.toFixed(Math.max(decimals, 0)));
}

/** A percentage that never rounds to certainty. */
export function formatPercent(probability) {
  if (probability > 0.999 && probability < 1) return ">99.9%";
  return probability > 0 && probability < 0.001 ? "<0.1%" : `${(100 * probability).toFixed(1)}%`;
}

/** A bound with two digits, rounded up: what is said to hold must hold. */
export function formatBound(bound) {
  const rounded = Number(bound.toExponential(1));
  const up = rounded >= bound ? rounded : rounded + 10 ** (Math.floor(Math.log10(bound)) - 1);
  return typographicMinus(up.toExponential(1));
}

const BOUND_KINDS = { proven: "proven bound", checked: "bound checked on this text, not proven" }; // as in rendering/wording.py

/** How far the scores of an explanation can be trusted as numbers. */
export function precisionSentence({ bound, bound_kind: kind = "proven", features, method }) {
  if (features.some(({ stderr }) => stderr !== null && stderr !== undefined)) return `${method === "learned" ? "Learned" : "Sampled"}: ± is one standard error.`;
  if (bound === null || bound === undefined) return "Computed without sampling.";
  if (bound === "inf" || !Number.isFinite(bound)) return "Computed without sampling, with an error that is not bounded.";
  return `Exact: error at most ${formatBound(bound)} (${BOUND_KINDS[kind]}).`;
}

const MAX_RANGES = 4; // of sizes in a sentence

/** Which sets of the strongest features are certain, or "" if nothing is known. `noun` names a feature and `nouns` several. */
export function ranksSentence({ certain_tops: ranges, features }, noun, nouns) {
  if (!ranges || features.length < 2) return "";
  const end = features.some(({ stderr }) => stderr) ? " (95 % confidence)." : ".";
  if (!ranges.length) return `It is not certain which ${nouns} are the strongest${end}`;
  const [[first, last]] = ranges;
  if (first === 1 && last === features.length - 1) return `The ranks of all ${nouns} are certain${end}`;
  if (ranges.length === 1 && last === 1) return `The strongest ${noun} is certain${end}`;
  const sizes = ranges.map(([from, to]) => (from === to ? `${from}` : `${from} to ${to}`));
  if (sizes.length > MAX_RANGES) sizes.splice(MAX_RANGES - 1, sizes.length - MAX_RANGES); // a shorter list is true as well
  const listed = [sizes.slice(0, -1).join(", "), sizes.at(-1)].filter(Boolean).join(" and ");
  return `The top ${listed} ${nouns} are certain${end}`;
}
