"""The look that all figures of the reproduction share."""

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "INK",
    "ORANGE",
    "PURPLE",
    "VERMILLION",
    "canvas",
    "plain",
    "quartile_lines",
]

from collections.abc import Sequence
from typing import Any

import numpy as np

from limelight.rendering.figures import canvas

# Okabe and Ito's colors, which stay apart for color-blind readers.
GREEN, VERMILLION, BLUE, ORANGE = "#009e73", "#d55e00", "#0072b2", "#e69f00"
PURPLE, GREY, INK = "#cc79a7", "#7b858e", "#1c2126"


def plain(axes: Any, *, title: str = "", x: str = "", y: str = "") -> Any:
    """Return ``axes`` without a frame, with its words."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.set_title(title, fontsize=9, parse_math=False)
    axes.set_xlabel(x, fontsize=9, parse_math=False)
    axes.set_ylabel(y, fontsize=9, parse_math=False)
    return axes


def quartile_lines(axes: Any, rows: Sequence[Sequence[float]], labels: Sequence[str]) -> None:
    """Draw one line per label, from the first quartile to the third, with the median on it."""
    low, middle, high = np.transpose(rows)
    places = np.arange(len(labels))
    axes.hlines(places, low, high, color=BLUE, linewidth=3, alpha=0.35)
    axes.plot(middle, places, "o", color=BLUE)
    axes.set_yticks(places, list(labels))
    axes.invert_yaxis()
