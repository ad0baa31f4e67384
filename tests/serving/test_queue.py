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
    created = JobQueue()
    yield created
    created.close()


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
        if event.progress is None:
            return event


def run(scenario):
    return asyncio.run(scenario)


def test_a_job_has_its_result_or_the_message_of_its_error(queue):
    def refuse(report):
        raise InputError("a text must have words.")

    def fail(report):
        raise ZeroDivisionError("by nothing")

    async def scenario():
        request = [
            queue.submit(k, job, is_quick=True) for k, job in enumerate((lambda _: 7, refuse, fail))
        ]
        return [await end(question) for question in request]

    assert run(scenario()) == [
        Event(result=7),
        Event(error="a text must have words."),
        Event(error="the model failed with ZeroDivisionError: by nothing"),
    ]


def test_a_newer_question_drops_the_older_whether_it_waits_or_is_under_way(queue):
    gate, ran = threading.Event(), []

    async def scenario():
        begun = queue.submit("tab", steps(gate), is_quick=False)
        await asyncio.wait_for(begun.events.get(), 20)  # it has begun
        waiting = [
            queue.submit("tab", lambda _, k=k: ran.append(k), is_quick=False) for k in range(3)
        ]
        return [await end(question) for question in (begun, *waiting)]

    assert run(scenario()) == [Event(superseded=True)] * 3 + [Event(result=None)]
    assert ran == [2]


def test_a_newer_question_keeps_the_place_in_the_line(queue):
    gate, ran = threading.Event(), []

    async def scenario():
        busy = queue.submit("busy", steps(gate), is_quick=True)
        await asyncio.wait_for(busy.events.get(), 20)
        for key in ("first", "second", "first", "third", "first"):
            queue.submit(key, lambda _, key=key: ran.append(key), is_quick=True)
        questions = [*queue._waiting.values()]
        gate.set()
        return [await end(question) for question in questions]

    assert run(scenario()) == [Event(result=None)] * 3
    assert ran == ["first", "second", "third"]


def test_questions_of_other_askers_are_all_answered(queue):
    async def scenario():
        request = [queue.submit(k, lambda _, k=k: k, is_quick=bool(k % 2)) for k in range(20)]
        return [await end(question) for question in request]

    assert run(scenario()) == [Event(result=k) for k in range(20)]


def test_what_is_quick_goes_before_what_has_waited_longer(queue):
    gate, ran = threading.Event(), []

    async def scenario():
        busy = queue.submit("busy", steps(gate), is_quick=True)
        await asyncio.wait_for(busy.events.get(), 20)  # it has begun
        request = [
            queue.submit(name, lambda _, name=name: ran.append(name), is_quick=name == "quick")
            for name in ("slow", "quick")
        ]
        gate.set()
        for question in (busy, *request):
            await end(question)

    run(scenario())
    assert ran == ["quick", "slow"]


def test_something_quick_does_not_wait_for_something_slow(queue):
    gate = threading.Event()

    async def scenario():
        slow = queue.submit("one", steps(gate), is_quick=False)
        await asyncio.wait_for(slow.events.get(), 20)
        quick = await end(queue.submit("other", lambda _: "quick", is_quick=True))
        still = not gate.is_set()
        gate.set()
        return quick, still, await end(slow)

    assert run(scenario()) == (Event(result="quick"), True, Event(result="slow"))


def test_a_pause_does_not_drop_the_request_of_the_last_key(queue):
    gate = threading.Event()

    async def scenario():
        other = queue.submit("other", steps(gate), is_quick=True)
        await asyncio.wait_for(other.events.get(), 20)  # the queue is busy
        quick = queue.submit("tab", lambda _: "quick", is_quick=True)
        slow = queue.submit("tab", lambda _: "slow", is_quick=False)
        gate.set()
        return await end(quick), await end(slow)

    assert run(scenario()) == (Event(result="quick"), Event(result="slow"))


def test_a_key_drops_the_request_of_a_pause(queue):
    gate = threading.Event()

    async def scenario():
        slow = queue.submit("tab", steps(gate), is_quick=False)
        await asyncio.wait_for(slow.events.get(), 20)
        quick = queue.submit("tab", lambda _: "quick", is_quick=True)
        return await end(slow), await end(quick)

    assert run(scenario()) == (Event(superseded=True), Event(result="quick"))


def test_only_one_thread_asks_the_model(queue):
    inside, most = [], []

    def job(report):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()

    async def scenario():
        request = [queue.submit(k, job, is_quick=k % 3 == 0) for k in range(30)]
        return [await end(question) for question in request]

    run(scenario())
    assert max(most) == 1
    assert len(most) == 30


