"""Dynamic programming over words and numbers of kept words: means over uniform sets of each size.

"Size uniform on 0..d, then a uniform set of that size" is a Markov chain over the words: when k of
the first t words were kept, the next one is kept with probability (k + 1)/(t + 2) (Pólya's urn).
Forward and backward recurrences along the chain have positive factors only and never divide, and so
keep their relative accuracy. Cost O(d²) per node λ for all words.
"""
# Counting sets instead of weighting them would need binomial coefficients, which overflow from
# d = 1030 on. The urn's probabilities are these recurrences already divided by them. Word t could
# also be left out if its factor were divided out of a single forward pass. That is stable only for
# some k. The backward pass costs the same and is always stable.

from typing import NamedTuple

from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace


class ChainSteps(NamedTuple):
    """Contributions of the words to D (as factors e^{−λ·}) and to N, if k earlier words are kept.

    k is the last axis. It has length 1 if k does not matter. The tail is the part of D and N that
    belongs to no word.
    """

    keep_factor: Float[Array, "L d k"]
    keep_value: Float[Array, "C d k"]
    drop_factor: Float[Array, "L d"]
    drop_value: Float[Array, "C d"]
    tail_factor: Float[Array, "L kept"]
    tail_value: Float[Array, "C kept"]


class ChainSums(NamedTuple):
    """Sums over the nodes: for each word t with Z_t = 1, and for each number k of kept words.

    ``word_sums`` is Σ_i w_i E[weight Z_t N e^{−λ_i D}], ``count_sums`` is Σ_i w_i E_k[N e^{−λ_i
    D}].
    """

    word_sums: Float[Array, "C d"]
    count_sums: Float[Array, "C kept"]


def chain_sums(
    steps: ChainSteps, w: Float[Array, " L"], weight: Float[Array, " kept"]
) -> ChainSums:
    """Return the sums of `ChainSums` by a forward and a backward pass over the words.

    ``w`` are the weights of the nodes. ``weight`` is the total weight of all sets of k words, for
    k = 0..d.
    """
    xp = array_namespace(w)
    d = steps.drop_factor.shape[-1]
    forward = _forward_sums(steps)
    F, H = forward[-1]
    # The chain reaches each number k with probability 1/(d + 1). The factor d + 1 removes it.
    count_sums = (H + steps.tail_value[:, None, :] * F) * steps.tail_factor
    count_sums = (d + 1) * xp.sum(count_sums * w[:, None], axis=-2)
    B = (d + 1) * weight * steps.tail_factor
    J = B * steps.tail_value[:, None, :]
    word_sums: list[Array] = []
    for t in range(d - 1, -1, -1):
        F, H = forward[t]
        keep, drop = _step_probabilities(t, w)
        up, value, low, low_value = _step_terms(steps, t)
        B_up, J_up = keep * up * B[:, 1:], keep * up * (J[..., 1:] + value * B[:, 1:])
        # N is additive: H has the part of the words before t, J the part of t and later words.
        word_sums.append(xp.sum((H * B_up + F * J_up) * w[:, None], axis=(-2, -1)))
        J = J_up + drop * low * (J[..., :-1] + low_value * B[:, :-1])
        B = B_up + drop * low * B[:, :-1]
    return ChainSums(word_sums=xp.stack(word_sums[::-1], axis=-1), count_sums=count_sums)


def _step_probabilities(t: int, like: Array) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Return the probabilities to keep and to drop word t if k = 0..t earlier words are kept."""
    xp = array_namespace(like)
    k = xp.arange(t + 1, dtype=like.dtype, device=like.device)
    return (k + 1) / (t + 2), (t - k + 1) / (t + 2)


def _step_terms(steps: ChainSteps, t: int) -> tuple[Array, Array, Array, Array]:
    """Return the factor and the value of word t if it is kept, then if it is dropped.

    Shapes: (L, k), (C, 1, k), (L, 1), (C, 1, 1).
    """
    return (
        steps.keep_factor[:, t, : t + 1],
        steps.keep_value[:, None, t, : t + 1],
        steps.drop_factor[:, t, None],
        steps.drop_value[:, None, t, None],
    )


def _forward_sums(steps: ChainSteps) -> list[tuple[Float[Array, "L k"], Float[Array, "C L k"]]]:
    """Return E[1{k of the first t words kept} e^{−λD}], and the same times N, for t = 0..d."""
    xp = array_namespace(steps.drop_factor)
    F = xp.ones_like(steps.drop_factor[:, :1])
    H = xp.zeros_like(steps.drop_value[:, :1, None] * F)
    states = [(F, H)]
    zero, zero_value = xp.zeros_like(F), H
    for t in range(steps.drop_factor.shape[-1]):
        keep, drop = _step_probabilities(t, steps.drop_factor[:, 0])
        up, value, low, low_value = _step_terms(steps, t)
        F_up, H_up = keep * up * F, keep * up * (H + value * F)
        F_low, H_low = drop * low * F, drop * low * (H + low_value * F)
        F = xp.concat([zero, F_up], axis=-1) + xp.concat([F_low, zero], axis=-1)
        H = xp.concat([zero_value, H_up], axis=-1) + xp.concat([H_low, zero_value], axis=-1)
        states.append((F, H))
    return states
