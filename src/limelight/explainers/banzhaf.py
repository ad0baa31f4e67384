"""Banzhaf values and pair interactions."""

from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Any, final

import numpy as np

from limelight.errors import DomainError, InputError, nearest
from limelight.explainers.method import Counted, Method, Way
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import TargetGame, need_logit, semivalue, unseen_effects
from limelight.results import Finding, Pairs
from limelight.sampling import (
    INDICES,
    CoinDraws,
    PairDraws,
    PairFit,
    Sample,
    affordable,
    banzhaf_of_all_masks,
    fitted_lime,
    fitted_pairs,
    pairs_of_all_masks,
    text_rng,
    until,
)
from limelight.shapes import Bool, Float
from limelight.theory.banzhaf import banzhaf
from limelight.theory.interactions import banzhaf_interactions, shapley_interactions
from limelight.theory.namespace import host_array


@final
@dataclass(frozen=True, kw_only=True)
class CoinSamples:
    """A number of masks that follows from the words unless ``samples`` says so.

    ``per_word`` for each word, at ``least`` so many, at most ``max_samples``; ``rows`` masks make
    one row of the linear fit, of which there must be more than there are words. All 2^d masks are
    asked if they are no more than that.
    """

    samples: int | None
    max_samples: int
    tolerance: float | None
    seed: int
    least: int
    per_word: int
    rows: int
    name: str

    def __post_init__(self) -> None:
        fewest = 2 * self.rows
        for name, least in (("samples", fewest), ("max_samples", fewest), ("seed", 0)):
            if (value := getattr(self, name)) is not None and value < least:
                raise InputError(f"{name} must be at least {least}; got {value}.")
        if self.tolerance is not None and not self.tolerance > 0:
            raise InputError(f"tolerance must be positive; got {self.tolerance}.")
        if self.samples is not None and self.max_samples < self.samples:
            raise InputError(
                f"max_samples must be at least samples ({self.samples}); got {self.max_samples}."
            )

    def drawn_at_first(self, d: int) -> int:
        """Return how many masks are drawn for ``d`` features before a tolerance is looked at."""
        if self.samples is not None:
            return self.samples
        return min(max(self.least, self.per_word * d), self.max_samples)

    def asks_all(self, d: int) -> bool:
        """Whether all masks are asked."""
        return affordable(d, self.drawn_at_first(d)) and 2**d <= self.max_samples

    def calls(self, d: int) -> int:
        """Return how many masks of ``d`` features the model is asked, at least."""
        return 1 + 2**d if self.asks_all(d) else self.drawn_at_first(d) + 1 + self.rows

    def fewest_calls(self, d: int) -> int:
        """Return the calls below which the scores of ``d`` features are not surely determined."""
        return min(1 + 2**d, self._advised(d) + 1 + self.rows)

    def samples_in(self, calls: int, d: int) -> int:
        """Return how many samples ``calls`` allow; all masks are asked if they are no more."""
        return max(calls - 1 - self.rows, 2 * self.rows, 2**d if 1 + 2**d <= calls else 0)

    def check_enough(self, d: int) -> None:
        """Refuse before any call what cannot end well: a line through fewer rows than it needs."""
        masks = self.drawn_at_first(d) if self.tolerance is None else self.max_samples
        if not self.asks_all(d) and masks // self.rows <= d + 1:
            raise DomainError(
                f"{self.name} of {d} words need at least {self.rows * (d + 2)} samples; got "
                f"{masks}. Set samples to {self._advised(d)} or more."
            )

    def check_determined(self, d: int, drawn: int, stderr: Float[np.ndarray, "..."]) -> None:
        """Refuse a fit that some mask alone decides: how far off it is, nothing says."""
        if not np.isfinite(stderr).all():
            raise DomainError(
                f"{drawn} samples do not determine the {self.name} of {d} words. Set samples to "
                f"{max(self._advised(d), drawn + self._advised(d) // 2)} or more."
            )

    def _advised(self, d: int) -> int:
        return 2 * self.rows * (d + 1)

    def notices(self, drawn: int, worst: float) -> tuple[str, ...]:
        """Say that a tolerance was not met."""
        if self.tolerance is None or worst <= self.tolerance:
            return ()
        return (
            f"After {drawn} samples the largest standard error is {worst:.2g}, above the "
            f"tolerance {self.tolerance:.2g}; raise max_samples.",
        )


def _fitted(settings: Any, d: int, calls: int) -> Any:
    samples = settings.plan.samples_in(calls, d)
    return replace(settings, samples=samples, max_samples=samples)


# How settings that have such a plan keep within a budget.
COINS_COUNTED = Counted(
    lambda settings, d: settings.plan.fewest_calls(d),
    ("samples", "max_samples", "tolerance"),
    _fitted,
)


