"""Tokens that stand for something else: for a removed word, or for a text of no pieces."""

__all__ = ["ids_moved", "nothing_token", "standing_tokens"]

from collections.abc import Mapping
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.hugging_face.pieces import Pieces, feature_of_piece
from limelight.shapes import Int
from limelight.text import Features


def standing_tokens(network: Any, tokenizer: Any) -> dict[str, int]:
    """Return the tokens that may stand in the place of another, by name."""
    pad, unknown = network.config.pad_token_id, tokenizer.unk_token_id
    known = {
        "mask": tokenizer.mask_token_id,
        # Decoders read the last piece that is not padding: one that is both moves the head.
        "unk": None if unknown == pad else unknown,
        "pad": pad,
    }
    return {name: int(token) for name, token in known.items() if token is not None}


def nothing_token(tokenizer: Any) -> int:
    """Return what stands for a text of no pieces at all: the token that begins or ends others."""
    choices = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, 0)
    return next(int(token) for token in choices if token is not None)


def ids_moved(
    pieces: Pieces, features: Features, tokens: Mapping[str, int], replacement: str
) -> Int[np.ndarray, " T"]:
    """Return the ids that are read, those of ``features`` moved to the token of that name."""
    if replacement not in tokens:
        named = " or ".join(map(repr, tokens))
        raise InputError(
            "integrated gradients move every word to a token in its own place; "
            + (f"use replacement {named}." if named else "use 'lime' or 'shapley'.")
        )
    feature = feature_of_piece(pieces, features)[pieces.inside]
    return np.where(feature >= 0, tokens[replacement], pieces.ids[pieces.inside])
