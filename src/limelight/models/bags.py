"""Bags of words under a linear classifier: what a deleted word does to them is known exactly.

A text is a row x of columns, one or more of which belong to each of its words; the outputs are
W x/‖x‖ + c. Deleting words takes their columns away, which leaves a power game of the others
(`docs/theorems/power-game.md`): p = ½ for the Euclidean norm, 1 for the sum of sizes, and a sum of
its words where nothing is divided.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Bool, Float, Int
from limelight.text import Features, ModelInput, Span, Tokens
from limelight.theory.ratio_game import RatioGame

_ROUNDING = 2.0**-52
_MASKS = 4096  # that are computed at a time
_POWERS = {"l2": 0.5, "l1": 1.0, None: 1.0}  # without a norm D = 1, and any power will do


class ReadWords(NamedTuple):
    """The words of a text, and for each of its column entries the word, the column and its share.

    A word may have several entries, or none where the model does not read it. The entries of a
    column have equal shares of its value. That removed words change no others was ``checked`` on
    this text, or else is proven.
    """

    strings: tuple[str, ...]
    spans: tuple[Span, ...]
    word: Int[np.ndarray, " entries"]
    column: Int[np.ndarray, " entries"]
    value: Float[np.ndarray, " entries"]
    checked: bool = False


class _Entries(NamedTuple):
    """What a document keeps: its entries, with the share that each has of its column's value."""

    word: Int[np.ndarray, " entries"]
    part: Int[np.ndarray, " entries"]  # which of the columns of this text
    column: Int[np.ndarray, " entries"]
    value: Float[np.ndarray, " entries"]
    weight: Float[np.ndarray, " entries"]  # share of Σ x² or Σ|x|


