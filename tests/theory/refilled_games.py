"""Random games with refills, and their values from all sets of words and all refills."""

import itertools
import math
from functools import cache

import numpy as np

from limelight.theory.lime_weights import lime_design
from limelight.theory.refilling import RefillGame, compress_words


class RandomRefills:
    """Numbers of a text of ``d`` words at ``T`` positions, and of a background of ``n`` words."""

    def __init__(self, seed, *, d, T, n, K=2, C=1, spread=1.0):
        rng = np.random.default_rng(seed)
        self.group = np.concatenate([np.arange(d), rng.integers(0, d, T - d)])
        self.d, self.T, self.n, self.K, self.C = d, T, n, K, C
        self.word_logit = spread * rng.standard_normal((K, n))
        self.word_value = rng.standard_normal((K, C, n))
        self.position_logit = spread * rng.standard_normal((K, T))
        self.position_value = rng.standard_normal((C, K, T))
        self.probability = rng.dirichlet(np.ones(n))
        self.words = rng.integers(0, n, T)
        self.fixed = np.exp(rng.standard_normal(K))
        self.fixed_value = rng.standard_normal((C, K)) * self.fixed

    def weights(self, words):
        """The weights and the values of a row of words at all positions."""
        g = np.exp(self.word_logit[:, words] + self.position_logit)
        return g, self.word_value[..., words].transpose(1, 0, 2) + self.position_value

    def output(self, words):
        """f of a row of words: the mean over heads of a weighted mean of values."""
        g, u = self.weights(words)
        return ((self.fixed_value + (g * u).sum(-1)) / (self.fixed + g.sum(-1))).mean(axis=-1)

    def game(self):
        """The game that the library computes with."""
        g, u = self.weights(self.words)
        member = (self.group[:, None] == np.arange(self.d)).astype(float)

        @cache
        def words(order):
            pairs = zip(self.word_logit, self.word_value, strict=True)
            return [compress_words(x, v, self.probability, order=order) for x, v in pairs]

        return RefillGame(
            D0=self.fixed,
            a=g @ member,
            N0=self.fixed_value,
            A=(g * u) @ member,
            words=words,
            scale=np.exp(self.position_logit + self.word_logit.max(axis=1)[:, None]),
            position_value=self.position_value,
            group=self.group,
            error=np.zeros((self.C, self.K)),
        )

    def masks(self):
        """All sets of kept words; mask i keeps word j if bit j of i is 1."""
        return (np.arange(2**self.d)[:, None] >> np.arange(self.d) & 1).astype(bool)

    def values(self):
        """Reference: v of all sets, the mean of f over all refills of the other positions."""
        rows = []
        for mask in self.masks():
            (places,) = np.nonzero(~mask[self.group])
            total = np.zeros(self.C)
            for draw in itertools.product(range(self.n), repeat=len(places)):
                words = self.words.copy()
                words[places] = draw
                total += np.prod(self.probability[list(draw)]) * self.output(words)
            rows.append(total)
        return np.array(rows)


def mean_effects(v, d, weight):
    """Σ_S weight(#S) (v(S + j) − v(S)) over the sets S without j, for every word j."""
    effects = [
        sum(
            weight(mask.bit_count()) * (v[mask | 1 << j] - v[mask])
            for mask in range(2**d)
            if not mask >> j & 1
        )
        for j in range(d)
    ]
    return np.array(effects).T


def shapley_weight(d):
    """The weight of a set of s other words in a Shapley value."""
    return lambda s: math.factorial(s) * math.factorial(d - s - 1) / math.factorial(d)


def lime_slopes(v, masks, bandwidth):
    """LIME's slopes by weighted least squares on all sets."""
    d = masks.shape[1]
    removed = d - masks.sum(axis=1)
    sets = np.array([math.comb(d, int(s)) for s in removed])
    weight = np.sqrt(lime_design(d, bandwidth=bandwidth).weight[removed] / sets)
    X = np.column_stack([np.ones(len(masks)), masks]) * weight[:, None]
    return np.linalg.lstsq(X, v * weight[:, None], rcond=None)[0][1:].T
