"""What the one-layer experiments look at: two models, and the sentence of Figure 1."""

__all__ = ["COLOURS", "MODELS", "SENTENCE", "TARGET", "paper_first"]

from collections.abc import Mapping

from limelight_reproduction.drawing import BLUE, VERMILLION
from limelight_reproduction.experiment import Numbers

# Names of the parts, and what readers call them.
MODELS = {"shipped": "shipped model", "paper": "paper's recipe"}
COLOURS = {"shipped": BLUE, "paper": VERMILLION}

SENTENCE = "attention based explanations are popular but questionable"
TARGET = "positive"


def paper_first(numbers: Mapping[str, Numbers]) -> list[tuple[str, Numbers]]:
    """Return both models and their numbers, the paper's before ours."""
    return [(part, numbers[part]) for part in ("paper", "shipped")]
