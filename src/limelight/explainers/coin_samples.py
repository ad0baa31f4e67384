"""How many masks a sampled value of words or pairs asks, and what cannot work."""

__all__ = ["COINS_COUNTED", "CoinSamples"]

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.explainers.method import Counted
from limelight.sampling import affordable
from limelight.shapes import Float


@final
@dataclass(frozen=True, kw_only=True)
class CoinSamples:
    """A number of masks that follows from the words unless ``samples`` says so.

    ``per_word`` for each word, at ``least`` so many, at most ``max_samples``; ``rows`` masks make
    one row of the linear fit, of which there must be more than there are words. All 2^d masks are
    asked if they are no more than that.
    """

    samples: int | None
    max_samples: int
    tolerance: float | None
    seed: int
    least: int
    per_word: int
    rows: int
    name: str

    def __post_init__(self) -> None:
        fewest = 2 * self.rows
        for name, least in (("samples", fewest), ("max_samples", fewest), ("seed", 0)):
            if (value := getattr(self, name)) is not None and value < least:
                raise InputError(f"{name} must be at least {least}; got {value}.")
        if self.tolerance is not None and not self.tolerance > 0:
            raise InputError(f"tolerance must be positive; got {self.tolerance}.")
        if self.samples is not None and self.max_samples < self.samples:
            raise InputError(
                f"max_samples must be at least samples ({self.samples}); got {self.max_samples}."
            )

    def drawn_at_first(self, d: int) -> int:
        """Return how many masks are drawn for ``d`` features before a tolerance is looked at."""
        if self.samples is not None:
            return self.samples
        return min(max(self.least, self.per_word * d), self.max_samples)

    def asks_all(self, d: int) -> bool:
        """Whether all masks are asked."""
        return affordable(d, self.drawn_at_first(d)) and 2**d <= self.max_samples

    def calls(self, d: int) -> int:
        """Return how many masks of ``d`` features the model is asked, at least."""
        return 1 + 2**d if self.asks_all(d) else self.drawn_at_first(d) + 1 + self.rows

    def fewest_calls(self, d: int) -> int:
        """Return the calls below which the scores of ``d`` features are not surely determined."""
        return min(1 + 2**d, self._advised(d) + 1 + self.rows)

    def samples_in(self, calls: int, d: int) -> int:
        """Return how many samples ``calls`` allow; all masks are asked if they are no more."""
        return max(calls - 1 - self.rows, 2 * self.rows, 2**d if 1 + 2**d <= calls else 0)

    def check_enough(self, d: int) -> None:
        """Refuse before any call what cannot end well: a line through fewer rows than it needs."""
        masks = self.drawn_at_first(d) if self.tolerance is None else self.max_samples
        if not self.asks_all(d) and masks // self.rows <= d + 1:
            raise DomainError(
                f"{self.name} of {d} words need at least {self.rows * (d + 2)} samples; got "
                f"{masks}. Set samples to {self._advised(d)} or more."
            )

    def check_determined(self, d: int, drawn: int, stderr: Float[np.ndarray, "..."]) -> None:
        """Refuse a fit that some mask alone decides: how far off it is, nothing says."""
        if not np.isfinite(stderr).all():
            raise DomainError(
                f"{drawn} samples do not determine the {self.name} of {d} words. Set samples to "
                f"{max(self._advised(d), drawn + self._advised(d) // 2)} or more."
            )

    def _advised(self, d: int) -> int:
        return 2 * self.rows * (d + 1)

    def notices(self, drawn: int, worst: float) -> tuple[str, ...]:
        """Say that a tolerance was not met."""
        if self.tolerance is None or worst <= self.tolerance:
            return ()
        return (
            f"After {drawn} samples the largest standard error is {worst:.2g}, above the "
            f"tolerance {self.tolerance:.2g}; raise max_samples.",
        )


def _fitted(settings: Any, d: int, calls: int) -> Any:
    samples = settings.plan.samples_in(calls, d)
    return replace(settings, samples=samples, max_samples=samples)


# How settings that have such a plan keep within a budget.
COINS_COUNTED = Counted(
    lambda settings, d: settings.plan.fewest_calls(d),
    ("samples", "max_samples", "tolerance"),
    _fitted,
)
