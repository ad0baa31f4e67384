"""Mistakes, representative texts, slices and two runs, against plain loops and brute force."""

import io
import itertools
import json
import math
from datetime import date, timedelta
from statistics import fmean, variance

import numpy as np
import pytest
from rich.console import Console

import limelight
from limelight import explain_data
from limelight.errors import InputError

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

import duckdb
import pyarrow as pa
from scipy import stats

from limelight.judging.statistics import holm_p_values
from limelight.results.summary import COLUMNS, RIGHT
from limelight.runs import Run
from limelight.runs.sql import confidence_sql, predicted_sql
from limelight.runs.statistics import (
    WordMoments,
    compare_words,
    differing_words,
    greedy_cover,
    share_interval,
)
from limelight.runs.words import WORDS_PER_TEXT

from runs import make_run, moments, select_words
from tiny_models import random_texts, tiny_model

COUNT = 60


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    rng = np.random.default_rng(3)
    columns = {
        "stars": rng.integers(1, 4, COUNT).tolist(),
        "size": rng.normal(size=COUNT).tolist(),
        "day": [date(2024, 1, 1) + timedelta(days=int(d)) for d in rng.integers(0, 90, COUNT)],
        "shop": rng.choice(["a", "b", None], COUNT).tolist(),
    }
    folder = tmp_path_factory.mktemp("summary")
    labels = rng.choice(["class 0", "class 1"], COUNT).tolist()
    return make_run(folder, random_texts(COUNT, seed=7), labels=labels, columns=columns)


def predicted(e):
    return max(e.prediction, key=e.prediction.get)


def run_labels(run):
    return run.texts()["label"].to_pylist()


def test_accuracy_and_mistakes_are_those_of_a_loop(run):
    summary = run.summary(by=None, top=7)
    (view,), mistakes = summary.views.records(), summary.mistakes.records()
    rows = []
    for row, (e, label) in enumerate(zip(run, run_labels(run), strict=True)):
        odds = np.exp(list(e.prediction.values()))
        if predicted(e) != label:
            rows.append((row, predicted(e), label, odds.max() / odds.sum()))
    rows.sort(key=lambda record: -record[3])
    assert (view["right"], view["labeled"]) == (COUNT - len(rows), COUNT)
    result = [[text[name] for name in ("row", "predicted", "label")] for text in mistakes]
    assert result == [list(record[:3]) for record in rows[:7]]
    sure = [text["confidence"] for text in mistakes]
    assert sure == pytest.approx([record[3] for record in rows[:7]], rel=1e-6)
    assert all(text["explanation"] == run.explanation(text["row"]) for text in mistakes)
    table = run.mistakes(count=40).to_pylist()
    assert [row["row"] for row in table] == [record[0] for record in rows[:40]]
    assert {row["predicted"] for row in table} == set(run.classes)
    for row in table:
        e = run.explanation(row["row"])
        side = 1 if row["predicted"] == e.target else -1
        for_it = [(side * s, w) for w, s in zip(e.features, e.scores, strict=True)]
        assert row["words"] == [w for s, w in sorted(for_it, reverse=True)[:5] if s > 0]
    # The same words stand in the summary, its JSON and on the terminal.
    mistake_words = [row["words"] for row in table[:7]]
    assert [text["words"] for text in mistakes] == mistake_words
    content = json.loads(summary.to_json())["mistakes"]
    assert [record["words"] for record in content] == mistake_words
    Console(file=(file := io.StringIO()), width=140).print(summary)
    lines = [record.strip() for record in file.getvalue().splitlines()]
    (head,) = (i for i, record in enumerate(lines) if record.startswith("mistake "))
    for line, words in zip(lines[head + 1 : head + 4], mistake_words, strict=False):
        assert line.endswith("%  " + ", ".join(words))


@pytest.mark.parametrize(
    ("link", "outputs", "expected"),
    [
        ("softmax", [1.0, 3.0], (1, 1 / (1 + math.exp(-2)))),
        ("softmax", [-0.5], (0, 1 / (1 + math.exp(-0.5)))),  # one output is that of the last class
        ("sigmoid", [1.0, 3.0], (1, 1 / (1 + math.exp(-3)))),  # each class has its own
        ("none", [1.0, 3.0], (1, 2.0)),  # no probability: a margin
        ("none", [-0.5], (0, 0.5)),
    ],
)
def test_how_sure_a_model_is_follows_its_link(link, outputs, expected):
    prediction_query = f"(SELECT {outputs}::FLOAT[] AS prediction)"
    query = f"SELECT {predicted_sql(2)}, {confidence_sql(link)} FROM {prediction_query}"
    with duckdb.connect() as connection:
        result = connection.execute(query).fetchall()
    assert result == [(expected[0], pytest.approx(expected[1]))]


