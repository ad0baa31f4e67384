"""The open questions: what each measures, on games and models small enough to check by hand."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from limelight import explain
from limelight.theory.ratio_game import full_value
from limelight_reproduction.one_layer.collapsed_texts import collapsed_texts
from limelight_reproduction.questions import (
    controlled_training,
    erasure,
    lengths,
    multiplicity,
    removal_order,
    replacements,
    summaries,
    words_or_pieces,
)

TEXT = "w3 w1 w4 w1 w5 never w2"


def test_the_game_of_unk_is_the_librarys(toy_model):
    seen = collapsed_texts(toy_model(2), [TEXT])
    own, wanted = replacements.replaced_game(seen, "unk"), seen.games
    ratio = (wanted.D0[0] / own.D0)[:, None]  # a common factor of a head cancels
    for name in ("a", "b"):
        np.testing.assert_allclose(getattr(own, name) * ratio, getattr(wanted, name)[0])
    for name in ("A", "B"):
        np.testing.assert_allclose(getattr(own, name) * ratio, getattr(wanted, name)[0])


def test_other_replacements_change_what_is_removed_and_nothing_else(toy_model):
    model = toy_model(2)
    seen = collapsed_texts(model, [TEXT])
    games = {how: replacements.replaced_game(seen, how) for how in ("unk", "mean", "renormalise")}
    for game in games.values():
        np.testing.assert_allclose(full_value(game), model.logits([TEXT])[:, -1])
    assert not games["renormalise"].b.any()
    assert not games["renormalise"].B.any()
    row = model.embedding.mean(axis=0) @ model.directions.value[-1].T
    place = seen.features[0].of_token.tolist().index(4) + 1  # "never" stands there once
    worth = row + model.tables.position_value[place, -1]
    np.testing.assert_allclose(games["mean"].B[0, :, 4] / games["mean"].b[:, 4], worth)


@pytest.mark.parametrize(
    ("outputs", "steps"),
    [
        ([[1.0], [0.5], [-0.1], [0.2]], 2),
        ([[1.0], [0.5], [0.1]], None),
        ([[0.0, 1.0], [1.0, 0.0]], 1),
    ],
)
def test_the_decision_changes_when_it_changes_first(outputs, steps):
    assert removal_order.words_to_flip(np.array(outputs)) == steps


def test_words_go_in_the_given_order():
    kept = removal_order.kept_along(np.array([2, 0, 1]))
    assert kept.astype(int).tolist() == [[1, 1, 1], [1, 1, 0], [0, 1, 0], [0, 0, 0]]


def test_orders_with_a_sign_begin_with_what_speaks_for_the_decision(toy_model):
    model = toy_model(4)
    (orders,) = erasure._orders(model, [TEXT], np.random.default_rng(0))
    outputs = model.logits([TEXT])[0]
    lime = explain(model, TEXT, "lime", target="positive").scores
    toward = lime if outputs[1] > outputs[0] else -lime
    assert orders["lime"][0] == toward.argmax()
    alpha = explain(model, TEXT, "alpha-avg").scores
    assert orders["alpha-avg"].tolist() == np.argsort(-alpha).tolist()
    assert sorted(orders["random"]) == list(range(len(lime)))


def test_norm_based_attention_is_the_length_of_what_a_token_adds(toy_model):
    model = toy_model(2)
    seen = collapsed_texts(model, [TEXT])
    alpha, u = seen.alpha[0], seen.arrays.u[0]
    wanted = dict.fromkeys(TEXT.split(), 0.0)
    for t, word in enumerate(TEXT.split(), start=1):
        added = [np.mean([alpha[k, t] * u[c, k, t] for k in range(3)]) for c in range(2)]
        wanted[word] += math.hypot(*added)
    np.testing.assert_allclose(summaries.norm_based(seen)[0], list(wanted.values()))


@pytest.mark.parametrize(("kind", "words"), [("distinct", 32), ("four", 8), ("two", 2)])
def test_a_repeating_game_is_in_the_regime_of_the_theorem(kind, words):
    game = multiplicity.repeating_game(1024, kind, np.random.default_rng(0))
    assert game.d == words
    full = game.D0[0] + game.a.sum()
    assert 1024 * math.exp(-0.5) <= full <= 1024 * math.exp(0.5)
    errors = multiplicity._errors(game)
    assert errors["first_order"] < 0.1 < errors["eq19"]


def test_pieces_know_their_words():
    class Halves:
        @staticmethod
        def of_word(word):
            return [word[:2], f"##{word[2:]}"] if len(word) > 2 else [word]

    text, words = words_or_pieces.words_of_pieces("good film, good", Halves)
    assert text == "go ##od fi ##lm , go ##od"
    assert words == [0, 0, 1, 1, 2, 0, 0]
    assert words_or_pieces._first_seen(np.array([7, 2, 7, 0])).tolist() == [0, 1, 0, 2]
    assert words_or_pieces._split(np.array(words), 3).tolist() == [True, True, False]


# ------------------------------------------------------------------ the controls


@pytest.fixture
def small(monkeypatch):
    recipe = replace(
        controlled_training.RECIPE, heads=3, d_e=10, d_att=5, d_out=7, T_max=13, batch=8, epochs=2,
        validation=0.2, vocabulary_size=None,
    )  # fmt: skip
    monkeypatch.setattr(controlled_training, "RECIPE", recipe)


@pytest.fixture
def trained(toy_setting, small):
    imdb = toy_setting.data / "imdb"
    (imdb / "train.jsonl").write_text((imdb / "test.jsonl").read_text())
    prepared = controlled_training.prepared_texts(toy_setting)
    return toy_setting, prepared


@pytest.mark.parametrize("held", controlled_training.HELD)
def test_what_is_held_stays_and_the_model_says_what_the_network_says(trained, held):
    setting, prepared = trained
    start = controlled_training.ControlledAttention(
        controlled_training.RECIPE, words=len(prepared.vocabulary), held=held, seed=setting.seed
    )
    network = controlled_training.controlled(setting, prepared, held)
    moved = {n: not torch.equal(getattr(network, n), getattr(start, n)) for n in ("W_k", "W_l")}
    assert moved == {"W_k": held != "uniform", "W_l": held != "fixed"}
    ids = torch.from_numpy(prepared.training.ids[:4])
    outputs, alpha = network.parts(ids)
    model = controlled_training.classifier_of(network, prepared)
    texts = setting.texts("imdb", "test").texts
    if held == "uniform":
        assert torch.allclose(alpha, torch.full_like(alpha, 1 / 13))
    window = collapsed_texts(model, texts[:1]).arrays.ids.astype(np.int64)
    wanted = network(torch.from_numpy(window)).detach().numpy()
    np.testing.assert_allclose(model.logits(texts[:1]), wanted, atol=1e-5)
    assert outputs.shape == (4, 2)


def test_an_adversary_moves_its_attention_more_the_more_it_counts(trained):
    setting, prepared = trained
    free = controlled_training.controlled(setting, prepared, "free")
    ids = torch.from_numpy(prepared.training.ids)
    apart = []
    for weight in (0.0, 20.0):
        network = controlled_training.adversary(setting, prepared, free, weight)
        with torch.no_grad():
            apart.append(
                float(
                    controlled_training.divergence(network.parts(ids)[1], free.parts(ids)[1]).mean()
                )
            )
    assert apart[1] > apart[0]


def test_the_divergence_is_jensen_and_shannons():
    p, q = torch.tensor([[1.0, 0.0], [0.3, 0.7]]), torch.tensor([[0.0, 1.0], [0.3, 0.7]])
    found = controlled_training.divergence(p, q)
    assert found.tolist() == pytest.approx([math.log(2), 0.0], abs=1e-6)


# ---------------------------------------------------- from numbers to sentences


@pytest.mark.parametrize("module", [erasure, summaries, lengths, replacements, multiplicity])
def test_what_is_measured_on_toy_reviews_can_be_told(module, toy_setting, monkeypatch, stored):
    monkeypatch.setattr(lengths, "LENGTHS", (3, 5, 11))
    monkeypatch.setattr(lengths, "TEXTS", 4)
    monkeypatch.setattr(module, "QUICK_TEXTS", 4, raising=module is not lengths)
    experiment = module.EXPERIMENT
    both = stored({p.name: p.measure(toy_setting) for p in experiment.parts if p.name != "shipped"})
    both["shipped"] = both["paper"]
    found = experiment.findings(both)
    assert "nan" not in json.dumps([found.headline, *found.measured, found.meaning])
    assert found.verdicts
    assert all(len(row) == len(found.table.columns) for row in found.table.rows)
    assert list(experiment.figures(both))
