"""Measure Jain and Wallace's two tests: rank correlations and counterfactual attention."""

__all__ = ["MEASURES", "SENTENCE", "measure"]

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import kendalltau, spearmanr

from limelight import AttentionClassifier, explain
from limelight.shapes import Float
from limelight_reproduction.document import list_texts
from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.one_layer.collapsed_texts import collapse_texts
from limelight_reproduction.one_layer.counterfactual import (
    farthest_weights,
    jensen_shannon,
    total_variation,
    unconstrained_farthest_weights,
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


def measure(setting: Setting, model: AttentionClassifier) -> Numbers:
    """Run both tests on a classifier with test texts of IMDB."""
    texts = list_texts(setting.sample_texts("imdb", "test", TEXTS))
    rng = np.random.default_rng([setting.seed, 19])
    correlations: list[Numbers] = []
    replacements: list[Numbers] = []
    for start in range(0, len(texts), _CHUNK):
        chunk = list(texts[start : start + _CHUNK])
        correlations += _correlations(model, chunk)
        replacements += [
            _measure_replacement(*head, rng) for head in _attention_and_values(model, chunk)
        ]
        setting.tick(start + len(chunk), len(texts))
    return {
        "texts": len(texts),
        "permutations": _PERMUTATIONS,
        "correlations": {
            name: round_for_json(_column(correlations, name), _DIGITS) for name in correlations[0]
        },
        "replaced": {
            name: round_for_json(_column(replacements, name), _DIGITS) for name in replacements[0]
        },
        "example": _measure_example(model),
    }


def _column(rows: list[Numbers], name: str) -> list[Any]:
    return [row[name] for row in rows]


def _correlations(model: AttentionClassifier, texts: list[str]) -> Iterator[Numbers]:
    """Yield the rank correlations of α-avg with each measure of importance, for every text.

    As in the original tests, features are single tokens and the target is the probability.
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


def _attention_and_values(
    model: AttentionClassifier, texts: list[str]
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Yield each text's attention and log-odds values over the window, and its number of tokens."""
    collapsed = collapse_texts(model, texts)
    class_values = collapsed.arrays.u
    u = class_values[:, -1] - (class_values[:, 0] if class_values.shape[1] > 1 else 0)
    for alpha, values, model_input in zip(collapsed.alpha, u, collapsed.inputs, strict=True):
        yield alpha, values, len(model_input.tokens)


def _measure_replacement(
    alpha: Float[np.ndarray, "K T_max"],
    u: Float[np.ndarray, "K T_max"],
    T: int,
    rng: np.random.Generator,
) -> Numbers:
    """Measure the farthest attention with the same prediction, and the effect of shuffles."""
    text = slice(1, 1 + T)
    text_share = alpha[:, text].sum(axis=1, keepdims=True)
    word_alpha, values = alpha[:, text] / text_share, u[:, text]
    counterfactual = _solve_heads(farthest_weights, word_alpha, values)
    window_counterfactual = _solve_heads(farthest_weights, alpha, u)
    variation_counterfactual = _solve_heads(
        partial(farthest_weights, divergence="total-variation"), word_alpha, values
    )
    unconstrained = np.array(
        [unconstrained_farthest_weights(head_alpha) for head_alpha in word_alpha]
    )
    mean_attention, counterfactual_mean = (
        (text_share * alphas).mean(axis=0) / text_share.mean()
        for alphas in (word_alpha, counterfactual)
    )
    changed = alpha.copy()
    changed[:, text] = text_share * counterfactual
    return {
        "jsd": jensen_shannon(counterfactual, word_alpha).mean(),
        "jsd least head": jensen_shannon(counterfactual, word_alpha).min(),
        "jsd window": jensen_shannon(window_counterfactual, alpha).mean(),
        "jsd unconstrained": jensen_shannon(unconstrained, word_alpha).mean(),
        "jsd of alpha-avg": jensen_shannon(counterfactual_mean, mean_attention),
        "variation": total_variation(variation_counterfactual, word_alpha).mean(),
        "variation least head": total_variation(variation_counterfactual, word_alpha).min(),
        "top kept": bool(mean_attention.argmax() == counterfactual_mean.argmax()),
        "moved": float(abs(_log_odds(changed, u) - _log_odds(alpha, u))),
        "text share": text_share.mean(),
        "largest": mean_attention.max(),
        "shuffled": _median_shuffle_effect(alpha, u, T, rng),
    }


def _solve_heads(solve: Any, alpha: np.ndarray, u: np.ndarray) -> np.ndarray:
    return np.array(
        [solve(head_alpha, values) for head_alpha, values in zip(alpha, u, strict=True)]
    )


def _log_odds(alpha: np.ndarray, u: np.ndarray) -> float:
    """Return the log-odds of the second class, which is the mean over heads of Σ_t α_t u_t."""
    return float((alpha * u).sum(axis=-1).mean())


def _median_shuffle_effect(
    alpha: Float[np.ndarray, "K T_max"],
    u: Float[np.ndarray, "K T_max"],
    T: int,
    rng: np.random.Generator,
) -> float:
    """Return the median change of the probability if the attention of the words is shuffled.

    All heads are shuffled in the same order, so α-avg is shuffled, too. The attention of [cls] and
    padding stays.
    """
    order = np.array([rng.permutation(T) for _ in range(_PERMUTATIONS)])
    text, values = alpha[:, 1 : 1 + T], u[:, 1 : 1 + T]
    change = (text[:, order] * values[:, None]).sum(-1) - (text * values).sum(-1)[:, None]
    before = _log_odds(alpha, u)
    return float(np.median(np.abs(_sigmoid(before + change.mean(axis=0)) - _sigmoid(before))))


def _sigmoid(x: Any) -> Any:
    return (1 + np.tanh(x / 2)) / 2


def _measure_example(model: AttentionClassifier) -> Numbers:
    """Measure α-avg of the example sentence before and after replacing every head's attention."""
    alpha, u, T = next(_attention_and_values(model, [SENTENCE]))
    text = slice(1, 1 + T)
    text_share = alpha[:, text].sum(axis=1, keepdims=True)
    changed = alpha.copy()
    changed[:, text] = text_share * _solve_heads(
        farthest_weights, alpha[:, text] / text_share, u[:, text]
    )
    return {
        "words": list(model.read(SENTENCE).tokens.strings),
        "before": round_for_json(alpha[:, text].mean(axis=0), _DIGITS),
        "after": round_for_json(changed[:, text].mean(axis=0), _DIGITS),
        "probability": round_for_json(_sigmoid(_log_odds(alpha, u)), _DIGITS),
        "moved": abs(_log_odds(changed, u) - _log_odds(alpha, u)),
    }
