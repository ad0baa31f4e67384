"""The queue before a model: one at a time, the newest question, what is quick first."""

import asyncio
import json
import threading
import time

import pytest

pytest.importorskip("starlette", reason="the page is served with starlette (extra serve)")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn (extra serve)")

from limelight.errors import InputError
from limelight.serving.app import stream_lines
from limelight.serving.queue import BatchJob, Event, JobQueue


@pytest.fixture
def queue():
    made = JobQueue()
    yield made
    made.close()


def steps(gate, count=1000):
    """A slow job: it reports again and again until ``gate`` is set."""

    def job(report):
        for k in range(count):
            report(k, count)
            if gate.wait(0.005):
                break
        return "slow"

    return job


async def end(question):
    """Return the last event; shares are passed over."""
    while True:
        event = await asyncio.wait_for(question.events.get(), 20)
        if event.share is None:
            return event


def run(scenario):
    return asyncio.run(scenario)


def test_what_a_job_returns_is_found_and_what_it_raises_is_a_sentence(queue):
    def refuse(report):
        raise InputError("a text must have words.")

    def fail(report):
        raise ZeroDivisionError("by nothing")

    async def scenario():
        asked = [queue.ask(k, job, quick=True) for k, job in enumerate((lambda _: 7, refuse, fail))]
        return [await end(question) for question in asked]

    assert run(scenario()) == [
        Event(found=7),
        Event(failed="a text must have words."),
        Event(failed="the model failed with ZeroDivisionError: by nothing"),
    ]


def test_a_newer_question_drops_the_older_whether_it_waits_or_is_under_way(queue):
    gate, ran = threading.Event(), []

    async def scenario():
        begun = queue.ask("tab", steps(gate), quick=False)
        await asyncio.wait_for(begun.events.get(), 20)  # it has begun
        waiting = [queue.ask("tab", lambda _, k=k: ran.append(k), quick=False) for k in range(3)]
        return [await end(question) for question in (begun, *waiting)]

    assert run(scenario()) == [Event(superseded=True)] * 3 + [Event(found=None)]
    assert ran == [2]


def test_a_newer_question_keeps_the_place_in_the_line(queue):
    gate, ran = threading.Event(), []

    async def scenario():
        busy = queue.ask("busy", steps(gate), quick=True)
        await asyncio.wait_for(busy.events.get(), 20)
        for key in ("first", "second", "first", "third", "first"):
            queue.ask(key, lambda _, key=key: ran.append(key), quick=True)
        questions = [*queue._waiting.values()]
        gate.set()
        return [await end(question) for question in questions]

    assert run(scenario()) == [Event(found=None)] * 3
    assert ran == ["first", "second", "third"]


def test_questions_of_other_askers_are_all_answered(queue):
    async def scenario():
        asked = [queue.ask(k, lambda _, k=k: k, quick=bool(k % 2)) for k in range(20)]
        return [await end(question) for question in asked]

    assert run(scenario()) == [Event(found=k) for k in range(20)]


def test_what_is_quick_goes_before_what_has_waited_longer(queue):
    gate, ran = threading.Event(), []

    async def scenario():
        busy = queue.ask("busy", steps(gate), quick=True)
        await asyncio.wait_for(busy.events.get(), 20)  # it has begun
        asked = [
            queue.ask(name, lambda _, name=name: ran.append(name), quick=name == "quick")
            for name in ("slow", "quick")
        ]
        gate.set()
        for question in (busy, *asked):
            await end(question)

    run(scenario())
    assert ran == ["quick", "slow"]


def test_something_quick_does_not_wait_for_something_slow(queue):
    gate = threading.Event()

    async def scenario():
        slow = queue.ask("one", steps(gate), quick=False)
        await asyncio.wait_for(slow.events.get(), 20)
        quick = await end(queue.ask("other", lambda _: "quick", quick=True))
        still = not gate.is_set()
        gate.set()
        return quick, still, await end(slow)

    assert run(scenario()) == (Event(found="quick"), True, Event(found="slow"))


def test_a_pause_does_not_drop_what_the_last_key_asked(queue):
    gate = threading.Event()

    async def scenario():
        other = queue.ask("other", steps(gate), quick=True)
        await asyncio.wait_for(other.events.get(), 20)  # the queue is busy
        quick = queue.ask("tab", lambda _: "quick", quick=True)
        slow = queue.ask("tab", lambda _: "slow", quick=False)
        gate.set()
        return await end(quick), await end(slow)

    assert run(scenario()) == (Event(found="quick"), Event(found="slow"))


def test_a_key_drops_what_a_pause_had_asked(queue):
    gate = threading.Event()

    async def scenario():
        slow = queue.ask("tab", steps(gate), quick=False)
        await asyncio.wait_for(slow.events.get(), 20)
        quick = queue.ask("tab", lambda _: "quick", quick=True)
        return await end(slow), await end(quick)

    assert run(scenario()) == (Event(superseded=True), Event(found="quick"))


