"""Everything that decides how a model is trained, in one frozen value."""

import sys
from collections.abc import Callable
from dataclasses import Field, dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin

from limelight.errors import InputError, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Architecture, regularisation and optimisation of one training run."""

    heads: int = 6
    d_e: int = 128
    d_att: int = 64
    d_out: int = 64
    T_max: int = 256
    fitted_window: bool = False
    """Where all texts are shorter than ``T_max``, a window as long as the longest of them."""
    position_base: float = 10000.0
    position_scale: float = 1.0
    single_output: bool = False
    """One logit and binary cross-entropy where there are two classes; else one per class."""
    biases: bool = False
    """Biases of queries and values; one of keys would do nothing."""
    skip: Literal["mean", "cls"] | None = None
    """A skip connection, from the mean of the window or from [cls], added to the outputs."""
    head_embeddings: bool = False
    """Embeddings of d_e numbers for every head, instead of one for all."""
    attention: Literal["dot-product", "additive"] = "dot-product"
    """Logits q · k/√d_att, or w_a · tanh(q + k) of d_att hidden units per head."""

    grid: int = 7
    """Rows and columns of patches that a picture is cut into."""
    hidden: int = 64
    """Hidden units of the network that embeds a patch."""
    learned_positions: bool = False
    """Learn the positions of patches, instead of sines and cosines."""

    vocabulary_size: int | None = None
    min_count: int = 1

    tails: bool = False
    """Train also on the end of each text that does not fit the window, as a text of its own."""

    embedding_std: float = 1.0
    weight_bound: float = 0.1
    """Projections start uniform in ± this."""

    dropout: float = 0.0
    """Probability of zeroing an entry of a word's embedding (positions are never dropped)."""
    word_dropout: float = 0.0
    """Probability of showing UNK instead of a word."""
    label_smoothing: float = 0.0
    weight_decay: float = 0.01
    embedding_decay: float | None = None
    """Weight decay of the embedding; the same as ``weight_decay`` if none is given."""

    batch: int = 64
    epochs: int = 10
    learning_rate: float = 1e-3
    schedule: Literal["constant", "one-cycle"] = "constant"
    warmup: float = 0.3
    """Share of a one-cycle run in which the learning rate rises."""
    average: float = 0.0
    """Decay of the moving average of the weights, which is what is kept; 0 keeps the weights."""

    validation: float = 0.2
    """Share of the data held out to pick the best epoch; 0 fits on all and keeps the last epoch."""
    patience: int | None = None
    """Stop after this many epochs without a better validation accuracy."""
    least_steps: int = 0
    """Patience does not stop a run before this many steps."""

    def __post_init__(self) -> None:
        for one in fields(self):
            check_kind(one, getattr(self, one.name))
        for names, what, holds in _RANGES:
            for name in names.split():
                if (value := getattr(self, name)) is not None and not holds(value):
                    raise InputError(f"{name} must be {what}; got {value}.")


_RANGES: tuple[tuple[str, str, Callable[[float], bool]], ...] = (
    (
        "heads d_e d_att d_out min_count batch epochs patience grid hidden",
        "at least 1",
        lambda x: x >= 1,
    ),
    ("embedding_std weight_bound learning_rate position_base", "positive", lambda x: x > 0),
    ("dropout word_dropout label_smoothing average validation", "in [0, 1)", lambda x: 0 <= x < 1),
    ("position_scale weight_decay least_steps", "at least 0", lambda x: x >= 0),
    ("warmup", "between 0 and 1", lambda x: 0 < x < 1),
    ("T_max", "at least 2", lambda x: x >= 2),
)


def check_kind(setting: Field[Any], value: Any) -> None:
    """Refuse a value that is not of the kind of a setting."""
    if kind := _wanted(value, setting.type):
        raise InputError(f"{setting.name} must be {kind}; got {value!r}.")


def _wanted(value: Any, kind: Any) -> str | None:
    """Return in words what ``value`` should be, or None where it is of that kind."""
    choices = get_args(kind)
    if get_origin(kind) is Literal:
        return None if value in choices else f"one of {', '.join(choices)}"
    if choices:
        return None if value is None else _wanted(value, choices[0])
    if kind is bool or isinstance(value, bool):
        return None if kind is type(value) else "true or false" if kind is bool else "a number"
    if kind is int:
        if not isinstance(value, int):
            return "a whole number"
        return None if abs(value) < 1 << 53 else "below 2⁵³"  # steps are counted in floats too
    fits = isinstance(value, int | float) and abs(value) <= sys.float_info.max
    return None if fits else "a finite number"


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
    "pictures": Recipe(
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


def recipe_named(name: str) -> Recipe:
    """Return the recipe called ``name``; the error for an unknown one lists them all."""
    if name not in RECIPES:
        raise InputError(nearest("recipe", name, RECIPES))
    return RECIPES[name]
