"""Pipelines of scikit-learn that are a bag of words under a linear classifier, by their classes.

scikit-learn is not imported: whoever gives a pipeline has it. Each step must run the code of a
known class of scikit-learn, and any other pipeline is sampled like a function. A pipeline of known
classes is also tried on a few texts, against mistakes here and other versions of scikit-learn. What
stands between the words and the last division by a norm works column by column and is left to
scikit-learn itself. What comes after it becomes part of the weights.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.models.bags import Bag, ReadWords, blanked
from limelight.models.protocol import class_probabilities
from limelight.models.scikit_classes import ForeignCodeError, scikit_class, unwrapped
from limelight.models.vectorized_words import WordReader
from limelight.shapes import Float, Int
from limelight.text import features_of
from limelight.theory.ratio_game import one_document, value
from limelight.threads import cached_property

_VECTORIZERS = ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer")
_NAIVE_BAYES = ("MultinomialNB", "ComplementNB", "BernoulliNB")
# Their decision_function, or predict where they have none, is rows @ coef_.T + intercept_.
_LINEAR = (
    *("LogisticRegression", "LogisticRegressionCV", "LinearSVC", "SGDClassifier", "Perceptron"),
    *("RidgeClassifier", "RidgeClassifierCV", "PassiveAggressiveClassifier"),
    *("LinearDiscriminantAnalysis", "LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV"),
    *("LassoLars", "LassoLarsCV", "LassoLarsIC", "Lars", "LarsCV", "ElasticNet", "ElasticNetCV"),
    *("OrthogonalMatchingPursuit", "OrthogonalMatchingPursuitCV", "BayesianRidge"),
    *("ARDRegression", "HuberRegressor", "TheilSenRegressor", "QuantileRegressor"),
    *("SGDRegressor", "PassiveAggressiveRegressor", "LinearSVR"),
)
_KERNEL_MACHINES = ("SVC", "NuSVC", "SVR", "NuSVR")  # linear with two classes and that kernel
_SAME = 1e-6  # of how far probabilities are from their mean
_LEFT_OUT = 4  # words of each, one at a time
_PROBES = 12  # words of the vocabulary in a text to try out, at most
_AROUND = re.compile(r"\(\?<?[=!]|\\[1-9]|\(\?P=")  # lookarounds, and what stood before


class _Linear(NamedTuple):
    """A classifier of rows: outputs = rows @ weights + intercept.

    ``sizes`` are those of the terms that make up the weights, ``intercept_size`` that of the terms
    of the intercept. With ``presence`` only whether a
    value is above 0 counts.
    """

    weights: Float[np.ndarray, "columns C"]
    intercept: Float[np.ndarray, " C"]
    outputs: Callable[[Any], Any]
    sizes: Float[np.ndarray, "columns C"]
    intercept_size: Float[np.ndarray, " C"]
    presence: bool = False


class _NotLinearError(Exception):
    """A clause that says why a pipeline is sampled."""


def linear_pipeline(pipeline: Any) -> Mapping[str, Any] | str:
    """Return a ``Function``'s fields of a bag of words, or a clause that says why it is none."""
    try:
        return _linear_pipeline(pipeline)
    except (_NotLinearError, ForeignCodeError) as why:
        return str(why)
    except Exception as error:  # of steps that may do anything: what cannot be tried out is asked
        return f"it could not be taken apart ({type(error).__name__})"


