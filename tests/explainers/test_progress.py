"""Progress inside one text: what a model was asked, of what it will be asked."""

import contextlib
import io
import os
import pty
import sys
import threading

import numpy as np
import pytest

import limelight
from limelight.progress import count_calls, expect_calls

from tiny_models import tiny_model

WORDS = [f"w{i}" for i in range(11)]
TEXT = " ".join(WORDS)


def predict(texts):
    """Probabilities whose log-odds no sum of words explains."""
    keep = np.array([[word in text.split() for word in WORDS] for text in texts], float)
    z = keep @ np.linspace(-1, 1, len(WORDS)) + 2 * keep[:, 0] * keep[:, 3] * keep[:, 7]
    chance = 1 / (1 + np.exp(-z))
    return np.stack([1 - chance, chance], axis=1)


def model(batch_size=50):
    return limelight.wrap(predict, classes=["no", "yes"], batch_size=batch_size)


def heard(verb, *arguments, **options):
    seen = []
    result = verb(model(), *arguments, progress=lambda *at: seen.append(at), **options)
    assert result
    return seen


def test_the_part_of_a_text_that_is_done_follows_the_answers():
    seen = heard(limelight.explain, TEXT, "lime", samples=500)
    parts = [done for done, _ in seen]
    assert len(parts) > 9  # batches of 50
    assert parts == sorted(parts)
    assert 0.05 < max(np.diff(parts)) < 0.4
    assert parts[-1] == 1
    assert {total for _, total in seen} == {1}


@pytest.mark.parametrize(
    ("method", "options"),
    [("loo", {}), ("shapley", {"pairs": 20}), ("lime-sampled", {"samples": 300})],
)
def test_methods_say_beforehand_how_often_they_ask(method, options):
    *parts, (last, _) = heard(limelight.explain, TEXT, method, **options)
    assert last == 1
    assert parts[-1][0] > 0.98
    assert [done for done, _ in parts].count(1.0) <= 2


def test_a_tolerance_that_is_not_met_lets_more_come():
    parts = [done for done, _ in heard(
        limelight.explain, TEXT, "lime", samples=200, tolerance=0.02
    )]  # fmt: skip
    assert min(np.diff(parts)) < -0.1
    assert parts[-1] == 1


def test_anchors_say_what_they_draw():
    parts = [done for done, _ in heard(limelight.explain, TEXT, "anchors", samples=400)]
    assert parts[-1] == 1
    assert len(parts) > 40  # batches of 50
    assert parts.count(1) < len(parts) / 8  # what is drawn next was not known before


def test_several_methods_share_the_way():
    parts = [done for done, _ in heard(limelight.compare, TEXT, samples=200, pairs=20)]
    assert parts == sorted(parts)
    assert len({round(part, 3) for part in parts}) > 5
    assert max(np.diff(parts)) < 0.7


def test_texts_come_one_after_the_other_and_classes_share_answers():
    seen = heard(limelight.explain_classes, [TEXT] * 3, "lime", samples=100)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (3, 3)
    assert any(0 < done < 1 for done, _ in seen)


def test_the_papers_classifier_is_too_quick_for_parts():
    seen = []
    limelight.explain(
        tiny_model(), "w1 w2 w3", "lime-sampled", progress=lambda *at: seen.append(at)
    )
    assert seen == [(1, 1)]


@pytest.mark.parametrize(
    ("verb", "settings", "task"),
    [
        (limelight.explain, {"method": "loo"}, "explaining"),
        (limelight.compare, {"methods": ["loo"]}, "explaining"),
        (limelight.judge, {"methods": ["loo"]}, "judging"),
    ],
)
def test_true_shows_a_line_on_a_terminal_and_nothing_elsewhere(
    capsys, monkeypatch, verb, settings, task
):
    verb(model(), [TEXT] * 2, progress=False, **settings)
    verb(model(), [TEXT] * 2, progress=True, **settings)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    verb(model(), [TEXT] * 2, progress=True, **settings)
    line, end = capsys.readouterr().err.split("\n")
    assert line.split("\r")[-1].startswith(f"{task}: 100%")
    assert end == ""


