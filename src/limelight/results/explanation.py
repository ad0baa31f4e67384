"""Explanations: one score per feature of one text, with all that is needed to repeat them."""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import EllipsisType, MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from limelight.errors import InputError, unknown_name_message
from limelight.models.protocol import (
    are_opposite,
    class_probabilities,
    class_weights,
    target_output_weights,
)
from limelight.results.differences import (
    Difference,
    FeatureNames,
    check_top_sizes,
    score_difference,
)
from limelight.results.mixins import FigureMixin, HtmlMixin, JsonMixin, TableMixin, TerminalMixin
from limelight.results.shap_values import (
    ShapMixin,
    explanation_from_shapiq,
    explanation_to_shapiq,
)
from limelight.results.table import Table, plain_table
from limelight.results.values import (
    EqualByFields,
    frozen_array,
    plain_value,
    require_whole_characters,
)
from limelight.sampling.ranks import TopSizes
from limelight.shapes import Float, Int
from limelight.text import (
    PART_FEATURES,
    SPLITTERS,
    AnswerQuery,
    Features,
    Image,
    Part,
    Query,
    Span,
    append_parts,
    feature_noun,
    part_names,
    truncate_line,
)
from limelight.text.spans import (
    DeferredSpans,
    SpansField,
    accept_deferred_spans,
    check_spans,
    stored_spans,
)

if TYPE_CHECKING:
    from limelight.results.citations import Citations

# Reason why a bound holds: a proof, or trials that removed words of the text.
BoundKind = Literal["proven", "checked"]
_BOUND_KINDS = get_args(BoundKind)


def target_name(target: str, against: str | None) -> str:
    """Return the explained class, with the other one if any: "World against Sports"."""
    return target if against is None else f"{target} against {against}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs(EqualByFields):
    """Scores of pairs of features, by their indices."""

    features: Int[np.ndarray, "n 2"]
    scores: Float[np.ndarray, " n"]
    stderr: Float[np.ndarray, " n"] | None = None


