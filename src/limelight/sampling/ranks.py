"""What draws of all scores make certain: sets of the largest scores, and lower limits of scores."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from limelight.sampling.spread import ROUNDING, PowerSums
from limelight.shapes import Bool, Float, Int

Draws = Float[np.ndarray, "n d"]  # independent draws, whose means are the scores
PerFeature = Float[np.ndarray, " d"]
TopSizes = tuple[int, ...]  # in increasing order

ERROR_LEVEL = 0.05  # the probability that a set is certified wrongly
# Fewer draws may agree by chance. With 5 draws, 16 to 31 % of the certificates of games with a rare
# effect beside a smooth part were wrong.
MIN_DRAWS = 10
MAX_DRAWS = 128  # more draws are averaged in groups, so that an explanation stays small
# Of the first third of the draws, the sets are chosen. The others test them. On IMDB reviews, a
# third certified more sets than a half and as many as a quarter.
_SELECTION_SHARE = 1 / 3
_FIRST_SHARE = 0.8  # of the level, for a set that the user asks for
_AGREEMENT = 1e-4  # of the farthest draw: rounding makes draws that agree differ by less
_MAX_CELLS = 2**20  # draws × pairs of features that are tested together
_SINGLE_PRECISION = 1e-7  # of the largest score: rounding of a model that returns float32
_NETWORK_ROUNDING = 1e-6  # of the largest output: by how much batches of a network differ
# With more degrees of freedom than these, quantiles are interpolated.
_DEGREES = (*range(1, 31), 40, 60, 120)


def look_level(look: int) -> float:
    """Return the error level of one look at a growing sample, counted from 1.

    The levels of all looks add up to ``ERROR_LEVEL``.
    """
    return ERROR_LEVEL / (look * (look + 1))


def group_draws(draws: Draws, count: int = MAX_DRAWS) -> Float[np.ndarray, "G d"]:
    """Average consecutive draws in groups of equal size, so that at most ``count`` rows remain.

    Draws that do not fill a group are left out.
    """
    n, d = draws.shape
    size = max(1, -(-n // count))
    groups = n // size
    return draws[: groups * size].reshape(groups, size, d).mean(axis=1)


def certify_tops(
    draws: Draws,
    *,
    scores: PerFeature | None = None,
    level: float = ERROR_LEVEL,
    first: int | None = None,
    slack: PerFeature | None = None,
    allowed_effect: float = 0.0,
) -> TopSizes:
    r"""Return every K for which the set of the K largest absolute scores is certain.

    The first third of the draws chooses, for every K, a set T of K features with their signs s, and
    the order in which the sets are tested. The other draws test them. T passes if for every i in T
    and every other feature j both

    .. math:: s_i φ_i - φ_j > 0 \quad\text{and}\quad s_i φ_i + φ_j > 0

    hold at ``level``, by Student's t of the differences, draw by draw. The tests end at the first
    set that fails. With a probability of at least 1 − ``level``, all certified sets are right.
    See `docs/theorems/certain-ranks.md`.

    Parameters
    ----------
    draws
        Independent draws of the scores of all features.
    scores
        The reported scores. A set is certified only if it has the largest of these, too. None means
        the means of the draws.
    level
        The probability of a wrong certificate.
    first
        The K that is tested first, at four fifths of the level.
    slack
        How far the mean of the draws of each feature may be off, beyond its random error.
    allowed_effect
        How far a draw may be off if all draws agree.
    """
    n, d = draws.shape
    if n < MIN_DRAWS or d < 2:
        return ()
    scores = draws.mean(axis=0) if scores is None else scores
    selection, test = np.split(draws, [math.ceil(n * _SELECTION_SHARE)])
    center = selection.mean(axis=0)
    order, reported = _order_by_size(center), _order_by_size(scores)
    step = max(allowed_effect, float(np.abs(scores).max()))
    certain = list[int]()

    def test_sizes(sizes: Sequence[int], level: float) -> bool:
        """Test sets one after another until one fails, and return whether all passed."""
        pair_tests = _PairTests(
            test,
            np.sign(center),
            level=level,
            slack=np.zeros(d) if slack is None else slack,
            allowed_effect=step,
        )
        for k in sizes:
            is_same = set(order[:k].tolist()) == set(reported[:k].tolist())
            if not is_same or not pair_tests.separate(order[:k], order[k:]):
                return False
            certain.append(k)
        return True

    sizes = _order_sizes(selection, order)
    if first in sizes:
        # If the first set passes, its share of the level is left for the others.
        sizes.remove(first)
        share = level * _FIRST_SHARE
        level = level if test_sizes([first], share) else level - share
    test_sizes(sizes, level)
    return tuple(sorted(certain))


class _PairTests:
    """Tests that a feature is larger in size than another one. Each pair is tested once."""

    def __init__(
        self,
        draws: Draws,
        signs: PerFeature,
        *,
        level: float,
        slack: PerFeature,
        allowed_effect: float,
    ) -> None:
        self._draws, self._signs, self._level, self._slack = draws, signs, level, slack
        n, d = draws.shape
        self._passed: Bool[np.ndarray, "d d"] = np.zeros((d, d), bool)
        step = _largest_step(draws, allowed_effect)
        self._agreement, self._unseen = _AGREEMENT * step, math.log(1 / level) / n * step

    def separate(self, inside: Int[np.ndarray, " k"], outside: Int[np.ndarray, " m"]) -> bool:
        """Return whether every feature inside is larger in size than every feature outside."""
        is_open = ~self._passed[np.ix_(inside, outside)]
        rows, columns = np.nonzero(is_open)
        pairs = inside[rows], outside[columns]
        size = max(1, _MAX_CELLS // len(self._draws))
        for start in range(0, len(rows), size):
            i, j = (indices[start : start + size] for indices in pairs)
            if not self._are_larger(i, j):
                return False
        self._passed[pairs] = True
        return True

    def _are_larger(self, i: Int[np.ndarray, " p"], j: Int[np.ndarray, " p"]) -> bool:
        """Return whether feature i is larger in size than feature j, for all pairs."""
        larger, smaller = self._draws[:, i] * self._signs[i], self._draws[:, j]
        slack = self._slack[i] + self._slack[j]
        for sign in (1.0, -1.0):
            differences = larger - sign * smaller
            error, quantile, agrees = _error_of_means(differences, self._level, self._agreement)
            limit = np.where(agrees, self._unseen, quantile * error)
            if not (differences.mean(axis=0) > limit + slack).all():
                return False
        return True


def lower_limits(
    draws: Draws,
    scores: PerFeature,
    stderr: PerFeature,
    *,
    level: float,
    largest_output: float = 0.0,
) -> PerFeature:
    """Return a lower limit of the expectation of each score.

    A limit is too high with a probability of at most ``level``, by Student's t of the draws of the
    score and with the allowances for rare effects of certain sets.

    Parameters
    ----------
    draws
        Independent draws of the scores of all features.
    scores
        The reported scores.
    stderr
        Their reported standard errors. A limit never uses a smaller error.
    level
        The probability that a single limit is too high.
    largest_output
        The largest absolute output of the model that is known.

    Returns
    -------
    The limits. They are −∞ if there are fewer than `MIN_DRAWS` draws.
    """
    n = len(draws)
    if n < MIN_DRAWS:
        return np.full(len(scores), -np.inf)
    largest = max(largest_output, float(np.abs(scores).max(initial=0.0)))
    step = _largest_step(draws, largest)
    error, quantile, agrees = _error_of_means(draws, level, _AGREEMENT * step)
    width = quantile * np.maximum(error, stderr)
    unseen = math.log(1 / level) / n * step
    rounding = _NETWORK_ROUNDING * largest
    return scores - np.where(agrees, np.maximum(width, unseen), width) - rounding


def lower_limits_by_errors(scores: PerFeature, stderr: PerFeature, *, level: float) -> PerFeature:
    """Return a lower limit of each score if all errors are normal."""
    return scores - normal_quantile(1 - level) * stderr


def exact_lower_limits(
    scores: PerFeature, bound: float | None, *, largest_output: float
) -> PerFeature:
    """Return a lower limit of each score that has an error of at most ``bound``.

    None means that the scores are the values of a definition. They may then differ by rounding,
    relative to the largest output.
    """
    if bound is None:
        # Scores are sums of differences of outputs, and batches of a network round differently.
        bound = _NETWORK_ROUNDING * max(largest_output, float(np.abs(scores).max(initial=0.0)))
    return scores - bound


def _largest_step(draws: Draws, allowed_effect: float) -> float:
    """Return how far an unseen draw may be off."""
    # If n draws agree, an effect that a share q of all draws has was missed with the probability
    # (1 − q)ⁿ, which is below the level for q > log(1/level)/n.
    farthest = float(np.abs(draws - draws.mean(axis=0)).max(initial=0.0))
    return farthest if farthest > ROUNDING * allowed_effect else allowed_effect


def _error_of_means(
    draws: Float[np.ndarray, "n k"], level: float, agreement: float
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"], Bool[np.ndarray, " k"]]:
    """Return the errors of the means of draws, quantiles of Student's t, and where draws agree."""
    n = len(draws)
    spread = PowerSums.from_contributions((draws - draws.mean(axis=0)) / n)
    degrees = np.minimum(2 * (spread.effective_draws() + 1), n - 1)
    # The same allowance for rare effects as in standard errors.
    error = np.sqrt(spread.second * n / (n - 1) + spread.largest**2)
    return error, t_quantile(level, degrees), n * spread.largest <= agreement


