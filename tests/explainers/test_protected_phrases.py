"""A protected phrase stays in every masked text, in each function and for each kind of model."""

import numpy as np
import pytest

import limelight

TEXT = "the film is not bad and the plot is bad"
PHRASE = ["not bad"]


def score(texts):
    """The score of a text in which the phrase must be present."""
    assert all("not bad" in text for text in texts)
    return [len(text) / 10 + 3.0 * text.count("bad") for text in texts]


MODEL = limelight.wrap(score, classes=["stars"], scale="score")


def make_transformer():
    pytest.importorskip("transformers")
    from tiny_transformers import tiny

    network, tokenizer = tiny("bert")
    return limelight.wrap(network, tokenizer=tokenizer)


def test_every_function_keeps_the_phrase():
    limelight.game(MODEL, TEXT, protect=PHRASE)(np.zeros((1, 6), dtype=bool))
    for method in ("loo", "shapley", "banzhaf", "lime-sampled"):
        e = limelight.explain(MODEL, TEXT, method, protect=PHRASE)
        assert e.features == ("the", "film", "is", "and", "plot", "bad")
        assert e.spans[-1] == ((36, 39),)  # the other "bad" has a score
    limelight.compare(MODEL, TEXT, ["loo", "shapley"], protect=PHRASE)
    limelight.counterfactual(MODEL, TEXT, threshold=3.0, protect=PHRASE)
    (loo,) = limelight.explain(MODEL, [TEXT], "loo", features="positions", protect=PHRASE)
    assert loo.scores[-1] == pytest.approx((len("bad") / 10) + 3.0)
    with pytest.raises(limelight.InputError):  # a control: without protection it is removed
        limelight.explain(MODEL, TEXT, "loo")


def test_a_run_keeps_the_phrase(tmp_path):
    run = limelight.explain_data(MODEL, [TEXT], "loo", output=tmp_path / "run", protect=PHRASE)
    assert run.explanation(0).features == ("the", "film", "is", "and", "plot", "bad")
    assert run.failed == 0


def test_sentences_and_pairs_keep_the_phrase():
    e = limelight.explain(MODEL, f"{TEXT}. a film.", "loo", features="sentences", protect=PHRASE)
    assert len(e) == 2
    pairs = limelight.wrap(
        lambda texts: score([f"{a}\n{b}" for a, b in texts]),
        classes=["stars"], scale="score", pairs=True,
    )  # fmt: skip
    e = limelight.explain(pairs, ("it is not", TEXT), "loo", protect=PHRASE)
    # "not" ends the first text, and "the" begins the second.
    assert "not" in e.features
    with_border = limelight.explain(pairs, ("it is not", f"bad {TEXT}"), "loo", protect=PHRASE)
    assert [name for name in with_border.features if name in ("not", "bad")][:2] == ["not", "bad"]


@pytest.mark.parametrize("features", ["words", "positions", "tokens"])
def test_subwords_of_a_phrase_are_protected(features):
    model = make_transformer()
    text = "a predictable plot but a superb film"
    e = limelight.explain(model, text, "loo", features=features, protect=["predictable plot"])
    assert not {"predictable", "plot", "predict", "##able", "able"} & set(e.features)
    assert "superb" in e.features


def test_the_exact_classifier_protects_a_phrase():
    model = limelight.load()
    e = limelight.explain(
        model, "a superb film and a superb plot", "shapley", protect=["superb film"]
    )
    assert e.features == ("a", "and", "superb", "plot")
    game = limelight.game(
        model, "superb film and a plot", protect=["superb film"], replacement="delete"
    )
    single = limelight.predict(model, "superb film")["logits"]["positive"]
    # Without all other words the text is the phrase.
    assert float(game(np.zeros((1, 3), bool))[0, -1]) == pytest.approx(single, abs=1e-4)
