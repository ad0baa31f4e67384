"""A surrogate of a model: exact where the model is a ratio game, and frank where it is not."""

import inspect
import json

import numpy as np
import pytest

import limelight
from limelight.errors import DomainError, InputError
from limelight.explainers import Surrogate, SurrogateGame
from limelight.explainers.surrogate import _fidelity
from limelight.sampling.all_masks import shapley_of_all_masks
from limelight.sampling.orders import permutation_shapley
from limelight.sampling.ratio_games import cross_fits, paired_masks
from limelight.theory.faithfulness import deletion_curves, greedy_order, size_extremes
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.ratio_game import RatioGame, full_value
from limelight.theory.shapley import shapley

TEXT = "The plot is predictable and slow, but the two leads are superb and often funny."
WORDS = [f"w{i}" for i in range(12)]


def wrapped(score, **given):
    """A model whose answer is ``score`` of the kept words' numbers."""

    def answer(texts):
        return np.array([[score({int(word[1:]) for word in text.split()})] for text in texts])

    return limelight.wrap(answer, classes=["no", "yes"], scale="logit", **given)


@pytest.fixture(scope="module")
def parity():
    return wrapped(lambda kept: (-1.0) ** len(kept & set(range(5))))


@pytest.mark.parametrize("values", ["shapley", "lime", "banzhaf", "interactions"])
def test_values_of_a_ratio_game_are_its_exact_ones(shipped, values):
    e = limelight.explain(shipped, TEXT, "surrogate", values=values)
    exact = limelight.explain(shipped, TEXT, values)
    assert e.diagnostics["r2"] > 0.9999
    off = np.abs(e.scores - exact.scores)
    assert off.max() < 1e-3 * np.abs(exact.scores).max() + 1e-4
    assert (off <= 5 * e.stderr + 1e-5).all()
    assert e.bound is None
    assert not e.notices
    assert e.signed == exact.signed
    if values == "lime":
        assert e.intercept == pytest.approx(exact.intercept, abs=1e-3)
    if values == "interactions":
        both = [
            {tuple(p): s for p, s in zip(x.pairs.features.tolist(), x.pairs.scores, strict=True)}
            for x in (e, exact)
        ]
        (strongest, score) = max(both[1].items(), key=lambda item: abs(item[1]))
        assert both[0][strongest] == pytest.approx(score, rel=0.02)
        assert (e.pairs.stderr > 0).all()


def test_the_surrogate_is_taken_wherever_a_game_is(shipped):
    game = limelight.surrogate(shipped, TEXT)
    d = len(game)
    assert isinstance(game, SurrogateGame)
    assert isinstance(game, RatioGame)
    assert game.features == limelight.explain(shipped, TEXT, "loo").features
    model = limelight.game(shipped, TEXT)
    keep = paired_masks(d, 50, np.random.default_rng(3))
    assert game(keep).shape == model(keep).shape == (50, 1)
    np.testing.assert_allclose(game(keep), model(keep), atol=1e-3)
    exact = shapley(game).scores[0]
    sampled = permutation_shapley(game, d, np.random.default_rng(0), pairs=200)
    assert (np.abs(sampled.values[0] - exact) <= 5 * sampled.stderr[0]).all()
    order = greedy_order(game)
    curve = deletion_curves(game, order[None])[0]
    assert curve[0] == pytest.approx(full_value(game)[0])
    assert (curve[1:] >= size_extremes(game).low - 1e-9).all()
    assert leave_one_out(game).scores.shape == (1, d)


def test_few_words_have_the_values_of_all_masks():
    model = wrapped(lambda kept: 2.0 * (0 in kept) - 1.0 * (3 in kept))
    text = " ".join(WORDS[:5])
    e = limelight.explain(model, text, "surrogate")
    exact = shapley_of_all_masks(lambda keep: limelight.game(model, text)(keep)[:, -1:], 5)[0]
    np.testing.assert_allclose(e.scores, exact, atol=0.01)
    np.testing.assert_allclose(exact, [2, 0, 0, -1, 0], atol=1e-12)