@dataclass(frozen=True, kw_only=True, eq=False)
class Bag:
    """How texts become rows of columns, and the linear classifier of these rows.

    ``growth`` is how the value of a column grows with the number of its entries: "count", "log" or
    "presence"; None where signs may cancel or nobody knows. ``norm`` is "l2", "l1" or None,
    ``rounding`` the relative error of the numbers, ``sizes`` at least |W|: what the terms are that
    make up a weight, and ``intercept_size`` the same of the intercept. Code that is not known reads
    the texts of a ``checked`` bag, so that each of them is tried. ``words`` returns a clause that
    says why if it is not known what removed words of a text do.
    """

    words: Callable[[str], ReadWords | str]
    weights: Float[np.ndarray, "columns C"]
    sizes: Float[np.ndarray, "columns C"]
    intercept: Float[np.ndarray, " C"]
    intercept_size: Float[np.ndarray, " C"]
    norm: str | None
    growth: str | None
    rounding: float = _ROUNDING
    checked: bool = False

    @property
    def proportional(self) -> bool:
        """Whether a column may belong to several units, each of which has its part of the value."""
        # Of l2 the square of a column counts, so that two words in one column do not add up.
        return self.growth == "count" and self.norm != "l2"

    def read(self, text: str) -> ModelInput | str:
        """Return the words that the model reads; two that share a column are one word.

        If it is not known what removed words of this text do, return a clause that says why.
        """
        read = self.words(text)
        if isinstance(read, str):
            return read
        if not read.strings:
            raise InputError("the text has no words; give at least one word.")
        _, part, counts = np.unique(read.column, return_inverse=True, return_counts=True)
        strings, notices = _merged(read, part) if not self.proportional else (read.strings, ())
        # Entries of a column share its value: they go together, or each counts alike.
        x, share = read.value, counts[part]
        weight = {"l2": x * x * share, "l1": np.abs(x), None: 0 * x}[self.norm]
        entries = _Entries(read.word, part, read.column, x, weight)
        tokens = Tokens(strings, read.spans)
        return ModelInput(text, tokens, notices=notices, input=entries, checked=read.checked)

    def apart(self, model_input: ModelInput, features: Features) -> bool:
        """Whether every column belongs to one of the features, so that a game is exact."""
        part, owner = model_input.input.part, _owners(model_input.input, features)
        first = np.zeros(part.max(initial=-1) + 1, dtype=owner.dtype)
        first[part] = owner
        return self.proportional or bool((owner == first[part]).all())

    def games(self, inputs: Sequence[ModelInput], features: Sequence[Features]) -> RatioGame | str:
        """Return the games of all documents; removed words vanish, and the rest is divided anew.

        If such a game is not known, return a clause that says why.
        """
        n, d, C = len(inputs), max(map(len, features)), self.weights.shape[1]
        D, N, error = np.zeros((n, d + 1)), np.zeros((n, d + 1, C)), np.zeros((n, C, 1))
        for i, (model_input, own) in enumerate(zip(inputs, features, strict=True)):
            entries: _Entries = model_input.input
            owner = _owners(entries, own)
            if not self.apart(model_input, own):
                return (
                    "a word occurs in several of its parts, and under this norm the effect of the "
                    "word cannot be divided among them"
                )
            terms = entries.value[:, None] * self.weights[entries.column]
            # `D[i, owner] +=` would add once where an owner comes twice.
            np.add.at(D[i], owner, entries.weight)  # at -1 the last: what always stays
            np.add.at(N[i], owner, terms)
            error[i, :, 0] = self._rounding(entries)
        # A sum of words is a quotient by 1, which stays whatever is removed.
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
            sizes=np.array([len(own) for own in features]),
            error=error,
            offset=np.tile(self.intercept, (n, 1)),
            power=_POWERS[self.norm],
        )

    def outputs(
        self, model_input: ModelInput, features: Features, keep: Bool[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n C"]:
        """Return the outputs without some features, which may share columns; needs a growth."""
        entries: _Entries = model_input.input
        owner, counts = _owners(entries, features), np.bincount(entries.part)
        members = np.zeros((len(features) + 1, len(counts)))
        np.add.at(members, (owner, entries.part), 1.0)  # at -1 the last: what always stays
        column = np.zeros(len(counts), dtype=int)
        column[entries.part] = entries.column
        full = np.bincount(entries.part, entries.value)
        outputs = np.empty((len(keep), len(self.intercept)))
        for start in range(0, len(keep), _MASKS):
            rows = slice(start, start + _MASKS)
            remaining = keep[rows] @ members[:-1] + members[-1]
            x = full * _grown(remaining, self.growth) / _grown(counts, self.growth)
            if self.norm is not None:
                norm = np.linalg.norm(x, {"l2": 2, "l1": 1}[self.norm], axis=1, keepdims=True)
                x = x / np.where(norm > 0, norm, 1.0)  # a row of zeros is not divided
            outputs[rows] = x @ self.weights[column] + self.intercept
        return outputs

    def _rounding(self, entries: _Entries) -> Float[np.ndarray, " C"]:
        """Return what rounding does in the pipeline and here, whatever is removed."""
        # Σ|x_c w_c|/‖x‖ is at most the norm of w that is dual to the one of x, and of fewer columns
        # it is no larger. N and D are sums of one term for each entry.
        size = self.sizes[entries.column]
        if self.norm == "l2":
            most = np.sqrt((size * size).sum(axis=0))
        elif self.norm == "l1":
            most = size.max(axis=0, initial=0.0)
        else:
            most = np.abs(entries.value) @ size
        steps = 4 * len(entries.word) + 64
        return self.rounding * (steps * most + 4 * self.intercept_size)


def _grown(counts: Float[np.ndarray, "*n"], growth: str | None) -> Float[np.ndarray, "*n"]:
    """Return how large the value of a column is with so many entries, up to a factor."""
    if growth == "presence":
        return (counts > 0).astype(np.float64)
    if growth == "log":
        return np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0.0)
    return counts


def _merged(
    read: ReadWords, part: Int[np.ndarray, " entries"]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a common name for words that share a column, and what a reader must know of it."""
    # A column of l2 or of logarithms of counts cannot be taken apart exactly: what one of the
    # words does depends on the other. They go together, as two spellings of a word do.
    names: dict[int, dict[str, None]] = {}
    for one, word in zip(part.tolist(), read.word.tolist(), strict=True):
        names.setdefault(one, {})[read.strings[word]] = None
    together: dict[str, set[str]] = {}
    for group in names.values():
        # Chains of shared columns are followed to their end: a~b and b~c are one group.
        union = set(group).union(*(together.get(name, ()) for name in group))
        together.update(dict.fromkeys(union, union))
    if all(len(union) == 1 for union in together.values()):
        return read.strings, ()
    label = {name: " / ".join(sorted(union)) for name, union in together.items() if len(union) > 1}
    shown = sorted(set(label.values()))[:3]
    notice = (
        "Words that stand in one column of the vectorizer are one word to this model, and have one "
        f"score: {', '.join(map(repr, shown))}{' and others' * (len(set(label.values())) > 3)}."
    )
    return tuple(label.get(string, string) for string in read.strings), (notice,)


def blanked(model_input: ModelInput, features: Features, keep: Bool[np.ndarray, " d"]) -> str:
    """Return the text with spaces where the features stood that are not kept."""
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


def _owners(entries: _Entries, features: Features) -> Int[np.ndarray, " entries"]:
    """The feature of every entry; -1 where it always stays."""
    return features.of_token[entries.word]
