"""How many texts are judged: about five minutes of them, or a number of model calls."""

import numpy as np
import pytest

import limelight
from limelight import judge

WORDS = [f"w{i}" for i in range(9)]
RNG = np.random.default_rng(0)
TEXTS = [" ".join(RNG.permutation(WORDS)[: 5 + i % 4]) for i in range(40)]
OPTIONS = {"columns": [], "curves": False}


class SlowModel:
    """A model whose calls take some seconds of a test clock, so that no test waits."""

    def __init__(self, monkeypatch, seconds):
        self.now, self.calls, self.seconds, self.stop_at = 0.0, 0, seconds, None
        monkeypatch.setattr("limelight.judging.estimate.time.perf_counter", lambda: self.now)
        self.wrapped = limelight.wrap(self.predict, classes=["no", "yes"], scale="logit")

    def predict(self, texts):
        self.calls += len(texts)
        self.now += self.seconds * len(texts)
        if self.stop_at is not None and self.calls > self.stop_at:
            raise KeyboardInterrupt
        keep = np.array([[word in text.split() for word in WORDS] for text in texts], float)
        z = keep @ np.linspace(-1, 2, len(WORDS)) + keep[:, 0] * keep[:, 3]
        return np.stack([-z / 2, z / 2], axis=1)


def test_a_slow_model_is_judged_on_as_many_texts_as_five_minutes_allow(monkeypatch):
    model = SlowModel(monkeypatch, 0.1)
    judgment = judge(model.wrapped, TEXTS, ["loo", "shapley"], **OPTIONS)
    assert judgment.settings["budget"] == "2000 calls"
    assert 10 < len(judgment.texts) < 40
    assert model.calls < 2500
    numbers = [text.id for text in judgment.texts]
    assert numbers[0] == 0
    assert numbers[-1] == 39
    assert f"{len(numbers)} of 40 texts are judged" in judgment.warnings[0]
    again = judge(
        SlowModel(monkeypatch, 0.001).wrapped,
        TEXTS,
        ["loo", "shapley"],
        budget="2000 calls",
        **OPTIONS,
    )
    assert again.texts == judgment.texts
    assert again.verdict == judgment.verdict
    assert again.settings == judgment.settings
    assert again.warnings == judgment.warnings


def test_a_larger_number_of_calls_judges_more_texts(monkeypatch):
    model = SlowModel(monkeypatch, 0.1).wrapped
    counts = [
        len(judge(model, TEXTS, ["loo"], budget=f"{calls} calls", **OPTIONS).texts)
        for calls in (1, 2000, 3000, 1_000_000)
    ]
    assert counts == sorted(counts)
    assert counts[0] == 10  # fewer texts have no intervals
    assert 10 < counts[1] < counts[2]
    assert counts[-1] == 40


@pytest.mark.parametrize("budget", [None, "10min"])
def test_a_quick_model_is_judged_on_all_texts(monkeypatch, budget):
    model = SlowModel(monkeypatch, 1e-6)
    judgment = judge(model.wrapped, TEXTS, ["loo"], budget=budget, **OPTIONS)
    assert len(judgment.texts) == 40
    assert judgment.settings["budget"] == (budget and 600.0)
    assert not any("are judged" in warning for warning in judgment.warnings)


def test_labels_and_marked_words_belong_to_the_judged_texts(monkeypatch):
    # Each text has its first word marked, so that a mix-up of the texts changes the result.
    marked = [[[0, text.index(" ")]] for text in TEXTS]
    judgment = judge(
        SlowModel(monkeypatch, 0.1).wrapped, TEXTS, ["loo"], rationales=marked, **OPTIONS
    )
    numbers = [text.id for text in judgment.texts]
    assert len(numbers) < 40
    selected = judge(
        SlowModel(monkeypatch, 1e-6).wrapped,
        [TEXTS[i] for i in numbers],
        ["loo"],
        rationales=[marked[i] for i in numbers],
        **OPTIONS,
    )
    assert [text.id for text in judgment.plausibility.texts] == numbers
    assert judgment.plausibility.methods == selected.plausibility.methods
    assert judgment.methods == selected.methods


def test_an_interrupt_prints_the_verdict_so_far(monkeypatch):
    model = SlowModel(monkeypatch, 1e-6)
    judge(model.wrapped, TEXTS[:12], ["loo"], **OPTIONS)
    model.stop_at, model.calls = model.calls - 5, 0
    with pytest.raises(KeyboardInterrupt) as error:
        judge(model.wrapped, TEXTS[:12], ["loo"], **OPTIONS)
    (note,) = error.value.__notes__
    assert note.startswith("11 of 12 texts are judged. On these 11 texts, ")
    assert note.endswith("Nothing is stored. Use fewer texts or methods.")


def test_the_second_explanation_of_each_text_is_left_out_if_ten_texts_take_too_long(monkeypatch):
    texts = [f"{text} a b c d e f" for text in TEXTS[:14]]
    model, methods = SlowModel(monkeypatch, 1.0), ["shapley"]
    judgment = judge(model.wrapped, texts, methods, curves=False)
    calls = model.calls
    assert len(judgment.texts) == 10
    assert "stability" not in judgment.settings["columns"]
    assert "The column 'stability' is left out" in judgment.warnings[1]
    budget = judgment.settings["budget"]
    again = judge(SlowModel(monkeypatch, 1e-6).wrapped, texts, methods, curves=False, budget=budget)
    assert again.texts == judgment.texts
    assert again.warnings == judgment.warnings
    # A control: with the column named, there are more calls.
    model = SlowModel(monkeypatch, 1.0)
    columns = [*judgment.settings["columns"], "stability"]
    named = judge(model.wrapped, texts, methods, curves=False, columns=columns)
    assert "stability" in named.settings["columns"]
    assert not any("left out" in warning for warning in named.warnings)
    assert model.calls > 1.2 * calls
