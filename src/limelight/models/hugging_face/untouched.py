"""Other people's models come back as they were."""

__all__ = ["untouched", "untouched_tokenizer"]

import contextlib
from collections.abc import Iterator
from typing import Any

from limelight.models.hugging_face.input_table import input_table

_INSTALLED = "_output_capturing_hooks_installed"  # how transformers remembers its recorders


@contextlib.contextmanager
def untouched(model: Any, *, eager: bool = False, hook: Any = None) -> Iterator[None]:
    """Run a block in evaluation mode, then restore every mode, whatever happened.

    ``eager`` computes attention in the one way that shows it; ``hook`` takes the place of the
    embedded input.
    """
    before = [(module, module.training, _hooks(module)) for module in model.modules()]
    usual = model.config._attn_implementation
    handles = []
    try:
        model.eval()
        if eager and usual != "eager":
            model.set_attn_implementation("eager")
        if hook is not None:
            handles = [one.register_forward_hook(hook) for one in _embeddings(model)]
        yield
    finally:
        for handle in handles:
            handle.remove()
        if eager and usual != "eager":
            model.set_attn_implementation(usual)
        for module, training, hooks in before:
            module.training = training
            if _hooks(module) != hooks:
                _restore(module, hooks)


@contextlib.contextmanager
def untouched_tokenizer(tokenizer: Any) -> Iterator[None]:
    """Run a block, then cut and pad texts as before: every call of a tokenizer sets it anew."""
    backend = tokenizer.backend_tokenizer
    truncation, padding = backend.truncation, backend.padding
    try:
        yield
    finally:
        if truncation is not None and backend.truncation != truncation:
            backend.enable_truncation(**truncation)
        if padding is not None and backend.padding != padding:
            backend.enable_padding(**padding)


def _embeddings(model: Any) -> list[Any]:
    """The input embedding, and others that share its weight: those of encoder and decoder."""
    import torch

    first = input_table(model)
    weight = getattr(first, "weight", None)
    tied = [
        module
        for module in model.modules()
        if module is not first and isinstance(module, torch.nn.Embedding)
    ]
    return [first, *(one for one in tied if weight is not None and one.weight is weight)]


def _hooks(module: Any) -> tuple[dict[int, Any], bool]:
    """What runs after the module, and whether transformers has put recorders of its own there."""
    return dict(module._forward_hooks), _INSTALLED in module.__dict__


def _restore(module: Any, hooks: tuple[dict[int, Any], bool]) -> None:
    kept, installed = hooks
    for number in [number for number in module._forward_hooks if number not in kept]:
        for hidden in (
            module._forward_hooks,
            module._forward_hooks_with_kwargs,
            module._forward_hooks_always_called,
        ):
            hidden.pop(number, None)
    if not installed:
        module.__dict__.pop(_INSTALLED, None)
