"""What tells one trained network from another: a digest of its configuration and weights."""

__all__ = ["NetworkFingerprint", "changes"]

import hashlib
import json
from typing import Any, final


@final
class NetworkFingerprint:
    """SHA-256 of the configuration and the weights of a torch network, as they are now.

    Weights are read again when torch has counted a change of them. What is written through
    ``.data`` it does not count.
    """

    def __init__(self, network: Any) -> None:
        self._network = network
        self._stamp: tuple[Any, ...] = ()
        self._weights = b""

    def __call__(self) -> str:
        """Return the fingerprint."""
        tensors = sorted(self._network.state_dict().items())
        stamp = tuple((name, *changes(tensor)) for name, tensor in tensors)
        if stamp != self._stamp:
            self._weights, self._stamp = _weights_digest(tensors), stamp
        config = json.dumps(self._network.config.to_dict(), sort_keys=True, default=str)
        return hashlib.sha256(config.encode() + self._weights).hexdigest()


def changes(tensor: Any) -> tuple[Any, ...]:
    """Return what differs after a tensor was replaced or written to."""
    uncounted = tensor.is_inference()  # such tensors have no count, and are read every time
    return tensor.data_ptr(), tensor.dtype, object() if uncounted else tensor._version


def _weights_digest(tensors: list[tuple[str, Any]]) -> bytes:
    import torch

    digest = hashlib.sha256()
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    return digest.digest()
