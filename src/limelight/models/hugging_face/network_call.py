"""The one way in which a transformers network is asked about several rows of token ids."""

__all__ = ["MASKED_OUT", "network_outputs", "rectangle", "without_plans"]

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.hugging_face.segments import network_input
from limelight.models.hugging_face.untouched import untouched
from limelight.shapes import Float, Int

MASKED_OUT = -1  # stands for a piece that attention does not see


def rectangle(rows: Sequence[Int[np.ndarray, " _"]]) -> Int[np.ndarray, "n T"]:
    """Return rows of ids, each at least one long, as one array; the shorter ones are padded."""
    ids = np.full((len(rows), max(map(len, rows))), MASKED_OUT)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
    return ids


def network_outputs(
    network: Any, ids: Int[np.ndarray, "n T"], *, filler: int | None = None, ours: bool = False
) -> Float[np.ndarray, "n C"]:
    """Return the outputs for rows of ids, in the precision of the network.

    ``filler`` is the token at places that attention does not see, by default the padding. A
    network that is ``ours`` needs no care: it stays in evaluation mode.
    """
    import torch

    given = network_input(network, ids, filler=filler)
    care = contextlib.nullcontext() if ours else untouched(network)
    with care, torch.inference_mode(), without_plans(network.device.type):
        found = network(**given).logits.double().cpu().numpy()
    if found.shape[1] != (labels := len(network.config.id2label)):
        raise InputError(
            f"the model returns {found.shape[1]} outputs, but its config.id2label names "
            f"{labels} classes; make the two agree."
        )
    return found


@contextlib.contextmanager
def without_plans(device: str) -> Iterator[None]:
    """Compute attention by kernels that take any shape: cuDNN's makes a plan for each new one."""
    if device != "cuda":
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        yield
