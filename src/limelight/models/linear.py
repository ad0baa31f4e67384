"""Recognition of scikit-learn pipelines that are a bag of words under a linear classifier.

scikit-learn is not imported here, because a user who passes a pipeline has it. Each step must run
the code of a known class of scikit-learn. Every other pipeline is sampled like a function. A
pipeline of known classes is also compared with its `Bag` on a few texts. This finds mistakes in
this module and differences between versions of scikit-learn. Steps up to the last norm work column
by column and are computed by scikit-learn itself. Later steps become part of the weights.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain, pairwise, repeat
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.models.bags import Bag, Entries, ReadWords, TextRow, blank_features
from limelight.models.protocol import class_probabilities
from limelight.models.scikit_classes import ForeignCodeError, scikit_class, unwrap_estimator
from limelight.models.vectorized_words import WordReader, Words
from limelight.shapes import Float, Int
from limelight.text import build_features
from limelight.theory.ratio_game import extract_document, value
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
_TOLERANCE = 1e-6  # relative to the largest difference of a probability from the mean
_SINGLE_REMOVALS = 4  # words of a test text that are removed one at a time
_TEST_WORDS = 12  # largest number of words of the vocabulary in a test text
_NO_WORDS = Words((), (), (), ())
_CONTEXT_PATTERN = re.compile(r"\(\?<?[=!]|\\[1-9]|\(\?P=")  # lookarounds and backreferences


class _Linear(NamedTuple):
    """A classifier of rows: outputs = rows @ weights + intercept.

    ``weight_sizes`` and ``intercept_size`` are sums of the absolute values of the terms that make
    up the weights and the intercept. With ``uses_presence`` the outputs depend only on which values
    are above 0.
    """

    weights: Float[np.ndarray, "columns C"]
    intercept: Float[np.ndarray, " C"]
    outputs: Callable[[Any], Any]
    weight_sizes: Float[np.ndarray, "columns C"]
    intercept_size: Float[np.ndarray, " C"]
    uses_presence: bool = False


class _NotLinearError(Exception):
    """A clause that says why a pipeline is sampled."""


def parse_linear_pipeline(pipeline: Any) -> Mapping[str, Any] | str:
    """Return fields of a `Function` with a bag of words, or a clause that says why it has none."""
    try:
        return _parse_linear_pipeline(pipeline)
    except (_NotLinearError, ForeignCodeError) as reason:
        return str(reason)
    # Steps may raise any error. A pipeline that cannot be checked is sampled.
    except Exception as error:
        return f"the pipeline could not be analyzed ({type(error).__name__})"


def _parse_linear_pipeline(pipeline: Any) -> Mapping[str, Any]:
    """Return fields of a `Function` with a bag of words; raise an error if there is none."""
    steps = _flatten_steps(pipeline)
    first_class = scikit_class(steps[0] if steps else pipeline)
    if len(steps) < 2 or first_class not in _VECTORIZERS:
        raise _NotLinearError(
            f"the pipeline begins with {first_class}, not with a vectorizer of words"
        )
    vectorizer, *middle, last = steps
    _check_vectorizer(vectorizer)
    classifier = _parse_classifier(last)
    # A norm depends on all columns, so no step before it can become part of the weights.
    norm, growth, norm_end = _parse_norms(
        vectorizer, middle, must_be_columnwise=classifier.uses_presence
    )
    before, after = middle[:norm_end], middle[norm_end:]
    weights, sizes = classifier.weights, classifier.weight_sizes
    for step in reversed(after):
        weights, sizes = _pull_back_weights(step, weights, sizes)
    has_signs = bool(getattr(vectorizer, "alternate_sign", False))
    if classifier.uses_presence and has_signs:
        raise _NotLinearError(
            "BernoulliNB does not fit hashed columns with signs (alternate_sign=True)"
        )

    if not (np.isfinite(weights).all() and np.isfinite(classifier.intercept).all()):
        raise _NotLinearError("the weights of the classifier are not all finite")
    parsed = _ParsedPipeline(vectorizer, tuple(before), tuple(after), classifier)
    # The coarsest numbers determine the rounding error: one float32 array is enough.
    estimator = last.estimators_[0] if hasattr(last, "estimators_") else last
    learned_weights = getattr(estimator, "coef_", getattr(estimator, "feature_log_prob_", None))
    arrays = parsed.rows(["a text"]), learned_weights
    is_float32 = "float32" in {str(getattr(x, "dtype", "")) for x in arrays}
    bag = Bag(
        words=parsed.words,
        row_outputs=parsed.row_outputs,
        fitted_state=parsed.fitted_state,
        weights=np.ascontiguousarray(weights, dtype=np.float64),
        weight_sizes=np.ascontiguousarray(sizes, dtype=np.float64),
        intercept=np.asarray(classifier.intercept, dtype=np.float64),
        intercept_size=classifier.intercept_size,
        # No norm changes whether a value is above 0.
        norm=None if classifier.uses_presence else norm,
        growth="presence" if classifier.uses_presence else None if has_signs else growth,
        rounding=2.0**-23 if is_float32 else 2.0**-52,
        is_checked=not parsed.reader.is_known,
    )
    texts = _test_texts(vectorizer)
    outputs = parsed.outputs(texts)
    _check_bag(bag, parsed, texts)
    _check_predictions(pipeline, texts, outputs)
    link = _find_link(pipeline, last, texts, outputs, bag.rounding)
    scale = "score" if link == "none" else "logit"
    return {"function": parsed.outputs, "bag": bag, "bag_link": link, "scale": scale}


@dataclass(frozen=True, eq=False)
class _ParsedPipeline:
    """The vectorizer, the steps up to the last norm, the steps after it, and the classifier.

    It is an object without closures, so it can be sent to another process if its steps can.
    """

    vectorizer: Any
    before: tuple[Any, ...]
    after: tuple[Any, ...]
    classifier: _Linear

    def __getstate__(self) -> dict[str, Any]:
        # Cached properties are computed again elsewhere: some functions cannot be pickled.
        return {member.name: getattr(self, member.name) for member in fields(self)}

    def rows(self, texts: Sequence[str]) -> Any:
        """Return one row of columns for each text, divided by its norm."""
        rows = self.vectorizer.transform(texts)
        for step in self.before:
            rows = step.transform(rows)
        return rows

    def fitted_state(self) -> tuple[Any, ...]:
        """Return the objects that a fit of the vectorizer or of a step replaces."""
        return tuple(
            value for step in (self.vectorizer, *self.before) for value in vars(step).values()
        )

    def outputs(self, texts: list[str]) -> Float[np.ndarray, "n C"]:
        """Return the scores of the classifier."""
        return self.row_outputs(self.rows(texts))

    def row_outputs(self, rows: Any) -> Float[np.ndarray, "n C"]:
        """Return the scores of the classifier for rows."""
        for step in self.after:
            rows = step.transform(rows)
        scores = np.asarray(self.classifier.outputs(rows), dtype=np.float64)
        return scores.reshape(rows.shape[0], -1)

    def words(self, texts: Sequence[Any]) -> Iterator[ReadWords | str]:
        """Yield the words of each text as the vectorizer splits it, with the columns of each.

        If removed words may change how others are read, yield a clause that says so.
        """
        readings = self._read_together(texts)
        for number, text in enumerate(texts):
            reading = self._read(text) if readings is None else readings[number]
            if not text.strip() or (reading is not None and not reading.strings):
                raise InputError("the text has no words. Give at least one word.")
            if reading is None:
                yield "the vectorizer reads some words differently if other words are removed"
            else:
                yield reading

    def _read(self, text: str) -> ReadWords | None:
        """Return the words of a text; None if removed words may change how others are read."""
        parsed = self.reader.read(text)
        if parsed is None:
            return None
        words, is_checked = parsed
        (entries,) = self._collect_entries([words], self.rows([text]).tocsr())
        return ReadWords(tuple(words.names), tuple(words.spans), entries, is_checked)

    def _read_together(self, texts: Sequence[Any]) -> list[ReadWords | None] | None:
        """Read texts in one call of the pipeline; return None if each text needs its own call."""
        # A call costs as much as 25 news texts. Code of the user is still called for one text at a
        # time, so that the check of the outputs, which come from one call, can find a difference.
        if not self.reader.is_known:
            return None
        fitted = self.fitted_state()
        try:
            # What is not a string raises its error later, when it is its turn.
            strings = [text if isinstance(text, str) else "" for text in texts]
            rows = self.rows(strings).tocsr()
            parsed_texts = [self.reader.read(string) for string in strings]
        except Exception:  # the texts are transformed one by one, so that the error is about one
            return None
        words = [_NO_WORDS if parsed is None else parsed[0] for parsed in parsed_texts]
        readings = list[ReadWords | None]()
        for number, entries in enumerate(self._collect_entries(words, rows)):
            if (parsed := parsed_texts[number]) is None:
                readings.append(None)
                continue
            names, spans, _, _ = words[number]
            row = TextRow(rows, number, fitted)
            readings.append(ReadWords(tuple(names), tuple(spans), entries, parsed[1], row))
        return readings

    def _collect_entries(self, words: Sequence[Words], rows: Any) -> Iterator[Entries]:
        """Yield the entries of each text, whose row has the same number in ``rows``."""
        column = self._columns([token for text_words in words for token in text_words.tokens])
        token_counts = [len(text_words.tokens) for text_words in words]
        text = np.repeat(np.arange(len(words)), token_counts)
        word = np.fromiter(chain.from_iterable(x.word for x in words), np.int64, len(column))
        if (column < 0).any():
            text, word, column = (x[column >= 0] for x in (text, word, column))
        # A place is a column of one text, so that one sort is enough for all texts.
        places, place_index, counts = np.unique(
            text * rows.shape[1] + column, return_inverse=True, return_counts=True
        )
        values = _place_values(rows, places)
        if self.classifier.uses_presence:
            values = (values > 0).astype(np.float64)
        shares, counts = (values / counts)[place_index], counts[place_index]
        first_places = np.searchsorted(places, np.arange(len(words)) * rows.shape[1])
        column_index = place_index - first_places[text]
        borders = np.searchsorted(text, np.arange(len(words) + 1)).tolist()
        for start, end in pairwise(borders):
            part = slice(start, end)
            yield Entries(word[part], column[part], column_index[part], shares[part], counts[part])

    @cached_property
    def reader(self) -> WordReader:
        """Reader of the words that the vectorizer finds in a text."""
        return WordReader(self.vectorizer)

    @cached_property
    def _selected_columns(self) -> Int[np.ndarray, " columns"] | None:
        """Index of each vectorizer column among the selected columns, or -1; None without steps."""
        indices = None
        for step in filter(_is_selection, self.before):
            support = step.get_support()
            index = np.where(support, np.cumsum(support) - 1, -1)
            indices = index if indices is None else np.where(indices >= 0, index[indices], -1)
        return indices

    def _columns(self, tokens: list[str]) -> Int[np.ndarray, " tokens"]:
        """Return the column of each token, or -1 if it has none."""
        if not tokens:
            return np.empty(0, dtype=np.int64)
        if hasattr(self.vectorizer, "vocabulary_"):
            look_up = self.vectorizer.vocabulary_.get
            columns = np.fromiter(map(look_up, tokens, repeat(-1)), np.int64, len(tokens))
        else:  # each token is a row of its own, which shows its column
            rows = [[token] for token in tokens]
            # The vectorizer's own `transform` would split every token again.
            hashed = self.vectorizer._get_hasher().transform(rows).tocoo()
            columns = np.full(len(tokens), -1, dtype=np.int64)
            columns[hashed.row] = hashed.col
        selected = self._selected_columns
        return columns if selected is None else np.where(columns >= 0, selected[columns], -1)


def _place_values(rows: Any, places: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the values of a sparse matrix at some places, or 0 where it stores none.

    Place ``i`` is the column ``i % columns`` of the row ``i // columns``.
    """
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    stored = row * rows.shape[1] + rows.indices
    order = np.argsort(stored, kind="stable")  # the columns of a row may have any order
    position = np.searchsorted(stored, places, sorter=order)
    values = np.zeros(len(places))
    is_inside = position < len(stored)
    position = order[position[is_inside]]
    values[is_inside] = np.where(stored[position] == places[is_inside], rows.data[position], 0.0)
    return values


