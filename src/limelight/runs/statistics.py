"""Means over texts, their intervals, and tests of their differences; all words at once."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limelight.data.labels import wilson_interval
from limelight.errors import MissingExtraError
from limelight.judging.statistics import holm_p_values
from limelight.shapes import Float, Int

try:
    from scipy import special
except ImportError:
    raise MissingExtraError("summaries and queries of a run need SciPy", "data") from None

MIN_TEXTS = 5  # texts on either side of a comparison, or a variance means little
_PRIOR = 4  # ν₀: the texts that the common variance stands for
_SIGNIFICANCE = 0.05


def share_interval(count: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; it is [0, 1] if ``total`` is 0."""
    # Not p ± z√(p(1−p)/n), which has no width where all or none are right.
    return wilson_interval(count, total) if total else (0.0, 1.0)


@dataclass(frozen=True)
class WordMoments:
    """For every word, the number of texts that have it and sums of its scores over these texts.

    ``square`` sums squares, ``size`` absolute values, ``positive`` counts scores above 0. Means,
    variances and intervals follow from these sums.
    """

    texts: Float[np.ndarray, " V"]
    total: Float[np.ndarray, " V"]
    square: Float[np.ndarray, " V"]
    size: Float[np.ndarray, " V"]
    positive: Float[np.ndarray, " V"]
    occurrences: Float[np.ndarray, " V"]

    @property
    def sums(self) -> list[Float[np.ndarray, " V"]]:
        """The sums, in the order of :data:`SUMS`."""
        return [getattr(self, name) for name in SUMS]

    @property
    def mean(self) -> Float[np.ndarray, " V"]:
        """The mean over texts; 0 for a word without texts."""
        return self.total / np.maximum(self.texts, 1)

    @property
    def variance(self) -> Float[np.ndarray, " V"]:
        """The unbiased variance over texts; 0 if fewer than two texts have the word."""
        # One pass over a million texts gives sums only, and their difference may cancel.
        spread = np.maximum(self.square - self.texts * self.mean**2, 0.0)
        # What is left after cancelling is rounding, not spread, where it is that small.
        spread[spread <= 1e-14 * self.square] = 0.0
        return spread / np.maximum(self.texts - 1, 1)

    @cached_property
    def shrunken(self) -> Float[np.ndarray, "3 V"]:
        """The mean shrunken towards the mean of all words, and the ends of its 95 % interval."""
        return shrink_means(self.texts, self.mean, self.variance)

    @property
    def strength(self) -> Float[np.ndarray, " V"]:
        """The distance of the interval of a mean from 0; 0 if the interval contains 0."""
        _, low, high = self.shrunken
        return np.maximum(np.maximum(low, -high), 0.0)

    def select(self, words: Any) -> "WordMoments":
        """Return the moments of some words."""
        return WordMoments(*(values[words] for values in self.sums))


SUMS = tuple(field.name for field in fields(WordMoments))


