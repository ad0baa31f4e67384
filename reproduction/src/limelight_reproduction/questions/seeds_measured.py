"""Measure one training of a recipe: accuracy, shares, comments, and the heads.

Every training of every recipe is measured on the same test reviews. Numbers that are means or
medians over reviews have a 95 % interval over reviews.
"""

__all__ = [
    "ACCURACY",
    "HEADS",
    "METHODS",
    "ROOM",
    "SHARES",
    "mean_difference",
    "measure",
    "measure_heads",
    "measure_model",
]

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from limelight import AttentionClassifier, Judgment, evaluate, judge
from limelight.shapes import Float
from limelight_reproduction.document import list_texts
from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.intervals import Interval, mean_interval, median_interval
from limelight_reproduction.one_layer import comments
from limelight_reproduction.one_layer.collapsed_texts import collapse_texts
from limelight_reproduction.one_layer.comments_lime import attention_products
from limelight_reproduction.one_layer.figure_3 import head_statistics
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import correlation, wilson_interval

TEXTS, QUICK_TEXTS = 500, 40
QUICK_TEST = 1000
_CHUNK = 50
# Names of the measured numbers, with their names in the report.
ACCURACY = {"accuracy": "accuracy"}
METHODS = {
    "alpha-avg": "α-avg",
    "gxi": "G×I",
    "lime": "LIME",
    "shapley": "Shapley values",
}
SHARES = METHODS | {"greedy": "greedy order"}
ROOM = {"chance": "area of a random order", "ceiling": "area of the ceiling"}
HEADS = {
    "distance": "attention of two heads in different places",
    "attention": "1 − correlation of attention between two heads",
    "contribution": "1 − correlation of α u between two heads",
}


def measure(setting: Setting, *, recipe: str, seed: int) -> Numbers:
    """Train ``recipe`` with ``seed``, or load its model, and measure it."""
    return {"recipe": recipe, "seed": seed} | measure_model(
        setting, setting.train_recipe_model(seed, recipe)
    )


def measure_model(setting: Setting, model: AttentionClassifier) -> Numbers:
    """Measure accuracy, shares, the comments of Sections 4 and 5, and the heads of a model."""
    test = setting.texts("imdb", "test")
    if setting.quick:
        test = setting.sample_texts("imdb", "test", QUICK_TEST)
    texts = list_texts(
        setting.sample_texts("imdb", "test", QUICK_TEXTS if setting.quick else TEXTS)
    )
    accuracy = evaluate(model, test).accuracy
    judgment = judge(
        model, texts, list(METHODS), seed=setting.seed, columns=[], curves=False, progress=False
    )
    return round_for_json(
        {
            "test": len(test),
            "texts": len(texts),
            "values": {
                "accuracy": [accuracy, *wilson_interval(round(accuracy * len(test)), len(test))],
                **_shares(judgment),
                **_room(judgment, seed=setting.seed),
                **measure_heads(model, texts, seed=setting.seed),
            },
            "comments": comments.measure(setting, model),
        }
    )


def _shares(judgment: Judgment) -> dict[str, Interval]:
    """Return the shares of the methods and of the greedy order, with their intervals."""
    shares = {method.method: (method.share, method.interval) for method in judgment.methods}
    shares["greedy"] = judgment.greedy, judgment.greedy_interval
    return {
        name: [share, *interval]
        for name, (share, interval) in shares.items()
        if share is not None and interval is not None
    }


def _room(judgment: Judgment, *, seed: int) -> dict[str, Interval]:
    """Return the mean areas of a random order and of the ceiling, in units of the logit."""
    return {
        name: mean_interval([getattr(text, name) for text in judgment.texts], seed=seed)
        for name in ROOM
    }


def measure_heads(
    model: AttentionClassifier, texts: Sequence[str], *, seed: int
) -> dict[str, Interval]:
    """Measure how much the heads disagree.

    ``distance`` is the mean over reviews of the share of attention that two heads put in different
    places, as in Figure 3. ``attention`` is the median over reviews of 1 − r, where r is the mean
    over pairs of heads of the correlation over words between the attention of the two heads.
    ``contribution`` is the same with α u, what a head adds to the logit of the last class at a
    word.

    Parameters
    ----------
    model
        A classifier of at least two heads.
    texts
        The reviews.
    seed
        Seed of the intervals.

    Returns
    -------
    Each measure with its 95 % interval over reviews.
    """
    rows = list(_head_differences(model, texts))
    medians = {
        name: median_interval([row[name] for row in rows], seed=seed)
        for name in ("attention", "contribution")
    }
    distances = [statistics["distance"] for statistics in head_statistics(model, texts)]
    return {"distance": mean_interval(distances, seed=seed)} | medians


def _head_differences(
    model: AttentionClassifier, texts: Sequence[str]
) -> Iterator[Mapping[str, float | None]]:
    """Yield for each text the differences of the heads in attention and in α u."""
    for start in range(0, len(texts), _CHUNK):
        collapsed = collapse_texts(model, texts[start : start + _CHUNK])
        attention, contribution, _ = attention_products(collapsed.games)
        for i, features in enumerate(collapsed.features):
            d = len(features)
            yield {
                "attention": mean_difference(attention[i, :, :d]),
                "contribution": mean_difference(contribution[i, :, :d]),
            }


def mean_difference(scores: Float[np.ndarray, "K d"]) -> float | None:
    """Return 1 − r, where r is the mean correlation of two rows over all pairs of rows.

    Pairs with a constant row have no correlation. Without any correlation the result is None.
    """
    correlations = [correlation(a, b) for a, b in combinations(scores, 2)]
    defined = [r for r in correlations if r is not None]
    return 1 - float(np.mean(defined)) if defined else None
