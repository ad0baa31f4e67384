"""The attention and the hidden states of the layers of a transformers model."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from limelight.errors import DomainError
from limelight.models.engine import Engine
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.forward import ForwardPass, Pixels, Row, Rows
from limelight.models.hugging_face.gradients import output_slopes, repeat_input, weigh_logits
from limelight.models.hugging_face.language_models import FIRST_PART_MARK
from limelight.models.protocol import Attention, HiddenStates, OutputGradientOrValues
from limelight.shapes import Float, Int
from limelight.theory.namespace import array_namespace, host_array

_TOLERANCE = 1e-4  # of a hidden state, relative to the largest number
_SUM_TOLERANCE = 0.02  # rounding error of the sum of a row in half precision
_SINKS = "sinks"  # the parameter of attention logits that belong to no token
_SOFTMAXES = (torch.softmax, torch.Tensor.softmax, torch.nn.functional.softmax)
_MAX_DEVICE_BYTES = 1 << 30  # of the hidden states of a call that stay on the device
_USUAL_HIDDEN_SIZE = 1024  # if a configuration does not say it
# Cost of a subword on a GPU, relative to computing outputs only. The states of all layers are
# stored, and with a query also the attention of all layers.
_STATES_COST, _ATTENTION_COST = 4, 32


def compute_attention(
    network: Any, ids: Row, output_gradient: OutputGradientOrValues | None
) -> Attention:
    """Return the attention of all layers on one row of ids.

    With ``output_gradient``, which is ∂F/∂f of the explained number F, also return ∂F/∂α. The
    result contains the positions that the head reads.
    """
    with (
        torch.inference_mode(mode=False),
        forward.evaluation_mode(network, eager=True, hook=_start_graph),
        torch.enable_grad(),
    ):
        out = network(**repeat_input(network, ids, 1), output_attentions=True)
        layers = _attention_layers(network, out, len(ids))
        # The other gradient comes later, since it frees the graph that both need.
        reads = _head_positions(network, out.logits, layers[-1], output_gradient)
        alpha = _stack_layers(layers)
        gradient = np.broadcast_to(np.nan, alpha.shape)  # takes no memory
        if output_gradient is not None:
            gradient = _stack_layers(
                torch.autograd.grad(weigh_logits(out.logits, output_gradient), layers)
            )
    return Attention(alpha, reads, gradient)


def _start_graph(_module: Any, _args: Any, embedded: Any) -> Any:
    """Start a graph at the embedded input, for networks whose weights need no gradient."""
    return embedded if embedded.requires_grad else embedded.requires_grad_().clone()


def _attention_layers(network: Any, out: Any, T: int) -> list[Any]:
    """Return the attention of every layer, from every position to every position.

    Raises
    ------
    DomainError
        If the network does not return attention weights of a single stack of layers.
    """
    layers = [layer for layer in getattr(out, "attentions", None) or () if layer is not None]
    # The decoder of an encoder-decoder reads the text shifted by one subword, so positions differ.
    if not layers or getattr(network.config, "is_encoder_decoder", False):
        raise DomainError(
            f"{forward.network_name(network)} does not return the attention of a single stack of "
            "layers. Use 'lime', 'shapley' or 'loo'."
        )
    # Longformer returns windows, and Funnel returns fewer positions from layer to layer. Such
    # numbers are not weights of words.
    shapes = {tuple(layer.shape[-2:]) for layer in layers}
    if shapes != {(T, T)} or len({layer.shape[1] for layer in layers}) > 1:
        raise DomainError(
            f"the attention of {forward.network_name(network)} does not go from every token to "
            "every token. Use 'lime', 'shapley' or 'loo'."
        )
    _check_attention_rows(network, layers)
    return layers


def _check_attention_rows(network: Any, layers: list[Any]) -> None:
    """Raise an error if a weight is negative or if a row of weights does not sum to one.

    With a learned sink, the sum of a row may be smaller.
    """
    lowest_weight = min(layer.detach().min().item() for layer in layers)
    sums = [layer.detach().double().sum(dim=-1) for layer in layers]
    lowest_sum = min(row_sum.min().item() for row_sum in sums)
    highest_sum = max(row_sum.max().item() for row_sum in sums)
    has_sinks = any(name.endswith(_SINKS) for name, _ in network.named_parameters())
    if (
        lowest_weight < -_SUM_TOLERANCE
        or highest_sum > 1 + _SUM_TOLERANCE
        or (lowest_sum < 1 - _SUM_TOLERANCE and not has_sinks)
    ):
        worst_sum = highest_sum if highest_sum - 1 > 1 - lowest_sum else lowest_sum
        raise DomainError(
            f"the attention weights of {forward.network_name(network)} do not sum to one (sum "
            f"{worst_sum:.3g}, smallest weight {lowest_weight:.3g}). Use 'gxi', 'lime' or 'loo'."
        )


def _head_positions(
    network: Any, logits: Any, last_layer: Any, output_gradient: OutputGradientOrValues | None
) -> Float[np.ndarray, " T"]:
    """Return how much the classification head reads of each position.

    After its attention, a layer works on each position separately. So the row of the last layer's
    attention at position s changes the outputs exactly if the head reads s. All positions that are
    read get the same weight. Outputs with ``output_gradient`` zero belong to other spans or
    sentences and do not count.
    """
    is_explained = None if output_gradient is None else output_slopes(logits, output_gradient) != 0
    if is_explained is not None and is_explained.any():
        logits = logits * torch.as_tensor(is_explained).to(logits)
    # The weights have no pattern, because a plain sum of outputs may be constant.
    mixture = (logits * torch.cos(torch.arange(logits.numel(), device=logits.device) + 1.0)).sum()
    (gradient,) = torch.autograd.grad(mixture, last_layer, retain_graph=True, allow_unused=True)
    positions = np.zeros(0)
    if gradient is not None:
        positions = _stack_layers([gradient])[0].any(axis=(0, 2)).astype(float)
    if not positions.any():
        raise DomainError(
            f"the outputs of {forward.network_name(network)} do not depend on the attention that "
            "it returns. Use 'lime', 'shapley' or 'loo'."
        )
    return positions / positions.sum()


def _stack_layers(layers: Any) -> Float[np.ndarray, "L H T T"]:
    """Stack the attention of all layers for the only row of a batch."""
    return np.stack([layer[0].detach().double().cpu().numpy() for layer in layers])


def reason_not_attention_only(network: Any, ids: Row, layers: int) -> str | None:
    """Return why attention is not all that mixes the tokens of a network, or None if it is.

    Every attention is replaced by the identity, so that each token sees only itself. Then one
    embedded token is changed. If the state at another position changes, something else has carried
    the change there: a convolution, a recurrence, or attention that the network does not return.
    ``layers`` is the number of attention layers that the network returns.
    """
    name = forward.network_name(network)
    if len(ids) < 3:
        return None

    def move_second(embedded: Any) -> Any:
        """Move the second token away from the third one."""
        moved = embedded.clone()
        moved[:, 1] = 2 * moved[:, 1] - moved[:, 2]  # no direction is special
        return moved

    with torch.inference_mode():
        unchanged, softmax_count = _isolated_states(network, ids, lambda embedded: embedded)
        changed, _ = _isolated_states(network, ids, move_second)
    if unchanged is None or changed is None or unchanged.shape[0] != len(ids):
        return f"{name} does not return a hidden state for each token"
    # Another softmax over tokens is attention that the network computes but does not return.
    if softmax_count != layers:
        return f"{name} computes {softmax_count} layers of attention and returns {layers}"
    is_affected = np.abs(changed - unchanged).max(axis=1) > _TOLERANCE * np.abs(unchanged).max()
    changed_position = 1 + (ids.special if isinstance(ids, Pixels) else 0)
    if is_affected[np.arange(len(ids)) != changed_position].any():
        return f"other parts of {name} mix its tokens too"
    return None


def _isolated_states(
    network: Any, ids: Row, change: Callable[[Any], Any]
) -> tuple[np.ndarray | None, int]:
    """Return the last hidden states if each token sees only itself, and the number of softmaxes.

    ``change`` is applied to the embedded input.
    """
    identity_attention = _IdentityAttention(len(ids))

    def change_embedded(_module: Any, _args: Any, embedded: Any) -> Any:
        """Change the embedded input."""
        return change(embedded)

    with forward.evaluation_mode(network, eager=True, hook=change_embedded), identity_attention:
        # Some networks use another implementation if no attention is requested.
        options = {"output_hidden_states": True, "output_attentions": True}
        out = network(**repeat_input(network, ids, 1), **options)
    hidden_states = getattr(out, "hidden_states", None)
    last_state = hidden_states[-1][0].double().cpu().numpy() if hidden_states else None
    return last_state, identity_attention.softmax_count


class _IdentityAttention(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
    """A context in which every softmax over tokens returns the identity.

    ``softmax_count`` is the number of such softmaxes.
    """

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length, self.softmax_count = length, 0

    def __torch_function__(
        self, function: Any, _types: Any, args: Any = (), options: Any = None
    ) -> Any:
        weights = function(*args, **(options or {}))
        is_over_tokens = (  # the matrix is tokens × tokens, perhaps with one sink
            function in _SOFTMAXES
            and weights.dim() >= 3
            and weights.shape[-2] == self._length
            and weights.shape[-1] in (self._length, self._length + 1)
        )
        if not is_over_tokens:
            return weights
        self.softmax_count += 1
        eye = torch.eye(self._length, weights.shape[-1], dtype=weights.dtype, device=weights.device)
        return eye.expand(weights.shape)


def feature_states(
    forward_pass: ForwardPass,
    engine: Engine,
    rows: Sequence[Any],  # ids of texts, or pixels of images
    feature_indices: Sequence[Int[np.ndarray, " _"]],
    feature_counts: Sequence[int],
    *,
    read_position: str,
    with_attention: bool,
) -> HiddenStates:
    """Return the states of every feature at three layers, and the outputs, in one pass.

    Parameters
    ----------
    forward_pass
        Caller of the network.
    engine
        Engine that decides how many rows are computed at a time.
    rows
        Ids of texts, or pixels of images.
    feature_indices
        The feature at every position of each row, -1 for positions without a feature.
    feature_counts
        Number of features of each row.
    read_position
        Positions that the head reads: the "first" or "last" one, the "marked" ones, those "before"
        the explained tokens of an answer, or the "mean" of all.
    with_attention
        Add the attention of the positions that the head reads to each feature, layer by layer and
        head by head.

    Returns
    -------
    States of the embedded text, the middle layer and the last layer. They are on the device of the
    network, or on the host if they take more than a gigabyte. The state of a feature is the mean
    over its positions, or 0 if it has none.
    """

    hidden_size = getattr(forward_pass.network.config, "hidden_size", None) or _USUAL_HIDDEN_SIZE
    states_fit = 3 * 4 * hidden_size * sum(feature_counts) <= _MAX_DEVICE_BYTES

    def start_batch(indices: Int[np.ndarray, " _"]) -> Any:
        """Start to compute states, head states and outputs of some rows."""
        max_count = max(feature_counts[i] for i in indices)
        feature_index = np.full(
            (len(indices), max(len(feature_indices[i]) for i in indices)), max_count
        )
        for line, i in zip(feature_index, indices, strict=True):
            line[: len(feature_indices[i])] = np.where(
                feature_indices[i] < 0, max_count, feature_indices[i]
            )
        started = forward_pass.start_call(
            forward.stack_rows([rows[i] for i in indices]),
            lambda network, ids: _states_and_outputs(
                network, ids, feature_index, max_count, read_position, with_attention
            ),
        )
        if states_fit:
            return started
        if callable(started):
            return lambda: tuple(map(host_array, started()))
        return tuple(map(host_array, started))

    cost = 1
    if forward_pass.network.device.type == "cuda":
        cost = _ATTENTION_COST if with_attention else _STATES_COST
    row_states, outputs = forward.collect_by_row(
        engine, [cost * len(row) for row in rows], start_batch
    )
    states = [state[:size] for (state, _), size in zip(row_states, feature_counts, strict=True)]
    head_states = [head_state for _, head_state in row_states]
    return HiddenStates(states, array_namespace(head_states[0]).stack(head_states), outputs)


def _states_and_outputs(
    network: Any,
    ids: Rows,
    feature_index: Int[np.ndarray, "n T"],
    feature_count: int,
    read_position: str,
    with_attention: bool,
) -> tuple[Any, Any, Any]:
    """Call the network on a batch and return the states of its features, as tensors.

    Parameters
    ----------
    network
        The network.
    ids
        A batch of rows.
    feature_index
        The feature at every position, ``feature_count`` for positions without a feature.
    feature_count
        Largest number of features of a row.
    read_position, with_attention
        As in :func:`feature_states`.

    Returns
    -------
    (n, d, s) states of features, (n, h) states that the head reads, and (n, C) outputs.
    """
    T = feature_index.shape[1]
    layers, out = layer_states(network, ids, T, with_attention=with_attention)
    with torch.inference_mode():
        device = layers[0].device
        # Positions without a feature have the last column, which is dropped. A mean is a product
        # with a sparse matrix. On a device that is one sum over the positions.
        index = torch.as_tensor(feature_index).to(device)
        one_hot = torch.nn.functional.one_hot(index, feature_count + 1)[..., :feature_count].float()
        mean = (one_hot / one_hot.sum(dim=1, keepdim=True).clamp(min=1)).transpose(1, 2)
        states = [mean @ layer for layer in layers]
        read_weight = torch.as_tensor(_read_weights(ids, T, read_position)).to(device)[:, None]
        for layer in out.attentions if with_attention else ():
            attention = (read_weight[:, None] @ layer.float())[:, :, 0]
            states.append((attention @ one_hot).transpose(1, 2))
        head_state = (read_weight @ layers[-1])[:, 0]
        return torch.cat(states, dim=2), head_state, out.logits.double()


def layer_states(
    network: Any, ids: Rows, T: int, *, with_attention: bool = False
) -> tuple[list[Any], Any]:
    """Return the embedded text, the middle and last hidden states, and the network's output.

    Parameters
    ----------
    network
        The network.
    ids
        A batch of rows.
    T
        Number of positions of a row.
    with_attention
        Whether the output contains the attention of all layers.

    Returns
    -------
    The states, and the output of the network.

    Raises
    ------
    DomainError
        If the network does not return one state for each of the T positions.
    """
    options = {"output_attentions": True} if with_attention else {}
    inputs = forward.network_input(network, ids) | options
    with forward.evaluation_mode(network, eager=with_attention), torch.inference_mode():
        out = network(**inputs, output_hidden_states=True)
    hidden_states = getattr(out, "hidden_states", None) or ()
    if not hidden_states or any(
        state.dim() != 3 or state.shape[1:] != (T, hidden_states[0].shape[2])
        for state in hidden_states
    ):
        raise DomainError(
            f"{forward.network_name(network)} does not return a hidden state for every token and "
            "layer"
        )
    middle = (len(hidden_states) - 1) // 2
    # In half precision, a mean over many positions would lose digits.
    layers = [hidden_states[number].float() for number in (0, middle, -1)]
    return layers, out


def _read_weights(ids: Rows, T: int, read_position: str) -> Float[np.ndarray, "n T"]:
    """Return how much the head reads of the state at each position."""
    is_read = ids >= 0 if ids.ndim == 2 else np.ones((len(ids), T), bool)
    if read_position == "first":
        is_read = np.broadcast_to(np.arange(T) == 0, is_read.shape)
    elif read_position == "last":
        is_read = np.cumsum(is_read[:, ::-1], axis=1)[:, ::-1] * is_read == 1
    elif read_position == "marked":
        is_read = forward.is_marked(ids)
    elif read_position == "before":  # a token is predicted at the position before it
        is_read = np.roll(forward.is_marked(ids, FIRST_PART_MARK), -1, axis=1)
    return (is_read / np.maximum(is_read.sum(axis=1, keepdims=True), 1)).astype(np.float32)
