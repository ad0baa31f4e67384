"""How many samples LIME needs: exactly where a model collapses, from a pilot elsewhere."""

import inspect
import io
import json
import random
import re
import warnings
from dataclasses import replace
from importlib.metadata import entry_points

import numpy as np
import pytest
from rich.console import Console
from test_damaged_files import damage_copy, use
from test_pairs import PAIR, WORDS, load_model

import limelight
from limelight import DomainError, InputError
from limelight_reproduction import planning
from limelight_reproduction.planning import SamplingPlan, plan_command

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


BARE = {"ridge": 0.0, "row0": False}


def run_lime_repeatedly(model, text, runs, **settings):
    """The scores of LIME with several seeds."""
    results = [
        limelight.explain(model, text, "lime-sampled", seed=seed, **settings).scores
        for seed in range(runs)
    ]
    return np.array(results)


def empirical_deviation(model, text, runs, **settings):
    """Their empirical standard deviation, without penalty and row 0."""
    return np.std(run_lime_repeatedly(model, text, runs, **BARE, **settings), axis=0, ddof=1)


@pytest.mark.parametrize(("text", "error"), [(REVIEW[:50], 0.005), (REVIEW, 0.02)])
def test_the_method_as_it_comes_is_as_far_from_the_limit_as_planned(shipped, text, error):
    plan = planning.plan(shipped, text, error=error)
    limit = limelight.explain(shipped, text, "lime", tolerance=1e-9).scores
    runs = 40
    off = run_lime_repeatedly(shipped, text, runs, samples=plan.needed_samples) - limit
    rmse = np.sqrt(np.mean(off**2, axis=0))
    assert plan.exact
    assert rmse.max() < error * (1 + 2.5 / np.sqrt(2 * runs))
    assert rmse.max() > 0.7 * error  # and no more samples than it takes
    np.testing.assert_allclose(off.mean(axis=0), plan.bias(plan.needed_samples), atol=0.35 * error)
    # What 0.1 of those samples scatter alone would not have told:
    subset = planning.plan(shipped, text, error=error, **BARE).needed_samples
    off = run_lime_repeatedly(shipped, text, 10, samples=subset) - limit
    assert np.abs(off.mean(axis=0)).max() > 1.5 * error


def test_every_score_is_within_the_error_at_the_planned_samples():
    for error in (0.3, 0.01, 1e-4):
        plan = planning.plan(MODEL, TEXT, error=error)
        assert plan.rmse(plan.needed_samples).max() <= error
        assert plan.needed_samples == plan.samples.max()
        value = np.array([plan.rmse(int(n))[j] for j, n in enumerate(plan.samples)])
        assert (value <= error * (1 + 1e-12)).all()


@pytest.mark.parametrize("sizes", ["uniform", "balanced"])
def test_the_planned_scatter_is_that_of_many_runs(shipped, sizes):
    plan = planning.plan(shipped, REVIEW, error=0.01, sizes=sizes, **BARE)
    runs = 100
    ratio = empirical_deviation(shipped, REVIEW, runs, samples=plan.needed_samples, sizes=sizes)
    ratio /= plan.stderr(plan.needed_samples)
    assert 0.94 < np.median(ratio) < 1.1
    assert (np.abs(ratio - 1) < 5 / np.sqrt(2 * runs)).all()
    assert plan.rmse(plan.needed_samples).max() == pytest.approx(0.01, rel=0.01)
    assert not plan.bias(plan.needed_samples).any()


