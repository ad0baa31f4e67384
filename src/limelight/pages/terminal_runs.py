"""What drives a model over a run, and two runs side by side, on a terminal."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from limelight.pages.palette import Side
from limelight.pages.terminal import Look, View, bar, table_text
from limelight.pages.wording import part_in_words, slice_table, sureness, written
from limelight.results.summary import RunDifference, RunSummary, SummarizedView, SummarizedWord
from limelight.results.table import Column, Table
from limelight.text import name_of_one, one_line, plural

_SHOWN, _FEW = 10, 3
_WIDEST = 140
_NARROW, _WIDE = 76, 110  # columns, from which words have intervals and bars


def summary_text(summary: RunSummary) -> RenderableType:
    """Return the first view in full, and the names of the others."""
    return View(partial(_summary, summary), _WIDEST)


def _summary(summary: RunSummary, look: Look, width: int) -> Iterator[RenderableType]:
    view, *others = summary.views
    noun = name_of_one(summary.units)
    yield _heading(view, noun, look)
    yield table_text(_words(view), look, width)
    yield from _lines(view, noun, look, width)
    if view.slices:
        yield Text()
        yield table_text(slice_table(view, noun), look, width)
    if others:
        also = ", ".join(f"{one.method} ({one.aim})" for one in others)
        said = f"Also in this run: {also}; --method shows one, --output page.html all."
        yield look.line(said, "dim")
    yield from (look.line(f"! {n}", "bold") for n in summary.notices)


def _heading(view: SummarizedView, noun: str, look: Look) -> Text:
    texts = f"{view.texts:,} text{'s' * (view.texts != 1)}"
    said = f"{texts}, {view.label}: what drives {view.aim}"
    text = Text(look.safe(said), "bold", overflow="fold")
    if view.right is not None:
        right = f"\nright on {part_in_words(view.right)} of {view.right.of:,} labelled texts"
        text.append(look.safe(right), "not bold")
    note = f"means over texts, 95 % intervals, shrunken for rare {plural(noun)}"
    return text.append(look.safe(f"\n{note}; {view.vocabulary:,} {plural(noun)}\n"), "not bold dim")


def _words(view: SummarizedView) -> Table:
    """Return the strongest words, for and against side by side."""
    lists: list[tuple[str, Sequence[SummarizedWord], Side]] = [
        (f"for {view.target}", view.supporting[:_SHOWN], "for")
    ]
    if view.signed:
        other = f"against {view.target}" if view.against is None else f"for {view.against}"
        lists.append((other, view.opposing[:_SHOWN], "against"))
    else:
        lists = [("largest, no sign", view.supporting[: 2 * _SHOWN : 2], "neutral")]
        lists.append(("", view.supporting[1 : 2 * _SHOWN : 2], "neutral"))
    peak = max((abs(one.shrunken) for _, found, _ in lists for one in found), default=0.0)
    number = partial(written, peak=peak, signed=view.signed)
    columns: list[Column] = []
    for title, _, hue in lists:
        columns += [
            Column(one_line(title, 18), mark=hue, widest=18),
            Column("mean", number),
            Column("interval", str, "dim", wide=_NARROW),
            Column("texts", str, "dim"),
            Column(room=(4, 60), wide=_WIDE),
        ]
    longest = max((len(found) for _, found, _ in lists), default=0)
    rows = [
        [cell for _, found, hue in lists for cell in _cells(found[i : i + 1], peak, hue, number)]
        for i in range(longest)
    ]
    return Table(columns, rows)


def _cells(
    found: Sequence[SummarizedWord], peak: float, hue: Side, number: Callable[[float], str]
) -> Sequence[Any]:
    if not found:
        return (None,) * 5
    one = found[0]
    interval = f"{number(one.low)} {number(one.high)}"
    drawn = partial(bar, abs(one.shrunken) / peak if peak else 0.0, hue)
    return one.word, one.mean, interval, f"{one.texts:,}{'*' * one.rare}", drawn


def _lines(view: SummarizedView, noun: str, look: Look, width: int) -> list[Text]:
    """Return phrases, mistakes and representative texts, a line or two for each."""
    found: list[Text] = []
    if view.phrases:
        said = ", ".join(f"{one.word} {one.mean:+.2f} ({one.texts})" for one in view.phrases[:6])
        found.append(_titled("phrases", said, look, width))
    if view.compared:
        found.append(_titled("where wrong", _differing(view, noun), look, width))
    for one in view.mistakes[:_FEW]:
        said = f"{one.label}, but {one.predicted} {sureness(one.confidence, margin=one.margin)}"
        if one.words:
            said = f"{said}: {', '.join(one.words)}"
        found.append(_titled(f"mistake {one.id}", said, look, width))
    if view.representatives:
        rows = ", ".join(one.id for one in view.representatives)
        share = view.representatives[-1].covered
        said = f"{rows} show {plural(noun)} of {share:.1%} of all importance"
        found.append(_titled("representative", said, look, width))
    return [Text(), *found] if found else []


def _differing(view: SummarizedView, noun: str) -> str:
    if not view.differing:
        return f"none of {view.compared:,} {plural(noun)} scores otherwise, by Holm's test at 5 %"
    return ", ".join(
        f"{one.word} {one.first:+.2f} → {one.second:+.2f} (called {one.group})"
        for one in view.differing[:_FEW]
    )


def _titled(title: str, said: str, look: Look, width: int) -> Text:
    line = Text(look.safe(one_line(title, 15)).ljust(16), "dim", no_wrap=True, overflow="ellipsis")
    return line.append(look.safe(one_line(said, max(20, width - 16))), "not dim")


_SHOWN_CHANGES = 12


def difference_text(found: RunDifference) -> RenderableType:
    """Return the words and the texts that changed most."""
    return View(partial(_difference, found), _WIDEST)


def _difference(d: RunDifference, look: Look, width: int) -> Iterator[RenderableType]:
    yield look.line(
        f"{d.texts:,} explanations of the same texts: {d.methods[0]} in '{d.first}', then "
        f"{d.methods[1]} in '{d.second}'",
        "bold",
    )
    turned = f"{d.predictions.count:,}, {part_in_words(d.predictions)}"
    apart = f"{d.apart[0]:,} and {d.apart[1]:,}"
    said = f"predictions that changed: {turned}; texts in one run only: {apart}"
    yield look.line(said, "dim")
    if d.shares:
        unit = "scores are shares of a text's total size: methods have no common unit"
        yield look.line(unit, "dim")
    if not d.words:
        none = f"no {name_of_one(d.units)}'s score changed for certain, of {d.compared:,} compared"
        yield look.line(none, "dim")
    yield Text()
    if d.words:
        yield table_text(_changed_words(d), look, width)
        yield Text()
    if d.changed:
        yield table_text(_changed_texts(d), look, width)


def _changed_words(d: RunDifference) -> Table:
    score = "+.3f"
    columns = (
        Column(name_of_one(d.units), widest=18),
        Column("target", widest=12),
        *(Column(name, score) for name in ("first", "second", "difference", "interval")),
        Column("texts", ","),
    )
    rows = [
        (w.word, w.group, w.first, w.second, w.difference, (w.low, w.high), w.first_texts)
        for w in d.words[:_SHOWN_CHANGES]
    ]
    return Table(columns, rows)


def _changed_texts(d: RunDifference) -> Table:
    columns = (
        Column("text", widest=18),
        Column("change", ".3f"),
        Column("first says", widest=18),
        Column("second says", widest=18),
    )
    shown = d.changed[:_SHOWN_CHANGES]
    return Table(columns, [(t.id, t.change, t.predicted, t.other_predicted) for t in shown])
