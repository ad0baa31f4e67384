"""A budget bounds what is spent on a text, and says how much each method samples."""

from types import SimpleNamespace

import numpy as np
import pytest

import limelight
from limelight.errors import InputError
from limelight.explainers import DEFAULT_CALLS, METHODS, Lime, Shapley
from limelight.explainers.budget import Budget, parse_budget, parse_seconds
from limelight.sampling import deadline

WORDS = [f"w{i}" for i in range(1, 41)]
ASKING = ("shapley", "lime", "lime-sampled", "banzhaf", "interactions", "loo")


class Counting:
    """A model of words that counts the texts it is asked about."""

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
    ("given", "seconds", "calls"),
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
def test_a_budget_is_a_time_or_a_number_of_calls(given, seconds, calls):
    assert parse_budget(given) == Budget(seconds, calls)


@pytest.mark.parametrize(
    "given", ["", "s", "-3s", "3 days", "1e9s", "2.5 calls", -1, float("inf"), True, [30], "３s"]
)
def test_anything_else_is_refused(given):
    with pytest.raises(
        InputError, match=r'budget must be a time \(30, "30s", "2min"\) or a number of model'
    ):
        parse_budget(given)


@pytest.mark.parametrize("method", ASKING)
@pytest.mark.parametrize("words", [1, 2, 3, 4, 7, 10, 11, 23])
def test_no_method_asks_more_than_its_budget(method, words):
    text = " ".join(WORDS[:words])
    for calls in (1, 4, 9, 17, 20, 66, 129, 1000, 1100):
        model = Counting()
        try:
            e = limelight.explain(model.wrapped, text, method, budget=f"{calls} calls")
        except InputError as error:
            refused = str(error)
        else:
            refused = ""
            assert model.texts <= calls
            assert e.settings["budget"] == f"{calls} calls"
        if refused and "at least 2" not in refused:  # LIME and interactions of one word
            assert f"and a budget of {calls} calls leaves it" in refused
            assert model.texts == 0, "it is refused before the model is asked"


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
def test_shapley_values_spend_the_calls_that_they_were_given(words, calls):
    """Whole pairs of 52 words left 43 of 250 calls unused."""
    model = Counting()
    e = limelight.explain(
        model.wrapped, " ".join(WORDS[:words]), "shapley", budget=f"{calls} calls"
    )
    each = {"regression": 2, "orders": 2 * (words - 1)}[e.settings["sampler"]]
    masks = e.settings["pairs"] * each + e.settings.get("spare", 0)
    assert 1 + 2 + masks == calls  # the text itself, the ends, what lies between them
    assert 0.9 * calls < model.texts <= calls  # some masks come twice
    assert e.scores.sum() == pytest.approx(e.prediction["good"] - e.base_value)


def test_all_masks_are_asked_where_a_budget_allows_them():
    text, model = " ".join(WORDS[:6]), Counting()
    exact = limelight.explain(model.wrapped, text, "shapley")
    assert exact.stderr is None
    for calls, sampled in ((66, False), (60, True)):
        e = limelight.explain(model.wrapped, text, "shapley", budget=f"{calls} calls")
        assert (e.stderr is not None) == sampled
        np.testing.assert_allclose(e.scores, exact.scores, atol=1e-9 if not sampled else 1.0)


