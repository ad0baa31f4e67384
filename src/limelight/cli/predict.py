"""``limelight predict`` and ``limelight evaluate``."""

import itertools
import json
from typing import Any

from limelight.cli.console import output_console, print_stderr, show_progress, write_strings
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

_BATCH_SIZE = 64


def predict(
    *text: Argument,
    texts: TextOptions = TextOptions(),  # noqa: B008  (it is frozen)
    model: ModelOptions = ModelOptions(),  # noqa: B008
    format: Format = "terminal",
) -> None:
    """Predict the class of each text, its spans, or the answer of a language model."""
    texts.check()
    classifier = model.load()
    results = texts.compute_results(
        text,
        lambda batch: predict_rows(classifier, batch),
        list_warnings=lambda row: row["warnings"],
        batch_size=_BATCH_SIZE,
    )
    if format == "json":
        write_strings((json.dumps(row, ensure_ascii=False) + "\n" for _, row in results), None)
    else:
        rows = (row for _, row in results)
        # Print a table for each batch, as soon as it is computed.
        while batch := list(itertools.islice(rows, _BATCH_SIZE)):
            output_console().print(table_view(_prediction_table(batch)))
    results.finish(has_warnings=format == "json")


def _prediction_table(rows: list[dict[str, Any]]) -> Table:
    """Return a table with a row for each text, or for each span that the model finds."""
    if "spans" in rows[0]:
        spans: list[tuple[Any, ...]] = []
        for row in rows:
            spans += [
                (
                    i,
                    f"{span['start']}:{span['end']}",
                    span["tag"],
                    span["score"],
                    span["text"],
                    row["text"],
                )
                for i, span in enumerate(row["spans"])
            ] or [(None, None, "no span", None, None, row["text"])]
        numbers = (Column("span", "d"), Column("place", "s"), Column("tag"), Column("score", ".3f"))
        return Table((*numbers, Column("words", fold=True), Column("text")), spans)
    if "answer" in rows[0]:
        heads = (Column("log-probability", ".3f"), Column("answer", fold=True), Column("text"))
        answers = [(row["log_probability"], row["answer"], row["text"]) for row in rows]
        return Table(heads, answers)
    has_probability = rows[0]["probability"] is not None  # otherwise the model returns scores only
    outputs = list(rows[0]["logits"])
    is_single_logit = len(outputs) == 1 and has_probability
    columns = [
        *([Column("class"), Column("probability", format_percent)] if has_probability else []),
        *(Column(f"logit of {name}" if is_single_logit else name, "+.3f") for name in outputs),
        Column("text"),  # the last column is cut on a narrow terminal
    ]
    first = ("class", "probability") if has_probability else ()
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

    The table shows the accuracy with its 95 % Wilson interval. The speed does not include the time
    to load the file and the model. For the aclImdb folder, the test reviews are used.
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
        print_stderr(warning)


def _show_measures(result: dict[str, Any], classes: tuple[str, ...]) -> None:
    """Print accuracy, speed and the scores of each class as tables."""
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
        (row["class"], row["count"], row["precision"], row["recall"], *predictions)
        for row, predictions in zip(result["classes"], result["confusion"], strict=True)
    ]
    console.print(table_view(Table(columns, rows)))
