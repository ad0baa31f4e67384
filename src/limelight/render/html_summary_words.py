"""The words of a summary in HTML: bars with intervals, and what a click on a word shows."""

__all__ = ["difference_table", "word_bars", "word_data"]

from collections.abc import Sequence
from typing import Any

from limelight.render.coloured_pieces import visible
from limelight.render.html_tables import headed_table, plain_table
from limelight.render.markup import Html, element, raw
from limelight.render.wording import minus, written
from limelight.results.summary import DifferingWord, SummarizedView, SummarizedWord

_FIRST = 20  # rows that are seen at once; the others wait for a click, and cost no layout


def word_bars(
    title: str, found: Sequence[SummarizedWord], *, peak: float, signed: bool, first: int | None
) -> Html:
    """Return a table of words with bars; ``first`` is the number of the first in the data.

    None: the words have no examples, and nothing to click.
    """
    rows = [
        _row(one, None if first is None else first + i, peak, signed, hidden=i >= _FIRST)
        for i, one in enumerate(found)
    ]
    head = ("word", "", "mean", "interval", "texts")
    more = element("button", f"Show more of {len(found):,}", type="button", class_="more")
    return element(
        "div",
        element("h3", title),
        headed_table(head, rows, class_="leading"),
        more if len(found) > _FIRST else raw(),
    )


def _row(
    one: SummarizedWord, number: int | None, peak: float, signed: bool, *, hidden: bool
) -> Html:
    name: Html = element("bdi", one.word)
    if number is not None:
        name = element("button", name, type="button", class_="plain", data_w=number)
    said = f"{one.positive:.0%} of texts above 0, {one.occurrences:,} occurrences"
    mark = element("abbr", "rare", title="in fewer than five texts") if one.rare else raw()
    interval = " to ".join(written(x, peak=peak, signed=signed) for x in (one.low, one.high))
    return element(
        "tr",
        element("th", name, " ", mark, scope="row"),
        element("td", _bar(one, peak, signed), class_="bar"),
        element("td", minus(written(one.mean, peak=peak, signed=signed))),
        element("td", minus(interval), class_="note"),
        element("td", f"{one.texts:,}"),
        title=said,
        hidden=hidden,
    )


def _bar(one: SummarizedWord, peak: float, signed: bool) -> Html:
    """Return a bar of the shrunken mean, with a whisker over its interval."""
    unit = 96 / max(peak, 1e-300)
    hue = "n" if not signed else "f" if one.shrunken >= 0 else "a"
    sizes = [max(min(x * unit, 100.0), 0.0) for x in _outwards(one)]
    low, middle, high = (f"{x:.2f}" for x in sizes)
    lines = f"M{low} 6H{high}M{low} 4v4M{high} 4v4"
    return element(
        "svg",
        element("rect", x=0, y=3, width=middle, height=6, class_=f"bar-{hue}"),
        element("path", d=lines, class_="whisker"),
        viewBox="0 0 100 12",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def _outwards(one: SummarizedWord) -> tuple[float, float, float]:
    """Return the interval's ends and the mean as distances from 0, on the side of the mean."""
    if one.shrunken >= 0:
        return one.low, one.shrunken, one.high
    return -one.high, -one.shrunken, -one.low


def word_data(view: SummarizedView) -> list[Any]:
    """Return what a click on a word shows: [word, [[id, score, before, word, after], …]]."""
    return [
        [
            visible(one.word),
            [
                [
                    visible(e.id),
                    float(f"{e.score:.4g}"),
                    *map(visible, (e.before, e.found, e.after)),
                ]
                for e in one.examples
            ],
        ]
        for one in (*view.supporting, *view.opposing)
    ]


def difference_table(heads: Sequence[str], found: Sequence[DifferingWord], *, label: str) -> Html:
    """Return words in two groups of texts, with the difference and its interval."""
    rows = [
        (
            one.word,
            one.group,
            minus(f"{one.first:+.3f} ({one.first_texts:,})"),
            minus(f"{one.second:+.3f} ({one.second_texts:,})"),
            minus(f"{one.difference:+.3f} [{one.low:+.3f}, {one.high:+.3f}]"),
            f"{one.p_holm:.2g}",
        )
        for one in found
    ]
    return plain_table(heads, rows, label=label)
