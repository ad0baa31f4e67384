"""A budget bounds what is spent on a text, and says how much each method samples."""

from types import SimpleNamespace

import numpy as np
import pytest

import limelight
from limelight.errors import InputError
from limelight.explainers import DEFAULT_CALLS, METHODS, Lime, Shapley
from limelight.explainers.budget import Budget, parse_budget
from limelight.sampling import deadline

WORDS = [f"w{i}" for i in range(1, 41)]
SAMPLED_METHODS = ("shapley", "lime", "lime-sampled", "banzhaf", "interactions", "loo")


class Counting:
    """A model of words that counts its texts."""

    def __init__(self):
        self.texts = 0

    def __call__(self, texts):
        self.texts += len(texts)
        sets = [{int(word[1:]) for word in text.split()} for text in texts]
        return np.array([[0.0, sum(s) / 30 + 2.0 * ({1, 3, 5} <= s) - ({2, 3} <= s)] for s in sets])

    @property
    def wrapped(self):
        return limelight.wrap(self, classes=["bad", "good"], scale="logit")


@pytest.mark.parametrize(
    ("arguments", "seconds", "calls"),
    [
        (30, 30.0, None),
        (0.5, 0.5, None),
        ("30", 30.0, None),
        ("30s", 30.0, None),
        (" 1.5 min ", 90.0, None),
        ("2H", 7200.0, None),
        ("400 calls", None, 400),
        ("1call", None, 1),
    ],
)
def test_a_budget_is_a_time_or_a_number_of_calls(arguments, seconds, calls):
    assert parse_budget(arguments) == Budget(seconds, calls)


@pytest.mark.parametrize("method", SAMPLED_METHODS)
@pytest.mark.parametrize("words", [1, 2, 3, 4, 7, 10, 11, 23])
def test_no_method_spends_more_than_its_budget(method, words):
    text = " ".join(WORDS[:words])
    for calls in (1, 4, 9, 17, 20, 66, 129, 1000, 1100):
        model = Counting()
        try:
            e = limelight.explain(model.wrapped, text, method, budget=f"{calls} calls")
        except InputError as error:
            message = str(error)
        else:
            message = ""
            assert model.texts <= calls
            assert e.settings["budget"] == f"{calls} calls"
        if message and "at least 2 features" not in message:  # LIME and interactions of one word
            assert f"but the budget of {Budget(None, calls)} allows {calls - 1}. " in message
            assert model.texts == 0, "the error comes before the first call"


@pytest.mark.parametrize("method", ["shapley", "lime", "banzhaf"])
def test_a_larger_budget_is_used(method):
    """Negative control: bounds would also hold for a method that ignores the budget."""
    text, used = " ".join(WORDS[:30]), []
    for calls in (300, 3000):
        model = Counting()
        limelight.explain(model.wrapped, text, method, budget=f"{calls} calls")
        used.append(model.texts)
    assert 0.8 * 300 < used[0] <= 300
    assert 0.9 * 3000 < used[1] <= 3000


@pytest.mark.parametrize("words", [16, 27, 40])
@pytest.mark.parametrize("calls", [201, 250, 333, 500])
def test_shapley_values_spend_the_calls_of_their_budget(words, calls):
    """Whole pairs of 52 words left 43 of 250 calls unused."""
    model = Counting()
    e = limelight.explain(
        model.wrapped, " ".join(WORDS[:words]), "shapley", budget=f"{calls} calls"
    )
    value = {"regression": 2, "orders": 2 * (words - 1)}[e.settings["sampler"]]
    masks = e.settings["pairs"] * value + e.settings.get("spare", 0)
    assert 1 + 2 + masks == calls  # the text itself, the ends, what lies between them
    assert 0.9 * calls < model.texts <= calls  # some masks come twice
    assert e.scores.sum() == pytest.approx(e.prediction["good"] - e.base_value)


def test_all_masks_are_evaluated_if_the_budget_allows_them():
    text, model = " ".join(WORDS[:6]), Counting()
    exact = limelight.explain(model.wrapped, text, "shapley")
    assert exact.stderr is None
    for calls, sampled in ((66, False), (60, True)):
        e = limelight.explain(model.wrapped, text, "shapley", budget=f"{calls} calls")
        assert (e.stderr is not None) == sampled
        np.testing.assert_allclose(e.scores, exact.scores, atol=1e-9 if not sampled else 1.0)