def _flatten_steps(pipeline: Any) -> list[Any]:
    """Return the steps of a pipeline and of pipelines inside it, without empty steps."""
    if scikit_class(pipeline) != "Pipeline":
        return []
    steps = []
    for _, wrapped_step in pipeline.steps:
        step = unwrap_estimator(wrapped_step)
        if hasattr(step, "steps"):
            steps += _flatten_steps(step)
        # None and "passthrough" are steps that do nothing.
        elif step is not None and not isinstance(step, str):
            steps.append(step)
    return steps


def _check_vectorizer(vectorizer: Any) -> None:
    """Raise an error unless each column of a vectorizer counts a single word of the text."""
    analyzer = getattr(vectorizer, "analyzer", "word")
    if isinstance(analyzer, str) and analyzer != "word":
        raise _NotLinearError(f"the vectorizer counts characters (analyzer={analyzer!r})")
    # scikit-learn ignores ngram_range if the analyzer is a function.
    if not callable(analyzer) and tuple(vectorizer.ngram_range) != (1, 1):
        raise _NotLinearError(
            "columns of the vectorizer contain several words "
            f"(ngram_range={tuple(vectorizer.ngram_range)})"
        )
    pattern = getattr(vectorizer, "token_pattern", None)
    if isinstance(pattern, str) and (_CONTEXT_PATTERN.search(pattern) or re.fullmatch(pattern, "")):
        raise _NotLinearError("the token pattern depends on the text around a word")
    if getattr(vectorizer, "input", "content") != "content":
        raise _NotLinearError("the vectorizer reads files")


