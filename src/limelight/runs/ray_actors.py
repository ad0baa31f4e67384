"""Shards on a Ray cluster: actors that hold the model, placed by what they need."""

from collections.abc import Generator
from typing import Any, final

from limelight.errors import InputError, MissingExtraError
from limelight.runs.engines import finished_by_crew
from limelight.runs.work import Finished, Job, LostWorkerError, Orders, Task, explain_shard


@final
class RayActors:
    """Actors of Ray Core, one model each. A lost actor, or a lost machine, is replaced.

    Texts travel to the actors and shards come back, so the machines need not share a disk; the
    model must be where it was loaded from on each of them, and limelight must be installed there.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        address: str | None = None,
        gpus_per_worker: float = 0.0,
        cpus_per_worker: float = 1.0,
    ) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtraError("the engine 'ray' needs Ray", "cluster") from None
        self._ray: Any = ray
        if not ray.is_initialized():
            _connect(ray, address)
        self._needs = {"num_cpus": cpus_per_worker, "num_gpus": gpus_per_worker}
        self.workers = workers or self._room()

    def finished(self, orders: Orders) -> Generator[Finished, None, None]:
        """Yield the shards as they are finished."""
        actors = self._ray.remote(**self._needs, max_restarts=0)(_Explainer)
        workers = min(self.workers, orders.length)
        return finished_by_crew(
            lambda: _Actor(self._ray, actors, orders.job), workers, orders.tasks
        )

    def _room(self) -> int:
        """Return how many actors the cluster has room for."""
        there = self._ray.cluster_resources()
        room = [
            int(there.get(name, 0) // need)
            for name, need in zip(("CPU", "GPU"), self._needs.values(), strict=True)
            if need
        ]
        if not room or not min(room):
            wanted = ", ".join(f"{need:g} {name[4:]}" for name, need in self._needs.items())
            raise InputError(f"no machine of the Ray cluster has room for a worker ({wanted}).")
        return min(room)


class _Explainer:
    """What runs on a machine of the cluster."""

    def ready(self) -> bool:
        return True

    def shard(self, job: Job, task: Task) -> Finished:
        return explain_shard(job, task)


@final
class _Actor:
    def __init__(self, ray: Any, actors: Any, job: Job) -> None:
        self._ray, self._job = ray, job
        self._actor = actors.remote()

    def get_ready(self) -> None:
        self._answer(self._actor.ready.remote())

    def __call__(self, task: Task) -> Finished:
        found: Finished = self._answer(self._actor.shard.remote(self._job, task))
        return found

    def close(self) -> None:
        self._ray.kill(self._actor)

    def _answer(self, reference: Any) -> Any:
        lost = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except (lost.RayActorError, lost.WorkerCrashedError, lost.ObjectLostError) as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise LostWorkerError(reason[0].rstrip(".")) from None


def _connect(ray: Any, address: str | None) -> None:
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        (reason, *_) = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"no Ray cluster at {address!r} ({reason.rstrip('.')}).") from None
