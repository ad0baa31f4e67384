"""What results do alike, and the table that a terminal, a page, CSV and a frame print."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from limelight.rendering.markup import table_html
from limelight.rendering.terminal import View, table_text
from limelight.results import (
    Citations,
    Comparison,
    Counterfactual,
    Counterfactuals,
    Explanation,
    Explanations,
)
from limelight.results.explanation import SpanExplanations
from limelight.results.judgment import Judgment
from limelight.results.method_table import MethodTable
from limelight.results.mixins import HtmlMixin, JsonMixin, TableMixin, TerminalMixin, import_member
from limelight.results.summary import RunComparison, RunSummary
from limelight.results.table import Cell, Column, Table

RESULTS = [
    Explanation, Explanations, Comparison, Counterfactual, Counterfactuals,
    Judgment, MethodTable, RunComparison, RunSummary,
    SpanExplanations, Citations,
]  # fmt: skip


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.__name__)
def test_what_a_result_names_is_there(result):
    assert issubclass(result, TerminalMixin)
    pages = [
        result._terminal,
        result._fragment,
        result._page if issubclass(result, HtmlMixin) else "",
    ]
    assert all(callable(import_member("rendering", name)) for name in pages if name)
    if issubclass(result, TableMixin):
        assert result._table is not TableMixin._table
    if issubclass(result, JsonMixin) and result is not Judgment:  # a judgment is its own record
        record = import_member("results", result._record)
        assert record.from_result
        assert record.to_result


def test_no_result_was_forgotten():
    assert subclass_names(TerminalMixin) - {"HtmlMixin"} == {result.__name__ for result in RESULTS}


def subclass_names(parent):  # names, because a class with slots exists twice
    children = parent.__subclasses__()
    return {name for child in children for name in (child.__name__, *subclass_names(child))}


TABLE = Table(
    (
        Column("name", max_letters=9, is_user_text=True),
        Column("score", "+.2f", short_heading="sc.", missing="–"),
        Column("interval", ".1f", "dim", min_width=50),
        Column(draw_width=(3, 9)),
    ),
    [
        ("<b>one\x1b", Cell(-0.125, "weak"), (0.25, 1.0), lambda n, _: Text("#" * n)),
        ("=a very long one", None, None, None),
    ],
    title="Some",
    left_out=1200,
)


def print_to_text(table, width, encoding="utf-8"):
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding=encoding), width=width)
    console.print(View(lambda _, look: [table_text(table, look)], width, None))
    console.file.flush()
    return [line.rstrip() for line in raw.getvalue().decode(encoding).splitlines()]


def test_a_terminal_prints_a_table_at_its_width():
    assert print_to_text(TABLE, 60) == [
        "Some",
        "name         sc.    interval",
        "<b>one␛    -0.12  [0.2, 1.0]  #########",
        "=a very …      –",
        "and 1,20…",
    ]
    assert print_to_text(TABLE, 30)[1:3] == ["name         sc.", "<b>one␛    -0.12  #########"]
    for width in (12, 16, 20, 25):
        assert max(map(cell_len, print_to_text(TABLE, width))) <= width


def test_a_terminal_without_unicode_prints_it_too():
    assert print_to_text(TABLE, 60, "ascii")[2] == "<b>one?    -0.12  [0.2, 1.0]  #########"


def test_a_table_names_its_columns_in_one_line():
    table = Table([Column("word"), Column("mean", "+.3f")], [("good", 0.5), ("bad", -1.0)])
    assert repr(table) == "<Table of 2 rows: word, mean>"


def test_a_page_escapes_a_table_and_keeps_its_numbers():
    page = table_html(TABLE)
    assert "<caption>Some</caption>" in page
    assert '<th scope="row"><bdi>&lt;b&gt;one␛</bdi></th>' in page
    assert '<td class="weak">−0.12</td><td class="note">[0.2, 1.0]</td></tr>' in page
    assert '<th scope="col">score</th>' in page
    assert "<td>–</td>" in page
    assert page.endswith('<p class="note">and 1,200 more</p>')


def test_rows_are_records_and_groups_by_the_names_of_columns():
    table = Table([Column("a"), Column("b")], [(1, "x"), (2, "y"), (1, "z")], title="t")
    assert table.records()[1] == {"a": 2, "b": "y"}
    groups = table.group_rows("a")
    assert {values: part.rows for values, part in groups.items()} == {
        (1,): [(1, "x"), (1, "z")],
        (2,): [(2, "y")],
    }
    assert {part.title for part in groups.values()} == {"t"}


def test_files_get_the_values_as_they_are():
    table = Table(TABLE.columns[:2], [row[:2] for row in TABLE.rows])
    assert table.to_csv() == "name,score\n<b>one\x1b,-0.125\n'=a very long one,\n"
    assert table.to_csv(header=False).count("\n") == 2