def test_labels_may_be_numbers_of_classes(run, tmp_path):
    numbers = [int(label[-1]) for label in run_labels(run)]
    other = make_run(tmp_path, run.texts()["text"].to_pylist(), labels=numbers)
    (view,), (same,) = (opened_run.summary(by=None).views.records() for opened_run in (run, other))
    assert all(view[name] == same[name] for name in RIGHT)


def test_labels_that_are_no_classes_say_so(tmp_path):
    run = make_run(tmp_path, random_texts(9), labels=["good"] * 9)
    result = run.summary()
    assert result.views.records()[0]["right"] is None
    assert not result.mistakes.rows
    assert "The label 'good' matches no class of the model" in result.warnings[0]


def test_words_are_compared_by_welch_and_holm():
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(0, 1, 30), rng.normal(gap, 2, 12)) for gap in (0, 0, 0, 4, 0)]
    pairs.append((rng.normal(0, 1, 4), rng.normal(9, 1, 12)))  # too few texts
    groups = [moments(*(pair[k] for pair in pairs)) for k in (0, 1)]
    table = compare_words(*groups)
    result = {name: table[name].to_numpy() for name in table.column_names}
    assert result["number"].tolist() == [0, 1, 2, 3, 4]
    tests = [stats.ttest_ind(b, a, equal_var=False) for a, b in pairs[:5]]
    for i, test in enumerate(tests):
        assert result["p"][i] == pytest.approx(test.pvalue, rel=1e-8)
        low, high = test.confidence_interval()
        assert result["low"][i] == pytest.approx(low, abs=0.02)  # freedom is rounded down
        assert result["low"][i] <= low
        assert high <= result["high"][i]
    (sure,) = differing_words(list("abcdef"), [("class", table)]).to_pylist()
    assert sure["word"] == "d"
    assert sure["p_holm"] == pytest.approx(holm_p_values([t.pvalue for t in tests])[3], rel=1e-6)


def test_chance_alone_hardly_ever_finds_a_word():
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(100):
        groups = [moments(*rng.normal(0, 1, (20, n))) for n in (9, 25)]
        tests = [("all", compare_words(*groups))]
        hits += bool(differing_words([str(i) for i in range(20)], tests).num_rows)
    assert hits <= 5 + 5 * (100 * 0.05 * 0.95) ** 0.5


def test_mistakes_are_compared_within_the_predicted_sql(run):
    (view,) = run.summary(by=None).views.records()
    count = 0
    for name in run.classes:
        scores = [{}, {}]
        for e, label in zip(run, run_labels(run), strict=True):
            if predicted(e) == name:
                for word, score in zip(e.features, e.scores, strict=True):
                    scores[label != name].setdefault(word, []).append(score)
        count += sum(len(x) >= 5 and len(scores[1].get(w, [])) >= 5 for w, x in scores[0].items())
    assert view["compared"] == count > 0


def cover(words, weight, chosen):
    return sum(weight[j] for j in {j for i in chosen for j in words[i] if j >= 0})


@pytest.mark.parametrize("seed", range(20))
def test_greedy_choice_keeps_its_guarantee_against_all_choices(seed):
    rng = np.random.default_rng(seed)
    words = np.array([rng.choice(14, 4, replace=False) for _ in range(9)])
    words[rng.random(words.shape) < 0.2] = -1
    weight = rng.random(14)
    for count in (1, 2, 3, 4):
        chosen, covered = greedy_cover(words, weight, count)
        best = max(cover(words, weight, s) for s in itertools.combinations(range(9), count))
        mine = cover(words, weight, chosen)
        assert mine >= (1 - 1 / np.e) * best - 1e-12
        all_covered = cover(words, weight, range(9))
        assert covered[-1] == pytest.approx(mine / all_covered)
        if count == 1:
            assert mine == pytest.approx(best)


