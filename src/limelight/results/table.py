"""Tables for terminals, pages, CSV files and data frames.

::

    Table(
        (
            Column("method", mark="bold"),
            Column("share", ".3f"),
            Column("won", ".0%", min_width=60),
        ),
        [(m.method, m.share, m.won) for m in judgment.rank_methods()],
    )

Cells are values, not texts. A terminal (``rendering.terminal.table_text``) and a page
(``rendering.markup.table_html``) format numbers as their column says. CSV and data frames have all
digits. None is an empty cell, or the text ``missing`` of its column. A pair of numbers is an
interval. ``Cell(value, "weak")`` marks one cell. The code that prints a table escapes user text
and makes hidden characters visible.
"""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from limelight.errors import InputError
from limelight.text import truncate_line

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # of a formula in a spreadsheet


class Cell(NamedTuple):
    """A value with its own mark, which replaces the mark of its column."""

    value: Any
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """The heading of a column and the format of its cells.

    Attributes
    ----------
    heading
        The heading.
    number_format
        A format (".3f", "+.2f", ",") or a function from the value to a text. Such a column is
        aligned to the right and never cut. Without it the cells are texts, which are cut or folded
        on a narrow terminal.
    mark
        "bold", "dim", "weak" (a value that needs attention), "ok", "failed", "for", "against" or
        "neutral". A page uses the mark as a CSS class, and other classes are allowed.
    short_heading
        The heading on terminals, if it differs.
    max_letters
        Largest width of a column of texts on terminals, 0 for any.
    fold
        Whether texts are folded and not cut.
    min_width
        Terminals with fewer columns leave this column out.
    draw_width
        The least and the most letters of a column that only terminals draw. Its cells are
        functions from the number of letters and the ``Look`` of the terminal to a rich ``Text``,
        such as a bar.
    draw_heading
        The heading of a drawn column, a function as its cells are.
    missing
        The text for None.
    is_user_text
        Whether cells are parts of the user's text, which a page separates from the text around.
    """

    heading: str = ""
    number_format: str | Callable[[Any], str] = ""
    mark: str = ""
    short_heading: str = ""
    max_letters: int = 0
    fold: bool = False
    min_width: int = 0
    draw_width: tuple[int, int] | None = None
    draw_heading: Callable[[int, Any], Any] | None = None
    missing: str = ""
    is_user_text: bool = False

    def cell_text(self, value: Any) -> str:
        """Return a value in the format of the column."""
        if value is None:
            return self.missing
        if isinstance(value, tuple):
            return f"[{', '.join(map(self.cell_text, value))}]"
        if not self.number_format or isinstance(value, str):
            return str(value)
        if callable(self.number_format):
            return self.number_format(value)
        return format(value, self.number_format)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values under columns. ``left_out`` is the number of further rows, not shown."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    left_out: int = 0

    def __repr__(self) -> str:
        names = ", ".join(column.heading for column in self.columns)
        return f"<Table of {len(self.rows):,} rows: {truncate_line(names, 120)}>"

    def records(self) -> list[dict[str, Any]]:
        """Return each row as a dictionary from headings to values."""
        names = [column.heading for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def group_rows(self, *names: str) -> "dict[tuple[Any, ...], Table]":
        """Return a table for each combination of values in the columns ``names``, in order."""
        headings = [column.heading for column in self.columns]
        indices = [headings.index(name) for name in names]
        groups: dict[tuple[Any, ...], list[Sequence[Any]]] = {}
        for row in self.rows:
            groups.setdefault(tuple(row[index] for index in indices), []).append(row)
        return {values: replace(self, rows=rows) for values, rows in groups.items()}

    def head(self, count: int) -> "Table":
        """Return the first ``count`` rows. The other rows count as left out."""
        more = max(0, len(self.rows) - count)
        return replace(self, rows=self.rows[:count], left_out=self.left_out + more)

    def to_csv(self, *, header: bool = True) -> str:
        """Return the values as CSV, with or without a ``header``."""
        header_rows = [[column.heading for column in self.columns]] if header else []
        return "".join(map(csv_line, [*header_rows, *self.rows]))

    def to_frame(self) -> Any:
        """Return the values as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError:
            raise InputError("to_frame needs pandas. Run: pip install pandas.") from None
        return pd.DataFrame(list(self.rows), columns=[column.heading for column in self.columns])


class Section(NamedTuple):
    """Sentences and tables under a title.

    ``folded`` tables with their titles, and the ``meanings`` of names, are only on pages. A
    terminal (``rendering.terminal.sections_text``) leaves them out.
    """

    title: str
    sentence: str = ""
    note: str = ""
    warnings: Sequence[str] = ()
    tables: Sequence[Table] = ()
    folded: Sequence[tuple[str, Table]] = ()
    meanings: Sequence[tuple[str, str]] = ()


def plain_table(names: Iterable[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Return a table whose columns have only names, as in a file."""
    return Table([Column(name) for name in names], list(rows))


def csv_line(cells: Sequence[Any]) -> str:
    """Return one line of CSV."""
    part = io.StringIO()
    # The csv module quotes a carriage return only if its own lines end in one.
    csv.writer(part, lineterminator="\r\n").writerow(map(_escape_formula, cells))
    return part.getvalue().removesuffix("\r\n") + "\n"


def _escape_formula(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would compute as a formula."""
    cell = cell.value if isinstance(cell, Cell) else cell
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell
