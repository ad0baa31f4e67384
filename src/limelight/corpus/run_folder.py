"""The folder of a run on the disk: its plan, its shards, and the one process that may write."""

__all__ = ["RunFolder"]

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import pyarrow as pa
import pyarrow.parquet as pq

from limelight.corpus.run_record import RunRecord, difference, read_record, write_record
from limelight.errors import InputError
from limelight.files import write_whole

_PLAN, _SHARDS, _LOCK = "run.json", "shards", ".lock"


@final
class RunFolder:
    """Paths and files of a run; :class:`limelight.Run` reads it, a job writes it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def plan(self) -> Path:
        """The file that says what the run is about."""
        return self.path / _PLAN

    def shard(self, number: int) -> Path:
        """Return the place of a shard, whether it is there or not."""
        return self.path / _SHARDS / f"{number:05d}.parquet"

    def record(self) -> RunRecord:
        """Return what the run is about."""
        if not self.plan.is_file():
            raise InputError(
                f"there is no run at '{self.path}' (it has no {_PLAN}); check the path."
            )
        return read_record(self.plan)

    def begin(self, record: RunRecord) -> None:
        """Make the folder ready for ``record``: a new one, or one that holds the same run."""
        for part in (*self.path.glob(f".{_PLAN}.*.part"), *self.path.glob(f"{_SHARDS}/.*.part")):
            part.unlink()  # of a process that was killed while it wrote
        if self.plan.exists():
            if (clause := difference(self.record(), record)) is not None:
                raise InputError(
                    f"'{self.path}' cannot go on with this run: {clause}. Choose another folder, "
                    "or ask the same as before."
                )
        elif any(one.name != _LOCK for one in self.path.iterdir()):
            raise InputError(f"'{self.path}' holds other files; a run needs a folder of its own.")
        else:
            write_record(self.plan, record)
        (self.path / _SHARDS).mkdir(exist_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other process write here until the block ends; a killed one holds nothing."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            import fcntl
        except ImportError:  # Windows: shards are still whole, and written by replacement
            yield
            return
        with (self.path / _LOCK).open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise InputError(
                    f"another process ({file.read(40) or 'unknown'}) is writing to '{self.path}'; "
                    "wait until it has finished, or stop it."
                ) from None
            file.truncate(0)
            file.write(f"process {os.getpid()}")
            file.flush()
            try:
                yield
            finally:
                file.truncate(0)

    def stored(self, record: RunRecord) -> list[int]:
        """Return the numbers of the shards that are there."""
        return [number for number in range(record.shards.count) if self.shard(number).exists()]

    def write(self, number: int, content: bytes) -> None:
        """Put a shard in its place, whole or not at all."""
        write_whole(self.shard(number), content)

    def read(self, number: int, columns: list[str] | None = None) -> pa.Table:
        """Return a shard, or some of its columns; refuse one that is damaged."""
        with self._sound(number), self.opened(number) as file:
            return file.read(columns=columns)

    def opened(self, number: int) -> Any:
        """Return a shard as a Parquet file whose pages are checked when they are read."""
        with self._sound(number):
            return pq.ParquetFile(self.shard(number), page_checksum_verification=True)

    @contextlib.contextmanager
    def _sound(self, number: int) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            (reason, *_) = str(error).splitlines() or [type(error).__name__]
            raise InputError(
                f"'{self.shard(number)}' is damaged ({reason.rstrip('.')}); start the run again: "
                "it is computed anew, the others stay."
            ) from None