def test_greedy_choice_takes_what_adds_most_and_stops_when_nothing_does():
    words = np.array([[0, 1], [0, 2], [2, -1], [0, 1]])
    chosen, covered = greedy_cover(words, np.array([3.0, 2.0, 1.0]), 4)
    assert chosen == [0, 1]
    assert covered == pytest.approx([5 / 6, 1.0])


def test_representatives_are_those_of_a_loop_over_all_texts(run):
    result = run.representative(count=4).to_pylist()
    explanations = list(run)
    size = {}
    for e in explanations:
        for word, score in zip(e.features, e.scores, strict=True):
            size[word] = size.get(word, 0) + abs(score)
    shown_words = [{word for word, score in e.top(WORDS_PER_TEXT) if score} for e in explanations]
    covered, chosen = set(), []
    for _ in range(4):
        gains = [sum(size[w] ** 0.5 for w in words - covered) for words in shown_words]
        chosen.append(int(np.argmax(gains)))
        covered |= shown_words[chosen[-1]]
    assert [row["row"] for row in result] == chosen
    total = sum(size[w] ** 0.5 for w in set().union(*shown_words))
    share = sum(size[w] ** 0.5 for w in covered) / total
    assert result[-1]["covered"] == pytest.approx(share, rel=1e-6)


@pytest.mark.parametrize("by", ["stars", "shop", "label", "size", "day", "length"])
def test_slices_split_the_texts_and_count_as_a_loop_does(run, by):
    rows = run.slices(by).to_pylist()
    explanations, labels = list(run), run_labels(run)
    values = (
        [len(e.features) for e in explanations] if by == "length" else run.texts()[by].to_pylist()
    )
    assert sum(row["texts"] for row in rows) == COUNT
    assert len(rows) > 1
    if len(set(values)) > 12:
        order = sorted(range(COUNT), key=lambda i: values[i])
        sizes = [row["texts"] for row in rows]
        edges = list(itertools.accumulate(sizes, initial=0))
        groups = [order[a:b] for a, b in itertools.pairwise(edges)]
        assert max(sizes) < COUNT / 2
    else:
        named = [None if row["slice"] == "(no value)" else row["slice"] for row in rows]
        groups = [
            [i for i, v in enumerate(values) if (None if v is None else str(v)) == name]
            for name in named
        ]
    for row, group in zip(rows, groups, strict=True):
        target = [i for i in group if predicted(explanations[i]) == row["target"]]
        right = [i for i in group if predicted(explanations[i]) == labels[i]]
        assert (row["texts"], row["predicted"]) == (len(group), len(target))
        assert (row["right"], row["labeled"]) == (len(right), len(group))
        assert row["right_low"] <= len(right) / len(group) <= row["right_high"]


@pytest.mark.parametrize(
    ("low", "scale"), [(100.0, 12.0), (0.0, 1e-5), (-1e6, 3.0), (0.5, 1e9), (7.0, 0.1)]
)
def test_texts_are_cut_where_the_name_of_a_slice_says_in_few_digits(tmp_path, low, scale):
    prices = (low + scale * np.random.default_rng(3).standard_normal(80)).tolist()
    run = make_run(tmp_path, [f"w{i % 3}" for i in range(80)], columns={"price": prices})
    rows = run.slices("price").to_pylist()
    assert len(rows) == 6
    for row, is_last in zip(rows, [False] * 5 + [True], strict=True):
        start, end = row["slice"].replace(" to below ", " to ").split(" to ")
        last = [x for x in prices if is_last and x == float(end)]
        inside = [x for x in prices if float(start) <= x < float(end)]
        assert row["texts"] == len(inside + last)
        assert max(map(len, (start, end))) <= 12  # the quantiles have seventeen


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([NAN, NAN, *map(float, range(38))], {"0 to below 6": 6, "(no value)": 2}),
        ([-INF, INF, *map(float, range(38))], {"-inf to below 6": 7, "31 to inf": 8}),
        ([2**60 + i for i in range(40)], {str(2**60): 1, "(others)": 28}),
        ([None, None, *map(str, range(38))], {"0 to below 6": 6, "(no value)": 2}),  # as in csv
        (["", "x", *map(str, range(38))], {"": 1, "(others)": 28}),
    ],
)
def test_numbers_that_are_none_endless_or_too_large_have_slices_too(tmp_path, values, names):
    run = make_run(tmp_path, random_texts(40, seed=1), columns={"x": values})
    result = {row["slice"]: row["texts"] for row in run.slices("x").to_pylist()}
    assert sum(result.values()) == 40
    assert result | names == result


