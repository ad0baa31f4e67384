"""The open questions: what each measures, on games and models small enough to check by hand."""

import json
import math
import sys

import numpy as np
import pytest

from limelight import explain
from limelight.theory.ratio_game import full_value
from limelight_reproduction.one_layer.collapsed_texts import collapse_texts
from limelight_reproduction.questions import (
    erasure,
    erasure_measured,
    lengths,
    multiplicity,
    removal_order,
    replacements,
    summaries,
    words_or_pieces,
)

TEXT = "w3 w1 w4 w1 w5 never w2"


def test_the_game_of_unk_is_the_librarys(toy_model):
    seen = collapse_texts(toy_model(2), [TEXT])
    own_value, wanted = replacements.replacement_game(seen, "unk"), seen.games
    ratio = (wanted.D0[0] / own_value.D0)[:, None]  # a common factor of a head cancels
    for name in ("a", "b"):
        np.testing.assert_allclose(getattr(own_value, name) * ratio, getattr(wanted, name)[0])
    for name in ("A", "B"):
        np.testing.assert_allclose(getattr(own_value, name) * ratio, getattr(wanted, name)[0])


def test_other_replacements_change_what_is_removed_and_nothing_else(toy_model):
    model = toy_model(2)
    seen = collapse_texts(model, [TEXT])
    games = {
        how: replacements.replacement_game(seen, how) for how in ("unk", "mean", "renormalise")
    }
    for game in games.values():
        np.testing.assert_allclose(full_value(game), model.logits([TEXT])[:, -1])
    assert not games["renormalise"].b.any()
    assert not games["renormalise"].B.any()
    row = model.embedding.mean(axis=0) @ model.directions.value[-1].T
    place = seen.features[0].feature_index.tolist().index(4) + 1  # "never" stands there once
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
    keep = removal_order.masks_along_order(np.array([2, 0, 1]))
    assert keep.astype(int).tolist() == [[1, 1, 1], [1, 1, 0], [0, 1, 0], [0, 0, 0]]


def test_orders_with_a_sign_begin_with_what_speaks_for_the_decision(toy_model):
    model = toy_model(4)
    seen = collapse_texts(model, [TEXT])
    (orders,) = erasure_measured._removal_orders(seen, [TEXT], np.random.default_rng(0))
    outputs = model.logits([TEXT])[0]
    lime = explain(model, TEXT, "lime", target="positive", scale="score").scores
    toward = lime if outputs[1] > outputs[0] else -lime
    assert orders["lime"][0] == toward.argmax()
    assert orders["abs-lime"][0] == abs(lime).argmax()
    alpha = explain(model, TEXT, "alpha-avg").scores
    assert orders["alpha-avg"].tolist() == np.argsort(-alpha).tolist()
    assert sorted(orders["random"]) == list(range(len(lime)))


