"""Texts as arrays of the paper's classifier, to explain the logit of its last class."""

__all__ = ["CollapsedTexts", "collapse_texts"]

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
    """``n`` texts with their features. The letters are those of the notation table.

    The explained output is the logit of the last class. In the experiments this is "positive". If
    the model has a single output, it is the only one.
    """

    model: AttentionClassifier
    inputs: tuple[ModelInput, ...]
    features: tuple[Features, ...]

    @cached_property
    def arrays(self) -> Any:
        """Tables of the texts for all classes of the model: ``CollapsedInputs``."""
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
        """Contribution of every position to the last class if it had all the attention."""
        return self.arrays.u[:, -1]

    @property
    def value(self) -> Float[np.ndarray, "K d_e"]:
        """Direction in the embedding space that each head reads for the last class."""
        return self.model.directions.value[-1]

    @property
    def weights(self) -> Float[np.ndarray, "n C"]:
        """∂F/∂f_c of the explained output F: 1 for the last class, 0 for the others."""
        return np.eye(self.model.sizes["C"])[[-1] * len(self.inputs)]

    @cached_property
    def games(self) -> RatioGame:
        """Exact games of all texts, with the last class as their only output."""
        return combine_outputs(self.arrays.game, self.weights)

    @cached_property
    def token_gradient(self) -> Float[np.ndarray, "n T d_e"]:
        """Gradient at every token except [cls]."""
        return self.arrays.token_gradient(self.weights)

    def pool_features(self, scores: Float[np.ndarray, "n T"]) -> list[Float[np.ndarray, " d"]]:
        """Sum token scores (without [cls]) over the positions of each feature."""
        return self.arrays.pool_features(scores)


def collapse_texts(
    model: AttentionClassifier, texts: Sequence[str], *, features: str = "words"
) -> CollapsedTexts:
    """Read texts with the classifier and split them into features."""
    inputs = tuple(model.read(text) for text in texts)
    feature_lists = tuple(build_features(model_input, features) for model_input in inputs)
    return CollapsedTexts(model=model, inputs=inputs, features=feature_lists)
