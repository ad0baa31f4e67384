"""Decisions: the features whose removal changes a prediction."""

from limelight.decisions.counterfactual import (
    DEFAULT_CALLS,
    CounterfactualSettings,
    check_decision,
    find_counterfactuals,
    stream_counterfactuals,
)

__all__ = [
    "DEFAULT_CALLS",
    "CounterfactualSettings",
    "check_decision",
    "find_counterfactuals",
    "stream_counterfactuals",
]