def _parse_norms(
    vectorizer: Any, middle: list[Any], *, must_be_columnwise: bool
) -> tuple[str | None, str | None, int]:
    """Return the last norm, the growth of values with counts, and the steps up to the norm.

    The last number counts the steps that scikit-learn itself computes. With ``must_be_columnwise``
    these are all steps.
    """
    norm = getattr(vectorizer, "norm", None)
    growth: str | None = "log" if getattr(vectorizer, "sublinear_tf", False) else "count"
    if vectorizer.binary:
        growth = "presence"
    norm_end, is_mixed = 0, False
    for number, step in enumerate(middle, start=1):
        class_name = scikit_class(step)
        if class_name in ("TfidfTransformer", "Normalizer"):
            if is_mixed:
                raise _NotLinearError("TruncatedSVD mixes the columns before a norm")
            if getattr(step, "sublinear_tf", False):
                if norm is not None:
                    raise _NotLinearError("the pipeline takes logarithms after a norm")
                # Only logarithms of counts are known. A column of presences has no other values.
                if growth != "presence":
                    growth = "log" if (growth, number) == ("count", 1) else None
            if step.norm is None and norm is not None:
                raise _NotLinearError("the pipeline weights the columns after a norm")
            norm, norm_end = step.norm, number
        elif not (_is_selection(step) or _is_scaling(step)):
            is_mixed = class_name == "TruncatedSVD"
            if must_be_columnwise or not is_mixed:
                raise _NotLinearError(f"{type(step).__name__} is not a supported linear step")
    if norm not in ("l1", "l2", None):
        raise _NotLinearError(f"the norm {norm!r} is not supported")
    return norm, growth, len(middle) if must_be_columnwise else norm_end