def test_the_settings_of_a_result_give_the_same_scores_without_the_budget():
    text, model = " ".join(WORDS[:30]), Counting().wrapped
    e = limelight.explain(model, text, "shapley", budget="400 calls", sampler="orders")
    assert e.settings["pairs"] == e.diagnostics["pairs_drawn"] == 6  # 6 × 2 × 29 + 2 + 1 calls
    assert e.settings["spare"] == 400 - (6 * 2 * 29 + 2 + 1)
    again = limelight.explain(model, text, "shapley", pairs=6, spare=e.settings["spare"])
    assert "spare" not in limelight.explain(model, text, "shapley", pairs=6).settings
    np.testing.assert_array_equal(e.scores, again.scores)
    assert "budget" not in again.settings
    assert limelight.Explanation.from_json(e.to_json()).settings["budget"] == "400 calls"


def test_a_comparison_shares_its_budget():
    text, model = " ".join(WORDS[:30]), Counting()
    comparison = limelight.compare(model.wrapped, text, budget="1000 calls")
    assert [e.method for e in comparison] == ["shapley", "lime", "loo"]
    assert 900 < model.texts <= 1000
    samples, pairs = (
        comparison[i].settings[n] for i, n in (("lime", "samples"), ("shapley", "pairs"))
    )
    assert samples == (1000 - 1 - 32) // 2 - 2
    assert pairs == ((1000 - 1 - 32) // 2 - 2) // 2


def test_a_comparison_leaves_out_methods_that_it_cannot_afford():
    text, model = " ".join(WORDS[:30]), Counting().wrapped
    comparison = limelight.compare(model, text, budget="40 calls")
    assert [e.method for e in comparison] == ["loo"]
    assert comparison.warnings[0] == (
        "Shapley is left out: Shapley needs at least 31 model calls for 30 features, but the "
        "budget of 40 calls allows 3. Use a budget of 95 calls."
    )
    with pytest.raises(InputError, match=r"budget of 30 calls allows 29\. .* budget of 32 calls"):
        limelight.compare(model, text, methods=["shapley"], budget="30 calls")
    nothing_left = (
        r"no method is left to compare\. Shapley is left out: .* allows 1\. "
        r"Use a budget of 95 calls\. LIME is left out"
    )
    with pytest.raises(InputError, match=nothing_left):
        limelight.compare(model, text, budget="3 calls")


def test_every_class_shares_one_budget():
    model = Counting()
    limelight.explain_classes(model.wrapped, " ".join(WORDS[:30]), "lime", budget="200 calls")
    assert 150 < model.texts <= 200


@pytest.mark.parametrize(("limit", "method"), [(2.0, "lime"), (20.0, "shapley"), (20.0, "lime")])
def test_a_time_becomes_calls_by_the_time_of_one_call(limit, method, monkeypatch):
    """Use a clock that only the model moves, by 2 ms for a text."""
    model = Counting()
    clock = SimpleNamespace(monotonic=lambda: 0.002 * model.texts)
    monkeypatch.setattr(deadline, "time", clock)
    e = limelight.explain(model.wrapped, " ".join(WORDS[:30]), method, budget=limit)
    assert 0.85 * limit < clock.monotonic() <= limit + 0.01
    assert e.settings["budget"] == f"{limit:g}s"


@pytest.mark.parametrize(("method", "call", "overhead"), [("interactions", 2e-5, 3e-5)])
def test_a_time_includes_the_computation_after_the_calls(method, call, overhead, monkeypatch):
    """Use the same clock: ``call`` seconds for a text and ``overhead`` for its output."""
    model = Counting()
    clock = SimpleNamespace(monotonic=lambda: call * model.texts)
    monkeypatch.setattr(deadline, "time", clock)
    e = limelight.explain(model.wrapped, " ".join(WORDS[:30]), method, budget=1000 * call)
    assert 750 < e.settings["samples"] * (call + overhead) / call <= 1000
    within = limelight.explain(Counting().wrapped, e.text, method, budget="400 calls")
    assert 396 <= within.settings["samples"] <= 398


def test_the_budget_is_a_time_for_each_text(monkeypatch):
    """Use the same clock, and let the first text take all of its 9 s."""
    model = Counting()
    clock = SimpleNamespace(monotonic=lambda: 0.002 * model.texts)
    monkeypatch.setattr(deadline, "time", clock)
    text = " ".join(WORDS[:30])
    first, second = limelight.explain(model.wrapped, [text, text + " w31"], "lime", budget="9s")
    assert 4000 < first.settings["samples"] <= 4500
    assert 4000 < second.settings["samples"] <= 4500
    message = "allows 2[0-9] after reading the text and timing the model. Use a budget of 32 calls"
    with pytest.raises(InputError, match=message):
        limelight.explain(model.wrapped, text, "shapley", budget=0.06)


@pytest.mark.parametrize(
    ("calls", "advice"),
    [
        (41, "Use a budget of 42 calls."),
        (2, "Use a budget of 42 calls."),
    ],
)
def test_the_message_about_a_small_budget_names_a_method_that_fits(calls, advice):
    with pytest.raises(InputError) as error:
        limelight.explain(Counting().wrapped, " ".join(WORDS), budget=f"{calls} calls")
    assert str(error.value) == (
        "Shapley needs at least 41 model calls for 40 features, but the budget of "
        f"{calls} calls allows {calls - 1}. {advice}"
    )
    for method, enough in (("shapley", 42), ("loo", 43)):
        limelight.explain(Counting().wrapped, " ".join(WORDS), method, budget=f"{enough} calls")


def test_a_budget_excludes_counts_of_a_settings_object():
    model = Counting().wrapped
    with pytest.raises(InputError, match="give budget or 'pairs', not both"):
        limelight.explain(model, "w1 w2 w3", Shapley(pairs=5), budget="99 calls")
    wide = limelight.explain(model, " ".join(WORDS), Lime(bandwidth=0.5), budget="200 calls")
    assert (wide.settings["bandwidth"], wide.settings["samples"]) == (0.5, 197)


@pytest.mark.parametrize("method", ["lime", "lime-sampled"])
def test_the_advice_says_to_leave_out_a_replacement_that_needs_calls(method):
    model = limelight.load()
    advice = ", or leave replacement out and use 'lime', which needs no calls"
    with pytest.raises(InputError, match=advice):
        limelight.explain(model, "A dull script.", method, replacement="delete", budget="1 call")
    assert limelight.explain(model, "A dull script.", "lime", budget="1 call").bound is not None


def test_exact_methods_need_no_budget():
    e = limelight.explain(limelight.load(), "A dull script.", "shapley", budget="1 call")
    assert e.bound is not None
    assert "budget" not in e.settings


@pytest.mark.parametrize("name", METHODS)
def test_every_implementation_that_calls_the_model_keeps_within_a_budget(name):
    for implementation in METHODS[name].implementations:
        cost = implementation.cost
        has_calls = cost.calls is not None and name != "anchors"
        assert cost.minimum is not None or not has_calls
        assert set(cost.settings) <= set(implementation.settings)


def test_without_count_or_budget_shapley_spends_the_default_calls():
    model = Counting()
    e = limelight.explain(model.wrapped, " ".join(WORDS))
    assert (e.method, e.diagnostics["pairs_drawn"]) == ("shapley", 12)
    assert 0.9 * DEFAULT_CALLS < model.texts <= DEFAULT_CALLS
    assert e.warnings[0].startswith("Scores come from 12 pairs of orders: the ranking of words is")


def test_the_default_method_is_lime_if_it_is_exact():
    assert limelight.explain(limelight.load(), "A dull script.").method == "lime"


def test_the_shell_takes_a_budget(limelight):
    outcome = limelight("explain", "--budget", "400 calls", "-m", "lime-sampled", "A dull script.")
    assert outcome.code == 0, outcome.err


def test_the_budget_of_a_data_set_is_a_number_of_calls(limelight, tmp_path):
    runs = pytest.importorskip("limelight.runs", reason="runs are stored with pyarrow")
    (tmp_path / "reviews.csv").write_text("text\nA dull script.\n")
    files = (tmp_path / "reviews.csv", "--output", tmp_path / "run", "--engine", "here")
    outcome = limelight("explain-data", *files, "--budget", "30s")
    assert outcome.code == 2
    assert 'budget must be a number of model calls, such as "400 calls", not' in outcome.err
    outcome = limelight("explain-data", *files, "-m", "lime-sampled", "--budget", "50 calls")
    assert outcome.code == 0, outcome.err
    assert runs.Run(tmp_path / "run").explanation(0).settings["budget"] == "50 calls"
