"""Measurements of every sentence pair: its explanations, and its game with all masks."""

__all__ = ["METHODS", "SIGNED", "measure_rows", "short_pairs"]

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from limelight import Model, explain
from limelight.files import write_atomically
from limelight.models import require
from limelight.shapes import Float
from limelight.text import Pair, build_features
from limelight_reproduction.experiment import round_for_json
from limelight_reproduction.questions.complete_games import CompleteGame, play_all_masks
from limelight_reproduction.setting import Setting

PAIRS, QUICK_PAIRS = 600, 10
# Distinct words of both sentences. Each word doubles the number of masks.
MAX_WORDS, QUICK_WORDS = 16, 9
METHODS = {
    "alpha-avg": "α-avg",
    "alpha-max": "α-max",
    "generic-attention": "generic attention",
    "g-l1": "G-l1",
    "gxi": "G×I",
    "lrp": "LRP",
    "ig": "integrated gradients",
    "loo": "leave-one-out",
    "lime": "LIME",
    "shapley": "Shapley values",
}
_EXPLAINED_METHODS = ("alpha-avg", "alpha-max", "generic-attention", "g-l1", "gxi", "lrp", "ig")
SIGNED = frozenset(("gxi", "lrp", "ig", "loo", "lime", "shapley"))
NEGATIONS = frozenset(("no", "not", "n't", "nobody", "none", "never", "nothing", "without"))
_CHUNK = 20  # pairs in one file
_ORDERS = 64  # random orders for each pair
_VERSION = 1  # format of a row


def short_pairs(setting: Setting) -> tuple[list[tuple[Pair, int]], float]:
    """Return pairs of few words with their labels, and the share of such pairs."""
    count, max_words = (QUICK_PAIRS, QUICK_WORDS) if setting.quick else (PAIRS, MAX_WORDS)
    data = setting.sample_texts("sick", "test", len(setting.texts("sick", "test")))
    short: list[tuple[Pair, int]] = []
    total = 0
    for pair, label in zip(data.texts, data.labels, strict=True):
        if len(short) == count:
            break
        total += 1
        if len(build_features(setting.pair_classifier.read(pair))) <= max_words:
            short.append((cast(Pair, pair), int(label)))
    return short, len(short) / total


def measure_rows(
    setting: Setting, pairs: Sequence[tuple[Pair, int]], *, replacement: str
) -> Iterator[dict[str, Any]]:
    """Yield a row for every pair, and store rows so that an interrupted run can continue."""
    model = setting.pair_classifier
    name = f"pairs-{_VERSION}-{model.fingerprint[:12]}-{replacement}-{setting.seed}-{len(pairs)}"
    folder = setting.progress_folder(name)
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(pairs), _CHUNK):
        setting.tick(start, len(pairs))
        path = folder / f"{start:05d}.json"
        if not path.exists():
            rows = _measure_chunk(model, pairs[start : start + _CHUNK], replacement)
            write_atomically(path, json.dumps(rows, allow_nan=False) + "\n")
        yield from json.loads(path.read_text("utf-8"))


def _measure_chunk(
    model: Model, pairs: Sequence[tuple[Pair, int]], replacement: str
) -> list[dict[str, Any]]:
    texts = [pair for pair, _ in pairs]
    explanations = {
        name: [explanation.scores for explanation in explain(model, texts, name, scale="score")]
        for name in _EXPLAINED_METHODS
    }
    scores = [
        {name: method_scores[index] for name, method_scores in explanations.items()}
        for index in range(len(pairs))
    ]
    return [
        round_for_json(
            {"label": label, **_measure_pair(model, pair, pair_scores, replacement)}, digits=6
        )
        for (pair, label), pair_scores in zip(pairs, scores, strict=True)
    ]


def _measure_pair(
    model: Model, pair: Pair, explained_scores: dict[str, Float[np.ndarray, " d"]], replacement: str
) -> dict[str, Any]:
    model_input = model.read(pair)
    features = build_features(model_input)
    start = model_input.parts[1].span[0]
    second = np.array([spans[0][0] >= start for spans in features.spans])
    decision = int(model.outputs([model_input])[0].argmax())
    game = model.game(model_input, features, replacement)
    complete_game = play_all_masks(game, second, target=decision)
    scores = explained_scores | {
        "loo": complete_game.leave_one_out,
        "lime": complete_game.lime,
        "shapley": complete_game.shapley,
    }
    return {
        "decision": decision,
        "words": features.strings,
        "second": second.astype(int),
        "negation": [int(word.lower() in NEGATIONS) for word in features.strings],
        "same": _shared_words(features.strings, second),
        "scores": scores,
        "interactions": complete_game.interactions,
        "variation": complete_game.variation,
        "linear": complete_game.linear_share,
        # The class with neither sentence, the first, the second and both, and the value of f.
        "alone": [int(outputs.argmax()) for outputs in complete_game.sentences],
        "sentences": complete_game.sentences[:, decision],
        **_measure_orders(complete_game, scores),
        **_measure_attention(model, pair),
    }


def _shared_words(words: Sequence[str], second: np.ndarray) -> list[list[int]]:
    """Return the words that occur in both sentences, as pairs of feature indices."""
    second_indices = {word: index for index, word in enumerate(words) if second[index]}
    return [
        [first_index, second_indices[word]]
        for first_index, word in enumerate(words)
        if not second[first_index] and word in second_indices
    ]


def _measure_orders(
    complete_game: CompleteGame, scores: dict[str, Float[np.ndarray, " d"]]
) -> dict[str, Any]:
    """Measure the order of each method: its area and when the decision changes."""
    orders = {
        name: np.argsort(
            -method_scores if name in SIGNED else -np.abs(method_scores), kind="stable"
        )
        for name, method_scores in scores.items()
    }
    return {
        "chance": complete_game.chance,
        "ceiling": complete_game.ceiling,
        "areas": {name: complete_game.area(order) for name, order in orders.items()},
        "flips": {name: complete_game.flips_after(order) for name, order in orders.items()},
        "fewest": complete_game.fewest,
        "single": complete_game.single_flips.astype(int),
        "random": _mean_flip(complete_game),
    }


def _mean_flip(complete_game: CompleteGame) -> float:
    """Return the share of words removed until the decision changes, in random orders."""
    rng = np.random.default_rng(0)
    steps = [complete_game.flips_after(rng.permutation(complete_game.d)) for _ in range(_ORDERS)]
    return (
        float(np.mean([complete_game.d if step is None else step for step in steps]))
        / complete_game.d
    )


def _measure_attention(model: Model, pair: Pair) -> dict[str, Any]:
    """Return the attention of the read-out position, and the attention between words."""
    model_input = model.read(pair)
    features = build_features(model_input)
    attention_model = require(model, "attention", "the attention between two sentences")
    (attention,) = attention_model.attention(model_input)
    feature = np.append(features.feature_index, -1)[attention_model.token_positions(model_input)]
    belongs = (feature[:, None] == np.arange(len(features))).astype(np.float64)
    readout = (
        np.einsum("s,lhst->lt", attention.readout_weights, attention.alpha)
        / attention.alpha.shape[1]
    )
    # The mean attention of a token of one word to all tokens of another, in every layer.
    word_attention = (belongs / belongs.sum(axis=0)).T @ attention.alpha.mean(axis=1) @ belongs
    symmetric = (word_attention + word_attention.transpose(0, 2, 1)) / 2
    return {"looks": readout @ belongs, "pays": round_for_json(symmetric, digits=3)}
