"""Seven seeds of both recipes: one measurement for all, and verdicts that follow the seeds."""

import copy
import itertools

import numpy as np
import pytest
from scipy import stats

from limelight import evaluate, judge, save_folder
from limelight_reproduction.document import list_texts
from limelight_reproduction.one_layer import comments
from limelight_reproduction.one_layer.claims import CLAIMS, HOLDS
from limelight_reproduction.questions import seeds, seeds_measured
from limelight_reproduction.setting import PAPER_SEEDS

NAMES = [f"{recipe}-{seed}" for recipe in seeds.RECIPES for seed in PAPER_SEEDS]


@pytest.fixture
def trained(toy_setting, toy_model):
    """A toy model in place of each training: all of a recipe have other weights."""
    for recipe, seed in itertools.product(seeds.RECIPES, PAPER_SEEDS):
        model = toy_model(seed + 7 * (recipe == "shipped"))
        save_folder(model, toy_setting.models / f"{recipe}-{seed}")
    return toy_setting


@pytest.fixture
def same(stored, toy_setting):
    """The numbers of fourteen trainings that gave the same model."""
    numbers = stored(seeds_measured.measure_model(toy_setting, toy_setting.recipe_model))
    return {name: copy.deepcopy(numbers) for name in NAMES}


def verdicts(numbers):
    return [verdict.holds for verdict in seeds._findings(numbers).verdicts]


def test_a_part_is_measured_for_each_seed_of_each_recipe():
    assert [part.name for part in seeds.EXPERIMENT.parts] == NAMES
    assert {part.needs for part in seeds.EXPERIMENT.parts} == {("gpu",)}


def test_the_numbers_of_a_training_are_those_of_the_public_functions(trained, toy_model):
    part = seeds.EXPERIMENT.parts[NAMES.index("shipped-2")]
    numbers, model = part.measure(trained), toy_model(9)
    assert (numbers["recipe"], numbers["seed"]) == ("shipped", 2)
    texts = list_texts(trained.sample_texts("imdb", "test", 30))
    assert numbers["texts"] == len(texts) == 30
    judgment = judge(model, texts, ["alpha-avg", "gxi", "lime", "shapley"], progress=False)
    values = numbers["values"]
    for method in judgment.methods:
        assert values[method.method][0] == pytest.approx(method.share, rel=1e-4)
        assert values[method.method][1:] == pytest.approx(method.interval, rel=1e-4)
    assert values["greedy"][0] == pytest.approx(judgment.greedy, rel=1e-4)
    for name in ("chance", "ceiling"):
        mean = np.mean([getattr(text, name) for text in judgment.texts])
        assert values[name][0] == pytest.approx(mean, rel=1e-4)
    accuracy = evaluate(model, trained.texts("imdb", "test")).accuracy
    assert values["accuracy"][0] == pytest.approx(accuracy, rel=1e-4)
    assert numbers["comments"] == comments.measure(trained, model)
    assert all(low <= value <= high for value, low, high in values.values())


def test_the_shipped_recipe_is_trained_as_its_model_card_says(toy_setting, toy_model, monkeypatch):
    import limelight.training

    calls = []

    def train(texts, *, recipe, seed, output, device, progress, **options):
        calls.append((recipe, seed, options))
        save_folder(toy_model(seed), output)

    monkeypatch.setattr(limelight.training, "train", train)
    imdb = toy_setting.data / "imdb"
    (imdb / "train.jsonl").write_text((imdb / "test.jsonl").read_text())
    for _ in range(2):  # the second time, the models are there
        for recipe in seeds.RECIPES:
            toy_setting.train_recipe_model(4, recipe)
    options = {"validation": 0, "precision": "float16"}
    assert calls == [("paper", 4, {}), ("shipped", 4, options)]


# --------------------------------------------------------------- heads


def test_heads_that_agree_have_no_difference_and_opposite_heads_have_two():
    scores = np.random.default_rng(0).normal(size=11)
    assert seeds_measured.mean_difference(np.stack([scores, 3 * scores + 1])) == pytest.approx(0)
    assert seeds_measured.mean_difference(np.stack([scores, -scores])) == pytest.approx(2)
    assert seeds_measured.mean_difference(np.ones((2, 11))) is None
    assert seeds_measured.mean_difference(np.stack([scores, scores, np.ones(11)])) == (
        pytest.approx(0)
    )


def test_the_difference_of_heads_is_that_of_their_attention_in_public_methods(toy_model):
    model, texts = toy_model(5, scale=0.6), ["w1 w2 w3 w4 w5 w6 w2", "w7 w8 w9 w10 w11 w1 w2"]
    result = seeds_measured.measure_heads(model, texts, seed=0)
    expected = []
    for text in texts:
        model_input = model.read(text)
        attention = model.attention_matrices(model_input)[:, 0, 1:]
        words = list(dict.fromkeys(model_input.tokens.strings))
        rows = np.array(
            [
                [
                    sum(a for a, token in zip(row, model_input.tokens.strings, strict=False)
                        if token == word)
                    for word in words
                ]
                for row in attention
            ]
        )  # fmt: skip
        expected.append(
            1 - np.mean([stats.pearsonr(a, b)[0] for a, b in itertools.combinations(rows, 2)])
        )
    assert result["attention"][0] == pytest.approx(np.median(expected), rel=1e-6)


