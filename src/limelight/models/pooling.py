"""Classifiers that read the mean of word vectors: fastText's, static embeddings, one's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.bags import Bag, ReadWords
from limelight.models.fingerprints import function_fingerprint
from limelight.models.functions import Function, Words, word_spans
from limelight.shapes import Float, Int


def pooling_classifier(
    vectors: Mapping[str, Any],
    head: Any,
    bias: Any = None,
    *,
    classes: Sequence[str],
    weights: Mapping[str, float] | None = None,
    always: Sequence[str] = (),
    words: Words | None = None,
    lowercase: bool = True,
    scale: str = "logit",
) -> Function:
    """Return the model f = head · (Σ w_j v_j / Σ w_j) + bias, which is explained exactly.

    Parameters
    ----------
    vectors
        The vector v of every known word. Other words are not read.
    head
        One row for each class, or a single row for two classes: the second's log-odds.
    bias
        One number for each row of ``head``; by default 0.
    classes
        Names of the classes.
    weights
        How much each word counts in the mean, a positive number; by default 1.
    always
        Known words that take part in every mean, such as "</s>" of fastText. They are no features.
    words
        Function from a text to the (start, end) of its words, as in :func:`limelight.wrap`.
    lowercase
        Whether words are looked up in small letters.
    scale
        What f is: a "logit", or a "score" without probabilities.
    """
    if not isinstance(vectors, Mapping):
        raise InputError(f"vectors must map words to vectors; got {type(vectors).__name__}.")
    if isinstance(classes, str):
        raise InputError(f"classes must be a list of names; got {classes!r}.")
    if scale not in ("logit", "score"):
        raise InputError(f"scale must be 'logit' or 'score' here; got {scale!r}.")
    known = list(vectors)
    # It would be a vector that no text can reach, and nobody would notice.
    if lowercase and (capital := next((w for w in known if w != w.lower()), None)) is not None:
        raise InputError(
            f"vectors have {capital!r}, which is never found in small letters; give words in small "
            "letters, or lowercase=False."
        )
    for name, given in (("weights", weights or ()), ("always", always)):
        for word in given:
            if word not in vectors:
                raise InputError(f"{name} names {word!r}, which has no vector.")
    if not known:
        raise InputError("a mean of word vectors needs the vector of one word at least; got none.")
    rows, table = _matrix("head", head), _matrix("vectors", [vectors[word] for word in known])
    shift = np.zeros(len(rows)) if bias is None else _matrix("bias", bias).reshape(-1)
    least = 1 if len(classes) == 2 else len(classes)
    fits = table.shape[1] == rows.shape[1] and len(shift) == len(rows)
    if not fits or len(rows) not in (least, len(classes)):
        raise InputError(
            f"head must have a row for each of {len(classes)} classes, as long as the vectors, and "
            f"bias a number for each row; got head {rows.shape}, vectors {table.shape} and bias "
            f"{shift.shape}."
        )
    counts = _matrix("weights", [(weights or {}).get(word, 1.0) for word in known])[0]
    # Their sum is the denominator of every game: with both signs it could vanish.
    if not (counts > 0).all():
        raise InputError("weights of words must be positive and finite.")
    mean = _Mean(
        always=np.array([known.index(word) for word in always], dtype=int),
        columns={word: i for i, word in enumerate(known)},
        counts=counts,
        weights=table @ rows.T,
        bias=shift,
        cut=words,
        lowercase=lowercase,
    )
    # A mean divides by the sum of what counts, the l1 norm of positive columns. A weight is
    # a sum over dimensions, so that its rounding follows the sizes of the terms.
    bag = Bag(
        words=mean.words,
        weights=mean.weights,
        sizes=np.abs(table) @ np.abs(rows).T,
        intercept=shift,
        intercept_size=np.abs(shift),
        norm="l1",
        growth="count",
    )
    # All that an output depends on, the cutter too: a run goes on only with the same.
    parts = [known, table, rows, shift, counts, list(always), words, lowercase, scale]
    return Function(
        function=mean.outputs,
        classes=tuple(map(str, classes)),
        scale=scale,
        name="mean of word vectors",
        bag=bag,
        parts={"function": function_fingerprint(parts)},
    )


# An object and no closures, so that it can be sent to another process.
@dataclass(frozen=True, eq=False, kw_only=True)
class _Mean:
    """The mean of vectors, as columns whose values are how much their words count."""

    columns: dict[str, int]
    counts: Float[np.ndarray, " columns"]
    weights: Float[np.ndarray, "columns C"]
    bias: Float[np.ndarray, " C"]
    always: Int[np.ndarray, " m"]
    cut: Words | None
    lowercase: bool

    def words(self, text: str) -> ReadWords:
        """Return the words of a text, and the column of each that is known."""
        spans = tuple(word_spans(text, self.cut))
        found = [text[a:b] for a, b in spans]
        strings = tuple(map(str.lower, found)) if self.lowercase else tuple(found)
        column = np.array([self.columns.get(string, -1) for string in strings], dtype=int)
        known = np.flatnonzero(column >= 0)
        # No word of the text: what always takes part is never removed.
        word = np.concatenate([np.full(len(self.always), -1), known])
        columns = np.concatenate([self.always, column[known]])
        return ReadWords(strings, spans, word, columns, self.counts[columns])

    def outputs(self, texts: list[str]) -> Float[np.ndarray, "n C"]:
        """Return the outputs; a text without known words has the bias alone."""
        rows = []
        for text in texts:
            read = self.words(text)
            # Where no word is known there is nothing to divide, and 0/0 would be NaN.
            total = max(read.value.sum(), 1e-300)
            rows.append(read.value @ self.weights[read.column] / total + self.bias)
        return np.array(rows)


def _matrix(name: str, given: Any) -> Float[np.ndarray, "C e"]:
    try:
        array = np.atleast_2d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        raise InputError(
            f"{name} must be rows of numbers, all of one length; got {given!r:.80}."
        ) from None
    if array.ndim != 2 or not np.isfinite(array).all():
        raise InputError(f"{name} must have finite rows of numbers; got shape {array.shape}.")
    return array
