from itertools import combinations

import numpy as np
import pytest

import limelight
from findings import findings
from limelight.errors import InputError
from limelight.explainers import METHODS, Anchors
from limelight.explainers.batch import prepare_batch
from limelight.text import UNK

from tiny_models import random_texts, tiny_model

WORDS = [f"w{i}" for i in range(12)]
TEXT = " ".join(WORDS)


def explain_text(model, text=TEXT, *, target="predicted", threshold=0.95, **settings):
    settings["threshold"] = threshold
    return findings(Anchors(**settings), prepare_batch(model, [text], target=target))[0]


def true_precision(model, words, text=TEXT):
    """Oracle: predict every text in which the anchor stays and the others are UNK or not."""
    ids = model.read(text).encoding.ids
    free = [j for j in range(len(ids)) if j not in words]
    rows = []
    for bits in range(2 ** len(free)):
        row = ids.copy()
        row[[j for i, j in enumerate(free) if bits >> i & 1]] = UNK
        rows.append(row)
    logits = model.logits_of_ids(rows)
    label = (logits[:, 0] > 0) if logits.shape[1] == 1 else logits.argmax(axis=1)
    return float((label == label[0]).mean())  # row 0 is the untouched text


@pytest.mark.parametrize("outputs", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_short_texts_are_enumerated(seed, outputs):
    model = tiny_model(seed, outputs=outputs)
    result = explain_text(model)
    truth = true_precision(model, result.anchor.features)
    assert result.diagnostics["precision_by"] == "enumeration"
    assert result.anchor.precision == pytest.approx(truth, abs=1e-12)
    assert result.anchor.precision_interval == (result.anchor.precision,) * 2
    assert result.anchor.coverage == 0.5 ** len(result.anchor.features)
    assert truth >= 0.94
    assert result.stderr is None


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("seed", range(8))
def test_one_head_gets_a_rigorous_bracket(seed, outputs):
    model = tiny_model(seed, outputs=outputs, K=1)
    result = explain_text(model, samples=50, max_size=1)
    low, high = result.anchor.precision_interval
    assert result.diagnostics["precision_by"] == "bracket"
    assert low <= true_precision(model, result.anchor.features) <= high
    assert high - low < 1e-3


@pytest.mark.slow
def test_intervals_of_several_heads_cover_as_often_as_they_say():
    covered, total = 0, 0
    for seed in range(30):
        model = tiny_model(seed)
        result = explain_text(model, samples=200, delta=0.1)
        if result.diagnostics["precision_by"] == "sampling":
            low, high = result.anchor.precision_interval
            covered += low <= true_precision(model, result.anchor.features) <= high
            total += 1
    assert total > 12
    assert covered >= 0.8 * total


def test_scores_are_what_precision_loses_without_each_word():
    model = next(
        m for m in map(tiny_model, range(99)) if len(explain_text(m).anchor.features) in (2, 3)
    )
    result = explain_text(model)
    words = result.anchor.features
    for j in words:
        fewer = [k for k in words if k != j]
        loss = result.anchor.precision - true_precision(model, fewer)
        assert result.scores[j] == pytest.approx(loss, abs=1e-12)
    assert np.count_nonzero(result.scores) <= len(words)
    sampled = explain_text(model, samples=500)  # fewer than there are masks
    words = sampled.anchor.features
    assert len(words) == len(result.anchor.features)
    for j in words:
        fewer = [k for k in words if k != j]
        loss = true_precision(model, words) - true_precision(model, fewer)
        assert sampled.scores[j] == pytest.approx(loss, abs=5 * sampled.stderr[j])
    assert 0 < sampled.stderr.max() < 0.2 * result.scores.max()


def test_words_that_hold_another_class_speak_against_the_target():
    model = next(m for m in map(tiny_model, range(99)) if explain_text(m).anchor.features)
    contained = explain_text(model).diagnostics["holds"]
    (other,) = {"class 0", "class 1"} - {contained}
    with_it, against_it = (explain_text(model, target=name) for name in (contained, other))
    np.testing.assert_array_equal(with_it.scores, -against_it.scores)
    assert against_it.diagnostics["holds"] == contained
    assert any(f"speak against the target '{other}'" in warning for warning in against_it.warnings)
    assert not any("speak against" in warning for warning in with_it.warnings)


def test_losses_that_all_agree_are_not_certain():
    """Without w0 the label stays only if seven others do, which 60 samples hardly ever see."""
    other_values = set(WORDS[1:8])
    model = limelight.wrap(
        lambda texts: np.array([
            [1.0 if "w0" in (left := text.split()) or other_values <= set(left) else -1.0]
            for text in texts
        ]),
        classes=["no", "yes"],
        scale="logit",
    )  # fmt: skip
    loss, agree = (1 - 0.5**7) / 2, 0
    for seed in range(5):
        e = limelight.explain(model, TEXT, "anchors", samples=60, seed=seed)
        assert [e.features[j] for j in e.anchor.features] == ["w0"]
        agree += e.scores[0] == 0.5
        assert abs(e.scores[0] - loss) <= 3 * e.stderr[0] < 0.2
        np.testing.assert_array_equal(e.stderr[1:], 0)
    assert agree > 2


def label_log_odds(texts):
    """Log-odds of two labels: a makes the first, which is the largest or not; z ends the second."""
    has = np.array([[word in text.split() for word in "az"] for text in texts], dtype=float)
    return np.stack([has[:, 0] - 0.5, 9 * (0.5 - has[:, 1])], axis=1)


@pytest.mark.parametrize(
    ("target", "holds", "word", "sign"), [(0, "low", "a", 1), (1, "not high", "z", -1)]
)
def test_of_several_labels_the_anchor_keeps_the_target(target, holds, word, sign):
    model = limelight.wrap(label_log_odds, classes=["low", "high"], scale="logit", multi_label=True)
    e = limelight.explain(model, "a b c d z", "anchors", target=target)
    assert e.diagnostics["holds"] == holds
    assert e.features[e.anchor.features[0]] == word
    assert (len(e.anchor.features), e.anchor.precision) == (1, 1)
    np.testing.assert_allclose(e.scores, [sign / 2 * (name == word) for name in e.features])
    message = "keeps the prediction 'not high', so its words speak against the target 'high'"
    assert any(message in warning for warning in e.warnings) == (sign < 0)


def test_of_two_classes_the_anchor_keeps_the_larger():
    """The control: the same outputs of one class of two hang on z alone."""
    model = limelight.wrap(label_log_odds, classes=["low", "high"], scale="logit")
    e = limelight.explain(model, "a b c d z", "anchors", target=0)
    assert e.diagnostics["holds"] == "low"
    assert [e.features[j] for j in e.anchor.features] == ["z"]


def test_probabilities_that_sum_to_one_are_of_one_class():
    """Their log-odds have a sigmoid each, but the largest is predicted, even below a half."""
    model = limelight.wrap(
        lambda texts: np.array([[0.4, 0.35, 0.25]] * len(texts)), classes=["x", "y", "z"]
    )
    assert limelight.explain(model, "a b", "anchors", target="y").diagnostics["holds"] == "x"


def test_a_text_has_the_same_anchor_alone_and_in_a_list():
    model = tiny_model(4, outputs=5)
    texts = random_texts(7, seed=2)
    for text, finding in zip(
        texts,
        findings(Anchors(threshold=0.95, samples=64), prepare_batch(model, texts)),
        strict=True,
    ):
        single = findings(Anchors(threshold=0.95, samples=64), prepare_batch(model, [text]))[0]
        assert finding.anchor.features == single.anchor.features
        assert finding.anchor.precision == single.anchor.precision
        np.testing.assert_array_equal(finding.scores, single.scores)


def test_a_model_that_never_moves_needs_no_anchor():
    model = tiny_model(0, scale=1e-9, outputs=2)
    result = explain_text(model, text="never seen")
    assert result.anchor.features == ()
    assert result.anchor.precision == result.anchor.coverage == 1
    assert any("The anchor has no words" in warning for warning in result.warnings)


def test_a_precision_below_the_threshold_gives_a_warning():
    model = next(m for m in map(tiny_model, range(99)) if len(explain_text(m).anchor.features) > 1)
    result = explain_text(model, max_size=1)
    assert len(result.anchor.features) == 1
    assert any(" below the threshold 0.95" in warning for warning in result.warnings)


def test_one_word_and_huge_logits_are_fine():
    for seed in range(5):
        model = tiny_model(seed, scale=3.0)
        assert len(explain_text(model, text="w1").scores) == 1
        anchor = explain_text(model, samples=64).anchor
        low, high = anchor.precision_interval
        assert low <= true_precision(model, anchor.features) <= high


def test_the_row_of_the_catalogue():
    row = METHODS["anchors"]
    assert (row.id, row.label, row.settings) == ("anchors", "Anchors", Anchors)


@pytest.mark.parametrize("outputs", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_a_proven_anchor_keeps_the_prediction_whatever_else_is_removed(seed, outputs):
    model = tiny_model(seed, outputs=outputs)
    result = explain_text(model, threshold=1.0, nodes=10_000)
    words = set(result.anchor.features)
    assert result.anchor.guarantee == "smallest"
    assert result.anchor.precision_interval == (1.0, 1.0)
    assert true_precision(model, words) == 1
    # No smaller set has the precision 1.
    d = len(result.scores)
    for smaller in combinations(range(d), len(words) - 1) if words else ():
        assert true_precision(model, smaller) < 1


def test_a_proven_anchor_needs_no_setting_and_no_call():
    model = limelight.load()
    text = "The plot is predictable, but the acting is superb and the music is wonderful."
    e = limelight.explain(model, text, "anchors")
    assert e.anchor.guarantee == "smallest"
    assert e.diagnostics["precision_by"] == "proof"
    assert e.stderr is None
    indices = list(e.anchor.features)
    # A score is the effect of the word on the text that contains only the anchor.
    game, mask = limelight.game(model, text), np.zeros((1, len(e.scores)), bool)
    mask[0, indices] = True
    for j in indices:
        without = mask.copy()
        without[0, j] = False
        difference = game(mask)[0] - game(without)[0]
        assert e.scores[j] == pytest.approx(difference, abs=e.bound + 1e-9)
    assert not e.scores[~mask[0]].any()
    assert type(e).from_json(e.to_json()).anchor == e.anchor


@pytest.mark.parametrize("classes", [2, 4])
def test_the_anchor_of_a_tfidf_pipeline_is_proven(classes):
    text_module = pytest.importorskip("sklearn.feature_extraction.text")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(classes)
    texts = [" ".join(rng.choice(WORDS, 5)) for _ in range(80)]
    labels = [str(int(text.split()[0][1:]) % classes) for text in texts]
    pipeline = make_pipeline(text_module.TfidfVectorizer(), LogisticRegression(C=10))
    model = limelight.wrap(pipeline.fit(texts, labels))
    masks = np.arange(2**7)[:, None] >> np.arange(7) & 1 == 1
    for seed in range(6):
        words = list(np.random.default_rng(seed).choice(WORDS, 7, replace=False))
        e = limelight.explain(model, " ".join(words), "anchors")
        assert e.anchor.guarantee == "smallest"
        predicted = pipeline.predict([" ".join(words)])[0]
        keep = [[word for word, stays in zip(words, mask, strict=True) if stays] for mask in masks]
        stays = pipeline.predict([" ".join(row) for row in keep]) == predicted
        indices = list(e.anchor.features)
        assert stays[masks[:, indices].all(axis=1)].all()
        for smaller in combinations(range(7), len(indices) - 1) if indices else ():
            assert not stays[masks[:, list(smaller)].all(axis=1)].all()


def test_a_limit_of_nodes_makes_the_guarantee_weaker():
    model = tiny_model(1)
    result = explain_text(model, threshold=1.0, nodes=0)
    assert result.anchor.guarantee in ("sufficient", "minimal")
    assert result.diagnostics["limit"] == "nodes"
    assert true_precision(model, result.anchor.features) == 1


@pytest.mark.parametrize("budget", [43, 100, 700])
def test_a_budget_limits_the_search_and_the_precision_together(budget):
    calls = []

    def outputs(texts):
        calls.extend(texts)
        return np.array([[len(set(text.split())) - 12.5 + 3 * ("w3" in text)] for text in texts])

    model = limelight.wrap(outputs, classes=["no", "yes"], scale="logit")
    text = " ".join(f"w{i}" for i in range(20))
    calls.clear()
    e = limelight.explain(model, text, "anchors", budget=f"{budget} calls")
    assert len(calls) <= budget
    assert e.settings["samples"] + e.settings["max_samples"] < budget
    low, high = e.anchor.precision_interval
    assert low <= e.anchor.precision <= high


def shortest_by_definition(label_of, d, threshold):
    """Oracle: every set of words in turn, its precision counted mask by mask."""
    masks = [frozenset(j for j in range(d) if bits >> j & 1) for bits in range(2**d)]
    contained = {mask: label_of(mask) == label_of(frozenset(range(d))) for mask in masks}
    precision = {
        words: np.mean([contained[mask] for mask in masks if words <= mask]) for words in masks
    }
    enough = [words for words in masks if precision[words] >= threshold]
    size = min(map(len, enough))
    return size, max(precision[words] for words in enough if len(words) == size)


@pytest.mark.parametrize("seed", range(6))
def test_few_words_have_the_best_anchor_there_is(seed):
    """Words that work in threes mislead a search that adds one at a time."""
    d, rng = 8, np.random.default_rng(seed)
    triples = [frozenset(rng.choice(d, 3, replace=False).tolist()) for _ in range(4)]
    sign = rng.choice([-1.0, 1.0], 4)
    score = lambda keep: 0.1 + sum(s for t, s in zip(triples, sign, strict=True) if t <= keep)  # noqa: E731
    model = limelight.wrap(
        lambda texts: np.array([[score({int(w[1]) for w in t.split()})] for t in texts]),
        classes=["no", "yes"],
        scale="logit",
    )
    e = limelight.explain(model, " ".join(WORDS[:d]), "anchors", target="predicted")
    size, precision = shortest_by_definition(lambda kept_words: score(kept_words) > 0, d, 0.95)
    assert (len(e.anchor.features), e.anchor.precision) == (size, precision)
    assert e.diagnostics["masks"] == 2**d
    assert e.stderr is None
    small = limelight.explain(model, " ".join(WORDS[:d]), "anchors", max_size=1, threshold=0.999)
    assert len(small.anchor.features) <= 1


@pytest.mark.parametrize(
    "setting",
    [
        {"delta": 0.2},
        {"batch": 7},
        {"max_size": 2},
        {"samples": 5},
        {"max_samples": 9},
        {"seed": 4},
    ],
)
def test_a_proof_has_no_settings_of_a_search(setting):
    model, text = limelight.load(), "The plot is predictable, but the acting is superb."
    (name,) = setting
    with pytest.raises(InputError, match=f"{name} is for anchors with a measured precision"):
        limelight.explain(model, text, "anchors", **setting)
    assert limelight.explain(model, text, "anchors", threshold=0.95, **setting).anchor is not None
