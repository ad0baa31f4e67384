"""A short text asked in all 2^d ways of removing its words: what then is exact and not sampled."""

__all__ = ["VARIATION", "WholeGame", "asked_whole"]

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
from limelight_reproduction.questions.removal_order import kept_along, words_to_flip

_ASKED = 2**14  # masks at a time
# Whose doing it is that an answer moves when words are removed at random.
VARIATION = {
    "first": "single words of the first sentence",
    "second": "single words of the second",
    "within": "words of one sentence together",
    "across": "words of both sentences together",
}


def asked_whole(game: Game, second: Bool[np.ndarray, " d"], *, target: int) -> "WholeGame":
    """Return the answers to all masks; ``second`` tells which words are the second sentence's."""
    keep = enumerate_masks(len(second))
    parts = [game(keep[start : start + _ASKED]) for start in range(0, len(keep), _ASKED)]
    return WholeGame(outputs=np.concatenate(parts), second=second, target=target)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class WholeGame:
    """The outputs of a model for every set of words; row m keeps word j where bit j of m is set.

    Explained is the output of class ``target``. Domain: at least two words, at most 20.
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
    def _removed(self) -> Int[np.ndarray, " n"]:
        return self.d - enumerate_masks(self.d).sum(axis=1)

    def _played(self, keep: Any) -> Float[np.ndarray, "n m"]:
        return self.f[keep @ (1 << np.arange(self.d))][:, None]

    @cached_property
    def shapley(self) -> Float[np.ndarray, " d"]:
        """Shapley values."""
        return shapley_values_from_all_masks(self._played, self.d)[0]

    @cached_property
    def _fitted(self) -> Any:
        return lime_from_all_masks(self._played, self.d)

    @property
    def lime(self) -> Float[np.ndarray, " d"]:
        """LIME in the limit of all samples, bandwidth 0.25."""
        return self._fitted.scores[0]

    @property
    def linear_share(self) -> float:
        """R² of LIME's linear model, under LIME's weights."""
        return float(self._fitted.r2[0])

    @cached_property
    def leave_one_out(self) -> Float[np.ndarray, " d"]:
        """What the output loses without each word."""
        whole = len(self.f) - 1
        return self.f[whole] - self.f[whole - (1 << np.arange(self.d))]

    @cached_property
    def interactions(self) -> Float[np.ndarray, "d d"]:
        """The Shapley interaction index of every two words; 0 on the diagonal."""
        return pair_interactions_from_all_masks(self._played, self.d, index="shapley")[0]

    @cached_property
    def variation(self) -> dict[str, float] | None:
        """Return the shares of the variance of f when every word goes with probability ½.

        f is written in Walsh functions, one for every set of words; their squared coefficients add
        up to the variance. ``VARIATION`` says how sets are counted; None where f is constant.
        """
        squares = _walsh(self.f - self.f.mean()) ** 2
        total = float(squares.sum())
        # What rounding leaves of a constant output is not variation.
        if total <= 1e-20 * float(np.square(self.f).mean()):
            return None
        sets = enumerate_masks(self.d)
        size, in_second = sets.sum(axis=1), sets[:, self.second].any(axis=1)
        across = in_second & sets[:, ~self.second].any(axis=1)
        chosen = {
            "first": (size == 1) & ~in_second,
            "second": (size == 1) & in_second,
            "within": (size > 1) & ~across,
            "across": across,
            "across_two": across & (size == 2),
            "within_two": ~across & (size == 2),
        }
        return {name: float(squares[rows].sum()) / total for name, rows in chosen.items()}

    def area(self, order: Int[np.ndarray, " d"]) -> float:
        """Return the deletion area of ``order``: f(all) less its mean while the words go."""
        return float(self.f[-1] - self.f[self._along(order)[1:]].mean())

    @cached_property
    def chance(self) -> float:
        """The mean area over all orders."""
        means = [self.f[self._removed == k].mean() for k in range(1, self.d + 1)]
        return float(self.f[-1] - np.mean(means))

    @cached_property
    def ceiling(self) -> float:
        """The largest area of all orders, by dynamic programming over sets of words.

        Of the sets that remain when words go one by one, least(S) is the smallest sum of f:
        least(S) = min over j in S of f(S − j) + least(S − j).
        """
        places = np.arange(len(self.f))
        least = np.zeros(len(self.f))
        for k in range(self.d - 1, -1, -1):
            sets = places[self._removed == k]
            best = np.full(len(sets), np.inf)
            for j in range(self.d):
                has = (sets >> j) & 1 == 1
                without = sets[has] - (1 << j)
                best[has] = np.minimum(best[has], self.f[without] + least[without])
            least[sets] = best
        return float(self.f[-1] - least[-1] / self.d)

    def flips_after(self, order: Int[np.ndarray, " d"]) -> int | None:
        """Return how many words of ``order`` change the decision by going; None: all do not."""
        return words_to_flip(self.outputs[self._along(order)])

    @cached_property
    def fewest(self) -> int | None:
        """The smallest number of words without which the decision is another one."""
        decision = self.outputs.argmax(axis=1)
        changed = self._removed[decision != decision[-1]]
        return int(changed.min()) if len(changed) else None

    @cached_property
    def single_flips(self) -> Bool[np.ndarray, " d"]:
        """Which words change the decision when they alone go."""
        decision = self.outputs.argmax(axis=1)
        whole = len(decision) - 1
        return decision[whole - (1 << np.arange(self.d))] != decision[whole]

    @property
    def sentences(self) -> Float[np.ndarray, "4 C"]:
        """The outputs with neither sentence, the first alone, the second alone, and both."""
        kept = [np.zeros(self.d, bool), ~self.second, self.second, np.ones(self.d, bool)]
        return self.outputs[np.array(kept) @ (1 << np.arange(self.d))]

    def _along(self, order: Int[np.ndarray, " d"]) -> Int[np.ndarray, " steps"]:
        return kept_along(order) @ (1 << np.arange(self.d))


def _walsh(f: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the coefficient of every Walsh function Π_{j in S} ±1, by fast transform."""
    n, found = len(f), f.copy()
    half = 1
    while half < n:
        blocks = found.reshape(-1, 2, half)
        found = np.stack([blocks[:, 0] + blocks[:, 1], blocks[:, 0] - blocks[:, 1]], axis=1)
        half *= 2
    return found.reshape(-1) / n
