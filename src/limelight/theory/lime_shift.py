"""How far a penalty and row 0 hold a regression on n samples from LIME's limit.

The `lime` package fits n samples with a penalty λ Σβ² and with the untouched text as row 0. Beside
the n others both vanish, like 1/n: with ρ = λ/n, τ = 1/n (0 without row 0), x = (1, Z) and e_1 what
the limit's linear model leaves over of the whole text, the coefficients for n → ∞ at fixed ρ and τ
are off by

    δ = (G + τ x_1 x_1ᵀ + ρ I)⁻¹ (τ e_1 x_1 − ρ β),    no penalty on the intercept.

G treats words alike, so there are two directions: differences between words, of which ρ/(V + ρ) is
lost, and what all words share.
"""

__all__ = ["Shift", "lime_shift"]

from typing import NamedTuple

import numpy as np

from limelight.shapes import Float, Int
from limelight.theory.lime_weights import lime_design


class Shift(NamedTuple):
    """What is added to the limit of every word, in three parts."""

    differences: Float[np.ndarray, " d"]  # words drawn towards their mean
    penalty: Float[np.ndarray, " d"]  # the mean drawn towards 0
    row0: Float[np.ndarray, " d"]

    @property
    def total(self) -> Float[np.ndarray, " d"]:
        """The sum of the parts."""
        return self.differences + self.penalty + self.row0

    @property
    def most(self) -> Float[np.ndarray, " d"]:
        """The sum of their sizes: no part is let off because another happens to cancel it."""
        return np.abs(self.differences) + np.abs(self.penalty) + np.abs(self.row0)


def lime_shift(
    scores: Float[np.ndarray, " d"],
    left: float,
    *,
    samples: int | Int[np.ndarray, " d"],
    bandwidth: float = 0.25,
    ridge: float = 1.0,
    row0: bool = True,
) -> Shift:
    """The shift of LIME's ``scores`` β by a penalty λ = ``ridge`` and by row 0 on n ``samples``.

    ``left`` is e_1 = f(whole text) − intercept − Σβ. ``samples`` may differ from word to word; each
    word is then told its own. Domain: d ≥ 2, λ ≥ 0, n ≥ 1.
    """
    design = lime_design(len(scores), bandwidth=bandwidth)
    rho, tau = ridge / samples, row0 / np.asarray(samples, dtype=np.float64)
    mean, removed = np.mean(scores), design.m0 - design.m1  # E[ψ(1 − Z_j)]
    # Row 0 is one more point, of weight τ, in the variance of the number of kept words.
    spread = design.spread + design.d * tau * removed**2 / (design.m0 * (design.m0 + tau))
    even = np.ones(len(scores))
    return Shift(
        differences=-rho / (design.V + rho) * (scores - mean),
        penalty=-rho / (spread + rho) * mean * even,
        row0=tau * removed / (design.m0 + tau) / (spread + rho) * left * even,
    )
