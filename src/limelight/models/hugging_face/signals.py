"""What a transformers network holds of every word after one pass: its states at three layers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from limelight.errors import DomainError
from limelight.models.engine import Engine
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.forward import ForwardPass, Rows
from limelight.models.hugging_face.language_models import COUNTS
from limelight.models.protocol import Signalled
from limelight.shapes import Float, Int

# What a piece costs on a graphics card, beside its outputs alone: states of all layers are held at
# once, and where something is asked the attention of all of them too.
_STATES, _ATTENDING = 4, 32


def signals(
    asked: ForwardPass,
    engine: Engine,
    rows: Sequence[Any],  # ids of texts, or pixels of pictures
    owners: Sequence[Int[np.ndarray, " _"]],
    sizes: Sequence[int],
    *,
    reads: str,
    attends: bool,
) -> Signalled:
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
    states = [words[:size] for (words, _), size in zip(found, sizes, strict=True)]
    return Signalled(states, np.array([read for _, read in found]), outputs)


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
