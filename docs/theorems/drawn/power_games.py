"""The figure about power games."""

__all__ = ["draw_coefficients"]

import numpy as np

from drawn.games import distance
from drawn.picture import Picture, legend, logarithmic, panels, share
from limelight.theory.ratio_game import RatioGame
from limelight.theory.shapley import shapley
from limelight_reproduction.drawing import BLUE, GREEN, GREY, ORANGE, VERMILLION

SIZES = (8, 16, 32, 64, 128, 256)


def draw_coefficients() -> Picture:
    """Draw Shapley values against coefficient × value, and errors of approximations."""
    figure, (left_axes, right_axes) = panels(
        ("one text of 64 words", "coefficient × value u", "Shapley value"),
        ("median of 9 texts", "words of the text", "relative L2 distance"),
    )
    u, q, exact = _text(3, 64, spread=0.5)
    ends = np.array([u.min(), u.max()])
    left_axes.plot(ends, ends, "--", color=GREY, linewidth=0.9, label="u")
    left_axes.plot(ends, 2 * ends, ":", color=GREY, linewidth=0.9, label="2u")
    left_axes.plot(u, exact, ".", color=BLUE, markersize=4, label="exact")
    left_axes.plot(
        u, 2 * u - q * u.sum(), "o", markersize=4, markerfacecolor="none", label="2u − qf"
    )
    left_axes.lines[-1].set_color(ORANGE)
    left_axes.lines[-1].set_linewidth(0)
    legend(left_axes)
    distances = {}
    for spread, style, kind in ((0.0, "o--", "equal words"), (0.5, "o-", "unequal words")):
        texts = [[_text(seed, d, spread) for seed in range(9)] for d in SIZES]
        for name, color, formula in (
            ("u", VERMILLION, lambda u, _: u),
            ("2u − qf", ORANGE, lambda u, q: 2 * u - q * u.sum()),
            ("with m of equal words", GREEN, _with_m),
        ):
            if spread or name == "2u − qf":
                medians = [
                    np.median([distance(formula(u, q), x) for u, q, x in row]) for row in texts
                ]
                right_axes.plot(
                    SIZES, medians, style, color=color, markersize=3, label=f"{name}, {kind}"
                )
                distances[name, kind] = medians
    right_axes.set_ylim(0.01, 1)
    logarithmic(right_axes)
    legend(right_axes, loc="lower left")
    return Picture(
        figure=figure,
        alt="Left: exact Shapley values of words against coefficient times value, near a line of "
        "slope two. Right: distances to the exact values; that of u stays near one half, those of "
        "the mean field fall with the number of words.",
        numbers=(
            *(share(distances["u", "unequal words"][k]) for k in (0, -1)),
            *(share(distances["2u − qf", "unequal words"][k]) for k in (0, -1)),
        ),
    )


def _text(seed: int, d: int, spread: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return coefficient × value, shares of the squared norm and Shapley values of a text."""
    rng = np.random.default_rng(seed)
    x = np.exp(spread * rng.normal(size=d))
    x = x / np.linalg.norm(x)
    u, q = (rng.normal(size=d) + 0.2) * x, x * x
    zeros = np.zeros((1, d))
    game = RatioGame(
        D0=np.zeros(1), a=q[None], b=zeros, N0=np.zeros((1, 1)), A=u[None, None],
        B=zeros[None], power=0.5,
    )  # fmt: skip
    return u, q, shapley(game).scores[0]


def _with_m(u: np.ndarray, q: np.ndarray) -> np.ndarray:
    d = len(u)
    m = (np.sqrt(d) * np.sum(np.arange(1, d + 1) ** -0.5) - 1) / (d - 1)
    return m * u - (m - 1) * q * u.sum()
