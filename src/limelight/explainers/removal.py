"""Leave-one-out, Shapley, Banzhaf and pair interactions: exact, with a bound."""

__all__ = ["ROWS", "Interactions", "LeaveOneOut", "Semivalue", "need_logit"]

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.games import ratio_games
from limelight.explainers.method import Method
from limelight.explainers.reading import Reading
from limelight.explainers.sampled import Removal, SampledShapley
from limelight.explainers.scores import Scores
from limelight.explanation import Pairs
from limelight.shapes import Float
from limelight.theory.banzhaf import banzhaf
from limelight.theory.interactions import banzhaf_interactions, shapley_interactions
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.ratio_game import RatioGame, of_heads
from limelight.theory.shapley import shapley

_VALUES = {"shapley": shapley, "banzhaf": banzhaf}
_PAIRS = {"shapley": shapley_interactions, "banzhaf": banzhaf_interactions}


@final
@dataclass(frozen=True, kw_only=True)
class LeaveOneOut:
    """Settings of leave-one-out: none."""

    def __call__(self, reading: Reading) -> list[Scores]:
        """Score every feature by what the explained output loses without it."""
        loss = leave_one_out(ratio_games(reading, every_output=True))
        without = np.moveaxis(reading.outputs[..., None] - loss.scores, -1, 0)
        targets = reading.targets
        scores = targets.value(reading.outputs) - targets.value(without)
        exact = targets.output == "logit"
        return [
            Scores(
                scores=scores[: len(features), i],
                bound=float(loss.bound[i].max()) if exact else None,
            )
            for i, features in enumerate(reading.features)
        ]


@final
@dataclass(frozen=True, kw_only=True)
class Semivalue:
    """Settings of Shapley and Banzhaf values: ``tolerance`` is relative to the range of f."""

    value: Literal["shapley", "banzhaf"]
    tolerance: float = 1e-6
    per_head: bool = False

    def __call__(self, reading: Reading) -> list[Scores]:
        """Score every feature by its mean change of the logit over sets of the others."""
        need_logit(reading, self.value)
        games = ratio_games(reading)
        solve = partial(_VALUES[self.value], tolerance=self.tolerance)
        found = solve(games)
        heads = head_scores(solve, games) if self.per_head else None
        return [
            Scores(
                scores=found.scores[i, 0, : len(features)],
                bound=float(found.bound[i, 0]),
                heads=None if heads is None else heads[:, i, : len(features)],
            )
            for i, features in enumerate(reading.features)
        ]


@final
@dataclass(frozen=True, kw_only=True)
class Interactions:
    """Settings of pair interactions; scores are the mean of a word's interactions in absolute size.

    ``top`` pairs are kept, strongest first; None keeps all d(d−1)/2.
    """

    index: Literal["shapley", "banzhaf"] = "shapley"
    tolerance: float = 1e-6
    top: int | None = 100

    def __post_init__(self) -> None:
        if self.index not in _PAIRS:
            raise InputError(f"index must be one of {', '.join(_PAIRS)}; got {self.index!r}.")
        if self.top is not None and self.top < 1:
            raise InputError(f"top must be at least 1; got {self.top}.")

    def __call__(self, reading: Reading) -> list[Scores]:
        """Score every pair of features by what the two do together beyond what each does alone."""
        need_logit(reading, "interactions")
        return [self._one(one) for one in reading.apart()]

    def _one(self, reading: Reading) -> Scores:
        found = _PAIRS[self.index](ratio_games(reading), tolerance=self.tolerance)
        matrix = found.scores[0, 0]
        rows, columns = np.triu_indices(len(matrix), k=1)
        order = np.argsort(-np.abs(matrix[rows, columns]), kind="stable")[: self.top]
        pairs = np.stack([rows[order], columns[order]], axis=1)
        return Scores(
            scores=np.abs(matrix).sum(axis=1) / (len(matrix) - 1),
            bound=float(found.bound[0, 0]),
            pairs=Pairs(features=pairs, scores=matrix[pairs[:, 0], pairs[:, 1]]),
        )


def need_logit(reading: Reading, method: str) -> None:
    """Refuse probabilities, on which no exact formula is known."""
    if reading.targets.output != "logit":
        raise InputError(
            f"method {method!r} is exact for logits only; ask for the logit, or use "
            "'lime-sampled', which samples probabilities."
        )


def head_scores(solve: Callable[[RatioGame], Any], games: RatioGame) -> Float[np.ndarray, "K n d"]:
    """Return the scores of every head's own game; their mean is the model's."""
    return np.stack([solve(of_heads(games, slice(i, i + 1))).scores[:, 0] for i in range(games.K)])


ROWS = (
    Method(
        id="loo",
        label="LOO",
        formula="f(text) − f(text without the word)",
        sees="what really happens when one word is replaced by UNK",
        blind="words that stand in for each other: each alone seems not to matter",
        cost="one forward pass, O(d)",
        explainer=LeaveOneOut,
        sampled=Removal,
    ),
    Method(
        id="shapley",
        label="Shapley",
        formula="∫₀¹ (E_p[f | word kept] − E_p[f | word removed]) dp",
        sees="the word's mean effect over all sets of other words; adds up to f − f(all UNK)",
        blind="which other words it needs (see interactions)",
        cost="milliseconds, exact to quadrature precision with a bound",
        explainer=partial(Semivalue, value="shapley"),
        sampled=SampledShapley,
    ),
    Method(
        id="banzhaf",
        label="Banzhaf",
        formula="E[f | word kept] − E[f | word removed], the others kept by fair coins",
        sees="the word's mean effect over all sets of other words, all alike",
        blind="sets far from half of the text; does not add up to f",
        cost="milliseconds, exact to quadrature precision with a bound",
        explainer=partial(Semivalue, value="banzhaf"),
    ),
    Method(
        id="interactions",
        label="Interactions",
        formula="mean of f(S∪ij) − f(S∪i) − f(S∪j) + f(S) over sets S",
        sees="which words need or replace each other",
        blind="what a word does alone; a word's score is the mean size of its interactions",
        cost="O(d²) per node, exact to quadrature precision with a bound",
        signed=False,
        explainer=Interactions,
    ),
)
