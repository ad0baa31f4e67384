"""Figures 1, 2, 3 and 5: what is measured, and that stored numbers are enough to draw it."""

import copy

import numpy as np
import pytest

import limelight
from limelight_reproduction.one_layer import figure_1, figure_2, figure_3, figure_5
from limelight_reproduction.one_layer.collapsed_texts import collapse_texts
from limelight_reproduction.one_layer.subjects import SENTENCE

FIGURES = {"1": figure_1, "2": figure_2, "3": figure_3, "5": figure_5}


def measure_module(module, setting, shipped, toy_model):
    return {
        "shipped": module.measure(setting, shipped),
        "paper": module.measure(setting, toy_model(3, d_e=14)),
    }


def figure_texts(figure):
    return {
        text.get_text()
        for axes in figure.axes
        for text in [*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels(), axes.title]
    }


@pytest.mark.parametrize("number", FIGURES)
def test_stored_numbers_are_enough_for_figures_and_findings(
    number, toy_setting, shipped, toy_model, stored
):
    module = FIGURES[number]
    numbers = stored(measure_module(module, toy_setting, shipped, toy_model))
    samples = list(module.figures(numbers))
    assert [name for name, _, _ in samples] == [
        f"figure-{number}-shipped",
        f"figure-{number}-paper",
    ]
    assert all(figure.axes for _, _, figure in samples)
    result = module.findings(numbers)
    assert result.measured
    assert result.meaning
    assert all(len(row) == len(result.table.columns) for row in result.table.rows)


# ------------------------------------------------------------------- figure 1


def as_captioned():
    """Numbers of a model for which everything that the caption says is true."""
    words = SENTENCE.split()
    scores = {m: [0.1] * len(words) for m in figure_1.METHODS}
    for method, row in scores.items():
        row[-1] = -0.5 if method in ("lime", "gxi") else 0.5
        row[4] = 0.9 if method.startswith("alpha") else 0.2
    return {"words": words, "scores": scores}


def broken(numbers):
    return list(figure_1.broken_claims(numbers).values())


def test_a_model_as_in_the_caption_breaks_no_claim():
    assert broken(as_captioned()) == [[], [], []]


@pytest.mark.parametrize(
    ("method", "word", "score", "expected"),
    [
        ("g-avg", -1, 0.05, [["g-avg"], [], ["g-avg"]]),
        ("gxi", -1, 0.5, [[], ["gxi"], []]),
        ("g-avg", -1, -0.5, [[], ["g-avg"], []]),
        ("alpha-max", 4, 0.3, [[], [], ["alpha-max"]]),
    ],
)
def test_one_changed_score_breaks_the_claims_it_concerns(method, word, score, expected):
    numbers = as_captioned()
    numbers["scores"][method][word] = score
    assert broken(numbers) == expected


def test_the_scores_of_figure_one_are_those_of_explain(toy_setting, shipped):
    numbers = figure_1.measure(toy_setting, shipped)
    for method in figure_1.METHODS:
        e = limelight.explain(shipped, SENTENCE, method, target="positive")
        assert list(e.features) == numbers["words"]
        assert numbers["scores"][method] == pytest.approx(e.scores, rel=1e-4)
    again = figure_1.rebuild_comparison(numbers)["lime"]
    for word, ((start, end),) in zip(again.features, again.spans, strict=True):
        assert SENTENCE[start:end] == word


# ------------------------------------------------------------------- figure 2


def test_the_diagram_shows_the_sizes_of_the_model_it_is_given(toy_setting, toy_model):
    value, other = toy_model(), toy_model(d_out=17, K=5)
    output = [
        " ".join(figure_texts(figure_2.diagram(figure_2.measure(toy_setting, m))))
        for m in (value, other)
    ]
    assert "23 × 7" in output[0]  # V × d_e
    assert "each of 3 heads" in output[0]
    assert "2 × 11" in output[0]  # C × d_out
    assert "each of 5 heads" in output[1]
    assert "2 × 17" in output[1]
    assert "2 × 11" not in output[1]


