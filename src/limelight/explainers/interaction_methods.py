"""Pair interactions."""

__all__ = ["ROWS", "Interactions"]

from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.exact_games import need_logit
from limelight.explainers.method import Method, Way
from limelight.explainers.reading import Reading
from limelight.results import Finding, Pairs
from limelight.theory.interactions import banzhaf_interactions, shapley_interactions
from limelight.theory.namespace import host_array

_PAIRS = {"shapley": shapley_interactions, "banzhaf": banzhaf_interactions}


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
                    "index": 'weights of the sets S: "shapley" or "banzhaf"',
                    "tolerance": "largest error of a score, relative to the range of f",
                    "top": "pairs that are kept, strongest first; None keeps all d(d−1)/2",
                },
            ),
        ),
    ),
)
