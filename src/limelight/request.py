"""What is asked of a model about a text: class, scale, features, and settings of methods.

A field of :class:`Question` is a keyword of every verb, an option of the commands and a parameter
of the page. A new one is declared here, with its meaning, in ``Question`` and among the keywords
that type checkers see; nothing else names it.
"""

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import (
    Annotated,
    Any,
    NamedTuple,
    TypedDict,
    TypeVar,
    final,
    get_args,
    get_type_hints,
)

import numpy as np

from limelight.errors import InputError, short_repr, unknown_name_message
from limelight.models import (
    SCALES,
    Model,
    check_model,
    class_probabilities,
    class_weights,
    target_output_weights,
)
from limelight.models.loading import copy_source
from limelight.models.protocol import Requirements, adapt_model, query_kind
from limelight.shapes import Float, Int
from limelight.text import SIDES, FeatureSpec, QueriedText, feature_kind
from limelight.theory.path_quadrature import DerivativeBounds


@final
@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """The class to explain for each of ``n`` inputs, and the scale of its output.

    The explained number F of an input is a function of the model's outputs f.

    * Scale "logit" with two classes: the log-odds. With a single output f the second class has the
      logit f and the first class the logit -f. With a softmax over two outputs they are f_1 − f_0
      and f_0 − f_1.
    * Scale "logit" with more classes, or scale "score": the output of the class.
    * Scale "probability": the probability of the class.

    With ``against``, the same number of another class is subtracted: f_a − f_b, or p_a − p_b. The
    log-odds of two classes already are such a difference, so only probabilities change.

    Parameters
    ----------
    index
        The class of each input.
    classes
        The names of all classes. A single class is a score that is predicted, not a class.
    scale
        "logit", "probability" or "score".
    link
        Turns several outputs into probabilities: "softmax", "sigmoid" or "ovr". With "none" there
        are no probabilities, and the scale is "score".
    against
        The class that is subtracted, for each input.
    query_index
        The index of the query to which the target belongs.
    query_count
        The number of queries of each input. Their outputs stand in one row.
    """

    index: Int[np.ndarray, " n"]
    classes: tuple[str, ...]
    scale: str = "logit"
    link: str = "softmax"
    against: Int[np.ndarray, " n"] | None = None
    query_index: int = 0
    query_count: int = 1

    def class_names(self) -> list[str]:
        """Return the name of the explained class of every input."""
        return [self.classes[i] for i in self.index]

    def against_names(self) -> list[str | None]:
        """Return the name of the class that is subtracted for every input, or None."""
        if self.against is None:
            return [None] * len(self.index)
        return [self.classes[i] for i in self.against]

    def select(self, start: int, count: int = 1) -> "Targets":
        """Return the targets of ``count`` inputs, beginning with input ``start``."""
        part = slice(start, start + count)
        against = None if self.against is None else self.against[part]
        return replace(self, index=self.index[part], against=against)

    def value(self, f: Float[np.ndarray, "*m n C"]) -> Float[np.ndarray, "*m n"]:
        """Return the explained number F for outputs of the model."""
        f = self.query_outputs(f)
        if self.scale != "probability":
            return (f * self._output_weights(f.shape[-1])).sum(-1)
        return (self._probabilities(f) * self._class_weights()).sum(-1)

    def output_gradient(self, f: Float[np.ndarray, "*m n C"]) -> Float[np.ndarray, "*m n C"]:
        """Return ∂F/∂f_c: the derivative of the explained number F by each output f_c."""
        if self.query_count > 1:
            gradient = np.zeros(f.shape)
            target = replace(self, query_count=1)
            self.query_outputs(gradient)[...] = target.output_gradient(self.query_outputs(f))
            return gradient
        if self.scale != "probability":
            return np.broadcast_to(self._output_weights(f.shape[-1]), f.shape)
        p, weights = self._probabilities(f), self._class_weights()
        if f.shape[-1] > 1 and self.link in ("sigmoid", "ovr"):
            sigmoid = class_probabilities(f.reshape(-1, f.shape[-1]), "sigmoid").reshape(f.shape)
            gradient = weights * sigmoid * (1 - sigmoid)
            if self.link == "sigmoid":
                return gradient
            # (s_c/Σs)' by the quotient rule: a larger output of one class lowers the others.
            return p * (1 - sigmoid) * (weights - (p * weights).sum(-1, keepdims=True))
        gradient = p * (weights - (p * weights).sum(-1, keepdims=True))
        return gradient if f.shape[-1] > 1 else gradient[..., 1:]

    def query_outputs(self, f: Float[np.ndarray, "*m C"]) -> Float[np.ndarray, "*m c"]:
        """Return the outputs that belong to the query of these targets."""
        if self.query_count == 1:
            return f
        size = f.shape[-1] // self.query_count
        return f[..., self.query_index * size : (self.query_index + 1) * size]

    def derivative_bounds(self, output_count: int) -> DerivativeBounds:
        """Return bounds of the derivatives of F as a function of ``output_count`` outputs."""
        if self.scale == "probability":
            # Outputs with imaginary parts up to ψ make probabilities of at most 1/cos ψ in size.
            # With ``against`` there are two probabilities.
            n = 1.0 if self.against is None else 2.0
            return DerivativeBounds(
                lambda psi: np.repeat(n * _probability_slope_bound(psi), output_count, axis=-1),
                curvature=n,
            )
        size = np.abs(self._output_weights(output_count))
        return DerivativeBounds(
            lambda psi: np.broadcast_to(size, (*psi.shape, output_count)), curvature=0.0
        )

    def _probabilities(self, f: Float[np.ndarray, "*m n C"]) -> Float[np.ndarray, "*m n classes"]:
        probabilities = class_probabilities(f.reshape(-1, f.shape[-1]), self.link)
        return probabilities.reshape(*f.shape[:-1], -1)

    def _class_weights(self) -> Float[np.ndarray, "n classes"]:
        """Return 1 for the explained class of each input, -1 for the class that is subtracted."""
        unit = np.eye(len(self.classes))
        if self.against is None:
            return unit[self.index]
        return unit[self.index] - unit[self.against]

    def _output_weights(self, output_count: int) -> Float[np.ndarray, "n C"]:
        weights = class_weights(len(self.classes), output_count, self.link, self.scale)
        return target_output_weights(weights, self.index, self.against)


