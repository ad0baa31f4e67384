"""The one way in which a transformers network is asked about several rows of token ids."""

__all__ = ["MASKED_OUT", "network_outputs"]

from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.hugging_face.untouched import untouched
from limelight.shapes import Float, Int

MASKED_OUT = -1  # stands for a piece that attention does not see


def network_outputs(
    network: Any,
    rows: list[Int[np.ndarray, " _"]],
    *,
    full: bool = False,
    filler: int | None = None,
) -> Float[np.ndarray, "n C"]:
    """Return the outputs for rows of ids, each at least one long, the shorter ones padded.

    On a GPU in half precision, unless that is too coarse for a number or ``full`` forbids it.
    ``filler`` is the token at places that attention does not see, by default the padding.
    """
    import torch

    given, device = _rectangle(network, rows, filler), network.device
    half = torch.autocast("cuda", dtype=torch.float16, enabled=device.type == "cuda" and not full)
    with untouched(network), torch.inference_mode():
        with half:
            found = _logits(network, given)
        if device.type == "cuda" and not np.isfinite(found).all():  # too large for half
            found = _logits(network, given)
    return _checked(network, found)


def _logits(network: Any, given: dict[str, Any]) -> Float[np.ndarray, "n C"]:
    return network(**given).logits.double().cpu().numpy()


def _rectangle(
    network: Any, rows: list[Int[np.ndarray, " _"]], filler: int | None
) -> dict[str, Any]:
    import torch

    ids = np.full((len(rows), max(map(len, rows))), MASKED_OUT)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
    there = ids != MASKED_OUT
    ids[~there] = (network.config.pad_token_id or 0) if filler is None else filler
    return {
        "input_ids": torch.as_tensor(ids, device=network.device),
        "attention_mask": torch.as_tensor(there.astype(np.int64), device=network.device),
    }


def _checked(network: Any, found: np.ndarray) -> Float[np.ndarray, "n C"]:
    if not np.isfinite(found).all():
        raise InputError("the model returns numbers that are not finite; check its weights.")
    if found.shape[1] != (labels := len(network.config.id2label)):
        raise InputError(
            f"the model returns {found.shape[1]} outputs, but its config.id2label names "
            f"{labels} classes; make the two agree."
        )
    return found
