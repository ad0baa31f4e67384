"""TF-IDF, counts and hashes under linear classifiers: exact values against the pipeline itself."""

import itertools
import math
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from random_pipelines import blank_words

import limelight
from limelight.theory.enumeration import (
    enumerate_masks,
    lime_mask_weights,
    ridge_matrix,
    shapley_matrix,
)

pytest.importorskip("sklearn")
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    Perceptron,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import MaxAbsScaler, Normalizer
from sklearn.svm import SVC, LinearSVC

WORDS = (
    *("good", "bad", "film", "plot", "cast", "dull", "great", "awful"),
    *("music", "story", "slow", "sharp", "long", "funny", "old", "new"),
)
TEXT = "Good film, GREAT cast: the plot is dull, slow; a good story!"


def shout(text):
    return text.lower().replace("!", " ")


def stems(text):
    return [word.strip(".,;:!")[:4] for word in text.split()]


def pairs_of_words(text):
    words = text.split()
    return words + [" ".join(two) for two in itertools.pairwise(words)]


def negate_words(text):
    return text.lower().replace("not good", "not_good")


class PerLength(CountVectorizer):
    """Counts over the length of the text, which a deleted word changes for the others."""

    def transform(self, raw_documents):
        result = super().transform(raw_documents)
        return result.multiply(1 / np.maximum(result.sum(axis=1), 1)).tocsr()

    def fit_transform(self, raw_documents, y=None):
        super().fit_transform(raw_documents, y)
        return self.transform(raw_documents)


VECTORIZERS = {
    **{
        f"tfidf {norm} {'log' if log else 'tf'}{'' if idf else ' no idf'}": (
            lambda norm=norm, log=log, idf=idf: TfidfVectorizer(
                norm=norm, sublinear_tf=log, use_idf=idf
            )
        )
        for norm, log, idf in itertools.product(["l2", "l1", None], [False, True], [True, False])
    },
    "counts": CountVectorizer,
    "binary": lambda: CountVectorizer(binary=True),
    "binary l2": lambda: TfidfVectorizer(binary=True),
    "stop words": lambda: TfidfVectorizer(stop_words=["the", "is", "a"]),
    "case kept": lambda: TfidfVectorizer(lowercase=False),
    "one letter": lambda: TfidfVectorizer(token_pattern=r"(?u)\b\w+\b"),
    "group": lambda: TfidfVectorizer(token_pattern=r"(\w\w+)[,;:!]?"),
    "spaces": lambda: TfidfVectorizer(token_pattern=r"\S+"),
    "accents": lambda: TfidfVectorizer(strip_accents="unicode"),
    "preprocessor": lambda: TfidfVectorizer(preprocessor=shout),
    "tokenizer": lambda: TfidfVectorizer(tokenizer=stems, token_pattern=None),
    "analyzer": lambda: TfidfVectorizer(analyzer=stems),
    "single precision": lambda: TfidfVectorizer(dtype=np.float32),
    "hash": lambda: HashingVectorizer(n_features=2**12, alternate_sign=False),
    "signed hash": lambda: HashingVectorizer(n_features=2**12),
    "hash l1": lambda: HashingVectorizer(n_features=2**12, norm="l1", alternate_sign=False),
    "hash, few columns": lambda: HashingVectorizer(n_features=8, alternate_sign=False),
}
CLASSIFIERS = {
    "logistic": LogisticRegression,
    "margins": lambda: LinearSVC(dual="auto"),  # which older versions ask for
    "sgd": lambda: SGDClassifier(loss="log_loss", random_state=0),
    "ridge": RidgeClassifier,
    "perceptron": Perceptron,
    "multinomial": MultinomialNB,
    "complement": ComplementNB,
    "bernoulli": BernoulliNB,
    "one against rest": lambda: OneVsRestClassifier(LogisticRegression()),
    "regression": Ridge,
}
SIGNED = {"signed hash"}
COUNTING = {"multinomial", "complement", "bernoulli"}


def corpus(seed, classes):
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, 6)) for _ in range(40)]
    return texts, rng.integers(0, classes, 40).tolist()


def fit_pipeline(vectorizer, classifier, *, classes=2, seed=0, between=()):
    texts, labels = corpus(seed, classes)
    names = labels if isinstance(classifier, Ridge) else [f"class {y}" for y in labels]
    return make_pipeline(vectorizer, *between, classifier).fit(texts, names)