# --------------------------------------------------------------- verdicts


def test_seeds_that_change_nothing_change_no_verdict(same):
    findings = seeds._findings(same)
    assert verdicts(same)[:2] == ["no", "no"]
    assert verdicts(same)[3] == "yes"
    assert f"Of {len(CLAIMS)} claims in words, 0 (paper's recipe)" in findings.headline
    assert "No share differs more between seeds" in findings.meaning
    assert all(len(row) == len(findings.table.columns) for row in findings.table.rows)


@pytest.mark.parametrize("number", range(len(CLAIMS)))
def test_a_claim_depends_on_the_seed_if_one_training_decides_it_otherwise(same, number):
    claim = CLAIMS[number]
    part = same["shipped-3"]["comments"]
    before = claim.verdict(part)
    low_or_high = [
        dict(zip(claim.statistics, case, strict=True))
        for case in itertools.product((0.0, 0.95), repeat=len(claim.statistics))
    ]
    for values in low_or_high:
        part["spread"] |= {key: [value] * 3 for key, value in values.items()}
        if claim.verdict(part) != before:
            break
    else:
        pytest.fail("no value changes the verdict")
    assert claim in seeds._changing_claims(same, "shipped")
    assert not seeds._changing_claims(same, "paper")
    assert verdicts(same)[0] == "only with the recipe of the shipped model"
    count = sum(claim.verdict(same[f"shipped-{seed}"]["comments"]) == HOLDS for seed in range(7))
    (sentence,) = [
        sentence for sentence in seeds._findings(same).measured
        if sentence.startswith(f"Section {claim.section}: {claim.statement}.")
    ]  # fmt: skip
    assert f"shipped model it holds for {count} of 7 seeds" in sentence


def test_methods_change_places_only_if_a_training_orders_them_otherwise(same):
    for name in NAMES:
        same[name]["values"] |= {"gxi": [0.5, 0.4, 0.6], "lime": [0.6, 0.5, 0.7]}
    assert ("gxi", "lime") not in seeds._changing_pairs(same, "paper")
    same["paper-6"]["values"]["gxi"] = [0.61, 0.5, 0.7]
    assert ("gxi", "lime") in seeds._changing_pairs(same, "paper")
    assert ("gxi", "lime") not in seeds._changing_pairs(same, "shipped")
    assert verdicts(same)[1] == "only with the paper's recipe"


def test_heads_are_counted_by_the_threshold_of_figure_three(same):
    for seed in PAPER_SEEDS:
        same[f"paper-{seed}"]["values"]["distance"] = [0.2 + 0.02 * seed, 0, 1]
    assert seeds._count_different_heads(same, "paper") == 4


def test_the_error_over_reviews_is_not_enough_if_the_seeds_differ_more(same):
    for seed in PAPER_SEEDS:
        same[f"paper-{seed}"]["values"]["alpha-avg"] = [0.1 * seed, 0.1 * seed - 1e-3, 0.1 * seed]
    assert verdicts(same)[3] == "only with the recipe of the shipped model"
    assert "α-avg (paper's recipe)" in seeds._findings(same).meaning


def test_a_summary_is_mean_deviation_range_and_students_interval():
    values = [0.31, 0.35, 0.28, 0.40, 0.33, 0.36, 0.30]
    summary = seeds.summarize_seeds([[x, x - 0.0196, x + 0.0196] for x in values])
    assert (summary.mean, summary.low, summary.high) == (pytest.approx(np.mean(values)), 0.28, 0.40)
    assert summary.text_error == pytest.approx(0.01)
    error = np.sqrt(np.var(values, ddof=1) / 7 + 0.01**2)
    low, high = stats.t.interval(0.95, 6, loc=np.mean(values), scale=error)
    assert summary.interval == pytest.approx([np.mean(values), low, high])
    assert not summary.is_text_error_enough
    assert seeds.summarize_seeds([[x, x - 0.2, x + 0.2] for x in values]).is_text_error_enough


def test_each_training_is_a_dot_in_the_figure(same):
    same["paper-2"]["values"]["gxi"] = [0.123, 0.1, 0.2]
    ((name, _, figure),) = seeds._figures(same)
    assert name == "seeds"
    for axes, recipe in zip(figure.axes, seeds.RECIPES, strict=True):
        dots = [line.get_ydata().tolist() for line in axes.lines if line.get_marker() == "o"]
        assert dots == [
            [same[f"{recipe}-{seed}"]["values"][method][0] for method in seeds_measured.SHARES]
            for seed in PAPER_SEEDS
        ]


def test_the_table_has_every_number_of_both_recipes(same):
    rows = seeds._findings(same).table.rows
    by_name = {(row[0], row[1]): row for row in rows}
    assert len(by_name) == len(rows)
    row = by_name["paper's recipe", "Shapley values"]
    assert row[2] == pytest.approx(same["paper-0"]["values"]["shapley"][0])
    assert row[3] == pytest.approx(0)
    for claim in CLAIMS:
        for key in claim.statistics:
            row = by_name["recipe of the shipped model", f"{claim.section}: {key}"]
            assert row[2] == pytest.approx(same["shipped-0"]["comments"]["spread"][key][1])
