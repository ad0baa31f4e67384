"""Sampled methods behave alike: ours, and the method of another package in CONTRIBUTING.md."""

import math
import re
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import limelight
from limelight import InputError
from limelight.explainers import METHODS

GUIDE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"
D = 13  # more masks than any budget below, so that all methods sample
WORDS = [f"w{i}" for i in range(40)]
TEXT = " ".join(WORDS[:D])
# For each method the setting that counts its samples, and settings for few of them.
METHOD_SETTINGS = {
    "lime-sampled": ("samples", {}),
    "banzhaf": ("samples", {}),
    "shapley": ("pairs", {"sampler": "orders"}),
    "orders": ("pairs", {}),
}
STARTS = ("shapley", "orders")  # methods whose scores may start from a learned method
WEIGHTS = np.random.default_rng(1).normal(size=len(WORDS))


@pytest.fixture(scope="module", autouse=True)
def guide_method(tmp_path_factory):
    """Install the method of the guide as a module of another package."""
    (code,) = re.findall(
        r"^```python\n(.*?limelight.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S
    )[1:]
    folder = tmp_path_factory.mktemp("package")
    (folder / "limelight_orders.py").write_text(code, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        assert list(METHODS)
        for attribute in ("_methods", "_methods_by_settings"):
            patch.setattr(METHODS, attribute, dict(getattr(METHODS, attribute)))
        patch.syspath_prepend(folder)
        import_module("limelight_orders")
        yield
        del sys.modules["limelight_orders"]


def log_odds(keep):
    """Return a sum of weights, with a bend and an interaction of three words."""
    total = keep @ WEIGHTS
    return total + np.sin(total) + keep[:, [0, 3, 7]].prod(axis=1)


def shapley_of_all_subsets(d):
    """Return the Shapley values of the first words by their definition."""
    masks = (np.arange(2**d)[:, None] >> np.arange(d)) % 2 == 1
    outputs = log_odds(np.pad(masks, ((0, 0), (0, len(WORDS) - d))).astype(float))
    sizes = masks.sum(axis=1)
    weight = [1 / (d * math.comb(d - 1, k)) for k in range(d)]
    values = []
    for j in range(d):
        without = np.flatnonzero(~masks[:, j])
        effect = outputs[without + (1 << j)] - outputs[without]
        values.append(np.take(weight, sizes[without]) @ effect)
    return np.array(values)


class CountingModel:
    """A model that counts its calls."""

    def __init__(self):
        self.calls = 0
        self.model = limelight.wrap(self.predict, classes=["no", "yes"], scale="logit")

    def predict(self, texts):
        self.calls += len(texts)
        z = log_odds(np.array([[word in text.split() for word in WORDS] for text in texts], float))
        return np.stack([-z / 2, z / 2], axis=1)

    def explain(self, method, text=TEXT, **settings):
        return limelight.explain(self.model, text, method, target="yes", **settings)


@pytest.fixture(scope="module")
def learned():
    """A method that was learned from the model, with errors."""
    from limelight.training import fitting

    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(6, 12), replace=False)) for _ in range(70)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "_EPOCHS", 16)
        return limelight.learn(SHARED_MODEL.model, texts, pairs=2, judged=0)


SHARED_MODEL = CountingModel()
methods = pytest.mark.parametrize("method", METHOD_SETTINGS)
starts = pytest.mark.parametrize("method", STARTS)


@methods
@pytest.mark.parametrize("calls", [150, 400, 1_000])
def test_a_budget_is_kept_and_most_of_it_is_spent(method, calls):
    model = CountingModel()
    e = model.explain(method, budget=f"{calls} calls")
    assert 0.6 * calls <= model.calls <= calls
    count, _ = METHOD_SETTINGS[method]
    assert e.settings[count] >= 2
    assert e.diagnostics  # says how many samples were drawn


@methods
def test_a_budget_that_is_too_small_raises_an_error_before_the_first_call(method):
    model = CountingModel()
    with pytest.raises(InputError, match="budget"):
        model.explain(method, budget="3 calls")
    assert model.calls <= 1


@methods
def test_a_budget_and_a_number_of_samples_raise_an_error(method):
    count, _ = METHOD_SETTINGS[method]
    with pytest.raises(InputError, match=count):
        SHARED_MODEL.explain(method, budget="500 calls", **{count: 100})


