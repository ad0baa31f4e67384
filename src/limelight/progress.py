"""Track the progress of a call: count the work, report it to a callback, and show it."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, final

# Called with the finished work and all work, both in texts.
ProgressCallback = Callable[[int | float, int], None]

_SECONDS_BETWEEN_LINES = 0.2
_SECONDS_BETWEEN_LOG_LINES = 30.0
_DELAY_SECONDS = 2.0  # a call in Python that is done sooner shows nothing
_BAR_WIDTH = 20
_LONG_SECONDS = 10.0  # a longer duration is announced
_PACE_SECONDS = 1.0  # of work, before a duration is announced


def format_duration(seconds: int | float) -> str:
    """Return "1 second", "83 minutes", "2 hours" or "3 days": the unit that people would use."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}s"
    return f"{max(round(seconds), 1)} second{'s' * (round(seconds) > 1)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How long a call will take, announced before it starts.

    Parameters
    ----------
    seconds
        The estimated time.
    sentence
        The sentence for the user.
    calls
        The estimated number of model calls, if the estimate rests on it.
    """

    seconds: float
    sentence: str
    calls: int | None = None

    @classmethod
    def from_calls(cls, calls: int, seconds: float) -> "Estimate":
        """Return the estimate of ``calls`` model calls that take ``seconds`` in all."""
        digits = max(len(str(calls)) - 2, 0)  # 610,000 for 613,482
        count = f"{round(calls, -digits):,}"
        sentence = f"about {count} model calls, about {format_duration(seconds)}"
        return cls(seconds=seconds, sentence=sentence, calls=calls)

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The progress of a run, for its callback.

    ``done`` of ``total`` texts are done, and ``failed`` of them failed. ``new_texts`` counts the
    texts of this call, because stored texts take no time. Before the first one, ``per_second`` and
    ``seconds_left`` are None. ``shard`` has the number, texts, failures and seconds of a shard that
    has just been stored. ``estimate`` comes before the first text, and ``warning`` is a warning for
    the user. ``finding`` is true while the model finds the spans or answers to explain, before the
    run begins.
    """

    done: int
    failed: int
    total: int
    new_texts: int = 0
    per_second: float | None = None
    seconds_left: float | None = None
    shard: Any = None
    estimate: Estimate | None = None
    warning: str | None = None
    finding: bool = False

    def add(self, texts: int, failed: int, *, since: float, shard: Any = None) -> "RunProgress":
        """Return the progress after ``texts`` more texts.

        Parameters
        ----------
        texts, failed
            The number of finished texts, and the number of those that failed.
        since
            The value of ``time.perf_counter`` when this call began to explain.
        shard
            The shard of these texts, if it has been stored.

        Returns
        -------
        The progress of the run after these texts.
        """
        done, new_texts = self.done + texts, self.new_texts + texts
        seconds = time.perf_counter() - since
        speed = new_texts / seconds if new_texts and seconds else None
        return RunProgress(
            done=done,
            failed=self.failed + failed,
            total=self.total,
            new_texts=new_texts,
            per_second=speed,
            seconds_left=None if speed is None else (self.total - done) / speed,
            shard=shard,
        )

    @property
    def sentence(self) -> str:
        """A sentence about the progress."""
        batch = " read to find spans or answers" * self.finding
        failed = f", {self.failed:,} failed" if self.failed else ""
        rate = self.per_second
        speed = f", {rate:{',.0f' if rate >= 10 else '.2g'}} a second" if rate else ""
        return f"{self.done:,} of {self.total:,} texts{batch}{failed}{speed}"


