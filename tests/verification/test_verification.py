import json
from dataclasses import replace

import numpy as np
import pytest

from limelight.verification.verification import Check, verify

from known import BY_ASKING, DRAWN, OURS
from tiny_models import tiny_model


@pytest.mark.parametrize("outputs", [1, 3])
def test_every_check_passes_on_a_random_model(outputs):
    model = tiny_model(3, outputs=outputs, scale=0.5)
    checks = list(verify(model, "w1 w5 never w5 w8 w9 w2 w3 w4 w7"))
    assert [check for check in checks if not check.passed] == []
    assert set(OURS) - {check.method for check in checks} <= set(DRAWN)


def test_a_single_word_is_checked_as_far_as_it_goes():
    checks = list(verify(tiny_model(3), "w1"))
    assert [check for check in checks if not check.passed] == []
    of_pairs = {*BY_ASKING} - {"loo"}
    assert set(OURS) - {check.method for check in checks} == of_pairs


@pytest.mark.parametrize(
    ("place", "method"),
    [
        ("limelight.explainers.shapley.leave_one_out", "loo"),
        ("limelight.explainers.lime.lime", "lime"),
        ("limelight.explainers.nested.owen", "owen"),
    ],
)
def test_a_broken_method_is_found(monkeypatch, place, method):
    module, _, name = place.rpartition(".")
    real = getattr(__import__(module, fromlist=[name]), name)

    def broken(*arguments, **settings):
        result = real(*arguments, **settings)
        return result._replace(scores=result.scores * (1 + 1e-3))

    monkeypatch.setattr(place, broken)
    failed = {c.method for c in verify(tiny_model(3), "w1 w5 never w5 w8") if not c.passed}
    assert failed == {method}


def test_owen_values_are_checked_in_several_sentences(monkeypatch):
    from limelight.explainers import nested as owen_methods

    real = owen_methods.owen
    monkeypatch.setattr(owen_methods, "owen", lambda g, s, **k: real(g, 0 * s, **k))
    failed = {c.method for c in verify(tiny_model(3), "w1 w5. w8 w5! w2") if not c.passed}
    assert failed == {"owen"}  # one sentence of all words is another game


def test_scores_of_ig_on_the_wrong_words_are_found(monkeypatch):
    from limelight.verification import verification as gradient_checks

    real = gradient_checks.explain_batch

    def swap_values(batch, method, **options):
        e = real(batch, method, **options)
        return replace(e, scores=e.scores[::-1]) if method == "ig" else e

    monkeypatch.setattr(gradient_checks, "explain_batch", swap_values)
    failed = {c.against for c in verify(tiny_model(3), "w1 w5 never w8") if not c.passed}
    assert failed == {"256 complex steps at 4 tokens"}  # their sum is right


def test_a_wrong_precision_of_an_anchor_is_found(monkeypatch):
    from limelight.verification import verification as subset_checks

    real = subset_checks.explain_batch

    def surer(batch, method, **options):
        e = real(batch, method, **options)
        if e.anchor is None:
            return e
        wrong = {"guarantee": None, "precision": 0.985, "precision_interval": (0.98, 0.99)}
        return replace(e, anchor=replace(e.anchor, **wrong))

    monkeypatch.setattr(subset_checks, "explain_batch", surer)
    failed = {c.method for c in verify(tiny_model(3), "w1 w5 never w8") if not c.passed}
    assert failed == {"anchors"}


def test_nothing_passes_on_nan():
    check = Check(method="m", against="o", error=0.0, allowed=1.0)
    assert check.passed
    assert not replace(check, error=float("nan")).passed
    assert not replace(check, error=np.inf).passed


@pytest.mark.slow
def test_every_check_passes_on_the_shipped_model_and_in_the_command(limelight):
    text = "A dull start, but the end is superb: I loved it!"
    outcome = limelight("verify", "--text", text, "--format", "json")
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    assert outcome.code == 0
    assert [row for row in rows if not row["passed"]] == []
    assert {"alpha-avg", "gxi", "lime", "shapley"} <= {row["method"] for row in rows}


def test_a_failed_check_leaves_with_code_1(limelight, monkeypatch):
    failed = Check(method="lime", against="nothing", error=2.0, allowed=1.0)
    monkeypatch.setattr("limelight.verification.verify", lambda *_, **__: [failed])
    outcome = limelight("verify")
    assert outcome.code == 1
    assert "FAILED" in outcome.out
