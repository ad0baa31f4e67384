"""Sentences that follow from the numbers, and what their reader must know."""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from limelight.judging.orders import PRECISE
from limelight.results.judgement import (
    FIRST_SENTENCE,
    JudgedMethod,
    JudgedPair,
    JudgedText,
    Judgement,
    MarkedText,
    PlausibleMethod,
    PlausiblePair,
)

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


def verdict(
    methods: Sequence[JudgedMethod], pairs: Sequence[JudgedPair], *, texts: int, kind: str
) -> str:
    """Return which method is the most faithful, which comes next, and which are chance."""
    ranked = sorted((m for m in methods if m.share is not None), key=lambda m: -(m.share or 0))
    if not ranked:
        return "No method can be judged on these texts."
    count = "this text" if texts == 1 else f"these {texts} texts"
    of = "" if kind == "proven" else " of the best found"
    first = ranked[0]
    worse = [m.method for m in ranked if m.interval and m.interval[1] < 0]
    if len(worse) == len(ranked):
        every = "every method is" if len(ranked) > 1 else f"{first.method} is"
        return f"On {count} {every} worse than chance{_said(first, alone=len(ranked) == 1)}."
    if all(m.interval is not None and m.interval[0] <= 0 for m in ranked):
        than = "distinguishably better than" if worse else "distinguishable from"
        none = f"On {count} no method is {than} chance{_said(first)}"
        return "; ".join(part for part in (none, joined(worse, _WORSE)) if part) + "."
    said = f"On {count} {_leaders(ranked, pairs, of)}"
    level = [m.method for m in ranked if _crosses(m)]
    beside = [joined(worse, _WORSE), joined(level, _NO_BETTER)]
    return "; ".join([said, *(part for part in beside if part)]) + "."


_WORSE = ("is worse than chance", "are worse than chance")
_NO_BETTER = ("is not distinguishable from chance", "are not distinguishable from chance")


def _crosses(m: JudgedMethod) -> bool:
    return m.interval is not None and m.interval[0] <= 0 <= m.interval[1]


def _said(m: JudgedMethod, *, alone: bool = False) -> str:
    low, high = m.interval or (0.0, 0.0)
    whose = "share" if alone else f"{m.method} has the largest share,"
    return f" ({whose} {number(m.share)} [{number(low)}, {number(high)}])"


def _leaders(ranked: Sequence[JudgedMethod], pairs: Sequence[JudgedPair], of: str) -> str:
    first = ranked[0]
    if len(ranked) == 1:
        return f"{first.method} has the share {number(first.share)}{of}"
    best, next_best = ((m.method, m.share or 0.0) for m in ranked[:2])
    return leaders(
        best, next_best, pairs, most="most faithful", measure=f"share{of}", measures=f"shares{of}"
    )


def judging_notices(
    methods: Sequence[JudgedMethod], texts: Sequence[JudgedText]
) -> tuple[str, ...]:
    """Return what a reader of the shares must know."""
    room = [text for text in texts if text.has_room]
    judged = [text for text in texts if text.reason is None]
    notices = [
        _few(len(room)),
        _unjudged(len(texts) - len(judged)),
        _apart(len(judged) - len(room)),
        _tied([m for m in methods if m.tied]),
        *(_partly(m, len(room)) for m in methods),
        *(f"{m.method} is not judged: {m.reason}" for m in methods if m.reason),
        _unsigned([m.method for m in methods if not m.signed and m.share is not None]),
        _searched(room),
        _imprecise(room),
        _own_notices(sum(bool(text.notices) for text in texts)),
    ]
    return tuple(notice for notice in notices if notice)


def _few(count: int) -> str:
    if count >= FEW or not count:
        return ""
    return f"Only {count} text{'s' * (count != 1)}: little can be told; judge {FEW} or more."


def _unjudged(count: int) -> str:
    whose = "its reason stands with it" if count == 1 else "each has its reason"
    return _count(count, f"could not be judged; {whose}")


def _own_notices(count: int) -> str:
    return _count(
        count, "comes with notices of its own" if count == 1 else "come with notices of their own"
    )


def _count(count: int, what: str) -> str:
    return f"{count} text{'s' * (count != 1)} {what}." if count else ""


