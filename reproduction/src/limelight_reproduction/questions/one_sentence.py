"""How far a decision about two sentences follows from one of them."""

__all__ = ["HIDDEN", "READ", "measure_hidden", "measure_one_layer"]

from dataclasses import replace
from typing import cast

import numpy as np

from limelight import LabeledTexts
from limelight.shapes import Int
from limelight.text import Pair, build_features
from limelight_reproduction.experiment import Numbers, compact
from limelight_reproduction.setting import CLASSES, Setting

PAIRS, QUICK_PAIRS, _CHUNK = 1000, 100, 100
HIDDEN = {
    "whole": "both sentences",
    "first": "the first alone",
    "second": "the second alone",
    "neither": "neither",
    "exchanged": "the first and another pair's second",
}
READ = {"first": "the first sentence", "second": "the second", "both": "both, one after the other"}
_WINDOW = 64  # tokens: the two longest sentences of SICK together fit


def measure_hidden(setting: Setting) -> Numbers:
    """Return the decisions of the model of pairs with a sentence hidden, or exchanged."""
    model = setting.of_pairs
    data = setting.some_texts("sick", "test", QUICK_PAIRS if setting.quick else PAIRS)
    pairs = [cast(Pair, pair) for pair in data.texts]
    found: dict[str, list[int]] = {name: [] for name in HIDDEN}
    for start in range(0, len(pairs), _CHUNK):
        setting.tick(start, len(pairs))
        for i in range(start, min(start + _CHUNK, len(pairs))):
            model_input = model.read(pairs[i])
            features = build_features(model_input)
            second = np.array([s[0][0] >= model_input.parts[1][0] for s in features.spans])
            keep = np.array([second | ~second, ~second, second, second & ~second])
            decisions = model.game(model_input, features, model.replacements[0])(keep).argmax(
                axis=1
            )
            for name, decision in zip(HIDDEN, decisions, strict=False):
                found[name].append(int(decision))
        # The neighbor's second sentence: pairs come in random order.
        others = [
            model.read((pairs[i][0], pairs[(i + 1) % len(pairs)][1]))
            for i in range(start, min(start + _CHUNK, len(pairs)))
        ]
        found["exchanged"] += model.outputs(others).argmax(axis=1).tolist()
    return _told({name: np.array(of) for name, of in found.items()}, data.labels)


def _told(found: dict[str, Int[np.ndarray, " n"]], labels: Int[np.ndarray, " n"]) -> Numbers:
    """Return accuracies, how often the decision stays, and what becomes of each class."""
    whole = found["whole"]
    classes = range(len(CLASSES["sick"]))
    return compact(
        {
            "pairs": len(labels),
            "frequent": float(np.bincount(labels).max() / len(labels)),
            "right": {name: float((of == labels).mean()) for name, of in found.items()},
            "stays": {name: float((of == whole).mean()) for name, of in found.items()},
            # Rows: the decision on the pair; columns: the decision then.
            "becomes": {
                name: [[int(((whole == a) & (of == b)).sum()) for b in classes] for a in classes]
                for name, of in found.items()
            },
        },
        digits=4,
    )


def measure_one_layer(setting: Setting) -> Numbers:
    """Return how the paper's classifier fares that reads one sentence, the other, or both."""
    from limelight import train  # it loads torch, which most experiments do without
    from limelight.training import RECIPES

    recipe = replace(RECIPES["paper"], T_max=_WINDOW, fitted_window=True)
    right = {}
    for at, name in enumerate(READ):
        setting.tick(at, len(READ))
        fit, test = (_read(setting.texts("sick", part), name) for part in ("train", "test"))
        model = train(fit, recipe=recipe, seed=setting.seed, device=setting.device)
        decisions = model.logits([cast(str, text) for text in test.texts]).argmax(axis=1)
        right[name] = (decisions == test.labels).tolist()
    labels = setting.texts("sick", "test").labels
    n, frequent = len(labels), float(np.bincount(labels).max() / len(labels))
    return compact(
        {
            "training": len(setting.texts("sick", "train")),
            "pairs": n,
            "frequent": frequent,
            "right": {name: float(np.mean(of)) for name, of in right.items()},
            "gain": {name: _gain(np.array(of), labels) for name, of in right.items()},
        },
        digits=4,
    )


def _read(data: LabeledTexts, name: str) -> LabeledTexts:
    """Return what is read of every pair, as a text."""
    pairs = [cast(Pair, pair) for pair in data.texts]
    texts = [
        " ".join(pair) if name == "both" else pair[0] if name == "first" else pair[1]
        for pair in pairs
    ]
    return LabeledTexts(texts, data.labels, data.classes, data.source)


def _gain(right: np.ndarray, labels: Int[np.ndarray, " n"]) -> list[float]:
    """Return the accuracy over that of always saying the most frequent class, with its interval.

    Paired over the test set: each pair counts the difference of the two answers being right.
    """
    gained = right.astype(float) - (labels == np.bincount(labels).argmax())
    error = float(gained.std(ddof=1) / np.sqrt(len(gained)))
    mean = float(gained.mean())
    return [mean, mean - 1.96 * error, mean + 1.96 * error]
