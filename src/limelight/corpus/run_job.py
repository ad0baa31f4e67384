"""The work that a run still needs: which shards, from which texts, and where they are put."""

__all__ = ["RunJob"]

import contextlib
import io
import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from limelight.corpus.data_set import DataSet
from limelight.corpus.run_estimate import estimate
from limelight.corpus.run_folder import RunFolder
from limelight.corpus.run_progress import Meter, Watcher
from limelight.corpus.run_record import RunRecord
from limelight.corpus.shard_schema import shard_bytes
from limelight.corpus.shard_task import Engine, Finished, Job, Orders, Task
from limelight.corpus.shard_work import ShardWork, data_texts
from limelight.errors import InputError
from limelight.explainers.explaining import readings
from limelight.models.loading import ModelSource

_FEW = 20  # texts, which are not worth an estimate
_Rows = Collection[int]


@final
@dataclass(frozen=True, kw_only=True)
class _Stored:
    """What a look at the folder has found: texts that failed, by shard, and damaged shards."""

    failed: dict[int, _Rows]
    damaged: list[str]


@final
@dataclass(frozen=True, kw_only=True)
class RunJob:
    """A run whose folder is locked. ``retry`` also does the texts again that failed."""

    folder: RunFolder
    record: RunRecord
    data: DataSet
    retry: bool = False

    @cached_property
    def _stored(self) -> _Stored:
        """Every shard is read: one that has rotted is done again, not found out about later."""
        failed, damaged = dict[int, _Rows](), list[str]()
        for number in self.folder.stored(self.record):
            try:
                table = self.folder.read(number)
                if len(table) != len(self.record.texts_of(number)) * self.record.rows_per_text:
                    raise InputError(f"'{self.folder.shard(number)}' has {len(table)} rows.")
            except InputError as error:
                damaged.append(str(error))
            else:
                bad = table.filter(pc.is_valid(table.column("error"))).column("row")
                failed[number] = frozenset(bad.to_pylist())
        return _Stored(failed=failed, damaged=damaged)

    @cached_property
    def to_do(self) -> dict[int, _Rows]:
        """The shards to do, each with the numbers of its texts."""
        failed = self._stored.failed
        missing: dict[int, _Rows] = {
            number: self.record.texts_of(number)  # a range: no number is held for every text
            for number in range(self.record.shards.count)
            if number not in failed
        }
        again = {number: rows for number, rows in failed.items() if rows} if self.retry else {}
        return dict(sorted((missing | again).items()))

    @property
    def texts(self) -> int:
        """The number of texts to do."""
        return sum(len(rows) for rows in self.to_do.values())

    def meter(self, watcher: Watcher | None) -> Meter:
        """Return a count that starts with what is there."""
        total, texts = self.record.data.rows, self.texts
        kept = [rows for number, rows in self._stored.failed.items() if number not in self.to_do]
        meter = Meter(watcher, total=total, done=total - texts, failed=sum(map(len, kept)))
        for sentence in self._stored.damaged:
            meter.noticed(sentence)
        return meter

    def do(self, engine: Engine, work: ShardWork, source: ModelSource | None, meter: Meter) -> None:
        """Let ``engine`` finish what is to do, and store every shard as it comes."""
        tasks = self._tasks()
        if (first := next(tasks, None)) is None:
            return
        _check_question(work, first.table())
        if meter.watched and self.texts >= _FEW:
            workers = min(engine.workers, len(self.to_do))
            meter.estimated(estimate(work, first.table(), count=self.texts, workers=workers))
        job = Job(msgspec.json.encode(self.record), source)
        shards = engine.finished(Orders(job, itertools.chain([first], tasks), len(self.to_do)))
        with contextlib.closing(shards):  # workers end with the first error, and with an interrupt
            for shard in shards:
                self._store(shard)
                meter.stored(shard)

    def _tasks(self) -> Iterator[Task]:
        size = self.record.shards.texts
        for table in self.data.shards(self.record.data, size, self.to_do):
            number = table.column("row")[0].as_py() // size
            rows = pa.array(sorted(self.to_do[number]), pa.int64())
            yield Task.of(number, table.filter(pc.is_in(table.column("row"), rows)))

    def _store(self, shard: Finished) -> None:
        if shard.refused is not None:
            raise InputError(f"{shard.refused} What is finished is kept.")
        content = shard.content
        if shard.number in self._stored.failed:  # the texts that did not fail keep their rows
            old, new = self.folder.read(shard.number), pq.read_table(io.BytesIO(content))
            again = pc.is_in(old.column("row"), new.column("row").unique())
            rows = pa.concat_tables([old.filter(pc.invert(again)), new])
            content = shard_bytes(rows.sort_by("row").combine_chunks())
        self.folder.write(shard.number, content)


def _check_question(work: ShardWork, texts: pa.Table) -> None:
    """Refuse a question that no text could answer, such as an unknown class, before any work."""
    usable = texts.filter(pc.is_null(texts.column("error"))).slice(0, 1)
    for one in data_texts(usable, work.model.classes)[0]:
        try:
            next(readings(work.model, [one.given], work.record.question))
        except InputError as error:
            if not error.one_text:
                raise
