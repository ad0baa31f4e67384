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
  const whole = text.replace(LONE_SURROGATE, () => { replaced += 1; return "\ufffd"; });
  return { text: whole, replaced };
}

/** Token strings, and for each the half-open range of code points of `text` it came from. */
export function tokenized(text) {
  const lower = text.toLowerCase();
  // The code point of `text` behind every UTF-16 unit of `lower`. One character may become several
  // ("İ"), but never a different number than when it is lowered alone.
  const origin = [];
  let point = 0;
  for (const character of text) {
    for (let unit = character.toLowerCase().length; unit > 0; unit -= 1) origin.push(point);
    point += 1;
  }
  let plain = lower, places = origin;
  if (lower.includes('"')) {
    places = origin.filter((_, unit) => lower[unit] !== '"');
    plain = lower.replaceAll('"', "");
  }
  plain = plain.replaceAll("<br />", "      "); // as long, so that every place stays where it is
  const strings = [], spans = [];
  for (const match of plain.matchAll(TOKEN)) {
    strings.push(match[0]);
    spans.push([places[match.index], places[match.index + match[0].length - 1] + 1]);
  }
  return { strings, spans };
}
