"""A trained classifier collapsed into two tables per head, and how far these may be off."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import DomainError
from limelight.models.attention.hidden_units import (
    UnitDirections,
    UnitTables,
    unit_directions,
    unit_errors,
    unit_tables,
)
from limelight.shapes import Float, Int
from limelight.text import UNK
from limelight.theory.table_rounding import ROUNDING, average_error, product_error

_CHUNK = 128  # documents at a time: the gathered rows stay inside the cache
# Words at a time: in double precision all embeddings are tens of megabytes of fresh memory, which
# took a command more time than the mathematics.
_WORDS = 1024


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
class Tables:
    """Logit and value of every word and of every position, for every head.

    Where there are hidden ``units``, the logits that they make are added to the two of the tables.
    """

    word_logit: Float[np.ndarray, "V K"]
    word_value: Float[np.ndarray, "V C K"]
    position_logit: Float[np.ndarray, "T_max K"]
    position_value: Float[np.ndarray, "T_max C K"]
    units: UnitTables | None = None

    def logit(
        self, words: Int[np.ndarray, "*#n"], places: Int[np.ndarray, "*#n"] | None = None
    ) -> Float[np.ndarray, "*n K"]:
        """Return ℓ of words at places, one for one; by default of rows of words from place 0 on."""
        places = np.arange(words.shape[-1]) if places is None else places
        logit = self.word_logit[words] + self.position_logit[places]
        return logit if self.units is None else logit + self.units.logits(words, places)

    def linear_at(
        self, words: Int[np.ndarray, "*#n"], places: Int[np.ndarray, "*#n"]
    ) -> Float[np.ndarray, "*n K"]:
        """Return the part of the logits that is linear in the embedding."""
        return self.word_logit[words] + self.position_logit[places]

    def value(self, ids: Int[np.ndarray, "*n T"]) -> Float[np.ndarray, "*n T C K"]:
        """Return u of each word in ``ids`` at its place."""
        return self.word_value[ids] + self.position_value[: ids.shape[-1]]


def read_directions(
    W_q: Float[np.ndarray, "K d_att d_e"],
    W_k: Float[np.ndarray, "K d_att d_e"],
    W_v: Float[np.ndarray, "K d_out d_e"],
    W_l: Float[np.ndarray, "K C d_out"],
    *,
    cls: Float[np.ndarray, " d_e"],
    cls_error: Float[np.ndarray, " d_e"],
    b_q: Float[np.ndarray, "K d_att"] | None = None,
    b_k: Float[np.ndarray, "K d_att"] | None = None,
    b_v: Float[np.ndarray, "K d_out"] | None = None,
    w_a: Float[np.ndarray, "K d_att"] | None = None,
    W_s: Float[np.ndarray, "C d_e"] | None = None,
    skip: str | None = None,
) -> Directions:
    """Return what heads with these weights read, asked by [cls] as it is embedded.

    ``cls_error`` is that of its position; that of the sum with its word is added here. The bias of
    keys adds the same to every logit of a dot product, which attention does not notice.
    """
    cls_error = cls_error + ROUNDING * np.abs(cls)
    asked = {"cls": cls, "cls_error": cls_error}
    with np.errstate(over="ignore", invalid="ignore"):  # `collapse` refuses what overflowed
        b_v = np.zeros(W_v.shape[:2]) if b_v is None else b_v
        by_product = _dot_product(W_q, W_k, b_q=b_q, **asked) if w_a is None else _no_product(W_k)
        seen = Directions(
            **by_product,
            value=np.einsum("kco,koe->cke", W_l, W_v),
            value_error=np.swapaxes(product_error(W_l, W_v), 0, 1),
            # What the bias of values adds to every u.
            offset=(W_l @ b_v[..., None])[..., 0].T,
            offset_error=product_error(W_l, b_v[..., None])[..., 0].T,
            cls_value=np.zeros((W_l.shape[1], W_v.shape[2])),
            constant=np.zeros(W_l.shape[1]),
        )
        if w_a is not None:
            bias = sum((b for b in (b_q, b_k) if b is not None), np.zeros_like(w_a))
            seen = replace(seen, units=unit_directions(W_q, W_k, w_a, bias=bias, **asked))
        return seen if W_s is None else _with_skip(seen, W_s, skip, cls, cls_error)


def _dot_product(
    W_q: Float[np.ndarray, "K d_att d_e"],
    W_k: Float[np.ndarray, "K d_att d_e"],
    *,
    b_q: Float[np.ndarray, "K d_att"] | None,
    cls: Float[np.ndarray, " d_e"],
    cls_error: Float[np.ndarray, " d_e"],
) -> dict[str, Any]:
    """How logits read an embedding where they are dot products, and what rounding made of it."""
    scale = 1 / np.sqrt(W_q.shape[1])
    bias = np.zeros(W_q.shape[:2]) if b_q is None else b_q
    q = W_q @ cls + bias
    key = scale * np.einsum("ka,kae->ke", q, W_k)
    q_error = product_error(W_q, cls[:, None], y_error=cls_error[:, None])[..., 0]
    q_error = q_error + (0.0 if b_q is None else ROUNDING * np.abs(q))
    key_error = product_error(q[:, None], W_k, x_error=q_error[:, None])[:, 0]
    return {
        "key": key,
        "key_error": scale * key_error + 4 * ROUNDING * np.abs(key),
        "query": scale * np.einsum("kad,kae->kde", W_q, W_k),
        "asked": scale * np.einsum("ka,kae->ke", bias, W_k),
    }


def _no_product(W_k: Float[np.ndarray, "K d_att d_e"]) -> dict[str, Any]:
    """The same where no logit is a dot product."""
    K, _, d_e = W_k.shape
    none = {name: np.zeros((K, d_e)) for name in ("key", "key_error", "asked")}
    return none | {"query": np.zeros((K, d_e, d_e))}


def _with_skip(
    seen: Directions,
    W_s: Float[np.ndarray, "C d_e"],
    skip: str | None,
    cls: Float[np.ndarray, " d_e"],
    cls_error: Float[np.ndarray, " d_e"],
) -> Directions:
    """The directions with W_s e added to f: of [cls], or of the mean over the window.

    [cls] is the same in every document, so its part is a constant. The mean over the window is a
    head that attends to all positions alike; for f to stay the mean over heads, the values of the
    others are multiplied by (K + 1)/K and its own by K + 1.
    """
    if skip == "cls":
        moved = (product_error(W_s, cls[:, None], y_error=cls_error[:, None])[:, 0])[:, None]
        return replace(
            seen,
            offset=seen.offset + (W_s @ cls)[:, None],
            offset_error=seen.offset_error + moved + ROUNDING * np.abs(seen.offset),
            cls_value=W_s,
            constant=W_s @ cls,
        )
    K, d_e = seen.key.shape
    more, none = (K + 1) / K, np.zeros((1, d_e))
    rounding = 2 * ROUNDING

    def joined(values: np.ndarray, last: np.ndarray) -> np.ndarray:
        return np.concatenate([more * values, last[:, None]], axis=1)

    value, offset = joined(seen.value, (K + 1) * W_s), joined(seen.offset, np.zeros(len(W_s)))
    return replace(
        seen,
        key=np.concatenate([seen.key, none]),
        value=value,
        query=np.concatenate([seen.query, np.zeros((1, d_e, d_e))]),
        key_error=np.concatenate([seen.key_error, none]),
        value_error=joined(seen.value_error, 0 * W_s) + rounding * np.abs(value),
        offset=offset,
        offset_error=joined(seen.offset_error, np.zeros(len(W_s))) + rounding * np.abs(offset),
        asked=np.concatenate([seen.asked, none]),
        skip_head=True,
        units=None if seen.units is None else seen.units.with_idle_head(),
    )


def collapse(
    embedding: Float[np.ndarray, "V d_e"],
    positions: Float[np.ndarray, "T_max d_e"],
    directions: Directions,
) -> Tables:
    """Return the tables of a model: its embeddings, read along its heads' directions."""
    key, value = directions.key.T, np.moveaxis(directions.value, -1, 0)
    flat = value.reshape(len(value), -1)
    shape = value.shape[1:]
    # What overflows is refused below, in a sentence and not in NumPy's warnings.
    with np.errstate(over="ignore", invalid="ignore"):
        words = _of_words(embedding, lambda x: (x @ key, x @ flat))
        places = positions @ key, positions @ flat
        units = None
        if directions.units is not None:
            units = unit_tables(embedding.astype(np.float64), positions, directions.units)
    if not all(np.isfinite(table).all() for table in (*words, *places, *_limits(units))):
        raise DomainError(
            "the weights of this model are so large that its logits or values overflow in double "
            "precision; nothing can be computed from them."
        )
    return Tables(
        word_logit=words[0],
        word_value=words[1].reshape(-1, *shape),
        position_logit=places[0],
        position_value=places[1].reshape(-1, *shape) + directions.offset,
        units=units,
    )


