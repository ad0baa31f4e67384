"""What a figure of a page is: a drawing, its words for those who cannot see it, and a caption."""

__all__ = [
    "Picture",
    "below",
    "exponent",
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
    """A figure, what is in it (``alt``) and what is seen in it; numbers are computed, not typed."""

    figure: Any
    alt: str
    caption: str


def panels(*words: tuple[str, str, str], width: float = 7.4, height: float = 3.0) -> Any:
    """Return a figure and its axes, side by side, from (title, x, y) of each."""
    figure, axes = canvas(width, height, columns=len(words), square=True)
    for one, (title, x, y) in zip(axes, words, strict=True):
        style_axes(one, title=title, x=x, y=y)
    return figure, axes[0] if len(axes) == 1 else axes


def logarithmic(axes: Any, which: str = "xy") -> None:
    """Give the axes named in ``which`` logarithmic scales; call it when all is drawn."""
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
    """Name the lines of ``axes``."""
    axes.legend(fontsize=7.5, frameon=False, **style)


def svg(figure: Any) -> bytes:
    """Return ``figure`` as SVG, the same bytes on every call; letters stay letters."""
    import matplotlib as mpl

    content = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    return content.getvalue()


def below(error: float, *, least: float = 1e-12) -> str:
    """Return the power of ten above ``error``, or ``least`` where the rest is rounding."""
    return _power(10.0 ** math.ceil(math.log10(max(error, least)) - 1e-9))


def share(x: float) -> str:
    """Return ``x`` as percent with two digits."""
    percent = 100 * x
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def number(x: float, form: str = ".2g") -> str:
    """Return ``x`` as it stands in a sentence."""
    return re.sub(r"e\+?(-?)0*", r"e\1", f"{x:z{form}}").replace("-", "−", int(x < 0))


def exponent(x: Any, y: Any) -> str:
    """Return the slope of log y against log x, with one digit behind the point."""
    slope = np.polyfit(np.log(np.asarray(x)), np.log(np.asarray(y)), 1)[0]
    return number(slope, ".1f")


def _power(value: float) -> str:
    if value <= 0:
        return "0"
    return f"{value:g}" if 1e-2 <= value < 1e4 else number(value, ".0e")
