r"""Where a model is wrong: its most confident mistakes, and the words that score otherwise there.

Only texts whose label is known and is a class take part. Words are compared among texts of the
same predicted class, right ones with wrong ones: over all texts together every word of a class
would differ, for the mistakes of one class are texts of the other. The test is Welch's,

.. math:: t = \frac{m_1 - m_2}{\sqrt{s_1^2/n_1 + s_2^2/n_2}},

with a text as the unit, and p is corrected by Holm for all words that are compared.
"""

__all__ = ["ConfidentMistakes", "Mistake", "compared_words", "welch"]

from typing import Any, NamedTuple, final

import numpy as np

from limelight.corpus.shard_words import ShardWords
from limelight.corpus.student_t import t_quantile, two_sided_p
from limelight.corpus.word_sums import Moments
from limelight.shapes import Float

_NO_SIGN = 1.95
_FEWEST = 5  # texts on either side, or a variance means little


class Mistake(NamedTuple):
    """A text whose label is not what was predicted, by numbers of classes."""

    row: int
    predicted: int
    label: int
    confidence: float


@final
class ConfidentMistakes:
    """The most confident mistakes of each view, a few at a time in memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[int, list[Mistake]] = {}

    def add(self, shard: ShardWords) -> None:
        """Take in a shard."""
        for view in np.unique(shard.view).tolist():
            here = np.flatnonzero((shard.view == view) & (shard.wrong == 1))
            best = here[np.argsort(-shard.confidence[here], kind="stable")[: self._most]]
            columns = (shard.row, shard.predicted, shard.label, shard.confidence)
            rows = [Mistake(*one) for one in zip(*(c[best].tolist() for c in columns), strict=True)]
            merged = [*self._found.get(view, []), *rows]
            merged.sort(key=lambda one: (-one.confidence, one.row))
            self._found[view] = merged[: self._most]

    def of(self, view: int) -> list[Mistake]:
        """Return the mistakes of a view, the most confident first."""
        return self._found.get(view, [])


class Compared(NamedTuple):
    """Words in two groups of texts: the difference of means, second less first, and its test."""

    word: Any
    first: Float[np.ndarray, " k"]
    second: Float[np.ndarray, " k"]
    difference: Float[np.ndarray, " k"]
    low: Float[np.ndarray, " k"]
    high: Float[np.ndarray, " k"]
    p: Float[np.ndarray, " k"]
    texts: tuple[Any, Any]


def compared_words(first: Moments, second: Moments, *, fewest: int = _FEWEST) -> Compared:
    """Return Welch's test for every word that ``fewest`` texts of either group have.

    Intervals are 95 % each, not corrected for the number of words. Where |t| < 1.95 no number of
    texts makes p smaller than 0.05; it stands as 1 there, and is computed for the others.
    """
    word = np.flatnonzero((first.texts >= fewest) & (second.texts >= fewest))
    one, two = (Moments(*(field[word] for field in m)) for m in (first, second))
    difference, error, freedom = welch(one, two)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, difference / error, np.where(difference == 0, 0.0, np.inf))
    p, able = np.ones(len(word)), np.abs(t) >= _NO_SIGN
    p[able] = two_sided_p(t[able], freedom[able])
    reach = t_quantile(np.maximum(np.floor(freedom), 1)) * error
    return Compared(
        word=word,
        first=one.mean,
        second=two.mean,
        difference=difference,
        low=difference - reach,
        high=difference + reach,
        p=p,
        texts=(one.texts.astype(np.int64), two.texts.astype(np.int64)),
    )


def welch(one: Moments, two: Moments) -> tuple[Any, Any, Any]:
    """Return the difference of means, its standard error, and Welch's degrees of freedom."""
    a, b = (m.variance / np.maximum(m.texts, 1) for m in (one, two))
    spread = a**2 / np.maximum(one.texts - 1, 1) + b**2 / np.maximum(two.texts - 1, 1)
    freedom = np.where(spread > 0, (a + b) ** 2 / np.where(spread > 0, spread, 1), 1.0)
    return two.mean - one.mean, np.sqrt(a + b), np.maximum(freedom, 1.0)
