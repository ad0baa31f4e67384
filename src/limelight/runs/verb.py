"""Explain a whole data set, and go on where it was left."""

import os
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Unpack

from limelight.data.columns import opened_data
from limelight.errors import InputError
from limelight.explainers.budget import BudgetGiven
from limelight.models import Model, checked_model
from limelight.models.loading import ModelSource, source_of
from limelight.question import Asked, Settings, spelled_out, split
from limelight.runs.engines import GivenExecutor, SpawnedProcesses, ThisProcess, usable_cores
from limelight.runs.estimate import Meter, Watcher
from limelight.runs.job import RunJob, plan_run
from limelight.runs.run import Run, RunFolder
from limelight.runs.work import Engine, ShardWork, finished_by


class DataKeywords(Asked, Settings, total=False):
    """What may be given by name: the question, and settings of the methods."""


@spelled_out()
def explain_data(
    model: Model,
    data: Any,
    method: str | object | Sequence[str | object] | None = None,
    *,
    output: str | os.PathLike[str],
    all_classes: bool = False,
    text_column: str | None = None,
    pair_column: str | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    budget: BudgetGiven | None = None,
    texts_kept: bool = True,
    limit: int | None = None,
    shard_texts: int | None = None,
    executor: Executor | Engine | None = None,
    workers: int | None = None,
    retry: bool = False,
    progress: Watcher | None = None,
    **settings: Unpack[DataKeywords],
) -> Run:
    """Explain every text of a data set and store the explanations in a folder.

    Called again, it does what is missing there; a run that was killed at any moment ends up equal
    to one that was not. Another model, method or data set in the same folder is refused.

    Parameters
    ----------
    model
        What :func:`limelight.load` or :func:`limelight.wrap` returns.
    data
        The path of a .parquet, .csv, .tsv or .jsonl file (the last three also .gz), a list of
        them, a folder of them, or a table in memory: {"text": [...]}, an Arrow table, a pandas or
        polars frame, a ``datasets.Dataset``, or a list of texts or of pairs.
    method
        A method, or a list of several, which share what is computed of a text; by default that of
        :func:`limelight.explain`.
    output
        The folder of the run.
    target
        Class by name or index, or "predicted"; by default the last of two, else the predicted one.
    against
        Class that the target is held against, by name or index: the difference is explained.
    all_classes
        Explain every class of the model, one row each.
    features
        As :func:`limelight.explain` takes them; ``scale``, ``protect``, ``side`` and
        ``window`` too.
    text_column
        The column of the texts; by default one of a usual name, such as "text" or "review".
    pair_column
        The column of the second texts, where a text is a pair. Two columns of usual names, such as
        "premise" and "hypothesis", are found without.
    id_column
        The column of ids; by default one of a usual name, else the number of the row.
    label_column
        The column of labels; by default one of a usual name, else there are none.
    budget
        Calls of the model that all methods together may spend on each text, such as "400 calls",
        as :func:`limelight.compare` spends them. A time is refused: what it allows depends on the
        machine, and a run does not.
    texts_kept
        Store the texts with their explanations.
    limit
        Explain so many rows, the first ones; by default all.
    shard_texts
        Texts in a shard; by default 1,000, and fewer where a text costs many calls of the model.
    executor
        Where to compute: a :class:`concurrent.futures.Executor` (a thread pool, dask, MPI, Slurm)
        or :class:`limelight.runs.RayActors`; by default in this process.
    workers
        New processes on this machine, if there is no executor, else shards in flight there. A
        model that travels must have been loaded from a path: live models and functions do not.
    retry
        Try those texts again that failed.
    progress
        Called with a :class:`limelight.runs.RunProgress` for every few texts.
    settings
        Settings of the methods, such as ``tolerance``.
    """
    checked_model(model)
    question, own = split(settings, all_classes=all_classes)
    opened = opened_data(data, text=text_column, id=id_column, label=label_column, pair=pair_column)
    record = plan_run(
        model,
        opened,
        method,
        own,
        question,
        budget=budget,
        texts_kept=texts_kept,
        limit=limit,
        shard_texts=shard_texts,
    )
    work, source, folder = ShardWork(model, record), source_of(model), RunFolder(output)
    _check_workers(workers)
    with folder.locked():
        folder.begin(record)
        job = RunJob(folder=folder, record=record, data=opened, retry=retry)
        meter = job.meter(progress)
        engine = _engine(executor, workers if len(job.to_do) > 1 else None, work, source, meter)
        job.do(engine, work, source, meter)
    return Run(output)


def _engine(
    executor: Executor | Engine | None,
    workers: int | None,
    work: ShardWork,
    source: ModelSource | None,
    meter: Meter,
) -> Engine:
    if executor is None and workers in (None, 1):
        return ThisProcess(work, meter.heard)
    if isinstance(executor, ThreadPoolExecutor):
        return GivenExecutor(executor, workers or usable_cores(), partial(finished_by, work))
    if source is None:
        raise InputError(
            "other processes need a model that was loaded from a path, with limelight.load; this "
            "one is in memory only. Leave executor and workers out to compute in this process."
        )
    if executor is None:
        return SpawnedProcesses(workers or usable_cores())
    if isinstance(executor, Executor):
        return GivenExecutor(executor, workers or usable_cores())
    return executor


def _check_workers(workers: int | None) -> None:
    if workers is not None and (isinstance(workers, bool) or workers < 1):
        raise InputError(f"workers must be a whole number from 1; got {workers!r}.")
