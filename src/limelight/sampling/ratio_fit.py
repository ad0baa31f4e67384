r"""Ratio games fitted to what a model answers to masks: damped Gauss–Newton steps, many at a time.

A fit has H heads over d words, and in each of them one state that all removed words share,

.. math:: g(Z) = c + \sum_h
    \frac{\sqrt d \sum_j Z_j A_{hj}}{\sum_j Z_j e^{l_{hj}} + d - \sum_j Z_j}.

The weight and the value of the shared state are 1 and 0 without loss: multiplying a head's weights
and its numerators by one number changes nothing, and adding one number to its values moves c. With
l = 0 the denominators are constant, and g is linear in Z.
"""

__all__ = ["RatioFit", "fitted_game", "fitted_ratios", "fitted_values"]

import math
from typing import Any, NamedTuple

import numpy as np

from limelight.shapes import Array, Float
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame

_STEPS = 20
_SETTLED = 1e-3  # of the loss: what a step gains when little is left to gain
_HEAVIEST = 10.0  # |l|: a word that weighs 22,000 times a removed one is all there is in its head
_CELLS = 2**23  # numbers of derivatives held at a time, 64 MB
_RIDGE = 10.0  # of the line from which all fits start


class RatioFit(NamedTuple):
    """``B`` fits: constants, log weights and numerators. The value of word j is A_j e^{−l_j} √d."""

    c: Float[Array, " B"]
    l: Float[Array, "B H d"]  # noqa: E741  (the letter of attention logits)
    A: Float[Array, "B H d"]


class _Rows(NamedTuple):
    """Masks with their answers and weights, which differ between the fits."""

    keep: Float[Array, "n d"]
    y: Float[Array, "B n"]
    weight: Float[Array, "B n"]
    penalty: Float[Array, "B 2"]


class _Point(NamedTuple):
    """A fit with what it makes of the masks: D and N/D of each head, and what is left of y."""

    fit: RatioFit
    D: Float[Array, "B H n"]
    ratio: Float[Array, "B H n"]
    left: Float[Array, "B n"]
    loss: Float[Array, " B"]


