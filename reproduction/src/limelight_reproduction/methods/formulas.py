"""The paper's formula for LIME, its correction, and LIME and Shapley values in the mean field.

Each has a proven bound on its distance to the value that it approximates.
"""

__all__ = ["LimeFirstOrder", "LimeMeanField", "LimeTheorem", "ShapleyMeanField"]

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, final

from limelight import DomainError
from limelight.explainers import (
    Attribution,
    Batch,
    Implementation,
    NotNegative,
    Positive,
    add_bounds,
    register_method,
)
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.mean_field import lime_mean_field, shapley_mean_field
from limelight_reproduction.theory.paper import lime_theorem
from limelight_reproduction.theory.second_order import (
    distance_bound,
    lime_distance_bound,
    shapley_second_order,
)

_MEAN_FIELD = "A mean-field formula: the bound is on its distance to {}."
_BANDWIDTH = "ν, the width of the kernel; 0.25 is the `lime` package's"
_BOUND_SETTINGS = {
    "bandwidth": "ν of the LIME that the bound is about",
    "penalty": "the ridge penalty of that LIME",
}


def _check_feature_counts(batch: Batch) -> None:
    """Raise an error for a text of one feature, for which the formulas are not defined."""
    if any(len(features) < 2 for features in batch.features):
        raise DomainError("a formula for LIME needs at least 2 features, unlike 'lime' itself.")


def _explain_to_first_order(
    settings: "LimeTheorem", batch: Batch, *, formula: Callable[..., Any]
) -> list[Attribution]:
    """Score every feature by a first-order formula, with its proven distance to LIME."""
    _check_feature_counts(batch)
    scores, nu, penalty = formula(batch.ratio_game), settings.bandwidth, settings.penalty
    bounds = lime_distance_bound(scores, batch.ratio_game, bandwidth=nu, penalty=penalty)
    warning = (
        "A first-order formula: the bound is on its distance to the limit of LIME at bandwidth "
        f"{nu:g} and penalty {penalty:g}."
    )
    return add_bounds(batch, scores, bounds, warning)


def _explain_lime_in_mean_field(settings: "LimeMeanField", batch: Batch) -> list[Attribution]:
    """Score every feature by LIME's mean field, with its proven distance to LIME."""
    game, nu = batch.ratio_game, settings.bandwidth
    _check_feature_counts(batch)
    warning = _MEAN_FIELD.format(f"the limit of LIME at bandwidth {nu:g}")
    scores = lime_mean_field(game, bandwidth=nu)
    return add_bounds(batch, scores, lime_distance_bound(scores, game, bandwidth=nu), warning)


def _explain_shapley_in_mean_field(_: "ShapleyMeanField", batch: Batch) -> list[Attribution]:
    """Score every feature by its mean-field Shapley value, with its proven distance to it."""
    scores = shapley_mean_field(batch.ratio_game)
    bounds = distance_bound(scores, shapley_second_order(batch.ratio_game))
    return add_bounds(batch, scores, bounds, _MEAN_FIELD.format("the Shapley value"))


def _implementations(
    explain: Callable[..., list[Attribution]], **meanings: str
) -> tuple[Implementation]:
    """Return the only implementation of a formula; ``meanings`` are those of its settings."""
    implementation = Implementation(
        needs="tables",
        exactness="exact",
        explain=explain,
        settings=meanings,
        logit_only=True,
    )
    return (implementation,)


@register_method(
    id="lime-theorem",
    label="LIME (Eq. 19)",
    formula="(3/2K) Σ_i Σ_t W_ℓ(α_t v_t − α_{h,t} v_{h,t}), as printed in Theorem 5.1",
    sees="attention × value against the same for UNK",
    blind="the common denominator; the constant 3/2 and the centring are off",
    cost="one forward pass",
    implementations=_implementations(
        partial(_explain_to_first_order, formula=lime_theorem), **_BOUND_SETTINGS
    ),
)
class LimeTheorem:
    """Settings of Eq. 19 as printed: which LIME its bound is about, not its scores."""

    bandwidth: Annotated[float, Positive] = 0.25
    penalty: Annotated[float, NotNegative] = 0.0


@register_method(
    id="lime-first-order",
    label="LIME (1st order)",
    formula="(1/K) Σ_i [A_j − B_j − f_i (a_j − b_j)]/D_i, f_i and D_i of the full text",
    sees="LIME where no word holds much of the attention",
    blind="peaked attention, where first order is poor",
    cost="one forward pass",
    implementations=_implementations(
        partial(_explain_to_first_order, formula=lime_first_order), **_BOUND_SETTINGS
    ),
)
class LimeFirstOrder(LimeTheorem):
    """Settings of the corrected first order: which LIME its bound is about, not its scores."""


@register_method(
    id="lime-mean-field",
    label="LIME (mean field)",
    formula="(A_j − B_j) ∫κ/D̄ − (a_j − b_j) ∫κN̄/D̄², κ ∝ ψ(x) x(1−x), and a common shift",
    sees="LIME where no word holds most of the attention, for any bandwidth",
    blind="which texts a word is kept in: each is taken for the mean text of its size",
    cost="one forward pass, O(d log d)",
    implementations=_implementations(_explain_lime_in_mean_field, bandwidth=_BANDWIDTH),
)
class LimeMeanField:
    """Settings of mean-field LIME."""

    bandwidth: Annotated[float, Positive] = 0.25


@final
@register_method(
    id="shapley-mean-field",
    label="Shapley (mean field)",
    formula="(A_j − B_j) ∫₀¹dx/D̄ − (a_j − b_j) ∫₀¹N̄ dx/D̄²",
    sees="Shapley values where no word holds most of the attention; adds up to how far all "
    "words together move the output",
    blind="which texts a word is kept in: each is taken for the mean text of its size",
    cost="one forward pass, O(d log d)",
    implementations=_implementations(_explain_shapley_in_mean_field),
)
class ShapleyMeanField:
    """Settings of mean-field Shapley values: none."""
