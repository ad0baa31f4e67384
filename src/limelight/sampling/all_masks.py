"""Short texts: where a sample would ask as much, ask every mask and have no sampling error."""

import numpy as np

from limelight.sampling.pairs import pair_shares, pair_sums
from limelight.sampling.sample import Game
from limelight.sampling.spread import explained
from limelight.shapes import Bool, Float, Int
from limelight.theory.enumeration import (
    EnumeratedLime,
    all_keeps,
    banzhaf_weights,
    lime_weights,
    ridge_solution,
    shapley_weights,
)

_FEW = 1024  # masks: asked whatever a sample would ask, for sampling ten words saves nothing
_MOST = 20  # words: a million masks as float64 take 170 MB


def affordable(d: int, calls: int) -> bool:
    """Whether all 2^d masks of d words are few, or no more than the ``calls`` of a sample."""
    return d <= _MOST and 2**d <= max(_FEW, calls)


def lime_of_all_masks(game: Game, d: int, *, bandwidth: float = 0.25) -> EnumeratedLime:
    """Minimise Σ over masks of P ψ (f − b − β·x)², sizes uniform on 1..d; no penalty, no row 0."""
    keep = all_keeps(d)
    (origin, f), weight = _relative(game(keep)), lime_weights(d, bandwidth=bandwidth)
    x = np.column_stack([np.ones(len(keep)), keep])
    coefficients = ridge_solution(x, weight, 0.0).T @ f
    left = weight @ (f - x @ coefficients) ** 2
    spread = weight @ (f - weight @ f / weight.sum()) ** 2
    return EnumeratedLime(coefficients[1:].T, origin + coefficients[0], explained(left, spread))


def shapley_of_all_masks(game: Game, d: int) -> Float[np.ndarray, "m d"]:
    """Return the Shapley value of every word for each output."""
    _, f = _relative(game(all_keeps(d)))
    return (shapley_weights(d).T @ f).T


def nested_count(levels: Int[np.ndarray, "L d"]) -> int:
    """Return how many masks Owen values take at most: those of each innermost group."""
    brothers = _brothers(levels)
    of_word = [sum(map(len, brothers[j])) for j in range(levels.shape[1])]
    # By all levels: a sentence that goes on in the next line is a group in each of them.
    innermost = np.unique(levels, axis=1, return_index=True)[1]
    return sum(2 ** (of_word[j] + 1) for j in innermost.tolist())


def owen_of_all_masks(game: Game, levels: Int[np.ndarray, "L d"]) -> Float[np.ndarray, "m d"]:
    """Return the Owen value of every word for each output, over all nested sets.

    ``levels`` are the groups of the words from the outermost on. Before a word stand any groups
    beside its own, at every level whole or not at all, and any words of its innermost group.
    """
    d, values = levels.shape[1], list[Float[np.ndarray, " m"]]()
    for brothers in _brothers(levels):
        before, weight = np.zeros((1, d), bool), np.ones(1)
        for groups in brothers:
            # Of sets without the last player the weight is negative: they are subtracted from.
            own = shapley_weights(len(groups) + 1)[: 2 ** len(groups), -1]
            inside = all_keeps(len(groups)) @ np.array(groups, bool).reshape(len(groups), d)
            before = (before[:, None] | inside).reshape(-1, d)
            weight = (weight[:, None] * -own).ravel()
        after = before.copy()
        after[:, len(values)] = True
        both = np.split(game(np.concatenate([before, after])), 2)
        values.append(weight @ (both[1] - both[0]))
    return np.stack(values, axis=1)


def _brothers(levels: Int[np.ndarray, "L d"]) -> list[list[list[Bool[np.ndarray, " d"]]]]:
    """Return for every word the groups beside its own at each level, as masks, words at last."""
    d, found = levels.shape[1], []
    for j in range(d):
        beside, around = [], np.ones(d, bool)
        for level in (*levels, np.arange(d)):
            # Within the group around it only: what lies outside was a brother at the level before.
            others = np.unique(level[around & (level != level[j])]).tolist()
            beside.append([around & (level == k) for k in others])
            around = around & (level == level[j])
        found.append(beside)
    return found


def banzhaf_of_all_masks(game: Game, d: int) -> Float[np.ndarray, "m d"]:
    """Return the Banzhaf value of every word for each output."""
    _, f = _relative(game(all_keeps(d)))
    return (banzhaf_weights(d).T @ f).T


def pairs_of_all_masks(game: Game, d: int, *, index: str) -> Float[np.ndarray, "m d d"]:
    """Return the interaction of every pair of words for each output. Domain: d ≥ 2."""
    keep = all_keeps(d)
    (_, f), shares = _relative(game(keep)), pair_shares(d, index)
    return np.stack([pair_sums(keep.astype(np.float64), column, shares) for column in f.T])


def _relative(
    answers: Float[np.ndarray, "n m"],
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "n m"]]:
    """Return the first answer, and all relative to it: a model that never moves has no spread."""
    return answers[0], answers - answers[0]
