"""``limelight judge``."""

__all__ = ["judge"]

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limelight.cli.question import number_or_name
from limelight.cli.result import (
    FIGURES,
    chosen_format,
    parsed_settings,
    progress_shown,
    show,
    write,
)
from limelight.errors import InputError
from limelight.models import load


def judge(
    *,
    data: Annotated[Path, Parameter(name=["--data", "-d"])],
    methods: Annotated[str | None, Parameter(name=["--methods", "-m"])] = None,
    text_column: str = "text",
    rationales: str | None = None,
    limit: int | None = None,
    target: Annotated[str, Parameter(name=["--target", "-t"])] = "predicted",
    scale: str = "logit",
    replacement: str = "auto",
    budget: float | None = None,
    seed: int = 0,
    set: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    model: Path | None = None,
    device: str | None = None,
    format: str | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
) -> None:
    """Say which methods are faithful to a model on your texts, between chance and ceiling.

    Parameters
    ----------
    data
        File of texts: .parquet, .csv, .jsonl, the last two also .gz.
    methods
        Names from "limelight methods" and JSON files of stored explanations, with commas.
    text_column
        The column that holds the texts.
    rationales
        The column of what people marked: lists of [start, end] in characters, one list per
        annotator where there are several, or ERASER's. Adds how plausible the methods are.
    limit
        Judge so many texts, evenly spread over the file; by default all.
    target
        Class by name or number; by default the one that is predicted for each text.
    scale
        Judge by the "logit" of the class or by its "probability".
    replacement
        What stands for a removed word.
    budget
        Seconds for the search of good orders on models that have to be asked.
    seed
        Same seed, same judgement.
    set
        Setting of the methods that have it, as name=value. May be repeated.
    model
        Folder of the model, or "hub:owner/name"; the IMDB model of the package if none is given.
    device
        Where to compute, as torch names it, such as "cuda".
    format
        "terminal", "json", "csv" or "html"; by default what the name of the output file says.
    output
        Write to this file instead of standard output.
    """
    from limelight import judging
    from limelight.datasets import read_rationales
    from limelight.datasets.texts_of_file import texts_of_file

    form = chosen_format(format, output)
    if form in FIGURES:
        raise InputError(f"a judgement is not drawn as {form}; write .html, .json or .csv.")
    names = None if methods is None else [name.strip() for name in methods.split(",")]
    marked = None
    if rationales is None:
        texts = texts_of_file(data, text_column, limit=limit)
    else:
        texts, marked = read_rationales(data, rationales, text_column=text_column, limit=limit)
    classifier = load(model, device=device)
    with progress_shown() as progress:
        found = judging.judge(
            classifier,
            texts,
            names,
            target=number_or_name(target) or target,
            scale=scale,
            replacement=replacement,
            budget=budget,
            seed=seed,
            progress=progress,
            rationales=marked,
            **parsed_settings(set),
        )
    match form:
        case "json":
            write([found.to_json() + "\n"], output)
        case "csv":
            write([found.to_csv()], output)
        case "html":
            write([found.as_html()], output)
        case _:
            show([found], output)
