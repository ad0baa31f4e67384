"""A trained classifier collapsed into two tables per head, and how far these may be off."""

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
    AttentionClassifier = Any  # which is made of this module

_CHUNK = 128  # documents at a time: the gathered rows stay inside the cache
# Words at a time: in double precision all embeddings are tens of megabytes of fresh memory, which
# took a command more time than the mathematics.
_WORDS = 1024
_TOGETHER = 2048  # words at places whose units are held at a time: they stay inside the cache


Places = Int[np.ndarray, "*#n"] | slice


class UnitDirections(NamedTuple):
    r"""What the hidden units of additive attention (Bahdanau et al., 2015) read.

    A head's logit is :math:`w_a \cdot \tanh(W_q e_0 + b_q + W_k e_t + b_k)`: a unit is given
    ``key`` · e_t + ``offset``, and ``offset`` is ``query`` · e_[cls] + ``bias``; ``offset_error``
    bounds what rounding made of it.
    """

    weight: Float[np.ndarray, "K d_h"]
    key: Float[np.ndarray, "K d_h d_e"]
    query: Float[np.ndarray, "K d_h d_e"]
    bias: Float[np.ndarray, "K d_h"]
    offset: Float[np.ndarray, "K d_h"]
    offset_error: Float[np.ndarray, "K d_h"]


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """The directions of embedding space that a head reads.

    ``key`` is :math:`W_k^\\top q / \\sqrt{d_{att}}`, ``value`` is :math:`W_\\ell W_v`, and
    ``query`` maps an embedding to :math:`W_q^\\top W_k e / \\sqrt{d_{att}}`, the direction in
    which [cls] itself would be pulled. ``key_error`` and ``value_error`` bound what rounding made
    of each number of ``key`` and ``value``. ``offset`` is what every position's value has besides,
    by biases and by a skip connection from [cls], ``asked`` what the bias of queries adds to key
    directions, and ``cls_value`` how [cls] enters by the skip connection. A skip connection from
    the mean is one more head, which attends to all positions alike (``skip_head``). Of additive
    attention ``key``, ``query`` and ``asked`` are 0, and ``units`` read the embedding.
    """

    key: Float[np.ndarray, "K d_e"]
    value: Float[np.ndarray, "C K d_e"]
    query: Float[np.ndarray, "K d_e d_e"]
    key_error: Float[np.ndarray, "K d_e"]
    value_error: Float[np.ndarray, "C K d_e"]
    offset: Float[np.ndarray, "C K"]
    offset_error: Float[np.ndarray, "C K"]
    asked: Float[np.ndarray, "K d_e"]
    cls_value: Float[np.ndarray, "C d_e"]
    constant: Float[np.ndarray, " C"]  # the part of ``offset`` that no head makes: [cls], skipped
    skip_head: bool = False
    units: UnitDirections | None = None


