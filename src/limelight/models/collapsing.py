"""Capability "collapses": what a model shows whose tables make every removal method exact."""

__all__ = ["Collapsed", "CollapsedArrays", "Collapses"]

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from limelight.shapes import Float
from limelight.text import Document, Features
from limelight.theory.deletion import DeletionGame
from limelight.theory.logit_path import LogitPath
from limelight.theory.ratio_game import RatioGame


@runtime_checkable
class Collapsed(Protocol):
    """Some documents of a model that collapses, as arrays that are computed once and shared.

    Letters are those of the notation table; ``base_`` is the text with every feature removed.
    ``weights`` are ∂F/∂f_c, one row for each document.
    """

    @property
    def alpha(self) -> Float[np.ndarray, "n K T_max"]:
        """Attention of [cls] to every position."""

    @property
    def logit(self) -> Float[np.ndarray, "n K T_max"]:
        """Attention logits."""

    @property
    def u(self) -> Float[np.ndarray, "n C K T_max"]:
        """What every position would contribute alone."""

    @property
    def base_logit(self) -> Float[np.ndarray, "n K T_max"]:
        """Attention logits with every feature removed."""

    @property
    def base_u(self) -> Float[np.ndarray, "n C K T_max"]:
        """Values with every feature removed."""

    def path(self, some: slice) -> LogitPath:
        """Return the logits of some documents on the way there from every feature removed."""

    @property
    def read_logit(self) -> Float[np.ndarray, "n K T_max"]:
        """The slopes of the logits along the embedded tokens, e_t · ∇ℓ_t."""

    @property
    def logit_error(self) -> Float[np.ndarray, "n K"]:
        """A bound on the errors of all these logits."""

    @property
    def value_error(self) -> Float[np.ndarray, "n C K"]:
        """A bound on the errors of all these values."""

    @property
    def base_outputs(self) -> Float[np.ndarray, "n C"]:
        """The model's outputs with every feature removed."""

    @property
    def game(self) -> RatioGame:
        """The games of all documents, one class for each output of the model."""

    def deletion_game(self, i: int, weights: Float[np.ndarray, "n C"]) -> DeletionGame:
        """Return the game of document ``i`` when removed words vanish and later ones move up."""

    def target_u(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n K T_max"]:
        """Return the values seen by the target, Σ_c ∂F/∂f_c u_c."""

    @property
    def attention(self) -> Float[np.ndarray, "n K T_max"]:
        """Attention of the heads; ``alpha`` may hold more, such as a skip connection."""

    def attended_u(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n K T_max"]:
        """Return the values of these heads, seen by the target."""

    def read_u(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n K T_max"]:
        """Return the values of ``target_u`` without what biases add to all of them."""

    def pooled(self, scores: Float[np.ndarray, "n *K T"]) -> list[Float[np.ndarray, "*K d"]]:
        """Return, for every document, scores of tokens summed over each feature's places."""

    def token_gradient(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n T d_e"]:
        """Return the gradient at every token of the documents, [cls] left out."""

    def head_gradients(self, weights: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n K T d_e"]:
        """Return every head's own gradient at every position, [cls] included."""

    def attention_matrices(self) -> list[Float[np.ndarray, "K T T"]]:
        """Return every head's attention of every token to every token, for each document."""


# A protocol checked while tests run would compute every array to see that it is there.
if TYPE_CHECKING:
    CollapsedArrays = Collapsed
else:
    CollapsedArrays = Any


@runtime_checkable
class Collapses(Protocol):
    """Capability "collapses": a model whose tables make every removal method exact."""

    @property
    def together(self) -> int:
        """How many documents are worth collapsing at a time."""

    def collapsed(
        self, documents: Sequence[Document], features: Sequence[Features]
    ) -> CollapsedArrays:
        """Return documents as the arrays that exact methods need."""