def pipeline_outputs(pipeline, texts):
    """What the pipeline itself says, as one column or one per class."""
    last, rows = pipeline[-1], pipeline[:-1].transform(texts)
    if hasattr(last, "predict_joint_log_proba"):
        result = last.predict_joint_log_proba(rows)
        return result[:, 1:] - result[:, :1] if result.shape[1] == 2 else result
    result = last.decision_function(rows) if hasattr(last, "classes_") else last.predict(rows)
    return np.asarray(result, dtype=np.float64).reshape(len(texts), -1)


def exact_scores(pipeline, e, classes):
    """Shapley values and LIME's limit from the pipeline's answers to all subsets of the words."""
    d = len(e.scores)
    keep = enumerate_masks(d)
    f = pipeline_outputs(pipeline, [blank_words(e, row) for row in keep])
    index = classes.index(e.target)
    column = f[:, -1] if index == len(classes) - 1 else -f[:, 0] if f.shape[1] == 1 else f[:, index]
    Z = np.concatenate([np.ones((len(keep), 1)), keep], axis=1)
    regression = column @ ridge_matrix(Z, lime_mask_weights(d), 0.0)
    return column @ shapley_matrix(d), regression[1:], column[0]


def check_exact(pipeline, text=TEXT):
    """Return the largest error over its bound of Shapley and LIME, which must not pass 1."""
    model = limelight.wrap(pipeline)
    assert model.capabilities["exact_game"] is None
    shapley = limelight.explain(model, text, "shapley", tolerance=1e-9)
    lime = limelight.explain(model, text, "lime", tolerance=1e-9)
    by_shapley, by_lime, base = exact_scores(pipeline, shapley, model.classes)
    worst = max(
        np.abs(shapley.scores - by_shapley).max() / shapley.bound,
        np.abs(lime.scores - by_lime).max() / lime.bound,
    )
    assert worst <= 1
    assert abs(shapley.base_value - base) <= shapley.bound + 1e-6 * (1 + abs(base))
    return worst


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("vectorizer", VECTORIZERS)
def test_every_vectorizer_is_exact(vectorizer, classes):
    check_exact(fit_pipeline(VECTORIZERS[vectorizer](), LogisticRegression(), classes=classes))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_every_classifier_is_exact(classifier, classes):
    check_exact(fit_pipeline(TfidfVectorizer(), CLASSIFIERS[classifier](), classes=classes))


@pytest.mark.slow
def test_every_vectorizer_with_every_classifier_is_exact():
    """A third of them, two and three classes in turn; PIPELINE_SEEDS=8 tries all, each 8 times."""
    seeds = range(int(os.environ.get("PIPELINE_SEEDS", "1")))
    every = itertools.product(enumerate(VECTORIZERS), enumerate(CLASSIFIERS), seeds)
    values = [
        (value, other, 2 + (i + j + seed) % 2, seed)
        for (i, value), (j, other), seed in every
        if len(seeds) > 1 or (i + j) % 3 == 0
    ]
    worst = [
        check_exact(
            fit_pipeline(VECTORIZERS[element](), CLASSIFIERS[other](), classes=classes, seed=seed),
            " ".join(np.random.default_rng(seed).choice(WORDS, 7)).capitalize(),
        )
        for element, other, classes, seed in values
        if not (element in SIGNED and other in COUNTING)
    ]
    assert len(worst) > (250 * len(seeds) if len(seeds) > 1 else 80)
    assert 1e-4 < max(worst) <= 1


STEPS = {
    "counts, tf-idf": (CountVectorizer, [TfidfTransformer]),
    "chosen, then divided": (CountVectorizer, [lambda: SelectKBest(chi2, k=9), TfidfTransformer]),
    "divided, then chosen": (TfidfVectorizer, [lambda: SelectKBest(chi2, k=9)]),
    "scaled": (TfidfVectorizer, [MaxAbsScaler]),
    "scaled, then divided": (CountVectorizer, [MaxAbsScaler, Normalizer]),
    "divided twice": (TfidfVectorizer, [lambda: Normalizer("l1")]),
    "mixed": (TfidfVectorizer, [lambda: TruncatedSVD(5, random_state=0)]),
}


@pytest.mark.parametrize("steps", STEPS)
def test_linear_steps_between_are_exact(steps):
    vectorizer, between = STEPS[steps]
    check_exact(
        fit_pipeline(
            vectorizer(), LogisticRegression(), classes=3, between=[value() for value in between]
        )
    )


