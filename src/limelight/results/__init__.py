"""What every method returns: explanations, comparisons, their JSON and tables."""

from limelight.results.citations import Citations
from limelight.results.comparison import Agreement, Comparison, measure_agreement, rank_correlation
from limelight.results.counterfactual import Counterfactual, Counterfactuals
from limelight.results.differences import Difference
from limelight.results.explanation import (
    Anchor,
    AnchorGuarantee,
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
    "AnchorGuarantee",
    "Attribution",
    "BoundKind",
    "Citations",
    "Comparison",
    "Counterfactual",
    "Counterfactuals",
    "Difference",
    "Explanation",
    "Explanations",
    "Pairs",
    "SpanExplanations",
    "measure_agreement",
    "rank_correlation",
]  # fmt: skip
