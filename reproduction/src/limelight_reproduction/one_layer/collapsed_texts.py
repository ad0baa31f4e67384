"""Texts under the paper's classifier as arrays, the logit of its last class being explained."""

__all__ = ["CollapsedTexts", "collapsed_texts"]

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from limelight import AttentionClassifier
from limelight.shapes import Float
from limelight.text import Features, ModelInput, build_features
from limelight.theory.ratio_game import RatioGame, combine_outputs


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class CollapsedTexts:
    """``n`` texts, each with its features; letters are those of the notation table.

    ``arrays`` are what the model makes of them for all its classes. The last class is "positive"
    wherever the experiments look, and the only one if the model has a single output.
    """

    model: AttentionClassifier
    inputs: tuple[ModelInput, ...]
    features: tuple[Features, ...]

    @cached_property
    def arrays(self) -> Any:
        """The documents as the model's tables see them: ``CollapsedInputs``."""
        return self.model.compute_tables(self.inputs, self.features)

    @property
    def alpha(self) -> Float[np.ndarray, "n K T_max"]:
        """Attention of [cls] to every position."""
        return self.arrays.alpha

    @property
    def logit(self) -> Float[np.ndarray, "n K T_max"]:
        """Attention logits."""
        return self.arrays.logit

    @property
    def u(self) -> Float[np.ndarray, "n K T_max"]:
        """What every position would contribute alone to the last class."""
        return self.arrays.u[:, -1]

    @property
    def value(self) -> Float[np.ndarray, "K d_e"]:
        """The direction in which each head reads the last class's value of an embedding."""
        return self.model.directions.value[-1]

    @property
    def weights(self) -> Float[np.ndarray, "n C"]:
        """∂F/∂f_c of the explained number F, the last output."""
        return np.eye(self.model.sizes["C"])[[-1] * len(self.inputs)]

    @cached_property
    def games(self) -> RatioGame:
        """The exact games of all texts, the last class as their only one."""
        return combine_outputs(self.arrays.game, self.weights)

    @cached_property
    def token_gradient(self) -> Float[np.ndarray, "n T d_e"]:
        """The gradient at every token, [cls] left out."""
        return self.arrays.token_gradient(self.weights)

    def pooled(self, scores: Float[np.ndarray, "n T"]) -> list[Float[np.ndarray, " d"]]:
        """Return scores of tokens, [cls] left out, summed over the places of each feature."""
        return self.arrays.pool_features(scores)


def collapsed_texts(
    model: AttentionClassifier, texts: Sequence[str], *, features: str = "words"
) -> CollapsedTexts:
    """Return ``texts`` as ``model`` sees them."""
    inputs = tuple(model.read(text) for text in texts)
    scored = tuple(build_features(model_input, features) for model_input in inputs)
    return CollapsedTexts(model=model, inputs=inputs, features=scored)