@dataclass(frozen=True, slots=True, eq=False)
class UnitTables:
    """What every word and every position gives to every unit; ``offset`` is in the positions'.

    The query of [cls] is the same for every document, so that what a unit is given splits into a
    part of the word and one of the position. Its tanh does not: it is taken where the two meet.
    """

    word: Float[Array, "V K d_h"]
    position: Float[Array, "T_max K d_h"]
    weight: Float[Array, "K d_h"]
    offset: Float[Array, "K d_h"]

    def given(
        self, words: Int[Array, "*#n"], places: Int[Array, "*#n"]
    ) -> Float[Array, "*n K d_h"]:
        """Return what the units are given where words stand at places."""
        return self.word[words] + self.position[places]

    def logits(self, words: Int[Array, "*#n"], places: Places) -> Float[Array, "*n K"]:
        """Return the logits that the units make where words stand at places."""
        xp, T_max = array_namespace(self.word), len(self.position)
        there = array_like(np.arange(T_max)[places], self.word)
        # Each once: most of a window is padding, and masks of a text have the same words.
        pairs, at = xp.unique_inverse(T_max * xp.astype(words, xp.int64) + there)
        found = [
            unit_logits(self.given(some // T_max, some % T_max), self.weight)
            for some in (pairs[i : i + _TOGETHER] for i in range(0, len(pairs), _TOGETHER))
        ]
        return xp.concat(found)[at]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Logit and value of every word and of every position, for every head.

    Where there are hidden ``units``, the logits that they make are added to the two of the tables.
    Of words without places, those of each row stand at place 0 and after. Arrays are NumPy's, or
    tensors of a device (``tables_on_device``), and then words are too.
    """

    word_logit: Float[Array, "V K"]
    word_value: Float[Array, "V C K"]
    position_logit: Float[Array, "T_max K"]
    position_value: Float[Array, "T_max C K"]
    units: UnitTables | None = None

    def logit(self, words: Int[Array, "*#n"], places: Places | None = None) -> Float[Array, "*n K"]:
        """Return ℓ of words at places, one for one."""
        places = slice(words.shape[-1]) if places is None else places
        logit = self.word_logit[words] + self.position_logit[places]
        return logit if self.units is None else logit + self.units.logits(words, places)

    def value(
        self, words: Int[Array, "*#n"], places: Places | None = None
    ) -> Float[Array, "*n C K"]:
        """Return u of words at places, one for one."""
        places = slice(words.shape[-1]) if places is None else places
        return self.word_value[words] + self.position_value[places]


def read_directions(model: AttentionClassifier) -> Directions:
    """Return what the heads of a classifier read, asked by [cls] as it is embedded.

    Letters and axes are those of its weights, every head reading the whole embedding. The bias of
    keys adds the same to every logit of a dot product, which attention does not notice.
    """
    W_q, W_k, W_v, W_l = wide_weights(model).values()
    b_q, b_k, b_v, W_s, w_a = (
        None if given is None else given.astype(np.float64)
        for given in (getattr(model, name) for name in OPTIONS)
    )
    heads, d_att, d_e = W_q.shape
    mean = model.skip == "mean"
    if mean:  # of zeros: it attends to all positions alike
        W_q, W_k = _longer(W_q), _longer(W_k)
        b_q, b_k, w_a = (None if x is None else _longer(x) for x in (b_q, b_k, w_a))
    K, C, units = len(W_q), W_l.shape[1], None
    cls = model.embedding[CLS].astype(np.float64) + model.positions[0]
    cls_error = model.position_errors[0] + ROUNDING * np.abs(cls)  # that of the sum with its word
    with np.errstate(over="ignore", invalid="ignore"):  # `collapse` refuses what overflowed
        q_error = product_error(W_q, cls[:, None], y_error=cls_error[:, None])[..., 0]
        if w_a is None:
            scale = 1 / np.sqrt(d_att)
            bias = np.zeros((K, d_att)) if b_q is None else b_q
            q = W_q @ cls + bias
            # A bias that is not there is not added, and rounds nothing.
            q_error = q_error + (0.0 if b_q is None else ROUNDING * np.abs(q))
            key = scale * np.einsum("ka,kae->ke", q, W_k)
            key_error = product_error(q[:, None], W_k, x_error=q_error[:, None])[:, 0]
            key_error = scale * key_error + 4 * ROUNDING * np.abs(key)
            query = scale * np.einsum("kad,kae->kde", W_q, W_k)
            asked = scale * np.einsum("ka,kae->ke", bias, W_k)
        else:
            key = key_error = asked = np.zeros((K, d_e))
            query = np.zeros((K, d_e, d_e))
            # Inside a tanh the bias of keys counts, which a dot product does not notice.
            bias = sum((b for b in (b_q, b_k) if b is not None), np.zeros_like(w_a))
            offset = W_q @ cls + bias
            error = q_error + ROUNDING * (np.abs(bias) + np.abs(offset))
            units = UnitDirections(w_a, W_k, W_q, bias, offset, error)
        value = np.einsum("kco,koe->cke", W_l, W_v)
        value_error = np.swapaxes(product_error(W_l, W_v), 0, 1)
        # What the bias of values adds to every u, and [cls], the same in every document.
        b_v = np.zeros(W_v.shape[:2]) if b_v is None else b_v
        offset = (W_l @ b_v[..., None])[..., 0].T
        offset_error = product_error(W_l, b_v[..., None])[..., 0].T
        constant, cls_value = np.zeros(C), np.zeros((C, d_e))
        if W_s is not None and mean:
            # For f to stay the mean over heads, the values of the others grow by (K + 1)/K.
            grown, rounding = K / heads, 2 * ROUNDING
            value = np.concatenate([grown * value, K * W_s[:, None]], axis=1)
            offset = np.concatenate([grown * offset, np.zeros((C, 1))], axis=1)
            value_error, offset_error = (
                np.concatenate([grown * error, 0 * error[:, :1]], axis=1) + rounding * np.abs(x)
                for error, x in ((value_error, value), (offset_error, offset))
            )
        elif W_s is not None:
            moved = product_error(W_s, cls[:, None], y_error=cls_error[:, None])
            offset_error = offset_error + moved + ROUNDING * np.abs(offset)
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
        asked=asked,
        cls_value=cls_value,
        constant=constant,
        skip_head=mean,
        units=units,
    )


def _longer(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.zeros_like(x[:1])])


def collapse(model: AttentionClassifier) -> Tables:
    """Return the tables of a classifier: its embeddings, read along its heads' directions."""
    seen = model.directions
    key, value = seen.key.T, np.moveaxis(seen.value, -1, 0)
    flat, shape, units = value.reshape(len(value), -1), value.shape[1:], None
    # What overflows is refused below, in a sentence and not in NumPy's warnings.
    with np.errstate(over="ignore", invalid="ignore"):
        words = _of_words(lambda x: (x @ key, x @ flat), model.embedding)
        places = model.positions @ key, model.positions @ flat
        limits = [*words, *places]
        if seen.units is not None:
            K, d_h, d_e = seen.units.key.shape
            read = seen.units.key.reshape(K * d_h, d_e).T
            word, position = (
                (x @ read).reshape(-1, K, d_h)
                for x in (model.embedding.astype(np.float64), model.positions)
            )
            offset, weight = seen.units.offset, seen.units.weight
            units = UnitTables(word, position + offset, weight, offset)
            # A logit is at most the sum of the weights of its units.
            limits += [units.word, units.position, np.abs(weight).sum(axis=-1)]
    if not all(np.isfinite(table).all() for table in limits):
        raise DomainError(
            "the weights of this model are so large that its logits or values overflow in double "
            "precision; nothing can be computed from them."
        )
    return Tables(
        word_logit=words[0],
        word_value=words[1].reshape(-1, *shape),
        position_logit=places[0],
        # A token has one position: there the offset is added once, and to few rows.
        position_value=places[1].reshape(-1, *shape) + seen.offset,
        units=units,
    )


def _of_words(
    read: Callable[..., Sequence[np.ndarray]],
    embedding: Float[np.ndarray, "V d_e"],
    *more: Float[np.ndarray, "V ..."] | None,
) -> list[np.ndarray]:
    """Return what is ``read`` of the embeddings in double precision, and of more rows of words."""
    tables, starts = (embedding, *more), range(0, len(embedding), _WORDS)
    parts = [
        read(*(None if x is None else x[i : i + _WORDS].astype(np.float64) for x in tables))
        for i in starts
    ]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def in_chunks(
    outputs: Callable[[Any], Float[np.ndarray, "n C"]], rows: Any, size: int, *, C: int
) -> Float[np.ndarray, "n C"]:
    """Return the ``outputs`` of all rows, asked for ``size`` of them at a time."""
    # One array for all: to put many together at the end would take the memory twice.
    found = np.empty((len(rows), C))
    for start in range(0, len(rows), size):
        found[start : start + size] = outputs(rows[start : start + size])
    return found


def predicted_logits(tables: Tables, ids: Int[np.ndarray, "n T"]) -> Float[np.ndarray, "n C"]:
    """Return f for every document, the mean over heads of Σ_t α_t u_t; padding follows its ids."""
    xp, like = array_namespace(tables.word_logit), tables.word_logit
    T_max, C, _ = tables.position_value.shape
    behind = slice(ids.shape[1], T_max)

    def predicted(ids: np.ndarray) -> np.ndarray:
        words = array_like(ids.astype(np.int64), like)
        logit, u = tables.logit(words), tables.value(words)
        if ids.shape[1] < T_max:
            # The same for every document: one token of the weight of all stands for the padding.
            unk = array_like(np.full(T_max - ids.shape[1], UNK), like)
            at, value = tables.logit(unk, behind), tables.value(unk, behind)
            top = xp.max(at, axis=0)
            g = xp.exp(at - top)
            rest = top + xp.log(xp.sum(g, axis=0))
            rest_u = xp.sum(g[:, None] * value, axis=0) / xp.sum(g, axis=0)
            logit = xp.concat([logit, xp.zeros_like(logit[:, :1]) + rest], axis=1)
            u = xp.concat([u, xp.zeros_like(u[:, :1]) + rest_u], axis=1)
        # Less the largest of each document and head: one word weighs 1 then, so no sum is 0.
        g = xp.exp(logit - xp.max(logit, axis=1, keepdims=True))
        f = xp.sum(g[:, :, None] * u, axis=1) / xp.sum(g, axis=1)[:, None]
        return host_array(xp.mean(f, axis=-1))

    return in_chunks(predicted, ids, _CHUNK, C=C)


_READ = 3 * ROUNDING  # a logit is a sum, from which the largest is taken off


class TableErrors(NamedTuple):
    """Bounds on the errors of logits and values of words, wherever they stand, or of whole texts.

    The roundings of reading them from the tables are included, and the values lie between ``low``
    and ``high``.
    """

    logit: Float[Array, "n K"]
    value: Float[Array, "n C K"]
    low: Float[Array, "n C K"]
    high: Float[Array, "n C K"]

    def of_texts(self, ids: Int[Array, "n T"]) -> "TableErrors":
        """Return what is known of texts of which any word may be UNK."""
        xp = array_namespace(self.logit)
        logit, value, high = (
            xp.maximum(xp.max(x[ids], axis=1), x[UNK]) for x in (self.logit, self.value, self.high)
        )
        low = xp.minimum(xp.min(self.low[ids], axis=1), self.low[UNK])
        return TableErrors(logit, value, low, high)

    def of_outputs(self, positions: int, smallest: Float[Array, "n K"]) -> Float[Array, "n C K"]:
        """Return how far a head's output may be from what the weights say, whatever is removed.

        ``smallest`` is the least Σg. Positions are added up, then perhaps classes.
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
    """Return the errors of the tables of a classifier against what its weights say.

    Of positions the largest: every text has the same ones.
    """
    seen, tables = model.directions, model.tables
    C, K, _ = seen.value.shape
    read, read_error = (
        np.concatenate([key, value.reshape(C * K, -1)]).T
        for key, value in ((seen.key, seen.value), (seen.key_error, seen.value_error))
    )

    def errors(x: Float[np.ndarray, "rows d_e"], x_error: np.ndarray | None) -> list[np.ndarray]:
        found = product_error(x, read, x_error=x_error, y_error=read_error)
        return [found[:, :K], found[:, K:].reshape(-1, C, K)]

    u, at = tables.word_value, tables.position_value
    with np.errstate(over="ignore", invalid="ignore"):  # no finite error is known then
        word_logit, word_value = _of_words(errors, model.embedding, model.embedding_error)
        position_logit, position_value = errors(model.positions, model.position_errors)
        logit = word_logit + _READ * np.abs(tables.word_logit)
        logit += (position_logit + _READ * np.abs(tables.position_logit)).max(axis=0)
        if seen.units is not None and tables.units is not None:
            logit += _unit_errors(model, seen.units, tables.units)
        # The offset is added to what a position reads: its own error, and one more rounding.
        position_value += seen.offset_error
        position_value += (_READ + ROUNDING) * (np.abs(at) + np.abs(seen.offset))
        value = word_value + _READ * np.abs(u) + position_value.max(axis=0)
        return TableErrors(logit, value, low=u + at.min(axis=0), high=u + at.max(axis=0))


def _unit_errors(
    model: AttentionClassifier, units: UnitDirections, tables: UnitTables
) -> Float[np.ndarray, "V K"]:
    """Return the errors of logits of units that are due to each word, and to any position."""
    K, d_h, d_e = units.key.shape
    read, size = units.key.reshape(K * d_h, d_e).T, np.abs(units.weight)

    def errors(x: Float[np.ndarray, "rows d_e"], x_error: np.ndarray | None) -> np.ndarray:
        return product_error(x, read, x_error=x_error).reshape(-1, K, d_h)

    (word,) = _of_words(
        lambda x, x_error, given: [
            (size * (errors(x, x_error) + 2 * ROUNDING * np.abs(given))).sum(axis=-1)
        ],
        model.embedding,
        model.embedding_error,
        tables.word,
    )
    # The offset is added to what a position reads: its own error, and one more rounding.
    off = errors(model.positions, model.position_errors)
    off += units.offset_error + 4 * ROUNDING * (np.abs(tables.position) + np.abs(units.offset))
    return word + (size * off).sum(axis=-1).max(axis=0) + unit_logit_error(units.weight)


def tables_on_device(model: AttentionClassifier) -> tuple[Tables, TableErrors]:
    """Return the tables of a model and their errors as tensors of its device, in float64."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(f"device {model.device!r} needs torch", "train") from None
    try:
        # Of double precision: Apple's device has none, and says so only when asked for it.
        there = torch.empty(0, dtype=torch.float64, device=model.device)
        if there.is_meta:
            raise RuntimeError("tensors of the device 'meta' have no values")
    except (RuntimeError, AssertionError, TypeError) as error:
        (reason, *_) = str(error).splitlines() or [""]
        raise InputError(
            f"device {model.device!r} cannot be used here ({reason.rstrip('.')}); "
            "leave device out to compute with NumPy."
        ) from None

    def sent(tables: Any) -> Any:
        own = {one.name: getattr(tables, one.name) for one in fields(tables)}
        arrays = {name: x for name, x in own.items() if name != "units"}
        return replace(tables, **{name: array_like(x, there) for name, x in arrays.items()})

    units = None if model.tables.units is None else sent(model.tables.units)
    errors = TableErrors._make(array_like(x, there) for x in model.table_errors)
    return replace(sent(model.tables), units=units), errors


def sinusoidal_positions(
    T_max: int, d_e: int, *, base: float, scale: float = 1.0
) -> Float[np.ndarray, "T_max d_e"]:
    """Return ``W_p``: sine of t / base^(2i/d_e) at dimension 2i, its cosine at 2i + 1, scaled.

    ``t`` counts from 0, the place of [cls]. ``base`` is 10000 in the authors' code and ``T_max``
    in Eq. 3.
    """
    angle = _angles(T_max, d_e, base)
    positions = np.empty((T_max, d_e))
    positions[:, 0::2] = np.sin(angle)
    positions[:, 1::2] = np.cos(angle[:, : d_e // 2])
    return scale * positions


def position_errors(
    T_max: int, d_e: int, *, base: float, scale: float = 1.0
) -> Float[np.ndarray, "T_max d_e"]:
    """Return bounds on what rounding made of each number of :func:`sinusoidal_positions`.

    The exponent 2i/d_e, rounded, moves its power by |log base| 2i/d_e as much, relatively; power,
    sine and cosine are right to 4 units in the last place. Past a turn nothing is known.
    """
    power = np.abs(np.log(base)) * np.arange(0, d_e, 2) / d_e
    angle = np.abs(_angles(T_max, d_e, base))
    # Two sines differ by 2 at most, however far the angles are apart.
    off = np.minimum(2.0, ROUNDING * (power + 8) * angle) + 8 * ROUNDING
    return np.abs(scale) * np.repeat(off, 2, axis=1)[:, :d_e]


def _angles(T_max: int, d_e: int, base: float) -> Float[np.ndarray, "T_max pairs"]:
    return np.arange(T_max)[:, None] / base ** (np.arange(0, d_e, 2) / d_e)
