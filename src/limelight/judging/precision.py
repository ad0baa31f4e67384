"""Average precision of an order of words, also if words are tied or occur twice."""

from functools import lru_cache

import numpy as np

from limelight.judging.removals import Groups
from limelight.results.judgment import TIE_ORDERS
from limelight.shapes import Float, Int, Rng

_ROUNDING = 1e-12  # a smaller standard error is only rounding
TieOrders = Int[np.ndarray, "orders d"]  # the rank of each word in each random order


def draw_tie_orders(d: int, rng: Rng) -> TieOrders:
    """Draw random orders of ``d`` words, which decide the order of tied words."""
    return rng.permuted(np.tile(np.arange(d), (TIE_ORDERS, 1)), axis=1)


def precision_draws(
    groups: Groups,
    count: Int[np.ndarray, " d"],
    marked: Int[np.ndarray, " d"],
    lengths: Int[np.ndarray, " lengths"],
    tie_orders: TieOrders,
) -> tuple[Float[np.ndarray, " draws"], Float[np.ndarray, "draws lengths"]]:
    r"""Compute average precision, and the marked positions among the first, for each random order.

    The mean over all orders of the positions within a word is exact: any r of its c positions are
    marked, and all choices are equally likely. After N other positions, R of them marked, the word
    adds

    .. math:: \frac{r}{c} \bigl( (R + 1) H + (r - 1) W \bigr),
        \quad H = \sum_{p=1}^{c} \frac{1}{N + p}, \quad W = \frac{c - (N + 1) H}{c - 1}

    to the sum over marked positions: its p-th position is marked with probability r/c, and then
    (p − 1)(r − 1)/(c − 1) of those before it within the word are marked, on average.

    Parameters
    ----------
    groups
        Words, strongest first; the words of a group are tied.
    count
        Number of positions of each word, c ≥ 1.
    marked
        Number of marked positions of each word, 0 ≤ r ≤ c. At least one position must be marked.
    lengths
        Numbers k of positions, counted from the strongest word on.
    tie_orders
        Random orders from :func:`draw_tie_orders`.

    Returns
    -------
    The average precision of each random order, and the number of marked positions among its first
    k for each k in ``lengths``. There is a single row if no order of ties has to be drawn.
    """
    size, hits, level, word = _merge_tied_positions(groups, count, marked)
    if level[-1] + 1 == len(level):
        order = np.arange(len(level))[None]
    else:
        order = np.argsort(level * len(count) + tie_orders[:, word], axis=1)
    c, r = size[order], hits[order]
    N, R = np.cumsum(c, axis=1) - c, np.cumsum(r, axis=1) - r
    # Sums 1/(N + 1) + … + 1/(N + c) as differences. The sizes of the tables are powers of two, so
    # that few tables are computed.
    harmonic = _harmonic(int(count.sum()).bit_length())
    H = harmonic[N + c] - harmonic[N]
    W = (c - (N + 1) * H) / np.maximum(c - 1, 1)  # a single position has no order within
    total = (r / c * ((R + 1) * H + (r - 1) * W)).sum(axis=1)
    inside = np.clip(lengths - N[..., None], 0, c[..., None])
    return total / marked.sum(), ((r / c)[..., None] * inside).sum(axis=1)


def mean_and_error(
    draws: Float[np.ndarray, " draws *n"],
) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """Return the mean over random orders and its standard error, which is 0 for a single draw."""
    # Relative to the first draw, so that the mean of equal numbers is exactly that number.
    change = draws - draws[0]
    if len(draws) == 1:
        return draws[0], change[0]
    error = change.std(axis=0, ddof=1) / np.sqrt(len(draws))
    return draws[0] + change.mean(axis=0), np.where(error > _ROUNDING, error, 0.0)


def _merge_tied_positions(
    groups: Groups, count: Int[np.ndarray, " d"], marked: Int[np.ndarray, " d"]
) -> tuple[Int[np.ndarray, " u"], ...]:
    """Return positions, marks, level and one word of each part that moves as one within ties."""
    # Tied words of one position each come in any order, as the positions within a word do. Together
    # they are like one word, for which the mean over all orders is exact.
    sizes, marks = count.tolist(), marked.tolist()
    parts: list[tuple[int, int, int, int]] = []
    for level, group in enumerate(groups):
        if len(group) > 1 and all(sizes[word] == 1 for word in group):
            parts.append((len(group), sum(marks[word] for word in group), level, group[0]))
        else:
            parts += [(sizes[word], marks[word], level, word) for word in group]
    return tuple(np.array(parts).T)


@lru_cache(maxsize=8)
def _harmonic(bits: int) -> Float[np.ndarray, " n"]:
    """Return 1 + 1/2 + … + 1/i for i = 0, …, 2^bits."""
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, (1 << bits) + 1))])
