"""Whether attention is all that carries something from one token of a network to another."""

__all__ = ["why_not_attention_alone"]

from collections.abc import Callable
from typing import Any

import numpy as np

from limelight.models.hugging_face.embedded_input import given_ids
from limelight.models.hugging_face.untouched import untouched
from limelight.shapes import Int

_ROUNDING = 1e-4  # of the largest hidden number


def why_not_attention_alone(network: Any, ids: Int[np.ndarray, " T"], layers: int) -> str | None:
    """Return None if the ``layers`` of attention that a network shows are all that mixes tokens.

    Every attention is replaced by the identity, so that each token sees itself alone; then one
    embedded token is moved. If another position feels it, something else has carried it there:
    a convolution, a recurrence, or attention that the network does not show.
    """
    import torch

    name = type(network).__name__
    if len(ids) < 3:
        return None
    with torch.inference_mode():
        still, seen = _hidden(network, ids, lambda rows: rows)
        moved, _ = _hidden(network, ids, _moved_second)
    if still is None or moved is None or still.shape[0] != len(ids):
        return f"what {name} holds at each token cannot be seen"
    if seen != layers:
        return f"{name} shows {layers} layers of attention and computes {seen}"
    felt = np.abs(moved - still).max(axis=1) > _ROUNDING * np.abs(still).max()
    if felt[np.arange(len(ids)) != 1].any():
        return f"{name} mixes its tokens by other means than attention too"
    return None


def _moved_second(rows: Any) -> Any:
    moved = rows.clone()
    moved[:, 1] = 2 * moved[:, 1] - moved[:, 2]  # away from its neighbour: no direction is special
    return moved


def _hidden(
    network: Any, ids: Int[np.ndarray, " T"], change: Callable[[Any], Any]
) -> tuple[np.ndarray | None, int]:
    """Return the last hidden state at every token, each seeing itself alone."""
    alone = _itself_alone(len(ids))
    with untouched(network, eager=True, hook=lambda _module, _given, rows: change(rows)), alone:
        # Some networks take another road through a layer unless its attention is asked for.
        asked = {"output_hidden_states": True, "output_attentions": True}
        out = network(**given_ids(network, ids, 1), **asked)
    states = getattr(out, "hidden_states", None)
    return (states[-1][0].double().cpu().numpy() if states else None), alone.seen


def _itself_alone(length: int) -> Any:
    """Return a context in which every softmax over tokens is the identity; ``seen`` counts them."""
    import torch
    from torch.overrides import TorchFunctionMode

    softmaxes = (torch.softmax, torch.Tensor.softmax, torch.nn.functional.softmax)

    class ItselfAlone(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
        seen = 0

        def __torch_function__(
            self, function: Any, _types: Any, given: Any = (), options: Any = None
        ) -> Any:
            found = function(*given, **(options or {}))
            if function not in softmaxes or not _over_tokens(found, length):
                return found
            self.seen += 1
            eye = torch.eye(length, found.shape[-1], dtype=found.dtype, device=found.device)
            return eye.expand(found.shape)

    return ItselfAlone()


def _over_tokens(found: Any, length: int) -> bool:
    """Whether these are weights of tokens over tokens, perhaps with one sink more."""
    if found.dim() < 3 or found.shape[-2] != length:
        return False
    return found.shape[-1] in (length, length + 1)
