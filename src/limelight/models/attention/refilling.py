"""Random refilling on the tables of a classifier: removed words become words of a background."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.attention.collapsed import CollapsedInputs
from limelight.models.attention.tables import Tables
from limelight.shapes import Bool, Float, Int
from limelight.text import Vocabulary, token_strings
from limelight.theory.refilling import (
    RefillGame,
    WordNodes,
    compress_words,
)
from limelight.theory.table_rounding import ROUNDING

_VALUE_TOLERANCE = 1e-9  # of the outputs for masks
_ANY_ORDER = 12  # the smallest weight of a word does not depend on the order


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """The distribution of the words that replace removed words.

    Attributes
    ----------
    ids
        Rows of the vocabulary, each once.
    weights
        The weight of each, such as its number of occurrences.
    """

    ids: Int[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]

    def __post_init__(self) -> None:
        for array in (self.ids, self.weights):
            array.setflags(write=False)  # the fingerprint of a model depends on them

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only array becomes writable when it is pickled.
        return type(self), (self.ids, self.weights)

    @property
    def probability(self) -> Float[np.ndarray, " n"]:
        """The probability of each word."""
        return self.weights / self.weights.sum()

    @property
    def digest(self) -> str:
        """The SHA-256 of the distribution."""
        digest = hashlib.sha256(self.ids.astype("<i8").tobytes())
        digest.update(self.probability.astype("<f8").tobytes())
        return digest.hexdigest()

    def words(self, vocabulary: Vocabulary) -> dict[str, float]:
        """Return the weight of each word, from which another process makes the background."""
        pairs = zip(self.ids.tolist(), self.weights.tolist(), strict=True)
        return {vocabulary.words[i]: weight for i, weight in pairs}


def make_background(texts: Any, vocabulary: Vocabulary) -> Background:
    """Return the frequencies of words in texts, or in a mapping from words to their weights.

    Parameters
    ----------
    texts
        Texts, or a mapping.
    vocabulary
        The vocabulary of the model. Other words count as UNK, as the model reads them.

    Raises
    ------
    InputError
        If there is no word, or a weight is not positive and finite.
    """
    if isinstance(texts, Mapping):
        words, weights = list(texts), list(texts.values())
        if not all(isinstance(word, str) for word in words):
            raise InputError("the words of background must be strings.")
        for word, weight in texts.items():
            is_number = isinstance(weight, Real) and not isinstance(weight, bool)
            if not is_number or not 0 < float(weight) < np.inf:
                raise InputError(
                    f"the weights of background must be positive, not {weight!r} for {word!r}."
                )
    elif isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(
            "background must be a list of texts, or a mapping from words to their weights, not "
            f"{type(texts).__name__}."
        )
    else:
        text_list = list(texts)
        for number, text in enumerate(text_list):
            if not isinstance(text, str):
                raise InputError(
                    f"background must contain strings, but entry {number} is {type(text).__name__}."
                )
        words = [word for text in text_list for word in token_strings(text)]
        weights = [1.0] * len(words)
    if not words:
        raise InputError("background has no words. Give at least one text with a word.")
    counts = np.bincount(vocabulary.encode(words), np.array(weights, dtype=np.float64))
    ids = np.flatnonzero(counts)
    return Background(ids, counts[ids])


class WordNodeCache:
    """The nodes that replace the words of a background, for each combination of outputs."""

    def __init__(self, tables: Tables, background: Background) -> None:
        self._ids = background.ids
        self._logit = tables.word_logit[background.ids]
        self._value = tables.word_value[background.ids]
        self._probability = background.probability
        self._nodes: dict[tuple[bytes, int], list[WordNodes]] = {}

    @property
    def top(self) -> Float[np.ndarray, " K"]:
        """The largest logit of a word of the background, for each head."""
        return self._logit.max(axis=0)

    @property
    def logit_range(self) -> Float[np.ndarray, " K"]:
        """The largest distance of two logits of words of the background, for each head."""
        return self._logit.max(axis=0) - self._logit.min(axis=0)

    def possible_ids(self, ids: Int[np.ndarray, "1 T"]) -> Int[np.ndarray, "1 seen"]:
        """Return the ids of a text, and those that can replace its words."""
        return np.concatenate([ids, self._ids[None]], axis=1)

    def for_weights(
        self, weights: Float[np.ndarray, "targets C"]
    ) -> Callable[[int], Sequence[WordNodes]]:
        """Return the nodes of every head as a function of the order, for sums of outputs."""

        def compute_nodes(order: int) -> list[WordNodes]:
            """Return the nodes of every head, computed at the first call."""
            key = (weights.tobytes() + bytes(str(weights.shape), "ascii"), order)
            if key not in self._nodes:
                value = np.einsum("fc,nck->kfn", weights, self._value)
                self._nodes[key] = [
                    compress_words(logit, head_value, self._probability, order=order)
                    for logit, head_value in zip(self._logit.T, value, strict=True)
                ]
            return self._nodes[key]

        return compute_nodes


def make_refill_game(
    inputs: CollapsedInputs, word_nodes: WordNodeCache, weights: Float[np.ndarray, "targets C"]
) -> RefillGame:
    """Return the game of a single input, in which a background refills removed words.

    Parameters
    ----------
    inputs
        The input with its features.
    word_nodes
        The words of the background.
    weights
        The weights of the model's outputs in each explained number.

    Returns
    -------
    The game, with bounds on the rounding errors of the tables.
    """
    tables, (features,), (position_features,) = (
        inputs.model.tables, inputs.features, inputs.position_features
    )  # fmt: skip
    nodes = word_nodes.for_weights(weights)
    logit, u = inputs.logit[0], np.einsum("fc,ckt->fkt", weights, inputs.u[0])
    positions, d = np.flatnonzero(position_features >= 0), len(features)
    refill_logit = word_nodes.top[:, None] + tables.position_logit[positions].T
    top = np.maximum(logit.max(axis=1), refill_logit.max(axis=1))[:, None]
    g, scale = np.exp(logit - top), np.exp(refill_logit - top)
    # The last group is that of [cls], padding and protected words.
    groups = np.where(position_features >= 0, position_features, d)
    member = (groups[:, None] == np.arange(d + 1)).astype(np.float64)
    a, A = g @ member, (g * u) @ member
    position_value = tables.position_value[positions].transpose(1, 2, 0)
    least = np.array([head.least for head in nodes(_ANY_ORDER)])[:, None]
    smallest = a[:, -1] + np.minimum(a[:, :-1], (scale * least) @ member[positions, :-1]).sum(
        axis=1
    )
    errors = inputs.model.table_errors.for_texts(word_nodes.possible_ids(inputs.ids))
    # A weight of a refill is a product of two exponentials, each of a rounded difference.
    rounded = np.abs(word_nodes.top) + np.abs(top[:, 0]) + np.abs(refill_logit).max(axis=1)
    errors = errors._replace(logit=errors.logit + 4 * ROUNDING * (rounded + word_nodes.logit_range))
    output_errors = errors.output_errors(2 * logit.shape[1], smallest[None])[0]
    return RefillGame(
        D0=a[:, -1],
        a=a[:, :-1],
        N0=A[..., -1],
        A=A[..., :-1],
        words=nodes,
        scale=scale,
        position_value=np.einsum("fc,ckt->fkt", weights, position_value),
        group=position_features[positions],
        error=np.abs(weights) @ output_errors,
    )


def refilled_outputs(
    inputs: CollapsedInputs, word_nodes: WordNodeCache
) -> Callable[[Bool[np.ndarray, "n d"]], Float[np.ndarray, "n C"]]:
    """Return the mean outputs over all refills for a single input, as a function of masks."""
    game = make_refill_game(inputs, word_nodes, np.eye(inputs.u.shape[1]))
    return lambda keep: game.value(keep, tolerance=_VALUE_TOLERANCE)[0]
