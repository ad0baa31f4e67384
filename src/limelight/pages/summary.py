"""What drives a model over a run, and two runs side by side: on a terminal, and as pages."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from limelight.pages.html import drawn_bar, legend, words
from limelight.pages.images import mean_map, thumbnail
from limelight.pages.markup import rendered, table_html, whole_page
from limelight.pages.palette import Side
from limelight.pages.pieces import visible
from limelight.pages.terminal import ALL, Look, bar, on_terminal, sections_text
from limelight.pages.wording import part_in_words, slice_table, sureness, written
from limelight.results.summary import (
    DifferingWord,
    RunDifference,
    RunSummary,
    SummarizedView,
    SummarizedWord,
)
from limelight.results.table import Cell, Column, Section, Table
from limelight.text import name_of_one, plural

if TYPE_CHECKING:
    from markupsafe import Markup

_SHOWN, _FEW, _SHOWN_CHANGES = 10, 3, 12  # rows on a terminal
_NARROW = 60  # columns of a terminal, below which intervals and classes give way
FIRST = 20  # rows that are seen at once; the others wait for a click, and cost no layout
_OPEN = 2  # representative texts that are unfolded from the start
_SHEETS = ("words.css", "page.css", "summary.css")


@on_terminal()
def summary_text(summary: RunSummary, look: Look) -> Iterator[RenderableType]:
    """Yield the first view under the titles of the page, and the names of the others."""
    view, *others = summary.views
    noun = name_of_one(summary.units)
    texts = f"{view.texts:,} text{'s' * (view.texts != 1)}"
    yield look.line(f"{texts}, {view.label}: what drives {view.aim}", "bold")
    if view.right is not None:
        right = f"{part_in_words(view.right)} of {view.right.of:,} labelled texts"
        yield look.line(f"right on {right}")
    note = f"means over texts, 95 % intervals, shrunken for rare {plural(noun)}"
    yield look.line(f"{note}; {view.vocabulary:,} {plural(noun)}", "dim")
    yield Text()
    yield from sections_text(_sections(view, noun), look)
    if others:
        also = ", ".join(f"{one.method} ({one.aim})" for one in others)
        yield Text()
        yield look.line(
            f"Also in this run: {also}; --method shows one, --output page.html all.", "dim"
        )
    yield from look.notices(summary.notices)


def _sections(view: SummarizedView, noun: str) -> list[Section]:
    """Return the strongest of what the page has: words, phrases, mistakes, texts and slices."""
    against = f"Against {view.target}" if view.against is None else f"For {view.against}"
    lists = {f"For {view.target}": view.supporting, against: view.opposing}
    if not view.signed:
        lists = {"Largest: the method gives no sign": view.supporting}
    lists = {title: several[:_SHOWN] for title, several in lists.items()}
    peak = max((abs(one.shrunken) for several in lists.values() for one in several), default=0.0)
    found = [
        Section(title, tables=[_words(several, noun, peak, signed=view.signed)])
        for title, several in lists.items()
        if several
    ]
    if phrases := view.phrases[: 2 * _FEW]:
        peak = max(abs(one.shrunken) for one in phrases)
        table = _words(phrases, "phrase", peak, signed=view.signed)
        found.append(Section("Phrases", tables=[table]))
    # Not of a model that is right everywhere, which has nothing to compare with.
    if view.compared or view.mistakes:
        none = f"No {noun}'s mean score differs for certain between right and wrong."
        heads = (noun, "called", "where right", "where wrong")
        both = (_differing_words(heads, view.differing[:_FEW]), _mistakes(view, noun))
        said = none if view.compared and not view.differing else ""
        tables = [table for table in both if table.rows]
        found.append(Section("Where the model is wrong", said, tables=tables))
    if view.representatives:
        rows = ", ".join(text.id for text in view.representatives)
        share = view.representatives[-1].covered
        said = f"{rows} show {plural(noun)} of {share:.1%} of all importance."
        found.append(Section("Representative texts", said))
    if view.slices:
        found.append(Section(f"Slices by {view.sliced_by}", tables=[slice_table(view, noun)]))
    return found


def _words(found: Sequence[SummarizedWord], heading: str, peak: float, *, signed: bool) -> Table:
    """Return means of words with intervals, in how many texts they are, and bars."""
    number = partial(written, peak=peak, signed=signed)
    rows = []
    for one in found:
        hue: Side = "neutral" if not signed else "for" if one.shrunken >= 0 else "against"
        drawn = partial(bar, one.shrunken / (peak or 1.0), hue)
        texts = f"{one.texts:,}{'*' * one.rare}"
        rows.append((Cell(one.word, hue), one.mean, (one.low, one.high), texts, drawn))
    columns = (
        Column(heading, widest=24),
        Column("mean", number),
        Column("interval", number, "dim", wide=_NARROW),
        Column("texts", "s", "dim"),
        Column(room=(4, 60)),
    )
    return Table(columns, rows)


def _mistakes(view: SummarizedView, noun: str) -> Table:
    columns = [
        *(Column(name, widest=18) for name in ("mistake", "label", "predicted")),
        Column("how sure", wide=_NARROW),
    ]
    rows = [
        (
            *(one.id, one.label, one.predicted),
            sureness(one.confidence, margin=one.margin),
            ", ".join(one.words),
        )
        for one in view.mistakes[:_FEW]
    ]
    return Table([*columns, Column(plural(noun), widest=40)], rows)


@on_terminal()
def difference_text(d: RunDifference, look: Look) -> Iterator[RenderableType]:
    """Yield the words and the texts that changed most."""
    sections = [
        found._replace(tables=[table.first(_SHOWN_CHANGES) for table in found.tables])
        for found in _difference(d)
    ]
    yield from sections_text(sections, look)


def summary_page(summary: RunSummary, *, above: "Markup | str" = "") -> str:
    """Return words, phrases, mistakes, representative texts and slices of every view."""
    noun = name_of_one(summary.units)
    body = rendered(
        "summary.html",
        summary=summary,
        labels=[f"{view.label} · {view.aim}" for view in summary.views],
        first=FIRST,
        opened=_OPEN,
        words=lambda e, **asked: words(thumbnail(e), **asked),
        thing="image" if noun in ("patch", "segment") else "text",
        mean_map=mean_map,
        legend=legend,
        written=written,
        sureness=sureness,
        bar=_bar,
        peak_of=lambda found: max((max(-one.low, one.high) for one in found), default=0.0),
        share=part_in_words,
        differing=lambda view: table_html(
            _differing_words((noun, "called", "where right", "where wrong"), view.differing),
            label="Right and wrong",
        ),
        slices=lambda view: table_html(slice_table(view, noun), label=f"Texts by {view.sliced_by}"),
        noun=noun,
    )
    data = {"views": [_examples(view) for view in summary.views]}
    return whole_page(
        "What drives the model?",
        body,
        sheets=_SHEETS,
        script="summary.js",
        above=above,
        data=json.dumps(data, ensure_ascii=False, separators=(",", ":")),
    )


def _examples(view: SummarizedView) -> list[Any]:
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


def _bar(one: SummarizedWord, peak: float, signed: bool) -> dict[str, str | bool]:
    """Return a bar of the shrunken mean, with a whisker over its interval.

    Lengths are distances from 0 on the side of the mean.
    """
    ends = (one.low, one.shrunken, one.high)
    if one.shrunken < 0:
        ends = (-one.high, -one.shrunken, -one.low)
    low, middle, high = (max(min(x * 96 / max(peak, 1e-300), 100.0), 0.0) for x in ends)
    hue = "n" if not signed else "f" if one.shrunken >= 0 else "a"
    return drawn_bar(0.0, middle, hue, (low, high))


def _differing_words(heads: Sequence[str], found: Sequence[DifferingWord]) -> Table:
    """Return words in two groups of texts, with the difference and its interval."""
    word, group, first, second = heads
    score = "+.3f"
    columns = (
        Column(word, widest=18),
        Column(group, widest=12, wide=_NARROW),
        *(Column(name, score) for name in (first, second, "difference")),
        Column("interval", score, wide=_NARROW),
        Column("texts", ",", wide=_NARROW),
        Column("p (Holm)", ".2g", wide=ALL),
    )
    rows = [
        (
            *(w.word, w.group, w.first, w.second, w.difference, (w.low, w.high)),
            w.first_texts
            if w.first_texts == w.second_texts
            else f"{w.first_texts:,} and {w.second_texts:,}",
            w.p_holm,
        )
        for w in found
    ]
    return Table(columns, rows)


def _difference(d: RunDifference) -> list[Section]:
    """Return what two runs are, the words and the texts that changed most."""
    first, second = d.methods
    said = (
        f"{d.texts:,} explanations of the same texts: {first} in “{d.first}”, then {second} in "
        f"“{d.second}”. Predictions that changed: {d.predictions.count:,}, "
        f"{part_in_words(d.predictions)}. Texts in the first run only: {d.apart[0]:,}; in the "
        f"second only: {d.apart[1]:,}."
    )
    unit = "Scores are shares of a text's total size, since two methods have no common unit."
    noun = name_of_one(d.units)
    none = f"No {noun}'s score changed for certain, of {d.compared:,} compared."
    words = _differing_words((noun, "for", "first", "second"), d.words)
    columns = (
        Column("text", widest=18),
        Column("for", wide=_NARROW, widest=18),
        Column("change (0 to 1)", ".3f", short="change"),
        Column("first says", widest=18),
        Column("second says", widest=18),
    )
    texts = [(t.id, t.target, t.change, t.predicted, t.other_predicted) for t in d.changed]
    return [
        Section("The runs", said=said, note=unit if d.shares else ""),
        Section(
            f"{plural(noun).capitalize()} that changed most",
            said="" if d.words else none,
            tables=[words] if d.words else [],
        ),
        Section("Texts that changed most", tables=[Table(columns, texts)]),
    ]


def difference_page(d: RunDifference) -> str:
    """Return the words and the texts that changed most."""
    return whole_page(
        "What changed between two runs?",
        rendered("sections.html", sections=_difference(d)),
        sheets=_SHEETS,
        script="summary.js",
        data='{"views":[]}',
    )
