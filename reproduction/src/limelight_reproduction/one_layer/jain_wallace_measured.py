"""Jain and Wallace's two tests, measured: rank correlations, and attention that is replaced."""

__all__ = ["MEASURES", "SENTENCE", "measured"]

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import kendalltau, spearmanr

from limelight import AttentionClassifier, explain
from limelight.shapes import Float
from limelight_reproduction.document import strings
from limelight_reproduction.experiment import Numbers, compact
from limelight_reproduction.one_layer.collapsed_texts import collapsed_texts
from limelight_reproduction.one_layer.counterfactual import (
    farthest,
    farthest_of_all,
    jensen_shannon,
    total_variation,
)
from limelight_reproduction.setting import Setting

MEASURES = ("gxi", "g-l1", "loo")
# The running example of the authors' talk.
SENTENCE = (
    "the selection on the menu is great and so is the food the service is not bad prices are fine"
)
TEXTS, _PERMUTATIONS = 500, 100
_CHUNK = 25  # texts at a time
_DIGITS = 4


def measured(setting: Setting, model: AttentionClassifier) -> Numbers:
    """Return both tests of ``model`` on test texts of IMDB."""
    texts = strings(setting.some_texts("imdb", "test", TEXTS))
    rng = np.random.default_rng([setting.seed, 19])
    correlations: list[Numbers] = []
    replaced: list[Numbers] = []
    for start in range(0, len(texts), _CHUNK):
        chunk = list(texts[start : start + _CHUNK])
        correlations += _correlations(model, chunk)
        replaced += [_replaced(*head, rng) for head in _text_attention(model, chunk)]
        setting.tick(start + len(chunk), len(texts))
    return {
        "texts": len(texts),
        "permutations": _PERMUTATIONS,
        "correlations": {
            name: compact(_column(correlations, name), _DIGITS) for name in correlations[0]
        },
        "replaced": {name: compact(_column(replaced, name), _DIGITS) for name in replaced[0]},
        "example": _example(model),
    }


def _column(rows: list[Numbers], name: str) -> list[Any]:
    return [row[name] for row in rows]


def _correlations(model: AttentionClassifier, texts: list[str]) -> Iterator[Numbers]:
    """Yield, for every text, the rank correlations of α-avg with each measure of importance.

    Tokens are compared one by one; what is explained is the probability, as in their tests.
    """
    scores = {
        method: explain(model, texts, method=method, features="positions", scale="probability")
        for method in ("alpha-avg", *MEASURES)
    }
    for i in range(len(texts)):
        row: Numbers = {}
        attention = scores["alpha-avg"][i].scores
        for method in MEASURES:
            importance = np.abs(scores[method][i].scores)
            tau = kendalltau(attention, importance)
            row |= {
                f"{method} tau": tau.statistic,
                f"{method} p": tau.pvalue,
                f"{method} rho": spearmanr(attention, importance).statistic,
            }
        yield row


def _text_attention(
    model: AttentionClassifier, texts: list[str]
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Yield attention and log-odds values of every head over the window, and the text's length."""
    seen = collapsed_texts(model, texts)
    every = seen.arrays.u
    u = every[:, -1] - (every[:, 0] if every.shape[1] > 1 else 0)
    for alpha, values, model_input in zip(seen.alpha, u, seen.inputs, strict=True):
        yield alpha, values, len(model_input.tokens)


def _replaced(
    alpha: Float[np.ndarray, "K T_max"],
    u: Float[np.ndarray, "K T_max"],
    T: int,
    rng: np.random.Generator,
) -> Numbers:
    """Return how far attention can go with the prediction unmoved, and what a shuffle moves."""
    text = slice(1, 1 + T)
    inside = alpha[:, text].sum(axis=1, keepdims=True)
    words, values = alpha[:, text] / inside, u[:, text]
    other = _each_head(farthest, words, values)
    window = _each_head(farthest, alpha, u)
    by_variation = _each_head(partial(farthest, divergence="total-variation"), words, values)
    anywhere = np.array([farthest_of_all(a) for a in words])
    average, other_average = ((inside * w).mean(axis=0) / inside.mean() for w in (words, other))
    whole = alpha.copy()
    whole[:, text] = inside * other
    return {
        "jsd": jensen_shannon(other, words).mean(),
        "jsd least head": jensen_shannon(other, words).min(),
        "jsd window": jensen_shannon(window, alpha).mean(),
        "jsd unconstrained": jensen_shannon(anywhere, words).mean(),
        "jsd of alpha-avg": jensen_shannon(other_average, average),
        "variation": total_variation(by_variation, words).mean(),
        "variation least head": total_variation(by_variation, words).min(),
        "top kept": bool(average.argmax() == other_average.argmax()),
        "moved": float(abs(_odds(whole, u) - _odds(alpha, u))),
        "text share": inside.mean(),
        "largest": average.max(),
        "shuffled": _shuffled(alpha, u, T, rng),
    }


def _each_head(of_head: Any, alpha: np.ndarray, u: np.ndarray) -> np.ndarray:
    return np.array([of_head(a, values) for a, values in zip(alpha, u, strict=True)])


def _odds(alpha: np.ndarray, u: np.ndarray) -> float:
    """Return the log-odds of the second class: the mean over heads of Σ_t α_t u_t."""
    return float((alpha * u).sum(axis=-1).mean())


def _shuffled(
    alpha: Float[np.ndarray, "K T_max"],
    u: Float[np.ndarray, "K T_max"],
    T: int,
    rng: np.random.Generator,
) -> float:
    """Return the median change of the probability when the words' attention is shuffled.

    Every head is shuffled alike, so that α-avg is shuffled too; [cls] and padding keep theirs.
    """
    order = np.array([rng.permutation(T) for _ in range(_PERMUTATIONS)])
    text, values = alpha[:, 1 : 1 + T], u[:, 1 : 1 + T]
    change = (text[:, order] * values[:, None]).sum(-1) - (text * values).sum(-1)[:, None]
    before = _odds(alpha, u)
    return float(np.median(np.abs(_sigmoid(before + change.mean(axis=0)) - _sigmoid(before))))


def _sigmoid(x: Any) -> Any:
    return (1 + np.tanh(x / 2)) / 2


def _example(model: AttentionClassifier) -> Numbers:
    """Return α-avg of the talk's sentence, before and after every head is replaced."""
    alpha, u, T = next(_text_attention(model, [SENTENCE]))
    text = slice(1, 1 + T)
    inside = alpha[:, text].sum(axis=1, keepdims=True)
    other = alpha.copy()
    other[:, text] = inside * _each_head(farthest, alpha[:, text] / inside, u[:, text])
    return {
        "words": list(model.read(SENTENCE).tokens.strings),
        "before": compact(alpha[:, text].mean(axis=0), _DIGITS),
        "after": compact(other[:, text].mean(axis=0), _DIGITS),
        "probability": compact(_sigmoid(_odds(alpha, u)), _DIGITS),
        "moved": abs(_odds(other, u) - _odds(alpha, u)),
    }
