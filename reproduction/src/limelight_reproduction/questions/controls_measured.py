"""Measurements of the controls: models with something held, and models trained away from others."""

__all__ = ["ADVERSARIES", "ON_WORDS", "away", "away_on_words", "held"]

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from limelight import AttentionClassifier, explain
from limelight.training import RECIPES, Recipe
from limelight.training.texts import EncodedTexts, encode_texts
from limelight_reproduction.document import strings
from limelight_reproduction.experiment import Numbers, compact
from limelight_reproduction.questions.controlled_training import (
    COMPARED,
    HELD,
    RECIPE,
    Stack,
    classifiers_of,
    compared,
    prepared_texts,
    read_in_chunks,
    trained,
)
from limelight_reproduction.questions.training_aims import Aim, away_from, rightly
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import rank_correlation

SEEDS, FEW_SEEDS = 5, 3
EPOCHS, LONG_EPOCHS, QUICK_EPOCHS = 8, 30, 3
# (divergence in the loss, λ): with λ = 0 the network imitates and may attend as it likes.
ADVERSARIES = (
    *(("jsd", weight) for weight in (0.0, 0.01, 0.03, 0.04, 0.05, 0.07, 0.1, 0.2)),
    *(("kl", weight) for weight in (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02)),
)
# Fewer of what takes long, and a network of the window to compare with.
ON_WORDS = (("words", 0.0), ("words", 0.15), ("jsd", 0.1))
FEW_REVIEWS, FEW_EPOCHS, MANY_EPOCHS = 4_000, 4, 20
TEXTS, QUICK_TEXTS = 40, 15
TEST, QUICK_TEST, FEW_TEST = 25_000, 2_000, 5_000


@final
@dataclass(frozen=True)
class _Bench:
    """Reviews to train on, and reviews to compare models on."""

    setting: Setting
    recipe: Recipe
    reviews: int | None = None
    """To train on where that takes long; else all."""

    @cached_property
    def prepared(self) -> Any:
        return prepared_texts(self.setting, self.recipe, count=self.reviews)

    @cached_property
    def test(self) -> EncodedTexts:
        count = QUICK_TEST if self.setting.quick else FEW_TEST if self.reviews else TEST
        data = self.setting.some_texts("imdb", "test", count)
        return encode_texts(data, self.prepared.vocabulary, T_max=self.recipe.T_max)

    @cached_property
    def texts(self) -> Sequence[str]:
        """Those whose words are scored."""
        count = QUICK_TEXTS if self.setting.quick else TEXTS
        return strings(self.setting.some_texts("imdb", "test", count))

    def trained(self, held: str, seeds: Sequence[int], aim: Aim, epochs: int, of: slice) -> Stack:
        """Return a stack trained; ``of`` is which of how many such runs this is."""
        start = Stack(self.recipe, words=len(self.prepared.vocabulary), held=held, seeds=seeds)
        return trained(
            start, self.prepared, aim, device=self.setting.device,
            epochs=QUICK_EPOCHS if self.setting.quick else epochs,
            tick=lambda done, total: self.setting.tick(of.start * total + done, of.stop * total),
        )  # fmt: skip

    def described(self, stack: Stack, first: Stack, of: Sequence[int]) -> dict[str, Any]:
        """Return accuracies and distances from the first models, and whether each text is right."""
        found = compared(stack, first, of=of, texts=self.test, device=self.setting.device)
        return found | {"accuracy": found["right"].mean(axis=1)}

    def models(self, stack: Stack) -> list["_Scored"]:
        return [_Scored(one, self.texts) for one in classifiers_of(stack, self.prepared)]


@final
@dataclass(frozen=True, eq=False)
class _Scored:
    """A model and the scores of the words of some texts."""

    model: AttentionClassifier
    texts: Sequence[str]

    @cached_property
    def lime(self) -> list[np.ndarray]:
        return self._scores("lime")

    @cached_property
    def alpha(self) -> list[np.ndarray]:
        return self._scores("alpha-avg")

    def _scores(self, method: str) -> list[np.ndarray]:
        target = self.model.classes[-1]
        found = explain(self.model, list(self.texts), method, target=target, scale="score")
        return [one.scores for one in found]

    def alpha_lime(self) -> float:
        """Return the median rank correlation of α-avg with |LIME|."""
        return _median(self.alpha, [abs(one) for one in self.lime])

    def alpha_alpha(self, other: "_Scored") -> float:
        """Return the median rank correlation of α-avg with that of another model."""
        return _median(self.alpha, other.alpha)

    def lime_lime(self, other: "_Scored") -> float:
        """Return the median rank correlation of LIME with that of another model."""
        return _median(self.lime, other.lime)


