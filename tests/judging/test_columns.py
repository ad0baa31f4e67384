"""What stands beside the share: each measure against another road to it."""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, spearmanr

import limelight
from limelight import InputError, judge
from limelight.judging.measures import (
    additivity,
    draw_removal_sets,
    eraser_sets,
    ferret_sets,
    kendall_tau,
    select_columns,
)
from limelight.results.judgment import COLUMNS

from tiny_models import random_texts, tiny_model

MODEL = tiny_model(3, T_max=31, scale=0.4)
TEXTS = [text for text in random_texts(60, seed=5, longest=8) if len(set(text.split())) > 3][:6]
numbers = st.lists(st.integers(-3, 3), min_size=2, max_size=7)


@given(
    st.integers(2, 7).flatmap(
        lambda d: st.tuples(*[st.lists(st.integers(-3, 3), min_size=d, max_size=d)] * 2)
    )
)
def test_tau_is_scipys_tau_b(pair):
    x, y = (np.array(value, dtype=float) for value in pair)
    result, expected = kendall_tau(x, y), kendalltau(x, y).statistic
    if result is None:
        assert np.isnan(expected)
    else:
        assert result == pytest.approx(expected)


def values_from_definition(scores, f, d):
    """The correlation over p uniform on (0, 1): sets of every size weigh the same in all."""
    sums, drops, weights = [], [], []
    for k in range(d + 1):
        for gone in itertools.combinations(range(d), k):
            sums.append(sum(scores[j] for j in gone))
            drops.append(f(()) - f(gone))
            weights.append(1 / (d + 1) / math.comb(d, k))
    covariance = np.cov(sums, drops, aweights=weights, bias=True)
    return covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1])


def quadratic(gone):
    return sum((j + 1) ** 2 % 5 for j in gone) - 3.0 * (1 in gone and 4 in gone)


def output_drops(f, removed):
    return np.array([f(()) - f(tuple(np.flatnonzero(row))) for row in removed])


def test_additivity_is_that_of_all_sets_and_sampled_within_its_error():
    d, scores = 7, np.array([1.0, -2.0, 0.5, 3.0, -1.0, 0.0, 2.0])
    rng = np.random.default_rng(0)
    exact = draw_removal_sets(d, rng, max_sets=128)
    assert exact.exact
    assert exact.weights.sum() == pytest.approx(1)
    rho, error = additivity(scores, exact, output_drops(quadratic, exact.removed))
    assert error is None
    assert rho == pytest.approx(values_from_definition(scores, quadratic, d))
    result, spread = [], []
    for _ in range(300):
        sets = draw_removal_sets(d, rng, max_sets=64)
        assert not sets.exact
        value, error = additivity(scores, sets, output_drops(quadratic, sets.removed))
        result.append(value)
        spread.append(error)
    assert abs(np.mean(result) - rho) < 5 * np.std(result) / math.sqrt(300) + 0.02
    assert np.std(result) == pytest.approx(np.mean(spread), rel=0.15)  # the error is the error


def test_scores_that_add_up_have_an_additivity_of_1_and_their_opposite_of_minus_1():
    scores = np.array([1.0, -2.0, 0.5, 3.0])
    sets = draw_removal_sets(4, np.random.default_rng(0), max_sets=16)
    rho, _ = additivity(scores, sets, sets.removed @ scores)
    assert rho == pytest.approx(1)
    assert additivity(-scores, sets, sets.removed @ scores)[0] == pytest.approx(-1)
    assert additivity(np.zeros(4), sets, sets.removed @ scores) is None
    assert additivity(scores, sets, np.full(16, 2.5)) is None


def test_lds_is_scipys_rank_correlation_over_half_ablations_and_sampled_within_its_error():
    d, rng = 7, np.random.default_rng(0)
    scores, weights = rng.normal(size=d), rng.normal(size=(d, d))  # no two sums are tied

    def values(keep):
        return np.einsum("ni,ij,nj->n", keep, weights, keep)

    keep = np.array(list(itertools.product([False, True], repeat=d)))
    true = spearmanr(keep @ scores, values(keep)).statistic
    exact = draw_removal_sets(d, rng, max_sets=128, halves=True)
    full = values(np.ones((1, d)))
    rho, error = additivity(scores, exact, full - values(~exact.removed), ranks=True)
    assert error is None
    assert rho == pytest.approx(true, rel=1e-12)
    result, errors = [], []
    for _ in range(300):
        sets = draw_removal_sets(d, rng, max_sets=100, halves=True)
        assert not sets.exact
        value, error = additivity(scores, sets, full - values(~sets.removed), ranks=True)
        assert value == pytest.approx(spearmanr(~sets.removed @ scores, values(~sets.removed))[0])
        result.append(value)
        errors.append(error)
    assert abs(np.mean(result) - true) < 5 * np.std(result) / math.sqrt(300) + 0.01
    assert np.std(result) == pytest.approx(np.mean(errors), rel=0.15)


