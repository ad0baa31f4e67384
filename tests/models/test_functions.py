"""Functions as models: what is checked, what a removed word becomes, and known answers."""

import re
import sys
from itertools import combinations
from math import comb

import numpy as np
import pytest

import limelight
from limelight import InputError
from limelight.explainers import METHODS, usable_methods
from limelight.models import Engine
from limelight.text import tokenize
from shape_checks import no_type_checks

from known import BY_ASKING
from tiny_models import tiny_model

TEXT = "w1 w5 never w8 w5 w11"
LONG = "w1 w5 never w8 w5 w11 w2 w3 w4 w6 w7 w9"  # 11 words have 2048 masks: more than are asked
PAPER = tiny_model(2, outputs=3, scale=0.6)


def paper_as_function(**options):
    return limelight.wrap(
        PAPER.predict_proba,
        classes=PAPER.classes,
        mask="zzz",
        words=lambda text: tokenize(text).spans,
        **options,
    )


def chances(rows):
    """A function that answers every text with the same row."""
    return lambda texts: np.array([rows] * len(texts))


@pytest.mark.parametrize("text", ["one two three", LONG])
@pytest.mark.parametrize("method", ["lime", "shapley", "loo"])
def test_a_function_that_never_moves_is_explained_without_a_warning(text, method):
    model = limelight.wrap(chances([0.3, 0.7]), classes=["no", "yes"])
    e = limelight.explain(model, text, method)
    np.testing.assert_array_equal(e.scores, 0)
    sampled = text == LONG and method != "loo"
    assert len(e.warnings) == sampled  # that nothing moved is no proof


def test_functions_answer_these_methods():
    assert usable_methods(limelight.wrap(chances([0.3, 0.7]), classes=["no", "yes"])) == [
        *BY_ASKING
    ]


def test_tensors_are_answers_whatever_their_graph_and_precision():
    torch = pytest.importorskip("torch")
    for kind in (torch.float32, torch.bfloat16):
        model = limelight.wrap(
            lambda texts, kind=kind: torch.full((len(texts), 2), 0.5, dtype=kind).requires_grad_(),
            classes=["bad", "good"],
        )
        np.testing.assert_array_equal(model.predict_proba(["a text"]), [[0.5, 0.5]])


def test_no_texts_have_no_answers():
    model = limelight.wrap(chances([0.5, 0.5]), classes=["bad", "good"])
    assert model.predict_proba([]).shape == (0, 2)


def test_probabilities_come_back_as_they_were():
    for row in ([0.3, 0.7], [0.2, 0.3, 0.5], [0.25]):
        names = [f"c{i}" for i in range(max(2, len(row)))]
        model = limelight.wrap(chances(row), classes=names)
        full = row if len(row) > 1 else [1 - row[0], row[0]]
        np.testing.assert_allclose(model.predict_proba(["x"])[0], full, rtol=1e-12)
        e = limelight.explain(model, "x y", "loo", scale="probability", target=1)
        assert e.scale == "probability"
    large_sample = limelight.wrap(chances([0.5, 0.9]), classes=["a", "b"], multi_label=True)
    np.testing.assert_allclose(large_sample.predict_proba(["x"])[0], [0.5, 0.9])


def test_a_warning_counts_outputs_of_infinite_log_odds():
    def certain(texts):
        sure = np.array([float("good" in text.split()) for text in texts])
        return np.stack([1 - sure, 0.7 * sure, 0.3 * sure], axis=1)

    model = limelight.wrap(certain, classes=["bad", "good", "best"])
    for method, count, clipped in (("loo", 5, 5), ("shapley", 9, 9), ("lime", 9, 9)):
        e = limelight.explain(model, "a good film", method, target="bad")
        assert e.warnings[-1] == (
            f"{clipped} of {count} outputs were probabilities of 0 or 1, clipped to log-odds of "
            "±27.6, so the size of scores is unreliable. Use scale='probability', or let the "
            "function return logits."
        )
        assert np.abs(e.scores).max() > 27
    values = limelight.explain(model, "a good film", "loo", target="best")
    assert values.warnings[-1].startswith("2 of 5 outputs")  # without "good", and without any word
    sampled = limelight.explain(model, "a good film", "lime-sampled", samples=50, target="bad")
    assert sampled.warnings[-1].startswith("51 of 51 outputs")  # and the base value
    for unheld in ({"scale": "probability"}, {"target": "x"}):
        soft = limelight.wrap(chances([0.3, 0.7]), classes=["y", "x"])
        request = model if "scale" in unheld else soft
        assert not limelight.explain(request, "a good film", "loo", **unheld).warnings


