"""What a worker does with a shard, and shards as they travel."""

import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from limelight.data.labels import ClassLabels
from limelight.errors import InputError
from limelight.explainers.budget import Budget, allocate_budget, parse_budget
from limelight.explainers.explaining import explanations, readings, together
from limelight.explainers.learned import LEARNED, Learned
from limelight.explainers.method import ConfiguredMethod
from limelight.explainers.reading import Reading
from limelight.explainers.registry import configure_method
from limelight.models import Model
from limelight.models.loading import ModelSource
from limelight.question import prepare_model
from limelight.results.values import plain_value, read_value, written_value
from limelight.runs.record import MethodRecord, RunRecord
from limelight.runs.rows import Found, given_texts, shard_bytes, shard_table
from limelight.text import QueriedText, joined, one_line

_TOGETHER = 32  # texts that are read at a time, at least
Heard = Callable[[int, int], None]  # texts done, and how many of them failed


def method_record(one: ConfiguredMethod, budget: Budget | None = None) -> MethodRecord:
    """Return the method with its settings, less those that follow from a budget text by text."""
    # What a budget buys depends on the text, so that it is no setting of the run.
    left_out = () if budget is None else one.implementation.cost.settings
    settings = {name: value for name, value in one.settings_used().items() if name not in left_out}
    asked = written_value(plain_value(settings, "settings"))
    return MethodRecord(
        id=one.method.id, label=one.method.label, signed=one.method.signed, settings=asked
    )


class ShardWork:
    """Explains shards of one run with one model, which is ready to be asked."""

    def __init__(
        self, model: Model, record: RunRecord, learned: Mapping[str, Learned] = MappingProxyType({})
    ) -> None:
        self.model, self.record, self.learned = model, record, learned
        self.chosen: list[ConfiguredMethod] = []
        for one in record.methods:
            settings = {  # learned methods are recorded by their digests
                name: learned.get(value, value) if isinstance(value, str) else value
                for name, value in read_value(one.settings).items()
            }
            # A learned method is chosen by itself, not by the name that all of them share.
            fitted = settings.pop("fitted", None) if one.id == LEARNED else None
            self.chosen.append(configure_method(fitted or one.id, model, settings))
        self._labels = ClassLabels(model.classes, record.data.labels)
        self._budget = None if record.budget is None else parse_budget(record.budget)

    def __call__(self, texts: pa.Table, heard: Heard | None = None) -> pa.Table:
        """Return the rows of a shard, in the order of ``texts``."""
        asked, errors = queried_texts(texts), texts["error"].to_pylist()
        aims = self.model.classes if self.record.question.all_classes else [None]
        # In the order of the rows of a text, which every reader of shards counts on.
        kinds = [(chosen.method.id, aim) for chosen in self.chosen for aim in aims]
        # Every text has its rows, whatever becomes of it: their number is how shards are checked.
        found: list[list[Found]] = [[error or ""] * len(kinds) for error in errors]
        usable = [i for i, error in enumerate(errors) if error is None]
        # Like lengths together: a batch is as wide as its longest text.
        usable.sort(key=lambda i: (_length(asked[i]), i))
        done, failed = len(asked) - len(usable), len(asked) - len(usable)
        size = max(together(self.model, self.chosen), _TOGETHER)
        for part in (usable[start : start + size] for start in range(0, len(usable), size)):
            explained = self._explained([asked[i] for i in part])
            for i, of_text in zip(part, explained, strict=True):
                found[i] = of_text
                failed += any(isinstance(one, str) for one in of_text)
            done += len(part)
            if heard is not None:
                heard(done, failed)
        # A label that names a class becomes its name; another stays as it is.
        labels = texts["label"].to_pylist()
        numbers = map(self._labels.number, labels)
        called = [
            label if number is None else self.model.classes[number]
            for label, number in zip(labels, numbers, strict=True)
        ]
        place = texts.column_names.index("label")
        texts = texts.set_column(place, "label", pa.array(called, pa.string()))
        return shard_table(texts, kinds, found, keep_texts=self.record.data.texts_kept)

    def doubts(self, texts: pa.Table) -> Iterator[str]:
        """Yield notices: labels that are one class by request, and those here that are none."""
        yield from self._labels.notices(texts.column("label").unique().to_pylist())

    def _explained(self, texts: list[Any]) -> list[list[Found]]:
        """Return what is found in every text: for each method, for each class.

        Where one of several texts fails, it is found by halving, so that the others do not.
        """
        asked = readings(
            self.model,
            texts,
            self.record.question,
            chosen=self.chosen,
            # What a budget buys is reckoned text by text.
            alone=self._budget is not None,
        )
        found: list[list[Found]] = []
        try:
            for reading in asked:
                within = allocate_budget(self._budget, self.chosen, reading)
                columns = [self._of_method(one, aim) for one in within for aim in reading.aims()]
                found += [list(of_text) for of_text in zip(*columns, strict=True)]
            return found
        except Exception as error:
            # Not InputErrors alone: a tokenizer or a kernel may fail on one text of a million.
            if len(texts) == 1:
                return [[_sentence(error)] * self.record.rows_per_text]
        half = len(texts) // 2
        return self._explained(texts[:half]) + self._explained(texts[half:])

    def _of_method(self, chosen: ConfiguredMethod, reading: Reading) -> Sequence[Found]:
        try:
            return explanations(chosen, reading)
        except Exception as error:
            # Which of them it is, the caller finds by halving.
            if len(reading.documents) > 1:
                raise
            return [_sentence(error)]  # other methods may well explain this text


