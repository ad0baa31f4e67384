// A score with how far it can be trusted, as text.

import { formatBound, formatNumber } from "./numbers_in_words.js";
import { isSigned, largestScore } from "./shades.js";

/** "+1.20 ± 0.03", or "+1.20 (within 6.6e−7)". */
export function formatScore(e, feature) {
  const { score, stderr } = e.features[feature], peak = largestScore(e);
  const number = formatNumber(score, { peak, signed: isSigned(e) });
  if (stderr !== null && stderr !== undefined) return `${number} ± ${formatNumber(stderr, { peak, signed: false })}`;
  return Number.isFinite(e.bound) && e.bound > 0 ? `${number} (within ${formatBound(e.bound)})` : number;
}

/** The score that is drawn in full color: "up to 1.20", or "0 to 1.20" where scores have no sign. */
export function formatScale(e) {
  const peak = largestScore(e), number = formatNumber(peak, { peak, signed: false });
  if (!peak) return "all scores are 0";
  return isSigned(e) ? `up to ${number}` : `0 to ${number}`;
}
