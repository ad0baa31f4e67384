"""From scores to colors: one scale per method, the same in terminal, page and figure.

Bluish green speaks for the target and vermillion against it (Okabe and Ito: the pair stays apart
for color-blind readers); methods without signs get one neutral hue, so that nobody reads "for".
"""

from typing import Literal

import numpy as np

from limelight.results import Explanation
from limelight.shapes import Float

Rgb = tuple[int, int, int]
Side = Literal["for", "against", "neutral"]
Theme = Literal["light", "dark"]

LEVELS = 10
FAINTEST = 0.05  # weaker words stay plain: a review of gray boxes says nothing

INK: Rgb = (28, 33, 38)
PAPER: dict[Theme, Rgb] = {"light": (255, 255, 255), "dark": (24, 27, 31)}
_FULL: dict[Theme, dict[Side, Rgb]] = {
    "light": {"for": (0, 158, 115), "against": (224, 101, 30), "neutral": (126, 138, 224)},
    "dark": {"for": (0, 122, 90), "against": (176, 68, 4), "neutral": (84, 97, 196)},
}
# On a terminal the background is unknown. These have the luminance that stands out from black
# and from white alike and carry white letters; strength shows as distance from gray.
_TERMINAL: dict[Side, Rgb] = {
    "for": (0, 125, 92),
    "against": (196, 68, 0),
    "neutral": (80, 96, 208),
}
TERMINAL_INK: dict[Side, Rgb] = {
    "for": (0, 138, 102),
    "against": (212, 80, 8),
    "neutral": (98, 112, 228),
}
_GREY: Rgb = (112, 116, 122)


def largest(e: Explanation) -> float:
    """Return the largest absolute score: the one drawn in full color."""
    return float(np.abs(e.scores).max(initial=0.0))


def strengths(e: Explanation) -> Float[np.ndarray, " d"]:
    """Return scores over the largest absolute one: in [-1, 1], without signs in [0, 1]."""
    scores = e.scores if e.signed else np.abs(e.scores)
    peak = largest(e)
    return scores / peak if peak else np.zeros_like(scores)


def strongest(scores: Float[np.ndarray, " d"], count: int) -> list[int]:
    """Return the places of the ``count`` scores of largest size, the largest first."""
    return np.argsort(-np.abs(scores), kind="stable")[:count].tolist()


def marked(e: Explanation) -> int:
    """Return the feature that is marked as the strongest; -1 where all scores are 0."""
    return strongest(e.scores, 1)[0] if e.scores.any() else -1


def side(e: Explanation, strength: float) -> Side:
    """Return which of the three hues a strength of this method has."""
    return "neutral" if not e.signed else "for" if strength >= 0 else "against"


def level(strength: float) -> int:
    """Return the step of the color ramp, 0 (plain) to ``LEVELS``, growing with size."""
    size = min(abs(strength), 1.0)
    return 0 if size < FAINTEST else max(1, round(size * LEVELS))


def full_color(hue: Side) -> str:
    """Return the color of the largest score."""
    return hex_color(_FULL["light"][hue])


def mixed(first: Rgb, second: Rgb, share: float) -> Rgb:
    """Return the color a ``share`` of the way from ``first`` to ``second``."""
    r, g, b = (round(a + (z - a) * share) for a, z in zip(first, second, strict=True))
    return r, g, b


def ramp(hue: Side, theme: Theme = "light") -> list[Rgb]:
    """Return the colors of the levels 0 (paper) to ``LEVELS``."""
    steps = [0.0, *np.linspace(0.12, 1, LEVELS)]
    return [mixed(PAPER[theme], _FULL[theme][hue], step) for step in steps]


def terminal_color(hue: Side, strength: float) -> Rgb:
    """Return a background for white letters on a terminal of any color."""
    return mixed(_GREY, _TERMINAL[hue], 0.3 + 0.7 * min(abs(strength), 1.0))


def hex_color(color: Rgb) -> str:
    """Return ``#rrggbb``."""
    return "#{:02x}{:02x}{:02x}".format(*color)


def inline_color(hue: Side, step: int) -> str:
    """Return a step of the light ramp as the style of one element, "" for plain words."""
    if not step:
        return ""
    return f"background:{hex_color(ramp(hue)[step])};color:{hex_color(INK)}"


def palette_css(*, over_inline: bool = False) -> str:
    """Return CSS classes ``f1`` … (for), ``a1`` … (against), ``n1`` … (neutral), both themes.

    ``over_inline`` lets them win over :func:`inline_color`, which knows no dark theme.
    """
    wins = "!important" if over_inline else ""
    letters = f";color:inherit{wins}" if over_inline else ""
    light, dark = _variables("light"), _variables("dark")
    dark_places = (
        ".limelight[data-theme=dark],"
        ':where([data-jp-theme-light="false"],.vscode-dark) .limelight:not([data-theme])'
    )
    steps = [f"{hue[0]}{step}" for hue in _TERMINAL for step in range(1, LEVELS + 1)]
    rules = [
        f".limelight{{{light}}}",
        f"{dark_places}{{{dark}}}",
        "@media screen and (prefers-color-scheme:dark){"
        f".limelight:not([data-theme=light]){{{dark}}}}}",
        *(f".limelight .{one}{{background:var(--{one}){wins}{letters}}}" for one in steps),
    ]
    return "\n".join(rules)


def _variables(theme: Theme) -> str:
    return "".join(
        f"--{hue[0]}{step}:{hex_color(color)};"
        for hue in _TERMINAL
        for step, color in enumerate(ramp(hue, theme)[1:], 1)
    )
