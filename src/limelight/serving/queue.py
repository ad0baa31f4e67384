"""The one thread that asks a model, and the queue before it.

A model is never asked by two threads at a time: most are not made for it. What is quick (a
prediction, an exact method) goes first, even before the next step of something slow that is under
way, and a newer question of the same asker drops the older one, waiting or begun. Where many ask
the same of different texts, they are answered together, which costs little more than one.
"""

import asyncio
import contextlib
import contextvars
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, final

from limelight.errors import InputError

Report = Callable[[int | float, int], None]
Job = Callable[[Report], Any]

_BETWEEN_REPORTS = 0.1  # seconds: a bar that moves faster is only traffic
_MOST_WAITING = 200  # questions; more than that is an attack or a mistake
_MOST_TOGETHER = 16
_MOST_LOST = 4  # threads that a model has swallowed


class Share(NamedTuple):
    """How much of a job is done, 0 to 1."""

    done: float


class Found(NamedTuple):
    """What a job returned."""

    answer: Any


class Failed(NamedTuple):
    """Why a job returned nothing, in a sentence."""

    sentence: str


class Superseded(NamedTuple):
    """A newer question of the same asker took the place of this one."""


class Alike(NamedTuple):
    """A question that can be answered together with others of the same ``kind``.

    ``answers`` takes what each of them asks and returns what each is to find.
    """

    kind: Hashable
    asked: Any
    answers: Callable[[Sequence[Any]], Sequence[Any]]


Event = Share | Found | Failed | Superseded


class _DroppedError(BaseException):
    """Ends a job that nobody waits for; no handler of a model's errors may catch it."""


