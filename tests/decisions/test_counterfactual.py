"""Counterfactuals, against the enumeration of all removals by other code."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

import limelight
from limelight import Counterfactual

from schema_files import schema_file

WORDS = (
    "good", "bad", "superb", "dull", "plot", "film", "acting", "not", "very", "awful", "charming",
    "slow", "the", "a", "of",
)  # fmt: skip
LABELS = ("world", "sports", "business", "science")


def random_texts(count, length, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, length)) for _ in range(count)]


def linear_pipeline(classes, seed=0):
    texts = random_texts(80, 8, seed)
    rng = np.random.default_rng(seed)
    weights = {word: rng.normal(size=len(classes)) for word in WORDS}
    labels = [classes[int(np.argmax(sum(weights[w] for w in text.split())))] for text in texts]
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(C=30)).fit(texts, labels)
    return limelight.wrap(pipeline)


def interacting(seed):
    """A function of words with interactions of three words, for several classes."""

    def scores(texts, classes=3):
        rng = np.random.default_rng(seed)
        single = rng.normal(size=(len(WORDS), classes))
        triples = [(rng.choice(len(WORDS), 3, replace=False), rng.normal(size=classes) * 3)
                   for _ in range(12)]  # fmt: skip
        rows = []
        for text in texts:
            words = set(text.split())
            has = np.array([word in words for word in WORDS])
            total = has @ single
            for triple, effect in triples:
                total = total + effect * has[triple].all()
            rows.append(total)
        return np.array(rows)

    return scores


def changes_of_all_sets(c, model, text, **options):
    """Return the sizes of all sets of removed features and whether each changes the prediction.

    Classes are compared here without the code of the package.
    """
    game = limelight.game(model, text, **options)
    d = len(game)
    masks = np.array(list(itertools.product([True, False], repeat=d)))
    outputs = game(masks)
    if c.kind == "class":
        names = np.array(model.classes)
        predicted = names[
            (outputs[:, 0] > 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(1)
        ]
        change = predicted != predicted[0]
        if c.desired_class is not None:
            change = predicted == c.desired_class
    elif c.kind == "labels":
        labels = outputs > 0
        change = (labels != labels[0]).any(1)
        if c.desired_class is not None:
            name = c.desired_class.removeprefix("not ")
            column = labels[:, model.classes.index(name)]
            change = column != c.desired_class.startswith("not ")
    else:
        above = outputs[:, 0] >= c.threshold
        change = above != above[0]
    return (~masks).sum(1), change, masks


def problems(c, sizes, change, masks):
    """Return what is wrong with a counterfactual, given all sets."""
    d = masks.shape[1]
    smallest = int(sizes[change].min()) if change.any() else None
    wrong = []
    if c.size is not None:
        is_removed = ~masks
        row = (is_removed == np.isin(np.arange(d), c.removed)).all(1)
        wrong += ["set"] * (not change[row].all())
        wrong += ["size"] * (smallest is None or c.size < smallest)
    wrong += ["lower bound"] * (c.lower_bound > (d + 1 if smallest is None else smallest))
    wrong += ["minimal"] * (c.is_minimal and c.size != smallest)
    wrong += ["robust"] * (c.is_robust and smallest is not None)
    wrong += ["radius"] * bool(change[(sizes <= c.certified_radius)].any() and c.lower_bound)
    return wrong


def test_the_shipped_model_is_proven_right_on_every_removal():
    model = limelight.load()
    texts = random_texts(30, 9)
    results = limelight.counterfactual(model, texts)
    assert {c.bound_kind for c in results} == {"proven"}
    for text, c in zip(texts, results, strict=True):
        assert problems(c, *changes_of_all_sets(c, model, text)) == []
    assert sum(c.is_minimal or c.is_robust for c in results) == len(results)
    assert any(c.is_robust for c in results)


@pytest.mark.parametrize("classes", [LABELS[:2], LABELS])
@pytest.mark.parametrize("desired", [None, *range(2)])
def test_linear_pipelines_are_proven_right_on_every_removal(classes, desired):
    model = linear_pipeline(classes)
    texts = random_texts(12, 9, seed=1)
    results = limelight.counterfactual(model, texts, desired_class=desired)
    settled = 0
    for text, c in zip(texts, results, strict=True):
        assert problems(c, *changes_of_all_sets(c, model, text)) == []
        settled += c.is_minimal or c.is_robust
        assert c.bound_kind != "evaluated" or (desired is not None and len(classes) > 2)
    assert settled == len(texts)


@pytest.mark.parametrize("norm", ["l1", "l2", None])
@pytest.mark.parametrize("classes", [LABELS[:2], LABELS])
def test_ties_within_rounding_are_no_error(norm, classes):
    rng = np.random.default_rng(0)
    vectorizer = TfidfVectorizer(norm=norm, use_idf=False)
    pipeline = make_pipeline(vectorizer, LogisticRegression())
    pipeline.fit(random_texts(40, 9), [classes[i % len(classes)] for i in range(40)])
    tie_count = 0
    for seed in range(60):
        shape = pipeline[-1].coef_.shape
        pipeline[-1].coef_ = rng.integers(-3, 4, shape) * 0.1
        pipeline[-1].intercept_ = rng.integers(-2, 3, shape[0]) * 0.1
        model = limelight.wrap(pipeline)
        for text in random_texts(4, 8, seed):
            c = limelight.counterfactual(model, text, desired_class=seed % len(classes))
            tie_count += any("tied within rounding" in warning for warning in c.warnings)
            assert c.size is None or c.predicted_class_after == c.desired_class
            assert c.size is None or c.lower_bound <= c.size
    if classes == LABELS and norm is None:
        assert tie_count


@pytest.mark.parametrize("norm", ["l1", "l2", None])
@pytest.mark.parametrize("text", ["unknown", " ".join(f"unknown{i}" for i in range(30))])
def test_a_text_of_unknown_words_is_robust(norm, text):
    texts = random_texts(40, 6)
    pipeline = make_pipeline(TfidfVectorizer(norm=norm), LogisticRegression())
    pipeline.fit(texts, [LABELS["good" in words] for words in texts])
    pipeline[-1].intercept_ += 0.3
    model = limelight.wrap(pipeline)
    c = limelight.counterfactual(model, text)
    assert c.is_robust
    assert c.bound_kind == "proven"
    assert limelight.explain(model, text, "anchors").anchor.guarantee == "smallest"


@pytest.mark.parametrize("seed", range(6))
def test_a_search_over_all_sets_finds_the_smallest(seed):
    model = limelight.wrap(interacting(seed), classes=["a", "b", "c"], scale="logit")
    for text in random_texts(3, 10, seed):
        for desired in (None, "a", "c"):
            c = limelight.counterfactual(model, text, desired_class=desired, budget="3000 calls")
            sizes, change, masks = changes_of_all_sets(c, model, text)
            assert problems(c, sizes, change, masks) == []
            assert c.bound_kind == "evaluated" or not c.size
            assert c.is_minimal or c.is_robust


@pytest.mark.parametrize("calls", [8, 20, 60, 150, 400])
def test_a_search_with_few_calls_claims_nothing_wrong(calls):
    result = 0
    for seed in range(4):
        model = limelight.wrap(interacting(seed), classes=["a", "b", "c"], scale="logit")
        for text in random_texts(3, 12, seed + 9):
            c = limelight.counterfactual(model, text, budget=f"{calls} calls")
            assert problems(c, *changes_of_all_sets(c, model, text)) == []
            assert c.diagnostics["calls"] <= calls + len(c)  # single features are stored
            result += c.size is not None
            for row in c.stability:  # a random removal with a change is a set, too
                assert row.unchanged == row.draws or c.size <= row.size
    assert result >= (8 if calls >= 20 else 0)


def test_the_check_of_these_tests_sees_wrong_claims():
    model, text = limelight.load(), "superb , a charming film with a good plot"
    c = limelight.counterfactual(model, text)
    sizes, change, masks = changes_of_all_sets(c, model, text)
    assert problems(c, sizes, change, masks) == []
    assert "size" in problems(c, sizes, sizes > 90, masks)
    assert c.size == 2
    earlier = change | (sizes == 1)
    assert "lower bound" in problems(c, sizes, earlier, masks)
    assert "set" in problems(c, sizes, ~change, masks)
    assert "robust" in problems(
        replace(c, removed=(), prediction_after=None, lower_bound=len(c) + 1), sizes, change, masks
    )


@pytest.mark.parametrize("desired", [None, "rude", "not rude", "long"])
def test_labels_are_decided_one_by_one(desired):
    def labels(texts):
        return [[0.9 if "awful" in t else 0.2, 0.8 if len(t.split()) > 3 else 0.1] for t in texts]

    model = limelight.wrap(labels, classes=["rude", "long"], multi_label=True)
    text = "a dull awful slow film"
    c = limelight.counterfactual(model, text, desired_class=desired)
    assert c.kind == "labels"
    assert c.predicted_class == "rude, long"
    if desired in ("rude", "long"):
        assert c.size == 0
        assert "already" in c.warnings[0]
        return
    assert problems(c, *changes_of_all_sets(c, model, text)) == []
    assert c.removed_features == ("awful",)
    assert c.predicted_class_after == "long"


@pytest.mark.parametrize("threshold", [-1.0, 0.5, 2.5, 100.0])
def test_a_score_changes_at_its_threshold(threshold):
    texts = random_texts(60, 8)
    numbers = [sum(len(w) for w in text.split()) / 8 - 3 for text in texts]
    pipeline = make_pipeline(TfidfVectorizer(), LinearRegression()).fit(texts, numbers)
    function = limelight.wrap(lambda ts: pipeline.predict(ts)[:, None], classes=["n"],
                              scale="score")  # fmt: skip
    for model in (limelight.wrap(pipeline), function):
        c = limelight.counterfactual(model, texts[0], threshold=threshold)
        assert c.kind == "score"
        sizes, change, masks = changes_of_all_sets(c, model, texts[0])
        assert problems(c, sizes, change, masks) == []
        assert c.predicted_class.endswith(f"{threshold:.4g}")
        assert c.is_robust == (not change.any())


def test_random_removals_have_binomial_intervals_around_the_truth():
    covered, total = 0, 0
    for seed in range(8):
        model = limelight.wrap(interacting(seed), classes=["a", "b", "c"], scale="logit")
        for text in random_texts(3, 13, seed + 40):
            c = limelight.counterfactual(model, text, budget="400 calls", seed=seed)
            sizes, change, _ = changes_of_all_sets(c, model, text)
            for entry in c.stability:
                truth = 1 - change[sizes == entry.size].mean()
                if entry.low == entry.high:
                    assert truth == pytest.approx(entry.probability)
                else:
                    covered += entry.low <= truth <= entry.high
                    total += 1
    assert total > 40
    assert covered >= 0.93 * total


def test_the_same_seed_gives_the_same_result():
    model = limelight.wrap(interacting(1), classes=["a", "b", "c"], scale="logit")
    (text,) = random_texts(1, 13)
    first, second, other = (
        limelight.counterfactual(model, text, budget="300 calls", seed=seed) for seed in (3, 3, 4)
    )
    assert first == second
    assert first.removed == other.removed
    assert first.stability != other.stability


def test_a_single_text_and_a_list_agree():
    model, texts = limelight.load(), random_texts(3, 8)
    results = limelight.counterfactual(model, texts)
    assert list(results) == [limelight.counterfactual(model, text) for text in texts]
    frame = results.to_frame()
    assert list(frame.columns) == ["text_number", "feature", "removed", "spans", "part"]
    assert frame.removed.sum() == sum(len(c.removed) for c in results)


def test_a_model_that_rejects_the_empty_text_is_not_said_to_change():
    def strict(texts):
        if not all(text.strip() for text in texts):
            raise ValueError("empty")
        return [[0.8, 0.2]] * len(texts)

    c = limelight.counterfactual(limelight.wrap(strict, classes=["x", "y"]), "one two three")
    assert c.size is None
    assert c.is_robust


def test_a_counterfactual_survives_json():
    model = limelight.wrap(interacting(2), classes=["a", "b", "c"], scale="logit")
    (text,) = random_texts(1, 12)
    results = [
        limelight.counterfactual(limelight.load(), text),
        limelight.counterfactual(limelight.load(), "bad"),
        limelight.counterfactual(model, text, budget="90 calls"),
        limelight.counterfactual(model, text, desired_class="b"),
    ]
    for c in results:
        assert Counterfactual.from_json(c.to_json(indent=2)) == c
        assert hash(Counterfactual.from_json(c.to_json())) == hash(c)


C = limelight.counterfactual(limelight.load(), "superb , a charming film with a good plot")


@pytest.mark.parametrize("calls", [4, 5, 7, 40, 100, 400, 1000])
@pytest.mark.parametrize("position", [0, 300, 1199])
def test_a_search_makes_no_more_calls_than_its_budget(calls, position):
    words = [f"w{i}" for i in range(1200)]
    words[position] = "bad"
    texts_read = []

    def score(texts):
        texts_read.extend(texts)
        return [[0.9, 0.1] if "bad" in text.split() else [0.1, 0.9] for text in texts]

    model = limelight.wrap(score, classes=["negative", "positive"])
    c = limelight.counterfactual(model, " ".join(words), budget=f"{calls} calls")
    assert c.size is not None
    assert len(texts_read) <= calls


def test_a_time_is_a_budget_and_progress_is_reported():
    model = limelight.wrap(interacting(4), classes=["a", "b", "c"], scale="logit")
    reported = []
    texts = random_texts(3, 12)
    results = limelight.counterfactual(
        model, texts, budget="1s", progress=lambda done, total: reported.append((done, total))
    )
    assert all(c.settings["budget"] == "1s" for c in results)
    assert {total for _, total in reported} == {3}
    assert reported[-1][0] == 3
    assert sorted(done for done, _ in reported) == [done for done, _ in reported]


def test_an_exact_game_that_contradicts_the_model_raises_an_error(monkeypatch):
    from limelight.models.text_game import TextGame

    model = limelight.load()
    monkeypatch.setattr(TextGame, "__call__", lambda _, keep: np.full((len(keep), 1), 3.0))
    with pytest.raises(limelight.DomainError, match="contradicts its exact game"):
        limelight.counterfactual(model, "a superb and charming film")


def test_the_shipped_schema_describes_the_files():
    jsonschema = pytest.importorskip("jsonschema")
    from limelight.results import codec

    shipped = (codec.SCHEMAS / "counterfactual.schema.json").read_bytes()
    assert shipped == schema_file(codec.CounterfactualRecord)
    schema, record = json.loads(shipped), json.loads(C.to_json())
    jsonschema.validate(record, schema)
    for wrong in ({"schema": "other/1"}, {"unknown": 1}, {"size": "two"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(record | wrong, schema)