def test_trained_numbers_are_counted(toy_setting, toy_model):
    K, d_e, d_att, d_out, V, C = 3, 7, 5, 11, 23, 2
    result = figure_2.measure(toy_setting, toy_model())
    assert result["parameters"] == V * d_e + K * (2 * d_att * d_e + d_out * d_e + C * d_out)


# ------------------------------------------------------------------- figure 3


def test_heads_that_never_look_at_the_same_place_are_all_apart():
    distance = figure_3._statistics(np.eye(3, 7), 5)
    assert distance["distance"] == 1
    assert distance["same_first"] < 1
    assert distance["effective"] == pytest.approx([1, 1, 1])
    assert distance["cls"].tolist() == [1, 0, 0]


def test_equal_even_heads_are_not_apart_and_spread_over_the_window():
    same = figure_3._statistics(np.full((3, 8), 1 / 8), 6)
    assert same["distance"] == 0
    assert same["same_first"] == 1
    assert same["effective"] == pytest.approx([8, 8, 8])
    assert same["padding"] == pytest.approx([0.25] * 3)


def test_rows_of_the_matrices_lack_what_padding_takes(toy_setting, toy_model):
    result = figure_3.measure(toy_setting, toy_model())
    rows = np.array(result["attention"])[:, 0].sum(axis=-1)
    assert rows == pytest.approx(1 - np.array(result["sentence"]["padding"]), abs=1e-3)
    assert result["tokens"] == ["[cls]", *SENTENCE.split()]


# ------------------------------------------------------------------- figure 5


def test_autograd_agrees_with_finite_differences(toy_model):
    model = toy_model()
    seen = collapse_texts(model, ["w1 w2 w3"])
    result = figure_5.autograd_gradient(seen)
    e = model.embedding[seen.arrays.ids[0]] + model.positions

    def f(moved):
        q = np.einsum("kae,e->ka", model.W_q, moved[0])
        k, v = (np.einsum("kae,te->kta", W, moved) for W in (model.W_k, model.W_v))
        g = np.exp(np.einsum("ka,kta->kt", q, k) / np.sqrt(model.W_q.shape[1]))
        alpha = g / g.sum(axis=1, keepdims=True)
        return np.einsum("kt,kto,ko->k", alpha, v, model.W_l[:, 1]).mean()

    for t, axis in ((0, 0), (0, 6), (2, 3), (9, 5)):
        step = np.zeros_like(e)
        step[t, axis] = 1e-6
        assert result[t, axis] == pytest.approx((f(e + step) - f(e - step)) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("outputs", [1, 2])
def test_only_the_printed_row_of_cls_differs_from_autograd(outputs, toy_setting, toy_model):
    result = figure_5.measure(toy_setting, toy_model(outputs=outputs))
    assert result["error"] < 1e-12
    assert result["error_of_tokens"] < 1e-12
    assert result["error_of_printed_cls"] > 1e-3
    assert np.array(result["theory"]) == pytest.approx(np.array(result["practice"]), abs=1e-3)
    assert result["printed_cls"] != result["theory"][0]


def test_the_first_map_shows_the_printed_row_and_the_second_the_complete_one(
    toy_setting, toy_model
):
    numbers = figure_5.measure(toy_setting, toy_model())
    printed, theory, practice = (
        np.array(axes.images[0].get_array()) for axes in figure_5.heat_maps(numbers).axes[:3]
    )
    assert printed[0] == pytest.approx(np.array(numbers["printed_cls"]))
    assert theory[0] == pytest.approx(np.array(numbers["theory"][0]))
    assert (printed[1:] == theory[1:]).all()
    changed = copy.deepcopy(numbers)
    changed["practice"][0][0] += 1
    assert figure_5.heat_maps(changed).axes[2].images[0].get_array()[0, 0] != practice[0, 0]
