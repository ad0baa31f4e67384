"""``limelight judge``."""

from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limelight.cli.console import parsed_settings, put_one, show_progress, tell
from limelight.cli.options import (
    AnswerColumn,
    DataFile,
    JudgedQuestion,
    ModelOptions,
    OutputOptions,
    PairColumn,
    Seed,
    TextColumn,
    WholeNumberOrNone,
    names_in,
)
from limelight.cli.texts import answers_in
from limelight.errors import InputError


def judge(
    *,
    data: DataFile,
    methods: Annotated[str | None, Parameter(name=["--methods", "-m"])] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: str | None = None,
    answer_column: AnswerColumn = None,
    rationales: str | None = None,
    limit: WholeNumberOrNone = None,
    target: Annotated[str, Parameter(name=["--target", "-t"])] = "predicted",
    question: JudgedQuestion = JudgedQuestion(),  # noqa: B008  (it is frozen)
    replacement: str = "auto",
    second_replacement: str | None = None,
    columns: str | None = None,
    curves: bool = True,
    budget: str | None = None,
    seed: Seed = 0,
    set: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    model: ModelOptions = ModelOptions(),  # noqa: B008
    out: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Say which methods are faithful to a model on your texts, between chance and ceiling.

    Parameters
    ----------
    methods
        Names from "limelight methods", JSON files of stored explanations, and folders that
        "limelight explain --data" wrote, separated by commas.
    label_column
        Column of the labels; by default one of a usual name, else there are none. They take no part
        in the judgement: labels that match no class, or hardly ever the prediction, are told about.
    rationales
        The column of what people marked: lists of [start, end] in characters, one list per
        annotator where there are several, or ERASER's. Adds how plausible the methods are.
    limit
        Judge so many texts, evenly spread over the file; by default all.
    target
        Class by name or number; by default the one that is predicted for each text.
    replacement
        What stands for a removed word.
    second_replacement
        Judge the same scores once more with removed words replaced this way.
    columns
        Other measures, separated by commas: additivity, loo_tau, stability, eraser and ferret by
        default, of scores and answers top_drop and lds in their place; also sanity, for which
        everything is explained once more; "all" or "none".
    curves
        Keep the curves of every text for the page; without them the files are smaller.
    budget
        Time for the search of good orders, over all texts, where it is a search: 60, 60s or 10min.
        The paper's classifier needs none.
    set
        Setting of the methods that have it, as name=value. May be repeated.
    """
    from limelight import judging
    from limelight.data import LabelledRows, read_rationales, read_rows
    from limelight.runs import Run

    form = out.form  # refused before any work is done
    # Folders are opened here: layers below this one do not know what a run is.
    named = names_in(methods) or []
    judged = [Run(name) if name and Path(name).is_dir() else name for name in named] or None
    read = partial(read_rows, text_column=text_column, label_column=label_column, limit=limit)
    if rationales is None:
        texts, marked = read(data, pair_column=pair_column), None
    else:
        if pair_column is not None:
            raise InputError("rationales are marked in one text; leave --pair-column out.")
        found, marked = read_rationales(data, rationales, text_column=text_column, limit=limit)
        apart = rationales == "evidences"  # the texts are in files of their own
        texts = LabelledRows(found, [] if apart else read(data).labels)
    answers = answers_in(data, answer_column, text_column=text_column, limit=limit)
    classifier = model.load(labelled=True)

    def say(ahead: object) -> None:
        said = str(ahead)
        advice = "." if budget is not None else "; --budget TIME shortens the search."
        tell(f"{said[:1].upper()}{said[1:]}{advice}")
        progress.announced = True

    with show_progress("judging") as progress:
        judgement = judging.judge(
            classifier,
            texts,
            judged,
            target=target,
            **question.keywords(),
            answer=answers,
            replacement=replacement,
            second_replacement=second_replacement,
            columns=[] if columns == "none" else "all" if columns == "all" else names_in(columns),
            curves=curves,
            budget=budget,
            seed=seed,
            progress=progress,
            estimate=say,
            rationales=marked,
            labels=model.data_labels,
            **parsed_settings(set, judging.judge),
        )
    put_one(judgement, form, out.output)