@pytest.mark.slow
def test_the_samples_of_the_lime_package_scatter_as_planned(shipped):
    lime_text = pytest.importorskip("lime.lime_text")
    words = "a great cast and a brilliant script cannot save this dull film"
    plan = planning.plan(shipped, words, features="positions", error=0.005)
    d, runs, n = len(plan.features), 50, 800

    def predict(texts):
        f = shipped.logits(texts)[:, 0]
        return np.stack([-f, f], axis=1)

    result = np.zeros((runs, d))
    for seed in range(runs):
        explainer = lime_text.LimeTextExplainer(bow=False, mask_string="UNK", random_state=seed)
        e = explainer.explain_instance(words, predict, labels=(1,), num_features=d, num_samples=n)
        for position, score in e.as_map()[1]:
            result[seed, position] = score
    ratio = result.std(axis=0, ddof=1) / plan.stderr(n)
    assert 0.9 < np.median(ratio) < 1.1
    assert (np.abs(ratio - 1) < 5 / np.sqrt(2 * runs)).all()


def test_another_bandwidth_is_another_plan(shipped):
    wide, usual = (planning.plan(shipped, REVIEW, bandwidth=b) for b in (1.0, 0.25))
    assert np.abs(wide.deviation / usual.deviation - 1).min() > 0.02


def test_a_tenth_of_the_error_takes_a_hundred_times_the_samples():
    rough, fine = (planning.plan(MODEL, TEXT, error=e, **BARE) for e in (0.001, 0.0001))
    np.testing.assert_allclose(
        fine.samples - fine.overhead, 100 * (rough.samples - rough.overhead), rtol=0.01, atol=100
    )
    assert (rough.stderr(rough.needed_samples) <= 0.001 * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("model", "scale", "text"),
    [(MODEL, "probability", TEXT), (FUNCTION, "score", "a good film with a good plot and an end")],
)
def test_where_nothing_collapses_a_pilot_estimates(model, scale, text):
    plan = planning.plan(model, text, error=0.01, scale=scale, pilot=800)
    assert (plan.exact, plan.pilot) == (False, 800)
    runs = 40
    ratio = empirical_deviation(model, text, runs, samples=800, scale=scale) / plan.stderr(800)
    assert 0.8 < np.median(ratio) < 1.2
    assert repr(plan).endswith("from a pilot of 800>")


def test_a_pilot_agrees_with_the_formula():
    """A function that says what the tables say has no tables: its errors come from a pilot."""

    def double_outputs(texts):
        return np.concatenate([0 * MODEL.logits(texts), MODEL.logits(texts)], axis=1)

    function = limelight.wrap(double_outputs, classes=["a", "b"], scale="logit", mask="zzz")
    exact, estimated = (planning.plan(m, TEXT, pilot=4000) for m in (MODEL, function))
    assert (exact.exact, estimated.exact) == (True, False)
    np.testing.assert_allclose(estimated.deviation, exact.deviation, rtol=0.15)
    np.testing.assert_allclose(estimated.samples, exact.samples, rtol=0.3)
    assert "(mask)" in estimated.warnings[-1]


def test_a_plan_reads_back_from_json_and_is_a_table():
    plan = planning.plan(MODEL, TEXT, error=0.02, bandwidth=np.inf)
    assert SamplingPlan.from_json(plan.to_json(indent=2)) == plan
    frame = plan.to_frame()
    assert list(frame.columns) == ["feature", "score", "deviation", "samples", "side"]
    assert frame["samples"].max() == plan.needed_samples
    assert plan.to_csv().startswith("feature,score,deviation,samples,side\nw1,")
    assert "\n" not in repr(plan)
    assert "(unk)" in plan.warnings[-1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"error": 0.0}, "error must be positive and finite, not 0.0."),
        ({"bandwidth": -1.0}, "bandwidth must be positive, not -1.0."),
        ({"ridge": -1.0}, "ridge must be finite and at least 0, not -1.0."),
        ({"sizes": "balance"}, "unknown sizes: 'balance'. Did you mean 'balanced'? Choose from: "),
        ({"scale": "probability", "pilot": 9}, "a pilot for 8 features needs at least "),
        ({"pilot": 10**12}, "pilot must be between 2 and 1000000, not 1000000000000."),
    ],
)
def test_impossible_settings_of_a_plan_raise_an_error(changes, message):
    with pytest.raises(InputError) as caught:
        planning.plan(MODEL, TEXT, **changes)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [("error", "small", "a number"), ("pilot", 2.5, "a whole number"), ("seed", None, "a whole n")],
)
def test_a_setting_that_is_no_number_raises_an_error(shipped, name, value, kind):
    unchecked = inspect.unwrap(planning.plan)  # types are checked while tests run
    with pytest.raises(InputError, match=f"the setting '{name}' must be {kind}"):
        unchecked(shipped, "a superb film", **{name: value})


