"""``limelight evaluate``."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from limelight.cli.console import ProgressShown, error_console, output_console
from limelight.cli.options import chosen_model


def evaluate(
    *,
    data: Annotated[Path, Parameter(name=["--data", "-d"])],
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    model: Path | None = None,
    device: str | None = None,
    template: str | None = None,
    labels: str | None = None,
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
    text_column
        Column of the texts; by default one of a usual name, such as "text" or "review".
    pair_column
        Column of the second texts, where a text is a pair; two columns of usual names, such as
        "premise" and "hypothesis", are found without.
    label_column
        Column of the labels; by default one of a usual name, such as "label" or "class".
    model
        Folder of the model, ours or a Hugging Face classifier, or "hub:owner/name"; the IMDB
        sentiment model that comes with the package if none is given.
    device
        Where to compute, as torch names it, such as "cuda".
    template
        With a causal language model: what it is asked, with {text} in it, or a list of chat
        messages as JSON.
    labels
        The word that stands for each class there, as in negative=bad,positive=good.
    format
        Tables for people, or one JSON object for programs.
    """
    from limelight import data as datasets

    classifier = chosen_model(model, device, template, labels)
    texts = datasets.read_labelled(
        data,
        classifier.classes,
        part="test",
        text_column=text_column,
        pair_column=pair_column,
        label_column=label_column,
    )
    with ProgressShown("evaluating") as progress:
        evaluation = datasets.evaluate(classifier, texts, progress=progress)
    result = evaluation.to_dict()
    if format == "json":
        print(json.dumps({**result, "model": classifier.fingerprint}, ensure_ascii=False))
    else:
        _show(result, classifier.classes)
    for notice in evaluation.notices:
        error_console().print(notice, markup=False, highlight=False)


def _show(result: dict[str, Any], classes: tuple[str, ...]) -> None:
    console = output_console()
    low, high = result["interval_95"]
    speed = result["texts_per_second"]
    console.print(
        f"accuracy {result['accuracy']:.2%}, 95 % interval {low:.2%} to {high:.2%}, "
        f"{result['texts']} texts\n"
        f"{result['seconds']:.1f} s, {speed:.0f} texts per second\n",
        markup=False,
    )
    table = Table(box=None, pad_edge=False)
    for title in ("class", "texts", "precision", "recall", *(f"as {name}" for name in classes)):
        table.add_column(Text(title), justify="left" if title == "class" else "right")
    for entry, given in zip(result["classes"], result["confusion"], strict=True):
        shares = (_percent(entry[name]) for name in ("precision", "recall"))
        table.add_row(Text(entry["class"]), str(entry["count"]), *shares, *map(str, given))
    console.print(table)


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{share:.2%}"
