"""Pair interactions."""

__all__ = ["ROWS", "Interactions", "of_words", "strongest"]

from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import final

import numpy as np

from limelight.errors import DomainError, InputError, nearest
from limelight.explainers.coin_samples import COINS_COUNTED, CoinSamples
from limelight.explainers.exact_games import need_logit
from limelight.explainers.method import Method, Way
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import TargetGame
from limelight.explainers.unseen_effects import unseen_effects
from limelight.results import Finding, Pairs
from limelight.sampling import (
    INDICES,
    PairDraws,
    PairFit,
    Sample,
    fitted_pairs,
    pairs_of_all_masks,
    text_rng,
    until,
)
from limelight.shapes import Float
from limelight.theory.interactions import banzhaf_interactions, shapley_interactions
from limelight.theory.namespace import host_array

_EXACT = {"shapley": shapley_interactions, "banzhaf": banzhaf_interactions}
_OWN = 1e-6  # seconds of a core that a mask takes for each word, since every pair is added up


@final
@dataclass(frozen=True, kw_only=True)
class Interactions:
    """Settings of pair interactions: of a quadrature, or of random masks."""

    index: str = "shapley"
    tolerance: float | None = None
    top: int | None = 100
    samples: int | None = None
    max_samples: int = 500_000
    replacement: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.index not in INDICES:
            raise InputError(nearest("index", self.index, INDICES))
        if self.top is not None and self.top < 1:
            raise InputError(f"top must be at least 1; got {self.top}.")
        _ = self.plan  # its own checks come before any work

    @property
    def plan(self) -> CoinSamples:
        """How many masks are asked."""
        return CoinSamples(
            samples=self.samples,
            max_samples=self.max_samples,
            tolerance=self.tolerance,
            seed=self.seed,
            least=2000,
            per_word=10,
            rows=1,
            name="interactions",
        )


def _interactions(settings: Interactions, reading: Reading) -> list[Finding]:
    """Score every pair of features by what the two do together beyond what each does alone."""
    need_logit(reading, "interactions")
    return [_exactly(settings, one) for one in reading.apart()]


def _exactly(settings: Interactions, one: Reading) -> Finding:
    found = _EXACT[settings.index](one.ratio_game, tolerance=settings.tolerance or 1e-6)
    matrix, bounds = host_array(found.scores)[0, 0], host_array(found.bound)
    return Finding(
        scores=of_words(matrix),
        bound=float(bounds[0, 0]),
        pairs=strongest(matrix, None, settings.top),
    )


def _by_masks(settings: Interactions, reading: Reading) -> list[Finding]:
    """Score every pair of features by the answers of the model to random masks."""
    return [_found_in(settings, one) for one in reading.apart()]


def _found_in(settings: Interactions, one: Reading) -> Finding:
    d, plan = len(one.features[0]), settings.plan
    _check(settings, d)
    game = TargetGame(one, settings.replacement)
    if plan.asks_all(d):
        (matrix,) = pairs_of_all_masks(game, d, index=settings.index)
        return Finding(
            scores=of_words(matrix),
            pairs=strongest(matrix, None, settings.top),
            base_value=game.base_value,
            notices=game.notices,
            diagnostics={"masks": 2**d},
        )
    draws = PairDraws(d, settings.index)
    sample = Sample(game, draws, text_rng(settings.seed, one.documents[0].text), row0=False)
    fit = until(
        sample,
        partial(fitted_pairs, draws=draws, known_range=game.known_range),
        start=plan.drawn_at_first(d),
        tolerance=settings.tolerance,
        most=settings.max_samples,
    )
    told = _told_from_zero(fit)
    return Finding(
        scores=of_words(fit.scores[0]),
        # Scores are sizes: | |Î| − |I| | is at most |Î − I|, whatever the signs.
        stderr=of_words(fit.stderr[0]),
        pairs=strongest(fit.scores[0], fit.stderr[0], settings.top),
        base_value=game.base_value,
        notices=(
            plan.notices(fit.samples, float(fit.stderr.max()))
            + _noise(told, d)
            + unseen_effects(
                flat=bool(fit.flat[0]),
                spike=0.0,
                size=max(game.known_range, float(sample.range[0])),
                draws=fit.samples,
                same="fit one linear model",
                what="masks",
            )
            + game.notices
        ),
        diagnostics={"samples_drawn": fit.samples, "pairs_told_from_zero": told},
    )


def of_words(pairs: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " d"]:
    """Return the mean size of each word's interactions."""
    return np.abs(pairs).sum(axis=1) / (len(pairs) - 1)


def strongest(
    matrix: Float[np.ndarray, "d d"], stderr: Float[np.ndarray, "d d"] | None, top: int | None
) -> Pairs:
    """Return the pairs of largest size, strongest first."""
    rows, columns = np.triu_indices(len(matrix), k=1)
    order = np.argsort(-np.abs(matrix[rows, columns]), kind="stable")[:top]
    i, j = rows[order], columns[order]
    return Pairs(
        features=np.stack([i, j], axis=1),
        scores=matrix[i, j],
        stderr=None if stderr is None else stderr[i, j],
    )


def _told_from_zero(fit: PairFit) -> int:
    """Return how many pairs lie farther from 0 than the farthest of so many would by chance.

    So far as none does in 95 % of samples where no pair interacts (Bonferroni).
    """
    d = fit.scores.shape[-1]
    limit = NormalDist().inv_cdf(1 - 0.025 / (d * (d - 1) / 2))
    return int((np.abs(fit.scores[0]) > limit * fit.stderr[0]).sum()) // 2


def _noise(told: int, d: int) -> tuple[str, ...]:
    """Say that the strongest of many pairs are strong by chance."""
    notice = (
        f"No pair stands out: the strongest of {d * (d - 1) // 2:,} would lie as far from 0 by "
        "chance alone. Draw more masks."
    )
    return () if told else (notice,)


def _check(settings: Interactions, d: int) -> None:
    if d < 2:
        raise DomainError(f"interactions need at least 2 words; this text has {d}.")
    settings.plan.check_enough(d)


_INDEX = 'how sets S are weighted: "shapley" or "banzhaf"'
_TOP = "pairs to keep, strongest first; None: all d(d−1)/2"

ROWS = (
    Method(
        id="interactions",
        label="Interactions",
        formula="mean of f(S∪ij) − f(S∪i) − f(S∪j) + f(S) over sets S",
        sees="which words need or replace each other",
        blind="what a word does alone; a word's score is the mean size of its interactions",
        cost="O(d²) per node, exact to quadrature precision with a bound",
        signed=False,
        settings=Interactions,
        ways=(
            Way(
                needs="collapses",
                exactness="bound",
                explain=_interactions,
                settings={
                    "index": _INDEX,
                    "tolerance": "largest error of a score, relative to the range of f",
                    "top": _TOP,
                },
                defaults={"tolerance": 1e-6},
            ),
            Way(
                needs=None,
                exactness="sampled",
                explain=_by_masks,
                settings={
                    "index": _INDEX,
                    "top": _TOP,
                    "samples": "masks to draw; None: ten for each word, at least 2000. If there "
                    "are no more than that, or at most 1,024, all 2^d are asked instead",
                    "replacement": "what stands for a removed word",
                    "seed": "same seed, same scores",
                    "tolerance": "keep drawing until no standard error exceeds it; None: stop at "
                    "`samples`",
                    "max_samples": "the most masks to draw",
                },
                calls=lambda settings, d: settings.plan.calls(d),
                counted=COINS_COUNTED._replace(own=_OWN),
                cost="one call of the model per sample, each of which counts for every pair",
                feasible=_check,
            ),
        ),
    ),
)