def search_result(inside):
    texts, labels = corpus(0, 2)
    if inside:  # of the classifier alone, in a pipeline of pipelines
        search = GridSearchCV(LogisticRegression(), {"C": [1, 10]}, cv=2)
        parts = make_pipeline(CountVectorizer(), TfidfTransformer()), make_pipeline(search)
        return make_pipeline(*parts).fit(texts, labels)
    full = make_pipeline(TfidfVectorizer(), LogisticRegression())
    return GridSearchCV(full, {"logisticregression__C": [1, 10]}, cv=2).fit(texts, labels)


@pytest.mark.parametrize("inside", [False, True])
def test_a_fitted_search_is_what_it_found_best(inside):
    pipeline = search_result(inside)
    model, text = limelight.wrap(pipeline), "good film, dull plot"
    e = limelight.explain(model, text, "shapley", tolerance=1e-9)
    f = pipeline.decision_function([blank_words(e, row) for row in enumerate_masks(4)])
    assert np.abs(e.scores - f @ shapley_matrix(4)).max() <= e.bound
    if not inside:  # which knows nothing of the search, whose times differ each time
        assert model.fingerprint == limelight.wrap(pipeline.best_estimator_).fingerprint
        with pytest.raises(limelight.InputError, match="Fit it first"):
            limelight.wrap(GridSearchCV(pipeline.best_estimator_, {}))


@pytest.mark.parametrize(
    "last", [RidgeClassifier, lambda: OneVsRestClassifier(LinearSVC(dual="auto"))]
)
def test_independent_labels_choose_no_class(last):
    texts, labels = corpus(0, 8)
    bits = np.array([[label & 1, label & 2, label & 4] for label in labels], dtype=bool).astype(int)
    model = limelight.wrap(make_pipeline(TfidfVectorizer(), last()).fit(texts, bits))
    assert model.capabilities["exact_game"] is None
    assert model.limitations["is_exclusive"] == "the labels of this function are independent"


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_adversarial_weights_and_frequencies_are_exact(scale):
    pipeline = fit_pipeline(TfidfVectorizer(), LogisticRegression())
    rng = np.random.default_rng(5)
    n = len(WORDS)
    pipeline[0].idf_ = 10 ** rng.uniform(-4, 4, n)
    pipeline[1].coef_ = scale * rng.normal(size=(1, n)) * 10 ** rng.uniform(-3, 3, (1, n))
    check_exact(pipeline)


@pytest.mark.parametrize(
    ("vectorizer", "classifier", "between", "why"),
    [
        (
            TfidfVectorizer(ngram_range=(1, 2)),
            LogisticRegression(),
            (),
            "columns of the vectorizer contain several words (ngram_range=(1, 2))",
        ),
        (
            TfidfVectorizer(analyzer="char"),
            LogisticRegression(),
            (),
            "the vectorizer counts characters (analyzer='char')",
        ),
        (TfidfVectorizer(), RandomForestClassifier(5), (), "RandomForestClassifier is not linear"),
        (
            TfidfVectorizer(),
            LogisticRegression(),
            (TruncatedSVD(5), Normalizer()),
            "TruncatedSVD mixes the columns before a norm",
        ),
        (
            CountVectorizer(),
            LogisticRegression(),
            (Normalizer("max"),),
            "the norm 'max' is not supported",
        ),
        (
            TfidfVectorizer(),
            LogisticRegression(),
            (SelectKBest(chi2, k=9), TfidfTransformer(norm=None)),
            "the pipeline weights the columns after a norm",
        ),
        (
            make_union(TfidfVectorizer(), CountVectorizer()),
            LogisticRegression(),
            (),
            "the pipeline begins with FeatureUnion, not with a vectorizer of words",
        ),
        (
            TfidfVectorizer(token_pattern=r"(?<!so )\w\w+"),
            LogisticRegression(),
            (),
            "the token pattern depends on the text around a word",
        ),
        (
            PerLength(),
            LogisticRegression(),
            (),
            "PerLength changes transform of scikit-learn's CountVectorizer",
        ),
        (
            TfidfVectorizer(analyzer=pairs_of_words),
            LogisticRegression(),
            (),
            "reads some words differently",
        ),
        (
            TfidfVectorizer(),
            BernoulliNB(binarize=0.1),
            (),
            "BernoulliNB compares values with the threshold 0.1",
        ),
        (
            TfidfVectorizer(),
            SGDClassifier(loss="modified_huber", random_state=0),
            (),
            "the probabilities are not a known function of the scores",
        ),
    ],
)
def test_a_pipeline_that_is_not_linear_is_sampled_for_a_reason(
    vectorizer, classifier, between, why
):
    model = limelight.wrap(fit_pipeline(vectorizer, classifier, between=between))
    assert why in model.capabilities["exact_game"]
    explanation = limelight.explain(model, TEXT, "shapley", pairs=2)
    assert explanation.bound is None


