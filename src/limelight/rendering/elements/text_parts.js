// A text cut into features, the text between them, and what the model never read. Spans count code
// points, as everywhere in limelight; strings here are cut by code points too.

const SHOWN_REST = 60; // characters of a text that was not read

const LINE_ENDS = /\r\n?|[\u2028\u2029]/g;
// Control characters can move a cursor and bidirectional ones reorder what stands around them: all
// are shown, none is obeyed. A lone surrogate is half a character.
const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** `text` with control characters as symbols; line ends and tabs stay. */
export function visibleText(text) {
  return text.replace(LINE_ENDS, "\n").replace(HIDDEN, (character) => {
    const code = character.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
    return code === 0x7f ? "\u2421" : `⟨${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** The name of a feature for readers: features of an input with parts name their part. */
export function featureName(e, j) {
  const { text, spans } = e.features[j];
  if (!e.parts) return text;
  const start = spans.length ? spans[0][0] : 0;
  const part = e.parts.find(({ span }) => span[0] <= start && start < span[1]);
  return part && part.id !== text ? `${text} (${part.id})` : text;
}

/**
 * Pieces {text, feature, seen, opens} in the order of the text; joined they are the text again. A piece
 * without characters `opens` a part of the input, such as a document, and has its id.
 */
export function splitText(e) {
  const letters = Array.from(e.text);
  const edge = e.settings?.cut_at ?? letters.length;
  const parts = [];
  const between = (start, end) => {
    (e.parts ?? []).forEach(({ id, content: [place] }) => {
      if (place < start || place > end) return;
      plain(start, place);
      parts.push({ text: "", feature: null, seen: true, opens: id });
      start = place;
    });
    plain(start, end);
  };
  const plain = (start, end) => {
    const stop = Math.min(Math.max(edge, start), end);
    for (const [from, to, seen] of [[start, stop, true], [stop, end, false]]) {
      if (from < to) parts.push({ text: letters.slice(from, to).join(""), feature: null, seen, opens: "" });
    }
  };
  const places = e.features.flatMap(({ spans }, feature) => spans.map(([start, end]) => ({ start, end, feature })));
  places.sort((first, second) => first.start - second.start || first.end - second.end || first.feature - second.feature);
  let at = 0;
  for (const { start: from, end, feature } of places) {
    const start = Math.max(from, at); // pieces of words may overlap: the first keeps what they share
    if (end <= start) continue;
    between(at, start);
    parts.push({ text: letters.slice(start, end).join(""), feature, seen: true, opens: "" });
    at = end;
  }
  between(at, letters.length);
  return parts;
}

/** The same, of the text that was not read only the beginning: it would drown what was. */
export function shortenPieces(e) {
  return splitText(e).map((piece) => {
    const letters = piece.seen ? [] : Array.from(piece.text);
    if (letters.length <= SHOWN_REST) return piece;
    const start = letters.slice(0, SHOWN_REST).join("");
    return { ...piece, text: `${start}… (${letters.length.toLocaleString("en-US")} characters)` };
  });
}
