"""What a model is: three methods for every classifier, and capabilities that bring more methods."""

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
from limelight.shapes import Float, Int
from limelight.text import (
    AnswerQuery,
    Features,
    ModelInput,
    SpanQuery,
    UserInput,
)
from limelight.theory.ratio_game import RatioGame

if TYPE_CHECKING:
    from limelight.models.attention.collapsed import CollapsedInputs
else:
    CollapsedInputs = Any  # which is made by a model of this protocol

# How outputs become probabilities: softmax over the classes, sigmoid of each, sigmoids of one class
# against the rest divided by their sum, or not at all.
Link = Literal["softmax", "sigmoid", "ovr", "none"]
# What can be explained of a class: its logit, which of two classes is the log-odds of one against
# the other, its probability, or the output of the model for it, as it is.
SCALES = ("logit", "probability", "score")

Capability = Literal[
    "attention", "attention_only", "gradients", "lrp", "tables", "exact_game", "hidden_states",
    "generation", "spans",
]  # fmt: skip
# Rows of an option or function, the capability that it needs, and what to do without it.
Requirements = Sequence[tuple[str, Capability, str]]
# What each capability is called in an error: "needs …".
CAPABILITIES: Mapping[Capability, str] = {
    "attention": "the attention weights of the model",
    "attention_only": "attention weights that are all that mixes the tokens of the model",
    "gradients": "the gradients of the model",
    "lrp": "the gradients of the model with its weights frozen",
    "tables": "a model that collapses into tables, as the paper's classifier does",
    "exact_game": "a model that is a quotient of sums over its words",
    "spans": "a model that finds spans in a text",
    "generation": "a language model that writes an answer to a text",
    "hidden_states": "what the model holds of every word, layer by layer",
}
Property = Literal[
    "is_exclusive", "has_subwords", "max_tokens", "shuffle_weights", "reads_pairs", "reads_images",
]  # fmt: skip
# What a model with each property is called in an error: "needs …".
PROPERTIES: Mapping[Property, str] = {
    "is_exclusive": "a model that predicts one of its classes",
    "has_subwords": "a tokenizer that cuts words into pieces",
    "max_tokens": "a model that reads so many tokens and no more",
    "shuffle_weights": "the weights of the model, to shuffle them",
    "reads_pairs": "a model that reads two texts together",
    "reads_images": "a model that reads images",
}
# Members that a model may leave out, with the values that they have then.
MEMBER_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(PROPERTIES),
    "limitations": {},
    "inputs_per_batch": 1,
    "unusable_replacements": {},
    "exactness_is_checked": False,
}

# From the outputs (n, C) to the gradient (n, C) of the explained number.
OutputGradient = Callable[[Float[np.ndarray, "n C"]], Float[np.ndarray, "n C"]]
# ∂F/∂f as such a function, or its values where F depends on more than f.
OutputGradientOrValues = OutputGradient | Float[np.ndarray, "n C"]
EmbeddedPoints = Float[np.ndarray, "n T d_e"]  # in the place of an embedded text


# A protocol and no base class: a family of somebody else's imports nothing of ours.
@runtime_checkable
class Model(Protocol):
    """Any classifier of texts.

    ``replacements`` names what may stand for a removed word; the first is what "auto" means.
    ``capabilities`` maps what a model may have to None where this one has it, else to a clause
    that says why not ("a function of texts shows only its answers"). It belongs to the instance,
    so a check of one model may withdraw a capability from it alone. It is read often, so a family
    computes it once. The members in ``DEFAULTS`` may be missing.
    """

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""

    @property
    def link(self) -> Link:
        """How outputs become probabilities."""

    @property
    def fingerprint(self) -> str:
        """What tells this model from another."""

    @property
    def replacements(self) -> tuple[str, ...]:
        """What may stand for a removed word."""

    @property
    def capabilities(self) -> Mapping[Capability, str | None]:
        """What this model can show, or why it cannot."""

    def read(self, text: Any, *, subwords: bool = False) -> ModelInput:
        """Return a text cut into words, or into the model's ``subwords``.

        With ``reads_pairs`` it may be a tuple of two texts, with ``reads_images`` it is an image.
        """

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for texts that it has read."""

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return the outputs as a function of which features stay."""


