"""Leave-one-out and Shapley values of any model: by asking it."""

__all__ = ["Removal", "SampledShapley"]

from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.perturbed import Perturbable, TargetGame
from limelight.explainers.scores import Scores
from limelight.sampling import (
    FEWEST,
    ShapleySample,
    affordable,
    permutation_shapley,
    shapley_of_all_masks,
    text_rng,
)


@final
@dataclass(frozen=True, kw_only=True)
class Removal:
    """Settings of leave-one-out: what is put in place of a removed word."""

    replacement: str = "auto"

    def asks(self, d: int) -> int:
        """Return how many masks of ``d`` features the model is asked."""
        return d + 2

    def __call__(self, reading: Perturbable) -> list[Scores]:
        """Score every feature by what the explained output loses without it."""
        return [self._scores(one) for one in reading.apart()]

    def _scores(self, one: Perturbable) -> Scores:
        game = TargetGame(one, self.replacement)
        d = len(one.features[0])
        masks = np.concatenate([np.ones((1, d), bool), ~np.eye(d, dtype=bool)])
        (whole, *without) = game(masks)[:, 0]
        base = float(game(np.zeros((1, d), bool))[0, 0])
        return Scores(
            scores=whole - np.array(without),
            base_value=base,
            notices=game.notices,
            settings={"replacement": game.replacement},
        )


@final
@dataclass(frozen=True, kw_only=True)
class SampledShapley:
    """Settings of Shapley values by random orders of the words.

    ``pairs`` of an order and its reverse are drawn, which takes 2 (d − 1) calls each; with a
    ``tolerance`` at least 10, until no standard error exceeds it or ``max_pairs`` are drawn. Where
    all 2^d masks take no more calls, they are asked instead, and there is no sampling error.
    """

    pairs: int = 25
    replacement: str = "auto"
    seed: int = 0
    tolerance: float | None = None
    max_pairs: int = 10_000

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

    def asks(self, d: int) -> int:
        """Return how many masks of ``d`` features the model is asked, at least."""
        calls = 2 + self.pairs * 2 * (d - 1)
        return 1 + 2**d if affordable(d, calls) else calls

    def __call__(self, reading: Perturbable) -> list[Scores]:
        """Score every feature by what it adds to the words before it, in random orders."""
        return [self._scores(one) for one in reading.apart()]

    def _scores(self, one: Perturbable) -> Scores:
        game = TargetGame(one, self.replacement)
        d = len(one.features[0])
        if affordable(d, 2 * (d - 1) * self.pairs + 2):
            values = shapley_of_all_masks(game, d)[0]
            return Scores(
                scores=values,
                base_value=float(game(np.zeros((1, d), bool))[0, 0]),
                notices=game.notices,
                settings={"replacement": game.replacement, "masks": 2**d},
            )
        found = permutation_shapley(
            game,
            d,
            text_rng(self.seed, one.documents[0].text),
            pairs=self.pairs,
            tolerance=self.tolerance,
            most=self.max_pairs,
        )
        return Scores(
            scores=found.values[0],
            stderr=found.stderr[0],
            base_value=float(found.base[0]),
            notices=self._notices(found, d) + game.notices,
            settings={"replacement": game.replacement, "pairs_drawn": found.pairs},
        )

    def _notices(self, found: ShapleySample, d: int) -> tuple[str, ...]:
        notices, worst = [], float(found.stderr.max())
        if found.pairs < FEWEST and d > 2:  # an order of two words and its reverse are all orders
            notices.append(
                f"{found.pairs} pairs of orders are few: do not trust the standard errors, zeros "
                f"least of all; draw {FEWEST} or more."
            )
        if self.tolerance is not None and worst > self.tolerance:
            notices.append(
                f"After {found.pairs} pairs of orders the largest standard error is {worst:.2g}, "
                f"above the tolerance {self.tolerance:.2g}; raise max_pairs."
            )
        return tuple(notices)
