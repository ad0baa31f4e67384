"""``limelight evaluate``."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from limelight.cli.console import ProgressShown, output_console, tell
from limelight.cli.options import LabelledModelOptions, PairColumn, TextColumn
from limelight.pages.terminal import shown_table
from limelight.results.table import Column, Table


def evaluate(
    *,
    data: Annotated[Path, Parameter(name=["--data", "-d"])],
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: str | None = None,
    model: LabelledModelOptions = LabelledModelOptions(),  # noqa: B008  (it is frozen)
    format: Literal["terminal", "json"] = "terminal",
) -> None:
    """Measure a model on labelled texts.

    Accuracy comes with its 95 % Wilson interval; the time is that of reading, tokenising and
    classifying the texts, without the time to load file and model.

    Parameters
    ----------
    data
        File of texts and labels (.parquet, .csv, .tsv, .jsonl, the last three also .gz), a folder
        of them, or the aclImdb folder, of which the test reviews are taken.
    label_column
        Column of the labels; by default one of a usual name, such as "label" or "class".
    format
        Tables for people, or one JSON object for programs.
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
        _show(result, classifier.classes)
    for notice in evaluation.notices:
        tell(notice)


def _show(result: dict[str, Any], classes: tuple[str, ...]) -> None:
    console = output_console()
    low, high = result["interval_95"]
    speed = result["texts_per_second"]
    console.print(
        f"accuracy {result['accuracy']:.2%}, 95 % interval {low:.2%} to {high:.2%}, "
        f"{result['texts']} texts\n"
        f"{result['seconds']:.1f} s, {speed:.0f} texts per second\n"
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
    console.print(shown_table(Table(columns, rows)))
