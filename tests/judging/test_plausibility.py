"""Plausibility and agreement in a judgment: controls with known numbers, other roads, edges."""

import itertools
import json
import re

import numpy as np
import pytest

import limelight
from limelight import InputError, Judgment, judge
from limelight.explainers import prepare_batch
from limelight.judging.candidates import Candidate, ScoredText
from limelight.judging.measures import TOP_COUNT, pairwise_similarity
from limelight.judging.plausibility import (
    Rationales,
    compare_with_rationale,
    f1_contributions,
    find_runs,
    locate_marks,
    span_precision_recall,
    strongest_positions,
    token_f1,
)
from limelight.results.judgment import PLAUSIBILITY_CAVEAT
from limelight.text import build_features, tokenize
from limelight.text.inputs import ModelInput

from tiny_models import random_texts, tiny_model

MODEL = tiny_model(3, T_max=61, scale=0.4)
# No word twice: then a rationale can be told perfectly by scores of words.
TEXTS = [" ".join(dict.fromkeys(text.split())) for text in random_texts(120, seed=9, longest=15)]
TEXTS = [text for text in TEXTS if len(text.split()) > 7][:32]


def word_spans(text, words):
    """The places of some words of a text without repeated ones."""
    starts = [text.split().index(word) for word in words]
    before = [sum(len(w) + 1 for w in text.split()[:i]) for i in starts]
    return [[a, a + len(w)] for a, w in zip(before, words, strict=True)]


def mark_words(text):
    """Every third word was marked."""
    return text.split()[::3]


RATIONALES = [word_spans(text, mark_words(text)) for text in TEXTS]


def perfect(model, text):
    return [float(word in mark_words(text)) for word in text.split()]


def reverse(model, text, target):
    return [-x for x in perfect(model, text)]


def constant_by_word(model, text):
    return [1.0] * len(set(text.split()))


def constant(model, text):
    return [1.0] * len(text.split())


def guessed(model, text):
    return np.random.default_rng(len(text) * 7919 + ord(text[-1])).random(len(text.split()))


@pytest.fixture(scope="module")
def judgment():
    values = [perfect, reverse, constant, guessed, "loo", "alpha-avg", "lime-sampled"]
    return judge(MODEL, TEXTS, values, rationales=RATIONALES, samples=300, seed=1)


def test_controls_have_the_numbers_that_are_known(judgment):
    result = judgment.plausibility
    chance = result["chance"]
    assert result["perfect"].precision == pytest.approx(1)
    assert result["perfect"].r_precision == pytest.approx(1)
    assert result["rationale"].precision == pytest.approx(1)
    assert result["constant"].precision == pytest.approx(chance.precision, rel=1e-12)
    assert result["constant"].r_precision == pytest.approx(chance.r_precision, rel=1e-12)
    assert result["constant"].token_f1 == pytest.approx(chance.token_f1, rel=1e-12)
    assert result["constant"].above_chance == pytest.approx(0, abs=1e-12)
    low, high = result["guessed"].above_chance_interval
    assert low < 0 < high
    assert result["reverse"].above_chance_interval[1] < 0
    assert result["reverse"].r_precision == 0
    for text, value in zip(TEXTS, result.texts, strict=True):
        n, m = len(text.split()), len(mark_words(text))
        harmonic = sum(1 / i for i in range(1, n + 1))
        expected = (harmonic + (m - 1) / (n - 1) * (n - harmonic)) / n
        assert value.precision.chance == pytest.approx(expected)
        assert value.r_precision.chance == pytest.approx(m / n)


def test_the_verdict_says_first_that_plausible_is_not_faithful(judgment):
    verdict = judgment.plausibility.verdict
    assert verdict.startswith(PLAUSIBILITY_CAVEAT)
    assert "perfect is the most plausible (average precision 1.000)" in verdict
    assert "reverse is worse than a random order" in verdict
    assert re.search(r"constant.* not significantly better than a random order\.$", verdict)


