"""judge: controls whose share is known, other roads to the same areas, what is refused."""

import itertools
import json
import math
import pickle
import re

import numpy as np
import pytest

import limelight
from limelight import Judgment, judge
from limelight.explainers import Lime, prepare_batch
from limelight.explainers.target_game import TargetGame
from limelight.judging.candidates import ScoredText
from limelight.judging.removals import SampledRemovals, removal_counts
from limelight.judging.texts import SearchedText, run_searches
from limelight.theory.enumeration import enumerate_masks

from tiny_models import random_texts, tiny_model

MODEL = tiny_model(3, T_max=31, scale=0.4)
TEXTS = [text for text in random_texts(90, seed=5, longest=8) if len(set(text.split())) > 3][:36]


def words(model, text):
    return len(limelight.game(model, text))


def target_function(model, text):
    """The log-odds of the predicted class as a function of masks, by asking the model."""
    game = limelight.game(model, text)
    full = game(np.ones((1, len(game)), bool))[0]
    sign = 1.0 if full[-1] > 0 else -1.0
    return (lambda keep: sign * game(keep)[:, -1]), len(game)


def best_scores(model, text):
    """Scores that put the words in the order of the largest area, by dynamic programming."""
    f, d = target_function(model, text)
    values, least, first = f(enumerate_masks(d)), np.zeros(2**d), np.zeros(2**d, int)
    for row in range(1, 2**d):
        ways = [row ^ (1 << j) for j in range(d) if row >> j & 1]
        costs = [values[way] + least[way] for way in ways]
        least[row], first[row] = min(costs), ways[int(np.argmin(costs))]
    scores, row = np.zeros(d), 2**d - 1
    for rank in range(d):
        scores[int(np.log2(row ^ first[row]))] = d - rank
        row = first[row]
    return scores


def worst_scores(model, text, target):
    return -best_scores(model, text)


def constant(model, text):
    return np.ones(words(model, text))


def guessed(model, text):
    rng = np.random.default_rng(len(text) * 7919 + ord(text[-1]) + 31 * ord(text[1]))
    return rng.random(words(model, text))


@pytest.fixture(scope="module")
def controls():
    values = ["shapley", "loo", best_scores, worst_scores, constant, guessed, "alpha-avg"]
    return judge(MODEL, TEXTS, values, seed=1)


def test_the_best_order_has_the_largest_share_and_at_most_one(controls):
    best = controls["best_scores"]
    assert best.share == max(m.share for m in controls.methods) <= 1
    assert best.won == 1
    # Both find the best order here. The means over tied orders are equal up to rounding.
    assert controls.greedy <= best.share + 1e-12


def test_the_reverse_of_the_best_order_is_worse_than_guessing(controls):
    assert controls["worst_scores"].interval[1] < 0


def test_a_constant_gets_exactly_chance_by_its_ties(controls):
    assert abs(controls["constant"].share) < 1e-8
    assert controls["constant"].tied == controls["constant"].texts
    assert not any("tied" in warning for warning in controls.warnings)  # readers need not act


def test_guessing_has_a_share_of_0_within_its_interval(controls):
    low, high = controls["guessed"].interval
    assert low < 0 < high
    assert "guessed" in controls.verdict.rpartition(";")[2]


