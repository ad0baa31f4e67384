"""Shapley values by a regression on random masks and their complements, for few features."""

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np

from limelight.sampling.deadline import evaluate_before_deadline, has_deadline
from limelight.sampling.masks import Masks, PerMask, draw_masks_by_size
from limelight.sampling.orders import ShapleySample, empty_and_full_masks
from limelight.sampling.ranks import group_draws
from limelight.sampling.sample import Game
from limelight.sampling.spread import ROUNDING, PowerSums, count_tail_carriers
from limelight.shapes import Float, Rng
from limelight.threads import limit_blas_threads

_BATCH_PAIRS = 512  # number of pairs that are evaluated at a time
_SINGULAR = 1e-12
_MAX_SET_COUNT = 2**60  # the number of sets of 200 of 400 features exceeds double precision


def minimum_pairs(d: int) -> int:
    """Return the number of pairs of masks that determines d values and their standard errors."""
    return d + 2


class PairedMasks(NamedTuple):
    """Masks that also stand for their complements, with their weights.

    ``missing_share`` is the share of the sets of a size that are not in the sample. It is 0 if all
    sets of that size are evaluated.
    """

    keep: Masks
    weight: PerMask
    missing_share: PerMask


def draw_paired_masks(d: int, pairs: int, rng: Rng) -> PairedMasks:
    """Draw different masks whose sizes follow the Shapley kernel 1/(s (d − s)).

    If a sample would contain every set of a size, all sets of that size are evaluated, smallest
    sizes first, and each set has its own weight. The remaining weight is shared evenly by the other
    masks. The sets of one feature, and of all features but one, come first: they determine the
    values by themselves. Domain: d ≥ 2.
    """
    size = np.arange(1, d // 2 + 1)
    # A set of half of the features and its complement are one pair.
    sets_per_pair = np.where(2 * size == d, 2, 1).tolist()
    set_counts = [
        math.comb(d, s) // divisor for s, divisor in zip(size.tolist(), sets_per_pair, strict=True)
    ]
    count = [min(n, _MAX_SET_COUNT) for n in set_counts]
    probability = 1 / (size * (d - size) * np.array(sets_per_pair))
    # The first sizes are complete: all of their sets are evaluated.
    remaining, complete = min(pairs, sum(count)), 0
    while complete < len(size) and (
        remaining * probability[complete] >= count[complete] * probability[complete:].sum()
        or (complete == 0 and remaining >= minimum_pairs(d))
    ):
        remaining -= count[complete]
        complete += 1
    mask_counts = np.array(count[:complete], dtype=int)
    sampled_probability = probability[complete:].sum()
    expected = remaining * probability[complete:] / sampled_probability
    if remaining:
        # Evenly spaced in the distribution of sizes, from a random start. Each size then occurs as
        # often as expected, rounded up or down at random.
        steps = np.cumsum(expected)[:-1]
        sampled_sizes = np.searchsorted(steps, np.arange(remaining) + rng.random(), side="right")
        sampled_counts = np.bincount(sampled_sizes, minlength=len(size) - complete)
        mask_counts = np.append(mask_counts, sampled_counts)
    keep = [
        _draw_sets(d, s, n, c, rng)
        for s, n, c in zip(size.tolist(), mask_counts.tolist(), count, strict=False)
    ]
    is_present = mask_counts > 0
    sampled_weight = sampled_probability / max(remaining, 1)
    weight_by_size = np.append(
        probability[:complete] / count[:complete], np.full(len(size) - complete, sampled_weight)
    )
    share = np.append(np.ones(complete), expected / count[complete:])
    rows = np.repeat(np.flatnonzero(is_present), mask_counts[is_present])
    missing_share = np.maximum(1 - share[rows], 0.0)
    return PairedMasks(np.concatenate(keep), weight_by_size[rows], missing_share)


def _draw_sets(d: int, size: int, n: int, count: int, rng: Rng) -> Masks:
    """Draw ``n`` different sets of ``size`` features from ``count`` equally likely ones."""
    keep = np.zeros((n, d), bool)
    if 2 * n >= count:  # drawing until all differ would take long
        # In this order the sets of half of the features that contain the first one come first.
        members = np.array([*combinations(range(d), size)][:count])
        drawn_members = members if n == count else members[rng.choice(count, n, replace=False)]
        keep[np.arange(n)[:, None], drawn_members] = True
        return keep
    duplicates = np.arange(n)
    while len(duplicates):
        masks = draw_masks_by_size(d, np.full(len(duplicates), d - size), rng)
        keep[duplicates] = masks ^ (~masks[:, :1] & (2 * size == d))
        first = np.unique(np.packbits(keep, axis=1), axis=0, return_index=True)[1]
        duplicates = np.setdiff1d(np.arange(n), first)
    return keep


def shuffle_masks(masks: PairedMasks, fixed: int, rng: Rng) -> PairedMasks:
    """Return the same masks with those after the first ``fixed`` ones in random order."""
    order = np.arange(len(masks.keep))
    order[fixed:] = rng.permutation(order[fixed:])
    return PairedMasks(*(part[order] for part in masks))


def reweight_evaluated_masks(masks: PairedMasks, fixed: int, count: int) -> PairedMasks:
    """Return the first ``count`` masks with weights that make them represent all masks.

    The first ``fixed`` masks are always evaluated. The masks after them are in random order, so
    each is evaluated with a certain probability, and its weight is divided by that probability.
    """
    if count == len(masks.keep):
        return masks
    probability = np.ones(count)
    probability[fixed:] = (count - fixed) / (len(masks.keep) - fixed)
    weight = masks.weight[:count] / probability
    present_share = (1 - masks.missing_share[:count]) * probability
    return PairedMasks(masks.keep[:count], weight, 1 - present_share)


def shapley_values_from_regression(
    game: Game, d: int, rng: Rng, *, pairs: int, known_range: float = 0.0
) -> ShapleySample:
    r"""Estimate Shapley values by the constrained regression of KernelSHAP on paired masks.

    The values minimize a weighted sum of squares:

    .. math:: \min \sum_i w_i \bigl(f(S_i) - f(\bar S_i) - z_i \cdot φ\bigr)^2, \qquad
        \sum_j φ_j = f(\text{all}) - f(\text{none}),

    where z is +1 at features of S and −1 at the others. Over all masks the minimum is at the
    Shapley values. Joint effects of an even number of features drop out of every difference.

    ``stderr`` is the root of the sandwich Σ (w H z̃ e)² over the sampled masks. H is the inverse of
    the normal equations and e is the residual of a pair if it is left out of the fit (HC3). The
    error is taken about its mean, is smaller for sizes of which a sample contains many sets, and is
    widened for few pairs and rare effects (:meth:`PowerSums.standard_error`). Masks that are in
    every sample add nothing to it. If the fit is perfect, the error allows for three unseen pairs
    that are off by ``known_range``, or by |f(all) − f(none)| or the largest value if that is more.

    A deadline ends the sample earlier, but not before d + 2 pairs. Domain: d ≥ 2, and at least
    d + 2 pairs unless those are all.

    Parameters
    ----------
    game
        Outputs of the model for masks.
    d
        Number of features.
    rng
        Source of the random masks.
    pairs
        Number of pairs of a mask and its complement.
    known_range
        How far the output is known to move.

    Returns
    -------
    The values with their standard errors, and the number of pairs.
    """
    # For 12 words under MiniLM this has 0.8 to 0.5 times the error of orders with as many calls.
    # Drawing sizes evenly (leverage) is no better. The more words there are, the more calls it
    # takes to be better than orders.
    masks = draw_paired_masks(d, pairs, rng)
    end_outputs = game(empty_and_full_masks(d))
    fixed = min(minimum_pairs(d), len(masks.keep))
    if has_deadline():  # it may leave out the last masks, which must not all have one size
        masks = shuffle_masks(masks, fixed, rng)

    def evaluate_pairs(keep: Masks) -> Float[np.ndarray, "n two m"]:
        """Return the outputs for masks and their complements."""
        return np.stack(np.split(game(np.concatenate([keep, ~keep])), 2), axis=1)

    batches = list[Float[np.ndarray, "n two m"]]()
    for start in range(0, len(masks.keep), _BATCH_PAIRS):
        keep = masks.keep[start : start + _BATCH_PAIRS]
        batches.append(
            evaluate_before_deadline(
                evaluate_pairs, keep, masks_per_row=2, minimum_rows=fixed - start
            )
        )
        if len(batches[-1]) < len(keep):
            break
    outputs = np.concatenate(batches)
    masks = reweight_evaluated_masks(masks, fixed, len(outputs))
    n, total_effect = len(masks.keep), end_outputs[1] - end_outputs[0]
    sign = 2.0 * masks.keep - 1.0
    # The known sum of the values leaves d − 1 directions: those in which z sums to 0.
    mean_sign = sign.mean(axis=1, keepdims=True)
    x, y = sign - mean_sign, outputs[:, 0] - outputs[:, 1] - mean_sign * total_effect
    weighted_x = masks.weight[:, None] * x
    with limit_blas_threads():
        inverse = np.linalg.pinv(weighted_x.T @ x, rcond=_SINGULAR, hermitian=True)
        values = (inverse @ (weighted_x.T @ y)).T + total_effect[:, None] / d
        influence = weighted_x @ inverse
    freedom = np.maximum(1 - (influence * x).sum(axis=1), ROUNDING)  # 1 − leverage
    # The root of the missing share: a sample of a share of all sets varies less by this factor.
    influence *= (np.sqrt(masks.missing_share) / freedom)[:, None]
    allowed_effect = np.max(
        [
            np.abs(total_effect),
            np.abs(values).max(axis=1),
            np.full_like(total_effect, known_range),
        ],
        axis=0,
    )
    residual = y - x @ (values - total_effect[:, None] / d).T
    contributions = [residual[:, i : i + 1] * influence for i in range(len(total_effect))]
    sums = zip(*map(PowerSums.from_contributions, contributions), strict=True)
    spread = PowerSums(*(np.stack(part) for part in sums))
    sampled = int(np.count_nonzero(masks.missing_share))
    step = allowed_effect[:, None] * np.abs(influence).max(axis=0)
    stderr, has_no_spread = spread.standard_error_or_unseen(
        step, max(sampled, 1), degrees=min(sampled, n - d + 1) - 1
    )
    has_no_spread &= sampled > 0  # if all sets are evaluated, nothing is unseen
    # The masks are in order of their sizes, so those of a group are chosen at random. The generator
    # of the sample stays as it is, because the same seed must give the same scores.
    shuffled = np.random.default_rng(n).permutation(n)
    grouped = group_draws(contributions[0][shuffled]) * n
    all_outputs = np.concatenate([end_outputs, *np.swapaxes(outputs, 0, 1)])
    return ShapleySample(
        values=values,
        stderr=stderr,
        empty_output=end_outputs[0],
        pairs=n,
        has_no_spread=has_no_spread,
        allowed_effect=allowed_effect,
        largest_share=np.where(has_no_spread, 0.0, spread.largest_share()),
        tail_carriers=count_tail_carriers(all_outputs),
        sampled_variance=stderr**2,
        draw_counts=np.full(d, n),
        draws=values[0] + grouped - grouped.mean(axis=0),
    )
