"""What every method returns: explanations, comparisons, their JSON and tables."""

from limelight.results.comparison import Agreement, Comparison, measure_agreement, rank_correlation
from limelight.results.counterfactual import Counterfactual, Counterfactuals
from limelight.results.explanation import (
    Anchor,
    Attribution,
    BoundKind,
    Explanation,
    Explanations,
    Pairs,
    SpanExplanations,
)

__all__ = [
    "Agreement",
    "Anchor",
    "Attribution",
    "BoundKind",
    "Comparison",
    "Counterfactual",
    "Counterfactuals",
    "Explanation",
    "Explanations",
    "Pairs",
    "SpanExplanations",
    "measure_agreement",
    "rank_correlation",
]  # fmt: skip
