"""to_shapiq and back: the numbers of shapiq's own computation on the same game."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import limelight
from limelight import Explanation

TEXT = "a superb film but the end is dull"


def score(texts):
    """Words that act together, so that all indices differ."""
    words = [set(text.split()) for text in texts]
    return [
        len(present)
        + 3.0 * ({"superb", "film"} <= present)
        - 5.0 * ({"end", "is", "dull"} <= present)
        + 2.0 * ({"but", "the", "superb", "dull"} <= present)
        for present in words
    ]


MODEL = limelight.wrap(score, classes=["stars"], scale="score")


def game(masks):
    return limelight.game(MODEL, TEXT)(np.asarray(masks, dtype=bool))[:, 0]


def explain(method, **options):
    return limelight.explain(MODEL, TEXT, method, **options)


@pytest.mark.parametrize(
    ("method", "options", "index", "order"),
    [
        ("shapley", {}, "SV", 1),
        ("banzhaf", {}, "BV", 1),
        ("interactions", {"top": None}, "SII", 2),
        ("interactions", {"top": None, "index": "banzhaf"}, "BII", 2),
    ],
)
def test_the_values_are_those_that_shapiq_computes(method, options, index, order):
    shapiq = pytest.importorskip("shapiq")
    e = explain(method, **options)
    values = e.to_shapiq()
    computer = shapiq.ExactComputer(game, n_players=len(e))
    exact = computer(index, order=order)
    assert values.index == exact.index == index
    assert (values.n_players, values.max_order, values.estimated) == (len(e), order, False)
    assert values.baseline_value == pytest.approx(float(game(np.zeros((1, len(e))))[0]), abs=1e-9)
    for players, value in values.dict_values.items():
        assert value == pytest.approx(exact[players], abs=1e-9)
    assert len(values.dict_values) == math.comb(len(e), order)
    # A control: the other index has other values.
    swapped = {"SV": "BV", "BV": "SV", "SII": "BII", "BII": "SII"}[index]
    other = computer(swapped, order=order)
    assert max(abs(other[players] - v) for players, v in values.dict_values.items()) > 0.01


@pytest.mark.parametrize("method", ["shapley", "banzhaf", "interactions"])
def test_the_way_back_keeps_scores_and_pairs(method):
    pytest.importorskip("shapiq")
    e = explain(method)
    again = Explanation.from_shapiq(e.to_shapiq(), explain("loo"))
    assert (again.features, again.target, again.base_value) == (e.features, e.target, e.base_value)
    assert again.signed is e.signed
    np.testing.assert_allclose(again.scores, e.scores, atol=1e-12)
    if e.pairs is not None:
        np.testing.assert_array_equal(again.pairs.features, e.pairs.features)
        np.testing.assert_array_equal(again.pairs.scores, e.pairs.scores)
    assert Explanation.from_json(again.to_json()) == again


def test_estimates_of_shapiq_become_an_explanation_with_a_warning():
    shapiq = pytest.importorskip("shapiq")
    d = len(explain("loo"))
    values = shapiq.KernelSHAP(n=d, random_state=0).approximate(2**d, game)
    e = Explanation.from_shapiq(values, explain("loo"))
    np.testing.assert_allclose(e.scores, explain("shapley").scores, atol=1e-5)
    assert e.warnings == ()
    values = shapiq.KernelSHAP(n=d, random_state=0).approximate(2**d // 2, game)
    e = Explanation.from_shapiq(values, explain("loo"))
    assert e.method == "shapiq-SV"
    assert "states no standard errors" in e.warnings[0]


def test_the_plots_of_shapiq_show_the_words():
    shapiq = pytest.importorskip("shapiq")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    e = explain("shapley")
    figure = e.to_shapiq().plot_waterfall(feature_names=np.array(e.features), show=False)
    output = " ".join(label.get_text() for label in pyplot.gca().get_yticklabels())
    assert figure is not None
    assert "dul" in output  # shapiq abbreviates words
    pairs = explain("interactions", top=None)
    figure, _ = shapiq.network_plot(
        interaction_values=pairs.to_shapiq(e), feature_names=list(pairs.features), show=False
    )
    assert {text.get_text() for text in figure.axes[0].texts} >= {"dull", "superb"}
    assert pairs.to_shapiq(e)[(1,)] == e.scores[1]
    pyplot.close("all")


def fake_values(values, players, **fields):
    fields = {"index": "SV", "baseline_value": 0.5, "estimated": False, **fields}
    return SimpleNamespace(dict_values=values, n_players=players, **fields)


def test_values_without_shapiq_are_read_by_their_players():
    e = explain("loo")
    d = len(e)
    values = {(): 0.5, (1,): 2.0, (0, 2): -3.0, (1, 2): 4.0}
    again = Explanation.from_shapiq(fake_values(values, d, index="k-SII"), e)
    assert again.scores.tolist() == [0.0, 2.0, *[0.0] * (d - 2)]
    assert again.pairs.features.tolist() == [[1, 2], [0, 2]]
    assert again.pairs.scores.tolist() == [4.0, -3.0]
    assert (again.base_value, again.signed, again.warnings) == (0.5, True, ())
