"""Split a text into its features, the text between them, and text that the model did not read."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from limelight.errors import CONTROL_CHARACTERS
from limelight.results import Explanation
from limelight.results.explanation import TextFeatures
from limelight.text import token_strings
from limelight.text.characters import LONE_SURROGATE

MAX_UNREAD_LETTERS = 60  # characters of unread text that a view shows


@dataclass(frozen=True, slots=True)
class TextPart:
    """A stretch of a text.

    ``feature`` is the index of its feature, or None between features. ``is_read`` is False for text
    after the model's window. At the beginning of each text of a pair, document or message there is
    a part without characters, whose ``label`` is its id.
    """

    text: str
    feature: int | None = None
    is_read: bool = True
    label: str = ""


def split_text(e: TextFeatures) -> list[TextPart]:
    """Split the text at the edges of its features. Together the parts are the text."""
    parts: list[TextPart] = []
    position = 0
    spans = sorted((*span, j) for j, spans in enumerate(e.spans) for span in spans)
    for span_start, end, feature in spans:
        start = max(span_start, position)  # if subwords overlap, the first keeps the overlap
        if end <= start:
            continue
        parts += _split_gap(e, position, start)
        parts.append(TextPart(e.text[start:end], feature))
        position = end
    return parts + _split_gap(e, position, len(e.text))


def shorten_unread(parts: Iterable[TextPart], mark: str = "") -> list[TextPart]:
    """Shorten the text that the model did not read to its first characters.

    If there is a ``mark``, it is inserted where that text begins.
    """
    shortened = [
        part
        if part.is_read or len(part.text) <= MAX_UNREAD_LETTERS
        else TextPart(
            f"{part.text[:MAX_UNREAD_LETTERS]}… ({len(part.text):,} characters)", is_read=False
        )
        for part in parts
    ]
    first = next((i for i, part in enumerate(shortened) if not part.is_read), None)
    if mark and first is not None:
        shortened.insert(first, TextPart(mark, is_read=False))
    return shortened


def model_tokens(e: Explanation) -> list[str]:
    """Return the tokens that the model read, [cls] first, including tokens without a score."""
    if e.image is not None:
        return ["[cls]", *e.features]
    return ["[cls]", *token_strings(e.text[: e.explained_end])]


def _split_gap(e: TextFeatures, start: int, end: int) -> list[TextPart]:
    """Return the text between two features, with a label for each part of the input that begins."""
    parts: list[TextPart] = []
    for input_part in e.parts:
        part_start = input_part.content[0]
        if start <= part_start <= end:
            parts += [*_split_at_window(e, start, part_start), TextPart("", label=input_part.id)]
            start = part_start
    return parts + _split_at_window(e, start, end)


def _split_at_window(e: TextFeatures, start: int, end: int) -> list[TextPart]:
    """Split a part of the text where the model stopped reading."""
    edge = min(max(e.explained_end, start), end)
    read, unread = e.text[start:edge], e.text[edge:end]
    return [part for part in (TextPart(read), TextPart(unread, is_read=False)) if part.text]


_LINE_ENDS = re.compile("\r\n?|[\u2028\u2029]")


_PARAGRAPH_END = re.compile(r"[^\S\n]*\n[^\S\n]*\n\s*")


def collapse_spaces(text: str) -> str:
    """Replace white space by single spaces, and by an empty line between paragraphs."""
    paragraphs = _PARAGRAPH_END.split(_LINE_ENDS.sub("\n", text))
    return "\n\n".join(re.sub(r"\s+", " ", paragraph) for paragraph in paragraphs)


def visible_text(text: str) -> str:
    """Return ``text`` with control characters as symbols, except line ends and tabs."""
    return CONTROL_CHARACTERS.sub(_control_symbol, _LINE_ENDS.sub("\n", text))


def _control_symbol(match: re.Match[str]) -> str:
    """Return a visible symbol for a control character."""
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return "\u2421" if code == 0x7F else f"⟨{code:04X}⟩"


def replace_surrogates(text: str) -> str:
    """Replace each lone surrogate, which UTF-8 cannot encode, by U+FFFD."""
    return LONE_SURROGATE.sub("\ufffd", text)


def replace_explanation_surrogates(e: Explanation) -> Explanation:
    """Return ``e`` without lone surrogates, which no file and no JSON can contain."""
    return replace(
        e, text=replace_surrogates(e.text), features=tuple(map(replace_surrogates, e.features))
    )
