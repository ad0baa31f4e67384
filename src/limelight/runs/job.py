"""Explain a whole data set, and go on where it was left: the plan, and the work still to do."""

import contextlib
import io
import itertools
import multiprocessing
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from limelight import __version__
from limelight.data.columns import INPUT, DataRecord, DataSet, opened_data
from limelight.data.labels import Labels
from limelight.errors import InputError, check_count
from limelight.explainers.budget import Budget, BudgetGiven, configure_with_budget
from limelight.explainers.explaining import readings
from limelight.explainers.learned import Learned
from limelight.explainers.method import ConfiguredMethod
from limelight.models import Capability, Model, has
from limelight.models.fingerprints import model_identity, object_fingerprint, unchecked_parts
from limelight.models.functions import is_sent
from limelight.models.loading import ModelSource, source_of
from limelight.models.protocol import generation_settings
from limelight.models.queries import expand_texts
from limelight.progress import Estimate, ProgressDisplay, RunProgress
from limelight.question import Asked, Question, prepare_model, spelled_out, split
from limelight.results.values import plain_value
from limelight.runs.engines import (
    ExecutorShare,
    RayActors,
    SpawnedProcess,
    Worker,
    finished_by_workers,
    usable_cores,
)
from limelight.runs.estimate import estimate
from limelight.runs.record import SCHEMA, ModelRecord, RunRecord, ShardPlan
from limelight.runs.rows import shard_bytes, stored_names
from limelight.runs.run import Run, RunFolder
from limelight.runs.work import (
    Finished,
    ShardWork,
    Task,
    explain_shard,
    finished_by,
    method_record,
    needs_main,
    packed,
    queried_texts,
)
from limelight.setting_keywords import MethodSettings
from limelight.text import QueriedText, few_names, one_line

_FEW = 20  # texts, which are not worth an estimate
_START = 5.0  # seconds that other processes must save: twice what it takes to import everything
_Rows = Collection[int]
_Report = Callable[[RunProgress], None]


def _report_nothing(_: RunProgress) -> None:
    """Let nobody hear of a run."""


def _stored(run: Run) -> tuple[dict[int, _Rows], list[str]]:
    """Return the texts that failed, by shard, and sentences about damaged shards.

    Every shard is read: one that has rotted is done again, not found out about later.
    """
    failed, damaged = dict[int, _Rows](), list[str]()
    for number in run.shards:
        try:
            (table,) = run.tables(shards=[number])
        except InputError as error:
            damaged.append(str(error))
        else:
            bad = table.filter(pc.is_valid(table.column("error"))).column("row")
            failed[number] = frozenset(bad.to_pylist())
    return failed, damaged


def shards_to_do(
    record: RunRecord, failed: Mapping[int, _Rows], *, retry: bool
) -> dict[int, _Rows]:
    """Return the numbers of the texts to do, by shard: what is missing, and to ``retry``."""
    again = {number: rows for number, rows in failed.items() if rows and retry}
    # Ranges: no number is held for every text.
    missing = set(range(record.shards.count)) - failed.keys()
    return {number: record.texts_of(number) for number in sorted(missing)} | again


def _do(
    work: ShardWork,
    data: DataSet,
    folder: RunFolder,
    executor: Executor | RayActors | None,
    workers: int | None,
    report: _Report,
    *,
    live: bool,
    retry: bool,
) -> None:
    """Let who is given, or who pays, finish what is to do; store every shard as it comes.

    Unless the run is watched ``live``, ``report`` gets warnings and stored shards only.
    """
    run, record = Run(folder.path), work.record
    failed, damaged = _stored(run)
    to_do = shards_to_do(record, failed, retry=retry)
    count = sum(map(len, to_do.values()))
    # Those that are tried again are counted when they are through.
    kept = sum(len(rows) for number, rows in failed.items() if number not in to_do)
    stored = RunProgress(done=run.total - count, failed=kept, total=run.total)
    since = perf_counter()
    for sentence in damaged:
        report(replace(stored, notice=sentence))
    tasks = _tasks(data, record, to_do)
    if (first := next(tasks, None)) is None:
        return
    _check_question(work, first.texts)
    for doubt in (*work.doubts(first.texts), *_unchecked_warnings(work.model)):
        report(replace(stored, notice=doubt))
    # A shard is one worker's, who is here already.
    if executor is None and len(to_do) < 2:
        workers = 1
    expected = partial(estimate, work, first.texts, count=count)
    most, start = _worker(executor, workers, work, expected)
    at_once = min(most, len(to_do))
    if live and count >= _FEW:  # an estimate costs texts, which are wasted where nobody sees it
        report(stored)  # a sign of life: two texts of a slow model may take a minute
        report(replace(stored, estimate=expected(workers=at_once)))
        since = perf_counter()  # the texts of the estimate are not part of the speed

    def report_texts(texts: int, failed: int) -> None:
        # The texts of a shard that is not stored yet are not added for good: they may be lost.
        report(stored.add(texts, failed, since=since))

    tasks = itertools.chain([first], tasks)
    shards = (finished_by(work, task, report_texts if live else None) for task in tasks)
    if start is not None:
        shards = finished_by_workers(partial(start, at_once), at_once, tasks)
    with contextlib.closing(shards):  # workers end with the first error, and with an interrupt
        for shard in shards:
            if shard.refused is not None:
                # As of another model at the same path, the same for every shard to come.
                raise InputError(f"{shard.refused} What is finished is kept.")
            content = shard.content
            if shard.number in failed:
                content = _with_others(run, shard)
            folder.write(shard.number, content)
            stored = stored.add(shard.texts, shard.failed, since=since, shard=shard)
            report(stored)


