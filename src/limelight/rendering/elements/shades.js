// From scores to the classes of palette.css: f1…f10 for, a1…a10 against, n1…n10 without a sign.

const LEVELS = 10;
const FAINTEST = 0.05; // weaker words stay plain: a review of gray boxes says nothing

/** Hues of lines, one for each method, apart for color-blind readers on light and dark. */
export const HUES = ["#0072b2", "#d98a00", "#009e73", "#c7619a", "#4aa3dd", "#d55e00", "#8a8f98", "#8c7a00"];

export const isSigned = (e) => e.settings?.signed ?? true;
/** What one feature is called: "word", "sentence", or "part" where a cutter made it. */
export const featureNoun = (e) => (/\d patches$/.test(e.feature_kind) ? "patch" : { sentences: "sentence", paragraphs: "paragraph", lines: "line", tokens: "token", documents: "document", messages: "message", steps: "step", words: "word", positions: "word", patches: "patch", segments: "segment" }[e.feature_kind ?? "words"] ?? "part");
/** What several are called. */
export const pluralize = (noun) => `${noun}${noun.endsWith("ch") ? "es" : "s"}`;
/** Whether features are stretches of the text that stand on lines of their own. */
export const hasBlockFeatures = (e) => ["sentences", "paragraphs", "lines", "documents", "messages", "steps"].includes((e.feature_kind ?? "words").split(" ").at(-1));
export const methodLabel = (e) => e.settings?.label ?? e.method;

/** The largest absolute score: the one drawn in full color. */
export const largestScore = (e) => e.features.reduce((largest, { score }) => Math.max(largest, Math.abs(score)), 0);

/** The feature with that score; -1 where all are 0. */
export function strongestFeature(e) {
  const peak = largestScore(e);
  return peak ? e.features.findIndex(({ score }) => Math.abs(score) === peak) : -1;
}

/** The class of one score's color, "" where it stays plain. */
export function shadeClass(score, { peak, signed }) {
  const size = peak ? Math.min(Math.abs(score) / peak, 1) : 0;
  if (size < FAINTEST) return "";
  const hue = !signed ? "n" : score >= 0 ? "f" : "a";
  return hue + Math.max(1, roundHalfToEven(size * LEVELS));
}

// Half goes to the even neighbor, as Python rounds: pages and reports must not differ by a shade.
function roundHalfToEven(x) {
  const floor = Math.floor(x);
  if (x - floor !== 0.5) return Math.round(x);
  return floor % 2 ? floor + 1 : floor;
}