def test_a_game_that_is_no_ratio_says_that_it_is_another(parity):
    e = limelight.explain(parity, " ".join(WORDS), "surrogate", samples=600)
    assert e.diagnostics["r2"] < 0.4
    (notice,) = [one for one in e.notices if "another game" in one]
    assert notice.startswith("The surrogate explains ")
    assert (e.stderr > 0.005).all()
    game = limelight.surrogate(parity, " ".join(WORDS), samples=600)
    assert game.notices == e.notices[: len(game.notices)]
    assert (game.r2, game.r2_linear) == (e.diagnostics["r2"], e.diagnostics["r2_linear"])
    assert game.calls == 600


def test_a_surrogate_worse_than_a_line_says_so():
    keep = paired_masks(8, 100, np.random.default_rng(0))
    found = cross_fits(keep, keep @ np.arange(8.0))
    assert _fidelity(found._replace(r2=0.8, r2_linear=0.8)) == ()
    (notice,) = _fidelity(found._replace(r2=0.71, r2_linear=0.75))
    assert notice == (
        "The surrogate explains less than a linear model does (R² 0.710 against 0.750 on the same "
        "masks left out): LIME is the better fit here."
    )


def test_the_same_seed_gives_the_same_scores_and_another_does_not(parity):
    text = " ".join(WORDS)
    one, same, other = (
        limelight.explain(parity, text, Surrogate(samples=200, heads=1, seed=seed)).scores
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-6


def test_probabilities_and_differences_of_classes_have_surrogates_too():
    def answer(texts):
        good = np.array([text.split().count("good") for text in texts])
        p = 1 / (1 + np.exp(-good + 0.5))
        return np.stack([1 - p, p], axis=1)

    model = limelight.wrap(answer, classes=["no", "yes"])
    text = "good film but not a good plot"
    for asked in ({"scale": "probability"}, {"target": "yes", "against": "no"}):
        e = limelight.explain(model, text, "surrogate", samples=200, **asked)
        assert e.features[np.argmax(e.scores)] == "good"
        game = limelight.surrogate(model, text, samples=200, **asked)
        np.testing.assert_allclose(shapley(game).scores[0], e.scores, rtol=1e-9)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"samples": 40}, "samples must be between 100 and 100000; got 40."),
        ({"samples": 10**12}, "samples must be between 100 and 100000; got 1000000000000."),
        ({"heads": 0}, "heads must be between 1 and 8; got 0."),
        ({"seed": -1}, "seed must be at least 0; got -1."),
        ({"replacement": "blank"}, "no replacement 'blank'"),
    ],
)
def test_impossible_settings_are_refused_before_any_work(shipped, given, sentence):
    with pytest.raises(InputError, match=sentence.replace(".", r"\.")):
        limelight.surrogate(shipped, TEXT, **given)
    with pytest.raises(InputError, match=sentence.replace(".", r"\.")):
        limelight.explain(shipped, TEXT, "surrogate", **given)


@pytest.mark.parametrize(("name", "value"), [("samples", "many"), ("heads", 1.5), ("seed", None)])
def test_the_verb_refuses_what_is_not_a_number_as_the_method_does(shipped, name, value):
    unchecked = inspect.unwrap(limelight.surrogate)  # types are checked while tests run
    with pytest.raises(InputError, match=f"the setting '{name}' must be a whole number"):
        unchecked(shipped, TEXT, **{name: value})


def test_what_is_not_one_text_of_words_is_refused(shipped):
    with pytest.raises(DomainError, match="needs at least 2 words; this text has 1"):
        limelight.surrogate(shipped, "superb")
    game = limelight.surrogate(shipped, "superb film", samples=100)
    with pytest.raises(InputError, match=r"takes masks of shape \(n, 2\)"):
        game(np.ones((1, 3), bool))


def test_the_command_line_gives_values_errors_and_r2(limelight):
    text = "superb acting, dull plot"
    found = limelight(
        "explain",
        "--method",
        "surrogate",
        "--set",
        "samples=100",
        "--set",
        "values=banzhaf",
        "--format",
        "json",
        text,
    )
    assert found.code == 0, found.err
    e = json.loads(found.out)
    assert e["method"] == "surrogate"
    assert 0.9 < e["diagnostics"]["r2"] <= 1
    assert "bound" not in e or e["bound"] is None
    wrong = limelight("explain", "--method", "surrogate", "--set", "values=banzaf", text)
    assert wrong.code == 2
    assert "no values 'banzaf'." in wrong.err