@pytest.mark.parametrize("method", ["loo", "lime", "shapley", "lime-sampled"])
def test_a_model_with_random_outputs_gives_a_warning(method):
    rng = np.random.default_rng(0)
    options = {"samples": 40} if "lime" in method else {}
    noisy = limelight.wrap(
        lambda texts: rng.normal(size=(len(texts), 2)), classes=["a", "b"], scale="logit"
    )
    e = limelight.explain(noisy, "one two three four", method, **options)
    assert any("for the same text, and standard errors" in warning for warning in e.warnings)
    rounded = limelight.wrap(
        lambda texts: 1e-3 * rng.normal(size=(len(texts), 2)), classes=["a", "b"], scale="logit"
    )
    e = limelight.explain(rounded, "one two three four", method, **options)
    assert not any("for the same text, and standard errors" in warning for warning in e.warnings)


def test_a_function_may_do_with_its_list_what_it_likes():
    def empty_outputs(texts):
        answers = np.full((len(texts), 2), 0.5)
        texts.clear()
        return answers

    model = limelight.wrap(empty_outputs, classes=["a", "b"])
    assert limelight.explain(model, "one two", "loo").scores.tolist() == [0, 0]


def test_a_page_shows_the_probabilities_of_the_function():
    from limelight.rendering.wording import class_outcomes

    model = limelight.wrap(chances([0.2, 0.3, 0.5]), classes=["a", "b", "c"])
    output = class_outcomes(limelight.explain(model, "x y", "loo"))
    np.testing.assert_allclose([value.probability for value in output], [0.2, 0.3, 0.5])
    assert [element.name for element in output if element.chosen] == ["c"]


@pytest.mark.parametrize("method", BY_ASKING)
def test_a_result_carries_its_settings_and_survives_json(method):
    model = paper_as_function(name="the paper's")
    e = limelight.explain(model, TEXT, method, target=1)
    assert e.features == ("w1", "w5", "never", "w8", "w11")
    assert e.spans[1] == ((3, 5), (15, 17))
    # Two are stored where they are set.
    stored = set(METHODS[method].implementations[-1].settings) - {
        "spare",
        "start",
        "orders",
        "few_calls",
    }
    assert stored <= set(e.settings)
    assert e.settings["replacement"] == "mask"
    assert e.model == model.fingerprint
    assert re.fullmatch("the paper's [0-9a-f]{64}", e.model)
    again = limelight.Explanation.from_json(e.to_json())
    assert again.to_json() == e.to_json()


def log_odds_value(text, target):
    p = PAPER.predict_proba([text])[0, target]
    return np.log(p) - np.log1p(-p)


@pytest.mark.parametrize(("text", "pairs"), [(TEXT, 25), (LONG, 100)])
def test_shapley_agrees_with_all_subsets(text, pairs):
    """The short text has so few masks that all are asked."""
    e = limelight.explain(paper_as_function(), text, "shapley", target=1, pairs=pairs)
    d, words = len(e.features), text.split()
    assert (e.stderr is None) == (text == TEXT)
    error = np.zeros(d) if e.stderr is None else e.stderr

    def f(inside):
        keep = {e.features[j] for j in inside}
        return log_odds_value(" ".join(w if w in keep else "zzz" for w in words), 1)

    value = {S: f(S) for k in range(d + 1) for S in combinations(range(d), k)}
    for j in range(d):
        exact = sum(
            (value[tuple(sorted((*S, j)))] - value[S]) / (d * comb(d - 1, len(S)))
            for S in value
            if j not in S
        )
        assert abs(e.scores[j] - exact) <= 5 * error[j] + 1e-12
    np.testing.assert_allclose(e.scores.sum(), value[tuple(range(d))] - value[()], rtol=1e-9)
    assert e.base_value == pytest.approx(value[()])


