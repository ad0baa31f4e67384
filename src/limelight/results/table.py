"""Tables that a terminal, a page, a CSV file and a data frame print alike.

::

    Table(
        (Column("method", mark="bold"), Column("share", ".3f"), Column("won", ".0%", wide=60)),
        [(m.method, m.share, m.won) for m in judgment.ranked()],
    )

Cells are values, not texts: a terminal (``pages.terminal.table_text``) and a page
(``pages.markup.table_html``) write numbers as their column says, CSV and data frames in full. None
is nothing, or what the column has for it, and a pair of numbers is an interval. ``Cell(value,
"weak")`` marks one cell. User text is made visible and escaped by whoever prints.
"""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from limelight.errors import InputError
from limelight.text import one_line

_RUN = ("=", "+", "-", "@", "\t", "\r")  # what begins a formula in a spreadsheet


class Cell(NamedTuple):
    """A value with a mark of its own, in place of its column's."""

    value: Any
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """The heading of a column, and how its cells are written.

    ``number`` is a format (".3f", "+.2f", ",") or a function to a text; such a column stands right
    and is never cut. Without it cells are texts, which give way where a terminal is narrow, cut to
    ``widest`` letters at most, or folded. ``mark`` is "bold", "dim", "weak" (what to look at),
    "ok", "failed", "for", "against" or "neutral"; a page takes it as a class, which may be another.

    On terminals ``short`` is the heading, where there is one, and those narrower than ``wide``
    leave the column out. Cells of a column with ``room`` (the least and the most letters) are
    functions of the letters left for them and the ``Look`` of the terminal to a rich ``Text``, such
    as a bar, and so is ``axis``, its heading; only terminals draw them. ``missing`` is written for
    None. A column of ``words`` holds pieces of the user's text, which a page keeps apart from what
    stands around them.
    """

    heading: str = ""
    number: str | Callable[[Any], str] = ""
    mark: str = ""
    short: str = ""
    widest: int = 0
    fold: bool = False
    wide: int = 0
    room: tuple[int, int] | None = None
    axis: Callable[[int, Any], Any] | None = None
    missing: str = ""
    words: bool = False

    def text(self, value: Any) -> str:
        """Return ``value`` as a reader sees it."""
        if value is None:
            return self.missing
        if isinstance(value, tuple):
            return f"[{', '.join(map(self.text, value))}]"
        if not self.number or isinstance(value, str):
            return str(value)
        return self.number(value) if callable(self.number) else format(value, self.number)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values under columns; ``left_out`` more rows are counted, not shown."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    left_out: int = 0

    def __repr__(self) -> str:
        names = ", ".join(column.heading for column in self.columns)
        return f"<Table of {len(self.rows):,} rows: {one_line(names, 120)}>"

    def records(self) -> list[dict[str, Any]]:
        """Return each row as a dictionary of its values by the headings of their columns."""
        names = [column.heading for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def group_by(self, *names: str) -> "dict[tuple[Any, ...], Table]":
        """Return the rows that agree in the columns ``names``, by their values there, in order."""
        headings = [column.heading for column in self.columns]
        places = [headings.index(name) for name in names]
        groups: dict[tuple[Any, ...], list[Sequence[Any]]] = {}
        for row in self.rows:
            groups.setdefault(tuple(row[place] for place in places), []).append(row)
        return {values: replace(self, rows=rows) for values, rows in groups.items()}

    def first(self, count: int) -> "Table":
        """Return the first ``count`` rows; the others are counted."""
        more = max(0, len(self.rows) - count)
        return replace(self, rows=self.rows[:count], left_out=self.left_out + more)

    def to_csv(self, *, header: bool = True) -> str:
        """Return the values as CSV, with or without a ``header``."""
        heads = [[column.heading for column in self.columns]] if header else []
        return "".join(map(csv_line, [*heads, *self.rows]))

    def to_frame(self) -> Any:
        """Return the values as a data frame; without pandas, say what to install."""
        try:
            import pandas as pd
        except ImportError:
            raise InputError("to_frame needs pandas; run: pip install pandas.") from None
        return pd.DataFrame(list(self.rows), columns=[column.heading for column in self.columns])


class Section(NamedTuple):
    """Sentences and tables under a title; on a page some tables are folded, some names explained.

    A terminal (``pages.terminal.section_text``) leaves out what is folded and the ``meanings``.
    """

    title: str
    said: str = ""
    note: str = ""
    notices: Sequence[str] = ()
    tables: Sequence[Table] = ()
    folded: Sequence[tuple[str, Table]] = ()
    meanings: Sequence[tuple[str, str]] = ()


def plain_rows(names: Iterable[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Return the table of a file: columns by their names alone."""
    return Table([Column(name) for name in names], list(rows))


def csv_line(cells: Sequence[Any]) -> str:
    """Return one line of CSV."""
    part = io.StringIO()
    # The csv module quotes a carriage return only if its own lines end in one.
    csv.writer(part, lineterminator="\r\n").writerow(map(_unrun, cells))
    return part.getvalue().removesuffix("\r\n") + "\n"


def _unrun(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would run as a formula, not show."""
    cell = cell.value if isinstance(cell, Cell) else cell
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_RUN) else cell
