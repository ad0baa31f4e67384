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
    Outer,
    panels_needed,
    path_size,
    quadrature_error,
    rounding_error,
)

# Panels of a fixed rule rather than ever larger rules: what limits convergence is how near poles of
# the softmax come to the path, and halving a panel doubles their distance in its own units.
_x, _w = np.polynomial.legendre.leggauss(NODES)
PANEL, WEIGHTS = (_x + 1) / 2, _w / 2  # one panel, on [0, 1]
Weigh = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, eq=False)
class IntegratedGradients:
    """Scores, a proven bound on the error of each sum of them, and the gap to completeness.

    ``bound`` holds for the scores of any positions, added up over them and over the heads;
    ``quadrature`` is its part that more nodes would lessen.
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
    weigh: Weigh,
    value_of: Weigh,
    outer: Outer,
    tolerance: float,
    logit_error: Float[np.ndarray, "n K"] | None = None,
    value_error: Float[np.ndarray, "n C K"] | None = None,
) -> IntegratedGradients:
    r"""Return IG of a function of the C outputs, per head and position; heads are averaged in.

    Values move linearly, and logits linearly or by hidden units (`LogitPath`), so with
    :math:`\bar u = \sum_c w_c u_c` and ``weigh`` mapping outputs to
    :math:`w_c = \partial F / \partial f_c`,

    .. math:: IG_t = \frac1K \sum_i \int_0^1 \alpha_t(x)
        \bigl[ \Delta \bar u_t + \ell'_t(x) (\bar u_t(x) - \bar f_i(x)) \bigr] dx .

    Scores sum, over heads and positions, to F(document) − F(baseline), F being ``value_of`` the
    outputs. There are as many panels of 32 Gauss–Legendre nodes as prove an error of at most
    ``tolerance`` (`path_quadrature`), as far as rounding and 4,096 panels allow; ``bound`` says
    what is proven. ``outer`` bounds the derivatives of F; the errors are those of the logits and
    of the values.
    """
    xp = array_namespace(u)
    size = path_size(logits, u, base_u, outer)
    errors = {
        "logit_error": np.zeros_like(logits.size) if logit_error is None else logit_error,
        "value_error": np.zeros_like(size.value) if value_error is None else value_error,
    }
    # No node is worth its time once rounding outweighs what it adds.
    least = rounding_error(size, 1, outer, **errors)
    panels = panels_needed(size, outer, tolerance=np.maximum(tolerance, least))
    path = _Path(logits, u, base_u, weigh)
    start, whole = (value_of(f) for f in path.ends())
    scores = path.integral(panels)
    quadrature = quadrature_error(size, panels, outer)
    return IntegratedGradients(
        scores=scores,
        bound=quadrature + rounding_error(size, panels, outer, **errors),
        quadrature=quadrature,
        gap=xp.abs(xp.sum(scores, axis=(-2, -1)) - (whole - start)),
        nodes=panels * NODES,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Path:
    logits: LogitPath
    u: Float[Array, "n C K T"]
    base_u: Float[Array, "n C K T"]
    weigh: Weigh

    def ends(self) -> Float[Array, "2 n C"]:
        """The outputs at both ends of the path."""
        x = self._column([0.0, 1.0])
        alpha = attention(self.logits.at(x[..., 0])[0])
        u = self.base_u + x * (self.u - self.base_u)
        return array_namespace(u).mean(_head_values(alpha, u), axis=-1)

    def _column(self, numbers: Any) -> Float[Array, "m 1 1 1 1"]:
        xp = array_namespace(self.u)
        array = xp.asarray(numbers, dtype=self.u.dtype, device=self.u.device)
        return xp.reshape(array, (-1,) + (1,) * self.u.ndim)

    def integral(self, panels: int) -> Float[Array, "*n K T"]:
        """Sum the panels one by one, so that memory does not grow with their number."""
        starts = [k / panels for k in range(panels)]
        total = self._panel(starts[0], 1 / panels)
        for start in starts[1:]:
            total = total + self._panel(start, 1 / panels)
        return total

    def _panel(self, start: float, width: float) -> Float[Array, "*n K T"]:
        x, weight = map(self._column, (start + width * PANEL, width * WEIGHTS))
        return array_namespace(self.u).sum(weight[..., 0] * self._integrand(x), axis=0)

    def _integrand(self, x: Float[Array, "m *ones"]) -> Float[Array, "m *n K T"]:
        """What every position adds per unit of x, for every head, over the number of heads."""
        xp = array_namespace(self.u)
        # F is differentiated at the outputs of the path, so its weights move with x as well; for a
        # logit they are constant.
        u_slope = self.u - self.base_u
        logit, slope = self.logits.at(x[..., 0])
        alpha = attention(logit)
        u = self.base_u + x * u_slope
        w = self.weigh(xp.mean(_head_values(alpha, u), axis=-1))[..., None, None]
        u, u_slope = xp.sum(w * u, axis=-3), xp.sum(w * u_slope, axis=-3)
        f = head_outputs(alpha, u)[..., None]
        return alpha * (u_slope + slope * (u - f)) / alpha.shape[-2]


def _head_values(
    alpha: Float[Array, "*n K T"], u: Float[Array, "*n C K T"]
) -> Float[Array, "*n C K"]:
    return array_namespace(alpha).sum(alpha[..., None, :, :] * u, axis=-1)
