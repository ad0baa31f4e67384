"""Gradients of a transformers model at its embedded input, by automatic differentiation."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
import torch

from limelight.errors import DomainError
from limelight.models.engine import Engine, call_function
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.forward import Row, Rows
from limelight.models.hugging_face.lrp import FrozenWeights, check_affine
from limelight.models.hugging_face.subwords import input_rows
from limelight.models.protocol import (
    EmbeddedPoints,
    Gradients,
    InputProducts,
    OutputGradientOrValues,
)
from limelight.shapes import Float
from limelight.text import ModelInput

_BATCH_SIZE = 2048  # subwords in a batch of points that are differentiated together
# Cost of a subword on each device, since the graphs of all layers are stored. A CPU core gains
# nothing by a batch of several texts. A single text has the same rounding in every list of texts.
_COST = {"cuda": 8}


def embed_input(network: Any, ids: Row) -> Float[np.ndarray, "T d_e"]:
    """Return the embedded tokens of one row, or the embedded patches of an image."""
    with torch.inference_mode():
        batch = _embed(network, forward.network_input(network, ids[None]))
        embedded: np.ndarray = batch[0].double().cpu().numpy()
    # An image has no input at the special positions before its patches.
    return np.pad(embedded, ((getattr(ids, "special", 0), 0), (0, 0)))


def _embed(network: Any, inputs: dict[str, Any]) -> Any:
    """Return the embedded input of a network, given the keyword arguments of the call.

    Raises
    ------
    DomainError
        If the network embeds its input in more than vectors.
    """
    with forward.network_lock(network):  # another thread may have a hook in the embedding
        embedded = forward.input_embedding(network)(next(iter(inputs.values())))
    if not isinstance(embedded, torch.Tensor):
        raise DomainError(
            f"the embedding of {forward.network_name(network)} returns more than vectors."
        )
    return embedded


def compute_gradients(
    network: Any,
    ids: Row,
    points: EmbeddedPoints,
    output_gradient: OutputGradientOrValues,
    *,
    frozen: bool = False,
) -> Gradients:
    """Return the gradient of the explained number F at points of the embedding space.

    Parameters
    ----------
    network
        The network.
    ids
        The row whose embedding the points replace.
    points
        Embedded inputs at which the network is differentiated.
    output_gradient
        ∂F/∂f as a function of the outputs f, or its values if F depends on more than f.
    frozen
        Freeze the weights, as layer-wise relevance propagation does (see ``lrp``).

    Returns
    -------
    The gradient and the outputs at each point.

    Raises
    ------
    DomainError
        If the network does not read the text as one row of embedded tokens.
    NotAffineError
        If ``frozen`` and the network is not affine with its weights frozen.
    """
    gradients, outputs, start = [], [], 0
    for batch in _split_points(network, points):
        batch_gradient = (
            output_gradient
            if callable(output_gradient)
            else output_gradient[start : start + len(batch)]
        )
        # The caller may be in no_grad or inference mode, which allow no gradients.
        with torch.inference_mode(mode=False), torch.enable_grad():
            inputs = repeat_input(network, ids, len(batch))
            gradient, batch_outputs = _gradient(
                network, inputs, batch.requires_grad_(), batch_gradient, frozen=frozen
            )
        # The gradients are summed in double precision, so that sums over many points stay accurate.
        gradients.append(gradient.cpu().numpy())
        outputs.append(batch_outputs)
        start += len(batch)
    return Gradients(np.concatenate(gradients), np.concatenate(outputs))


def _gradient(
    network: Any,
    inputs: dict[str, Any],
    embedded: Any,
    output_gradient: OutputGradientOrValues,
    *,
    frozen: bool,
) -> tuple[Any, Float[np.ndarray, "n C"]]:
    """Return the gradient of F at the embedded input, and the outputs of the network there."""
    with FrozenWeights() if frozen else contextlib.nullcontext():
        logits = _logits_from_points(network, inputs, embedded)
    if frozen:
        check_affine(network, logits)
    # backward() would leave gradients in the user's weights.
    (gradient,) = torch.autograd.grad(weigh_logits(logits, output_gradient), embedded)
    return gradient.double(), logits.detach().double().cpu().numpy()


def frozen_input_products(
    network: Any,
    inputs: Sequence[ModelInput],
    weights: Float[np.ndarray, "n C"],
    engine: Engine,
) -> InputProducts:
    """Return gradient × input of a network with frozen weights, at the texts themselves.

    Parameters
    ----------
    network
        The network.
    inputs
        Texts or images that the model has read.
    weights
        ∂F/∂f for each input, at its outputs f.
    engine
        Engine that decides how many rows are computed at a time.

    Returns
    -------
    The products at every position, and the outputs.
    """
    rows_per_input = [input_rows(model_input) for model_input in inputs]
    rows = [row for group in rows_per_input for row in group]
    input_index = np.repeat(
        np.arange(len(rows_per_input)), [len(group) for group in rows_per_input]
    )
    # The output of a text in W windows is the mean over the windows, so each window has ∂F/∂f / W.
    row_slopes = weights[input_index] / np.bincount(input_index)[input_index][:, None]

    def multiply_batch(indices: Any) -> tuple[Any, ...]:
        """Compute the products and the outputs of some rows."""
        return input_products(
            network, forward.stack_rows([rows[i] for i in indices]), row_slopes[indices]
        )

    cost, name = _COST.get(network.device.type, 1024), forward.network_name(network)
    row_products, outputs = forward.collect_by_row(
        engine,
        [cost * len(row) for row in rows],
        lambda indices: call_function(
            multiply_batch, indices, who=name, item_text=lambda i: inputs[input_index[i]].text
        ),
    )
    # Special positions of an image have no input, so their products are 0 (see ``embed_input``).
    products = [
        np.pad(product, (getattr(row, "special", 0), 0))[: len(row)]
        for (product,), row in zip(row_products, rows, strict=True)
    ]
    row_indices = [np.flatnonzero(input_index == number) for number in range(len(rows_per_input))]
    return InputProducts(
        [np.concatenate([products[i] for i in indices]) for indices in row_indices],
        np.array([outputs[indices].mean(axis=0) for indices in row_indices]),
    )


def input_products(
    network: Any, rows: Rows, weights: Float[np.ndarray, "n C"]
) -> tuple[Float[np.ndarray, "n T"], Float[np.ndarray, "n C"]]:
    """Return e_t · ∇F at every position of ``rows``, and the outputs.

    The weights of the network are frozen. The rows may be padded. ``weights`` are ∂F/∂f, one row
    for each row of ids.
    """
    with torch.inference_mode(mode=False), torch.enable_grad():
        inputs = forward.network_input(network, rows)
        embedded = _embed(network, inputs).detach().requires_grad_()
        gradient, outputs = _gradient(network, inputs, embedded, weights, frozen=True)
        product = (gradient * embedded.detach().double()).sum(-1)
    return product.cpu().numpy(), outputs


def outputs_at_points(network: Any, ids: Row, points: EmbeddedPoints) -> Float[np.ndarray, "n C"]:
    """Return the outputs at ``points``, which replace the embedded ``ids``."""
    with torch.inference_mode():
        logits = [
            _logits_from_points(network, repeat_input(network, ids, len(batch)), batch)
            for batch in _split_points(network, points)
        ]
        return torch.cat(logits).double().cpu().numpy()


def _split_points(network: Any, points: EmbeddedPoints) -> Iterator[Any]:
    """Yield batches of points, in the network's precision and on its device."""
    batch_size = max(1, _BATCH_SIZE // points.shape[1]) if forward.takes_batches(network) else 1
    weight = getattr(forward.input_embedding(network), "weight", network)  # images have no table
    for start in range(0, len(points), batch_size):
        # A tensor that is made in inference mode can never require a gradient.
        with torch.inference_mode(mode=False):
            batch = torch.as_tensor(
                points[start : start + batch_size], dtype=weight.dtype, device=weight.device
            )
        yield batch


def _logits_from_points(network: Any, inputs: dict[str, Any], points: Any) -> Any:
    """Call the network with ``points`` in place of its embedded input."""
    # A hook is used instead of inputs_embeds, because heads of decoders look for the last subword
    # in input_ids, and an encoder with a decoder embeds its text twice.
    types = inputs.get("token_type_ids")
    hook = _EmbeddingHook(network, next(iter(inputs.values())), points, types)
    with forward.evaluation_mode(network, hook=hook):
        logits = network(**inputs).logits
    # If the network did not use its table, the outputs are those of the text, not of the points.
    hook.check_used()
    return logits


@final
class _EmbeddingHook:
    """A forward hook that replaces the embedding of ``ids`` by ``points``.

    A network may embed its text twice: a decoder reads it again, shifted by one subword. The
    gradient at a subword is then the sum over the positions at which it enters. GPT-2 looks token
    ``types`` up in the same table. They are not replaced.
    """

    def __init__(self, network: Any, ids: Any, points: Any, types: Any = None) -> None:
        self._network, self._ids, self._points, self._was_used = network, ids, points, False
        self._types = types

    def __call__(self, _module: Any, args: Any, embedded: Any) -> Any:
        """Return the points instead of the embedded text."""
        if self._ids.dim() == 4 and isinstance(embedded, torch.Tensor):
            self._was_used = True  # an image: the patches follow the special positions
            return self._points[:, self._points.shape[1] - embedded.shape[1] :].clone()
        ids, (n, T) = args[0] if args else None, self._ids.shape
        if ids is None or ids.ndim != 2 or embedded.ndim != 3 or len(ids) != n:
            raise self._unreadable_error()
        if self._types is not None and torch.equal(ids, self._types):
            return embedded
        # Tokens that a decoder generates. The check of the network finds other cases.
        if ids.shape[1] < T:
            return embedded
        for start in (0, 1):  # where the text begins; more subwords may follow it
            length = min(T, ids.shape[1] - start)
            if bool((ids[:, start : start + length] == self._ids[:, :length]).all()):
                self._was_used |= length == T
                if embedded.shape == self._points.shape and not start:
                    # Some networks scale it in place, which a leaf tensor forbids.
                    return self._points.clone()
                parts = (
                    embedded[:, :start],
                    self._points[:, :length],
                    embedded[:, start + length :],
                )
                return torch.cat(parts, dim=1)
        raise self._unreadable_error()

    def check_used(self) -> None:
        """Raise an error if the points never replaced the whole text."""
        if not self._was_used:
            raise self._unreadable_error()

    def _unreadable_error(self) -> DomainError:
        """Return the error for a network that cannot be called on embedded tokens."""
        return DomainError(
            f"{forward.network_name(self._network)} does not read a text as one row of embedded "
            "tokens, so it has no gradients of words. Use 'lime', 'shapley' or 'loo'."
        )


def repeat_input(network: Any, ids: Row, copies: int) -> dict[str, Any]:
    """Return the keyword arguments of a call with ``copies`` of one unpadded row."""
    # The copies are views of one row.
    inputs = forward.network_input(network, ids[None])
    return {name: values.expand(copies, *values.shape[1:]) for name, values in inputs.items()}


def weigh_logits(logits: Any, output_gradient: OutputGradientOrValues) -> Any:
    """Return Σ ∂F/∂f_c f_c with constant ∂F/∂f, a number with the gradient of F."""
    # The weights are the slopes of F at these outputs, so one backward pass is enough for every F.
    slopes = np.ascontiguousarray(output_slopes(logits, output_gradient))
    return (logits * logits.new_tensor(slopes)).sum()


def output_slopes(logits: Any, output_gradient: OutputGradientOrValues) -> Float[np.ndarray, "n C"]:
    """Return ∂F/∂f at these outputs."""
    if not callable(output_gradient):
        return output_gradient
    return output_gradient(logits.detach().double().cpu().numpy())