def test_slices_by_length_count_every_position_of_a_word(tmp_path):
    texts = ["w1 w1 w1", "w1 w2", "w2 w2 w1"] * 4
    run = make_run(tmp_path, texts, features="positions")
    result = {row["slice"]: row["texts"] for row in run.slices("length").to_pylist()}
    assert result == {"2": 4, "3": 8}


def test_a_slice_that_differs_is_found_and_one_that_does_not_is_not(tmp_path):
    other_texts = random_texts(80, seed=9, longest=2)
    texts = [
        f"w1 {other_text}" if i % 3 else f"w1 {other_text} w2 w3 w4 w5 w6 w7 w8"
        for i, other_text in enumerate(other_texts)
    ]
    group = ["short" if i % 3 else "long" for i in range(80)]
    run = make_run(tmp_path, texts, columns={"group": group, "other": ["x", "y"] * 40})
    result = run.summary(by="group").slice_words.group_rows("group")
    word = result[("short",)].records()[0]  # a word of few weighs more
    scores = {"short": [], "long": []}
    for e, name in zip(run, group, strict=True):
        if word["word"] in e.features:
            scores[name].append(e.scores[e.features.index(word["word"])])
    assert word["second"] == pytest.approx(np.mean(scores["short"]), rel=1e-6)
    assert word["first"] == pytest.approx(np.mean(scores["long"]), rel=1e-6)
    assert not run.summary(by="other").slice_words.rows
    with pytest.raises(
        InputError, match=r"unknown column to slice by: 'grupo'\. Did you mean 'group'"
    ):
        run.summary(by="grupo")


def test_wilson_intervals_are_those_of_scipy():
    for count, of in ((0, 5), (3, 7), (7, 7), (480, 1000)):
        expected = stats.binomtest(count, of).proportion_ci(method="wilson")
        scipy_interval = (expected.low, expected.high)
        assert share_interval(count, of) == pytest.approx(scipy_interval, abs=1e-12)
    assert share_interval(0, 0) == (0.0, 1.0)


def test_a_run_against_itself_shows_no_change(run):
    same = run.compare(run)
    assert (same.texts, same.only_first, same.only_second) == (COUNT, 0, 0)
    assert (same.changed_predictions, same.words.rows, same.changed_texts.rows) == (0, [], [])
    assert same.compared > 0


def test_two_models_differ_by_what_a_loop_over_shared_texts_finds(run, tmp_path):
    texts = run.texts()["text"].to_pylist()
    other = make_run(tmp_path, [*texts[:3:-1], "w1 w2 not there"], model=tiny_model(1, outputs=2))
    result = run.compare(other)
    theirs = {e.text: e for e in other}
    common = [(row, e, theirs[e.text]) for row, e in enumerate(run) if e.text in theirs]
    assert result.texts == len(common)
    assert (result.only_first, result.only_second) == (COUNT - len(common), 1)
    assert result.changed_predictions == sum(predicted(a) != predicted(b) for _, a, b in common)
    gaps, changes = {}, {}
    for row, a, b in common:
        scores_a, scores_b = (dict(zip(e.features, e.scores, strict=True)) for e in (a, b))
        for word in scores_a.keys() & scores_b.keys():
            gaps.setdefault(word, []).append(scores_b[word] - scores_a[word])
        gap = sum(abs(scores_b.get(w, 0) - scores_a.get(w, 0)) for w in scores_a | scores_b)
        changes[row] = gap / sum(abs(x) for e in (scores_a, scores_b) for x in e.values())
    assert result.compared == sum(len(x) >= 5 for x in gaps.values())
    assert result.words.rows
    for word in result.words.records():
        gap = gaps[word["word"]]
        assert word["difference"] == pytest.approx(np.mean(gap), rel=1e-5, abs=1e-9)
        low, high = stats.ttest_1samp(gap, 0).confidence_interval()
        assert (word["low"], word["high"]) == pytest.approx((low, high), rel=1e-4)
    best = sorted(changes, key=lambda row: -changes[row])[:20]
    changed = result.changed_texts.records()
    assert [text["row"] for text in changed] == best
    expected = [changes[row] for row in best]
    assert [text["change"] for text in changed] == pytest.approx(expected, rel=1e-5)


