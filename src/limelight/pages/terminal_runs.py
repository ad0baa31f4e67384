"""What drives a model over a run, and two runs side by side, on a terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

from rich.color import Color
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from limelight.pages.palette import TERMINAL_INK, Side
from limelight.pages.terminal import Look, look_of
from limelight.pages.wording import percent, sureness, written
from limelight.results.summary import (
    DifferingWord,
    Part,
    RunDifference,
    RunSummary,
    SummarizedView,
    SummarizedWord,
)
from limelight.text import one_line

_SHOWN, _FEW = 10, 3
_WIDEST = 140
_WIDE = 110  # columns, from which words have bars


def summary_text(summary: RunSummary) -> RenderableType:
    """Return the first view in full, and the names of the others."""
    return _SummaryView(summary)


@final
@dataclass(frozen=True)
class _SummaryView:
    summary: RunSummary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Group]:
        look, width = look_of(console, options), min(options.max_width, _WIDEST)
        view, *others = self.summary.views
        parts: list[RenderableType] = [_heading(view, look), _words(view, look, width)]
        parts += _lines(view, look, width)
        if view.slices:
            parts += [Text(), _slices(view, look, width)]
        also = ", ".join(f"{one.method} ({one.aim})" for one in others)
        said = [f"Also in this run: {also}; --method shows one, --output page.html all."] * bool(
            also
        )
        parts += [Text(look.safe(line), "dim", overflow="fold") for line in said]
        parts += [Text(look.safe(f"! {n}"), "bold", overflow="fold") for n in self.summary.notices]
        yield Group(*parts)


def _heading(view: SummarizedView, look: Look) -> Text:
    texts = f"{view.texts:,} text{'s' * (view.texts != 1)}"
    said = f"{texts}, {view.label}: what drives {view.aim}"
    text = Text(look.safe(said), "bold", overflow="fold")
    if view.right is not None:
        text.append(
            look.safe(f"\nright on {_share(view.right)} of {view.right.of:,} labelled texts"),
            "not bold",
        )
    note = "means over texts, 95 % intervals, shrunken for rare words"
    return text.append(look.safe(f"\n{note}; {view.vocabulary:,} words\n"), "not bold dim")


def _share(part: Part) -> str:
    return f"{percent(part.share)} [{part.low:.1%}, {part.high:.1%}]"


def _words(view: SummarizedView, look: Look, width: int) -> Table:
    """Return the strongest words, for and against side by side."""
    lists = [(f"for {view.target}", view.supporting[:_SHOWN], "for")]
    if view.signed:
        other = f"against {view.target}" if view.against is None else f"for {view.against}"
        lists.append((other, view.opposing[:_SHOWN], "against"))
    else:
        lists = [("largest, no sign", view.supporting[: 2 * _SHOWN : 2], "neutral")]
        lists.append(("", view.supporting[1 : 2 * _SHOWN : 2], "neutral"))
    peak = max((abs(one.shrunken) for _, found, _ in lists for one in found), default=0.0)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    bar = max(0, width // 2 - 41) if width >= _WIDE else 0
    for title, _, _ in lists:
        table.add_column(
            look.safe(one_line(title, 18)), no_wrap=True, max_width=18, overflow="ellipsis"
        )
        table.add_column("mean", justify="right", no_wrap=True)
        table.add_column("interval", no_wrap=True)
        table.add_column("texts", justify="right", no_wrap=True)
        if bar:
            table.add_column("", width=bar, no_wrap=True)
    for i in range(max((len(found) for _, found, _ in lists), default=0)):
        cells: list[Text] = []
        for _, found, side in lists:
            one = found[i] if i < len(found) else None
            cells += _cells(one, look, peak, side, bar, signed=view.signed)
        table.add_row(*cells)
    return table


def _cells(
    one: SummarizedWord | None, look: Look, peak: float, side: str, bar: int, *, signed: bool
) -> list[Text]:
    if one is None:
        return [Text()] * (5 if bar else 4)
    ink = Style(color=Color.from_rgb(*_ink(side))) if look.colour else Style.null()
    low, high = (written(x, peak=peak, signed=signed) for x in (one.low, one.high))
    cells = [
        Text(look.safe(one_line(one.word, 18)), ink),
        Text(written(one.mean, peak=peak, signed=signed)),
        Text(f"{low} {high}", "dim"),
        Text(f"{one.texts:,}{'*' * one.rare}", "dim"),
    ]
    if bar:
        length = round(abs(one.shrunken) / peak * bar) if peak else 0
        cells.append(Text(("#" if look.ascii else "━") * length, ink))
    return cells


def _ink(side: str) -> tuple[int, int, int]:
    sides: dict[str, Side] = {"for": "for", "against": "against", "neutral": "neutral"}
    return TERMINAL_INK[sides[side]]


def _lines(view: SummarizedView, look: Look, width: int) -> list[Text]:
    """Return phrases, mistakes and representative texts, a line or two for each."""
    found: list[Text] = []
    if view.phrases:
        said = ", ".join(f"{one.word} {one.mean:+.2f} ({one.texts})" for one in view.phrases[:6])
        found.append(_titled("phrases", said, look, width))
    if view.compared:
        found.append(_titled("where wrong", _differing(view), look, width))
    for one in view.mistakes[:_FEW]:
        words = "" if one.explanation is None else ", ".join(w for w, _ in one.explanation.top(5))
        sure = sureness(one.confidence, margin=one.margin)
        said = f"{one.label}, but {one.predicted} {sure}: {words}"
        found.append(_titled(f"mistake {one.id}", said, look, width))
    if view.representatives:
        rows = ", ".join(one.id for one in view.representatives)
        share = view.representatives[-1].covered
        said = f"{rows} show words of {share:.1%} of all importance"
        found.append(_titled("representative", said, look, width))
    return [Text(), *found] if found else []


def _differing(view: SummarizedView) -> str:
    if not view.differing:
        return f"none of {view.compared:,} words scores otherwise, by Holm's test at 5 %"
    return ", ".join(
        f"{one.word} {one.first:+.2f} → {one.second:+.2f} (called {one.group})"
        for one in view.differing[:_FEW]
    )


def _titled(title: str, said: str, look: Look, width: int) -> Text:
    line = Text(look.safe(one_line(title, 15)).ljust(16), "dim", no_wrap=True, overflow="ellipsis")
    return line.append(look.safe(one_line(said, max(20, width - 16))), "not dim")


def _slices(view: SummarizedView, look: Look, width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(look.safe(one_line(f"by {view.sliced_by}", 24)), no_wrap=True, max_width=24)
    table.add_column("texts", justify="right", no_wrap=True)
    table.add_column(look.safe(one_line(f"called {view.target}", 22)), no_wrap=True)
    labelled = any(one.right is not None for one in view.slices)
    if labelled:
        table.add_column("right", no_wrap=True)
    if width >= _WIDE:
        table.add_column("words that score otherwise", no_wrap=True, overflow="ellipsis")
    for one in view.slices:
        cells = [one.name, f"{one.texts:,}", _share(one.target)]
        cells += [_share(one.right) if one.right is not None else ""] * labelled
        cells += [_changes(one.differing)] * (width >= _WIDE)
        table.add_row(*(Text(look.safe(cell), overflow="ellipsis") for cell in cells))
    return table


def _changes(differing: Sequence[DifferingWord]) -> str:
    return ", ".join(f"{one.word} {one.difference:+.2f}" for one in differing)


_SHOWN_CHANGES = 12


def difference_text(found: RunDifference) -> RenderableType:
    """Return the words and the texts that changed most."""
    return _DifferenceView(found)


@final
@dataclass(frozen=True)
class _DifferenceView:
    found: RunDifference

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Group]:
        d, look = self.found, look_of(console, options)
        head = (
            f"{d.texts:,} explanations of the same texts: {d.methods[0]} in '{d.first}', then "
            f"{d.methods[1]} in '{d.second}'"
        )
        turned = d.predictions
        said = (
            f"predictions that changed: {turned.count:,}, {percent(turned.share)} "
            f"[{turned.low:.1%}, {turned.high:.1%}]; texts in one run only: {d.apart[0]:,} and "
            f"{d.apart[1]:,}"
        )
        notes = [said]
        if d.shares:
            notes.append("scores are shares of a text's total size: methods have no common unit")
        if not d.words:
            notes.append(f"no word's score changed for certain, of {d.compared:,} compared")
        yield Group(
            Text(look.safe(head), "bold", overflow="fold"),
            *(Text(look.safe(note), "dim", overflow="fold") for note in notes),
            Text(),
            *_tables(d, look),
        )


def _tables(d: RunDifference, look: Look) -> list[RenderableType]:
    words: list[RenderableType] = [_changed_words(d, look), Text()] if d.words else []
    return [*words, *([_texts(d, look)] if d.changed else [])]


def _changed_words(d: RunDifference, look: Look) -> Table:
    heads = ("word", "target", "first", "second", "difference", "interval", "texts")
    table = _table(heads)
    for one in d.words[:_SHOWN_CHANGES]:
        cells = (
            one_line(one.word, 18), one_line(one.group, 12), f"{one.first:+.3f}",
            f"{one.second:+.3f}", f"{one.difference:+.3f}", f"{one.low:+.3f} {one.high:+.3f}",
            f"{one.first_texts:,}",
        )  # fmt: skip
        table.add_row(*(Text(look.safe(cell)) for cell in cells))
    return table


def _texts(d: RunDifference, look: Look) -> Table:
    table = _table(("text", "change", "first says", "second says"))
    for one in d.changed[:_SHOWN_CHANGES]:
        cells = (
            one_line(one.id, 18), f"{one.change:.3f}", one_line(one.predicted, 18),
            one_line(one.other_predicted, 18),
        )  # fmt: skip
        table.add_row(*(Text(look.safe(cell)) for cell in cells))
    return table


def _table(heads: tuple[str, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for i, head in enumerate(heads):
        table.add_column(head, no_wrap=True, overflow="ellipsis", justify="right" if i else "left")
    return table
