"""Everything that decides how a model is trained, in one frozen value."""

import math
from dataclasses import replace
from typing import Annotated

from limelight.errors import InputError, unknown_name_message
from limelight.explainers.method import (
    FiniteNotNegative,
    OneOf,
    Range,
    Share,
    at_least,
    settings_class,
)
from limelight.models.attention.weights import ATTENTIONS, SKIPS

_Count = Annotated[int, at_least(1)]
_Scale = Annotated[float, Range(lambda x: 0 < x < math.inf, "be finite and positive")]
_Part = Annotated[float, Range(lambda x: 0 <= x < 1, "be in [0, 1)")]
_NotNegative = Annotated[float, FiniteNotNegative]


@settings_class
class Recipe:
    """Architecture, regularisation and optimization of one training run."""

    heads: _Count = 6
    d_e: _Count = 128
    d_att: _Count = 64
    d_out: _Count = 64
    T_max: Annotated[int, at_least(2)] = 256
    fitted_window: bool = False
    """Where all texts are shorter than ``T_max``, a window as long as the longest of them."""
    position_base: _Scale = 10000.0
    position_scale: _NotNegative = 1.0
    single_output: bool = False
    """One logit and binary cross-entropy where there are two classes; else one per class."""
    biases: bool = False
    """Biases of queries and values; one of keys would do nothing."""
    skip: Annotated[str | None, OneOf(SKIPS)] = None
    """A skip connection, from the mean of the window or from [cls], added to the outputs."""
    head_embeddings: bool = False
    """Embeddings of d_e numbers for every head, instead of one for all."""
    attention: Annotated[str, OneOf(ATTENTIONS)] = "dot-product"
    """Logits q · k/√d_att, or w_a · tanh(q + k) of d_att hidden units per head."""

    grid: _Count = 7
    """Rows and columns of patches that an image is cut into."""
    hidden: _Count = 64
    """Hidden units of the network that embeds a patch."""
    learned_positions: bool = False
    """Learn the positions of patches, instead of sines and cosines."""

    vocabulary_size: int | None = None
    min_count: _Count = 1

    tails: bool = False
    """Train also on the end of each text that does not fit the window, as a text of its own."""

    embedding_std: _Scale = 1.0
    weight_bound: _Scale = 0.1
    """Projections start uniform in ± this."""

    dropout: _Part = 0.0
    """Probability of zeroing an entry of a word's embedding (positions are never dropped)."""
    word_dropout: _Part = 0.0
    """Probability of showing UNK instead of a word."""
    label_smoothing: _Part = 0.0
    weight_decay: _NotNegative = 0.01
    embedding_decay: Annotated[float | None, FiniteNotNegative] = None
    """Weight decay of the embedding; the same as ``weight_decay`` if none is given."""

    batch: _Count = 64
    epochs: _Count = 10
    learning_rate: _Scale = 1e-3
    schedule: Annotated[str, OneOf(("constant", "one-cycle"))] = "constant"
    warmup: Annotated[float, Share] = 0.3
    """Share of a one-cycle run in which the learning rate rises."""
    average: _Part = 0.0
    """Decay of the moving average of the weights, which is what is kept; 0 keeps the weights."""

    validation: _Part = 0.2
    """Share of the data held out to pick the best epoch; 0 fits on all and keeps the last epoch."""
    patience: Annotated[int | None, at_least(1)] = None
    """Stop after this many epochs without a better validation accuracy."""
    least_steps: Annotated[int, at_least(0)] = 0
    """Patience does not stop a run before this many steps."""


_PAPER = Recipe(batch=16, learning_rate=1e-4, epochs=10, weight_decay=0.01)

_SHIPPED = replace(
    _PAPER,
    single_output=True,
    vocabulary_size=30_000,
    tails=True,
    embedding_std=0.02,
    dropout=0.7,
    word_dropout=0.3,
    label_smoothing=0.1,
    position_scale=0.03,
    weight_decay=0.03,
    embedding_decay=1.0,
    batch=128,
    learning_rate=1e-3,
    schedule="one-cycle",
    average=0.99,
    epochs=3,
)

# A cycle must know its end before it starts. The default does not: the rate stays, the average of
# the weights takes the place of its fall, and the held-out texts say when it is enough. The first
# 100 to 200 steps change no prediction, however many epochs they are; hence the least steps.
RECIPES: dict[str, Recipe] = {
    "default": replace(
        _SHIPPED,
        fitted_window=True,
        schedule="constant",
        epochs=200,
        patience=3,
        least_steps=1000,
        validation=0.1,
    ),
    "paper": _PAPER,
    "shipped": _SHIPPED,
    # Many narrow heads: a position adds to logits and values and multiplies nothing, so what stands
    # where is told apart by heads that look at different places.
    "images": Recipe(
        heads=16,
        d_e=64,
        d_att=32,
        d_out=32,
        learned_positions=True,
        embedding_std=0.5,
        weight_bound=0.22,
        word_dropout=0.1,
        label_smoothing=0.05,
        weight_decay=0.1,
        batch=128,
        learning_rate=0.01,
        schedule="one-cycle",
        warmup=0.2,
        epochs=20,
        validation=0.1,
    ),
}


def find_recipe(name: str) -> Recipe:
    """Return the recipe called ``name``, or raise an error that lists all recipes."""
    if name not in RECIPES:
        raise InputError(unknown_name_message("recipe", name, RECIPES))
    return RECIPES[name]
