"""What every method returns: explanations, comparisons, their JSON and tables."""

from limelight.results.comparison import Agreement, Comparison, agreement, rank_correlation
from limelight.results.explanation import (
    Anchor,
    BoundKind,
    Explanation,
    Explanations,
    Finding,
    Pairs,
    SpanExplanations,
)

__all__ = [
    "Agreement", "Anchor", "BoundKind", "Comparison", "Explanation", "Explanations", "Finding",
    "Pairs", "SpanExplanations", "agreement", "rank_correlation",
]  # fmt: skip
