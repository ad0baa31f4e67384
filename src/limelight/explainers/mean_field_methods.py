"""Mean-field LIME and Shapley: every word acts on the mean text of its size."""

__all__ = ["ROWS", "LimeMeanField", "ShapleyMeanField"]

from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.exact_games import need_logit
from limelight.explainers.method import Method, Way
from limelight.explainers.reading import Reading
from limelight.results import Finding
from limelight.theory.mean_field import lime_mean_field, shapley_mean_field
from limelight.theory.namespace import host_array

_NO_BOUND = "A mean-field formula: its distance to {} is not bounded."


@final
@dataclass(frozen=True, kw_only=True)
class LimeMeanField:
    """Settings of mean-field LIME."""

    bandwidth: float = 0.25

    def __post_init__(self) -> None:
        if not self.bandwidth > 0:
            raise InputError(f"bandwidth must be positive; got {self.bandwidth}.")


@final
@dataclass(frozen=True, kw_only=True)
class ShapleyMeanField:
    """Settings of mean-field Shapley values: none."""


def _lime(settings: LimeMeanField, reading: Reading) -> list[Finding]:
    need_logit(reading, "lime-mean-field")
    found = lime_mean_field(reading.ratio_game, bandwidth=settings.bandwidth)
    return _findings(reading, host_array(found), "LIME")


def _shapley(_: ShapleyMeanField, reading: Reading) -> list[Finding]:
    need_logit(reading, "shapley-mean-field")
    found = shapley_mean_field(reading.ratio_game)
    return _findings(reading, host_array(found), "the Shapley values")


def _findings(reading: Reading, scores: np.ndarray, what: str) -> list[Finding]:
    return [
        Finding(scores=scores[i, 0, : len(features)], notices=(_NO_BOUND.format(what),))
        for i, features in enumerate(reading.features)
    ]


ROWS = (
    Method(
        id="lime-mean-field",
        label="LIME (mean field)",
        formula="(A_j − B_j) ∫κ/D̄ − (a_j − b_j) ∫κN̄/D̄², κ ∝ ψ(x) x(1−x), and a common shift",
        sees="LIME where no word holds most of the attention, for any bandwidth",
        blind="which texts a word is kept in: each is taken for the mean text of its size",
        cost="one forward pass, O(d)",
        settings=LimeMeanField,
        ways=(
            Way(
                needs="collapses",
                exactness="exact",
                explain=_lime,
                settings={"bandwidth": "ν, the width of the kernel; 0.25 is the `lime` package's"},
            ),
        ),
    ),
    Method(
        id="shapley-mean-field",
        label="Shapley (mean field)",
        formula="(A_j − B_j) ∫₀¹dx/D̄ − (a_j − b_j) ∫₀¹N̄ dx/D̄²",
        sees="Shapley values where no word holds most of the attention; adds up to f − f(all UNK)",
        blind="which texts a word is kept in: each is taken for the mean text of its size",
        cost="one forward pass, O(d)",
        settings=ShapleyMeanField,
        ways=(Way(needs="collapses", exactness="exact", explain=_shapley),),
    ),
)
