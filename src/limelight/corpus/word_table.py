r"""Words over a run: means over texts, and intervals that are shrunken for rare words.

Word j has the score :math:`x_{ij}` in text i and is in :math:`n_j` texts, with mean
:math:`m_j` and variance :math:`s_j^2` over them. Words are taken for draws from one population:
:math:`m_j \sim N(\mu_j, v_j/n_j)`, :math:`\mu_j \sim N(\mu, \tau^2)`, where the variance of a rare
word leans on that of all, :math:`v_j = ((n_j - 1) s_j^2 + \nu_0 s^2)/(n_j - 1 + \nu_0)`. Given the
data, :math:`\mu_j` has the mean and the variance

.. math:: \tilde m_j = B_j m_j + (1 - B_j) \mu, \quad B_j v_j / n_j, \qquad
    B_j = \frac{\tau^2}{\tau^2 + v_j/n_j}.

Most words hardly score and a few score high, which no normal population does; so no mean is moved
by more than its standard error :math:`\sqrt{v_j/n_j}` (the limited translation of Efron and Morris,
1971): B is raised to :math:`1 - \sqrt{v_j/n_j}/|m_j - \mu|` where that is larger. The
95 % interval is :math:`\tilde m_j \pm t_{n_j - 1 + \nu_0} \sqrt{B_j v_j/n_j}`.
"""

__all__ = ["RARE", "SORTS", "Shrunken", "shrunken", "word_table"]

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from limelight.corpus.shard_words import View
from limelight.corpus.student_t import t_quantile
from limelight.corpus.word_sums import Moments
from limelight.errors import InputError, nearest
from limelight.shapes import Float

RARE = 5  # texts, below which a word is marked
_PRIOR = 4  # ν₀: the texts that the common variance stands for
SORTS = ("strength", "mean", "mean_abs", "total", "texts", "occurrences", "word")


class Shrunken(NamedTuple):
    """Means drawn towards the mean of all words, and the ends of their intervals."""

    mean: Float[np.ndarray, " V"]
    low: Float[np.ndarray, " V"]
    high: Float[np.ndarray, " V"]


def shrunken(moments: Moments) -> Shrunken:
    """Return the means and intervals of this module's formulas; zeros where no text has a word."""
    n, mean, variance = moments.texts, moments.mean, moments.variance
    freedom = np.maximum(n - 1, 0)
    common = float((freedom * variance).sum() / max(freedom.sum(), 1))
    v = (freedom * variance + _PRIOR * common) / (freedom + _PRIOR)
    error = v / np.maximum(n, 1)
    center, between = _population(n, mean, error)
    whole = between + error
    share = np.divide(between, whole, out=np.ones_like(whole), where=whole > 0)
    away = np.abs(mean - center)
    # Where a mean is that of the population there is nothing to limit, and nothing to divide by.
    moved = np.divide(np.sqrt(error), away, out=np.ones_like(away), where=away > 0)
    share = np.maximum(share, 1 - moved)
    middle = share * mean + (1 - share) * center
    reach = t_quantile(freedom + _PRIOR) * np.sqrt(share * error)
    there = n > 0
    return Shrunken(*(np.where(there, x, 0.0) for x in (middle, middle - reach, middle + reach)))


def _population(
    n: Float[np.ndarray, " V"], mean: Float[np.ndarray, " V"], error: Float[np.ndarray, " V"]
) -> tuple[float, float]:
    """Return μ and τ² by moments: the spread of the means less what sampling explains.

    Every word counts once, whatever its texts, since each is one draw of μ_j; words of a single
    text are left out, unless there are no others, for their means are mostly noise.
    """
    used = n >= 2 if (n >= 2).sum() >= 2 else n > 0
    if used.sum() < 2:
        return 0.0, float((mean[used] ** 2).sum())
    center = float(mean[used].mean())
    between = float(mean[used].var(ddof=1) - error[used].mean())
    return center, max(between, 0.0)


def word_table(
    view: View, words: Sequence[str], moments: Moments, *, sort: str = "strength"
) -> pa.Table:
    """Return one row per word that any text has, sorted by ``sort``, largest first.

    By "strength" rare words come after the others.
    """
    if sort not in SORTS:
        raise InputError(nearest("way to sort words", sort, SORTS))
    found = shrunken(moments)
    there = np.flatnonzero(moments.texts > 0)
    columns = word_columns(moments, found)
    order = there[_order(sort, there, words, columns)]
    named = {"word": pa.array([words[i] for i in order], pa.string())}
    kept = {name: pa.array(values[order]) for name, values in columns.items()}
    about = {
        "method": pa.array([view.method] * len(order), pa.string()),
        "target": pa.array([view.target] * len(order), pa.string()),
        "against": pa.array([view.against] * len(order), pa.string()),
    }
    return pa.table(about | named | kept)


def word_columns(moments: Moments, found: Shrunken) -> dict[str, Any]:
    """Return the columns of a table of words, all words by number."""
    n = np.maximum(moments.texts, 1)
    return {
        "texts": moments.texts.astype(np.int64),
        "occurrences": moments.occurrences.astype(np.int64),
        "mean": moments.mean,
        "mean_abs": moments.size / n,
        "positive": moments.positive / n,
        "shrunken": found.mean,
        "low": found.low,
        "high": found.high,
        "total": moments.total,
        "rare": moments.texts < RARE,
    }


def strength(found: Shrunken) -> Float[np.ndarray, " V"]:
    """Return how far from 0 a mean is for certain: the end of its interval that is nearer to 0.

    It is 0 where the interval holds 0.
    """
    return np.maximum(np.maximum(found.low, -found.high), 0.0)


def _order(sort: str, there: Any, words: Sequence[str], columns: dict[str, Any]) -> Any:
    if sort == "word":
        return np.array(sorted(range(len(there)), key=lambda i: words[there[i]]), dtype=np.int64)
    if sort == "strength":
        found = Shrunken(columns["shrunken"], columns["low"], columns["high"])
        first = strength(found)[there]
    else:
        first = columns[sort][there]
    rare = columns["rare"][there] & (sort == "strength")  # what one text says leads no table
    return np.lexsort((-np.abs(columns["shrunken"][there]), -first, rare))
