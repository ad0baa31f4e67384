r"""How far the values of a fitted game lie from the model's own, by masks it has not seen.

A value is a sum over masks, and so the mean of f(Z) κ(Z) when masks are drawn with sizes uniform on
0..d. For a game g that has not seen Z, the mean of (f − g)(Z) κ(Z) is then an unbiased estimate of
what is missing from the value of g: with it, value by value, the model's own are estimated without
any assumption about g.
"""

__all__ = ["LeftOut", "pair_errors", "word_errors"]

from typing import NamedTuple

import numpy as np

from limelight.sampling.pair_sums import PairShares
from limelight.sampling.sampled_pairs import pair_spread, shapley_shares
from limelight.sampling.spread import SPIKE, Spread, unseen_error
from limelight.shapes import Bool, Float, Int
from limelight.theory.lime_weights import lime_design

_ROWS = 1024  # pairs of masks looked at together
_ROUNDING = 1e-9  # of the range of f: what is left of answers that are met


class LeftOut(NamedTuple):
    """Masks, each followed by its complement; what is left of their answers; their parts."""

    keep: Bool[np.ndarray, "n d"]
    left: Float[np.ndarray, " n"]
    part: Int[np.ndarray, " n"]
    size: float  # how far f is known to move

    @property
    def flat(self) -> bool:
        """Whether nothing is left."""
        return float(np.abs(self.left).max()) <= _ROUNDING * self.size

    @property
    def draws(self) -> int:
        """Number of pairs of masks."""
        return len(self.left) // 2


class WordErrors(NamedTuple):
    """Standard errors, and the share of one pair of masks in the spread of what moved farthest."""

    stderr: Float[np.ndarray, " d"]
    spike: float


def word_errors(
    out: LeftOut,
    own: Float[np.ndarray, " d"],
    of_parts: Float[np.ndarray, "FOLDS d"],
    value: str,
) -> WordErrors:
    r"""Return standard errors of the values ``own`` of a fitted game as values of the model.

    With e the standard error of the unbiased estimate (``of_parts``, the values of the games
    without each part, plus what masks of that part add), and δ its distance from ``own``,

    .. math:: \operatorname{stderr}_j^2 = e_j^2 + \tfrac1d \sum_k \delta_k^2:

    how far the estimate may lie from the model, and the game from the estimate.
    """
    # Subtracting the noise of δ from the second term, or taking both from the spread between the
    # parts, is sharper and covers less: 0.84 to 0.92 on deep games where this has 0.92 or more.
    kept, removed = _coefficients(out.keep.shape[1], value)
    spread = Spread.zero(len(own))
    sums = np.zeros_like(of_parts)
    for start in range(0, len(out.left), 2 * _ROWS):
        some = slice(start, start + 2 * _ROWS)
        keep, part = out.keep[some], out.part[some][::2]
        size = keep.sum(axis=1)[:, None]
        share = np.where(keep, kept[size], removed[size]) * out.left[some][:, None]
        share = share.reshape(-1, 2, len(own)).mean(axis=1)
        np.add.at(sums, part, share)
        spread = spread.plus(_summed(share / out.draws))
    count = np.bincount(out.part[::2], minlength=len(of_parts))[:, None]
    estimate = (of_parts + sums / np.maximum(count, 1)).mean(axis=0)
    error, spike = _spread_error(spread, out.draws)
    if out.flat:
        error = unseen_error(np.full_like(own, out.size * _typical(kept, removed) / out.draws))
    return WordErrors(
        np.sqrt(error**2 + np.mean((estimate - own) ** 2)), 0.0 if out.flat else spike
    )


def pair_errors(
    out: LeftOut, own: Float[np.ndarray, "d d"], of_parts: Float[np.ndarray, "FOLDS d d"]
) -> Float[np.ndarray, "d d"]:
    """Return standard errors of Shapley interactions, as :func:`word_errors` has those of words."""
    d = len(own)
    shares = PairShares(*((d + 1) * share for share in shapley_shares(d)))
    added, error = pair_spread(out.keep.astype(np.float64), out.left, shares)
    off = ~np.eye(d, dtype=bool)
    if out.flat:
        error = off * unseen_error(np.sqrt(np.mean([np.mean(s**2) for s in shares])) * out.size)
        error = error / len(out.left)
    distance = (of_parts.mean(axis=0) + added - own)[off]
    return off * np.sqrt(error**2 + np.mean(distance**2))


def _coefficients(
    d: int, value: str
) -> tuple[Float[np.ndarray, " sizes"], Float[np.ndarray, " sizes"]]:
    """κ by the number m of words kept, 0..d: where word j is kept, and where it is removed."""
    m = np.arange(d + 1)
    if value == "shapley":
        over = (d + 1) / np.maximum(m, 1)
        return over * (m > 0), -over[::-1] * (m < d)
    if value == "banzhaf":
        # (d + 1) C(d, m)/2^d by a recurrence in logarithms: C(d, m) overflows from d = 1030 on.
        logs = np.concatenate([[0.0], np.cumsum(np.log((d - m[:-1]) / (m[:-1] + 1)))])
        weight = 2 * (d + 1) * np.exp(logs - d * np.log(2))
        return weight, -weight
    design = lime_design(d, bandwidth=0.25)
    kept, removed = ((d + 1) * design.weight * x for x in design.coefficient())
    return kept[::-1], removed[::-1]  # by the number of words kept, not removed


def _summed(share: Float[np.ndarray, "n d"]) -> Spread:
    size = np.abs(share)
    return Spread(
        share.sum(axis=0), (share**2).sum(axis=0), (share**4).sum(axis=0), size.max(axis=0)
    )


def _spread_error(spread: Spread, draws: int) -> tuple[Float[np.ndarray, " d"], float]:
    """Return the errors of the estimate; every word's allows for a draw that is all of a spread."""
    far = int(np.argmax(spread.largest))
    total = float(spread.second[far])
    spike = float(spread.largest[far] ** 2 / total) if total > 0 else 0.0
    if spike > SPIKE:
        spread = spread._replace(largest=np.full_like(spread.largest, spread.largest[far]))
    return spread.error(draws, degrees=draws - 1), spike


def _typical(kept: Float[np.ndarray, " sizes"], removed: Float[np.ndarray, " sizes"]) -> float:
    """The root of the mean square of κ over masks."""
    share = np.linspace(0, 1, len(kept))  # of the masks of a size, those that keep the word
    return float(np.sqrt(np.mean(share * kept**2 + (1 - share) * removed**2)))
