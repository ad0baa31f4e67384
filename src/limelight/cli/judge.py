"""``limelight judge``."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from limelight.cli.console import parse_settings, print_stderr, show_progress, write_result
from limelight.cli.groups import BUDGET, FEATURES, INPUT, METHOD, OUTPUT, TARGET
from limelight.cli.options import (
    AnswerColumn,
    DataFile,
    DocumentsColumn,
    MessagesColumn,
    Methods,
    MethodSettings,
    ModelOptions,
    OutputOptions,
    PairColumn,
    RequestOptions,
    Seed,
    TextColumn,
    WholeNumberOrNone,
    make_request_options,
    split_names,
)
from limelight.cli.texts import read_answers
from limelight.errors import InputError

_FIELDS = ("scale", "features", "grid", "window", "side")


@Parameter(name="*")
class JudgeRequestOptions(make_request_options(_FIELDS)):  # type: ignore[misc]
    """Select the scale and the features of a judgment; it has its own target and answers."""

    keywords = RequestOptions.keywords


def judge(
    *,
    data: DataFile,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: Annotated[str | None, Parameter(group=INPUT)] = None,
    answer_column: AnswerColumn = None,
    documents_column: DocumentsColumn = None,
    messages_column: MessagesColumn = None,
    rationales: Annotated[str | None, Parameter(group=INPUT)] = None,
    limit: Annotated[WholeNumberOrNone, Parameter(group=INPUT)] = None,
    model: ModelOptions = ModelOptions(),  # noqa: B008  (it is frozen)
    target: Annotated[str, Parameter(name=["--target", "-t"], group=TARGET)] = "predicted",
    request: JudgeRequestOptions = JudgeRequestOptions(),  # noqa: B008
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
        top_drop and lds. You can also give "all" or "none". Default: the first five. For scores and
        answers, top_drop and lds replace eraser and ferret. sanity explains every text twice.
    budget
        Number of model calls, such as "5000 calls": as many texts are judged as it allows, and at
        least ten. Default: about five minutes. A time, such as 60, 60s or 10min, limits instead the
        search of the best order of the words, over all texts.
    curves
        Store the deletion curves of every text for the web page. Without them the files are
        smaller.
    """
    from limelight import judging
    from limelight.data import LabeledRows, read_rationales, read_rows
    from limelight.runs import Run

    form = out.form  # an invalid format is an error before any computation
    # Open folders of explanations here, because `judging` is a layer below `runs`.
    names = split_names(methods) or []
    judged_methods = [Run(name) if name and Path(name).is_dir() else name for name in names]
    columns_of_texts: dict[str, Any] = {
        "text_column": text_column,
        "documents_column": documents_column,
        "messages_column": messages_column,
        "limit": limit,
    }

    def read(**columns: Any) -> LabeledRows:
        """Read the texts with their labels."""
        return read_rows(data, label_column=label_column, **columns_of_texts, **columns)

    if rationales is None:
        texts, marked = read(pair_column=pair_column), None
    else:
        for option, column in (
            ("--pair-column", pair_column),
            ("--documents-column", documents_column),
            ("--messages-column", messages_column),
        ):
            if column is not None:
                raise InputError(f"rationales need single texts. Leave {option} out.")
        rows, marked = read_rationales(data, rationales, text_column=text_column, limit=limit)
        is_eraser = rationales == "evidences"  # ERASER stores the texts in separate files
        texts = LabeledRows(rows, [] if is_eraser else read().labels)
    answers = read_answers(data, answer_column, **columns_of_texts)
    classifier = model.load(labeled=True)

    def print_estimate(estimate: object) -> None:
        """Print the estimated model calls and duration, before the judging begins."""
        sentence = str(estimate)
        advice = "" if budget is not None else ' Use --budget "5000 calls" to judge fewer texts.'
        print_stderr(f"{sentence[:1].upper()}{sentence[1:]}.{advice}")
        progress.announced = True

    with show_progress("judging") as progress:
        judgment = judging.judge(
            classifier,
            texts,
            judged_methods or None,
            target=target,
            **request.keywords(),
            answer=answers,
            replacement=replacement,
            second_replacement=second_replacement,
            columns=_parse_columns(columns),
            curves=curves,
            budget=budget,
            seed=seed,
            progress=progress,
            estimate=print_estimate,
            rationales=marked,
            labels=model.data_labels,
            **parse_settings(set, judging.judge, shared=()),
        )
    write_result(judgment, form, out.output)


def _parse_columns(columns: str | None) -> list[str] | Literal["all"] | None:
    """Parse the names of columns: "none" gives an empty list, and "all" stays."""
    if columns == "none":
        return []
    return "all" if columns == "all" else split_names(columns)
