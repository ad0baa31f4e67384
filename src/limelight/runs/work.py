"""Explain the texts of a shard in a worker, and pickle jobs and results."""

import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from limelight.data.labels import ClassLabels
from limelight.decisions import CounterfactualSettings, find_counterfactuals
from limelight.errors import InputError
from limelight.explainers.batch import Batch
from limelight.explainers.budget import Budget, allocate_budget, parse_budget
from limelight.explainers.explaining import (
    explain_batch,
    explain_batches,
    stream_batches,
    texts_per_batch,
)
from limelight.explainers.learned import LEARNED, LearnedMethod
from limelight.explainers.method import ConfiguredMethod
from limelight.explainers.registry import configure_method
from limelight.models import Model
from limelight.models.loading import ModelSource
from limelight.progress import ProgressCallback
from limelight.request import prepare_model
from limelight.results import Counterfactual
from limelight.results.values import decode_value, encode_value, plain_value
from limelight.runs.record import MethodRecord, RunRecord
from limelight.runs.rows import Outcome, input_texts, shard_bytes, shard_table
from limelight.text import Conversation, QueriedText, join_pair, truncate_line

# A run has the same results on every machine, so the time limits nothing.
_COUNTERFACTUAL_SETTINGS = CounterfactualSettings(is_reproducible=True)
_MIN_BATCH_TEXTS = 32  # texts that are read at a time, at least
ReportTexts = Callable[[int, int], None]  # texts done, and how many of them failed


def make_method_record(configured: ConfiguredMethod, budget: Budget | None = None) -> MethodRecord:
    """Return the record of a method; settings that a budget determines per text are left out."""
    # A budget determines them from each text, so they are no settings of the run.
    omitted = () if budget is None else configured.implementation.cost.settings
    settings = {
        name: value for name, value in configured.settings_used().items() if name not in omitted
    }
    stored_settings = encode_value(plain_value(settings, "settings"))
    return MethodRecord(
        id=configured.method.id,
        label=configured.method.label,
        signed=configured.method.signed,
        settings=stored_settings,
    )


# The outcome of each method and class for a text, and the counterfactual of the text.
_TextOutcomes = tuple[list[Outcome], Counterfactual | str | None]


class ShardWork:
    """Explain shards of one run with one model."""

    def __init__(
        self,
        model: Model,
        record: RunRecord,
        learned: Mapping[str, LearnedMethod] = MappingProxyType({}),
    ) -> None:
        self.model, self.record, self.learned = model, record, learned
        self.methods: list[ConfiguredMethod] = []
        for method in record.methods:
            settings = {  # learned methods are recorded by their digests
                name: learned.get(value, value) if isinstance(value, str) else value
                for name, value in decode_value(method.settings).items()
            }
            # A learned method is passed itself, because all learned methods share one name.
            fitted = settings.pop("fitted", None) if method.id == LEARNED else None
            self.methods.append(configure_method(fitted or method.id, model, settings))
        self._labels = ClassLabels(model.classes, record.data.labels)
        self._budget = None if record.budget is None else parse_budget(record.budget)

    def __call__(self, texts: pa.Table, report: ReportTexts | None = None) -> pa.Table:
        """Explain the texts of a shard and return its rows, in the order of ``texts``."""
        queried, errors = queried_texts(texts), texts["error"].to_pylist()
        targets = self.model.classes if self.record.request.all_classes else [None]
        # In the order of the rows of a text, which every reader of shards relies on.
        row_kinds = [(chosen.method.id, target) for chosen in self.methods for target in targets]
        # Every text has all its rows, even if it fails: shards are checked by their number.
        outcomes: list[list[Outcome]] = [[error or ""] * len(row_kinds) for error in errors]
        counterfactuals: list[Counterfactual | str | None] = [*errors]
        usable = [i for i, error in enumerate(errors) if error is None]
        # Like lengths together: a batch is as wide as its longest text.
        usable.sort(key=lambda i: (_text_length(queried[i]), i))
        done, failed = len(queried) - len(usable), len(queried) - len(usable)
        size = max(texts_per_batch(self.model, self.methods), _MIN_BATCH_TEXTS)
        for indices in (usable[start : start + size] for start in range(0, len(usable), size)):
            explained = self._explain_texts([queried[i] for i in indices])
            for i, (text_outcomes, counterfactual) in zip(indices, explained, strict=True):
                outcomes[i], counterfactuals[i] = text_outcomes, counterfactual
                failed += any(isinstance(outcome, str) for outcome in text_outcomes)
            done += len(indices)
            if report is not None:
                report(done, failed)
        # A label that names a class becomes its name; another stays as it is.
        labels = texts["label"].to_pylist()
        numbers = map(self._labels.number, labels)
        class_labels = [
            label if number is None else self.model.classes[number]
            for label, number in zip(labels, numbers, strict=True)
        ]
        place = texts.column_names.index("label")
        texts = texts.set_column(place, "label", pa.array(class_labels, pa.string()))
        return shard_table(
            texts,
            row_kinds,
            outcomes,
            keep_texts=self.record.data.store_texts,
            counterfactuals=counterfactuals if self.record.counterfactual else None,
        )

    def label_warnings(self, texts: pa.Table) -> Iterator[str]:
        """Yield warnings about labels that share a class and labels without a class."""
        yield from self._labels.warnings(texts.column("label").unique().to_pylist())

    def _explain_texts(self, texts: list[Any]) -> list[_TextOutcomes]:
        """Explain every text with each method for each class, and find its counterfactual.

        If a text fails, the texts are split in halves until it is alone, so the others succeed.
        """
        batches = stream_batches(
            self.model,
            texts,
            self.record.request,
            methods=self.methods,
            # A budget is divided over the methods for each text.
            single_texts=self._budget is not None,
        )
        in_turn = self._budget is not None
        try:
            outcomes = explain_batches(self.model, batches, self._explain_batch, in_turn=in_turn)
            return list(chain.from_iterable(outcomes))
        except Exception as error:
            # Not InputErrors alone: a tokenizer or a kernel may fail on one text of a million.
            if len(texts) == 1:
                sentence = _error_sentence(error)
                return [([sentence] * self.record.rows_per_text, sentence)]
        half = len(texts) // 2
        return self._explain_texts(texts[:half]) + self._explain_texts(texts[half:])

    def _explain_batch(
        self, batch: Batch, _progress: ProgressCallback | None
    ) -> list[_TextOutcomes]:
        """Explain every text of a batch as :meth:`_explain_texts` does, within its budget."""
        budgeted_methods = allocate_budget(self._budget, self.methods, batch)
        columns = [
            self._explain_with_method(method, target_batch)
            for method in budgeted_methods
            for target_batch in batch.split_by_target()
        ]
        counterfactuals = self._find_counterfactuals(batch)
        rows = zip(zip(*columns, strict=True), counterfactuals, strict=True)
        return [(list(text_outcomes), result) for text_outcomes, result in rows]

    def _find_counterfactuals(self, batch: Batch) -> Sequence[Counterfactual | str | None]:
        """Find the counterfactual of each text of a batch, or None for each without the option."""
        if not self.record.counterfactual:
            return [None] * len(batch.inputs)
        try:
            return list(find_counterfactuals(batch, _COUNTERFACTUAL_SETTINGS))
        except Exception as error:
            if len(batch.inputs) > 1:
                raise
            return [_error_sentence(error)]

    def _explain_with_method(self, method: ConfiguredMethod, batch: Batch) -> Sequence[Outcome]:
        """Explain a batch by one method; for a single text return an error as a message."""
        try:
            return explain_batch(method, batch)
        except Exception as error:
            # The caller finds the failing text by splitting in halves.
            if len(batch.inputs) > 1:
                raise
            return [_error_sentence(error)]  # other methods may well explain this text