def _apart(count: int) -> str:
    if not count:
        return ""
    own, they = ("its", "it is") if count == 1 else ("their", "they are")
    return _count(
        count,
        f"cannot tell any order from guessing, since {own} ceiling is {own} chance; {they} in no "
        "share",
    )


def _tied(methods: Sequence[JudgedMethod]) -> str:
    if not methods:
        return ""
    named = [f"{m.method} in {m.tied} of {m.texts} texts" for m in methods]
    return (
        f"Some words have the same score ({', '.join(named)}); an area is then the mean over their "
        "orders."
    )


def _partly(m: JudgedMethod, room: int) -> str:
    if not m.texts or m.texts == room:
        return ""
    return (
        f"{m.method} has scores for {m.texts} of {room} texts only; pairs compare what both have."
    )


def _unsigned(names: list[str]) -> str:
    if not names:
        return ""
    return (
        f"{joined(names, ('has', 'have'))} no signs: words are ranked by size, and the "
        "column of |change| asks only whether large scores move the output, in whichever direction."
    )


def _searched(room: Sequence[JudgedText]) -> str:
    asked = [text for text in room if text.ceiling_kind == "best found"]
    if not asked:
        return ""
    done = sum(text.greedy is not None for text in asked)
    won = [f"{name} ({count})" for name, count in Counter(t.best for t in asked).most_common()]
    return (
        "No ceiling is proven here: shares are of the best order found, the best of all judged "
        f"ones and of greedy search, which came to its end on {done} of {len(asked)} texts. "
        f"The best order is that of {', '.join(won)}."
    )


def _imprecise(room: Sequence[JudgedText]) -> str:
    levels = [text.deletion for text in room if text.deletion is not None]
    errors = [(m.stderr or 0.0) / (m.ceiling - m.chance) for m in levels]
    # What was drawn until it met the rule meets it up to rounding.
    worse = [error for error in errors if error > PRECISE * (1 + 1e-9)]
    if not worse:
        return ""
    return (
        f"Chance is known to no better than {max(worse):.1%} of its distance to the best found on "
        f"{len(worse)} text{'s' * (len(worse) != 1)}, where {PRECISE:.0%} was wanted: the budget, "
        "or the number of random orders that are drawn at most, came to its end first."
    )


def second_notice(first: Judgement, second: Judgement) -> str:
    """Say whether the order of the methods is another one under the second replacement."""
    orders = [[m.method for m in j.ranked() if m.share is not None] for j in (first, second)]
    name = second.settings["replacement"]
    if orders[0] == orders[1]:
        return f"With removed words replaced by {name!r}, the order of the methods is the same."
    turned = [
        f"{one} and {other}" for one, other in _certain(first) if (other, one) in _certain(second)
    ]
    sure = (
        f"of the pairs that can be told apart under both, {joined(turned, ('is', 'are'))} turned "
        "around"
        if turned
        else "no pair that can be told apart under both is turned around"
    )
    return (
        f"With removed words replaced by {name!r}, the order of the methods changes to "
        f"{', '.join(orders[1])}; {sure}."
    )


def _certain(j: Judgement) -> list[tuple[str, str]]:
    return [pair.methods for pair in j.pairs if pair.p_holm < SURE]


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
    level = [m for m in ranked if m.above_interval and _plausible_crosses(m.above_interval)]
    if len(worse) + len(level) == len(ranked):  # then there is no most plausible one
        first = ranked[0]
        leading = (
            f"no method is more plausible than guessing ({first.method} has the largest average "
            f"precision, {first.precision:.3f})"
        )
        level = []
    else:
        leading = _plausible_leaders(ranked, pairs)
    parts = [
        f"On {count} {leading}; {levels}",
        _named(worse, "less plausible than guessing"),
        _named(level, "not distinguishable from guessing"),
    ]
    return f"{FIRST_SENTENCE} {'; '.join(part for part in parts if part)}."


def _falling(m: PlausibleMethod) -> float:
    return -(m.precision or 0.0)


def _plausible_crosses(interval: tuple[float, float]) -> bool:
    return interval[0] <= 0 <= interval[1]


def _plausible_leaders(ranked: Sequence[PlausibleMethod], pairs: Sequence[PlausiblePair]) -> str:
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