def _is_selection(step: Any) -> bool:
    """Tell whether a step of scikit-learn selects columns."""
    return callable(getattr(step, "get_support", None))


def _is_scaling(step: Any) -> bool:
    """Tell whether ``step`` divides every column by a number and does nothing else."""
    # If a mean were subtracted, the column of a removed word would not be 0.
    options = ("with_mean", "with_centering", "clip")
    shifts = any(getattr(step, name, False) for name in options)
    return scikit_class(step) in ("MaxAbsScaler", "StandardScaler", "RobustScaler") and not shifts


def _pull_back_weights(
    step: Any, weights: Float[np.ndarray, "out C"], sizes: Float[np.ndarray, "out C"]
) -> tuple[Float[np.ndarray, "in C"], Float[np.ndarray, "in C"]]:
    """Return the weights, and the sizes of their terms, for the columns before a linear step."""
    # Terms may cancel in a weight but not in its size, and rounding errors follow the sizes.
    if _is_selection(step):
        index = np.where(support := step.get_support(), np.cumsum(support) - 1, 0)
        return weights[index] * support[:, None], sizes[index] * support[:, None]
    if _is_scaling(step):
        scale = getattr(step, "scale_", None)
        scale = np.ones(1) if scale is None else np.asarray(scale)
        return weights / scale[:, None], sizes / np.abs(scale)[:, None]
    components = np.asarray(step.components_).T
    return components @ weights, np.abs(components) @ sizes


