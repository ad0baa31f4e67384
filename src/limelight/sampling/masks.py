"""Which words a sample keeps, how much it counts, and the random stream that draws it."""

import hashlib
import math
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


_SMALLEST_PRIME = 31  # of a block: with smaller ones standard errors are too small


def balanced_masks(d: int, n: int, rng: Rng) -> Masks:
    """Return ``n`` masks by fair coins that fall evenly, in independent blocks of equal size.

    A block is a Hadamard matrix by Paley's construction, of q + 1 rows for a prime q ≥ d with
    q mod 4 = 3, and q ≥ 31. Its columns are those of d words in random order, its rows are in
    random order too, and a coin turns every column over. Each mask by itself is as likely as any
    other, and in a complete block any two words stay together as often as apart. Blocks are as
    small as possible, so that ``n`` masks fill blocks of equal size, but for the last one.
    """
    # Slopes of a line then owe nothing to words that went together by chance.
    # Not Sylvester's Hadamard matrices: there the product of three columns is one other column,
    # whose word got the joint effect of the three in every row of a block. Errors over rows could
    # not show it, and ±2 held .89 for an AND of three words. Here such a product is spread over the
    # other columns. Its share in a word is at most (2√q + 4)/(q + 1): the sum of the quadratic
    # characters of a monic polynomial of degree 4 differs from −1 by 2√q or less. Its root mean
    # square over the other words is, in the mean over blocks, at most √((q + 1)/(q − 3)) times
    # that of plain coins, because the columns are an orthogonal basis. Errors over rows do not show
    # that factor either. It is 1.07 at q = 31. At q = 11 it is 1.22, and ±2 held .90 of the words
    # outside an AND.
    smallest = _paley_prime(max(d, _SMALLEST_PRIME))
    blocks = max(1, n // (smallest + 1))
    q = _paley_prime(max(smallest, math.ceil(n / blocks) - 1))
    is_square = np.zeros(q, np.bool_)
    is_square[np.arange(1, q) ** 2 % q] = True
    masks = []
    for start in range(0, n, q + 1):
        row = rng.permutation(q + 1)[: n - start].astype(np.int32)
        column = rng.permutation(q)[:d].astype(np.int32)
        # Differences may be negative: NumPy counts those places from the end, modulo q.
        keep = is_square[(row % q)[:, None] - column]
        keep[row == q] = True
        masks.append(keep ^ rng.integers(0, 2, d, dtype=np.uint8).view(np.bool_))
    return np.concatenate(masks)


def _paley_prime(least: int) -> int:
    """Return the smallest prime q ≥ ``least`` with q mod 4 = 3."""
    q = least + (3 - least) % 4
    while any(q % factor == 0 for factor in range(3, math.isqrt(q) + 1, 2)):
        q += 4
    return q


def text_rng(seed: int, text: str) -> Rng:
    """Return the stream of ``text`` under ``seed``: the same alone, in a list, and in any order."""
    if seed < 0:
        raise InputError(f"seed must be 0 or more; got {seed}.")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:16], "big")])
