"""Pipelines of scikit-learn that are a bag of words under a linear classifier, by what they have.

scikit-learn is not imported: whoever gives a pipeline has it. Every pipeline that looks linear is
tried out on a few texts, and sampled like any function where its answers are not what they should
be. What stands between the words and the last division by a norm works column by column and is
left to scikit-learn itself; what comes after it becomes part of the weights.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.models.bags import Bag, ReadWords, blanked
from limelight.models.functions import word_spans
from limelight.models.protocol import AskInsteadError, class_probabilities
from limelight.shapes import Float, Int
from limelight.text import Span, features_of
from limelight.theory.ratio_game import one_document, value
from limelight.threads import cached_property

_SAME = 1e-6  # of the largest output; single precision is ten times better
_LEFT_OUT = 4  # words of each, one at a time
_PROBES = 12  # words of the vocabulary in a text to try out, at most
_AROUND = re.compile(r"\(\?<?[=!]|\\[1-9]|\(\?P=")  # lookarounds, and what stood before


class _Linear(NamedTuple):
    """A classifier of rows: outputs = rows @ weights + intercept."""

    weights: Float[np.ndarray, "columns C"]
    intercept: Float[np.ndarray, " C"]
    outputs: Callable[[Any], Any]
    presence: bool = False  # of a column is all that counts


class _NotLinearError(Exception):
    """A clause that says why a pipeline is sampled."""


def linear_pipeline(pipeline: Any) -> Mapping[str, Any] | str:
    """Return a ``Function``'s fields of a bag of words, or a clause that says why it is none."""
    try:
        return _linear_pipeline(pipeline)
    except _NotLinearError as why:
        return str(why)
    except AskInsteadError as why:
        return why.why
    except Exception as error:  # of steps that may do anything: what cannot be tried out is asked
        return f"it could not be taken apart ({type(error).__name__})"


def _linear_pipeline(pipeline: Any) -> Mapping[str, Any]:
    steps = _flat(pipeline)
    if len(steps) < 2 or not hasattr(steps[0], "build_analyzer"):
        first = type(steps[0] if steps else pipeline).__name__
        raise _NotLinearError(f"it begins with {first}, which is no vectorizer of words")
    vectorizer, *middle, last = steps
    _check_words(vectorizer)
    classifier = _classifier(last)
    # A norm divides by what all columns hold together, so nothing before it can join the weights.
    norm, nonlinear, cut = _norms(vectorizer, middle, whole=classifier.presence)
    before, after = middle[:cut], middle[cut:]
    weights, sizes = classifier.weights, np.abs(classifier.weights)
    for step in reversed(after):
        weights, sizes = _pulled_back(step, weights, sizes)
    signed = bool(getattr(vectorizer, "alternate_sign", False))
    if classifier.presence and signed:
        raise _NotLinearError("hashed columns with signs are not there or not there")

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
        # No norm changes whether a value is above 0.
        norm=None if classifier.presence else norm,
        # Of l2 the square of a column counts, so that two words in one column do not add up; nor
        # do they where counts become logarithms or signs cancel.
        proportional=not (nonlinear or signed or classifier.presence or norm == "l2"),
        rounding=2.0**-23 if single else 2.0**-52,
    )
    # Tried out and not believed: a subclass may override any of the methods.
    texts = _probes(vectorizer)
    answers = read.outputs(texts)
    _check_answers(bag, read, texts)
    _check_choice(pipeline, texts, answers)
    link = _link(pipeline, last, texts, answers)
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

    def words(self, text: str) -> ReadWords:
        """Return the words of a text as the vectorizer cuts it, with the columns of each."""
        wanted = list(self._analyze(text))
        for number, words in enumerate(self._cuts(text)):
            flat = [(i, token) for i, (_, _, own) in enumerate(words) for token in own]
            if not words or [token for _, token in flat] != wanted:
                continue
            # By its own pattern, which looks at nothing around a word, words are apart already.
            if number == 0 or self._apart(text, words):
                column = self._columns(wanted)
                word = np.array([i for i, _ in flat], dtype=int)
                spans, names, _ = zip(*words, strict=True)
                word, column = word[column >= 0], column[column >= 0]
                return ReadWords(names, spans, word, column, self._shares(text, column))
        if not text.strip():
            raise InputError("the text has no words; give at least one word.")
        raise AskInsteadError("its tokenizer reads a word otherwise among others than alone")

    def _cuts(self, text: str) -> Iterator["_Words"]:
        """Yield the text cut into words, with the tokens of each; what it may be, one by one."""
        yield _by_pattern(self.vectorizer, text)
        # Words and marks, or what stands between spaces: most tokenizers begin with one of them.
        # Each word is read alone; spellings of one token are one word.
        for spans in (word_spans(text), [match.span() for match in re.finditer(r"\S+", text)]):
            tokens = [list(self._analyze(text[start:end])) for start, end in spans]
            yield [
                ((start, end), " ".join(own) or text[start:end], own)
                for (start, end), own in zip(spans, tokens, strict=True)
            ]

    def _apart(self, text: str, words: "_Words") -> bool:
        """Whether no word changes how another is read: each is left out once."""
        for i, ((start, end), _, _) in enumerate(words):
            rest = [token for j, (_, _, own) in enumerate(words) if j != i for token in own]
            left, right = text[:start], text[end:]
            # With a gap and closed up: a tokenizer may join what stood on both sides.
            for without in (f"{left}{' ' * (end - start)}{right}", f"{left}{right.lstrip(' ')}"):
                if list(self._analyze(without)) != rest:
                    return False
        return True

    @cached_property
    def _analyze(self) -> Callable[[str], list[str]]:
        analyze: Callable[[str], list[str]] = self.vectorizer.build_analyzer()
        return analyze

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


