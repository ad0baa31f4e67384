"""Gradients of a transformers model whose weights are frozen, where all of them are known."""

__all__ = ["frozen_gradient", "frozen_times_input", "frozen_together", "why_not_frozen"]

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from limelight.errors import DomainError
from limelight.models.engine import Engine, naming, out_of_memory
from limelight.models.hugging_face.affine_graph import not_affine
from limelight.models.hugging_face.embedded_input import differentiated, times_input
from limelight.models.hugging_face.frozen_weights import frozen_weights
from limelight.models.hugging_face.network_call import rectangle
from limelight.models.hugging_face.pieces import ids_read
from limelight.models.protocol import Differentiated, TimesInput, Weigh
from limelight.shapes import Float, Int
from limelight.text import Document

_PROBE = "one or two words"  # any text shows what a network is made of
_PIECES = 32_768  # that are differentiated together, at most
_TEXTS = 256


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


def frozen_times_input(
    network: Any,
    documents: Sequence[Document],
    weights: Float[np.ndarray, "n C"],
    *,
    alike: bool,
) -> TimesInput:
    """Return e_t · ∇F of the network with frozen weights, at the texts themselves.

    An ``alike`` network is shown texts of one length together: padding changes its answers.
    """
    rows = [ids_read(document) for document in documents]
    products: list[Any] = [None] * len(rows)

    def together(places: list[int]) -> Float[np.ndarray, "_ C"]:
        found, outputs = times_input(
            network,
            rectangle([rows[i] for i in places]),
            weights[places],
            held=frozen_weights,
            seen=partial(_check_affine, network),
        )
        for i, product in zip(places, found, strict=True):
            products[i] = product[: len(rows[i])]
        return outputs

    def answer(places: list[int]) -> Float[np.ndarray, "_ C"]:
        return _answers(together, places, network, documents)

    engine = Engine(
        answer,
        size=lambda i: len(rows[i]),
        key=int,
        budget=_PIECES,
        most=frozen_together(network),
        alike=alike,
    )
    outputs = engine(range(len(rows)))
    return TimesInput(products, outputs)


def frozen_together(network: Any) -> int:
    """Return how many texts are differentiated at a time.

    A core gains nothing by more than one, and a text alone has the same rounding whatever stands
    beside it in a list.
    """
    padded = network.config.pad_token_id is not None
    return _TEXTS if padded and network.device.type == "cuda" else 1


def _answers(
    together: Callable[[list[int]], Float[np.ndarray, "_ C"]],
    places: list[int],
    network: Any,
    documents: Sequence[Document],
) -> Float[np.ndarray, "_ C"]:
    """Answer all at once; if that fails, one by one, so that the text at fault is named."""
    try:
        if len(places) > 1:
            return together(places)
    except Exception as error:
        if out_of_memory(error):
            raise
    found = []
    for i in places:
        with naming(type(network).__name__, documents[i].text):
            found.append(together([i]))
    return np.concatenate(found)


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
