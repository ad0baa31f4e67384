"""Other people's models come back as they were."""

__all__ = ["untouched"]

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def untouched(model: Any, *, eager: bool = False, hook: Any = None) -> Iterator[None]:
    """Run a block in evaluation mode, then restore every mode, whatever happened.

    ``eager`` computes attention in the one way that shows it; ``hook`` takes the place of the
    embedded input.
    """
    modes = [(module, module.training) for module in model.modules()]
    usual = model.config._attn_implementation
    handle = None
    try:
        model.eval()
        if eager and usual != "eager":
            model.set_attn_implementation("eager")
        if hook is not None:
            handle = model.get_input_embeddings().register_forward_hook(hook)
        yield
    finally:
        if handle is not None:
            handle.remove()
        if eager and usual != "eager":
            model.set_attn_implementation(usual)
        for module, training in modes:
            module.training = training