def unwrapped(step: Any) -> Any:
    """Return what a fitted search found best, or a frozen estimator holds; else the step itself."""
    while True:
        # A search predicts with the best that it found, and with nothing else.
        if hasattr(step, "best_estimator_"):
            step = step.best_estimator_
        elif "FrozenEstimator" in _kinds(step):
            step = step.estimator
        else:
            return step


def _flat(pipeline: Any) -> list[Any]:
    """Return the steps of a pipeline, those of pipelines inside it too, without empty ones."""
    steps = []
    for _, wrapped in getattr(pipeline, "steps", ()):
        step = unwrapped(wrapped)
        if hasattr(step, "steps"):
            steps += _flat(step)
        # None and "passthrough" are steps that do nothing.
        elif step is not None and not isinstance(step, str):
            steps.append(step)
    return steps


def _kinds(step: Any) -> set[str]:
    return {kind.__name__ for kind in type(step).__mro__}


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


def _norms(vectorizer: Any, middle: list[Any], *, whole: bool) -> tuple[str | None, bool, int]:
    """Return the last norm, whether values grow otherwise than counts, and where the norm stands.

    That is the number of steps in the middle that are left to scikit-learn; with ``whole`` all.
    """
    norm = getattr(vectorizer, "norm", None)
    # What stands there twice counts once then, or less than twice.
    nonlinear = bool(getattr(vectorizer, "binary", False) or getattr(vectorizer, "sublinear_tf", 0))
    cut, mixed = 0, False
    for number, step in enumerate(middle, start=1):
        kinds = _kinds(step)
        if kinds & {"TfidfTransformer", "Normalizer"}:
            if mixed:
                raise _NotLinearError("a norm comes after its columns were mixed (TruncatedSVD)")
            if getattr(step, "sublinear_tf", False):
                if norm is not None:
                    raise _NotLinearError("it takes logarithms of what was divided by a norm")
                nonlinear = True
            if step.norm is None and norm is not None:
                raise _NotLinearError("its columns are weighed after they were divided by a norm")
            norm, cut = step.norm, number
        elif not (_is_selection(step) or _is_scaling(step)):
            mixed = "TruncatedSVD" in kinds
            if whole or not mixed:
                raise _NotLinearError(f"{type(step).__name__} is no linear step that is known here")
    if norm not in ("l1", "l2", None):
        raise _NotLinearError(f"its rows are divided by their {norm!r} norm")
    return norm, nonlinear, len(middle) if whole else cut


def _is_selection(step: Any) -> bool:
    return callable(getattr(step, "get_support", None))


def _is_scaling(step: Any) -> bool:
    """Whether ``step`` divides every column by a number and does nothing else."""
    # A mean that is taken off would leave something of a removed word behind.
    more = any(getattr(step, name, False) for name in ("with_mean", "with_centering", "clip"))
    return bool(_kinds(step) & {"MaxAbsScaler", "StandardScaler", "RobustScaler"}) and not more


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
    kinds = _kinds(last)
    if kinds & {"MultinomialNB", "ComplementNB", "BernoulliNB"}:
        return _naive_bayes(last, kinds)
    if "OneVsRestClassifier" in kinds:
        parts = [_classifier(one) for one in last.estimators_]
        if any(part.weights.shape[1] != 1 or part.presence for part in parts):
            raise _NotLinearError("its parts are not all linear with one output")
        weights = np.concatenate([part.weights for part in parts], axis=1)
        intercept = np.concatenate([part.intercept for part in parts])
        return _Linear(weights, intercept, partial(_side_by_side, parts))
    coef = getattr(last, "coef_", None)
    if coef is None or not hasattr(last, "intercept_"):
        raise _NotLinearError(f"{type(last).__name__} is not linear")
    coef = np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else np.asarray(coef))
    # A regressor has no such method, and predicts what is linear.
    answer = last.decision_function if hasattr(last, "decision_function") else last.predict
    # Without an intercept scikit-learn has a single 0 for all classes.
    intercept = np.broadcast_to(np.ravel(last.intercept_), (len(coef),))
    return _Linear(coef.T.astype(np.float64), intercept.astype(np.float64), answer)


