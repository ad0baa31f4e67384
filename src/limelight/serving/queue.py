"""Run the jobs of all pages on one thread, because most models are not thread-safe.

Quick jobs (a prediction, an exact method) go first. They even interrupt a slow job between two of
its steps. A new job of a page panel replaces the older job of the same panel, whether that waits or
runs. Jobs that differ only in their texts run as one batch, which costs little more than one job.

A model that hangs on a text cannot be stopped. If it makes no progress for a while and other jobs
wait, its job is abandoned and a new thread runs the other jobs.
"""

import asyncio
import contextlib
import contextvars
import sys
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import msgspec

from limelight.errors import InputError, escape_controls

ProgressCallback = Callable[[int | float, int], None]
JobFunction = Callable[[ProgressCallback], Any]
JobKey = tuple[Hashable, bool]  # the page panel, and whether the job is quick

_SECONDS_BETWEEN_REPORTS = 0.1  # a progress bar that moves faster only costs traffic
_MAX_WAITING_JOBS = 200  # more than that is an attack or a mistake
_MAX_BATCH_SIZE = 16
_MAX_STUCK_THREADS = 4
_SLOW_STEP_FACTOR = 5  # a step that takes so many times the slowest earlier step counts as hanging
STOPPED = "the page was stopped."


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the answer to a request: its progress (0 to 1), its result, or an error.

    ``superseded`` means that a newer request of the same page panel replaced this one.
    """

    progress: float | None = None
    result: Any = msgspec.UNSET
    error: str | None = None
    superseded: bool = False


class BatchJob(NamedTuple):
    """A job that can run in one batch with other jobs of the same ``kind``.

    ``run_batch`` takes the requests of all these jobs and returns one result for each.
    """

    kind: Hashable
    request: Any
    run_batch: Callable[[Sequence[Any]], Sequence[Any]]


class JobQueue:
    """Run jobs on one thread at a time, and report their progress and results as events."""

    patience = 10.0  # seconds without a step of the model, if other jobs wait
    first_patience = 60.0  # for the first step, which may compile or load
    clock = staticmethod(time.monotonic)

    def __init__(self) -> None:
        # A newer job keeps the position of the job that it replaces. Otherwise somebody who keeps
        # typing would stay at the end of the queue.
        self._waiting: dict[JobKey, QueuedJob] = {}
        self._running: dict[JobKey, QueuedJob] = {}
        self._changed = threading.Condition()
        self._generation = 0  # number of the thread: an abandoned thread sees that it was replaced
        self._stuck_threads = 0
        self._is_closed = False
        self._step_start = self.clock()
        self._slowest_step: float | None = None  # None until the first step has ended
        self._start_thread()

    def submit(
        self,
        panel: Hashable,
        function: JobFunction,
        *,
        is_quick: bool,
        batch_job: BatchJob | None = None,
    ) -> "QueuedJob":
        """Add a job to the queue, and cancel the older jobs of the same panel of a page.

        A slow job leaves a quick job running, because both explain the same text.

        Parameters
        ----------
        panel
            The part of the page that shows the result. It has at most one current job.
        function
            Computes the result. It gets a callback for its progress.
        is_quick
            Whether the job goes before all slow jobs.
        batch_job
            How to run the job in one batch with similar jobs. None runs it by itself.

        Returns
        -------
        The job, whose ``events`` end with its result or an error.
        """
        job = QueuedJob((panel, is_quick), function, batch_job=batch_job)
        with self._changed:
            for key in {(panel, is_quick), (panel, False)}:
                for older in (self._waiting.get(key), self._running.get(key)):
                    if older is not None:
                        older.is_canceled = True
                        older.send_event(Event(superseded=True))
            if is_quick:
                self._waiting.pop((panel, False), None)
            is_full = job.key not in self._waiting and len(self._waiting) >= _MAX_WAITING_JOBS
            if self._is_closed or is_full:
                error = "too many requests are waiting. Try again in a moment."
                job.send_event(Event(error=error))
            elif self._stuck_threads >= _MAX_STUCK_THREADS:
                error = "the model does not respond. Stop the server and check the model."
                job.send_event(Event(error=error))
            else:
                self._waiting[job.key] = job
                self._changed.notify()
        return job

    def cancel(self, job: "QueuedJob") -> bool:
        """Cancel a job that nobody waits for, and return whether it is running."""
        job.is_canceled = True
        with self._changed:
            if self._waiting.get(job.key) is job:  # and not a newer job
                del self._waiting[job.key]
            return self._running.get(job.key) is job

    def abandon(self, job: "QueuedJob") -> None:
        """Cancel a job. If it is still running, replace its thread.

        Python cannot stop a function that does not return. The other jobs get a new thread.
        """
        with self._changed:
            if not self.cancel(job):
                return
            for interrupted_job in self._running.values():  # a slow job that `job` interrupted
                if interrupted_job is not job:
                    error = "the model did not finish another request."
                    interrupted_job.send_event(Event(error=error))
            self._replace_thread()

    def abandon_stuck_jobs(self) -> None:
        """Abandon the running jobs if other jobs wait and the model has made no step for a while.

        The jobs of a batch run again one by one, because perhaps only one of them makes the model
        hang.
        """
        with self._changed:
            if self._is_closed or not self._waiting or not self._running:
                return
            limit = self.first_patience
            if self._slowest_step is not None:
                limit = max(self.patience, _SLOW_STEP_FACTOR * self._slowest_step)
            if self.clock() - self._step_start < limit:
                return
            stuck_jobs = list(self._running.values())
            if len(stuck_jobs) > 1 and all(job.batch_job is not None for job in stuck_jobs):
                for job in stuck_jobs:
                    job.batch_job = job.kind = None
                    self._waiting.setdefault(job.key, job)
            else:
                error = "the model took too long while others waited, so the request was stopped."
                for job in stuck_jobs:
                    job.is_canceled = True
                    job.send_event(Event(error=error))
            self._replace_thread()

    def _replace_thread(self) -> None:
        """Start a new thread for the waiting jobs, beside the thread that hangs."""
        self._running.clear()
        self._stuck_threads += 1
        self._start_thread()

    def _count_step(self) -> None:
        """Record that a step of the model has ended and the next step begins."""
        now = self.clock()
        self._slowest_step = max(self._slowest_step or 0.0, now - self._step_start)
        self._step_start = now

    def close(self) -> None:
        """Cancel all jobs, refuse new ones, and let the thread end."""
        with self._changed:
            self._is_closed = True
            for job in (*self._running.values(), *self._waiting.values()):
                job.is_canceled = True
                job.send_event(Event(error=STOPPED))
            self._changed.notify_all()

    def _start_thread(self) -> None:
        """Start a thread that runs the jobs of the queue."""
        self._generation += 1
        threading.Thread(
            target=self._run_jobs, args=(self._generation,), name="limelight-model", daemon=True
        ).start()

    def _run_jobs(self, generation: int) -> None:
        """Run jobs until the queue is closed or another thread has taken over."""
        while (job := self._next_job(generation)) is not None:
            self._run_with_batch(job, generation)
        with self._changed:
            if generation != self._generation:
                self._stuck_threads -= 1  # an abandoned thread has come back after all

    def _next_job(self, generation: int) -> "QueuedJob | None":
        """Wait for a job. Return None if this thread must end."""
        with self._changed:
            while not self._is_closed and generation == self._generation:
                if jobs := self._start_jobs(lambda _: True, 1):
                    return jobs[0]
                self._changed.wait()
        return None

    def _start_jobs(
        self, condition: Callable[["QueuedJob"], bool], max_count: int
    ) -> list["QueuedJob"]:
        """Move the first waiting jobs that meet a condition to the running jobs, quick ones first.

        Returns
        -------
        These jobs, at most ``max_count``.
        """
        with self._changed:
            candidates = filter(condition, self._waiting.values())
            jobs = sorted(candidates, key=lambda job: not job.is_quick)[:max_count]
            started_jobs = {job.key: self._waiting.pop(job.key) for job in jobs}
            self._running |= started_jobs
            if started_jobs:
                self._step_start = self.clock()
            return list(started_jobs.values())

    def _finish(self, job: "QueuedJob", event: Event | None) -> None:
        """Send the last event of a job and remove it from the running jobs."""
        if event is not None:
            job.send_event(event)
        with self._changed:
            self._step_start = self.clock()
            if self._running.get(job.key) is job:
                del self._running[job.key]

    def _run_with_batch(self, job: "QueuedJob", generation: int) -> None:
        """Run a job together with the waiting jobs of the same kind."""
        jobs, kind = [job], (job.kind, job.is_quick)
        if job.kind is not None:
            jobs += self._start_jobs(
                lambda waiting_job: (waiting_job.kind, waiting_job.is_quick) == kind,
                _MAX_BATCH_SIZE,
            )
        if len(jobs) > 1 and self._run_batch(jobs, generation):
            return
        for single_job in jobs:
            self._finish(single_job, self._run_job(single_job, generation))

    def _run_batch(self, jobs: Sequence["QueuedJob"], generation: int) -> bool:
        """Run jobs as one batch. Return False if each of them must now run by itself."""
        batch_jobs = [job.batch_job for job in jobs if job.batch_job is not None]
        requests = [batch_job.request for batch_job in batch_jobs]
        try:
            results = contextvars.Context().run(batch_jobs[0].run_batch, requests)
        except Exception:
            # Only the request that causes the error should get it, so each job runs by itself. If
            # this thread was replaced, the new thread does that.
            return generation != self._generation
        if generation != self._generation:
            return True  # the new thread runs these jobs again
        self._count_step()
        for job, result in zip(jobs, results, strict=True):
            self._finish(job, Event(result=result))
        return True

    def _run_job(self, job: "QueuedJob", generation: int) -> Event | None:
        """Run a job by itself and return its last event, or None if the job was canceled."""

        def report_progress(done: int | float, total: int) -> None:
            """Send the progress, stop a canceled job, and run quick jobs between two steps."""
            if job.is_canceled or self._is_closed or generation != self._generation:
                raise _CanceledError
            self._count_step()
            job.send_progress(float(done) / total)
            while not job.is_quick:
                quick_jobs = self._start_jobs(lambda waiting_job: waiting_job.is_quick, 1)
                if not quick_jobs:
                    break
                self._run_with_batch(quick_jobs[0], generation)

        try:
            # A fresh context: callbacks of a slow job must not see the quick jobs in between.
            result = contextvars.Context().run(job.function, report_progress)
            if generation == self._generation:
                self._count_step()
            return Event(result=result)
        except _CanceledError:
            return None
        except InputError as error:
            return Event(error=str(error))
        except MemoryError:
            return Event(error="there is not enough memory for this request.")
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            return Event(
                error=escape_controls(f"the model failed with {type(error).__name__}: {error}")
            )


class QueuedJob:
    """A job in the queue. Its ``events`` end with its result or with an error."""

    def __init__(self, key: JobKey, function: JobFunction, *, batch_job: BatchJob | None) -> None:
        self.key, self.function, self.batch_job = key, function, batch_job
        self.is_quick, self.kind = key[1], batch_job and batch_job.kind
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.is_canceled = False  # a canceled job ends at its next step
        self._loop = asyncio.get_running_loop()
        self._last_report = 0.0

    def send_event(self, event: Event) -> None:
        """Add an event to ``events``. Any thread may call this."""
        with contextlib.suppress(RuntimeError):  # the event loop has ended, so nobody waits
            self._loop.call_soon_threadsafe(self.events.put_nowait, event)

    def send_progress(self, progress: float) -> None:
        """Send the progress as an event, unless one was sent a moment ago."""
        now = time.monotonic()
        if now - self._last_report >= _SECONDS_BETWEEN_REPORTS:
            self._last_report = now
            self.send_event(Event(progress=round(progress, 4)))


class _CanceledError(BaseException):
    """Ends a canceled job. It is no Exception, so that no handler in a model catches it."""