def _unchecked_warnings(model: Model) -> Iterator[str]:
    """Yield a warning if a later call could go on with another function and not notice it."""
    if names := unchecked_parts(model):
        yield (
            f"limelight cannot check whether {few_names(names)} of this function changes. If it "
            "does, choose another folder, or wrap the function with another name=."
        )


def _tasks(data: DataSet, record: RunRecord, to_do: dict[int, _Rows]) -> Iterator[Task]:
    """Yield what is to do in the order of the data, whose files are read once, from the front."""
    names = [*INPUT, *stored_names(data.columns.carried)]
    for texts in data.shards(record.data, record.shards.texts, to_do):
        table = texts.rename_columns(names)  # a column of the data may be called "row", too
        number = table.column("row")[0].as_py() // record.shards.texts
        rows = pa.array(sorted(to_do[number]), pa.int64())
        # Of a shard that is tried again, only the texts that failed.
        yield Task(number, table.filter(pc.is_in(table.column("row"), rows)))


def _with_others(run: Run, shard: Finished) -> bytes:
    """Return a shard that was tried again; the texts that had not failed keep their rows."""
    (old,) = run.tables(shards=[shard.number])
    new = pq.read_table(io.BytesIO(shard.content))
    # By text, not by row: where one method failed, all of them did the text again.
    again = pc.is_in(old.column("row"), new.column("row").unique())
    rows = pa.concat_tables([old.filter(pc.invert(again)), new])
    # Arrow's sort is stable: the rows of a text keep the order of its methods.
    return shard_bytes(rows.sort_by("row").combine_chunks())


def _check_question(work: ShardWork, texts: pa.Table) -> None:
    """Refuse a question that no text could answer, such as an unknown class, before any work."""
    usable = texts.filter(pc.is_null(texts.column("error"))).slice(0, 1)
    for one in queried_texts(usable):
        try:
            reading = next(readings(work.model, [one], work.record.question))
            for learned in work.learned.values():
                learned.check(reading)
        except InputError as error:
            # What only this text cannot answer is told in its row.
            if not error.one_text:
                raise


_SHARD = 1000  # texts, where a text costs little
_CALLS = 50_000  # of a model in a shard, so that little is lost with it
_FEWEST = 16
_USUAL_WORDS = 150  # features of a text, to guess how often a model is asked about it