def test_pairs_are_paired_and_corrected(judgment):
    result = judgment.plausibility
    assert len(result.pairs) == 7 * 6 / 2
    names = [m.method for m in result.methods]
    own_value = np.array([text.precision.methods for text in result.texts])
    for pair in result.pairs:
        first, second = (own_value[:, names.index(name)] for name in pair.methods)
        gap = np.where(np.abs(first - second) < 1e-9, 0.0, first - second)
        assert pair.difference == pytest.approx(gap.mean(), abs=1e-9)
        assert pair.difference >= 0
        assert pair.won == pytest.approx(np.mean((gap > 0) + 0.5 * (gap == 0)))
        assert (pair.interval is None) == (np.count_nonzero(gap) < 6)
        if pair.interval is not None:
            assert pair.interval[0] <= pair.difference <= pair.interval[1]
            assert pair.p_holm >= pair.p
    assert ("loo", "reverse") in {pair.methods for pair in result.pairs}


def test_agreement_is_the_mean_of_the_texts_beside_that_of_another_seed(judgment):
    result = judgment.agreement
    assert len(result.pairs) == 7 * 6 / 2
    assert [reseeded_pair.methods for reseeded_pair in result.reseeded_pairs] == [
        ("lime-sampled", "lime-sampled")
    ]
    assert result.top_count == TOP_COUNT
    assert result.chance == pytest.approx(
        np.mean([TOP_COUNT / len(text.split()) for text in TEXTS])
    )
    assert result.pair("perfect", "reverse").rank == pytest.approx(-1)
    assert result.pair("loo", "constant").rank is None
    assert result.pair("loo", "alpha-avg").sign is None
    loo, lime = (
        [e.scores for e in limelight.explain(MODEL, TEXTS, name, target="predicted", **more)]
        for name, more in (("loo", {}), ("lime-sampled", {"samples": 300, "seed": 1}))
    )
    expected = [
        pairwise_similarity(np.stack(pair), [True, True])[0, 0, 1]
        for pair in zip(loo, lime, strict=True)
    ]
    assert result.pair("loo", "lime-sampled").rank == pytest.approx(np.mean(expected))
    own_value = result.pair("lime-sampled", "lime-sampled")
    assert result.pair("loo", "lime-sampled").rank < 1
    assert 0.2 < own_value.rank < 1
    assert own_value.rank_interval[0] < own_value.rank < own_value.rank_interval[1]
    once = judge(MODEL, TEXTS[:2], ["loo", "lime-sampled"], columns=[], samples=300)
    assert once.agreement.reseeded_pairs == ()


def test_the_errors_of_drawn_ties_stand_beside_their_numbers():
    text = "w1 w2 w1 w3 w4 w2"
    judgment = judge(MODEL, [text], [constant_by_word, "lime"], rationales=[[[0, 2], [9, 11]]])
    (marked,) = judgment.plausibility.texts
    tied, exact = marked.precision.stderr.methods
    assert tied == marked.precision.stderr.chance > 0
    assert exact is None
    assert judgment.plausibility["constant_by_word"].precision_stderr == tied
    head, *lines = judgment.to_csv().splitlines()
    rows = [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]
    assert float(rows[0]["average_precision_stderr"]) == pytest.approx(tied)
    assert rows[1]["average_precision_stderr"] == ""
    assert "means over 64 random orders of the tied words" in judgment.as_html()
    assert Judgment.from_json(judgment.to_json()) == judgment
    again = judge(MODEL, [text], [constant_by_word], rationales=[[[0, 2], [9, 11]]]).plausibility
    assert again.texts[0].precision.chance == marked.precision.chance
    other = judge(MODEL, [text], [constant_by_word], rationales=[[[0, 2], [9, 11]]], seed=1)
    assert other.plausibility.texts[0].precision.chance != marked.precision.chance


