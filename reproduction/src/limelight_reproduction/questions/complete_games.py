"""Games of short texts with the outputs for all 2^d masks, and exact values from them."""

__all__ = ["VARIATION", "CompleteGame", "play_all_masks"]

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from limelight.sampling.all_masks import (
    lime_from_all_masks,
    pair_interactions_from_all_masks,
    shapley_values_from_all_masks,
)
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float, Int
from limelight.theory.enumeration import enumerate_masks
from limelight_reproduction.questions.removal_order import masks_along_order, words_to_flip

_CHUNK = 2**14  # masks per batch
# The causes of the variance of an output when words are removed at random.
VARIATION = {
    "first": "single words of the first sentence",
    "second": "single words of the second",
    "within": "words of one sentence together",
    "across": "words of both sentences together",
}


def play_all_masks(game: Game, second: Bool[np.ndarray, " d"], *, target: int) -> "CompleteGame":
    """Play a game for all masks; ``second`` marks the words of the second sentence."""
    keep = enumerate_masks(len(second))
    parts = [game(keep[start : start + _CHUNK]) for start in range(0, len(keep), _CHUNK)]
    return CompleteGame(outputs=np.concatenate(parts), second=second, target=target)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class CompleteGame:
    """The outputs of a model for all masks; row m keeps word j if bit j of m is set.

    The output of class ``target`` is explained. Domain: at least two words, at most 20.
    """

    outputs: Float[np.ndarray, "n C"]
    second: Bool[np.ndarray, " d"]
    target: int

    @property
    def d(self) -> int:
        """The number of words."""
        return len(self.second)

    @cached_property
    def f(self) -> Float[np.ndarray, " n"]:
        """The explained output."""
        return self.outputs[:, self.target].astype(np.float64)

    @cached_property
    def _removed_counts(self) -> Int[np.ndarray, " n"]:
        """The number of removed words of every mask."""
        return self.d - enumerate_masks(self.d).sum(axis=1)

    def _play(self, keep: Any) -> Float[np.ndarray, "n m"]:
        """Look up the explained output of masks."""
        return self.f[keep @ (1 << np.arange(self.d))][:, None]

    @cached_property
    def shapley(self) -> Float[np.ndarray, " d"]:
        """Shapley values."""
        return shapley_values_from_all_masks(self._play, self.d)[0]

    @cached_property
    def _lime_fit(self) -> Any:
        """The regression of LIME on all masks."""
        return lime_from_all_masks(self._play, self.d)

    @property
    def lime(self) -> Float[np.ndarray, " d"]:
        """LIME in the limit of all samples, bandwidth 0.25."""
        return self._lime_fit.scores[0]

    @property
    def linear_share(self) -> float:
        """R² of LIME's linear model, under LIME's weights."""
        return float(self._lime_fit.r2[0])

    @cached_property
    def leave_one_out(self) -> Float[np.ndarray, " d"]:
        """The loss of the output without each word."""
        full_row = len(self.f) - 1
        return self.f[full_row] - self.f[full_row - (1 << np.arange(self.d))]

    @cached_property
    def interactions(self) -> Float[np.ndarray, "d d"]:
        """The Shapley interaction index of every two words; 0 on the diagonal."""
        return pair_interactions_from_all_masks(self._play, self.d, index="shapley")[0]

    @cached_property
    def variation(self) -> dict[str, float] | None:
        """Return the shares of the variance of f when each word is removed with probability ½.

        f is a sum of Walsh functions, one for every set of words. Their squared coefficients add
        up to the variance. ``VARIATION`` lists the kinds of sets. None if f is constant.
        """
        squares = _walsh(self.f - self.f.mean()) ** 2
        total = float(squares.sum())
        # The rounding error of a constant output is not variation.
        if total <= 1e-20 * float(np.square(self.f).mean()):
            return None
        sets = enumerate_masks(self.d)
        size, in_second = sets.sum(axis=1), sets[:, self.second].any(axis=1)
        across = in_second & sets[:, ~self.second].any(axis=1)
        sets_by_part = {
            "first": (size == 1) & ~in_second,
            "second": (size == 1) & in_second,
            "within": (size > 1) & ~across,
            "across": across,
            "across_two": across & (size == 2),
            "within_two": ~across & (size == 2),
        }
        return {name: float(squares[rows].sum()) / total for name, rows in sets_by_part.items()}

    def area(self, order: Int[np.ndarray, " d"]) -> float:
        """Return the deletion area of ``order``: f(all) minus its mean while words are removed."""
        return float(self.f[-1] - self.f[self._rows_along(order)[1:]].mean())

    @cached_property
    def chance(self) -> float:
        """The mean area over all orders."""
        means = [self.f[self._removed_counts == k].mean() for k in range(1, self.d + 1)]
        return float(self.f[-1] - np.mean(means))

    @cached_property
    def ceiling(self) -> float:
        """The largest area of all orders, by dynamic programming over sets of words.

        Words are removed one by one. least(S) is the smallest sum of f over the sets that remain:
        least(S) = min over j in S of f(S − j) + least(S − j).
        """
        rows = np.arange(len(self.f))
        least = np.zeros(len(self.f))
        for size in range(self.d - 1, -1, -1):
            sets = rows[self._removed_counts == size]
            best = np.full(len(sets), np.inf)
            for index in range(self.d):
                has_word = (sets >> index) & 1 == 1
                without = sets[has_word] - (1 << index)
                best[has_word] = np.minimum(best[has_word], self.f[without] + least[without])
            least[sets] = best
        return float(self.f[-1] - least[-1] / self.d)

    def flips_after(self, order: Int[np.ndarray, " d"]) -> int | None:
        """Return the number of removals in ``order`` that change the decision, or None."""
        return words_to_flip(self.outputs[self._rows_along(order)])

    @cached_property
    def fewest(self) -> int | None:
        """The smallest number of words whose removal changes the decision, or None."""
        decision = self.outputs.argmax(axis=1)
        changed = self._removed_counts[decision != decision[-1]]
        return int(changed.min()) if len(changed) else None

    @cached_property
    def single_flips(self) -> Bool[np.ndarray, " d"]:
        """A mask of the words whose single removal changes the decision."""
        decision = self.outputs.argmax(axis=1)
        full_row = len(decision) - 1
        return decision[full_row - (1 << np.arange(self.d))] != decision[full_row]

    @property
    def sentences(self) -> Float[np.ndarray, "4 C"]:
        """The outputs with neither sentence, the first, the second, and both."""
        masks = [np.zeros(self.d, bool), ~self.second, self.second, np.ones(self.d, bool)]
        return self.outputs[np.array(masks) @ (1 << np.arange(self.d))]

    def _rows_along(self, order: Int[np.ndarray, " d"]) -> Int[np.ndarray, " steps"]:
        """Return the rows of the masks when words are removed in an order."""
        return masks_along_order(order) @ (1 << np.arange(self.d))


def _walsh(f: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the coefficient of every Walsh function Π_{j in S} ±1, by fast transform."""
    n, coefficients = len(f), f.copy()
    half = 1
    while half < n:
        blocks = coefficients.reshape(-1, 2, half)
        coefficients = np.stack([blocks[:, 0] + blocks[:, 1], blocks[:, 0] - blocks[:, 1]], axis=1)
        half *= 2
    return coefficients.reshape(-1) / n
