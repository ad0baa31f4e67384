"""From positions of a deep model's input to scores of features."""

__all__ = ["pooled_pieces"]

from typing import cast

import numpy as np

from limelight.explainers.reading import Reading
from limelight.models import Attends, Differentiates
from limelight.shapes import Float


def pooled_pieces(one: Reading, scores: Float[np.ndarray, "*K T"]) -> Float[np.ndarray, "*K d"]:
    """Return scores of pieces summed over the pieces and places of each feature."""
    (document,), (features,) = one.documents, one.features
    token = cast(Attends | Differentiates, one.model).places(document)
    feature = np.append(features.of_token, -1)[token]
    belongs = feature[:, None] == np.arange(len(features))
    return scores @ belongs.astype(np.float64)