def test_top_drops_and_lds_of_a_judgment_are_those_of_direct_calls():
    texts = [text for text in TEXTS if len(limelight.game(MODEL, text)) > 4]
    assert len(texts) > 1
    judgment = judge(MODEL, texts, ["loo", "g-l1", "gxi"], columns=["top_drop", "lds"])
    for text, judged in zip(texts, judgment.texts, strict=True):
        game = limelight.game(MODEL, text)
        sign = 1 if judged.target == MODEL.classes[1] else -1
        keeps = np.array(list(itertools.product([False, True], repeat=len(game))))
        columns = {name: column.values for name, column in judged.columns.items()}
        for method in ("loo", "g-l1", "gxi"):
            e = limelight.explain(MODEL, text, method, target=judged.target)
            strength = np.abs(e.scores) if method == "g-l1" else e.scores
            for k in (1, 3, 5):
                keep = np.ones((2, len(game)), bool)
                keep[1, np.argsort(-strength, kind="stable")[:k]] = False
                full, remaining = sign * game(keep)[:, -1]
                assert columns[f"top_{k}_drop"][method] == pytest.approx(full - remaining, abs=1e-9)
            # Sums of the same numbers in another order are tied, whatever was rounded.
            pair = (keeps @ e.scores).round(9), (sign * game(keeps)[:, -1]).round(9)
            expected = spearmanr(*pair).statistic
            if method == "g-l1":  # sizes add up to nothing
                assert method not in columns["lds"]
            else:
                assert columns["lds"][method] == pytest.approx(expected, abs=1e-9)
    assert judgment["loo"]["top_3_drop"].interval is None  # of fewer than ten texts


def test_the_sets_of_eraser_are_its_bins():
    order = np.random.default_rng(0).permutation(40)
    sets = eraser_sets(order)
    assert sets.sum(axis=1).tolist() == [1, 2, 4, 8, 20]
    for row in sets:
        assert set(np.flatnonzero(row)) == set(order[: row.sum()])
    assert eraser_sets(np.arange(3)).sum(axis=1).tolist() == [1, 1, 1, 1, 2]


def test_the_sets_of_ferret_hold_positive_words_only_and_no_step_twice():
    scores = np.array([0.5, -1.0, 2.0, 0.0, 1.0, -0.5, 0.25, -2.0, -3.0, -4.0])
    sets = ferret_sets(scores, np.argsort(-scores, kind="stable"))
    assert [np.flatnonzero(row).tolist() for row in sets] == [[2], [2, 4], [0, 2, 4], [0, 2, 4, 6]]
    empty = ferret_sets(-np.ones(10), np.arange(10))
    assert empty.sum() == 0
    assert len(empty) == 1
    assert ferret_sets(np.ones(3), np.arange(3)).sum(axis=1).tolist() == [1, 2, 3]


