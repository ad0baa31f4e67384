"""Train the classifier with and without its last layer, and judge its attention."""

__all__ = ["measure"]

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from limelight import AttentionClassifier, explain, judge
from limelight.training.texts import encode_texts
from limelight_reproduction.document import list_texts
from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.questions.controlled_training import (
    RECIPE,
    Stack,
    build_classifiers,
    prepare_texts,
    run_in_chunks,
    train_stack,
)
from limelight_reproduction.questions.last_layer import KINDS
from limelight_reproduction.questions.training_aims import classification_aim
from limelight_reproduction.setting import PAPER_SEEDS, Setting
from limelight_reproduction.spread import rank_correlation

REVIEWS, EPOCHS, QUICK_EPOCHS = 12_000, 6, 2
TEXTS, QUICK_TEXTS = 60, 12
TEST, QUICK_TEST = 5_000, 1_000
SHARES = ("alpha-avg", "lime")


def measure(setting: Setting) -> Numbers:
    """Measure accuracy, shares and rank correlations of both models, for every seed."""
    prepared = prepare_texts(setting, RECIPE, count=REVIEWS)
    data = setting.sample_texts("imdb", "test", QUICK_TEST if setting.quick else TEST)
    test = encode_texts(data, prepared.vocabulary, T_max=RECIPE.T_max)
    count = QUICK_TEXTS if setting.quick else TEXTS
    texts = list_texts(setting.sample_texts("imdb", "test", count))
    epochs = QUICK_EPOCHS if setting.quick else EPOCHS
    kinds: dict[str, Any] = {}
    by_text: dict[str, dict[str, list[list[float]]]] = {}
    aim = classification_aim(prepared, setting.device)
    for number, kind in enumerate(KINDS):
        recipe = RECIPE if kind == "free" else replace(RECIPE, d_out=1)
        stack = Stack(recipe, words=len(prepared.vocabulary), control=kind, seeds=PAPER_SEEDS)
        stack = train_stack(
            stack, prepared, aim, device=setting.device, epochs=epochs,
            tick=partial(_tick_stack, setting, number),
        )  # fmt: skip
        outputs, _ = run_in_chunks(stack, test.ids, setting.device)
        right = outputs.argmax(-1).cpu().numpy() == test.labels
        by_text[kind] = {"accuracy": right.astype(float).tolist()}
        models = build_classifiers(stack, prepared)
        for i, model in enumerate(models):
            setting.tick(number * len(models) + i, 2 * len(models))
            for name, values in _score_texts(model, texts, seed=setting.seed).items():
                by_text[kind].setdefault(name, []).append(values)
        kinds[kind] = {name: np.nanmean(rows, axis=1) for name, rows in by_text[kind].items()}
    text_errors = {}
    for name in by_text["free"]:
        difference = np.nanmean(
            np.array(by_text["removed"][name]) - np.array(by_text["free"][name]), axis=0
        )
        difference = difference[~np.isnan(difference)]
        text_errors[name] = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    sizes = {"training": len(prepared.training), "words": len(prepared.vocabulary)}
    sizes |= {"test": len(test), "texts": len(texts), "seeds": len(PAPER_SEEDS), "epochs": epochs}
    return sizes | round_for_json({"kinds": kinds, "text_errors": text_errors}, digits=4)


def _tick_stack(setting: Setting, number: int, done: int, total: int) -> None:
    """Report the progress of the training of a stack."""
    setting.tick(number * total + done, 2 * total)


def _score_texts(
    model: AttentionClassifier, texts: list[str], *, seed: int
) -> dict[str, list[float]]:
    """Return the shares of every text, and the rank correlation of α-avg with |LIME|."""
    judgment = judge(model, texts, list(SHARES), seed=seed, progress=False)
    scores: dict[str, list[float]] = {name: [] for name in SHARES}
    for text in judgment.texts:
        # Without room between chance and ceiling, no order is better than another.
        areas = text.areas if text.has_room and text.areas is not None else None
        chance, ceiling = float(text.chance or 0), float(text.ceiling or 0)
        for name, shares in scores.items():
            share = math.nan if areas is None else (areas[name] - chance) / (ceiling - chance)
            shares.append(share)
    alpha, lime = (explain(model, texts, name, progress=False) for name in SHARES)
    scores["alpha_lime"] = [
        rank_correlation(a.scores, np.abs(b.scores)) or 0.0
        for a, b in zip(alpha, lime, strict=True)
    ]
    return scores
