"""What drives a model over a run, and two runs side by side, as self-contained pages."""

import json
from collections.abc import Sequence
from typing import Any

from limelight.pages.html import legend, words
from limelight.pages.markup import (
    NOTHING,
    Html,
    element,
    headed_table,
    plain_table,
    raw,
    section,
    whole_page,
)
from limelight.pages.pieces import visible
from limelight.pages.wording import minus, percent, sureness, written
from limelight.results import Explanation
from limelight.results.summary import (
    DifferingWord,
    Part,
    RunDifference,
    RunSummary,
    SummarizedView,
    SummarizedWord,
)

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


_OPEN = 2  # texts that are unfolded from the start


def summary_page(summary: RunSummary, *, above: Html = NOTHING) -> str:
    """Return words, phrases, mistakes, representative texts and slices of every view."""
    several = len(summary.views) > 1
    panels = [_panel(number, view, tabbed=several) for number, view in enumerate(summary.views)]
    about = section("The run", *_about(summary), _tabs(summary.views) if several else raw())
    data = [word_data(view) for view in summary.views]
    return whole_page(
        "What drives the model?",
        [about, *panels],
        sheets=("words.css", "page.css", "summary.css"),
        script="summary.js",
        above=above,
        data=json.dumps({"views": data}, ensure_ascii=False, separators=(",", ":")),
    )


def _about(summary: RunSummary) -> list[Html]:
    first = summary.views[0]
    said = f"{summary.texts:,} text{'s' * (summary.texts != 1)} in “{summary.name}”."
    if first.right is not None:
        said += f" The model is right on {_share(first.right)} of {first.right.of:,} labelled ones."
    note = (
        "Every number is over texts: a word that a text has twice counts once. Intervals are 95 %. "
        "Scores of different methods and classes are never averaged."
    )
    notices = [element("li", one) for one in summary.notices]
    return [
        element("p", said),
        element("p", note, class_="note"),
        element("ul", *notices, class_="notices") if notices else raw(),
    ]


def _tabs(views: Sequence[SummarizedView]) -> Html:
    buttons = [
        element(
            "button",
            f"{view.label} · {view.aim}",
            type="button",
            role="tab",
            id=f"tab-{number}",
            aria_controls=f"panel-{number}",
            aria_selected="false" if number else "true",
        )
        for number, view in enumerate(views)
    ]
    return element("div", *buttons, role="tablist", aria_label="Method and class", class_="tabs")


def _panel(number: int, view: SummarizedView, *, tabbed: bool) -> Html:
    parts = [section(f"Words: {view.label} for {view.aim}", *_words(view))]
    if view.phrases:
        parts.append(section("Phrases", *_phrases(view)))
    if view.right is not None:
        parts.append(section("Where the model is wrong", *_mistakes(view)))
    if view.representatives:
        parts.append(section("Representative texts", *_representatives(view)))
    if view.slices:
        parts.append(section(f"Slices by {view.sliced_by}", _slices(view)))
    about = {"role": "tabpanel", "aria_labelledby": f"tab-{number}"} if tabbed else {}
    return element("div", *parts, id=f"panel-{number}", class_="panel", data_v=number, **about)


def _words(view: SummarizedView) -> list[Html]:
    found = (*view.supporting, *view.opposing)
    peak = max((max(abs(one.low), abs(one.high)) for one in found), default=0.0)
    lists = [word_bars(_title(view), view.supporting, peak=peak, signed=view.signed, first=0)]
    if view.signed:
        other = f"Against {view.target}" if view.against is None else f"For {view.against}"
        start = len(view.supporting)
        lists.append(word_bars(other, view.opposing, peak=peak, signed=True, first=start))
    note = (
        f"The words whose mean score is furthest from 0 for certain, of {view.vocabulary:,}. Bars "
        "are means over texts, shrunken for rare words, with their intervals. Press a word to see "
        "its texts."
    )
    return [
        element("p", note, class_="note"),
        element("div", *lists, class_="columns"),
        element("div", class_="examples", aria_live="polite", hidden=True),
    ]


def _title(view: SummarizedView) -> str:
    return f"For {view.target}" if view.signed else "Largest: the method gives no sign"


def _phrases(view: SummarizedView) -> list[Html]:
    peak = max(max(abs(one.low), abs(one.high)) for one in view.phrases)
    note = "Neighbouring words that carry a score together, in at least five texts."
    bars = word_bars("", view.phrases, peak=peak, signed=view.signed, first=None)
    return [element("p", note, class_="note"), bars]


