"""Shards as they travel: texts to a worker, a Parquet file back."""

__all__ = [
    "Engine",
    "Finished",
    "Job",
    "LostWorkerError",
    "Orders",
    "Task",
    "explain_shard",
    "finished_by",
]

import time
from collections.abc import Generator, Iterator
from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec
import pyarrow as pa

from limelight.corpus.run_record import RunRecord
from limelight.corpus.shard_schema import shard_bytes
from limelight.corpus.shard_work import Heard, ShardWork
from limelight.errors import InputError
from limelight.models.loading import ModelSource


class Job(NamedTuple):
    """What workers must know before they start: the plan, as JSON, and where the model is.

    A model that is in memory only has no source, and is asked where it is.
    """

    record: bytes
    source: ModelSource | None


class Task(NamedTuple):
    """The texts of a shard, or those of them that are to be tried again, in Arrow's own bytes."""

    number: int
    texts: bytes

    @staticmethod
    def of(number: int, table: pa.Table) -> "Task":
        """Return a task for the texts in ``table``."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return Task(number, sink.getvalue().to_pybytes())

    def table(self) -> pa.Table:
        """Return the texts."""
        return pa.ipc.open_stream(self.texts).read_all()


class Finished(NamedTuple):
    """The rows of a shard as a Parquet file; ``refused`` is set instead where there are none."""

    number: int
    content: bytes
    texts: int
    failed: int
    seconds: float
    refused: str | None = None


class LostWorkerError(Exception):
    """A worker has ended before its shard; another one may do it."""


class Orders(NamedTuple):
    """The tasks of a job, read when they are taken, ``length`` of them."""

    job: Job
    tasks: Iterator[Task]
    length: int


@runtime_checkable
class Engine(Protocol):
    """Something that finishes shards, in any order, each once."""

    @property
    def workers(self) -> int:
        """How many shards are worked on at a time."""

    def finished(self, orders: Orders) -> Generator[Finished, None, None]:
        """Yield the shard of every task; one is taken when somebody is free to do it."""


def finished_by(work: ShardWork, task: Task, heard: Heard | None = None) -> Finished:
    """Return the shard of ``task``, done here and now."""
    start = time.perf_counter()
    texts = task.table()
    rows = work(texts, heard)
    bad = rows.filter(rows.column("error").is_valid()).column("row").unique()
    return Finished(
        task.number, shard_bytes(rows), len(texts), len(bad), time.perf_counter() - start
    )


def explain_shard(job: Job, task: Task) -> Finished:
    """Return the shard of ``task`` from a process that loads the model the first time.

    A refusal travels as a sentence: not every exception survives the way from another process.
    """
    try:
        return finished_by(_work(job), task)
    except (InputError, OSError) as error:
        return Finished(task.number, b"", 0, 0, 0.0, refused=str(error))


@lru_cache(maxsize=1)
def _work(job: Job) -> ShardWork:
    if job.source is None:
        raise InputError("a model that is in memory only cannot be loaded elsewhere.")
    record = msgspec.json.decode(job.record, type=RunRecord)
    model = job.source.loaded()
    if model.fingerprint != record.model.fingerprint:
        raise InputError(
            f"the model at '{job.source.path}' is not the one of this run any more; put it back."
        )
    return ShardWork(model, record)
