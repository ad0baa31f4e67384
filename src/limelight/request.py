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

from limelight.errors import InputError, nearest, told
from limelight.models import (
    SCALES,
    Model,
    checked_model,
    class_probabilities,
    class_weights,
    compare_classes,
)
from limelight.models.loading import from_same_source
from limelight.models.protocol import Needs, adapt_model, query_kind
from limelight.shapes import Float, Int
from limelight.text import SIDES, QueriedText, Unit, unit_name
from limelight.theory.path_quadrature import Outer


@final
@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """One class per document, and the scale on which its output is explained.

    On the scale "logit" two classes have log-odds: with a single model output f the second class
    has the logit f and the first the logit -f; with a softmax over two, f_0 − f_1 and f_1 − f_0.
    Each of more classes has its own output, which is what "score" means for any model. ``link``
    turns several outputs into probabilities: "softmax", or the "sigmoid" of each; with "none" there
    are none, and the ``scale`` is "score". One class alone is a score that is predicted, not a
    class.

    With ``against``, another class for each document, its number is taken away: f_a − f_b, or
    p_a − p_b. Log-odds of one of two classes are held against the other already, so there only
    probabilities change.

    Where a text is asked about ``parts`` places, the outputs of all of them stand in a row, and
    those of number ``part`` are meant.
    """

    index: Int[np.ndarray, " n"]
    classes: tuple[str, ...]
    scale: str = "logit"
    link: str = "softmax"
    against: Int[np.ndarray, " n"] | None = None
    part: int = 0
    parts: int = 1

    def names(self) -> list[str]:
        """Return the class name of every document."""
        return [self.classes[i] for i in self.index]

    def names_against(self) -> list[str | None]:
        """Return the name of the class that each document's is held against, if any."""
        if self.against is None:
            return [None] * len(self.index)
        return [self.classes[i] for i in self.against]

    def only(self, i: int, count: int = 1) -> "Targets":
        """Return the targets of ``count`` documents from number ``i`` on."""
        against = None if self.against is None else self.against[i : i + count]
        return replace(self, index=self.index[i : i + count], against=against)

    def value(self, f: Float[np.ndarray, "*m n C"]) -> Float[np.ndarray, "*m n"]:
        """Return the explained number F of the model's outputs."""
        f = self.own(f)
        if self.scale != "probability":
            return (f * self._output_weights(f.shape[-1])).sum(-1)
        return (self._probabilities(f) * self._chosen()).sum(-1)

    def weights(self, f: Float[np.ndarray, "*m n C"]) -> Float[np.ndarray, "*m n C"]:
        """Return ∂F/∂f_c: what a change of each output does to the explained number."""
        if self.parts > 1:
            slopes = np.zeros(f.shape)
            self.own(slopes)[...] = replace(self, parts=1).weights(self.own(f))
            return slopes
        if self.scale != "probability":
            return np.broadcast_to(self._output_weights(f.shape[-1]), f.shape)
        p, chosen = self._probabilities(f), self._chosen()
        if f.shape[-1] > 1 and self.link in ("sigmoid", "ovr"):
            own = class_probabilities(f.reshape(-1, f.shape[-1]), "sigmoid").reshape(f.shape)
            slopes = chosen * own * (1 - own)
            if self.link == "sigmoid":
                return slopes
            # (s_c/Σs)' by the rule for quotients: what raises another class lowers this one.
            return p * (1 - own) * (chosen - (p * chosen).sum(-1, keepdims=True))
        slopes = p * (chosen - (p * chosen).sum(-1, keepdims=True))
        return slopes if f.shape[-1] > 1 else slopes[..., 1:]

    def own(self, f: Float[np.ndarray, "*m C"]) -> Float[np.ndarray, "*m c"]:
        """Return the outputs that are about the place of this target; all, where there is one."""
        size = f.shape[-1] // self.parts
        return f if self.parts == 1 else f[..., self.part * size : (self.part + 1) * size]

    def outer(self, outputs: int) -> Outer:
        """Return bounds on the derivatives of F, a function of so many outputs."""
        if self.scale == "probability":
            # Outputs with imaginary parts up to ψ make probabilities of at most 1/cos ψ in size; a
            # class held against another has two of them.
            n = 1.0 if self.against is None else 2.0
            return Outer(lambda psi: np.repeat(n * _softened(psi), outputs, axis=-1), curvature=n)
        size = np.abs(self._output_weights(outputs))
        return Outer(lambda psi: np.broadcast_to(size, (*psi.shape, outputs)), curvature=0.0)

    def _probabilities(self, f: Float[np.ndarray, "*m n C"]) -> Float[np.ndarray, "*m n classes"]:
        flat = class_probabilities(f.reshape(-1, f.shape[-1]), self.link)
        return flat.reshape(*f.shape[:-1], -1)

    def _chosen(self) -> Float[np.ndarray, "n classes"]:
        one = np.eye(len(self.classes))
        return one[self.index] if self.against is None else one[self.index] - one[self.against]

    def _output_weights(self, outputs: int) -> Float[np.ndarray, "n C"]:
        weights = class_weights(len(self.classes), outputs, self.link, self.scale)
        return compare_classes(weights, self.index, self.against)