def _median(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> float:
    # Uniform attention ties every word that stands once: no order, no agreement.
    return float(
        np.median([rank_correlation(a, b) or 0.0 for a, b in zip(one, other, strict=True)])
    )


def held(setting: Setting, *, as_printed: bool = False) -> Numbers:
    """Return what it costs to hold something, over trainings with different seeds.

    ``as_printed``: by the paper's recipe as it is, with all words and its small rate.
    """
    bench = _Bench(setting, RECIPES["paper"] if as_printed else RECIPE)
    seeds = range(FEW_SEEDS if setting.quick or as_printed else SEEDS)
    aim = rightly(bench.prepared, setting.device)
    found: dict[str, Any] = {}
    for number, kind in enumerate(HELD):
        stack = bench.trained(
            kind,
            seeds,
            aim,
            bench.recipe.epochs if as_printed else EPOCHS,
            slice(number, len(HELD)),
        )
        models = bench.models(stack)
        if kind == "free":
            free, firsts, others = stack, models, np.roll(seeds, 1).tolist()
            found["others"] = bench.described(stack, free, others) | {
                "lime_lime": [
                    one.lime_lime(firsts[j]) for one, j in zip(models, others, strict=True)
                ]
            }
            right = found["others"].pop("right")
        found[kind] = bench.described(stack, free, list(seeds))
        found[kind] |= _lost(right, found[kind].pop("right")) | {
            "alpha_lime": [one.alpha_lime() for one in models],
            "lime_lime": [b.lime_lime(a) for a, b in zip(firsts, models, strict=True)],
        }
    return _told(bench, seeds) | compact({"kinds": found}, digits=4)


def _lost(right: np.ndarray, held: np.ndarray) -> dict[str, Any]:
    """Return the accuracy lost in every training, and its standard error over texts."""
    less = right.astype(float) - held
    error = less.mean(axis=0).std(ddof=1) / math.sqrt(less.shape[1])
    return {"lost": less.mean(axis=1), "text_error": float(error)}


def _told(bench: _Bench, seeds: Sequence[int]) -> dict[str, Any]:
    sizes = {"training": len(bench.prepared.training), "test": len(bench.test)}
    return sizes | {"words": len(bench.prepared.vocabulary), "seeds": len(seeds)}


def away(setting: Setting) -> Numbers:
    """Return models trained to predict as a first one does and to attend elsewhere, for every λ."""
    return _away(_Bench(setting, RECIPE), ADVERSARIES, EPOCHS, LONG_EPOCHS)


def away_on_words(setting: Setting) -> Numbers:
    """Return the same where attention to the words alone counts, for fewer reviews and λ.

    An adversary of the window may give its attention to [cls] and the padding, which no explanation
    shows, and leave the words as they were; one of these is here to compare with.
    """
    bench = _Bench(setting, RECIPE, FEW_REVIEWS)
    return _away(bench, ON_WORDS, FEW_EPOCHS, MANY_EPOCHS)


def _away(
    bench: _Bench, how: Sequence[tuple[str, float]], epochs: int, long_epochs: int
) -> Numbers:
    seeds, device = list(range(FEW_SEEDS)), bench.setting.device
    aim = rightly(bench.prepared, device)
    first = bench.trained("free", seeds, aim, epochs, slice(0, 1))
    bases = [seed for seed in seeds for _ in how]
    aim = away_from(
        lambda ids: read_in_chunks(first, ids, device), bench.prepared,
        of=bases, how=[*how] * len(seeds), device=device,
    )  # fmt: skip
    # Weights of its own: those of seeds that no first model has.
    own = [100 + number for number in range(len(bases))]
    stack = bench.trained("free", own, aim, long_epochs, slice(0, 1))
    others = bench.described(first, first, np.roll(seeds, 1).tolist())
    found = bench.described(stack, first, bases)
    firsts, models = bench.models(first), bench.models(stack)[: len(how)]
    numbers = {
        "others": {name: others[name] for name in (*COMPARED, "accuracy")},
        "adversaries": [
            {"divergence": what, "weight": weight,
             **{name: found[name][i :: len(how)] for name in (*COMPARED, "accuracy")},
             "alpha_lime": models[i].alpha_lime(), "lime_lime": models[i].lime_lime(firsts[0]),
             "alpha_alpha": models[i].alpha_alpha(firsts[0])}
            for i, (what, weight) in enumerate(how)
        ],
    }  # fmt: skip
    return _told(bench, seeds) | compact(numbers, digits=4)
