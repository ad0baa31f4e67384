"""When attention can be trusted: the rule that was written down beforehand, and what is told."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from limelight import explain
from limelight_reproduction.one_layer.collapsed_texts import collapse_texts
from limelight_reproduction.questions import reliability, reliability_measured, repairs
from limelight_reproduction.questions.reliability_measured import SIGNS, judge_signs
from limelight_reproduction.results import load_stored_results as carried
from limelight_reproduction.trust import DeepShares, trust_section

TEXT = "w3 w1 w4 w1 w5 never w2"
REVIEWS = 400


def reviews(**signs):
    """Reviews whose ρ runs from 0.4 to 0.9, in random order, with nothing to tell by."""
    rng = np.random.default_rng(4)
    rho = rng.permutation(np.linspace(0.4, 0.9, REVIEWS))
    noise = {name: rng.standard_normal(REVIEWS) for name in SIGNS}
    return {"rho": rho, **noise, **{name: of(rho) for name, of in signs.items()}}


def test_a_sign_that_goes_with_rho_in_its_direction_tells():
    result = judge_signs(reviews(alike=lambda rho: rho, words=lambda rho: -rho))
    assert [name for name in SIGNS if result[name]["tells"]] == ["alike", "words"]
    assert result["alike"]["good"] - result["alike"]["bad"] == pytest.approx(0.25, abs=0.03)
    assert result["alike"]["rank"] == pytest.approx(1)


def test_the_wrong_direction_and_a_small_difference_do_not_tell():
    assert not judge_signs(reviews(alike=lambda rho: -rho))["alike"]["tells"]
    narrow = reviews(alike=lambda rho: rho)
    narrow["rho"] = 0.6 + 0.1 * narrow["rho"]
    assert not judge_signs(narrow)["alike"]["tells"]


def test_the_rule_looks_at_the_second_half_alone():
    of = reviews(alike=np.copy)
    of["alike"][REVIEWS // 2 :] = np.random.default_rng(1).permutation(of["alike"][REVIEWS // 2 :])
    assert not judge_signs(of)["alike"]["tells"]


def test_the_interval_is_that_of_ranks():
    """Over many samples of independent signs it leaves zero out in about 1 %."""
    rng = np.random.default_rng(0)
    outside = 0
    for _ in range(100):
        of = {name: rng.standard_normal(60) for name in ("rho", *SIGNS)}
        for judge_sign in judge_signs(of).values():
            outside += judge_sign["interval"][0] > 0 or judge_sign["interval"][1] < 0
    assert 0 < outside < 0.025 * 100 * len(SIGNS)


def test_the_measures_of_a_text_follow_their_definitions(toy_model):
    model = toy_model(2)
    (row,) = reliability_measured._rows(model, [TEXT])
    alpha, value = (
        explain(model, TEXT, name, target="positive", scale="score").scores
        for name in ("alpha-avg", "shapley")
    )
    assert row["rho"] == pytest.approx(spearmanr(alpha, abs(value)).statistic)
    first, second = sorted(alpha)[-1:-3:-1]
    assert row["lead"] == pytest.approx(first / second)
    f = model.logits([TEXT])[0]
    assert row["for"] == (value[alpha.argmax()] * (f[1] - f[0]) > 0)
    assert row["margin"] == pytest.approx(abs(f[1] - f[0]))
    assert row["strong"] == (abs(value[alpha.argmax()]) >= sorted(abs(value))[-3])
    assert 0 < row["entropy"] < 1


def test_even_attention_has_the_largest_entropy(toy_model):
    seen = collapse_texts(toy_model(2), [TEXT])
    assert reliability_measured._spreads(seen, 0, np.full(6, 0.1))["entropy"] == pytest.approx(1)


@pytest.mark.parametrize("module", [reliability, repairs])
def test_the_measures_of_toy_reviews_can_be_written(module, toy_setting, monkeypatch, stored):
    monkeypatch.setattr(reliability_measured, "QUICK_TEXTS", 10)
    monkeypatch.setattr(reliability_measured, "QUICK_JUDGED", 10)
    monkeypatch.setattr(repairs, "QUICK_TEXTS", 4)
    experiment = module.EXPERIMENT
    (paper,) = (part for part in experiment.parts if part.name == "paper")
    pair = stored({"paper": paper.measure(toy_setting)})
    pair["shipped"] = pair["paper"]
    result = experiment.findings(pair)
    assert "nan" not in json.dumps([result.headline, *result.measured, result.meaning])
    assert result.verdicts
    assert all(len(row) == len(result.table.columns) for row in result.table.rows)
    assert list(experiment.figures(pair))


def test_a_sign_that_tells_on_both_models_is_the_finding():
    pair = {part: value.numbers for part, value in carried()["reliability"].items()}
    assert reliability._findings(pair).verdicts[0].holds == "no"
    for part in pair:
        signs = pair[part]["signs"]
        pair[part] = pair[part] | {"signs": signs | {"alike": signs["alike"] | {"tells": True}}}
    result = reliability._findings(pair)
    assert result.verdicts[0].holds == "holds"
    assert f"by {SIGNS['alike'][1]}" in result.headline


def test_the_constant_that_fits_is_the_best_one(toy_model):
    model = toy_model(3)
    forms = {name: x[0] for name, x in repairs._forms(collapse_texts(model, [TEXT]).games).items()}
    wanted = {"eq19": "lime-theorem", "first_order": "lime-first-order"}
    for form, method in (wanted | {"mean_field": "lime-mean-field"}).items():
        scores = explain(model, TEXT, method, target="positive", scale="score").scores
        np.testing.assert_allclose(forms[form], scores, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(1.5 * forms["constant"], forms["eq19"])


def test_repairs_are_measured_against_exact_lime(toy_setting, toy_model, monkeypatch):
    monkeypatch.setattr(repairs, "QUICK_TEXTS", 1)
    model = toy_model(3)
    result = repairs.measure(toy_setting, model)
    (text,) = toy_setting.sample_texts("imdb", "test", 1).texts
    exact = explain(model, text, "lime", target="positive", scale="score").scores
    printed = explain(model, text, "lime-theorem", target="positive", scale="score").scores
    assert result["far"]["eq19"][0] == pytest.approx(np.linalg.norm(printed - exact), rel=1e-3)
    best = min(np.linspace(0, 3, 3001), key=lambda c: np.linalg.norm(c * printed / 1.5 - exact))
    assert result["fitting"][1] == pytest.approx(np.clip(best, 0, 3), abs=2e-3)


# ---------------------------------------------------------------- the paragraph


def test_the_paragraph_has_the_numbers_of_every_experiment():
    output = trust_section(carried())
    paper = carried()["reliability"]["paper"].numbers
    assert f"{paper['rho'][1]:.2f} [{paper['rho'][0]:.2f}, {paper['rho'][2]:.2f}]" in output
    erased = carried()["erasure"]["paper"].numbers["unk"]
    assert f"{erased['shares']['alpha-avg'][1]:.1%} of" in output
    assert f"never changes in {1 - erased['flips']['alpha-avg']:.0%} of" in output
    for link in ("reliability", "attention-summaries", "erasure", "next-checks", "controls"):
        assert f"](#{link})" in output
    assert "MiniLM" not in output


def test_another_number_would_change_the_paragraph():
    results = carried()
    part = results["reliability"]["paper"]
    moved = part.numbers | {"rho": [0.1, 0.2, 0.3]}
    changed = results | {
        "reliability": results["reliability"] | {"paper": replace(part, numbers=moved)}
    }
    assert "0.20 [0.10, 0.30]" in trust_section(changed)
    deep = DeepShares(attention=(0.17, 0.15, 0.2), shapley=(0.89, 0.88, 0.9))
    message = "it goes 0.17 [0.15, 0.20], and Shapley values 0.89"
    assert message in trust_section(results, deep)
