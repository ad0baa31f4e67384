"""What all methods promise. A new method is in METHODS and so is tested here."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import limelight
from limelight import Explanation, InputError
from limelight.explainers import METHODS, prepare_batch
from limelight.explainers.registry import EXACT_COMPARISON

from tiny_models import random_texts, tiny_model

TEXT = "w1 w5 never w5 w8"
MODEL = tiny_model(2, outputs=3, scale=0.6)
BINARY = tiny_model(2, outputs=1, scale=0.6)
LINEAR = ["g-avg", "gxi", "ig", "loo", "shapley", "banzhaf", "lime"]
EVERY = list(METHODS)
every_method = pytest.mark.parametrize("method", EVERY)


@every_method
def test_every_feature_gets_a_finite_score_and_its_places(method):
    e = limelight.explain(MODEL, TEXT, method)
    assert e.features == ("w1", "w5", "never", "w8")
    assert e.spans[1] == ((3, 5), (12, 14))
    assert np.isfinite(e.scores).all()
    assert e.method == method
    assert e.model == MODEL.fingerprint
    assert e.version == limelight.__version__


@every_method
def test_json_brings_back_the_same_explanation(method):
    e = limelight.explain(MODEL, TEXT, method)
    again = Explanation.from_json(e.to_json())
    assert again.to_json() == e.to_json()
    np.testing.assert_array_equal(again.scores, e.scores)


def test_an_infinite_bandwidth_survives_json():
    e = limelight.explain(MODEL, TEXT, "lime", bandwidth=np.inf)
    assert Explanation.from_json(e.to_json()).settings["bandwidth"] == np.inf


@every_method
def test_a_list_of_texts_is_the_same_texts_one_by_one(method):
    texts = [TEXT, "w3 w4", "never seen w9 w9 w3 w2 w1 w7 w7 w8 w11 w12 w13 w14 w15"]
    together = limelight.explain(MODEL, texts, method, target=1)
    for text, e in zip(texts, together, strict=True):
        single = limelight.explain(MODEL, text, method, target=1)
        error = 1e-12 + (e.bound or 0) + (single.bound or 0)
        np.testing.assert_allclose(e.scores, single.scores, rtol=1e-12, atol=error)
        assert e.features == single.features


@every_method
def test_positions_are_scored_one_by_one(method):
    e = limelight.explain(MODEL, TEXT, method, features="positions")
    assert e.features == ("w1", "w5", "never", "w5", "w8")


@pytest.mark.parametrize("method", [name for name in EVERY if name != "zoom"])  # has its own units
def test_sentences_and_groups_are_scored_as_wholes(method):
    text = "w1 w5. never w5 w8! w9"
    e = limelight.explain(MODEL, text, method, features="sentences")
    assert e.features == ("w1 w5.", "never w5 w8!", "w9")
    same = limelight.explain(MODEL, text, method, features=[0, 0, 0, 1, 1, 1, 1, 2])
    np.testing.assert_array_equal(e.scores, same.scores)


def test_the_shapley_value_of_a_sentence_removes_all_of_it():
    text = "w1 w5. never w5 w8! w9"
    e = limelight.explain(MODEL, text, "shapley", features="sentences", target=0, tolerance=1e-9)
    assert np.isclose(e.scores.sum(), e.prediction["class 0"] - e.base_value, atol=1e-7)
    loo = limelight.explain(MODEL, text, "loo", features="sentences", target=0)
    without = MODEL.logits(["zz zz zz never w5 w8! w9"])[0, 0]
    assert np.isclose(loo.scores[0], e.prediction["class 0"] - without)


@pytest.mark.parametrize("method", ["alpha-avg", "alpha-max", "g-avg", "g-l1", "g-l2", "gxi", "ig"])
def test_a_words_score_is_the_sum_over_its_occurrences(method):
    words = limelight.explain(MODEL, TEXT, method).scores
    places = limelight.explain(MODEL, TEXT, method, features="positions").scores
    np.testing.assert_allclose(words, [places[0], places[1] + places[3], places[2], places[4]])


@every_method
def test_the_settings_of_a_method_are_recorded(method):
    e = limelight.explain(MODEL, TEXT, method)
    first = METHODS[method].implementations[0]
    visible = set(first.settings) - set(first.hidden_settings) - set(first.cost.settings)
    assert visible <= set(e.settings)


@pytest.mark.parametrize("method", LINEAR)
def test_with_one_output_the_first_class_is_the_second_turned_round(method):
    up = limelight.explain(BINARY, TEXT, method, target="class 1")
    down = limelight.explain(BINARY, TEXT, method, target="class 0")
    np.testing.assert_allclose(up.scores, -down.scores, rtol=1e-6, atol=1e-9)
    assert limelight.explain(BINARY, TEXT, method).target == "class 1"


@pytest.mark.parametrize("method", ["alpha-avg", "alpha-max", "g-l1", "g-l2"])
def test_methods_without_a_sign_never_score_below_zero(method):
    assert (limelight.explain(MODEL, TEXT, method).scores >= 0).all()
    assert not limelight.explain(MODEL, TEXT, method).signed


def remove_words(model, text, words):
    """The document with ``words`` replaced by an unknown word, as a text."""
    return " ".join("zzz" if word in words else word for word in text.split())


def test_leave_one_out_is_what_really_happens():
    for output in ("logit", "probability"):
        e = limelight.explain(MODEL, TEXT, "loo", target=1, scale=output)

        def f(text, output=output):
            scores = MODEL.logits if output == "logit" else MODEL.predict_proba
            return scores([text])[0, 1]

        lost = [f(TEXT) - f(remove_words(MODEL, TEXT, {word})) for word in e.features]
        np.testing.assert_allclose(e.scores, lost, rtol=1e-9, atol=1e-12)


def all_subsets(e, model, target):
    d = len(e.features)
    for keep in range(d + 1):
        for inside in combinations(range(d), keep):
            gone = {e.features[j] for j in range(d) if j not in inside}
            outputs = model.logits([remove_words(model, e.text, gone)])[0]
            # Of two classes the logit is the output less the other's.
            yield set(inside), outputs[target] - (outputs[1 - target] if len(outputs) == 2 else 0)


@given(st.integers(0, 500))
def test_shapley_is_the_mean_over_all_orders_of_the_real_model(seed):
    from math import comb

    model = tiny_model(seed, outputs=2, scale=0.6)
    (text,) = random_texts(1, seed, longest=6)
    e = limelight.explain(model, text, "shapley", target=1, tolerance=1e-10)
    f = {frozenset(inside): value for inside, value in all_subsets(e, model, 1)}
    d = len(e.features)
    for j, score in enumerate(e.scores):
        exact = sum((f[S | {j}] - f[S]) / (d * comb(d - 1, len(S))) for S in f if j not in S)
        assert abs(score - exact) <= e.bound + 1e-12
    assert e.bound < 1e-8
    assert abs(e.scores.sum() - (e.explained_value - e.base_value)) <= d * e.bound + 1e-12


def test_lime_is_weighted_least_squares_over_all_subsets_of_the_real_model():
    from math import comb

    e = limelight.explain(MODEL, "w1 w5 never w5 w8 w9", "lime", target=2, tolerance=1e-10)
    rows, values, weights = [], [], []
    d = len(e.features)
    for inside, value in all_subsets(e, MODEL, 2):
        s = d - len(inside)
        if s == 0:
            continue
        psi = np.exp(-((1 - np.sqrt(1 - s / d)) ** 2) / (2 * 0.25**2))
        rows.append([1.0, *(float(j in inside) for j in range(d))])
        values.append(value)
        weights.append(psi / comb(d, s))
    X, y, w = map(np.array, (rows, values, weights))
    beta = np.linalg.solve(X.T @ (w[:, None] * X), X.T @ (w * y))
    np.testing.assert_allclose(e.scores, beta[1:], atol=e.bound + 1e-10)
    assert e.bound < 1e-8
    assert abs(e.intercept - beta[0]) <= e.diagnostics["intercept_bound"] < 1e-7


def test_the_fit_of_lime_comes_with_its_bound():
    from math import comb

    from sklearn.linear_model import LinearRegression

    from limelight.explainers.lime import _poor_fit_warning

    e = limelight.explain(MODEL, TEXT, "lime", fit=True, target=2)
    d = len(e.features)
    inside, values = zip(*list(all_subsets(e, MODEL, 2))[:-1], strict=True)  # the last is the text
    keep = np.array([[j in kept_words for j in range(d)] for kept_words in inside])
    s = d - keep.sum(axis=1)
    psi = np.exp(-((1 - np.sqrt(1 - s / d)) ** 2) / (2 * 0.25**2))
    weights = psi / [comb(d, size) for size in s]
    r2 = LinearRegression().fit(keep, values, weights).score(keep, values, weights)
    assert abs(e.diagnostics["r2"] - r2) <= e.diagnostics["r2_bound"] < 0.1 * (1 - r2)

    assert _poor_fit_warning(0.9, 1e-6) == ()
    assert "explains 20% of the variance" in _poor_fit_warning(0.2, 1e-6)[0]
    assert "is unknown (R² = 1.00 ± 1.00)" in _poor_fit_warning(1.0, 1.0)[0]


@pytest.mark.parametrize("method", ["shapley", "banzhaf", "lime"])
def test_the_mean_of_the_heads_is_the_score(method):
    e = limelight.explain(MODEL, TEXT, method, per_head=True, tolerance=1e-9)
    np.testing.assert_allclose(e.heads.mean(axis=0), e.scores, atol=1e-7)


def test_interactions_list_the_strongest_pairs_first():
    e = limelight.explain(MODEL, TEXT, "interactions")
    assert len(e.pairs.scores) == 6
    assert (np.diff(np.abs(e.pairs.scores)) <= 0).all()
    assert len(limelight.explain(MODEL, TEXT, "interactions", top=2).pairs.scores) == 2


def test_protected_words_stay_and_get_no_score():
    for method in EVERY:
        e = limelight.explain(MODEL, TEXT, method, protect=["w5"])
        assert e.features == ("w1", "never", "w8")
        assert e.settings["protect"] == ["w5"]
    base = limelight.explain(MODEL, TEXT, "shapley", protect=["w5"], target=0).base_value
    assert np.isclose(base, MODEL.logits(["zzz w5 zzz w5 zzz"])[0, 0])


def test_a_class_whose_name_is_a_number_is_never_confused_with_another():
    """A command passes digits only. They name a class before they count the classes."""
    for classes in (["1", "2", "0"], ["-1", "1", "2"]):
        model = limelight.wrap(
            lambda texts: [[1.0, 2, 3] for _ in texts], classes=classes, scale="logit"
        )
        for name in classes:
            assert limelight.explain(model, "a film", "loo", target=name).target == name
            number = int(name)
            if number < 0 or classes[number] != name:
                with pytest.raises(InputError, match=f"class {number} is ambiguous"):
                    limelight.explain(model, "a film", "loo", target=number)
        assert limelight.explain(model, "a film", "loo").target == classes[2]


def test_targets_by_name_by_number_predicted_and_all():
    predicted = int(MODEL.predict_proba([TEXT]).argmax())
    assert limelight.explain(MODEL, TEXT, "gxi").target == f"class {predicted}"
    for last in (2, "2", np.int64(2), "class 2"):
        assert limelight.explain(MODEL, TEXT, "gxi", target=last).target == "class 2"
    every = limelight.explain_classes(MODEL, [TEXT, "w3"], "gxi")
    assert [list(row) for row in every] == [list(MODEL.classes)] * 2
    for name, e in limelight.explain_classes(MODEL, TEXT, "gxi").items():
        assert e == limelight.explain(MODEL, TEXT, "gxi", target=name)


@pytest.mark.parametrize("text", ["w1 w2", "! ?", "nobody knows", "İ \x1b[31m ‮ w1", "w1 " * 500])
def test_odd_texts_are_explained(text):
    comparison = limelight.compare(MODEL, text)
    for e in comparison:
        assert np.isfinite(e.scores).all()


def test_text_past_the_window_is_marked():
    e = limelight.explain(MODEL, "w1 w2 " * 10, "gxi")
    assert e.text[: e.explained_end] == ("w1 w2 " * 6).strip()
    assert "8 were cut off" in e.warnings[0]
    assert limelight.explain(MODEL, TEXT, "gxi").explained_end == len(TEXT)


def test_g_avg_has_a_warning_that_it_is_worse_than_chance():
    e = limelight.explain(MODEL, TEXT, "g-avg")
    (warning,) = [warning for warning in e.warnings if "unreliable" in warning]
    assert "worse than a random order (share −0.64, Shapley values 0.99)" in warning
    e = limelight.explain(MODEL, TEXT, "gxi")
    assert not any("unreliable" in warning for warning in e.warnings)


def test_compare_shows_the_papers_methods_and_shapley():
    comparison = limelight.compare(MODEL, TEXT)
    assert tuple(e.method for e in comparison) == EXACT_COMPARISON
    assert comparison["lime"].method == "lime"
    assert comparison.attention is None
    matrices = limelight.compare(MODEL, TEXT, attention=True).attention
    assert matrices.shape == (3, 6, 6)


def test_a_setting_goes_to_every_method_that_has_it():
    comparison = limelight.compare(MODEL, TEXT, methods=["lime", "gxi"], tolerance=1e-4)
    assert comparison["lime"].settings["tolerance"] == 1e-4
    with pytest.raises(InputError, match=r"unknown setting of these methods: 'tollerance'\."):
        limelight.compare(MODEL, TEXT, methods=["lime", "gxi"], tollerance=1e-4)


def test_a_callback_gets_the_progress():
    seen = []
    limelight.explain(MODEL, [TEXT] * 70, "gxi", progress=lambda *at: seen.append(at))
    assert seen == [(32, 70), (64, 70), (70, 70)]


def test_the_readings_own_outputs_are_the_models():
    batch = prepare_batch(MODEL, random_texts(9))
    np.testing.assert_allclose(batch.outputs, MODEL.logits(random_texts(9)), rtol=1e-9)


def test_a_list_of_explanations_is_a_list_and_a_table(shipped):
    texts = ["a superb film", "a bad plot", "superb"]
    explanation = limelight.explain(shipped, texts, "shapley")
    assert isinstance(explanation, list)
    assert type(limelight.explain(shipped, [], "shapley")) is type(explanation)
    frame = explanation.to_frame()
    assert frame["text_number"].tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert frame["feature"].tolist() == [word for e in explanation for word in e.features]
    assert frame["score"].tolist() == [score for e in explanation for score in e.scores]
    assert explanation.to_csv().startswith(explanation[0].to_csv())
    assert len(explanation.to_csv().splitlines()) == 8


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_result_draws_itself_into_a_file(shipped, tmp_path, ending):
    pytest.importorskip("matplotlib")
    text = "a superb film with a bad plot"
    for result in (
        limelight.explain(shipped, text),
        limelight.explain(shipped, text, "interactions"),
        limelight.compare(shipped, text, methods=["lime", "loo"]),
    ):
        path = tmp_path / f"x.{ending}"
        result.save_figure(path)
        start = path.read_bytes()[:5]
        assert start == {"png": b"\x89PNG\r", "svg": b"<?xml", "pdf": b"%PDF-"}[ending]