def test_a_text_that_stands_twice_is_compared_twice(tmp_path):
    texts = random_texts(6, seed=3)
    run = make_run(tmp_path, [*texts, texts[2]])
    same = run.compare(run)
    assert same.texts == 7
    assert not same.changed_texts.rows
    (tmp_path / "once").mkdir()
    once = make_run(tmp_path / "once", [texts[2], "w1 w2 not there"])
    result = run.compare(once), once.compare(run)
    assert [(c.only_first, c.only_second) for c in result] == [(5, 1), (1, 5)]


def test_two_methods_are_compared_by_shares_of_a_text(tmp_path):
    run = make_run(tmp_path, random_texts(20, seed=3), methods=("gxi", "lime"))
    result = run.compare(run, "gxi", other_method="lime")
    assert result.shares
    assert result.methods == ("gxi", "lime")
    a, b = ({row: run.explanation(row, m) for row in range(20)} for m in result.methods)
    changed = result.changed_texts.records()[0]
    row = changed["row"]
    shares_a, shares_b = (e[row].scores / np.abs(e[row].scores).sum() for e in (a, b))
    assert changed["change"] == pytest.approx(np.abs(shares_a - shares_b).sum() / 2, rel=1e-5)
    assert run.compare(run, "lime").shares is False


def test_runs_without_a_common_text_or_with_other_features_are_not_compared(run, tmp_path):
    sentences = explain_data(
        tiny_model(), ["w1 w2. w3"], "gxi", output=tmp_path / "units", features="sentences"
    )
    with pytest.raises(
        InputError,
        match=r"explains words, but '.*' explains sentences\. Compare runs with the same features",
    ):
        run.compare(sentences)
    other = make_run(tmp_path, ["w1 w2 w3"])
    with pytest.raises(
        InputError, match="have no text in common that both explain for the same class"
    ):
        run.compare(other)
    with pytest.raises(InputError, match="unknown method of"):
        run.compare(other, "gxi", other_method="gxj")


def test_a_run_of_one_text_has_a_summary(tmp_path):
    run = make_run(tmp_path, ["w1 w2 w1"])
    summary = run.summary()
    (view,), (text,) = summary.views.records(), summary.representatives.records()
    assert (view["texts"], view["vocabulary"]) == (1, 2)
    assert all(word["rare"] for word in select_words(summary, "for", "against"))
    assert (text["row"], text["covered"]) == (0, 1.0)


@pytest.mark.parametrize(
    ("bad", "warning"),
    [
        (
            ["", None, "  "],
            "3 rows have an error instead of scores. Start the run again with retry (--retry).",
        ),
        ([""], "1 row has an error instead of scores. Start the run again with retry (--retry)."),
    ],
)
def test_failed_rows_are_counted_and_do_not_count(tmp_path, bad, warning):
    run = make_run(tmp_path, [*random_texts(10, seed=1), *bad])
    result = run.summary()
    assert result.failed == run.failed == len(bad)
    assert result.views.records()[0]["texts"] == 10
    assert result.warnings[0] == warning


def test_a_run_in_which_all_texts_failed_has_no_summary(tmp_path):
    run = make_run(tmp_path, ["", " "])
    with pytest.raises(
        InputError,
        match=r"has no explanations: it has 2 of 2 texts, and 2 rows failed .*retry \(--retry\)",
    ):
        run.summary()


def test_a_run_without_shards_has_no_summary(run, tmp_path):
    (tmp_path / "run.json").write_bytes((run.path / "run.json").read_bytes())
    with pytest.raises(
        InputError, match="has no explanations: it has 0 of 60 texts, and 0 rows failed"
    ):
        Run(tmp_path).summary()


def test_methods_without_signs_have_one_list(tmp_path):
    run = make_run(tmp_path, random_texts(20, seed=2), methods=("alpha-avg",))
    summary = run.summary()
    assert not summary.views.records()[0]["signed"]
    assert {word["kind"] for word in summary.words.records()} - {"phrase"} == {"size"}


def test_a_run_that_stores_no_texts_still_has_a_summary(tmp_path):
    run = make_run(tmp_path, random_texts(20, seed=2), store_texts=False)
    result = run.summary()
    assert all(text["explanation"] is None for text in result.representatives.records())
    assert "this run stores no texts" in result.as_html()