def test_a_plan_needs_one_text_of_two_words():
    with pytest.raises(DomainError, match="at least 2 features, but this text has 1"):
        planning.plan(MODEL, "w1")
    with pytest.raises(InputError, match="plan needs a single text, not list"):
        inspect.unwrap(planning.plan)(MODEL, ["w1 w2"])  # types are checked while tests run


@pytest.mark.parametrize(
    "content", ['{"schema": "limelight.plan/1"}', "[", '{"schema": "limelight.plan/2"}']
)
def test_another_json_document_raises_an_error(content):
    with pytest.raises(InputError, match="this is not a limelight plan"):
        SamplingPlan.from_json(content)


def test_too_few_samples_have_no_error():
    plan = planning.plan(MODEL, TEXT)
    with pytest.raises(InputError, match="samples must exceed"):
        plan.stderr(plan.overhead)


def test_limelight_finds_the_command_by_its_entry_point():
    (entry_point,) = entry_points(group="limelight.commands", name="plan")
    assert entry_point.load() is plan_command.plan


def test_the_command_prints_the_number_of_samples(limelight):
    output = limelight("plan", "The plot is predictable, but the acting is superb.")
    assert output.code == 0
    assert output.out.startswith("LIME needs ")
    assert "computed without sampling" in " ".join(output.out.split())
    assert "superb" in output.out
    assert "Its penalty (ridge 1) is why" in " ".join(output.out.split())
    without = limelight("plan", "--ridge", "0", "The plot is predictable, but the acting is good.")
    assert "penalty" not in without.out
    bare = limelight("plan", "--no-row0", "--format", "json", "a good film")
    assert not SamplingPlan.from_json(bare.out).row0
    as_json = limelight("plan", "a good film", "--format", "json", "--error", "0.1")
    assert SamplingPlan.from_json(as_json.out).error == 0.1
    as_csv = limelight("plan", "a good film", "--format", "csv")
    assert as_csv.out.splitlines()[0] == "feature,score,deviation,samples,side"


def test_the_command_prints_an_error_of_one_line(limelight):
    assert limelight("plan", "one").err == (
        "Error: LIME needs at least 2 features, but this text has 1. Give a longer text.\n"
    )
    outcome = limelight("plan", "two", "words")
    assert outcome.code == 2
    assert "one text, not 2" in outcome.err


def test_each_word_is_within_the_error_with_its_own_samples(shipped):
    text = "The plot is predictable, but the acting is superb."
    plan, runs = planning.plan(shipped, text), 40
    subset = int(plan.samples.argmin())
    off = run_lime_repeatedly(shipped, text, runs, samples=int(plan.samples[subset])) - plan.scores
    assert np.sqrt(np.mean(off[:, subset] ** 2)) < plan.error * (1 + 2.5 / np.sqrt(2 * runs))
    # Penalty and row 0 scatter as well: without them the standard error would be a third of it.
    spread = off.std(axis=0, ddof=1) / plan.stderr(int(plan.samples[subset]))
    assert (np.abs(spread - 1) < 5 / np.sqrt(2 * runs)).all()
    single = plan.deviation / np.sqrt(plan.samples[subset] - plan.overhead)
    assert off[:, subset].std() > 1.5 * single[subset]


def test_an_unreachable_error_raises_an_error():
    with pytest.raises(InputError, match=r"error of 1e-300 needs more than 4.6e\+18 samples"):
        planning.plan(MODEL, TEXT, error=1e-300)


