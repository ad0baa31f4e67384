"""What every method returns: explanations, comparisons, their JSON and tables."""

from limelight.results.agreement import Agreement, agreement, rank_correlation
from limelight.results.comparison import Comparison
from limelight.results.explanation import Explanation
from limelight.results.finding import Anchor, Finding, Pairs
from limelight.results.several import Explanations

__all__ = [
    "Agreement",
    "Anchor",
    "Comparison",
    "Explanation",
    "Explanations",
    "Finding",
    "Pairs",
    "agreement",
    "rank_correlation",
]