def _softened(psi: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n 1"]:
    """|p (1 − p')| ≤ s (1 + s), s = 1/cos ψ; infinite from π/2 on."""
    inside = psi < np.pi / 2
    s = 1 / np.cos(np.where(inside, psi, 0.0))
    return np.where(inside, s * (1 + s), np.inf)[..., None]


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
            raise InputError(nearest("class", target, [*classes, "predicted"]))
        target = int(target)
    elif isinstance(target, bool) or not hasattr(target, "__index__"):
        raise InputError(f"a target must be a class, by name or number; got {target!r}.")
    else:
        target = int(target)
        if (name := told(target)) in classes and classes[target : target + 1] != (name,):
            raise InputError(
                f"there is a class called '{name}', which is not number {name}, counting from 0; "
                "give the name of the class that is meant, as a string."
            )
    if not 0 <= target < len(classes):
        raise InputError(
            f"there are {len(classes)} classes, so a target index must lie in "
            f"0..{len(classes) - 1}; got {told(target)}. The classes are: {', '.join(classes)}."
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
                    f"got grid={told(self.grid)} and features={self.features!r}."
                )
            object.__setattr__(self, "features", f"{self.grid} × {self.grid} patches")
            object.__setattr__(self, "grid", None)
        elif isinstance(self.features, str):  # "7x7 patches" is "7 × 7 patches"
            object.__setattr__(self, "features", unit_name(self.features))
        if self.side is not None and self.side not in SIDES:
            raise InputError(nearest("side", self.side, SIDES))
        object.__setattr__(self, "protect", tuple(self.protect))
        if self.answer is not None and not isinstance(self.answer, str):
            listed = isinstance(self.answer, list | tuple)
            if not listed or not all(isinstance(one, str | None) for one in self.answer):
                raise InputError(
                    "answer must be a text, or a list with a text or None for each text; got "
                    f"{told(self.answer)}."
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
            QueriedText.of(text, selector, first_pieces=self.first_pieces)
            for text, selector in zip(texts, selectors, strict=True)
        ]


def prepare_model(model: Any, request: Request, *, needs: Needs = ()) -> tuple[Model, Request]:
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
    model = checked_model(model)
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
        raise InputError(nearest("scale", scale, scales))
    if request.protect and kind == "images":
        raise InputError(
            "protect keeps words of a text; of an image, give groups of patches as features, "
            "with -1 for those that stay."
        )
    if prepared is not model:  # most models answer as they are, and need not be loaded again
        prepared = from_same_source(prepared, model)
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
    features: Unit | None
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
_NEEDS: Needs = (
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