# Ten words; each takes its weight from the log-odds when it goes.
WEIGHTS = np.array([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
WORDS = [f"w{j}" for j in range(10)]


def sums(texts):
    log_odds = [sum(WEIGHTS[int(word[1:])] for word in text.split()) - 2.0 for text in texts]
    return np.array([[0.0, x] for x in log_odds])


def right_but_cautious(model, text):
    """The right order, but only the first word is called positive."""
    return WEIGHTS - 0.95


def wrong_but_sure(model, text):
    """The first two words in the wrong order, and every word is called positive."""
    return np.array([0.9, 1.0, *WEIGHTS[2:]])


def test_the_rule_of_ferret_turns_the_order_of_two_methods_around():
    """One method loses nowhere and wins somewhere, at every number of removed words; ferret, which
    averages each over thresholds of its own, puts it second. ERASER and the share do not.
    """
    model = limelight.wrap(sums, classes=["no", "yes"], scale="logit")
    judgment = judge(model, [" ".join(WORDS)], [right_but_cautious, wrong_but_sure])
    right, wrong = judgment["right_but_cautious"], judgment["wrong_but_sure"]
    (text,) = judgment.texts
    falls = [curve.points for curve in text.curves.values()]
    assert (falls[0] <= falls[1] + 1e-6).all()
    assert (falls[0] < falls[1] - 1e-3).any()
    assert right.share > wrong.share
    assert right["eraser_comprehensiveness"].value > wrong["eraser_comprehensiveness"].value
    assert right["ferret_comprehensiveness"].value < wrong["ferret_comprehensiveness"].value


def test_the_numbers_of_the_literature_are_losses_of_probability():
    model = limelight.wrap(sums, classes=["no", "yes"], scale="logit")
    judgment = judge(model, [" ".join(WORDS)], {"mine": lambda *_: WEIGHTS})
    total = WEIGHTS.sum() - 2.0

    def p(x):
        return 1 / (1 + math.exp(-x))

    counts = [1, 1, 1, 2, 5]
    lost = [p(total) - p(total - WEIGHTS[:k].sum()) for k in counts]
    remaining = [p(total) - p(WEIGHTS[:k].sum() - 2.0) for k in counts]
    assert judgment["mine"]["eraser_comprehensiveness"].value == pytest.approx(np.mean(lost))
    assert judgment["mine"]["eraser_sufficiency"].value == pytest.approx(np.mean(remaining))
    ten = [p(total) - p(total - WEIGHTS[:k].sum()) for k in range(1, 11)]
    assert judgment["mine"]["ferret_comprehensiveness"].value == pytest.approx(np.mean(ten))
    assert judgment["mine"]["additivity"].value == pytest.approx(1, abs=1e-9)
    assert judgment["mine"]["loo_tau"].value == pytest.approx(1)


def test_a_model_of_scores_has_no_probabilities_to_lose():
    model = limelight.wrap(lambda texts: sums(texts)[:, 1:], classes=["total"], scale="score")
    judgment = judge(model, [" ".join(WORDS)], {"mine": lambda *_: WEIGHTS})
    tops = {f"top_{k}_drop" for k in (1, 3, 5)}
    assert {c.name for c in judgment["mine"].columns} == {"additivity", "loo_tau", "lds", *tops}
    assert [judgment["mine"][f"top_{k}_drop"].value for k in (1, 3, 5)] == pytest.approx(
        [1, 2.7, 4]
    )


def word_lengths(model, text):
    return [float(len(w) + 0.1 * j) for j, w in enumerate(dict.fromkeys(text.split()))]


def test_what_ignores_the_model_is_the_same_with_shuffled_weights():
    judgment = judge(MODEL, TEXTS, ["loo", word_lengths], columns=["sanity"])
    assert judgment["word_lengths"]["sanity"].value == pytest.approx(1)
    assert judgment["loo"]["sanity"].value < 0.9


def test_shuffled_weights_are_the_same_numbers_elsewhere():
    twin = MODEL.shuffle_weights(5)
    for name in ("embedding", "W_q", "W_l"):
        before, after = getattr(MODEL, name), getattr(twin, name)
        assert not np.array_equal(before, after)
        np.testing.assert_array_equal(np.sort(before, axis=None), np.sort(after, axis=None))
    assert (
        twin.fingerprint
        == MODEL.shuffle_weights(5).fingerprint
        != MODEL.shuffle_weights(6).fingerprint
    )


def test_stability_is_of_methods_that_sample_and_grows_with_their_samples():
    values = {
        "few": limelight.explainers.LimeSampled(samples=60),
        "many": limelight.explainers.LimeSampled(samples=6000),
        "exact": "lime",
    }
    judgment = judge(MODEL, TEXTS, values, columns="stability")
    assert judgment["exact"].columns == ()
    assert judgment["few"]["stability"].value < judgment["many"]["stability"].value <= 1
    assert judgment["many"]["stability"].value > 0.97


def test_columns_are_selected_by_name():
    assert select_columns(None) == {"additivity", "loo_tau", "stability", "eraser", "ferret"}
    assert select_columns("all") == select_columns(None) | {"sanity", "lds", "top_drop"}
    assert select_columns([]) == set()
    with pytest.raises(
        InputError, match=r"unknown column: 'aditivity'\. Did you mean 'additivity'\?"
    ):
        select_columns(["aditivity"])
    judgment = judge(MODEL, TEXTS[:2], ["loo"], columns=[])
    assert judgment["loo"].columns == ()
    with pytest.raises(KeyError):
        judgment["loo"]["additivity"]


def test_a_column_over_texts_is_the_mean_of_its_texts():
    judgment = judge(MODEL, [*TEXTS, *TEXTS], ["loo", "gxi"], columns="all")
    assert {c.name for c in judgment["loo"].columns} <= set(COLUMNS)
    mean = np.mean([text.columns["loo_tau"].values["gxi"] for text in judgment.texts_with_room])
    assert judgment["gxi"]["loo_tau"].value == pytest.approx(mean)
    low, high = judgment["gxi"]["loo_tau"].interval
    assert low <= mean <= high
    assert judgment["loo"]["loo_tau"].value == pytest.approx(1)


@settings(max_examples=25)
@given(numbers)
def test_the_sets_grow_whatever_the_scores(scores):
    scores = np.array(scores, dtype=float)
    order = np.argsort(-scores, kind="stable")
    for sets in (eraser_sets(order), ferret_sets(scores, order)):
        assert (sets[1:] >= sets[:-1]).all()


@pytest.mark.slow
def test_another_package_can_be_judged():
    """The example of the documentation: shap's KernelExplainer."""
    shap = pytest.importorskip("shap", reason="shap is not installed")
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "judge.md").read_text("utf-8")
    (block,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    names = {"limelight": limelight, "np": np, "shap": shap, "model": MODEL, "texts": TEXTS[:3]}
    exec(compile(block, "judge.md", "exec"), names)
    result = names["judgment"]
    assert result["kernel_shap"].share == pytest.approx(result["shapley"].share, abs=0.05)