def test_the_bias_of_no_samples_raises_an_error():
    plan = planning.plan(MODEL, TEXT)
    for samples in (0, -5):
        with pytest.raises(InputError, match=f"samples must be at least 1, not {samples}"):
            plan.bias(samples)


def test_numbers_of_numpy_are_plain_in_the_plan():
    unchecked = inspect.unwrap(planning.plan)
    plan = unchecked(MODEL, TEXT, error=np.float32(0.5), ridge=np.float32(2), pilot=1000.0)
    assert SamplingPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("sizes", ["uniform", "balanced", "importance"])
def test_a_plan_stands_where_the_weight_of_most_sizes_vanishes(shipped, sizes):
    text = "the plot is predictable but the acting is superb and this film was a joy"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = planning.plan(shipped, text, bandwidth=0.02, sizes=sizes)
    assert plan.needed_samples >= 2 * plan.overhead > 0


@pytest.mark.parametrize("overhead", [10**30, 10**400, 2**62, 0, -1])
def test_a_plan_with_an_impossible_overhead_raises_an_error(shipped, overhead):
    plan = json.loads(planning.plan(shipped, "a superb film").to_json())
    with pytest.raises(InputError, match="overhead must be a number of samples"):
        SamplingPlan.from_json(json.dumps(plan | {"overhead": overhead}))


def test_a_plan_says_in_which_text_of_the_pair_a_word_stands():
    plan = planning.plan(load_model(), PAIR, pilot=60)
    assert (plan.features, plan.sides) == (WORDS, ("first",) * 3 + ("second",) * 4)
    assert plan.names[2] == "film (first)"
    assert plan.names[4] == "film (second)"
    assert SamplingPlan.from_json(plan.to_json()) == plan
    assert plan.to_csv().splitlines()[3].endswith(",first")
    output = Console(file=io.StringIO(), width=80)
    output.print(plan)
    assert "film (second)" in output.file.getvalue()
    second = planning.plan(load_model(), PAIR, side="second", pilot=60)
    assert second.sides == ("second",) * 4


@pytest.mark.parametrize("sides", [("first",), ("third",) * 7, ("first",) * 6 + ("",)])
def test_a_plan_with_unknown_sides_raises_an_error(sides):
    plan = planning.plan(load_model(), PAIR, pilot=60)
    with pytest.raises(InputError, match="sides must be 'first' or 'second' for each of the 7"):
        replace(plan, sides=sides)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # 1e308 overflows where it is drawn
def test_a_damaged_file_raises_an_error_or_is_a_plan():
    rng, stored = random.Random(7), planning.plan(MODEL, TEXT, error=0.5).to_json()
    contents = [stored[: rng.randrange(len(stored))] for _ in range(20)]
    changed = damage_copy(json.loads(stored), rng)
    contents += [next(changed) for _ in range(200)]
    messages, plans = [], []
    for content in contents:
        try:
            plans.append(SamplingPlan.from_json(content))
        except InputError as error:
            messages.append(str(error))
    assert messages
    assert plans
    assert all(message.endswith(".") and "\n" not in message for message in messages)
    for plan in rng.sample(plans, min(25, len(plans))):
        use(plan)


def test_a_pilot_that_is_too_small_says_how_many_samples_are_enough():
    with pytest.raises(InputError, match=r"needs at least (\d+) samples, not 3") as caught:
        planning.plan(FUNCTION, "a good film with an end", pilot=3)
    enough = int(re.search(r"at least (\d+)", str(caught.value))[1])
    assert planning.plan(FUNCTION, "a good film with an end", pilot=enough).pilot == enough


@pytest.mark.parametrize("option", ["--error", "--bandwidth", "--ridge", "--pilot", "--seed"])
@pytest.mark.parametrize("value", ["nan", "-1", "x"])
def test_an_unusable_number_raises_an_error(limelight, option, value):
    outcome = limelight("plan", "a good film", option, value)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)


def test_a_mistyped_keyword_is_an_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'targett'"):
        planning.plan(MODEL, TEXT, targett="class 1")