@final
class ProgressTracker:
    """Turn model calls into the number of texts done, and report it to a callback.

    The number goes down when a method needs more calls than expected, as for a tolerance that is
    not met.

    Parameters
    ----------
    callback
        Called with the texts done and all texts. None reports nothing.
    total
        The number of all texts.
    estimated
        Whether the expected calls are a guess. The number then never goes down, and calls alone
        never finish a text.
    """

    def __init__(
        self, callback: ProgressCallback | None, *, total: int, estimated: bool = False
    ) -> None:
        self._callback, self._total, self._estimated = callback, total, estimated
        self._reported = 0.0
        self._first, self._texts, self._calls, self._expected = 0, 0, 0.0, 1.0

    def track(self, first: int, *, texts: int, calls: int | float) -> AbstractContextManager[None]:
        """Count the model calls of a block.

        Parameters
        ----------
        first
            The number of texts that are done before the block.
        texts
            The number of texts that the block works on.
        calls
            The expected calls for these texts. If it is 0, calls are not counted.
        """
        self._first, self._texts = first, texts
        self._calls, self._expected = 0.0, float(calls)
        return track_calls(self if calls and self._callback is not None else None)

    def expect_calls(self, calls: int | float) -> None:
        """Add to the expected calls of this block."""
        self._expected += calls

    def count_calls(self, calls: int | float) -> None:
        """Add to the calls of this block, and report the texts done."""
        self._calls += calls
        share = min(self._calls / self._expected, 0.99 if self._estimated else 1.0)
        self.report(self._first + self._texts * share)

    def report(self, done: int | float) -> None:
        """Report that ``done`` texts are done."""
        if self._callback is not None and (done >= self._reported or not self._estimated):
            self._reported = float(done)
            self._callback(done, self._total)


# The tracker of the model calls, and the number of calls that count as one.
_TRACKER: ContextVar[tuple[ProgressTracker | None, int]] = ContextVar("tracker", default=(None, 1))


@contextlib.contextmanager
def track_calls(tracker: ProgressTracker | None, parts: int = 1) -> Iterator[None]:
    """Let ``tracker`` count the model calls of a block, ``parts`` of them as one."""
    # A context variable and no argument: methods and games lie between the verb that reports and
    # the model calls, and have nothing to do with progress. Every thread has a tracker of its own.
    token = _TRACKER.set((tracker, parts))
    try:
        yield
    finally:
        _TRACKER.reset(token)


def expect_calls(calls: int | float) -> None:
    """Tell the tracker about model calls that were not expected, as for a tolerance not yet met."""
    tracker, parts = _TRACKER.get()
    if tracker is not None:
        tracker.expect_calls(calls / parts)


def count_calls(calls: int | float) -> None:
    """Tell the tracker that the model has answered ``calls`` more calls."""
    tracker, parts = _TRACKER.get()
    if tracker is not None:
        tracker.count_calls(calls / parts)


def split_calls(count: int) -> AbstractContextManager[None]:
    """Count ``count`` model calls of a block as one, as for the windows of one masked text."""
    tracker, parts = _TRACKER.get()
    return track_calls(tracker, parts * count)