def _parse_classifier(last: Any) -> _Linear:
    """Return the learned weights of a linear classifier or regressor."""
    class_name = scikit_class(last)
    if class_name in _NAIVE_BAYES:
        return _parse_naive_bayes(last, class_name)
    if class_name == "OneVsRestClassifier":
        parts = [_parse_classifier(estimator) for estimator in last.estimators_]
        if any(part.weights.shape[1] != 1 or part.uses_presence for part in parts):
            raise _NotLinearError("its classifiers are not all linear with one output")
        weights, intercept, sizes, intercept_size = (
            np.concatenate([getattr(part, name) for part in parts], axis=-1)
            for name in ("weights", "intercept", "weight_sizes", "intercept_size")
        )
        outputs = partial(_stack_outputs, parts)
        return _Linear(weights, intercept, outputs, sizes, intercept_size)
    if class_name not in (*_LINEAR, *_KERNEL_MACHINES):
        raise _NotLinearError(f"{class_name} is not linear")
    is_machine = class_name in _KERNEL_MACHINES
    if is_machine and last.kernel != "linear":
        raise _NotLinearError(f"{class_name} with the kernel {last.kernel!r} is not linear")
    coef = _dense_array(last.coef_)
    # With more classes it has weights for every pair of classes, and counts votes.
    if is_machine and len(coef) > 1:
        raise _NotLinearError(f"{class_name} does not predict the class with the largest score")
    sizes = np.abs(coef)
    if is_machine:
        # The weights are sums over support vectors, and scikit-learn rounds every term.
        vectors = len(last.support_)
        sizes = (1 + vectors / 64) * (
            np.abs(_dense_array(last.dual_coef_)) @ np.abs(_dense_array(last.support_vectors_))
        )
    # A regressor has no decision function, and its predictions are linear.
    compute = last.decision_function if hasattr(last, "decision_function") else last.predict
    # Without an intercept scikit-learn has a single 0 for all classes.
    intercept = np.broadcast_to(np.ravel(last.intercept_), (len(coef),)).astype(np.float64)
    return _Linear(coef.T, intercept, compute, sizes.T, np.abs(intercept))


def _dense_array(values: Any) -> Float[np.ndarray, "n columns"]:
    """Return a matrix, also a sparse one, as a float64 array."""
    dense = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    return np.atleast_2d(dense).astype(np.float64)


def _parse_naive_bayes(last: Any, class_name: str) -> _Linear:
    """Return the linear joint log-likelihoods; with two classes, their difference."""
    log_prob = np.asarray(last.feature_log_prob_, dtype=np.float64)
    prior = np.asarray(last.class_log_prior_, dtype=np.float64)
    uses_presence, prior_size = False, np.abs(prior)
    if class_name == "BernoulliNB":
        if last.binarize is not None and last.binarize != 0:
            raise _NotLinearError(f"BernoulliNB compares values with the threshold {last.binarize}")
        uses_presence = last.binarize is not None
        # Absent words count too: their log(1 − p) are part of the prior, and a word that is present
        # takes its term away. log1p: 1 − p of a rare word has lost the digits of p.
        absent = np.log1p(-np.exp(log_prob))
        log_prob, prior = log_prob - absent, prior + absent.sum(axis=1)
        # scikit-learn rounds every 1 − p, and a sum over all columns in blocks of 128.
        prior_size += absent.shape[1] + 32 * np.abs(absent).sum(axis=1)
    elif class_name == "ComplementNB" and len(prior) > 1:
        # scikit-learn adds the prior of ComplementNB only if there is a single class.
        prior = prior_size = np.zeros_like(prior)
    compute = last.predict_joint_log_proba
    if len(prior) != 2:
        return _Linear(log_prob.T, prior, compute, np.abs(log_prob.T), prior_size, uses_presence)
    # Their softmax is the sigmoid of the difference, which is one game and not two.
    return _Linear(
        (log_prob[1:] - log_prob[:1]).T,
        prior[1:] - prior[:1],
        partial(_subtract_first_output, compute),
        np.abs(log_prob).sum(axis=0)[:, None],
        prior_size.sum(keepdims=True),
        uses_presence,
    )


