"""A task small enough to learn in a second, as data and as a program to kill."""

from dataclasses import replace

import numpy as np

from limelight.data import LabeledTexts
from limelight.training import RECIPES, Recipe

WORDS = tuple(f"w{number}" for number in range(40))
MARKS = ("bad", "good", "odd")


def toy_data(rows: int = 210, *, classes: int = 2, seed: int = 0) -> LabeledTexts:
    """Return texts of random words, each with the word that gives its class away."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(rows) % classes)
    texts = [
        " ".join(rng.permutation([MARKS[label], *rng.choice(WORDS, rng.integers(1, 11))]))
        for label in labels
    ]
    return LabeledTexts(texts, labels, MARKS[:classes], "toy.csv")


def toy_recipe(**changes) -> Recipe:
    """Return the shipped model's recipe in prime sizes that train in a moment."""
    small = replace(
        RECIPES["shipped"],
        heads=3,
        d_e=7,
        d_att=5,
        d_out=11,
        T_max=13,
        epochs=3,
        batch=4,
        learning_rate=0.03,
        embedding_std=0.5,
        dropout=0.25,
        word_dropout=0.1,
        average=0.9,
    )
    return replace(small, **changes)
