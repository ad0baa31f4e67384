"""Which words a sample keeps, how much it counts, and the random stream that draws it."""

import hashlib
from collections.abc import Sequence

import numpy as np

from limelight.errors import InputError, nearest
from limelight.shapes import Bool, Float, Int
from limelight.theory.lime_weights import size_weight

Masks = Bool[np.ndarray, "n d"]  # a row each, True where a word stays
Indicators = Float[np.ndarray, "n d"]  # the same as numbers
PerMask = Float[np.ndarray, " n"]
Rng = np.random.Generator

# Sizes are drawn in proportion to this power of their weight ψ(s). With 5000 samples of reviews of
# 100 words 0.5 has 1.26 times less variance than 0, and 1 has 1.16. How often ±2 standard errors
# hold does not depend on it (`benchmarks/coverage_study.py`).
SIZES = {"uniform": 0.0, "balanced": 0.5, "importance": 1.0}


def size_probabilities(d: int, sizes: str, bandwidth: float) -> Float[np.ndarray, " d"]:
    """Return the probability of removing s = 1..d words.

    "uniform" is the choice of the `lime` package; "importance" draws s in proportion to its weight
    ψ(s), so that samples which count little are rarely drawn; "balanced" in proportion to √ψ(s).
    """
    if sizes not in SIZES:
        raise InputError(nearest("sizes", sizes, SIZES))
    weight = size_weight(d, bandwidth)[1:] ** SIZES[sizes]
    return weight / weight.sum()


def lime_masks(
    d: int, n: int, rng: Rng, *, probabilities: Float[np.ndarray, " d"] | None = None
) -> Masks:
    """Return ``n`` masks: a size s from 1..d, then s words removed, every such set alike.

    ``probabilities`` of the sizes; None is uniform.
    """
    if probabilities is None:
        removed = rng.integers(1, d + 1, n)
    else:
        # The last edge is left out: by a rounding below 1 it could give the size d + 1.
        steps = np.cumsum(probabilities)
        removed = 1 + np.searchsorted(steps[:-1] / steps[-1], rng.random(n), side="right")
    return sized_masks(d, removed, rng)


def sized_masks(d: int, removed: Int[np.ndarray, " n"], rng: Rng) -> Masks:
    """Return a mask for each number of ``removed`` words, every such set alike."""
    # The s lowest of d random places are a uniform set: one sort for all rows, where drawing
    # without replacement would be a loop over them.
    n = len(removed)
    place = rng.random((n, d))
    last_removed = np.sort(place, axis=1)[np.arange(n), np.maximum(removed, 1) - 1]
    return (place > last_removed[:, None]) | (removed == 0)[:, None]


def coin_masks(d: int, n: int, rng: Rng, *, held: Sequence[int] = ()) -> Masks:
    """Return ``n`` masks that keep every word with probability 1/2, and ``held`` always."""
    # A random byte holds eight coins: an eighth of the draws.
    bits = rng.integers(0, 256, (n, (d + 7) // 8), dtype=np.uint8)
    keep = np.unpackbits(bits, axis=1, count=d).view(np.bool_)
    keep[:, list(held)] = True
    return keep


def balanced_masks(d: int, n: int, rng: Rng) -> Masks:
    """Return ``n`` masks by fair coins that fall evenly, in blocks of 2^k > d independent ones.

    A block is d columns of a Hadamard matrix, but for the constant one, in random order, rows too,
    and every column is turned over by a coin: each mask by itself is as likely as any other, and in
    a whole block any two words stay together as often as apart.
    """
    # Slopes of a line then owe nothing to words that went together by chance. Of 16 words under
    # MiniLM, a small GPT-2 and a model of pairs, the error of Banzhaf values was .65 to .69 of that
    # of plain coins at 64 calls, .82 to .86 at 128 and .93 to 1.01 at 1,000.
    size, blocks = 1 << d.bit_length(), []
    for start in range(0, n, size):
        row = rng.permutation(size)[: n - start, None].astype(np.uint32)
        column = 1 + rng.permutation(size - 1)[:d].astype(np.uint32)
        odd = np.bitwise_count(row & column) & 1
        blocks.append((odd ^ rng.integers(0, 2, d, dtype=np.uint8)).view(np.bool_))
    return np.concatenate(blocks)


def text_rng(seed: int, text: str) -> Rng:
    """Return the stream of ``text`` under ``seed``: the same alone, in a list, and in any order."""
    if seed < 0:
        raise InputError(f"seed must be 0 or more; got {seed}.")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:16], "big")])