class Clock:
    """A clock that advances whenever the model is called, so that no test waits."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def slow_model(monkeypatch):
    """Return a function that makes a model whose batches take some seconds of a test clock."""
    clock = Clock()
    monkeypatch.setattr("limelight.progress.time.monotonic", clock)

    def make_model(seconds):
        def predict_slowly(texts):
            clock.now += seconds
            return predict(texts)

        return limelight.wrap(predict_slowly, classes=["no", "yes"], batch_size=50)

    return make_model


CALLS = [
    (lambda m, **options: limelight.explain(m, TEXT, "lime", samples=500, **options), "explaining"),
    (lambda m, **options: limelight.compare(m, TEXT, ["loo", "lime"], **options), "explaining"),
    (lambda m, **options: limelight.explain_classes(m, [TEXT] * 3, "loo", **options), "explaining"),
    (lambda m, **options: limelight.counterfactual(m, [TEXT] * 3, **options), "searching"),
    (lambda m, **options: limelight.judge(m, [TEXT] * 2, ["loo"], **options), "judging"),
    (
        lambda m, **options: limelight.learn(
            m, [f"{TEXT} {i}" for i in range(20)], judged=0, **options
        ),
        "learning",
    ),
]


@pytest.mark.parametrize(("call", "task"), CALLS)
def test_a_call_of_more_than_two_seconds_shows_a_bar_on_a_terminal(
    capsys, monkeypatch, slow_model, call, task
):
    if task == "learning":
        pytest.importorskip("torch")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    call(slow_model(1.0), progress=False)
    assert capsys.readouterr().err == ""
    call(slow_model(1.0))
    lines = capsys.readouterr().err
    assert f"\r{task}: " in lines
    assert "#" in lines
    assert " left" in lines
    assert lines.endswith("\n")
    assert lines.count("\n") == 1


@pytest.mark.parametrize(("call", "task"), CALLS[:5])
def test_a_call_of_less_than_two_seconds_shows_nothing(capsys, monkeypatch, slow_model, call, task):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    call(slow_model(0.001))
    assert capsys.readouterr().err == ""


def test_a_notebook_shows_a_bar(capsys, monkeypatch, slow_model):
    monkeypatch.setitem(sys.modules, "ipykernel", None)
    limelight.explain(slow_model(1.0), TEXT, "lime", samples=500)
    assert "explaining: " in capsys.readouterr().err


def test_a_log_file_gets_a_line_every_thirty_seconds(capsys, slow_model):
    # 10 batches of 9 seconds: lines after 36, 72 seconds. The end of the task has no line.
    limelight.explain(slow_model(9.0), TEXT, "lime", samples=500)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["explaining"] * 2
    assert all(line.endswith(" left") and "#" not in line for line in lines)
    limelight.explain(slow_model(2.0), TEXT, "lime", samples=500)
    assert capsys.readouterr().err == ""


def test_a_call_within_another_shows_no_second_bar(capsys, monkeypatch, slow_model):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)

    def score_words(model, text):
        return limelight.explain(model, text, "lime", samples=500).scores

    limelight.judge(slow_model(1.0), [TEXT] * 2, {"inner": score_words}, columns=[])
    lines = capsys.readouterr().err
    assert "judging" in lines
    assert "explaining" not in lines
    limelight.explain(slow_model(1.0), TEXT, "lime", samples=500)
    assert "explaining" in capsys.readouterr().err


@pytest.mark.parametrize("stream", [None, "closed"])
def test_progress_without_standard_error_ends_no_computation(monkeypatch, slow_model, stream):
    if stream == "closed":
        stream = io.StringIO()
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setitem(sys.modules, "ipykernel", None)
    assert limelight.explain(slow_model(9.0), TEXT, "lime", samples=500)


def test_nobody_hears_of_it_after_an_error():
    seen = []

    def broken(texts):
        if len(texts) > 1:
            raise RuntimeError("broken")
        return np.full((1, 2), 0.5)

    bad = limelight.wrap(broken, classes=["a", "b"])
    with pytest.raises(limelight.InputError, match="broken"):
        limelight.explain(bad, TEXT, "lime", progress=lambda *at: seen.append(at))
    before = list(seen)
    count_calls(5)
    expect_calls(5)
    assert seen == before


def test_windows_answer_their_part_of_a_mask():
    pytest.importorskip("torch")
    from tiny_transformers import tiny

    network, tokenizer = tiny("bert")
    deep = limelight.wrap(network, tokenizer=tokenizer)
    seen = []
    text = "a good film. the plot is bad. " * 4
    limelight.explain(
        deep, text, "lime", samples=60, window=16, progress=lambda *at: seen.append(at)
    )
    parts = [done for done, _ in seen]
    assert parts == sorted(parts)
    assert 0.9 < parts[-2] <= 1
    assert parts.count(1.0) <= 2


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("torch")
    from tiny_transformers import tiny

    for value in tiny("bert", labels=2):
        value.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def explain_arguments(folder):
    message = ("--set", "samples=3000", "a good film is bad .")
    return "explain", "-m", "lime", "--model", folder, *message


def test_a_terminal_sees_a_bar_with_the_time_left(folder, limelight, monkeypatch):
    outer, inner = pty.openpty()
    output = []

    def read():
        with contextlib.suppress(OSError):  # Linux says so when the other side is closed
            while part := os.read(outer, 4096):
                output.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with monkeypatch.context() as patch, os.fdopen(inner, "w") as terminal:
        patch.setattr(sys, "stderr", terminal)
        done = limelight(*explain_arguments(folder))
    reader.join()
    os.close(outer)
    assert done.code == 0
    assert b"".join(output).startswith(b"Loading the model.")
    assert b"explaining" in b"".join(output)
    assert b"left" in b"".join(output)
    assert "explaining" not in done.out


def test_a_pipe_sees_nothing_but_the_result(folder, limelight, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = limelight(*explain_arguments(folder))
    assert done.code == 0
    assert "good" in done.out
    assert "explaining" not in done.err + done.out
    assert "Loading" not in done.err + done.out
