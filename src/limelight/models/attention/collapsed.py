"""Some documents of the attention classifier as one set of arrays: what exact methods need."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from limelight.models.attention.inputs import padded_ids
from limelight.models.attention.tables import TableErrors, Tables
from limelight.shapes import Array, Float, Int
from limelight.text import UNK, Features, ModelInput
from limelight.theory.attention import HiddenUnits, attention, head_outputs, unit_slopes
from limelight.theory.gradient import gradient, head_gradients, token_gradients
from limelight.theory.logit_path import LogitPath, UnitPath
from limelight.theory.namespace import array_like, array_namespace, host_array
from limelight.theory.ratio_game import RatioGame, denominator_range, empty_value
from limelight.threads import cached_property

if TYPE_CHECKING:
    from limelight.models.attention.classifier import AttentionClassifier
else:
    AttentionClassifier = Any  # which is made of this module


@dataclass(frozen=True, kw_only=True, eq=False)
class CollapsedInputs:
    """``n`` documents under one model, each with its features.

    Arrays are computed when first asked for and shared by all methods. Padding takes part in
    attention, so the window is the same for every document and nothing is ragged. ``weights``
    are ∂F/∂f_c of the explained number F, which may mix several classes.
    """

    model: AttentionClassifier
    inputs: tuple[ModelInput, ...]
    features: tuple[Features, ...]

    @cached_property
    def ids(self) -> Int[np.ndarray, "n T_max"]:
        """Vocabulary rows over the whole window."""
        rows = [model_input.encoding.ids for model_input in self.inputs]
        return padded_ids(rows, T_max=self.model.T_max)

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
    def base_ids(self) -> Int[np.ndarray, "n T_max"]:
        """The documents with every feature removed: UNK at its places, or what stands there."""
        removed: Any = np.int32(UNK)
        # All of one model: if one document knows what stands in its removed places, all do.
        if self.inputs[0].encoding.removed is not None:
            rows = [model_input.encoding.removed for model_input in self.inputs]
            removed = padded_ids(rows, T_max=self.model.T_max)
        return np.where(self.position_features >= 0, removed, self.ids)

    @property
    def possible_ids(self) -> Int[np.ndarray, "n seen"]:
        """All words that may stand anywhere in a document, but for UNK, which always may."""
        if self.inputs[0].encoding.removed is None:
            return self.ids
        return np.concatenate([self.ids, self.base_ids], axis=1)

    @cached_property
    def base_logit(self) -> Float[np.ndarray, "n K T_max"]:
        """Attention logits with every feature removed."""
        return _positions_last(self.model.tables.logit(self.base_ids))

    @cached_property
    def base_u(self) -> Float[np.ndarray, "n C K T_max"]:
        """Values with every feature removed."""
        return _positions_last(self.model.tables.value(self.base_ids))

    def path(self, some: slice) -> LogitPath:
        """The logits of some documents on the way there from every feature removed."""
        start, end = self.base_logit[some], self.logit[some]
        tables = self.model.tables
        if (units := tables.units) is None:
            return LogitPath(start, end)
        ids, base_ids = self.ids[some], self.base_ids[some]
        # Hidden units are followed on their way only where words change: elsewhere nothing moves.
        (places,) = np.nonzero((ids != base_ids).any(axis=0))
        given, start, end = [], start.copy(), end.copy()
        # The linear part alone: the units add theirs at every point of the path.
        for logit, words in ((start, base_ids), (end, ids)):
            there = words[:, places]
            linear = tables.word_logit[there] + tables.position_logit[places]
            logit[..., places] = _positions_last(linear)
            given.append(_heads_first(units.unit_inputs(there, places)))
        return LogitPath(start, end, UnitPath(places, given[0], given[1], units.weight))

    @cached_property
    def read_logit(self) -> Float[np.ndarray, "n K T_max"]:
        """The slope of every logit along the embedding that it is read of, e_t · ∇ℓ_t."""
        tables = self.model.tables
        if (units := tables.units) is None:
            return self.logit
        h = units.unit_inputs(self.ids, np.arange(self.model.T_max))
        # Less the offset, which is read of [cls] and belongs to no e_t.
        along = (unit_slopes(h, units.weight) * (h - units.offset)).sum(axis=-1)
        return _positions_last(tables.word_logit[self.ids] + tables.position_logit + along)

    @cached_property
    def base_outputs(self) -> Float[np.ndarray, "n C"]:
        """The model's outputs with every feature removed."""
        if self.model.device_tables is not None:
            # The game is there already, the arrays would not be.
            return host_array(empty_value(self.game))
        return (attention(self.base_logit)[:, None] * self.base_u).sum(-1).mean(-1)

    @cached_property
    def position_features(self) -> Int[np.ndarray, "n T_max"]:
        """The feature at every position; -1 at [cls], padding and protected words."""
        places = np.full((len(self.inputs), self.model.T_max), -1)
        for line, features in zip(places, self.features, strict=True):
            line[1 : 1 + len(features.feature_index)] = features.feature_index
        return places

    @cached_property
    def embeddings(self) -> Float[np.ndarray, "n T_max d_e"]:
        """The embedded tokens, positions included."""
        return self.model.embedding[self.ids].astype(np.float64) + self.model.positions

    @cached_property
    def game(self) -> RatioGame:
        """The games of all documents, each feature kept or replaced by UNK at all its places.

        One class for each output. Documents with fewer features are padded by words of weight 0.
        """
        if (there := self.model.device_tables) is not None:
            logit, base_logit, u, base_u, seen = self._on_device(*there)
        else:
            logit, base_logit, seen = self.logit, self.base_logit, self.bounds
            u, base_u = self.u, self.base_u
        xp = array_namespace(logit)
        # The largest logit of each head is taken off before the exponential: a ratio does not
        # notice, and without it a logit of 710 would overflow.
        top = xp.max(xp.maximum(logit, base_logit), axis=-1, keepdims=True)
        g, g_h = (xp.exp(x - top)[:, None] for x in (logit, base_logit))
        # Summed over the places of each feature; [cls], padding and protected words come last.
        d, C = max(map(len, self.features)), u.shape[1]
        place = np.where(self.position_features >= 0, self.position_features, d)
        sums = _summed(xp.concat([g, g_h, g * u, g_h * base_u], axis=1), place, d + 1)
        a, b, A, B = sums[:, 0], sums[:, 1], sums[:, 2 : 2 + C], sums[:, 2 + C :]
        game = RatioGame(
            D0=a[..., -1],
            a=a[..., :-1],
            b=b[..., :-1],
            N0=A[..., -1],
            A=A[..., :-1],
            B=B[..., :-1],
            sizes=array_like(np.array([len(features) for features in self.features]), a),
        )
        smallest = denominator_range(game)[0]
        return replace(game, error=seen.output_errors(self.possible_ids.shape[1], smallest))

    def _on_device(self, tables: Tables, errors: TableErrors) -> tuple[Any, ...]:
        """What a game is made of, as tensors."""
        ids, base_ids, possible_ids = (
            array_like(x.astype(np.int64), errors.logit)  # indices of torch have 64 bits
            for x in (self.ids, self.base_ids, self.possible_ids)
        )
        read = [f(x) for f in (tables.logit, tables.value) for x in (ids, base_ids)]
        return *(x.movedim(1, -1).contiguous() for x in read), errors.for_texts(possible_ids)

    @cached_property
    def bounds(self) -> TableErrors:
        """What is known of the logits and values of each document."""
        return self.model.table_errors.for_texts(self.possible_ids)

    def token_gradient(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n T d_e"]:
        """The gradient at the tokens alone, which is all that features need."""
        # Padding is left out: it has no features, and is most of the window of a short text.
        T = 1 + max(len(model_input.tokens) for model_input in self.inputs)
        alpha, u = self.alpha, self.target_u(weights)
        surplus = alpha * (u - head_outputs(alpha, u)[..., None])
        return token_gradients(
            alpha[..., 1:T],
            surplus[..., 1:T],
            key=self.model.directions.key,
            value=self._target_value(weights),
            units=self._units_at(1, T),
        )

    def gradient(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n T_max d_e"]:
        """The gradient of the explained number at every position, [cls] included."""
        # A skip connection reads [cls] besides, past all heads.
        rows = gradient(**self.gradient_arguments(weights))
        rows[:, 0] += weights @ self.model.directions.cls_value
        return rows

    def head_gradients(
        self, weights: Float[np.ndarray, "n C"]
    ) -> Float[np.ndarray, "n K T_max d_e"]:
        """Every head's own gradient at every position, [cls] included."""
        # Whole for every head: f is their mean, and so is its gradient.
        rows = head_gradients(**self.gradient_arguments(weights))
        rows[:, :, 0] += (weights @ self.model.directions.cls_value)[:, None]
        return rows

    @property
    def attention(self) -> Float[np.ndarray, "n K T_max"]:
        """Attention of the heads: a skip connection from the mean is not one of them."""
        return self.alpha[:, :-1] if self.model.directions.skip_head else self.alpha

    def attended_u(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n K T_max"]:
        """Values of the same heads for the target; the mean of attention times it is their f."""
        # No head makes the constant: it is what a skip connection takes from [cls].
        own = self.target_u(weights) - (weights @ self.model.directions.constant)[:, None, None]
        # f is the mean over all heads, that of the skip connection among them: the mean over the
        # others must be as large as their part of it.
        K = self.attention.shape[1]
        return own[:, :K] * (K / own.shape[1])

    def read_u(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n K T_max"]:
        """Values as they are read of the embedding for the target: without any constant."""
        return self.target_u(weights) - (weights @ self.model.directions.offset)[..., None]

    def target_u(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n K T_max"]:
        """Values seen by the target: Σ_c ∂F/∂f_c u_c."""
        return np.einsum("nc,nckt->nkt", weights, self.u)

    def gradient_arguments(self, weights: Float[np.ndarray, "n C"]) -> dict[str, Any]:
        """The arguments of Theorem 4.1 for the explained number."""
        units = self._units_at(0, self.model.T_max)
        return {
            "alpha": self.alpha,
            "u": self.target_u(weights),
            "e": self.embeddings,
            "key": self.model.directions.key,
            "value": self._target_value(weights),
            "query": self.model.directions.query,
            **({} if units is None else {"units": units}),
        }

    def _units_at(self, first: int, end: int) -> HiddenUnits | None:
        """The hidden units at some places of the texts, where the model has any."""
        tables, seen = self.model.tables.units, self.model.directions.units
        if tables is None or seen is None:
            return None
        h = tables.unit_inputs(self.ids[:, first:end], np.arange(first, end))
        return HiddenUnits(_heads_first(h), seen.weight, seen.key, seen.query)

    def _target_value(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n K d_e"]:
        """The direction of embedding space along which each head reads the target's value."""
        return np.einsum("nc,cke->nke", weights, self.model.directions.value)

    def pool_features(self, scores: Float[np.ndarray, "n *K T"]) -> list[Float[np.ndarray, "*K d"]]:
        """Return, for every document, scores of tokens summed over each feature's places.

        Tokens count from the one after [cls]; the padding after a document's own is left out.
        """
        flat = scores.reshape(len(scores), -1, scores.shape[-1])
        pooled = []
        for rows, features in zip(flat, self.features, strict=True):
            inside = features.feature_index >= 0
            at, d = features.feature_index[inside], len(features)
            tokens = rows[:, : len(inside)][:, inside]
            sums = [np.bincount(at, weights=row, minlength=d) for row in tokens]
            pooled.append(np.array(sums).reshape(*scores.shape[1:-1], d))
        return pooled


def _positions_last(table: Float[np.ndarray, "n T *K"]) -> Float[np.ndarray, "n *K T"]:
    # Contiguous: every sum and softmax that follows runs over positions, and so along the memory.
    return np.ascontiguousarray(np.moveaxis(table, 1, -1))


def _summed(
    terms: Float[Array, "n parts K T"], place: Int[np.ndarray, "n T"], places: int
) -> Float[Array, "n parts K places"]:
    """Return the sums of the terms that stand at each place."""
    place, shape = place[:, None, None], (*terms.shape[:-1], places)
    if not isinstance(terms, np.ndarray):
        # A GPU adds in any order, and not the same one each time; the bounds hold for all of them.
        there = array_like(place, terms).expand_as(terms)
        return terms.new_zeros(shape).scatter_add_(-1, there, terms)
    # One bincount over everything: a loop over documents and heads costs ten times as much.
    line = np.arange(terms[..., 0].size).reshape(*terms.shape[:-1], 1)
    bucket = (line * places + place).ravel()
    return np.bincount(bucket, terms.ravel(), minlength=line.size * places).reshape(shape)


def _heads_first(h: Float[np.ndarray, "n T K d_h"]) -> Float[np.ndarray, "n K T d_h"]:
    return np.ascontiguousarray(h.swapaxes(1, 2))
