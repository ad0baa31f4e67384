"""What a model is: three methods for every classifier, and capabilities that bring more methods."""

__all__ = [
    "CAPABILITIES",
    "SCALES",
    "Attended",
    "Attends",
    "Capability",
    "Cuts",
    "Differentiated",
    "Differentiates",
    "Freezes",
    "Link",
    "Model",
    "Shuffles",
    "TimesInput",
    "Weigh",
    "why_not",
]

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from limelight.sampling import Game
from limelight.shapes import Float, Int
from limelight.text import Document, Features

# How outputs become probabilities: softmax over the classes, sigmoid of each, or not at all.
Link = Literal["softmax", "sigmoid", "none"]
# What can be explained: log-odds, probabilities, or the outputs of a model that has neither.
SCALES = ("logit", "probability", "score")

Capability = Literal[
    "attends",
    "relays",
    "differentiates",
    "freezes",
    "collapses",
    "chooses",
    "pieces",
    "cuts",
    "shuffles",
    "pairs",
]
# What each capability is called in a refusal: "needs …".
CAPABILITIES: Mapping[Capability, str] = {
    "attends": "the attention weights of the model",
    "relays": "attention weights that are all that mixes the tokens of the model",
    "differentiates": "the gradients of the model",
    "freezes": "the gradients of the model with its weights frozen",
    "collapses": "a model that collapses into tables, as the paper's classifier does",
    "chooses": "a model that predicts one of its classes",
    "pieces": "a tokenizer that cuts words into pieces",
    "cuts": "a model that reads so many tokens and no more",
    "shuffles": "the weights of the model, to shuffle them",
    "pairs": "a model that reads two texts together",
}

# From the outputs (n, C) to the gradient (n, C) of the explained number.
Weigh = Callable[[Float[np.ndarray, "n C"]], Float[np.ndarray, "n C"]]


@runtime_checkable
class Model(Protocol):
    """Any classifier of texts.

    ``replacements`` names what may stand for a removed word; the first is what "auto" means.
    ``capabilities`` maps what a model may have to None where this one has it, else to a clause
    that says why not ("a function of texts shows only its answers"). It belongs to the instance,
    so a check of one model may withdraw a capability from it alone.
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

    def read(self, text: Any, *, pieces: bool = False) -> Document:
        """Return a text, or with "pairs" a tuple of two, cut into words or its own ``pieces``."""

    def outputs(self, documents: Sequence[Document]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for texts that it has read."""

    def game(self, document: Document, features: Features, replacement: str) -> Game:
        """Return the outputs as a function of which features stay."""


class Attended(NamedTuple):
    """Attention of every layer and head; ``reads`` weighs the positions the classifier reads.

    ``gradient`` with respect to the attention is NaN where nobody asked for it.
    """

    alpha: Float[np.ndarray, "L H T T"]
    reads: Float[np.ndarray, " T"]
    gradient: Float[np.ndarray, "L H T T"]


class Differentiated(NamedTuple):
    """The gradient at the embedded input, for ``n`` points on the way from the base to the text."""

    gradient: Float[np.ndarray, "n T d_e"]
    outputs: Float[np.ndarray, "n C"]


class TimesInput(NamedTuple):
    """Gradient × input of several documents: e_t · ∇F at every position, and the outputs."""

    products: list[Float[np.ndarray, " _"]]
    outputs: Float[np.ndarray, "n C"]


@runtime_checkable
class Attends(Protocol):
    """Capability "attends": a model that shows its attention weights."""

    def places(self, document: Document) -> Int[np.ndarray, " T"]:
        """Return the token at every position of the model's input, -1 at special ones."""

    def attended(self, document: Document, weigh: Weigh | None = None) -> Iterator[Attended]:
        """Yield the attention on ``document``, window by window where it was read in several.

        With ``weigh``, which is ∂F/∂f of the explained number F, also ∂F/∂α.
        """


@runtime_checkable
class Differentiates(Protocol):
    """Capability "differentiates": a model with gradients at its embedded input."""

    def places(self, document: Document) -> Int[np.ndarray, " T"]:
        """Return the token at every position of the model's input, -1 at special ones."""

    def embedded(
        self, document: Document, features: Features | None = None, replacement: str = ""
    ) -> Float[np.ndarray, "T d_e"]:
        """Return the embedded input, the tokens of ``features`` replaced where they are given."""

    def differentiated(
        self,
        document: Document,
        points: Float[np.ndarray, "n T d_e"],
        weigh: Weigh | Float[np.ndarray, "n C"],
    ) -> Differentiated:
        """Return the gradient of the explained number at embedded ``points``.

        ``weigh`` is ∂F/∂f as a function of f, or its values where F depends on more than f.
        """


@runtime_checkable
class Freezes(Differentiates, Protocol):
    """Capability "freezes": a model that also differentiates with its weights frozen."""

    def frozen_gradient(
        self,
        document: Document,
        points: Float[np.ndarray, "n T d_e"],
        weigh: Weigh | Float[np.ndarray, "n C"],
    ) -> Differentiated:
        """Return what ``differentiated`` does, of the network whose weights are frozen.

        Attention weights, the deviations of norms, the quotients act(x)/x of activations and
        activated gates are constants there, at their values for each point, so that it is affine
        in the embedded input. Its outputs at ``points`` must be those of the model.
        """

    @property
    def together(self) -> int:
        """How many documents are differentiated at a time; 1 where nothing is gained by more."""

    def frozen_times_input(
        self, documents: Sequence[Document], weights: Float[np.ndarray, "n C"]
    ) -> TimesInput:
        """Return the same gradient at the texts themselves, times their embedded input.

        ``weights`` are ∂F/∂f, one row for each document. Many documents are differentiated
        together where the device gains by it.
        """


@runtime_checkable
class Cuts(Protocol):
    """Capability "cuts": a model that does not read all of a long text."""

    def in_windows(self, window: str | int) -> "Model":
        """Return the same model for whole texts, which it reads in windows of that many tokens."""


@runtime_checkable
class Shuffles(Protocol):
    """Capability "shuffles": a model that can be had with its weights shuffled."""

    def shuffled(self, seed: int) -> "Model":
        """Return the same model with the numbers of every weight in random places.

        It reads as before and has learned nothing; the sizes of its weights are what they were.
        """


@runtime_checkable
class Withdraws(Protocol):
    """A model that found, when it was tried out, that a replacement of its kind does not work."""

    @property
    def withdrawn(self) -> Mapping[str, str]:
        """Replacements that cannot be used, and a clause that says why."""


def why_not(model: Model, capability: Capability) -> str | None:
    """Return None where ``model`` has ``capability``, else a clause that says why not."""
    unsaid = f"{type(model).__name__} does not offer that"
    return model.capabilities.get(capability, unsaid)
