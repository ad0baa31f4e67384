"""One score per feature of one text, with everything needed to read and to repeat it."""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from types import EllipsisType, MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from limelight.errors import InputError, nearest
from limelight.models.protocol import (
    are_opposite,
    class_probabilities,
    class_weights,
    compare_classes,
)
from limelight.results.mixins import FigureMixin, HtmlMixin, JsonMixin, TableMixin, TerminalMixin
from limelight.results.table import Table, plain_rows
from limelight.results.values import EqualByFields, own_numbers, plain_value, whole_text
from limelight.shapes import Float, Int
from limelight.text import (
    CUTTERS,
    Answer,
    Features,
    Image,
    Query,
    Span,
    name_of_one,
    one_line,
    side_names,
    with_sides,
)

# Why a bound holds: by a proof, or because removing words of the text was tried.
BoundKind = Literal["proven", "checked"]


def target_name(target: str, against: str | None) -> str:
    """Return what scores speak for: "positive", or "World against Sports"."""
    return target if against is None else f"{target} against {against}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs(EqualByFields):
    """Scores of pairs of features, by their indices."""

    features: Int[np.ndarray, "n 2"]
    scores: Float[np.ndarray, " n"]
    stderr: Float[np.ndarray, " n"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """Features that hold the prediction: how often they do, and on how many texts they apply."""

    features: tuple[int, ...]
    precision: float
    precision_interval: tuple[float, float]
    coverage: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attribution:
    """What a method finds for one document; the rest of an explanation is question and method.

    ``diagnostics`` says how it went: draws, gaps, the quality of a fit. ``base_value`` is set by
    methods that remove words in a way of their own, and None where the model refuses that text;
    ``...`` leaves it to the reading. ``signed`` says whether these scores have a sign, where a
    method has values of both kinds; None: as the method's do. ``units`` are what the scores are of,
    where a method chooses that by itself; None: the features that were asked for.
    """

    scores: Float[np.ndarray, " d"]
    stderr: Float[np.ndarray, " d"] | None = None
    bound: float | None = None
    base_value: float | EllipsisType | None = ...
    intercept: float | None = None
    heads: Float[np.ndarray, "K d"] | None = None
    pairs: Pairs | None = None
    anchor: Anchor | None = None
    signed: bool | None = None
    notices: tuple[str, ...] = ()
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    units: Features | None = None


def check_explanation(e: Any) -> None:
    """Refuse what cannot be: NaN, negative errors, spans outside the text, unknown features."""
    d, end = len(e.features), len(e.text)
    # Joined first: a call for every word would cost a tenth of a comparison of eight methods.
    texts = (e.text, e.method, e.aim, e.label, *e.features, *e.classes, *e.notices)
    whole_text("".join(texts), "an explanation")
    _check_spans(e.spans, end)
    if not isinstance(units := e.settings.get("features", "words"), str):
        raise InputError(f"the setting 'features' must say what the units are; got {units!r}.")
    if e.cut is not None and not 0 <= e.cut <= end:
        raise InputError(f"cut must lie inside the text of {end} characters; got {e.cut}.")
    if e.parts:
        _check_parts(e.parts, e.text)
    if e.asked is not None:
        e.asked.check(e.text)
    if e.image is not None:
        e.image.check(d)
    if e.against == e.target:
        raise InputError(f"a class is explained against another one; got {e.target!r} twice.")
    if e.bound is not None and not e.bound >= 0:  # NaN is not either
        raise InputError(f"bound must not be negative or NaN; got {e.bound}.")
    if e.bound_kind not in get_args(BoundKind):
        raise InputError(nearest("bound_kind", e.bound_kind, get_args(BoundKind)))
    # The very object of the default, by which msgspec knows what it can leave out of JSON.
    object.__setattr__(e, "bound_kind", sys.intern(e.bound_kind))
    if e.stderr is not None and (e.stderr < 0).any():
        raise InputError(f"stderr must not be negative; got {e.stderr.min()}.")
    outputs = {f"prediction of {name!r}": value for name, value in e.prediction.items()}
    for name, value in (outputs | {"base_value": e.base_value, "intercept": e.intercept}).items():
        if value is not None and not math.isfinite(value):
            raise InputError(f"{name} must be finite; got {value}.")
    if e.pairs is not None:
        _check_pairs(e.pairs, d)
    if e.anchor is not None:
        _check_anchor(e.anchor, d)


@lru_cache(maxsize=16)  # several methods explain the same words of the same text
def _check_spans(spans: tuple[tuple[Span, ...], ...], end: int) -> None:
    for start, stop in chain.from_iterable(spans):
        if not 0 <= start <= stop <= end:
            raise InputError(
                f"spans must be (start, end) inside the text of {end} characters; "
                f"got {(start, stop)}."
            )


def _check_parts(parts: tuple[Span, ...], text: str) -> None:
    """A pair is two stretches of the text that a newline joins, and nothing else."""
    match parts:
        case ((0, end), (start, last)) if start == end + 1 and last == len(text) >= start:
            if text[end] == "\n":
                return
    raise InputError(
        "parts must be the (start, end) of two texts which a newline joins to the whole of "
        f"{len(text)} characters; got {parts}."
    )


def _check_pairs(pairs: Pairs, d: int) -> None:
    n = len(pairs.features)
    check_indices(pairs.features.ravel().tolist(), d, "pairs")
    for name, values in (("score each", pairs.scores), ("stderr each, not negative", pairs.stderr)):
        if values is None:
            continue
        fits = np.shape(values) == (n,) and np.isfinite(values).all()
        if not fits or (values is pairs.stderr and (values < 0).any()):
            raise InputError(f"pairs must have a finite {name}; got {values} for {n} pairs.")


def _check_anchor(anchor: Anchor, d: int) -> None:
    check_indices(anchor.features, d, "an anchor")
    low, high = anchor.precision_interval
    shares = (low, anchor.precision, high, anchor.coverage)
    if not all(0 <= share <= 1 for share in shares) or low > high:
        raise InputError(
            "precision, its interval and coverage of an anchor are shares from 0 to 1, the "
            f"interval in order; got {anchor.precision}, {low} to {high}, {anchor.coverage}."
        )


def check_indices(indices: Iterable[int], d: int, what: str) -> None:
    """Refuse numbers of features that are not there."""
    for index in indices:
        if not 0 <= index < d:
            raise InputError(f"{what} must name features from 0 to {d - 1}; got {index}.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explanation(EqualByFields, HtmlMixin, FigureMixin, TableMixin, JsonMixin):
    """Scores of the features of ``text`` for the class ``target``.

    What was asked: ``text``, its ``features`` with the character ranges of every occurrence of
    each in ``spans``, the ``target`` among the ``classes``, the class ``against`` which it is held,
    if any, and the ``scale`` on which it is explained. ``prediction`` maps classes to outputs,
    which ``link`` turns into probabilities; ``base_value`` is the explained output with every
    feature removed, None where the model has none; ``cut`` is the character at which the model
    stops reading, None if it reads everything. Where a pair was explained, ``text`` is both sides
    joined by a newline, and ``parts`` their two spans. ``asked`` is the place of ``text`` that the
    model was asked about, or the answer that it was asked for, None where it is neither. Where a
    image was explained, ``text`` is its label, ``spans`` are empty, and ``image`` has the boxes.

    How: ``method``, its ``label``, whether its scores are ``signed``, and the ``settings`` that
    compute it again, with the fingerprint of the ``model`` and the ``version`` of this library.

    What was found: ``scores``; ``stderr``, None exactly when they carry no sampling error;
    ``bound``, where there is one, a bound on the numerical error of every score, and ``bound_kind``
    whether it is "proven", or "checked" by removals that were tried on this text; ``heads``, the
    same scores for each attention head alone; ``diagnostics``, how the computation went; and
    ``notices``, what the reader must know.
    """

    _terminal = "terminal.explanation_text"
    _page = "html.explanation_page"
    _fragment = "html.explanation_fragment"
    _figure = "figures.explanation_figure"
    _record = "codec.ExplanationRecord"

    text: str
    features: tuple[str, ...]
    spans: tuple[tuple[Span, ...], ...]
    scores: Float[np.ndarray, " d"]
    stderr: Float[np.ndarray, " d"] | None = None
    bound: float | None = None
    bound_kind: BoundKind = "proven"
    method: str
    label: str = ""
    signed: bool = True
    target: str
    against: str | None = None
    classes: tuple[str, ...] = ()
    link: str = "softmax"
    scale: str = "logit"
    prediction: Mapping[str, float]
    base_value: float | None = None
    intercept: float | None = None
    heads: Float[np.ndarray, "K d"] | None = None
    pairs: Pairs | None = None
    anchor: Anchor | None = None
    cut: int | None = None
    notices: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    version: str = ""
    parts: tuple[Span, ...] = ()
    asked: Query | None = None
    image: Image | None = None

    def __post_init__(self) -> None:
        d = len(self.features)
        for name, length in (("spans", len(self.spans)), ("scores", len(self.scores))):
            if length != d:
                raise InputError(f"got {d} features and {length} {name}; they must pair up.")
        for name, axes in (("scores", 1), ("stderr", 1), ("heads", 2)):
            if (array := getattr(self, name)) is not None:
                what = f"{name} of method {self.method!r}"
                object.__setattr__(self, name, own_numbers(what, array, d, axes))
        if not d:  # no scores carry no errors; a file could not tell an empty list from none
            object.__setattr__(self, "stderr", None)
        for name in ("bound", "base_value", "intercept"):
            if (number := getattr(self, name)) is not None:
                object.__setattr__(self, name, float(number))
        object.__setattr__(self, "label", self.label or self.method)
        for name in ("prediction", "settings", "diagnostics"):
            # Copied and closed: what a caller changes later must not change a result.
            own = plain_value(dict(getattr(self, name)), name)
            object.__setattr__(self, name, MappingProxyType(own))
        check_explanation(self)

    def __hash__(self) -> int:
        return hash(
            (self.text, self.method, self.aim, self.scale, (self.scores + 0.0).tobytes())
        )  # -0.0 is 0.0

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        strongest = ", ".join(f"{one_line(word, 12)} {score:+.3g}" for word, score in self.top(3))
        return (
            f"<Explanation {self.method} for {one_line(self.aim, 40)!r} of "
            f"{one_line(self.text, 40)!r}: {len(self)} features, {strongest}>"
        )

    @property
    def aim(self) -> str:
        """What the scores speak for: "positive", "ORG against O", "ORG at “Jordan”"."""
        aim = target_name(self.target, self.against)
        return aim if self.asked is None else f"{aim} {self.asked.named(self.text)}"

    @property
    def units(self) -> str:
        """What the features are: "words", "sentences", a cutter as module:name, …"""
        return str(self.settings.get("features", "words"))

    @property
    def noun(self) -> str:
        """What one feature is called: "word", "sentence"; "part" where a cutter made it."""
        return name_of_one(self.units)

    @property
    def in_blocks(self) -> bool:
        """Whether features are stretches of the text that a view sets apart, each on its line."""
        return self.units in CUTTERS

    @property
    def explained_end(self) -> int:
        """Where the part of ``text`` that the model read ends; the rest was cut off."""
        return len(self.text) if self.cut is None else self.cut

    @property
    def sides(self) -> tuple[str, ...]:
        """The side of a pair on which each feature begins, "first" or "second"; "" for one text."""
        return side_names(self.spans, self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        """The features as a reader can tell them apart: those of a pair with their side."""
        return with_sides(self.features, self.sides)

    @property
    def _class_weights(self) -> Float[np.ndarray, "classes outputs"]:
        """The weights of the outputs in the logit, or score, of every class of the prediction.

        A single output stands for two classes, of which it names the second.
        """
        outputs = len(self.prediction)
        alone = outputs == 1 and self.link == "none" and len(self.classes) == 1
        return class_weights(1 if alone else max(outputs, 2), outputs, self.link, self.scale)

    @property
    def classes_are_opposite(self) -> bool:
        """Whether what speaks for the target speaks against the other of two classes."""
        return self.scale != "probability" and are_opposite(self._class_weights)

    @property
    def explained_value(self) -> float | None:
        """The explained number of the text as it stands; None where ``prediction`` lacks it.

        The scores of methods that add up, such as Shapley values, sum to this number less the
        ``base_value``.
        """
        names = self._class_names()
        if self.target not in names or (self.against is not None and self.against not in names):
            return None
        outputs = np.array(list(self.prediction.values()), dtype=np.float64)
        index = np.array([names.index(self.target)])
        other = None if self.against is None else np.array([names.index(self.against)])
        if self.scale != "probability":
            (weights,) = compare_classes(self._class_weights, index, other)
            return float(weights @ outputs)
        (chances,) = class_probabilities(outputs[None], self.link)
        return float(chances[index[0]] - (0.0 if other is None else chances[other[0]]))

    def _class_names(self) -> list[str]:
        """Return the classes in the order of the rows of ``_class_weights``."""
        names = list(self.prediction)
        if len(names) != 1 or len(self._class_weights) == 1:
            return names
        others = [other for other in self.classes if other != names[0]]
        return [others[0] if len(others) == 1 else f"not {names[0]}", *names]

    def shown(self, *, whole: bool) -> str | None:
        """Return what is shown in the place of a text, as JSON; ``whole`` to be drawn from that."""
        if self.image is None:
            return None
        import msgspec  # which computing and printing a text does without

        kept = self.image if whole else replace(self.image, png=None)
        return msgspec.json.encode(kept).decode()

    def as_list(self) -> list[tuple[str, float]]:
        """Return (feature, score) pairs, strongest first."""
        return self.top(len(self.features))

    def top(self, k: int) -> list[tuple[str, float]]:
        """Return the ``k`` features of largest absolute score, strongest first."""
        if k < 0:
            raise InputError(f"top takes a count of features, at least 0; got {k}.")
        # Stable: of equal scores the word that comes first in the text, in every view.
        order = np.argsort(-np.abs(self.scores), kind="stable")[:k]
        return [(self.features[j], float(self.scores[j])) for j in order]

    def as_map(self) -> dict[int, list[tuple[int, float]]]:
        """Return {class index: [(feature index, score), …]}, strongest first, as ``lime`` does."""
        classes = self.classes or (self.target,)
        order = np.argsort(-np.abs(self.scores), kind="stable")
        return {classes.index(self.target): [(int(j), float(self.scores[j])) for j in order]}

    def _table(self) -> Table:
        return feature_rows([(0, self)])


def shown_fields(stored: str | None) -> dict[str, Any]:
    """Return the fields of an explanation that :meth:`Explanation.shown` wrote."""
    if stored is None:
        return {}
    import msgspec

    return {"image": msgspec.json.decode(stored, type=Image)}


class Explanations(TerminalMixin, TableMixin, list[Explanation]):
    """A list of explanations, which a notebook, a terminal and a table show as one.

    Its rows have the number of the text, counting from 0, as their ``document``.
    """

    _terminal = "terminal.explanations_text"
    _fragment = "html.explanations_fragment"

    def _table(self) -> Table:
        return feature_rows(enumerate(self))


@dataclass(frozen=True, eq=False)
class SpanExplanations(EqualByFields, HtmlMixin, TableMixin):
    """One explanation for every span that a model finds in ``text``, all of the same words.

    There may be none. The words of all spans are protected, so that the same masks serve each. Or
    one for every sentence of what a language model answers to ``text``.
    """

    _terminal = "terminal.spans_text"
    _page = "html.spans_page"
    _fragment = "html.spans_fragment"

    text: str
    explanations: tuple[Explanation, ...]

    @property
    def answer(self) -> Answer | None:
        """The answer whose sentences are explained, None where spans of ``text`` are."""
        asked = self.explanations[0].asked if self.explanations else None
        return asked if isinstance(asked, Answer) else None

    @property
    def of(self) -> str:
        """What is explained part by part: "3 spans", "2 sentences of the answer"."""
        one = "span" if self.answer is None else "sentence"
        count = f"{len(self)} {one}s" if len(self) != 1 else f"one {one}"
        return count if self.answer is None else f"{count} of the answer"

    def __len__(self) -> int:
        return len(self.explanations)

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.explanations)

    def __getitem__(self, number: int) -> Explanation:
        return self.explanations[number]

    def __repr__(self) -> str:
        aims = ", ".join(one_line(e.aim, 30) for e in self.explanations[:4]) or "no span"
        more = ", …" * (len(self) > 4)
        return f"<SpanExplanations of {one_line(self.text, 40)!r}: {aims}{more}>"

    def _table(self) -> Table:
        return feature_rows((0, e) for e in self)


FEATURE_COLUMNS = (
    "document", "method", "target", "feature", "score", "stderr", "bound", "spans", "side",
)  # fmt: skip


def feature_rows(explanations: Iterable[tuple[int, Explanation]]) -> Table:
    """Return one row per feature of each (document, explanation), in the order of the text."""
    rows: list[tuple[Any, ...]] = []
    for model_input, e in explanations:
        stderr = [None] * len(e) if e.stderr is None else e.stderr.tolist()
        columns = (e.features, e.scores.tolist(), stderr, e.spans, e.sides)
        for feature, score, error, spans, side in zip(*columns, strict=True):
            places = " ".join(f"{start}:{end}" for start, end in spans)
            found = (feature, score, error, e.bound, places, side)
            rows.append((model_input, e.method, e.aim, *found))
    return plain_rows(FEATURE_COLUMNS, rows)


def explanations_csv(explanations: Iterable[tuple[int, Explanation]]) -> Iterator[str]:
    """Yield CSV text, a header and one row per feature of each (document, explanation).

    It comes in parts, as the explanations do, and nothing comes before the first of them.
    """
    for number, (model_input, e) in enumerate(explanations):
        yield feature_rows([(model_input, e)]).to_csv(header=not number)