def test_json_and_csv_hold_what_the_summary_does(run):
    result = run.summary(top=6)
    read = json.loads(result.to_json())
    assert read["schema"] == "limelight.summary/2"
    for name in COLUMNS.keys() - {"mistakes", "representatives"}:
        assert read[name] == getattr(result, name).records()
    for name in ("mistakes", "representatives"):
        for row, record in zip(read[name], getattr(result, name).records(), strict=True):
            assert row.pop("explanation") == json.loads(record.pop("explanation").to_json())
            assert row == record
    assert len(result.to_csv().splitlines()) == 1 + len(result.words.rows) > 1
    assert result.words.to_frame()["word"].tolist() == [row["word"] for row in read["words"]]


def test_a_summary_of_each_view_has_the_rows_of_that_view(tmp_path):
    run = make_run(tmp_path, random_texts(30, seed=2), methods=("gxi", "alpha-avg"))
    summary = run.summary()
    parts = summary.split_views()
    assert [part.views.records()[0]["method"] for part in parts] == list(run.methods)
    for name in COLUMNS:
        rows = [row for part in parts for row in getattr(part, name).rows]
        assert sorted(map(repr, rows)) == sorted(map(repr, getattr(summary, name).rows))
        assert all(len(part.views.rows) == 1 for part in parts)


def test_tables_are_plain_arrow_and_become_frames(run):
    for table in (run.words(), run.mistakes(), run.representative(), run.slices("stars")):
        assert isinstance(table, pa.Table)
        assert len(table.to_pandas()) == len(table) > 0


def test_moments_of_nothing_are_zero():
    zeros = WordMoments(*np.zeros((6, 3)))
    assert not zeros.mean.any()
    assert not zeros.variance.any()


def test_means_are_shrunk_by_what_sampling_leaves_of_their_spread():
    """By hand: the variance of the means, unbiased, less what their own errors explain."""
    samples = [[1.0, 1.9, 0.4], [-0.5, 0.3], [0.6, 2.4, 1.1, 0.2]]
    n, mean = [len(x) for x in samples], [fmean(x) for x in samples]
    squares = [(k - 1) * variance(x) for k, x in zip(n, samples, strict=True)]
    common = sum(squares) / (sum(n) - 3)
    error = [(s + 4 * common) / (k + 3) / k for k, s in zip(n, squares, strict=True)]
    between = variance(mean) - fmean(error)
    assert between > 0
    away = [m - fmean(mean) for m in mean]
    wanted = [
        fmean(mean) + d * max(between / (between + e), 1 - math.sqrt(e) / abs(d))
        for d, e in zip(away, error, strict=True)
    ]
    np.testing.assert_allclose(moments(*samples).shrunken[0], wanted, rtol=1e-12)


def test_a_column_of_the_data_wins_over_a_built_in_name(tmp_path):
    texts = ["w1 w2 w3", "w2 w4", "w1"] * 4
    columns = {
        "length": ["short", "long"] * 6,
        "label": ["x"] * 12,
        "none": ["y"] * 12,
        "scores": ["z"] * 12,
        "sentiment": ["class 1"] * 12,
    }
    data = {"text": texts, **columns}
    run = limelight.explain_data(
        tiny_model(outputs=2), data, "gxi", output=tmp_path / "run", label_column="sentiment"
    )
    named = {"length": {"long", "short"}, "label": {"x"}, "none": {"y"}, "scores": {"z"}}
    named |= {"data.label": {"x"}, "data.scores": {"z"}, "sentiment": {"class 1"}}
    named["built-in length"] = {"1", "2", "3"}
    for by, slices in named.items():
        assert set(run.slices(by)["slice"].to_pylist()) == slices
    slices = run.summary(by="length").slices.records()
    assert {part["slice"] for part in slices} == {"long", "short"}
    result = run.sql('SELECT DISTINCT length, label, "data.label", none FROM texts ORDER BY 1')
    assert result["length"].to_pylist() == ["long", "short"]
    assert {row["data.label"] for row in result.to_pylist()} == {"x"}
    assert {row["label"] for row in result.to_pylist()} == {"class 1"}
    with pytest.raises(InputError, match=r"unknown column to slice by: 'size'\. Choose from: "):
        run.slices("size")