def test_areas_chance_and_ceiling_are_those_of_all_orders(controls):
    number = next(i for i, t in enumerate(controls.texts) if 4 <= t.d <= 6 and t.has_room)
    text, result = TEXTS[number], controls.texts[number]
    f, d = target_function(MODEL, text)
    orders = np.array(list(itertools.permutations(range(d))))
    keep = np.argsort(orders, axis=1)[:, None, :] >= np.arange(1, d + 1)[:, None]
    remaining = f(keep.reshape(-1, d)).reshape(len(orders), d)
    areas = f(np.ones((1, d), bool))[0] - remaining.mean(axis=1)
    assert result.deletion.chance == pytest.approx(areas.mean(), rel=1e-6)
    assert areas.max() <= result.deletion.ceiling + 1e-9
    assert result.areas["best_scores"] == pytest.approx(areas.max(), rel=1e-9)
    reverse = orders.tolist().index(orders[int(np.argmax(areas))][::-1].tolist())
    assert result.areas["worst_scores"] == pytest.approx(areas[reverse], rel=1e-9)
    assert result.insertion.chance == pytest.approx(remaining.mean(), rel=1e-6)
    assert remaining.mean(axis=1).max() <= result.insertion.ceiling + 1e-9
    change = np.abs(remaining - result.full).mean(axis=1)
    assert result.change.ceiling >= change.max() - 1e-9
    assert abs(result.change.chance - change.mean()) <= 5 * result.change.stderr


def test_unsigned_methods_are_also_judged_on_change(controls):
    assert controls["alpha-avg"].change is not None
    assert controls["shapley"].change is None
    assert any("size of the scores: alpha-avg. For" in warning for warning in controls.warnings)


def test_pairs_are_paired_and_corrected(controls):
    assert len(controls.pairs) == 7 * 6 / 2
    for pair in controls.pairs:
        first, second = (controls[name] for name in pair.methods)
        assert pair.difference == pytest.approx(first.share - second.share)
        assert pair.difference >= 0
        if pair.interval is not None:  # methods that differ on five texts have none
            assert pair.interval[0] <= pair.difference <= pair.interval[1]
            assert pair.p_holm >= pair.p
    best = next(p for p in controls.pairs if p.methods == ("best_scores", "worst_scores"))
    assert best.p_holm < 0.05
    assert best.won == 1


def test_the_same_seed_judges_the_same_and_the_value_survives_files(controls):
    again = judge(MODEL, TEXTS, ["shapley", "loo"], seed=1)
    assert again == judge(MODEL, TEXTS, ["shapley", "loo"], seed=1)
    assert again["shapley"].share == controls["shapley"].share
    assert Judgment.from_json(controls.to_json()) == controls
    assert pickle.loads(pickle.dumps(controls)) == controls
    assert controls != again
    assert len(repr(controls)) < 200
    record = json.loads(controls.to_json())
    assert record["schema"] == "limelight.judgment/2"
    assert set(record["texts"][0]["areas"]) == {m.method for m in controls.methods}
    assert controls.to_csv().count("\n") == 1 + len(TEXTS) * 7
    assert len(controls.to_frame()) == len(TEXTS) * 7


@pytest.fixture(scope="module")
def sampled():
    """The same model as somebody's function: nothing but its answers is known."""
    wrapped = limelight.wrap(
        lambda texts: np.stack([0 * (f := MODEL.logits(texts)[:, 0]), f], axis=1),
        classes=MODEL.classes,
        scale="logit",
        mask="UNK",
    )
    return judge(wrapped, TEXTS[:12], ["loo", constant, "alpha-avg"], seed=2)


def test_a_function_has_a_best_found_and_a_sampled_chance(sampled):
    assert sampled.ceiling_kind == "best found"
    assert "(share of the best order found " in sampled.verdict
    for text in sampled.texts_with_room:
        assert text.deletion.stderr <= 0.011 * (text.deletion.ceiling - text.deletion.chance)
        assert text.greedy <= text.deletion.ceiling
        assert max(text.areas.values()) <= text.deletion.ceiling
    assert any("Greedy search finished on " in warning for warning in sampled.warnings)
    assert any(
        re.match(r"Only \d+ texts: judge 30 or more", warning) for warning in sampled.warnings
    )


def test_a_method_that_the_model_does_not_allow_is_a_row_with_a_reason(sampled):
    row = sampled["alpha-avg"]
    assert row.share is None
    assert row.reason.startswith("method 'alpha-avg' needs attention weights, but a function ")
    assert any(warning.startswith("alpha-avg is not judged: ") for warning in sampled.warnings)