def _probability_slope_bound(psi: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n 1"]:
    """Return the bound |p (1 − p')| ≤ s (1 + s), s = 1/cos ψ; infinite from π/2 on."""
    is_bounded = psi < np.pi / 2
    s = 1 / np.cos(np.where(is_bounded, psi, 0.0))
    return np.where(is_bounded, s * (1 + s), np.inf)[..., None]


def target_indices(
    target: Any, classes: tuple[str, ...], logits: Float[np.ndarray, "n C"]
) -> Int[np.ndarray, " n"]:
    """Return the class that ``target`` means for every document.

    None is the last of two classes and the predicted one of several. Digits in a string, as a
    command has them, are a name before they are a place; a whole number is a place, and refused
    where it is the name of a class at another one.
    """
    if target is None:
        target = "predicted" if len(classes) > 2 else classes[-1]
    if target == "predicted" and target not in classes:
        # A score has one class, and its only output would count as that of the second of two.
        return class_probabilities(logits).argmax(axis=1) * (len(classes) > 1)
    if isinstance(target, str) and target in classes:
        return np.full(len(logits), classes.index(target))
    if isinstance(target, str):
        if not re.fullmatch("-?[0-9]{1,18}", target):
            raise InputError(unknown_name_message("class", target, [*classes, "predicted"]))
        target = int(target)
    elif isinstance(target, bool) or not hasattr(target, "__index__"):
        raise InputError(f"a target must be a class, by name or number; got {target!r}.")
    else:
        target = int(target)
        if (name := short_repr(target)) in classes and classes[target : target + 1] != (name,):
            raise InputError(
                f"there is a class called '{name}', which is not number {name}, counting from 0; "
                "give the name of the class that is meant, as a string."
            )
    if not 0 <= target < len(classes):
        raise InputError(
            f"there are {len(classes)} classes, so a target index must lie in "
            f"0..{len(classes) - 1}; got {short_repr(target)}. The classes are: {', '.join(classes)}."
        )
    return np.full(len(logits), target)


@final
@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked about one text, or about each of several, whatever the method.

    The fields are the arguments of :func:`limelight.explain` that bear their names, each with what
    it means to somebody who types a command; with ``all_classes`` every class is asked about in
    turn, and no target is named. A run stores the question, so that only the same one goes on with
    it. What can be checked without a model is checked here, the rest by :func:`prepare_model` and
    when the texts are read.
    """

    target: Annotated[
        str | int | None,
        'Class to explain: a name, a number counted from 0, or "predicted". Default: the second of '
        "two classes, otherwise the predicted class.",
    ] = None
    against: Annotated[
        str | int | None,
        "Explain the difference between the target and this class. Give a name, a number, or "
        '"predicted".',
    ] = None
    all_classes: bool = False
    features: Annotated[
        Any,  # a Unit, of which records know what JSON can hold
        'Parts of the input that get a score. "words": all occurrences of a word share one score; '
        '"positions": every occurrence has its own; "sentences", "paragraphs" or "lines". Hugging '
        'Face models also have "tokens". Images have "patches" or "segments". Default: words, '
        "sentences for an answer, patches for an image.",
    ] = None
    grid: Annotated[
        int | None,
        "Images: number of patches per side (default: the model's own).",
    ] = None
    scale: Annotated[
        str,
        'Scale of the scores: "logit" (for two classes, the log-odds of the target), "probability" '
        'or "score" (the raw output). Models without probabilities always use "score".',
    ] = "logit"
    protect: Annotated[
        Collection[str], "Never remove this word, and give it no score. Repeat for more words."
    ] = ()
    window: Annotated[
        str | int | None,
        "For texts longer than a Hugging Face model can read: use the mean output over windows "
        'of this many tokens. "auto" takes the longest window that the model can read.',
    ] = None
    side: Annotated[
        str | None, 'Pairs of texts: score only the words of the "first" or the "second" text.'
    ] = None
    at: Annotated[
        str | int | tuple[int, int] | None,
        "Models that find spans: the span to explain. Give its words, its characters as START:END, "
        "or its number among the spans that the model finds, counted from 0. For a question and a "
        "passage, the span lies in the passage. Default: the only span (explain-data: every span).",
    ] = None
    answer: Annotated[
        str | Sequence[str | None] | None,
        "Language models: explain the probability of this answer. Default: the answer that the "
        "model writes.",
    ] = None
    protect_span: Annotated[
        bool,
        "Models that find spans: never remove the words of the explained span, and score only the "
        "words around it.",
    ] = True
    first_pieces: Annotated[
        bool,
        "Models that tag words: use the tag of the first token of each word, not the mean over its "
        "tokens.",
    ] = False

    def __post_init__(self) -> None:
        for name, given in (("target", self.target), ("against", self.against)):
            if self.all_classes and given is not None:
                raise InputError(f"give {name} or all_classes, not both.")
        if isinstance(self.protect, str) or not isinstance(self.protect, Collection):
            raise InputError(f"protect takes a list of words; got {self.protect!r}.")
        if self.grid is not None:  # another way to write the unit, which results then tell
            alone = self.features is None or (
                isinstance(self.features, str) and self.features == "patches"
            )
            if type(self.grid) is not int or self.grid < 1 or not alone:
                raise InputError(
                    "grid is a number of patches a side, from 1, and goes with features='patches'; "
                    f"got grid={short_repr(self.grid)} and features={self.features!r}."
                )
            object.__setattr__(self, "features", f"{self.grid} × {self.grid} patches")
            object.__setattr__(self, "grid", None)
        elif isinstance(self.features, str):  # "7x7 patches" is "7 × 7 patches"
            object.__setattr__(self, "features", feature_kind(self.features))
        if self.side is not None and self.side not in SIDES:
            raise InputError(unknown_name_message("side", self.side, SIDES))
        object.__setattr__(self, "protect", tuple(self.protect))
        if self.answer is not None and not isinstance(self.answer, str):
            listed = isinstance(self.answer, list | tuple)
            if not listed or not all(isinstance(one, str | None) for one in self.answer):
                raise InputError(
                    "answer must be a text, or a list with a text or None for each text; got "
                    f"{short_repr(self.answer)}."
                )
            object.__setattr__(self, "answer", tuple(self.answer))
        if not isinstance(self.at, str | Integral | None) or isinstance(self.at, bool):
            object.__setattr__(self, "at", _offsets(self.at))
        for name in ("target", "against", "window", "at"):
            given = getattr(self, name)
            if isinstance(given, Integral) and not isinstance(given, bool):
                # NumPy's whole numbers are welcome, and JSON knows Python's alone.
                object.__setattr__(self, name, int(given))

    def attach_queries(self, texts: Sequence[Any]) -> Sequence[Any]:
        """Return each text with what names its query: its answer, or its place.

        A text that brings a query along keeps it.
        """
        if self.answer is None and self.at is None and not self.first_pieces:
            return texts
        selectors = [self.at if self.answer is None else self.answer] * len(texts)
        if isinstance(self.answer, tuple):
            if len(self.answer) != len(texts):
                raise InputError(
                    "answer is one text, or a list with one for each text; got "
                    f"{len(self.answer)} for {len(texts)} text{'s' * (len(texts) != 1)}."
                )
            selectors = list(self.answer)
        return [
            QueriedText.attach(text, selector, first_subwords=self.first_pieces)
            for text, selector in zip(texts, selectors, strict=True)
        ]


def prepare_model(
    model: Any, request: Request, *, needs: Requirements = ()
) -> tuple[Model, Request]:
    """Return ``model`` as it answers ``question``, and the question with its defaults filled in.

    Every function of the package does this once, before it chooses methods and reads texts. The
    model that is returned reads texts in windows, names single tags, or is called about every mask,
    if the question needs that. The defaults are the features of the model's own kind, and the scale
    "score" for outputs that are not log-odds. ``needs`` has a row for whatever else needs a
    capability: the option or function, the capability, and what to do without it.

    Raises
    ------
    InputError
        If ``model`` is no model, or does not answer such a question.
    """
    model = check_model(model)
    kind, features = query_kind(model), request.features
    if features is None:
        features = _DEFAULT_FEATURES.get(kind, "words")
    prepared = adapt_model(
        model,
        features,
        request.scale,
        classes=(request.target, request.against),
        window=request.window,
        needs=[*(row for row in _NEEDS if getattr(request, row[0]) is not None), *needs],
    )
    scale = "score" if (request.scale, prepared.link) == ("logit", "none") else request.scale
    if scale not in (scales := model_scales(prepared)):
        raise InputError(unknown_name_message("scale", scale, scales))
    if request.protect and kind == "images":
        raise InputError(
            "protect keeps words of a text; of an image, give groups of patches as features, "
            "with -1 for those that stay."
        )
    if prepared is not model:  # most models answer as they are, and need not be loaded again
        prepared = copy_source(prepared, model)
    if scale != request.scale or features is not request.features:
        request = replace(request, scale=scale, features=features)
    return prepared, request


def model_scales(model: Model) -> tuple[str, ...]:
    """Return the scales on which ``model`` can be explained, the default first.

    Where each class has probabilities of its own, its logit is all that there is besides: the
    output of a function may be the probability.
    """
    if model.link == "none":
        return ("score",)
    return SCALES if model.link == "softmax" else SCALES[:2]


def _offsets(at: Any) -> tuple[int, int]:
    """Return (start, end) as Python's whole numbers."""
    both = isinstance(at, Sequence) and len(at) == 2
    if not both or not all(isinstance(one, Integral) for one in at):
        raise InputError(
            "at must be words of the text, (start, end) in characters, or the number of a span; "
            f"got {at!r}."
        )
    return int(at[0]), int(at[1])


class RequestField(NamedTuple):
    """A field of a question that may be asked by name: in Python, in a command, on the page."""

    name: str
    default: Any
    hint: Any
    means: str  # to somebody who types a command


FIELDS = tuple(
    RequestField(one.name, one.default, *get_args(hint))
    for one, hint in zip(
        fields(Request), get_type_hints(Request, include_extras=True).values(), strict=True
    )
    if one.name != "all_classes"  # which is a verb of its own, or an option of a command's
)


class RequestKeywords(TypedDict, total=False):
    """Keywords of a question about a text, as type checkers see them."""

    target: str | int | None
    against: str | int | None
    features: FeatureSpec | None
    grid: int | None
    scale: str
    protect: Collection[str]
    window: str | int | None
    side: str | None
    at: str | int | tuple[int, int] | None
    answer: str | Sequence[str | None] | None
    protect_span: bool
    first_pieces: bool


def split(
    keywords: Mapping[str, Any], without: Collection[str] = (), *, all_classes: bool = False
) -> tuple[Request, dict[str, Any]]:
    """Return the question in the keywords of a verb, which asks ``without`` some, and the rest."""
    asked, rest = dict[str, Any](), dict(keywords)
    for name in keywords.keys() & RequestKeywords.__annotations__.keys():
        if name in without:
            raise InputError(f"{name} has no meaning for this verb; leave {name} out.")
        asked[name] = rest.pop(name)
    return Request(all_classes=all_classes, **asked), rest


# Fields that name a query, the capability that each needs, and what to do without it.
_NEEDS: Requirements = (
    ("at", "spans", " Leave at out."),
    ("answer", "generation", " Leave answer out."),
)
_DEFAULT_FEATURES = {"images": "patches", "answers": "sentences"}
_Verb = TypeVar("_Verb", bound=Callable[..., Any])


def with_request_signature(
    without: Collection[str] = (), **beside: Any
) -> Callable[[_Verb], _Verb]:
    """Show the keywords of the question in the signature of a verb, to ``help`` and completion.

    They take the place of ``**asked``, or come before ``**settings``; so do those ``beside`` them,
    each with its type, which are None unless they are given.
    """
    shown = [(name, None, hint) for name, hint in beside.items()]
    shown += [one[:3] for one in FIELDS if one.name not in without]
    named = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        for name, default, hint in shown
    ]

    def with_keywords(verb: _Verb) -> _Verb:
        own = inspect.signature(verb)
        *given, rest = own.parameters.values()
        last = [] if rest.name == "asked" else [rest]
        verb.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*given, *named, *last]
        )
        return verb

    return with_keywords