def test_it_survives_files_and_is_shown_everywhere(judgment):
    again = Judgment.from_json(judgment.to_json())
    assert again == judgment
    assert again.plausibility == judgment.plausibility
    assert again.agreement == judgment.agreement
    record = json.loads(judgment.to_json())
    assert record["plausibility"]["verdict"].startswith("Plausible is not faithful")
    head, first = judgment.to_csv().splitlines()[:2]
    row = dict(zip(head.split(","), first.split(","), strict=True))
    assert float(row["average_precision"]) == pytest.approx(1)
    assert 0 < float(row["average_precision_chance"]) < 1
    page = judgment.as_html()
    assert "Plausible is not faithful" in page
    assert "Chance is exact" in page  # no word occurs twice
    assert row["average_precision_chance_stderr"] == ""
    assert "Do the methods agree?" in page
    bare = judge(MODEL, TEXTS[:2], ["loo", "alpha-avg"])
    assert bare.plausibility is None
    assert "average_precision" not in bare.to_csv()
    assert "Plausible" not in bare.as_html()


def test_repeated_words_are_found_together():
    """One word is marked in one place and not in another: no score of words can tell them apart."""
    text = "w1 w2 w1 w3"
    scores = {"w1": 3.0, "w2": 2.0, "w3": 1.0}

    def by_table(model, text):
        return list(scores.values())

    result = judge(MODEL, [text], [by_table], rationales=[[[0, 2], [9, 11]]]).plausibility
    # The places in order: w1 w1 (one of them marked), w2, w3 (marked).
    expected = np.mean([np.mean([1 / 1, 2 / 4]), np.mean([1 / 2, 2 / 4])])
    assert result["by_table"].precision == pytest.approx(expected)
    assert result["by_table"].r_precision == pytest.approx(1 / 2)
    best = np.mean([(1 + 2 / 2) / 2, (1 + 2 / 3) / 2])  # w3, then one of the two w1
    assert result["rationale"].precision == pytest.approx(best)
    orders = list(itertools.permutations(["w1", "w2", "w3"]))
    every = []
    for order in orders:
        scores |= {word: 3.0 - place for place, word in enumerate(order)}
        value = judge(MODEL, [text], [by_table], rationales=[[[0, 2], [9, 11]]]).plausibility
        every.append(value["by_table"].precision)
    chance = result["chance"]
    assert 0 < chance.precision_stderr < 0.05
    assert abs(chance.precision - np.mean(every)) < 4 * chance.precision_stderr
    assert result["by_table"].precision_stderr is None
    assert result["by_table"].above_chance_stderr == chance.precision_stderr


def test_several_annotators_are_averaged_and_held_against_each_other():
    text = "w1 w2 w3 w4"
    first, second = [[0, 2], [3, 5]], [[3, 5]]
    result = judge(
        MODEL, [text], {"falling": lambda *_: [4.0, 3.0, 2.0, 1.0]}, rationales=[[first, second]]
    ).plausibility
    assert result["falling"].precision == pytest.approx((1 + 1 / 2) / 2)
    assert result.texts[0].annotators == 2
    assert result.texts[0].marked == pytest.approx(3 / 8)
    people = result["annotators"]
    # The second finds the first's words as w2, then w1, w3, w4 in any order: (1 + 2/i)/2 over i.
    by_second = np.mean([(1 + 2 / i) / 2 for i in (2, 3, 4)])
    by_first = np.mean([1, 1 / 2])  # w1 and w2 are tied
    assert people.precision == pytest.approx((by_second + by_first) / 2)
    assert people.token_f1 == pytest.approx(2 / 3)
    assert "annotators" not in {reference.method for reference in judge_one(first).references}


def judge_one(rationale):
    return judge(MODEL, ["w1 w2 w3 w4"], ["loo"], rationales=[rationale]).plausibility