def test_a_text_whose_words_change_others_is_sampled_with_a_warning(tmp_path):
    """Without "very" the preprocessor reads "not good" as one word; other texts stay exact."""
    pipeline = fit_pipeline(TfidfVectorizer(preprocessor=negate_words), LogisticRegression())
    model, texts = limelight.wrap(pipeline), ["good film", "not very good film", "dull plot"]
    explanation = limelight.explain(model, texts, "shapley", tolerance=1e-9)
    assert [e.bound is None for e in explanation] == [False, True, False]
    assert "reads some words differently if other words are removed" in explanation[1].warnings[0]
    assert not explanation[0].warnings
    words = np.array(texts[1].split())
    f = pipeline.decision_function([" ".join(words[row]) for row in enumerate_masks(4)])
    np.testing.assert_allclose(explanation[1].scores, f @ shapley_matrix(4), atol=1e-9)
    run = limelight.explain_data(model, texts, "shapley", output=tmp_path / "run")
    np.testing.assert_allclose(list(run)[1].scores, explanation[1].scores, rtol=1e-6)
    assert limelight.compare(model, texts[1], budget="100 calls").warnings == ()


@pytest.mark.parametrize("classifier", ["logistic", "multinomial", "sgd", "one against rest"])
@pytest.mark.parametrize("classes", [2, 4])
def test_probabilities_are_those_of_the_pipeline(classifier, classes):
    pipeline = fit_pipeline(TfidfVectorizer(), CLASSIFIERS[classifier](), classes=classes)
    result = limelight.wrap(pipeline).predict_proba([TEXT, "dull plot"])
    np.testing.assert_allclose(result, pipeline.predict_proba([TEXT, "dull plot"]), atol=1e-9)


def test_probabilities_of_one_class_against_the_rest_are_explained():
    pipeline = fit_pipeline(TfidfVectorizer(), CLASSIFIERS["sgd"](), classes=3)
    model = limelight.wrap(pipeline)
    assert model.link == "ovr"
    e = limelight.explain(model, TEXT, "loo", scale="probability", target=1)
    full, less = pipeline.predict_proba([TEXT, TEXT.replace("cast", " ")])[:, 1]
    assert dict(zip(e.features, e.scores, strict=True))["cast"] == pytest.approx(full - less)


def test_probabilities_are_sampled_because_they_have_no_exact_formula():
    pipeline = fit_pipeline(TfidfVectorizer(), LogisticRegression(C=10))
    model, text = limelight.wrap(pipeline), "good dull film"
    e = limelight.explain(model, text, "shapley", scale="probability")
    texts = [blank_words(e, row) for row in enumerate_masks(3)]
    expected = pipeline.predict_proba(texts)[:, 1] @ shapley_matrix(3)
    np.testing.assert_allclose(e.scores, expected, atol=1e-9)


def test_the_table_of_methods_says_why_a_pipeline_is_sampled():
    request = limelight.wrap(
        fit_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression())
    )
    row = limelight.methods(request)["shapley"]
    assert "because columns of the vectorizer contain several words" in row.cost
    exact = limelight.wrap(fit_pipeline(TfidfVectorizer(), LogisticRegression()))
    assert "because" not in limelight.methods(exact)["shapley"].cost


def test_words_of_the_same_column_are_a_single_feature_with_a_warning():
    model = limelight.wrap(fit_pipeline(VECTORIZERS["hash, few columns"](), LogisticRegression()))
    e = limelight.explain(model, TEXT)
    assert any(" / " in name for name in e.features)
    assert any("puts some words into one column" in warning for warning in e.warnings)
    plain = limelight.explain(
        limelight.wrap(fit_pipeline(TfidfVectorizer(), LogisticRegression())), TEXT
    )
    assert "good" in plain.features
    assert "Good" not in plain.features
    assert not any("puts some words into one column" in warning for warning in plain.warnings)