def fitted_ratios(
    keep: Float[Array, "n d"],
    y: Float[Array, "B n"],
    weight: Float[Array, "B n"],
    *,
    heads: int,
    penalties: Float[Array, "B 2"],
) -> RatioFit:
    r"""Return the ratio games of so many ``heads`` that are nearest to ``y``, one for each row.

    Each minimises, over c, l and A, with u = A e^{−l} and (ρ_l, ρ_u) its two ``penalties``,

    .. math:: \sum_Z w(Z) (y(Z) - g(Z))^2
        + \rho_l \sum_{hj} (l_{hj} - \bar l_h)^2 + \rho_u \sum_{hj} u_{hj}^2.

    ``y`` should have mean 0 and variance 1. The loss is not convex: what is found is a minimum near
    the linear fit, the same one every time.
    """
    n, d = keep.shape
    at_a_time = max(1, _CELLS // (n * 2 * heads * d))
    xp = array_namespace(keep)
    parts = []
    for start in range(0, y.shape[0], at_a_time):
        some = slice(start, start + at_a_time)
        rows = _Rows(keep, y[some, ...], weight[some, ...], penalties[some, ...])
        parts.append(_descended(rows, _start(rows, heads)))
    return RatioFit(*(xp.concat(list(several), axis=0) for several in zip(*parts, strict=True)))


def fitted_values(fit: RatioFit, keep: Float[Array, "n d"]) -> Float[Array, "B n"]:
    """g(Z) of every fit for each row Z of ``keep``."""
    xp = array_namespace(keep)
    _, ratio = _ratios(fit.l, fit.A, keep)
    return fit.c[:, None] + xp.sum(ratio, axis=1)


def fitted_game(fit: RatioFit, *, mean: float, scale: float) -> RatioGame:
    """Return ``mean`` + ``scale`` g as a batch of ratio games of one class."""
    xp = array_namespace(fit.l)
    heads, d = fit.l.shape[-2:]
    a = xp.exp(fit.l)
    constant = (mean + scale * fit.c)[:, None, None]
    # The value of a ratio game is the mean of its heads, g the sum of them.
    A = scale * heads * math.sqrt(d) * fit.A + constant * a
    none = xp.zeros_like(a[..., 0])
    b = xp.ones_like(a)
    return RatioGame(
        D0=none,
        a=a,
        b=b,
        N0=none[:, None],
        A=A[:, None],
        B=(constant * b)[:, None],
    )


def _ratios(
    l: Float[Array, "B H d"],  # noqa: E741
    A: Float[Array, "B H d"],
    keep: Float[Array, "n d"],
) -> tuple[Float[Array, "B H n"], Float[Array, "B H n"]]:
    """D and N/D of each head for each mask."""
    xp = array_namespace(keep)
    d = keep.shape[1]
    kept = xp.matrix_transpose(keep)
    D = xp.exp(l) @ kept + (d - xp.sum(keep, axis=1))
    return D, math.sqrt(d) * (A @ kept) / D


def _point(rows: _Rows, l: Float[Array, "B H d"], A: Float[Array, "B H d"]) -> _Point:  # noqa: E741
    """What weights and numerators make of the rows, with the constant that suits them best."""
    xp = array_namespace(rows.keep)
    D, ratio = _ratios(l, A, rows.keep)
    rest = rows.y - xp.sum(ratio, axis=1)
    c = xp.sum(rows.weight * rest, axis=1) / xp.sum(rows.weight, axis=1)
    left = rest - c[:, None]
    u, spread = A * xp.exp(-l), l - xp.mean(l, axis=-1, keepdims=True)
    loss = (
        xp.sum(rows.weight * left**2, axis=1)
        + rows.penalty[:, 0] * xp.sum(spread**2, axis=(1, 2))
        + rows.penalty[:, 1] * xp.sum(u**2, axis=(1, 2))
    )
    return _Point(RatioFit(c, l, A), D, ratio, left, loss)


def _start(rows: _Rows, heads: int) -> _Point:
    """The linear fit shared out among the heads, whose weights differ a little from the start."""
    xp = array_namespace(rows.keep)
    d = rows.keep.shape[1]
    x = rows.keep - 0.5
    gram = xp.matrix_transpose(x) @ x + array_like(_RIDGE * np.eye(d), rows.keep)
    weighed = xp.matrix_transpose((rows.weight * rows.y) @ x)
    slope = xp.matrix_transpose(xp.linalg.solve(gram, weighed))
    # Heads that start alike stay alike: their derivatives are the same.
    rng = np.random.default_rng(0)
    apart = np.linspace(-1, 1, heads)[:, None] + 0.3 * rng.standard_normal((heads, d))
    first = array_like(apart if heads > 1 else np.zeros((1, d)), rows.keep)
    l = first[None] + xp.zeros_like(slope)[:, None, :]  # noqa: E741
    A = xp.exp(l) * slope[:, None, :] * (math.sqrt(d) / heads)
    return _point(rows, l, A)


def _descended(rows: _Rows, point: _Point) -> RatioFit:
    """Levenberg's steps: damped less after one that helped, and more after one that did not."""
    xp = array_namespace(rows.keep)
    damping = xp.full_like(point.loss, 0.1)
    for _ in range(_STEPS):
        l, A = _stepped(rows, point, damping)  # noqa: E741
        new = _point(rows, xp.clip(l, -_HEAVIEST, _HEAVIEST), A)
        better = xp.isfinite(new.loss) & (new.loss < point.loss)
        gained = xp.where(better, point.loss - new.loss, xp.zeros_like(damping))
        done = better & (gained <= _SETTLED * point.loss)
        point = _chosen(xp, better, new, point)
        damping = xp.clip(xp.where(better, damping / 5, damping * 6), 1e-9, 1e9)
        if bool(xp.all(done | (damping >= 1e9))):
            break
    return point.fit


def _chosen(xp: Any, better: Array, new: _Point, old: _Point) -> _Point:
    """Each fit's new point where that is better, else its old one."""

    def pick(a: Array, b: Array) -> Array:
        return xp.where(xp.reshape(better, (-1, *(1,) * (a.ndim - 1))), a, b)

    fit = RatioFit(*(pick(a, b) for a, b in zip(new.fit, old.fit, strict=True)))
    return _Point(fit, *(pick(a, b) for a, b in zip(new[1:], old[1:], strict=True)))


def _stepped(
    rows: _Rows, point: _Point, damping: Float[Array, " B"]
) -> tuple[Float[Array, "B H d"], Float[Array, "B H d"]]:
    """Log weights and numerators after a step (JᵀWJ + penalties + damping)⁻¹ of the gradient."""
    xp = array_namespace(rows.keep)
    B, H, d = point.fit.l.shape
    # In (l, A), not in (l, u): at fixed numerators a weight acts on the denominator alone, and an
    # exact ratio game is met in a dozen steps where values as unknowns need hundreds.
    J = _derivatives(rows, point)
    mean = xp.sum(rows.weight[..., None] * J, axis=1) / xp.sum(rows.weight, axis=1)[:, None]
    J = J - mean[:, None, :]  # the constant follows every step
    JW = xp.matrix_transpose(rows.weight[..., None] * J)
    slope, curve = _penalised(rows, point)
    downhill = (JW @ point.left[..., None])[..., 0] - slope
    eye = array_like(np.eye(2 * H * d), rows.keep)
    curve = JW @ J + curve + damping[:, None, None] * eye
    step = xp.linalg.solve(curve, downhill[..., None])[..., 0]
    step = xp.reshape(step, (B, 2, H, d))
    return point.fit.l + step[:, 0, ...], point.fit.A + step[:, 1, ...]


def _derivatives(rows: _Rows, point: _Point) -> Float[Array, "B n p"]:
    r"""∂g/∂l_j = −Z_j e^{l_j} q/D and ∂g/∂A_j = √d Z_j/D, with q = N/D of the head."""
    xp = array_namespace(rows.keep)
    B, H, d = point.fit.l.shape
    n = rows.keep.shape[0]
    over = xp.matrix_transpose(1 / point.D)[..., None]  # B n H 1
    slope = xp.matrix_transpose(-point.ratio / point.D)[..., None]
    keep = rows.keep[None, :, None, :]
    by_weight = (slope * keep) * xp.exp(point.fit.l)[:, None, :, :]
    by_numerator = (math.sqrt(d) * over) * keep
    shape = (B, n, H * d)
    return xp.concat([xp.reshape(by_weight, shape), xp.reshape(by_numerator, shape)], axis=2)


def _penalised(rows: _Rows, point: _Point) -> tuple[Float[Array, "B p"], Float[Array, "B p p"]]:
    """Slope and curvature (Gauss–Newton's, halved like the rest) of the penalties."""
    xp = array_namespace(rows.keep)
    B, H, d = point.fit.l.shape
    m = H * d
    l, A = (xp.reshape(x, (B, m)) for x in (point.fit.l, point.fit.A))  # noqa: E741
    by_weight, by_value = rows.penalty[:, :1], rows.penalty[:, 1:]
    over = xp.exp(-l)
    u = A * over
    spread = point.fit.l - xp.mean(point.fit.l, axis=-1, keepdims=True)
    slope = [by_weight * xp.reshape(spread, (B, m)) - by_value * u**2, by_value * u * over]
    eye = array_like(np.eye(m), rows.keep)
    centred = array_like(np.eye(m) - np.kron(np.eye(H), np.full((d, d), 1 / d)), rows.keep)

    def diagonal(x: Float[Array, "B m"]) -> Float[Array, "B m m"]:
        return x[:, None, :] * eye

    ll = by_weight[..., None] * centred + diagonal(by_value * u**2)
    lA = diagonal(-by_value * u * over)
    AA = diagonal(by_value * over**2)
    curve = xp.concat([xp.concat([ll, lA], axis=2), xp.concat([lA, AA], axis=2)], axis=1)
    return xp.concat(slope, axis=1), curve
