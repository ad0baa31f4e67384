"""From scores to colors: one scale per method, the same in terminal, page and figure.

Bluish green means for the target and vermillion against it. Color-blind readers can distinguish
this pair (Okabe and Ito). Methods without signs have one neutral hue.
"""

from typing import Literal

import numpy as np

from limelight.results import Explanation
from limelight.shapes import Float

Rgb = tuple[int, int, int]
Hue = Literal["for", "against", "neutral"]
Theme = Literal["light", "dark"]

LEVELS = 10
FAINTEST = 0.05  # weaker words stay plain, because many pale boxes distract

INK: Rgb = (28, 33, 38)
PAPER: dict[Theme, Rgb] = {"light": (255, 255, 255), "dark": (24, 27, 31)}
_FULL: dict[Theme, dict[Hue, Rgb]] = {
    "light": {"for": (0, 158, 115), "against": (224, 101, 30), "neutral": (126, 138, 224)},
    "dark": {"for": (0, 122, 90), "against": (176, 68, 4), "neutral": (84, 97, 196)},
}
# On a terminal the background is unknown. These have the luminance that stands out from black
# and from white alike and carry white letters; strength shows as distance from gray.
_TERMINAL: dict[Hue, Rgb] = {
    "for": (0, 125, 92),
    "against": (196, 68, 0),
    "neutral": (80, 96, 208),
}
TERMINAL_INK: dict[Hue, Rgb] = {
    "for": (0, 138, 102),
    "against": (212, 80, 8),
    "neutral": (98, 112, 228),
}
_GRAY: Rgb = (112, 116, 122)


def largest_score(e: Explanation) -> float:
    """Return the largest absolute score, which is drawn in full color."""
    return float(np.abs(e.scores).max(initial=0.0))


def relative_scores(e: Explanation) -> Float[np.ndarray, " d"]:
    """Return the scores divided by the largest absolute score, as sizes if they have no sign."""
    scores = e.scores if e.signed else np.abs(e.scores)
    peak = largest_score(e)
    return scores / peak if peak else np.zeros_like(scores)


def strongest_indices(scores: Float[np.ndarray, " d"], count: int) -> list[int]:
    """Return the indices of the ``count`` scores of largest size, the largest first."""
    return np.argsort(-np.abs(scores), kind="stable")[:count].tolist()


def strongest_feature(e: Explanation) -> int:
    """Return the index of the feature with the largest score, or -1 if all scores are 0."""
    return strongest_indices(e.scores, 1)[0] if e.scores.any() else -1


def select_hue(e: Explanation, strength: float) -> Hue:
    """Return the hue for a score: "for", "against", or "neutral" for a method without signs."""
    return "neutral" if not e.signed else "for" if strength >= 0 else "against"


def color_level(strength: float) -> int:
    """Return the step of the color ramp, 0 (plain) to ``LEVELS``, growing with size."""
    size = min(abs(strength), 1.0)
    return 0 if size < FAINTEST else max(1, round(size * LEVELS))


def full_color(hue: Hue) -> str:
    """Return the color of the largest score."""
    return hex_color(_FULL["light"][hue])


def mix_colors(first: Rgb, second: Rgb, share: float) -> Rgb:
    """Mix two colors: ``share`` 0 is the first and 1 is the second."""
    r, g, b = (round(a + (z - a) * share) for a, z in zip(first, second, strict=True))
    return r, g, b


def color_ramp(hue: Hue, theme: Theme = "light") -> list[Rgb]:
    """Return the colors of the levels from 0 (paper) to ``LEVELS``."""
    steps = [0.0, *np.linspace(0.12, 1, LEVELS)]
    return [mix_colors(PAPER[theme], _FULL[theme][hue], step) for step in steps]


def terminal_color(hue: Hue, strength: float) -> Rgb:
    """Return a background for white letters on a terminal of any color."""
    return mix_colors(_GRAY, _TERMINAL[hue], 0.3 + 0.7 * min(abs(strength), 1.0))


def hex_color(color: Rgb) -> str:
    """Return a color as ``#rrggbb``."""
    return "#{:02x}{:02x}{:02x}".format(*color)


def inline_style(hue: Hue, step: int) -> str:
    """Return a step of the light ramp as the style of one element, "" for plain words."""
    if not step:
        return ""
    return f"background:{hex_color(color_ramp(hue)[step])};color:{hex_color(INK)}"


def palette_css(*, over_inline: bool = False) -> str:
    """Return CSS classes ``f1`` … (for), ``a1`` … (against), ``n1`` … (neutral), both themes.

    ``over_inline`` gives them priority over :func:`inline_style`, which has no dark theme.
    """
    priority = "!important" if over_inline else ""
    letters = f";color:inherit{priority}" if over_inline else ""
    light, dark = _css_variables("light"), _css_variables("dark")
    dark_selectors = (
        ".limelight[data-theme=dark],"
        ':where([data-jp-theme-light="false"],.vscode-dark) .limelight:not([data-theme])'
    )
    steps = [f"{hue[0]}{step}" for hue in _TERMINAL for step in range(1, LEVELS + 1)]
    rules = [
        f".limelight{{{light}}}",
        f"{dark_selectors}{{{dark}}}",
        "@media screen and (prefers-color-scheme:dark){"
        f".limelight:not([data-theme=light]){{{dark}}}}}",
        *(f".limelight .{step}{{background:var(--{step}){priority}{letters}}}" for step in steps),
    ]
    return "\n".join(rules)


def _css_variables(theme: Theme) -> str:
    """Return the colors of a theme as CSS variables."""
    return "".join(
        f"--{hue[0]}{step}:{hex_color(color)};"
        for hue in _TERMINAL
        for step, color in enumerate(color_ramp(hue, theme)[1:], 1)
    )