class Attention(NamedTuple):
    """Attention of every layer and head; ``readout_weights`` weighs the positions the classifier reads.

    ``gradient`` with respect to the attention is NaN where nobody asked for it.
    """

    alpha: Float[np.ndarray, "L H T T"]
    readout_weights: Float[np.ndarray, " T"]
    gradient: Float[np.ndarray, "L H T T"]


class Gradients(NamedTuple):
    """The gradient at the embedded input, for ``n`` points on the way from the base to the text."""

    gradient: Float[np.ndarray, "n T d_e"]
    outputs: Float[np.ndarray, "n C"]


class InputProducts(NamedTuple):
    """Gradient × input of several documents: e_t · ∇F at every position, and the outputs."""

    products: list[Float[np.ndarray, " _"]]
    outputs: Float[np.ndarray, "n C"]


class HiddenStates(NamedTuple):
    """What one pass of a model holds of texts: states of every feature, and what the head reads.

    ``states`` are those of the embedded text, the middle layer and the last one, each as wide as
    ``head_input``, side by side; where something is asked of the texts, then what the places that
    say it attend to, head by head.
    """

    states: list[Float[np.ndarray, "_ s"]]
    head_input: Float[np.ndarray, "n h"]
    outputs: Float[np.ndarray, "n C"]