def test_texts_without_a_usable_rationale_are_rows_with_a_reason():
    texts = ["w1 w2 w3", "w4 w5 w6", "w1 w3", "w2 w5", "", "w7 w8 w9", "w1 w2 w4"]
    marked = [[[0, 2]], None, [], [[0, 5]], [], [[0, 99]], [[3, 1]]]
    judgment = judge(MODEL, texts, ["loo"], rationales=marked)
    reasons = [text.reason for text in judgment.plausibility.texts]
    assert reasons[0] is None
    assert reasons[1] == "this text has no rationale."
    assert reasons[2] == "no word that the model reads is marked in this text."
    assert reasons[3] == "every word of this text is marked, so all orders are equally good."
    assert "no words" in reasons[4]
    assert reasons[5] == (
        "the span [0, 99] must satisfy 0 ≤ start ≤ end ≤ 8, the length of the text."
    )
    assert reasons[6].startswith("the span [3, 1] must satisfy ")
    assert judgment.plausibility["loo"].texts == 1
    assert judgment.plausibility.warnings[:2] == (
        "Intervals and p-values need at least 10 texts, not 1. Judge 30 or more.",
        "6 of 7 texts could not be judged. See the reason of each text.",
    )
    assert Judgment.from_json(judgment.to_json()) == judgment
    empty = judge(MODEL, texts[:1], ["loo"], rationales=[float("nan")]).plausibility
    assert empty["loo"].precision is None
    assert empty.verdict.endswith("No method can be judged on these texts.")


@pytest.mark.parametrize(
    ("rationales", "message"),
    [
        ([], "rationales must have one entry per text, not 0 for 1 texts."),
        ("words", "must be a list with one entry per text"),
        (
            ["0-5"],
            "the rationale of text 0 must be a list of [start, end] in characters, or one such "
            "list per annotator, not '0-5'.",
        ),
        ([[[0, 1.5]]], "not [[0, 1.5]]."),
        ([[[0, float("nan")]]], "not [[0, nan]]."),
        ([[[0, 1], [[2, 3]]]], "not [[0, 1], [[2, 3]]]."),
        ([[{"start": 0, "end": 1}]], "not [{'start': 0, 'end': 1}]."),
        ([[True, False]], "not [True, False]."),
        ([{(0, 1): 2}], "not {(0, 1): 2}."),
        ([iter([[0, 1]])], "not <list_iterator object"),
        ([[iter([[0, 1]])]], "not [<list_iterator object"),
        ([[{0: 1, 2: 3}]], "not [{0: 1, 2: 3}]."),
    ],
)
def test_a_wrong_rationale_raises_an_error_before_any_method_runs(rationales, message):
    def never(model, text):
        raise AssertionError

    with pytest.raises(InputError) as error:
        judge(MODEL, ["w1 w2"], [never], rationales=rationales)
    assert message in str(error.value)


def test_an_annotator_with_an_empty_span_only_marked_nothing():
    texts = ["a fine film", "a dull film"]
    marked, empty = ([[[2, 6]], second] for second in ([], [[3, 3]]))
    assert Rationales.parse(marked, texts) == Rationales.parse(empty, texts)


def test_spans_overlap_are_empty_or_touch_part_of_a_word():
    text = "good films and bad ones"
    arguments = [[[12, 14], [0, 3], [2, 7], [4, 4]], None]
    (value, _), share = Rationales.parse(arguments, [text, "a b"])
    assert share == pytest.approx(3 / 5)
    assert value == (((0, 7), (12, 14)),)
    (marks,) = locate_marks(build_features(ModelInput(text=text, tokens=tokenize(text))), value)
    assert marks.is_marked.tolist() == [True, True, True, False, False]
    assert marks.runs == ((0, 2), (2, 3))
    (value,) = Rationales.parse([[[4, 11], [5, 7], [19, 23]]], [text]).per_text
    assert value == (((4, 11), (19, 23)),)
    (marks,) = locate_marks(build_features(ModelInput(text=text, tokens=tokenize(text))), value)
    assert marks.runs == ((1, 2), (4, 5))  # the spaces at its ends belong to no word


