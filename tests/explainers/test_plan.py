"""How many samples LIME needs: exactly where a model collapses, from a pilot elsewhere."""

import inspect

import numpy as np
import pytest

import limelight
from limelight import DomainError, InputError, SamplingPlan

from tiny_models import tiny_model

TEXT = "w1 w5 never w5 w8 w2 w3 w9 w11"
MODEL = tiny_model(2, scale=0.6)
FUNCTION = limelight.wrap(
    lambda texts: [[0.0, np.tanh(len(set(t.split())) - 2.0 * t.count("good"))] for t in texts],
    classes=["no", "yes"],
    scale="score",
)
REVIEW = (
    "The plot is predictable, but the acting is superb. I did not expect to like it, and for the "
    "first half hour I did not; then the story finds its feet and never lets go."
)


def spread(model, text, runs, **settings):
    """The empirical standard deviation of LIME over seeds."""
    found = [
        limelight.explain(model, text, "lime-sampled", seed=seed, row0=False, **settings).scores
        for seed in range(runs)
    ]
    return np.std(found, axis=0, ddof=1)


@pytest.mark.parametrize("sizes", ["uniform", "balanced"])
def test_the_planned_error_is_that_of_many_runs(shipped, sizes):
    plan = limelight.plan(shipped, REVIEW, error=0.01, sizes=sizes)
    runs = 100
    ratio = spread(shipped, REVIEW, runs, samples=plan.needed, sizes=sizes, ridge=1e-9)
    ratio /= plan.stderr(plan.needed)
    assert plan.exact
    assert 0.94 < np.median(ratio) < 1.1
    assert (np.abs(ratio - 1) < 5 / np.sqrt(2 * runs)).all()
    assert plan.stderr(plan.needed).max() == pytest.approx(0.01, rel=0.01)


@pytest.mark.slow
def test_the_samples_of_the_lime_package_scatter_as_planned(shipped):
    lime_text = pytest.importorskip("lime.lime_text")
    words = "a great cast and a brilliant script cannot save this dull film"
    plan = limelight.plan(shipped, words, features="positions", error=0.005)
    d, runs, n = len(plan.features), 50, 800

    def predict(texts):
        f = shipped.logits(texts)[:, 0]
        return np.stack([-f, f], axis=1)

    found = np.zeros((runs, d))
    for seed in range(runs):
        explainer = lime_text.LimeTextExplainer(bow=False, mask_string="UNK", random_state=seed)
        e = explainer.explain_instance(words, predict, labels=(1,), num_features=d, num_samples=n)
        for position, score in e.as_map()[1]:
            found[seed, position] = score
    ratio = found.std(axis=0, ddof=1) / plan.stderr(n)
    assert 0.9 < np.median(ratio) < 1.1
    assert (np.abs(ratio - 1) < 5 / np.sqrt(2 * runs)).all()


def test_another_bandwidth_is_another_plan(shipped):
    wide, usual = (limelight.plan(shipped, REVIEW, bandwidth=b) for b in (1.0, 0.25))
    assert np.abs(wide.deviation / usual.deviation - 1).min() > 0.02


def test_a_tenth_of_the_error_takes_a_hundred_times_the_samples():
    rough, fine = (limelight.plan(MODEL, TEXT, error=e) for e in (0.001, 0.0001))
    np.testing.assert_allclose(
        fine.samples - fine.overhead, 100 * (rough.samples - rough.overhead), rtol=0.01, atol=100
    )
    assert (rough.stderr(rough.needed) <= 0.001 * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("model", "scale", "text"),
    [(MODEL, "probability", TEXT), (FUNCTION, "score", "a good film with a good plot and an end")],
)
def test_where_nothing_collapses_a_pilot_estimates(model, scale, text):
    plan = limelight.plan(model, text, error=0.01, scale=scale, pilot=800)
    assert (plan.exact, plan.pilot) == (False, 800)
    runs = 40
    ratio = spread(model, text, runs, samples=800, scale=scale, ridge=1e-9) / plan.stderr(800)
    assert 0.8 < np.median(ratio) < 1.2
    assert repr(plan).endswith("from a pilot of 800>")


