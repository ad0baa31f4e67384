"""Measurements of the controls: models with frozen weights, and adversaries of other models."""

__all__ = [
    "ADVERSARIES",
    "ON_WORDS",
    "measure_adversaries",
    "measure_controls",
    "measure_word_adversaries",
]

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from limelight import AttentionClassifier, explain
from limelight.training import RECIPES, Recipe
from limelight.training.texts import EncodedTexts, encode_texts
from limelight_reproduction.document import list_texts
from limelight_reproduction.experiment import Numbers, round_for_json
from limelight_reproduction.questions.controlled_training import (
    COMPARISONS,
    CONTROL_KINDS,
    RECIPE,
    Stack,
    build_classifiers,
    compare_with_first,
    prepare_texts,
    run_in_chunks,
    train_stack,
)
from limelight_reproduction.questions.training_aims import Aim, adversarial_aim, classification_aim
from limelight_reproduction.setting import Setting
from limelight_reproduction.spread import rank_correlation

SEEDS, FEW_SEEDS = 5, 3
EPOCHS, LONG_EPOCHS, QUICK_EPOCHS = 8, 30, 3
# (divergence in the loss, λ): with λ = 0 the network imitates and may attend as it likes.
ADVERSARIES = (
    *(("jsd", weight) for weight in (0.0, 0.01, 0.03, 0.04, 0.05, 0.07, 0.1, 0.2)),
    *(("kl", weight) for weight in (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02)),
)
# Fewer adversaries, reviews and epochs, and an adversary of the window for comparison.
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
    """The number of reviews to train on; all if None."""

    @cached_property
    def prepared_texts(self) -> Any:
        """Encoded reviews for training and validation."""
        return prepare_texts(self.setting, self.recipe, count=self.reviews)

    @cached_property
    def test_texts(self) -> EncodedTexts:
        """Encoded test reviews, on which models are compared."""
        count = QUICK_TEST if self.setting.quick else FEW_TEST if self.reviews else TEST
        data = self.setting.sample_texts("imdb", "test", count)
        return encode_texts(data, self.prepared_texts.vocabulary, T_max=self.recipe.T_max)

    @cached_property
    def scored_texts(self) -> Sequence[str]:
        """Test reviews whose words are scored."""
        count = QUICK_TEXTS if self.setting.quick else TEXTS
        return list_texts(self.setting.sample_texts("imdb", "test", count))

    def train_networks(
        self, control: str, seeds: Sequence[int], aim: Aim, epochs: int, run: slice
    ) -> Stack:
        """Train a stack; ``run`` is the number of this training and the number of trainings."""
        stack = Stack(
            self.recipe, words=len(self.prepared_texts.vocabulary), control=control, seeds=seeds
        )
        return train_stack(
            stack, self.prepared_texts, aim, device=self.setting.device,
            epochs=QUICK_EPOCHS if self.setting.quick else epochs,
            tick=lambda done, total: self.setting.tick(run.start * total + done, run.stop * total),
        )  # fmt: skip

    def describe_stack(
        self, stack: Stack, first: Stack, first_indices: Sequence[int]
    ) -> dict[str, Any]:
        """Return accuracies and distances from the first models, and whether each text is right."""
        numbers = compare_with_first(
            stack,
            first,
            first_indices=first_indices,
            texts=self.test_texts,
            device=self.setting.device,
        )
        return numbers | {"accuracy": numbers["right"].mean(axis=1)}

    def scored_models(self, stack: Stack) -> list["_ScoredModel"]:
        """Return the networks of a stack as models whose words are scored."""
        return [
            _ScoredModel(model, self.scored_texts)
            for model in build_classifiers(stack, self.prepared_texts)
        ]


@final
@dataclass(frozen=True, eq=False)
class _ScoredModel:
    """A model and the scores of the words of some texts."""

    model: AttentionClassifier
    texts: Sequence[str]

    @cached_property
    def lime(self) -> list[np.ndarray]:
        """LIME of every text."""
        return self._scores("lime")

    @cached_property
    def alpha(self) -> list[np.ndarray]:
        """α-avg of every text."""
        return self._scores("alpha-avg")

    def _scores(self, method: str) -> list[np.ndarray]:
        target = self.model.classes[-1]
        explanations = explain(self.model, list(self.texts), method, target=target, scale="score")
        return [explanation.scores for explanation in explanations]

    def alpha_lime(self) -> float:
        """Return the median rank correlation of α-avg with |LIME|."""
        return _median_rank_correlation(self.alpha, [abs(scores) for scores in self.lime])

    def alpha_alpha(self, other: "_ScoredModel") -> float:
        """Return the median rank correlation of α-avg with that of another model."""
        return _median_rank_correlation(self.alpha, other.alpha)

    def lime_lime(self, other: "_ScoredModel") -> float:
        """Return the median rank correlation of LIME with that of another model."""
        return _median_rank_correlation(self.lime, other.lime)


def _median_rank_correlation(
    scores: Sequence[np.ndarray], other_scores: Sequence[np.ndarray]
) -> float:
    # Uniform attention ties all words that occur once. Without an order there is no agreement.
    return float(
        np.median(
            [rank_correlation(a, b) or 0.0 for a, b in zip(scores, other_scores, strict=True)]
        )
    )


