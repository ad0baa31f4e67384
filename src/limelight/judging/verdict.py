"""Sentences that follow from the numbers, and what their reader must know."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from limelight.judging.orders import PRECISE
from limelight.results.judgement import (
    FIRST_SENTENCE,
    Interval,
    JudgedMethod,
    JudgedPair,
    JudgedText,
    Judgement,
    MarkedText,
    PlausibleMethod,
)

FEW = 30  # texts, below which little can be told
SURE = 0.05  # what Holm's p-value of a pair must be below for the two to be told apart


class _Ranking(NamedTuple):
    """Names and values, best first, and which of them are worse than chance, or not to be told."""

    names: list[str]
    values: list[float]
    worse: list[str]
    level: list[str]

    @staticmethod
    def of(methods: Iterable[tuple[str, float | None, Interval | None]]) -> "_Ranking":
        """Rank names by their value; the interval is of how far each is above chance."""
        known = [(name, value, apart) for name, value, apart in methods if value is not None]
        known.sort(key=lambda one: -one[1])
        # Without an interval, as on a single text, nothing can be said about chance.
        apart = [(name, interval) for name, _, interval in known if interval is not None]
        return _Ranking(
            names=[name for name, _, _ in known],
            values=[value for _, value, _ in known],
            worse=[name for name, (_, high) in apart if high < 0],
            level=[name for name, (low, high) in apart if low <= 0 <= high],
        )

    def leading(
        self, pairs: Sequence[JudgedPair], *, most: str, measure: tuple[str, str], of: str = ""
    ) -> str:
        """Say which is the ``most`` faithful, plausible …, or that the first two cannot be told.

        ``measure`` is what they are ranked by, and its plural; ``of`` what it is a part of.
        """
        one, x = self.names[0], _number(self.values[0])
        if len(self.names) == 1:
            return f"{one} has the {measure[0]} {x}{of}"
        other, y = self.names[1], _number(self.values[1])
        pair = next((p for p in pairs if set(p.methods) == {one, other}), None)
        if pair is None:
            return f"{one} has the largest {measure[0]}{of} ({x}), {other} comes second ({y})"
        low, high = pair.interval
        apart = f"−{pair.difference:.3f} [{-high:.3f}, {-low:.3f}]".replace("-", "−")
        if pair.p_holm < SURE:
            return f"{one} is the {most} ({measure[0]}{of} {x}), {other} second ({y}, {apart})"
        return (
            f"{one} and {other} are the {most} and cannot be told apart ({measure[1]}{of} {x} and "
            f"{y}, {apart})"
        )


def _said_of(names: Sequence[str], what: str, verbs: tuple[str, str] = ("is", "are")) -> str:
    """Return the names, the verb in the singular or the plural, and what is said of them."""
    if not names:
        return ""
    if len(names) == 1:
        return f"{names[0]} {verbs[0]} {what}"
    return f"{', '.join(names[:-1])} and {names[-1]} {verbs[1]} {what}"


def _sentence(*parts: str) -> str:
    return "; ".join(part for part in parts if part) + "."


def _number(x: float) -> str:
    """Return three decimals with a true minus."""
    return f"{x or 0.0:.3f}".replace("-", "−")


def _on(texts: int) -> str:
    return "On this text" if texts == 1 else f"On these {texts} texts"


def verdict(
    methods: Sequence[JudgedMethod], pairs: Sequence[JudgedPair], *, texts: int, kind: str
) -> str:
    """Return which method is the most faithful, which comes next, and which are chance."""
    found = _Ranking.of((m.method, m.share, m.interval) for m in methods)
    if not found.names:
        return "No method can be judged on these texts."
    worse = _said_of(found.worse, "worse than chance")
    first = next(m for m in methods if m.method == found.names[0])
    low, high = first.interval or (0.0, 0.0)
    largest = f"{_number(found.values[0])} [{_number(low)}, {_number(high)}])"
    if found.worse == found.names:
        if len(found.names) == 1:
            return f"{_on(texts)} {worse} (share {largest}."
        return (
            f"{_on(texts)} every method is worse than chance ({first.method} has the largest "
            f"share, {largest}."
        )
    if len(found.worse) + len(found.level) == len(found.names):
        than = "distinguishably better than" if found.worse else "distinguishable from"
        return _sentence(
            f"{_on(texts)} no method is {than} chance ({first.method} has the largest share, "
            f"{largest}",
            worse,
        )
    of = "" if kind == "proven" else " of the best found"
    leading = found.leading(pairs, most="most faithful", measure=("share", "shares"), of=of)
    level = _said_of(found.level, "not distinguishable from chance")
    return _sentence(f"{_on(texts)} {leading}", worse, level)


def plausible_verdict(
    methods: Sequence[PlausibleMethod],
    references: Sequence[PlausibleMethod],
    pairs: Sequence[JudgedPair],
    *,
    texts: int,
) -> str:
    """Return which method names what people marked, and which do no better than guessing."""
    found = _Ranking.of((m.method, m.precision, m.above_interval) for m in methods)
    if not found.names:
        return f"{FIRST_SENTENCE} No method can be held against rationales on these texts."
    measure, level = "average precision", found.level
    if len(found.worse) + len(level) == len(found.names):  # then there is no most plausible one
        leading = (
            f"no method is more plausible than guessing ({found.names[0]} has the largest "
            f"{measure}, {_number(found.values[0])})"
        )
        level = []
    else:
        leading = found.leading(pairs, most="most plausible", measure=(measure, measure))
    chance, reach = (f"{one.precision:.3f}" for one in references[:2])
    sentence = _sentence(
        f"{_on(texts)} {leading}",
        f"guessing has {chance}, the rationale itself as scores of words {reach}",
        _said_of(found.worse, "less plausible than guessing"),
        _said_of(level, "not distinguishable from guessing"),
    )
    return f"{FIRST_SENTENCE} {sentence}"


def _texts(count: int, one: str, more: str) -> str:
    """Return "1 text" or "7 texts" with what is said of one and of more; of none nothing."""
    return "" if not count else f"1 text{one}" if count == 1 else f"{count} texts{more}"


def _few(count: int, rest: str) -> str:
    return f"Only {_texts(count, rest, rest)}" if 0 < count < FEW else ""


def judging_notices(
    methods: Sequence[JudgedMethod], texts: Sequence[JudgedText]
) -> tuple[str, ...]:
    """Return what a reader of the shares must know."""
    room = [text for text in texts if text.has_room]
    judged = [text for text in texts if text.reason is None]
    tied = [f"{m.method} in {m.tied} of {m.texts} texts" for m in methods if m.tied]
    unsigned = [m.method for m in methods if not m.signed and m.share is not None]
    notices = [
        _few(len(room), f": little can be told; judge {FEW} or more."),
        _texts(
            len(texts) - len(judged),
            " could not be judged; its reason stands with it.",
            " could not be judged; each has its reason.",
        ),
        _texts(
            len(judged) - len(room),
            " cannot tell any order from guessing, since its ceiling is its chance; it is in no "
            "share.",
            " cannot tell any order from guessing, since their ceiling is their chance; they "
            "are in no share.",
        ),
        f"Some words have the same score ({', '.join(tied)}); an area is then the mean over their "
        "orders."
        if tied
        else "",
        *(
            f"{m.method} has scores for {m.texts} of {len(room)} texts only; pairs compare what "
            "both have."
            for m in methods
            if m.texts and m.texts != len(room)
        ),
        *(f"{m.method} is not judged: {m.reason}" for m in methods if m.reason),
        _said_of(
            unsigned,
            "no signs: words are ranked by size, and the column of |change| asks only whether "
            "large scores move the output, in whichever direction.",
            ("has", "have"),
        ),
        _searched(room),
        _imprecise(room),
        _texts(
            sum(bool(text.notices) for text in texts),
            " comes with notices of its own.",
            " come with notices of their own.",
        ),
    ]
    return tuple(filter(None, notices))


def plausible_notices(texts: Sequence[MarkedText], *, cut: int) -> tuple[str, ...]:
    """Return what a reader of plausibility must know; ``cut`` texts are not read to the end."""
    known = sum(text.reason is None for text in texts)
    notices = [
        _few(known, " with rationales: little can be told."),
        _texts(
            len(texts) - known,
            " could not be held against a rationale; its reason stands with it.",
            " could not be held against a rationale; each has its reason.",
        ),
        f"The model does not read {cut} text{'s' * (cut != 1)} to the end: what is marked past "
        "that is not counted."
        if cut
        else "",
    ]
    return tuple(filter(None, notices))


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
    # Methods that cannot be told apart change places by chance.
    turned = [
        f"{one} and {other}" for one, other in _certain(first) if (other, one) in _certain(second)
    ]
    sure = (
        f"of the pairs that can be told apart under both, {_said_of(turned, 'turned around')}"
        if turned
        else "no pair that can be told apart under both is turned around"
    )
    return (
        f"With removed words replaced by {name!r}, the order of the methods changes to "
        f"{', '.join(orders[1])}; {sure}."
    )


def _certain(j: Judgement) -> list[tuple[str, str]]:
    return [pair.methods for pair in j.pairs if pair.p_holm < SURE]
