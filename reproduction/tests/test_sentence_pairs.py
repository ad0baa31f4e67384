"""Sentence pairs: rules, statistics, and a small transformer from its files to sentences."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from tokenizers import processors

import limelight
from limelight import InputError, explain
from limelight_reproduction import runner
from limelight_reproduction.questions import one_sentence, pair_rows, pair_rules, sentence_pairs
from limelight_reproduction.questions.pair_rows import METHODS
from limelight_reproduction.questions.pair_rules import (
    AGREES,
    BETTER,
    BETWEEN,
    FAITHFUL,
    FOUND,
    GIVEN_AWAY,
    TELLS,
    choose_zone,
    count_in_zone,
    judge_differences,
)
from limelight_reproduction.questions.pair_statistics import summarize_pairs
from limelight_reproduction.questions.resampled_rows import Rows
from limelight_reproduction.results import load_stored_results
from limelight_reproduction.setting import Setting

from tiny_transformers import tiny

CLASSES = ("contradiction", "neutral", "entailment")

# ------------------------------------------------------------------------ rules


@pytest.mark.parametrize(
    ("zones", "values", "words"),
    [
        (AGREES, (0.499, 0.5), ("differ", "agree")),
        (FAITHFUL, (-1.0, 0.249, 0.25, 0.499, 0.5), ("no", "no", "in part", "in part", "holds")),
        (TELLS, (0.249, 0.25, 0.5), ("no", "in part", "holds")),
        (BETTER, (-1e-9, 0.0), ("does not hold", "holds")),
        (BETWEEN, (0.099, 0.1, 0.249, 0.25), ("hardly", "in part", "in part", "holds")),
        (GIVEN_AWAY, (0.049, 0.05, 0.149, 0.15), ("hardly", "in part", "in part", "it does")),
        (FOUND, (0.499, 0.5), ("misses it", "finds it")),
    ],
)
def test_a_number_at_a_border_belongs_above_it(zones, values, words):
    assert tuple(map(zones.classify, values)) == words
    assert len(zones.words) == len(zones.borders) + 1


def test_only_an_interval_in_one_zone_settles_anything():
    assert choose_zone([0.3, 0.25, 0.49], FAITHFUL) == "in part"
    assert choose_zone([0.3, 0.24, 0.49], FAITHFUL) == "not settled: between “no” and “in part”"
    assert choose_zone([0.3, 0.1, 0.6], FAITHFUL) == "not settled: between “no” and “holds”"


def test_methods_differ_where_every_two_do():
    low, high, across = [0.2, 0.1, 0.3], [0.8, 0.7, 0.9], [0.5, 0.4, 0.6]
    assert judge_differences({"a": low, "b": low}) == "holds"
    assert judge_differences({"a": high, "b": high}) == "does not hold"
    assert judge_differences({"a": low, "b": across}) == "in part: 1 of 2 comparisons differ"
    assert count_in_zone({"a": low, "b": across, "c": high}, AGREES, "agree") == 1


# ------------------------------------------------------------------- statistics


def row(**changes):
    """A pair of four words: Shapley values 4, 3, 2, 1, and every method at chance."""
    flat = [4.0, 3.0, 2.0, 1.0]
    interactions = np.zeros((4, 4))
    interactions[0, 2] = interactions[2, 0] = -3.0
    interactions[0, 1] = interactions[1, 0] = 1.0
    created = {
        "label": 0, "decision": 0, "words": list("abca"), "second": [0, 0, 1, 1],
        "negation": [1, 0, 0, 0], "same": [[0, 3]], "scores": dict.fromkeys(METHODS, flat),
        "interactions": interactions.tolist(), "linear": 0.5,
        "variation": {"first": 0.1, "second": 0.2, "within": 0.3, "across": 0.4,
                      "across_two": 0.25, "within_two": 0.05},
        "chance": 1.0, "ceiling": 3.0, "areas": dict.fromkeys(METHODS, 1.0),
        "flips": dict.fromkeys(METHODS, 2), "fewest": 1, "single": [1, 0, 0, 0], "random": 0.6,
        "looks": [[0.1, 0.1, 0.1, 0.1], [0.2, 0.0, 0.1, 0.0]],
        "pays": [np.abs(interactions).tolist(), (-np.abs(interactions)).tolist()],
    }  # fmt: skip
    return created | changes


def summarize_rows(*rows):
    return summarize_pairs(rows, share=0.5, seed=0)


def test_a_share_is_a_sum_of_gains_over_a_sum_of_rooms():
    small = row(areas=dict.fromkeys(METHODS, 1.0) | {"lime": 2.0, "loo": 3.0, "gxi": 0.5})
    large = row(chance=0.0, ceiling=6.0, areas=dict.fromkeys(METHODS, 0.0) | {"loo": 6.0})
    result = summarize_rows(small, large)["faithful"]
    assert result["alpha-avg"] == [0.0, 0.0, 0.0]
    assert result["loo"] == [1.0, 1.0, 1.0]
    assert result["lime"][0] == pytest.approx(1 / 8)
    assert result["gxi"][0] == pytest.approx(-0.5 / 8)
    assert result["lime"][1:] == [0.0, 0.5]  # either pair alone may be drawn
    assert summarize_rows(small)["lime_over_attention"] == [0.5, 0.5, 0.5]


def test_the_interval_of_a_mean_is_that_of_many_draws():
    values = np.random.default_rng(3).standard_normal(400)
    rows = Rows([{"value": float(value)} for value in values], seed=0)
    mean, low, high = rows.mean(lambda element: element["value"])
    assert mean == pytest.approx(values.mean())
    wide = 1.96 * values.std() / math.sqrt(400)
    assert (mean - low, high - mean) == pytest.approx((wide, wide), rel=0.1)
    assert rows.mean(lambda _: None) is None
    half = rows.mean(lambda one: one["value"] if one["value"] > 0 else None)
    assert half[0] == pytest.approx(values[values > 0].mean())


def test_agreement_is_of_sizes_and_a_reversed_order_is_seen():
    same = [-4.0, 3.0, -2.0, 1.0]
    result = summarize_rows(row(scores=row()["scores"] | {
        "gxi": same, "alpha-avg": [1.0, 2.0, 3.0, 4.0]}))  # fmt: skip
    assert result["rank"]["gxi"][0] == pytest.approx(1.0)
    assert result["rank"]["alpha-avg"][0] == pytest.approx(-1.0)
    assert result["compared"]["alpha-avg lime"][0] == pytest.approx(-1.0)
    assert result["top"]["alpha-avg"][0] == pytest.approx(2 / 3, abs=1e-4)
    assert result["second"]["alpha-avg"][0] == pytest.approx(0.7)
    assert result["second"]["gxi"][0] == pytest.approx(0.3)


def test_words_of_a_single_sentence_are_counted_separately():
    result = summarize_rows(row())["unshared"]  # the first word is the last one too
    assert result["contradiction"]["words"][0] == 0.5
    assert result["all"]["lime"][0] == pytest.approx(5 / 10)
    assert summarize_rows(row(same=[]))["unshared"]["all"]["words"][0] == 1.0


def test_special_tokens_take_what_words_do_not():
    assert [value[0] for value in summarize_rows(row())["special"]] == pytest.approx([0.6, 0.7])


def test_interactions_are_divided_by_sentence():
    result = summarize_rows(row())
    assert result["strongest_across"][0] == 1.0
    assert result["pairs_across"][0] == pytest.approx(4 / 6, abs=1e-4)
    assert result["size"]["across"][0] == pytest.approx(3 / 4)
    assert result["size"]["within"][0] == pytest.approx(1 / 2)
    assert result["size"]["same"][0] == 0.0
    assert result["across_over_within"][0] == pytest.approx(0.1)


def test_attention_between_words_is_ranked_against_their_interaction_across_only():
    result = summarize_rows(row())
    assert result["pays_by_layer"][0][0] == pytest.approx(1.0)
    assert result["pays_by_layer"][1][0] == pytest.approx(-1.0)
    within = np.zeros((4, 4))
    within[0, 1] = 9.0  # of one sentence: it must not count
    assert summarize_rows(row(pays=[within.tolist()]))["pays"] is None


def test_the_negation_is_looked_for_where_the_model_says_contradiction():
    misses = row(scores=row()["scores"] | {
        "lime": [-4.0, 3.0, 2.0, 1.0], "alpha-avg": [0.1, 0.2, 0.3, 0.4]})  # fmt: skip
    result = summarize_rows(row(), misses, row(decision=1), row(negation=[0, 0, 0, 0]))["negation"]
    assert (result["pairs"], result["contradictions"]) == (2, 3)
    assert result["first"]["shapley"][0] == 1.0
    assert result["first"]["lime"][0] == 0.5  # strongest, but against the class
    assert result["first"]["alpha-avg"][0] == 0.5
    assert result["chance"][0] == 0.25
    assert (result["decides"][0], result["others_decide"][0]) == (1.0, 0.0)


def test_decisions_that_change_are_counted_by_class():
    value = row(flips=dict.fromkeys(METHODS, None) | {"loo": 1})
    result = summarize_rows(value, row(decision=2))["flips"]
    assert result["contradiction"]["first"]["loo"][0] == 1.0
    assert result["contradiction"]["first"]["lime"][0] == 0.0
    assert result["contradiction"]["needed"]["lime"][0] == 1.0  # never: all words are not enough
    assert result["entailment"]["needed"]["lime"][0] == 0.5
    assert result["neutral"]["first"]["loo"] is None
    assert result["all"]["first"]["random"][0] == 0.25
    assert result["all"]["first"]["best"][0] == 1.0
    assert result["all"]["needed"]["best"][0] == 0.25


# ---------------------------------------------- a small transformer, from its files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of SICK's form and a folder of a random model of pairs."""
    home = tmp_path_factory.mktemp("pairs")
    network, tokenizer = tiny("bert", id2label=dict(enumerate(CLASSES)), num_labels=3)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.model_input_names = ["input_ids", "attention_mask", "token_type_ids"]
    network.save_pretrained(home / "model")
    tokenizer.save_pretrained(home / "model")
    rng = np.random.default_rng(7)
    words = ["a", "superb", "film", "but", "the", "plot", "is", "good", "bad", "not"]
    (home / "data" / "sick").mkdir(parents=True)
    for part in ("train", "test"):
        lines = [
            {
                "sentence_a": " ".join(rng.choice(words, 3, replace=False)),
                "sentence_b": " ".join(rng.choice(words, rng.integers(2, 5), replace=False)),
                "label": int(rng.integers(3)),
            }
            for _ in range(30)
        ]
        (home / "data" / "sick" / f"{part}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return home


@pytest.fixture
def setting(files, tmp_path):
    return Setting(
        data=files / "data", models=tmp_path / "models", quick=True, pair_model=files / "model"
    )


@pytest.fixture
def few_pairs(monkeypatch):
    monkeypatch.setattr(pair_rows, "QUICK_PAIRS", 2)
    monkeypatch.setattr(pair_rows, "QUICK_WORDS", 6)
    monkeypatch.setattr(one_sentence, "QUICK_PAIRS", 12)


@pytest.mark.slow
def test_rows_say_what_the_library_says_of_the_same_pair(setting, few_pairs):
    pairs, share = pair_rows.short_pairs(setting)
    assert 0 < share <= 1
    rows = list(pair_rows.measure_rows(setting, pairs, replacement="mask"))
    assert len(rows) == 2
    model = setting.pair_classifier
    for (pair, label), result in zip(pairs, rows, strict=True):
        assert (result["label"], len(result["words"]) <= 6) == (label, True)
        for name in METHODS:
            value = explain(model, pair, name)
            assert value.target == CLASSES[result["decision"]]
            np.testing.assert_allclose(result["scores"][name], value.scores, rtol=1e-4, atol=1e-5)
            assert value.signed == (name in pair_rows.SIGNED)
        assert ["first" if not own_value else "second" for own_value in result["second"]] == list(
            value.part_names
        )


@pytest.mark.slow
def test_areas_and_what_they_lie_between_are_those_of_judge(setting, few_pairs):
    pairs, _ = pair_rows.short_pairs(setting)
    (result,) = pair_rows.measure_rows(setting, pairs[:1], replacement="mask")
    names = ["alpha-avg", "gxi", "loo"]
    (judged,) = limelight.judge(setting.pair_classifier, [pairs[0][0]], names, columns=()).texts
    assert {name: result["areas"][name] for name in names} == pytest.approx(judged.areas, abs=1e-4)
    assert result["ceiling"] >= judged.deletion.ceiling - 1e-4
    error = 5 * (judged.deletion.stderr or 0) + 1e-3
    assert result["chance"] == pytest.approx(judged.deletion.chance, abs=error)


def test_attention_of_words_is_that_of_their_pieces(setting, few_pairs):
    pair = ("a predictable film", "the film")
    result = pair_rows._measure_attention(setting.pair_classifier, pair)
    value = explain(setting.pair_classifier, pair, "alpha-avg")
    np.testing.assert_allclose(result["looks"][-1], value.scores, atol=1e-9)
    pays = np.array(result["pays"])
    assert pays.shape == (2, 5, 5)
    np.testing.assert_allclose(pays, pays.transpose(0, 2, 1))


def test_what_was_measured_is_not_measured_again(setting, few_pairs, monkeypatch):
    pairs, _ = pair_rows.short_pairs(setting)
    request = []

    def rows(model, some, replacement):
        request.append(len(some))
        return [{"label": label} for _, label in some]

    monkeypatch.setattr(pair_rows, "_CHUNK", 1)
    monkeypatch.setattr(pair_rows, "_measure_chunk", rows)
    killed = pair_rows.measure_rows(setting, pairs, replacement="mask")
    first = next(killed)
    assert request == [1]
    again = list(pair_rows.measure_rows(setting, pairs, replacement="mask"))
    assert request == [1, 1]
    assert again[0] == first
    assert [value["label"] for value in again] == [label for _, label in pairs]
    list(pair_rows.measure_rows(setting, pairs, replacement="delete"))  # other numbers
    setting.seed = 1  # other pairs
    list(pair_rows.measure_rows(setting, pairs, replacement="mask"))
    assert request == [1] * 6


def test_a_hidden_sentence_says_nothing(setting, few_pairs):
    def decides(pairs):
        """Made up: “not” in the second sentence is a contradiction, else it is neutral."""
        return [[float("not" in b.split()), 0.5, 0.0] for _, b in pairs]

    setting._cache["pair model"] = limelight.wrap(
        decides, classes=CLASSES, scale="score", mask="x", pairs=True
    )
    result = one_sentence.measure_hidden(setting)
    assert result["pairs"] == 12
    assert result["stays"]["second"] == result["stays"]["whole"] == 1.0
    contradictions = sum(result["becomes"]["whole"][0])
    assert contradictions > 0
    assert result["becomes"]["first"][0] == [0, contradictions, 0]
    assert result["stays"]["first"] == pytest.approx(1 - contradictions / 12, abs=1e-4)
    assert result["stays"]["exchanged"] < 1.0


def test_a_single_layer_gets_its_inputs():
    data = limelight.LabeledTexts([("a b", "c"), ("d", "e f")], np.array([0, 1]), ("x", "y"))
    read = {
        name: one_sentence._choose_sentences(data, name).texts
        for name in one_sentence.SENTENCE_CHOICES
    }
    assert read == {"first": ("a b", "d"), "second": ("c", "e f"), "both": ("a b c", "d e f")}


def test_a_gain_is_over_the_most_frequent_class():
    labels = np.array([1] * 60 + [0] * 40)
    always = labels == 1
    assert one_sentence._accuracy_gain(always, labels) == [0.0, 0.0, 0.0]
    mean, low, high = one_sentence._accuracy_gain(np.ones(100, bool), labels)
    assert mean == pytest.approx(0.4)
    assert high - mean == pytest.approx(1.96 * math.sqrt(0.24 * 100 / 99) / 10)
    assert mean - low == pytest.approx(high - mean)


@pytest.mark.slow
def test_small_files_become_a_report(files, tmp_path, few_pairs, monkeypatch):
    page = runner.reproduce(
        files / "data", tmp_path / "out", quick=True, only=["pairs"], device="cpu",
        pair_model=files / "model",
    )  # fmt: skip
    text = page.read_text("utf-8")
    assert "Measured here: words, hidden, one-layer (quick run, seed 0)." in text
    assert "From the stored results of a full run: deleted (needs a GPU" in text
    assert "nan" not in text.partition("<main>")[2].partition("data:image")[0]
    assert (tmp_path / "out" / "figures" / "pairs.png").exists()


# ------------------------------------------------- where there is no model of pairs


def lacks(part, **given):
    setting = Setting(**{"models": Path("out/models"), **given})
    (result,) = [value for value in sentence_pairs.EXPERIMENT.parts if value.name == part]
    return result.missing_needs(setting)


def test_parts_say_what_they_lack(files, tmp_path):
    total = {"data": files / "data", "pair_model": files / "model"}
    assert lacks("words", **total) == ("gpu",)
    assert lacks("words", **total, quick=True) == ()
    assert lacks("deleted", **total, quick=True) == ("gpu",)
    assert lacks("words", **total, device="cuda") == ()
    assert lacks("hidden", **total) == ()
    assert lacks("one-layer", data=files / "data") == ()
    assert lacks("hidden", data=files / "data") == ("pair-model",)
    assert lacks("words", data=tmp_path) == ("gpu", "sick", "pair-model")
    assert lacks("one-layer", data=tmp_path) == ("sick",)


def test_the_plan_says_what_is_missing(tmp_path):
    setting = Setting(data=tmp_path, models=tmp_path / "models", quick=True)
    plan = runner.describe_plan(setting, runner.select_parts(["pairs", "figure-2"]), tmp_path)
    assert plan.splitlines() == [
        "From the stored results, since they need SICK's files in a folder sick and a model of "
        "sentence pairs (--pair-model): 2 of 6 parts, pairs (words, hidden).",
        "From the stored results, since they need a GPU and SICK's files in a folder "
        "sick and a model of sentence pairs (--pair-model): 1 of 6 parts, pairs (deleted).",
        "From the stored results, since they need SICK's files in a folder sick: 1 of 6 parts, "
        "pairs (one-layer).",
        "Measured now: 2 of 6 parts, figure-2 (shipped, paper).",
    ]


def test_a_model_of_pairs_without_pairs_raises_an_error(limelight, files, tmp_path):
    outcome = limelight(
        "reproduce", "--data", tmp_path, "--output", tmp_path / "out", "--device", "cpu",
        "--pair-model", files / "model",
    )  # fmt: skip
    assert outcome.code == 2
    assert outcome.err == (
        f"Error: the test texts of sick are not in '{tmp_path}'. Add sick/test.parquet "
        "(or .csv, .jsonl).\n"
    )


def test_another_model_raises_an_error(files, tmp_path, setting):
    config = json.loads((files / "model" / "config.json").read_text())
    network, tokenizer = tiny("bert")
    network.save_pretrained(tmp_path / "other")
    tokenizer.save_pretrained(tmp_path / "other")
    assert config["id2label"] == {"0": "contradiction", "1": "neutral", "2": "entailment"}
    setting.pair_model = tmp_path / "other"
    with pytest.raises(InputError, match="the model of pairs must have SICK's classes, contra"):
        _ = setting.pair_classifier
    setting.pair_model = None
    with pytest.raises(InputError, match="Name it with --pair-model"):
        _ = setting.pair_classifier


def test_verdicts_that_depend_on_what_stands_for_a_word_are_named():
    words = load_stored_results()["pairs"]["words"].numbers
    numbers = {part: value.numbers for part, value in load_stored_results()["pairs"].items()} | {
        "deleted": words
    }
    assert sentence_pairs._compare_deletion(numbers) == (6, [])
    output = sentence_pairs._findings(numbers).measured
    assert any("All 6 verdicts about words are the same." in element for element in output)
    other = words | {"pays": [0.6, 0.55, 0.65]}
    count, changed = sentence_pairs._compare_deletion(numbers | {"deleted": other})
    assert (count, len(changed)) == (6, 1)
    assert changed[0].endswith("how far they interact? (our question)” (holds)")


def test_every_rule_is_used_by_a_verdict():
    source = Path(sentence_pairs.__file__).read_text("utf-8")
    named = {name for name in pair_rules.__all__ if name.isupper()} - {"AGREES"}
    assert all(f", {name})" in source or f", {name}, " in source for name in named)