@pytest.mark.parametrize("text", [TEXT, LONG, "w1 w5"])
def test_on_the_papers_classifier_sampling_finds_the_exact_scores(text):
    model = limelight.wrap(
        PAPER.logits,
        classes=PAPER.classes,
        scale="logit",
        mask="zzz",
        words=lambda text: tokenize(text).spans,
    )
    more = {"lime": {"samples": 2000}, "shapley": {"pairs": 100}}
    for method in ("loo", "lime", "shapley"):
        exact = limelight.explain(PAPER, text, method, target=2)
        explanation = limelight.explain(model, text, method, target=2, **more.get(method, {}))
        assert (explanation.stderr is None) == (method == "loo" or text != LONG)
        error = exact.bound + 1e-9 if explanation.stderr is None else 5 * explanation.stderr + 1e-9
        assert (np.abs(explanation.scores - exact.scores) <= error).all(), method
        assert explanation.base_value == pytest.approx(exact.base_value)
    same = [limelight.explain(m, text, "lime-sampled", target=2) for m in (PAPER, model)]
    np.testing.assert_allclose(same[0].scores, same[1].scores, rtol=1e-9)


def test_the_agreement_can_fail():
    exact = limelight.explain(PAPER, LONG, "shapley", target=2)
    other = limelight.explain(paper_as_function(), LONG, "shapley", target=2)  # log-odds
    assert not (np.abs(other.scores - exact.scores) <= 5 * other.stderr + 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"), [("shapley", {"pairs": 40}), ("lime", {"samples": 200})]
)
def test_the_standard_errors_are_honest(method, options):
    """Over 100 seeds the 95 % interval covers the exact value 92 to 98 % of the time."""
    model = limelight.wrap(PAPER.logits, classes=PAPER.classes, scale="logit", mask="zzz")
    exact = limelight.explain(PAPER, LONG, method, target=2).scores
    inside = []
    for seed in range(100):
        e = limelight.explain(model, LONG, method, target=2, seed=seed, **options)
        inside.append(np.abs(e.scores - exact) <= 1.96 * e.stderr)
    assert 0.92 <= np.mean(inside) <= 0.98


def test_all_classes_come_from_the_same_calls():
    seen = []

    def predict(texts):
        seen.extend(texts)
        return PAPER.predict_proba(texts)

    model = limelight.wrap(predict, classes=PAPER.classes, mask="zzz")
    limelight.explain(model, TEXT, "lime", target=0, samples=100)
    value = len(seen)
    seen.clear()
    every = limelight.explain_classes(model, TEXT, "lime", samples=100)
    assert list(every) == list(PAPER.classes)
    assert len(seen) == value


def test_deleting_takes_the_space_along_and_masking_does_not():
    request = []

    def predict(texts):
        request.extend(texts)
        return np.full((len(texts), 2), 0.5)

    limelight.explain(limelight.wrap(predict, classes=["a", "b"]), "one, two  three", "loo")
    assert set(request) == {"one, two  three", ", two  three", "one two  three", "one, three",
                          "one, two  ", ""}  # fmt: skip
    request.clear()
    masked = limelight.wrap(predict, classes=["a", "b"], mask="#")
    limelight.explain(masked, "one two", "loo", protect=["two"])
    assert set(request) == {"one two", "# two"}
    with pytest.raises(InputError, match="unknown replacement: 'mask'"):
        limelight.explain(
            limelight.wrap(predict, classes=["a", "b"]), "one two", "loo", replacement="mask"
        )