def _mistakes(view: SummarizedView) -> list[Html]:
    count = (view.right.of - view.right.count) if view.right else 0
    if view.differing:
        heads = (
            "word",
            "called",
            "where right (texts)",
            "where wrong (texts)",
            "difference",
            "p (Holm)",
        )
        said = difference_table(heads, view.differing, label="Right and wrong")
    else:
        said = element("p", "No word's mean score differs for certain between right and wrong.")
    note = (
        f"{view.compared:,} words were compared between right and wrong predictions of the same "
        "class (Welch's test over texts, Holm's correction)."
    )
    shown = [
        _text(
            f"{one.id}: labelled {one.label}, predicted {one.predicted} "
            f"{sureness(one.confidence, margin=one.margin)}",
            one.explanation,
            unfolded=i < 1,
        )
        for i, one in enumerate(view.mistakes)
    ]
    title = element("h3", f"The most confident of {count:,} mistakes")
    return [element("p", note, class_="note"), said, *([title] if shown else []), *shown]


def _representatives(view: SummarizedView) -> list[Html]:
    note = (
        "Texts whose ten strongest words together cover most of what matters, picked one after the "
        "other. No choice of as many texts covers more than 1.58 times as much (1/(1 − 1/e))."
    )
    shown = [
        _text(
            f"{one.id}: {one.covered:.1%} of importance so far", one.explanation, unfolded=i < _OPEN
        )
        for i, one in enumerate(view.representatives)
    ]
    explained = [one.explanation for one in view.representatives if one.explanation is not None]
    key = legend(explained[:1]) if explained else raw()
    return [element("p", note, class_="note"), key, *shown]


def _text(title: str, explained: Explanation | None, *, unfolded: bool) -> Html:
    if explained is None:
        return element("p", title, " (this run stores no texts)")
    return element(
        "details",
        element("summary", title),
        element("p", words(explained, titles=True), class_="words", dir="auto"),
        open=unfolded,
    )


def _slices(view: SummarizedView) -> Html:
    labelled = any(one.right is not None for one in view.slices)
    heads = [str(view.sliced_by), "texts", f"called {view.target}"]
    heads += ["right"] * labelled + ["words that score otherwise there"]
    rows = []
    for one in view.slices:
        cells: list[object] = [one.name, f"{one.texts:,}", _share(one.target)]
        cells += ["" if one.right is None else _share(one.right)] * labelled
        changes = [f"{word.word} {word.difference:+.3f}" for word in one.differing]
        rows.append([*cells, ", ".join(changes).replace("-", "−")])
    return plain_table(heads, rows, label=f"Texts by {view.sliced_by}")


def _share(part: Part) -> str:
    return f"{percent(part.share)} [{part.low:.1%}, {part.high:.1%}]"


def difference_page(d: RunDifference) -> str:
    """Return the words and the texts that changed most."""
    turned = d.predictions
    said = (
        f"{d.texts:,} explanations of the same texts: {d.methods[0]} in “{d.first}”, then "
        f"{d.methods[1]} in “{d.second}”. {turned.count:,} predictions changed, "
        f"{percent(turned.share)} [{turned.low:.1%}, {turned.high:.1%}]. {d.apart[0]:,} texts are "
        f"only in the first run, {d.apart[1]:,} only in the second."
    )
    unit = "Scores are shares of a text's total size, since two methods have no common unit."
    heads = ("word", "for", "first (texts)", "second (texts)", "difference", "p (Holm)")
    words = (
        difference_table(heads, d.words, label="Words that changed most")
        if d.words
        else element("p", f"No word's score changed for certain, of {d.compared:,} compared.")
    )
    texts = [(t.id, t.target, f"{t.change:.3f}", t.predicted, t.other_predicted) for t in d.changed]
    sections = [
        section(
            "The runs", element("p", said), element("p", unit, class_="note") if d.shares else raw()
        ),
        section("Words that changed most", words),
        section(
            "Texts that changed most",
            plain_table(
                ("text", "for", "change (0 to 1)", "first says", "second says"),
                texts,
                label="Texts that changed most",
            ),
        ),
    ]
    return whole_page(
        "What changed between two runs?",
        sections,
        sheets=("words.css", "page.css", "summary.css"),
        script="summary.js",
        data='{"views":[]}',
    )
