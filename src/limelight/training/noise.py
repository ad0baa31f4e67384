"""Randomness inside a training step: words shown as UNK, entries of embeddings set to zero."""

__all__ = ["kept_entries", "kept_share", "with_words_lost"]

from typing import Any

import numpy as np
import torch

from limelight.shapes import Array, Float, Int
from limelight.text import CLS, UNK


def kept_share(dropout: float) -> float:
    """Return the probability with which an entry is kept: 1 − dropout, rounded to 1/256."""
    return (256 - round(256 * dropout)) / 256


def kept_entries(
    shape: tuple[int, ...], dropout: float, *, rng: np.random.Generator, device: Any
) -> Float[Array, "..."]:
    """Return a mask: 1 where an entry is kept, else 0.

    One random byte decides per entry: on a CPU this takes a tenth of torch's ``bernoulli_``.
    """
    count, lost = int(np.prod(shape)), round(256 * dropout)
    if torch.device(device).type == "cpu":
        random = torch.from_numpy(np.frombuffer(bytearray(rng.bytes(count)), dtype=np.uint8))
    else:
        generator = torch.Generator(device=device).manual_seed(int(rng.integers(2**63)))
        random = torch.empty(count, dtype=torch.uint8, device=device)
        random.random_(0, 256, generator=generator)
    return (random >= lost).view(shape).float()


def with_words_lost(
    ids: Int[Array, "B T"], share: float, *, rng: np.random.Generator
) -> Int[Array, "B T"]:
    """Return ``ids`` with a random ``share`` of the words replaced by UNK; [cls] stays."""
    lost = torch.from_numpy(rng.random(tuple(ids.shape), dtype=np.float32) < share)
    return ids.masked_fill(lost.to(ids.device) & (ids != CLS), UNK)
