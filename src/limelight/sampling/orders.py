"""Shapley values from random orders of the features, each with its reverse."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from limelight.progress import expect_calls
from limelight.sampling.deadline import evaluate_before_deadline, has_deadline, has_time
from limelight.sampling.ranks import TopSizes, certify_tops, group_draws
from limelight.sampling.sample import Game, count_masks_per_call
from limelight.sampling.spread import (
    RARE_EFFECT_SHARE,
    ROUNDING,
    PowerSums,
    count_tail_carriers,
    unseen_effect_error,
)
from limelight.sampling.stopping import StoppingRule
from limelight.shapes import Bool, Float, Int, Rng

PerFeature = Float[np.ndarray, "m d"]  # for each output
PerOutput = Float[np.ndarray, " m"]
Orders = Int[np.ndarray, "n d"]  # each row lists the features, first one first
Levels = Int[np.ndarray, "L d"]  # the group of every feature, from the outermost level on

MIN_RELIABLE_PAIRS = 10  # draws of fewer pairs may agree by chance, which says nothing about errors
_AGREEMENT = 1e-4  # of the farthest draw: rounding makes draws that agree differ by less
_STEP_MASKS = 1024  # number of masks that are evaluated at a time if the clock is read between
_MIN_PAIRS_WITH_SPREAD = 2  # one pair has no spread
_MIN_PARTIAL_CALLS = 4  # masks for one feature of a partial pair


class ShapleySample(NamedTuple):
    """Shapley values of every feature for each output, with standard errors.

    ``has_no_spread`` says whether all draws gave the same values. The errors then allow for unseen
    effects as large as ``allowed_effect``. ``largest_share`` is the share of one draw in the spread
    of the feature that moved farthest. ``tail_carriers`` is the result of
    :func:`count_tail_carriers`. ``sampled_variance`` are the squared standard errors before they
    are widened for rare effects. ``draw_counts`` is the number of draws of each feature, and
    ``empty_output`` the output with all features removed. ``draws`` are independent draws of the
    values of the first output, in groups if there are many. ``looks`` counts how often a stopping
    rule was checked.
    """

    values: PerFeature
    stderr: PerFeature
    empty_output: PerOutput
    pairs: int
    has_no_spread: Bool[np.ndarray, " m"]
    allowed_effect: PerOutput
    largest_share: PerOutput
    tail_carriers: PerOutput
    sampled_variance: PerFeature
    draw_counts: Int[np.ndarray, " d"]
    draws: Float[np.ndarray, "G d"]
    looks: int = 1

    def certify_tops(self, level: float, *, first: int | None = None) -> TopSizes:
        """Return every K whose top set of the first output is certain at an error level."""
        return certify_tops(
            self.draws,
            scores=self.values[0],
            level=level,
            first=first,
            allowed_effect=float(self.allowed_effect[0]),
        )


def shapley_values_from_orders(
    game: Game,
    d: int,
    rng: Rng,
    *,
    pairs: int,
    stopping: StoppingRule | None = None,
    certify: Callable[[ShapleySample, float], TopSizes] | None = None,
    known_range: float = 0.0,
    spare_calls: int = 0,
    levels: Levels | None = None,
    sum_matrix: Float[np.ndarray, "d k"] | None = None,
    has_random_outputs: bool = False,
) -> ShapleySample:
    r"""Estimate Shapley values from random pairs of orders of the features.

    A pair is a random order and its reverse. Its mean is one independent draw of

    .. math:: \tfrac12 [f(P \cup j) - f(P) + f(R \cup j) - f(R)],

    where P are the features before j and R those after it. Every draw sums to f(all) − f(none). If
    f is additive, or has pair interactions only, all draws are equal.

    The standard error is that of a mean of draws, widened for few draws and for rare effects
    (:meth:`PowerSums.standard_error`). A rare interaction may not have shown yet. Therefore, if all
    draws of a feature agree, while those of other features do not, its error allows for three draws
    as far off as those of any feature. If one pair makes up most of the spread, the errors of all
    features allow for one such draw. If no draw differs, they allow for three draws that are off by
    ``known_range``, or by |f(all) − f(none)| or the largest value if that is more.

    Parameters
    ----------
    game
        Outputs of the model for masks.
    d
        Number of features.
    rng
        Source of the random orders.
    pairs
        Number of pairs of orders.
    stopping
        Pairs are added, to 10 at least, until this rule is met. None stops at ``pairs``.
    certify
        Returns the sizes of the certain top sets of a sample at an error level, for the rule. None
        means :meth:`ShapleySample.certify_tops`.
    known_range
        How far the output is known to move.
    spare_calls
        Further calls, too few for a pair. They are spent on a part of a pair, so that some features
        have one more draw than the others.
    levels
        The group of every feature, from the outermost level on. Orders then keep each group
        together, and the values are Owen values.
    has_random_outputs
        Whether the game returns new random outputs each time. Then each pair evaluates the masks
        without and with all features anew, so that draws stay independent and their spread contains
        the noise of the outputs. It cannot be combined with ``spare_calls``.
    sum_matrix
        Adds the values of features up to those of ``k`` sums, which are returned instead. It
        cannot be combined with ``spare_calls``.

    Returns
    -------
    The values with their standard errors, and the number of pairs.
    """
    # Regressions on paired masks (KernelSHAP, leverage sampling) were 0.5 to 1.9 times as good with
    # as many calls, 1.2 to 1.5 in the median, and worse on two of eight texts.
    end_outputs = game(empty_and_full_masks(d))
    all_outputs = [end_outputs]

    def evaluate(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n m"]:
        """Return the outputs for masks, and store them."""
        all_outputs.append(game(keep))
        return all_outputs[-1]

    def evaluate_pairs(orders: Orders) -> Float[np.ndarray, "count m k"]:
        """Return one draw for each order and its reverse."""
        inner = evaluate(_prefix_masks(orders)) if d > 1 else end_outputs[:0]
        ends = end_outputs
        if has_random_outputs:
            masks = np.tile(empty_and_full_masks(d), (len(orders), 1))
            ends = np.stack(np.split(evaluate(masks), len(orders)))
        pair_draws = _pair_draws(orders, ends, inner)
        return pair_draws if sum_matrix is None else pair_draws @ sum_matrix

    def draw_pairs(count: int, *, minimum: int = 0) -> Float[np.ndarray, "most_count m k"]:
        """Draw and evaluate pairs of orders, fewer if a deadline passes."""
        orders = draw_orders(d, count, rng, levels)
        masks = 2 * d if has_random_outputs else 2 * max(d - 1, 1)
        return evaluate_before_deadline(
            evaluate_pairs, orders, masks_per_row=masks, minimum_rows=minimum
        )

    # A pair takes 2 (d − 1) masks, since the outputs of its ends are known. One call evaluates as
    # many pairs as fill it. A deadline needs the time of a pair, and then small calls. With levels,
    # the orders of a seed depend on how many are drawn at a time.
    is_in_steps = has_deadline() or levels is not None
    call_masks = _STEP_MASKS if is_in_steps else count_masks_per_call(game)
    call_pairs = max(1, call_masks // max(2 * (d - 1), 1))
    target_count = pairs
    if stopping is not None and certify is None:
        target_count = max(pairs, MIN_RELIABLE_PAIRS)
    draws = [draw_pairs(1 if is_in_steps else min(target_count, call_pairs), minimum=1)]
    # Draws are taken relative to the first one, so that identical draws have exactly no spread.
    origin = draws[0][0]
    total_effect = np.abs(end_outputs[1] - end_outputs[0])
    allowed_effect = np.max([total_effect, np.abs(origin).max(axis=1)], axis=0)
    # Two features have only one pair of orders.
    allowed_effect = np.maximum(allowed_effect, known_range) * (d > 2 or has_random_outputs)
    n, look, is_late = len(draws[0]), 0, False
    while True:
        while n < target_count:
            count = min(target_count - n, call_pairs)
            draws.append(draw_pairs(count, minimum=_MIN_PAIRS_WITH_SPREAD - n))
            n += len(draws[-1])
            if len(draws[-1]) < count:  # the deadline has passed
                target_count, spare_calls, is_late = n, 0, True
        relative_draws = np.concatenate(draws) - origin
        draw_counts = np.full(origin.shape[1], n)
        mean, spread = _mean_and_spread(relative_draws)
        # Spare calls come from a budget, which is never combined with a stopping rule.
        if spare_calls >= _MIN_PARTIAL_CALLS and d > 2 and has_time(spare_calls, margin=1):
            # If features have different numbers of draws, their means do not add up to the total
            # effect, as those of complete pairs do. Given the pairs, the missing sum has mean 0.
            # Features get shares of it in proportion to their spread.
            total = spread.second.sum(axis=1, keepdims=True)
            share = np.where(total > 0, spread.second / np.where(total > 0, total, 1.0), 1 / d)
            features, partial_draw = _draw_partial_pair(evaluate, end_outputs, d, spare_calls, rng)
            row = np.full((1, *origin.shape), np.nan)
            row[0][:, features] = partial_draw - origin[:, features]
            draw_counts[features] = n + 1
            mean, spread = _mean_and_spread(np.append(relative_draws, row, axis=0))
            missing = end_outputs[1] - end_outputs[0] - (origin + mean).sum(axis=1)
            mean = mean + share * missing[:, None]
        stderr, has_no_spread, largest_share = _standard_errors(spread, n, allowed_effect)
        look += 1
        sample = ShapleySample(
            values=origin + mean,
            stderr=stderr,
            empty_output=end_outputs[0],
            pairs=n,
            has_no_spread=has_no_spread,
            allowed_effect=allowed_effect,
            largest_share=largest_share,
            tail_carriers=count_tail_carriers(np.concatenate(all_outputs)),
            sampled_variance=spread.second,
            draw_counts=draw_counts,
            draws=origin[0] + group_draws(relative_draws[:, 0]),
            looks=look,
        )
        if stopping is None or is_late or n >= stopping.max_count:
            return sample
        worst = float(stderr.max())
        certify_at = partial(sample.certify_tops, first=stopping.top)
        if certify is not None:
            certify_at = partial(certify, sample)
        if stopping.is_met(worst, origin.shape[1], certify_at, look=look):
            return sample
        target_count = stopping.next_count(n, worst)
        expect_calls((target_count - n) * 2 * (d - 1))


def shapley_values_from_single_order(game: Game, d: int, rng: Rng) -> PerFeature:
    """Estimate Shapley values without bias from a single random order, with d + 1 calls.

    Returns
    -------
    The contribution of each feature to the features before it, for each output.
    """
    (order,) = draw_orders(d, 1, rng)
    path = game(np.argsort(order) < np.arange(d + 1)[:, None])
    values = np.empty((path.shape[1], d))
    values[:, order] = np.diff(path, axis=0).T
    return values


def evaluate_orders(
    evaluate: Callable[[list[Bool[np.ndarray, "_ _d"]]], list[Float[np.ndarray, "_ m"]]],
    orders: Sequence[Int[np.ndarray, "_ _d"]],
) -> list[tuple[Float[np.ndarray, "two m"], Float[np.ndarray, "_ m _d"]]]:
    """Compute draws of Shapley values for several texts from pairs of orders.

    ``evaluate`` is called once with the masks of all texts, which keeps a device busy. A draw is
    the mean over an order and its reverse, as in :func:`shapley_values_from_orders`.

    Returns
    -------
    For each text, the outputs without and with all features, and one draw for each order.
    """
    masks = [
        np.concatenate([empty_and_full_masks(text_orders.shape[1]), _prefix_masks(text_orders)])
        for text_orders in orders
    ]
    return [
        (outputs[:2], _pair_draws(text_orders, outputs[:2], outputs[2:]))
        for text_orders, outputs in zip(orders, evaluate(masks), strict=True)
    ]


def group_owen_values(
    game: Game,
    groups: Int[np.ndarray, " d"],
    group: int,
    rng: Rng,
    *,
    pairs: int,
    known_range: float = 0.0,
) -> tuple[Float[np.ndarray, "m k"], Float[np.ndarray, "m k"], int]:
    """Estimate the Owen values of the features of one group.

    A pair is a random order of the groups and, inside the group, of its features, with the reverse
    of both. Other groups are kept or removed as a whole. A pair takes 2 (k + 1) masks for k
    features. A deadline ends the draws earlier, but not before two pairs. Domain: pairs ≥ 2.

    Parameters
    ----------
    game
        Outputs of the model for masks.
    groups
        The group of each feature.
    group
        The group whose features are scored.
    rng
        Source of the random orders.
    pairs
        Number of pairs of orders.
    known_range
        How far the output is known to move.

    Returns
    -------
    The values of the features and, last, their total; the standard errors; the number of pairs.
    """
    members = np.flatnonzero(groups == group)
    arrival_times = rng.random((pairs, int(groups.max()) + 1))
    own_time = arrival_times[:, [group]]
    present_groups = [arrival_times < own_time, arrival_times > own_time]
    # Only the order inside the group is needed: features of other groups come and go with their
    # group, which takes no masks.
    order = draw_orders(len(members), pairs, rng)
    position, steps = _positions(order), len(members) + 1
    keep = np.repeat(np.concatenate(present_groups)[:, None, groups], steps, axis=1)
    keep[:, :, members] = position[:, None, :] < np.arange(steps)[None, :, None]

    def evaluate_pairs(masks: Bool[np.ndarray, "n two steps d"]) -> Float[np.ndarray, "n m k"]:
        """Return one draw for each order and its reverse."""
        paths = np.swapaxes(masks, 0, 1).reshape(-1, steps, len(groups))
        # A feature is missing at the steps up to its position.
        positions = np.count_nonzero(~paths[:, :, members], axis=1) - 1
        outputs = game(paths.reshape(-1, len(groups)))
        return _pair_contributions(outputs.reshape(len(paths), steps, -1), positions)

    order_and_reverse = np.stack(np.split(keep, 2), axis=1)
    draws = evaluate_before_deadline(
        evaluate_pairs, order_and_reverse, masks_per_row=2 * steps, minimum_rows=2
    )
    draws = np.append(draws, draws.sum(axis=2, keepdims=True), axis=2)
    mean, spread = _mean_and_spread(draws - draws[0])
    allowed_effect = np.maximum(np.abs(draws).max(axis=(0, 2)), known_range)
    return draws[0] + mean, _standard_errors(spread, len(draws), allowed_effect)[0], len(draws)


def _positions(order: Orders) -> Int[np.ndarray, "two_n d"]:
    """Return the position of each feature in every order, and then in every reverse."""
    return np.argsort(np.concatenate([order, order[:, ::-1]]), axis=1)


def _mean_and_spread(draws: Float[np.ndarray, "n m d"]) -> tuple[PerFeature, PowerSums]:
    """Return the mean of the draws, and the power sums of their contributions about the mean.

    A draw is NaN at features that it does not have.
    """
    n = np.count_nonzero(~np.isnan(draws), axis=0)
    mean = np.nansum(draws, axis=0) / n
    spread = PowerSums.from_contributions(np.nan_to_num((draws - mean) / n))
    # n/(n − 1): deviations from the mean of the same draws are too small by this factor.
    second = spread.second * n / np.maximum(n - 1, 1)
    return mean, spread._replace(first=np.zeros_like(mean), second=second)


def _standard_errors(
    spread: PowerSums, n: int, allowed_effect: PerOutput
) -> tuple[PerFeature, Bool[np.ndarray, " m"], PerOutput]:
    """Return standard errors, the outputs without spread, and the share of one draw in a spread."""
    farthest = spread.largest.max(axis=1, keepdims=True)
    has_no_spread = n * farthest[:, 0] <= ROUNDING * allowed_effect
    no_share = has_no_spread | (n < MIN_RELIABLE_PAIRS)
    largest_share = np.where(no_share, 0.0, spread.largest_share())
    is_rare = (largest_share > RARE_EFFECT_SHARE)[:, None]
    widened = spread._replace(largest=np.where(is_rare, farthest, spread.largest))
    agrees = spread.largest <= _AGREEMENT * farthest
    sampled_errors = widened.standard_error(n, degrees=n - 1)
    errors = np.where(agrees, unseen_effect_error(farthest), sampled_errors)
    unseen = unseen_effect_error(allowed_effect[:, None] / n)
    return np.where(has_no_spread[:, None], unseen, errors), has_no_spread, largest_share


def draw_orders(d: int, n: int, rng: Rng, levels: Levels | None = None) -> Orders:
    """Draw ``n`` random orders of ``d`` features that keep the groups of every level together.

    Parameters
    ----------
    d
        Number of features.
    n
        Number of orders.
    rng
        Source of the random orders.
    levels
        The groups of each feature, from the largest groups to the smallest. None means no groups.

    Returns
    -------
    One order per row.
    """
    # One sort for all rows, since drawing permutations would be a loop. Features are drawn before
    # groups, so that the same seed gives the same orders inside groups for all groupings.
    feature_keys = rng.random((n, d))
    if levels is None:
        return np.argsort(feature_keys, axis=1)
    group_keys = [rng.random((n, int(level.max()) + 1))[:, level] for level in levels]
    return np.lexsort([feature_keys, *group_keys[::-1]], axis=1)  # the last key counts first


def empty_and_full_masks(d: int) -> Bool[np.ndarray, "two d"]:
    """Return the mask that removes every feature and the mask that keeps them all."""
    return np.repeat([[False], [True]], d, axis=1)


def _prefix_masks(order: Orders) -> Bool[np.ndarray, "asked d"]:
    """Return masks of the first 1, 2, … d − 1 features of every order, then of every reverse."""
    d = order.shape[1]
    return (_positions(order)[:, None, :] < np.arange(1, d)[None, :, None]).reshape(-1, d)


def _pair_draws(
    order: Orders, end_outputs: Float[np.ndarray, "*n two m"], inner: Float[np.ndarray, "asked m"]
) -> Float[np.ndarray, "n m d"]:
    """Return one draw for each order and its reverse from the outputs for its prefixes.

    ``end_outputs`` are those without and with all features, for all orders or for each of them.
    """
    (n, d), m = order.shape, end_outputs.shape[-1]
    # The ends are evaluated once for all orders: they are a tenth of the calls at 20 features.
    path = np.empty((2 * n, d + 1, m))
    ends = np.broadcast_to(end_outputs, (n, 2, m))
    path[:, [0, -1]] = np.concatenate([ends, ends])
    path[:, 1:-1] = inner.reshape(2 * n, d - 1, m)
    return _pair_contributions(path, _positions(order))


def _pair_contributions(
    path: Float[np.ndarray, "two_n steps m"], position: Int[np.ndarray, "two_n d"]
) -> Float[np.ndarray, "n m d"]:
    """Return the contribution of each feature, averaged over an order and its reverse.

    ``path`` has the outputs while features are added one by one.
    """
    added = np.take_along_axis(np.diff(path, axis=1), position[:, :, None], axis=1)
    first, second = np.split(added, 2)
    return np.moveaxis((first + second) / 2, 1, 2)


def _draw_partial_pair(
    game: Game, end_outputs: Float[np.ndarray, "two m"], d: int, spare_calls: int, rng: Rng
) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, "m k"]]:
    """Return consecutive features of a random order, and one draw for each of them.

    The draws are means over the order and its reverse. Since the features are consecutive, k of
    them take 2 (k + 1) masks at most. The first one is at a random position, and the end of the
    order is followed by its beginning. Each position is therefore as likely to be chosen, so that
    the draw of a feature has the same distribution as its draws from complete pairs.
    """
    (order,), k = draw_orders(d, 1, rng), min(spare_calls // 2 - 1, d - 1)
    positions = (rng.integers(d) + np.arange(k)) % d
    cuts = np.union1d(positions, positions + 1)
    inner_cuts = cuts[(cuts > 0) & (cuts < d)]
    keep = np.argsort(order)[None, :] < inner_cuts[:, None]
    # Outputs for the features before each cut, and for those after it.
    before, after = np.empty((2, d + 1, end_outputs.shape[1]))
    before[[0, d]], after[[0, d]] = end_outputs, end_outputs[::-1]
    before[inner_cuts], after[inner_cuts] = np.split(game(np.concatenate([keep, ~keep])), 2)
    added = before[positions + 1] - before[positions] + after[positions] - after[positions + 1]
    return order[positions], added.T / 2
