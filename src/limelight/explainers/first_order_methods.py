"""First-order formulas for LIME: as printed in the paper, and corrected."""

__all__ = ["ROWS", "LimeFirstOrder", "LimeTheorem"]

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from limelight.explainers.exact_games import need_logit
from limelight.explainers.method import Method, Way
from limelight.explainers.reading import Reading
from limelight.results import Finding
from limelight.theory.lime_first_order import lime_first_order
from limelight.theory.namespace import host_array
from limelight.theory.paper.lime_theorem import lime_theorem
from limelight.theory.ratio_game import RatioGame


@final
@dataclass(frozen=True, kw_only=True)
class LimeTheorem:
    """Settings of Eq. 19: none."""


@final
@dataclass(frozen=True, kw_only=True)
class LimeFirstOrder:
    """Settings of the corrected first order: none."""


def _by_formula(
    _: LimeTheorem | LimeFirstOrder,
    reading: Reading,
    *,
    name: str,
    formula: Callable[[RatioGame], np.ndarray],
) -> list[Finding]:
    """Score every feature by the formula; how far it is from LIME is not known here."""
    need_logit(reading, name)
    scores = host_array(formula(reading.ratio_game))
    return [
        Finding(
            scores=scores[i, 0, : len(features)],
            notices=("A first-order formula: its distance to LIME is not bounded.",),
        )
        for i, features in enumerate(reading.features)
    ]


def _ways(name: str, formula: Callable[[RatioGame], np.ndarray]) -> tuple[Way, ...]:
    explain = partial(_by_formula, name=name, formula=formula)
    return (Way(needs="collapses", exactness="exact", explain=explain),)


ROWS = (
    Method(
        id="lime-theorem",
        label="LIME (Eq. 19)",
        formula="(3/2K) Σ_i Σ_t W_ℓ(α_t v_t − α_{h,t} v_{h,t}), as printed in Theorem 5.1",
        sees="attention × value against the same for UNK",
        blind="the common denominator; the constant 3/2 and the centring are off",
        cost="one forward pass",
        settings=LimeTheorem,
        ways=_ways("lime-theorem", lime_theorem),
    ),
    Method(
        id="lime-first-order",
        label="LIME (1st order)",
        formula="(1/K) Σ_i Σ_t [α_t(u_t − f_i) − α_{h,t}(u_{h,t} − f_i)]",
        sees="LIME where no word holds much of the attention",
        blind="peaked attention, where first order is poor",
        cost="one forward pass",
        settings=LimeFirstOrder,
        ways=_ways("lime-first-order", lime_first_order),
    ),
)
