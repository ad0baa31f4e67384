"""Values from all masks of a short text, without a sampling error of masks."""

from typing import NamedTuple

import numpy as np

from limelight.sampling.pairs import pair_coefficients, weighted_pair_sums
from limelight.sampling.sample import Game
from limelight.sampling.spread import (
    ROUNDING,
    PowerSums,
    VarianceComponents,
    estimate_variance_components,
    r_squared,
    unseen_effect_error,
)
from limelight.shapes import Bool, Float, Int
from limelight.theory.enumeration import (
    EnumeratedLime,
    banzhaf_matrix,
    enumerate_masks,
    lime_mask_weights,
    ridge_matrix,
    shapley_matrix,
)

_CHEAP_MASKS = 1024  # this many masks are always evaluated: a sample of ten words saves nothing
_MAX_FEATURES = 20  # a million masks as float64 take 170 MB


def can_enumerate_masks(d: int, calls: int) -> bool:
    """Return whether all 2^d masks are few enough to evaluate them instead of a sample.

    They are if there are at most 1,024, or at most as many as the ``calls`` of the sample.
    """
    return d <= _MAX_FEATURES and 2**d <= max(_CHEAP_MASKS, calls)


class RepeatedValues(NamedTuple):
    """Values from several random outputs for each mask.

    Attributes
    ----------
    values
        The values.
    stderr
        Their standard errors, which come from the randomness of the outputs alone.
    components
        The variance between masks and that between outputs for one mask.
    """

    values: Float[np.ndarray, " d"]
    stderr: Float[np.ndarray, " d"]
    components: VarianceComponents


def values_from_repeated_outputs(
    outputs: Float[np.ndarray, "n k"], matrix: Float[np.ndarray, "n d"], *, known_range: float
) -> RepeatedValues:
    r"""Return weighted sums of mean outputs, with the errors that random outputs cause.

    The value :math:`\sum_S A_S \bar f(S)` has the variance :math:`\sum_S A_S^2 \sigma_S^2/k`. The
    estimate of :math:`\sigma_S^2` is the variance of the k outputs for the mask and, as one more
    degree of freedom, the mean variance of all masks. If the outputs agree for each mask that
    counts in a value, its error allows for three outputs that are off by ``known_range``.

    Parameters
    ----------
    outputs
        k ≥ 2 random outputs for each of n masks.
    matrix
        The weight A of each mask in each value.
    known_range
        How far the output is known to move.
    """
    n, k = outputs.shape
    means, components = outputs.mean(axis=1), estimate_variance_components(outputs)
    deviations = (outputs - means[:, None]) * np.sqrt(k / (k - 1)) / k
    contributions = matrix[:, None, :] * deviations[:, :, None]
    spread = PowerSums.from_contributions(contributions.reshape(n * k, -1))
    # A few outputs for a mask often agree by chance, also if its output is random.
    variance = ((k - 1) * outputs.var(axis=1, ddof=1) + components.within) / k
    spread = spread._replace(first=np.zeros(matrix.shape[1]), second=matrix.T**2 @ variance / k)
    step = known_range * np.abs(matrix).max(axis=0) / k
    stderr, _ = spread.standard_error_or_unseen(step, n * k, degrees=n * (k - 1))
    # The values of leave-one-out have two masks each, so the spread of other masks says little.
    unseen = unseen_effect_error(step)
    stderr = np.where(spread.largest <= ROUNDING * unseen, np.maximum(stderr, unseen), stderr)
    return RepeatedValues(matrix.T @ means, stderr, components)


def lime_matrix(d: int, *, bandwidth: float = 0.25) -> Float[np.ndarray, "n coefficients"]:
    """Return the matrix from the outputs for all masks to the intercept and the scores of LIME."""
    keep = enumerate_masks(d)
    x = np.column_stack([np.ones(len(keep)), keep])
    return ridge_matrix(x, lime_mask_weights(d, bandwidth=bandwidth), 0.0)


def lime_from_all_masks(game: Game, d: int, *, bandwidth: float = 0.25) -> EnumeratedLime:
    """Compute LIME without sampling, by a weighted regression on all masks.

    It minimizes Σ over masks of P ψ (f − b − β·x)², where the number of removed features is
    uniform on 1..d. There is no penalty and no row 0.
    """
    keep = enumerate_masks(d)
    (reference, f), weight = _subtract_first(game(keep)), lime_mask_weights(d, bandwidth=bandwidth)
    x = np.column_stack([np.ones(len(keep)), keep])
    coefficients = ridge_matrix(x, weight, 0.0).T @ f
    residual = weight @ (f - x @ coefficients) ** 2
    total = weight @ (f - weight @ f / weight.sum()) ** 2
    return EnumeratedLime(
        coefficients[1:].T, reference + coefficients[0], r_squared(residual, total)
    )


