"""Two runs side by side, on a terminal."""

__all__ = ["difference_text"]

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from limelight.render.terminal_words import Look, look_of
from limelight.render.wording import percent
from limelight.results.summary import RunDifference
from limelight.text import one_line

_SHOWN = 12


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
    words: list[RenderableType] = [_words(d, look), Text()] if d.words else []
    return [*words, *([_texts(d, look)] if d.changed else [])]


def _words(d: RunDifference, look: Look) -> Table:
    heads = ("word", "target", "first", "second", "difference", "interval", "texts")
    table = _table(heads)
    for one in d.words[:_SHOWN]:
        cells = (
            one_line(one.word, 18), one_line(one.group, 12), f"{one.first:+.3f}",
            f"{one.second:+.3f}", f"{one.difference:+.3f}", f"{one.low:+.3f} {one.high:+.3f}",
            f"{one.first_texts:,}",
        )  # fmt: skip
        table.add_row(*(Text(look.safe(cell)) for cell in cells))
    return table


def _texts(d: RunDifference, look: Look) -> Table:
    table = _table(("text", "change", "first says", "second says"))
    for one in d.changed[:_SHOWN]:
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