class Capable(Model, Protocol):
    """What capabilities bring, and the members that any model may leave out (`DEFAULTS`).

    A model has the methods of the capabilities that it claims (`CAPABILITY_METHODS`).
    """

    @property
    def is_exclusive(self) -> bool:
        """Whether the model predicts one of its classes, and not several labels or a number."""

    @property
    def has_subwords(self) -> bool:
        """Whether ``read(text, subwords=True)`` returns subword tokens."""

    @property
    def max_tokens(self) -> int | None:
        """How many tokens ``with_windows`` takes at most; None where it cannot be called."""

    @property
    def reads_pairs(self) -> bool:
        """Whether ``read`` takes a tuple of two texts."""

    @property
    def reads_images(self) -> bool:
        """Whether ``read`` takes images, and no texts."""

    @property
    def exactness_is_checked(self) -> bool:
        """Whether what is exact of the model is checked on each text, and not proven."""

    @property
    def limitations(self) -> Mapping[Property, str]:
        """Why the model lacks a property: a clause for the errors that say so."""

    @property
    def inputs_per_batch(self) -> int:
        """How many documents are worth computing at a time; 1 where more gain nothing."""

    def token_positions(self, model_input: ModelInput) -> Int[np.ndarray, " T"]:
        """Return the token at every position of the model's input, -1 at special ones."""

    def attention(
        self, model_input: ModelInput, output_gradient: OutputGradient | None = None
    ) -> Iterator[Attention]:
        """Yield the attention on ``document``, window by window where it was read in several.

        With ``output_gradient``, which is ∂F/∂f of the explained number F, also ∂F/∂α.
        """

    def embed(
        self, model_input: ModelInput, features: Features | None = None, replacement: str = ""
    ) -> Float[np.ndarray, "T d_e"]:
        """Return the embedded input, the tokens of ``features`` replaced where they are given."""

    def gradients(
        self,
        model_input: ModelInput,
        points: EmbeddedPoints,
        output_gradient: OutputGradientOrValues,
    ) -> Gradients:
        """Return the gradient of the explained number at embedded ``points``."""

    def frozen_gradient(
        self,
        model_input: ModelInput,
        points: EmbeddedPoints,
        output_gradient: OutputGradientOrValues,
    ) -> Gradients:
        """Return what ``gradients`` does, of the network whose weights are frozen.

        Attention weights, the deviations of norms, the quotients act(x)/x of activations and
        activated gates are constants there, at their values for each point, so that it is affine
        in the embedded input. Its outputs at ``points`` must be those of the model.
        """

    def frozen_input_products(
        self, inputs: Sequence[ModelInput], weights: Float[np.ndarray, "n C"]
    ) -> InputProducts:
        """Return the same gradient at the texts themselves, times their embedded input.

        ``weights`` are ∂F/∂f, one row for each document. Many documents are differentiated
        together where the device gains by it.
        """

    def compute_tables(
        self, inputs: Sequence[ModelInput], features: Sequence[Features]
    ) -> CollapsedInputs:
        """Return documents as the arrays that exact methods need."""

    def exact_games(
        self, inputs: Sequence[ModelInput], features: Sequence[Features]
    ) -> RatioGame | str:
        """Return the games of all documents, one class for each output of the model.

        If the model does not know exactly what these features do, return a clause that says why.
        """

    def for_request(self, features: Any, scale: str) -> Model:
        """Return the same model, or one without games where they do not answer such a question."""

    @property
    def unusable_replacements(self) -> Mapping[str, str]:
        """Replacements of its kind that did not work when it was tried out, and why not."""

    def with_windows(self, window: str | int) -> Model:
        """Return the same model for whole texts, which it reads in windows of that many tokens."""

    def shuffle_weights(self, seed: int) -> Model:
        """Return the same model with the numbers of every weight in random places.

        It reads as before and has learned nothing; the sizes of its weights are what they were.
        """

    def read_batch(
        self, texts: Sequence[UserInput], *, subwords: bool = False
    ) -> Iterator[ModelInput]:
        """Yield what ``read`` returns of each text, sooner than by reading them one by one."""

    def hidden_states(
        self, inputs: Sequence[ModelInput], features: Sequence[Features]
    ) -> HiddenStates:
        """Return the states of all features of the documents, and the outputs, in one pass."""

    def spans(self, text: Any, *, first_subwords: bool = False) -> tuple[SpanQuery, ...]:
        """Return the spans that the model finds, in the order of the text, each with its tag."""

    def with_classes(self, names: Collection[Any]) -> Model:
        """Return the same model with classes among which these are, if it has such."""

    @property
    def generation_settings(self) -> Mapping[str, Any]:
        """How it writes what is not given to it, by name: a run goes on only with the same."""

    def announce_calls(self, calls: int) -> None:
        """Hear how often it is about to be asked; one whose calls cost money says what they do."""

    def generate(self, text: Any) -> AnswerQuery:
        """Return what the model writes after a text, the likeliest token each time."""

    def read(
        self, text: Any, *, queries: tuple[Any, ...] = (), subwords: bool = False
    ) -> ModelInput:
        """Return a text that is asked about places, or parts of one answer.

        Of S places the outputs are (n, S · C). A model of answers has one class, "answer", and the
        link "none": of S parts the outputs are (n, S).
        """


if not TYPE_CHECKING:
    # A model has only the members of its own capabilities, so nobody may check for all of them.
    Capable = Model

_GRADIENTS = ("token_positions", "embed", "gradients")
# The methods that each capability brings; with "spans" and "generation" `read` takes more too.
CAPABILITY_METHODS: Mapping[str, tuple[str, ...]] = {
    "attention": ("token_positions", "attention"),
    "attention_only": ("token_positions", "attention"),
    "gradients": _GRADIENTS,
    "lrp": (*_GRADIENTS, "frozen_gradient", "frozen_input_products", "inputs_per_batch"),
    "tables": ("compute_tables", "inputs_per_batch"),
    "exact_game": ("exact_games", "for_request", "inputs_per_batch"),
    "spans": ("spans", "with_classes"),
    "generation": ("generation_settings", "announce_calls", "generate"),
    "hidden_states": ("read_batch", "hidden_states", "inputs_per_batch"),
}


def check_generation_options(max_new_tokens: Any, per_token: Any) -> None:
    """Refuse what does not say how long an answer may be, or whether a mean is explained."""
    check_count("max_new_tokens", max_new_tokens)
    if not isinstance(per_token, bool):
        raise InputError(f"per_token must be True or False; got {per_token!r}.")


