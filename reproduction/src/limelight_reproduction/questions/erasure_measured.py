"""Erase words in the order of an explanation, in two ways, until the decision changes."""

__all__ = ["ERASURES", "LEAST", "ORDERS", "measure", "zero_attention"]

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from limelight import AttentionClassifier, explain
from limelight.sampling.sample import Game
from limelight.shapes import Float, Int
from limelight_reproduction.document import list_texts
from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.intervals import mean_interval
from limelight_reproduction.one_layer.collapsed_texts import CollapsedTexts, collapse_texts
from limelight_reproduction.questions.removal_order import masks_along_order, words_to_flip
from limelight_reproduction.questions.summaries import read_out_norms
from limelight_reproduction.setting import Setting

TEXTS, QUICK_TEXTS, _CHUNK = 500, 60, 50
LEAST = 20  # reviews whose decision changes; fewer are too few for a mean
ERASURES = {"unk": "words replaced by UNK", "zero": "attention to words zeroed, renormalised"}
# The scores with a sign are those for the class that the model predicts.
ORDERS = {
    "alpha-avg": "α-avg",
    "alpha-max": "α-max",
    "read-out": "‖W_ℓ αv‖",
    "g-l1": "G-l1",
    "abs-gxi": "|G×I|",
    "abs-lime": "|LIME|",
    "gxi": "G×I",
    "lime": "LIME",
    "shapley": "Shapley values",
    "random": "random order",
}
SIGNED = ("gxi", "lime", "shapley")
Row = dict[tuple[str, str], tuple[float | None, float]]


def measure(setting: Setting, model: AttentionClassifier) -> Numbers:
    """Measure the share of words that each order must remove, and the effect of its first word."""
    texts = list_texts(
        setting.sample_texts("imdb", "test", QUICK_TEXTS if setting.quick else TEXTS)
    )
    rows: list[Row] = []
    rng = np.random.default_rng([setting.seed, 13])
    for start in range(0, len(texts), _CHUNK):
        setting.tick(start, len(texts))
        rows += erase_words(model, list(texts[start : start + _CHUNK]), rng)
    return summarize_rows(setting, rows)


def erase_words(
    model: AttentionClassifier, texts: list[str], rng: np.random.Generator
) -> list[Row]:
    """Erase the words of every text, in each way and each order.

    A row has, for every way and order, the share of the words that are removed until the decision
    changes (None if it never does), and how far the first word moves the margin.
    """
    collapsed = collapse_texts(model, texts)
    rows: list[Row] = []
    for index, orders in enumerate(_removal_orders(collapsed, texts, rng)):
        game = model.game(collapsed.inputs[index], collapsed.features[index], "unk")
        games: dict[str, Game] = {
            "unk": game,
            "zero": partial(zero_attention, collapsed, index),
        }
        rows.append({})
        for erasure in ERASURES:
            for name, order in orders.items():
                outputs = games[erasure](masks_along_order(order))
                steps = words_to_flip(outputs)
                share = None if steps is None else steps / len(order)
                rows[-1][erasure, name] = (share, _first_word_effect(outputs))
    return rows


def zero_attention(
    collapsed: CollapsedTexts, index: int, keep: np.ndarray
) -> Float[np.ndarray, "steps C"]:
    """Return the outputs of text ``index`` with the attention to removed words set to zero.

    Attention is renormalized: Σ_t α_t u_t/Σ_t α_t over the kept words, [cls] and padding.
    """
    feature = collapsed.arrays.position_features[index]
    alpha, u = collapsed.alpha[index], collapsed.arrays.u[index]
    # −1 (no feature) selects the last column.
    keep_position = np.hstack([keep, np.ones((len(keep), 1), bool)])[:, feature]
    weight = keep_position[:, None] * alpha
    return (np.einsum("skt,ckt->sck", weight, u) / weight.sum(axis=2)[:, None]).mean(axis=2)


def summarize_rows(setting: Setting, rows: Sequence[Row]) -> Numbers:
    """Summarize the rows over the reviews whose decision changes in every order."""
    summary: dict[str, Any] = {"texts": len(rows)}
    for erasure in ERASURES:
        share = {name: [row[erasure, name][0] for row in rows] for name in ORDERS}
        common = [
            index
            for index in range(len(rows))
            if all(share[name][index] is not None for name in ORDERS)
        ]
        first_effects = {name: np.array([row[erasure, name][1] for row in rows]) for name in ORDERS}
        common_shares = {
            name: np.array([share[name][index] for index in common], float) for name in ORDERS
        }
        summary[erasure] = {
            "flips": {name: np.mean([flip is not None for flip in share[name]]) for name in ORDERS},
            "common": len(common),
            "first": {
                name: mean_interval(effects.tolist(), seed=setting.seed)
                for name, effects in first_effects.items()
            },
            "beats": mean_interval(
                (first_effects["alpha-avg"] > first_effects["random"]).astype(float).tolist(),
                seed=setting.seed,
            ),
        }
        if len(common) < LEAST:
            continue
        summary[erasure] |= {
            "shares": {
                name: np.quantile(common_shares[name], [0.25, 0.5, 0.75]) for name in ORDERS
            },
            "fewer": {
                name: mean_interval(
                    (common_shares["alpha-avg"] - common_shares[name]).tolist(), seed=setting.seed
                )
                for name in ORDERS
            },
            "wins": mean_interval(
                (common_shares["gxi"] < common_shares["alpha-avg"]).astype(float).tolist(),
                seed=setting.seed,
            ),
        }
    return round_for_json(summary, digits=4)


def _first_word_effect(outputs: Float[np.ndarray, "steps C"]) -> float:
    """Return how far the margin of the decision moves when the first word goes."""
    margin = outputs[:2, -1] if outputs.shape[1] == 1 else outputs[:2, -1] - outputs[:2, 0]
    return float(abs(margin[0] - margin[1]))


def _removal_orders(
    collapsed: CollapsedTexts, texts: list[str], rng: np.random.Generator
) -> list[dict[str, Int[np.ndarray, " d"]]]:
    """Return for every text the order of each explanation, strongest word first."""
    model = collapsed.model
    outputs = model.logits(texts)
    positive = outputs[:, -1] > (outputs[:, 0] if outputs.shape[1] > 1 else 0)
    sign = np.where(positive, 1, -1)
    methods = ("alpha-avg", "alpha-max", "g-l1", "gxi", "lime", "shapley")
    options: dict[str, Any] = {"target": model.classes[-1], "scale": "score"}
    scores = {
        name: [explanation.scores for explanation in explain(model, texts, name, **options)]
        for name in methods
    } | {"read-out": read_out_norms(collapsed)}
    scores |= {f"abs-{name}": [abs(x) for x in scores[name]] for name in ("gxi", "lime")}
    all_orders = []
    for index in range(len(texts)):
        orders = {
            name: np.argsort(
                -(sign[index] * method_scores[index] if name in SIGNED else method_scores[index]),
                kind="stable",
            )
            for name, method_scores in scores.items()
        }
        all_orders.append(orders | {"random": rng.permutation(len(scores["lime"][index]))})
    return all_orders
