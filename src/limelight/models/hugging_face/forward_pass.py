"""The outputs of a transformers model for rows of ids, as fast as its device allows."""

__all__ = ["ForwardPass"]

import copy
import itertools
from collections.abc import Callable
from typing import Any, final

import numpy as np

from limelight.errors import InputError
from limelight.models.engine import failing_text, out_of_memory
from limelight.models.hugging_face.network_call import MASKED_OUT, network_outputs
from limelight.models.hugging_face.network_fingerprint import changes
from limelight.shapes import Float, Int

_HALF = 1e-2  # how far half precision may be off, of the outputs' size, before it is not used


@final
class ForwardPass:
    """Calls a network on rows of ids, with ``half`` in half precision on a graphics card.

    There the weights are cast once, into a copy of the network: casting them in every call took
    longer than the call. A text that is read afterwards meets the weights as they are then. A row
    on which the network fails is named as the text that ``shown`` makes of it.
    """

    def __init__(
        self, network: Any, *, half: bool, shown: Callable[[Int[np.ndarray, " _"]], str]
    ) -> None:
        self._network, self._shown = network, shown
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
        """Return the outputs; what is masked out is not attended to."""
        try:
            found = self._outputs(ids)
        except (MemoryError, InputError):
            raise
        except Exception as error:
            if out_of_memory(error):
                raise  # the engine asks again for fewer
            raise failing_text(
                self._outputs,
                ids,
                error,
                who=type(self._network).__name__,
                shown=lambda row: self._shown(row[row != MASKED_OUT]),
            ) from error
        if not np.isfinite(found).all():
            raise InputError("the model returns numbers that are not finite; check its weights.")
        return found

    def _outputs(self, ids: Int[np.ndarray, "n T"]) -> Float[np.ndarray, "n C"]:
        if self._half is not None:
            found = network_outputs(self._half, ids, ours=True)
            if np.isfinite(found).all():  # else too large for half precision
                return found
        return network_outputs(self._network, ids)


def _halved(network: Any) -> Any:
    """Return a copy in half precision, or None where that is not the same function."""
    # Any ids will do: what is compared is the arithmetic.
    ids = (np.arange(16) % network.config.vocab_size)[None]
    try:
        half = copy.deepcopy(network).half().eval()
        found = network_outputs(half, ids, ours=True)
    except (RuntimeError, TypeError, NotImplementedError):
        return None  # a layer that knows no such numbers
    true = network_outputs(network, ids)
    off = float(np.abs(found - true).max())
    return half if off <= _HALF * max(1.0, float(np.abs(true).max())) else None