def test_only_one_thread_asks_the_model(queue):
    inside, most = [], []

    def job(report):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()

    async def scenario():
        asked = [queue.ask(k, job, quick=k % 3 == 0) for k in range(30)]
        return [await end(question) for question in asked]

    run(scenario())
    assert max(most) == 1
    assert len(most) == 30


def test_a_model_that_does_not_come_back_is_left_and_others_are_answered(queue):
    gate = threading.Event()

    async def scenario():
        lost = queue.ask("one", lambda _: gate.wait(), quick=True)
        while ("one", True) not in queue._begun:
            await asyncio.sleep(0.001)
        queue.give_up(lost)
        found = await end(queue.ask("other", lambda _: "answered", quick=True))
        gate.set()
        return found

    assert run(scenario()) == Event(found="answered")


@pytest.mark.parametrize("leaves", [True, False], ids=["the reader leaves", "a newer question"])
def test_a_model_that_hangs_on_what_nobody_waits_for_is_left_all_the_same(queue, leaves):
    gate = threading.Event()

    async def scenario():
        hung = queue.ask("tab", lambda _: gate.wait(), quick=True)
        lines = stream_lines(hung, queue, seconds=0.2)
        first = asyncio.ensure_future(anext(lines))
        while ("tab", True) not in queue._begun:
            await asyncio.sleep(0.001)
        if leaves:
            first.cancel()
        newer = queue.ask("tab", lambda _: "answered", quick=True)
        await asyncio.wait([first])
        await lines.aclose()
        found = await end(newer)
        gate.set()
        return found

    assert run(scenario()) == Event(found="answered")


def test_a_question_that_takes_too_long_but_comes_back_keeps_the_one_thread(queue):
    inside, most, gate = [], [], threading.Event()

    def asking(report):
        for k in range(1000):
            report(k, 1000)
            inside.append(1)
            most.append(len(inside))
            gate.wait(0.02)
            inside.pop()

    async def scenario():
        lines = stream_lines(queue.ask("slow", asking, quick=False), queue, seconds=2)
        told = [line async for line in lines]
        found = await end(queue.ask("next", lambda _: most.append(len(inside) + 1), quick=False))
        await asyncio.sleep(0.6)  # what was to give it up finds that it has ended
        return told[-1], found

    told, found = run(scenario())
    assert b"took longer than 2 seconds" in told
    assert found == Event(found=None)
    assert (max(most), queue._generation) == (1, 1)


def test_what_nobody_waits_for_any_more_is_not_begun_and_the_newer_one_is(queue):
    gate, ran = threading.Event(), []

    async def scenario():
        busy = queue.ask("busy", steps(gate), quick=True)
        await asyncio.wait_for(busy.events.get(), 20)
        left, older = (queue.ask(key, lambda _: ran.append("no"), quick=True) for key in "ab")
        newer = queue.ask("b", lambda _: ran.append("yes"), quick=True)
        assert not queue.leave(left)
        queue.give_up(older)
        gate.set()
        return await end(newer)

    assert run(scenario()) == Event(found=None)
    assert ran == ["yes"]


def test_a_model_that_never_comes_back_is_not_asked_for_ever(queue):
    gate = threading.Event()

    async def scenario():
        for k in range(4):
            lost = queue.ask(k, lambda _: gate.wait(), quick=True)
            while (k, True) not in queue._begun:
                await asyncio.sleep(0.001)
            queue.give_up(lost)
        refused = await end(queue.ask("other", lambda _: 1, quick=True))
        gate.set()
        while queue._lost:  # the threads come back one by one
            await asyncio.sleep(0.001)
        return refused, await end(queue.ask("other", lambda _: 1, quick=True))

    refused, found = run(scenario())
    assert refused == Event(failed="the model does not come back; stop the server and look at it.")
    assert found == Event(found=1)


def test_a_queue_that_is_too_long_refuses(queue):
    gate = threading.Event()

    async def scenario():
        first = queue.ask("first", steps(gate), quick=True)
        await asyncio.wait_for(first.events.get(), 20)
        asked = [queue.ask(k, lambda _: 1, quick=True) for k in range(201)]
        gate.set()
        return [await end(question) for question in asked]

    found = run(scenario())
    assert found[:200] == [Event(found=1)] * 200
    assert found[200] == Event(failed="too many questions are waiting; try again in a moment.")


def test_a_reader_who_left_ends_the_job(queue):
    gate = threading.Event()

    async def scenario():
        slow = queue.ask("tab", steps(gate), quick=False)
        await asyncio.wait_for(slow.events.get(), 20)
        slow.dropped = True
        return await end(queue.ask("other", lambda _: "next", quick=False))

    assert run(scenario()) == Event(found="next")


