r"""Integrated gradients along UNK → token, one analytic integral per head."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from limelight.shapes import Array, Float
from limelight.theory.attention import attention, head_outputs
from limelight.theory.logit_path import LogitPath
from limelight.theory.namespace import array_namespace
from limelight.theory.path_quadrature import (
    NODES,
    DerivativeBounds,
    panels_needed,
    path_bounds,
    quadrature_error,
    rounding_error,
)

# Panels of a fixed rule rather than ever larger rules: convergence is limited by the distance of
# the poles of the softmax from the path. Half a panel doubles that distance in units of the panel.
_x, _w = np.polynomial.legendre.leggauss(NODES)
PANEL, WEIGHTS = (_x + 1) / 2, _w / 2  # one panel, on [0, 1]
OutputFunction = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, eq=False)
class IntegratedGradients:
    """Scores, a proven bound on the error of every sum of scores, and the gap to completeness.

    ``bound`` holds for sums of the scores over any positions and over all heads. ``quadrature`` is
    the part of the bound that more nodes would reduce.
    """

    scores: Float[Array, "n K T"]
    bound: Float[np.ndarray, " n"]
    quadrature: Float[np.ndarray, " n"]
    gap: Float[Array, " n"]
    nodes: int


def integrated_gradients(
    logits: LogitPath,
    u: Float[Array, "n C K T"],
    base_u: Float[Array, "n C K T"],
    *,
    output_gradient: OutputFunction,
    explained_value: OutputFunction,
    derivative_bounds: DerivativeBounds,
    tolerance: float,
    logit_error: Float[np.ndarray, "n K"] | None = None,
    value_error: Float[np.ndarray, "n C K"] | None = None,
) -> IntegratedGradients:
    r"""Return integrated gradients of a function F of the C outputs, per head and position.

    Values change linearly, and logits linearly or by hidden units (`LogitPath`). So with
    :math:`w_c = \partial F / \partial f_c` and :math:`\bar u = \sum_c w_c u_c`,

    .. math:: IG_t = \frac1K \sum_i \int_0^1 \alpha_t(x)
        \bigl[ \Delta \bar u_t + \ell'_t(x) (\bar u_t(x) - \bar f_i(x)) \bigr] dx .

    The factor 1/K is included. The scores add up, over heads and positions, to
    F(document) − F(baseline).

    Parameters
    ----------
    logits
        Logits on the path from the baseline to the document.
    u, base_u
        Values of the document and of the baseline.
    output_gradient, explained_value
        Functions of the outputs f: the weights w_c, and F.
    derivative_bounds
        Bounds on the derivatives of F.
    tolerance
        The largest error of a sum of scores. The number of panels of 32 Gauss–Legendre nodes is
        the smallest that proves it (`path_quadrature`), as far as rounding and 4,096 panels allow.
    logit_error, value_error
        Bounds on the errors of the logits and of the values. None means 0.

    Returns
    -------
    The scores with the proven bound.
    """
    xp = array_namespace(u)
    bounds = path_bounds(logits, u, base_u, derivative_bounds)
    errors = {
        "logit_error": np.zeros_like(logits.max_logit) if logit_error is None else logit_error,
        "value_error": np.zeros_like(bounds.max_value) if value_error is None else value_error,
    }
    # More nodes are useless if rounding exceeds the error of the quadrature.
    least = rounding_error(bounds, 1, derivative_bounds, **errors)
    panels = panels_needed(bounds, derivative_bounds, tolerance=np.maximum(tolerance, least))
    path = _Path(logits, u, base_u, output_gradient)
    start, end = (explained_value(f) for f in path.end_outputs())
    scores = path.integral(panels)
    quadrature = quadrature_error(bounds, panels, derivative_bounds)
    return IntegratedGradients(
        scores=scores,
        bound=quadrature + rounding_error(bounds, panels, derivative_bounds, **errors),
        quadrature=quadrature,
        gap=xp.abs(xp.sum(scores, axis=(-2, -1)) - (end - start)),
        nodes=panels * NODES,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Path:
    """The straight path from the baseline to the document, and the integral along it."""

    logits: LogitPath
    u: Float[Array, "n C K T"]
    base_u: Float[Array, "n C K T"]
    output_gradient: OutputFunction

    def end_outputs(self) -> Float[Array, "2 n C"]:
        """Return the outputs at both ends of the path."""
        x = self._column([0.0, 1.0])
        alpha = attention(self.logits.evaluate(x[..., 0])[0])
        u = self.base_u + x * (self.u - self.base_u)
        return array_namespace(u).mean(_head_values(alpha, u), axis=-1)

    def _column(self, numbers: Any) -> Float[Array, "m 1 1 1 1"]:
        """Return path positions x as an array that broadcasts over documents, heads and tokens."""
        xp = array_namespace(self.u)
        array = xp.asarray(numbers, dtype=self.u.dtype, device=self.u.device)
        return xp.reshape(array, (-1,) + (1,) * self.u.ndim)

    def integral(self, panels: int) -> Float[Array, "*n K T"]:
        """Return the integral as a sum over panels, one by one to limit the memory."""
        starts = [k / panels for k in range(panels)]
        total = self._panel_integral(starts[0], 1 / panels)
        for start in starts[1:]:
            total = total + self._panel_integral(start, 1 / panels)
        return total

    def _panel_integral(self, start: float, width: float) -> Float[Array, "*n K T"]:
        """Return the integral over one panel."""
        x, weight = map(self._column, (start + width * PANEL, width * WEIGHTS))
        return array_namespace(self.u).sum(weight[..., 0] * self._integrand(x), axis=0)

    def _integrand(self, x: Float[Array, " m *ones"]) -> Float[Array, " m *n K T"]:
        """Return the integrand at every x, head and position, divided by the number of heads."""
        xp = array_namespace(self.u)
        # F is differentiated at the outputs of the path, so its weights change with x too. For a
        # logit they are constant.
        u_slope = self.u - self.base_u
        logit, slope = self.logits.evaluate(x[..., 0])
        alpha = attention(logit)
        u = self.base_u + x * u_slope
        w = self.output_gradient(xp.mean(_head_values(alpha, u), axis=-1))[..., None, None]
        u, u_slope = xp.sum(w * u, axis=-3), xp.sum(w * u_slope, axis=-3)
        f = head_outputs(alpha, u)[..., None]
        return alpha * (u_slope + slope * (u - f)) / alpha.shape[-2]


def _head_values(
    alpha: Float[Array, "*n K T"], u: Float[Array, "*n C K T"]
) -> Float[Array, "*n C K"]:
    """Return each head's output for every class."""
    return array_namespace(alpha).sum(alpha[..., None, :, :] * u, axis=-1)
