"""What the layers of a transformers model show: attention, and states of every word."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from limelight.errors import DomainError
from limelight.models.engine import Engine
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.forward import ForwardPass, Pixels, Row, Rows
from limelight.models.hugging_face.gradients import aimed, given_ids, slopes
from limelight.models.hugging_face.language_models import COUNTS
from limelight.models.protocol import Attention, HiddenStates, Slopes
from limelight.shapes import Float, Int

_ROUNDING = 1e-4  # of the largest hidden number
_SLACK = 0.02  # half precision rounds the sum of a row by this much
_SINKS = "sinks"  # what transformers calls the logits of a place that is no token
_SOFTMAXES = (torch.softmax, torch.Tensor.softmax, torch.nn.functional.softmax)
# What a piece costs on a graphics card, beside its outputs alone: states of all layers are held at
# once, and where something is asked the attention of all of them too.
_STATES, _ATTENDING = 4, 32


def attended(network: Any, ids: Row, weigh: Slopes | None) -> Attention:
    """Return the attention on ``ids``, which positions the head reads, and ∂F/∂α for ``weigh``."""
    with (
        torch.inference_mode(mode=False),
        forward.restoring(network, eager=True, hook=_begin),
        torch.enable_grad(),
    ):
        out = network(**given_ids(network, ids, 1), output_attentions=True)
        layers = _layers(network, out, len(ids))
        # Before the other gradient, which frees the graph that both need.
        reads = _reads(network, out.logits, layers[-1], weigh)
        alpha = _stacked(layers)
        gradient = np.broadcast_to(np.nan, alpha.shape)  # takes no memory
        if weigh is not None:
            gradient = _stacked(torch.autograd.grad(aimed(out.logits, weigh), layers))
    return Attention(alpha, reads, gradient)


def _begin(_module: Any, _given: Any, rows: Any) -> Any:
    """Let a graph begin at the embedded input, for networks whose weights are frozen."""
    return rows if rows.requires_grad else rows.requires_grad_().clone()


def _layers(network: Any, out: Any, T: int) -> list[Any]:
    """Return the attention of every layer, from every position to every position."""
    layers = [layer for layer in getattr(out, "attentions", None) or () if layer is not None]
    # A decoder beside an encoder reads the text moved on by one piece, so in other places.
    if not layers or getattr(network.config, "is_encoder_decoder", False):
        raise DomainError(
            f"{forward.network_name(network)} does not show the attention of a single stack of "
            "layers; use 'lime', 'shapley' or 'loo'."
        )
    # Longformer shows windows, and Funnel fewer positions from layer to layer: such numbers are no
    # weights of words.
    shapes = {tuple(layer.shape[-2:]) for layer in layers}
    if shapes != {(T, T)} or len({layer.shape[1] for layer in layers}) > 1:
        raise DomainError(
            f"the attention of {forward.network_name(network)} does not go from every token to "
            "every token; use 'lime', 'shapley' or 'loo'."
        )
    _check_rows(network, layers)
    return layers


def _check_rows(network: Any, layers: list[Any]) -> None:
    """Weights are not negative and a row of them adds up to one; a learned sink may take a part."""
    least = min(layer.detach().min().item() for layer in layers)
    sums = [layer.detach().double().sum(dim=-1) for layer in layers]
    low, high = min(s.min().item() for s in sums), max(s.max().item() for s in sums)
    sinks = any(name.endswith(_SINKS) for name, _ in network.named_parameters())
    if least < -_SLACK or high > 1 + _SLACK or (low < 1 - _SLACK and not sinks):
        worst = high if high - 1 > 1 - low else low
        raise DomainError(
            f"what {forward.network_name(network)} shows as attention are not weights that add up "
            f"to one (a row adds up to {worst:.3g}, its least is {least:.3g}); use 'gxi', 'lime' "
            "or 'loo'."
        )


def _reads(network: Any, logits: Any, last: Any, weigh: Slopes | None) -> Float[np.ndarray, " T"]:
    """Which positions the classification head reads, by how the outputs depend on the last layer.

    After its attention a layer works on each position by itself, so the row of the last layer's
    attention at s moves the outputs exactly when the head reads s. Several count alike: a mean.
    Outputs that do not count, as ``weigh`` tells, are those of another place or sentence.
    """
    counts = None if weigh is None else slopes(logits, weigh) != 0
    if counts is not None and counts.any():
        logits = logits * torch.as_tensor(counts).to(logits)
    # Weights without a pattern: a plain sum of outputs may be constant.
    mixed = (logits * torch.cos(torch.arange(logits.numel(), device=logits.device) + 1.0)).sum()
    (slope,) = torch.autograd.grad(mixed, last, retain_graph=True, allow_unused=True)
    read = np.zeros(0) if slope is None else _stacked([slope])[0].any(axis=(0, 2)).astype(float)
    if not read.any():
        raise DomainError(
            f"which position the head of {forward.network_name(network)} reads cannot be seen: its "
            "outputs do not depend on the attention that it shows; use 'lime', 'shapley' or 'loo'."
        )
    return read / read.sum()


def _stacked(layers: Any) -> Float[np.ndarray, "L H T T"]:
    return np.stack([layer[0].detach().double().cpu().numpy() for layer in layers])


def why_not_attention_alone(network: Any, ids: Row, layers: int) -> str | None:
    """Return None if the ``layers`` of attention that a network shows are all that mixes tokens.

    Every attention is replaced by the identity, so that each token sees itself alone; then one
    embedded token is moved. If another position feels it, something else has carried it there:
    a convolution, a recurrence, or attention that the network does not show.
    """
    name = forward.network_name(network)
    if len(ids) < 3:
        return None

    def away(rows: Any) -> Any:
        moved = rows.clone()
        moved[:, 1] = 2 * moved[:, 1] - moved[:, 2]  # from its neighbor: no direction is special
        return moved

    with torch.inference_mode():
        still, seen = _hidden(network, ids, lambda rows: rows)
        moved, _ = _hidden(network, ids, away)
    if still is None or moved is None or still.shape[0] != len(ids):
        return f"what {name} holds at each token cannot be seen"
    # Another softmax over tokens is attention that the network computes and does not show.
    if seen != layers:
        return f"{name} shows {layers} layers of attention and computes {seen}"
    felt = np.abs(moved - still).max(axis=1) > _ROUNDING * np.abs(still).max()
    second = 1 + (ids.special if isinstance(ids, Pixels) else 0)
    if felt[np.arange(len(ids)) != second].any():
        return f"{name} mixes its tokens by other means than attention too"
    return None


def _hidden(network: Any, ids: Row, change: Callable[[Any], Any]) -> tuple[np.ndarray | None, int]:
    """Return the last hidden state at every token, each seeing itself alone."""
    alone, hook = _ItselfAlone(len(ids)), lambda _module, _given, rows: change(rows)
    with forward.restoring(network, eager=True, hook=hook), alone:
        # Some networks take another road through a layer unless its attention is asked for.
        asked = {"output_hidden_states": True, "output_attentions": True}
        out = network(**given_ids(network, ids, 1), **asked)
    states = getattr(out, "hidden_states", None)
    return (states[-1][0].double().cpu().numpy() if states else None), alone.seen


class _ItselfAlone(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
    """A context in which every softmax over tokens is the identity; ``seen`` counts them."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length, self.seen = length, 0

    def __torch_function__(
        self, function: Any, _types: Any, given: Any = (), options: Any = None
    ) -> Any:
        found = function(*given, **(options or {}))
        over_tokens = (  # weights of tokens over tokens, perhaps with one sink more
            function in _SOFTMAXES
            and found.dim() >= 3
            and found.shape[-2] == self._length
            and found.shape[-1] in (self._length, self._length + 1)
        )
        if not over_tokens:
            return found
        self.seen += 1
        eye = torch.eye(self._length, found.shape[-1], dtype=found.dtype, device=found.device)
        return eye.expand(found.shape)