def queried_texts(texts: pa.Table) -> list[Any]:
    """Return the texts that a worker got, with the place asked about where the data name one."""
    both = zip(given_texts(texts), texts["at"].to_pylist(), strict=True)
    return [given if at is None else QueriedText(given, selector=at) for given, at in both]


def _length(asked: Any) -> int:
    text = asked.text if isinstance(asked, QueriedText) else asked
    return len(joined(text)[0])


def _sentence(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    said = one_line(str(error), 400)
    if isinstance(error, MemoryError):
        return f"not enough memory ({said})."
    return f"{type(error).__name__}: {said}"


def packed(record: RunRecord, model: Model | ModelSource, learned: Mapping[str, Learned]) -> bytes:
    """Return what workers must know before they start: the plan, and the model or where it is.

    A function that is in memory only travels itself, and so do cutters and learned methods.
    """
    return pickle.dumps((record, model, dict(learned)))


def needs_main(pickled: bytes) -> bool:
    """Whether a job uses what the program itself defines, which has to be run for it."""
    return b"__main__" in pickled


class Task(NamedTuple):
    """The texts of a shard, or those of them that are to be tried again."""

    number: int
    texts: pa.Table


class Finished(NamedTuple):
    """The rows of a shard as a Parquet file; ``refused`` is set instead where there are none."""

    number: int
    content: bytes
    texts: int
    failed: int
    seconds: float
    refused: str | None = None


def finished_by(work: ShardWork, task: Task, heard: Heard | None = None) -> Finished:
    """Return the shard of ``task``, done here and now."""
    start = time.perf_counter()
    rows = work(task.texts, heard)
    # Texts, not rows: of several methods one may fail.
    bad = rows.filter(rows.column("error").is_valid()).column("row").unique()
    return Finished(
        task.number, shard_bytes(rows), len(task.texts), len(bad), time.perf_counter() - start
    )


def explain_shard(job: bytes, task: Task) -> Finished:
    """Return the shard of ``task`` from a process that loads the model the first time.

    A refusal travels as a sentence: not every exception survives the way from another process.
    """
    try:
        return finished_by(_work(job), task)
    except (InputError, OSError) as error:
        return Finished(task.number, b"", 0, 0, 0.0, refused=str(error))


# A model at a time: an executor that lives on holds no model of an earlier run.
@lru_cache(maxsize=1)
def _work(job: bytes) -> ShardWork:
    try:
        record, model, learned = pickle.loads(job)  # noqa: S301  (our own bytes)
    except Exception as error:
        raise InputError(
            f"a worker cannot unpickle what it needs ({_sentence(error).rstrip('.')}); define it "
            "in a module that workers can import."
        ) from None
    if isinstance(source := model, ModelSource):
        model, _ = prepare_model(source.loaded(), record.question)
        # The folder may have changed between the start of the run and that of a worker.
        if model.fingerprint != record.model.fingerprint:
            raise InputError(
                f"the model at '{source.path}' is not the one of this run any more; put it back."
            )
    return ShardWork(model, record, learned)
