"""Words over a run, against plain loops over its explanations."""

import itertools
import math
import statistics
from collections import defaultdict

import numpy as np
import pytest

import limelight
from limelight.errors import InputError

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

from scipy import stats

from limelight.runs.sql import open_database
from limelight.runs.statistics import t_quantile, two_sided_p
from limelight.runs.words import RunWords, mean_contribution

from runs import make_run, moments, select_words
from tiny_models import random_texts, tiny_model

COUNT = 41


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    texts = random_texts(COUNT, seed=5)
    labels = [i % 2 for i in range(COUNT)]
    folder = tmp_path_factory.mktemp("words")
    return make_run(folder, texts, methods=("gxi", "alpha-avg"), labels=labels)


def sum_words_by_loop(run, method="gxi"):
    """Return {target: {word: [(score, occurrences), …]}}, one pair per text."""
    result = defaultdict(lambda: defaultdict(list))
    for e in run:
        if e.method != method:
            continue
        for word, spans, score in zip(e.features, e.spans, e.scores, strict=True):
            result[e.target][word].append((float(score), len(spans)))
    return result


@pytest.mark.parametrize("method", ["gxi", "alpha-avg"])
def test_counts_and_means_are_those_of_a_loop_over_all_explanations(run, method):
    ((target, expected),) = sum_words_by_loop(run, method).items()
    rows = run.words(method).to_pylist()
    assert {row["word"] for row in rows} == set(expected)
    assert max(row["occurrences"] - row["texts"] for row in rows) > 0
    for row in rows:
        scores = np.array([score for score, _ in expected[row["word"]]])
        assert (row["method"], row["target"]) == (method, target)
        assert row["texts"] == len(scores)
        assert row["occurrences"] == sum(times for _, times in expected[row["word"]])
        assert row["mean"] == pytest.approx(scores.mean(), rel=1e-9, abs=1e-12)
        assert row["mean_abs"] == pytest.approx(np.abs(scores).mean(), rel=1e-9)
        assert row["positive"] == pytest.approx((scores > 0).mean())
        assert row["rare"] == (len(scores) < 5)
        assert row["low"] <= row["shrunken"] <= row["high"]


def test_words_are_sorted_by_the_chosen_column(run):
    for sort in ("mean", "mean_abs", "total", "texts", "occurrences"):
        values = run.words(sort=sort).column(sort).to_pylist()
        assert values == sorted(values, reverse=True)
        assert values != sorted(values)
    assert (words := run.words(sort="word")["word"].to_pylist()) == sorted(words)
    rare = run.words()["rare"].to_pylist()
    assert rare == sorted(rare)  # what one text says leads no table
    with pytest.raises(InputError, match=r"unknown sort order: 'size'\. Choose from: "):
        run.words(sort="size")


def test_scores_for_different_classes_are_kept_apart(tmp_path):
    run = make_run(
        tmp_path, random_texts(23, seed=1), model=tiny_model(outputs=3), all_classes=True
    )
    table, expected = run.words(), sum_words_by_loop(run)
    assert set(table["target"].to_pylist()) == {"class 0", "class 1", "class 2"}
    for row in table.to_pylist():
        scores = [score for score, _ in expected[row["target"]][row["word"]]]
        assert row["mean"] == pytest.approx(np.mean(scores), rel=1e-9, abs=1e-12)
    class_words = run.words(target="class 1")
    assert set(class_words["target"].to_pylist()) == {"class 1"}
    assert len(run.summary(by=None).views.rows) == 3
    with pytest.raises(
        InputError, match=r"unknown explained class: 'class 9'\. .*Choose from: class 0, class 1"
    ):
        run.words(target="class 9")


def test_the_predicted_class_makes_a_view_of_each_class(tmp_path):
    run = make_run(
        tmp_path, random_texts(30, seed=2), model=tiny_model(outputs=3), target="predicted"
    )
    views = run.summary(by=None).views.records()
    expected = sum_words_by_loop(run)
    assert {view["target"] for view in views} == set(expected)
    assert len(views) > 1
    assert sum(view["texts"] for view in views) == 30


def test_intervals_cover_the_true_means_of_a_population_of_words():
    rng = np.random.default_rng(0)
    missed = total = 0
    for _ in range(40):
        truth = rng.normal(0.3, 0.5, 60)
        sizes = rng.integers(1, 12, 60)
        samples = (rng.normal(m, 0.8, n) for m, n in zip(truth, sizes, strict=True))
        _, low, high = moments(*samples).shrunken
        missed += int(((truth < low) | (truth > high)).sum())
        total += 60
    share = missed / total
    assert 0.01 < share < 0.05 + 5 * math.sqrt(0.05 * 0.95 / total)


