"""Some documents as one set of arrays: what every method computes from."""

__all__ = ["REPLACEMENTS", "Reading", "read"]

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from limelight.errors import InputError, about_text, nearest
from limelight.explainers.targets import Targets, target_indices
from limelight.model import AttentionClassifier
from limelight.sampling import DeletionScorer, ReplacementScorer
from limelight.shapes import Float, Int
from limelight.text import (
    FEATURES,
    UNK,
    Document,
    Features,
    features_of,
    protected_words,
    window,
)
from limelight.theory.attention import attention, head_outputs
from limelight.theory.gradient import gradient, token_gradients

REPLACEMENTS: dict[str, type[ReplacementScorer] | type[DeletionScorer]] = {
    "unk": ReplacementScorer,
    "delete": DeletionScorer,
}


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """``n`` documents under one model, each with its features and its target.

    Arrays are computed when first asked for and shared by all methods. Padding takes part in
    attention, so the window is the same for every document and nothing is ragged.
    """

    replacement: ClassVar[str] = "unk"

    model: AttentionClassifier
    documents: tuple[Document, ...]
    features: tuple[Features, ...]
    targets: Targets
    protect: frozenset[str] = frozenset()
    first: int | None = None  # number of the first document in the caller's list of several

    def apart(self) -> Iterator["Reading"]:
        """Yield every document as a reading of its own."""
        for i in range(len(self.documents)):
            yield replace(
                self,
                documents=self.documents[i : i + 1],
                features=self.features[i : i + 1],
                targets=replace(self.targets, index=self.targets.index[i : i + 1]),
                first=None if self.first is None else self.first + i,
            )

    def aimed(self, index: int) -> "Reading":
        """Return the same documents with another class as the target."""
        aims = np.full(len(self.documents), index)
        return replace(self, targets=replace(self.targets, index=aims))

    def pooling(self, kind: str) -> str:
        """Return how scores of tokens become the score of a feature."""
        return "none" if kind == "positions" else "sum over occurrences"

    def notices(self, i: int) -> tuple[str, ...]:
        """Return how document ``i`` was read."""
        return self.documents[i].notices

    def windowing(self, i: int) -> dict[str, Any]:  # noqa: ARG002
        """Return nothing: the window is the model's own."""
        return {}

    def resolved(self, replacement: str) -> str:
        """Return what is put in place of a removed word."""
        return replacement

    def scorer(self, replacement: str = "unk") -> ReplacementScorer | DeletionScorer:
        """Return the outputs of the one document as a function of which features stay."""
        if replacement not in REPLACEMENTS:
            raise InputError(nearest("replacement", replacement, REPLACEMENTS))
        return REPLACEMENTS[replacement].of(self.model, self.documents[0], self.features[0])

    def attention_matrices(self) -> Float[np.ndarray, "K T T"]:
        """Return the heads' attention matrices of the one document."""
        return self.model.attention_matrices(self.documents[0])

    @cached_property
    def ids(self) -> Int[np.ndarray, "n T_max"]:
        """Vocabulary rows over the whole window."""
        return window([document.ids for document in self.documents], T_max=self.model.T_max)

    @cached_property
    def logit(self) -> Float[np.ndarray, "n K T_max"]:
        """Attention logits of the documents."""
        return _positions_last(self.model.tables.logit(self.ids))

    @cached_property
    def alpha(self) -> Float[np.ndarray, "n K T_max"]:
        """Attention of [cls] to every position."""
        return attention(self.logit)

    @cached_property
    def u(self) -> Float[np.ndarray, "n C K T_max"]:
        """What every position would contribute alone."""
        return _positions_last(self.model.tables.value(self.ids))

    @cached_property
    def outputs(self) -> Float[np.ndarray, "n C"]:
        """The model's outputs."""
        return (self.alpha[:, None] * self.u).sum(-1).mean(-1)

    @cached_property
    def base_ids(self) -> Int[np.ndarray, "n T_max"]:
        """The documents with every feature removed: UNK at its places."""
        ids = self.ids.copy()
        for line, features in zip(ids, self.features, strict=True):
            line[1 + np.flatnonzero(features.of_token >= 0)] = UNK
        return ids

    @cached_property
    def base_outputs(self) -> Float[np.ndarray, "n C"]:
        """The model's outputs with every feature removed."""
        logit, u = self.base_logit, self.base_u
        return (attention(logit)[:, None] * u).sum(-1).mean(-1)

    @cached_property
    def base_values(self) -> Float[np.ndarray, " n"]:
        """The explained output with every feature removed."""
        return self.targets.value(self.base_outputs)

    @cached_property
    def base_logit(self) -> Float[np.ndarray, "n K T_max"]:
        """Attention logits with every feature removed."""
        return _positions_last(self.model.tables.logit(self.base_ids))

    @cached_property
    def base_u(self) -> Float[np.ndarray, "n C K T_max"]:
        """Values with every feature removed."""
        return _positions_last(self.model.tables.value(self.base_ids))

    @cached_property
    def target_weights(self) -> Float[np.ndarray, "n C"]:
        """∂F/∂f_c at the documents."""
        return self.targets.weights(self.outputs)

    @cached_property
    def target_u(self) -> Float[np.ndarray, "n K T_max"]:
        """Values seen by the target: Σ_c ∂F/∂f_c u_c."""
        return np.einsum("nc,nckt->nkt", self.target_weights, self.u)

    @cached_property
    def embedded(self) -> Float[np.ndarray, "n T_max d_e"]:
        """The embedded tokens, positions included."""
        return self.model.embedding[self.ids].astype(np.float64) + self.model.positions

    @cached_property
    def target_value(self) -> Float[np.ndarray, "n K d_e"]:
        """The direction of embedding space along which each head reads the target's value."""
        return np.einsum("nc,cke->nke", self.target_weights, self.model.directions.value)

    @cached_property
    def at_the_text(self) -> dict[str, np.ndarray]:
        """The arguments of Theorem 4.1 for the explained output, which may mix several classes."""
        return {
            "alpha": self.alpha,
            "u": self.target_u,
            "e": self.embedded,
            "key": self.model.directions.key,
            "value": self.target_value,
            "query": self.model.directions.query,
        }

    @cached_property
    def gradient(self) -> Float[np.ndarray, "n T_max d_e"]:
        """The gradient of the explained output at every position, [cls] included."""
        return gradient(**self.at_the_text)

    @cached_property
    def token_gradient(self) -> Float[np.ndarray, "n T d_e"]:
        """The gradient at the tokens alone, which is all that features need."""
        T = 1 + max(len(document.ids) for document in self.documents)
        alpha, u = self.alpha, self.target_u
        surplus = alpha * (u - head_outputs(alpha, u)[..., None])
        return token_gradients(
            alpha[..., 1:T],
            surplus[..., 1:T],
            key=self.model.directions.key,
            value=self.target_value,
        )

    @cached_property
    def of_position(self) -> Int[np.ndarray, "n T_max"]:
        """The feature at every position; -1 at [cls], padding and protected words."""
        places = np.full(self.ids.shape, -1)
        for line, features in zip(places, self.features, strict=True):
            line[1 : 1 + len(features.of_token)] = features.of_token
        return places

    def pooled(self, scores: Float[np.ndarray, "n *K T"]) -> list[Float[np.ndarray, "*K d"]]:
        """Return, for every document, scores of tokens summed over each feature's places.

        Tokens count from behind [cls]; what follows a document's own is padding and left out.
        """
        flat = scores.reshape(len(scores), -1, scores.shape[-1])
        pooled = []
        for rows, features in zip(flat, self.features, strict=True):
            inside = features.of_token >= 0
            at, d = features.of_token[inside], len(features)
            tokens = rows[:, : len(inside)][:, inside]
            sums = [np.bincount(at, weights=row, minlength=d) for row in tokens]
            pooled.append(np.array(sums).reshape(*scores.shape[1:-1], d))
        return pooled


def read(
    model: AttentionClassifier,
    texts: Sequence[str],
    *,
    features: str | Sequence[int] = "words",
    target: str | int | None = None,
    output: str = "logit",
    protect: Collection[str] = (),
    first: int | None = None,
) -> Reading:
    """Return ``texts`` as ``model`` sees them, with what is to be explained.

    ``first`` is the number of the first text, for errors; None where there is only one.
    """
    if isinstance(features, str) and features not in FEATURES:
        raise InputError(nearest("features", features, FEATURES))
    kept = protected_words(protect)
    documents, scored = [], []
    for number, text in enumerate(texts, start=first or 0):
        with about_text(None if first is None else number):
            documents.append(model.read(text))
            scored.append(features_of(documents[-1], features, protect=kept))
    logits = model.logits_of_ids([document.ids for document in documents])
    return Reading(
        model=model,
        documents=tuple(documents),
        features=tuple(scored),
        targets=Targets(target_indices(target, model.classes, logits), model.classes, output),
        protect=kept,
        first=first,
    )


def _positions_last(table: Float[np.ndarray, "n T *K"]) -> Float[np.ndarray, "n *K T"]:
    return np.ascontiguousarray(np.moveaxis(table, 1, -1))
