"""The two tables per head that determine a classifier, and bounds of their rounding errors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limelight.errors import DomainError, InputError, MissingExtraError
from limelight.models.attention.weights import OPTIONS, wide_weights
from limelight.shapes import Array, Float, Int
from limelight.text import CLS, UNK
from limelight.theory.attention import unit_logits
from limelight.theory.namespace import array_like, array_namespace, host_array
from limelight.theory.table_rounding import (
    ROUNDING,
    average_error,
    product_error,
    unit_logit_error,
)

if TYPE_CHECKING:
    from limelight.models.attention.classifier import AttentionClassifier
else:
    AttentionClassifier = Any  # its module imports this one

_CHUNK = 128  # inputs at a time, so that the gathered rows stay inside the cache
# Words at a time. In double precision, all embeddings have tens of megabytes. Allocating them took
# more time than the computation.
_WORD_CHUNK = 1024
_UNIT_CHUNK = 2048  # words at positions at a time, so that their units stay inside the cache


Positions = Int[np.ndarray, "*#n"] | slice


class UnitDirections(NamedTuple):
    r"""The directions that the hidden units of additive attention read (Bahdanau et al., 2015).

    The logit of a head is :math:`w_a \cdot \tanh(W_q e_0 + b_q + W_k e_t + b_k)`. The input of a
    unit is ``key`` · e_t + ``offset``, where ``offset`` is ``query`` · e_[cls] + ``bias``.
    ``offset_error`` bounds the rounding error of ``offset``.
    """

    weight: Float[np.ndarray, "K d_h"]
    key: Float[np.ndarray, "K d_h d_e"]
    query: Float[np.ndarray, "K d_h d_e"]
    bias: Float[np.ndarray, "K d_h"]
    offset: Float[np.ndarray, "K d_h"]
    offset_error: Float[np.ndarray, "K d_h"]


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """The directions of embedding space that each head reads.

    Parameters
    ----------
    key
        :math:`W_k^\\top q / \\sqrt{d_{att}}`; 0 for additive attention.
    value
        :math:`W_\\ell W_v`.
    query
        The map from an embedding e to :math:`W_q^\\top W_k e / \\sqrt{d_{att}}`, the gradient of
        a logit with respect to [cls]; 0 for additive attention.
    key_error, value_error
        Bounds of the rounding errors of ``key`` and ``value``.
    offset
        The part of all values that biases and a skip connection from [cls] add.
    offset_error
        A bound of its rounding error.
    query_bias_key
        The part of ``key`` that the bias of queries adds; 0 for additive attention.
    cls_value
        The map of the skip connection from the embedding of [cls] to the outputs.
    constant
        The part of ``offset`` that the skip connection adds.
    skip_head
        Whether the last head is a skip connection from the mean. It attends to all positions
        alike.
    units
        The hidden units of additive attention.
    """

    key: Float[np.ndarray, "K d_e"]
    value: Float[np.ndarray, "C K d_e"]
    query: Float[np.ndarray, "K d_e d_e"]
    key_error: Float[np.ndarray, "K d_e"]
    value_error: Float[np.ndarray, "C K d_e"]
    offset: Float[np.ndarray, "C K"]
    offset_error: Float[np.ndarray, "C K"]
    query_bias_key: Float[np.ndarray, "K d_e"]
    cls_value: Float[np.ndarray, "C d_e"]
    constant: Float[np.ndarray, " C"]
    skip_head: bool = False
    units: UnitDirections | None = None


@dataclass(frozen=True, slots=True, eq=False)
class UnitTables:
    """The parts of the inputs of all hidden units that belong to each word and each position.

    The query of [cls] is the same for every text. The input of a unit is therefore the sum of a
    part of the word and a part of the position, which includes ``offset``. The tanh of this sum is
    computed for each word at each position.
    """

    word: Float[Array, "V K d_h"]
    position: Float[Array, "T_max K d_h"]
    weight: Float[Array, "K d_h"]
    offset: Float[Array, "K d_h"]

    def unit_inputs(
        self, words: Int[Array, "*#n"], positions: Int[Array, "*#n"]
    ) -> Float[Array, "*n K d_h"]:
        """Return the inputs of the units for words at positions."""
        return self.word[words] + self.position[positions]

    def logits(self, words: Int[Array, "*#n"], positions: Positions) -> Float[Array, "*n K"]:
        """Return the logits of the units for words at positions."""
        xp, T_max = array_namespace(self.word), len(self.position)
        positions = array_like(np.arange(T_max)[positions], self.word)
        # Each pair is computed once: most of a window is padding, and masks share their words.
        pairs, index = xp.unique_inverse(T_max * xp.astype(words, xp.int64) + positions)
        logits = [
            unit_logits(self.unit_inputs(chunk // T_max, chunk % T_max), self.weight)
            for chunk in (pairs[i : i + _UNIT_CHUNK] for i in range(0, len(pairs), _UNIT_CHUNK))
        ]
        return xp.concat(logits)[index]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """The logit and the value of every word and of every position, for every head.

    The logits of hidden ``units`` are added to those of the tables. All arrays, and the words for
    which a method is called, are arrays of NumPy or tensors of a device (`tables_on_device`).
    """

    word_logit: Float[Array, "V K"]
    word_value: Float[Array, "V C K"]
    position_logit: Float[Array, "T_max K"]
    position_value: Float[Array, "T_max C K"]
    units: UnitTables | None = None

    def logit(
        self, words: Int[Array, "*#n"], positions: Positions | None = None
    ) -> Float[Array, "*n K"]:
        """Return ℓ of each word at its position; by default, positions count from 0."""
        positions = slice(words.shape[-1]) if positions is None else positions
        logit = self.word_logit[words] + self.position_logit[positions]
        return logit if self.units is None else logit + self.units.logits(words, positions)

    def value(
        self, words: Int[Array, "*#n"], positions: Positions | None = None
    ) -> Float[Array, "*n C K"]:
        """Return u of each word at its position; by default, positions count from 0."""
        positions = slice(words.shape[-1]) if positions is None else positions
        return self.word_value[words] + self.position_value[positions]


def read_directions(model: AttentionClassifier) -> Directions:
    """Return the directions that the heads of a classifier read for the query of [cls].

    Letters and axes are those of its weights, as maps of the complete embedding. The bias of keys
    is left out for dot products: it adds the same to all logits, so that it cancels.
    """
    W_q, W_k, W_v, W_l = wide_weights(model).values()
    b_q, b_k, b_v, W_s, w_a = (
        None if array is None else array.astype(np.float64)
        for array in (getattr(model, name) for name in OPTIONS)
    )
    heads, d_att, d_e = W_q.shape
    has_mean_skip = model.skip == "mean"
    if has_mean_skip:  # a head whose weights are 0 attends to all positions alike
        W_q, W_k = _append_zeros(W_q), _append_zeros(W_k)
        b_q, b_k, w_a = (None if x is None else _append_zeros(x) for x in (b_q, b_k, w_a))
    K, C, units = len(W_q), W_l.shape[1], None
    cls = model.embedding[CLS].astype(np.float64) + model.positions[0]
    cls_error = model.position_errors[0] + ROUNDING * np.abs(cls)  # of this sum
    with np.errstate(over="ignore", invalid="ignore"):  # `collapse` raises an error
        q_error = product_error(W_q, cls[:, None], y_error=cls_error[:, None])[..., 0]
        if w_a is None:
            scale = 1 / np.sqrt(d_att)
            bias = np.zeros((K, d_att)) if b_q is None else b_q
            q = W_q @ cls + bias
            # Without a bias nothing is added, so that nothing is rounded.
            q_error = q_error + (0.0 if b_q is None else ROUNDING * np.abs(q))
            key = scale * np.einsum("ka,kae->ke", q, W_k)
            key_error = product_error(q[:, None], W_k, x_error=q_error[:, None])[:, 0]
            key_error = scale * key_error + 4 * ROUNDING * np.abs(key)
            # Not by einsum, which takes ten times as long, a hundredth of a short command.
            query = scale * (np.swapaxes(W_q, 1, 2) @ W_k)
            query_bias_key = scale * np.einsum("ka,kae->ke", bias, W_k)
        else:
            key = key_error = query_bias_key = np.zeros((K, d_e))
            query = np.zeros((K, d_e, d_e))
            # The bias of keys matters inside a tanh, while it cancels for dot products.
            bias = sum((b for b in (b_q, b_k) if b is not None), np.zeros_like(w_a))
            offset = W_q @ cls + bias
            error = q_error + ROUNDING * (np.abs(bias) + np.abs(offset))
            units = UnitDirections(w_a, W_k, W_q, bias, offset, error)
        value = np.einsum("kco,koe->cke", W_l, W_v)
        value_error = np.swapaxes(product_error(W_l, W_v), 0, 1)
        # The bias of values adds the same to every u, and so does the skip connection from [cls].
        b_v = np.zeros(W_v.shape[:2]) if b_v is None else b_v
        offset = (W_l @ b_v[..., None])[..., 0].T
        offset_error = product_error(W_l, b_v[..., None])[..., 0].T
        constant, cls_value = np.zeros(C), np.zeros((C, d_e))
        if W_s is not None and has_mean_skip:
            # f is a mean over heads. With one more head, the other values grow by
            # (heads + 1)/heads.
            factor, rounding = K / heads, 2 * ROUNDING
            value = np.concatenate([factor * value, K * W_s[:, None]], axis=1)
            offset = np.concatenate([factor * offset, np.zeros((C, 1))], axis=1)
            value_error, offset_error = (
                np.concatenate([factor * error, 0 * error[:, :1]], axis=1) + rounding * np.abs(x)
                for error, x in ((value_error, value), (offset_error, offset))
            )
        elif W_s is not None:
            skip_error = product_error(W_s, cls[:, None], y_error=cls_error[:, None])
            offset_error = offset_error + skip_error + ROUNDING * np.abs(offset)
            constant, cls_value = W_s @ cls, W_s
            offset = offset + constant[:, None]
    return Directions(
        key=key,
        value=value,
        query=query,
        key_error=key_error,
        value_error=value_error,
        offset=offset,
        offset_error=offset_error,
        query_bias_key=query_bias_key,
        cls_value=cls_value,
        constant=constant,
        skip_head=has_mean_skip,
        units=units,
    )


def _append_zeros(x: np.ndarray) -> np.ndarray:
    """Append an attention head of zeros to an array whose first axis are the heads."""
    return np.concatenate([x, np.zeros_like(x[:1])])


class TableRows(NamedTuple):
    """The logits and values of embeddings, and bounds of their rounding errors."""

    logit: Float[np.ndarray, "n K"]
    value: Float[np.ndarray, "n C K"]
    logit_error: Float[np.ndarray, "n K"]
    value_error: Float[np.ndarray, "n C K"]


def _make_row_function(
    directions: Directions,
) -> Callable[[Float[np.ndarray, "n d_e"], Float[np.ndarray, "n d_e"] | None], TableRows]:
    """Return the function from embeddings, and bounds of their errors, to rows of tables."""
    C, K, _ = directions.value.shape
    maps, map_errors = (
        np.concatenate([key, value.reshape(C * K, -1)]).T
        for key, value in (
            (directions.key, directions.value),
            (directions.key_error, directions.value_error),
        )
    )

    def compute_rows(x: np.ndarray, x_error: np.ndarray | None) -> TableRows:
        """Return the rows of the tables for embeddings ``x``, whose errors are ``x_error``."""
        rows = x @ maps
        errors = product_error(x, maps, x_error=x_error, y_error=map_errors)
        return TableRows(
            rows[:, :K],
            rows[:, K:].reshape(-1, C, K),
            errors[:, :K],
            errors[:, K:].reshape(-1, C, K),
        )

    return compute_rows


def compute_word_rows(model: AttentionClassifier) -> TableRows:
    """Compute the logit and the value of every word, and bounds of their rounding errors."""
    # The rows and their errors together: converting all embeddings to double precision takes as
    # long as the products, and was done twice.
    with np.errstate(over="ignore", invalid="ignore"):  # `collapse` raises an error
        function = _make_row_function(model.directions)
        return TableRows(*_map_words(function, model.embedding, model.embedding_error))


def collapse(model: AttentionClassifier) -> Tables:
    """Compute the tables of a classifier from its embeddings and the directions of its heads."""
    directions, words, units = model.directions, model.word_rows, None
    # An overflow raises an error below, so that the warnings of NumPy are not needed.
    with np.errstate(over="ignore", invalid="ignore"):
        positions = _make_row_function(directions)(model.positions, None)
        limits = [words.logit, words.value, positions.logit, positions.value]
        if directions.units is not None:
            K, d_h, d_e = directions.units.key.shape
            unit_key = directions.units.key.reshape(K * d_h, d_e).T
            word, position = (
                (x @ unit_key).reshape(-1, K, d_h)
                for x in (model.embedding.astype(np.float64), model.positions)
            )
            offset, weight = directions.units.offset, directions.units.weight
            units = UnitTables(word, position + offset, weight, offset)
            # A logit is at most the sum of the weights of its units.
            limits += [units.word, units.position, np.abs(weight).sum(axis=-1)]
    if not all(np.isfinite(table).all() for table in limits):
        raise DomainError(
            "the weights of this model are so large that its logits or values overflow in double "
            "precision. Check its weights."
        )
    return Tables(
        word_logit=words.logit,
        word_value=words.value,
        position_logit=positions.logit,
        # Every token has one position, so that the offset is added once, and to few rows.
        position_value=positions.value + directions.offset,
        units=units,
    )


def _map_words(
    function: Callable[..., Sequence[np.ndarray]], *tables: Float[np.ndarray, "V ..."] | None
) -> list[np.ndarray]:
    """Apply a function to some words at a time, in double precision, and join the results.

    Parameters
    ----------
    function
        Takes the rows of each table, or None, and returns arrays with as many rows.
    *tables
        Arrays with a row for each word. The first one is not None.
    """
    words = 0 if tables[0] is None else len(tables[0])
    parts = [
        function(
            *(None if x is None else x[i : i + _WORD_CHUNK].astype(np.float64) for x in tables)
        )
        for i in range(0, words, _WORD_CHUNK)
    ]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def compute_in_chunks(
    function: Callable[[Any], Float[np.ndarray, "n C"]], rows: Any, size: int, *, C: int
) -> Float[np.ndarray, "n C"]:
    """Return the C outputs for all rows by calling ``function`` with ``size`` rows at a time.

    Parameters
    ----------
    function
        Function from some rows to their outputs.
    rows
        An array or a sequence.
    size
        Largest number of rows in a call.
    C
        The number of outputs.

    Returns
    -------
    The outputs, one row for each row of ``rows``.
    """
    # One array for all rows. Joining the parts at the end would take twice the memory.
    outputs = np.empty((len(rows), C))
    for start in range(0, len(rows), size):
        outputs[start : start + size] = function(rows[start : start + size])
    return outputs


def predict_logits(tables: Tables, ids: Int[np.ndarray, "n T"]) -> Float[np.ndarray, "n C"]:
    """Return f for every row of ids: the mean over heads of Σ_t α_t u_t.

    The positions behind the ids are padding.
    """
    xp, like = array_namespace(tables.word_logit), tables.word_logit
    T_max, C, _ = tables.position_value.shape
    padding = slice(ids.shape[1], T_max)

    def predict_chunk(ids: np.ndarray) -> np.ndarray:
        """Return f for some rows of ids."""
        words = array_like(ids.astype(np.int64), like)
        logit, u = tables.logit(words), tables.value(words)
        if ids.shape[1] < T_max:
            # One token with the weight of all padding replaces it, because it is always the same.
            unk = array_like(np.full(T_max - ids.shape[1], UNK), like)
            padding_logits, value = tables.logit(unk, padding), tables.value(unk, padding)
            largest = xp.max(padding_logits, axis=0)
            g = xp.exp(padding_logits - largest)
            padding_logit = largest + xp.log(xp.sum(g, axis=0))
            padding_u = xp.sum(g[:, None] * value, axis=0) / xp.sum(g, axis=0)
            logit = xp.concat([logit, xp.zeros_like(logit[:, :1]) + padding_logit], axis=1)
            u = xp.concat([u, xp.zeros_like(u[:, :1]) + padding_u], axis=1)
        # After subtracting the largest logit of each row and head, one weight is 1, so that no sum
        # is 0.
        g = xp.exp(logit - xp.max(logit, axis=1, keepdims=True))
        f = xp.sum(g[:, :, None] * u, axis=1) / xp.sum(g, axis=1)[:, None]
        return host_array(xp.mean(f, axis=-1))

    return compute_in_chunks(predict_chunk, ids, _CHUNK, C=C)


_READ = 3 * ROUNDING  # of a sum of two table entries from which the largest is subtracted


class TableErrors(NamedTuple):
    """Bounds of the errors of logits and values, for words at any position or for texts.

    The bounds include the rounding errors of adding table entries. All values lie between ``low``
    and ``high``.
    """

    logit: Float[Array, "n K"]
    value: Float[Array, "n C K"]
    low: Float[Array, "n C K"]
    high: Float[Array, "n C K"]

    def for_texts(self, ids: Int[Array, "n T"]) -> "TableErrors":
        """Return the bounds for texts in which any word may be replaced by UNK."""
        xp = array_namespace(self.logit)
        logit, value, high = (
            xp.maximum(xp.max(x[ids], axis=1), x[UNK]) for x in (self.logit, self.value, self.high)
        )
        low = xp.minimum(xp.min(self.low[ids], axis=1), self.low[UNK])
        return TableErrors(logit, value, low, high)

    def output_errors(self, positions: int, smallest: Float[Array, "n K"]) -> Float[Array, "n C K"]:
        """Return bounds of the errors of the heads' outputs, for all masks.

        Parameters
        ----------
        positions
            The number of positions that are summed. The number of classes is added to it, because
            sums over classes may follow.
        smallest
            The smallest denominator Σg.
        """
        return average_error(
            logit_error=self.logit,
            value_error=self.value,
            low=self.low,
            high=self.high,
            terms=positions + self.low.shape[-2],
            smallest=smallest,
        )


def table_errors(model: AttentionClassifier) -> TableErrors:
    """Return bounds of the rounding errors of the tables of a classifier.

    They contain the largest error of all positions, because every text has the same positions.
    """
    directions, tables, words = model.directions, model.tables, model.word_rows
    u, position_u = tables.word_value, tables.position_value
    with np.errstate(over="ignore", invalid="ignore"):  # the bounds are infinite then
        positions = _make_row_function(directions)(model.positions, model.position_errors)
        logit = words.logit_error + _READ * np.abs(tables.word_logit)
        logit += (positions.logit_error + _READ * np.abs(tables.position_logit)).max(axis=0)
        if directions.units is not None and tables.units is not None:
            logit += _bound_unit_errors(model, directions.units, tables.units)
        # The offset is added to the values of positions, with its own error and one more rounding.
        position_value = positions.value_error + directions.offset_error
        position_value += (_READ + ROUNDING) * (np.abs(position_u) + np.abs(directions.offset))
        value = words.value_error + _READ * np.abs(u) + position_value.max(axis=0)
        low, high = u + position_u.min(axis=0), u + position_u.max(axis=0)
        return TableErrors(logit, value, low=low, high=high)


def _bound_unit_errors(
    model: AttentionClassifier, units: UnitDirections, tables: UnitTables
) -> Float[np.ndarray, "V K"]:
    """Bound the rounding errors of the logits from hidden units, for each word at any position."""
    K, d_h, d_e = units.key.shape
    key, size = units.key.reshape(K * d_h, d_e).T, np.abs(units.weight)

    def input_errors(x: Float[np.ndarray, "rows d_e"], x_error: np.ndarray | None) -> np.ndarray:
        """Return the errors of the inputs of the units for embeddings ``x``."""
        return product_error(x, key, x_error=x_error).reshape(-1, K, d_h)

    (word,) = _map_words(
        lambda x, x_error, unit_inputs: [
            (size * (input_errors(x, x_error) + 2 * ROUNDING * np.abs(unit_inputs))).sum(axis=-1)
        ],
        model.embedding,
        model.embedding_error,
        tables.word,
    )
    # The offset is added to the part of a position, with its own error and one more rounding.
    position = input_errors(model.positions, model.position_errors)
    position += units.offset_error + 4 * ROUNDING * (np.abs(tables.position) + np.abs(units.offset))
    return word + (size * position).sum(axis=-1).max(axis=0) + unit_logit_error(units.weight)


def tables_on_device(model: AttentionClassifier) -> tuple[Tables, TableErrors]:
    """Return the tables of a model and their errors as tensors of its device, in float64."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(f"device {model.device!r} needs torch", "train") from None
    try:
        # In double precision, because Apple's device raises an error only for a float64 tensor.
        probe = torch.empty(0, dtype=torch.float64, device=model.device)
        if probe.is_meta:
            raise RuntimeError("tensors of the device 'meta' have no values")
    except (RuntimeError, AssertionError, TypeError) as error:
        (reason, *_) = str(error).splitlines() or [""]
        raise InputError(
            f"device {model.device!r} cannot be used here ({reason.rstrip('.')}). Leave device "
            "out to compute with NumPy."
        ) from None

    def move_arrays(tables: Any) -> Any:
        """Return the same tables as tensors of the device."""
        values = {field.name: getattr(tables, field.name) for field in fields(tables)}
        arrays = {name: x for name, x in values.items() if name != "units"}
        return replace(tables, **{name: array_like(x, probe) for name, x in arrays.items()})

    units = None if model.tables.units is None else move_arrays(model.tables.units)
    errors = TableErrors._make(array_like(x, probe) for x in model.table_errors)
    return replace(move_arrays(model.tables), units=units), errors