def _of_words(
    embedding: Float[np.ndarray, "V d_e"],
    read: Callable[[Float[np.ndarray, "rows d_e"]], Sequence[np.ndarray]],
) -> list[np.ndarray]:
    """Return what is ``read`` of the embeddings in double precision, a row for each word."""
    starts = range(0, len(embedding), _WORDS)
    parts = [read(embedding[start : start + _WORDS].astype(np.float64)) for start in starts]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _limits(units: UnitTables | None) -> tuple[np.ndarray, ...]:
    """What must be finite for the logits of hidden units to be: the sum of their weights too."""
    if units is None:
        return ()
    with np.errstate(over="ignore"):
        return units.word, units.position, np.abs(units.weight).sum(axis=-1)


def predicted_logits(tables: Tables, ids: Int[np.ndarray, "n T_max"]) -> Float[np.ndarray, "n C"]:
    """Return f for every document: the mean over heads of Σ_t α_t u_t."""
    chunks = [ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK)]
    C = tables.word_value.shape[1]
    return np.concatenate([np.empty((0, C)), *(_predicted(tables, chunk) for chunk in chunks)])


def _predicted(tables: Tables, ids: Int[np.ndarray, "n T_max"]) -> Float[np.ndarray, "n C"]:
    logit = tables.logit(ids)
    # Less the largest of each document and head: the weight of one word is then 1, so no sum is 0.
    g = np.exp(logit - logit.max(axis=1, keepdims=True))
    u = tables.value(ids)
    f = np.einsum("ntk,ntck->nck", g, u) / g.sum(axis=1)[:, None, :]
    return f.mean(axis=-1)