class ProgressDisplay:
    """Show progress to a person on standard error.

    A display is a callback for progress, and a context that removes the bar or ends the line. In a
    terminal or a notebook it shows a bar, or one line that is written again and again. Elsewhere,
    as in a log file, it writes a line every 30 seconds. Everywhere, it announces once how long the
    work takes if that is long. The first call of the callback starts the clock of this estimate,
    because loading and warming up come before it.

    Parameters
    ----------
    task
        Name of the task, such as "explaining".
    start_bar
        Returns a started bar of rich with one task. By default, a line is written.
    print_sentence
        Prints a sentence above the bar.
    announced
        Whether the duration is announced already.
    delay
        Seconds of work before anything is shown.
    """

    def __init__(
        self,
        task: str,
        *,
        start_bar: Callable[[], Any] | None = None,
        print_sentence: Callable[[str], None] | None = None,
        announced: bool = False,
        delay: float = 0.0,
    ) -> None:
        self._task, self._start_bar, self.announced = task, start_bar, announced
        self._print_sentence, self._delay = print_sentence, delay
        # A log would keep every state of a line that is meant to be written over.
        self.is_live = "ipykernel" in sys.modules or _is_terminal()
        self._restart()

    def _restart(self) -> None:
        """Forget the speed, the bar and the line of the last task."""
        self._opening_time = time.monotonic()
        self._clock_start: tuple[float, float] | None = None  # the time, and the work done
        self._bar: Any = None
        self._line_time, self._line_width = 0.0, 0
        self._log_time = self._opening_time

    def __enter__(self) -> "ProgressDisplay":
        self._opening_time = self._log_time = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._line_width:
            _print_progress("\n")
        self._restart()  # one display may show several calls in turn

    def __call__(
        self,
        done: int | float,
        total: int | float,
        text: str = "",
        seconds_left: float | None = None,
    ) -> None:
        """Show that ``done`` of ``total`` is done; ``text`` replaces the name of the task."""
        now = time.monotonic()
        start, first = self._clock_start = self._clock_start or (now, float(done))
        seconds, gained = now - start, done - first
        if gained and seconds >= _PACE_SECONDS:
            self._announce_duration(seconds / gained * (total - first))
            if seconds_left is None:
                seconds_left = seconds / gained * (total - done)
        if now - self._opening_time < self._delay:
            return
        if not self.is_live:
            if 0 < done < total and now - self._log_time >= _SECONDS_BETWEEN_LOG_LINES:
                self._log_time = now
                self.announce(self._describe(done, total, text, seconds_left))
            return
        if self._start_bar is None:
            self._write_line(done, total, text, seconds_left)
            return
        if self._bar is None and done < total:  # a quick answer has no bar
            self._bar = self._start_bar()
        if self._bar is not None:
            (bar_task,) = self._bar.task_ids
            self._bar.update(bar_task, completed=done, total=total, description=text or self._task)

    def show_run(self, progress: RunProgress) -> None:
        """Show the progress of a run; its estimate and its warnings get separate lines."""
        for sentence in (progress.estimate and progress.estimate.sentence, progress.warning):
            if sentence:
                self.announce(sentence)
        self(progress.done, progress.total, progress.sentence, progress.seconds_left or 0.0)

    def announce(self, sentence: str) -> None:
        """Print a sentence above the bar or the line."""
        if self._print_sentence is not None:
            self._print_sentence(sentence)
        else:
            _print_progress("\r" * self.is_live + sentence.ljust(self._line_width) + "\n")

    def _announce_duration(self, seconds: float) -> None:
        """Print the estimated duration of a long task, once."""
        if seconds > _LONG_SECONDS and not self.announced:
            self.announced = True
            self.announce(f"Estimated time: {format_duration(seconds)}.")

    def _describe(
        self, done: int | float, total: int | float, text: str, seconds_left: float | None
    ) -> str:
        """Return the task, the part that is done and the time left, with a bar if it is live."""
        bar = ""
        if self.is_live:
            # Every terminal can show these characters.
            bar = f" [{'#' * int(_BAR_WIDTH * done / total):.<{_BAR_WIDTH}}]"
        remaining = f", about {format_duration(seconds_left)} left" if seconds_left else ""
        return (text or f"{self._task}: {int(100 * done / total)}%{bar}") + remaining

    def _write_line(
        self, done: int | float, total: int | float, text: str, seconds_left: float | None
    ) -> None:
        """Overwrite the progress line on standard error, at most once in a while."""
        now = time.monotonic()
        recent = now - self._line_time < _SECONDS_BETWEEN_LINES
        # A bar that first appears at the end of a delayed task would only cost a line.
        is_late = self._delay and not self._line_width and done >= total
        if not done or is_late or (recent and done < total):
            return
        line = self._describe(done, total, text, seconds_left)
        _print_progress("\r" + line.ljust(self._line_width))
        self._line_time, self._line_width = now, len(line)


def _is_terminal() -> bool:
    """Return whether standard error is a terminal."""
    # Python without a console has no standard error, and a closed one raises ValueError.
    with contextlib.suppress(AttributeError, ValueError):
        return sys.stderr.isatty()
    return False


def _print_progress(text: str) -> None:
    """Print on standard error, if it can be written to: progress must not end a computation."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


# Whether a public function that shows its progress is running.
_IS_OPEN: ContextVar[bool] = ContextVar("is_open", default=False)


@contextlib.contextmanager
def open_progress(
    progress: ProgressCallback | bool | None, task: str
) -> Iterator[ProgressCallback | None]:
    """Yield the callback for the argument ``progress`` of a public function.

    None stands for a display that appears after two seconds, True for one that appears at once, and
    False for no callback. None shows nothing in a call of another public function, as in a function
    that :func:`limelight.judge` calls.
    """
    is_nested, token = _IS_OPEN.get(), _IS_OPEN.set(True)
    try:
        if progress is True or (progress is None and not is_nested):
            delay = 0.0 if progress else _DELAY_SECONDS
            with ProgressDisplay(task, announced=True, delay=delay) as display:
                yield display
        else:
            yield progress or None
    finally:
        _IS_OPEN.reset(token)