def test_a_rare_word_is_drawn_to_the_others_and_a_frequent_one_stays():
    rng = np.random.default_rng(1)
    other_samples = [list(rng.normal(0, 0.3, 40)) for _ in range(50)]
    once, often = [2.0], list(rng.normal(2.0, 0.3, 4000))
    data = moments(*other_samples, once, often)
    mean, low, high = data.shrunken
    assert mean[50] < 1.9 < 1.98 < mean[51]
    moved = np.abs(mean - data.mean)
    error = (high - low) / 2
    assert (moved <= error + 1e-12).all()  # no further than its standard error
    assert high[50] - low[50] > 10 * (high[51] - low[51])


def test_words_that_never_vary_have_exact_means():
    mean, low, high = moments([1.0, 1.0, 1.0], [2.0, 2.0]).shrunken
    assert np.array_equal(mean, [1.0, 2.0])
    assert np.array_equal(low, high)


def test_strength_is_the_end_of_the_interval_nearer_to_zero():
    words = moments([1.0, 2.0, 3.0], [-1.0, -2.0, -3.1], [-1.0, 1.0, 0.1])
    expected = [max(low, -high, 0.0) for _, low, high in words.shrunken.T.tolist()]
    assert words.strength.tolist() == expected


def test_students_distribution_is_that_of_scipy():
    t = np.array([0.0, 0.1, 1.0, 2.5, 7.0, 40.0, 1e3, np.inf])
    for nu in (1.0, 1.7, 4.0, 29.3, 400.0, 1e5):
        freedom = np.full_like(t, nu)
        assert two_sided_p(t, freedom) == pytest.approx(2 * stats.t.sf(t, nu), rel=1e-8, abs=1e-300)
    freedom = np.array([1.0, 2.0, 4.0, 30.0, 400.0, 401.0, 5000.0, 1e6])
    assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=2e-6)


def test_phrases_are_those_of_a_loop_over_neighbors(tmp_path):
    rng = np.random.default_rng(8)
    vocabulary = ("w1", "w2", "w3", "w4", "w5", "w6", "w7,")  # no phrase reaches over a comma
    texts = [" ".join(rng.choice(vocabulary, rng.integers(4, 12))) for _ in range(60)]
    run = make_run(tmp_path, texts, model=tiny_model(4, outputs=2))
    summary = run.summary("gxi", by=None, top=1000)
    with open_database(run) as tables:
        words = RunWords(tables, run, "gxi")
        words.compute_sums()
    carried = dict(
        zip(
            words.words,
            mean_contribution(words.moments(next(iter(words.views)))).tolist(),
            strict=True,
        )
    )
    texts = defaultdict(dict)
    for number, e in enumerate(e for e in run if e.method == "gxi"):
        places = sorted(
            (start, end, word, score / len(spans))
            for word, spans, score in zip(e.features, e.spans, e.scores, strict=True)
            for start, end in spans
        )
        for size in (2, 3):
            for i in range(len(places) - size + 1):
                part = places[i : i + size]
                if any(b[0] - a[1] > 1 for a, b in itertools.pairwise(part)):
                    continue
                contributions = [carried[occurrence[2]] for occurrence in part]
                total = sum(contributions)
                if not total or not all(x and x / total >= 0.2 for x in contributions):
                    continue
                words = " ".join(occurrence[2] for occurrence in part)
                so_far = texts[words].get(number, 0.0)
                texts[words][number] = so_far + sum(occurrence[3] for occurrence in part)
    frequent = {words: list(x.values()) for words, x in texts.items() if len(x) >= 5}
    phrases = select_words(summary, "phrase")
    assert phrases
    for phrase in phrases:
        assert phrase["texts"] == len(frequent[phrase["word"]])
        assert phrase["mean"] == pytest.approx(np.mean(frequent[phrase["word"]]), rel=1e-6)
    certain = {words for words, x in frequent.items() if min(x) > 0 or max(x) < 0}
    assert certain
    assert certain <= {phrase["word"] for phrase in phrases}
    assert len(frequent) < len(texts)  # the others are in too few


