"""Mean-field LIME and Shapley: every word acts on the mean text of its size."""

__all__ = ["ROWS", "LimeMeanField", "ShapleyMeanField"]

from dataclasses import dataclass
from typing import final

from limelight.errors import InputError
from limelight.explainers.exact_games import need_logit
from limelight.explainers.method import Method, Way
from limelight.explainers.reading import Reading
from limelight.results import Finding
from limelight.shapes import Array, Float
from limelight.theory.mean_field import (
    lime_mean_field,
    lime_mean_field_bound,
    shapley_mean_field,
    shapley_mean_field_bound,
)
from limelight.theory.namespace import host_array


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
    game, bandwidth = reading.ratio_game, settings.bandwidth
    scores = lime_mean_field(game, bandwidth=bandwidth)
    bounds = lime_mean_field_bound(game, bandwidth=bandwidth)
    return _findings(reading, scores, bounds, f"the limit of LIME at bandwidth {bandwidth:g}")


def _shapley(_: ShapleyMeanField, reading: Reading) -> list[Finding]:
    need_logit(reading, "shapley-mean-field")
    game = reading.ratio_game
    scores, bounds = shapley_mean_field(game), shapley_mean_field_bound(game)
    return _findings(reading, scores, bounds, "the Shapley value")


def _findings(
    reading: Reading, scores: Float[Array, "B 1 d"], bounds: Float[Array, "B 1"], what: str
) -> list[Finding]:
    rows = zip(reading.features, host_array(scores), host_array(bounds)[:, 0].tolist(), strict=True)
    notice = f"A mean-field formula: the bound is on its distance to {what}."
    return [
        Finding(scores=row[0, : len(features)], bound=bound, notices=(notice,))
        for features, row, bound in rows
    ]


ROWS = (
    Method(
        id="lime-mean-field",
        label="LIME (mean field)",
        formula="(A_j − B_j) ∫κ/D̄ − (a_j − b_j) ∫κN̄/D̄², κ ∝ ψ(x) x(1−x), and a common shift",
        sees="LIME where no word holds most of the attention, for any bandwidth",
        blind="which texts a word is kept in: each is taken for the mean text of its size",
        cost="one forward pass, O(d log d)",
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
        cost="one forward pass, O(d log d)",
        settings=ShapleyMeanField,
        ways=(Way(needs="collapses", exactness="exact", explain=_shapley),),
    ),
)
