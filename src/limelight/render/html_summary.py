"""What drives a model over a run, as one self-contained page."""

__all__ = ["summary_page"]

import json
from collections.abc import Sequence

from limelight.render.html_summary_words import difference_table, word_bars, word_data
from limelight.render.html_tables import plain_table
from limelight.render.html_words import legend, words
from limelight.render.markup import NOTHING, Html, element, raw
from limelight.render.page_shell import section, whole_page
from limelight.render.wording import percent, sureness
from limelight.results import Explanation
from limelight.results.summary import Part, RunSummary, SummarizedView

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