def test_examples_are_the_texts_in_which_a_word_scores_most(run):
    summary = run.summary("gxi", by=None, top=5)
    explanations = [e for e in run if e.method == "gxi"]
    examples = summary.examples.group_rows("word")
    for side, kind in ((1, "for"), (-1, "against")):
        words = select_words(summary, kind)
        assert words
        for name in (word["word"] for word in words):
            scores = {
                row: float(e.scores[e.features.index(name)])
                for row, e in enumerate(explanations)
                if name in e.features
            }
            best = sorted(scores, key=lambda row: (-side * scores[row], row))[:5]
            records = examples[(name,)].records()
            assert [example["row"] for example in records] == best
            for example in records:
                text = explanations[example["row"]].text
                assert example["before"] + example["match"] + example["after"] in text
                assert example["match"] == name
                assert example["id"] == f"t{example['row']}"
                assert example["score"] == pytest.approx(scores[example["row"]], rel=1e-6)


def test_examples_are_cut_by_characters_and_not_by_what_a_reader_takes_for_one(tmp_path):
    model = limelight.wrap(
        lambda texts: [[0.0, 1.0 * len(t)] for t in texts], classes=["a", "b"], scale="logit"
    )
    symbols = "\U0001f986\u200d\U0001f467"  # one to a reader, three characters
    texts = ["e\u0301" * k + f" {symbols} good\r\n" + "film " * 20 for k in range(1, 7)]
    run = limelight.explain_data(model, {"text": texts}, "loo", output=tmp_path / "run")
    examples = [row for row in run.summary().examples.records() if row["word"] == "good"]
    assert len(examples) == 5
    for row in examples:
        text = texts[row["row"]]
        start = text.index("good")
        assert row["before"] == text[max(start - 60, 0) : start]
        assert (row["match"], row["after"]) == ("good", text[start + 4 : start + 64])


def test_places_of_one_word_in_a_text_count_once(tmp_path):
    texts = [" ".join(["w1", "w2", "w2", "w1", f"w{i % 5}"]) for i in range(12)]
    run = make_run(tmp_path, texts, features="positions")
    expected = defaultdict(lambda: defaultdict(float))
    for number, e in enumerate(run):
        for word, score in zip(e.features, e.scores, strict=True):
            expected[word][number] += score
    rows = {row["word"]: row for row in run.words().to_pylist()}
    assert set(rows) == set(expected)
    for word, scores in expected.items():
        assert rows[word]["texts"] == len(scores)
        assert rows[word]["mean"] == pytest.approx(np.mean(list(scores.values())), rel=1e-6)
    assert rows["w1"]["occurrences"] > rows["w1"]["texts"]
    for phrase in select_words(run.summary(top=50), "phrase"):
        assert phrase["texts"] == sum(f" {phrase['word']} " in f" {text} " for text in texts)


def test_the_variance_of_a_word_is_the_unbiased_one():
    samples = [1.0, 2.5, -3.0], [0.5, 0.7], [4.0]
    result = moments(*samples).variance
    assert result.tolist() == pytest.approx([*map(statistics.variance, samples[:2]), 0.0])


def test_function_words_that_score_alike_do_not_lead(tmp_path):
    """Every text has five small, certain words; what is said of "good" is less certain."""
    value = {"the": 0.2, "and": 0.3, "of": 0.1, "a": 0.25, ",": 0.2, "bad": -1.0}

    def score(texts):
        rows = []
        for text in texts:
            words = text.split()
            last = sum(int(word) for word in words if word.isdecimal())
            more = (0.5 + 0.3 * (last // 16 % 5 - 2)) * ("good" in words)
            rows.append([0.0, more + sum(value.get(word, 0.0) for word in words)])
        return rows

    model = limelight.wrap(score, classes=["n", "p"], scale="logit")
    texts = [f"the and of a , {'good' if i % 16 == 0 else 'bad'} {i}" for i in range(200)]
    run = limelight.explain_data(model, texts, "loo", output=tmp_path / "run")
    summary = run.summary(top=3)
    assert [word["word"] for word in select_words(summary, "for")] == ["good", "and", "a"]
    assert select_words(summary, "against")[0]["word"] == "bad"  # as frequent, and not alike
    table = run.words(sort="strength").to_pylist()
    assert [row["word"] for row in table[:3]] == ["bad", "good", "and"]
    assert table[2]["low"] > table[1]["low"]  # more certain, and not distinctive
    small_run = limelight.explain_data(model, texts[:16], "loo", output=tmp_path / "few")
    assert (
        small_run.words(sort="strength").to_pylist()[1]["word"] == "and"
    )  # no background among few
