"""``limelight predict``."""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from rich.table import Table
from rich.text import Text

from limelight.cli.console import output_console
from limelight.cli.options import ModelOptions
from limelight.cli.output import write
from limelight.cli.texts import TextOptions
from limelight.errors import about_text
from limelight.models import Model, class_probabilities
from limelight.models.protocol import document_by
from limelight.pages.pieces import visible
from limelight.pages.wording import percent
from limelight.shapes import Float
from limelight.text import Document, Given

_TOGETHER = 64  # texts


def predict(
    *text: str,
    texts: TextOptions = TextOptions(),  # noqa: B008  (it is frozen)
    model: ModelOptions = ModelOptions(),  # noqa: B008
    format: Literal["terminal", "json"] = "terminal",
) -> None:
    """Say which class the model gives to each text, and how sure it is.

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


def predictions(model: Model, texts: Sequence[Given]) -> list[dict[str, Any]]:
    """Return class, logits, probability and notices of every text, ready for JSON."""
    documents = []
    for number, text in enumerate(texts):
        with about_text(number if len(texts) > 1 else None):
            documents.append(document_by(model, text))
    logits = model.outputs(documents)
    chances = None if model.link == "none" else class_probabilities(logits, model.link)
    return [
        _row(model.classes, document, logits[i], None if chances is None else chances[i])
        for i, document in enumerate(documents)
    ]


def _row(
    classes: tuple[str, ...],
    document: Document,
    logits: Float[np.ndarray, " C"],
    chances: Float[np.ndarray, " classes"] | None,
) -> dict[str, Any]:
    """One prediction; the class and the probability of a score are None."""
    named = classes[-len(logits) :]  # a single output is the logit of the second class
    best = None if chances is None else int(np.argmax(chances))
    return {
        "text": document.text,
        **({"parts": document.parts} if document.parts else {}),
        "class": None if best is None else classes[best],
        "probability": None if chances is None else float(chances.max()),
        "logits": dict(zip(named, map(float, logits), strict=True)),
        "probabilities": {}
        if chances is None
        else dict(zip(classes, map(float, chances), strict=True)),
        "notices": list(document.notices),
    }


def _table(rows: list[dict[str, Any]], *, header: bool = True) -> Table:
    table = Table(box=None, pad_edge=False, show_header=header)
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
