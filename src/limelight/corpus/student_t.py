r"""Student's t distribution, without SciPy: tails for tests, quantiles for intervals.

With :math:`x = \nu/(\nu + t^2)`, :math:`P(|T| > |t|) = I_x(\nu/2, 1/2)`, the regularized incomplete
beta function, by the continued fraction of DLMF 8.17.22.
"""

__all__ = ["t_quantile", "two_sided_p"]

from functools import lru_cache

import numpy as np

from limelight.shapes import Float

_TERMS, _TINY, _WHOLE = 300, 1e-300, 400
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def two_sided_p(
    t: Float[np.ndarray, " n"], freedom: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return P(|T| > |t|) for ``freedom`` > 0 degrees of freedom; they need not be whole."""
    t, nu = np.broadcast_arrays(np.abs(np.asarray(t, float)), np.asarray(freedom, float))
    x = nu / (nu + t * t)
    return np.where(np.isinf(t), 0.0, _regularized_beta(x, nu / 2, np.full_like(nu, 0.5)))


def t_quantile(freedom: Float[np.ndarray, " n"], *, level: float = 0.95) -> Float[np.ndarray, " n"]:
    """Return q with P(|T| ≤ q) = ``level`` for ``freedom`` ≥ 1, whole; by bisection.

    Beyond ``_WHOLE`` degrees of freedom q is interpolated in 1/freedom, which is right to 1e-6.
    """
    nu = np.asarray(freedom, float)
    table = _quantiles(level)
    within = np.clip(nu, 1, _WHOLE).astype(np.int64)
    end, limit = table[_WHOLE], table[0]
    return np.where(nu <= _WHOLE, table[within], limit + (end - limit) * _WHOLE / np.maximum(nu, 1))


@lru_cache(maxsize=8)
def _quantiles(level: float) -> Float[np.ndarray, " n"]:
    """Return the quantiles for 1 … ``_WHOLE`` degrees of freedom; first the normal one's."""
    nu = np.concatenate([[1e9], np.arange(1.0, _WHOLE + 1)])
    low, high = np.zeros_like(nu), np.full_like(nu, 1e3)
    for _ in range(60):
        middle = (low + high) / 2
        inside = two_sided_p(middle, nu) > 1 - level
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return (low + high) / 2


def _regularized_beta(
    x: Float[np.ndarray, " n"], a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    # The fraction converges fast for x < (a + 1)/(a + b + 2); I_x(a, b) = 1 − I_{1−x}(b, a).
    swap = x > (a + 1) / (a + b + 2)
    x, a, b = np.where(swap, 1 - x, x), np.where(swap, b, a), np.where(swap, a, b)
    with np.errstate(divide="ignore"):
        front = a * np.log(x) + b * np.log1p(-x)
    front = front + _log_gamma(a + b) - _log_gamma(a) - _log_gamma(b)
    value = np.exp(front) * _fraction(x, a, b) / a
    return np.clip(np.where(swap, 1 - value, value), 0.0, 1.0)


def _fraction(
    x: Float[np.ndarray, " n"], a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return the continued fraction by Lentz's method; what has converged takes no more terms."""
    found = np.empty_like(x)
    c = np.ones_like(x)
    d = 1 / _away(1 - (a + b) * x / (a + 1))
    value, place = d, np.arange(len(x))
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d, c = 1 / _away(1 + step * d), _away(1 + step / c)
            value = value * c * d
        going = ~(np.abs(c * d - 1) < 1e-15)
        if m % 4 == 0 and not going.all():
            found[place[~going]] = value[~going]
            place = place[going]
            x, a, b, c, d, value = (v[going] for v in (x, a, b, c, d, value))
        if not len(place):
            break
    found[place] = value
    return found


def _away(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return np.where(np.abs(x) < _TINY, _TINY, x)


def _log_gamma(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return log Γ(x), x > 0, by Stirling's series at x + 8, which is then right to 1e-13."""
    shift = sum(np.log(x + k) for k in range(8))
    y = x + 8
    series = sum(c / y ** (2 * k + 1) for k, c in enumerate(_STIRLING))
    return (y - 0.5) * np.log(y) - y + 0.5 * np.log(2 * np.pi) + series - shift