def test_a_pipeline_that_was_fitted_again_is_found_out():
    pipeline = fit_pipeline(TfidfVectorizer(), LogisticRegression())
    model = limelight.wrap(pipeline)
    texts, labels = corpus(1, 2)
    pipeline.fit(texts, [f"class {y}" for y in labels])
    with pytest.raises(
        limelight.InputError, match=r"have changed since it was wrapped\. Wrap it again\."
    ):
        limelight.explain(model, TEXT, "shapley")


def test_a_pipeline_may_be_called_by_another_name():
    pipeline = fit_pipeline(TfidfVectorizer(), LogisticRegression())
    assert limelight.wrap(pipeline, name="mine").fingerprint.startswith("mine ")


def test_words_that_are_one_are_protected_together():
    model = limelight.wrap(fit_pipeline(VECTORIZERS["hash, few columns"](), LogisticRegression()))
    (name,) = [x for x in limelight.explain(model, TEXT).features if "film" in x.split(" / ")]
    assert " / " in name
    assert name not in limelight.explain(model, TEXT, protect=["film"]).features


def test_a_classifier_of_pairs_of_classes_is_sampled():
    machine = SVC(kernel="linear", decision_function_shape="ovo")
    model = limelight.wrap(fit_pipeline(TfidfVectorizer(), machine, classes=3))
    assert (
        "SVC does not predict the class with the largest score" in model.capabilities["exact_game"]
    )


def test_a_word_that_the_pipeline_does_not_know_does_nothing():
    model = limelight.wrap(fit_pipeline(TfidfVectorizer(), LogisticRegression()))
    e = limelight.explain(model, "a good unheardof film", "shapley")
    assert dict(zip(e.features, e.scores, strict=True))["unheardof"] == pytest.approx(
        0, abs=e.bound
    )


def test_positions_are_exact_where_columns_can_be_shared():
    pipeline = fit_pipeline(TfidfVectorizer(norm="l1"), LogisticRegression())
    model = limelight.wrap(pipeline)
    e = limelight.explain(model, TEXT, "shapley", features="positions", tolerance=1e-9)
    by_shapley, _, _ = exact_scores(pipeline, e, model.classes)
    assert len(e.scores) == len(limelight.explain(model, TEXT).scores) + 1  # "good" stands twice
    assert np.abs(e.scores - by_shapley).max() <= e.bound
    # Under the other norm a word cannot be shared out among its places, and the model is asked.
    squares = fit_pipeline(TfidfVectorizer(), LogisticRegression())
    e = limelight.explain(limelight.wrap(squares), TEXT, "shapley", features="positions", pairs=300)
    by_shapley, _, _ = exact_scores(squares, e, ("class 0", "class 1"))
    assert e.bound is None
    assert np.abs(e.scores - by_shapley).max() < 0.02


def test_sentences_end_where_a_stop_stands_that_the_model_does_not_read():
    model = limelight.wrap(fit_pipeline(TfidfVectorizer(), LogisticRegression()))
    e = limelight.explain(model, "Good film. Dull plot, bad cast! New music.", features="sentences")
    assert e.features == ("Good film.", "Dull plot, bad cast!", "New music.")
    text = "good film. dull plot."
    assert not np.allclose(
        limelight.explain(model, f"{text} new music.", "owen").scores,
        limelight.explain(model, f"{text} new music.", "shapley").scores,
    )


def test_verify_goes_back_to_the_pipeline():
    pipeline = fit_pipeline(TfidfVectorizer(sublinear_tf=True), LinearSVC(dual="auto"), classes=3)
    checks = list(limelight.verify(limelight.wrap(pipeline), f"{TEXT} {' '.join(WORDS)}"))
    assert {"lime", "shapley", "banzhaf", "interactions", "loo"} <= {
        check.method for check in checks
    }
    assert all(value.passed for value in checks)


def test_protected_words_stay_in_the_norm():
    pipeline = fit_pipeline(TfidfVectorizer(), LogisticRegression())
    model = limelight.wrap(pipeline)
    e = limelight.explain(model, TEXT, "shapley", protect=["film"], tolerance=1e-9)
    by_shapley, _, base = exact_scores(pipeline, e, model.classes)
    assert np.abs(e.scores - by_shapley).max() <= e.bound
    assert e.base_value == pytest.approx(base)


