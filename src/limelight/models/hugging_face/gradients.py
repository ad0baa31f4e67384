"""Gradients of a transformers model at its embedded input, by automatic differentiation."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
import torch

from limelight.errors import DomainError
from limelight.models.engine import Engine, answers_of
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.forward import Row, Rows
from limelight.models.hugging_face.lrp import FrozenWeights, check_affine
from limelight.models.hugging_face.pieces import rows_read
from limelight.models.protocol import Gradients, InputProducts, Points, Slopes
from limelight.shapes import Float
from limelight.text import ModelInput

_POINTS = 2048  # pieces in a batch of points whose gradient is taken
# What a text costs then, for each piece: graphs of all its layers are held. A core gains nothing by
# more than one, and a text alone has the same rounding whatever stands beside it in a list.
_COST = {"cuda": 8}


def embedded(network: Any, ids: Row) -> Float[np.ndarray, "T d_e"]:
    """Return the rows of the input embedding."""
    with torch.inference_mode():
        rows = _embedding(network, forward.network_input(network, ids[None]))
        found: np.ndarray = rows[0].double().cpu().numpy()
    # Nothing is read at the special positions before the patches of an image.
    return np.pad(found, ((getattr(ids, "special", 0), 0), (0, 0)))


def _embedding(network: Any, given: dict[str, Any]) -> Any:
    """Return what the network embeds of its input, which must be vectors."""
    with forward.alone_with(network):  # another thread may have put a text into its embedding
        rows = forward.input_table(network)(next(iter(given.values())))
    if not isinstance(rows, torch.Tensor):
        raise DomainError(
            f"{forward.network_name(network)} embeds its tokens in more than vectors."
        )
    return rows


def differentiated(
    network: Any, ids: Row, points: Points, weigh: Slopes, *, frozen: bool = False
) -> Gradients:
    """Return the gradient of F at ``points``, put in place of the embedded ``ids``.

    ``weigh`` is ∂F/∂f as a function of f, or its values where f is not all that F depends on. With
    ``frozen`` weights the gradient is that of layer-wise relevance.
    """
    gradients, outputs, done = [], [], 0
    for here in _batches(network, points):
        now = weigh if callable(weigh) else weigh[done : done + len(here)]
        # Whoever calls may stand in no_grad or inference mode, where there are no gradients.
        with torch.inference_mode(mode=False), torch.enable_grad():
            given = given_ids(network, ids, len(here))
            gradient, found = _gradient(network, given, here.requires_grad_(), now, frozen=frozen)
        # Added up in double precision: sums over a path of many points keep their digits.
        gradients.append(gradient.cpu().numpy())
        outputs.append(found)
        done += len(here)
    return Gradients(np.concatenate(gradients), np.concatenate(outputs))


def _gradient(
    network: Any, given: dict[str, Any], here: Any, weigh: Slopes, *, frozen: bool
) -> tuple[Any, Float[np.ndarray, "n C"]]:
    """Return the gradient of F at the embedded input ``here``, and the outputs there."""
    with FrozenWeights() if frozen else contextlib.nullcontext():
        logits = _logits_at(network, given, here)
    if frozen:
        check_affine(network, logits)
    # Not by backward, which would leave gradients in somebody's weights.
    (gradient,) = torch.autograd.grad(aimed(logits, weigh), here)
    return gradient.double(), logits.detach().double().cpu().numpy()


def frozen_times_input(
    network: Any,
    inputs: Sequence[ModelInput],
    weights: Float[np.ndarray, "n C"],
    engine: Engine,
) -> InputProducts:
    """Return e_t · ∇F of the network with frozen weights, at the texts themselves."""
    several = [rows_read(model_input) for model_input in inputs]
    rows = [row for some in several for row in some]
    whose = np.repeat(np.arange(len(several)), [len(some) for some in several])
    # A text in W windows has the mean of their outputs, so each of them ∂F/∂f / W.
    slopes = weights[whose] / np.bincount(whose)[whose][:, None]

    def together(places: Any) -> tuple[Any, ...]:
        return times_input(network, forward.rectangle([rows[i] for i in places]), slopes[places])

    cost, who = _COST.get(network.device.type, 1024), forward.network_name(network)
    found, outputs = forward.found_by_row(
        engine,
        [cost * len(row) for row in rows],
        lambda places: answers_of(together, places, who=who, shown=lambda i: inputs[whose[i]].text),
    )
    # As ``embedded`` has it: 0 at special positions, where nothing is read.
    products = [
        np.pad(product, (getattr(row, "special", 0), 0))[: len(row)]
        for (product,), row in zip(found, rows, strict=True)
    ]
    own = [np.flatnonzero(whose == number) for number in range(len(several))]
    return InputProducts(
        [np.concatenate([products[i] for i in places]) for places in own],
        np.array([outputs[places].mean(axis=0) for places in own]),
    )


def times_input(
    network: Any, rows: Rows, weights: Float[np.ndarray, "n C"]
) -> tuple[Float[np.ndarray, "n T"], Float[np.ndarray, "n C"]]:
    """Return e_t · ∇F at every place of ``rows``, which may be padded, and the outputs."""
    with torch.inference_mode(mode=False), torch.enable_grad():
        given = forward.network_input(network, rows)
        here = _embedding(network, given).detach().requires_grad_()
        gradient, outputs = _gradient(network, given, here, weights, frozen=True)
        product = (gradient * here.detach().double()).sum(-1)
    return product.cpu().numpy(), outputs


def outputs_at(network: Any, ids: Row, points: Points) -> Float[np.ndarray, "n C"]:
    """Return the outputs at ``points``, put in place of the embedded ``ids``."""
    with torch.inference_mode():
        found = [
            _logits_at(network, given_ids(network, ids, len(here)), here)
            for here in _batches(network, points)
        ]
        return torch.cat(found).double().cpu().numpy()


def _batches(network: Any, points: Points) -> Iterator[Any]:
    """Yield a few points at a time, in the network's precision and on its device."""
    step = max(1, _POINTS // points.shape[1]) if forward.takes_batches(network) else 1
    weight = getattr(forward.input_table(network), "weight", network)  # of images there is no table
    for start in range(0, len(points), step):
        # A tensor that is made in inference mode can never ask for a gradient.
        with torch.inference_mode(mode=False):
            here = torch.as_tensor(
                points[start : start + step], dtype=weight.dtype, device=weight.device
            )
        yield here


def _logits_at(network: Any, given: dict[str, Any], here: Any) -> Any:
    # By a hook and not by inputs_embeds: heads of decoders look for the last piece in input_ids,
    # and an encoder with a decoder embeds its text twice.
    types = given.get("token_type_ids")
    embedding = _InPlace(network, next(iter(given.values())), here, types)
    with forward.restoring(network, hook=embedding):
        logits = network(**given).logits
    # A network that never asked its table answered about the text, not about the points.
    embedding.check_used()
    return logits


@final
class _InPlace:
    """Puts ``points`` in the place of what the embedding answers to ``ids``.

    A network may embed its text twice: a decoder reads it once more, moved on by one piece. The
    gradient at a piece is then the sum over the places where it enters. Token ``types``, which
    GPT-2 looks up in the same table, stay what they are.
    """

    def __init__(self, network: Any, ids: Any, points: Any, types: Any = None) -> None:
        self._network, self._ids, self._points, self._whole = network, ids, points, False
        self._types = types

    def __call__(self, _module: Any, given: Any, rows: Any) -> Any:
        if self._ids.dim() == 4 and isinstance(rows, torch.Tensor):  # special positions come first
            self._whole = True
            return self._points[:, self._points.shape[1] - rows.shape[1] :].clone()
        asked, (n, T) = given[0] if given else None, self._ids.shape
        if asked is None or asked.ndim != 2 or rows.ndim != 3 or len(asked) != n:
            raise self._refusal()
        if self._types is not None and torch.equal(asked, self._types):
            return rows
        if asked.shape[1] < T:
            return rows  # what a decoder writes beside the text; the network's check tells others
        for start in (0, 1):  # where the text begins; further pieces may follow it
            length = min(T, asked.shape[1] - start)
            if bool((asked[:, start : start + length] == self._ids[:, :length]).all()):
                self._whole |= length == T
                if rows.shape == self._points.shape and not start:
                    return self._points.clone()  # some scale it in place, which a leaf forbids
                around = (rows[:, :start], self._points[:, :length], rows[:, start + length :])
                return torch.cat(around, dim=1)
        raise self._refusal()

    def check_used(self) -> None:
        if not self._whole:
            raise self._refusal()

    def _refusal(self) -> DomainError:
        return DomainError(
            f"{forward.network_name(self._network)} does not read a text as one row of embedded "
            "tokens, so gradients at its words are not known; use 'lime', 'shapley' or 'loo'."
        )


def given_ids(network: Any, ids: Row, copies: int) -> dict[str, Any]:
    """Return what the network is called with: ``copies`` of one text without padding."""
    # Views of one row: a hundred points need no hundred copies of it.
    one = forward.network_input(network, ids[None])
    return {name: rows.expand(copies, *rows.shape[1:]) for name, rows in one.items()}


def aimed(logits: Any, weigh: Slopes) -> Any:
    """A number whose gradient is that of F: Σ ∂F/∂f_c f_c with the weights held fixed."""
    # One backward pass whatever F is: the weights are its slopes at these outputs.
    return (logits * logits.new_tensor(np.ascontiguousarray(slopes(logits, weigh)))).sum()


def slopes(logits: Any, weigh: Slopes) -> Float[np.ndarray, "n C"]:
    """Return ∂F/∂f at these outputs."""
    return weigh(logits.detach().double().cpu().numpy()) if callable(weigh) else weigh
