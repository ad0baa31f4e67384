"""The look that all figures of the reproduction share."""

__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "PURPLE", "VERMILLION", "canvas", "plain"]

from typing import Any

from limelight.render.figures import canvas

# Okabe and Ito's colours, which stay apart for colour-blind readers.
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