def asked_together(queue, answers):
    """Four questions that wait while the queue is busy: three of one kind, one of another."""
    gate = threading.Event()

    async def scenario():
        busy = queue.ask("busy", steps(gate), quick=True)
        await asyncio.wait_for(busy.events.get(), 20)
        asked = [
            queue.ask(k, lambda _, k=k: f"alone {k}", quick=True, alike=BatchJob(kind, k, answers))
            for k, kind in enumerate(("x", "y", "x", "x"))
        ]
        gate.set()
        return [await end(question) for question in asked]

    return run(scenario())


def test_questions_of_one_kind_that_wait_are_answered_together(queue):
    calls = []

    def answers(asked):
        calls.append(list(asked))
        return [f"together {k}" for k in asked]

    assert asked_together(queue, answers) == [
        Event(found="together 0"),
        Event(found="alone 1"),
        Event(found="together 2"),
        Event(found="together 3"),
    ]
    assert calls == [[0, 2, 3]]


def test_where_one_of_them_is_at_fault_each_is_asked_alone(queue):
    def answers(asked):
        raise InputError("one of these texts has no words.")

    assert asked_together(queue, answers) == [Event(found=f"alone {k}") for k in range(4)]


async def last_line(question, queue):
    return json.loads([line async for line in stream_lines(question, queue, seconds=120)][-1])


def hanging_queue(queue):
    """Return the time of the queue's own clock, which a test moves, and shorten its polling."""
    now = [0.0]
    queue.clock, queue.patience = lambda: now[0], 0.01
    queue.first_patience = 60.0
    return now


def test_a_text_on_which_the_model_hangs_does_not_delay_the_others(queue):
    now, gate = hanging_queue(queue), threading.Event()

    async def scenario():
        hanging = queue.ask("a", lambda _: gate.wait(), quick=False)
        await asyncio.to_thread(queue_has_begun(queue).wait, 20)
        others = [queue.ask(k, lambda _, k=k: k, quick=False) for k in range(3)]
        now[0] = 59.0  # the first step of a model may take a while
        queue.relieve()
        assert hanging.events.empty()
        now[0] = 61.0
        answers = [await last_line(question, queue) for question in others]
        return answers, await end(hanging)

    answers, given_up = run(scenario())
    gate.set()
    assert answers == [{"found": 0}, {"found": 1}, {"found": 2}]
    assert "took too long while others waited" in given_up.failed


def queue_has_begun(queue):
    """Return an event that is set when the queue has begun a question."""
    begun = threading.Event()

    def watch():
        while not queue._begun:
            time.sleep(0.001)
        begun.set()

    threading.Thread(target=watch, daemon=True).start()
    return begun


def test_of_texts_that_are_asked_together_only_the_one_that_hangs_is_given_up(queue):
    now, gate, first = hanging_queue(queue), threading.Event(), threading.Event()

    def answers(texts):
        if "bad" in texts:
            gate.wait()
        return [text.upper() for text in texts]

    def ask(text):
        alike = BatchJob("kind", text, answers)
        return queue.ask(text, lambda _: answers([text])[0], quick=False, alike=alike)

    async def scenario():
        busy = queue.ask("busy", lambda _: first.wait(), quick=False)
        await asyncio.to_thread(queue_has_begun(queue).wait, 20)
        questions = {text: ask(text) for text in ("bad", "b", "c")}
        first.set()
        await end(busy)
        while len(queue._begun) < 3:
            await asyncio.sleep(0.001)
        late = queue.ask("late", lambda _: "late", quick=False)
        lines = [last_line(question, queue) for question in (*questions.values(), late)]

        async def move_the_clock():
            while True:
                now[0] += 1.0
                await asyncio.sleep(0.005)

        moving = asyncio.create_task(move_the_clock())
        found = await asyncio.gather(*lines)
        moving.cancel()
        return found

    bad, *others = run(scenario())
    gate.set()
    assert "took too long while others waited" in bad["failed"]
    assert others == [{"found": "B"}, {"found": "C"}, {"found": "late"}]


def test_a_slow_model_that_takes_its_steps_is_asked_by_one_thread(queue):
    now, threads = hanging_queue(queue), set()

    def job(report):
        for step in range(4):
            now[0] += 30.0  # each step takes half a minute
            threads.add(threading.get_ident())
            report(step, 4)
        return "slow"

    async def scenario():
        questions = [queue.ask(k, job, quick=False) for k in range(25)]
        return await asyncio.gather(*(last_line(question, queue) for question in questions))

    assert run(scenario()) == [{"found": "slow"}] * 25
    assert len(threads) == 1
    assert queue._lost == 0


def test_a_queue_that_closes_tells_all_who_wait(queue):
    gate = threading.Event()

    async def scenario():
        asked = [queue.ask(k, steps(gate), quick=False) for k in range(3)]
        await asyncio.wait_for(asked[0].events.get(), 20)  # it has begun
        queue.close()
        return [await end(question) for question in asked]

    assert run(scenario()) == [Event(failed="the page was stopped.")] * 3
