"""The options of an explanation: target, scale, features and so on.

A field of :class:`Request` is a keyword of the public functions, an option of the commands and a
parameter of the web page. Each field is declared here, with its help text. Public functions list it
in their signatures.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import (
    Annotated,
    Any,
    NamedTuple,
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
from limelight.text import SIDES, Conversation, QueriedText, Splitter, feature_kind
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
        """Return the probabilities of the classes for outputs."""
        probabilities = class_probabilities(f.reshape(-1, f.shape[-1]), self.link)
        return probabilities.reshape(*f.shape[:-1], -1)

    def _class_weights(self) -> Float[np.ndarray, "n classes"]:
        """Return 1 for the explained class of each input, -1 for the class that is subtracted."""
        unit = np.eye(len(self.classes))
        if self.against is None:
            return unit[self.index]
        return unit[self.index] - unit[self.against]

    def _output_weights(self, output_count: int) -> Float[np.ndarray, "n C"]:
        """Return the weight of each output in the explained number, for each input."""
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
    """Return the index of the target class for every input.

    Parameters
    ----------
    target
        The name or the index of a class, or "predicted". None means the second of two classes,
        otherwise the predicted class. A string of digits, as a command passes it, is first looked
        up among the names.
    classes
        The names of all classes.
    logits
        The outputs of the model for the inputs.

    Raises
    ------
    InputError
        If there is no such class, or if an integer is also the name of another class.
    """
    if target is None:
        target = "predicted" if len(classes) > 2 else classes[-1]
    if target == "predicted" and target not in classes:
        # A score has one class. class_probabilities would read its output as the second of two.
        return class_probabilities(logits).argmax(axis=1) * (len(classes) > 1)
    if isinstance(target, str) and target in classes:
        return np.full(len(logits), classes.index(target))
    if isinstance(target, str):
        if not re.fullmatch("-?[0-9]{1,18}", target):
            raise InputError(unknown_name_message("class", target, [*classes, "predicted"]))
        target = int(target)
    elif isinstance(target, bool) or not hasattr(target, "__index__"):
        raise InputError(f"a class must be given by its name or number, not {target!r}.")
    else:
        target = int(target)
        if (name := short_repr(target)) in classes and classes[target : target + 1] != (name,):
            raise InputError(
                f"class {name} is ambiguous, because {name} is the name of one class and the "
                "number of another. Pass the name of the class as a string."
            )
    if not 0 <= target < len(classes):
        raise InputError(
            f"the number of a class must be between 0 and {len(classes) - 1}, not "
            f"{short_repr(target)}. The classes are {', '.join(classes)}."
        )
    return np.full(len(logits), target)


@final
@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of an explanation, which do not depend on the method.

    The fields are the arguments of :func:`limelight.explain` with the same names. Each has the help
    text of its option in the commands. With ``all_classes`` every class is explained, and there is
    no target. A run stores its request, so that it continues only with the same one. This class
    checks everything that needs no model. :func:`prepare_model` and the reading of the texts check
    the rest.
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
        Any,  # a FeatureSpec. Records of runs can only store its JSON forms.
        'Parts of the input that get a score. "words" gives all occurrences of a word one score, '
        'and "positions" gives each its own. Other parts are "sentences", "paragraphs", "lines" '
        'and, for Hugging Face models, "tokens". Images have "patches" or "segments". Language '
        'models have "documents", "messages" and "steps". Default: words, patches for an image, '
        "and documents, messages or sentences for an answer.",
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
        Collection[str | int],
        "Never remove this word or phrase, and give it no score. Documents and messages: an id, a "
        "role, or a number counted from 0. Repeat for more.",
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
    first_subwords: Annotated[
        bool,
        "Models that tag words: use the tag of the first subword of each word, not the mean over "
        "its subwords.",
    ] = False

    splitter: Annotated[Splitter | None, "Splits the reasoning of a language model into steps."] = (
        None  # not an option of commands, and not stored
    )

    def __post_init__(self) -> None:
        if self.splitter is not None and self.features != "steps":
            raise InputError(
                "splitter= needs features='steps'. For other parts, pass the function as features."
            )
        for name, class_name in (("target", self.target), ("against", self.against)):
            if self.all_classes and class_name is not None:
                raise InputError(f"give {name} or all_classes, not both.")
        if isinstance(self.protect, str) or not isinstance(self.protect, Collection):
            raise InputError(f"protect must be a list of words, not {self.protect!r}.")
        for phrase in self.protect:
            if isinstance(phrase, bool) or not isinstance(phrase, str | int | np.integer):
                raise InputError(
                    "protect must contain words, or ids, roles and numbers of parts, not "
                    f"{short_repr(phrase)}."
                )
        if self.grid is not None:  # short for features="7 × 7 patches", which results show
            if type(self.grid) is not int or self.grid < 1:
                raise InputError(
                    f"grid must be a positive whole number, not {short_repr(self.grid)}."
                )
            has_patches = isinstance(self.features, str) and self.features == "patches"
            if self.features is not None and not has_patches:
                raise InputError(
                    f"grid needs features='patches', not features={self.features!r}. Leave "
                    "features out."
                )
            object.__setattr__(self, "features", f"{self.grid} × {self.grid} patches")
            object.__setattr__(self, "grid", None)
        elif isinstance(self.features, str):  # "7x7 patches" is "7 × 7 patches"
            object.__setattr__(self, "features", feature_kind(self.features))
        if self.side is not None and self.side not in SIDES:
            raise InputError(unknown_name_message("side", self.side, SIDES))
        object.__setattr__(self, "protect", tuple(self.protect))
        if self.answer is not None and not isinstance(self.answer, str):
            is_list = isinstance(self.answer, list | tuple)
            if not is_list or not all(isinstance(answer, str | None) for answer in self.answer):
                raise InputError(
                    "answer must be a text, or a list with a text or None for each text, not "
                    f"{short_repr(self.answer)}."
                )
            object.__setattr__(self, "answer", tuple(self.answer))
        if not isinstance(self.at, str | Integral | None) or isinstance(self.at, bool):
            object.__setattr__(self, "at", _parse_offsets(self.at))
        for name in ("target", "against", "window", "at"):
            value = getattr(self, name)
            if isinstance(value, Integral) and not isinstance(value, bool):
                # JSON can store Python's integers, but not NumPy's.
                object.__setattr__(self, name, int(value))

    def attach_queries(self, texts: Sequence[Any]) -> Sequence[Any]:
        """Attach the answer or the span that the request names to each text.

        A text that already has a query keeps it.
        """
        if self.features == "steps":
            texts = [self._split_reasoning(text) for text in texts]
        if self.answer is None and self.at is None and not self.first_subwords:
            return texts
        selectors = [self.at if self.answer is None else self.answer] * len(texts)
        if isinstance(self.answer, tuple):
            if len(self.answer) != len(texts):
                answers = f"{len(self.answer)} answer{'s' * (len(self.answer) != 1)}"
                raise InputError(
                    "answer must be one text, or a list with one answer for each text, not "
                    f"{answers} for {len(texts)} text{'s' * (len(texts) != 1)}."
                )
            selectors = list(self.answer)
        return [
            QueriedText.attach(text, selector, first_subwords=self.first_subwords)
            for text, selector in zip(texts, selectors, strict=True)
        ]

    def _split_reasoning(self, text: Any) -> Any:
        """Split the reasoning of a conversation from its answer."""
        if isinstance(text, QueriedText):
            return replace(text, text=self._split_reasoning(text.text))
        if not isinstance(text, Conversation):
            raise InputError(
                "features='steps' needs a list of messages that ends with the reasoning and the "
                f"answer of the assistant, not {type(text).__name__}."
            )
        return text.split_reasoning(self.answer, self.splitter)


def prepare_model(
    model: Any, request: Request, *, needs: Requirements = ()
) -> tuple[Model, Request]:
    """Adapt a model to a request, and fill in the defaults of the request.

    Every public function calls this once, before it selects methods and reads texts.

    Parameters
    ----------
    model
        A model, as the user passed it.
    request
        The options of the explanation.
    needs
        Other options or functions that need a capability of the model. Each row has the name of
        the option, the capability, and advice for a model without it.

    Returns
    -------
    The model and the request. If the request needs it, the model reads texts in windows, has an
    output for each tag, or is called for every mask. The request has features for the kind of the
    model, and the scale "score" if the outputs of the model are not log-odds.

    Raises
    ------
    InputError
        If ``model`` is not a model, or cannot be explained with these options.
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
            "protect is for words of a text. For an image, pass groups of patches as features, "
            "with -1 for patches that stay."
        )
    if prepared is not model:
        prepared = copy_source(prepared, model)
    if scale != request.scale or features is not request.features:
        request = replace(request, scale=scale, features=features)
    return prepared, request


