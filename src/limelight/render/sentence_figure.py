"""Coloured words set in lines on a matplotlib figure."""

__all__ = ["drawn_sentences"]

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, final

import numpy as np

from limelight.render.coloured_pieces import Piece, pieces, shortened, visible
from limelight.render.palette import Side, hex_colour, largest, level, ramp, side, strengths
from limelight.render.wording import aims, written
from limelight.results import Explanation
from limelight.text import one_line

WIDTH, SIZE, LINE, MARGIN = 540.0, 11.0, 19.0, 8.0  # points: page, letters, line, border
SCALES = 52.0  # points for the scale of each method, at the right
SMALL, SOFT = 8.0, "#5b6670"  # the notes around the words
CUT_MARK = " [not read from here]"


@final
@dataclass(frozen=True, slots=True)
class _Set:
    """A run of letters at its place, in points from the top left."""

    text: str
    x: float
    y: float
    width: float
    feature: int | None
    seen: bool


def drawn_sentences(explanations: Sequence[Explanation]) -> Any:
    """Return a figure with one paragraph per explanation, its method before it.

    Above stands what is explained, after each method the score in full colour, below what the
    colours mean.
    """
    from matplotlib.figure import Figure

    indent = MARGIN + max(_width(e.label, "bold") for e in explanations) + 14
    runs = list(_lines(_marked(pieces(explanations[0])), indent))
    block = max((run.y for run in runs), default=0.0) + LINE
    gap = 3.0 if block <= LINE else 10.0
    height = len(explanations) * (block + gap) - gap + 2 * MARGIN + 2 * LINE
    figure = Figure(figsize=(WIDTH / 72, height / 72))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    _note(axes, MARGIN, MARGIN + LINE / 2, explained(explanations[0]))
    _note(axes, WIDTH - MARGIN, MARGIN + LINE / 2, "full colour", ha="right")
    for row, e in enumerate(explanations):
        top = MARGIN + LINE + row * (block + gap)
        _write(axes, MARGIN, top + LINE / 2, e.label, weight="bold")
        _paint(axes, e, runs, top)
        _note(axes, WIDTH - MARGIN, top + LINE / 2, scale_of(e), ha="right")
    _legend(axes, explanations, height - MARGIN - LINE / 2)
    return figure


def explained(e: Explanation) -> str:
    """Say which class is explained, and on which scale."""
    return f"the {e.scale} of {one_line(visible(aims(e)), 60)}"


def scale_of(e: Explanation) -> str:
    """Say which score has the full colour."""
    if not (peak := largest(e)):
        return "all 0"
    return f"{'±' if e.signed else '0 to '}{written(peak, peak=peak, signed=False)}"


def _marked(cut: Sequence[Piece]) -> list[Piece]:
    """Return the pieces with a mark before what was not read, of which only the start stays."""
    found = shortened(cut)
    first = next((i for i, piece in enumerate(found) if not piece.seen), len(found))
    mark = [Piece(CUT_MARK, seen=False)] if first < len(found) else []
    return [*found[:first], *mark, *found[first:]]


def _legend(axes: Any, explanations: Sequence[Explanation], middle: float) -> None:
    """Write what the colours mean."""
    from matplotlib.patches import Rectangle

    signed, signless = (any(e.signed is kind for e in explanations) for kind in (True, False))
    keys: list[tuple[Side, str]] = [("for", "for"), ("against", "against")] if signed else []
    keys += [("neutral", "size only, no sign")] if signless else []
    x = MARGIN
    for hue, meaning in keys:
        for step in (2, 6, 10):
            colour = hex_colour(ramp(hue)[step])
            axes.add_patch(Rectangle((x, middle - 4), 9, 8, fc=colour, lw=0))
            x += 10
        _note(axes, x + 3, middle, meaning)
        x += 3 + _width(meaning) * SMALL / SIZE + 16
    _note(axes, x, middle, "underlined: strongest")


def _note(axes: Any, x: float, y: float, text: str, **style: Any) -> None:
    """Write something about the figure; :data:`SOFT` tells it from the text that is explained."""
    axes.text(
        x, y, text, fontsize=SMALL, va="center_baseline", color=SOFT, parse_math=False, **style
    )


def _lines(cut: Sequence[Piece], indent: float) -> Iterator[_Set]:
    """Break the text into lines at its spaces; only what is longer than a line breaks inside."""
    x, y, edge = indent, 0.0, WIDTH - MARGIN - SCALES
    for group in _groups(cut):
        if group and group[0][1].opens and x > indent:  # the second side of a pair
            x, y = indent, y + LINE
        whole = sum(_width(part) for part, _ in group)
        if x > indent and x + whole > edge and whole <= edge - indent:
            x, y = indent, y + LINE
        for part, piece in group:
            width = _width(part)
            if x > indent and x + width > edge:
                x, y = indent, y + LINE
            if part != " " or x > indent:
                yield _Set(part, x, y, width, piece.feature, piece.seen)
                x += width


def _groups(cut: Sequence[Piece]) -> Iterator[list[tuple[str, Piece]]]:
    """Return runs of letters that belong together: a word, its comma, its bracket."""
    group: list[tuple[str, Piece]] = []
    for piece in cut:
        if piece.opens:
            yield group
            yield [(f"{piece.opens}:", replace(piece, seen=False))]
            yield [(" ", Piece(" "))]
            group = []
        shown = visible(re.sub(r"\s+", " ", piece.text))
        for part in re.findall(r" |[^ ]{1,40}", shown):
            if part == " ":
                yield group
                yield [(part, piece)]
                group = []
            else:
                group.append((part, piece))
    yield group


def _paint(axes: Any, e: Explanation, runs: Sequence[_Set], top: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    sizes = strengths(e)
    strongest = int(np.argmax(np.abs(sizes))) if sizes.any() else None
    for run in runs:
        middle = top + run.y + LINE / 2
        marked = run.feature is not None and run.feature == strongest
        if run.feature is not None and (step := level(float(sizes[run.feature]))):
            colour = hex_colour(ramp(side(e, float(sizes[run.feature])))[step])
            box = (run.x, middle - LINE * 0.38)
            style = "round,pad=0,rounding_size=2.5"
            axes.add_patch(
                FancyBboxPatch(box, run.width, LINE * 0.76, boxstyle=style, fc=colour, lw=0)
            )
        _write(axes, run.x, middle, run.text, color="#1c2126" if run.seen else "#a0a8b0")
        if marked:
            foot = middle + SIZE * 0.55
            axes.plot([run.x, run.x + run.width], [foot, foot], color="#1c2126", linewidth=1.1)


def _write(axes: Any, x: float, y: float, text: str, **style: Any) -> None:
    axes.text(x, y, text, fontsize=SIZE, va="center_baseline", parse_math=False, **style)


@lru_cache(maxsize=4096)
def _width(text: str, weight: str = "regular") -> float:
    """Return the width of ``text`` in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if text == " ":
        return SIZE * 0.34
    # A TextPath reads $…$ as a formula, and fails where it is none.
    plain = text.replace("$", r"\$")
    box = TextPath(
        (0, 0), plain, size=SIZE, prop=FontProperties(weight=weight), usetex=False
    ).get_extents()
    return float(max(box.x1, SIZE * 0.2)) + SIZE * 0.07  # the ink ends before the letter does
