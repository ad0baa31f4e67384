"""Leave-one-out, Shapley, Banzhaf and pair interactions."""

__all__ = ["ROWS", "Banzhaf", "Interactions", "Loo", "Shapley", "head_scores", "need_logit"]

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.method import Method, Way
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import TargetGame
from limelight.results import Finding, Pairs
from limelight.sampling import (
    FEWEST,
    ShapleySample,
    affordable,
    permutation_shapley,
    shapley_of_all_masks,
    text_rng,
)
from limelight.shapes import Float
from limelight.theory.banzhaf import banzhaf
from limelight.theory.interactions import banzhaf_interactions, shapley_interactions
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import RatioGame, of_heads
from limelight.theory.shapley import shapley

_PAIRS = {"shapley": shapley_interactions, "banzhaf": banzhaf_interactions}
_TOLERANCE = "largest error of a score, relative to the range of f"
_PER_HEAD = "also score every head alone"
_REPLACEMENT = "what stands for a removed word"


@final
@dataclass(frozen=True, kw_only=True)
class Loo:
    """Settings of leave-one-out."""

    replacement: str = "auto"


@final
@dataclass(frozen=True, kw_only=True)
class Shapley:
    """Settings of Shapley values: of a quadrature, or of random orders of the words."""

    tolerance: float | None = None
    per_head: bool = False
    pairs: int = 25
    max_pairs: int = 10_000
    replacement: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("pairs", 2), ("seed", 0)):
            if (value := getattr(self, name)) < least:
                raise InputError(f"{name} must be at least {least}; got {value}.")
        if self.tolerance is not None and not self.tolerance > 0:
            raise InputError(f"tolerance must be positive; got {self.tolerance}.")
        if self.max_pairs < self.pairs:
            raise InputError(
                f"max_pairs must be at least pairs ({self.pairs}); got {self.max_pairs}."
            )
        if self.tolerance is not None and self.max_pairs < FEWEST:
            raise InputError(
                f"max_pairs must be at least {FEWEST} with a tolerance, for fewer pairs do not "
                f"show their spread; got {self.max_pairs}."
            )


@final
@dataclass(frozen=True, kw_only=True)
class Banzhaf:
    """Settings of Banzhaf values."""

    tolerance: float = 1e-6
    per_head: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class Interactions:
    """Settings of pair interactions."""

    index: str = "shapley"
    tolerance: float = 1e-6
    top: int | None = 100

    def __post_init__(self) -> None:
        if self.index not in _PAIRS:
            raise InputError(f"index must be one of {', '.join(_PAIRS)}; got {self.index!r}.")
        if self.top is not None and self.top < 1:
            raise InputError(f"top must be at least 1; got {self.top}.")


def _loo_from_game(_: Loo, reading: Reading) -> list[Finding]:
    """Score every feature by what the explained output loses without it, in closed form."""
    loss = leave_one_out(reading.collapsed.game)
    without = np.moveaxis(reading.outputs[..., None] - host_array(loss.scores), -1, 0)
    targets, bounds = reading.targets, host_array(loss.bound)
    scores = targets.value(reading.outputs) - targets.value(without)
    exact = targets.scale == "logit"
    return [
        Finding(
            scores=scores[: len(features), i],
            bound=float(bounds[i].max()) if exact else None,
        )
        for i, features in enumerate(reading.features)
    ]


def _loo_by_asking(settings: Loo, reading: Reading) -> list[Finding]:
    """Score every feature by what the explained output loses without it."""

    def found(one: Reading) -> Finding:
        game, d = TargetGame(one, settings.replacement), len(one.features[0])
        masks = np.concatenate([np.ones((1, d), bool), ~np.eye(d, dtype=bool)])
        (whole, *without) = game(masks)[:, 0]
        return Finding(
            scores=whole - np.array(without), base_value=game.base_value, notices=game.notices
        )

    return [found(one) for one in reading.apart()]


def _semivalue(
    settings: Shapley | Banzhaf, reading: Reading, *, name: str, value: Callable[..., Any]
) -> list[Finding]:
    """Score every feature by its mean change of the logit over sets of the others."""
    need_logit(reading, name)
    games = reading.ratio_game
    solve = partial(value, tolerance=settings.tolerance)
    found = solve(games)
    scores, bounds = host_array(found.scores), host_array(found.bound)
    heads = head_scores(solve, games) if settings.per_head else None
    return [
        Finding(
            scores=scores[i, 0, : len(features)],
            bound=float(bounds[i, 0]),
            heads=None if heads is None else heads[:, i, : len(features)],
        )
        for i, features in enumerate(reading.features)
    ]


def _shapley_by_orders(settings: Shapley, reading: Reading) -> list[Finding]:
    """Score every feature by what it adds to the words before it, in random orders."""
    return [_by_orders(settings, one) for one in reading.apart()]


def _by_orders(settings: Shapley, one: Reading) -> Finding:
    game, d = TargetGame(one, settings.replacement), len(one.features[0])
    if affordable(d, 2 * (d - 1) * settings.pairs + 2):
        return Finding(
            scores=shapley_of_all_masks(game, d)[0],
            base_value=game.base_value,
            notices=game.notices,
            diagnostics={"masks": 2**d},
        )
    found = permutation_shapley(
        game,
        d,
        text_rng(settings.seed, one.documents[0].text),
        pairs=settings.pairs,
        tolerance=settings.tolerance,
        most=settings.max_pairs,
    )
    return Finding(
        scores=found.values[0],
        stderr=found.stderr[0],
        base_value=game.base_value,
        notices=_of_orders(settings, found, d) + game.notices,
        diagnostics={"pairs_drawn": found.pairs},
    )


