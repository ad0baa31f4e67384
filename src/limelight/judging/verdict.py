"""One sentence that follows from the numbers, and what its reader must know."""

__all__ = ["judging_notices", "second_notice", "verdict"]

from collections import Counter
from collections.abc import Sequence

from limelight.judging.leaders import FEW, SURE, joined, leaders, number
from limelight.judging.random_orders import PRECISE
from limelight.results.judgement import JudgedMethod, JudgedPair, JudgedText, Judgement


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
