"""When a growing sample is large enough."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from limelight.sampling.ranks import ERROR_LEVEL, TopSizes, look_level


@dataclass(frozen=True, kw_only=True)
class StoppingRule:
    """Conditions under which a sample stops growing.

    Parameters
    ----------
    max_count
        Most draws of the sample.
    tolerance
        Largest standard error of a score; None allows any.
    top
        Number of features whose set must be certain; None needs no certainty.
    """

    max_count: int
    tolerance: float | None = None
    top: int | None = None

    def level(self, look: int) -> float:
        """Return the error level of the certificates at a look, counted from 1."""
        return ERROR_LEVEL if self.top is None else look_level(look)

    def is_met(
        self, largest_error: float, d: int, certify: Callable[[float], TopSizes], *, look: int
    ) -> bool:
        """Return whether a sample of ``d`` features needs no more draws.

        Parameters
        ----------
        largest_error
            The largest standard error.
        d
            Number of features.
        certify
            Returns the sizes of the top sets that are certain at an error level.
        look
            How often the sample has been looked at, this time included.
        """
        if self.tolerance is not None and largest_error > self.tolerance:
            return False
        # The set of all features needs no test.
        return self.top is None or self.top >= d or self.top in certify(self.level(look))

    def next_count(self, n: int, largest_error: float) -> int:
        """Return how many draws a sample of ``n`` draws should have at the next look."""
        if self.top is not None:
            # Fixed in advance: a certificate is only valid if the draws do not choose the looks.
            return min(2 * n, self.max_count)
        # Errors fall like 1/√n. With 5 % more, one more round is mostly enough. At most four times
        # as many are drawn, so that a lucky or unlucky start misleads little.
        excess = largest_error / (self.tolerance or largest_error)
        return min(math.ceil(n * min(1.05 * excess**2, 4.0)), self.max_count)