def _of_orders(settings: Shapley, found: ShapleySample, d: int) -> tuple[str, ...]:
    notices, worst = [], float(found.stderr.max())
    if found.pairs < FEWEST and d > 2:  # an order of two words and its reverse are all orders
        notices.append(
            f"{found.pairs} pairs of orders are few: do not trust the standard errors, zeros "
            f"least of all; draw {FEWEST} or more."
        )
    if settings.tolerance is not None and worst > settings.tolerance:
        notices.append(
            f"After {found.pairs} pairs of orders the largest standard error is {worst:.2g}, "
            f"above the tolerance {settings.tolerance:.2g}; raise max_pairs."
        )
    return tuple(notices)


def _calls_by_orders(settings: Shapley, d: int) -> int:
    calls = 2 + settings.pairs * 2 * (d - 1)
    return 1 + 2**d if affordable(d, calls) else calls


def _interactions(settings: Interactions, reading: Reading) -> list[Finding]:
    """Score every pair of features by what the two do together beyond what each does alone."""
    need_logit(reading, "interactions")
    return [_pairs_of(settings, one) for one in reading.apart()]


def _pairs_of(settings: Interactions, one: Reading) -> Finding:
    found = _PAIRS[settings.index](one.ratio_game, tolerance=settings.tolerance)
    matrix, bounds = host_array(found.scores)[0, 0], host_array(found.bound)
    rows, columns = np.triu_indices(len(matrix), k=1)
    order = np.argsort(-np.abs(matrix[rows, columns]), kind="stable")[: settings.top]
    pairs = np.stack([rows[order], columns[order]], axis=1)
    return Finding(
        scores=np.abs(matrix).sum(axis=1) / (len(matrix) - 1),
        bound=float(bounds[0, 0]),
        pairs=Pairs(features=pairs, scores=matrix[pairs[:, 0], pairs[:, 1]]),
    )


def need_logit(reading: Reading, method: str) -> None:
    """Refuse probabilities, on which no exact formula is known."""
    if reading.targets.scale != "logit":
        raise InputError(
            f"method {method!r} is exact for logits only; ask for the logit, or use "
            "'lime-sampled', which samples probabilities."
        )


def head_scores(solve: Callable[[RatioGame], Any], games: RatioGame) -> Float[np.ndarray, "K n d"]:
    """Return the scores of every head's own game; their mean is the model's."""
    alone = (solve(of_heads(games, slice(i, i + 1))).scores for i in range(games.K))
    return np.stack([host_array(scores)[:, 0] for scores in alone])


_QUADRATURE = "milliseconds, exact to quadrature precision with a bound"

ROWS = (
    Method(
        id="loo",
        label="LOO",
        formula="f(text) − f(text without the word)",
        sees="what really happens when one word is replaced by UNK",
        blind="words that stand in for each other: each alone seems not to matter",
        cost="one forward pass, O(d)",
        settings=Loo,
        ways=(
            Way(needs="collapses", exactness="bound", explain=_loo_from_game),
            Way(
                needs=None,
                exactness="exact",
                explain=_loo_by_asking,
                settings={"replacement": _REPLACEMENT},
                calls=lambda _, d: d + 2,
            ),
        ),
    ),
    Method(
        id="shapley",
        label="Shapley",
        formula="∫₀¹ (E_p[f | word kept] − E_p[f | word removed]) dp",
        sees="the word's mean effect over all sets of other words; adds up to f − f(all UNK)",
        blind="which other words it needs (see interactions)",
        cost=_QUADRATURE,
        settings=Shapley,
        ways=(
            Way(
                needs="collapses",
                exactness="bound",
                explain=partial(_semivalue, name="shapley", value=shapley),
                settings={"tolerance": _TOLERANCE, "per_head": _PER_HEAD},
                defaults={"tolerance": 1e-6},
            ),
            Way(
                needs=None,
                exactness="sampled",
                explain=_shapley_by_orders,
                settings={
                    "pairs": "pairs of a random order and its reverse, 2 (d − 1) calls each; where "
                    "all 2^d masks take no more calls they are asked instead",
                    "replacement": _REPLACEMENT,
                    "seed": "same seed, same scores",
                    "tolerance": "draw on until no standard error exceeds it; None draws `pairs`",
                    "max_pairs": "pairs at most",
                },
                calls=_calls_by_orders,
            ),
        ),
    ),
    Method(
        id="banzhaf",
        label="Banzhaf",
        formula="E[f | word kept] − E[f | word removed], the others kept by fair coins",
        sees="the word's mean effect over all sets of other words, all alike",
        blind="sets far from half of the text; does not add up to f",
        cost=_QUADRATURE,
        settings=Banzhaf,
        ways=(
            Way(
                needs="collapses",
                exactness="bound",
                explain=partial(_semivalue, name="banzhaf", value=banzhaf),
                settings={"tolerance": _TOLERANCE, "per_head": _PER_HEAD},
            ),
        ),
    ),
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
                    "index": 'weights of the sets S: "shapley" or "banzhaf"',
                    "tolerance": _TOLERANCE,
                    "top": "pairs that are kept, strongest first; None keeps all d(d−1)/2",
                },
            ),
        ),
    ),
)