def test_a_regression_is_taken_as_it_is():
    pipeline = fit_pipeline(TfidfVectorizer(), Ridge())
    model = limelight.wrap(pipeline)
    assert model.classes == ("prediction",)
    e = limelight.explain(model, TEXT, "shapley")
    assert e.base_value + e.scores.sum() == pytest.approx(float(pipeline.predict([TEXT])[0]))


def test_the_mean_field_is_twice_coefficient_times_value_less_a_share_of_the_output():
    """φ_j ≈ 2u_j − q_j f, where coefficient × value says u_j."""
    pipeline = fit_pipeline(TfidfVectorizer(use_idf=False), LogisticRegression(fit_intercept=False))
    model, text = limelight.wrap(pipeline), " ".join(WORDS)
    e = limelight.explain(model, text, "shapley")
    row = pipeline[0].transform([text]).toarray()[0]
    place = [pipeline[0].vocabulary_[word] for word in e.features]
    u, q = (pipeline[1].coef_[0] * row)[place], (row**2)[place]
    mean_field = 2 * u - q * float(pipeline.decision_function([text])[0])
    assert np.linalg.norm(mean_field - e.scores) < 0.2 * np.linalg.norm(e.scores)
    assert np.linalg.norm(u - e.scores) > 0.4 * np.linalg.norm(e.scores)  # half of it is missing


def test_a_judge_has_a_proven_ceiling_for_them():
    model = limelight.wrap(fit_pipeline(TfidfVectorizer(), LogisticRegression(C=10)))
    texts = [" ".join(np.random.default_rng(i).choice(WORDS, 8)) for i in range(6)]
    judgment = limelight.judge(model, texts, methods=["shapley", "loo"])
    assert all(not text.best for text in judgment.texts)  # no order stands for the ceiling
    assert 0.5 < judgment["shapley"].share <= 1


@pytest.mark.parametrize("classifier", ["logistic", "multinomial", "one against rest"])
def test_it_can_be_sent_to_another_process(classifier):
    model = limelight.wrap(fit_pipeline(TfidfVectorizer(), CLASSIFIERS[classifier](), classes=3))
    before = limelight.explain(model, TEXT)
    after = limelight.explain(pickle.loads(pickle.dumps(model)), TEXT)
    np.testing.assert_array_equal(before.scores, after.scores)


@pytest.mark.slow
def test_a_run_of_several_processes_equals_that_of_one(tmp_path, monkeypatch):
    """A run starts a process for each core if that saves time, as it always does here."""
    from limelight.runs import job

    monkeypatch.setattr(job, "usable_cores", lambda: 2)
    model = limelight.wrap(fit_pipeline(TfidfVectorizer(), LogisticRegression()))
    texts = {"text": [" ".join(np.random.default_rng(i).choice(WORDS, 9)) for i in range(40)]}
    settings = {"method": "shapley", "shard_texts": 10}
    estimates = []
    settings["progress"] = lambda progress: estimates.append(progress.estimate)
    value = limelight.explain_data(model, texts, output=tmp_path / "one", **settings)
    monkeypatch.setattr(job, "_START_SECONDS", -1.0)
    two = limelight.explain_data(model, texts, output=tmp_path / "two", **settings)
    sentences = [estimate.sentence for estimate in estimates if estimate is not None]
    assert [re.search(r"with (\d) worker", sentence)[1] for sentence in sentences] == ["1", "2"]
    for first, second in zip(value, two, strict=True):
        np.testing.assert_allclose(first.scores, second.scores, rtol=1e-12)
        assert first.bound == pytest.approx(second.bound)


@pytest.mark.slow
def test_a_program_starts_processes_without_being_run_again(tmp_path):
    """It has no ``if __name__ == "__main__":``, and the model needs nothing that it defines."""
    program = tmp_path / "program.py"
    program.write_text(
        "print('begun', flush=True)\n"
        "import limelight\n"
        "from sklearn.feature_extraction.text import TfidfVectorizer\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "from sklearn.pipeline import make_pipeline\n"
        "texts, labels = ['good film', 'dull plot'] * 10, [1, 0] * 10\n"
        "pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, labels)\n"
        "run = limelight.explain_data(limelight.wrap(pipeline), texts, output='run', workers=2,\n"
        "                             shard_texts=10)\n"
        "print(len(run), run.failed)\n"
    )
    process = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert process.stdout == "begun\n20 0\n"


