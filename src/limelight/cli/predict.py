"""``limelight predict`` and ``limelight evaluate``."""

import itertools
import json
from typing import Any

from limelight.cli.console import output_console, show_progress, tell, write
from limelight.cli.options import (
    Argument,
    Format,
    LabelColumn,
    LabeledDataFile,
    ModelOptions,
    PairColumn,
    TextColumn,
)
from limelight.cli.texts import TextOptions
from limelight.models.prediction import predict_rows
from limelight.rendering.terminal import table_view
from limelight.rendering.wording import format_percent
from limelight.results.table import Column, Table

_TOGETHER = 64  # texts


def predict(
    *text: Argument,
    texts: TextOptions = TextOptions(),  # noqa: B008  (it is frozen)
    model: ModelOptions = ModelOptions(),  # noqa: B008
    format: Format = "terminal",
) -> None:
    """Predict the class of each text, its spans, or the answer of a language model."""
    texts.check()
    classifier = model.load()
    answers = texts.answers(
        text,
        lambda some: predict_rows(classifier, some),
        warnings=lambda row: row["warnings"],
        together=_TOGETHER,
    )
    if format == "json":
        write((json.dumps(row, ensure_ascii=False) + "\n" for _, row in answers), None)
    else:
        rows = (row for _, row in answers)
        while chunk := list(itertools.islice(rows, _TOGETHER)):  # as they come, each with its head
            output_console().print(table_view(_table(chunk)))
    answers.finish(said=format == "json")


def _table(rows: list[dict[str, Any]]) -> Table:
    """Return one row per text with what the model says, or one for every span that it finds."""
    if "spans" in rows[0]:
        spans: list[tuple[Any, ...]] = []
        for row in rows:
            spans += [
                (
                    i,
                    f"{one['start']}:{one['end']}",
                    one["tag"],
                    one["score"],
                    one["text"],
                    row["text"],
                )
                for i, one in enumerate(row["spans"])
            ] or [(None, None, "no span", None, None, row["text"])]
        numbers = (Column("span", "d"), Column("place", "s"), Column("tag"), Column("score", ".3f"))
        return Table((*numbers, Column("words", fold=True), Column("text")), spans)
    if "answer" in rows[0]:
        heads = (Column("log-probability", ".3f"), Column("answer", fold=True), Column("text"))
        answers = [(row["log_probability"], row["answer"], row["text"]) for row in rows]
        return Table(heads, answers)
    sure = rows[0]["probability"] is not None  # else there are scores and nothing more
    named = list(rows[0]["logits"])
    alone = len(named) == 1 and sure
    columns = [
        *([Column("class"), Column("probability", format_percent)] if sure else []),
        *(Column(f"logit of {name}" if alone else name, "+.3f") for name in named),
        Column("text"),  # the widest, which gives way on a narrow terminal
    ]
    first = ("class", "probability") if sure else ()
    table = [(*(row[name] for name in first), *row["logits"].values(), row["text"]) for row in rows]
    return Table(columns, table)


def evaluate(
    *,
    data: LabeledDataFile,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    model: ModelOptions = ModelOptions(),  # noqa: B008  (it is frozen)
    format: Format = "terminal",
) -> None:
    """Measure the accuracy and the speed of a model on labeled texts.

    Accuracy comes with its 95 % Wilson interval. The speed does not count the time to load the file
    and the model. For the aclImdb folder, the test reviews are used.
    """
    from limelight import data as datasets

    classifier = model.load(labeled=True)
    texts = datasets.read_labeled(
        data,
        classifier.classes,
        part="test",
        text_column=text_column,
        pair_column=pair_column,
        label_column=label_column,
        labels=model.data_labels,
    )
    with show_progress("evaluating") as progress:
        evaluation = datasets.evaluate(classifier, texts, progress=progress)
    result = evaluation.to_dict()
    if format == "json":
        print(json.dumps({**result, "model": classifier.fingerprint}, ensure_ascii=False))
    else:
        _show_measures(result, classifier.classes)
    for warning in evaluation.warnings:
        tell(warning)


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
        *(Column(name, ".2%", missing="none", min_width=50) for name in ("precision", "recall")),
        *(Column(f"as {name}", "d") for name in classes),
    ]
    rows = [
        (one["class"], one["count"], one["precision"], one["recall"], *given)
        for one, given in zip(result["classes"], result["confusion"], strict=True)
    ]
    console.print(table_view(Table(columns, rows)))
