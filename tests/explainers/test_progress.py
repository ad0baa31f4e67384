"""Progress inside one text: what a model was asked, of what it will be asked."""

import contextlib
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


def model(batch_size=50):
    """Log-odds that no sum of words explains."""

    def predict(texts):
        kept = np.array([[word in text.split() for word in WORDS] for text in texts], float)
        z = kept @ np.linspace(-1, 1, len(WORDS)) + 2 * kept[:, 0] * kept[:, 3] * kept[:, 7]
        chance = 1 / (1 + np.exp(-z))
        return np.stack([1 - chance, chance], axis=1)

    return limelight.wrap(predict, classes=["no", "yes"], batch_size=batch_size)


def heard(verb, *arguments, **options):
    seen = []
    found = verb(model(), *arguments, progress=lambda *at: seen.append(at), **options)
    assert found
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

    for one in tiny("bert", labels=2):
        one.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def asked(folder):
    said = ("--set", "samples=3000", "a good film is bad .")
    return "explain", "-m", "lime", "--model", folder, *said


def test_a_terminal_sees_a_bar_with_the_time_left(folder, limelight, monkeypatch):
    outer, inner = pty.openpty()
    shown = []

    def read():
        with contextlib.suppress(OSError):  # Linux says so when the other side is closed
            while part := os.read(outer, 4096):
                shown.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with monkeypatch.context() as patch, os.fdopen(inner, "w") as terminal:
        patch.setattr(sys, "stderr", terminal)
        done = limelight(*asked(folder))
    reader.join()
    os.close(outer)
    assert done.code == 0
    assert b"explaining" in b"".join(shown)
    assert b"left" in b"".join(shown)
    assert "explaining" not in done.out


def test_a_pipe_sees_nothing_but_the_result(folder, limelight, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = limelight(*asked(folder))
    assert done.code == 0
    assert "good" in done.out
    assert "explaining" not in done.err + done.out