def test_sampling_and_sums_give_the_same_areas(sampled):
    exact = judge(MODEL, TEXTS[:12], ["loo"])
    for text, other in zip(exact.texts, sampled.texts, strict=True):
        assert other.d == text.d
        assert other.full == pytest.approx(text.full)
        if not other.ties["loo"]:
            assert other.areas["loo"] == pytest.approx(text.areas["loo"])
            assert other.insertion.areas["loo"] == pytest.approx(text.insertion.areas["loo"])
        assert other.deletion.ceiling <= text.deletion.ceiling + 1e-9
        allowed = 5 * other.deletion.stderr + 1e-9
        assert abs(other.deletion.chance - text.deletion.chance) <= allowed


def test_without_budget_greedy_is_left_out_and_the_best_judged_order_stands():
    wrapped = limelight.wrap(lambda texts: MODEL.predict_proba(texts), classes=MODEL.classes)
    judgment = judge(wrapped, TEXTS[:3], ["loo", "shapley"], budget=0.0)
    assert judgment.greedy is None
    for text in judgment.texts:
        assert text.deletion.ceiling == pytest.approx(max(text.areas.values()))


def test_two_outputs_are_judged_by_their_difference():
    model = tiny_model(4, outputs=2, T_max=31, scale=0.4)
    judgment = judge(model, TEXTS[:5], ["loo"])
    for text, value in zip(TEXTS, judgment.texts, strict=False):
        f = model.logits([text])[0]
        assert value.full == pytest.approx(f.max() - f.min())
    three = judge(tiny_model(4, outputs=3, T_max=31, scale=0.4), TEXTS[:5], ["loo"])
    assert three.texts[0].full == pytest.approx(
        tiny_model(4, outputs=3, T_max=31, scale=0.4).logits(TEXTS[:1]).max()
    )


def test_probabilities_and_deletion_are_judged_by_model_calls():
    for request in ({"scale": "probability"}, {"replacement": "delete"}):
        judgment = judge(MODEL, TEXTS[:3], ["loo", "lime-sampled"], samples=200, **request)
        assert judgment.ceiling_kind == "best found"
        assert judgment["lime-sampled"].texts == 3
    judgment = judge(MODEL, TEXTS[:3], ["loo", "shapley"], scale="probability")
    assert judgment["loo"].share is not None
    assert judgment["shapley"].share is not None


def test_long_curves_are_read_at_even_steps():
    assert removal_counts(256).tolist() == list(range(1, 257))
    steps = removal_counts(1000)
    assert len(steps) == 64
    assert steps[-1] == 1000
    assert set(np.diff(steps)) <= {15, 16}


def test_greedy_search_on_long_texts_removes_several_words_a_step():
    weights = np.random.default_rng(0).permutation(300) / 300
    calls = []

    def sums(texts):
        calls.append(len(texts))
        return np.array([sum(weights[int(w[1:])] for w in text.split()) for text in texts])[:, None]

    model = limelight.wrap(sums, classes=["total"], scale="score")
    batch = prepare_batch(model, [" ".join(f"w{i}" for i in range(300))], scale="score")
    removals = SampledRemovals(
        TargetGame(batch, "delete"), 300, float(weights.sum()), np.random.default_rng(0)
    )
    calls.clear()
    searched = SearchedText(ScoredText(0, batch, [], []), removals)
    run_searches([searched], math.inf)
    search, order = searched.search, searched.search.order
    assert search.is_finished
    assert order[:295] == np.argsort(-weights)[:295].tolist()
    assert sorted(order) == list(range(300))
    assert sum(calls) - sum(range(10, 301, 5)) in (0, 2)  # the whole text and none of it


