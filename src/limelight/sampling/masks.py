"""Random masks, which say what features a sample keeps, and random streams that draw them."""

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from limelight.errors import InputError, unknown_name_message
from limelight.shapes import Bool, Float, Int, Rng
from limelight.theory.lime_weights import size_weight

Masks = Bool[np.ndarray, "n d"]  # one row per mask, True if the feature stays
Indicators = Float[np.ndarray, "n d"]  # the same as numbers
PerMask = Float[np.ndarray, " n"]

# The number s of removed features is drawn in proportion to this power of its weight ψ(s). With
# 5000 samples of reviews of 100 words, 0.5 has 1.26 times less variance than 0, and 1 has 1.16. How
# often ±2 standard errors cover the truth does not depend on it (`benchmarks/coverage_study.py`).
MASK_SIZE_POWERS = {"uniform": 0.0, "balanced": 0.5, "importance": 1.0}


def removed_count_probabilities(d: int, sizes: str, bandwidth: float) -> Float[np.ndarray, " d"]:
    """Return the probability that a mask removes s features, for s = 1..d.

    LIME's regression gives a mask without s features the weight ψ(s), a kernel of width
    ``bandwidth``. With "uniform", all s are equally likely, as in the `lime` package. With
    "importance", the probability is proportional to ψ(s), so that few samples have little weight.
    With "balanced", the probability is proportional to √ψ(s).
    """
    if sizes not in MASK_SIZE_POWERS:
        raise InputError(unknown_name_message("sizes", sizes, MASK_SIZE_POWERS))
    weight = size_weight(d, bandwidth)[1:] ** MASK_SIZE_POWERS[sizes]
    return weight / weight.sum()


def draw_lime_masks(
    d: int, n: int, rng: Rng, *, probabilities: Float[np.ndarray, " d"] | None = None
) -> Masks:
    """Draw masks that remove s of d features, with s from 1..d and every set equally likely.

    Parameters
    ----------
    d
        Number of features.
    n
        Number of masks.
    rng
        Source of the random masks.
    probabilities
        Probability of each s; None is uniform.

    Returns
    -------
    One mask per row.
    """
    if probabilities is None:
        removed = rng.integers(1, d + 1, n)
    else:
        # The last edge is left out. Rounded to less than 1, it could give the size d + 1.
        steps = np.cumsum(probabilities)
        removed = 1 + np.searchsorted(steps[:-1] / steps[-1], rng.random(n), side="right")
    return draw_masks_by_size(d, removed, rng)


def draw_masks_by_size(d: int, removed_counts: Int[np.ndarray, " n"], rng: Rng) -> Masks:
    """Draw one mask for each number of removed features, with every set equally likely."""
    # The features with the s lowest of d random keys are a uniform set. This takes one sort for all
    # rows, and drawing without replacement would be a loop over them.
    n = len(removed_counts)
    keys = rng.random((n, d))
    last_removed = np.sort(keys, axis=1)[np.arange(n), np.maximum(removed_counts, 1) - 1]
    return (keys > last_removed[:, None]) | (removed_counts == 0)[:, None]


def draw_coin_masks(d: int, n: int, rng: Rng, *, fixed_features: Sequence[int] = ()) -> Masks:
    """Draw ``n`` masks that keep each feature with probability 1/2.

    Parameters
    ----------
    d
        Number of features.
    n
        Number of masks.
    rng
        Source of the random masks.
    fixed_features
        Features that every mask keeps.

    Returns
    -------
    One mask per row.
    """
    # A random byte holds eight coins: an eighth of the draws.
    bits = rng.integers(0, 256, (n, (d + 7) // 8), dtype=np.uint8)
    keep = np.unpackbits(bits, axis=1, count=d).view(np.bool_)
    keep[:, list(fixed_features)] = True
    return keep


_MIN_PRIME = 31  # with smaller blocks, standard errors are too small


def draw_balanced_masks(d: int, n: int, rng: Rng) -> Masks:
    """Draw ``n`` masks by fair coins that are balanced over independent blocks of equal size.

    A block is a Hadamard matrix by Paley's construction, with q + 1 rows for a prime q ≥ d with
    q mod 4 = 3, and q ≥ 31. d of its columns and all of its rows are in random order, and a coin
    inverts every column. Each mask by itself is as likely as any other. In a complete block any two
    features are kept or removed together in half of the rows. Blocks are as small as possible, so
    that ``n`` masks fill blocks of equal size, except for the last one.
    """
    # Slopes of a regression then do not depend on features that were together by chance.
    # Sylvester's Hadamard matrices would be wrong: there the product of three columns is one other
    # column, whose feature got the joint effect of the three in every row of a block. Errors over
    # rows could not show it, and ±2 covered .89 for an AND of three words. Here such a product is
    # spread over the other columns. Its share in a feature is at most (2√q + 4)/(q + 1): the sum of
    # the quadratic characters of a monic polynomial of degree 4 differs from −1 by 2√q or less. Its
    # root mean square over the other features is, in the mean over blocks, at most
    # √((q + 1)/(q − 3)) times that of plain coins, because the columns are an orthogonal basis.
    # Errors over rows do not show that factor either. It is 1.07 at q = 31. At q = 11 it is 1.22,
    # and ±2 covered .90 of the words outside an AND.
    smallest_prime = _paley_prime(max(d, _MIN_PRIME))
    blocks = max(1, n // (smallest_prime + 1))
    q = _paley_prime(max(smallest_prime, math.ceil(n / blocks) - 1))
    is_square = np.zeros(q, np.bool_)
    is_square[np.arange(1, q) ** 2 % q] = True
    masks = []
    for start in range(0, n, q + 1):
        row = rng.permutation(q + 1)[: n - start].astype(np.int32)
        column = rng.permutation(q)[:d].astype(np.int32)
        # Differences may be negative. NumPy counts such indices from the end, which is modulo q.
        keep = is_square[(row % q)[:, None] - column]
        keep[row == q] = True
        masks.append(keep ^ rng.integers(0, 2, d, dtype=np.uint8).view(np.bool_))
    return np.concatenate(masks)


def _paley_prime(minimum: int) -> int:
    """Return the smallest prime q ≥ ``minimum`` with q mod 4 = 3."""
    q = minimum + (3 - minimum) % 4
    while any(q % factor == 0 for factor in range(3, math.isqrt(q) + 1, 2)):
        q += 4
    return q


def text_rng(seed: int, text: str) -> Rng:
    """Return a random generator for a text, which depends on the text and the seed only.

    A text has the same random numbers by itself, in a list, and in any order of the list.
    """
    if seed < 0:
        raise InputError(f"seed must be at least 0, not {seed}.")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:16], "big")])
