"""The one thread that asks a model, and the queue before it.

A model is never asked by two threads at a time: most are not made for it. What is quick (a
prediction, an exact method) goes first, even before the next step of something slow that is under
way, and a newer question of the same asker drops the older one, waiting or begun. Where many ask
the same of different texts, they are answered together, which costs little more than one.

A model that hangs on a text cannot be stopped. If it takes no step for a while and others wait, its
question is given up, and another thread answers the others.
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

Report = Callable[[int | float, int], None]
Job = Callable[[Report], Any]
Place = tuple[Hashable, bool]  # who asks, and whether it is quick: only one may be begun

_BETWEEN_REPORTS = 0.1  # seconds: a bar that moves faster is only traffic
_MOST_WAITING = 200  # questions; more than that is an attack or a mistake
_MOST_TOGETHER = 16
_MOST_LOST = 4  # threads that a model has swallowed
_SLOW_STEPS = 5  # a step that takes so many times the slowest one before is taken for hanging
STOPPED = "the page was stopped."


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the answer to a question: how much is done (0 to 1), what was found, or why not.

    ``superseded`` says that a newer question of the same asker took the place of this one.
    """

    share: float | None = None
    found: Any = msgspec.UNSET
    failed: str | None = None
    superseded: bool = False


class Alike(NamedTuple):
    """A question that can be answered together with others of the same ``kind``.

    ``answers`` takes what each of them asks and returns the answer to each.
    """

    kind: Hashable
    asked: Any
    answers: Callable[[Sequence[Any]], Sequence[Any]]


