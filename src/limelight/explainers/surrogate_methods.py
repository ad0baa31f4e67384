"""Values of a ratio game that was fitted to the model around one text."""

__all__ = ["ROWS", "Surrogate"]

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from limelight.errors import InputError, nearest
from limelight.explainers.fitted_surrogate import (
    FEWEST_MASKS,
    MOST_MASKS,
    SurrogateFit,
    SurrogatePlan,
    fitted_surrogate,
)
from limelight.explainers.interaction_methods import of_words, strongest
from limelight.explainers.method import Counted, Method, Way
from limelight.explainers.reading import Reading
from limelight.explainers.unseen_effects import unseen_effects
from limelight.results import Finding, Pairs
from limelight.sampling import pair_errors, word_errors
from limelight.shapes import Float
from limelight.theory.banzhaf import banzhaf
from limelight.theory.interactions import shapley_interactions
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame
from limelight.theory.shapley import shapley

_TOLERANCE = 1e-6  # of the range of f: far below any standard error
_OWN = 1e-4  # seconds of a core that fitting takes for each mask and word
_ENDS = 2  # calls: the text, and what is left when all its words go
_VALUES: dict[str, Callable[[RatioGame], Any]] = {
    "shapley": partial(shapley, tolerance=_TOLERANCE),
    "lime": partial(lime, tolerance=_TOLERANCE),
    "banzhaf": partial(banzhaf, tolerance=_TOLERANCE),
    "interactions": partial(shapley_interactions, tolerance=_TOLERANCE),
}


@final
@dataclass(frozen=True, kw_only=True)
class Surrogate:
    """Settings of the surrogate: which of its values, and how it is fitted."""

    values: str = "shapley"
    samples: int | None = None
    heads: int | None = None
    top: int | None = 100
    replacement: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.values not in _VALUES:
            raise InputError(nearest("values", self.values, _VALUES))
        if self.top is not None and self.top < 1:
            raise InputError(f"top must be at least 1; got {self.top}.")
        _ = self.plan  # its own checks come before any work

    @property
    def plan(self) -> SurrogatePlan:
        """How the game is fitted."""
        return SurrogatePlan(samples=self.samples, heads=self.heads, seed=self.seed)


class _Valued(NamedTuple):
    """Scores of words with their errors, and what else belongs to a kind of value."""

    scores: Float[np.ndarray, " d"]
    stderr: Float[np.ndarray, " d"]
    intercept: float | None = None
    pairs: Pairs | None = None
    spike: float = 0.0


def _by_surrogate(settings: Surrogate, reading: Reading) -> list[Finding]:
    """Score every feature by the exact values of a ratio game fitted to random masks."""
    return [_found_in(settings, one) for one in reading.apart()]


def _found_in(settings: Surrogate, one: Reading) -> Finding:
    fit = fitted_surrogate(one, settings.plan, settings.replacement)
    exact = _VALUES[settings.values](fit.parts.games)
    valued = (_of_pairs if settings.values == "interactions" else _of_words)(settings, fit, exact)
    return Finding(
        scores=valued.scores,
        stderr=valued.stderr,
        intercept=valued.intercept,
        pairs=valued.pairs,
        signed=valued.pairs is None,
        base_value=fit.base_value,
        notices=fit.game.notices
        + unseen_effects(
            flat=fit.out.flat,
            spike=valued.spike,
            size=fit.out.size,
            draws=fit.out.draws,
            same="fit one ratio game",
            what="pairs of masks",
        ),
        diagnostics={
            "r2": fit.game.r2,
            "r2_linear": fit.game.r2_linear,
            "fitted_heads": fit.game.heads,
            "penalties": list(fit.game.penalties),
            "samples_drawn": fit.game.calls,
        },
    )


def _of_words(settings: Surrogate, fit: SurrogateFit, exact: Any) -> _Valued:
    own, *of_parts = exact.scores[:, 0, :]
    found = word_errors(fit.out, own, np.stack(of_parts), settings.values)
    intercept = float(exact.intercept[0, 0]) if settings.values == "lime" else None
    return _Valued(own, found.stderr, intercept, spike=found.spike)


def _of_pairs(settings: Surrogate, fit: SurrogateFit, exact: Any) -> _Valued:
    own, *of_parts = exact.scores[:, 0, :, :]
    stderr = pair_errors(fit.out, own, np.stack(of_parts))
    # Scores of words are sizes: | |Î| − |I| | is at most |Î − I|, whatever the signs.
    pairs = strongest(own, stderr, settings.top)
    return _Valued(of_words(own), of_words(stderr), pairs=pairs)


def _fitted(settings: Surrogate, _: int, calls: int) -> Surrogate:
    samples = min((calls - _ENDS) // 2 * 2, MOST_MASKS)  # they come in pairs
    return replace(settings, samples=samples)


ROWS = (
    Method(
        id="surrogate",
        label="Surrogate",
        formula="values of c + Σ_h N_h(Z)/D_h(Z), fitted to f(Z) on random masks Z",
        sees="what the model does when many words go at once, as far as R² on masks left out says",
        blind="what no ratio of sums over words can do, such as one word reversing another",
        cost="one call of the model per sample, and seconds to fit",
        settings=Surrogate,
        ways=(
            Way(
                needs=None,
                exactness="sampled",
                explain=_by_surrogate,
                settings={
                    "values": 'which values of the fitted game: "shapley", "lime", "banzhaf" or '
                    '"interactions"',
                    "samples": "masks to draw, in pairs of opposites; None: ten for each word, at "
                    "least 1000",
                    "heads": "ratios to add up; None: one to three, by masks left out",
                    "top": "pairs to keep, strongest first, of interactions; None: all d(d−1)/2",
                    "replacement": "what stands for a removed word",
                    "seed": "same seed, same scores",
                },
                calls=lambda settings, d: settings.plan.drawn(d),
                counted=Counted(lambda *_: FEWEST_MASKS + _ENDS, ("samples",), _fitted, _OWN),
                feasible=lambda settings, d: settings.plan.check_enough(d),
            ),
        ),
    ),
)
