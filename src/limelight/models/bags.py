"""Bags of words under a linear classifier: the effect of deleted words is known exactly.

A text is a row x of columns, and each word has one or more of them. The outputs are W x/‖x‖ + c.
Deleting words deletes their columns, so the outputs are a power game of the words
(`docs/theorems/power-game.md`). Its power is ½ for the Euclidean norm and 1 for the sum of absolute
values. Without a norm the outputs are a sum over words.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Bool, Float, Int
from limelight.text import Features, ModelInput, Span, Tokens
from limelight.theory.ratio_game import RatioGame

_ROUNDING = 2.0**-52
_MASKS_PER_BATCH = 4096
_POWERS = {"l2": 0.5, "l1": 1.0, None: 1.0}  # without a norm D = 1, and any power will do


class TextRow(NamedTuple):
    """The row of a text in a matrix with a row for each text of a batch.

    ``fitted`` are the objects of the pipeline's state when the text was transformed.
    """

    matrix: Any  # a sparse matrix of SciPy
    number: int
    fitted: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        # One row only, and without a state: elsewhere, the text is transformed again.
        return TextRow, (self.matrix[[self.number]], 0, ())


class Entries(NamedTuple):
    """The entries of a text: each is one occurrence of a word in a column.

    A word has several entries if it has several columns, and none if the model does not read it.
    The entries of a column have equal shares of its value, and ``column_count`` is their number.
    """

    word: Int[np.ndarray, " entries"]
    column: Int[np.ndarray, " entries"]
    column_index: Int[np.ndarray, " entries"]  # position among the columns of this text
    value: Float[np.ndarray, " entries"]
    column_count: Int[np.ndarray, " entries"]


class ReadWords(NamedTuple):
    """The words of a text, and its entries.

    Removed words must not change how other words are read. With ``is_checked`` this was checked on
    this text, otherwise it is proven. ``row`` is the row of which these are the entries, or None if
    the text must be transformed again for its outputs.
    """

    strings: tuple[str, ...]
    spans: tuple[Span, ...]
    entries: Entries
    is_checked: bool = False
    row: TextRow | None = None


class _Encoding(NamedTuple):
    """The entries of a text, and its row in a matrix of several texts, stored in `ModelInput`."""

    entries: Entries
    row: TextRow | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Bag:
    """How texts become rows of columns, and the linear classifier of these rows.

    Parameters
    ----------
    words
        Function from texts to the words and entries of each. If the effect of removed words is not
        known for a text, it yields a clause that says why.
    row_outputs
        Function from rows, as `ReadWords` contains them, to the outputs of the classifier.
    fitted_state
        Function that returns the objects that a fit of the vectorizer or of a step replaces.
    weights, intercept
        Those of the classifier.
    weight_sizes, intercept_size
        Sums of the absolute values of the terms that make up each weight and the intercept. They
        are at least as large as the absolute values of the weights and the intercept.
    norm
        "l2", "l1" or None.
    growth
        How the value of a column grows with the number of its entries: "count", "log" or
        "presence". None if signs may cancel, or if it is not known.
    rounding
        Relative rounding error of the numbers.
    is_checked
        Whether unknown code splits the texts, so that removals are checked on each text.
    """

    words: Callable[[Sequence[str]], Iterator[ReadWords | str]]
    row_outputs: Callable[[Any], Float[np.ndarray, "n C"]]
    fitted_state: Callable[[], tuple[Any, ...]]
    weights: Float[np.ndarray, "columns C"]
    weight_sizes: Float[np.ndarray, "columns C"]
    intercept: Float[np.ndarray, " C"]
    intercept_size: Float[np.ndarray, " C"]
    norm: str | None
    growth: str | None
    rounding: float = _ROUNDING
    is_checked: bool = False

    @property
    def columns_are_divisible(self) -> bool:
        """Whether several features may share a column, each with its part of the value."""
        # Under the norm l2 the square of a column counts, so two words in it do not add up.
        return self.growth == "count" and self.norm != "l2"

    def read(self, text: str) -> ModelInput | str:
        """Return a text as `read_batch` yields it."""
        return next(self.read_batch([text]))

    def read_batch(self, texts: Sequence[str]) -> Iterator[ModelInput | str]:
        """Yield the words that the model reads; two words that share a column are one word.

        If the effect of removed words is not known for a text, yield a clause that says why.
        """
        for text, words in zip(texts, self.words(texts), strict=True):
            yield words if isinstance(words, str) else self._read_words(text, words)

    def _read_words(self, text: str, words: ReadWords) -> ModelInput:
        """Return a text with its words as an input."""
        if not words.strings:
            raise InputError("the text has no words. Give at least one word.")
        strings, warnings = words.strings, tuple[str, ...]()
        if not self.columns_are_divisible:
            strings, warnings = _merge_words(words)
        return ModelInput(
            text,
            Tokens(strings, words.spans),
            warnings=warnings,
            encoding=_Encoding(words.entries, words.row),
            is_checked=words.is_checked,
        )

    def separates_columns(self, model_input: ModelInput, features: Features) -> bool:
        """Tell whether each column belongs to a single feature, so that the game is exact."""
        entries: Entries = model_input.encoding.entries
        return self._are_separate(_entry_features(entries, features), entries.column_index)

    def _are_separate(
        self, owner: Int[np.ndarray, " entries"], column_index: Int[np.ndarray, " entries"]
    ) -> bool:
        """Tell whether all entries of each column have the same owner."""
        if self.columns_are_divisible:
            return True
        first_owner = np.zeros(column_index.max(initial=-1) + 1, dtype=owner.dtype)
        first_owner[column_index] = owner
        return bool((owner == first_owner[column_index]).all())

    def exact_games(
        self, inputs: Sequence[ModelInput], features: Sequence[Features]
    ) -> RatioGame | str:
        """Return the games of all inputs, in which removed words have no columns.

        If such a game is not known, return a clause that says why.
        """
        n, d, C = len(inputs), max(map(len, features)), self.weights.shape[1]
        texts: list[Entries] = [model_input.encoding.entries for model_input in inputs]
        # All texts in one array, because the calls of NumPy take the time of a short text.
        entry_counts = [len(entries.word) for entries in texts]
        text = np.repeat(np.arange(n), entry_counts)
        owner = np.concatenate(list(map(_entry_features, texts, features)))
        column, column_index, x, column_count = (
            np.concatenate([getattr(entries, name) for entries in texts])
            for name in ("column", "column_index", "value", "column_count")
        )
        # No text has more columns than entries, so columns of different texts stay different.
        if not self._are_separate(owner, column_index + text * max(entry_counts)):
            return (
                "a word occurs in several features, and its effect cannot be divided among "
                "them under this norm"
            )
        # An entry that always stays has the feature −1, and its place is the last of its text.
        place = np.where(owner < 0, d, owner) + text * (d + 1)
        flat_D, flat_N = np.zeros(n * (d + 1)), np.zeros((n * (d + 1), C))
        # `flat_D[place] +=` would add only once for a place that occurs twice.
        np.add.at(flat_D, place, self._weights_in_norm(x, column_count))
        np.add.at(flat_N, place, x[:, None] * self.weights[column])
        D, N = flat_D.reshape(n, d + 1), flat_N.reshape(n, d + 1, C)
        error = self._rounding_bounds(text, column, x, entry_counts)[:, :, None]
        # A sum over words is a quotient by 1, a term that is never removed.
        if self.norm is None:
            D[:, -1] = 1.0
        A, a = np.moveaxis(N, 2, 1)[:, :, None], D[:, None]
        return RatioGame(
            D0=a[..., -1],
            a=np.ascontiguousarray(a[..., :-1]),
            # A deleted word leaves nothing behind.
            b=np.zeros((n, 1, d)),
            N0=np.ascontiguousarray(A[..., -1]),
            A=np.ascontiguousarray(A[..., :-1]),
            B=np.zeros((n, C, 1, d)),
            sizes=np.array([len(input_features) for input_features in features]),
            error=error,
            offset=np.tile(self.intercept, (n, 1)),
            power=_POWERS[self.norm],
        )

    def shared_rows(self, inputs: Sequence[ModelInput]) -> tuple[Any, list[int]] | None:
        """Return the matrix with the rows of inputs, and their numbers.

        Return None if an input has no such row, or if the pipeline was fitted again since then.
        """
        encodings: list[_Encoding | None] = [model_input.encoding for model_input in inputs]
        rows = [encoding.row for encoding in encodings if encoding is not None and encoding.row]
        if not rows or len(rows) < len(inputs):
            return None
        matrix, fitted, state = rows[0].matrix, rows[0].fitted, self.fitted_state()
        is_current = len(state) == len(fitted) and all(map(operator.is_, state, fitted))
        if not is_current or any(row.matrix is not matrix for row in rows):
            return None
        return matrix, [row.number for row in rows]

    def outputs(
        self, model_input: ModelInput, features: Features, keep: Bool[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n C"]:
        """Return the outputs for each mask; features may share columns if ``growth`` is known."""
        entries: Entries = model_input.encoding.entries
        owner, counts = _entry_features(entries, features), np.bincount(entries.column_index)
        members = np.zeros((len(features) + 1, len(counts)))
        # The index -1 is the last row: entries that always stay.
        np.add.at(members, (owner, entries.column_index), 1.0)
        column = np.zeros(len(counts), dtype=int)
        column[entries.column_index] = entries.column
        full = np.bincount(entries.column_index, entries.value)
        outputs = np.empty((len(keep), len(self.intercept)))
        for start in range(0, len(keep), _MASKS_PER_BATCH):
            rows = slice(start, start + _MASKS_PER_BATCH)
            remaining = keep[rows] @ members[:-1] + members[-1]
            x = (
                full
                * _relative_value(remaining, self.growth)
                / _relative_value(counts, self.growth)
            )
            if self.norm is not None:
                norm = np.linalg.norm(x, {"l2": 2, "l1": 1}[self.norm], axis=1, keepdims=True)
                x = x / np.where(norm > 0, norm, 1.0)  # a row of zeros is not divided
            outputs[rows] = x @ self.weights[column] + self.intercept
        return outputs

    def _weights_in_norm(
        self, x: Float[np.ndarray, " entries"], column_count: Int[np.ndarray, " entries"]
    ) -> Float[np.ndarray, " entries"]:
        """Return the share of each entry in Σ x² or Σ|x|."""
        if self.norm == "l2":
            # Entries of a column share its value: they are removed together, or each counts
            # equally.
            return x * x * column_count
        return np.abs(x) if self.norm == "l1" else np.zeros_like(x)

    def _rounding_bounds(
        self,
        text: Int[np.ndarray, " entries"],
        column: Int[np.ndarray, " entries"],
        x: Float[np.ndarray, " entries"],
        entry_counts: list[int],
    ) -> Float[np.ndarray, "n C"]:
        """Return a bound of the rounding errors of the pipeline and of this class for all masks."""
        # Σ|x_c w_c|/‖x‖ is at most the dual norm of w, and it is no larger for fewer columns. N and
        # D are sums of one term for each entry.
        size = self.weight_sizes[column]
        largest = np.zeros((len(entry_counts), size.shape[1]))
        if self.norm == "l2":
            np.add.at(largest, text, size * size)
            largest = np.sqrt(largest)
        elif self.norm == "l1":
            np.maximum.at(largest, text, size)
        else:
            np.add.at(largest, text, np.abs(x)[:, None] * size)
        steps = 4 * np.array(entry_counts)[:, None] + 64
        return self.rounding * (steps * largest + 4 * self.intercept_size)


def _relative_value(counts: Float[np.ndarray, "*n"], growth: str | None) -> Float[np.ndarray, "*n"]:
    """Return the values of columns with these numbers of entries, up to a factor per column."""
    if growth == "presence":
        return (counts > 0).astype(np.float64)
    if growth == "log":
        return np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0.0)
    return counts


def _merge_words(words: ReadWords) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the strings of all words, equal for words that share a column, and warnings."""
    # A column under l2 or of logarithms of counts cannot be divided exactly: the effect of one of
    # its words depends on the others. They are removed together, like two spellings of a word.
    columns = words.entries.column.tolist()
    strings = [words.strings[word] for word in words.entries.word.tolist()]
    if len(set(zip(columns, strings, strict=True))) == len(set(columns)):
        return words.strings, ()
    names: dict[int, dict[str, None]] = {}
    for column, string in zip(columns, strings, strict=True):
        names.setdefault(column, {})[string] = None
    groups: dict[str, set[str]] = {}
    for column_names in names.values():
        # Chains of shared columns are followed to their end: a~b and b~c are one group.
        group = set(column_names).union(*(groups.get(name, ()) for name in column_names))
        groups.update(dict.fromkeys(group, group))
    label = {name: " / ".join(sorted(group)) for name, group in groups.items() if len(group) > 1}
    examples = sorted(set(label.values()))[:3]
    warning = (
        "The vectorizer puts some words into one column, so they have one score: "
        f"{', '.join(map(repr, examples))}{' and others' * (len(set(label.values())) > 3)}."
    )
    return tuple(label.get(string, string) for string in words.strings), (warning,)


def blank_features(
    model_input: ModelInput, features: Features, keep: Bool[np.ndarray, " d"]
) -> str:
    """Return the text with spaces in place of the features that are not in ``keep``."""
    pairs = zip(features.spans, keep, strict=True)
    return blank_spans(
        model_input.text, [span for spans, stays in pairs if not stays for span in spans]
    )


def blank_spans(text: str, spans: Iterable[Span]) -> str:
    """Return the text with spaces in place of some spans, so that other offsets stay the same."""
    letters = list(text)
    for start, end in spans:
        letters[start:end] = " " * (end - start)
    return "".join(letters)


def _entry_features(entries: Entries, features: Features) -> Int[np.ndarray, " entries"]:
    """Return the feature of each entry, -1 for an entry that always stays."""
    return features.feature_index[entries.word]
