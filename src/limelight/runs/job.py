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
from limelight.data.columns import INPUT, DataRecord, DataSet, open_data
from limelight.data.labels import Labels
from limelight.decisions import DEFAULT_CALLS, check_decision
from limelight.errors import InputError, check_count
from limelight.explainers.budget import Budget, BudgetInput, configure_with_budget
from limelight.explainers.explaining import stream_batches
from limelight.explainers.learned import LearnedMethod
from limelight.explainers.method import ConfiguredMethod
from limelight.explainers.registry import check_keywords
from limelight.models import Capability, Model, has
from limelight.models.fingerprints import model_identity, object_fingerprint, unchecked_parts
from limelight.models.functions import is_picklable
from limelight.models.loading import ModelSource, model_source
from limelight.models.protocol import generation_settings
from limelight.models.queries import expand_texts
from limelight.progress import Estimate, ProgressDisplay, RunProgress
from limelight.request import Request, prepare_model
from limelight.results.values import plain_value
from limelight.runs.engines import (
    ExecutorShare,
    RayActors,
    SpawnedProcess,
    Worker,
    run_on_workers,
    usable_cores,
)
from limelight.runs.estimate import estimate
from limelight.runs.record import SCHEMA, ModelRecord, RunRecord, ShardPlan
from limelight.runs.rows import shard_bytes, stored_names
from limelight.runs.run import Run, RunFolder
from limelight.runs.work import (
    ShardResult,
    ShardWork,
    Task,
    explain_shard,
    make_method_record,
    needs_main,
    pickle_job,
    queried_texts,
    run_task,
)
from limelight.setting_keywords import MethodSettings
from limelight.text import FeatureSpec, QueriedText, abbreviate_names, truncate_line

_MIN_ESTIMATED_TEXTS = 20  # texts, which are not worth an estimate
_START_SECONDS = (
    5.0  # seconds that other processes must save: twice what it takes to import everything
)
_Rows = Collection[int]
_Report = Callable[[RunProgress], None]


def _report_nothing(_: RunProgress) -> None:
    """Ignore the progress of a run."""


def _check_shards(run: Run) -> tuple[dict[int, _Rows], list[str]]:
    """Read all stored shards and return their failed texts and messages about damaged shards.

    Every shard is read now, so a damaged one is computed again in this call.
    """
    failed, damaged = dict[int, _Rows](), list[str]()
    for number in run.shards:
        try:
            (table,) = run.tables(shards=[number])
        except InputError as error:
            damaged.append(str(error))
        else:
            failed_rows = table.filter(pc.is_valid(table.column("error"))).column("row")
            failed[number] = frozenset(failed_rows.to_pylist())
    return failed, damaged


def shards_to_do(
    record: RunRecord, failed: Mapping[int, _Rows], *, retry: bool
) -> dict[int, _Rows]:
    """List the texts to explain in each shard: missing shards and, with ``retry``, failed texts."""
    retried = {number: rows for number, rows in failed.items() if rows and retry}
    # Ranges, because a number per text would need too much memory.
    missing = set(range(record.shards.count)) - failed.keys()
    return {number: record.text_numbers(number) for number in sorted(missing)} | retried


