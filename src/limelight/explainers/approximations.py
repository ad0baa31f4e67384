"""Formulas that approximate LIME and Shapley values: first order, as printed, and mean field."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from limelight.errors import InputError
from limelight.explainers.method import Method, Way
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import need_logit
from limelight.results import Finding
from limelight.shapes import Array, Float
from limelight.theory.lime_first_order import first_order_bound, lime_first_order
from limelight.theory.mean_field import (
    lime_mean_field,
    lime_mean_field_bound,
    shapley_mean_field,
    shapley_mean_field_bound,
)
from limelight.theory.namespace import host_array
from limelight.theory.paper import lime_theorem, lime_theorem_bound
from limelight.theory.per_document import of_documents


@dataclass(frozen=True, kw_only=True)
class _MeantLime:
    """Which LIME a formula stands for; the scores do not depend on it, their bound does."""

    bandwidth: float = 0.25
    penalty: float = 0.0

    def __post_init__(self) -> None:
        if not self.bandwidth > 0:
            raise InputError(f"bandwidth must be positive; got {self.bandwidth}.")
        if not self.penalty >= 0:
            raise InputError(f"penalty must not be negative; got {self.penalty}.")


@final
@dataclass(frozen=True, kw_only=True)
class LimeTheorem(_MeantLime):
    """Settings of Eq. 19 as printed: which LIME its bound is about."""


@final
@dataclass(frozen=True, kw_only=True)
class LimeFirstOrder(_MeantLime):
    """Settings of the corrected first order: which LIME its bound is about."""


def _printed(settings: LimeTheorem, reading: Reading) -> list[Finding]:
    """Score every feature by Eq. 19, with its proven distance to LIME."""
    need_logit(reading, "lime-theorem")
    scores = lime_theorem(reading.ratio_game)
    return _first_order_findings(settings, reading, scores, lime_theorem_bound)


def _corrected(settings: LimeFirstOrder, reading: Reading) -> list[Finding]:
    """Score every feature by the corrected formula, with its proven distance to LIME."""
    need_logit(reading, "lime-first-order")
    scores = lime_first_order(reading.ratio_game)
    return _first_order_findings(settings, reading, scores, first_order_bound)


def _first_order_findings(
    settings: _MeantLime,
    reading: Reading,
    scores: Float[Array, "B 1 d"],
    bound_of: Callable[..., Float[Array, "B 1"]],
) -> list[Finding]:
    sizes = list(map(len, reading.features))
    bounds: list[float | None] = [None] * len(sizes)
    # LIME needs two words; a batch may hold a text of one.
    rows = [i for i, d in enumerate(sizes) if d > 1]
    if rows:
        games = of_documents(reading.ratio_game, rows)
        some = bound_of(games, bandwidth=settings.bandwidth, penalty=settings.penalty)
        for i, bound in zip(rows, host_array(some)[:, 0].tolist(), strict=True):
            bounds[i] = bound
    return [
        Finding(scores=row[0, :d], bound=bound, notices=(_distance(settings, bound),))
        for row, d, bound in zip(host_array(scores), sizes, bounds, strict=True)
    ]


def _distance(settings: _MeantLime, bound: float | None) -> str:
    """Say what is known of the distance to LIME."""
    if bound is None:
        return "A first-order formula for LIME, which is not defined for a single feature."
    said = f"with a penalty of {settings.penalty:g}" if settings.penalty else "without a penalty"
    return (
        "A first-order formula: the bound is on its distance to the limit of LIME at bandwidth "
        f"{settings.bandwidth:g}, {said}."
    )


_MEANT = {
    "bandwidth": "ν of the LIME that the bound is about",
    "penalty": "the ridge penalty of that LIME",
}

FIRST_ORDER = (
    Method(
        id="lime-theorem",
        label="LIME (Eq. 19)",
        formula="(3/2K) Σ_i Σ_t W_ℓ(α_t v_t − α_{h,t} v_{h,t}), as printed in Theorem 5.1",
        sees="attention × value against the same for UNK",
        blind="the common denominator; the constant 3/2 and the centring are off",
        cost="one forward pass",
        settings=LimeTheorem,
        ways=(Way(needs="collapses", exactness="exact", explain=_printed, settings=_MEANT),),
    ),
    Method(
        id="lime-first-order",
        label="LIME (1st order)",
        formula="(1/K) Σ_i Σ_t [α_t(u_t − f_i) − α_{h,t}(u_{h,t} − f_i)]",
        sees="LIME where no word holds much of the attention",
        blind="peaked attention, where first order is poor",
        cost="one forward pass",
        settings=LimeFirstOrder,
        ways=(Way(needs="collapses", exactness="exact", explain=_corrected, settings=_MEANT),),
    ),
)


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
    return _mean_field_findings(
        reading, scores, bounds, f"the limit of LIME at bandwidth {bandwidth:g}"
    )


def _shapley(_: ShapleyMeanField, reading: Reading) -> list[Finding]:
    need_logit(reading, "shapley-mean-field")
    game = reading.ratio_game
    scores, bounds = shapley_mean_field(game), shapley_mean_field_bound(game)
    return _mean_field_findings(reading, scores, bounds, "the Shapley value")


def _mean_field_findings(
    reading: Reading, scores: Float[Array, "B 1 d"], bounds: Float[Array, "B 1"], what: str
) -> list[Finding]:
    rows = zip(reading.features, host_array(scores), host_array(bounds)[:, 0].tolist(), strict=True)
    notice = f"A mean-field formula: the bound is on its distance to {what}."
    return [
        Finding(scores=row[0, : len(features)], bound=bound, notices=(notice,))
        for features, row, bound in rows
    ]


MEAN_FIELD = (
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

ROWS = (*FIRST_ORDER, *MEAN_FIELD)