def test_a_linear_scikit_learn_model_has_known_answers():
    """Without normalization the log-odds are linear in the counts: Σ count · idf · weight."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = ["good film", "bad film", "very good plot", "very bad plot", "good", "bad acting"] * 3
    pipeline = make_pipeline(TfidfVectorizer(norm=None), LogisticRegression())
    with pytest.raises(InputError, match="Fit it first"):
        limelight.wrap(pipeline)
    with pytest.raises(InputError, match="tags is for functions"):
        limelight.wrap(pipeline, tags=["pos"])
    pipeline.fit(texts, ["pos", "neg", "pos", "neg", "pos", "neg"] * 3)
    model = limelight.wrap(pipeline)
    assert model.classes == ("neg", "pos")
    text = "good film good plot but bad acting"
    tfidf, regression = pipeline[0], pipeline[1]
    weight = dict(zip(tfidf.get_feature_names_out(), tfidf.idf_ * regression.coef_[0], strict=True))
    for method in ("loo", "shapley", "lime"):
        e = limelight.explain(model, text, method)
        reference = [text.split().count(w) * weight.get(w, 0.0) for w in e.features]
        np.testing.assert_allclose(e.scores, reference, atol=1e-9)
        assert e.base_value == pytest.approx(regression.intercept_[0])
    assert np.abs(reference).max() > 0.1  # the comparison has something to compare


def test_a_margin_is_a_score_without_probabilities():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    pipeline = make_pipeline(CountVectorizer(), LinearSVC())
    pipeline.fit(["good", "bad", "so good", "so bad"], [1, 0, 1, 0])
    e = limelight.explain(limelight.wrap(pipeline), "so good", "loo")
    assert e.target == "1"
    assert dict(e.as_list())["good"] == pytest.approx(pipeline[1].coef_[0][1])
    assert (e.scale, e.link) == ("score", "none")
    with pytest.raises(InputError, match="are scores, not log-odds, so it has no probabilities"):
        limelight.wrap(pipeline).predict_proba(["so good"])
    with pytest.raises(InputError, match=r"unknown scale: 'probability'\. Choose from: score"):
        limelight.explain(limelight.wrap(pipeline), "so good", "loo", scale="probability")
    with pytest.raises(
        InputError, match=r"unknown scale: 'score'\. Choose from: logit, probability"
    ):
        limelight.explain(paper_as_function(), TEXT, "loo", scale="score")


@pytest.mark.parametrize("row", [[0.25], [-0.5, 2.0], [-0.5, 2.0, 1.0]])
def test_scores_are_shown_as_scores(row):
    from limelight.rendering.wording import class_outcomes

    names = [f"c{i}" for i in range(max(2, len(row)))]
    e = limelight.explain(
        limelight.wrap(chances(row), classes=names, scale="score"), "x y", "loo", target=1
    )
    assert [class_outcome.probability for class_outcome in class_outcomes(e)] == [None] * len(names)
    assert [value.name for value in class_outcomes(e) if value.chosen] == ["c1"]
    assert "%" not in e.as_html().split("</style>")[-1].split("<script")[0]
    assert limelight.explain(
        limelight.wrap(chances(row), classes=names, scale="score"), "x y", "anchors"
    ).diagnostics["holds"] == "c1"  # fmt: skip


def test_a_scikit_learn_model_of_several_labels_has_a_probability_for_each():
    pytest.importorskip("sklearn")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline

    texts = ["good plot", "good", "plot", "nothing"]
    labels = np.array([[1, 1], [1, 0], [0, 1], [0, 0]])
    pipeline = make_pipeline(TfidfVectorizer(), OneVsRestClassifier(LogisticRegression()))
    pipeline.fit(texts, labels)
    model = limelight.wrap(pipeline)
    np.testing.assert_allclose(model.predict_proba(texts), pipeline.predict_proba(texts))


def test_a_scikit_learn_regression_is_wrapped_as_a_score():
    """The score of a linear model is its weight, and any other regressor is asked."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import Ridge
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline

    texts, ratings = ["good", "bad", "so good"], [5, 1, 4]
    model = make_pipeline(CountVectorizer(), Ridge()).fit(texts, ratings)
    e = limelight.explain(limelight.wrap(model), "so good", "loo")
    weights = dict(zip(model[0].get_feature_names_out(), model[1].coef_, strict=True))
    assert dict(e.as_list()) == pytest.approx({word: weights[word] for word in ("so", "good")})
    request = make_pipeline(CountVectorizer(), KNeighborsRegressor(1)).fit(texts, ratings)
    e = limelight.explain(limelight.wrap(request), "so good", "loo")
    assert dict(e.as_list())["so"] == pytest.approx(-1.0)  # "so good" is rated 4, "good" 5