def test_stored_explanations_functions_settings_and_names(tmp_path):
    texts = TEXTS[:4]
    lines = [e.to_json() for e in limelight.explain(MODEL, texts, "loo")]
    path = tmp_path / "stored.jsonl"
    path.write_text("\n".join(lines[:3]))
    judgment = judge(
        MODEL, texts, ["loo", str(path), Lime(bandwidth=0.5), Lime(bandwidth=1.0), guessed]
    )
    assert [m.method for m in judgment.methods] == [
        "loo",
        "loo 2",
        "lime (bandwidth=0.5)",
        "lime (bandwidth=1.0)",
        "guessed",
    ]
    stored = judgment["loo 2"]
    room = sum(text.has_room for text in judgment.texts[:3])
    assert stored.texts == room
    for text in judgment.texts[:3]:
        assert text.areas["loo 2"] == pytest.approx(text.areas["loo"])
    assert "no stored explanation" in judgment.texts[3].reasons["loo 2"]
    assert not any("another model" in warning for warning in judgment.warnings)
    other = judge(tiny_model(5, T_max=31, scale=0.4), texts, [str(path)])
    assert any(
        "explanations belong to another model: loo. Explain the" in warning
        for warning in other.warnings
    )
    named = judge(MODEL, texts, {"mine": guessed, "theirs": limelight.explain(MODEL, texts, "loo")})
    assert [m.method for m in named.methods] == ["mine", "theirs"]


def test_functions_that_fail_are_rows_with_reasons():
    def broken(model, text):
        raise RuntimeError("no network")

    def short(model, text):
        return [1.0]

    def unknown(model, text):
        return [np.nan, *np.ones(words(model, text) - 1)]

    judgment = judge(MODEL, TEXTS[:3], [broken, short, unknown, "loo"])
    assert judgment["broken"].reason == "RuntimeError: no network"
    assert "it must return 5 numbers, one per word, not shape (1,)." in judgment["short"].reason
    assert judgment["unknown"].reason == "it must return 5 finite numbers, but 1 is not finite."
    assert judgment["loo"].share is not None


def test_texts_that_cannot_be_judged_are_rows_with_reasons():
    judgment = judge(MODEL, ["", *TEXTS[:3], " \n", "w1"], ["loo", "lime-sampled"])
    assert "no words" in judgment.texts[0].reason
    assert "no words" in judgment.texts[4].reason
    assert [text.id for text in judgment.texts] == list(range(6))
    assert judgment.texts[5].d == 1
    assert not judgment.texts[5].has_room
    assert "at least 2" in judgment.texts[5].reasons["lime-sampled"]
    assert judgment["loo"].texts == sum(text.has_room for text in judgment.texts)
    assert any(
        warning.startswith("2 of 6 texts could not be judged") for warning in judgment.warnings
    )
    assert Judgment.from_json(judgment.to_json()) == judgment


def test_a_constant_model_has_no_room():
    wrapped = limelight.wrap(lambda texts: np.ones((len(texts), 2)) / 2, classes=["a", "b"])
    judgment = judge(wrapped, TEXTS[:2], ["loo"])
    assert judgment.texts_without_room == 2
    assert judgment["loo"].share is None
    assert judgment.verdict == "No method can be judged on these texts."


def test_one_text_has_shares_without_intervals():
    judgment = judge(MODEL, TEXTS[:1], ["shapley", "alpha-avg"])
    assert judgment["shapley"].share is not None
    assert judgment["shapley"].interval is None
    assert judgment.pairs == ()
    assert judgment.verdict == "Too few texts (1) to rank the methods."


def test_progress_hears_of_every_text():
    heard = []
    judge(MODEL, TEXTS[:5], ["loo"], progress=lambda done, total: heard.append((done, total)))
    assert heard == [(i, 5) for i in range(1, 6)]