@methods
def test_a_smaller_tolerance_takes_more_calls_and_is_met(method):
    calls = []
    _, settings = METHOD_SETTINGS[method]
    for tolerance in (0.15, 0.015):
        model = CountingModel()
        e = model.explain(method, tolerance=tolerance, **settings)
        assert e.stderr.max() <= tolerance
        assert not any("above the tolerance" in warning for warning in e.warnings)
        calls.append(model.calls)
    assert calls[0] < calls[1]


@methods
def test_a_tolerance_that_is_not_met_is_a_warning(method):
    count, settings = METHOD_SETTINGS[method]
    limits = {count: 100, f"max_{count}": 100}
    e = SHARED_MODEL.explain(method, tolerance=1e-6, **limits, **settings)
    assert any("above the tolerance 1e-06" in warning for warning in e.warnings)


@methods
def test_a_seed_repeats_the_scores_and_another_changes_them(method):
    first, again, other = (
        SHARED_MODEL.explain(method, seed=seed, budget="300 calls") for seed in (1, 1, 2)
    )
    assert first.to_json() == again.to_json()
    assert first.scores.tolist() != other.scores.tolist()
    np.testing.assert_array_less(abs(first.scores - other.scores), 10 * first.stderr + 1e-9)


@methods
def test_two_standard_errors_contain_the_true_scores(method):
    _, settings = METHOD_SETTINGS[method]
    if method in STARTS:
        truth = shapley_of_all_subsets(D)
    else:
        truth = SHARED_MODEL.explain(method, tolerance=0.004, seed=99, **settings).scores
    ratios = []
    for seed in range(30):
        e = SHARED_MODEL.explain(method, seed=seed, budget="1000 calls")
        ratios.append((e.scores - truth) / e.stderr)
    contained = np.mean(np.abs(ratios) <= 2)
    assert contained >= 0.9
    assert np.mean(np.abs(np.array(ratios) * 3) <= 2) < 0.9  # a third of the error is too small


@starts
def test_shapley_values_of_each_sampler_are_those_of_all_subsets(method):
    e = SHARED_MODEL.explain(method, " ".join(WORDS[:9]), pairs=20, max_pairs=20)
    ratios = (e.scores - shapley_of_all_subsets(9)) / e.stderr
    assert abs(ratios).max() <= 5
    other = (e.scores - np.roll(shapley_of_all_subsets(9), 1)) / e.stderr
    assert abs(other).max() > 5


@methods
def test_other_functions_know_the_method(method):
    model, texts = SHARED_MODEL.model, [TEXT, " ".join(WORDS[5:20])]
    compared = limelight.compare(model, TEXT, methods=["loo", method], budget="900 calls")
    assert [e.method for e in compared] == ["loo", method]
    judged = limelight.judge(model, texts, [method], budget="300 calls")
    assert judged.methods[0].share > 0.5
    assert method in [row.id for row in limelight.methods(model)]


@starts
def test_with_a_learned_start_one_pair_is_enough_and_the_error_falls(method, learned, tmp_path):
    _, settings = METHOD_SETTINGS[method]
    few = {"pairs": 1, "max_pairs": 1, **settings}
    model = CountingModel()
    e = model.explain(method, start=learned, **few)
    assert model.calls <= 2 * D + 5
    assert e.settings["start"] == learned.digest
    assert e.warnings[0].startswith("Scores are weighted means of learned scores")
    assert 0 < e.diagnostics["learned_share"] <= 1
    assert sum(e.scores) == pytest.approx(sum(e.diagnostics["unbiased"]), abs=1e-9)
    truth, runs = shapley_of_all_subsets(D), [e]
    runs += [model.explain(method, start=learned, seed=seed, **few) for seed in range(1, 12)]
    error = np.array([run.scores - truth for run in runs])
    unbiased_error = np.array([run.diagnostics["unbiased"] - truth for run in runs])
    assert np.mean(error**2) < 0.9 * np.mean(unbiased_error**2)
    learned.save(tmp_path / "method")
    assert (
        model.explain(method, start=f"learned:{tmp_path / 'method'}", **few).to_json()
        == e.to_json()
    )
    again = limelight.Explanation.from_json(e.to_json())
    assert again.diagnostics == e.diagnostics


@starts
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale": "probability"}, "a learned start explains logits only. Use scale='logit'"),
        ({"start": "nowhere"}, "the setting 'start' must be a learned method: there is no learned"),
    ],
)
def test_a_start_that_does_not_fit_raises_an_error(method, changes, message, learned):
    with pytest.raises(InputError, match=re.escape(message)):
        SHARED_MODEL.explain(method, **{"start": learned, "pairs": 3, "max_pairs": 3, **changes})