def signals(
    asked: ForwardPass,
    engine: Engine,
    rows: Sequence[Any],  # ids of texts, or pixels of images
    owners: Sequence[Int[np.ndarray, " _"]],
    sizes: Sequence[int],
    *,
    reads: str,
    attends: bool,
) -> HiddenStates:
    """Return states of the embedded text, the middle layer and the last one, feature by feature.

    ``owners`` has the feature at every position of a row, -1 where there is none. The state of a
    feature is the mean over its positions, 0 where it has none. Where the network ``attends``, what
    the positions that the head ``reads`` attend to of a feature follows, layer by layer and head by
    head. These are the "first" or "last" one, "marked" ones, those "before" the tokens of an answer
    that count, or the "mean" of all stands in.
    """

    def ask(places: Int[np.ndarray, " _"]) -> tuple[Any, ...]:
        most = max(sizes[i] for i in places)
        owner = np.full((len(places), max(len(owners[i]) for i in places)), most)
        for line, i in zip(owner, places, strict=True):
            line[: len(owners[i])] = np.where(owners[i] < 0, most, owners[i])
        return asked.apart(
            forward.rectangle([rows[i] for i in places]),
            lambda network, ids: _pass(network, ids, owner, most, reads, attends),
        )

    cost = (_ATTENDING if attends else _STATES) if asked.network.device.type == "cuda" else 1
    found, outputs = forward.found_by_row(engine, [cost * len(row) for row in rows], ask)
    words = [own[:size] for (own, _), size in zip(found, sizes, strict=True)]
    return HiddenStates(words, np.array([read for _, read in found]), outputs)