def planned(
    model: Model,
    chosen: Sequence[ConfiguredMethod],
    question: Question,
    data: DataRecord,
    *,
    budget: Budget | None,
    shard_texts: int | None,
) -> RunRecord:
    """Return the plan; the same question always has the same one."""
    # The source is for people; a run goes on with any model of the same fingerprint.
    size, source = _shard_size(chosen, budget, shard_texts), source_of(model)
    return RunRecord(
        schema=SCHEMA,
        version=__version__,
        model=ModelRecord(
            fingerprint=model.fingerprint,
            classes=list(model.classes),
            link=model.link,
            source=None if source is None else source.path,
            identity=plain_value(model_identity(model), "identity"),
        ),
        methods=[method_record(one, budget) for one in chosen],
        # Sorted, for whoever names the same words in another order asks the same.
        question=replace(question, protect=sorted(question.protect)),
        data=data,
        shards=ShardPlan(texts=size, count=-(-data.rows // size)),
        budget=None if budget is None else str(budget),
        cutter=object_fingerprint(question.features) if callable(question.features) else None,
        # Also where answers are given: room for what the model may write is kept of its input.
        writing=generation_settings(model),
    )


def _shard_size(
    chosen: Sequence[ConfiguredMethod], budget: Budget | None, given: int | None
) -> int:
    """Return how many texts make a shard: fewer where each costs many calls of the model."""
    if given is not None:
        return check_count("shard_texts", given)
    counts = [(method.implementation.cost.calls, method.settings) for method in chosen]
    calls = sum(count(settings, _USUAL_WORDS) for count, settings in counts if count is not None)
    if budget is not None:
        # A budget of time was refused before: it has calls.
        calls = min(calls, budget.calls or 0)
    return _SHARD if not calls else min(max(_CALLS // calls, _FEWEST), _SHARD)


class DataKeywords(Asked, MethodSettings, total=False):
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
    at_column: str | None = None,
    answer_column: str | None = None,
    sentences: bool = False,
    labels: Labels | None = None,
    budget: BudgetGiven | None = None,
    texts_kept: bool = True,
    limit: int | None = None,
    shard_texts: int | None = None,
    executor: Executor | RayActors | None = None,
    workers: int | None = None,
    retry: bool = False,
    progress: Callable[[RunProgress], None] | bool | None = None,
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
    target, against, scale, features, protect, side, window, at, answer
        What is asked of each text, as :func:`limelight.explain` takes it.
    all_classes
        Explain every class of the model, one row each.
    text_column, pair_column, id_column, label_column
        The columns of the texts, of the second texts where a text is a pair, of ids and of labels;
        by default those of usual names, such as "text" or "review", "premise" and "hypothesis",
        "id" and "label". Without ids there is the number of the row.
    at_column
        With a model that finds spans: the column of the place that each text is asked about, as
        ``at`` of :func:`limelight.explain` takes it ("Jordan", "5:11"). Without it, and without
        ``at``, every span that the model finds is explained, one row each.
    answer_column
        With a language model: the column of the answers that are explained; without it, and without
        ``answer``, what the model writes.
    sentences
        With a language model: explain each sentence of the answer, one row each, as
        :func:`limelight.explain_sentences` does.
    labels
        Which class a label is, where they are numbers or other names than the classes have: the
        classes in the order of the numbers, ["World", "Sports"], or {"neg": "negative"}.
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
        or :class:`limelight.runs.RayActors`; by default on this machine.
    workers
        New processes on this machine, if there is no executor, else shards in flight there. By
        default one per core for a scikit-learn pipeline that is explained exactly, if it can travel
        and they save more time than their start takes, and this process for every other model. A
        model that was loaded from a path is loaded by each of them; functions and scikit-learn
        pipelines travel by pickle, which takes what a module defines, no lambdas and nothing that
        was defined in a session. Live networks do not travel.
    retry
        Try those texts again that failed.
    progress
        Called with a :class:`limelight.runs.RunProgress` for every few texts. By default, a line
        on standard error where that is a terminal or a notebook, and notices everywhere; False for
        nothing.
    settings
        Settings of the methods, such as ``tolerance``.
    """
    question, own = split(settings, all_classes=all_classes)
    needs: list[tuple[str, Capability, str]] = []
    if at_column is not None:
        needs.append(("at_column", "spans", " Leave it out."))
    if answer_column is not None:
        needs.append(("answer_column", "generation", " Leave it out."))
    if sentences:
        needs.append(("sentences", "generation", " Leave it out."))
    model, question = prepare_model(model, question, needs=needs)
    if not isinstance(question.features, str) and not callable(question.features):
        raise InputError(
            "spans and groups of tokens are for one text; over many, name the features or give a "
            "function that cuts each text."
        )
    if answer_column is not None and (question.answer is not None or at_column is not None):
        other = "answer" if question.answer is not None else "at_column"
        raise InputError(f"give {other} or answer_column, not both.")
    asked_column = at_column if answer_column is None else answer_column
    # None and True mean the line here; False means nothing, and must not be called.
    report: _Report = _report_nothing
    display, live = None, bool(progress)
    if progress is None or progress is True:
        display = ProgressDisplay("explaining", announced=True)
        report, live = display.show_run, display.is_live
    elif progress:
        report = progress
    opened = opened_data(
        data, text=text_column, id=id_column, label=label_column, pair=pair_column, at=asked_column
    )
    # Before a model may read all texts to find what is asked of them: a mistake must not cost that.
    several = isinstance(method, Sequence) and not isinstance(method, str)
    chosen, spent = configure_with_budget(model, method, own, budget, several=several)
    if spent is not None and spent.calls is None:
        raise InputError(
            "a run must come out the same on every machine, which a budget of time does not grant; "
            f'give calls of the model, such as "400 calls"; got "{spent}".'
        )
    spans = has(model, "spans") and question.at is None and asked_column is None
    if sentences or spans:
        # A limit is of texts, not of spans, and has been heeded there.
        opened, limit = one_row_per_query(model, opened, question, limit, report), None
    found = opened.record(texts_kept=texts_kept, limit=limit, labels=labels)
    record = planned(model, chosen, question, found, budget=spent, shard_texts=shard_texts)
    named = (value for one in chosen for value in vars(one.settings).values())
    # The plan names learned methods by their digests; they travel beside it.
    learned = {value.digest: value for value in named if isinstance(value, Learned)}
    work, folder = ShardWork(model, record, learned), RunFolder(output)
    if workers is not None:
        workers = check_count("workers", workers)
        if workers > 1 and executor is None and multiprocessing.current_process().daemon:
            raise InputError(
                f"workers={workers} needs processes, and this daemonic process (of Celery or "
                "multiprocessing.Pool) can start none. Leave workers out."
            )
    if not isinstance(executor, Executor | RayActors | None):
        raise InputError(
            "executor must be a concurrent.futures.Executor or limelight.runs.RayActors(…); got "
            f"{executor!r}."
        )
    # Before the plan is looked for: two processes might find none, and write one each.
    with folder.locked(), display or contextlib.nullcontext():
        folder.begin(record)
        _do(work, opened, folder, executor, workers, report, live=live, retry=retry)
    return Run(output)


def one_row_per_query(
    model: Model, data: DataSet, question: Question, limit: int | None, report: _Report
) -> DataSet:
    """Return the texts as a table in memory, each once for every span, or sentence of an answer.

    A text that cannot be read stays, to be told of in its row; one without a span does not.
    """
    record, columns = data.record(texts_kept=True, limit=limit), data.columns
    names = [*INPUT, *stored_names(columns.carried)]
    shards = data.shards(record, _SHARD, range(-(-record.rows // _SHARD)))
    table = pa.concat_tables(shard.rename_columns(names) for shard in shards)
    rows, at = list[int](), list[str | None]()
    texts = question.attach_queries(queried_texts(table))
    for row, queries in enumerate(expand_texts(model, texts, by_sentence=True)):
        report(RunProgress(done=row, failed=0, total=record.rows, finding=True))
        # What was found becomes cells, so that the digest of the data covers it when a run goes on.
        rows += [row] * len(queries)
        at += [QueriedText.of(query).cell for query in queries]
    table = table.take(pa.array(rows, pa.int64()))
    table = table.set_column(names.index("at"), "at", pa.array(at, pa.string()))
    used = {name: name for name in ("pair", "label") if getattr(columns, name) is not None}
    unused = {"row", "error", "pair", "label"} - used.keys()
    return opened_data(table.drop_columns(sorted(unused)), text="text", id="id", at="at", **used)


def _worker(
    executor: Executor | RayActors | None,
    workers: int | None,
    work: ShardWork,
    expected: Callable[..., Estimate],
) -> tuple[int, Callable[[int], Worker] | None]:
    """Return how many workers there may be, and what starts one of so many; None: it is us."""
    count, job = workers or usable_cores(), b""
    if executor is None and workers is None and multiprocessing.current_process().daemon:
        return 1, None  # Python lets no daemonic process start others
    if executor is None and workers is None and count > 1:
        # A pipeline that is known exactly is small, wants one core, and need not be loaded again.
        known = is_sent(work.model) and has(work.model, "exact_game")
        known = known and not callable(work.record.question.features)
        if known and expected(workers=1).seconds * (1 - 1 / count) > _START:
            with contextlib.suppress(InputError):  # it cannot travel
                job = _packed(work, None)
    if executor is None and workers in (None, 1) and (not job or needs_main(job)):
        return 1, None
    if isinstance(executor, ThreadPoolExecutor):  # which has the model in memory
        return count, lambda _: ExecutorShare(executor, partial(finished_by, work))
    job = job or _packed(work, source_of(work.model))
    if executor is None:
        return count, partial(SpawnedProcess, job)
    if isinstance(executor, RayActors):
        return executor.workers, lambda _: executor.actor(job)
    return count, lambda _: ExecutorShare(executor, partial(explain_shard, job))


def _packed(work: ShardWork, source: ModelSource | None) -> bytes:
    """Return what other processes must know; refuse what they could not unpickle."""
    why = "this one is in memory only"
    if source is not None or is_sent(work.model):
        try:
            job = packed(work.record, source or work.model, work.learned)
            # A session has no file that another process could read a function from.
            if hasattr(sys.modules["__main__"], "__file__") or not needs_main(job):
                return job
            why = "one was defined in a session or a notebook: put it in a file and import it"
        except Exception as error:  # what pickling calls may raise anything
            why = f"one cannot be pickled ({one_line(str(error), 120).rstrip('.')})"
    raise InputError(
        "other processes need a model that was loaded from a path, with limelight.load, or a "
        "function or pipeline, and a cutter, that can be pickled, as functions of a module can; "
        f"{why}. Leave executor and workers out to compute in this process."
    )
