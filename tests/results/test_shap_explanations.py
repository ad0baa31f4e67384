"""to_shap: the shap package keeps the numbers, and its plots accept them."""

import matplotlib
import numpy as np
import pytest

import limelight
from limelight import InputError

shap = pytest.importorskip("shap")
MODEL = limelight.load()
TEXTS = ["good film and good cast", "bad plot", "a dull film but a fine cast"]


def find_dull(texts):
    chances = [0.9 - 0.3 * ("dull" in text) * ("fine" not in text) for text in texts]
    return [[1 - chance, chance] for chance in chances]


FUNCTION = limelight.wrap(find_dull, classes=["a", "b"])


def explain_all(method="shapley", model=MODEL, **options):
    return limelight.explain(model, TEXTS, method, **options)


def test_one_explanation_keeps_its_numbers():
    (e, *_) = explain_all()
    row = e.to_shap()
    np.testing.assert_array_equal(row.values, e.scores)
    assert [name.strip() for name in row.data] == row.feature_names == list(e.features)
    assert row.error_std is None
    # The effects of Shapley values add up, so shap's plots end at the output of the model.
    np.testing.assert_allclose(row.base_values + row.values.sum(), e.explained_value, atol=1e-6)


def test_rows_of_different_lengths_keep_their_numbers():
    explanations = explain_all()
    table = explanations.to_shap()
    assert len(table) == len(explanations)
    for row, e in zip(table, explanations, strict=True):
        np.testing.assert_array_equal(row.values, e.scores)
        assert [name.strip() for name in row.data] == list(e.features)
        assert row.base_values == e.base_value


def test_the_mean_of_shap_is_that_of_each_word():
    explanations = explain_all()
    mean = explanations.to_shap().mean(0)
    for name, value in zip(mean.feature_names, mean.values, strict=True):
        scores = [e.scores[e.features.index(name)] for e in explanations if name in e.features]
        np.testing.assert_allclose(value, np.mean(scores))


def test_standard_errors_come_along_and_exact_rows_have_none():
    texts = [*TEXTS, "a dull film but the cast is good and the plot is thin, so we left at once"]
    sampled = limelight.explain(FUNCTION, texts, "shapley", pairs=8)
    assert {e.stderr is None for e in sampled} == {True, False}
    table = sampled.to_shap()
    for row, e in zip(table, sampled, strict=True):
        expected = np.zeros(len(e)) if e.stderr is None else e.stderr
        np.testing.assert_array_equal(row.error_std, expected)
    with_errors = next(e for e in sampled if e.stderr is not None)
    np.testing.assert_array_equal(with_errors.to_shap()[:2].error_std, with_errors.stderr[:2])


def test_a_run_becomes_rows_of_one_method(tmp_path):
    run = limelight.explain_data(
        MODEL, TEXTS, ["shapley", "lime"], output=tmp_path / "run", shard_texts=2
    )
    stored = run.to_shap("lime")
    for row, e in zip(stored, explain_all("lime"), strict=True):
        np.testing.assert_allclose(row.values, e.scores)
    assert not np.allclose(run.to_shap()[0].values, stored[0].values)
    with pytest.raises(InputError, match="unknown method of this run: 'limes'"):
        run.to_shap("limes")


@pytest.fixture
def pyplot():
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def test_the_plots_of_shap_show_the_words(pyplot):
    explanations = explain_all()
    table = explanations.to_shap()
    shap.plots.waterfall(table[2], show=False)
    labels = {label.get_text() for label in pyplot.gca().get_yticklabels()}
    assert set(explanations[2].features) <= labels | {text.split(" = ")[-1] for text in labels}
    pyplot.close("all")
    shap.plots.bar(table.mean(0), show=False)
    labels = {label.get_text().split(" = ")[-1] for label in pyplot.gca().get_yticklabels()}
    assert len(labels & {name for e in explanations for name in e.features}) >= 5
    assert "dull" in shap.plots.text(table, display=False)
    assert "good film and cast" in "".join(table[0].data)


def test_spans_become_rows():
    def capitals(texts):
        spans = [[(0, 5, "LOC", 0.9 - 0.4 * ("dull" in text))] for text in texts]
        return [s if "Paris" in text else [] for text, s in zip(texts, spans, strict=True)]

    tagger = limelight.wrap(capitals, tags=["LOC"])
    spans = limelight.explain_spans(tagger, "Paris is not dull", "loo")
    np.testing.assert_array_equal(spans.to_shap()[0].values, spans[0].scores)


def test_explanations_that_do_not_fit_together_raise():
    (e, *_), (other, *_) = explain_all(), explain_all("lime")
    (probability, *_) = limelight.explain(MODEL, TEXTS, "shapley", scale="probability")
    for explanations, message in (
        ([e, other], "the same method, not lime, shapley"),
        ([e, probability], "the same scale, not logit, probability"),
        ([], "at least one explanation"),
    ):
        with pytest.raises(InputError, match=message):
            limelight.results.Explanations(explanations).to_shap()