def test_a_scikit_learn_model_of_several_outputs_raises_an_error_with_advice():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import MultiOutputClassifier
    from sklearn.pipeline import make_pipeline

    texts, labels = ["good plot", "good", "plot", "nothing"], [[1, 1], [1, 0], [0, 1], [0, 0]]
    model = make_pipeline(CountVectorizer(), MultiOutputClassifier(LogisticRegression()))
    with pytest.raises(InputError) as error:
        limelight.wrap(model.fit(texts, np.array(labels)))
    assert str(error.value) == (
        "the scikit-learn model has 2 outputs, each with its own classes. Wrap one of "
        "them, limelight.wrap(lambda texts: model.predict_proba(texts)[0], classes=[…]), "
        "or fit a OneVsRestClassifier."
    )
    value = limelight.wrap(lambda texts: model.predict_proba(texts)[0], classes=["no", "yes"])
    assert value.predict_proba(["good"])[0, 1] > 0.5


def test_what_can_be_explained_already_comes_back_as_it_is():
    for model in (PAPER, paper_as_function()):
        assert limelight.wrap(model) is model

    class Own:
        classes = ("a", "b")
        capabilities = {}  # noqa: RUF012

        def game(self, *_):
            return None

    with pytest.raises(InputError) as error:
        limelight.wrap(Own())
    assert str(error.value) == (
        "Own is not a model yet, because it lacks link, fingerprint, replacements, read, outputs."
    )


def test_classes_may_be_an_array():
    with no_type_checks():
        model = limelight.wrap(chances([0.5, 0.5]), classes=np.array(["a", "b"]))
    assert model.classes == ("a", "b")


def test_compare_shows_what_a_function_can_answer():
    comparison = limelight.compare(paper_as_function(), [TEXT, "w1 w2"], target=1)
    assert [[e.method for e in c] for c in comparison] == [["shapley", "lime", "loo"]] * 2


def test_the_engine_asks_each_item_once_in_batches_of_alike_length():
    batches = []

    def answer(items):
        batches.append(items)
        return np.array([[float(len(item))] for item in items])

    engine = Engine(answer, size=len, key=lambda item: item, max_batch_size=6)
    result = engine(["a", "bbb", "cc", "a", "ddd", "e"])
    assert result[:, 0].tolist() == [1, 3, 2, 1, 3, 1]
    assert batches == [["bbb", "ddd"], ["cc", "a", "e"]]
    batches.clear()
    Engine(answer, size=len, key=lambda item: item, max_batch_size=100, max_items=1)(["a", "bbb"])
    assert batches == [["bbb"], ["a"]]


def test_the_engine_asks_for_less_when_memory_runs_out():
    sizes = []

    def answer(items):
        sizes.append(len(items))
        if len(items) > 3:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return np.array([[float(item)] for item in items])

    engine = Engine(answer, size=lambda _: 1, key=lambda item: item, max_batch_size=16)
    assert engine(range(16))[:, 0].tolist() == list(range(16))
    assert sizes == [16, 8, 4, 2] + [2] * 7

    def broken(items):
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        Engine(broken, size=len, key=str, max_batch_size=4)(["x", "y"])


