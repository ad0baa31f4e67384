"""A judgement as a figure for a paper (extra ``plots``): a dot and its interval per method."""

__all__ = ["curve_figure", "judgement_figure"]

from typing import Any

from limelight.errors import InputError
from limelight.render.coloured_pieces import visible
from limelight.render.figures import canvas
from limelight.results.judgement import JudgedText, Judgement

_INK, _SOFT = "#1c2126", "#5b6670"


def judgement_figure(j: Judgement) -> Any:
    """Return the share of every method with its interval, from chance to ceiling."""
    rows = j.ranked()
    figure, axes = canvas(6.0, 0.9 + 0.28 * len(rows))
    for x in (0.0, 1.0):
        axes.axvline(x, color=_SOFT, linewidth=0.8)
    for y, m in enumerate(rows):
        if m.share is None:
            axes.text(0.02, y, "not judged", va="center", color=_SOFT, fontsize=8)
            continue
        low, high = m.interval or (m.share, m.share)
        axes.plot([low, high], [y, y], color=_INK, linewidth=1.6, solid_capstyle="butt")
        axes.plot([m.share], [y], "o", color=_INK, markersize=5)
    names = [_shown(m.method) for m in rows]
    axes.set_yticks(range(len(rows)), labels=names, parse_math=False)
    axes.invert_yaxis()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    of = "the proven ceiling" if j.ceiling_kind == "proven" else "the best order found"
    axes.set_xlabel(f"share: 0 is chance, 1 is {of}; {len(j.judged)} texts, 95 % intervals")
    return figure


def curve_figure(text: JudgedText, methods: tuple[str, ...]) -> Any:
    """Return how the explained number falls on one text, a line for each of the methods' names."""
    if not text.curves:
        raise InputError("this text has no curves; judge with curves=True to keep them.")
    figure, axes = canvas(6.0, 3.6)
    for name, curve in zip(methods, text.curves, strict=True):
        if curve is not None:
            axes.plot(curve.removed, curve.points, linewidth=1.4, label=_shown(name))
    axes.axhline(0, color=_SOFT, linewidth=0.8)
    axes.set_xlabel("words removed")
    axes.set_ylabel(_shown(text.target), parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _shown(name: str) -> str:
    line = " ".join(visible(name).split())
    return line if len(line) <= 24 else line[:23] + "…"