@final
@dataclass(frozen=True, kw_only=True)
class Banzhaf:
    """Settings of Banzhaf values: of a quadrature, or of random masks."""

    tolerance: float | None = None
    per_head: bool = False
    samples: int | None = None
    max_samples: int = 500_000
    replacement: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        _ = self.plan  # its own checks come before any work

    @property
    def plan(self) -> CoinSamples:
        """How many masks are asked; half as many pairs are the rows of a regression."""
        return CoinSamples(
            samples=self.samples,
            max_samples=self.max_samples,
            tolerance=self.tolerance,
            seed=self.seed,
            least=1000,
            per_word=10,
            rows=2,
            name="Banzhaf values",
        )


def _by_masks(settings: Banzhaf, reading: Reading) -> list[Finding]:
    """Score every feature by the slope of f on random masks, each with its opposite."""
    return [_found_in(settings, one) for one in reading.apart()]


def _found_in(settings: Banzhaf, one: Reading) -> Finding:
    game, d, plan = TargetGame(one, settings.replacement), len(one.features[0]), settings.plan
    if plan.asks_all(d):
        return Finding(
            scores=banzhaf_of_all_masks(game, d)[0],
            base_value=game.base_value,
            notices=game.notices,
            diagnostics={"masks": 2**d},
        )
    plan.check_enough(d)

    # The slope of least squares on masks by fair coins is the Banzhaf value, and half the
    # difference of a mask and its opposite has the same one: what an even number of words do
    # together drops out. With as many calls, at 14 words, the variance was 35 to 3,600 times
    # smaller than that of E[f | kept] − E[f | removed] on smooth games, 1.2 times on rare effects.
    def odd(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
        both = game(np.concatenate([keep, ~keep]))
        return (both[: len(keep)] - both[len(keep) :]) / 2

    sample = Sample(odd, CoinDraws(d), text_rng(settings.seed, one.documents[0].text), row0=False)
    fit = until(
        sample,
        partial(fitted_lime, ridge=0.0, known_range=game.known_range),
        start=plan.drawn_at_first(d) // 2,
        tolerance=settings.tolerance,
        most=settings.max_samples // 2,
    )
    plan.check_determined(d, 2 * fit.samples, fit.stderr)
    return Finding(
        scores=fit.scores[0],
        stderr=fit.stderr[0],
        base_value=game.base_value,
        notices=(
            plan.notices(2 * fit.samples, float(fit.stderr.max()))
            + unseen_effects(
                flat=bool(fit.flat[0]),
                spike=float(fit.spike[0]),
                size=max(game.known_range, float(sample.range[0])),
                draws=fit.samples,
                same="fit one linear model",
                what="pairs of masks",
            )
            + game.notices
        ),
        diagnostics={"samples_drawn": 2 * fit.samples},
    )


BANZHAF = (
    Method(
        id="banzhaf",
        label="Banzhaf",
        formula="E[f | word kept] − E[f | word removed], the others kept by fair coins",
        sees="the word's mean effect over all sets of other words, all alike",
        blind="sets far from half of the text; does not add up to f",
        cost="milliseconds, exact to quadrature precision with a bound",
        settings=Banzhaf,
        ways=(
            Way(
                needs="collapses",
                exactness="bound",
                explain=partial(semivalue, name="banzhaf", value=banzhaf),
                settings={
                    "tolerance": "largest error of a score, relative to the range of f",
                    "per_head": "also score every head alone",
                },
                defaults={"tolerance": 1e-6},
            ),
            Way(
                needs=None,
                exactness="sampled",
                explain=_by_masks,
                settings={
                    "samples": "masks to draw, in pairs of opposites; None: ten for each word, at "
                    "least 1000. If there are no more than that, or at most 1,024, all 2^d are "
                    "asked instead",
                    "replacement": "what stands for a removed word",
                    "seed": "same seed, same scores",
                    "tolerance": "keep drawing until no standard error exceeds it; None: stop at "
                    "`samples`",
                    "max_samples": "the most masks to draw",
                },
                calls=lambda settings, d: settings.plan.calls(d),
                counted=COINS_COUNTED,
                cost="one call of the model per sample",
                feasible=lambda settings, d: settings.plan.check_enough(d),
            ),
        ),
    ),
)


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


def _pairs_by_masks(settings: Interactions, reading: Reading) -> list[Finding]:
    """Score every pair of features by the answers of the model to random masks."""
    return [_pairs_found_in(settings, one) for one in reading.apart()]


def _pairs_found_in(settings: Interactions, one: Reading) -> Finding:
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

INTERACTIONS = (
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
                explain=_pairs_by_masks,
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

ROWS = (*BANZHAF, *INTERACTIONS)