def _order_by_size(scores: PerFeature) -> Int[np.ndarray, " d"]:
    """Return the features by decreasing absolute score, as ``Explanation.top`` does."""
    return np.argsort(-np.abs(scores), kind="stable")


def _order_sizes(selection: Draws, order: Int[np.ndarray, " d"]) -> list[int]:
    """Return the sizes 1 to d − 1 of the top sets, with the clearest gap behind a set first."""
    center = selection.mean(axis=0)
    # A few draws say little about the spread of a single feature, so half of it is the mean spread.
    variance = selection.var(axis=0, ddof=1)
    variance = ((variance + variance.mean()) / 2)[order]
    sizes, scale = np.abs(center)[order], variance[:-1] + variance[1:]
    gap = (sizes[:-1] - sizes[1:]) / np.sqrt(np.where(scale > 0, scale, 1.0))
    ranked: list[int] = (1 + np.argsort(-gap, kind="stable")).tolist()
    return ranked


def certify_tops_by_errors(
    scores: PerFeature, stderr: PerFeature, *, level: float = ERROR_LEVEL
) -> TopSizes:
    """Return every K whose top set is certain if all errors are normal, however they depend.

    Each absolute score gets an interval at ``level``/d. A set is certain if the intervals inside
    lie above all others.
    """
    d = len(scores)
    if d < 2:
        return ()
    width = normal_quantile(1 - level / (2 * d)) * stderr
    return separated_tops(np.abs(scores), width)


