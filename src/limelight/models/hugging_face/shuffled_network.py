"""A network that has learned nothing: a copy with its weights in random places."""

__all__ = ["shuffled_network"]

import copy
from typing import Any


def shuffled_network(network: Any, seed: int) -> Any:
    """Return a copy of ``network`` in which every weight holds its own numbers in random places.

    The sizes of the weights stay what they were, so the network answers numbers of the usual size,
    which fresh weights need not do. Weights that layers share stay shared.
    """
    import torch

    twin = copy.deepcopy(network)
    drawn = torch.Generator().manual_seed(seed)  # on the host: the same on every device
    with torch.no_grad():
        for weight in twin.parameters():
            if weight.is_floating_point():
                places = torch.randperm(weight.numel(), generator=drawn).to(weight.device)
                weight.copy_(weight.flatten()[places].reshape(weight.shape))
    return twin