def test_a_pilot_agrees_with_the_formula():
    """A function that says what the tables say has no tables: its errors come from a pilot."""

    def told(texts):
        return np.concatenate([0 * MODEL.logits(texts), MODEL.logits(texts)], axis=1)

    function = limelight.wrap(told, classes=["a", "b"], scale="logit", mask="zzz")
    exact, estimated = (limelight.plan(m, TEXT, pilot=4000) for m in (MODEL, function))
    assert (exact.exact, estimated.exact) == (True, False)
    np.testing.assert_allclose(estimated.deviation, exact.deviation, rtol=0.15)


def test_a_plan_reads_back_from_json_and_is_a_table():
    plan = limelight.plan(MODEL, TEXT, error=0.02, bandwidth=np.inf)
    assert SamplingPlan.from_json(plan.to_json(indent=2)) == plan
    frame = plan.to_frame()
    assert list(frame.columns) == ["feature", "deviation", "samples"]
    assert frame["samples"].max() == plan.needed
    assert plan.to_csv().startswith("feature,deviation,samples\nw1,")
    assert "\n" not in repr(plan)
    assert "(unk)" in plan.notices[-1]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"error": 0.0}, "error must be positive and finite; got 0.0."),
        ({"bandwidth": -1.0}, "bandwidth must be positive; got -1.0."),
        ({"sizes": "balance"}, "no sizes 'balance'. Did you mean 'balanced'? Choose from: "),
        ({"scale": "probability", "pilot": 9}, "a pilot for 8 features needs at least "),
    ],
)
def test_what_a_plan_needs_is_said(changes, sentence):
    with pytest.raises(InputError) as caught:
        limelight.plan(MODEL, TEXT, **changes)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [("error", "small", "a number"), ("pilot", 2.5, "a whole number"), ("seed", None, "a whole n")],
)
def test_what_is_not_a_number_is_refused_in_a_sentence(shipped, name, value, kind):
    unchecked = inspect.unwrap(limelight.plan)  # types are checked while tests run
    with pytest.raises(InputError, match=f"the setting '{name}' must be {kind}"):
        unchecked(shipped, "a superb film", **{name: value})


def test_a_plan_needs_one_text_of_two_words():
    with pytest.raises(DomainError, match="at least 2 distinct words; this text has 1"):
        limelight.plan(MODEL, "w1")
    with pytest.raises(InputError, match="one text, a string; got list"):
        inspect.unwrap(limelight.plan)(MODEL, ["w1 w2"])  # types are checked while tests run


@pytest.mark.parametrize(
    "content", ['{"schema": "limelight.plan/1"}', "[", '{"schema": "limelight.plan/2"}']
)
def test_what_is_not_a_plan_is_refused(content):
    with pytest.raises(InputError, match="this is not a limelight plan"):
        SamplingPlan.from_json(content)


def test_too_few_samples_have_no_error():
    plan = limelight.plan(MODEL, TEXT)
    with pytest.raises(InputError, match="samples must exceed"):
        plan.stderr(plan.overhead)


def test_the_command_says_how_many(limelight):
    shown = limelight("plan", "The plot is predictable, but the acting is superb.")
    assert shown.code == 0
    assert shown.out.startswith("LIME needs ")
    assert "computed without sampling" in " ".join(shown.out.split())
    assert "superb" in shown.out
    as_json = limelight("plan", "a good film", "--format", "json", "--error", "0.1")
    assert SamplingPlan.from_json(as_json.out).error == 0.1
    as_csv = limelight("plan", "a good film", "--format", "csv")
    assert as_csv.out.splitlines()[0] == "feature,deviation,samples"


def test_the_command_refuses_in_a_sentence(limelight):
    assert limelight("plan", "one").err == (
        "Error: LIME needs at least 2 distinct words; this text has 1.\n"
    )
    outcome = limelight("plan", "two", "words")
    assert outcome.code == 2
    assert "one text; got 2" in outcome.err
