"""Inputs of the attention classifier as the arrays that exact methods need."""

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
    AttentionClassifier = Any  # its module imports this one


@dataclass(frozen=True, kw_only=True, eq=False)
class CollapsedInputs:
    """``n`` inputs under one model, each with its features.

    Arrays are computed at their first use and shared by all methods. Padding takes part in
    attention, so the window is the same for every input and no array is ragged. The argument
    ``weights`` of the methods is ∂F/∂f_c of the explained number F, which may depend on several
    classes.
    """

    model: AttentionClassifier
    inputs: tuple[ModelInput, ...]
    features: tuple[Features, ...]

    @cached_property
    def ids(self) -> Int[np.ndarray, "n T_max"]:
        """The vocabulary row of the token at every position of the window."""
        rows = [model_input.encoding.ids for model_input in self.inputs]
        return padded_ids(rows, T_max=self.model.T_max)

    @cached_property
    def logit(self) -> Float[np.ndarray, "n K T_max"]:
        """The attention logits of the inputs."""
        return _positions_last(self.model.tables.logit(self.ids))

    @cached_property
    def alpha(self) -> Float[np.ndarray, "n K T_max"]:
        """The attention of [cls] to every position."""
        return attention(self.logit)

    @cached_property
    def u(self) -> Float[np.ndarray, "n C K T_max"]:
        """The value of every position, which is its contribution if it has all attention."""
        return _positions_last(self.model.tables.value(self.ids))

    @cached_property
    def base_ids(self) -> Int[np.ndarray, "n T_max"]:
        """The vocabulary rows with every feature replaced, by UNK or by the row of the input."""
        removed: Any = np.int32(UNK)
        # The inputs belong to one model: either all have rows for removed tokens, or none has.
        if self.inputs[0].encoding.removed is not None:
            rows = [model_input.encoding.removed for model_input in self.inputs]
            removed = padded_ids(rows, T_max=self.model.T_max)
        return np.where(self.position_features >= 0, removed, self.ids)

    @property
    def possible_ids(self) -> Int[np.ndarray, "n seen"]:
        """All words that can occur in an input under some mask, except UNK, which always can."""
        if self.inputs[0].encoding.removed is None:
            return self.ids
        return np.concatenate([self.ids, self.base_ids], axis=1)

    @cached_property
    def base_logit(self) -> Float[np.ndarray, "n K T_max"]:
        """The attention logits with every feature removed."""
        return _positions_last(self.model.tables.logit(self.base_ids))

    @cached_property
    def base_u(self) -> Float[np.ndarray, "n C K T_max"]:
        """The values with every feature removed."""
        return _positions_last(self.model.tables.value(self.base_ids))

    def path(self, rows: slice) -> LogitPath:
        """Return the path of the logits of some inputs from all features removed to none removed.

        Parameters
        ----------
        rows
            The inputs.
        """
        start, end = self.base_logit[rows], self.logit[rows]
        tables = self.model.tables
        if (units := tables.units) is None:
            return LogitPath(start, end)
        ids, base_ids = self.ids[rows], self.base_ids[rows]
        # Hidden units are computed only at positions whose word changes: others stay constant.
        (positions,) = np.nonzero((ids != base_ids).any(axis=0))
        start, end, unit_inputs = start.copy(), end.copy(), []
        # Only the linear part: the part of the units is added at every point of the path.
        for logit, words in ((start, base_ids), (end, ids)):
            changed_words = words[:, positions]
            linear = tables.word_logit[changed_words] + tables.position_logit[positions]
            logit[..., positions] = _positions_last(linear)
            unit_inputs.append(_heads_first(units.unit_inputs(changed_words, positions)))
        unit_start, unit_end = unit_inputs
        return LogitPath(start, end, UnitPath(positions, unit_start, unit_end, units.weight))

    @cached_property
    def read_logit(self) -> Float[np.ndarray, "n K T_max"]:
        """The slope of every logit along the embedding at its position, e_t · ∇ℓ_t."""
        tables = self.model.tables
        if (units := tables.units) is None:
            return self.logit
        h = units.unit_inputs(self.ids, np.arange(self.model.T_max))
        # Without the offset, which depends on [cls] and belongs to no e_t.
        along = (unit_slopes(h, units.weight) * (h - units.offset)).sum(axis=-1)
        return _positions_last(tables.word_logit[self.ids] + tables.position_logit + along)

    @cached_property
    def base_outputs(self) -> Float[np.ndarray, "n C"]:
        """The model's outputs with every feature removed."""
        if self.model.device_tables is not None:
            # The game is on the device already, while the arrays would have to be computed.
            return host_array(empty_value(self.game))
        return (attention(self.base_logit)[:, None] * self.base_u).sum(-1).mean(-1)

    @cached_property
    def position_features(self) -> Int[np.ndarray, "n T_max"]:
        """The feature at every position; -1 at [cls], padding and protected words."""
        position_features = np.full((len(self.inputs), self.model.T_max), -1)
        for row, features in zip(position_features, self.features, strict=True):
            row[1 : 1 + len(features.feature_index)] = features.feature_index
        return position_features

    @cached_property
    def embeddings(self) -> Float[np.ndarray, "n T_max d_e"]:
        """The embedded tokens, positions included."""
        return self.model.embedding[self.ids].astype(np.float64) + self.model.positions

    @cached_property
    def game(self) -> RatioGame:
        """The games of all inputs: each feature stays, or is replaced at all its positions.

        There is one class for each output. Inputs with fewer features are padded by features of
        weight 0.
        """
        if (device_tables := self.model.device_tables) is not None:
            logit, base_logit, u, base_u, errors = self._gather_on_device(*device_tables)
        else:
            logit, base_logit, errors = self.logit, self.base_logit, self.bounds
            u, base_u = self.u, self.base_u
        xp = array_namespace(logit)
        # The largest logit of each head is subtracted before the exponential. This does not change
        # a ratio, and without it a logit of 710 would overflow.
        top = xp.max(xp.maximum(logit, base_logit), axis=-1, keepdims=True)
        g, g_h = (xp.exp(x - top)[:, None] for x in (logit, base_logit))
        # Sums over the positions of each feature. The last sum is that of [cls], padding and
        # protected words.
        d, C = max(map(len, self.features)), u.shape[1]
        groups = np.where(self.position_features >= 0, self.position_features, d)
        sums = _sum_groups(xp.concat([g, g_h, g * u, g_h * base_u], axis=1), groups, d + 1)
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
        return replace(game, error=errors.output_errors(self.possible_ids.shape[1], smallest))

    def _gather_on_device(self, tables: Tables, errors: TableErrors) -> tuple[Any, ...]:
        """Return the logits and values of a game, and bounds of their errors, as tensors."""
        ids, base_ids, possible_ids = (
            array_like(x.astype(np.int64), errors.logit)  # indices of torch have 64 bits
            for x in (self.ids, self.base_ids, self.possible_ids)
        )
        gathered = [f(x) for f in (tables.logit, tables.value) for x in (ids, base_ids)]
        tensors = [x.movedim(1, -1).contiguous() for x in gathered]
        return *tensors, errors.for_texts(possible_ids)

    @cached_property
    def bounds(self) -> TableErrors:
        """Bounds of the rounding errors of the logits and values of each input."""
        return self.model.table_errors.for_texts(self.possible_ids)

    def token_gradient(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n T d_e"]:
        """Return the gradient at the tokens of the inputs, without [cls] and padding."""
        # Padding has no features, and it fills most of the window of a short text.
        T = 1 + max(len(model_input.tokens) for model_input in self.inputs)
        alpha, u = self.alpha, self.target_u(weights)
        surplus = alpha * (u - head_outputs(alpha, u)[..., None])
        return token_gradients(
            alpha[..., 1:T],
            surplus[..., 1:T],
            key=self.model.directions.key,
            value=self._target_value(weights),
            units=self._hidden_units(1, T),
        )

    def gradient(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n T_max d_e"]:
        """Return the gradient of the explained number at every position, [cls] included."""
        # A skip connection reads [cls] too, without any head.
        rows = gradient(**self.gradient_arguments(weights))
        rows[:, 0] += weights @ self.model.directions.cls_value
        return rows

    def head_gradients(
        self, weights: Float[np.ndarray, "n C"]
    ) -> Float[np.ndarray, "n K T_max d_e"]:
        """Return the gradient of every head at every position, [cls] included."""
        # The skip connection counts in full for every head: f is the mean over heads, and so is
        # its gradient.
        rows = head_gradients(**self.gradient_arguments(weights))
        rows[:, :, 0] += (weights @ self.model.directions.cls_value)[:, None]
        return rows

    @property
    def attention(self) -> Float[np.ndarray, "n K T_max"]:
        """The attention of the heads, without the head of a skip connection from the mean."""
        return self.alpha[:, :-1] if self.model.directions.skip_head else self.alpha

    def attended_u(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n K T_max"]:
        """Return the values of the heads of `attention` for the target.

        The mean over these heads of attention times value is their part of f.
        """
        # The constant is the part of a skip connection from [cls], and belongs to no head.
        u = self.target_u(weights) - (weights @ self.model.directions.constant)[:, None, None]
        # f is the mean over all heads, including the head of a skip connection from the mean. The
        # factor makes the mean over the other heads equal to their part of f.
        K = self.attention.shape[1]
        return u[:, :K] * (K / u.shape[1])

    def read_u(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n K T_max"]:
        """Return the part of the values for the target that depends on the embeddings."""
        return self.target_u(weights) - (weights @ self.model.directions.offset)[..., None]

    def target_u(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n K T_max"]:
        """Return the values for the target, Σ_c ∂F/∂f_c u_c."""
        return np.einsum("nc,nckt->nkt", weights, self.u)

    def gradient_arguments(self, weights: Float[np.ndarray, "n C"]) -> dict[str, Any]:
        """Return the arguments of Theorem 4.1 for the explained number."""
        units = self._hidden_units(0, self.model.T_max)
        return {
            "alpha": self.alpha,
            "u": self.target_u(weights),
            "e": self.embeddings,
            "key": self.model.directions.key,
            "value": self._target_value(weights),
            "query": self.model.directions.query,
            **({} if units is None else {"units": units}),
        }

    def _hidden_units(self, first: int, end: int) -> HiddenUnits | None:
        """Return the hidden units at the positions from ``first`` to ``end``; None without any."""
        tables, directions = self.model.tables.units, self.model.directions.units
        if tables is None or directions is None:
            return None
        h = tables.unit_inputs(self.ids[:, first:end], np.arange(first, end))
        return HiddenUnits(_heads_first(h), directions.weight, directions.key, directions.query)

    def _target_value(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n K d_e"]:
        """Return the direction of embedding space in which each head reads the target's value."""
        return np.einsum("nc,cke->nke", weights, self.model.directions.value)

    def pool_features(self, scores: Float[np.ndarray, "n *K T"]) -> list[Float[np.ndarray, "*K d"]]:
        """Return, for every input, the sums of token scores over the positions of each feature.

        The first score is that of the token after [cls]. Scores of padding are ignored.
        """
        flat = scores.reshape(len(scores), -1, scores.shape[-1])
        pooled = []
        for rows, features in zip(flat, self.features, strict=True):
            inside = features.feature_index >= 0
            feature, d = features.feature_index[inside], len(features)
            tokens = rows[:, : len(inside)][:, inside]
            sums = [np.bincount(feature, weights=row, minlength=d) for row in tokens]
            pooled.append(np.array(sums).reshape(*scores.shape[1:-1], d))
        return pooled


def _positions_last(table: Float[np.ndarray, "n T *K"]) -> Float[np.ndarray, "n *K T"]:
    """Move the axis of positions to the end of an array."""
    # Contiguous, because all sums and softmaxes that follow run over positions.
    return np.ascontiguousarray(np.moveaxis(table, 1, -1))


def _sum_groups(
    terms: Float[Array, "n parts K T"], groups: Int[np.ndarray, "n T"], count: int
) -> Float[Array, "n parts K groups"]:
    """Return the sums of the terms of each group of positions, for ``count`` groups."""
    groups, shape = groups[:, None, None], (*terms.shape[:-1], count)
    if not isinstance(terms, np.ndarray):
        # A GPU adds in an order that differs between calls. The bounds hold for every order.
        index = array_like(groups, terms).expand_as(terms)
        return terms.new_zeros(shape).scatter_add_(-1, index, terms)
    # One bincount for all sums: a loop over inputs and heads takes ten times as long.
    row = np.arange(terms[..., 0].size).reshape(*terms.shape[:-1], 1)
    bucket = (row * count + groups).ravel()
    return np.bincount(bucket, terms.ravel(), minlength=row.size * count).reshape(shape)


def _heads_first(h: Float[np.ndarray, "n T K d_h"]) -> Float[np.ndarray, "n K T d_h"]:
    """Move the axis of heads before that of positions."""
    return np.ascontiguousarray(h.swapaxes(1, 2))