AnchorGuarantee = Literal["sufficient", "minimal", "smallest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """Features that are enough to keep the prediction.

    ``precision`` is the share of the texts with these features that get the same prediction.
    ``coverage`` is the share of all masked texts that have these features. ``guarantee`` is None if
    the precision was measured on random masks. Otherwise the prediction stays whatever else is
    removed:

    * "sufficient": nothing is known about smaller anchors.
    * "minimal": no feature of the anchor can be left out.
    * "smallest": no set of fewer features is an anchor.
    """

    features: tuple[int, ...]
    precision: float
    precision_interval: tuple[float, float]
    coverage: float
    guarantee: AnchorGuarantee | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attribution:
    """The scores that a method returns for one input.

    The other fields of an :class:`Explanation` come from the request, the input and the method.

    * ``base_value``: the output with every feature removed. Only methods with their own removal
      set it. It is None if the model cannot compute that output, and ``...`` if the batch supplies
      it.
    * ``signed``: whether the scores have a sign. None means that the method's default applies.
    * ``diagnostics``: facts about the computation, such as sample sizes and the quality of a fit.
    * ``features``: the features to which the scores belong, if the method chose them itself. None
      means the features of the request.
    * ``certain_tops``: if the scores are sampled, the sizes of the top sets that are certain.
    * ``has_unknown_errors``: whether sampled scores have errors that nobody can estimate.
    * ``draws``: independent draws of sampled scores, whose means are the scores.
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
    warnings: tuple[str, ...] = ()
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    features: Features | None = None
    certain_tops: TopSizes | None = None
    has_unknown_errors: bool = False
    draws: Float[np.ndarray, "G d"] | None = None


def check_explanation(e: Any) -> None:
    """Raise an InputError for impossible values, such as NaN or spans outside the text."""
    d = len(e.features)
    # Joined first: a call for every word would cost a tenth of a comparison of eight methods.
    texts = (e.text, e.method, e.target_phrase, e.label, *e.features, *e.classes, *e.warnings)
    require_whole_characters("".join(texts), "an explanation")
    check_text_features(e)
    if e.against == e.target:
        raise InputError(
            f"target and against must be different classes, but both are {e.target!r}."
        )
    if e.bound is not None and not e.bound >= 0:  # NaN is not either
        raise InputError(f"bound must be at least 0, not {e.bound}.")
    if e.bound_kind not in _BOUND_KINDS:
        raise InputError(unknown_name_message("bound_kind", e.bound_kind, _BOUND_KINDS))
    # The very object of the default, by which msgspec knows what it can leave out of JSON.
    object.__setattr__(e, "bound_kind", sys.intern(e.bound_kind))
    if e.stderr is not None and (e.stderr < 0).any():
        raise InputError(f"stderr must be at least 0, not {e.stderr.min()}.")
    for class_name, output in e.prediction.items():
        if output is not None and not math.isfinite(output):
            raise InputError(f"prediction of {class_name!r} must be finite, not {output}.")
    for name, value in (("base_value", e.base_value), ("intercept", e.intercept)):
        if value is not None and not math.isfinite(value):
            raise InputError(f"{name} must be finite, not {value}.")
    if e.certain_tops is not None:
        check_top_sizes(e.certain_tops, d)
    if e.pairs is not None:
        _check_pairs(e.pairs, d)
    if e.anchor is not None:
        _check_anchor(e.anchor, d)


class TextFeatures:
    """The features of a text, for results that show a text with its features.

    A subclass is a dataclass with these fields, and ``image``.
    """

    __slots__ = ()

    text: str
    features: tuple[str, ...]
    spans: tuple[tuple[Span, ...], ...]
    parts: tuple[Part, ...]
    cut: int | None
    query: Query | None
    settings: Mapping[str, Any]

    @property
    def short_text(self) -> str:
        """The text, or the question of a conversation, whose text is a prompt."""
        return getattr(self.query, "question", "") or self.text

    @property
    def feature_kind(self) -> str:
        """The kind of the features: "words", "sentences", a splitter as module:name, …"""
        return str(self.settings.get("features", "words"))

    @property
    def feature_noun(self) -> str:
        """The noun for one feature: "word", "sentence", or "part" if a splitter made it."""
        return feature_noun(self.feature_kind)

    @property
    def has_block_features(self) -> bool:
        """Whether views print each feature on a line of its own, as they do with sentences."""
        innermost_kind = self.feature_kind.rpartition(" ")[2]  # of "documents and sentences"
        return innermost_kind in (*SPLITTERS, *PART_FEATURES)

    @property
    def explained_end(self) -> int:
        """The end of the part of ``text`` that the model read."""
        return len(self.text) if self.cut is None else self.cut

    @property
    def part_names(self) -> tuple[str, ...]:
        """The id of the part in which each feature begins, such as "first" in a pair, or ""."""
        return part_names(self.spans, self.parts)

    @property
    def feature_labels(self) -> tuple[str, ...]:
        """The features in words for readers: features of an input with parts name their part."""
        return append_parts(self.features, self.part_names)


def check_text_features(result: Any) -> None:
    """Raise an InputError if spans, parts, query or image of a result do not fit its text."""
    end = len(result.text)
    if not isinstance(spans := stored_spans(result), DeferredSpans):  # they check themselves
        check_spans(spans, end)
    if not isinstance(kind := result.settings.get("features", "words"), str):
        raise InputError(
            f"the setting 'features' must be a text that names the units, not {kind!r}."
        )
    if result.cut is not None and not 0 <= result.cut <= end:
        raise InputError(f"cut must be inside the text of {end} characters, not {result.cut}.")
    if result.parts:
        _check_parts(result.parts, result.text)
    if result.query is not None:
        result.query.check(result.text)
    if result.image is not None:
        result.image.check(len(result.features))


def _check_parts(parts: tuple[Part, ...], text: str) -> None:
    """Raise an InputError unless ``parts`` are in order, inside the text, and named differently."""
    end = 0
    for part in parts:
        (start, stop), (first, last) = part.span, part.content
        if not end <= start <= first <= last <= stop <= len(text):
            raise InputError(
                "parts must have spans (start, end) in order, inside the text of "
                f"{len(text)} characters and around their contents, not {part}."
            )
        end = stop
    if len({part.id for part in parts}) < len(parts):
        raise InputError(f"parts must have different ids, not {[part.id for part in parts]}.")


def _check_pairs(pairs: Pairs, d: int) -> None:
    """Raise `InputError` unless pairs name existing features and have finite scores."""
    n = len(pairs.features)
    check_indices(pairs.features.ravel().tolist(), d, "pairs")
    for name, values in (("score", pairs.scores), ("stderr of at least 0", pairs.stderr)):
        if values is None:
            continue
        is_valid = np.shape(values) == (n,) and np.isfinite(values).all()
        if not is_valid or (values is pairs.stderr and (values < 0).any()):
            raise InputError(f"each of the {n} pairs must have a finite {name}, not {values}.")


def _check_anchor(anchor: Anchor, d: int) -> None:
    """Raise `InputError` unless the anchor names features and its shares are from 0 to 1."""
    check_indices(anchor.features, d, "an anchor")
    low, high = anchor.precision_interval
    shares = (low, anchor.precision, high, anchor.coverage)
    if not all(0 <= share <= 1 for share in shares) or low > high:
        raise InputError(
            "precision, its interval (low to high) and coverage of an anchor must be from 0 to "
            f"1, not {anchor.precision}, {low} to {high} and {anchor.coverage}."
        )
    if anchor.guarantee is not None and anchor.precision_interval != (1.0, 1.0):
        raise InputError(
            f"an anchor with the guarantee {anchor.guarantee!r} must have the precision 1, not "
            f"{low} to {high}."
        )


def check_indices(indices: Iterable[int], d: int, owner: str) -> None:
    """Raise an InputError if an index is not one of ``d`` features."""
    for index in indices:
        if not 0 <= index < d:
            raise InputError(f"{owner} must name features from 0 to {d - 1}, not {index}.")


@accept_deferred_spans
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explanation(
    TextFeatures, EqualByFields, HtmlMixin, FigureMixin, TableMixin, JsonMixin, ShapMixin
):
    """Scores of the features of ``text`` for the class ``target``.

    Input and output of the model:

    * ``text``: for a pair, both sides joined by a newline. For an image, its label.
    * ``features``: words, sentences and so on, each with all its occurrences.
    * ``spans``: the character ranges of the occurrences of each feature. Empty for an image.
    * ``cut``: the character at which the model stops reading, None if it reads the whole text.
    * ``parts``: the spans of the two sides of a pair.
    * ``image``: the image with the boxes of its features.
    * ``query``: the span or the answer that is explained, None for a class of the whole text.
    * ``classes``, ``prediction``: the classes, and their outputs by name. ``link`` turns outputs
      into probabilities.

    Request and method:

    * ``target``, ``against``, ``scale``: the explained class, the class that it is compared with
      (or None), and the scale of the explained number.
    * ``method``, ``label``, ``signed``: the method, its label, and whether its scores have a sign.
    * ``settings``: all that is needed to compute the scores again.
    * ``model``, ``version``: the fingerprint of the model and the version of this library.

    Result:

    * ``scores``: one number per feature.
    * ``stderr``: the standard errors, None if the scores have no sampling error. With very few
      model calls, it is None because the error is unknown, and a warning says so.
    * ``bound``, ``bound_kind``: a bound of the numerical error of every score, or None. It is
      "proven", or "checked" by trials that removed words of this text.
    * ``certain_tops``: every K for which the set of the K largest absolute scores is certain, None
      if the method has no errors. For sampled scores it is certain with 95 % confidence.
    * ``draws``: draws of sampled scores. Files do not contain them.
    * ``base_value``: the explained number with every feature removed, None if the model has none.
    * ``heads``: the scores of each attention head separately.
    * ``diagnostics``: facts about the computation.
    * ``warnings``: sentences that a reader must know.
    """

    _terminal = "terminal.explanation_text"
    _page = "html.explanation_page"
    _fragment = "html.explanation_fragment"
    _figure = "figures.explanation_figure"
    _record = "codec.ExplanationRecord"

    text: str
    features: tuple[str, ...]
    spans: SpansField
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
    warnings: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    version: str = ""
    parts: tuple[Part, ...] = ()
    query: Query | None = None
    image: Image | None = None
    certain_tops: TopSizes | None = None
    draws: Float[np.ndarray, "G d"] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        d = len(self.features)
        for name, length in (("spans", len(stored_spans(self))), ("scores", len(self.scores))):
            if length != d:
                raise InputError(
                    f"features and {name} must have the same length, not {d} and {length}."
                )
        for name, axes in (("scores", 1), ("stderr", 1), ("heads", 2), ("draws", 2)):
            if (array := getattr(self, name)) is not None:
                title = f"{name} of method {self.method!r}"
                object.__setattr__(self, name, frozen_array(title, array, d, axes))
        if self.certain_tops is not None:
            object.__setattr__(self, "certain_tops", tuple(self.certain_tops))
        if not d:  # a file cannot distinguish an empty list of errors from no errors
            object.__setattr__(self, "stderr", None)
        for name in ("bound", "base_value", "intercept"):
            if (number := getattr(self, name)) is not None:
                object.__setattr__(self, name, float(number))
        object.__setattr__(self, "label", self.label or self.method)
        for name in ("prediction", "settings", "diagnostics"):
            # A read-only copy: later changes of the caller's mapping must not change a result.
            values = plain_value(dict(getattr(self, name)), name)
            object.__setattr__(self, name, MappingProxyType(values))
        check_explanation(self)

    def __hash__(self) -> int:
        return hash(
            (self.text, self.method, self.target_phrase, self.scale, (self.scores + 0.0).tobytes())
        )  # -0.0 is 0.0

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        strongest = ", ".join(
            # As repr writes it, because ids of documents may contain codes of a terminal.
            f"{repr(truncate_line(word, 12))[1:-1]} {score:+.3g}"
            for word, score in self.top(3)
        )
        return (
            f"<Explanation {self.method} for {truncate_line(self.target_phrase, 40)!r} of "
            f"{truncate_line(self.short_text, 40)!r}: {len(self)} features, {strongest}>"
        )

    @property
    def target_phrase(self) -> str:
        """The target in words: "positive", "ORG against O", "ORG at “Jordan”"."""
        name = target_name(self.target, self.against)
        return name if self.query is None else f"{name} {self.query.describe(self.text)}"

    @property
    def _class_weights(self) -> Float[np.ndarray, "classes outputs"]:
        """The weights of the outputs in the logit, or score, of every class of the prediction.

        A single output stands for two classes, and its name is that of the second.
        """
        outputs = len(self.prediction)
        is_single_score = outputs == 1 and self.link == "none" and len(self.classes) == 1
        classes = 1 if is_single_score else max(outputs, 2)
        return class_weights(classes, outputs, self.link, self.scale)

    @property
    def classes_are_opposite(self) -> bool:
        """Whether a score for the target is a score against the other of two classes."""
        return self.scale != "probability" and are_opposite(self._class_weights)

    @property
    def explained_value(self) -> float | None:
        """The explained number of the whole text, None if ``prediction`` lacks the class.

        Scores of additive methods, such as Shapley values, sum to this number minus the
        ``base_value``.
        """
        names = self._class_names()
        if self.target not in names or (self.against is not None and self.against not in names):
            return None
        outputs = np.array(list(self.prediction.values()), dtype=np.float64)
        index = np.array([names.index(self.target)])
        other = None if self.against is None else np.array([names.index(self.against)])
        if self.scale != "probability":
            (weights,) = target_output_weights(self._class_weights, index, other)
            return float(weights @ outputs)
        (probabilities,) = class_probabilities(outputs[None], self.link)
        return float(probabilities[index[0]] - (0.0 if other is None else probabilities[other[0]]))

    def _class_names(self) -> list[str]:
        """Return the classes in the order of the rows of ``_class_weights``."""
        names = list(self.prediction)
        if len(names) != 1 or len(self._class_weights) == 1:
            return names
        opposites = [name for name in self.classes if name != names[0]]
        return [opposites[0] if len(opposites) == 1 else f"not {names[0]}", *names]

    def image_json(self, *, with_pixels: bool) -> str | None:
        """Return the image as JSON, with or without its pixels, or None for a text."""
        if self.image is None:
            return None
        import msgspec  # not needed to compute or print an explanation of a text

        image = self.image if with_pixels else replace(self.image, png=None)
        return msgspec.json.encode(image).decode()

    @property
    def certain_top(self) -> int | None:
        """The largest K for which the set of the K largest absolute scores is certain.

        It is below the number of features, because the set of all features says nothing. 0 means
        that no set is certain. A single feature is certain. None means that the method has no
        errors, so that nothing is known. For sampled scores, the confidence is 95 %.
        ``certain_tops`` has the smaller sets: the top 5 can be certain although the top 3 are not.
        """
        if self.certain_tops is None:
            return None
        return max(self.certain_tops, default=1 if len(self) == 1 else 0)

    def difference(self, a: FeatureNames, b: FeatureNames) -> Difference:
        """Return the score of ``a`` minus the score of ``b``, with its error.

        Parameters
        ----------
        a, b
            A feature by name or by index, the id or the role of a part such as "tool", or a list
            of these. The scores are added. An id or a role means all features of its parts.

        Returns
        -------
        A ``Difference`` with ``value``, ``stderr``, ``bound`` and ``interval``. Its standard error
        comes from the same draws as the scores.

        Raises
        ------
        InputError
            If a feature is unknown, ambiguous or used twice, or if the draws of sampled scores are
            missing, because the explanation was read from a file.

        Examples
        --------
        >>> import limelight
        >>> e = limelight.explain(limelight.load(), "The plot is thin, but the cast is superb.")
        >>> d = e.difference("superb", "cast")
        >>> print(round(d.value, 2), d.stderr)
        1.2 None
        """
        return score_difference(self, a, b)

    def as_list(self) -> list[tuple[str, float]]:
        """Return (feature, score) pairs, strongest first."""
        return self.top(len(self.features))

    def top(self, k: int) -> list[tuple[str, float]]:
        """Return the ``k`` features of largest absolute score, strongest first."""
        if k < 0:
            raise InputError(f"k must be at least 0, not {k}.")
        # Stable: of equal scores the word that is first in the text, in every view.
        order = np.argsort(-np.abs(self.scores), kind="stable")[:k]
        return [(self.features[j], float(self.scores[j])) for j in order]

    def as_map(self) -> dict[int, list[tuple[int, float]]]:
        """Return {class index: [(feature index, score), …]}, strongest first, as ``lime`` does."""
        classes = self.classes or (self.target,)
        order = np.argsort(-np.abs(self.scores), kind="stable")
        return {classes.index(self.target): [(int(j), float(self.scores[j])) for j in order]}

    def to_array(self) -> Float[np.ndarray, "H W"]:
        """Return the score of every pixel of an explained image.

        Returns
        -------
        An array of the height and width of the image. A pixel has the score of its feature, or NaN
        if it belongs to none.

        Raises
        ------
        InputError
            If a text is explained.

        Examples
        --------
        >>> import limelight, numpy as np
        >>> def find_light(images):
        ...     return [image[:, :5].mean() / 255 for image in images]
        >>> model = limelight.wrap(find_light, images=True, classes=["light"], scale="score")
        >>> image = np.full((10, 10, 3), 200, dtype=np.uint8)
        >>> e = limelight.explain(model, image, "loo", grid=2, replacement="black")
        >>> e.to_array().shape, e.to_array()[0, [0, 9]].round(2).tolist()
        ((10, 10), [0.39, 0.0])
        """
        if self.image is None:
            raise InputError("to_array needs an explanation of an image. For a text, use scores.")
        return np.append(self.scores, np.nan)[self.image.feature_map()]

    def to_shapiq(self, first_order: "Explanation | None" = None) -> Any:
        """Return the scores as ``shapiq.InteractionValues``, for the plots of ``shapiq``.

        The index is "SV" for ``shapley``, "BV" for ``banzhaf``, and "SII" or "BII" for the pairs of
        ``interactions``. The result has only the pairs of the explanation. Set ``top=None`` to
        store all pairs. shapiq has no place for standard errors.

        Parameters
        ----------
        first_order
            Of pairs: the values of single features, which a network plot of shapiq needs. It is an
            explanation of the same text by ``shapley``, or by ``banzhaf`` for "BII".

        Returns
        -------
        The ``shapiq.InteractionValues``.

        Raises
        ------
        InputError
            If shapiq is not installed, if shapiq has no index for the method, if there is no base
            value, or if ``first_order`` is another explanation.
        """
        return explanation_to_shapiq(self, first_order)

    @classmethod
    def from_shapiq(cls, values: Any, template: "Explanation") -> "Explanation":
        """Return an explanation with values that ``shapiq`` computed.

        Parameters
        ----------
        values
            ``shapiq.InteractionValues`` of order 1, 2 or both. The players are the features of
            ``template`` in their order, as in :func:`limelight.game`.
        template
            An explanation of the same text, class and scale, by any method.

        Returns
        -------
        The explanation of ``template`` with the scores, pairs and base value of ``values``. The
        method is "shapiq-" and the index. Without values of order 1, a score is the mean size of
        the interactions of a feature.

        Raises
        ------
        InputError
            If the number of players is not that of the features, or if an order is above 2.
        """
        return explanation_from_shapiq(values, template)

    def _table(self) -> Table:
        return feature_table([(0, self)])


def image_fields(stored: str | None) -> dict[str, Any]:
    """Return the field ``image`` of an explanation from :meth:`Explanation.image_json`."""
    if stored is None:
        return {}
    import msgspec

    return {"image": msgspec.json.decode(stored, type=Image)}


class Explanations(TerminalMixin, TableMixin, ShapMixin, list[Explanation]):
    """A list of explanations that a notebook, a terminal and a table show together.

    The column ``text_number`` of its table counts the texts from 0.
    """

    _terminal = "terminal.explanations_text"
    _fragment = "html.explanations_fragment"

    def _table(self) -> Table:
        return feature_table(enumerate(self))


@dataclass(frozen=True, eq=False)
class SpanExplanations(EqualByFields, HtmlMixin, TableMixin, ShapMixin):
    """One explanation for each span that a model finds in ``text``.

    For a language model there is one explanation for each sentence of its answer to ``text``. All
    explanations have the same features. The words of all spans are protected, so that the same
    masks are used for each span. There may be no span.
    """

    _terminal = "terminal.spans_text"
    _page = "html.spans_page"
    _fragment = "html.spans_fragment"

    text: str
    explanations: tuple[Explanation, ...]

    @property
    def answer(self) -> AnswerQuery | None:
        """The answer whose sentences are explained, or None if spans of ``text`` are explained."""
        query = self.explanations[0].query if self.explanations else None
        return query if isinstance(query, AnswerQuery) else None

    @property
    def count_phrase(self) -> str:
        """The number of explained parts in words: "3 spans", "2 sentences of the answer"."""
        noun = "span" if self.answer is None else "sentence"
        count = f"{len(self)} {noun}s" if len(self) != 1 else f"one {noun}"
        return count if self.answer is None else f"{count} of the answer"

    def __len__(self) -> int:
        return len(self.explanations)

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.explanations)

    def __getitem__(self, number: int) -> Explanation:
        return self.explanations[number]

    def __repr__(self) -> str:
        targets = [truncate_line(e.target_phrase, 30) for e in self.explanations[:4]]
        targets += ["…"] * (len(self) > 4)
        names = ", ".join(targets) or "no span"
        return f"<SpanExplanations of {truncate_line(self.text, 40)!r}: {names}>"

    def citations(self, *, confidence: float = 0.95, threshold: float = 0.0) -> "Citations":
        """Return the sources of each sentence of an answer whose scores are certainly positive.

        A source is a feature: a document, a message or a sentence. With sentences as features, the
        document of a cited sentence is its source.

        Scores of sampled methods need at least ten draws. Their limits are those of Student's t
        with Bonferroni's correction over all sentences and features. They assume that the number
        of draws was fixed in advance.

        Parameters
        ----------
        confidence
            The probability that all lower limits of sampled scores hold together.
        threshold
            The number that a score must certainly exceed. A log-probability rises by 0.69 if a
            sentence becomes twice as probable.

        Returns
        -------
        The citations. A sentence may have no source. If the errors of scores are unknown, there
        are no citations, and a warning says so.

        Raises
        ------
        InputError
            If spans of a text are explained, if the scores have no sign, or if a number is out of
            range.

        Examples
        --------
        >>> import limelight
        >>> model = limelight.load("gpt2-mini-imdb", template="{text}")
        >>> text = "The acting is superb. The plot is dull."
        >>> sentences = limelight.explain_sentences(model, text, answer=" I liked it. It was dull.")
        >>> sentences.citations().sources
        ((), ('The plot is dull.',))
        """
        from limelight.results.citations import find_citations

        return find_citations(self.explanations, confidence=confidence, threshold=threshold)

    def _table(self) -> Table:
        return feature_table((0, e) for e in self)


FEATURE_COLUMNS = (
    "text_number", "method", "target", "feature", "score", "stderr", "bound", "spans", "part",
)  # fmt: skip


def feature_table(explanations: Iterable[tuple[int, Explanation]]) -> Table:
    """Return a table with one row per feature of each (text number, explanation)."""
    rows: list[tuple[Any, ...]] = []
    for number, e in explanations:
        stderr = [None] * len(e) if e.stderr is None else e.stderr.tolist()
        columns = (e.features, e.scores.tolist(), stderr, e.spans, e.part_names)
        for feature, score, error, spans, part in zip(*columns, strict=True):
            positions = " ".join(f"{start}:{end}" for start, end in spans)
            cells = (feature, score, error, e.bound, positions, part)
            rows.append((number, e.method, e.target_phrase, *cells))
    return plain_table(FEATURE_COLUMNS, rows)


def explanations_csv(explanations: Iterable[tuple[int, Explanation]]) -> Iterator[str]:
    """Yield CSV text with one row per feature of each (text number, explanation).

    Each explanation gives one part. The first part begins with the header.
    """
    for part, (number, e) in enumerate(explanations):
        yield feature_table([(number, e)]).to_csv(header=not part)
