"""The paper's classifier: one layer of attention heads, read at [cls], then a linear map."""

__all__ = ["WEIGHTS", "AttentionClassifier", "class_probabilities"]

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, final

import numpy as np

from limelight.errors import InputError
from limelight.model.factored import Factored, factored
from limelight.model.positions import sinusoidal_positions
from limelight.model.tables import Directions, Tables, collapse, predicted_logits
from limelight.shapes import Float
from limelight.text import CLS, Document, Vocabulary, read_document, token_strings, window

WEIGHTS = ("embedding", "W_q", "W_k", "W_v", "W_l")


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionClassifier:
    r"""K attention heads averaged into C logits (Eq. 1–9 of the paper).

    .. math:: f = \frac1K \sum_i W_\ell^{(i)} \sum_t \alpha_t^{(i)} v_t^{(i)}

    Shapes, finiteness and class names are checked when a model is made, so its fields are what
    their comments say. Weights keep the precision they were stored in; everything is computed in
    float64. With one output (C = 1) there are two classes, and f > 0 is the second.
    """

    embedding: np.ndarray  # V d_e
    W_q: np.ndarray  # K d_att d_e
    W_k: np.ndarray  # K d_att d_e
    W_v: np.ndarray  # K d_out d_e
    W_l: np.ndarray  # K C d_out
    vocabulary: Vocabulary
    classes: tuple[str, ...]
    T_max: int = 256
    position_base: float = 10000.0
    position_scale: float = 1.0
    tokenizer: str = "basic_english"
    record: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "record", MappingProxyType(dict(self.record)))
        for name in WEIGHTS:
            own = np.array(getattr(self, name))  # freezing it must not freeze the caller's array
            own.setflags(write=False)
            object.__setattr__(self, name, own)
        _check(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled; and tables are cheaper to make than to send.
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return partial(AttentionClassifier, **own | {"record": dict(self.record)}), ()

    @property
    def sizes(self) -> dict[str, int]:
        """The letters of the notation table and their values for this model."""
        (V, d_e), (K, d_att, _), (_, C, d_out) = (
            self.embedding.shape,
            self.W_q.shape,
            self.W_l.shape,
        )
        return {
            "V": V,
            "d_e": d_e,
            "K": K,
            "d_att": d_att,
            "d_out": d_out,
            "C": C,
            "T_max": self.T_max,
        }

    @property
    def config(self) -> dict[str, Any]:
        """What ``config.json`` holds: how to read the weights, then what training recorded."""
        return {
            "format": "limelight.attention/1",
            "T_max": self.T_max,
            "position_base": self.position_base,
            "position_scale": self.position_scale,
            "classes": list(self.classes),
            "tokenizer": self.tokenizer,
            **self.record,
        }

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of configuration, vocabulary and weights: equal for equal models only."""
        digest = hashlib.sha256(json.dumps(self.config, sort_keys=True).encode())
        digest.update("\n".join(self.vocabulary.words).encode())
        for name in WEIGHTS:
            array = getattr(self, name)
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        return digest.hexdigest()

    @cached_property
    def positions(self) -> Float[np.ndarray, "T_max d_e"]:
        """The positional part of every embedding."""
        return sinusoidal_positions(
            self.T_max,
            self.embedding.shape[1],
            base=self.position_base,
            scale=self.position_scale,
        )

    @cached_property
    def directions(self) -> Directions:
        """What each head reads of an embedding."""
        W_q, W_k, W_v, W_l = (
            array.astype(np.float64) for array in (self.W_q, self.W_k, self.W_v, self.W_l)
        )
        scale = 1 / np.sqrt(W_q.shape[1])
        q = W_q @ (self.embedding[CLS].astype(np.float64) + self.positions[0])
        return Directions(
            key=scale * np.einsum("ka,kae->ke", q, W_k),
            value=np.einsum("kco,koe->cke", W_l, W_v),
            query=scale * np.einsum("kad,kae->kde", W_q, W_k),
        )

    @cached_property
    def tables(self) -> Tables:
        """The model as two tables per head: all that a prediction needs."""
        return collapse(self.embedding.astype(np.float64), self.positions, self.directions)

    @cached_property
    def _factored(self) -> Factored | None:
        return factored(self.tables)

    def rounded(self, dtype: str) -> "AttentionClassifier":
        """Return the model with its weights in another precision, such as "float16"."""
        return replace(self, **{name: getattr(self, name).astype(dtype) for name in WEIGHTS})

    def read(self, text: str) -> Document:
        """Return ``text`` as this model sees it."""
        return read_document(text, self.vocabulary, T_max=self.T_max)

    def logits(self, texts: Sequence[str]) -> Float[np.ndarray, "n C"]:
        """Return the C outputs of the model for every text."""
        if isinstance(texts, str):
            raise InputError("logits takes a list of texts; got one string. Write [text].")
        rows = []
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"text {i} must be a string; got {type(text).__name__}.")
            strings = token_strings(text)
            if not strings:
                raise InputError(f"text {i} has no words; give at least one word.")
            rows.append(self.vocabulary.encode(strings[: self.T_max - 1]))
        return self.logits_of_ids(rows)

    def logits_of_ids(self, rows: Sequence[np.ndarray]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for documents that are encoded already, without [cls] and padding."""
        ids = window(rows, T_max=self.T_max)
        return predicted_logits(self.tables, ids) if self._factored is None else self._factored(ids)

    def predict_proba(self, texts: Sequence[str]) -> Float[np.ndarray, "n classes"]:
        """Return the probability of every class for every text; rows sum to one."""
        return class_probabilities(self.logits(texts))

    def attention_matrices(self, document: Document) -> Float[np.ndarray, "K T T"]:
        """Return every head's attention of every token to every token, [cls] first (Figure 3).

        Rows are softmaxes over the whole window, as in the model; the columns of the padding are
        left out, so a row sums to one minus the attention it pays to padding.
        """
        ids = window([document.ids], T_max=self.T_max)[0]
        e = self.embedding[ids].astype(np.float64) + self.positions
        T = 1 + len(document.ids)
        logit = np.einsum("se,kef,tf->kst", e[:T], self.directions.query, e, optimize=True)
        g = np.exp(logit - logit.max(axis=-1, keepdims=True))
        return (g / g.sum(axis=-1, keepdims=True))[:, :, :T]


def class_probabilities(
    logits: Float[np.ndarray, "n C"], link: str = "softmax"
) -> Float[np.ndarray, "n classes"]:
    """Return the softmax of two or more logits; for a single one, its sigmoid as two classes.

    With the link "sigmoid" every one of several logits has a probability of its own; with "none"
    the outputs are scores that are no logits, and there are no probabilities.
    """
    if link == "none":
        raise InputError(
            "the outputs of this model are scores, not log-odds, so it has no probabilities; "
            "explain the score."
        )
    if link == "sigmoid" and logits.shape[1] > 1:
        return 0.5 * (1 + np.tanh(logits / 2))
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def _check(model: AttentionClassifier) -> None:
    """Refuse weights that do not fit together, are not finite, or do not fit the vocabulary."""
    letters = {
        "embedding": "V d_e",
        "W_q": "K d_att d_e",
        "W_k": "K d_att d_e",
        "W_v": "K d_out d_e",
        "W_l": "K C d_out",
    }
    size: dict[str, int] = {"V": len(model.vocabulary)}
    for name, axes in letters.items():
        array = getattr(model, name)
        if array.dtype.kind != "f":
            raise InputError(f"{name} must hold floating-point numbers; got {array.dtype}.")
        if array.ndim != len(axes.split()):
            raise InputError(f"{name} must have the axes ({axes}); got shape {array.shape}.")
        for axis, length in zip(axes.split(), array.shape, strict=True):
            if size.setdefault(axis, length) != length:
                raise InputError(
                    f"{name} has shape {array.shape}, but its axis {axis} must be {size[axis]}."
                )
        if not np.isfinite(array).all():
            raise InputError(f"{name} holds NaN or infinite values; train or export it again.")
    outputs, named = size["C"], len(model.classes)
    if named != max(outputs, 2) or len(set(model.classes)) != named:
        raise InputError(
            f"a model with {outputs} output(s) needs {max(outputs, 2)} distinct class names; "
            f"got {list(model.classes)}."
        )
    _check_positions(model)
    if model.tokenizer != "basic_english":
        raise InputError(f"the tokenizer must be 'basic_english'; got {model.tokenizer!r}.")


def _check_positions(model: AttentionClassifier) -> None:
    if model.T_max < 2 or model.position_base <= 0:
        raise InputError(
            f"T_max must be at least 2 and position_base positive; "
            f"got {model.T_max} and {model.position_base}."
        )
    if not np.isfinite([model.position_base, model.position_scale]).all():
        raise InputError(
            "position_base and position_scale must be finite; "
            f"got {model.position_base} and {model.position_scale}."
        )