def two_sided_p(
    t: Float[np.ndarray, " n"], freedom: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return P(|T| > |t|) for ``freedom`` > 0 degrees of freedom; they need not be whole."""
    # The lower tail: 1 less the upper one would be 0 for a p below 1e-16.
    return 2 * special.stdtr(freedom, -np.abs(t))


def t_quantile(freedom: Float[np.ndarray, " n"], *, level: float = 0.95) -> Float[np.ndarray, " n"]:
    """Return q with P(|T| ≤ q) = ``level``; numbers of texts repeat, and each is looked up once."""
    # A quantile is found by iteration: a few hundred of them, not one for each of 200,000 words.
    distinct, place = np.unique(freedom, return_inverse=True)
    return special.stdtrit(distinct, 0.5 + level / 2)[place]


def shrink_means(
    n: Float[np.ndarray, " V"], mean: Float[np.ndarray, " V"], variance: Float[np.ndarray, " V"]
) -> Float[np.ndarray, "3 V"]:
    """Return shrunken means and the ends of their intervals, zero for words in no text.

    ``docs/how-to/summaries.md`` defines them.
    ``n`` is the number of texts that have each word.
    """
    freedom = np.maximum(n - 1, 0)
    common = float((freedom * variance).sum() / max(freedom.sum(), 1))
    # A word of two texts that agree by chance has no variance, and would lead every list.
    v = (freedom * variance + _PRIOR * common) / (freedom + _PRIOR)
    error = v / np.maximum(n, 1)
    center, between = _estimate_population(n, mean, error)
    total_variance = between + error
    # All of the mean is kept where nothing is known to be noise.
    share = np.divide(
        between, total_variance, out=np.ones_like(total_variance), where=total_variance > 0
    )
    deviation = np.abs(mean - center)
    # Where a mean is that of the population there is nothing to limit, and nothing to divide by.
    error_ratio = np.divide(
        np.sqrt(error), deviation, out=np.ones_like(deviation), where=deviation > 0
    )
    # No mean moves by more than its standard error: the few that score high would be drawn too far.
    share = np.maximum(share, 1 - error_ratio)
    shrunken = share * mean + (1 - share) * center
    half_width = t_quantile(freedom + _PRIOR) * np.sqrt(share * error)
    return np.where(n > 0, [shrunken, shrunken - half_width, shrunken + half_width], 0.0)


def _estimate_population(
    n: Float[np.ndarray, " V"], mean: Float[np.ndarray, " V"], error: Float[np.ndarray, " V"]
) -> tuple[float, float]:
    """Estimate μ and τ² by moments: the variance of the means minus their sampling variance.

    Every word counts once, however many texts it has, because each is one draw of μ_j. Words of a
    single text are left out unless there are no others, because their means are mostly noise.
    """
    is_used = n >= 2 if (n >= 2).sum() >= 2 else n > 0
    if is_used.sum() < 2:
        return 0.0, float((mean[is_used] ** 2).sum())
    # The plain mean: weights by texts would let function words say where all words lie.
    center = float(mean[is_used].mean())
    between = float(mean[is_used].var(ddof=1) - error[is_used].mean())
    return center, max(between, 0.0)


_COUNTS = ("number", "first_texts", "second_texts")
# Words in two groups of texts: the difference of means, second less first, and its test.
_TESTS = pa.schema(
    {
        name: pa.int64() if name in _COUNTS else pa.float64()
        for name in (
            "number", "first", "first_texts", "second", "second_texts", "difference", "low",
            "high", "p",
        )
    }
)  # fmt: skip


def compare_words(first: WordMoments, second: WordMoments) -> pa.Table:
    """Run Welch's test for every word that ``MIN_TEXTS`` texts of each group have.

    Intervals are 95 % each, not corrected for the number of words, and their degrees of freedom are
    rounded down.
    """
    number = np.flatnonzero((first.texts >= MIN_TEXTS) & (second.texts >= MIN_TEXTS))
    first, second = first.select(number), second.select(number)
    a, b = (m.variance / np.maximum(m.texts, 1) for m in (first, second))
    spread = a**2 / np.maximum(first.texts - 1, 1) + b**2 / np.maximum(second.texts - 1, 1)
    # Welch–Satterthwaite; of words without any variance there is nothing to divide by.
    freedom = np.where(spread > 0, (a + b) ** 2 / np.where(spread > 0, spread, 1), 1.0)
    freedom = np.maximum(freedom, 1.0)
    gap, error = second.mean - first.mean, np.sqrt(a + b)
    # Whole degrees repeat, so that few quantiles are computed; intervals are rather too wide.
    quantile = t_quantile(np.floor(freedom))
    return _test_table(number, first, second, gap, error, freedom, quantile)


def compare_paired_words(first: WordMoments, second: WordMoments, gap: WordMoments) -> pa.Table:
    """Run Student's test of the mean gap for every word of ``MIN_TEXTS`` texts."""
    number = np.flatnonzero(gap.texts >= MIN_TEXTS)
    first, second, gap = (moments.select(number) for moments in (first, second, gap))
    error, freedom = np.sqrt(gap.variance / gap.texts), gap.texts - 1
    return _test_table(number, first, second, gap.mean, error, freedom, t_quantile(freedom))


def _test_table(
    number: Any,
    first: WordMoments,
    second: WordMoments,
    gap: Any,
    error: Any,
    freedom: Any,
    quantile: Any,
) -> pa.Table:
    """Return a row per word: its number, its means in two groups, and their difference tested."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # Without an error a gap is certain: t is infinite and p is 0.
        t = np.where(error > 0, gap / error, np.where(gap == 0, 0.0, np.inf))
    columns = {
        "number": number,
        "first": first.mean,
        "first_texts": first.texts.astype(np.int64),
        "second": second.mean,
        "second_texts": second.texts.astype(np.int64),
        "difference": gap,
        "low": gap - quantile * error,
        "high": gap + quantile * error,
        "p": two_sided_p(t, freedom),
    }
    return pa.table(columns, schema=_TESTS)


def differing_words(words: Sequence[str], tests: Sequence[tuple[str, pa.Table]]) -> pa.Table:
    """Return the words that differ, p < 0.05 by Holm over all groups, the largest gap first.

    ``tests`` has the name and the table of each group, which names ``words`` by their numbers.
    """
    groups = [group for group, table in tests for _ in range(len(table))]
    # With an empty table first: there may be no group.
    differences = pa.concat_tables(
        [_TESTS.empty_table(), *(table for _, table in tests)]
    ).combine_chunks()
    # Over all groups at once: a reader of all tables of a run reads all of these tests.
    p_holm = pa.array(holm_p_values(differences["p"].to_pylist()), pa.float64())
    differences = differences.append_column("group", pa.array(groups, pa.string()))
    differences = differences.append_column("p_holm", p_holm).filter(pc.less(p_holm, _SIGNIFICANCE))
    word_names = [words[number] for number in differences["number"].to_pylist()]
    # By size, not by p: of many texts nearly every difference is certain.
    order = np.argsort(-np.abs(differences["difference"].to_numpy()), kind="stable")
    return differences.append_column("word", pa.array(word_names, pa.string())).take(
        pa.array(order)
    )


def greedy_cover(
    words: Int[np.ndarray, "n k"], weight: Float[np.ndarray, " V"], count: int
) -> tuple[list[int], list[float]]:
    """Choose texts greedily and return them with the share of Σ weight covered after each.

    Row i of ``words`` has the words that text i covers, each once, and −1 as padding. The first
    of equal texts is chosen. A text that adds nothing is never chosen.
    """
    remaining = np.append(weight, 0.0)  # the last element is found by −1
    coverable = np.unique(words[words >= 0])
    # Of what any text shows: words that none of them shows could not be covered.
    total = float(weight[coverable].sum())
    chosen: list[int] = []
    covered: list[float] = []
    # What is covered is submodular, so that greedy choice has at least 1 − 1/e of the best.
    for _ in range(min(count, len(words))):
        gain = remaining[words].sum(axis=1)
        best = int(gain.argmax())
        if gain[best] <= 0:
            break
        remaining[words[best]] = 0.0
        chosen.append(best)
        covered.append(1 - float(remaining[coverable].sum()) / total)
    return chosen, covered