def _naive_bayes(last: Any, kinds: set[str]) -> _Linear:
    """Return the joint log-likelihoods, which are linear; of two classes, their difference."""
    log_prob = np.asarray(last.feature_log_prob_, dtype=np.float64)
    prior = np.asarray(last.class_log_prior_, dtype=np.float64)
    presence = False
    if "BernoulliNB" in kinds:
        if last.binarize is not None and last.binarize != 0:
            raise _NotLinearError(f"BernoulliNB asks whether a value passes {last.binarize}")
        presence = last.binarize is not None
        # Absent words speak too: their log(1 − p) stand in the prior, and a word that is there
        # takes its own back. log1p: 1 − p of a rare word has lost the digits of p.
        absent = np.log1p(-np.exp(log_prob))
        log_prob, prior = log_prob - absent, prior + absent.sum(axis=1)
    elif "ComplementNB" in kinds and len(prior) > 1:
        # scikit-learn adds the prior of this one only where there is a single class.
        prior = np.zeros_like(prior)
    if len(prior) != 2:
        return _Linear(log_prob.T, prior, last.predict_joint_log_proba, presence)
    # Their softmax is the sigmoid of the difference, which is one game and not two.
    return _Linear(
        (log_prob[1:] - log_prob[:1]).T,
        prior[1:] - prior[:1],
        partial(_second_less_first, last.predict_joint_log_proba),
        presence,
    )


def _second_less_first(answers: Callable[[Any], Any], rows: Any) -> Any:
    return np.diff(answers(rows), axis=1)


def _side_by_side(parts: list[_Linear], rows: Any) -> Any:
    return np.stack([np.ravel(part.outputs(rows)) for part in parts], axis=1)


_Words = list[tuple[Span, str, list[str]]]


def _by_pattern(vectorizer: Any, text: str) -> _Words:
    """Return the matches of the token pattern; nothing where another function cuts the text."""
    own = any(getattr(vectorizer, name, None) for name in ("tokenizer", "preprocessor"))
    if own or callable(vectorizer.analyzer):
        return []
    pattern, prepared = re.compile(vectorizer.token_pattern), vectorizer.build_preprocessor()
    group = pattern.groups
    matches = [match for match in pattern.finditer(text) if match.group(group)]
    found = [(match.span(group), prepared(match.group(group))) for match in matches]
    # Letters may change in number when they become small or lose their accents.
    if [name for _, name in found] != [
        token for token in pattern.findall(prepared(vectorizer.decode(text))) if token
    ]:
        return []
    stop = vectorizer.get_stop_words() or ()
    return [(span, name, [] if name in stop else [name]) for span, name in found]


def _probes(vectorizer: Any) -> list[str]:
    """Return a few texts of words that the pipeline knows, and of others."""
    # A hashing vectorizer knows no words, and all words have columns.
    others = ("good", "film", "plot", "bad", "dull", "cast")
    known = list(getattr(vectorizer, "vocabulary_", others))
    picked = known[:: max(1, len(known) // _PROBES)][:_PROBES]
    return [" ".join(picked), f"{picked[0]} {picked[-1]} {picked[0]}", "a text of other words"]


def _check_answers(bag: Bag, read: _Vectors, texts: list[str]) -> None:
    """Refuse a pipeline whose answers, with words and without, are not those of the bag."""
    for text in texts:
        document = bag.read(text)
        features = features_of(document)
        d = len(features)
        keep = np.concatenate([np.ones((1, d), bool), ~np.eye(d, dtype=bool)[:_LEFT_OUT]])
        # Most words at once, too: only then does a norm show.
        keep = np.concatenate([keep, np.arange(d)[None] < np.array([[1], [d // 2]])])
        found = value(one_document(bag.games([document], [features]), 0), keep).T
        answer = read.outputs([blanked(document, features, row) for row in keep])
        if not np.all(np.abs(found - answer) <= _SAME * (1 + np.abs(answer).max())):
            raise _NotLinearError("its answers are not those of a linear classifier of words")


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


def _link(pipeline: Any, last: Any, texts: list[str], outputs: Float[np.ndarray, "n C"]) -> str:
    """Return how outputs become the probabilities that the pipeline itself gives."""
    if not hasattr(last, "predict_proba"):
        return "none"
    theirs = pipeline.predict_proba(texts)
    # By trying: versions of scikit-learn differ in what they call it and in their defaults.
    for link in ("softmax", "ovr", "sigmoid"):
        ours = class_probabilities(outputs, link)
        if ours.shape == theirs.shape and np.abs(ours - theirs).max() < 1e-6:
            return link
    raise _NotLinearError("its probabilities are no known function of its scores")
