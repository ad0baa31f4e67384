"""Decisions: the features whose removal changes a prediction."""

from limelight.decisions.counterfactual import (
    CounterfactualSettings,
    find_counterfactuals,
    stream_counterfactuals,
)

__all__ = ["CounterfactualSettings", "find_counterfactuals", "stream_counterfactuals"]