NO_SPAN_ERROR = (
    "a model that finds spans has outputs at a place, not of a text; ask limelight.predict for "
    "its spans, or explain with at (--at)."
)

EMPTY_ANSWER_ERROR = (
    "the model writes nothing after this text, so there is no answer to explain; give one: "
    "answer='…' (--answer)."
)

TOKENIZATION_WARNING = (
    "The model wrote its answer in other tokens than those in which the tokenizer reads it; the "
    "log-probability is that of the latter."
)


def truncation_warning(tokens: int, option: str) -> str:
    """Say that a model would have written more, and what lets it."""
    some = f"{tokens} token{'s' * (tokens > 1)}"
    return f"The answer was cut after {some}; {option} lets the model write more."


def answer_warnings(asked: Sequence[AnswerQuery]) -> tuple[str, ...]:
    """Return what must be said about an answer, which all of ``asked`` must be parts of."""
    if any(one.text != asked[0].text for one in asked):
        raise InputError("what is asked about together must be parts of one answer.")
    return tuple(dict.fromkeys(one.note for one in asked if one.note))


def attaches_to_prompt(answer: str) -> bool:
    """Whether no space belongs between a prompt and this answer: it has one, or closes a word."""
    return answer[:1].isspace() or answer[:1] in ".,;:!?)]}…%”’"


def part_token_indices(part: AnswerQuery, letters: Sequence[int]) -> list[int]:
    """Return which tokens of an answer a part of it has: those whose first letter is in it."""
    own = [i for i, letter in enumerate(letters) if part.start <= letter < part.end]
    if not own:
        raise InputError(
            f"no token of the answer begins at {part.start}:{part.end}; ask about a part of it "
            "that the tokenizer reads by itself."
        )
    return own


def has(model: Model, capability: Capability) -> TypeGuard[Capable]:
    """Tell whether ``model`` has ``capability``."""
    # A family may be older than a capability, and then does not list it.
    return model.capabilities.get(capability, "") is None


def has_exact_game(model: Model, scale: str, replacement: str) -> bool:
    """Tell whether the explained output of ``model`` is a ratio game under ``replacement``.

    Probabilities are functions of such games. For them the model is called, as for replacements
    other than its first, which the games use.
    """
    own = replacement == model.replacements[0]
    return own and scale != "probability" and has(model, "exact_game")


def get_property(model: Model, name: str) -> Any:
    """Return a property of ``model``, or its default if the model does not have that member."""
    try:
        return getattr(model, name)
    except AttributeError:
        if hasattr(type(model), name):  # it has the member, whose code fails
            raise
        return MEMBER_DEFAULTS[name]


def reason_missing(model: Model, name: Capability | Property) -> str | None:
    """Return a clause that says why ``model`` lacks a capability or property, or None."""
    reasons: Mapping[Any, str | None] = model.capabilities
    if name in PROPERTIES:
        if get_property(model, name):
            return None
        reasons = get_property(model, "limitations")
    return reasons.get(name, f"{type(model).__name__} does not offer that")


def require(model: Model, name: Capability | Property, use: str, advice: str = "") -> Capable:
    """Return ``model`` if it has the capability or property that ``use`` needs.

    Otherwise raise an `InputError` that says why it has not, followed by ``advice``.
    """
    if (why := reason_missing(model, name)) is not None:
        descriptions: Mapping[Any, str] = PROPERTIES if name in PROPERTIES else CAPABILITIES
        raise InputError(f"{use} needs {descriptions[name]}, and {why}.{advice}")
    return cast(Capable, model)


def query_kind(model: Model) -> str:
    """Return what queries to ``model`` are about: "texts", "images", "places" or "answers"."""
    known = model.capabilities  # looked up, for every explanation comes here several times
    if getattr(model, "reads_images", MEMBER_DEFAULTS["reads_images"]):
        return "images"
    if known.get("spans", "") is None:
        return "places"
    return "answers" if known.get("generation", "") is None else "texts"


