"""``limelight judge``."""

from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limelight.cli.console import parsed_settings, put_one, show_progress, tell
from limelight.cli.groups import BUDGET, FEATURES, INPUT, METHOD, OUTPUT, TARGET
from limelight.cli.options import (
    AnswerColumn,
    DataFile,
    JudgedQuestion,
    Methods,
    MethodSettings,
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
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: Annotated[str | None, Parameter(group=INPUT)] = None,
    answer_column: AnswerColumn = None,
    rationales: Annotated[str | None, Parameter(group=INPUT)] = None,
    limit: Annotated[WholeNumberOrNone, Parameter(group=INPUT)] = None,
    model: ModelOptions = ModelOptions(),  # noqa: B008  (it is frozen)
    target: Annotated[str, Parameter(name=["--target", "-t"], group=TARGET)] = "predicted",
    question: JudgedQuestion = JudgedQuestion(),  # noqa: B008
    replacement: Annotated[str, Parameter(group=FEATURES)] = "auto",
    second_replacement: Annotated[str | None, Parameter(group=FEATURES)] = None,
    methods: Methods = None,
    set: MethodSettings = (),
    columns: Annotated[str | None, Parameter(group=METHOD)] = None,
    budget: Annotated[str | None, Parameter(group=BUDGET)] = None,
    seed: Seed = 0,
    curves: Annotated[bool, Parameter(negative="--no-curves", group=OUTPUT)] = True,
    out: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Measure which methods are most faithful to a model on your texts.

    Parameters
    ----------
    label_column
        Column of the labels. The labels do not change the scores: you get a warning if they do not
        match the classes. Default: a column with a common name.
    rationales
        Column of the words that people marked as important: a list of [start, end] in characters
        per annotator, or the format of ERASER. Adds how well the methods agree with people.
    limit
        Use this number of texts, evenly spread over the file. Default: all texts.
    target
        Class to explain: a name, a number counted from 0, or "predicted".
    replacement
        What replaces a removed word, such as "mask", "unk" or "delete". "auto" is the default of
        the model.
    second_replacement
        Evaluate the same scores again with this replacement.
    methods
        Names of methods, JSON files of explanations, and folders that "limelight explain-data"
        wrote, separated by commas.
    columns
        Extra measures, separated by commas: additivity, loo_tau, stability, eraser, ferret, sanity,
        top_drop, lds; or "all" or "none". Default: the first five; for scores and answers, top_drop
        and lds instead of eraser and ferret. sanity explains every text a second time.
    budget
        Time limit for the search of the best order of the words, over all texts: 60, 60s or 10min.
        An AttentionClassifier needs no search.
    curves
        Store the deletion curves of every text for the web page. Without them the files are
        smaller.
    """
    from limelight import judging
    from limelight.data import LabeledRows, read_rationales, read_rows
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
        texts = LabeledRows(found, [] if apart else read(data).labels)
    answers = answers_in(data, answer_column, text_column=text_column, limit=limit)
    classifier = model.load(labeled=True)

    def say(ahead: object) -> None:
        said = str(ahead)
        advice = "." if budget is not None else "; --budget TIME shortens the search."
        tell(f"{said[:1].upper()}{said[1:]}{advice}")
        progress.announced = True

    with show_progress("judging") as progress:
        judgment = judging.judge(
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
    put_one(judgment, form, out.output)