def _linear_pipeline(pipeline: Any) -> Mapping[str, Any]:
    steps = _flat(pipeline)
    first = scikit_class(steps[0] if steps else pipeline)
    if len(steps) < 2 or first not in _VECTORIZERS:
        raise _NotLinearError(f"it begins with {first}, which is no vectorizer of words")
    vectorizer, *middle, last = steps
    _check_words(vectorizer)
    classifier = _classifier(last)
    # A norm divides by what all columns hold together, so nothing before it can join the weights.
    norm, growth, cut = _norms(vectorizer, middle, whole=classifier.presence)
    before, after = middle[:cut], middle[cut:]
    weights, sizes = classifier.weights, classifier.sizes
    for step in reversed(after):
        weights, sizes = _pulled_back(step, weights, sizes)
    signed = bool(getattr(vectorizer, "alternate_sign", False))
    if classifier.presence and signed:
        raise _NotLinearError("hashed columns with signs are not there or not there")

    if not (np.isfinite(weights).all() and np.isfinite(classifier.intercept).all()):
        raise _NotLinearError("its weights are not all finite")
    read = _Vectors(vectorizer, tuple(before), tuple(after), classifier)
    # The coarsest of all numbers on the way sets the error: one float32 is enough.
    one = last.estimators_[0] if hasattr(last, "estimators_") else last
    learned = getattr(one, "coef_", getattr(one, "feature_log_prob_", None))
    arrays = read.rows(["a text"]), learned
    single = "float32" in {str(getattr(x, "dtype", "")) for x in arrays}
    bag = Bag(
        words=read.words,
        weights=np.ascontiguousarray(weights, dtype=np.float64),
        sizes=np.ascontiguousarray(sizes, dtype=np.float64),
        intercept=np.asarray(classifier.intercept, dtype=np.float64),
        intercept_size=classifier.intercept_size,
        # No norm changes whether a value is above 0.
        norm=None if classifier.presence else norm,
        growth="presence" if classifier.presence else None if signed else growth,
        rounding=2.0**-23 if single else 2.0**-52,
        checked=not read.reader.is_known,
    )
    texts = _probes(vectorizer)
    answers = read.outputs(texts)
    _check_answers(bag, read, texts)
    _check_choice(pipeline, texts, answers)
    link = _link(pipeline, last, texts, answers, bag.rounding)
    scale = "score" if link == "none" else "logit"
    return {"function": read.outputs, "bag": bag, "linked": link, "scale": scale}


