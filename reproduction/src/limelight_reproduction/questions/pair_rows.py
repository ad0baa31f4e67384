"""What is kept of every sentence pair: its explanations, and its game, asked in full."""

__all__ = ["METHODS", "SIGNED", "measured_rows", "short_pairs"]

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from limelight import Model, explain
from limelight.files import write_atomically
from limelight.models import require
from limelight.shapes import Float
from limelight.text import Pair, build_features
from limelight_reproduction.experiment import compact
from limelight_reproduction.questions.whole_games import WholeGame, asked_whole
from limelight_reproduction.setting import Setting

PAIRS, QUICK_PAIRS = 600, 10
MOST_WORDS, QUICK_WORDS = 16, 9  # distinct ones of each side; every one doubles the questions
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
_ASKED = ("alpha-avg", "alpha-max", "generic-attention", "g-l1", "gxi", "lrp", "ig")
SIGNED = frozenset(("gxi", "lrp", "ig", "loo", "lime", "shapley"))
NEGATIONS = frozenset(("no", "not", "n't", "nobody", "none", "never", "nothing", "without"))
_CHUNK = 20  # pairs that are kept together
_ORDERS = 64  # random ones for each pair
_VERSION = 1  # of a row


def short_pairs(setting: Setting) -> tuple[list[tuple[Pair, int]], float]:
    """Return pairs of few words with their labels, and which share of those looked at they are."""
    wanted, most = (QUICK_PAIRS, QUICK_WORDS) if setting.quick else (PAIRS, MOST_WORDS)
    data = setting.some_texts("sick", "test", len(setting.texts("sick", "test")))
    short: list[tuple[Pair, int]] = []
    looked = 0
    for pair, label in zip(data.texts, data.labels, strict=True):
        if len(short) == wanted:
            break
        looked += 1
        if len(build_features(setting.of_pairs.read(pair))) <= most:
            short.append((cast(Pair, pair), int(label)))
    return short, len(short) / looked


def measured_rows(
    setting: Setting, pairs: Sequence[tuple[Pair, int]], *, replacement: str
) -> Iterator[dict[str, Any]]:
    """Yield a row for every pair; a run that is killed keeps what it has measured."""
    model = setting.of_pairs
    name = f"pairs-{_VERSION}-{model.fingerprint[:12]}-{replacement}-{setting.seed}-{len(pairs)}"
    folder = setting.unfinished(name)
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(pairs), _CHUNK):
        setting.tick(start, len(pairs))
        path = folder / f"{start:05d}.json"
        if not path.exists():
            rows = _rows(model, pairs[start : start + _CHUNK], replacement)
            write_atomically(path, json.dumps(rows, allow_nan=False) + "\n")
        yield from json.loads(path.read_text("utf-8"))


def _rows(
    model: Model, pairs: Sequence[tuple[Pair, int]], replacement: str
) -> list[dict[str, Any]]:
    texts = [pair for pair, _ in pairs]
    asked = {
        name: [one.scores for one in explain(model, texts, name, scale="score")] for name in _ASKED
    }
    scores = [{name: of[i] for name, of in asked.items()} for i in range(len(pairs))]
    return [
        compact({"label": label, **_row(model, pair, own, replacement)}, digits=6)
        for (pair, label), own in zip(pairs, scores, strict=True)
    ]


def _row(
    model: Model, pair: Pair, asked: dict[str, Float[np.ndarray, " d"]], replacement: str
) -> dict[str, Any]:
    model_input = model.read(pair)
    features = build_features(model_input)
    start = model_input.parts[1][0]
    second = np.array([spans[0][0] >= start for spans in features.spans])
    decision = int(model.outputs([model_input])[0].argmax())
    game = model.game(model_input, features, replacement)
    whole = asked_whole(game, second, target=decision)
    scores = asked | {
        "loo": whole.leave_one_out,
        "lime": whole.lime,
        "shapley": whole.shapley,
    }
    return {
        "decision": decision,
        "words": features.strings,
        "second": second.astype(int),
        "negation": [int(word.lower() in NEGATIONS) for word in features.strings],
        "same": _same(features.strings, second),
        "scores": scores,
        "interactions": whole.interactions,
        "variation": whole.variation,
        "linear": whole.linear_share,
        # The class with neither sentence, the first alone, the second alone and both; and f.
        "alone": [int(one.argmax()) for one in whole.sentences],
        "sentences": whole.sentences[:, decision],
        **_orders(whole, scores),
        **_attention(model, pair),
    }


def _same(words: Sequence[str], second: np.ndarray) -> list[list[int]]:
    """Return the words that stand in both sentences, as pairs of their places."""
    places = {word: j for j, word in enumerate(words) if second[j]}
    return [[i, places[word]] for i, word in enumerate(words) if not second[i] and word in places]


def _orders(whole: WholeGame, scores: dict[str, Float[np.ndarray, " d"]]) -> dict[str, Any]:
    """Return how each method orders the words: its area and when the decision changes."""
    orders = {
        name: np.argsort(-own if name in SIGNED else -np.abs(own), kind="stable")
        for name, own in scores.items()
    }
    return {
        "chance": whole.chance,
        "ceiling": whole.ceiling,
        "areas": {name: whole.area(order) for name, order in orders.items()},
        "flips": {name: whole.flips_after(order) for name, order in orders.items()},
        "fewest": whole.fewest,
        "single": whole.single_flips.astype(int),
        "random": _mean_flip(whole),
    }


def _mean_flip(whole: WholeGame) -> float:
    """Return the share of the words that go before the decision changes, in a random order."""
    rng = np.random.default_rng(0)
    steps = [whole.flips_after(rng.permutation(whole.d)) for _ in range(_ORDERS)]
    return float(np.mean([whole.d if step is None else step for step in steps])) / whole.d


def _attention(model: Model, pair: Pair) -> dict[str, Any]:
    """Return where the position that is read looks, and how words of a pair look at each other."""
    model_input = model.read(pair)
    features = build_features(model_input)
    reader = require(model, "attention", "the attention between two sentences")
    (attended,) = reader.attention(model_input)
    feature = np.append(features.feature_index, -1)[reader.token_positions(model_input)]
    belongs = (feature[:, None] == np.arange(len(features))).astype(np.float64)
    read = (
        np.einsum("s,lhst->lt", attended.readout_weights, attended.alpha) / attended.alpha.shape[1]
    )
    # What a piece of one word pays to all pieces of the other, either way, in every layer.
    paid = (belongs / belongs.sum(axis=0)).T @ attended.alpha.mean(axis=1) @ belongs
    both_ways = (paid + paid.transpose(0, 2, 1)) / 2
    return {"looks": read @ belongs, "pays": compact(both_ways, digits=3)}
