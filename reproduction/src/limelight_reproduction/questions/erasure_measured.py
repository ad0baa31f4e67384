"""Erasing words in the order of an explanation, in two ways, until the decision changes."""

__all__ = ["ERASURES", "LEAST", "ORDERS", "measure", "zeroed"]

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from limelight import AttentionClassifier, explain
from limelight.sampling.sample import Game
from limelight.shapes import Float, Int
from limelight_reproduction.document import strings
from limelight_reproduction.experiment import Numbers, compact
from limelight_reproduction.intervals import mean_interval
from limelight_reproduction.one_layer.collapsed_texts import CollapsedTexts, collapsed_texts
from limelight_reproduction.questions.removal_order import kept_along, words_to_flip
from limelight_reproduction.questions.summaries import norm_based
from limelight_reproduction.setting import Setting

TEXTS, QUICK_TEXTS, _CHUNK = 500, 60, 50
LEAST = 20  # reviews whose decision changes; fewer say nothing
ERASURES = {"unk": "words replaced by UNK", "zero": "attention to words zeroed, renormalised"}
# The explanations with a sign are read for the class that the model gives.
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
    """Return the share of words that each order must remove, and what the first one does."""
    texts = strings(setting.some_texts("imdb", "test", QUICK_TEXTS if setting.quick else TEXTS))
    rows: list[Row] = []
    rng = np.random.default_rng([setting.seed, 13])
    for start in range(0, len(texts), _CHUNK):
        setting.tick(start, len(texts))
        rows += rows_of(model, list(texts[start : start + _CHUNK]), rng)
    return summary(setting, rows)


def rows_of(model: AttentionClassifier, texts: list[str], rng: np.random.Generator) -> list[Row]:
    """Return for every text, way of erasing and order: words until the decision changes, if it
    does, as a share of all; and how far the first word moves the margin.
    """
    seen = collapsed_texts(model, texts)
    rows: list[Row] = []
    for i, orders in enumerate(_orders(seen, texts, rng)):
        play = model.game(seen.inputs[i], seen.features[i], "unk")
        erase: dict[str, Game] = {
            "unk": play,
            "zero": partial(zeroed, seen, i),
        }
        rows.append({})
        for how in ERASURES:
            for name, order in orders.items():
                outputs = erase[how](kept_along(order))
                steps = words_to_flip(outputs)
                share = None if steps is None else steps / len(order)
                rows[-1][how, name] = (share, _moved(outputs))
    return rows


def zeroed(seen: CollapsedTexts, i: int, kept: np.ndarray) -> Float[np.ndarray, "steps C"]:
    """Return the outputs of text ``i`` where attention to words that are not ``kept`` is zero.

    The rest is renormalised: Σ_t α_t u_t/Σ_t α_t over what is left, [cls] and padding among it.
    """
    feature = seen.arrays.position_features[i]
    alpha, u = seen.alpha[i], seen.arrays.u[i]
    stays = np.hstack([kept, np.ones((len(kept), 1), bool)])[:, feature]  # no feature: −1, the last
    weight = stays[:, None] * alpha
    return (np.einsum("skt,ckt->sck", weight, u) / weight.sum(axis=2)[:, None]).mean(axis=2)


def summary(setting: Setting, rows: Sequence[Row]) -> Numbers:
    """Return what the orders need, over reviews whose decision changes in every one of them."""
    found: dict[str, Any] = {"texts": len(rows)}
    for how in ERASURES:
        share = {name: [row[how, name][0] for row in rows] for name in ORDERS}
        common = [i for i in range(len(rows)) if all(share[name][i] is not None for name in ORDERS)]
        first = {name: np.array([row[how, name][1] for row in rows]) for name in ORDERS}
        at = {name: np.array([share[name][i] for i in common], float) for name in ORDERS}
        found[how] = {
            "flips": {name: np.mean([x is not None for x in share[name]]) for name in ORDERS},
            "common": len(common),
            "first": {
                name: mean_interval(x.tolist(), seed=setting.seed) for name, x in first.items()
            },
            "beats": mean_interval(
                (first["alpha-avg"] > first["random"]).astype(float).tolist(), seed=setting.seed
            ),
        }
        if len(common) < LEAST:
            continue
        found[how] |= {
            "shares": {name: np.quantile(at[name], [0.25, 0.5, 0.75]) for name in ORDERS},
            "fewer": {
                name: mean_interval((at["alpha-avg"] - at[name]).tolist(), seed=setting.seed)
                for name in ORDERS
            },
            "wins": mean_interval(
                (at["gxi"] < at["alpha-avg"]).astype(float).tolist(), seed=setting.seed
            ),
        }
    return compact(found, digits=4)


def _moved(outputs: Float[np.ndarray, "steps C"]) -> float:
    """Return how far the margin of the decision moves when the first word goes."""
    margin = outputs[:2, -1] if outputs.shape[1] == 1 else outputs[:2, -1] - outputs[:2, 0]
    return float(abs(margin[0] - margin[1]))


def _orders(
    seen: CollapsedTexts, texts: list[str], rng: np.random.Generator
) -> list[dict[str, Int[np.ndarray, " d"]]]:
    """Return for every text the order of each explanation, strongest word first."""
    model = seen.model
    outputs = model.logits(texts)
    positive = outputs[:, -1] > (outputs[:, 0] if outputs.shape[1] > 1 else 0)
    sign = np.where(positive, 1, -1)
    methods = ("alpha-avg", "alpha-max", "g-l1", "gxi", "lime", "shapley")
    asked: dict[str, Any] = {"target": model.classes[-1], "scale": "score"}
    scores = {
        name: [one.scores for one in explain(model, texts, name, **asked)] for name in methods
    } | {"read-out": norm_based(seen)}
    scores |= {f"abs-{name}": [abs(x) for x in scores[name]] for name in ("gxi", "lime")}
    found = []
    for i in range(len(texts)):
        orders = {
            name: np.argsort(-(sign[i] * of[i] if name in SIGNED else of[i]), kind="stable")
            for name, of in scores.items()
        }
        found.append(orders | {"random": rng.permutation(len(scores["lime"][i]))})
    return found
