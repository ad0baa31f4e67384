"""``limelight predict`` and ``limelight evaluate``."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from limelight.cli.console import ProgressShown, output_console, tell, write
from limelight.cli.options import (
    LabelColumn,
    LabelledModelOptions,
    ModelOptions,
    PairColumn,
    TableOrJson,
    TextColumn,
)
from limelight.cli.texts import TextOptions
from limelight.pages.pieces import visible
from limelight.pages.terminal import shown_table
from limelight.pages.wording import percent
from limelight.results.table import Column
from limelight.results.table import Table as ResultTable
from limelight.verbs import predictions

_TOGETHER = 64  # texts


def predict(
    *text: str,
    texts: TextOptions = TextOptions(),  # noqa: B008  (it is frozen)
    model: ModelOptions = ModelOptions(),  # noqa: B008
    format: TableOrJson = "terminal",
) -> None:
    """Say which class the model gives to each text, which spans it finds, or what it answers.

    Parameters
    ----------
    text
        Texts to classify, each one argument; "-" reads standard input.
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
            answer = Text(visible(row["answer"]))
            table.add_row(f"{row['log_probability']:.3f}", answer, _line(row))
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
        known = [visible(row["class"]), percent(row["probability"])] if sure else []
        table.add_row(*map(Text, known), *numbers, _line(row))
    return table


def _line(row: dict[str, Any]) -> Text:
    """Return a text on one line, never parsed as markup."""
    return Text(visible(" ".join(row["text"].split())), no_wrap=True, overflow="ellipsis")


def _span_table(table: Table, rows: list[dict[str, Any]]) -> Table:
    """One line for every span, with its number in its text."""
    for name in ("span", "place", "tag", "score"):
        justify: Literal["left", "right"] = "left" if name == "tag" else "right"
        table.add_column(name, justify=justify, no_wrap=True)
    table.add_column("words")
    table.add_column("text", ratio=1)
    for row in rows:
        for i, one in enumerate(row["spans"]):
            place = f"{one['start']}:{one['end']}"
            cells = (str(i), place, one["tag"], f"{one['score']:.3f}", one["text"])
            table.add_row(*(Text(visible(cell)) for cell in cells), _line(row))
        if not row["spans"]:
            table.add_row("", "", "no span", "", "", _line(row))
    return table


def evaluate(
    *,
    data: Annotated[Path, Parameter(name=["--data", "-d"])],
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    model: LabelledModelOptions = LabelledModelOptions(),  # noqa: B008  (it is frozen)
    format: TableOrJson = "terminal",
) -> None:
    """Measure a model on labelled texts.

    Accuracy comes with its 95 % Wilson interval; the time is that of reading, tokenising and
    classifying the texts, without the time to load file and model.

    Parameters
    ----------
    data
        File of texts and labels (.parquet, .csv, .tsv, .jsonl, the last three also .gz), a folder
        of them, or the aclImdb folder, of which the test reviews are taken.
    """
    from limelight import data as datasets

    classifier = model.load(labelled=True)
    texts = datasets.read_labelled(
        data,
        classifier.classes,
        part="test",
        text_column=text_column,
        pair_column=pair_column,
        label_column=label_column,
        labels=model.data_labels,
    )
    with ProgressShown("evaluating") as progress:
        evaluation = datasets.evaluate(classifier, texts, progress=progress)
    result = evaluation.to_dict()
    if format == "json":
        print(json.dumps({**result, "model": classifier.fingerprint}, ensure_ascii=False))
    else:
        _show_measures(result, classifier.classes)
    for notice in evaluation.notices:
        tell(notice)


def _show_measures(result: dict[str, Any], classes: tuple[str, ...]) -> None:
    console = output_console()
    low, high = result["interval_95"]
    counts = (f"{result[name]:.0f}" for name in ("texts", "texts_per_second"))
    texts, speed = (f"{count} text{'s' * (count != '1')}" for count in counts)
    console.print(
        f"accuracy {result['accuracy']:.2%}, 95 % interval {low:.2%} to {high:.2%}, {texts}\n"
        f"{result['seconds']:.1f} s, {speed} per second\n"
    )
    columns = [
        Column("class", fold=True),
        Column("texts", "d"),
        *(Column(name, ".2%", missing="none", wide=50) for name in ("precision", "recall")),
        *(Column(f"as {name}", "d") for name in classes),
    ]
    rows = [
        (one["class"], one["count"], one["precision"], one["recall"], *given)
        for one, given in zip(result["classes"], result["confusion"], strict=True)
    ]
    console.print(shown_table(ResultTable(columns, rows)))
