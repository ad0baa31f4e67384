"""The protocol of models: three methods of every classifier, and capabilities with more methods."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypeGuard,
    cast,
    runtime_checkable,
)

import numpy as np

from limelight.errors import DomainError, InputError, check_count, unknown_name_message
from limelight.sampling.sample import Game
from limelight.shapes import Array, Float, Int
from limelight.text import (
    AnswerQuery,
    Features,
    ModelInput,
    SpanQuery,
    UserInput,
)
from limelight.theory.ratio_game import RatioGame
from limelight.theory.refilling import RefillGame

if TYPE_CHECKING:
    from limelight.models.attention.collapsed import CollapsedInputs
else:
    CollapsedInputs = Any  # its module imports this one

# How outputs become probabilities: by softmax over the classes, by the sigmoid of each output, by
# these sigmoids divided by their sum, or not at all.
Link = Literal["softmax", "sigmoid", "ovr", "none"]
# The number of a class that is explained: its logit (for two classes the log-odds), its
# probability, or the unchanged output of the model.
SCALES = ("logit", "probability", "score")
# The replacement that draws random words from background texts, and averages over all draws.
REFILL = "refill"

Capability = Literal[
    "attention", "attention_only", "gradients", "lrp", "tables", "exact_game", "refilling",
    "hidden_states", "generation", "spans", "agreement",
]  # fmt: skip
# An option or function, the capability that it needs, and advice for models without it.
Requirements = Sequence[tuple[str, Capability, str]]
# The name of each capability in errors, after "needs".
CAPABILITIES: Mapping[Capability, str] = {
    "attention": "attention weights",
    "attention_only": "a model whose tokens interact only through attention",
    "gradients": "gradients",
    "lrp": "gradients with frozen weights",
    "tables": "a model with tables, such as AttentionClassifier",
    "exact_game": "a model with exact scores",
    "refilling": "an AttentionClassifier with background texts",
    "spans": "a model that finds spans",
    "generation": "a language model",
    "hidden_states": "hidden states",
    "agreement": "answers that are compared (agreement=)",
}
Property = Literal[
    "is_exclusive", "has_subwords", "max_tokens", "shuffle_weights", "reads_pairs", "reads_images",
]  # fmt: skip
# The name of each property in errors, after "needs".
PROPERTIES: Mapping[Property, str] = {
    "is_exclusive": "a model that predicts exactly one class",
    "has_subwords": "a tokenizer with subword tokens",
    "max_tokens": "a model that can read a text in windows",
    "shuffle_weights": "the weights of the model",
    "reads_pairs": "a model that reads pairs of texts",
    "reads_images": "a model that reads images",
}
# Members that a model may leave out, with their default values.
MEMBER_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(PROPERTIES),
    "limitations": {},
    "inputs_per_batch": 1,
    "parallel_batches": 1,
    "unusable_replacements": {},
    "exactness_is_checked": False,
}

# The log-odds of a probability of 0 or 1 are infinite, and so would be every mean with them.
_MIN_PROBABILITY = 1e-12  # probabilities are clipped this far from 0 and 1
MAX_LOG_ODDS = float(np.log1p(-_MIN_PROBABILITY) - np.log(_MIN_PROBABILITY))  # 27.6

# From the outputs (n, C) to the gradient (n, C) of the explained number.
OutputGradient = Callable[[Float[np.ndarray, "n C"]], Float[np.ndarray, "n C"]]
# ∂F/∂f as a function of f, or its values if F depends on more than f.
OutputGradientOrValues = OutputGradient | Float[np.ndarray, "n C"]
EmbeddedPoints = Float[np.ndarray, "n T d_e"]  # which replace an embedded text


# A protocol instead of a base class, so that other packages need not import limelight.
@runtime_checkable
class Model(Protocol):
    """The protocol of classifiers. Any object with these members can be explained.

    ``capabilities`` maps each capability to None if the model has it, and otherwise to a clause
    that gives the reason and fits after "because", such as "a function returns only outputs". A
    check of a model may remove a capability, so that two models of a class may differ. It is read
    often, so cache it. The members in ``MEMBER_DEFAULTS`` may be missing.
    """

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""

    @property
    def link(self) -> Link:
        """How outputs become probabilities: "softmax", "sigmoid", "ovr" or "none"."""

    @property
    def fingerprint(self) -> str:
        """A string that differs between models with different outputs."""

    @property
    def replacements(self) -> tuple[str, ...]:
        """The replacements of a removed word; "auto" means the first one."""

    @property
    def capabilities(self) -> Mapping[Capability, str | None]:
        """None for each capability that the model has, and a reason for every other one."""

    def read(self, text: Any, *, subwords: bool = False) -> ModelInput:
        """Split a text into words, or into the model's ``subwords``.

        If the model has the property ``reads_pairs``, it also takes a tuple of two texts. With
        ``reads_images`` it takes an image.
        """

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for inputs that it has read."""

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return the outputs for an input as a function of masks of its features."""


class Attention(NamedTuple):
    """The attention of every layer and head.

    Attributes
    ----------
    alpha
        Attention of every position to every position.
    readout_weights
        How much the classification head reads of each position.
    gradient
        ∂F/∂α of the explained number F, or NaN if it was not requested.
    """

    alpha: Float[np.ndarray, "L H T T"]
    readout_weights: Float[np.ndarray, " T"]
    gradient: Float[np.ndarray, "L H T T"]


class Gradients(NamedTuple):
    """The gradients and the outputs at ``n`` points between an embedded baseline and a text."""

    gradient: Float[np.ndarray, "n T d_e"]
    outputs: Float[np.ndarray, "n C"]


class InputProducts(NamedTuple):
    """Gradient × input of several inputs: e_t · ∇F at every position, and the outputs."""

    products: list[Float[np.ndarray, " _"]]
    outputs: Float[np.ndarray, "n C"]


class HiddenStates(NamedTuple):
    """The hidden states of several inputs, from one forward pass.

    The states are on the device of the model. On a CPU they are arrays of NumPy.

    Attributes
    ----------
    states
        For each input the states of every feature: of the embedded text, of the middle layer and
        of the last layer, side by side. If the inputs have queries, the attention of the positions
        that the head reads to the feature follows, for each layer and head.
    head_input
        The state that the classification head reads.
    outputs
        The outputs of the model.
    """

    states: list[Float[Array, "_ s"]]
    head_input: Float[Array, "n h"]
    outputs: Float[np.ndarray, "n C"]


class Capable(Model, Protocol):
    """The optional members of models: methods of capabilities, and properties.

    A model must have the methods of the capabilities that it claims (`CAPABILITY_METHODS`).
    Missing properties have the values in `MEMBER_DEFAULTS`.
    """

    @property
    def is_exclusive(self) -> bool:
        """Whether the model predicts one of its classes, instead of several labels or a number."""

    @property
    def has_subwords(self) -> bool:
        """Whether ``read(text, subwords=True)`` returns subword tokens."""

    @property
    def max_tokens(self) -> int | None:
        """The largest window of ``with_windows``, in tokens; None if the model has no windows."""

    @property
    def reads_pairs(self) -> bool:
        """Whether ``read`` takes a tuple of two texts."""

    @property
    def reads_images(self) -> bool:
        """Whether ``read`` takes images instead of texts."""

    @property
    def exactness_is_checked(self) -> bool:
        """Whether exact values are checked on each text, because they are not proven."""

    @property
    def limitations(self) -> Mapping[Property, str]:
        """A clause for each property that the model lacks, with the reason for error messages."""

    @property
    def inputs_per_batch(self) -> int:
        """The number of inputs that are computed together fastest."""

    @property
    def parallel_batches(self) -> int:
        """The number of batches to explain at the same time, more than 1 on a GPU."""

    def token_positions(self, model_input: ModelInput) -> Int[np.ndarray, " T"]:
        """Return the index of the token at every position of the input, -1 at special positions."""

    def attention(
        self, model_input: ModelInput, output_gradient: OutputGradient | None = None
    ) -> Iterator[Attention]:
        """Yield the attention on an input for each of its windows, or once without windows.

        With ``output_gradient``, which is ∂F/∂f of the explained number F, the gradient ∂F/∂α is
        computed too.
        """

    def embed(
        self, model_input: ModelInput, features: Features | None = None, replacement: str = ""
    ) -> Float[np.ndarray, "T d_e"]:
        """Return the embedded input; if ``features`` are given, their tokens are replaced."""

    def gradients(
        self,
        model_input: ModelInput,
        points: EmbeddedPoints,
        output_gradient: OutputGradientOrValues,
    ) -> Gradients:
        """Return the gradient of the explained number at points of the embedding space.

        Parameters
        ----------
        model_input
            The input whose embedding the points replace.
        points
            Embedded inputs at which the model is differentiated.
        output_gradient
            ∂F/∂f as a function of the outputs f, or its values if F depends on more than f.
        """

    def frozen_gradient(
        self,
        model_input: ModelInput,
        points: EmbeddedPoints,
        output_gradient: OutputGradientOrValues,
    ) -> Gradients:
        """Return the same as ``gradients`` for the model with frozen weights.

        Attention weights, the deviations of norms, the quotients act(x)/x of activations, and
        activated gates become constants, with their values at each point. The frozen model is
        affine in the embedded input. Its outputs at ``points`` must be those of the model.
        """

    def frozen_input_products(
        self, inputs: Sequence[ModelInput], weights: Float[np.ndarray, "n C"]
    ) -> InputProducts:
        """Return the gradient of the model with frozen weights times the embedded inputs.

        ``weights`` are ∂F/∂f, one row for each input. The inputs are differentiated together if
        that is faster on the device.
        """

    def compute_tables(
        self, inputs: Sequence[ModelInput], features: Sequence[Features]
    ) -> CollapsedInputs:
        """Return the arrays that exact methods need for these inputs."""

    def exact_games(
        self, inputs: Sequence[ModelInput], features: Sequence[Features]
    ) -> RatioGame | str:
        """Return the exact games of all inputs, with one class for each output.

        If the effect of these features is not known exactly, return a clause with the reason.
        """

    def refill_game(
        self,
        model_input: ModelInput,
        features: Features,
        weights: Float[np.ndarray, "targets C"],
    ) -> RefillGame:
        """Return the exact game of an input for the replacement "refill".

        ``weights`` are those of the outputs in each explained number.
        """

    def drop_inexact_games(self, features: Any, scale: str) -> Model:
        """Return the model, without its exact games if they are inexact for features or scale."""

    @property
    def unusable_replacements(self) -> Mapping[str, str]:
        """Replacements that failed the check of the model, with the reasons."""

    def with_windows(self, window: str | int) -> Model:
        """Return the model for long texts, which it reads in windows of ``window`` tokens."""

    def shuffle_weights(self, seed: int) -> Model:
        """Return the model with the numbers of every weight in random order.

        The shuffled model reads texts in the same way, and its weights have the same sizes, but
        nothing that it learned is left.
        """

    def read_batch(
        self, texts: Sequence[UserInput], *, subwords: bool = False
    ) -> Iterator[ModelInput]:
        """Yield each text as ``read`` returns it, but faster than by reading them one by one."""

    def hidden_states(
        self, inputs: Sequence[ModelInput], features: Sequence[Features]
    ) -> HiddenStates:
        """Return the hidden states of all features of the inputs, and the outputs."""

    def spans(self, text: Any, *, first_subwords: bool = False) -> tuple[SpanQuery, ...]:
        """Return the spans that the model finds in a text, in their order, each with its tag."""

    def with_classes(self, names: Collection[Any]) -> Model:
        """Return the model with classes that contain these names, if possible."""

    @property
    def generation_settings(self) -> Mapping[str, Any]:
        """The settings with which the model generates answers; a run only resumes with the same."""

    def announce_calls(self, calls: int) -> None:
        """Report the cost of this number of model calls, if they cost money."""

    def generate(self, text: Any) -> AnswerQuery:
        """Return the answer that the model generates for a text, the likeliest token each time."""

    def read(
        self, text: Any, *, queries: tuple[Any, ...] = (), subwords: bool = False
    ) -> ModelInput:
        """Split a text into words or ``subwords``, and attach queries.

        The queries are spans of the text, or parts of one answer.

        For S spans the outputs are (n, S · C). A model that generates answers has one class,
        "answer", and the link "none". For S parts of an answer its outputs are (n, S).
        """


if not TYPE_CHECKING:
    # A model has only the members of its capabilities, so no type check may require all of them.
    Capable = Model

_GRADIENTS = ("token_positions", "embed", "gradients")
# The methods of each capability. With "spans" and "generation", `read` also takes queries.
CAPABILITY_METHODS: Mapping[str, tuple[str, ...]] = {
    "attention": ("token_positions", "attention"),
    "attention_only": ("token_positions", "attention"),
    "gradients": _GRADIENTS,
    "lrp": (*_GRADIENTS, "frozen_gradient", "frozen_input_products", "inputs_per_batch"),
    "tables": ("compute_tables", "inputs_per_batch"),
    "exact_game": ("exact_games", "drop_inexact_games", "inputs_per_batch"),
    "refilling": ("refill_game",),
    "spans": ("spans", "with_classes"),
    "generation": ("generation_settings", "announce_calls", "generate"),
    "hidden_states": ("read_batch", "hidden_states", "inputs_per_batch"),
}


def check_generation_options(max_new_tokens: Any, per_token: Any) -> None:
    """Raise an error if an option of generated answers is not valid."""
    check_count("max_new_tokens", max_new_tokens)
    if not isinstance(per_token, bool):
        raise InputError(f"per_token must be True or False, not {per_token!r}.")


NO_SPAN_ERROR = (
    "a model that finds spans has outputs for a span, not for a text. Get its spans from "
    "limelight.predict, or explain with at (--at)."
)

EMPTY_ANSWER_ERROR = (
    "the model writes nothing after this text, so there is no answer to explain. Give answer='…' "
    "(--answer)."
)

TOKENIZATION_WARNING = (
    "The model wrote its answer in other tokens than the tokenizer reads. The log-probability "
    "belongs to the tokens of the tokenizer."
)


def truncation_warning(tokens: int, option: str) -> str:
    """Return the warning that an answer was truncated, with the ``option`` for longer answers."""
    count = f"{tokens} token{'s' * (tokens > 1)}"
    return f"The answer was cut after {count}. Use {option} to let the model write more."


def answer_warnings(queries: Sequence[AnswerQuery]) -> tuple[str, ...]:
    """Return the distinct warnings about an answer.

    Raises
    ------
    InputError
        If the queries are not parts of one answer.
    """
    if any(query.text != queries[0].text for query in queries):
        raise InputError("spans that are explained together must be parts of one answer.")
    return tuple(dict.fromkeys(query.note for query in queries if query.note))


def attaches_to_prompt(answer: str) -> bool:
    """Tell whether an answer follows a prompt without an additional space."""
    return answer[:1].isspace() or answer[:1] in ".,;:!?)]}…%”’"


def part_token_indices(part: AnswerQuery, letters: Sequence[int]) -> list[int]:
    """Return the indices of the tokens of an answer whose first letter is in a part of it.

    Raises
    ------
    InputError
        If there is no such token.
    """
    indices = [i for i, letter in enumerate(letters) if part.start <= letter < part.end]
    if not indices:
        raise InputError(
            f"no token of the answer begins at {part.start}:{part.end}. Choose a part that begins "
            "with a token."
        )
    return indices


def has(model: Model, capability: Capability) -> TypeGuard[Capable]:
    """Tell whether ``model`` has ``capability``."""
    # A family may be older than a capability, and then does not list it.
    return model.capabilities.get(capability, "") is None


def gives_random_answers(model: Model) -> bool:
    """Return whether equal texts may get different outputs, which are then not stored."""
    return has(model, "agreement")


def has_exact_game(model: Model, scale: str, replacement: str) -> bool:
    """Tell whether the explained output of ``model`` is a ratio game under ``replacement``.

    Exact games use the first replacement of a model. Probabilities are not ratio games. Otherwise
    the model is called.
    """
    is_first = replacement == model.replacements[0]
    return is_first and scale != "probability" and has(model, "exact_game")


def get_property(model: Model, name: str) -> Any:
    """Return a property of ``model``, or its default if the model does not have that member."""
    try:
        return getattr(model, name)
    except AttributeError:
        if hasattr(type(model), name):  # the error comes from the code of the member
            raise
        return MEMBER_DEFAULTS[name]


def reason_missing(model: Model, name: Capability | Property) -> str | None:
    """Return the reason why ``model`` lacks a capability or property, or None if it has it."""
    reasons: Mapping[Any, str | None] = model.capabilities
    if name in PROPERTIES:
        if get_property(model, name):
            return None
        reasons = get_property(model, "limitations")
    return reasons.get(name, f"{type(model).__name__} does not support this")


def require(model: Model, name: Capability | Property, use: str, advice: str = "") -> Capable:
    """Return ``model`` if it has a capability or property.

    Parameters
    ----------
    model
        Any model.
    name
        A capability or property.
    use
        The option or function that needs it, for the error message.
    advice
        End of the error message.

    Returns
    -------
    The model, typed as one that may have every capability.

    Raises
    ------
    InputError
        If the model lacks the capability or property.
    """
    if (reason := reason_missing(model, name)) is not None:
        descriptions: Mapping[Any, str] = PROPERTIES if name in PROPERTIES else CAPABILITIES
        raise InputError(f"{use} needs {descriptions[name]}, but {reason}.{advice}")
    return cast(Capable, model)


def query_kind(model: Model) -> str:
    """Return the kind of queries to ``model``: "texts", "images", "places" or "answers"."""
    capabilities = model.capabilities  # read once, because every explanation calls this often
    if getattr(model, "reads_images", MEMBER_DEFAULTS["reads_images"]):
        return "images"
    if capabilities.get("spans", "") is None:
        return "places"
    return "answers" if capabilities.get("generation", "") is None else "texts"


def announce_calls(model: Model, count_calls: Callable[[], int]) -> None:
    """Announce the number of calls to a language model, and do nothing for other models.

    ``count_calls`` returns the number of calls. If it is 0, nothing is announced.
    """
    capabilities = model.capabilities  # read once, because every explanation calls this
    if capabilities.get("generation", "") is None and (calls := count_calls()):
        cast(Capable, model).announce_calls(calls)


def generation_settings(model: Model) -> dict[str, Any] | None:
    """Return the settings with which ``model`` generates answers, or None if it generates none."""
    return dict(model.generation_settings) if has(model, "generation") else None


def describe_pooling(model: Model, unit: str) -> str:
    """Describe how scores of tokens or subword tokens become the score of a feature.

    ``unit`` is the name of the features, such as "words".
    """
    if get_property(model, "has_subwords"):
        if unit == "tokens":
            return "sum over pieces of one character"
        return "sum over pieces and occurrences" if unit == "words" else "sum over pieces"
    capabilities = model.capabilities
    token_scores: tuple[Capability, ...] = ("tables", "attention", "gradients")
    if unit == "positions" or all(capabilities.get(name, "") is not None for name in token_scores):
        return "none"
    return "sum over occurrences" if unit == "words" else "sum over tokens"


def choose_batch_size(model: Model, *, is_batched: bool) -> int:
    """Return the number of inputs to compute at a time, which is 1 if each needs many calls.

    ``is_batched`` means that the methods compute several inputs in one forward pass.
    """
    capabilities = model.capabilities  # read once, because every explanation calls this
    if None in (capabilities.get("exact_game", ""), capabilities.get("tables", "")):
        return cast(Capable, model).inputs_per_batch
    size: int = get_property(model, "inputs_per_batch") if is_batched else 1
    return size


def count_parallel_batches(model: Model) -> int:
    """Return the number of batches to explain at the same time."""
    count: int = get_property(model, "parallel_batches")
    return count


def adapt_model(
    model: Model,
    features: Any,
    scale: str,
    *,
    classes: Collection[Any] = (),
    window: str | int | None = None,
    needs: Requirements = (),
) -> Model:
    """Return the variant of a model for one request, which is mostly the model itself.

    Parameters
    ----------
    model
        Any model.
    features
        The features of the request. For some of them a model has no exact games.
    scale
        The explained number of a class: "logit", "probability" or "score".
    classes
        Classes in the request. A tagger may have more classes than it shows.
    window
        Number of tokens of the windows in which texts are read, or "auto". None means no windows.
    needs
        Options and functions that need a capability, the capability, and advice for other models.

    Returns
    -------
    The model, or a variant of the model that shares the weights.

    Raises
    ------
    InputError
        If the model does not read texts in windows, or lacks a capability that is needed.
    """
    capabilities = model.capabilities  # read once, because every explanation calls this
    if capabilities.get("spans", "") is None:
        model = cast(Capable, model).with_classes(classes)
    if capabilities.get("exact_game", "") is None:
        model = cast(Capable, model).drop_inexact_games(features, scale)
    if window is not None:
        reader = require(model, "max_tokens", "window", " Leave window out.")
        model = reader.with_windows(window)
    for use, capability, advice in needs:
        require(model, capability, use, advice)
    return model


def log_odds(probabilities: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n C"]:
    """Return log p − log(1 − p), with p clipped to 1e-12 and 1 − 1e-12."""
    # log1p: 1 − p of a small p has lost the digits of p. The result is clipped because 1 − 1e-12
    # is not a float: its rounding would make the two ends differ.
    clipped = np.clip(probabilities, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    return np.clip(np.log(clipped) - np.log1p(-clipped), -MAX_LOG_ODDS, MAX_LOG_ODDS)


def class_probabilities(
    outputs: Float[np.ndarray, "n C"], link: str = "softmax"
) -> Float[np.ndarray, "n classes"]:
    """Return the probabilities of the classes for each row of outputs.

    Parameters
    ----------
    outputs
        Outputs of a model. A single output is the log-odds of the second of two classes.
    link
        "softmax" for classes that exclude each other, and "sigmoid" for independent labels. "ovr"
        divides the sigmoids by their sum, as scikit-learn does with one classifier per class.

    Raises
    ------
    InputError
        If the link is "none": the outputs are scores without probabilities.
    """
    # The softmax of a margin would look like a probability, but is none.
    if link == "none":
        raise InputError(
            "the outputs of this model are scores, not log-odds, so it has no probabilities. "
            "Leave scale out to explain the score."
        )
    if link == "sigmoid" and outputs.shape[1] > 1:
        # 1/(1 + e^−f) overflows at f = −710, and the hyperbolic tangent never does.
        return 0.5 * (1 + np.tanh(outputs / 2))
    if link == "ovr" and outputs.shape[1] > 1:
        # s_c/Σs is the softmax of log s, and the logarithms do not underflow.
        outputs = -np.logaddexp(0, -outputs)
    if outputs.shape[1] == 1:
        outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=1)
    # Subtracting the largest output does not change a softmax, and no exponential overflows.
    weight = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


@lru_cache(maxsize=64)
def class_weights(
    classes: int, outputs: int, link: str = "softmax", scale: str = "logit"
) -> Float[np.ndarray, "classes outputs"]:
    """Return the weights of the outputs in the logit, or the score, of every class.

    A single output is the log-odds of the second of two classes. With a softmax over two outputs,
    the logit of a class is its output minus that of the other class. This is the log-odds of its
    probability, which does not change if a constant is added to both outputs. Otherwise the logit
    of a class is its output.

    Parameters
    ----------
    classes
        Number of classes.
    outputs
        Number of outputs, 1 or ``classes``.
    link
        How outputs become probabilities.
    scale
        "logit", or "score" for the unchanged output of each class.

    Returns
    -------
    A read-only array, because later calls return the same one.
    """
    if (classes, outputs) == (2, 1):
        weights = np.array([[-1.0], [1.0]])
    elif (classes, outputs, link, scale) == (2, 2, "softmax", "logit"):
        weights = np.array([[1.0, -1.0], [-1.0, 1.0]])
    else:
        weights = np.eye(classes)
    weights.setflags(write=False)
    return weights


def are_opposite(weights: Float[np.ndarray, "classes outputs"]) -> bool:
    """Tell whether the numbers of two classes are opposite, as log-odds are."""
    return len(weights) > 1 and not weights.sum(axis=0).any()


def target_output_weights(
    weights: Float[np.ndarray, "classes outputs"],
    index: Int[np.ndarray, " n"],
    against: Int[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, "n outputs"]:
    """Return the rows of :func:`class_weights` for ``index``, minus those for ``against``.

    For opposite classes nothing is subtracted, because log-odds are a difference already.
    """
    if against is None or are_opposite(weights):
        return weights[index]
    return weights[index] - weights[against]


def resolve_replacement(model: Model, name: str) -> str:
    """Return the replacement with this name, or the default of ``model`` for "auto".

    Raises
    ------
    InputError
        If the model does not have this replacement.
    """
    if name == "auto":
        return model.replacements[0]
    if name not in model.replacements:
        # The name is not misspelled if the check of the model removed this replacement.
        if (reason := get_property(model, "unusable_replacements").get(name)) is not None:
            *first, last = map(repr, model.replacements)
            names = " or ".join(filter(None, (", ".join(first), last)))
            raise InputError(
                f"replacement {name!r} cannot be used, because {reason}. Use {names} instead."
            )
        raise InputError(unknown_name_message("replacement", name, ["auto", *model.replacements]))
    return name


def token_replacement(model: Model, name: str) -> str:
    """Return the replacement with this name, for methods that need a single text for each mask.

    Raises
    ------
    InputError
        If the model does not have this replacement, or if it averages over random words.
    """
    if (replacement := resolve_replacement(model, name)) == REFILL:
        raise InputError(
            f"replacement {REFILL!r} gives mean outputs over random words, but this needs one text "
            f"per mask. Use {model.replacements[0]!r}, or the method 'shapley', 'lime' or "
            "'banzhaf'."
        )
    return replacement


def position_preserving_replacement(model: Model, name: str) -> str:
    """Return a replacement that does not move other words: "auto" never deletes.

    Raises
    ------
    DomainError
        If the model has no such replacement.
    """
    if name != "auto":
        return token_replacement(model, name)
    # After a deletion, the next word has the position of the deleted word. A point between the
    # baseline and the text would mix the embeddings of two different words.
    replacements = [replacement for replacement in model.replacements if replacement != "delete"]
    if not replacements:
        raise DomainError(
            "integrated gradients start from a mask, unknown or padding token, but this model "
            "has none of them. Use 'lime' or 'shapley'."
        )
    return replacements[0]


_MEMBERS = tuple(name for name in vars(Model) if not name.startswith("_"))


def check_model(model: Any) -> Model:
    """Return ``model`` if it follows the protocol.

    Raises
    ------
    InputError
        If a member is missing, or if a capability lacks its methods.
    """
    # The members are not computed, because a fingerprint reads every weight.
    family, attributes = type(model), getattr(model, "__dict__", {})
    missing = [name for name in _MEMBERS if not hasattr(family, name) and name not in attributes]
    # Other objects may have one such member: a file has `read`, a network may have `outputs`.
    if len(_MEMBERS) - len(missing) < 2:
        raise InputError(
            "a model must come from limelight.load or limelight.wrap, not be a "
            f"{type(model).__name__}. Write limelight.wrap(…)."
        )
    if missing:
        raise InputError(
            f"{type(model).__name__} is not a model yet, because it lacks {', '.join(missing)}."
        )
    for name in model.capabilities:
        if name not in CAPABILITIES:
            raise InputError(unknown_name_message("capability", name, CAPABILITIES))
        missing = [
            method
            for method in CAPABILITY_METHODS.get(name, ())
            if not hasattr(family, method) and method not in attributes
        ]
        # Read last, because the reason may need calls of a network.
        if missing and model.capabilities[name] is None:
            raise InputError(
                f"{family.__name__} claims the capability {name!r}, but lacks {', '.join(missing)}."
            )
    if hasattr(family, "max_tokens") and not hasattr(family, "with_windows"):
        raise InputError(f"{family.__name__} has max_tokens, but lacks with_windows.")
    # "auto" means the first of them.
    if not model.replacements:
        raise InputError("a model needs at least one replacement, such as 'delete'.")
    # A target is given by its name, which must belong to one class.
    if len(set(model.classes)) != len(model.classes):
        raise InputError(f"class names must be different, not {list(model.classes)}.")
    checked_model: Model = model
    return checked_model
