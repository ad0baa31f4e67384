"""Token F1 and IOU F1 of predicted rationales, as the ERASER benchmark defines them.

DeYoung et al. 2020, "ERASER: A Benchmark to Evaluate Rationalized NLP Models", and the functions
``score_hard_rationale_predictions`` (macro) and ``partial_match_score`` (macro, threshold 0.5) of
its code. A rationale is predicted by taking the k strongest places, k being the share of the data
set that people mark times the length of the text.
"""

__all__ = ["Matches", "chosen_places", "f1", "matches", "runs_of", "token_f1"]

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from limelight.shapes import Bool, Float, Int
from limelight.text import Span

_OVERLAP = 0.5


class Matches(NamedTuple):
    """Which part of the predicted spans matches a marked one, and which part of those is found."""

    precision: float
    recall: float


def chosen_places(
    strength: Float[np.ndarray, " d"], word: Int[np.ndarray, " n"], k: int
) -> Bool[np.ndarray, " n"]:
    """Return the ``k`` places of strongest words; of equal ones those that come first."""
    chosen = np.zeros(len(word), bool)
    chosen[np.argsort(-strength[word], kind="stable")[:k]] = True
    return chosen


def runs_of(chosen: Bool[np.ndarray, " n"]) -> list[Span]:
    """Return neighbouring places as spans, first and last + 1."""
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def matches(predicted: Sequence[Span], marked: Sequence[Span]) -> Matches:
    """Return how many spans match: their overlap is at least half of their union.

    As in ERASER's code a predicted span is counted once, whichever marked span it matches, and the
    count is divided by the number of predicted and of marked spans.
    """
    count = sum(any(_iou(one, other) >= _OVERLAP for other in marked) for one in predicted)
    return Matches(
        precision=count / len(predicted) if predicted else 0.0,
        recall=count / len(marked) if marked else 0.0,
    )


def _iou(a: Span, b: Span) -> float:
    both = max(0, min(a[1], b[1]) - max(a[0], b[0]))
    return both / (a[1] - a[0] + b[1] - b[0] - both)


def token_f1(found: int | float, *, predicted: int, marked: int) -> float:
    """Return F1 of places: 2 found/(predicted + marked), linear in what is found.

    So its expectation over ties and over guesses follows from that of ``found``.
    """
    return 2 * found / (predicted + marked)


def f1(precision: float, recall: float) -> float:
    """Return the harmonic mean; of IOU's precision and recall ERASER takes it after averaging."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
