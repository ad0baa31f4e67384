"""The two models of the one-layer experiments, and the sentence of Figure 1."""

__all__ = ["COLORS", "MODELS", "SENTENCE", "TARGET", "order_paper_first"]

from collections.abc import Mapping

from limelight_reproduction.drawing import BLUE, VERMILLION
from limelight_reproduction.experiment import Numbers

# Names of the parts, with their names in the report.
MODELS = {"shipped": "shipped model", "paper": "paper's recipe"}
COLORS = {"shipped": BLUE, "paper": VERMILLION}

SENTENCE = "attention based explanations are popular but questionable"
TARGET = "positive"


def order_paper_first(numbers: Mapping[str, Numbers]) -> list[tuple[str, Numbers]]:
    """Return the names and numbers of both models, the paper's recipe first."""
    return [(part, numbers[part]) for part in ("paper", "shipped")]
