"""Colors and style that all figures of the reproduction share."""

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "INK",
    "ORANGE",
    "PURPLE",
    "VERMILLION",
    "canvas",
    "draw_quartile_lines",
    "style_axes",
]

from collections.abc import Sequence
from typing import Any

import numpy as np

from limelight.rendering.figures import canvas

# Okabe and Ito's colors: color-blind readers can distinguish them.
GREEN, VERMILLION, BLUE, ORANGE = "#009e73", "#d55e00", "#0072b2", "#e69f00"
PURPLE, GREY, INK = "#cc79a7", "#7b858e", "#1c2126"


def style_axes(axes: Any, *, title: str = "", x: str = "", y: str = "") -> Any:
    """Remove the top and right border of ``axes``, set its title and labels, and return it.

    Parameters
    ----------
    axes
        Axes of matplotlib.
    title
        The title.
    x, y
        The labels of the axes.

    Returns
    -------
    The same axes.
    """
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.set_title(title, fontsize=9, parse_math=False)
    axes.set_xlabel(x, fontsize=9, parse_math=False)
    axes.set_ylabel(y, fontsize=9, parse_math=False)
    return axes


def draw_quartile_lines(axes: Any, rows: Sequence[Sequence[float]], labels: Sequence[str]) -> None:
    """Draw for each label a line between the quartiles and a mark at the median.

    Every row of ``rows`` has the lower quartile, the median and the upper quartile.
    """
    low, median, high = np.transpose(rows)
    heights = np.arange(len(labels))
    axes.hlines(heights, low, high, color=BLUE, linewidth=3, alpha=0.35)
    axes.plot(median, heights, "o", color=BLUE)
    axes.set_yticks(heights, list(labels))
    axes.invert_yaxis()
