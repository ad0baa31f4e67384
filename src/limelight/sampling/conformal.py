"""A threshold for alarms whose rate of false alarms is known, from scores without an alarm."""

import numpy as np
from numpy.typing import ArrayLike

from limelight.errors import InputError, short_repr


def conformal_threshold(benign_scores: ArrayLike, alpha: float) -> float:
    """Return a threshold that a new benign score exceeds with a probability of at most ``alpha``.

    Raise an alarm if a score is above the threshold. This is split conformal prediction (Vovk,
    Gammerman and Shafer, Algorithmic Learning in a Random World, 2005).

    **Hypothesis.** The benign scores and the new benign score are exchangeable: each order of them
    is equally probable. Independent conversations of one kind are. The probability is over all of
    them, not for the benign scores at hand.

    **Proof.** Let k be the largest number with k/(n + 1) ≤ alpha, and the threshold the k-th
    largest of n scores. A score exceeds the k-th largest of the n others only if fewer than k of
    them are at least as large. Let A be the set of such scores among all n + 1. The smallest score
    in A has all others of A at least as large, so that A has at most k members. By exchangeability,
    the new score is in A with a probability of at most k/(n + 1). Ties make it smaller. ∎

    Parameters
    ----------
    benign_scores
        Scores of benign conversations. At least 1/alpha − 1 are necessary.
    alpha
        The largest allowed probability of a false alarm.

    Returns
    -------
    The threshold, one of the scores.

    Raises
    ------
    InputError
        If there are too few scores, if a score is not finite, or if ``alpha`` is not between 0
        and 1.

    Examples
    --------
    >>> import limelight
    >>> benign_scores = [0.3, -1.2, 0.8, 0.1, -0.4, 0.5, 1.1, -0.7, 0.2]
    >>> limelight.conformal_threshold(benign_scores, 0.1)
    1.1
    >>> limelight.conformal_threshold(benign_scores, 0.2)
    0.8
    """
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.floating):
        raise InputError(f"alpha must be a number, not {short_repr(alpha)}.")
    if not 0 < alpha < 1:
        raise InputError(f"alpha must be between 0 and 1, not {alpha}.")
    try:
        scores = np.array(benign_scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("benign_scores must be a list of numbers.") from None
    if scores.ndim != 1 or not np.isfinite(scores).all():
        raise InputError("benign_scores must be a list of finite numbers.")
    n = len(scores)
    exceedances = _allowed_exceedances(n, alpha)
    if not exceedances:
        raise InputError(
            f"alpha={alpha:g} needs at least {_necessary_count(alpha):,} benign scores, not {n:,}. "
            "Add benign conversations, or raise alpha."
        )
    return float(np.sort(scores)[n - exceedances])


def _allowed_exceedances(n: int, alpha: float) -> int:
    """Return the largest k with k/(n + 1) ≤ alpha, as the computer divides."""
    k = min(int(alpha * (n + 1)) + 1, n)
    while k / (n + 1) > alpha:
        k -= 1
    return k


def _necessary_count(alpha: float) -> int:
    """Return the smallest n with 1/(n + 1) ≤ alpha."""
    n = max(int(1 / alpha) - 2, 0)
    while 1 / (n + 1) > alpha:
        n += 1
    return n
