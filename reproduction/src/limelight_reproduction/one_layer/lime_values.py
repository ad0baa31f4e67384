"""LIME of the paper's classifier: Eq. 19, its corrections, exact values, and sampled runs."""

__all__ = ["SAMPLES", "UNSAMPLED", "compute_unsampled_values", "run_lime"]

import math
from collections.abc import Iterator, Sequence

import numpy as np

from limelight import AttentionClassifier, explain
from limelight.shapes import Float
from limelight.text import token_strings
from limelight.theory.lime import lime
from limelight_reproduction.one_layer.collapsed_texts import collapse_texts
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.paper import lime_theorem

# Each value differs from the next by one change. All replace removed words by UNK.
UNSAMPLED = ("eq19", "first_order", "wide", "exact")
SAMPLES = 5000
_CHUNK = 64  # texts at a time
_TOLERANCE = 1e-5


def compute_unsampled_values(
    model: AttentionClassifier, texts: Sequence[str]
) -> Iterator[tuple[int, dict[str, Float[np.ndarray, " d"]]]]:
    """Compute LIME coefficients without sampling, and yield them with the number of each text.

    The values are Eq. 19 as printed, its corrected form, the limit for infinite bandwidth, and the
    limit for LIME's bandwidth 0.25. The output is the logit of the last class. Texts with fewer
    than two distinct words have no LIME and are skipped. Short texts come first, because games of
    similar size are solved together.
    """
    word_counts = [len(set(token_strings(text)[: model.T_max - 1])) for text in texts]
    order = [i for i in np.argsort(word_counts, kind="stable").tolist() if word_counts[i] > 1]
    for start in range(0, len(order), _CHUNK):
        numbers = order[start : start + _CHUNK]
        games = collapse_texts(model, [texts[i] for i in numbers]).games
        scores = {
            "eq19": lime_theorem(games),
            "first_order": lime_first_order(games),
            "wide": lime(games, bandwidth=math.inf, tolerance=_TOLERANCE).scores,
            "exact": lime(games, tolerance=_TOLERANCE).scores,
        }
        for row, i in enumerate(numbers):
            yield i, {name: scores[name][row, 0, : word_counts[i]] for name in UNSAMPLED}


def run_lime(
    model: AttentionClassifier,
    text: str,
    *,
    runs: int,
    replacement: str,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Float[np.ndarray, "runs d"]:
    """Run LIME several times, as the `lime` package does with all features and ridge 1.

    Parameters
    ----------
    model
        The classifier to explain.
    text
        The text to explain.
    runs
        Number of runs.
    replacement
        Replacement of removed words. With "delete", the default of the package (bow=True), the
        words after a removed word move up.
    samples
        Number of masks per run.
    seed
        Seed of the runs. Different seeds have no run in common.

    Returns
    -------
    Coefficients of the distinct words, one row per run.
    """
    scores = [
        explain(
            model,
            text,
            "lime-sampled",
            target=model.classes[-1],
            scale="score",
            replacement=replacement,
            samples=samples,
            seed=seed * runs + run,
        ).scores
        for run in range(runs)
    ]
    return np.array(scores)
