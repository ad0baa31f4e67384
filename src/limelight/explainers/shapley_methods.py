"""Shapley values."""

__all__ = ["ROWS", "Shapley"]

from dataclasses import dataclass, replace
from functools import partial
from typing import final

from limelight.errors import InputError
from limelight.explainers.budget import DEFAULT_CALLS
from limelight.explainers.exact_games import semivalue
from limelight.explainers.method import Counted, Method, Way
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import TargetGame
from limelight.explainers.unseen_effects import unseen_effects
from limelight.results import Finding
from limelight.sampling import (
    FEWEST,
    ShapleySample,
    affordable,
    permutation_shapley,
    shapley_of_all_masks,
    text_rng,
)
from limelight.theory.shapley import shapley

_ENOUGH = 25  # pairs: with 10, ±2 standard errors held in 0.78 of cases beside a smooth part
_FEWEST = 2  # one pair has no spread
_TOLERANCE = "largest error of a score, relative to the range of f"
_PER_HEAD = "also score every head alone"
_UNTIL = "keep drawing until no standard error exceeds it; None: stop at `pairs`"


@final
@dataclass(frozen=True, kw_only=True)
class Shapley:
    """Settings of Shapley values: of a quadrature, or of random orders of the words."""

    tolerance: float | None = None
    per_head: bool = False
    pairs: int | None = None
    max_pairs: int = 10_000
    replacement: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("pairs", _FEWEST), ("max_pairs", _FEWEST), ("seed", 0)):
            if (value := getattr(self, name)) is not None and value < least:
                raise InputError(f"{name} must be at least {least}; got {value}.")
        if self.tolerance is not None and not self.tolerance > 0:
            raise InputError(f"tolerance must be positive; got {self.tolerance}.")
        if self.pairs is not None and self.max_pairs < self.pairs:
            raise InputError(
                f"max_pairs must be at least pairs ({self.pairs}); got {self.max_pairs}."
            )
        if self.tolerance is not None and self.max_pairs < FEWEST:
            raise InputError(
                f"max_pairs must be at least {FEWEST} with a tolerance, because fewer pairs do "
                f"not show their spread; got {self.max_pairs}."
            )

    def drawn_at_first(self, d: int) -> int:
        """Return how many pairs are drawn for ``d`` features before a tolerance is looked at."""
        if self.pairs is not None:
            return self.pairs
        return min(max(_pairs_in(DEFAULT_CALLS, d), _FEWEST), self.max_pairs)

    def asks_all(self, d: int) -> bool:
        """Whether all masks are asked."""
        most = _calls_of(self.max_pairs, d)
        return affordable(d, _calls_of(self.drawn_at_first(d), d)) and 2**d <= most


def _calls_of(pairs: int, d: int) -> int:
    return 2 + pairs * 2 * (d - 1)


def _pairs_in(calls: int, d: int) -> int:
    return (calls - 2) // (2 * max(d - 1, 1))


def _shapley_by_orders(settings: Shapley, reading: Reading) -> list[Finding]:
    """Score every feature by what it adds to the words before it, in random orders."""
    return [_by_orders(settings, one) for one in reading.apart()]


def _by_orders(settings: Shapley, one: Reading) -> Finding:
    game, d = TargetGame(one, settings.replacement), len(one.features[0])
    if settings.asks_all(d):
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
        pairs=settings.drawn_at_first(d),
        tolerance=settings.tolerance,
        most=settings.max_pairs,
        known_range=game.known_range,
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
    if found.pairs < _ENOUGH and d > 2:  # an order of two words and its reverse are all orders
        notices.append(
            f"{found.pairs} pairs of orders are few: effects that show in some orders only may "
            f"have been missed, and the standard errors are then too small; draw {_ENOUGH} or more."
        )
    if settings.tolerance is not None and worst > settings.tolerance:
        notices.append(
            f"After {found.pairs} pairs of orders the largest standard error is {worst:.2g}, "
            f"above the tolerance {settings.tolerance:.2g}; raise max_pairs."
        )
    return (
        *notices,
        *unseen_effects(
            flat=bool(found.flat[0]) and d > 2,
            spike=float(found.spike[0]),
            size=float(found.size[0]),
            draws=found.pairs,
            same="give the same scores",
            what="pairs of orders",
        ),
    )


def _calls_by_orders(settings: Shapley, d: int) -> int:
    return 1 + 2**d if settings.asks_all(d) else _calls_of(settings.drawn_at_first(d), d)


def _fewest_calls(_: Shapley, d: int) -> int:
    return min(1 + 2**d, _calls_of(_FEWEST, d))


def _fitted(settings: Shapley, d: int, calls: int) -> Shapley:
    pairs = max(_pairs_in(calls, d), _FEWEST)
    if 1 + 2**d <= calls:  # all masks are asked, as if they were the pairs that take as many
        pairs = max(pairs, -(-(2**d - 2) // (2 * max(d - 1, 1))))
    return replace(settings, pairs=pairs, max_pairs=pairs)


ROWS = (
    Method(
        id="shapley",
        label="Shapley",
        formula="∫₀¹ (E_p[f | word kept] − E_p[f | word removed]) dp",
        sees="the word's mean effect over all sets of other words; adds up to f − f(all UNK)",
        blind="which other words it needs (see interactions)",
        cost="milliseconds, exact to quadrature precision with a bound",
        settings=Shapley,
        ways=(
            Way(
                needs="collapses",
                exactness="bound",
                explain=partial(semivalue, name="shapley", value=shapley),
                settings={"tolerance": _TOLERANCE, "per_head": _PER_HEAD},
                defaults={"tolerance": 1e-6},
            ),
            Way(
                needs=None,
                exactness="sampled",
                explain=_shapley_by_orders,
                settings={
                    "pairs": "pairs of a random order and its reverse, 2 (d − 1) calls each; None: "
                    f"as many as {DEFAULT_CALLS:,} calls allow, at least 2. If all 2^d masks take "
                    "no more calls, or at most 1,024, they are asked instead",
                    "replacement": "what stands for a removed word",
                    "seed": "same seed, same scores",
                    "tolerance": _UNTIL,
                    "max_pairs": "the most pairs to draw",
                },
                calls=_calls_by_orders,
                counted=Counted(_fewest_calls, ("pairs", "max_pairs", "tolerance"), _fitted),
                cost="2 (d − 1) calls of the model for each pair of orders of d words",
            ),
        ),
    ),
)
