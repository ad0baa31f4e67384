"""Dynamic programming over words and numbers kept: expectations over uniform sets of every size.

"Size uniform on 0..d, then a uniform set of that size" is a Markov chain over the words: when k of
the first t words were kept, the next one is kept with probability (k + 1)/(t + 2) (Pólya's urn).
Forward and backward recurrences along the chain have positive factors only and never divide, and so
keep their relative accuracy. Cost O(d²) per node λ for all words.
"""
# Counting sets instead of weighing them would carry binomial coefficients, which overflow from
# d = 1030 on; the urn's odds are these recurrences already divided by them. To leave word t out one
# could also divide its factor out of a single forward pass, which is stable only from one side of k
# or the other; the backward pass costs as much and needs no care.

from typing import NamedTuple

from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace


class Steps(NamedTuple):
    """What the words add to D (as e^{−λ·}) and to N, when k words were kept before them.

    k is the last axis; of length 1 where it does not matter.
    """

    keep_factor: Float[Array, "L d k"]
    keep_value: Float[Array, "C d k"]
    drop_factor: Float[Array, "L d"]
    drop_value: Float[Array, "C d"]
    tail_factor: Float[Array, "L kept"]
    tail_value: Float[Array, "C kept"]


class ChainSums(NamedTuple):
    """Σ_i w_i E[weight Z_t N e^{−λ_i D}] by word, and Σ_i w_i E_k[N e^{−λ_i D}] by number kept."""

    kept: Float[Array, "C d"]
    by_count: Float[Array, "C kept"]


def chain_sums(steps: Steps, w: Float[Array, " L"], weight: Float[Array, " kept"]) -> ChainSums:
    """Both sums; ``weight`` is that of all sets of k words together, for k = 0..d."""
    xp = array_namespace(w)
    d = steps.drop_factor.shape[-1]
    forward = _forward(steps)
    F, H = forward[-1]
    # The chain reaches each number k with probability 1/(d + 1): the factor takes it out again.
    by_count = (H + steps.tail_value[:, None, :] * F) * steps.tail_factor
    by_count = (d + 1) * xp.sum(by_count * w[:, None], axis=-2)
    B = (d + 1) * weight * steps.tail_factor
    J = B * steps.tail_value[:, None, :]
    kept: list[Array] = []
    for t in range(d - 1, -1, -1):
        F, H = forward[t]
        keep, drop = _odds(t, w)
        up, value, low, low_value = _step(steps, t)
        B_up, J_up = keep * up * B[:, 1:], keep * up * (J[..., 1:] + value * B[:, 1:])
        # N is additive: what words before t add is in H, what t and later words add is in J.
        kept.append(xp.sum((H * B_up + F * J_up) * w[:, None], axis=(-2, -1)))
        J = J_up + drop * low * (J[..., :-1] + low_value * B[:, :-1])
        B = B_up + drop * low * B[:, :-1]
    return ChainSums(kept=xp.stack(kept[::-1], axis=-1), by_count=by_count)


def _odds(t: int, like: Array) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Probabilities to keep and to drop word t when k = 0..t words were kept before it."""
    xp = array_namespace(like)
    k = xp.arange(t + 1, dtype=like.dtype, device=like.device)
    return (k + 1) / (t + 2), (t - k + 1) / (t + 2)


def _step(steps: Steps, t: int) -> tuple[Array, Array, Array, Array]:
    """Factor and value of keeping, then of dropping, word t.

    Shapes (L, k), (C, 1, k), (L, 1), (C, 1, 1).
    """
    return (
        steps.keep_factor[:, t, : t + 1],
        steps.keep_value[:, None, t, : t + 1],
        steps.drop_factor[:, t, None],
        steps.drop_value[:, None, t, None],
    )


def _forward(steps: Steps) -> list[tuple[Float[Array, "L k"], Float[Array, "C L k"]]]:
    """E[1{k kept of the first t} e^{−λD}] and the same times N, for t = 0..d."""
    xp = array_namespace(steps.drop_factor)
    F = xp.ones_like(steps.drop_factor[:, :1])
    H = xp.zeros_like(steps.drop_value[:, :1, None] * F)
    out = [(F, H)]
    none, none_value = xp.zeros_like(F), H
    for t in range(steps.drop_factor.shape[-1]):
        keep, drop = _odds(t, steps.drop_factor[:, 0])
        up, value, low, low_value = _step(steps, t)
        F_up, H_up = keep * up * F, keep * up * (H + value * F)
        F_low, H_low = drop * low * F, drop * low * (H + low_value * F)
        F = xp.concat([none, F_up], axis=-1) + xp.concat([F_low, none], axis=-1)
        H = xp.concat([none_value, H_up], axis=-1) + xp.concat([H_low, none_value], axis=-1)
        out.append((F, H))
    return out