_READ = 3 * ROUNDING  # a logit is a sum, from which the largest is taken off


class ErrorBounds(NamedTuple):
    """What is known of the logits and values of a text, or of UNK in the place of any word."""

    logit_error: Float[Any, "*n K"]
    value_error: Float[Any, "*n C K"]
    low: Float[Any, "*n C K"]  # the values themselves lie between
    high: Float[Any, "*n C K"]
    positions: int

    def only(self, i: int) -> "ErrorBounds":
        """Return what is known of text ``i``."""
        one = slice(i, i + 1)
        logit_error, value_error, low, high, positions = self
        return ErrorBounds(logit_error[one], value_error[one], low[one], high[one], positions)

    def of_outputs(self, smallest: Float[Any, "*n K"]) -> Float[Any, "*n C K"]:
        """Return how far a head's output may be from what the weights say, whatever is removed.

        ``smallest`` is the least Σg. Positions are added up, then perhaps classes.
        """
        return average_error(
            logit_error=self.logit_error,
            value_error=self.value_error,
            low=self.low,
            high=self.high,
            terms=self.positions + self.low.shape[-2],
            smallest=smallest,
        )


@dataclass(frozen=True, eq=False)
class TableErrors:
    """Bounds on the errors of what is read from the tables, the roundings of reading included.

    Of positions the largest error: every text has the same ones.
    """

    word_logit: Float[np.ndarray, "V K"]
    word_value: Float[np.ndarray, "V C K"]
    position_logit: Float[np.ndarray, " K"]
    position_value: Float[np.ndarray, "C K"]
    tables: Tables

    @cached_property
    def by_word(self) -> Float[np.ndarray, "V parts K"]:
        """What :meth:`of_text` takes the largest of: errors, then u and −u of all classes.

        One row to gather for each word, the extremes of the positions added in.
        """
        u, at = self.tables.word_value, self.tables.position_value
        parts = [
            (self.word_logit + self.position_logit)[:, None],
            self.word_value + self.position_value,
            u + at.max(axis=0),
            -(u + at.min(axis=0)),
        ]
        return np.concatenate(parts, axis=1)

    def of_text(self, ids: Int[np.ndarray, "n T"]) -> ErrorBounds:
        """Return what is known of texts of these words."""
        largest = np.maximum(self.by_word[ids].max(axis=1), self.by_word[UNK])
        return error_bounds(largest, ids.shape[1])