def test_a_pipeline_in_a_file_of_skops_is_the_one_that_was_stored(tmp_path):
    skops = pytest.importorskip("skops.io")
    pipeline = fit_pipeline(TfidfVectorizer(), LogisticRegression(), classes=3)
    skops.dump(pipeline, tmp_path / "pipeline.skops")
    stored, keep = limelight.load(tmp_path / "pipeline.skops"), limelight.wrap(pipeline)
    assert stored.fingerprint == keep.fingerprint
    np.testing.assert_array_equal(
        limelight.explain(stored, TEXT).scores, limelight.explain(keep, TEXT).scores
    )
    own_value = fit_pipeline(
        TfidfVectorizer(tokenizer=stems, token_pattern=None), LogisticRegression()
    )
    skops.dump(own_value, tmp_path / "own.skops")
    with pytest.raises(limelight.InputError, match=r"does not trust: .*\.stems\."):
        limelight.load(tmp_path / "own.skops")
    (tmp_path / "own.skops").write_bytes(b"no archive")
    with pytest.raises(limelight.InputError, match="skops cannot read a pipeline"):
        limelight.load(tmp_path / "own.skops")


def test_without_skops_its_files_name_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(limelight.InputError, match="pip install skops"):
        limelight.load(tmp_path / "pipeline.skops")


def test_the_r2_of_lime_is_that_of_the_regression_on_all_subsets():
    model = limelight.wrap(fit_pipeline(TfidfVectorizer(), LogisticRegression()))
    text = "good film, dull plot, good end"
    e = limelight.explain(model, text, "lime", fit=True, per_head=True)
    keep = enumerate_masks(len(e.features))[:-1]  # the untouched text is never drawn
    d, removed = keep.shape[1], (~keep).sum(axis=1)
    psi = np.exp(-((1 - np.sqrt(1 - removed / d)) ** 2) / (2 * 0.25**2))
    weights = psi / np.array([math.comb(d, int(s)) for s in removed])
    f = limelight.game(model, text)(keep)[:, 0]
    r2 = LinearRegression().fit(keep, f, weights).score(keep, f, weights)
    assert abs(e.diagnostics["r2"] - r2) <= e.diagnostics["r2_bound"] < 0.1 * (1 - r2)
    np.testing.assert_allclose(e.heads[0], e.scores, atol=e.bound)  # a pipeline has one head


def test_texts_that_were_read_before_a_new_fit_are_transformed_again():
    pipeline = fit_pipeline(TfidfVectorizer(), LogisticRegression())
    model = limelight.wrap(pipeline)
    texts = ["good film", "dull old plot", "good film"]
    inputs = [model.read(text) for text in texts]
    together = list(model.read_batch(texts))
    pipeline.fit(
        [" ".join(WORDS[::-1]), *WORDS[:8], " ".join(WORDS[4:9])], [0, 1, 1, 0, 1, 1, 0, 1, 0, 1]
    )
    expected = model.logits(texts)
    np.testing.assert_allclose(model.outputs(inputs), expected, rtol=1e-12)
    np.testing.assert_allclose(model.outputs(together), expected, rtol=1e-12)


def test_a_text_that_was_read_is_pickled_with_its_own_row_only():
    model = limelight.wrap(fit_pipeline(TfidfVectorizer(), LogisticRegression()))
    texts = [f"{first} {second}" for first in WORDS for second in WORDS]
    inputs = list(model.read_batch(texts))
    copies = [pickle.loads(pickle.dumps(model_input)) for model_input in inputs[:3]]
    assert len(pickle.dumps(inputs[0])) < 2 * len(pickle.dumps(model.read(texts[0])))
    np.testing.assert_allclose(model.outputs(copies), model.logits(texts[:3]), rtol=1e-12)


def test_a_broken_classifier_has_the_same_message_for_texts_that_were_read():
    pipeline = fit_pipeline(TfidfVectorizer(), LogisticRegression())
    model = limelight.wrap(pipeline)
    pipeline[1].coef_ = np.ones((1, 2))
    for call in (
        lambda: model.logits(["good film"]),
        lambda: limelight.explain(model, "good film"),
    ):
        with pytest.raises(
            limelight.InputError, match=r"the function fails on the text 'good film'"
        ):
            call()
