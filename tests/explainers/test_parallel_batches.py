"""Lists of texts on models that explain several batches at the same time."""

import threading
import time

import numpy as np
import pytest

import limelight
from limelight.errors import InputError
from limelight.explainers.explaining import explain_batch, explain_batches, stream_batches
from limelight.explainers.registry import configure_method
from limelight.models.functions import Function
from limelight.request import Request, prepare_model

TEXTS = [f"a{i} good film with b{i} words and c{i} jokes" for i in range(7)]


def predict(texts):
    sizes = np.array([[len(text), text.count("good")] for text in texts], float)
    return 1 / (1 + np.exp(-(sizes @ [[-0.05, 0.05], [-1.0, 1.0]])))


def make_model(monkeypatch, parallel, function=predict):
    monkeypatch.setattr(Function, "parallel_batches", parallel, raising=False)
    return limelight.wrap(function, classes=["no", "yes"])


@pytest.mark.parametrize("method", ["shapley", "lime-sampled", "loo"])
def test_results_and_their_order_do_not_depend_on_the_number_of_threads(monkeypatch, method):
    reference = limelight.explain(make_model(monkeypatch, 1), TEXTS, method)
    parallel = limelight.explain(make_model(monkeypatch, 3), TEXTS, method)
    assert [e.text for e in parallel] == TEXTS
    for first, second in zip(reference, parallel, strict=True):
        np.testing.assert_array_equal(first.scores, second.scores)
        assert first.warnings == second.warnings
    comparisons = limelight.compare(make_model(monkeypatch, 3), TEXTS, ["loo", "shapley"])
    assert [comparison.text for comparison in comparisons] == TEXTS


def test_batches_run_at_the_same_time(monkeypatch):
    meeting = threading.Barrier(2, timeout=30)
    reached = threading.Event()

    def wait_for_another_text(texts):
        if not reached.is_set() and len(texts) > 2:  # the masked texts, not the first calls
            meeting.wait()
            reached.set()
        return predict(texts)

    limelight.explain(make_model(monkeypatch, 2, wait_for_another_text), TEXTS[:2], "loo")
    assert reached.is_set()
    reached.clear()
    meeting.reset()
    meeting = threading.Barrier(2, timeout=0.2)
    with pytest.raises(InputError, match="BrokenBarrierError"):  # one text at a time never meets
        limelight.explain(make_model(monkeypatch, 1, wait_for_another_text), TEXTS[:2], "loo")


def test_progress_grows_to_the_number_of_texts(monkeypatch):
    seen = []
    model = make_model(monkeypatch, 2)
    limelight.explain(model, TEXTS, "loo", progress=lambda done, total: seen.append((done, total)))
    parts = [done for done, _ in seen]
    assert parts == sorted(parts)
    assert parts[-1] == len(TEXTS)
    assert {total for _, total in seen} == {len(TEXTS)}


def test_the_error_is_that_of_the_first_failing_text(monkeypatch):
    def fail(texts):
        if any("b3" in text or "b2" in text for text in texts):
            if any("b2" in text for text in texts):
                time.sleep(0.05)  # the later text fails first
            raise ValueError("no such film")
        return predict(texts)

    with pytest.raises(InputError, match=r"text 2\b|b2"):
        limelight.explain(make_model(monkeypatch, 2, fail), TEXTS, "loo")


def test_an_interrupt_ends_texts_that_are_running(monkeypatch):
    calls = []

    def interrupt(_done, _total):
        raise KeyboardInterrupt

    def count_calls(texts):
        calls.append(len(texts))
        return predict(texts)

    model = limelight.wrap(count_calls, classes=["no", "yes"], batch_size=8)
    monkeypatch.setattr(Function, "parallel_batches", 2, raising=False)
    with pytest.raises(KeyboardInterrupt):
        limelight.explain(model, TEXTS, "lime-sampled", samples=400, progress=interrupt)
    # Without the interrupt, every text takes fifty calls.
    assert len(calls) < 60


def test_an_error_of_one_text_ends_the_others_without_progress_too(monkeypatch):
    second_started, calls = threading.Event(), []

    def fail_on_the_first(texts):
        numbers = {i for i in range(len(TEXTS)) for text in texts if f"b{i}" in text}
        if numbers == {0} and len(texts) > 2:  # masked texts, not the first calls
            second_started.wait(30)
            raise KeyboardInterrupt
        if numbers == {1} and len(texts) > 2:
            second_started.set()
            calls.append(len(texts))
            time.sleep(0.02)
        return predict(texts)

    model = limelight.wrap(fail_on_the_first, classes=["no", "yes"], batch_size=8)
    monkeypatch.setattr(Function, "parallel_batches", 2, raising=False)
    prepared, request = prepare_model(model, Request())
    batches = stream_batches(prepared, TEXTS, request)
    method = configure_method("lime-sampled", model, {"samples": 800})
    explained = explain_batches(
        prepared, batches, lambda batch, _progress: explain_batch(method, batch)
    )
    with pytest.raises(KeyboardInterrupt):
        next(explained)
    assert 0 < len(calls) < 50  # of a hundred


def test_a_budget_is_spent_by_one_text_at_a_time(monkeypatch):
    running = threading.Lock()

    def check_alone(texts):
        assert running.acquire(blocking=False)
        time.sleep(0.001)
        running.release()
        return predict(texts)

    model = make_model(monkeypatch, 2, check_alone)
    explanations = limelight.explain(model, TEXTS[:3], "shapley", budget=100)
    assert [e.text for e in explanations] == TEXTS[:3]
