"""The words of a text in HTML, and the legend of their colours."""

__all__ = ["legend", "scale_note", "unread", "words"]

from collections.abc import Sequence

import numpy as np

from limelight.render.coloured_pieces import SHOWN_REST, Piece, pieces, shortened
from limelight.render.markup import Html, element, escaped, raw
from limelight.render.palette import inline_colour, largest, level, side, strengths
from limelight.render.wording import all_occurrences, written
from limelight.results import Explanation


def words(e: Explanation, *, titles: bool = False, inline: bool = False) -> Html:
    """Return the text with one ``span`` per feature; its class is its colour.

    ``titles`` adds the score as a tooltip, for places where no script can, and ``inline`` the light
    colour as a style of its own, for places that drop style sheets, as mail programs do.
    Of the text past the window only the beginning is shown; :func:`unread` has the rest.
    """
    sizes, peak = strengths(e), largest(e)
    top = int(np.argmax(np.abs(sizes))) if peak else -1
    steps = [f"{side(e, size)[0]}{step}" if (step := level(size)) else "" for size in sizes]
    parts: list[Html] = []
    cut = shortened(pieces(e))
    for piece, room in zip(cut, _room(cut), strict=True):
        if piece.opens:
            parts.append(element("span", piece.opens, class_="side"))
            continue
        if piece.feature is None:
            parts.append(escaped(piece.text) if piece.seen else _not_read(piece.text))
            continue
        j = piece.feature
        classes = " ".join(filter(None, ("w", room, steps[j], "top" if j == top else "")))
        title = written(float(e.scores[j]), peak=peak, signed=e.signed) if titles else None
        style = inline_colour(side(e, sizes[j]), level(sizes[j])) if inline else None
        parts.append(
            element("span", piece.text, class_=classes, data_f=j, title=title, style=style)
        )
    return raw(*parts)


def _room(cut: Sequence[Piece]) -> list[str]:
    """Return on which sides a piece has room for its tint: "s" its start, "e" its end.

    A tint that reaches out covers what is there, so it may where there is a space, and never over
    the last letter of a word that a comma follows.
    """
    around = [" ", *(piece.text or " " for piece in cut), " "]
    return [
        " ".join(
            name
            for name, free in (("s", before[-1:].isspace()), ("e", after[:1].isspace()))
            if free
        )
        for before, after in zip(around[:-2], around[2:], strict=True)
    ]


def unread(e: Explanation) -> Html:
    """Return what the model did not read, where :func:`words` shows only the start of it."""
    rest = e.text[e.explained_end :]
    if len(rest) <= SHOWN_REST:
        return raw()
    return element("p", rest, class_="words cut", dir="auto")


def _not_read(text: str) -> Html:
    mark = element("span", "not read from here", class_="stop")
    return raw(mark, element("span", text, class_="cut", title="past the model's window: not read"))


def scale_note(e: Explanation) -> str:
    """Say which score has the full colour."""
    if not (peak := largest(e)):
        return "all scores are 0"
    number = written(peak, peak=peak, signed=False)
    return f"±{number}" if e.signed else f"0 to {number}"


def legend(explanations: Sequence[Explanation]) -> Html:
    """Say what the colours mean; they are told apart by colour-blind readers too."""
    target, other = explanations[0].target, explanations[0].against
    keys: list[Html] = []
    if any(e.signed for e in explanations):
        keys.append(_key("f", f"for {target}"))
        keys.append(_key("a", f"against {target}" if other is None else f"for {other}"))
    if not all(e.signed for e in explanations):
        keys.append(_key("n", "size only: the method gives no sign"))
    keys.append(element("span", element("span", "word", class_="w top"), " strongest"))
    if any(not piece.seen for piece in pieces(explanations[0])):
        keys.append(
            element("span", element("span", "grey", class_="cut"), " not read by the model")
        )
    note = "Deeper colour, larger score. The colours are safe for colour-blind readers."
    if len(explanations) > 1:
        note += " Each method has its own scale: the number after its words is the deepest colour."
    if any(len(spans) > 1 for spans in explanations[0].spans):
        note += f" {all_occurrences(explanations[0])}"
    return element("div", *keys, element("span", note, class_="note"), class_="legend")


def _key(hue: str, meaning: str) -> Html:
    swatches = [element("i", class_=f"swatch {hue}{step}") for step in (2, 6, 10)]
    return element("span", element("span", *swatches, aria_hidden="true"), " ", meaning)