def test_sampled_lime_is_the_lime_package_on_the_same_masks():
    """The package's regression on our masks and answers, probabilities as it takes them."""
    from lime.lime_base import LimeBase

    from limelight.sampling.masks import text_rng
    from limelight.sampling.sample import make_lime_sampler

    model = paper_as_function()
    options = {"samples": 300, "scale": "probability", "target": 1, "num_features": 5}
    e = limelight.explain(model, TEXT, "lime-sampled", feature_selection="none", **options)
    d = len(e.features)
    samples, _ = make_lime_sampler(d)(299, text_rng(0, TEXT))
    keep = np.concatenate([np.ones((1, d), bool), samples])
    texts = [
        " ".join(w if row[e.features.index(w)] else "zzz" for w in TEXT.split()) for row in keep
    ]
    distance = 1 - np.sqrt(keep.mean(axis=1))
    base = LimeBase(lambda d: np.exp(-((d / 0.25) ** 2) / 2))
    _, pairs, *_ = base.explain_instance_with_data(
        keep.astype(float), PAPER.predict_proba(texts), distance, 1, d, feature_selection="none"
    )
    np.testing.assert_allclose(e.scores[[j for j, _ in pairs]], [v for _, v in pairs], atol=1e-6)


EMOJI = {
    "skin tone": "👍🏽",
    "family": "👩‍👩‍👧",
    "runner": "🏃🏽‍♀️",
    "flag": "🇩🇪",
    "keycap": "1️⃣",
    "region": "🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    "heart": "❤️",
    "accent": "cafe\u0301",
    "possessive": "cafe\u0301\u2019s",
    "Hindi": "हिन्दी",
    "Thai": "ที่",
}


@pytest.mark.parametrize("word", EMOJI.values(), ids=EMOJI)
def test_what_a_reader_sees_as_one_is_one_word(word):
    model = limelight.wrap(lambda texts: [[0.5, 0.5]] * len(texts), classes=["a", "b"])
    text = f"So {word}, {word}!"
    assert model.read(text).tokens.strings == ("So", word, ",", word, "!")
    assert limelight.explain(model, text).features == ("So", word, ",", "!")


def test_signs_in_a_row_are_words_of_their_own():
    model = limelight.wrap(lambda texts: [[0.5, 0.5]] * len(texts), classes=["a", "b"])
    text = "🇩🇪🇫🇷👍🏽👍1️⃣2️⃣ab3 \u0301x"
    result = ("🇩🇪", "🇫🇷", "👍🏽", "👍", "1️⃣", "2️⃣", "ab3", "\u0301", "x")
    assert model.read(text).tokens.strings == result


def test_a_model_of_a_module_is_loaded_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "my_classifiers.py").write_text(
        "import limelight\n"
        "model = limelight.wrap(lambda texts: [[2.0]] * len(texts), classes=['no', 'yes'], "
        "scale='logit')\n"
        "class inner:\n    model = model\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("my_classifiers:model", "my_classifiers:inner.model"):
        assert limelight.load(name).logits(["good"]) == pytest.approx(2.0)
    with pytest.raises(limelight.InputError, match="there is no model 'my_classifiers:other'"):
        limelight.load("my_classifiers:other")
    with pytest.raises(limelight.InputError, match="there is no model 'no_such_module:thing'"):
        limelight.load("no_such_module:thing")
    sys.modules.pop("my_classifiers")


def test_masks_may_be_in_any_order_of_memory():
    model = limelight.wrap(
        lambda texts: [[len(text), 1.0] for text in texts], classes=["long", "short"], scale="logit"
    )
    game = limelight.game(model, "one two three four five six seven eight nine")
    masks = np.random.default_rng(0).random((40, len(game))) < 0.5
    np.testing.assert_array_equal(game(np.asfortranarray(masks)), game(masks))
