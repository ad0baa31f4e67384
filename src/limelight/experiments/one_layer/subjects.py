"""What the one-layer experiments look at: two models, and the sentence of Figure 1."""

__all__ = ["COLOURS", "MODELS", "SENTENCE", "TARGET"]

from limelight.experiments.drawing import BLUE, VERMILLION

# Names of the parts, and what readers call them.
MODELS = {"shipped": "shipped model", "paper": "paper's recipe"}
COLOURS = {"shipped": BLUE, "paper": VERMILLION}

SENTENCE = "attention based explanations are popular but questionable"
TARGET = "positive"