def _subtract_first_output(outputs: Callable[[Any], Any], rows: Any) -> Any:
    """Return the second of two outputs minus the first."""
    return np.diff(outputs(rows), axis=1)


def _stack_outputs(parts: list[_Linear], rows: Any) -> Any:
    """Return the outputs of several classifiers side by side."""
    return np.stack([np.ravel(part.outputs(rows)) for part in parts], axis=1)


def _test_texts(vectorizer: Any) -> list[str]:
    """Return a few texts of words of the vocabulary, and one of other words."""
    # A hashing vectorizer has no vocabulary, and all words have columns.
    default_words = ("good", "film", "plot", "bad", "dull", "cast")
    vocabulary = list(getattr(vectorizer, "vocabulary_", default_words))
    words = vocabulary[:: max(1, len(vocabulary) // _TEST_WORDS)][:_TEST_WORDS]
    return [" ".join(words), f"{words[0]} {words[-1]} {words[0]}", "a text of other words"]


def _check_bag(bag: Bag, parsed: _ParsedPipeline, texts: list[str]) -> None:
    """Raise an error if the pipeline and the bag differ on texts with some words removed."""
    reason_sampled, is_compared = "", False
    for text in texts:
        model_input = bag.read(text)
        if isinstance(model_input, str):  # this text would be sampled, but others may be exact
            reason_sampled = model_input
            continue
        features = build_features(model_input)
        d = len(features)
        single_removals = ~np.eye(d, dtype=bool)[:_SINGLE_REMOVALS]
        keep = np.concatenate([np.ones((1, d), bool), single_removals])
        # Also with most words removed, because only these masks show the effect of a norm.
        keep = np.concatenate([keep, np.arange(d)[None] < np.array([[1], [d // 2]])])
        games = bag.exact_games([model_input], [features])
        if isinstance(games, str):
            raise _NotLinearError(games)
        bag_outputs = value(extract_document(games, 0), keep).T
        masked_texts = [blank_features(model_input, features, row) for row in keep]
        outputs = parsed.outputs(masked_texts)
        # The tolerance is the bound that results state.
        tolerance = np.asarray(games.error)[0].T
        if not np.all(np.abs(bag_outputs - outputs) <= tolerance):
            raise _NotLinearError("the outputs differ from those of a linear classifier of words")
        is_compared = True
    if reason_sampled and not is_compared:
        raise _NotLinearError(reason_sampled)


def _check_predictions(pipeline: Any, texts: list[str], outputs: Float[np.ndarray, "n C"]) -> None:
    """Raise an error if a classifier does not predict the largest output, or positive labels."""
    classes = getattr(pipeline, "classes_", None)
    if classes is None:
        return
    predictions = pipeline.predict(texts)
    predictions = np.asarray(
        predictions.toarray() if hasattr(predictions, "toarray") else predictions
    )
    # With another threshold, scores would support a class that is not predicted.
    best = outputs[:, 0] > 0 if outputs.shape[1] == 1 else outputs.argmax(axis=1)
    expected = np.asarray(classes)[best.astype(int)] if predictions.ndim == 1 else outputs > 0
    if not np.array_equal(predictions, expected):
        raise _NotLinearError("the pipeline does not predict the class with the largest score")


def _find_link(
    pipeline: Any, last: Any, texts: list[str], outputs: Float[np.ndarray, "n C"], rounding: float
) -> str:
    """Return the link by which outputs become the probabilities of the pipeline."""
    if not hasattr(last, "predict_proba"):
        return "none"
    expected = pipeline.predict_proba(texts)
    # The links are tried, because versions of scikit-learn differ in names and defaults. Small
    # outputs have nearly the same probabilities under each link. They differ only relative to the
    # distance of the probabilities from their mean.
    tolerance = _TOLERANCE * np.abs(expected - expected.mean()).max() + 8 * rounding
    for link in ("softmax", "ovr", "sigmoid"):
        computed = class_probabilities(outputs, link)
        if computed.shape == expected.shape and np.abs(computed - expected).max() <= tolerance:
            return link
    raise _NotLinearError("the probabilities are not a known function of the scores")