def measure_controls(setting: Setting, *, as_printed: bool = False) -> Numbers:
    """Measure the accuracy that each control loses, over trainings with different seeds.

    With ``as_printed`` the paper's recipe is unchanged, with all words and its small learning rate.
    """
    bench = _Bench(setting, RECIPES["paper"] if as_printed else RECIPE)
    seeds = range(FEW_SEEDS if setting.quick or as_printed else SEEDS)
    aim = classification_aim(bench.prepared_texts, setting.device)
    kinds: dict[str, Any] = {}
    for number, kind in enumerate(CONTROL_KINDS):
        stack = bench.train_networks(
            kind,
            seeds,
            aim,
            bench.recipe.epochs if as_printed else EPOCHS,
            slice(number, len(CONTROL_KINDS)),
        )
        models = bench.scored_models(stack)
        if kind == "free":
            free_stack, first_models, next_seeds = stack, models, np.roll(seeds, 1).tolist()
            kinds["others"] = bench.describe_stack(stack, free_stack, next_seeds) | {
                "lime_lime": [
                    model.lime_lime(first_models[j])
                    for model, j in zip(models, next_seeds, strict=True)
                ]
            }
            free_right = kinds["others"].pop("right")
        kinds[kind] = bench.describe_stack(stack, free_stack, list(seeds))
        kinds[kind] |= _accuracy_loss(free_right, kinds[kind].pop("right")) | {
            "alpha_lime": [model.alpha_lime() for model in models],
            "lime_lime": [
                model.lime_lime(first_model)
                for first_model, model in zip(first_models, models, strict=True)
            ],
        }
    return _sizes(bench, seeds) | round_for_json({"kinds": kinds}, digits=4)


def _accuracy_loss(right: np.ndarray, control_right: np.ndarray) -> dict[str, Any]:
    """Return the accuracy lost in every training, and its standard error over texts."""
    loss = right.astype(float) - control_right
    error = loss.mean(axis=0).std(ddof=1) / math.sqrt(loss.shape[1])
    return {"lost": loss.mean(axis=1), "text_error": float(error)}


def _sizes(bench: _Bench, seeds: Sequence[int]) -> dict[str, Any]:
    """Return the numbers of texts, words and seeds of a measurement."""
    sizes = {"training": len(bench.prepared_texts.training), "test": len(bench.test_texts)}
    return sizes | {"words": len(bench.prepared_texts.vocabulary), "seeds": len(seeds)}


def measure_adversaries(setting: Setting) -> Numbers:
    """Measure models trained to predict like a first model and to attend elsewhere, for every λ."""
    return _train_adversaries(_Bench(setting, RECIPE), ADVERSARIES, EPOCHS, LONG_EPOCHS)


def measure_word_adversaries(setting: Setting) -> Numbers:
    """Measure adversaries of the attention to words only, for fewer reviews and λ.

    An adversary of the window may move its attention to [cls] and the padding, which no explanation
    shows, and not change the order of the words. One adversary of the window is the comparison.
    """
    bench = _Bench(setting, RECIPE, FEW_REVIEWS)
    return _train_adversaries(bench, ON_WORDS, FEW_EPOCHS, MANY_EPOCHS)


def _train_adversaries(
    bench: _Bench, objectives: Sequence[tuple[str, float]], epochs: int, long_epochs: int
) -> Numbers:
    seeds, device = list(range(FEW_SEEDS)), bench.setting.device
    aim = classification_aim(bench.prepared_texts, device)
    first = bench.train_networks("free", seeds, aim, epochs, slice(0, 1))
    first_indices = [seed for seed in seeds for _ in objectives]
    aim = adversarial_aim(
        lambda ids: run_in_chunks(first, ids, device), bench.prepared_texts,
        first_indices=first_indices, objectives=[*objectives] * len(seeds), device=device,
    )  # fmt: skip
    # Seeds that no first model has.
    adversary_seeds = [100 + index for index in range(len(first_indices))]
    stack = bench.train_networks("free", adversary_seeds, aim, long_epochs, slice(0, 1))
    other_seeds = bench.describe_stack(first, first, np.roll(seeds, 1).tolist())
    numbers = bench.describe_stack(stack, first, first_indices)
    first_models, models = bench.scored_models(first), bench.scored_models(stack)[: len(objectives)]
    summary = {
        "others": {name: other_seeds[name] for name in (*COMPARISONS, "accuracy")},
        "adversaries": [
            {"divergence": divergence, "weight": weight,
             **{name: numbers[name][index :: len(objectives)] for name in (*COMPARISONS,
             "accuracy")}, "alpha_lime": models[index].alpha_lime(), "lime_lime":
             models[index].lime_lime(first_models[0]), "alpha_alpha":
             models[index].alpha_alpha(first_models[0])}
            for index, (divergence, weight) in enumerate(objectives)
        ],
    }  # fmt: skip
    return _sizes(bench, seeds) | round_for_json(summary, digits=4)
