"""LIME without sampling, and the paper's formula for it."""

__all__ = ["ROWS", "FirstOrder", "Lime"]

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.games import deletion_game, ratio_games
from limelight.explainers.lime_sampled import LimeSampled
from limelight.explainers.method import Method, with_defaults
from limelight.explainers.reading import Reading
from limelight.explainers.removal import head_scores, need_logit
from limelight.explainers.scores import Scores
from limelight.theory.deletion import lime_under_deletion
from limelight.theory.lime import lime
from limelight.theory.lime_first_order import lime_first_order
from limelight.theory.lime_fit import lime_fit
from limelight.theory.lime_theorem import lime_theorem

REPLACEMENTS = ("unk", "delete")
POOR_FIT = 0.5
UNKNOWN_FIT = 0.1  # an error of R² beyond which it says nothing
_FORMULAS = {"theorem": lime_theorem, "first-order": lime_first_order}


@final
@dataclass(frozen=True, kw_only=True)
class Lime:
    """Settings of the exact limit of LIME.

    ``bandwidth`` is ν (0.25 is the `lime` package's), ``penalty`` the ridge penalty per sample,
    ``rows`` adds the untouched text beside that many samples, ``tolerance`` is relative to the
    range of f, ``fit`` also computes the R² of the linear fit, which takes longer.
    """

    bandwidth: float = 0.25
    penalty: float = 0.0
    rows: int | None = None
    tolerance: float = 1e-6
    replacement: str = "unk"
    per_head: bool = False
    fit: bool = False

    def __post_init__(self) -> None:
        if not self.bandwidth > 0:
            raise InputError(f"bandwidth must be positive; got {self.bandwidth}.")
        if not self.penalty >= 0:
            raise InputError(f"penalty must not be negative; got {self.penalty}.")
        if self.replacement not in REPLACEMENTS:
            raise InputError(
                f"replacement must be one of {', '.join(REPLACEMENTS)}; got {self.replacement!r}."
            )
        if self.replacement == "delete" and (self.per_head or self.fit):
            raise InputError("per_head and fit need replacement 'unk'; got 'delete'.")

    def __call__(self, reading: Reading) -> list[Scores]:
        """Score every feature by the coefficient to which LIME converges."""
        need_logit(reading, "lime")
        if self.replacement == "delete":
            return [self._deleting(reading, i) for i in range(len(reading.documents))]
        games = ratio_games(reading)
        found = lime(games, **self._design(), tolerance=self.tolerance)
        solve = partial(lime, **self._design(), tolerance=self.tolerance)
        heads = head_scores(solve, games) if self.per_head else None
        fit = lime_fit(games, **self._design()) if self.fit else None
        return [
            Scores(
                scores=found.scores[i, 0, : len(features)],
                bound=float(found.bound[i, 0]),
                intercept=float(found.intercept[i, 0]),
                heads=None if heads is None else heads[:, i, : len(features)],
                **({} if fit is None else _quality(float(fit.r2[i, 0]), float(fit.bound[i, 0]))),
            )
            for i, features in enumerate(reading.features)
        ]

    def _design(self) -> dict[str, Any]:
        return {"bandwidth": self.bandwidth, "penalty": self.penalty, "rows": self.rows}

    def _deleting(self, reading: Reading, i: int) -> Scores:
        game = deletion_game(reading, i)
        found = lime_under_deletion(game, **self._design(), tolerance=self.tolerance)
        return Scores(
            scores=found.scores[0],
            bound=float(found.bound[0]),
            intercept=float(found.intercept[0]),
        )


@final
@dataclass(frozen=True, kw_only=True)
class FirstOrder:
    """Settings of the first-order formulas: as printed in the paper, or corrected."""

    formula: Literal["theorem", "first-order"]

    def __call__(self, reading: Reading) -> list[Scores]:
        """Score every feature by the formula; how far it is from LIME is not known here."""
        need_logit(reading, f"lime-{self.formula}")
        scores = _FORMULAS[self.formula](ratio_games(reading))
        return [
            Scores(
                scores=np.asarray(scores[i, 0, : len(features)]),
                notices=("A first-order formula: its distance to LIME is not bounded.",),
            )
            for i, features in enumerate(reading.features)
        ]


def _quality(r2: float, bound: float) -> dict[str, Any]:
    """R² with its bound, and a warning where the fit is poor or not known."""
    notice = f"LIME's linear model explains {r2:.0%} of the variation: read its scores with care."
    if bound > UNKNOWN_FIT:
        notice = f"How well LIME's linear model fits is not known: R² is {r2:.2f} ± {bound:.2f}."
    elif r2 >= POOR_FIT:
        return {"settings": {"r2": r2, "r2_bound": bound}}
    return {"settings": {"r2": r2, "r2_bound": bound}, "notices": (notice,)}


ROWS = (
    Method(
        id="lime",
        label="LIME",
        formula="weighted least squares of f on kept words, in the limit of all samples",
        sees="the linear trend of f around the text, words removed at random",
        blind="what is not linear; depends on the bandwidth",
        cost="milliseconds, exact to quadrature precision with a bound",
        explainer=Lime,
        sampled=with_defaults(
            partial(LimeSampled, ridge=0.0, row0=False, num_features=None, enumerates=True),
            samples=None,
            sizes="balanced",
            replacement="auto",
        ),
    ),
    Method(
        id="lime-theorem",
        label="LIME (Eq. 19)",
        formula="(3/2K) Σ_i Σ_t W_ℓ(α_t v_t − α_{h,t} v_{h,t}), as printed in Theorem 5.1",
        sees="attention × value against the same for UNK",
        blind="the common denominator; the constant 3/2 and the centring are off",
        cost="one forward pass",
        explainer=partial(FirstOrder, formula="theorem"),
    ),
    Method(
        id="lime-first-order",
        label="LIME (1st order)",
        formula="(1/K) Σ_i Σ_t [α_t(u_t − f_i) − α_{h,t}(u_{h,t} − f_i)]",
        sees="LIME where no word holds much of the attention",
        blind="peaked attention, where first order is poor",
        cost="one forward pass",
        explainer=partial(FirstOrder, formula="first-order"),
    ),
)
