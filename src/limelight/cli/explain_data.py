"""``limelight explain-data``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

import limelight
from limelight.cli.console import output_console, parse_settings, print_stderr, track_run
from limelight.cli.groups import BUDGET, INPUT, OUTPUT, TARGET, WORKERS
from limelight.cli.options import (
    DATA_HELP,
    AnswerColumn,
    DocumentsColumn,
    LabelColumn,
    MessagesColumn,
    Method,
    MethodSettings,
    ModelOptions,
    OutputFile,
    PairColumn,
    RequestOptions,
    TextColumn,
    WholeNumberOrNone,
    convert_numbers,
    split_names,
)
from limelight.errors import InputError

if TYPE_CHECKING:
    from limelight.runs import Run


def explain_data(
    *file: Annotated[
        Path, Parameter(group=INPUT, required=True, help=f"{DATA_HELP} Repeat for more files.")
    ],
    output: OutputFile,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    id_column: Annotated[str | None, Parameter(group=INPUT)] = None,
    label_column: LabelColumn = None,
    at_column: Annotated[str | None, Parameter(group=INPUT)] = None,
    answer_column: AnswerColumn = None,
    documents_column: DocumentsColumn = None,
    messages_column: MessagesColumn = None,
    limit: Annotated[WholeNumberOrNone, Parameter(group=INPUT)] = None,
    model: ModelOptions = ModelOptions(),  # noqa: B008  (it is frozen)
    each: Annotated[Literal["class", "sentence"] | None, Parameter(group=TARGET)] = None,
    request: RequestOptions = RequestOptions(),  # noqa: B008
    method: Method = None,
    set: MethodSettings = (),
    budget: Annotated[str | None, Parameter(group=BUDGET)] = None,
    engine: Annotated[Literal["pool", "here", "ray"] | None, Parameter(group=WORKERS)] = None,
    workers: Annotated[WholeNumberOrNone, Parameter(group=WORKERS)] = None,
    gpus_per_worker: Annotated[float, Parameter(group=WORKERS)] = 0.0,
    address: Annotated[str | None, Parameter(group=WORKERS)] = None,
    shard_texts: Annotated[WholeNumberOrNone, Parameter(group=WORKERS)] = None,
    retry: Annotated[bool, Parameter(group=WORKERS)] = False,
    no_texts: Annotated[bool, Parameter(group=OUTPUT)] = False,
    counterfactual: Annotated[bool, Parameter(group=OUTPUT)] = False,
    log: Annotated[Literal["json"] | None, Parameter(group=OUTPUT)] = None,
) -> None:
    """Explain every text of a data set and store the explanations in a folder.

    If the command was interrupted, run the same command again to continue.

    Parameters
    ----------
    output
        Folder for the explanations. If the command was interrupted, run it again to continue.
    id_column
        Column of the ids. Default: a column with a common name, such as "id", otherwise the number
        of the row.
    at_column
        Models that find spans: column of the span to explain, as its words or START:END. Default:
        every span that the model finds.
    limit
        Explain only the first texts, up to this number. Default: all texts.
    each
        Explain more than one target per text: every class, or every sentence of the answer of a
        language model.
    method
        Name of the method, or several names separated by commas, as in "limelight methods".
        Default: lime if it is exact for the model, banzhaf for answers, otherwise shapley.
    budget
        Limit per text, as a number of model calls ("400 calls"), shared by all methods. Methods
        that sample choose their sample size to fit.
    engine
        "pool" uses processes on this machine, "here" uses this process, and "ray" uses a Ray
        cluster. Default: "here" if the model is on a GPU, otherwise "pool".
    workers
        Number of worker processes. Default: one per core, or as many as the Ray cluster can run.
    gpus_per_worker
        With --engine ray: GPUs for each worker, such as 1 or 0.5.
    address
        With --engine ray: address of the cluster, or "auto". Default: a new cluster on this
        machine.
    shard_texts
        Texts per shard, which is one file of results. If a worker stops, only its shard is
        explained again. Default: at most 1,000.
    retry
        Try again the texts that failed in an earlier call.
    no_texts
        Do not store the texts. The folder then contains their hashes and explanations.
    counterfactual
        Also store the smallest set of words whose removal changes the prediction of each text.
        "limelight summarize" then counts the texts that depend on a single word.
    log
        "json": write one line of JSON per finished shard to standard error, instead of a progress
        bar.
    """
    keywords = request.keywords(each)
    if documents_column is not None or messages_column is not None:
        keywords["protect"] = convert_numbers(keywords["protect"])
    loaded_model = model.load(labeled=True)
    methods = split_names(method)
    with track_run(output, log) as progress:
        run = limelight.explain_data(
            loaded_model,
            list(file),
            methods if methods is None or len(methods) > 1 else methods[0],
            output=output,
            all_classes=each == "class",
            sentences=each == "sentence",
            **keywords,
            text_column=text_column,
            pair_column=pair_column,
            id_column=id_column,
            label_column=label_column,
            at_column=at_column,
            answer_column=answer_column,
            documents_column=documents_column,
            messages_column=messages_column,
            limit=limit,
            labels=model.data_labels,
            budget=budget,
            shard_texts=shard_texts,
            retry=retry,
            store_texts=not no_texts,
            counterfactual=counterfactual,
            progress=progress,
            **_select_workers(engine, workers, gpus_per_worker, address, model.device),
            **parse_settings(set, limelight.explain_data),
        )
    _print_summary(run)


def _select_workers(
    engine: str | None,
    workers: int | None,
    gpus_per_worker: float,
    address: str | None,
    device: str | None,
) -> dict[str, Any]:
    """Return the keywords ``executor`` and ``workers`` of :func:`limelight.explain_data`."""
    engine = engine or ("here" if _is_on_gpu(device) else "pool")
    if engine != "ray" and (gpus_per_worker or address is not None):
        raise InputError("--address and --gpus-per-worker need --engine ray.")
    if engine == "here":
        if workers not in (None, 1):
            raise InputError(f"--engine here has one worker, not {workers}. Leave --workers out.")
        return {}
    if engine == "ray":
        from limelight.runs import RayActors

        return {"executor": RayActors(workers, address=address, gpus_per_worker=gpus_per_worker)}
    from limelight.runs.engines import usable_cores

    return {"workers": usable_cores() if workers is None else workers}


def _is_on_gpu(device: str | None) -> bool:
    """Return whether the loaded model is on a GPU, where one process is the fastest."""
    if device is not None:
        return not device.startswith("cpu")
    torch = sys.modules.get("torch")  # an AttentionClassifier on the CPU does not import torch
    return torch is not None and bool(torch.cuda.is_available())


def _print_summary(run: "Run") -> None:
    """Print how many texts were explained, and where the explanations are.

    Raises InputError if no text could be explained.
    """
    failed, rows = run.failed, len(run) * run.record.rows_per_text
    if failed:
        (first, *_) = run.errors().column("error").to_pylist()
        if failed == rows:
            raise InputError(f"none of the {len(run):,} texts could be explained: {first}")
        print_stderr(
            f"{failed:,} of {rows:,} rows {'has' if failed == 1 else 'have'} an error instead of "
            f"scores, the first: {first} Try again with --retry."
        )
    sentence = f"{len(run):,} texts, {', '.join(run.methods)}: '{run.path}'"
    output_console().print(sentence, soft_wrap=True)
