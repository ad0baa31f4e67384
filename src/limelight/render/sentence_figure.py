"""Coloured words set in lines on a matplotlib figure."""

__all__ = ["drawn_sentences"]

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np

from limelight.render.coloured_pieces import Piece, pieces, shortened, visible
from limelight.render.palette import hex_colour, level, ramp, side, strengths
from limelight.results import Explanation

WIDTH, SIZE, LINE, MARGIN = 540.0, 11.0, 19.0, 8.0  # points: page, letters, line, border


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
    """Return a figure with one paragraph per explanation, its method before it."""
    from matplotlib.figure import Figure

    indent = MARGIN + max(_width(e.label, "bold") for e in explanations) + 14
    cut = pieces(explanations[0])
    runs = list(_lines(shortened(cut) if explanations[1:] else cut, indent))
    block = max((run.y for run in runs), default=0.0) + LINE
    gap = 3.0 if block <= LINE else 10.0
    height = len(explanations) * (block + gap) - gap + 2 * MARGIN
    figure = Figure(figsize=(WIDTH / 72, height / 72))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    for row, e in enumerate(explanations):
        top = MARGIN + row * (block + gap)
        _write(axes, MARGIN, top + LINE / 2, e.label, weight="bold")
        _paint(axes, e, runs, top)
    return figure


def _lines(cut: Sequence[Piece], indent: float) -> Iterator[_Set]:
    """Break the text into lines at its spaces; only what is longer than a line breaks inside."""
    x, y, edge = indent, 0.0, WIDTH - MARGIN
    for group in _groups(cut):
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