def test_settings_say_what_was_used_and_give_the_same_scores_by_themselves():
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
    found = limelight.compare(model.wrapped, text, budget="1000 calls")
    assert [e.method for e in found] == ["shapley", "lime", "loo"]
    assert 900 < model.texts <= 1000
    samples, pairs = (found[i].settings[n] for i, n in (("lime", "samples"), ("shapley", "pairs")))
    assert samples == (1000 - 1 - 32) // 2 - 2
    assert pairs == ((1000 - 1 - 32) // 2 - 2) // 2


def test_what_a_comparison_cannot_afford_is_left_out_or_refused():
    text, model = " ".join(WORDS[:30]), Counting().wrapped
    found = limelight.compare(model, text, budget="40 calls")
    assert [e.method for e in found] == ["loo"]
    assert found.warnings[0] == (
        "Shapley is left out: Shapley needs at least 118 model calls for 30 features, but the budget of 40 calls allows 3. Use a budget of 269 calls."
    )
    with pytest.raises(InputError, match="budget of 40 calls leaves it 39"):
        limelight.compare(model, text, methods=["shapley"], budget="40 calls")
    nothing = (
        r"no method is left to compare\. Shapley is left out: .*leaves it 1\. "
        r"Give a budget of 269 calls\. LIME is left out"
    )
    with pytest.raises(InputError, match=nothing):
        limelight.compare(model, text, budget="3 calls")


def test_every_class_shares_one_budget():
    model = Counting()
    limelight.explain_classes(model.wrapped, " ".join(WORDS[:30]), "lime", budget="200 calls")
    assert 150 < model.texts <= 200


@pytest.mark.parametrize(("limit", "method"), [(2.0, "lime"), (20.0, "shapley"), (20.0, "lime")])
def test_a_time_becomes_calls_by_what_one_takes(limit, method, monkeypatch):
    """By a clock that only the model moves, 2 ms for a text."""
    model = Counting()
    clock = SimpleNamespace(monotonic=lambda: 0.002 * model.texts)
    monkeypatch.setattr(deadline, "time", clock)
    e = limelight.explain(model.wrapped, " ".join(WORDS[:30]), method, budget=limit)
    assert 0.85 * limit < clock.monotonic() <= limit + 0.01
    assert e.settings["budget"] == f"{limit:g}s"


@pytest.mark.parametrize(("method", "each", "own"), [("interactions", 2e-5, 3e-5)])
def test_what_is_computed_of_the_answers_is_part_of_a_time(method, each, own, monkeypatch):
    """By the same clock: 30 words, ``each`` seconds for a text and ``own`` for its answer."""
    model = Counting()
    clock = SimpleNamespace(monotonic=lambda: each * model.texts)
    monkeypatch.setattr(deadline, "time", clock)
    e = limelight.explain(model.wrapped, " ".join(WORDS[:30]), method, budget=1000 * each)
    assert 750 < e.settings["samples"] * (each + own) / each <= 1000
    within = limelight.explain(Counting().wrapped, e.text, method, budget="400 calls")
    assert 396 <= within.settings["samples"] <= 398


def test_every_text_has_a_time_of_its_own(monkeypatch):
    """By the same clock, of which the first text takes all of its own 9 s."""
    model = Counting()
    clock = SimpleNamespace(monotonic=lambda: 0.002 * model.texts)
    monkeypatch.setattr(deadline, "time", clock)
    text = " ".join(WORDS[:30])
    first, second = limelight.explain(model.wrapped, [text, text + " w31"], "lime", budget="9s")
    assert 4000 < first.settings["samples"] <= 4500
    assert 4000 < second.settings["samples"] <= 4500
    said = "Shapley needs at least 118 model calls for 30 features, but the"
    with pytest.raises(InputError, match=said):
        limelight.explain(model.wrapped, text, "shapley", budget=0.06)


@pytest.mark.parametrize(
    ("calls", "instead"),
    [
        (50, "Give a budget of 159 calls, or use 'loo', which takes 42."),
        (42, "Give a budget of 159 calls, or one of 43 calls and 'loo'."),
    ],
)
def test_a_budget_that_is_too_small_names_what_fits(calls, instead):
    said = rf"or more, and a budget of {calls} calls leaves it {calls - 1}\. {instead}"
    with pytest.raises(InputError, match=said):
        limelight.explain(Counting().wrapped, " ".join(WORDS), budget=f"{calls} calls")


def test_no_time_at_all_is_too_little():
    for method in ("shapley", "loo"):  # with counts of its own, and of a fixed cost
        with pytest.raises(
            InputError, match="Shapley needs at least 158 model calls for 40 features, but the"
        ):
            limelight.explain(Counting().wrapped, " ".join(WORDS), method, budget=0)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("shapley", {"pairs": 5}),
        ("shapley", {"tolerance": 0.1}),
        ("lime", {"samples": 50}),
        ("banzhaf", {"max_samples": 500_000}),
    ],
)
def test_counts_are_not_given_beside_a_budget(method, settings):
    (name,) = settings
    with pytest.raises(InputError, match=f"give budget or '{name}', not both"):
        limelight.explain(Counting().wrapped, "w1 w2 w3", method, budget="99 calls", **settings)
    with pytest.raises(InputError, match="give budget or"):
        limelight.compare(
            Counting().wrapped, "w1 w2", methods=[method], budget="99 calls", **settings
        )


