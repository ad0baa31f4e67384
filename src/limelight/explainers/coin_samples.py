"""How many masks a sampled value of words or pairs asks, and what cannot work."""

__all__ = ["CoinSamples"]

from dataclasses import dataclass
from typing import final

from limelight.errors import DomainError, InputError
from limelight.sampling import affordable


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
        return affordable(d, self.drawn_at_first(d))

    def calls(self, d: int) -> int:
        """Return how many masks of ``d`` features the model is asked, at least."""
        return 1 + 2**d if self.asks_all(d) else self.drawn_at_first(d) + 1 + self.rows

    def check_enough(self, d: int) -> None:
        """Refuse before any call what cannot end well: a line through fewer rows than it needs."""
        masks = self.drawn_at_first(d) if self.tolerance is None else self.max_samples
        if not self.asks_all(d) and masks // self.rows <= d + 1:
            raise DomainError(
                f"{self.name} of {d} words need at least {self.rows * (d + 2)} samples; got "
                f"{masks}. Set samples to {2 * self.rows * (d + 1)} or more."
            )

    def notices(self, drawn: int, worst: float) -> tuple[str, ...]:
        """Say that a tolerance was not met."""
        if self.tolerance is None or worst <= self.tolerance:
            return ()
        return (
            f"After {drawn} samples the largest standard error is {worst:.2g}, above the "
            f"tolerance {self.tolerance:.2g}; raise max_samples.",
        )
