"""Plausibility and agreement of methods as sections of a judgement's page."""

__all__ = ["agreement_section", "plausibility_section"]

from collections.abc import Sequence

from limelight.render.html_tables import plain_table
from limelight.render.markup import Html, element, raw
from limelight.results.judgement import (
    AgreeingPair,
    Interval,
    MethodAgreement,
    Plausibility,
    PlausibleMethod,
)

_MEASURES = {
    "rank": "Rank correlation of the words (Spearman's; by size where a method has no signs)",
    "sign": "Words with the same sign",
    "top": "Strongest words that both name",
}


def plausibility_section(found: Plausibility) -> Html:
    """Return the sentence, one row per method and reference, and the paired differences."""
    notices = [element("li", notice) for notice in found.notices]
    return element(
        "section",
        element("h2", "Plausibility: would people mark the same words?"),
        element("p", found.verdict),
        element("ul", *notices) if notices else raw(),
        plain_table(_HEADS, map(_row, (*found.ranked(), *found.references)), label="Plausibility"),
        element("p", _meaning(found), class_="note"),
        _pairs(found),
    )


_HEADS = ("", "average precision", "above chance", "R-precision", "token F1", "IOU F1", "texts")
_NAMES = {
    "chance": "guessing",
    "rationale": "the rationale itself, as scores of words",
    "annotators": "annotators against each other",
}


def _row(m: PlausibleMethod) -> tuple[object, ...]:
    return (
        _NAMES.get(m.method, m.method),
        _number(m.precision, m.precision_interval),
        "" if m.method == "chance" else _number(m.above, m.above_interval),
        _number(m.r_precision, m.r_precision_interval),
        _number(m.token_f1, m.token_f1_interval),
        _number(m.iou_f1, m.iou_f1_interval),
        m.texts,
    )


def _meaning(found: Plausibility) -> str:
    return (
        "Chance is exact, over all orders of the words. People mark "
        f"{found.share:.0%} of a text; F1 takes that part of it, strongest words first, as ERASER "
        "does. Intervals are 95 %, over texts."
    )


def _pairs(found: Plausibility) -> Html:
    if not found.pairs:
        return raw()
    rows = [
        (*p.methods, _number(p.difference, p.interval), f"{p.won:.0%}", f"{p.p_holm:.3g}")
        for p in found.pairs
    ]
    heads = ("more plausible", "than", "average precision", "texts won", "p (Holm)")
    table = plain_table(heads, rows, label="Paired differences")
    return element("details", element("summary", "Paired differences"), table)


def agreement_section(names: Sequence[str], found: MethodAgreement) -> Html:
    """Return one table per measure, methods by methods."""
    pairs = {frozenset(one.methods): one for one in (*found.pairs, *found.again)}
    said = (
        "On the diagonal stands what a method that samples shares with itself under another seed: "
        "two methods cannot be told apart where they agree as much as that."
    )
    chance = "" if found.chance is None else f" (guesses share {found.chance:.2f})"
    tables = [
        raw(
            element("h3", f"{title}{chance if name == 'top' else ''}"),
            plain_table(
                ("", *names), [_agreeing(name, one, names, pairs) for one in names], label=title
            ),
        )
        for name, title in _MEASURES.items()
    ]
    note = element("p", said, class_="note") if found.again else raw()
    return element("section", element("h2", "Do the methods agree?"), note, *tables)


def _agreeing(
    measure: str, one: str, names: Sequence[str], pairs: dict[frozenset[str], AgreeingPair]
) -> tuple[object, ...]:
    found = [pairs.get(frozenset((one, other))) for other in names]
    values = [None if pair is None else getattr(pair, measure) for pair in found]
    return (one, *("" if value is None else f"{value:.2f}" for value in values))


def _number(x: float | None, interval: Interval | None) -> str:
    if x is None:
        return ""
    return f"{x:.3f}" if interval is None else f"{x:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"