def test_counts_in_a_settings_object_count_as_well():
    model = Counting().wrapped
    with pytest.raises(InputError, match="give budget or 'pairs', not both"):
        limelight.explain(model, "w1 w2 w3", Shapley(pairs=5), budget="99 calls")
    wide = limelight.explain(model, " ".join(WORDS), Lime(bandwidth=0.5), budget="200 calls")
    assert (wide.settings["bandwidth"], wide.settings["samples"]) == (0.5, 197)


def test_a_search_without_bound_is_refused():
    with pytest.raises(
        InputError, match="method 'anchors' does not support a budget, because its search"
    ):
        limelight.explain(Counting().wrapped, "w1 w2 w3", "anchors", budget="99 calls")


def test_where_the_usual_methods_ask_nothing_one_of_them_is_named():
    with pytest.raises(
        InputError, match=r"LIME \(sampled\) needs at least 3 model calls for 4 features, but"
    ):
        limelight.explain(limelight.load(), "A dull script.", "lime-sampled", budget="1 call")


@pytest.mark.parametrize("method", ["lime", "lime-sampled"])
def test_a_replacement_that_is_sampled_is_left_out_to_need_no_budget(method):
    model, advice = (
        limelight.load(),
        "LIME needs at least 12 model calls for 4 features, but the budget",
    )
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


def test_without_count_or_budget_shapley_asks_as_often_as_by_default():
    model = Counting()
    e = limelight.explain(model.wrapped, " ".join(WORDS))
    assert (e.method, e.diagnostics["pairs_drawn"]) == ("shapley", 12)
    assert 0.9 * DEFAULT_CALLS < model.texts <= DEFAULT_CALLS
    assert e.warnings[0].startswith("Good for which words matter and which way they pull: 12 pairs")


def test_the_default_method_is_lime_where_it_is_exact():
    assert limelight.explain(limelight.load(), "A dull script.").method == "lime"


@pytest.mark.parametrize(("given", "seconds"), [(None, None), (2, 2.0), ("1min", 60.0)])
def test_judging_takes_a_time_in_the_same_words(given, seconds):
    assert parse_seconds(given) == seconds


def test_judging_takes_no_number_of_calls():
    with pytest.raises(
        InputError, match='this budget must be a time, such as 30 or "30s", not "5 calls".'
    ):
        limelight.judge(Counting().wrapped, ["w1 w2 w3"], ["loo"], budget="5 calls")


def test_the_shell_takes_a_budget(limelight):
    told = limelight("explain", "--budget", "400 calls", "-m", "lime-sampled", "A dull script.")
    assert told.code == 0, told.err
    told = limelight("compare", "--budget", "3 days", "A dull script.")
    assert told.code == 2
    assert 'budget must be a time (30, "30s", "2min") or a number of model' in " ".join(
        told.err.split()
    )


def test_the_budget_of_a_data_set_is_one_of_calls(limelight, tmp_path):
    corpus = pytest.importorskip("limelight.runs", reason="runs are stored with pyarrow")
    (tmp_path / "reviews.csv").write_text("text\nA dull script.\n")
    where = (tmp_path / "reviews.csv", "--output", tmp_path / "run", "--engine", "here")
    told = limelight("explain-data", *where, "--budget", "30s")
    assert told.code == 2
    assert 'budget must be a number of model calls, such as "400 calls", not' in told.err
    told = limelight("explain-data", *where, "-m", "lime-sampled", "--budget", "50 calls")
    assert told.code == 0, told.err
    assert corpus.Run(tmp_path / "run").explanation(0).settings["budget"] == "50 calls"
