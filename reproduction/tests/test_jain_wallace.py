"""Jain and Wallace's tests on a tiny model: measured numbers against slow ways to get them."""

import json

import numpy as np
import pytest
from scipy.stats import kendalltau

from limelight import explain
from limelight_reproduction.one_layer import jain_wallace_measured as measuring
from limelight_reproduction.one_layer.jain_wallace import EXPERIMENT
from limelight_reproduction.setting import Setting

from tiny_models import random_texts, tiny_model

TEXTS = [text for text in random_texts(12, 3) if len(text.split()) > 4]


MODELS = {
    "shipped": tiny_model(0, scale=0.5),
    "paper": tiny_model(1, outputs=2, scale=0.5),
}


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    """A setting whose test reviews are ``TEXTS``, in its own order."""
    data = tmp_path_factory.mktemp("data")
    rows = [json.dumps({"text": text, "label": "positive"}) for text in TEXTS]
    (data / "imdb").mkdir()
    (data / "imdb" / "test.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return Setting(data=data, models=data, quick=True)


@pytest.fixture(scope="module")
def numbers(setting):
    return {name: measuring.measure(setting, model) for name, model in MODELS.items()}


def test_correlations_are_those_of_the_explanations(setting, numbers):
    for name, model in MODELS.items():
        for i, text in enumerate(setting.sample_texts("imdb", "test", 60).texts):
            options = {"features": "positions", "scale": "probability"}
            attention, loo = (
                explain(model, text, method=method, **options) for method in ("alpha-avg", "loo")
            )
            wanted = kendalltau(attention.scores, np.abs(loo.scores)).statistic
            result = numbers[name]["correlations"]["loo tau"][i]
            np.testing.assert_allclose(result, wanted, rtol=1e-3)


def test_replaced_attention_gives_the_same_probability_and_a_nudge_does_not():
    for model in MODELS.values():
        alpha, u, T = next(measuring._attention_and_values(model, TEXTS[:1]))
        p = model.predict_proba(TEXTS[:1])[0, 1]
        np.testing.assert_allclose(measuring._sigmoid(measuring._log_odds(alpha, u)), p, rtol=1e-12)
        nudged = alpha.copy()
        nudged[:, 1] += 0.01
        assert abs(measuring._log_odds(nudged, u) - measuring._log_odds(alpha, u)) > 1e-6
        assert (
            measuring._measure_replacement(alpha, u, T, np.random.default_rng(0))["moved"] < 1e-12
        )


def test_distances_lie_between_nothing_and_what_no_constraint_reaches(numbers):
    for part in numbers.values():
        results = {name: np.array(column) for name, column in part["replaced"].items()}
        assert (results["jsd"] <= results["jsd unconstrained"] + 1e-4).all()
        assert (results["jsd least head"] <= results["jsd"] + 1e-4).all()
        assert results["jsd unconstrained"].max() < np.log(2)
        assert results["jsd"].min() > 0


def test_findings_and_figures_come_from_stored_numbers(numbers):
    stored = json.loads(json.dumps(numbers))
    findings = EXPERIMENT.findings(stored)
    assert len(findings.measured) == 6
    assert len(findings.table.rows) == 6
    names = [name for name, _, _ in EXPERIMENT.figures(stored)]
    assert names == [
        "jain-wallace-correlations",
        "jain-wallace-counterfactual",
        "jain-wallace-shuffled",
    ]
    stored["paper"]["replaced"]["jsd"] = [0.123] * len(TEXTS)
    assert any("0.123" in sentence for sentence in EXPERIMENT.findings(stored).measured)


def test_the_meaning_says_only_what_the_numbers_say(numbers):
    def meaning(tau, jsd):
        stored = json.loads(json.dumps(numbers))
        for part in stored.values():
            part["replaced"]["jsd"] = [jsd] * len(TEXTS)
            for method in measuring.MEASURES:
                part["correlations"][f"{method} tau"] = [tau] * len(TEXTS)
        return EXPERIMENT.findings(stored).meaning

    assert "first test finds agreement" in meaning(0.6, 0.69)
    assert "does not find agreement" in meaning(0.2, 0.69)
    assert "does not pass the second test" in meaning(0.6, 0.69)
    assert "held to some degree" in meaning(0.6, 0.3)


@pytest.mark.slow
def test_real_reviews(shared, tmp_path):
    setting = Setting(data=shared / "data", models=tmp_path, quick=True)
    part = EXPERIMENT.parts[0].measure(setting)
    assert part["texts"] == measuring.TEXTS
    assert max(part["replaced"]["moved"]) < 1e-12
