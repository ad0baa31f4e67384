"""What a model must answer."""

__all__ = ["Attended", "DeepModel", "Differentiated", "Model", "Weigh"]

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from limelight.adapters.passage import Passage
from limelight.sampling import Game
from limelight.shapes import Float
from limelight.text import Features

# From the outputs (n, C) to the gradient (n, C) of the explained number.
Weigh = Callable[[Float[np.ndarray, "n C"]], Float[np.ndarray, "n C"]]


@runtime_checkable
class Model(Protocol):
    """Any classifier of texts.

    ``link`` turns outputs into probabilities: "softmax" over the classes or "sigmoid" of each;
    "none" where outputs are scores without probabilities.
    ``sees_inside`` says whether it is also a :class:`DeepModel`.
    """

    sees_inside: ClassVar[bool]

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""

    @property
    def link(self) -> str:
        """How outputs become probabilities."""

    @property
    def fingerprint(self) -> str:
        """What tells this model from another."""

    def read(self, text: str, *, pieces: bool = False) -> Passage:
        """Return ``text`` as the model reads it, cut into words, or into its own ``pieces``."""

    def logits(self, texts: Sequence[str]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for every text."""

    def predict_proba(self, texts: Sequence[str]) -> Float[np.ndarray, "n classes"]:
        """Return the probability of every class for every text."""

    def replacement(self, name: str) -> str:
        """Return what "auto" means here, or ``name`` if the model can do it."""

    def game(self, passage: Passage, features: Features, replacement: str) -> Game:
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


@runtime_checkable
class DeepModel(Model, Protocol):
    """A model that also shows its attention and its gradients."""

    def attended(self, passage: Passage, weigh: Weigh | None = None) -> Iterator[Attended]:
        """Yield the attention on ``passage``, window by window where it was read in several.

        With ``weigh``, which is ∂F/∂f of the explained number F, also ∂F/∂α.
        """

    def embedded(
        self, passage: Passage, features: Features | None = None, replacement: str = "auto"
    ) -> Float[np.ndarray, "T d_e"]:
        """Return the embedded pieces, those of ``features`` replaced."""

    def differentiated(
        self,
        passage: Passage,
        points: Float[np.ndarray, "n T d_e"],
        weigh: Weigh | Float[np.ndarray, "n C"],
    ) -> Differentiated:
        """Return the gradient of the explained number at embedded ``points``.

        ``weigh`` is ∂F/∂f as a function of f, or its values where F depends on more than f.
        """