def error_bounds(largest: Float[Any, "*n parts K"], positions: int) -> ErrorBounds:
    """Return the largest rows of ``TableErrors.by_word`` by what they mean."""
    C = (largest.shape[-2] - 1) // 3
    error, high, low = (largest[..., 1 + i * C : 1 + (i + 1) * C, :] for i in range(3))
    return ErrorBounds(largest[..., 0, :], error, -low, high, positions)


def table_errors(
    embedding: Float[np.ndarray, "V d_e"],
    positions: Float[np.ndarray, "T_max d_e"],
    position_error: Float[np.ndarray, "T_max d_e"],
    directions: Directions,
    tables: Tables,
    embedding_error: Float[np.ndarray, "V d_e"] | None = None,
) -> TableErrors:
    """Return the errors of ``collapse(embedding, positions, directions)`` against the weights.

    ``embedding_error`` is that of embeddings that were computed; weights have none.
    """
    C, K, _ = directions.value.shape
    read, read_error = (
        np.concatenate([key, value.reshape(C * K, -1)]).T
        for key, value in (
            (directions.key, directions.value),
            (directions.key_error, directions.value_error),
        )
    )

    def errors(x: Float[np.ndarray, "rows d_e"], x_error: np.ndarray | None) -> list[np.ndarray]:
        found = product_error(x, read, x_error=x_error, y_error=read_error)
        return [found[:, :K], found[:, K:]]

    with np.errstate(over="ignore", invalid="ignore"):  # no finite error is known then
        if embedding_error is None:
            word_logit, word_value = _of_words(embedding, lambda x: errors(x, None))
        else:
            word_logit, word_value = errors(embedding, embedding_error)
        position_logit, position_value = errors(positions, position_error)
        of_words, of_positions = np.zeros(()), np.zeros(())
        if directions.units is not None and tables.units is not None:
            wide = embedding.astype(np.float64)
            of_words, of_positions = unit_errors(
                wide, positions, position_error, directions.units, tables.units, embedding_error
            )
    of_places = (position_logit + _READ * np.abs(tables.position_logit)).max(axis=0)
    return TableErrors(
        word_logit=word_logit + _READ * np.abs(tables.word_logit) + of_words,
        word_value=word_value.reshape(-1, C, K) + _READ * np.abs(tables.word_value),
        position_logit=of_places + of_positions,
        # The offset is added to what a position reads: its own error, and one more rounding.
        position_value=(
            position_value.reshape(-1, C, K)
            + directions.offset_error
            + (_READ + ROUNDING) * (np.abs(tables.position_value) + np.abs(directions.offset))
        ).max(axis=0),
        tables=tables,
    )


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
    off = np.minimum(2.0, ROUNDING * (power + 8) * angle) + 8 * ROUNDING
    return np.abs(scale) * np.repeat(off, 2, axis=1)[:, :d_e]


def _angles(T_max: int, d_e: int, base: float) -> Float[np.ndarray, "T_max pairs"]:
    return np.arange(T_max)[:, None] / base ** (np.arange(0, d_e, 2) / d_e)
