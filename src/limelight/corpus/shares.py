"""Shares of texts with their intervals."""

__all__ = ["share_of"]

import math

from limelight.results.summary import Part

_Z = 1.959963984540054


def share_of(count: int, of: int) -> Part:
    """Return ``count`` of ``of`` with Wilson's 95 % interval; of nothing it is all of [0, 1]."""
    if not of:
        return Part(count=0, of=0, low=0.0, high=1.0)
    p, z2 = count / of, _Z * _Z
    middle = (p + z2 / (2 * of)) / (1 + z2 / of)
    reach = _Z / (1 + z2 / of) * math.sqrt(p * (1 - p) / of + z2 / (4 * of * of))
    low = 0.0 if count == 0 else middle - reach
    return Part(count=count, of=of, low=low, high=1.0 if count == of else middle + reach)