def model_scales(model: Model) -> tuple[str, ...]:
    """Return the scales on which a model can be explained, the default first.

    A model with independent probabilities per class has no scale "score", because the output of a
    function may be the probability itself.
    """
    if model.link == "none":
        return ("score",)
    return SCALES if model.link == "softmax" else SCALES[:2]


def _parse_offsets(at: Any) -> tuple[int, int]:
    """Return (start, end) as integers of Python."""
    is_pair = isinstance(at, Sequence) and len(at) == 2
    if not is_pair or not all(isinstance(offset, Integral) for offset in at):
        raise InputError(
            "at must be words of the text, (start, end) in characters, or the number of a span, "
            f"not {at!r}."
        )
    return int(at[0]), int(at[1])


class RequestField(NamedTuple):
    """A field of a request that is a keyword, an option of commands and a parameter of the page."""

    name: str
    default: Any
    hint: Any
    help: str


REQUEST_FIELDS = tuple(
    RequestField(field.name, field.default, *get_args(hint))
    for field, hint in zip(
        fields(Request), get_type_hints(Request, include_extras=True).values(), strict=True
    )
    # explain_classes and an option of explain-data, or only in Python
    if field.name not in ("all_classes", "splitter")
)

# Fields that name a query, the capability that each needs, and what to do without it.
_NEEDS: Requirements = (
    ("at", "spans", " Leave at out."),
    ("answer", "generation", " Leave answer out."),
)
_DEFAULT_FEATURES = {"images": "patches", "answers": "auto"}