def test_attention_set_to_zero_leaves_the_rest_renormalised(toy_model):
    seen = collapse_texts(toy_model(2), [TEXT])
    d = len(seen.features[0])
    keep = np.array([[True] * d, [False, True] * (d // 2), [False] * d])
    alpha, u = seen.alpha[0], seen.arrays.u[0]
    result = erasure_measured.zero_attention(seen, 0, keep)
    for row, stays in zip(result, keep, strict=True):
        remaining = [t for t, j in enumerate(seen.arrays.position_features[0]) if j < 0 or stays[j]]
        for c in range(2):
            wanted = [
                sum(alpha[k, t] * u[c, k, t] for t in remaining)
                / sum(alpha[k, t] for t in remaining)
                for k in range(3)
            ]
            assert row[c] == pytest.approx(np.mean(wanted))
    np.testing.assert_allclose(result[0], seen.model.logits([TEXT])[0])


def _orders_needing(setting, **shares):
    """Rows of 40 reviews in which each order needs the given share; None never flips."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(40):
        noise = 0.01 * rng.standard_normal(len(erasure_measured.ORDERS))
        rows.append({
            (how, name): (None if shares.get(name, 0.1) is None else shares.get(name, 0.1) + e, 0.5)
            for name, e in zip(erasure_measured.ORDERS, noise, strict=True)
            for how in erasure_measured.ERASURES
        })  # fmt: skip
    return erasure_measured.summarize_rows(setting, rows)["unk"]


def test_the_rules_of_erasure_can_say_each_thing(toy_setting):
    def order(**shares):
        return erasure.judge_attention_order(_orders_needing(toy_setting, **shares))

    assert order(random=0.5, gxi=0.02).startswith("in part")
    assert order(random=0.1, gxi=0.02) == "no"
    assert order(random=0.5, gxi=0.3) == "yes"
    assert order(random=0.1, gxi=0.1) == "undecided"
    assert order(**{"alpha-avg": None}).startswith("undecided: too few")


def test_the_sign_is_the_reason_only_where_orders_without_it_gain_little(toy_setting):
    def reason(without):
        shares = {"gxi": 0.02, "lime": 0.02, "abs-gxi": without, "abs-lime": without}
        return erasure.judge_sign(_orders_needing(toy_setting, **shares))

    assert reason(0.1) == "it is"
    assert reason(0.02) == "not the sign alone"


def test_decisions_that_never_change_are_counted_apart(toy_setting):
    of = _orders_needing(toy_setting, random=None)
    assert of["flips"]["random"] == 0
    assert of["flips"]["gxi"] == 1
    assert of["common"] == 0
    assert "shares" not in of


def test_a_correlation_is_divided_by_what_noise_leaves_of_it():
    rng = np.random.default_rng(3)
    true, other = rng.standard_normal((2, 4000))
    exact = 0.8 * true + 0.6 * other
    runs = true + 2 * rng.standard_normal((24, 4000))
    halves = np.corrcoef(runs[::2].mean(axis=0), runs[1::2].mean(axis=0))[0, 1]
    seen = np.corrcoef(runs.mean(axis=0), exact)[0, 1]
    wanted = np.corrcoef(true, exact)[0, 1]
    assert abs(seen - wanted) > 0.04
    assert abs(seen / replacements._ceiling(halves) - wanted) < 0.02


@pytest.mark.parametrize(
    ("interval", "message"),
    [
        ([0.97, 0.96, 0.98], "the same"),
        ([0.83, 0.8, 0.86], "close, not the same"),
        ([0.9, 0.8, 0.97], "close"),
        ([0.7, 0.6, 0.8], "undecided"),
        ([0.5, 0.4, 0.6], "different"),
    ],
)
def test_two_replacements_give_one_explanation_or_not(interval, message):
    assert replacements.judge_agreement(interval) == message


def test_the_norm_of_values_is_taken_before_the_read_out(toy_model):
    model = toy_model(2)
    seen = collapse_texts(model, [TEXT])
    wanted = dict.fromkeys(TEXT.split(), 0.0)
    for t, word in enumerate(TEXT.split(), start=1):
        e = model.embedding[seen.arrays.ids[0, t]] + model.positions[t]
        carried = [seen.alpha[0, k, t] * (model.W_v[k] @ e) for k in range(3)]
        wanted[word] += np.linalg.norm(np.concatenate(carried))
    np.testing.assert_allclose(summaries.value_norms(seen)[0], list(wanted.values()))


def test_a_summary_matters_and_a_norm_tells_more_by_their_intervals():
    assert summaries.judge_summary([0.0, -0.02, 0.02]) == "little for ranks"
    assert summaries.judge_summary([-0.2, -0.3, -0.1]) == "it does"
    assert summaries.judge_summary([0.1, 0.0, 0.2]) == "undecided"
    assert summaries.judge_norm([0.03, 0.01, 0.05]) == "holds"
    assert summaries.judge_norm([0.0, -0.01, 0.05]) == "no difference shown"
    assert summaries.judge_norm([-0.03, -0.05, -0.01]) == "does not hold here"


def test_norm_based_attention_is_the_length_of_what_a_token_adds(toy_model):
    model = toy_model(2)
    seen = collapse_texts(model, [TEXT])
    alpha, u = seen.alpha[0], seen.arrays.u[0]
    wanted = dict.fromkeys(TEXT.split(), 0.0)
    for t, word in enumerate(TEXT.split(), start=1):
        added = [np.mean([alpha[k, t] * u[c, k, t] for k in range(3)]) for c in range(2)]
        wanted[word] += math.hypot(*added)
    np.testing.assert_allclose(summaries.read_out_norms(seen)[0], list(wanted.values()))


@pytest.mark.parametrize(("kind", "words"), [("distinct", 32), ("four", 8), ("two", 2)])
def test_a_repeating_game_is_in_the_regime_of_the_theorem(kind, words):
    game = multiplicity.repeating_game(1024, kind, np.random.default_rng(0))
    assert game.d == words
    full = game.D0[0] + game.a.sum()
    assert 1024 * math.exp(-0.5) <= full <= 1024 * math.exp(0.5)
    errors = multiplicity._first_order_errors(game)
    assert errors["first_order"] < 0.1 < errors["eq19"]


def test_a_power_of_draws_is_found_with_its_interval():
    windows = [256, 1024, 4096, 16384]
    rng = np.random.default_rng(0)
    rows = [[rng.lognormal() * w**-0.5 for w in windows] for _ in range(400)]
    of = multiplicity._fit_power(windows, rows, rng)
    middle, low, high = of["slope"]
    assert low < -0.5 < high
    assert low < middle < high < low + 0.3


def test_a_rate_that_is_slower_than_proven_is_noticed():
    def error(slope):
        kinds = {kind: {"first_order": {"slope": slope}} for kind in multiplicity.KINDS}
        return dict.fromkeys(multiplicity.EPSILONS, kinds)

    assert multiplicity.matches_proof(error([-0.5, -0.52, -0.48]))
    assert not multiplicity.matches_proof(error([-0.3, -0.32, -0.28]))


def test_pieces_know_their_words():
    class Halves:
        @staticmethod
        def split_word(word):
            return [word[:2], f"##{word[2:]}"] if len(word) > 2 else [word]

    text, words = words_or_pieces.split_text("good film, good", Halves)
    assert text == "go ##od fi ##lm , go ##od"
    assert words == [0, 0, 1, 1, 2, 0, 0]
    assert words_or_pieces._number_by_occurrence(np.array([7, 2, 7, 0])).tolist() == [0, 1, 0, 2]
    kinds = words_or_pieces.word_kinds("good film, good , on", Halves, np.array([*words, 2, 3]))
    assert {kind: np.flatnonzero(of).tolist() for kind, of in kinds.items()} == {
        "all": [0, 1, 2, 3],
        "cut": [1],  # "good" is cut and repeated, and in neither list
        "repeated": [2],
        "whole": [3],
    }


# ---------------------------------------------------- from numbers to sentences


def _measuring_module(module):
    return f"{module.__name__}_measured" if module is erasure else module.__name__


@pytest.mark.parametrize("module", [erasure, summaries, lengths, replacements, multiplicity])
def test_the_measures_of_toy_reviews_can_be_written(module, toy_setting, monkeypatch, stored):
    monkeypatch.setattr(lengths, "LENGTHS", (3, 5, 11))
    monkeypatch.setattr(multiplicity, "WINDOWS", (64, 256))
    monkeypatch.setattr(
        sys.modules[_measuring_module(module)], "QUICK_TEXTS", 4, raising=module is not lengths
    )
    monkeypatch.setattr(lengths, "TEXTS", 4)
    for name in ("QUICK_RUNS", "QUICK_DRAWS"):
        monkeypatch.setattr(module, name, 4, raising=False)
    monkeypatch.setattr(
        type(toy_setting), "train_recipe_model", lambda setting, _seed: setting.recipe_model
    )
    experiment = module.EXPERIMENT
    pair = stored({p.name: p.measure(toy_setting) for p in experiment.parts if p.name != "shipped"})
    pair["shipped"] = pair.get("values", pair["paper"])
    result = experiment.findings(pair)
    assert "nan" not in json.dumps([result.headline, *result.measured, result.meaning])
    assert result.verdicts
    assert all(len(row) == len(result.table.columns) for row in result.table.rows)
    assert list(experiment.figures(pair))
