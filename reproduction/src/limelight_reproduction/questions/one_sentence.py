"""Decisions about sentence pairs when the model sees only one of the sentences."""

__all__ = ["PAIR_VARIANTS", "SENTENCE_CHOICES", "measure_hidden", "measure_one_layer"]

from dataclasses import replace
from typing import cast

import numpy as np

from limelight import LabeledTexts
from limelight.shapes import Int
from limelight.text import Pair, build_features
from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.setting import CLASSES, Setting

PAIRS, QUICK_PAIRS, _CHUNK = 1000, 100, 100
PAIR_VARIANTS = {
    "whole": "both sentences",
    "first": "the first alone",
    "second": "the second alone",
    "neither": "neither",
    "exchanged": "the first and another pair's second",
}
SENTENCE_CHOICES = {
    "first": "the first sentence",
    "second": "the second",
    "both": "both, one after the other",
}
_WINDOW = 64  # tokens: the two longest sentences of SICK together fit


def measure_hidden(setting: Setting) -> Numbers:
    """Measure the decisions of the pair model with a sentence hidden or exchanged."""
    model = setting.pair_classifier
    data = setting.sample_texts("sick", "test", QUICK_PAIRS if setting.quick else PAIRS)
    pairs = [cast(Pair, pair) for pair in data.texts]
    decisions_by_variant: dict[str, list[int]] = {name: [] for name in PAIR_VARIANTS}
    for start in range(0, len(pairs), _CHUNK):
        setting.tick(start, len(pairs))
        for index in range(start, min(start + _CHUNK, len(pairs))):
            model_input = model.read(pairs[index])
            features = build_features(model_input)
            second = np.array(
                [spans[0][0] >= model_input.parts[1].span[0] for spans in features.spans]
            )
            keep = np.array([second | ~second, ~second, second, second & ~second])
            decisions = model.game(model_input, features, model.replacements[0])(keep).argmax(
                axis=1
            )
            for name, decision in zip(PAIR_VARIANTS, decisions, strict=False):
                decisions_by_variant[name].append(int(decision))
        # The neighbor's second sentence: pairs come in random order.
        exchanged_pairs = [
            model.read((pairs[index][0], pairs[(index + 1) % len(pairs)][1]))
            for index in range(start, min(start + _CHUNK, len(pairs)))
        ]
        decisions_by_variant["exchanged"] += model.outputs(exchanged_pairs).argmax(axis=1).tolist()
    return _summarize_decisions(
        {name: np.array(variant) for name, variant in decisions_by_variant.items()}, data.labels
    )


def _summarize_decisions(
    decisions: dict[str, Int[np.ndarray, " n"]], labels: Int[np.ndarray, " n"]
) -> Numbers:
    """Return accuracies, how often the decision stays, and the new decisions of each class."""
    unchanged = decisions["whole"]
    classes = range(len(CLASSES["sick"]))
    return round_for_json(
        {
            "pairs": len(labels),
            "frequent": float(np.bincount(labels).max() / len(labels)),
            "right": {
                name: float((variant == labels).mean()) for name, variant in decisions.items()
            },
            "stays": {
                name: float((variant == unchanged).mean()) for name, variant in decisions.items()
            },
            # Rows: the decision on the pair. Columns: the decision on the variant.
            "becomes": {
                name: [
                    [int(((unchanged == before) & (variant == after)).sum()) for after in classes]
                    for before in classes
                ]
                for name, variant in decisions.items()
            },
        },
        digits=4,
    )


def measure_one_layer(setting: Setting) -> Numbers:
    """Measure the accuracy of the paper's classifier on one sentence, the other, or both."""
    from limelight import train  # it loads torch, which most experiments do without
    from limelight.training import RECIPES

    recipe = replace(RECIPES["paper"], T_max=_WINDOW, fitted_window=True)
    right = {}
    for step, name in enumerate(SENTENCE_CHOICES):
        setting.tick(step, len(SENTENCE_CHOICES))
        training, test = (
            _choose_sentences(setting.texts("sick", part), name) for part in ("train", "test")
        )
        model = train(training, recipe=recipe, seed=setting.seed, device=setting.device)
        decisions = model.logits([cast(str, text) for text in test.texts]).argmax(axis=1)
        right[name] = (decisions == test.labels).tolist()
    labels = setting.texts("sick", "test").labels
    count, frequent = len(labels), float(np.bincount(labels).max() / len(labels))
    return round_for_json(
        {
            "training": len(setting.texts("sick", "train")),
            "pairs": count,
            "frequent": frequent,
            "right": {name: float(np.mean(is_right)) for name, is_right in right.items()},
            "gain": {
                name: _accuracy_gain(np.array(is_right), labels) for name, is_right in right.items()
            },
        },
        digits=4,
    )


def _choose_sentences(data: LabeledTexts, name: str) -> LabeledTexts:
    """Return the chosen sentences of every pair, as a text."""
    pairs = [cast(Pair, pair) for pair in data.texts]
    texts = [
        " ".join(pair) if name == "both" else pair[0] if name == "first" else pair[1]
        for pair in pairs
    ]
    return LabeledTexts(texts, data.labels, data.classes, data.source)


def _accuracy_gain(is_right: np.ndarray, labels: Int[np.ndarray, " n"]) -> list[float]:
    """Return the gain in accuracy over always predicting the most frequent class.

    The interval is paired: each test pair counts the difference of the two predictions.
    """
    gain = is_right.astype(float) - (labels == np.bincount(labels).argmax())
    stderr = float(gain.std(ddof=1) / np.sqrt(len(gain)))
    mean = float(gain.mean())
    return [mean, mean - 1.96 * stderr, mean + 1.96 * stderr]
