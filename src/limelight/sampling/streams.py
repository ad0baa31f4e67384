"""Random streams: one per text, whatever stands beside it in a list."""

__all__ = ["text_rng"]

import hashlib

import numpy as np

from limelight.errors import InputError


def text_rng(seed: int, text: str) -> np.random.Generator:
    """Return the stream of ``text`` under ``seed``: the same alone, in a list, and in any order."""
    if seed < 0:
        raise InputError(f"seed must be 0 or more; got {seed}.")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:16], "big")])
