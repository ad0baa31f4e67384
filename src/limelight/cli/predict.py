"""``limelight predict``."""

import itertools
import json
from collections.abc import Iterator
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from limelight.cli.console import output_console
from limelight.cli.options import ModelOptions
from limelight.cli.output import write
from limelight.cli.texts import TextOptions
from limelight.pages.pieces import visible
from limelight.pages.wording import percent
from limelight.verbs import predictions

_TOGETHER = 64  # texts


def predict(
    *text: str,
    texts: TextOptions = TextOptions(),  # noqa: B008  (it is frozen)
    model: ModelOptions = ModelOptions(),  # noqa: B008
    format: Literal["terminal", "json"] = "terminal",
) -> None:
    """Say which class the model gives to each text, which spans it finds, or what it answers.

    Parameters
    ----------
    text
        Texts to classify, each one argument; "-" reads standard input.
    format
        A table for people, or one JSON object per line for programs.
    """
    texts.check()
    classifier = model.load()
    answers = texts.answers(
        text,
        lambda some: predictions(classifier, some),
        notices=lambda row: row["notices"],
        together=_TOGETHER,
    )
    if format == "json":
        write((json.dumps(row, ensure_ascii=False) + "\n" for _, row in answers), None)
    else:
        _show(row for _, row in answers)
    answers.finish(said=format == "json")


def _show(rows: Iterator[dict[str, Any]]) -> None:
    """Print tables of some rows at a time, the first with a header."""
    done = 0
    while chunk := list(itertools.islice(rows, _TOGETHER)):
        output_console().print(_table(chunk, header=not done))
        done += len(chunk)


def _table(rows: list[dict[str, Any]], *, header: bool = True) -> Table:
    table = Table(box=None, pad_edge=False, show_header=header)
    if "spans" in rows[0]:
        return _span_table(table, rows)
    if "answer" in rows[0]:
        table.add_column("log-probability", justify="right", no_wrap=True, min_width=15)
        table.add_column("answer", ratio=1)
        table.add_column("text", ratio=1)
        for row in rows:
            text = Text(visible(" ".join(row["text"].split())), no_wrap=True, overflow="ellipsis")
            table.add_row(f"{row['log_probability']:.3f}", Text(visible(row["answer"])), text)
        return table
    sure = rows[0]["probability"] is not None  # else there are scores and nothing more
    if sure:
        widest = max(len(visible(name)) for name in ("class", *rows[0]["probabilities"]))
        table.add_column("class", no_wrap=True, min_width=widest)
        table.add_column("probability", justify="right", no_wrap=True, min_width=11)
    named = list(rows[0]["logits"])
    for name in named:
        title = f"logit of {name}" if len(named) == 1 and sure else name
        width = max(len(visible(title)), len("-12.345"))  # every table alike
        table.add_column(Text(visible(title)), justify="right", no_wrap=True, min_width=width)
    table.add_column("text", ratio=1)  # the only one that gives way on a narrow terminal
    for row in rows:
        numbers = [f"{logit:+.3f}" for logit in row["logits"].values()]
        line = visible(" ".join(row["text"].split()))
        shown = Text(line, no_wrap=True, overflow="ellipsis")  # never parsed as markup
        known = [visible(row["class"]), percent(row["probability"])] if sure else []
        table.add_row(*map(Text, known), *numbers, shown)
    return table


def _span_table(table: Table, rows: list[dict[str, Any]]) -> Table:
    """One line for every span, with its number in its text."""
    for name in ("span", "place", "tag", "score"):
        justify: Literal["left", "right"] = "left" if name == "tag" else "right"
        table.add_column(name, justify=justify, no_wrap=True)
    table.add_column("words")
    table.add_column("text", ratio=1)
    for row in rows:
        line = Text(visible(" ".join(row["text"].split())), no_wrap=True, overflow="ellipsis")
        for i, one in enumerate(row["spans"]):
            place = f"{one['start']}:{one['end']}"
            cells = (str(i), place, one["tag"], f"{one['score']:.3f}", one["text"])
            table.add_row(*(Text(visible(cell)) for cell in cells), line)
        if not row["spans"]:
            table.add_row("", "", "no span", "", "", line)
    return table