def _explain_shards(
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
    """Explain all missing shards and store each one when it is finished.

    The shards are computed by ``executor`` if there is one, else by new processes if these are
    worth their start, else in this process. Unless ``live``, ``report`` is called only for
    warnings and for stored shards.
    """
    run, record = Run(folder.path), work.record
    failed, damaged = _check_shards(run)
    to_do = shards_to_do(record, failed, retry=retry)
    count = sum(map(len, to_do.values()))
    # Texts that are tried again are counted when they are finished.
    failed_before = sum(len(rows) for number, rows in failed.items() if number not in to_do)
    stored_progress = RunProgress(done=run.total - count, failed=failed_before, total=run.total)
    start_time = perf_counter()
    for sentence in damaged:
        report(replace(stored_progress, warning=sentence))
    tasks = _tasks(data, record, to_do)
    if (first := next(tasks, None)) is None:
        return
    _check_question(work, first.texts)
    for warning in (*work.label_warnings(first.texts), *_unchecked_warnings(work.model)):
        report(replace(stored_progress, warning=warning))
    # A single shard needs a single worker, and this process is one.
    if executor is None and len(to_do) < 2:
        workers = 1
    estimate_run = partial(estimate, work, first.texts, count=count)
    max_workers, start_worker = _choose_worker(executor, workers, work, estimate_run)
    worker_count = min(max_workers, len(to_do))
    if (
        live and count >= _MIN_ESTIMATED_TEXTS
    ):  # an estimate costs texts, which are wasted where nobody sees it
        report(stored_progress)  # a sign of life: two texts of a slow model may take a minute
        report(replace(stored_progress, estimate=estimate_run(workers=worker_count)))
        start_time = perf_counter()  # the texts of the estimate are not part of the speed

    def report_texts(texts: int, failed: int) -> None:
        """Report the texts done in the current shard."""
        # They are added for good only when the shard is stored: until then they may be lost.
        report(stored_progress.add(texts, failed, since=start_time))

    tasks = itertools.chain([first], tasks)
    shards = (run_task(work, task, report_texts if live else None) for task in tasks)
    if start_worker is not None:
        shards = run_on_workers(partial(start_worker, worker_count), worker_count, tasks)
    with contextlib.closing(shards):  # workers end with the first error, and with an interrupt
        for shard in shards:
            if shard.error is not None:
                # Another model at the same path, for example: every other shard would fail too.
                raise InputError(f"{shard.error} Finished shards are kept.")
            content = shard.content
            if shard.number in failed:
                content = _merge_shard(run, shard)
            folder.write(shard.number, content)
            stored_progress = stored_progress.add(
                shard.texts, shard.failed, since=start_time, shard=shard
            )
            report(stored_progress)


def _unchecked_warnings(model: Model) -> Iterator[str]:
    """Yield a warning if a later call could not detect that the explained function changed."""
    if names := unchecked_parts(model):
        yield (
            f"limelight cannot check whether {abbreviate_names(names)} of this function changes. "
            "If it does, choose another folder, or wrap the function with another name=."
        )


def _tasks(data: DataSet, record: RunRecord, to_do: dict[int, _Rows]) -> Iterator[Task]:
    """Yield the tasks in the order of the data; the files are read once, from the front."""
    names = [*INPUT, *stored_names(data.columns.carried)]
    for texts in data.shards(record.data, record.shards.texts, to_do):
        table = texts.rename_columns(names)  # a column of the data may be called "row", too
        number = table.column("row")[0].as_py() // record.shards.texts
        rows = pa.array(sorted(to_do[number]), pa.int64())
        # If a shard is tried again, only its failed texts are.
        yield Task(number, table.filter(pc.is_in(table.column("row"), rows)))


def _merge_shard(run: Run, shard: ShardResult) -> bytes:
    """Merge the rows of retried texts into the stored shard and return it as a file."""
    (old,) = run.tables(shards=[shard.number])
    new = pq.read_table(io.BytesIO(shard.content))
    # By text, not by row: where one method failed, all of them did the text again.
    is_retried = pc.is_in(old.column("row"), new.column("row").unique())
    rows = pa.concat_tables([old.filter(pc.invert(is_retried)), new])
    # Arrow's sort is stable: the rows of a text keep the order of its methods.
    return shard_bytes(rows.sort_by("row").combine_chunks())


def _check_question(work: ShardWork, texts: pa.Table) -> None:
    """Raise an error before any work if no text could be explained: an unknown class, say."""
    usable = texts.filter(pc.is_null(texts.column("error"))).slice(0, 1)
    for text in queried_texts(usable):
        try:
            batch = next(stream_batches(work.model, [text], work.record.request))
            for learned in work.learned.values():
                learned.check_batch(batch)
            if work.record.counterfactual:
                check_decision(batch)
        except InputError as error:
            # If only this text cannot be explained, its row gets the error.
            if not error.is_text_specific:
                raise


# An interrupted run keeps its finished shards, so a shard should take less than a minute. A core
# calls a small transformer about a hundred times per second.
_MAX_EXACT_TEXTS = 1000  # of methods that do not call the model
_MAX_SHARD_TEXTS = 200
_MAX_SHARD_CALLS = 5_000
_MAX_SHARDS = 2_000  # every shard is a file, which each summary opens
_TYPICAL_WORDS = 150  # features of a text, to guess the number of model calls


def make_plan(
    model: Model,
    methods: Sequence[ConfiguredMethod],
    request: Request,
    data: DataRecord,
    *,
    budget: Budget | None,
    shard_texts: int | None,
    counterfactual: bool = False,
) -> RunRecord:
    """Return the plan of a run; the same request always has the same plan.

    Parameters
    ----------
    model
        The model, prepared for the request.
    methods
        The methods with their settings.
    question
        The options of each explanation.
    data
        The identity of the data.
    budget
        Model calls that all methods together may spend on a text.
    shard_texts
        Texts in a shard; None to compute it from the number of model calls.
    counterfactual
        Whether the counterfactual of each text is stored.
    """
    # The source is for readers; a run continues with any model of the same fingerprint.
    size = _shard_size(methods, budget, shard_texts, rows=data.rows, counterfactual=counterfactual)
    source = model_source(model)
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
        methods=[make_method_record(configured, budget) for configured in methods],
        # Sorted, because the order of protected words has no meaning.
        request=replace(request, protect=sorted(request.protect, key=_protect_order)),
        data=data,
        shards=ShardPlan(texts=size, count=-(-data.rows // size)),
        budget=None if budget is None else str(budget),
        splitter=object_fingerprint(request.features) if callable(request.features) else None,
        # Also if the answers are supplied: the input leaves room for a generated answer.
        # Also where answers are given: room for what the model may write is kept of its input.
        generation=generation_settings(model),
        counterfactual=counterfactual or None,
    )


def _protect_order(name: str | int) -> tuple[bool, str]:
    """Return a key that sorts words and names before numbers of documents and messages."""
    return not isinstance(name, str), str(name)


def _shard_size(
    methods: Sequence[ConfiguredMethod],
    budget: Budget | None,
    shard_texts: int | None,
    *,
    rows: int,
    counterfactual: bool,
) -> int:
    """Compute the number of texts in a shard; it is smaller if each text needs many model calls.

    Parameters
    ----------
    methods
        The methods with their settings.
    budget
        Model calls that all methods together may spend on a text.
    shard_texts
        The number that the user chose, if any.
    rows
        The number of texts in the data.
    counterfactual
        Whether the counterfactual of each text is searched for.
    """
    if shard_texts is not None:
        return check_count("shard_texts", shard_texts)
    counts = [(method.implementation.cost.calls, method.settings) for method in methods]
    calls = sum(count(settings, _TYPICAL_WORDS) for count, settings in counts if count is not None)
    if budget is not None:
        # The budget has calls: a budget of time has raised an error before.
        calls = min(calls, budget.calls or 0)
    if calls and counterfactual:  # if the methods need no calls, counterfactuals need none either
        calls += DEFAULT_CALLS
    needs = {method.implementation.needs for method in methods}
    if not calls and needs <= {"tables", "exact_game", "refilling"}:
        return _MAX_EXACT_TEXTS
    size = min(max(_MAX_SHARD_CALLS // max(calls, 1), 1), _MAX_SHARD_TEXTS)
    return max(size, -(-rows // _MAX_SHARDS))


def explain_data(
    model: Model,
    data: Any,
    method: str | object | Sequence[str | object] | None = None,
    *,
    output: str | os.PathLike[str],
    target: str | int | None = None,
    against: str | int | None = None,
    features: FeatureSpec | None = None,
    grid: int | None = None,
    scale: str = "logit",
    protect: Collection[str | int] = (),
    window: str | int | None = None,
    side: str | None = None,
    at: str | int | tuple[int, int] | None = None,
    answer: str | Sequence[str | None] | None = None,
    protect_span: bool = True,
    first_subwords: bool = False,
    replacement: str = "auto",
    seed: int = 0,
    all_classes: bool = False,
    text_column: str | None = None,
    pair_column: str | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    at_column: str | None = None,
    answer_column: str | None = None,
    documents_column: str | None = None,
    messages_column: str | None = None,
    sentences: bool = False,
    labels: Labels | None = None,
    budget: BudgetInput | None = None,
    store_texts: bool = True,
    limit: int | None = None,
    shard_texts: int | None = None,
    counterfactual: bool = False,
    executor: Executor | RayActors | None = None,
    workers: int | None = None,
    retry: bool = False,
    progress: Callable[[RunProgress], None] | bool | None = None,
    **settings: Unpack[MethodSettings],
) -> Run:
    """Explain every text of a data set and store the explanations in a folder.

    If you call it again, it computes the missing shards. A run that was killed at any moment ends
    equal to one that was not. If the folder has a run of another model, method or data set, it
    raises an error.

    Parameters
    ----------
    model
        What :func:`limelight.load` or :func:`limelight.wrap` returns.
    data
        The path of a .parquet, .csv, .tsv or .jsonl file (the last three also .gz), a list of
        them, a folder of them, or a table in memory: {"text": [...]}, an Arrow table, a pandas or
        polars frame, a ``datasets.Dataset``, or a list of texts, of pairs or of chats.
    method
        A method or a list of methods, which share computations on each text; by default the
        method of :func:`limelight.explain`.
    output
        The folder of the run.
    target, against, features, grid, scale, protect, window, side, at, answer, protect_span
        Options of each explanation, as in :func:`limelight.explain`.
    first_subwords, replacement, seed
        As in :func:`limelight.explain`.
    all_classes
        Explain every class of the model, one row each.
    text_column, pair_column, id_column, label_column
        The columns of the texts, of the second texts of pairs, of ids and of labels. By default
        columns with common names are used, such as "text" or "review", "premise" and
        "hypothesis", "id" and "label". Without ids the row number is used.
    at_column
        With a model that finds spans: the column of the span to explain in each text, written
        like ``at`` of :func:`limelight.explain` ("Jordan", "5:11"). Without it, and without
        ``at``, every span that the model finds is explained, one row each.
    answer_column
        With a language model: the column of the answers that are explained; without it, and without
        ``answer``, what the model writes.
    documents_column
        With a language model: the column of the documents of each question, which is the text. A
        cell is a list of texts or dictionaries, as ``documents`` of :func:`limelight.explain`, or
        such a list as JSON.
    messages_column
        With a language model: the column of chats, instead of texts. A cell is a list of messages,
        or such a list as JSON.
    sentences
        With a language model: explain each sentence of the answer, one row each, as
        :func:`limelight.explain_sentences` does.
    labels
        The class of each label, if labels are numbers or differ from the class names: the
        classes in the order of the numbers, ["World", "Sports"], or {"neg": "negative"}.
    budget
        Calls of the model that all methods together may spend on each text, such as "400 calls",
        as :func:`limelight.compare` spends them. A time raises an error, because its effect
        depends on the machine and a run must not.
    store_texts
        Store the texts with their explanations.
    limit
        Explain only the first rows, at most this number; by default all.
    shard_texts
        Texts in a shard; by default 1,000, and fewer where a text costs many calls of the model.
    counterfactual
        Also store the counterfactual of each text, as :func:`limelight.counterfactual` finds it
        within its default budget. ``run.texts()`` and ``run.sql()`` have it as a column, and the
        summary counts the texts that depend on a single word.
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
        on standard error where that is a terminal or a notebook, and warnings everywhere; False for
        nothing.
    **settings
        Settings of the methods, such as ``tolerance``.

    Returns
    -------
    The run: its explanations, summaries and tables.

    Raises
    ------
    InputError
        If an option is wrong, or if the folder contains another run. If a single text cannot be
        explained, its row has an error instead.

    Examples
    --------
    >>> import limelight
    >>> model = limelight.load()
    >>> reviews = {
    ...     "text": ["A superb film.", "Dull and long."],
    ...     "label": ["positive", "negative"],
    ... }
    >>> run = limelight.explain_data(model, reviews, "lime", output="run")
    >>> len(run), run.failed
    (2, 0)
    >>> [(word, round(score, 2)) for word, score in run.explanation(0, "lime").top(1)]
    [('superb', 1.26)]
    """
    request = Request(
        target=target,
        against=against,
        all_classes=all_classes,
        features=features,
        grid=grid,
        scale=scale,
        protect=protect,
        window=window,
        side=side,
        at=at,
        answer=answer,
        protect_span=protect_span,
        first_subwords=first_subwords,
    )
    check_keywords(explain_data, settings)
    method_settings: dict[str, Any] = dict(settings)
    # Not every method has these settings, so that their defaults are not passed on.
    if not isinstance(replacement, str) or replacement != "auto":
        method_settings["replacement"] = replacement
    if seed != 0:
        method_settings["seed"] = seed
    if answer_column is not None and (request.answer is not None or at_column is not None):
        other = "answer" if request.answer is not None else "at_column"
        raise InputError(f"give {other} or answer_column, not both.")
    needs: list[tuple[str, Capability, str]] = []
    if at_column is not None:
        needs.append(("at_column", "spans", " Leave it out."))
    if answer_column is not None:
        needs.append(("answer_column", "generation", " Leave it out."))
    if documents_column is not None:
        needs.append(("documents_column", "generation", " Leave it out."))
    if messages_column is not None:
        needs.append(("messages_column", "generation", " Leave it out."))
    if sentences:
        needs.append(("sentences", "generation", " Leave it out."))
    model, request = prepare_model(model, request, needs=needs)
    if not isinstance(request.features, str) and not callable(request.features):
        raise InputError(
            "features must be a name, such as 'sentences', or a function that splits each text. "
            "Spans and groups of tokens fit only one text."
        )
    query_column = at_column if answer_column is None else answer_column
    # None and True mean the line here; False means nothing, and must not be called.
    report: _Report = _report_nothing
    display, live = None, bool(progress)
    if progress is None or progress is True:
        display = ProgressDisplay("explaining", announced=True)
        report, live = display.show_run, display.is_live
    elif progress:
        report = progress
    data_set = open_data(
        data,
        text=text_column,
        id=id_column,
        label=label_column,
        pair=pair_column,
        at=query_column,
        documents=documents_column,
        messages=messages_column,
    )
    # Before the model reads all texts to find their spans, so that a mistake is reported early.
    is_list = isinstance(method, Sequence) and not isinstance(method, str)
    methods, parsed_budget = configure_with_budget(
        model, method, method_settings, budget, is_list=is_list
    )
    if parsed_budget is not None and parsed_budget.calls is None:
        raise InputError(
            f'budget must be a number of model calls, such as "400 calls", not "{parsed_budget}". '
            "A run must have the same results on every machine."
        )
    spans = has(model, "spans") and request.at is None and query_column is None
    if sentences or spans:
        # A limit is of texts, not of spans, and has been heeded there.
        data_set, limit = expand_data_queries(model, data_set, request, limit, report), None
    data_record = data_set.record(store_texts=store_texts, limit=limit, labels=labels)
    record = make_plan(
        model,
        methods,
        request,
        data_record,
        budget=parsed_budget,
        shard_texts=shard_texts,
        counterfactual=counterfactual,
    )
    setting_values = (
        value for configured in methods for value in vars(configured.settings).values()
    )
    # The plan names learned methods by their digests; they travel beside it.
    learned = {value.digest: value for value in setting_values if isinstance(value, LearnedMethod)}
    work, folder = ShardWork(model, record, learned), RunFolder(output)
    if workers is not None:
        workers = check_count("workers", workers)
        if workers > 1 and executor is None and multiprocessing.current_process().daemon:
            raise InputError(
                f"workers={workers} cannot start processes in a daemonic process, as in Celery or "
                "multiprocessing.Pool. Leave workers out."
            )
    if not isinstance(executor, Executor | RayActors | None):
        raise InputError(
            "executor must be a concurrent.futures.Executor or limelight.runs.RayActors(…), not "
            f"{executor!r}."
        )
    # Before the plan is looked for: two processes might find none, and write one each.
    with folder.lock_folder(), display or contextlib.nullcontext():
        folder.begin(record)
        _explain_shards(work, data_set, folder, executor, workers, report, live=live, retry=retry)
    return Run(output)


def expand_data_queries(
    model: Model, data: DataSet, request: Request, limit: int | None, report: _Report
) -> DataSet:
    """Return a table in memory with a row for each query: each span, or sentence of the answer.

    A text that cannot be read keeps one row, so that the run reports its error. A text without a
    span has no row. At most ``limit`` texts are read.
    """
    record, columns = data.record(store_texts=True, limit=limit), data.columns
    names = [*INPUT, *stored_names(columns.carried)]
    shards = data.shards(record, _MAX_SHARD_TEXTS, range(-(-record.rows // _MAX_SHARD_TEXTS)))
    table = pa.concat_tables(shard.rename_columns(names) for shard in shards)
    rows, selectors = list[int](), list[str | None]()
    texts = request.attach_queries(queried_texts(table))
    for row, queries in enumerate(expand_texts(model, texts, by_sentence=True)):
        report(RunProgress(done=row, failed=0, total=record.rows, finding=True))
        # What was found becomes cells, so that the digest of the data covers it when a run goes on.
        rows += [row] * len(queries)
        selectors += [QueriedText.attach(query).cell for query in queries]
    table = table.take(pa.array(rows, pa.int64()))
    table = table.set_column(names.index("at"), "at", pa.array(selectors, pa.string()))
    used_columns = {name: name for name in ("pair", "label") if getattr(columns, name) is not None}
    unused_columns = {"row", "error", "pair", "label"} - used_columns.keys()
    used_columns["messages" if columns.has_conversations else "text"] = "text"
    return open_data(table.drop_columns(sorted(unused_columns)), id="id", at="at", **used_columns)


def _choose_worker(
    executor: Executor | RayActors | None,
    workers: int | None,
    work: ShardWork,
    estimate_run: Callable[..., Estimate],
) -> tuple[int, Callable[[int], Worker] | None]:
    """Choose the maximal number of workers and the function that starts one of them.

    The function takes the number of workers. It is None if this process computes the run.
    """
    count, job = workers or usable_cores(), b""
    if executor is None and workers is None and multiprocessing.current_process().daemon:
        return 1, None  # Python lets no daemonic process start others
    if executor is None and workers is None and count > 1:
        # A pipeline that is known exactly is small, wants one core, and need not be loaded again.
        is_small = is_picklable(work.model) and has(work.model, "exact_game")
        is_small = is_small and not callable(work.record.request.features)
        if is_small and estimate_run(workers=1).seconds * (1 - 1 / count) > _START_SECONDS:
            with contextlib.suppress(InputError):  # it cannot travel
                job = pickle_portable_job(work, None)
    if executor is None and workers in (None, 1) and (not job or needs_main(job)):
        return 1, None
    if isinstance(executor, ThreadPoolExecutor):  # which has the model in memory
        return count, lambda _: ExecutorShare(executor, partial(run_task, work))
    job = job or pickle_portable_job(work, model_source(work.model))
    if executor is None:
        return count, partial(SpawnedProcess, job)
    if isinstance(executor, RayActors):
        return executor.workers, lambda _: executor.actor(job)
    return count, lambda _: ExecutorShare(executor, partial(explain_shard, job))


def pickle_portable_job(work: ShardWork, source: ModelSource | None) -> bytes:
    """Pickle the job for other processes; raise an error if they could not unpickle it."""
    reason = "it is only in memory. Load it with limelight.load"
    if source is not None or is_picklable(work.model):
        try:
            job = pickle_job(work.record, source or work.model, work.learned)
            # A session has no file that another process could read a function from.
            if hasattr(sys.modules["__main__"], "__file__") or not needs_main(job):
                return job
            reason = "a function is defined in a session or a notebook. Import it from a file"
        except Exception as error:  # what pickling calls may raise anything
            message = truncate_line(str(error), 120).rstrip(".")
            reason = f"it cannot be pickled ({message}). Import its functions from a file"
    raise InputError(
        f"other processes cannot load the model or the splitter: {reason}, or leave executor and "
        "workers out (--engine here)."
    )
