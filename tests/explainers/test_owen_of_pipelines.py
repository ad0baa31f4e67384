"""Owen values of TF-IDF pipelines whose words occur in several sentences."""

from itertools import permutations, product

import numpy as np
import pytest

import limelight

pytest.importorskip("sklearn")
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

WORDS = [f"word{i}" for i in range(120)]
FREQUENCY = 1 / np.arange(1, 121)
REASON = "Owen values of this text are sampled, because a word occurs in several features"


def make_text(count, seed):
    """Return a text of so many words in sentences of ten, common words in most of them."""
    words = np.random.default_rng(seed).choice(WORDS, count, p=FREQUENCY / FREQUENCY.sum())
    sentences = [" ".join(words[i : i + 10]) for i in range(0, count, 10)]
    return ". ".join(sentences) + "."


def fit_pipeline(**options):
    texts = [make_text(30, seed) for seed in range(150)]
    labels = ["yes" if "word3" in text else "no" for text in texts]
    return make_pipeline(TfidfVectorizer(**options), LogisticRegression(C=10)).fit(texts, labels)


def list_players(text):
    """Return each word of each sentence once, as (sentence, word)."""
    sentences = [part.split() for part in text.split(".") if part.strip()]
    return [(i, word) for i, words in enumerate(sentences) for word in dict.fromkeys(words)]


def margins(pipeline, text, players, masks):
    """Return the margins without some players, a word of a sentence with all its occurrences."""
    sentences = [part.split() for part in text.split(".") if part.strip()]
    place = {player: j for j, player in enumerate(players)}
    words = [(place[i, word], word) for i, words in enumerate(sentences) for word in words]
    texts = [" ".join(word for j, word in words if keep[j]) for keep in masks]
    return pipeline.decision_function(texts)


def player_changes(orders, f):
    """Return what every player adds in each order, where ``f`` takes all masks at once."""
    n = len(orders[0])
    rank = np.argsort(orders, axis=1)
    masks = rank[:, None, :] < np.arange(n + 1)[None, :, None]
    steps = np.diff(f(masks.reshape(-1, n)).reshape(len(orders), n + 1), axis=1)
    return np.take_along_axis(steps, rank, axis=1)


def sum_by_word(players, values, features):
    return [
        sum(v for (_, word), v in zip(players, values, strict=True) if word == name)
        for name in features
    ]


def target_sign(e):
    return 1 if e.target == e.classes[1] else -1


@pytest.mark.parametrize("options", [{}, {"sublinear_tf": True}, {"binary": True}])
def test_few_players_have_the_values_of_all_orders_that_keep_sentences_together(options):
    pipeline = fit_pipeline(**options)
    text = "word1 word2 word1. word2 word3 word4. word5 word1"
    e = limelight.explain(limelight.wrap(pipeline), text, "owen")
    players = list_players(text)
    all_masks = (np.arange(2 ** len(players))[:, None] >> np.arange(len(players))) & 1 == 1
    reference = margins(pipeline, text, players, all_masks)

    def f(masks):
        return reference[masks @ (1 << np.arange(len(players)))]

    groups = [[j for j, (i, _) in enumerate(players) if i == s] for s in range(3)]
    orders = [
        [player for group in inner for player in group]
        for order in permutations(groups)
        for inner in product(*(permutations(group) for group in order))
    ]
    values = target_sign(e) * player_changes(orders, f).mean(axis=0)
    np.testing.assert_allclose(e.scores, sum_by_word(players, values, e.features), atol=1e-9)
    # Values of orders that part the sentences are others.
    shapley = limelight.explain(limelight.wrap(pipeline), text, "shapley").scores
    assert np.abs(e.scores - shapley).max() > 1e-3
    assert e.bound is None
    assert any(warning.startswith(REASON) for warning in e.warnings)
    assert any("2 features occur in several sentences" in warning for warning in e.warnings)


@pytest.mark.parametrize("count", [10, 20, 50, 100, 200, 400])
def test_texts_of_every_length_have_values_that_add_up(count):
    pipeline = fit_pipeline()
    model, text = limelight.wrap(pipeline), make_text(count, 0)
    e = limelight.explain(model, text, "owen")
    outputs = pipeline.decision_function([text, ""])
    assert e.scores.sum() == pytest.approx(target_sign(e) * (outputs[0] - outputs[1]), abs=1e-5)
    totals = [row["score"] for row in e.diagnostics["sentences"]]
    assert sum(totals) == pytest.approx(e.scores.sum(), abs=1e-9)
    # One sentence shares no word with another, and its values have a formula.
    assert (e.bound is None) == (count > 10)
    assert any(warning.startswith(REASON) for warning in e.warnings) == (count > 10)


def test_sampled_values_are_those_of_another_sampler_within_their_standard_errors():
    pipeline, text = fit_pipeline(), make_text(40, 3)
    e = limelight.explain(limelight.wrap(pipeline), text, "owen", samples=3000)
    assert e.settings["samples"] == 3000
    players, rng = list_players(text), np.random.default_rng(0)
    groups = [[j for j, (i, _) in enumerate(players) if i == s] for s in range(4)]
    orders = [
        [player for s in rng.permutation(4) for player in rng.permutation(groups[s])]
        for _ in range(300)
    ]
    values = player_changes(orders, lambda masks: margins(pipeline, text, players, masks))
    values = target_sign(e) * values
    rows = np.array([sum_by_word(players, row, e.features) for row in values])
    error = np.hypot(e.stderr, rows.std(axis=0, ddof=1) / np.sqrt(len(rows)))
    assert (np.abs(e.scores - rows.mean(axis=0)) <= 5 * error).all()


def test_under_a_norm_that_words_can_share_the_values_stay_exact():
    model = limelight.wrap(fit_pipeline(norm="l1"))
    e = limelight.explain(model, make_text(50, 0), "owen")
    assert e.bound is not None
    assert e.settings["within"] == "sentences"
    assert not {"samples", "seed"} & set(e.settings)
