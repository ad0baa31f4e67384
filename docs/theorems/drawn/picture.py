"""A figure of a page, and helpers to draw figures and format numbers."""

__all__ = [
    "Picture",
    "below",
    "legend",
    "logarithmic",
    "number",
    "panels",
    "share",
    "svg",
]

import io
import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from limelight_reproduction.drawing import canvas, style_axes

STYLE = {"svg.hashsalt": "limelight", "svg.fonttype": "none", "path.simplify_threshold": 0.3}


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure, its alternative text, and the numbers that the caption on the page quotes."""

    figure: Any
    alt: str
    numbers: tuple[str, ...] = ()


def panels(*words: tuple[str, str, str], width: float = 7.4, height: float = 3.0) -> Any:
    """Create a figure with panels side by side, each given by its title, x label and y label."""
    figure, axes = canvas(width, height, columns=len(words), square=True)
    for panel, (title, x, y) in zip(axes, words, strict=True):
        style_axes(panel, title=title, x=x, y=y)
    return figure, axes[0] if len(axes) == 1 else axes


def logarithmic(axes: Any, which: str = "xy") -> None:
    """Make the axes in ``which`` logarithmic. Call this after everything is drawn."""
    for name in which:
        getattr(axes, f"set_{name}scale")("log")
        low, high = np.log10(getattr(axes, f"get_{name}lim")())
        powers = np.arange(np.ceil(low), np.floor(high) + 1)
        ticks = 10.0 ** powers[:: -(-len(powers) // 6) or 1]
        if high - low < 2.5:
            ticks = np.array([k * 10.0**p for p in np.arange(np.floor(low), high) for k in (1, 3)])
        ticks = ticks[(ticks > 10**low) & (ticks < 10**high)]
        axis = getattr(axes, f"{name}axis")
        axis.set_ticks(ticks, labels=[_power(tick) for tick in ticks])
        axis.set_ticks([], minor=True)


def legend(axes: Any, **style: Any) -> None:
    """Add a legend to ``axes``."""
    axes.legend(fontsize=7.5, frameon=False, **style)


def svg(figure: Any) -> bytes:
    """Return ``figure`` as SVG with text elements. Equal figures give equal bytes."""
    import matplotlib as mpl

    content = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    return content.getvalue()


def below(error: float, *, least: float = 1e-12) -> str:
    """Format the power of ten above ``error``, or above ``least`` if the error is smaller."""
    return _power(10.0 ** math.ceil(math.log10(max(error, least)) - 1e-9))


def share(x: float) -> str:
    """Format ``x`` as a percentage with two digits."""
    percent = 100 * x
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def number(x: float, form: str = ".2g") -> str:
    """Format ``x`` for a sentence."""
    return re.sub(r"e\+?(-?)0*", r"e\1", f"{x:z{form}}").replace("-", "−", int(x < 0))


def _power(value: float) -> str:
    if value <= 0:
        return "0"
    return f"{value:g}" if 1e-2 <= value < 1e4 else number(value, ".0e")