def exact_tops(scores: PerFeature, bound: float | None) -> TopSizes:
    """Return every K whose top set is certain for scores with errors of at most ``bound``.

    None means that the scores are the values of a definition. They may then differ by rounding.
    """
    sizes = np.sort(np.abs(scores))[::-1]
    if bound is None:
        bound = _SINGLE_PRECISION * float(sizes[:1].sum())
    # The same as `separated_tops` for one width. Every explanation does it, and it takes two thirds
    # of the time.
    return tuple((1 + np.flatnonzero(sizes[:-1] - bound > sizes[1:] + bound)).tolist())


def separated_tops(sizes: PerFeature, width: PerFeature) -> TopSizes:
    """Return every K for which the K largest sizes lie above all others by both widths."""
    order = np.argsort(-sizes, kind="stable")
    lowest = np.minimum.accumulate((sizes - width)[order])[:-1]
    highest = np.maximum.accumulate((sizes + width)[order][::-1])[::-1][1:]
    return tuple((1 + np.flatnonzero(lowest > highest)).tolist())


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    # Imported here: it compiles patterns for fractions, which takes a hundredth of a command.
    from statistics import NormalDist

    return NormalDist().inv_cdf(probability)


def t_quantile(level: float, degrees: Float[np.ndarray, "*k"]) -> Float[np.ndarray, "*k"]:
    """Return the number that Student's t exceeds with the probability ``level``. Domain: ν ≥ 1."""
    inverses, quantiles = _t_quantiles(level)
    # As functions of 1/ν quantiles are convex, so that interpolation errs on the safe side.
    return np.interp(1 / degrees, inverses, quantiles)


@lru_cache(maxsize=64)
def _t_quantiles(level: float) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Return 1/ν in increasing order, and the quantile of Student's t for each of them."""
    quantiles = [normal_quantile(1 - level)]
    for degrees in reversed(_DEGREES):
        low, high = 0.0, quantiles[-1]
        while _t_tail(high, degrees) > level:
            low, high = high, 2 * high + 1
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if _t_tail(middle, degrees) > level else (low, middle)
        quantiles.append(high)
    return np.array([0.0, *(1 / degrees for degrees in reversed(_DEGREES))]), np.array(quantiles)


def _t_tail(t: float, degrees: int) -> float:
    """Return the probability that Student's t with a whole number of degrees exceeds t ≥ 0."""
    # Abramowitz and Stegun, 26.7.3 and 26.7.4.
    angle = math.atan(t / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    is_odd = degrees % 2
    term = cosine if is_odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 + is_odd, degrees - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    inside = 2 / math.pi * (angle + sine * total) if is_odd else sine * total
    return (1 - inside) / 2
