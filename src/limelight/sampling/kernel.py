"""Shapley values by a regression on random masks, each with its complement: good for few words."""

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np

from limelight.sampling.deadline import answers_in_time, is_active
from limelight.sampling.masks import Masks, PerMask, Rng, sized_masks
from limelight.sampling.orders import ShapleySample, end_masks
from limelight.sampling.sample import Game
from limelight.sampling.spread import ROUNDING, Spread, heavy_tailed
from limelight.shapes import Float

_PAIRS = 512  # asked at a time
_SINGULAR = 1e-12
_COUNTLESS = 2**60  # sets: those of 200 words out of 400 are no number of double precision


def fewest_pairs(d: int) -> int:
    """Return the pairs of masks that determine d values and leave something to tell their error."""
    return d + 2


class PairedMasks(NamedTuple):
    """Masks that stand for themselves and their complements.

    ``unasked`` is the share of its size that a sample leaves out: 0 where all sets are asked.
    """

    keep: Masks
    weight: PerMask
    unasked: PerMask


def paired_masks(d: int, pairs: int, rng: Rng) -> PairedMasks:
    """Return ``pairs`` different masks whose sizes follow the Shapley kernel 1/(s (d − s)).

    A size of which a sample would hold every set is asked whole, smallest first, and each set then
    has its own weight; the others share what is left evenly. Every word alone, and all but it, come
    first: they determine the values by themselves. Domain: d ≥ 2.
    """
    size = np.arange(1, d // 2 + 1)
    # A set of half of the words and its complement are one pair.
    twins = np.where(2 * size == d, 2, 1).tolist()
    sets = [math.comb(d, s) // t for s, t in zip(size.tolist(), twins, strict=True)]
    count = [min(n, _COUNTLESS) for n in sets]
    chance = 1 / (size * (d - size) * np.array(twins))
    left, whole = min(pairs, sum(count)), 0
    while whole < len(size) and (
        left * chance[whole] >= count[whole] * chance[whole:].sum()
        or (whole == 0 and left >= fewest_pairs(d))
    ):
        left -= count[whole]
        whole += 1
    wanted, rest = np.array(count[:whole], dtype=int), chance[whole:].sum()
    expected = left * chance[whole:] / rest
    if left:
        # Evenly spaced in the law of sizes, from a random start: each size as often as it should
        # be, rounded up or down by chance.
        steps = np.cumsum(expected)[:-1]
        drawn = np.searchsorted(steps, np.arange(left) + rng.random(), side="right")
        wanted = np.append(wanted, np.bincount(drawn, minlength=len(size) - whole))
    keep = [
        _sets(d, s, n, c, rng)
        for s, n, c in zip(size.tolist(), wanted.tolist(), count, strict=False)
    ]
    asked = wanted > 0
    each = np.append(
        chance[:whole] / count[:whole], np.full(len(size) - whole, rest / max(left, 1))
    )
    share = np.append(np.ones(whole), expected / count[whole:])
    rows = np.repeat(np.flatnonzero(asked), wanted[asked])
    return PairedMasks(np.concatenate(keep), each[rows], np.maximum(1 - share[rows], 0.0))


def _sets(d: int, size: int, n: int, count: int, rng: Rng) -> Masks:
    """Return ``n`` different sets of ``size`` words out of ``count``, every choice alike."""
    keep = np.zeros((n, d), bool)
    if 2 * n >= count:  # drawing until all differ would take long
        # In this order those of half of the words that hold the first one come first.
        members = np.array([*combinations(range(d), size)][:count])
        chosen = members if n == count else members[rng.choice(count, n, replace=False)]
        keep[np.arange(n)[:, None], chosen] = True
        return keep
    again = np.arange(n)
    while len(again):
        drawn = sized_masks(d, np.full(len(again), d - size), rng)
        keep[again] = drawn ^ (~drawn[:, :1] & (2 * size == d))
        first = np.unique(np.packbits(keep, axis=1), axis=0, return_index=True)[1]
        again = np.setdiff1d(np.arange(n), first)
    return keep


def in_random_order(masks: PairedMasks, first: int, rng: Rng) -> PairedMasks:
    """Return the same masks, those after the ``first`` ones in random order."""
    order = np.arange(len(masks.keep))
    order[first:] = rng.permutation(order[first:])
    return PairedMasks(*(part[order] for part in masks))


def first_answered(masks: PairedMasks, first: int, count: int) -> PairedMasks:
    """Return the ``count`` masks that there was time for, weighted to stand for all of them.

    The ``first`` ones are answered in any case, those after them in random order: each of the
    latter is in the sample by chance, and weighs more by the inverse of that chance.
    """
    if count == len(masks.keep):
        return masks
    chance = np.ones(count)
    chance[first:] = (count - first) / (len(masks.keep) - first)
    weight, asked = masks.weight[:count] / chance, (1 - masks.unasked[:count]) * chance
    return PairedMasks(masks.keep[:count], weight, 1 - asked)


def regression_shapley(
    game: Game, d: int, rng: Rng, *, pairs: int, known_range: float = 0.0
) -> ShapleySample:
    r"""Shapley values as the constrained weighted least squares of KernelSHAP, on paired masks.

    .. math:: \min \sum_i w_i \bigl(f(S_i) - f(\bar S_i) - z_i \cdot φ\bigr)^2, \qquad
        \sum_j φ_j = f(\text{all}) - f(\text{none}),

    z being +1 at words of S and −1 at the others. Over all masks the minimum is at the Shapley
    values; what an even number of words do together drops out of every difference. ``stderr`` is
    the root of the sandwich Σ (w H z̃ e)² over the masks that were drawn, H the inverse of the
    normal equations and e the residual that a pair would leave if it were not in the sample (HC3);
    about its mean, less for sizes of which a sample holds many sets, and widened for few pairs and
    rare effects (:meth:`Spread.error`). Masks that would be asked in any sample add nothing to it.
    Where the fit is perfect, three unseen pairs are allowed for that are off by ``known_range``, or
    by |f(all) − f(none)| or the largest value if that is more. Domain: d ≥ 2, at least d + 2 pairs
    unless those are all. A deadline ends the sample earlier, after d + 2 pairs at least.
    """
    # Of 12 words under MiniLM this has 0.8 to 0.5 times the error of as many calls in orders, and
    # drawing sizes evenly (leverage) no less; the more words, the more calls it takes to be better.
    masks = paired_masks(d, pairs, rng)
    ends = game(end_masks(d))
    first = min(fewest_pairs(d), len(masks.keep))
    if is_active():  # its end may leave out the last ones, which must not be those of one size
        masks = in_random_order(masks, first, rng)

    def answers_to(keep: Masks) -> Float[np.ndarray, "n two m"]:
        return np.stack(np.split(game(np.concatenate([keep, ~keep])), 2), axis=1)

    both = list[Float[np.ndarray, "n two m"]]()
    for start in range(0, len(masks.keep), _PAIRS):
        keep = masks.keep[start : start + _PAIRS]
        both.append(answers_in_time(answers_to, keep, masks_per_row=2, least=first - start))
        if len(both[-1]) < len(keep):
            break
    pair_answers = np.concatenate(both)
    masks = first_answered(masks, first, len(pair_answers))
    n, gap = len(masks.keep), ends[1] - ends[0]
    sign = 2.0 * masks.keep - 1.0
    # What the sum of the values is known to be leaves d − 1 directions: those in which z sums to 0.
    share = sign.mean(axis=1, keepdims=True)
    x, y = sign - share, pair_answers[:, 0] - pair_answers[:, 1] - share * gap
    pull = masks.weight[:, None] * x
    inverse = np.linalg.pinv(pull.T @ x, rcond=_SINGULAR, hermitian=True)
    values = (inverse @ (pull.T @ y)).T + gap[:, None] / d
    influence = pull @ inverse
    free = np.maximum(1 - (influence * x).sum(axis=1), ROUNDING)
    # The root: a sample of a share of all sets varies less by what it leaves out.
    influence *= (np.sqrt(masks.unasked) / free)[:, None]
    size = np.max([np.abs(gap), np.abs(values).max(axis=1), np.full_like(gap, known_range)], axis=0)
    residual = y - x @ (values - gap[:, None] / d).T
    moved = [residual[:, i : i + 1] * influence for i in range(len(gap))]
    spread = Spread(*(np.stack(part) for part in zip(*map(Spread.of, moved), strict=True)))
    drawn = int(np.count_nonzero(masks.unasked))
    step, degrees = size[:, None] * np.abs(influence).max(axis=0), min(drawn, n - d + 1) - 1
    stderr, flat = spread.or_unseen(step, max(drawn, 1), degrees=degrees)
    flat &= drawn > 0  # where all sets are asked, nothing is unseen
    return ShapleySample(
        values=values,
        stderr=stderr,
        base=ends[0],
        pairs=n,
        flat=flat,
        size=size,
        spike=np.where(flat, 0.0, spread.spike()),
        tail=heavy_tailed(np.concatenate([ends, *np.swapaxes(pair_answers, 0, 1)])),
        squared=stderr**2,
        drawn=np.full(d, n),
    )