def test_a_model_that_does_not_come_back_is_left_and_others_are_answered(queue):
    gate = threading.Event()

    async def scenario():
        lost = queue.submit("one", lambda _: gate.wait(), is_quick=True)
        while ("one", True) not in queue._running:
            await asyncio.sleep(0.001)
        queue.abandon(lost)
        result = await end(queue.submit("other", lambda _: "answered", is_quick=True))
        gate.set()
        return result

    assert run(scenario()) == Event(result="answered")


@pytest.mark.parametrize("leaves", [True, False], ids=["the reader leaves", "a newer question"])
def test_a_model_that_hangs_on_what_nobody_waits_for_is_left_all_the_same(queue, leaves):
    gate = threading.Event()

    async def scenario():
        hung = queue.submit("tab", lambda _: gate.wait(), is_quick=True)
        lines = stream_lines(hung, queue, seconds=0.2)
        first = asyncio.ensure_future(anext(lines))
        while ("tab", True) not in queue._running:
            await asyncio.sleep(0.001)
        if leaves:
            first.cancel()
        newer = queue.submit("tab", lambda _: "answered", is_quick=True)
        await asyncio.wait([first])
        await lines.aclose()
        result = await end(newer)
        gate.set()
        return result

    assert run(scenario()) == Event(result="answered")


def test_a_question_that_takes_too_long_but_comes_back_keeps_the_one_thread(queue):
    inside, most, gate = [], [], threading.Event()

    def count_running(report):
        for k in range(1000):
            report(k, 1000)
            inside.append(1)
            most.append(len(inside))
            gate.wait(0.02)
            inside.pop()

    async def scenario():
        lines = stream_lines(queue.submit("slow", count_running, is_quick=False), queue, seconds=2)
        output = [line async for line in lines]
        result = await end(
            queue.submit("next", lambda _: most.append(len(inside) + 1), is_quick=False)
        )
        await asyncio.sleep(0.6)  # what was to give it up finds that it has ended
        return output[-1], result

    output, result = run(scenario())
    assert b"took longer than 2 seconds" in output
    assert result == Event(result=None)
    assert (max(most), queue._generation) == (1, 1)


def test_what_nobody_waits_for_any_more_is_not_begun_and_the_newer_one_is(queue):
    gate, ran = threading.Event(), []

    async def scenario():
        busy = queue.submit("busy", steps(gate), is_quick=True)
        await asyncio.wait_for(busy.events.get(), 20)
        remaining, older = (
            queue.submit(key, lambda _: ran.append("no"), is_quick=True) for key in "ab"
        )
        newer = queue.submit("b", lambda _: ran.append("yes"), is_quick=True)
        assert not queue.cancel(remaining)
        queue.abandon(older)
        gate.set()
        return await end(newer)

    assert run(scenario()) == Event(result=None)
    assert ran == ["yes"]


def test_a_model_that_hangs_is_given_up(queue):
    gate = threading.Event()

    async def scenario():
        for k in range(4):
            lost = queue.submit(k, lambda _: gate.wait(), is_quick=True)
            while (k, True) not in queue._running:
                await asyncio.sleep(0.001)
            queue.abandon(lost)
        refused = await end(queue.submit("other", lambda _: 1, is_quick=True))
        gate.set()
        while queue._stuck_threads:  # the threads come back one by one
            await asyncio.sleep(0.001)
        return refused, await end(queue.submit("other", lambda _: 1, is_quick=True))

    refused, result = run(scenario())
    assert refused == Event(
        error="the model does not respond. Stop the server and check the model."
    )
    assert result == Event(result=1)


def test_a_full_queue_raises_an_error(queue):
    gate = threading.Event()

    async def scenario():
        first = queue.submit("first", steps(gate), is_quick=True)
        await asyncio.wait_for(first.events.get(), 20)
        request = [queue.submit(k, lambda _: 1, is_quick=True) for k in range(201)]
        gate.set()
        return [await end(question) for question in request]

    process = run(scenario())
    assert process[:200] == [Event(result=1)] * 200
    assert process[200] == Event(error="too many requests are waiting. Try again in a moment.")


def test_a_reader_who_left_ends_the_job(queue):
    gate = threading.Event()

    async def scenario():
        slow = queue.submit("tab", steps(gate), is_quick=False)
        await asyncio.wait_for(slow.events.get(), 20)
        slow.is_canceled = True
        return await end(queue.submit("other", lambda _: "next", is_quick=False))

    assert run(scenario()) == Event(result="next")