def announce_calls(model: Model, count_calls: Callable[[], int]) -> None:
    """Tell a language model how often it is about to be called; other models are not told.

    ``count_calls`` returns the number of calls. If it is 0, nothing is announced.
    """
    capabilities = model.capabilities  # looked up, for every explanation comes here
    if capabilities.get("generation", "") is None and (calls := count_calls()):
        cast(Capable, model).announce_calls(calls)


def generation_settings(model: Model) -> dict[str, Any] | None:
    """Return how ``model`` generates answers, by name; None if it generates none."""
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
    inside: tuple[Capability, ...] = ("tables", "attention", "gradients")
    if unit == "positions" or all(capabilities.get(name, "") is not None for name in inside):
        return "none"
    return "sum over occurrences" if unit == "words" else "sum over tokens"


def choose_batch_size(model: Model, *, is_batched: bool) -> int:
    """Return how many documents to compute at a time; 1 where each costs many calls.

    ``is_joint`` says that the methods compute several documents in one pass.
    """
    if has(model, "exact_game") or has(model, "tables"):
        return model.inputs_per_batch
    size: int = get_property(model, "inputs_per_batch") if is_batched else 1
    return size


def adapt_model(
    model: Model,
    features: Any,
    scale: str,
    *,
    classes: Collection[Any] = (),
    window: str | int | None = None,
    needs: Requirements = (),
) -> Model:
    """Return ``model`` as it answers one request; most models answer every request as they are.

    Parameters
    ----------
    model
        Any model.
    features
        What is scored. A model whose removals are known exactly may have to be called about it.
    scale
        What is explained of a class: "logit", "probability" or "score".
    classes
        Classes that the request names. A tagger may have more of them than it shows.
    window
        Number of tokens of a window in which texts are read, or "auto"; None for no windows.
    needs
        Each option or function that needs a capability, the capability, and what to do without it.

    Raises
    ------
    InputError
        If the model does not read texts in windows, or lacks a capability that is needed.
    """
    capabilities = model.capabilities  # looked up, for every explanation comes here
    if capabilities.get("spans", "") is None:
        model = cast(Capable, model).with_classes(classes)
    if capabilities.get("exact_game", "") is None:
        model = cast(Capable, model).for_request(features, scale)
    if window is not None:
        reader = require(model, "max_tokens", "window", " Leave window out.")
        model = reader.with_windows(window)
    for use, capability, advice in needs:
        require(model, capability, use, advice)
    return model


def class_probabilities(
    outputs: Float[np.ndarray, "n C"], link: str = "softmax"
) -> Float[np.ndarray, "n classes"]:
    """Return the softmax of two or more logits; for a single one, its sigmoid as two classes.

    With the link "sigmoid" every one of several logits has a probability of its own, and "ovr"
    divides these by their sum, as scikit-learn does with one classifier for each class; with "none"
    the outputs are scores, not logits, and there are no probabilities.
    """
    # A margin has no probability, though a softmax of it would look like one.
    if link == "none":
        raise InputError(
            "the outputs of this model are scores, not log-odds, so it has no probabilities; "
            "explain the score."
        )
    if link == "sigmoid" and outputs.shape[1] > 1:
        # 1/(1 + e^−f) overflows at f = −710; the hyperbolic tangent does nowhere.
        return 0.5 * (1 + np.tanh(outputs / 2))
    if link == "ovr" and outputs.shape[1] > 1:
        # s_c/Σs is the softmax of log s, in which no s underflows.
        outputs = -np.logaddexp(0, -outputs)
    if outputs.shape[1] == 1:
        outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=1)
    # The largest is taken off, which a softmax does not notice, and no exponential overflows.
    weight = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