def test_methods_explain_what_is_judged():
    """With two outputs the scores, too, are those of the difference."""
    model = tiny_model(4, outputs=2, T_max=31, scale=0.4)
    batch = prepare_batch(model, TEXTS[:1], target="predicted")
    index = int(batch.targets.index[0])
    own_value, other = (
        limelight.explain(model, TEXTS[0], "loo", target=i).scores for i in (index, 1 - index)
    )

    def mine(model, text, target):
        return own_value - other

    judgment = judge(model, TEXTS[:1], ["loo", mine])
    assert judgment.texts[0].areas["loo"] == pytest.approx(judgment.texts[0].areas["mine"])


WEIGHTS = {"good": 2.0, "superb": 3.0, "fine": 1.0, "bad": -2.0, "dull": -1.5, "awful": -3.0}
OPINIONS = [
    " ".join(np.random.default_rng(i).permutation([*WEIGHTS, "the", "film"])[:6]) for i in range(24)
]


def weigh_words(texts):
    return [[0.0, 0.1 + sum(WEIGHTS.get(word, 0.0) for word in text.split())] for text in texts]


def weights(model, text):
    return [WEIGHTS.get(word, 0.0) for word in text.split()]


def test_scores_of_a_function_are_for_the_predicted_class_or_for_its_parameter_target():
    model = limelight.wrap(weigh_words, classes=["bad", "good"], scale="logit")
    targets = []

    def with_target(model, text, *, target):
        targets.append(target)
        return [w if target == "good" else -w for w in weights(model, text)]

    values = {
        "weights": weights,
        "with target": with_target,
        "explained": lambda model, text: limelight.explain(model, text, "loo"),
        "sizes": lambda model, text: np.abs(weights(model, text)),
    }
    judgment = judge(model, OPINIONS, values, columns=[])
    assert {text.target for text in judgment.texts} == {"bad", "good"}
    assert targets == [text.target for text in judgment.texts]
    for name in ("weights", "with target", "explained"):
        assert judgment[name].share == pytest.approx(1.0)
    assert 0 < judgment["sizes"].share < 0.5  # they are not turned around, and know no direction
    fixed = judge(model, OPINIONS, {"weights": weights}, target="bad", columns=[])
    assert fixed["weights"].share == pytest.approx(1.0)


def test_scores_for_another_class_of_three_are_a_row_with_a_reason():
    three = limelight.wrap(
        lambda texts: [
            [*row, len(t) / 99] for t, row in zip(texts, weigh_words(texts), strict=True)
        ],
        classes=["bad", "good", "long"],
        scale="logit",
    )
    default = judge(three, OPINIONS, {"weights": weights}, columns=[])
    assert default["weights"].texts  # the predicted class is what is explained and judged
    other = judge(three, OPINIONS, {"weights": weights}, target="long", columns=[])
    for text, predicted in zip(other.texts, default.texts, strict=True):
        reason = (
            f"its scores are for {predicted.target!r}, but 'long' is judged. Add a parameter "
            "`target` to the function: it gets the judged class."
        )
        assert text.reasons == ({} if predicted.target == "long" else {"weights": reason})
    (warning,) = (warning for warning in other.warnings if "has scores for only" in warning)
    assert warning.endswith("Add a parameter `target` to the function: it gets the judged class.")
    multi_label_model = limelight.wrap(
        lambda texts: [
            [len(t) / 99, f] for t, (_, f) in zip(texts, weigh_words(texts), strict=True)
        ],
        classes=["long", "good"],
        scale="logit",
        multi_label=True,
    )
    (row,) = judge(multi_label_model, OPINIONS[:1], [weights], target="long").methods
    assert "but 'long' is judged" in row.reason
    model = limelight.wrap(weigh_words, classes=["bad", "good"], scale="logit")
    renamed = limelight.wrap(weigh_words, classes=["negative", "positive"], scale="logit")
    stored = limelight.explain(model, OPINIONS, "loo")
    assert judge(renamed, OPINIONS, [stored]).methods[0].reason == (
        "its scores are for 'good', which is not a class of this model ('negative', 'positive')."
    )