@dataclass(frozen=True, eq=False)
class _Vectors:
    """The steps of a pipeline: up to the last norm, after it, and the classifier.

    An object and no closures, so that it can be sent to another process if its steps can.
    """

    vectorizer: Any
    before: tuple[Any, ...]
    after: tuple[Any, ...]
    classifier: _Linear

    def __getstate__(self) -> dict[str, Any]:
        # What was made of the steps is made again elsewhere: a function may not travel.
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def rows(self, texts: Sequence[str]) -> Any:
        """Return one row of columns for each text, divided by its norm."""
        found = self.vectorizer.transform(texts)
        for step in self.before:
            found = step.transform(found)
        return found

    def outputs(self, texts: list[str]) -> Float[np.ndarray, "n C"]:
        """Return the scores of the classifier."""
        found = self.rows(texts)
        for step in self.after:
            found = step.transform(found)
        answers = np.asarray(self.classifier.outputs(found), dtype=np.float64)
        return answers.reshape(len(texts), -1)

    def _shares(self, text: str, columns: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return what each entry has of its column's value in the row of a text."""
        row = self.rows([text]).tocsr()
        known = dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        x = np.array([known.get(column, 0.0) for column in columns.tolist()], dtype=np.float64)
        _, part, counts = np.unique(columns, return_inverse=True, return_counts=True)
        return (x > 0 if self.classifier.presence else x) / counts[part]

    def words(self, text: str) -> ReadWords | str:
        """Return the words of a text as the vectorizer cuts it, with the columns of each.

        If removed words may change how others are read, return a clause that says so.
        """
        batch = self.reader.read(text)
        if not text.strip() or (batch is not None and not batch[0]):
            raise InputError("the text has no words; give at least one word.")
        if batch is None:
            return "its vectorizer reads some words differently if others are removed"
        words, checked = batch
        flat = [(i, token) for i, (_, _, tokens) in enumerate(words) for token in tokens]
        column = self._columns([token for _, token in flat])
        word = np.array([i for i, _ in flat], dtype=int)
        spans, names, _ = zip(*words, strict=True)
        word, column = word[column >= 0], column[column >= 0]
        return ReadWords(names, spans, word, column, self._shares(text, column), checked)

    @cached_property
    def reader(self) -> WordReader:
        """How the vectorizer cuts a text."""
        return WordReader(self.vectorizer)

    @cached_property
    def _kept(self) -> Int[np.ndarray, " columns"] | None:
        """The place of every column of the vectorizer among those that were chosen, or -1."""
        kept = None
        for step in filter(_is_selection, self.before):
            support = step.get_support()
            place = np.where(support, np.cumsum(support) - 1, -1)
            kept = place if kept is None else np.where(kept >= 0, place[kept], -1)
        return kept

    def _columns(self, tokens: list[str]) -> Int[np.ndarray, " n"]:
        if not tokens:
            return np.zeros(0, dtype=int)
        if hasattr(self.vectorizer, "vocabulary_"):
            known = self.vectorizer.vocabulary_
            found = np.array([known.get(token, -1) for token in tokens], dtype=int)
        else:  # one token a row: the column of each
            rows = [[token] for token in tokens]
            # Not by its `transform`, which would cut every token again.
            hashed = self.vectorizer._get_hasher().transform(rows).tocoo()
            found = np.full(len(tokens), -1)
            found[hashed.row] = hashed.col
        return found if self._kept is None else np.where(found >= 0, self._kept[found], -1)


def _flat(pipeline: Any) -> list[Any]:
    """Return the steps of a pipeline, those of pipelines inside it too, without empty ones."""
    if scikit_class(pipeline) != "Pipeline":
        return []
    steps = []
    for _, wrapped in pipeline.steps:
        step = unwrapped(wrapped)
        if hasattr(step, "steps"):
            steps += _flat(step)
        # None and "passthrough" are steps that do nothing.
        elif step is not None and not isinstance(step, str):
            steps.append(step)
    return steps


def _check_words(vectorizer: Any) -> None:
    """Refuse what does not read one word at a time."""
    analyzer = getattr(vectorizer, "analyzer", "word")
    if isinstance(analyzer, str) and analyzer != "word":
        raise _NotLinearError(f"its columns are runs of characters (analyzer={analyzer!r})")
    # scikit-learn forgets about n-grams where the analyzer is a function.
    if not callable(analyzer) and tuple(vectorizer.ngram_range) != (1, 1):
        raise _NotLinearError(
            f"a column of several words (ngram_range={tuple(vectorizer.ngram_range)}) goes with "
            "each of them"
        )
    pattern = getattr(vectorizer, "token_pattern", None)
    if isinstance(pattern, str) and (_AROUND.search(pattern) or re.fullmatch(pattern, "")):
        raise _NotLinearError("its token pattern looks at what stands around a word")
    if getattr(vectorizer, "input", "content") != "content":
        raise _NotLinearError("its vectorizer reads files")


def _norms(
    vectorizer: Any, middle: list[Any], *, whole: bool
) -> tuple[str | None, str | None, int]:
    """Return the last norm, how values grow with counts, and where the norm stands.

    That is the number of steps in the middle that are left to scikit-learn; with ``whole`` all.
    """
    norm = getattr(vectorizer, "norm", None)
    growth: str | None = "log" if getattr(vectorizer, "sublinear_tf", False) else "count"
    if vectorizer.binary:
        growth = "presence"
    cut, mixed = 0, False
    for number, step in enumerate(middle, start=1):
        kind = scikit_class(step)
        if kind in ("TfidfTransformer", "Normalizer"):
            if mixed:
                raise _NotLinearError("a norm comes after its columns were mixed (TruncatedSVD)")
            if getattr(step, "sublinear_tf", False):
                if norm is not None:
                    raise _NotLinearError("it takes logarithms of what was divided by a norm")
                # Logarithms of counts are known, those of anything else are not. A column that is
                # there or not stays so.
                if growth != "presence":
                    growth = "log" if (growth, number) == ("count", 1) else None
            if step.norm is None and norm is not None:
                raise _NotLinearError("its columns are weighed after they were divided by a norm")
            norm, cut = step.norm, number
        elif not (_is_selection(step) or _is_scaling(step)):
            mixed = kind == "TruncatedSVD"
            if whole or not mixed:
                raise _NotLinearError(f"{type(step).__name__} is no linear step that is known here")
    if norm not in ("l1", "l2", None):
        raise _NotLinearError(f"its rows are divided by their {norm!r} norm")
    return norm, growth, len(middle) if whole else cut


def _is_selection(step: Any) -> bool:
    """Whether ``step``, of a class of scikit-learn, chooses columns."""
    return callable(getattr(step, "get_support", None))


def _is_scaling(step: Any) -> bool:
    """Whether ``step`` divides every column by a number and does nothing else."""
    # A mean that is taken off would leave something of a removed word behind.
    more = any(getattr(step, name, False) for name in ("with_mean", "with_centering", "clip"))
    return scikit_class(step) in ("MaxAbsScaler", "StandardScaler", "RobustScaler") and not more


def _pulled_back(
    step: Any, weights: Float[np.ndarray, "out C"], sizes: Float[np.ndarray, "out C"]
) -> tuple[Float[np.ndarray, "in C"], Float[np.ndarray, "in C"]]:
    """Return weights of the columns before a linear step, and the sizes of what they consist of."""
    # Weights may cancel where their sizes add up, and rounding follows the sizes.
    if _is_selection(step):
        place = np.where(support := step.get_support(), np.cumsum(support) - 1, 0)
        return weights[place] * support[:, None], sizes[place] * support[:, None]
    if _is_scaling(step):
        scale = getattr(step, "scale_", None)
        scale = np.ones(1) if scale is None else np.asarray(scale)
        return weights / scale[:, None], sizes / np.abs(scale)[:, None]
    mixed = np.asarray(step.components_).T
    return mixed @ weights, np.abs(mixed) @ sizes


def _classifier(last: Any) -> _Linear:
    """Return the weights of a linear classifier or regressor, by what it has learned."""
    kind = scikit_class(last)
    if kind in _NAIVE_BAYES:
        return _naive_bayes(last, kind)
    if kind == "OneVsRestClassifier":
        parts = [_classifier(one) for one in last.estimators_]
        if any(part.weights.shape[1] != 1 or part.presence for part in parts):
            raise _NotLinearError("its parts are not all linear with one output")
        weights, intercept, sizes, intercept_size = (
            np.concatenate([getattr(part, name) for part in parts], axis=-1)
            for name in ("weights", "intercept", "sizes", "intercept_size")
        )
        outputs = partial(_side_by_side, parts)
        return _Linear(weights, intercept, outputs, sizes, intercept_size)
    if kind not in (*_LINEAR, *_KERNEL_MACHINES):
        raise _NotLinearError(f"{kind} is not linear")
    is_machine = kind in _KERNEL_MACHINES
    if is_machine and last.kernel != "linear":
        raise _NotLinearError(f"{kind} with the kernel {last.kernel!r} is not linear")
    coef = _array(last.coef_)
    # Of more classes it has a weight for every two, and counts votes.
    if is_machine and len(coef) > 1:
        raise _NotLinearError(f"{kind} does not choose the class of its largest score")
    sizes = np.abs(coef)
    if is_machine:
        # The weights are sums over support vectors, of which scikit-learn rounds every term.
        vectors = len(last.support_)
        sizes = (1 + vectors / 64) * (
            np.abs(_array(last.dual_coef_)) @ np.abs(_array(last.support_vectors_))
        )
    # A regressor has no such method, and predicts what is linear.
    answer = last.decision_function if hasattr(last, "decision_function") else last.predict
    # Without an intercept scikit-learn has a single 0 for all classes.
    intercept = np.broadcast_to(np.ravel(last.intercept_), (len(coef),)).astype(np.float64)
    return _Linear(coef.T, intercept, answer, sizes.T, np.abs(intercept))


def _array(values: Any) -> Float[np.ndarray, "n columns"]:
    dense = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    return np.atleast_2d(dense).astype(np.float64)


def _naive_bayes(last: Any, kind: str) -> _Linear:
    """Return the joint log-likelihoods, which are linear; of two classes, their difference."""
    log_prob = np.asarray(last.feature_log_prob_, dtype=np.float64)
    prior = np.asarray(last.class_log_prior_, dtype=np.float64)
    presence, prior_size = False, np.abs(prior)
    if kind == "BernoulliNB":
        if last.binarize is not None and last.binarize != 0:
            raise _NotLinearError(f"BernoulliNB asks whether a value passes {last.binarize}")
        presence = last.binarize is not None
        # Absent words speak too: their log(1 − p) stand in the prior, and a word that is there
        # takes its own back. log1p: 1 − p of a rare word has lost the digits of p.
        absent = np.log1p(-np.exp(log_prob))
        log_prob, prior = log_prob - absent, prior + absent.sum(axis=1)
        # scikit-learn rounds every 1 − p, and a sum over all columns in blocks of 128.
        prior_size += absent.shape[1] + 32 * np.abs(absent).sum(axis=1)
    elif kind == "ComplementNB" and len(prior) > 1:
        # scikit-learn adds the prior of this one only where there is a single class.
        prior = prior_size = np.zeros_like(prior)
    answer = last.predict_joint_log_proba
    if len(prior) != 2:
        return _Linear(log_prob.T, prior, answer, np.abs(log_prob.T), prior_size, presence)
    # Their softmax is the sigmoid of the difference, which is one game and not two.
    return _Linear(
        (log_prob[1:] - log_prob[:1]).T,
        prior[1:] - prior[:1],
        partial(_second_less_first, answer),
        np.abs(log_prob).sum(axis=0)[:, None],
        prior_size.sum(keepdims=True),
        presence,
    )


def _second_less_first(answers: Callable[[Any], Any], rows: Any) -> Any:
    return np.diff(answers(rows), axis=1)


def _side_by_side(parts: list[_Linear], rows: Any) -> Any:
    return np.stack([np.ravel(part.outputs(rows)) for part in parts], axis=1)


def _probes(vectorizer: Any) -> list[str]:
    """Return a few texts of words that the pipeline knows, and of others."""
    # A hashing vectorizer knows no words, and all words have columns.
    others = ("good", "film", "plot", "bad", "dull", "cast")
    known = list(getattr(vectorizer, "vocabulary_", others))
    picked = known[:: max(1, len(known) // _PROBES)][:_PROBES]
    return [" ".join(picked), f"{picked[0]} {picked[-1]} {picked[0]}", "a text of other words"]


def _check_answers(bag: Bag, read: _Vectors, texts: list[str]) -> None:
    """Refuse a pipeline whose answers, with words and without, are not those of the bag."""
    reason_sampled, compared = "", False
    for text in texts:
        model_input = bag.read(text)
        if isinstance(model_input, str):  # this text would be sampled, and others may be exact
            reason_sampled = model_input
            continue
        features = features_of(model_input)
        d = len(features)
        keep = np.concatenate([np.ones((1, d), bool), ~np.eye(d, dtype=bool)[:_LEFT_OUT]])
        # Most words at once, too: only then does a norm show.
        keep = np.concatenate([keep, np.arange(d)[None] < np.array([[1], [d // 2]])])
        games = bag.games([model_input], [features])
        if isinstance(games, str):
            raise _NotLinearError(games)
        found = value(one_document(games, 0), keep).T
        answer = read.outputs([blanked(model_input, features, row) for row in keep])
        # The room is the bound that results claim, whatever the size of the outputs.
        room = np.asarray(games.error)[0].T
        if not np.all(np.abs(found - answer) <= room):
            raise _NotLinearError("its answers are not those of a linear classifier of words")
        compared = True
    if reason_sampled and not compared:
        raise _NotLinearError(reason_sampled)


def _check_choice(pipeline: Any, texts: list[str], outputs: Float[np.ndarray, "n C"]) -> None:
    """Refuse a classifier that does not choose its largest output, or labels above nothing."""
    classes = getattr(pipeline, "classes_", None)
    if classes is None:
        return
    chosen = pipeline.predict(texts)
    chosen = np.asarray(chosen.toarray() if hasattr(chosen, "toarray") else chosen)
    # With a threshold of its own, scores would speak for a class that it does not choose.
    best = outputs[:, 0] > 0 if outputs.shape[1] == 1 else outputs.argmax(axis=1)
    expected = np.asarray(classes)[best.astype(int)] if chosen.ndim == 1 else outputs > 0
    if not np.array_equal(chosen, expected):
        raise _NotLinearError("it does not choose the class of its largest score")


def _link(
    pipeline: Any, last: Any, texts: list[str], outputs: Float[np.ndarray, "n C"], rounding: float
) -> str:
    """Return how outputs become the probabilities that the pipeline itself gives."""
    if not hasattr(last, "predict_proba"):
        return "none"
    theirs = pipeline.predict_proba(texts)
    # By trying: versions of scikit-learn differ in what they call it and in their defaults. Small
    # outputs give nearly the same probabilities under each, which differ in how far these are from
    # their mean.
    room = _SAME * np.abs(theirs - theirs.mean()).max() + 8 * rounding
    for link in ("softmax", "ovr", "sigmoid"):
        ours = class_probabilities(outputs, link)
        if ours.shape == theirs.shape and np.abs(ours - theirs).max() <= room:
            return link
    raise _NotLinearError("its probabilities are no known function of its scores")
