"""Rows of token ids that also say to which segment each token belongs.

Networks of BERT's kind are told by ``token_type_ids`` which tokens are the second text of a pair.
A row holds both in one number, token + 2³² · segment, so that whatever masks, deletes, batches or
remembers rows need not know of it; a row of a single text is a row of plain ids.
"""

__all__ = ["network_input", "plain_ids", "with_segments"]

import inspect
from typing import Any

import numpy as np

from limelight.shapes import Int

_BITS = 32
_TOKEN = (1 << _BITS) - 1


def with_segments(
    ids: Int[np.ndarray, " L"], segment: Int[np.ndarray, " L"]
) -> Int[np.ndarray, " L"]:
    """Return ids and segments as one row."""
    row: np.ndarray = ids + (segment.astype(np.int64) << _BITS)
    return row


def plain_ids(rows: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
    """Return the ids of rows; what is negative stands for no token and stays."""
    return np.where(rows < 0, rows, rows & _TOKEN)


def network_input(
    network: Any, rows: Int[np.ndarray, "n T"], *, filler: int | None = None
) -> dict[str, Any]:
    """Return what the network is called with; a negative id is ``filler``, and is not attended to.

    Segments are given only where there are several, to networks that tell them apart.
    """
    import torch

    given = torch.as_tensor(rows).to(network.device)
    there = given >= 0
    padding = (network.config.pad_token_id or 0) if filler is None else filler
    inputs = {
        "input_ids": (given & _TOKEN).masked_fill(~there, padding),
        "attention_mask": there.long(),
    }
    most = int(rows.max(initial=0)) >> _BITS  # on the host: a GPU would have to be waited for
    if most and tells_apart(network, most):
        inputs["token_type_ids"] = (given >> _BITS).masked_fill(~there, 0)
    return inputs


def tells_apart(network: Any, most: int) -> bool:
    """Whether the network has segments up to ``most``; RoBERTa's table has one row only."""
    weights = network.named_parameters()
    tables = [len(one) for name, one in weights if name.endswith("token_type_embeddings.weight")]
    if tables:
        return min(tables) > most
    known = getattr(network.config, "type_vocab_size", most + 1)
    return known > most and "token_type_ids" in inspect.signature(network.forward).parameters