def queried_texts(texts: pa.Table) -> list[Any]:
    """Return the inputs of a shard, with the query of each text that has one in the data."""
    texts_and_selectors = zip(input_texts(texts), texts["at"].to_pylist(), strict=True)
    return [
        text if selector is None else QueriedText(text, selector=selector)
        for text, selector in texts_and_selectors
    ]


def _text_length(queried: Any) -> int:
    """Return the number of characters of an input, with both texts of a pair."""
    text = queried.text if isinstance(queried, QueriedText) else queried
    if isinstance(text, Conversation):
        return len(text.cell)
    return len(join_pair(text)[0])


def _error_sentence(error: Exception) -> str:
    """Return an error as one line for the results."""
    if isinstance(error, InputError):
        return str(error)
    message = truncate_line(str(error), 400)
    if isinstance(error, MemoryError):
        return f"not enough memory ({message})."
    return f"{type(error).__name__}: {message}"


def pickle_job(
    record: RunRecord, model: Model | ModelSource, learned: Mapping[str, LearnedMethod]
) -> bytes:
    """Pickle everything that a worker needs: the plan, and the model or its path.

    Functions in memory, splitters and learned methods are pickled themselves.
    """
    return pickle.dumps((record, model, dict(learned)))


def needs_main(pickled: bytes) -> bool:
    """Return whether a job uses definitions of the main module, which workers must then run."""
    return b"__main__" in pickled


class Task(NamedTuple):
    """The texts of a shard, or its failed texts that are tried again."""

    number: int
    texts: pa.Table


class ShardResult(NamedTuple):
    """The rows of a shard as a Parquet file, or the error message ``error``."""

    number: int
    content: bytes
    texts: int
    failed: int
    seconds: float
    error: str | None = None


def run_task(work: ShardWork, task: Task, report: ReportTexts | None = None) -> ShardResult:
    """Explain the texts of ``task`` in this process and return the shard."""
    start = time.perf_counter()
    rows = work(task.texts, report)
    # Texts, not rows: of several methods one may fail.
    failed_texts = rows.filter(rows.column("error").is_valid()).column("row").unique()
    return ShardResult(
        task.number,
        shard_bytes(rows),
        len(task.texts),
        len(failed_texts),
        time.perf_counter() - start,
    )


def explain_shard(job: bytes, task: Task) -> ShardResult:
    """Explain the texts of ``task`` in a worker, which loads the model once.

    An error is returned as a message, because not every exception can be pickled.
    """
    try:
        return run_task(_unpickle_work(job), task)
    except (InputError, OSError) as error:
        return ShardResult(task.number, b"", 0, 0, 0.0, error=str(error))


# One model at a time, so that an executor that is used again keeps no model of an earlier run.
@lru_cache(maxsize=1)
def _unpickle_work(job: bytes) -> ShardWork:
    """Load the plan and the model of a pickled job."""
    try:
        record, model, learned = pickle.loads(job)  # noqa: S301  (our own bytes)
    except Exception as error:
        raise InputError(
            f"a worker cannot unpickle its job ({_error_sentence(error).rstrip('.')}). Define your "
            "functions in a module that workers can import."
        ) from None
    if isinstance(source := model, ModelSource):
        model, _ = prepare_model(source.load(), record.request)
        # The folder may have changed between the start of the run and that of a worker.
        if model.fingerprint != record.model.fingerprint:
            raise InputError(
                f"the model at '{source.path}' changed after the run started. Restore it."
            )
    return ShardWork(model, record, learned)
