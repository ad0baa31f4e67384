"""Threads that share a model hear what one alone hears, whatever else is asked meanwhile.

``ROUNDS=100 python -m pytest -n 0 tests/models/test_threads.py`` asks everything a hundred times,
each time in another order, and of four families where two are asked otherwise.
"""

import contextlib
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from test_networks_restored import CHEAP, half_trained, state
from test_next_token import language_model

import limelight
from limelight.explainers import usable_methods
from limelight.models import has
from limelight.models.hugging_face import forward

from known import DRAWN
from tiny_models import tiny_model

TEXTS = ("A superb film, but PREDICTABLE.", "the plot is bad")
ROADS = ("loo", "gxi", "lrp", "alpha-avg", "alpha-grad")  # asked, embedded, frozen, shown, both
ROUNDS = int(os.environ.get("ROUNDS", "1"))
FAMILIES = ("deberta-v2", "gpt2", "bert", "roberta")[: 2 if ROUNDS == 1 else 4]


@pytest.fixture(autouse=True)
def _eager_switches():
    """Let threads take turns as often as they can, so that a race is run many times."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def explain_text(model, method, text):
    exact = has(model, "exact_game") and method not in DRAWN
    return limelight.explain(model, text, method, **({} if exact else CHEAP.get(method, {}))).scores


def check_threads(*models, methods=None):
    """Ask eight threads at once for everything that one thread was asked for."""
    request = [
        (m, way, text) for m in models for way in methods or usable_methods(m) for text in TEXTS
    ]
    single = [explain_text(*value) for value in request]
    rounds = random.Random(7)
    order = [i for _ in range(ROUNDS) for i in rounds.sample(range(len(request)), len(request))]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda i: explain_text(*request[i]), order))
    for i, result in zip(order, together, strict=True):
        most = np.abs(single[i]).max()
        np.testing.assert_allclose(
            result, single[i], rtol=0, atol=1e-6 * most, err_msg=request[i][1]
        )


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_eight_threads_hear_what_one_hears(family):
    model = half_trained(family)
    before = state(model)
    check_threads(model)
    after = state(model)
    for part, was in before.items():
        assert after[part] == was, part


def test_threads_share_a_network_that_was_wrapped_twice():
    first = half_trained()
    second = limelight.wrap(first.network, tokenizer=first.tokenizer)
    check_threads(first, second, methods=ROADS)


def test_threads_share_a_language_model_under_two_templates():
    network, tokenizer = language_model()
    words = {"no": "bad", "yes": "good"}
    request = [
        limelight.wrap(network, tokenizer=tokenizer, template=template, labels=words)
        for template in ("{text} is", "the film: {text} but")
    ]
    check_threads(*request, methods=ROADS)


def test_whoever_lent_a_language_model_may_ask_it_meanwhile():
    network, tokenizer = language_model()
    network.eval()
    template, words = "the film: {text} is", {"no": "bad", "yes": "good"}
    model = limelight.wrap(network, tokenizer=tokenizer, template=template, labels=words)
    ids, result = torch.tensor([[2, 5, 6, 7]]), []

    def network_logits():
        with torch.no_grad():
            return network(ids).logits

    def meanwhile(*_):
        handle.remove()  # else their own question would ask once more
        with ThreadPoolExecutor(1) as other_value:
            result.append(other_value.submit(network_logits).result())

    true = model.logits(["a superb film"])
    handle = network.base_model.register_forward_hook(meanwhile)
    np.testing.assert_allclose(model.logits(["a superb film"]), true, atol=1e-6)
    assert torch.equal(result[0], network_logits())


@pytest.mark.parametrize("ours", [False, True])
def test_whoever_chooses_kernels_is_alone_with_the_network_already(monkeypatch, ours):
    network, tokenizer = language_model()
    template, words = "the film: {text} is", {"no": "bad", "yes": "good"}
    model = limelight.wrap(network, tokenizer=tokenizer, template=template, labels=words)
    lock, taken = forward.network_lock(model.network), []

    @contextlib.contextmanager
    def any_shape_kernels(_device):
        with ThreadPoolExecutor(1) as other_value:
            taken.append(other_value.submit(lock._lock.acquire, blocking=False).result())
        yield

    monkeypatch.setattr(forward, "_any_shape_kernels", any_shape_kernels)
    forward.network_outputs(model.network, np.array([[2, 5, 6]]), is_copy=ours)
    assert taken == [False]  # else each of two threads could wait for the lock of the other


def test_threads_share_models_that_are_no_networks():
    tables = tiny_model()
    function = limelight.wrap(
        lambda texts: [[len(t) / 99, 1 - len(t) / 99] for t in texts], classes=["long", "short"]
    )
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    pipeline.fit([*TEXTS, "a good film"], [0, 1, 2])
    check_threads(tables, tables.to_device("cpu"), function, limelight.wrap(pipeline))


def test_a_run_by_threads_stores_what_one_thread_finds(tmp_path):
    model, texts = half_trained(), [f"{text} {word}" for text in TEXTS for word in ("good", "film")]
    options = {"method": list(ROADS), "shard_texts": 1}
    single = limelight.explain_data(model, texts, output=tmp_path / "alone", **options)
    with ThreadPoolExecutor(4) as threads:
        run = limelight.explain_data(
            model, texts, output=tmp_path / "run", executor=threads, **options
        )
    assert run.failed == 0
    for result, true in zip(run, single, strict=True):
        np.testing.assert_allclose(result.scores, true.scores, rtol=1e-6, err_msg=result.method)
