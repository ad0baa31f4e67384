"""A text cut into features, the text between them, and what the model never read."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from limelight.errors import OBEYED
from limelight.results import Explanation
from limelight.text import SIDES, token_strings
from limelight.text.characters import LONE_SURROGATE

SHOWN_REST = 60  # characters of a text that was not read


@dataclass(frozen=True, slots=True)
class Piece:
    """Some characters of the text; ``feature`` is an index, or None between features.

    ``seen`` is False for text past the model's window. A piece without characters ``opens`` one
    side of a pair, which it names.
    """

    text: str
    feature: int | None = None
    seen: bool = True
    opens: str = ""


def pieces(e: Explanation) -> list[Piece]:
    """Cut the text at the edges of its features; the pieces joined are the text again."""
    found: list[Piece] = []
    at = 0
    places = sorted((*span, j) for j, spans in enumerate(e.spans) for span in spans)
    for start, end, feature in places:
        start = max(start, at)  # pieces of words may overlap: the first keeps what they share
        if end <= start:
            continue
        found += _between(e, at, start)
        found.append(Piece(e.text[start:end], feature))
        at = end
    return found + _between(e, at, len(e.text))


def shortened(cut: Iterable[Piece], mark: str = "") -> list[Piece]:
    """Keep only the first characters of text that was not read: it would drown what was.

    A ``mark`` stands where that text begins.
    """
    found = [
        piece
        if piece.seen or len(piece.text) <= SHOWN_REST
        else Piece(f"{piece.text[:SHOWN_REST]}… ({len(piece.text):,} characters)", seen=False)
        for piece in cut
    ]
    first = next((i for i, piece in enumerate(found) if not piece.seen), None)
    if mark and first is not None:
        found.insert(first, Piece(mark, seen=False))
    return found


def token_strings_of(e: Explanation) -> list[str]:
    """Return the tokens the model read, [cls] first, whether they are features or not."""
    if e.image is not None:
        return ["[cls]", *e.features]
    return ["[cls]", *token_strings(e.text[: e.explained_end])]


def _between(e: Explanation, start: int, end: int) -> list[Piece]:
    """Return what stands between two features, with a piece where a side of a pair begins."""
    found: list[Piece] = []
    for (place, _), name in zip(e.parts, SIDES, strict=False):
        if start <= place <= end:
            found += [*_plain(e, start, place), Piece("", opens=name)]
            start = place
    return found + _plain(e, start, end)


def _plain(e: Explanation, start: int, end: int) -> list[Piece]:
    edge = min(max(e.explained_end, start), end)
    read, rest = e.text[start:edge], e.text[edge:end]
    return [piece for piece in (Piece(read), Piece(rest, seen=False)) if piece.text]


_LINE_ENDS = re.compile("\r\n?|[\u2028\u2029]")


def visible(text: str) -> str:
    """Return ``text`` with control characters as symbols; line ends and tabs stay."""
    return OBEYED.sub(_symbol, _LINE_ENDS.sub("\n", text))


def _symbol(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return "\u2421" if code == 0x7F else f"⟨{code:04X}⟩"


def writable(text: str) -> str:
    """Return ``text`` with lone surrogates, which UTF-8 cannot hold, replaced one for one."""
    return LONE_SURROGATE.sub("\ufffd", text)


def writable_explanation(e: Explanation) -> Explanation:
    """Return ``e`` without lone surrogates, which no file and no JSON can hold."""
    return replace(e, text=writable(e.text), features=tuple(map(writable, e.features)))