def test_as_many_places_are_predicted_as_people_mark_in_the_mean():
    """The mean share is 5/16: two of eight places, one of four, one of two."""
    texts = ["w1 w2 w3 w4 w5 w6 w7 w8", "w8 w7 w6 w5 w4 w3 w2 w1", "w1 w2 w3 w4", "w1 w2"]
    marked = [[[0, 2]], [[0, 8]], [[3, 5]], [[0, 2]]]
    shares = [1 / 8, 3 / 8, 1 / 4, 1 / 2]

    def falling(model, text):
        return [-float(i) for i in range(len(text.split()))]

    result = judge(MODEL, texts, [falling], rationales=marked).plausibility
    assert result.share == pytest.approx(np.mean(shares))
    assert [text.token_f1.methods[0] for text in result.texts] == pytest.approx(
        [2 * 1 / (2 + 1), 2 * 2 / (2 + 3), 0.0, 1.0]
    )
    assert [text.iou_recall.methods[0] for text in result.texts] == [1.0, 1.0, 0.0, 1.0]


def test_erasers_measures_on_examples_worked_by_hand():
    chosen = strongest_positions(np.array([2.0, 1.0, 3.0]), np.array([0, 1, 2, 1, 0, 1]), 4)
    assert chosen.tolist() == [True, True, True, False, True, False]
    assert find_runs(chosen) == [(0, 3), (4, 5)]
    assert find_runs(np.zeros(3, bool)) == []
    # [0, 3) against [1, 4): 2 of 4; [4, 5) against [4, 7): 1 of 3.
    assert span_precision_recall([(0, 3), (4, 5)], [(1, 4), (4, 7)]) == (0.5, 0.5)
    assert span_precision_recall([(0, 3)], [(1, 5), (8, 9)]) == (0.0, 0.0)  # 2 of 5
    assert span_precision_recall([(0, 2), (4, 6), (8, 9)], [(0, 2)]) == (1 / 3, 1.0)
    assert span_precision_recall([], [(0, 1)]) == (0.0, 0.0)
    # 3 of 4 predicted places are among 5 marked ones: P = 3/4, R = 3/5.
    assert token_f1(3, predicted=4, marked=5) == 2 / 3
    assert f1_contributions(np.array([[3 / 4]]), np.array([[3 / 5]])).item() == pytest.approx(2 / 3)
    assert f1_contributions(np.zeros((2, 1)), np.zeros((2, 1))).tolist() == [[0.0], [0.0]]


def test_iou_f1_is_that_of_mean_precision_and_mean_recall(judgment):
    result = judgment.plausibility
    i = [m.method for m in result.methods].index("guessed")
    p, r = (
        np.mean([getattr(text, name).methods[i] for text in result.texts])
        for name in ("iou_precision", "iou_recall")
    )
    assert result["guessed"].iou_f1 == pytest.approx(2 * p * r / (p + r))
    tokens = [text.token_f1.methods[i] for text in result.texts]
    assert result["guessed"].token_f1 == pytest.approx(np.mean(tokens))
    assert result["chance"].iou_f1 is None


@pytest.mark.parametrize(("signed", "precision"), [(False, 1.0), (True, 1 / 4)])
def test_words_without_signs_are_ranked_by_size(signed, precision):
    text, scores = "w1 w2 w3 w4", np.array([-5.0, 1.0, 2.0, 3.0])
    rationales = Rationales.parse([[[0, 2]]], [text])
    candidates = [Candidate("m", "m", signed, list)]
    result = compare_with_rationale(
        ScoredText(0, prepare_batch(MODEL, [text]), candidates, [scores]), rationales
    )
    assert result.precision.methods[0] == pytest.approx(precision)
