// The tokenizer of the paper's code (torchtext's basic_english), as text/tokenizer.py has it.
//
// Lower-case; ' and . , ( ) ! ? stand alone; " vanishes; <br />, ; and : are spaces.

// Python's \s, which JavaScript's is not: that one has U+FEFF and lacks U+001C to U+001F and U+0085.
const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const TOKEN = new RegExp(`[^${SPACE}'.,()!?;:]+|['.,()!?]`, "g");
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** `text` with halves of characters replaced by U+FFFD, and how many there were. */
export function wellFormed(text) {
  let replaced = 0;
  const wellFormedText = text.replace(LONE_SURROGATE, () => { replaced += 1; return "\ufffd"; });
  return { text: wellFormedText, replaced };
}

// The code point of `text` behind every UTF-16 unit of `lower` that is not a quote.
function placesOf(text, lower) {
  const places = [];
  // Most texts are one unit to a character, before and after: no letter shrinks when it is lowered.
  const even = lower.length === text.length && !/[\ud800-\udfff]/.test(text);
  let point = 0, unit = 0;
  for (const character of even ? lower : text) {
    // One character may become several ("İ"), but never a different number than when lowered alone.
    const units = even ? 1 : character.toLowerCase().length;
    for (const end = unit + units; unit < end; unit += 1) if (lower[unit] !== '"') places.push(point);
    point += 1;
  }
  return places;
}

/** Token strings, and for each the half-open range of code points of `text` it came from. */
export function tokenizeText(text) {
  const lower = text.toLowerCase(), places = placesOf(text, lower);
  const plain = lower.replaceAll('"', "").replaceAll("<br />", "      "); // as long: places stay
  const strings = [], spans = [];
  for (const match of plain.matchAll(TOKEN)) {
    strings.push(match[0]);
    spans.push([places[match.index], places[match.index + match[0].length - 1] + 1]);
  }
  return { strings, spans };
}
