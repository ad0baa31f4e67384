"""What a transformers network holds of every word after one pass: its states at three layers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from limelight.errors import DomainError
from limelight.models.engine import Engine
from limelight.models.hugging_face.forward import (
    ForwardPass,
    network_input,
    network_name,
    rectangle,
    restoring,
    without_plans,
)
from limelight.models.hugging_face.pieces import feature_of_piece, ids_read, pieces_in
from limelight.models.protocol import Signalled
from limelight.shapes import Float, Int
from limelight.text import Document, Features

_PIECES = {"cpu": 1024, "cuda": 65_536}  # in a batch: states of all layers are held at once


def signals(
    forward: ForwardPass,
    documents: Sequence[Document],
    features: Sequence[Features],
    *,
    reads: str,
    alike: bool,
) -> Signalled:
    """Return states of the embedded text, the middle layer and the last one, word by word.

    The state of a word is the mean over its pieces in all of its places, 0 where it has none.
    ``reads`` is the piece that the head looks at, "first" or "last", or the "mean" of all.
    """
    rows = [ids_read(document) for document in documents]
    owners = [
        feature_of_piece(pieces_in(document), own)[pieces_in(document).inside]
        for document, own in zip(documents, features, strict=True)
    ]
    sizes = [len(own) for own in features]
    states: list[Any] = [None] * len(rows)
    read: list[Any] = [None] * len(rows)

    def answer(places: list[int]) -> Float[np.ndarray, "_ C"]:
        words, heads, outputs = forward.apart(
            rectangle([rows[i] for i in places]),
            lambda network, ids: _pass(
                network, ids, [owners[i] for i in places], max(sizes[i] for i in places), reads
            ),
        )
        for row, i in enumerate(places):
            states[i], read[i] = words[row, : sizes[i]], heads[row]
        return outputs

    padded = forward.network.config.pad_token_id is not None
    engine = Engine(
        answer,
        size=lambda i: len(rows[i]),
        key=int,
        budget=_PIECES.get(forward.network.device.type, 1024),
        most=256 if padded else 1,
        alike=alike,
    )
    outputs = engine(range(len(rows)))
    return Signalled(states, np.array(read), outputs)


def _pass(
    network: Any, ids: Int[np.ndarray, "n T"], owners: list[Any], most: int, reads: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (n, d, 3 h) states of words, (n, h) of what the head reads, and the outputs."""
    given = network_input(network, ids)
    with restoring(network), torch.inference_mode(), without_plans(network.device.type):
        out = network(**given, output_hidden_states=True)
        layers = shown_layers(network, out, ids.shape[1])
        there = torch.as_tensor(ids >= 0).to(layers[0].device)
        # Column ``most`` takes what belongs to no word; a mean is a product with a sparse matrix,
        # which on a device is one sum over the pieces.
        owner = np.full(ids.shape, most)
        for line, own in zip(owner, owners, strict=True):
            line[: len(own)] = np.where(own < 0, most, own)
        place = torch.as_tensor(owner).to(layers[0].device)
        one_hot = torch.nn.functional.one_hot(place, most + 1)[..., :most].float()
        mean = (one_hot / one_hot.sum(dim=1, keepdim=True).clamp(min=1)).transpose(1, 2)
        words = torch.cat([mean @ layer.float() for layer in layers], dim=2)
        head = _head(layers[-1].float(), there, reads)
        outputs = out.logits.double().cpu().numpy()
    return words.cpu().numpy(), head.cpu().numpy(), outputs


def shown_layers(network: Any, out: Any, T: int) -> list[Any]:
    """Return the embedded text, the middle and the last of the hidden states of a network."""
    found = getattr(out, "hidden_states", None) or ()
    if not found or any(one.dim() != 3 or one.shape[1:] != (T, found[0].shape[2]) for one in found):
        raise DomainError(
            f"{network_name(network)} does not show one state for every token and layer"
        )
    return [found[0], found[(len(found) - 1) // 2], found[-1]]


def _head(last: Any, there: Any, reads: str) -> Any:
    if reads == "first":
        return last[:, 0]
    if reads == "last":
        end = there.shape[1] - 1 - there.long().flip(1).argmax(dim=1)
        return last[torch.arange(len(last), device=last.device), end]
    weight = there.to(last.dtype)
    return (last * weight[..., None]).sum(dim=1) / weight.sum(dim=1, keepdim=True)
