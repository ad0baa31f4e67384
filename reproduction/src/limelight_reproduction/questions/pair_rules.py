"""Rules that turn numbers about sentence pairs into verdicts, fixed before the measurements."""

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
    "choose_zone",
    "count_in_zone",
    "judge_differences",
]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

Interval = Sequence[float]  # a mean over pairs and the two ends of its 95 % interval


@final
@dataclass(frozen=True, kw_only=True)
class Zones:
    """Borders between verdicts, lowest first. A number at a border belongs to the zone above."""

    borders: tuple[float, ...]
    words: tuple[str, ...]

    def classify(self, value: float) -> str:
        """Return the verdict on a number that is known exactly."""
        return self.words[sum(value >= border for border in self.borders)]


# A mean rank correlation of two explanations.
AGREES = Zones(borders=(0.5,), words=("differ", "agree"))
# The position of an order of words between a random order (0) and the best order (1).
FAITHFUL = Zones(borders=(0.25, 0.5), words=("no", "in part", "holds"))
# The difference of that position between two orders, on the same pairs.
BETTER = Zones(borders=(0.0,), words=("does not hold", "holds"))
# A mean rank correlation of the attention between two words with their interaction.
TELLS = Zones(borders=(0.25, 0.5), words=("no", "in part", "holds"))
# The share of the variance of the output that is due to words of both sentences together.
BETWEEN = Zones(borders=(0.1, 0.25), words=("hardly", "in part", "holds"))
# Accuracy from one sentence, minus that of always predicting the most frequent class.
GIVEN_AWAY = Zones(borders=(0.05, 0.15), words=("hardly", "in part", "it does"))
# How often the decisive word is the first word of an explanation.
FOUND = Zones(borders=(0.5,), words=("misses it", "finds it"))


def choose_zone(interval: Interval, zones: Zones) -> str:
    """Return the verdict on an interval, or the two verdicts that it lies between."""
    _, low, high = interval
    first, last = zones.classify(low), zones.classify(high)
    return first if first == last else f"not settled: between “{first}” and “{last}”"


def count_in_zone(intervals: Mapping[str, Interval], zones: Zones, word: str) -> int:
    """Count the intervals that lie in the zone with the name ``word``."""
    return sum(choose_zone(interval, zones) == word for interval in intervals.values())


def judge_differences(intervals: Mapping[str, Interval]) -> str:
    """Judge whether explanations differ, from the rank correlations of every two of them."""
    different, agreeing = (count_in_zone(intervals, AGREES, word) for word in ("differ", "agree"))
    if different == len(intervals):
        return "holds"
    if agreeing == len(intervals):
        return "does not hold"
    return f"in part: {different} of {len(intervals)} comparisons differ"