def sinusoidal_positions(
    T_max: int, d_e: int, *, base: float, scale: float = 1.0
) -> Float[np.ndarray, "T_max d_e"]:
    """Return the sinusoidal embeddings W_p of all positions.

    Dimension 2i is the sine of t / base^(2i/d_e), and dimension 2i + 1 is its cosine.

    Parameters
    ----------
    T_max
        The number of positions. t counts from 0, which is the position of [cls].
    d_e
        The dimension of the embeddings.
    base
        10000 in the authors' code, and ``T_max`` in Eq. 3.
    scale
        A factor of all numbers.

    Returns
    -------
    One row for each position.
    """
    angle = _angles(T_max, d_e, base)
    positions = np.empty((T_max, d_e))
    positions[:, 0::2] = np.sin(angle)
    positions[:, 1::2] = np.cos(angle[:, : d_e // 2])
    return scale * positions


def position_errors(
    T_max: int, d_e: int, *, base: float, scale: float = 1.0
) -> Float[np.ndarray, "T_max d_e"]:
    """Return bounds of the rounding errors of :func:`sinusoidal_positions`.

    A relative rounding error of the exponent 2i/d_e changes the power by |log base| 2i/d_e times as
    much. Power, sine and cosine are exact to 4 units in the last place. For errors of an angle of
    more than a turn, the bound is 2.

    Parameters
    ----------
    T_max, d_e, base, scale
        As in :func:`sinusoidal_positions`.

    Returns
    -------
    A bound for each entry of the embeddings.
    """
    power = np.abs(np.log(base)) * np.arange(0, d_e, 2) / d_e
    angle = np.abs(_angles(T_max, d_e, base))
    # Two sines never differ by more than 2.
    errors = np.minimum(2.0, ROUNDING * (power + 8) * angle) + 8 * ROUNDING
    return np.abs(scale) * np.repeat(errors, 2, axis=1)[:, :d_e]


def _angles(T_max: int, d_e: int, base: float) -> Float[np.ndarray, "T_max pairs"]:
    """Return t / base^(2i/d_e) for every position t and pair of dimensions i."""
    return np.arange(T_max)[:, None] / base ** (np.arange(0, d_e, 2) / d_e)
