"""Who comes first and second, and which methods share a property: the words of every verdict."""

__all__ = ["FEW", "SURE", "joined", "leaders", "number"]

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

FEW = 30  # texts, below which little can be told
SURE = 0.05  # what Holm's p-value of a pair must be below for the two to be told apart


@runtime_checkable
class Compared(Protocol):
    """Two methods, the better one first, with the difference that was found between them."""

    @property
    def methods(self) -> tuple[str, str]:
        """Their names."""

    @property
    def difference(self) -> float:
        """How much better the first is."""

    @property
    def interval(self) -> tuple[float, float]:
        """Its interval over texts."""

    @property
    def p_holm(self) -> float:
        """Its p-value, corrected for the number of pairs."""


def leaders(
    first: tuple[str, float],
    second: tuple[str, float],
    pairs: Sequence[Compared],
    *,
    most: str,
    measure: str,
    measures: str,
) -> str:
    """Say which of the two is the ``most`` faithful, plausible …, or that none can be told so.

    Each is a name with its value of the ``measure``; ``measures`` is its plural.
    """
    (one, x), (other, y) = ((name, number(value)) for name, value in (first, second))
    pair = next((p for p in pairs if set(p.methods) == {one, other}), None)
    if pair is None:
        return f"{one} has the largest {measure} ({x}), {other} comes second ({y})"
    low, high = pair.interval
    apart = f"−{pair.difference:.3f} [{-high:.3f}, {-low:.3f}]".replace("-", "−")
    if pair.p_holm < SURE:
        return f"{one} is the {most} ({measure} {x}), {other} second ({y}, {apart})"
    return (
        f"{one} and {other} are the {most} and cannot be told apart ({measures} {x} and {y}, "
        f"{apart})"
    )


def joined(names: Sequence[str], verbs: tuple[str, str]) -> str:
    """Return the names with the verb in the singular or the plural; nothing where there is none."""
    if not names:
        return ""
    if len(names) == 1:
        return f"{names[0]} {verbs[0]}"
    return f"{', '.join(names[:-1])} and {names[-1]} {verbs[1]}"


def number(x: float | None) -> str:
    """Return three decimals with a true minus."""
    return f"{x or 0.0:.3f}".replace("-", "−")
