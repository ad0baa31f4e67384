"""How far methods agree with each other over a data set, beside how far each agrees with itself."""

__all__ = ["AgreeingPair", "MethodAgreement"]

from dataclasses import dataclass
from typing import final

Interval = tuple[float, float]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AgreeingPair:
    """Two methods, or one with two seeds: means over texts with 95 % intervals.

    ``rank`` is Spearman's correlation of the orders of the words, by size where one of the two has
    no signs; ``sign`` the part of the words with the same sign; ``top`` the part of the strongest
    words that both name. None where no text has one.
    """

    methods: tuple[str, str]
    texts: int = 0
    rank: float | None = None
    rank_interval: Interval | None = None
    sign: float | None = None
    sign_interval: Interval | None = None
    top: float | None = None
    top_interval: Interval | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MethodAgreement:
    """Every pair of methods, and in ``again`` each sampled method against another seed of itself.

    ``strongest`` is how many words ``top`` is about, ``chance`` what guesses share of them.
    """

    pairs: tuple[AgreeingPair, ...] = ()
    again: tuple[AgreeingPair, ...] = ()
    strongest: int = 0
    chance: float | None = None

    def pair(self, first: str, second: str) -> AgreeingPair:
        """Return what is known of two methods, or of one and another seed of it."""
        for one in self.again if first == second else self.pairs:
            if set(one.methods) == {first, second}:
                return one
        raise KeyError((first, second))
