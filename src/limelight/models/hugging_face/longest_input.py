"""How many tokens a transformers network reads."""

__all__ = ["longest_input"]

from typing import Any

from limelight.errors import InputError
from limelight.text import one_line

_ENDLESS = 10**30  # what transformers says where nobody set a limit
# What configurations call the number of places that were trained.
_NAMES = ("max_position_embeddings", "max_seq_len")


def longest_input(network: Any, tokenizer: Any) -> int:
    """Return how many pieces the model reads, special ones included."""
    longest = [_of_tokenizer(tokenizer.model_max_length)]
    for name in _NAMES:
        places = getattr(network.config, name, None)
        if isinstance(places, int) and places > 0:
            longest.append(places - _first_place(network))
    return min(longest)


def _of_tokenizer(given: Any) -> int:
    """Return the tokenizer's own limit, which stands in a file and may be anything."""
    if not isinstance(given, int | float) or not given >= 1:
        raise InputError(
            "model_max_length of the tokenizer must be a positive number; got "
            f"{one_line(repr(given))}."
        )
    return int(min(given, _ENDLESS))


def _first_place(network: Any) -> int:
    """Return the number of the first place: RoBERTa counts from after the index of the padding."""
    offsets = [
        module.padding_idx + 1
        for name, module in network.named_modules()
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None
    ]
    return max(offsets, default=0)
