"""Shapley values."""

__all__ = ["ROWS", "Shapley"]

from dataclasses import dataclass
from functools import partial
from typing import final

from limelight.errors import InputError
from limelight.explainers.exact_games import semivalue
from limelight.explainers.method import Method, Way
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
_TOLERANCE = "largest error of a score, relative to the range of f"
_PER_HEAD = "also score every head alone"
_UNTIL = "keep drawing until no standard error exceeds it; None: stop at `pairs`"


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
                f"max_pairs must be at least {FEWEST} with a tolerance, because fewer pairs do "
                f"not show their spread; got {self.max_pairs}."
            )


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
    calls = 2 + settings.pairs * 2 * (d - 1)
    return 1 + 2**d if affordable(d, calls) else calls


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
                    "pairs": "pairs of a random order and its reverse, 2 (d − 1) calls each; if "
                    "all 2^d masks take no more calls, or at most 1,024, they are asked instead",
                    "replacement": "what stands for a removed word",
                    "seed": "same seed, same scores",
                    "tolerance": _UNTIL,
                    "max_pairs": "the most pairs to draw",
                },
                calls=_calls_by_orders,
                cost="2 (d − 1) calls of the model for each pair of orders of d words",
            ),
        ),
    ),
)
