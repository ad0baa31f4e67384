"""The outputs of a transformers model for rows of ids, as fast as its device allows."""

__all__ = ["PADDING", "ForwardPass", "padded"]

import contextlib
import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np

from limelight.errors import InputError
from limelight.models.hugging_face.network_fingerprint import changes
from limelight.models.hugging_face.untouched import untouched
from limelight.shapes import Float, Int

PADDING = -1  # a place that is masked out
_HALF = 1e-2  # how far half precision may be off, of the outputs' size, before it is not used


@final
class ForwardPass:
    """Calls a network on rows of ids, with ``half`` in half precision on a graphics card.

    There the weights are cast once, into a copy of the network: casting them in every call took
    longer than the call. A text that is read afterwards meets the weights as they are then.
    """

    def __init__(self, network: Any, *, half: bool) -> None:
        self._network = network
        self._halves = half and network.device.type == "cuda"
        self._half: Any = None  # the copy, None where it does not do
        self._stamp: tuple[Any, ...] = ()

    def renew(self) -> None:
        """Cast the weights again if they have changed."""
        if not self._halves:
            return
        # Not of state_dict, which takes as long as a tenth of a call.
        tensors = itertools.chain(self._network.parameters(), self._network.buffers())
        stamp = tuple(changes(tensor) for tensor in tensors)
        if stamp != self._stamp:
            self._half, self._stamp = _halved(self._network), stamp

    def __call__(self, ids: Int[np.ndarray, "n T"]) -> Float[np.ndarray, "n C"]:
        """Return the outputs; ``PADDING`` is not attended to."""
        import torch

        device = self._network.device
        rows = torch.as_tensor(ids).to(device)
        there = rows != PADDING
        given = {
            "input_ids": rows.masked_fill(~there, self._network.config.pad_token_id or 0),
            "attention_mask": there.long(),
        }
        with torch.inference_mode():
            if self._half is not None:
                found = _asked(self._half, given)
                if np.isfinite(found).all():  # else too large for half precision
                    return self._checked(found)
            with untouched(self._network):
                return self._checked(_asked(self._network, given))

    def _checked(self, found: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n C"]:
        if not np.isfinite(found).all():
            raise InputError("the model returns numbers that are not finite; check its weights.")
        if found.shape[1] != (labels := len(self._network.config.id2label)):
            raise InputError(
                f"the model returns {found.shape[1]} outputs, but its config.id2label names "
                f"{labels} classes; make the two agree."
            )
        return found


def padded(rows: Sequence[Int[np.ndarray, " _"]], *, nothing: int) -> Int[np.ndarray, "n T"]:
    """Return rows of one length; ``nothing`` is the id that stands for a row of none."""
    ids = np.full((len(rows), max(1, *(len(row) for row in rows))), PADDING)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
        if not len(row):
            line[0] = nothing
    return ids


def _halved(network: Any) -> Any:
    """Return a copy in half precision, or None where that is not the same function."""
    import torch

    # Any ids will do: what is compared is the arithmetic.
    ids = torch.arange(16, device=network.device).remainder(network.config.vocab_size)[None]
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.inference_mode():
        try:
            half = copy.deepcopy(network).half().eval()
            found = _asked(half, given)
        except (RuntimeError, TypeError, NotImplementedError):
            return None  # a layer that knows no such numbers
        with untouched(network):
            true = _asked(network, given)
    off = float(np.abs(found - true).max())
    return half if off <= _HALF * max(1.0, float(np.abs(true).max())) else None


def _asked(network: Any, given: dict[str, Any]) -> Float[np.ndarray, "n C"]:
    with _without_plans(network.device.type):
        found: np.ndarray = network(**given).logits.double().cpu().numpy()
        return found


@contextlib.contextmanager
def _without_plans(device: str) -> Iterator[None]:
    """Compute attention by kernels that take any shape: cuDNN's makes a plan for each new one."""
    if device != "cuda":
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        yield