class QuestionQueue:
    """Questions in, answers out, one at a time."""

    patience = 10.0  # seconds without a step of the model, if others wait
    first_patience = 60.0  # of its first step, which may compile or load
    clock = staticmethod(time.monotonic)

    def __init__(self) -> None:
        # By place: the asker, and whether it is quick. A newer question keeps the older's place in
        # the line: whoever types on must not stand at its end for ever.
        self._waiting: dict[Place, QueuedQuestion] = {}
        self._begun: dict[Place, QueuedQuestion] = {}
        self._changed = threading.Condition()
        self._generation = 0  # of the thread: one that was given up finds that it has a successor
        self._lost = 0
        self._closed = False
        self._step_began = self.clock()
        self._slowest_step: float | None = None  # None before the first one has ended
        self._start_thread()

    def ask(
        self, key: Hashable, job: Job, *, quick: bool, alike: Alike | None = None
    ) -> "QueuedQuestion":
        """Put ``job`` in the queue; what the same ``key`` had asked before is dropped.

        Something slow does not drop what is quick: it is asked later, about the same text.
        ``alike`` is another way to answer it, together with others that wait.
        """
        question = QueuedQuestion((key, quick), job, alike=alike)
        with self._changed:
            for place in {(key, quick), (key, False)}:
                for older in (self._waiting.get(place), self._begun.get(place)):
                    if older is not None:
                        older.dropped = True
                        older.tell(Event(superseded=True))
            if quick:
                self._waiting.pop((key, False), None)
            full = question.place not in self._waiting and len(self._waiting) >= _MOST_WAITING
            if self._closed or full:
                full_up = "too many questions are waiting; try again in a moment."
                question.tell(Event(failed=full_up))
            elif self._lost >= _MOST_LOST:
                stuck = "the model does not come back; stop the server and look at it."
                question.tell(Event(failed=stuck))
            else:
                self._waiting[question.place] = question
                self._changed.notify()
        return question

    def leave(self, question: "QueuedQuestion") -> bool:
        """Drop ``question``, which nobody waits for; say whether the model is at work on it."""
        question.dropped = True
        with self._changed:
            if self._waiting.get(question.place) is question:  # and not a newer one
                del self._waiting[question.place]
            return self._begun.get(question.place) is question

    def give_up(self, question: "QueuedQuestion") -> None:
        """Leave ``question``; if the model still works on it, leave that thread to itself.

        Nothing can stop a function that does not return. The others get a new thread.
        """
        with self._changed:
            if not self.leave(question):
                return
            for other in self._begun.values():  # a slow one that a quick one had interrupted
                if other is not question:
                    other.tell(Event(failed="the model did not come back from another question."))
            self._leave_thread()

    def relieve(self) -> None:
        """Give up the question at work if others wait and the model has taken no step for a while.

        Questions that were answered together are asked again, each alone: only one may be at fault.
        """
        with self._changed:
            if self._closed or not self._waiting or not self._begun:
                return
            longest = self.first_patience
            if self._slowest_step is not None:
                longest = max(self.patience, _SLOW_STEPS * self._slowest_step)
            if self.clock() - self._step_began < longest:
                return
            stuck = list(self._begun.values())
            if all(question.alike is not None for question in stuck) and len(stuck) > 1:
                for question in stuck:
                    question.alike = question.kind = None
                    self._waiting.setdefault(question.place, question)
            else:
                late = "the model took too long while others waited; the question was given up."
                for question in stuck:
                    question.dropped = True
                    question.tell(Event(failed=late))
            self._leave_thread()

    def _leave_thread(self) -> None:
        """Leave the thread at work to itself, and let another one answer who waits."""
        self._begun.clear()
        self._lost += 1
        self._start_thread()

    def _count_step(self) -> None:
        """Note that a step of the model has ended and the next one begins."""
        now = self.clock()
        self._slowest_step = max(self._slowest_step or 0.0, now - self._step_began)
        self._step_began = now

    def close(self) -> None:
        """Let the thread end when it can; questions from now on are refused."""
        with self._changed:
            self._closed = True
            for question in (*self._begun.values(), *self._waiting.values()):
                question.dropped = True
                question.tell(Event(failed=STOPPED))
            self._changed.notify_all()

    def _start_thread(self) -> None:
        self._generation += 1
        threading.Thread(
            target=self._work, args=(self._generation,), name="limelight-model", daemon=True
        ).start()

    def _work(self, generation: int) -> None:
        while (question := self._next(generation)) is not None:
            self._answer(question, generation)
        with self._changed:
            if generation != self._generation:
                self._lost -= 1  # a thread that was given up has come back after all

    def _next(self, generation: int) -> "QueuedQuestion | None":
        with self._changed:
            while not self._closed and generation == self._generation:
                if begun := self._begin(lambda _: True, 1):
                    return begun[0]
                self._changed.wait()
        return None

    def _begin(
        self, wanted: Callable[["QueuedQuestion"], bool], most: int
    ) -> list["QueuedQuestion"]:
        """Return the first that wait and are ``wanted``, what is quick before all others."""
        with self._changed:
            found = sorted(filter(wanted, self._waiting.values()), key=lambda one: not one.quick)
            begun = {one.place: self._waiting.pop(one.place) for one in found[:most]}
            self._begun |= begun
            if begun:
                self._step_began = self.clock()
            return list(begun.values())

    def _end(self, question: "QueuedQuestion", event: Event | None) -> None:
        if event is not None:
            question.tell(event)
        with self._changed:
            self._step_began = self.clock()
            if self._begun.get(question.place) is question:
                del self._begun[question.place]

    def _answer(self, question: "QueuedQuestion", generation: int) -> None:
        questions, like = [question], (question.kind, question.quick)
        if question.kind is not None:
            questions += self._begin(lambda one: (one.kind, one.quick) == like, _MOST_TOGETHER)
        if len(questions) > 1 and self._answered_together(questions, generation):
            return
        for one in questions:
            self._end(one, self._outcome(one, generation))

    def _answered_together(self, questions: Sequence["QueuedQuestion"], generation: int) -> bool:
        """Answer all at once; False where one of them is at fault, and each must be asked alone."""
        alike = [one.alike for one in questions if one.alike is not None]
        try:
            answers = contextvars.Context().run(alike[0].answers, [one.asked for one in alike])
        except Exception:
            # Whoever is at fault hears of it alone, unless another thread asks them again.
            return generation != self._generation
        if generation != self._generation:
            return True  # they were asked again
        self._count_step()
        for question, answer in zip(questions, answers, strict=True):
            self._end(question, Event(found=answer))
        return True

    def _outcome(self, question: "QueuedQuestion", generation: int) -> Event | None:
        """Do the job; None where nobody waits for it any more."""

        def report(done: int | float, total: int) -> None:
            if question.dropped or self._closed or generation != self._generation:
                raise _DroppedError
            self._count_step()
            question.tell_progress(float(done) / total)
            while not question.quick and (begun := self._begin(lambda one: one.quick, 1)):
                self._answer(begun[0], generation)

        try:
            # A fresh context: what watches a slow job must not hear of a quick one in between.
            found = contextvars.Context().run(question.job, report)
            if generation == self._generation:
                self._count_step()
            return Event(found=found)
        except _DroppedError:
            return None
        except InputError as error:
            return Event(failed=str(error))
        except MemoryError:
            return Event(failed="there is not enough memory for that.")
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            return Event(
                failed=escape_controls(f"the model failed with {type(error).__name__}: {error}")
            )


class QueuedQuestion:
    """A question in the queue; ``events`` end with its answer, or why there is none."""

    def __init__(self, place: Place, job: Job, *, alike: Alike | None) -> None:
        self.place, self.job, self.alike = place, job, alike
        self.quick, self.kind = place[1], alike and alike.kind
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.dropped = False  # then the job ends at its next step
        self._loop = asyncio.get_running_loop()
        self._reported = 0.0

    def tell(self, event: Event) -> None:
        """Let the asker hear of ``event``, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it the asker
            self._loop.call_soon_threadsafe(self.events.put_nowait, event)

    def tell_progress(self, done: float) -> None:
        """Report progress, unless that was done a moment ago."""
        now = time.monotonic()
        if now - self._reported >= _BETWEEN_REPORTS:
            self._reported = now
            self.tell(Event(share=round(done, 4)))


class _DroppedError(BaseException):
    """Ends a job that nobody waits for; no handler of a model's errors may catch it."""