@final
class Ticket:
    """A question at the desk; ``events`` end with what was found, or why nothing was."""

    def __init__(self, key: Hashable, job: Job, *, quick: bool, alike: Alike | None) -> None:
        self.key, self.job, self.quick, self.alike = key, job, quick, alike
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.dropped = False
        self._loop = asyncio.get_running_loop()
        self._reported = 0.0

    def tell(self, event: Event) -> None:
        """Let the asker hear of ``event``, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it the asker
            self._loop.call_soon_threadsafe(self.events.put_nowait, event)

    def drop(self) -> None:
        """End the job at its next step; nobody waits for it."""
        self.dropped = True

    def share(self, done: float) -> None:
        """Report progress, unless that was done a moment ago."""
        now = time.monotonic()
        if now - self._reported >= _BETWEEN_REPORTS:
            self._reported = now
            self.tell(Share(done))


@final
class Desk:
    """Questions in, answers out, one at a time."""

    def __init__(self) -> None:
        self._waiting: dict[bool, OrderedDict[Hashable, Ticket]] = {
            True: OrderedDict(),
            False: OrderedDict(),
        }
        self._begun: dict[tuple[Hashable, bool], Ticket] = {}
        self._changed = threading.Condition()
        self._generation = 0  # of the thread: one that was given up finds that it has a successor
        self._lost = 0
        self._closed = False
        self._hire()

    def ask(self, key: Hashable, job: Job, *, quick: bool, alike: Alike | None = None) -> Ticket:
        """Put ``job`` in the queue; what the same ``key`` had asked before is dropped.

        Something slow does not drop what is quick: it is asked later, about the same text.
        ``alike`` is another way to answer it, together with others that wait.
        """
        ticket = Ticket(key, job, quick=quick, alike=alike)
        with self._changed:
            for lane in (True, False) if quick else (False,):
                for one in (self._waiting[lane].get(key), self._begun.get((key, lane))):
                    if one is not None:
                        one.drop()
                        one.tell(Superseded())
                if lane != quick:
                    self._waiting[lane].pop(key, None)
            is_new = key not in self._waiting[quick]
            waiting = sum(map(len, self._waiting.values()))
            if self._closed or (is_new and waiting >= _MOST_WAITING):
                ticket.tell(Failed("too many questions are waiting; try again in a moment."))
                return ticket
            if self._lost >= _MOST_LOST:
                ticket.tell(Failed("the model does not come back; stop the server and look at it."))
                return ticket
            # It takes the place of the older one: whoever types on must not stand at the end of
            # the line for ever.
            self._waiting[quick][key] = ticket
            self._changed.notify()
        return ticket

    def leave(self, ticket: Ticket) -> bool:
        """Drop ``ticket``, which nobody waits for; say whether the model is at work on it."""
        ticket.drop()
        with self._changed:
            self._forget(ticket)
            return self._begun.get((ticket.key, ticket.quick)) is ticket

    def give_up(self, ticket: Ticket) -> None:
        """Leave ``ticket``; if the model still works on it, leave that thread to itself.

        Nothing can stop a function that does not return. The others get a new thread.
        """
        ticket.drop()
        with self._changed:
            self._forget(ticket)
            if self._begun.get((ticket.key, ticket.quick)) is not ticket:
                return
            for other in self._begun.values():  # a slow one that a quick one had interrupted
                if other is not ticket:
                    other.tell(Failed("the model did not come back from another question."))
            self._begun.clear()
            self._lost += 1
            self._hire()

    def _forget(self, ticket: Ticket) -> None:
        """Take ``ticket`` out of the queue, but not a newer one that has its place."""
        if self._waiting[ticket.quick].get(ticket.key) is ticket:
            del self._waiting[ticket.quick][ticket.key]

    def close(self) -> None:
        """Let the thread end when it can; questions from now on are refused."""
        with self._changed:
            self._closed = True
            for ticket in self._begun.values():
                ticket.drop()
            self._changed.notify_all()

    def _hire(self) -> None:
        self._generation += 1
        worker = threading.Thread(
            target=self._work, args=(self._generation,), name="limelight-desk", daemon=True
        )
        worker.start()

    def _work(self, generation: int) -> None:
        while (ticket := self._next(generation)) is not None:
            self._answer(ticket, generation)
        with self._changed:
            if generation != self._generation:
                self._lost -= 1  # a thread that was given up has come back after all

    def _next(self, generation: int) -> Ticket | None:
        with self._changed:
            while not self._closed and generation == self._generation:
                for lane in (True, False):
                    if self._waiting[lane]:
                        return self._begin(lane)
                self._changed.wait()
        return None

    def _begin(self, lane: bool) -> Ticket:
        key, ticket = self._waiting[lane].popitem(last=False)
        self._begun[key, lane] = ticket
        return ticket

    def _answer(self, ticket: Ticket, generation: int) -> None:
        tickets = [ticket, *self._begin_alike(ticket)]
        if len(tickets) > 1 and self._together(tickets):
            return
        for one in tickets:
            self._alone(one, generation)

    def _begin_alike(self, ticket: Ticket) -> list[Ticket]:
        """Return questions of the same kind that wait, which are begun by that."""
        if ticket.alike is None:
            return []
        with self._changed:
            waiting, kind = self._waiting[ticket.quick], ticket.alike.kind
            same = [key for key, one in waiting.items() if one.alike and one.alike.kind == kind]
            chosen = [waiting.pop(key) for key in same[:_MOST_TOGETHER]]
            self._begun |= {(one.key, one.quick): one for one in chosen}
            return chosen

    def _together(self, tickets: Sequence[Ticket]) -> bool:
        """Answer all at once; False where one of them is at fault, and each must be asked alone."""
        alike = [one.alike for one in tickets if one.alike is not None]
        try:
            answers = contextvars.Context().run(alike[0].answers, [one.asked for one in alike])
        except Exception:
            return False  # whoever is at fault hears of it alone
        for ticket, answer in zip(tickets, answers, strict=True):
            ticket.tell(Found(answer))
            self._end(ticket)
        return True

    def _end(self, ticket: Ticket) -> None:
        with self._changed:
            if self._begun.get((ticket.key, ticket.quick)) is ticket:
                del self._begun[ticket.key, ticket.quick]

    def _alone(self, ticket: Ticket, generation: int) -> None:
        try:
            # A fresh context: what watches a slow job must not hear of a quick one in between.
            answer = contextvars.Context().run(ticket.job, self._report(ticket, generation))
            ticket.tell(Found(answer))
        except _DroppedError:
            pass
        except InputError as error:
            ticket.tell(Failed(str(error)))
        except MemoryError:
            ticket.tell(Failed("there is not enough memory for that."))
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            ticket.tell(Failed(f"the model failed with {type(error).__name__}: {error}"))
        finally:
            self._end(ticket)

    def _report(self, ticket: Ticket, generation: int) -> Report:
        def report(done: int | float, total: int) -> None:
            if ticket.dropped or self._closed or generation != self._generation:
                raise _DroppedError
            ticket.share(float(done) / total)
            while not ticket.quick and (other := self._next_quick()) is not None:
                self._answer(other, generation)

        return report

    def _next_quick(self) -> Ticket | None:
        with self._changed:
            return self._begin(True) if self._waiting[True] else None