@lru_cache(maxsize=64)
def class_weights(
    classes: int, outputs: int, link: str = "softmax", scale: str = "logit"
) -> Float[np.ndarray, "classes outputs"]:
    """Return the weights of the outputs in the logit, or the score, of every class.

    A single output is the log-odds of the second of two classes. With a softmax over two outputs
    the logit of a class is its output less that of the other class: the log-odds of its
    probability, which a constant added to both outputs does not change. Else a class has its
    output.

    Parameters
    ----------
    classes
        Number of classes.
    outputs
        Number of outputs, 1 or ``classes``.
    link
        How outputs become probabilities.
    scale
        "logit", or "score" for the output of each class as it is.

    Returns
    -------
    An array that cannot be written to, since later calls return the same one.
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
    """Whether two classes have opposite numbers by :func:`class_weights`, as log-odds are."""
    return len(weights) > 1 and not weights.sum(axis=0).any()


def target_output_weights(
    weights: Float[np.ndarray, "classes outputs"],
    index: Int[np.ndarray, " n"],
    against: Int[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, "n outputs"]:
    """Return the rows of :func:`class_weights` for ``index``, less those for ``against``.

    Log-odds of two classes are a difference of the two already.
    """
    if against is None or are_opposite(weights):
        return weights[index]
    return weights[index] - weights[against]


def resolve_replacement(model: Model, name: str) -> str:
    """Return what "auto" means for ``model``, or ``name`` if the model can do it."""
    if name == "auto":
        return model.replacements[0]
    if name not in model.replacements:
        # What a check has taken from this network is not misspelt: the check is the reason.
        if (why := get_property(model, "unusable_replacements").get(name)) is not None:
            *most, last = map(repr, model.replacements)
            others = " or ".join(filter(None, (", ".join(most), last)))
            raise InputError(f"replacement {name!r} cannot be used: {why}. Use {others} instead.")
        raise InputError(unknown_name_message("replacement", name, ["auto", *model.replacements]))
    return name


def position_preserving_replacement(model: Model, name: str) -> str:
    """Return the replacement that leaves every other word in its place; "auto" never deletes."""
    if name != "auto":
        return resolve_replacement(model, name)
    # Without a word the next one moves into its place, and a point between base and text would mix
    # the embeddings of two different words.
    staying = [one for one in model.replacements if one != "delete"]
    if not staying:
        raise DomainError(
            "integrated gradients start from a mask, unknown or padding token; this model has "
            "none of them. Use 'lime' or 'shapley'."
        )
    return staying[0]


_MEMBERS = tuple(name for name in vars(Model) if not name.startswith("_"))


def check_model(model: Any) -> Model:
    """Return ``model`` if it is one; otherwise an error says what it lacks."""
    # Looked up without being computed: a fingerprint reads every weight.
    family, own = type(model), getattr(model, "__dict__", {})
    missing = [name for name in _MEMBERS if not hasattr(family, name) and name not in own]
    # Something else may have one such name: a file has read, a network may have outputs.
    if len(_MEMBERS) - len(missing) < 2:
        raise InputError(
            "a model is what limelight.load or limelight.wrap returns; got "
            f"{type(model).__name__}. Write limelight.wrap(…)."
        )
    if missing:
        raise InputError(
            f"{type(model).__name__} is not a model yet; it lacks {', '.join(missing)}."
        )
    for name, why in model.capabilities.items():
        if name not in CAPABILITIES:
            raise InputError(unknown_name_message("capability", name, CAPABILITIES))
        # A capability that a model claims must be there: its methods, by name.
        needed = CAPABILITY_METHODS.get(name, ()) if why is None else ()
        lacking = [one for one in needed if not hasattr(family, one) and one not in own]
        if lacking:
            raise InputError(
                f"{family.__name__} claims the capability {name!r}, but lacks {', '.join(lacking)}."
            )
    if hasattr(family, "max_tokens") and not hasattr(family, "with_windows"):
        raise InputError(f"{family.__name__} has max_tokens, but lacks with_windows.")
    # "auto" is the first of them.
    if not model.replacements:
        raise InputError("a model needs a replacement at least, such as 'delete'; it names none.")
    # Targets are given by name, and a name must mean one class.
    if len(set(model.classes)) != len(model.classes):
        raise InputError(f"class names must differ; got {list(model.classes)}.")
    checked: Model = model
    return checked
