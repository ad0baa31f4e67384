"""Random pipelines of scikit-learn on random texts, and what all subsets of the words say of them.

``python tests/models/random_pipelines.py 2000`` tries so many and prints how many of them were
exact, checked and sampled, with the largest error over its bound. A number after a colon is the
first seed.
"""

import itertools
import re
import sys
import warnings
from collections import Counter
from typing import NamedTuple

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.linear_model import (
    ElasticNet,
    LinearRegression,
    LogisticRegression,
    Perceptron,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.svm import SVC, LinearSVC

import limelight
from limelight.models import bags
from limelight.models.functions import split_segments
from limelight.text import build_features
from limelight.theory.enumeration import (
    enumerate_masks,
    lime_mask_weights,
    ridge_matrix,
    shapley_matrix,
)

WORDS = (
    *("good", "bad", "film", "plot", "dull", "great", "not", "very", "so", "quite", "new", "york"),
    *("new-york", "don't", "a", "x1", "Good", "FILM", "naïve", "ΟΔΟΣ", "İst", "unheard", "no."),
)
GAPS = (" ", " ", " ", " ", "  ", "\n", "\t ", ", ", "! ", "-", ". ", "' ", "\u00a0")
FEW = 11  # features of which all subsets are tried


def marks_two_after_not(text):
    """Mark the two words that follow "not"."""
    tokens, scope = [], 0
    for word in text.lower().split():
        tokens.append(f"not_{word}" if scope else word)
        scope = 2 if word == "not" else max(scope - 1, 0)
    return tokens


def marks_after_not_past_adverbs(text):
    """Mark one of the next two words after "not" unless it is an adverb."""
    tokens, scope = [], 0
    for word in text.lower().split():
        if word == "not":
            scope = 2
        elif word in ("very", "so", "quite"):
            scope = max(scope - 1, 0)
        else:
            tokens.append(f"not_{word}" if scope else word)
            scope = max(scope - 1, 0)
    return tokens


def marks_to_full_stop(text):
    """Mark all words from "not" to the next full stop."""
    return [
        f"not_{word}" if "not" in words[:i] else word
        for words in (part.lower().split() for part in text.split("."))
        for i, word in enumerate(words)
    ]


def stems(text):
    """Return the first four letters of each word."""
    return [word.strip(".,;:!")[:4] for word in text.split()]


def split_at_spaces(text):
    """Return what stands between spaces."""
    return text.lower().split()


def unique_words(text):
    """Return every word once."""
    return list(dict.fromkeys(re.findall(r"\w\w+", text.lower())))


def repeated_only(text):
    """Return the words that occur at least twice."""
    words = re.findall(r"\w\w+", text.lower())
    return [word for word in words if words.count(word) > 1]


def first_five(text):
    """Return five words."""
    return re.findall(r"\w\w+", text.lower())[:5]


def long_texts_only(text):
    """Return the words of texts of three words or more."""
    words = re.findall(r"\w\w+", text.lower())
    return words if len(words) > 2 else []


def with_pairs(text):
    """Return words and pairs of words."""
    words = text.lower().split()
    return words + [" ".join(two) for two in itertools.pairwise(words)]


def halves(text):
    """Return two tokens for each word."""
    return [part for word in text.lower().split() for part in (word[:2], word[2:])]


def joins_not_good(text):
    """Write "not good" as one word."""
    return text.lower().replace("not good", "not_good")


def shout(text):
    """Write in small letters, without exclamation marks."""
    return text.lower().replace("!", " ")


def squeeze_spaces(text):
    """Write in small letters with single spaces."""
    return re.sub(r"\s+", " ", text.lower())


def first_letters(text):
    """Return the beginning of a text."""
    return text.lower()[:20]


def drop_letters(text):
    """Drop the letter x."""
    return text.replace("x", "")


class ClippedRidge(Ridge):
    """Predictions in a range."""

    def predict(self, X):
        return np.clip(super().predict(X), 0.3, 0.6)


class SquaredRidge(Ridge):
    """Squares, hidden in a method that predict calls."""

    def _decision_function(self, X):
        return super()._decision_function(X) ** 2


class NamedRidge(Ridge):
    """Nothing but another constructor."""

    def __init__(self, alpha=0.5):
        super().__init__(alpha=alpha)


class OtherMargin(LogisticRegression):
    """Margins that are not linear."""

    def decision_function(self, X):
        return np.tanh(super().decision_function(X))


class OtherWeights(LogisticRegression):
    """Weights that are read otherwise than they were learned."""

    @property
    def coef_(self):
        return np.round(self.__dict__["coef_"], 1)

    @coef_.setter
    def coef_(self, value):
        self.__dict__["coef_"] = value


class CappedColumns(TfidfVectorizer):
    """Columns of at most one half."""

    def transform(self, raw_documents):
        rows = super().transform(raw_documents)
        rows.data = np.minimum(rows.data, 0.5)
        return rows


class PairsToo(CountVectorizer):
    """Words and pairs of words."""

    def build_analyzer(self):
        return with_pairs


class Doubling(MaxAbsScaler):
    """A scaler that squares."""

    def transform(self, X):
        return super().transform(X).power(2)


class Capped(Pipeline):
    """A pipeline that caps what it says."""

    def decision_function(self, X):
        return np.clip(super().decision_function(X), -0.1, 0.1)


PATTERNS = (
    *(r"(?u)\b\w\w+\b",) * 4,
    *(r"(?u)\b\w+\b", r"\S+", r"\w+", r"[a-z]+", r"\b[a-z]{2,}\b", r"[a-z'-]+"),
    *(r"\w+\s*", r"new\s+york|\w\w+", r"(\w\w+)[,;:!]?", r"\b\w[\w'-]+\b", r"[A-Z][a-z]+|\w\w+"),
    *(r"\w+(?:-\w+)*", r"\w+ \w+|\w+", r"[^,.]+", r"\w{2,4}"),
)
TOKENIZERS = (
    *(
        marks_two_after_not,
        marks_after_not_past_adverbs,
        marks_to_full_stop,
        stems,
        split_at_spaces,
    ),
    *(unique_words, repeated_only, first_five, long_texts_only, with_pairs, halves),
)
PREPROCESSORS = (joins_not_good, shout, squeeze_spaces, first_letters)


def random_vectorizer(rng):
    """Return a vectorizer that is not fitted."""
    options = {"lowercase": bool(rng.random() < 0.85)}
    if rng.random() < 0.2:
        options["stop_words"] = ["very", "so", "a"]
    if rng.random() < 0.2:
        options["strip_accents"] = pick(rng, ("unicode", "ascii", drop_letters))
    batch = rng.random()
    if batch < 0.5:
        options["token_pattern"] = pick(rng, PATTERNS)
    elif batch < 0.75:
        options |= {"tokenizer": pick(rng, TOKENIZERS), "token_pattern": None}
    elif batch < 0.85:
        options["analyzer"] = pick(rng, TOKENIZERS)
    else:
        options["preprocessor"] = pick(rng, PREPROCESSORS)
    kind = rng.random()
    norm = pick(rng, ("l2", "l2", "l1", None))
    if kind < 0.55:
        kinds = (TfidfVectorizer,) * 9 + (CappedColumns,)
        return pick(rng, kinds)(
            norm=norm,
            sublinear_tf=coin(rng),
            use_idf=coin(rng),
            binary=bool(rng.random() < 0.2),
            dtype=pick(rng, (np.float64, np.float64, np.float64, np.float32)),
            **options,
        )
    if kind < 0.8:
        return pick(rng, (CountVectorizer,) * 9 + (PairsToo,))(
            binary=bool(rng.random() < 0.3), **options
        )
    return HashingVectorizer(
        n_features=pick(rng, (8, 64, 4096)), norm=norm, alternate_sign=coin(rng), **options
    )


def random_between(rng):
    """Return the steps between vectorizer and classifier."""
    choices = (
        *((),) * 8,
        (TfidfTransformer(norm=pick(rng, ("l1", "l2", None)), sublinear_tf=coin(rng)),),
        (Normalizer(pick(rng, ("l1", "l2", "max"))),),
        (SelectKBest(first_columns, k=4),),
        (VarianceThreshold(),),
        (MaxAbsScaler(),),
        (StandardScaler(with_mean=False),),
        (TruncatedSVD(3, random_state=0),),
        (SelectKBest(first_columns, k=6), MaxAbsScaler(), Normalizer("l2")),
        (MaxAbsScaler(), TruncatedSVD(3, random_state=0)),
        (Doubling(),),
        (make_pipeline(MaxAbsScaler(), "passthrough"),),
    )
    return choices[rng.integers(len(choices))]


def first_columns(X, y):
    """Score columns by their place."""
    return np.arange(X.shape[1], 0, -1.0)


def random_classifier(rng):
    """Return a classifier or a regressor that is not fitted."""
    linear = (
        lambda: LogisticRegression(C=10.0),
        lambda: LogisticRegression(fit_intercept=False),
        lambda: LinearSVC(random_state=0),
        lambda: SGDClassifier(loss=pick(rng, ("log_loss", "hinge")), random_state=0),
        RidgeClassifier,
        lambda: Perceptron(random_state=0),
        MultinomialNB,
        ComplementNB,
        BernoulliNB,
        lambda: OneVsRestClassifier(LogisticRegression()),
        lambda: SVC(kernel="linear", C=10.0),
        lambda: Ridge(alpha=0.1),
        LinearRegression,
        lambda: ElasticNet(alpha=1e-3),
        lambda: SGDRegressor(random_state=0),
        NamedRidge,
        lambda: GridSearchCV(LogisticRegression(), {"C": [1.0, 5.0]}, cv=2),
    )
    other_values = (
        lambda: SGDClassifier(loss="modified_huber", random_state=0),
        lambda: OneVsRestClassifier(OtherMargin()),
        lambda: SVC(kernel="rbf"),
        lambda: TweedieRegressor(power=1, link="log"),
        ClippedRidge,
        SquaredRidge,
        OtherMargin,
        OtherWeights,
    )
    return pick(rng, linear if rng.random() < 0.8 else other_values)()


def random_text(rng, longest=7):
    """Return a text of a few words with repeats, capitals, marks and odd spaces."""
    if rng.random() < 0.02:
        return pick(rng, ("", "  \n", "?!", "a b c", "."))
    words = list(rng.choice(WORDS, rng.integers(1, longest + 1)))
    if len(words) > 2 and rng.random() < 0.4:
        words[-1] = words[0]
    parts = [f"{word}{pick(rng, GAPS)}" for word in words]
    return "".join(parts) if coin(rng) else "".join(parts).rstrip()


def random_pipeline(rng):
    """Return a fitted pipeline, or None where its steps do not go together."""
    steps = random_vectorizer(rng), *random_between(rng), random_classifier(rng)
    kind = Capped if rng.random() < 0.03 and hasattr(steps[-1], "decision_function") else Pipeline
    pipeline = kind([(str(number), step) for number, step in enumerate(steps)])
    texts = [random_text(rng, longest=10) for _ in range(40)]
    regression = not hasattr(steps[-1], "predict_proba") and isinstance(
        steps[-1], (Ridge, LinearRegression, ElasticNet, SGDRegressor, TweedieRegressor)
    )
    scale = 10.0 ** pick(rng, (-8, 0, 0, 8))
    y = scale * rng.random(40) if regression else rng.integers(0, 2 + coin(rng), 40).astype(str)
    try:
        pipeline.fit(texts, y)
        pipeline.predict(texts)
    except (ValueError, TypeError):  # such as counts that must not be negative, or no words
        return None
    last = pipeline[-1]
    if not regression and type(last) in (LogisticRegression, LinearSVC, SGDClassifier):
        last.coef_, last.intercept_ = scale * last.coef_, scale * last.intercept_
    if rng.random() < 0.03 and hasattr(last, "decision_function"):
        last.decision_function = BoundedMargin(type(last), last)
    return pipeline


class BoundedMargin:
    """A function that is assigned to a fitted classifier."""

    def __init__(self, kind, estimator):
        self.kind, self.estimator = kind, estimator

    def __call__(self, X):
        """Return margins in a range."""
        return np.clip(self.kind.decision_function(self.estimator, X), -0.2, 0.2)


def pick(rng, choices):
    """Return one of several things."""
    return choices[rng.integers(len(choices))]


def coin(rng):
    """Return True half of the times."""
    return bool(rng.random() < 0.5)


class Tried(NamedTuple):
    """What came of a pipeline: its kind, and the largest error over its bound where it has one."""

    kind: str
    ratio: float = 0.0
    says: str = ""


def pipeline_outputs(pipeline, texts):
    """Return what the pipeline itself says, as one column or one per class."""
    last = pipeline[-1]
    if hasattr(last, "predict_joint_log_proba"):
        joint = last.predict_joint_log_proba(pipeline[:-1].transform(texts))
        return joint[:, 1:] - joint[:, :1] if joint.shape[1] == 2 else joint
    answer = getattr(pipeline, "decision_function", None) or pipeline.predict
    return np.asarray(answer(texts), dtype=np.float64).reshape(len(texts), -1)


def blank_words(e, keep):
    """Return the text with spaces where the removed words stood."""
    letters = list(e.text)
    for spans, stays in zip(e.spans, keep, strict=True):
        for start, end in spans if not stays else ():
            letters[start:end] = " " * (end - start)
    return "".join(letters)


def delete_words(model_input, keep):
    """Return a text without its removed words, as sampled methods write it, for each mask."""
    (words,) = split_segments(model_input, build_features(model_input))
    return ["".join(words.replace_words(row, None)) for row in keep]


def target_column(outputs, e):
    """Return the output of the explained class."""
    if outputs.shape[1] == 1:
        return outputs[:, 0] * (-1 if e.target == e.classes[0] and len(e.classes) > 1 else 1)
    return outputs[:, e.classes.index(e.target)]


def lime_of_all_subsets(outputs, d):
    """Return LIME's limit of outputs for all masks."""
    Z = np.concatenate([np.ones((2**d, 1)), enumerate_masks(d)], axis=1)
    return (outputs @ ridge_matrix(Z, lime_mask_weights(d), 0.0))[1:]


def try_pipeline(seed):
    """Return what comes of the pipeline and the text of a seed."""
    rng = np.random.default_rng(seed)
    pipeline = None
    while pipeline is None:
        pipeline = random_pipeline(rng)
    try:
        model = limelight.wrap(pipeline)
    except limelight.InputError as error:
        return Tried("refused", says=str(error))
    because = model.capabilities["exact_game"]
    if because is not None:
        return Tried("sampled: the model", says=because)
    while True:
        try:
            text = random_text(rng, longest=pick(rng, (4, 7, 7, 12)))
            e = limelight.explain(model, text, "shapley", tolerance=1e-9)
        except limelight.InputError as error:
            if "no words" in str(error) or "without words" in str(error):
                continue
            raise
        if len(e) <= FEW:
            break
    keep = enumerate_masks(len(e))
    if e.bound is None:
        # Its words are asked as text, all subsets of them.
        model_input = model.drop_inexact_games("words", "probability").read(text)
        texts = delete_words(model_input, keep)
        f = target_column(pipeline_outputs(pipeline, texts), e)
        by_shapley = f @ shapley_matrix(len(e))
        # All masks of a few words are asked, so that nothing is sampled.
        error = 1e-9 * np.abs(f).max() if e.stderr is None else 6 * e.stderr
        off = np.abs(e.scores - by_shapley) - np.maximum(error, 1e-300)
        return Tried("sampled: the text", np.inf if off.max() > 0 else 0.0)
    # LIME of a single word is not defined.
    lime = limelight.explain(model, text, "lime", tolerance=1e-9) if len(e) > 1 else None
    ratio = 0.0
    for texts in ([blank_words(e, row) for row in keep], delete_words(model.read(text), keep)):
        f = target_column(pipeline_outputs(pipeline, texts), e)
        by_shapley = f @ shapley_matrix(len(e))
        ratio = max(ratio, np.abs(e.scores - by_shapley).max() / e.bound)
        if lime is not None:
            by_lime = lime_of_all_subsets(f, len(e))
            ratio = max(ratio, np.abs(lime.scores - by_lime).max() / lime.bound)
    places = build_features(model.read(text), "positions")
    if len(places) <= FEW:  # of which several may share a column
        keep = enumerate_masks(len(places))
        texts = [bags.blank_features(model.read(text), places, row) for row in keep]
        f, computed = (
            pipeline_outputs(pipeline, texts),
            model.game(model.read(text), places, "delete")(keep),
        )
        room = model.bag.rounding * 1e6 * max(np.abs(f).max(), np.abs(model.bag.intercept).max())
        ratio = max(ratio, np.abs(f - computed).max() / room)
    return Tried(f"exact: {getattr(e, 'bound_kind', 'proven')}", float(ratio))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    count, _, first = sys.argv[1].partition(":")
    kinds, largest, reasons = Counter(), Counter(), Counter()
    for seed in range(int(first or 0), int(first or 0) + int(count)):
        try:
            outcome = try_pipeline(seed)
        except Exception as error:
            outcome = Tried("error", np.inf, repr(error))
        kinds[outcome.kind] += 1
        largest[outcome.kind] = max(largest[outcome.kind], outcome.ratio)
        if outcome.kind == "sampled: the model":
            reasons[outcome.says] += 1
        if outcome.ratio > 1:
            print(f"seed {seed}: {outcome}", flush=True)
    for kind, number in sorted(kinds.items()):
        print(f"{kind}: {number}, largest error over bound {largest[kind]:.3g}")
    for reason, number in reasons.most_common():
        print(f"  {number:4d} {reason}")