def _pass(
    network: Any, ids: Rows, owner: Int[np.ndarray, "n T"], most: int, reads: str, attends: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (n, d, s) states of features, (n, h) of what the head reads, and the outputs."""
    T = owner.shape[1]
    layers, out = states(network, ids, T, attends=attends)
    with torch.inference_mode():
        device = layers[0].device
        # Column ``most`` takes what belongs to no feature; a mean is a product with a sparse
        # matrix, which on a device is one sum over the positions.
        place = torch.as_tensor(owner).to(device)
        one_hot = torch.nn.functional.one_hot(place, most + 1)[..., :most].float()
        mean = (one_hot / one_hot.sum(dim=1, keepdim=True).clamp(min=1)).transpose(1, 2)
        words = [mean @ layer for layer in layers]
        weight = torch.as_tensor(_read_at(ids, T, reads)).to(device)[:, None]
        for layer in out.attentions if attends else ():
            seen = (weight[:, None] @ layer.float())[:, :, 0]
            words.append((seen @ one_hot).transpose(1, 2))
        head = (weight @ layers[-1])[:, 0]
        outputs = out.logits.double().cpu().numpy()
    return torch.cat(words, dim=2).cpu().numpy(), head.cpu().numpy(), outputs


def states(network: Any, ids: Rows, T: int, *, attends: bool = False) -> tuple[list[Any], Any]:
    """Return the embedded text, the middle and the last hidden state, and all that was said.

    A network that does not show a state for each of the T positions is refused.
    """
    given = forward.network_input(network, ids) | ({"output_attentions": True} if attends else {})
    with forward.restoring(network, eager=attends), torch.inference_mode():
        out = network(**given, output_hidden_states=True)
    found = getattr(out, "hidden_states", None) or ()
    if not found or any(one.dim() != 3 or one.shape[1:] != (T, found[0].shape[2]) for one in found):
        raise DomainError(
            f"{forward.network_name(network)} does not show one state for every token and layer"
        )
    # In single precision: a mean over many positions would lose digits in half.
    return [layer.float() for layer in (found[0], found[(len(found) - 1) // 2], found[-1])], out


def _read_at(ids: Rows, T: int, reads: str) -> Float[np.ndarray, "n T"]:
    """Return how much the head reads of the state at each position."""
    there = ids >= 0 if ids.ndim == 2 else np.ones((len(ids), T), bool)
    if reads == "first":
        there = np.broadcast_to(np.arange(T) == 0, there.shape)
    elif reads == "last":
        there = np.cumsum(there[:, ::-1], axis=1)[:, ::-1] * there == 1
    elif reads == "marked":
        there = forward.is_marked(ids)
    elif reads == "before":  # a token is said at the position before it
        there = np.roll(forward.is_marked(ids, COUNTS), -1, axis=1)
    return (there / np.maximum(there.sum(axis=1, keepdims=True), 1)).astype(np.float32)
