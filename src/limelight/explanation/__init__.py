"""What every method returns: explanations, comparisons, their JSON and tables."""

from limelight.explanation.agreement import Agreement, agreement, rank_correlation
from limelight.explanation.comparison import Comparison
from limelight.explanation.explanation import Anchor, Explanation, Pairs

__all__ = [
    "Agreement",
    "Anchor",
    "Comparison",
    "Explanation",
    "Pairs",
    "agreement",
    "rank_correlation",
]
