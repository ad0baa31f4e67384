"""Mean-field formulas against their integrals, token by token and by another rule."""

__all__ = ["mean_field_checks"]

from collections.abc import Iterator

import numpy as np

from limelight.checks.check import Check, explained
from limelight.explainers import Reading
from limelight.shapes import Float

_STEPS = 2_000
_AGREED = 1e-9


def mean_field_checks(reading: Reading) -> Iterator[Check]:
    """Both formulas by even steps in y, x = 1/(1 + e^{−2 sinh y}), from every token's attention."""
    y, step = np.linspace(-4, 4, _STEPS, retstep=True)
    x, rest = 1 / (1 + np.exp(-2 * np.sinh(y))), 1 / (1 + np.exp(2 * np.sinh(y)))
    weight = 2 * np.cosh(y) * x * rest * step
    psi = weight * np.exp(-((1 - np.sqrt(x)) ** 2) / (2 * 0.25**2))
    d = len(reading.features[0])
    kernels = {"shapley-mean-field": weight}
    if d > 1:
        kernels["lime-mean-field"] = psi * x * rest
    for method, kernel in kernels.items():
        heads = _heads(reading, x, rest, kernel / kernel.sum())
        expected = np.mean([scores for scores, _ in heads], axis=0)
        if method == "lime-mean-field":
            left = x - psi @ x / psi.sum()
            slopes = [(psi * left) @ f / ((psi * left) @ x) for _, f in heads]
            expected = expected + (np.mean(slopes) - expected.sum()) / d
        scores = explained(reading, method).scores
        yield Check(
            method=method,
            against=f"its integral in {_STEPS} steps",
            error=float(np.abs(scores - expected).max()),
            allowed=_AGREED,
        )


def _heads(
    reading: Reading,
    x: Float[np.ndarray, " n"],
    rest: Float[np.ndarray, " n"],
    kernel: Float[np.ndarray, " n"],
) -> list[tuple[Float[np.ndarray, " d"], Float[np.ndarray, " n"]]]:
    """Of every head ∫ κ h_j for each word and f̄ at the shares ``x``."""
    arrays, weights = reading.collapsed, reading.target_weights[0]
    of_token = np.concatenate([[-1], reading.features[0].of_token])
    words = np.flatnonzero(of_token >= 0)
    found = []
    for head in range(arrays.logit.shape[1]):
        kept, removed = arrays.logit[0, head], arrays.base_logit[0, head]
        top = max(kept.max(), removed.max())
        g, h = np.exp(kept - top), np.exp(removed - top)
        u, v = weights @ arrays.u[0, :, head], weights @ arrays.base_u[0, :, head]
        D = x * g.sum() + rest * h.sum()
        f = (x * (g @ u) + rest * (h @ v)) / D
        by_token = (g * u - h * v) * (kernel @ (1 / D)) - (g - h) * (kernel @ (f / D))
        found.append((np.bincount(of_token[words], by_token[words]), f))
    return found
