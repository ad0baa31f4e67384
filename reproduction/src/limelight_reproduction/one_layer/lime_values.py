"""LIME of the paper's classifier, from Eq. 19 to what the `lime` package returns, step by step."""

__all__ = ["EXACT", "SAMPLES", "exact_values", "lime_runs"]

import math
from collections.abc import Iterator, Sequence

import numpy as np

from limelight import AttentionClassifier, explain
from limelight.shapes import Float
from limelight.text import token_strings
from limelight.theory.lime import lime
from limelight_reproduction.one_layer.collapsed_texts import collapsed_texts
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.paper import lime_theorem

# Each is one change away from the next; all replace removed words by UNK and none samples.
EXACT = ("eq19", "first_order", "wide", "exact")
SAMPLES = 5000
_CHUNK = 64  # texts at a time
_TOLERANCE = 1e-5


def exact_values(
    model: AttentionClassifier, texts: Sequence[str]
) -> Iterator[tuple[int, dict[str, Float[np.ndarray, " d"]]]]:
    """Yield the number of each text and its LIME coefficients: Eq. 19 as printed, its corrected
    form, the limit for infinite bandwidth, and the limit for LIME's bandwidth 0.25.

    The output is the logit of the last class. Texts with fewer than two distinct words have no
    LIME and are left out. Short texts come first: games of like size are solved together.
    """
    distinct = [len(set(token_strings(text)[: model.T_max - 1])) for text in texts]
    order = [i for i in np.argsort(distinct, kind="stable").tolist() if distinct[i] > 1]
    for start in range(0, len(order), _CHUNK):
        rows = order[start : start + _CHUNK]
        games = collapsed_texts(model, [texts[i] for i in rows]).games
        found = {
            "eq19": lime_theorem(games),
            "first_order": lime_first_order(games),
            "wide": lime(games, bandwidth=math.inf, tolerance=_TOLERANCE).scores,
            "exact": lime(games, tolerance=_TOLERANCE).scores,
        }
        for place, i in enumerate(rows):
            yield i, {name: found[name][place, 0, : distinct[i]] for name in EXACT}


def lime_runs(
    model: AttentionClassifier,
    text: str,
    *,
    runs: int,
    replacement: str,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Float[np.ndarray, "runs d"]:
    """Return runs of LIME as the `lime` package computes it with all features and ridge 1.

    "delete" is what the package does by default (bow=True): removed words vanish and those after
    them move up. No two seeds share a run.
    """
    found = [
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
    return np.array(found)