def asked_together(queue, answers):
    """Four questions that wait while the queue is busy: three of one kind, one of another."""
    gate = threading.Event()

    async def scenario():
        busy = queue.submit("busy", steps(gate), is_quick=True)
        await asyncio.wait_for(busy.events.get(), 20)
        request = [
            queue.submit(
                k, lambda _, k=k: f"alone {k}", is_quick=True, batch_job=BatchJob(kind, k, answers)
            )
            for k, kind in enumerate(("x", "y", "x", "x"))
        ]
        gate.set()
        return [await end(question) for question in request]

    return run(scenario())


def test_questions_of_one_kind_that_wait_are_answered_together(queue):
    calls = []

    def answers(asked):
        calls.append(list(asked))
        return [f"together {k}" for k in asked]

    assert asked_together(queue, answers) == [
        Event(result="together 0"),
        Event(result="alone 1"),
        Event(result="together 2"),
        Event(result="together 3"),
    ]
    assert calls == [[0, 2, 3]]


def test_if_a_text_fails_each_is_evaluated_alone(queue):
    def answers(asked):
        raise InputError("one of these texts has no words.")

    assert asked_together(queue, answers) == [Event(result=f"alone {k}") for k in range(4)]


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
        hanging = queue.submit("a", lambda _: gate.wait(), is_quick=False)
        await asyncio.to_thread(queue_has_begun(queue).wait, 20)
        other_values = [queue.submit(k, lambda _, k=k: k, is_quick=False) for k in range(3)]
        now[0] = 59.0  # the first step of a model may take a while
        queue.abandon_stuck_jobs()
        assert hanging.events.empty()
        now[0] = 61.0
        answers = [await last_line(question, queue) for question in other_values]
        return answers, await end(hanging)

    answers, last_event = run(scenario())
    gate.set()
    assert answers == [{"result": 0}, {"result": 1}, {"result": 2}]
    assert last_event == Event(
        error="the model took too long while others waited, so the request was stopped."
    )


def queue_has_begun(queue):
    """Return an event that is set when the queue has begun a question."""
    begun = threading.Event()

    def watch():
        while not queue._running:
            time.sleep(0.001)
        begun.set()

    threading.Thread(target=watch, daemon=True).start()
    return begun


def test_of_texts_in_a_batch_only_the_one_that_hangs_is_given_up(queue):
    now, gate, first = hanging_queue(queue), threading.Event(), threading.Event()

    def answers(texts):
        if "bad" in texts:
            gate.wait()
        return [text.upper() for text in texts]

    def ask(text):
        alike = BatchJob("kind", text, answers)
        return queue.submit(text, lambda _: answers([text])[0], is_quick=False, batch_job=alike)

    async def scenario():
        busy = queue.submit("busy", lambda _: first.wait(), is_quick=False)
        await asyncio.to_thread(queue_has_begun(queue).wait, 20)
        questions = {text: ask(text) for text in ("bad", "b", "c")}
        first.set()
        await end(busy)
        while len(queue._running) < 3:
            await asyncio.sleep(0.001)
        late = queue.submit("late", lambda _: "late", is_quick=False)
        lines = [last_line(question, queue) for question in (*questions.values(), late)]

        async def move_the_clock():
            while True:
                now[0] += 1.0
                await asyncio.sleep(0.005)

        moving = asyncio.create_task(move_the_clock())
        result = await asyncio.gather(*lines)
        moving.cancel()
        return result

    bad, *other_values = run(scenario())
    gate.set()
    assert "took too long while others waited" in bad["error"]
    assert other_values == [{"result": "B"}, {"result": "C"}, {"result": "late"}]


def test_a_slow_model_is_called_by_a_single_thread(queue):
    now, threads = hanging_queue(queue), set()

    def job(report):
        for step in range(4):
            now[0] += 30.0  # each step takes half a minute
            threads.add(threading.get_ident())
            report(step, 4)
        return "slow"

    async def scenario():
        questions = [queue.submit(k, job, is_quick=False) for k in range(25)]
        return await asyncio.gather(*(last_line(question, queue) for question in questions))

    assert run(scenario()) == [{"result": "slow"}] * 25
    assert len(threads) == 1
    assert queue._stuck_threads == 0


def test_a_queue_that_closes_tells_all_who_wait(queue):
    gate = threading.Event()

    async def scenario():
        request = [queue.submit(k, steps(gate), is_quick=False) for k in range(3)]
        await asyncio.wait_for(request[0].events.get(), 20)  # it has begun
        queue.close()
        return [await end(question) for question in request]

    assert run(scenario()) == [Event(error="the page was stopped.")] * 3