def shapley_values_from_all_masks(game: Game, d: int) -> Float[np.ndarray, "m d"]:
    """Compute the Shapley value of every feature for each output from all masks."""
    _, f = _subtract_first(game(enumerate_masks(d)))
    return (shapley_matrix(d).T @ f).T


def count_owen_masks(levels: Int[np.ndarray, "L d"]) -> int:
    """Return an upper bound of the number of masks that Owen values need.

    These are the masks of each innermost group. ``levels`` are the groups of the features from the
    outermost on.
    """
    siblings = _sibling_groups(levels)
    sibling_counts = [sum(map(len, siblings[j])) for j in range(levels.shape[1])]
    # By all levels: a sentence that continues in the next line is a group in each of the lines.
    innermost = np.unique(levels, axis=1, return_index=True)[1]
    return sum(2 ** (sibling_counts[j] + 1) for j in innermost.tolist())


def owen_values_from_all_masks(
    game: Game, levels: Int[np.ndarray, "L d"]
) -> Float[np.ndarray, "m d"]:
    """Compute the Owen value of every feature for each output from all nested sets.

    ``levels`` are the groups of the features from the outermost on. The sets before a feature
    contain any of its sibling groups, at every level as a whole or not at all, and any features of
    its innermost group.
    """
    d, values = levels.shape[1], list[Float[np.ndarray, " m"]]()
    for siblings in _sibling_groups(levels):
        before, weight = np.zeros((1, d), bool), np.ones(1)
        for groups in siblings:
            # Sets without the last player have negative weights, because they are subtracted.
            level_weight = shapley_matrix(len(groups) + 1)[: 2 ** len(groups), -1]
            inside = enumerate_masks(len(groups)) @ np.array(groups, bool).reshape(len(groups), d)
            before = (before[:, None] | inside).reshape(-1, d)
            weight = (weight[:, None] * -level_weight).ravel()
        after = before.copy()
        after[:, len(values)] = True
        output_before, output_after = np.split(game(np.concatenate([before, after])), 2)
        values.append(weight @ (output_after - output_before))
    return np.stack(values, axis=1)


def _sibling_groups(levels: Int[np.ndarray, "L d"]) -> list[list[list[Bool[np.ndarray, " d"]]]]:
    """Return the sibling groups of every feature at each level as masks, then sibling features."""
    d, sibling_groups = levels.shape[1], []
    for j in range(d):
        siblings_by_level, enclosing_group = [], np.ones(d, bool)
        for level in (*levels, np.arange(d)):
            # Only groups inside the enclosing group: groups outside of it were siblings at the
            # previous level.
            siblings = np.unique(level[enclosing_group & (level != level[j])]).tolist()
            siblings_by_level.append([enclosing_group & (level == k) for k in siblings])
            enclosing_group = enclosing_group & (level == level[j])
        sibling_groups.append(siblings_by_level)
    return sibling_groups


def banzhaf_values_from_all_masks(game: Game, d: int) -> Float[np.ndarray, "m d"]:
    """Compute the Banzhaf value of every feature for each output from all masks."""
    _, f = _subtract_first(game(enumerate_masks(d)))
    return (banzhaf_matrix(d).T @ f).T


def pair_interactions_from_all_masks(
    game: Game, d: int, *, index: str
) -> Float[np.ndarray, "m d d"]:
    """Compute the interaction of every pair of features for each output from all masks.

    ``index`` is "shapley" or "banzhaf". Domain: d ≥ 2.
    """
    keep = enumerate_masks(d)
    (_, f), coefficients = _subtract_first(game(keep)), pair_coefficients(d, index)
    indicators = keep.astype(np.float64)
    return np.stack([weighted_pair_sums(indicators, column, coefficients) for column in f.T])


def _subtract_first(
    outputs: Float[np.ndarray, "n m"],
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "n m"]]:
    """Return the outputs of the first mask, and the outputs of all masks minus these.

    For a model with constant outputs the differences are exactly 0, without rounding errors.
    """
    return outputs[0], outputs - outputs[0]
