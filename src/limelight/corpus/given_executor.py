"""Shards on somebody's executor: dask, MPI, Slurm, or a pool of threads."""

__all__ = ["GivenExecutor"]

from collections.abc import Callable, Generator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from functools import partial
from typing import final

from limelight.corpus.crew import finished_by_crew
from limelight.corpus.shard_task import Finished, Orders, Task, explain_shard
from limelight.errors import InputError


@final
class GivenExecutor:
    """Submits shards to ``executor``, ``workers`` at a time, and leaves it open.

    ``here`` is what threads of this process call, with the model that is in memory; None where
    workers load it themselves.
    """

    def __init__(
        self, executor: Executor, workers: int, here: Callable[[Task], Finished] | None = None
    ) -> None:
        self._executor, self.workers, self._here = executor, workers, here

    def finished(self, orders: Orders) -> Generator[Finished, None, None]:
        """Yield the shards as they are finished."""
        explain = self._here or partial(explain_shard, orders.job)
        workers = min(self.workers, orders.length)
        return finished_by_crew(lambda: _Slot(self._executor, explain), workers, orders.tasks)


@final
class _Slot:
    def __init__(self, executor: Executor, explain: Callable[[Task], Finished]) -> None:
        self._executor, self._explain = executor, explain
        self._future: Future[Finished] | None = None

    def get_ready(self) -> None:
        pass

    def __call__(self, task: Task) -> Finished:
        try:
            self._future = self._executor.submit(self._explain, task)
            return self._future.result()
        except (BrokenExecutor, CancelledError) as error:
            name = type(self._executor).__name__
            raise InputError(
                f"the executor {name} has ended ({str(error) or type(error).__name__}); what is "
                "finished is kept. Start the run again with a new one."
            ) from None

    def close(self) -> None:
        if self._future is not None:
            self._future.cancel()
