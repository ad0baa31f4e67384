"""What plausibility says in sentences, the first of which is always the same."""

__all__ = ["plausible_notices", "plausible_verdict"]

from collections.abc import Sequence

from limelight.judging.leaders import FEW, joined, leaders
from limelight.results.judgement import FIRST_SENTENCE, MarkedText, PlausibleMethod, PlausiblePair


def plausible_verdict(
    methods: Sequence[PlausibleMethod],
    references: Sequence[PlausibleMethod],
    pairs: Sequence[PlausiblePair],
    *,
    texts: int,
) -> str:
    """Return which method names what people marked, and which do no better than guessing."""
    ranked = sorted((m for m in methods if m.precision is not None), key=_falling)
    if not ranked:
        return f"{FIRST_SENTENCE} No method can be held against rationales on these texts."
    count = "this text" if texts == 1 else f"these {texts} texts"
    chance, reach = (f"{one.precision:.3f}" for one in references[:2])
    levels = f"guessing has {chance}, the rationale itself as scores of words {reach}"
    worse = [m for m in ranked if m.above_interval and m.above_interval[1] < 0]
    level = [m for m in ranked if m.above_interval and _crosses(m.above_interval)]
    if len(worse) + len(level) == len(ranked):  # then there is no most plausible one
        first = ranked[0]
        leading = (
            f"no method is more plausible than guessing ({first.method} has the largest average "
            f"precision, {first.precision:.3f})"
        )
        level = []
    else:
        leading = _leaders(ranked, pairs)
    parts = [
        f"On {count} {leading}; {levels}",
        _named(worse, "less plausible than guessing"),
        _named(level, "not distinguishable from guessing"),
    ]
    return f"{FIRST_SENTENCE} {'; '.join(part for part in parts if part)}."


def _falling(m: PlausibleMethod) -> float:
    return -(m.precision or 0.0)


def _crosses(interval: tuple[float, float]) -> bool:
    return interval[0] <= 0 <= interval[1]


def _leaders(ranked: Sequence[PlausibleMethod], pairs: Sequence[PlausiblePair]) -> str:
    first = ranked[0]
    if len(ranked) == 1:
        return f"{first.method} has the average precision {first.precision:.3f}"
    best, next_best = ((m.method, m.precision or 0.0) for m in ranked[:2])
    measure = "average precision"
    return leaders(best, next_best, pairs, most="most plausible", measure=measure, measures=measure)


def _named(methods: Sequence[PlausibleMethod], what: str) -> str:
    return joined([m.method for m in methods], (f"is {what}", f"are {what}"))


def plausible_notices(texts: Sequence[MarkedText], *, cut: int) -> tuple[str, ...]:
    """Return what a reader of plausibility must know."""
    known = [text for text in texts if text.reason is None]
    missing = len(texts) - len(known)
    notices = [
        f"Only {len(known)} text{'s' * (len(known) != 1)} with rationales: little can be told."
        if 0 < len(known) < FEW
        else "",
        f"{missing} text{'s' * (missing != 1)} could not be held against a rationale; "
        f"{'its reason stands with it' if missing == 1 else 'each has its reason'}."
        if missing
        else "",
        f"The model does not read {cut} text{'s' * (cut != 1)} to the end: what is marked past "
        "that is not counted."
        if cut
        else "",
    ]
    return tuple(notice for notice in notices if notice)
