"""How numbers about sentence pairs become verdicts: written down before any pair was measured."""

__all__ = [
    "AGREES",
    "BETTER",
    "BETWEEN",
    "FAITHFUL",
    "FOUND",
    "GIVEN_AWAY",
    "TELLS",
    "Interval",
    "Zones",
    "counted",
    "differing",
    "zoned",
]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

Interval = Sequence[float]  # a mean over pairs and the two ends of its 95 % interval


@final
@dataclass(frozen=True, kw_only=True)
class Zones:
    """Borders between verdicts, lowest first: a number at a border belongs above it."""

    borders: tuple[float, ...]
    words: tuple[str, ...]

    def of(self, value: float) -> str:
        """Return the verdict on a number that is known exactly."""
        return self.words[sum(value >= border for border in self.borders)]


# A mean rank correlation of two explanations.
AGREES = Zones(borders=(0.5,), words=("differ", "agree"))
# The share that an order of words has of the way from guessing to the best order there is.
FAITHFUL = Zones(borders=(0.25, 0.5), words=("no", "in part", "holds"))
# That share of one order less that of another, on the same pairs.
BETTER = Zones(borders=(0.0,), words=("does not hold", "holds"))
# A mean rank correlation of the attention between words and of how far they interact.
TELLS = Zones(borders=(0.25, 0.5), words=("no", "in part", "holds"))
# The share of what the model's answer varies by that words of both sentences do together.
BETWEEN = Zones(borders=(0.1, 0.25), words=("hardly", "in part", "holds"))
# Accuracy from one sentence alone, less that of always saying the most frequent class.
GIVEN_AWAY = Zones(borders=(0.05, 0.15), words=("hardly", "in part", "it does"))
# How often a word that decides is the first of an explanation.
FOUND = Zones(borders=(0.5,), words=("misses it", "finds it"))


def zoned(interval: Interval, zones: Zones) -> str:
    """Return the verdict on an interval that lies in one zone; else say between which it is."""
    _, low, high = interval
    first, last = zones.of(low), zones.of(high)
    return first if first == last else f"not settled: between “{first}” and “{last}”"


def counted(intervals: Mapping[str, Interval], zones: Zones, word: str) -> int:
    """Return how many intervals lie in the zone that ``word`` names."""
    return sum(zoned(one, zones) == word for one in intervals.values())


def differing(intervals: Mapping[str, Interval]) -> str:
    """Return whether explanations see different things, from correlations of every two of them."""
    apart, together = (counted(intervals, AGREES, word) for word in ("differ", "agree"))
    if apart == len(intervals):
        return "holds"
    if together == len(intervals):
        return "does not hold"
    return f"in part: {apart} of {len(intervals)} comparisons differ"
