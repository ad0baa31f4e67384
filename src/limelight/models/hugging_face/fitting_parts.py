"""Whether a network and a tokenizer make a classifier, and belong to each other."""

__all__ = ["check_known", "check_parts"]

from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Int


def check_parts(network: Any, tokenizer: Any) -> None:
    """Refuse a tokenizer that does not know its places, and a network that does not classify."""
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(
            "a model needs its fast tokenizer, which knows the place of every word; got "
            f"{type(tokenizer).__name__}. Pass tokenizer=AutoTokenizer.from_pretrained(…)."
        )
    kinds = type(network).__mro__  # somebody's own class may stand on one of the library's
    if not hasattr(network.config, "id2label") or not any(
        "SequenceClassification" in kind.__name__ for kind in kinds
    ):
        raise InputError(
            "the model must be a sequence classifier (…ForSequenceClassification), or a causal "
            f"language model with template and labels; got {type(network).__name__}."
        )


def check_known(ids: Int[np.ndarray, " _"], rows: int | None, tokenizer: Any) -> None:
    """Refuse tokens beyond the ``rows`` of the embedding; None where nobody knows how many."""
    if rows is not None and (most := int(ids.max(initial=0))) >= rows:
        token = tokenizer.convert_ids_to_tokens(most)
        raise InputError(
            f"the tokenizer reads {token!r} as the token {most}, but the embedding of the "
            f"model has {rows} rows; load the tokenizer that belongs to the model."
        )
