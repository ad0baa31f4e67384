"""Gradients of a transformers model whose weights are frozen, where all of them are known."""

__all__ = ["frozen_gradient", "why_not_frozen"]

from functools import partial
from typing import Any

import numpy as np

from limelight.errors import DomainError
from limelight.models.hugging_face.affine_graph import not_affine
from limelight.models.hugging_face.embedded_input import differentiated
from limelight.models.hugging_face.frozen_weights import frozen_weights
from limelight.models.protocol import Differentiated, Weigh
from limelight.shapes import Float, Int

_PROBE = "one or two words"  # any text shows what a network is made of


class NotAffineError(DomainError):
    """A network computes something that stays curved when all known weights are frozen."""


def frozen_gradient(
    network: Any,
    ids: Int[np.ndarray, " T"],
    points: Float[np.ndarray, "n T d_e"],
    weigh: Weigh | Float[np.ndarray, "n C"],
) -> Differentiated:
    """Return the gradient at embedded ``points`` of the network whose weights are frozen there.

    What is left must be affine: a network that mixes its tokens in some other way, as a state
    space model does, is refused and not explained by half.
    """
    seen = partial(_check_affine, network)
    return differentiated(network, ids, points, weigh, held=frozen_weights, seen=seen)


def why_not_frozen(model: Any) -> str | None:
    """Return None where all weights of the network can be frozen, else a clause that says why not.

    Found by freezing it once, on a few words.
    """
    try:
        document = model.read(_PROBE)
        point = model.embedded(document)[None]
        model.frozen_gradient(document, point, np.ones_like)
    except NotAffineError as error:
        return str(error).partition(";")[0]
    except Exception:  # no gradients at all: whoever asks for them is told why
        return None
    return None


def _check_affine(network: Any, logits: Any) -> None:
    if (unknown := not_affine(logits)) is not None:
        raise NotAffineError(
            f"{type(network).__name__} computes {unknown!r}, in which nothing is known to be a "
            "weight; use 'ig', 'shapley' or 'lime'."
        )
