"""How far a sum of independent draws may be off, said so that few draws and rare effects count."""

from typing import Any, NamedTuple

import numpy as np

from limelight.shapes import Bool, Float

# Of a spread: when one draw makes up more, the effect that it saw is a rare one, and every word's
# error allows for a draw as far off; from SPIKE on that is said.
ALLOWED, SPIKE = 0.5, 0.7
ROUNDING = 1e-9  # of what an unseen draw could do: what is below this is as good as nothing
# Answers, or a tenth of them: when fewer carry the variance of all, a sum over draws is far from
# normal. Smooth, peaked and thresholded games have 90 of 1,000 or more, exp of a sum of standard
# deviation 1.5 or more has fewer than 50 (`benchmarks/coverage_study.py`).
_CARRYING = 50
_UNSEEN = 3.0  # draws
# Quantiles of Student's t by degrees of freedom: 97.5 % of draws lie below. In 1/ν they are nearly
# straight between these.
_QUANTILES = {
    1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 6: 2.4469, 8: 2.3060, 10: 2.2281,
    15: 2.1314, 30: 2.0423, np.inf: 1.9600,
}  # fmt: skip


class Spread(NamedTuple):
    """Sums over draws of each draw's share u in an estimate: Σu, Σu², Σu⁴, and the largest |u|."""

    first: Float[np.ndarray, "*k"]
    second: Float[np.ndarray, "*k"]
    fourth: Float[np.ndarray, "*k"]
    largest: Float[np.ndarray, "*k"]

    @staticmethod
    def zero(*shape: int) -> "Spread":
        """Return the sums over no draws."""
        return Spread(*np.zeros((4, *shape)))

    @staticmethod
    def of(shares: Float[np.ndarray, "n *k"]) -> "Spread":
        """Return the sums over draws, a row each."""
        first, second, fourth = ((shares**power).sum(axis=0) for power in (1, 2, 4))
        return Spread(first, second, fourth, np.abs(shares).max(axis=0))

    def plus(self, other: "Spread") -> "Spread":
        """Return the sums over the draws of both."""
        return Spread(
            self.first + other.first,
            self.second + other.second,
            self.fourth + other.fourth,
            np.maximum(self.largest, other.largest),
        )

    def squares(self, draws: int) -> Float[np.ndarray, "*k"]:
        """Return Σu² about the mean of the draws."""
        return np.maximum(self.second - self.first**2 / max(draws, 1), 0.0)

    def carriers(self) -> Float[np.ndarray, "*k"]:
        """Return (Σu²)²/Σu⁴, the number of draws that carry the spread; 0 where there is none."""
        seen = self.fourth > 0
        return np.where(seen, self.second**2 / np.where(seen, self.fourth, 1.0), 0.0)

    def spike(self) -> Float[np.ndarray, "*outputs"]:
        """Return the share of one draw in the spread of what moved farthest, along the last axis.

        It is 0 where nothing moved.
        """
        far = np.argmax(self.largest, axis=-1)[..., None]
        squares = (self.largest**2, self.second)
        most, total = (np.take_along_axis(x, far, axis=-1)[..., 0] for x in squares)
        return np.asarray(most / np.where(total > 0, total, 1.0))

    def error(self, draws: int, *, degrees: int) -> Float[np.ndarray, "*k"]:
        r"""Return half of what ±95 % takes: twice it covers the truth in 95 % of samples.

        .. math:: \tfrac12 t_ν \sqrt{\textstyle\sum u^2 + \max u^2}, \qquad ν = 2 (κ + 1),

        κ being :meth:`carriers`, ν at most ``degrees``, ½ t at least 1. With many draws of a tame
        law it is the plain standard error √Σu².
        """
        # Where k draws of n saw an effect, and the others did not, the sum is Poisson's. One more
        # draw of the same size and 2 (k + 1) degrees of freedom give its upper limit of 95 % to 4 %
        # from k = 1 on; √Σu² alone misses the truth too often, because a sample that saw too little
        # of an effect also saw too little of its spread.
        degrees_here = np.minimum(2 * (self.carriers() + 1), max(degrees, 1))
        return half_quantile(degrees_here) * np.sqrt(self.squares(draws) + self.largest**2)

    def or_unseen(
        self, step: Float[np.ndarray, "*k"], draws: int, *, degrees: int
    ) -> tuple[Float[np.ndarray, "*k"], Bool[np.ndarray, "*outputs"]]:
        """Return the errors, and which outputs no draw moved: there those of draws not yet seen.

        Such a draw moves a number by ``step`` (:func:`unseen_error`).
        """
        unseen = unseen_error(step)
        flat = np.asarray(np.all(self.largest <= ROUNDING * unseen, axis=-1))
        return np.where(flat[..., None], unseen, self.error(draws, degrees=degrees)), flat


def heavy_tailed(answers: Float[np.ndarray, "n m"]) -> Float[np.ndarray, " m"]:
    """Return how many answers carry the variance of all where they are too few, else 0."""
    y = answers - answers.mean(axis=0)
    largest = np.abs(y).max(axis=0)
    y = y / np.where(largest > 0, largest, 1.0)  # fourth powers of 1e80 would overflow
    carriers = Spread.of(y).carriers()
    return np.where(carriers < min(_CARRYING, len(y) / 10), carriers, 0.0)


def half_quantile(degrees: Float[np.ndarray, "*k"]) -> Float[np.ndarray, "*k"]:
    """Return max(1, t/2), t the quantile 0.975 of Student's law. Domain: ν ≥ 1."""
    inverse, quantiles = (1 / np.array([*_QUANTILES]))[::-1], [*_QUANTILES.values()][::-1]
    return np.maximum(np.interp(1 / degrees, inverse, quantiles) / 2, 1.0)


def unseen_error(step: Float[np.ndarray, "*k"]) -> Float[np.ndarray, "*k"]:
    """Return a standard error where no draw differs: the rule of three.

    Twice it covers what three draws would do to the estimate, each of which moves it by ``step``:
    of an effect in 3/n of all masks, n draws see nothing in 5 % of samples.
    """
    return _UNSEEN / 2 * step


def explained(left: Float[Any, "*k"], total: Float[Any, "*k"]) -> Float[np.ndarray, "*k"]:
    """Return R² = 1 − left/total of sums of squares, which is 1 where nothing was to explain."""
    return np.where(total > 0, 1 - left / np.where(total > 0, total, 1.0), 1.0)
