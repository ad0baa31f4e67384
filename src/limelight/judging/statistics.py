"""Shares over texts, and how far they would move with other texts: the text is the unit."""

from typing import NamedTuple

import numpy as np

from limelight.shapes import Float

DRAWS = 2000
# For each column at least: the smallest p-value is 2/draws, and Holm multiplies it by as many
# columns as are compared; with 105 pairs of methods, 2,000 draws could never have told two apart.
_PER_COLUMN = 100
_CELLS = 4_000_000  # weights of texts held at a time


class Resampled(NamedTuple):
    """Σ gain/Σ room of every column, and the same for resampled texts."""

    share: Float[np.ndarray, " c"]
    draws: Float[np.ndarray, "draws c"]

    def interval(self, column: int) -> tuple[float, float]:
        """Return the 95 % percentile interval of a column."""
        known = self.draws[np.isfinite(self.draws[:, column]), column]
        low, high = np.quantile(known, [0.025, 0.975])
        return float(low), float(high)


def resampled(
    gain: Float[np.ndarray, "n c"], room: Float[np.ndarray, " n"], *, seed: int
) -> Resampled:
    """Return shares with their bootstrap over texts; NaN in ``gain``: a text takes no part.

    The same seed draws the same texts, so that differences of columns are paired.
    """
    n, draws = len(room), max(DRAWS, _PER_COLUMN * gain.shape[1])
    there = np.isfinite(gain)
    table = np.concatenate([np.where(there, gain, 0.0), there * room[:, None]], axis=1)
    rng, block, parts = np.random.default_rng(seed), max(1, _CELLS // max(n, 1)), []
    for start in range(0, draws, block):
        count = min(block, draws - start)
        weights = rng.multinomial(n, np.full(n, 1 / n), size=count)
        parts.append(_ratio(weights @ table))
    return Resampled(share=_ratio(table.sum(axis=0)), draws=np.concatenate(parts))


def _ratio(sums: Float[np.ndarray, "*m both"]) -> Float[np.ndarray, "*m c"]:
    gain, room = np.split(sums, 2, axis=-1)
    # A draw may hold no text that a method explains: it has no share then, not an infinite one.
    return np.divide(gain, room, out=np.full_like(gain, np.nan), where=room > 0)


def two_sided(draws: Float[np.ndarray, " draws"], *, texts: int) -> float:
    """Return twice the smaller part of draws on either side of 0, at least 2^(1 − texts)."""
    known = draws[np.isfinite(draws)]
    fewer = min(np.count_nonzero(known <= 0), np.count_nonzero(known >= 0))
    # Resampling three texts that agree always finds agreement. That n signs are all the same has
    # the probability 2^(1 − n) where both are as likely: no test of n differences goes below it.
    return min(1.0, max(2 * (int(fewer) + 1) / (len(known) + 1), 2.0 ** (1 - texts)))


def holm(p: list[float]) -> list[float]:
    """Return p-values corrected for their number: the k-th smallest times m − k, never falling."""
    order = np.argsort(p, kind="stable")
    out = np.empty(len(p))
    out[order] = np.maximum.accumulate(
        np.minimum(1.0, np.asarray(p)[order] * np.arange(len(p), 0, -1))
    )
    return list(map(float, out))
