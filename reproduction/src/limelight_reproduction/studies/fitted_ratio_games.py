"""Ratio games that are fitted to outputs for masks, selected and judged on held-out masks."""

import math
from typing import NamedTuple

import numpy as np

from limelight.sampling.masks import Indicators, Masks, PerMask, draw_masks_by_size
from limelight.sampling.pairs import (
    PerPair,
    PerSize,
    pair_influence_sums,
    pair_standard_error,
    shapley_pair_coefficients,
)
from limelight.sampling.spread import (
    RARE_EFFECT_SHARE,
    ROUNDING,
    PowerSums,
    r_squared,
    unseen_effect_error,
)
from limelight.shapes import Float, Int, Rng
from limelight.theory.lime_weights import lime_design
from limelight.theory.ratio_game import RatioGame

PerHead = Float[np.ndarray, "B H d"]  # for each fit, head and word
PerFit = Float[np.ndarray, "B n"]  # for each fit and mask

FOLDS = 5  # parts of a sample, each held out of a fit
MOST_HEADS = 3
_NO_PART = -1
_SELECTION_FOLDS = 2  # folds that decide on heads and penalties
# (ρ_l, ρ_u), from nearly linear to nearly free. For a transformer the second is best with few
# masks and the third with a thousand. For an exact ratio game the last is best.
_PENALTIES = ((3.0, 3.0), (0.3, 1.0), (0.03, 1.0), (0.01, 0.1), (1e-5, 1e-6))
_RIDGES = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)  # of the linear model that LIME fits
_ZERO_DEVIATION = 1e-12  # share of the largest output; a smaller standard deviation is rounding

_STEPS = 20  # largest number of descent steps
_SETTLED = 1e-3  # share of the loss; a fit is finished when a step gains less
_MAX_LOG_WEIGHT = 10.0  # a word of 22,000 times the weight of a removed one dominates its head
_CELLS = 2**23  # derivatives in memory at a time, 64 MB
_RIDGE = 10.0  # of the linear model from which all fits start

_ROWS = 1024  # pairs of masks that are evaluated together


class RatioFit(NamedTuple):
    """``B`` fits: constants, log weights and numerators. The value of word j is A_j e^{−l_j} √d."""

    c: Float[np.ndarray, " B"]
    l: PerHead  # noqa: E741  (the letter of attention logits)
    A: PerHead


class HeldOut(NamedTuple):
    """Masks, each followed by its complement, with the residuals of fits without their part.

    The residual of a mask is the output minus the value of the game that was fitted without the
    mask's ``part`` of the sample.
    """

    keep: Masks
    residuals: PerMask
    part: Int[np.ndarray, " n"]
    size: float  # known range of f

    @property
    def has_no_residuals(self) -> bool:
        """Whether all residuals are rounding errors."""
        return float(np.abs(self.residuals).max()) <= ROUNDING * self.size

    @property
    def draws(self) -> int:
        """Number of pairs of masks."""
        return len(self.residuals) // 2


class CrossFit(NamedTuple):
    """The ratio game of a sample, and the games of the sample without each of its parts.

    ``games`` is a batch with the game of all masks first, then one game for each held-out part.
    ``r2`` is the share of the variance of held-out outputs that these games explain, and
    ``r2_linear`` the share that the best linear model explains of the same masks.
    """

    games: RatioGame
    held_out: HeldOut
    r2: float
    r2_linear: float
    heads: int
    penalties: tuple[float, float]


def draw_paired_masks(d: int, n: int, rng: Rng) -> Masks:
    """Draw ``n`` masks, each followed by its complement, with sizes uniform on 0..d; n is even."""
    masks = draw_masks_by_size(d, rng.integers(0, d + 1, n // 2), rng)
    return np.stack([masks, ~masks], axis=1).reshape(-1, d)


def cross_fit_ratio_game(
    keep: Masks, f: PerMask, *, heads: int | None = None, known_range: float = 0.0
) -> CrossFit:
    """Fit the ratio game with the smallest error on held-out masks.

    Pairs of masks stay in the same part, because a game that was fitted to a mask is informed about
    its complement.

    Parameters
    ----------
    keep
        Masks, each followed by its complement.
    f
        Outputs for the masks.
    heads
        Number of heads. By default it is selected on held-out masks.
    known_range
        Known range of f, if it is larger than the range of ``f``.

    Returns
    -------
    CrossFit
        The game, with the games and the residuals of all held-out parts.
    """
    mean, scale = float(f.mean()), float(f.std())
    if scale <= _ZERO_DEVIATION * float(np.abs(f).max(initial=0.0)):
        scale = 1.0  # for a constant output, any scale is right
    part = np.arange(len(f)) // 2 % FOLDS
    sample = _Sample(keep.astype(np.float64), (f - mean) / scale, part)
    count, penalties, selected_fits = _select_fit(sample, heads)
    # The parts that selected heads and penalties are already held out of fits. Only the other parts
    # remain.
    other_fits = sample.fit([*range(_SELECTION_FOLDS, FOLDS), _NO_PART], count, [penalties])
    fit = _join(_take(other_fits, slice(-1, None)), selected_fits, _take(other_fits, slice(0, -1)))
    # The output of each mask minus the value of the fit without its part.
    held_out_values = fitted_values(fit, sample.keep)[1:][part, np.arange(len(part))]
    residuals = sample.y - held_out_values
    total = (sample.y**2).sum()

    def r2(residuals: PerMask) -> float:
        """Return the explained share of the variance."""
        return float(r_squared((residuals**2).sum(), total))

    return CrossFit(
        games=fitted_game(fit, mean=mean, scale=scale),
        held_out=HeldOut(keep, scale * residuals, part, max(known_range, float(np.ptp(f)))),
        r2=r2(residuals),
        r2_linear=max(r2(_linear_residuals(sample, ridge)) for ridge in _RIDGES),
        heads=count,
        penalties=penalties,
    )


class _Sample(NamedTuple):
    """Masks, their outputs (mean 0, variance 1), and the part of the sample of each mask."""

    keep: Indicators
    y: PerMask
    part: Int[np.ndarray, " n"]

    def fit(self, parts: list[int], heads: int, penalties: list[tuple[float, float]]) -> RatioFit:
        """Fit the sample without each of these parts, with each of the penalties."""
        is_used = np.stack([self.part != part for part in parts]).astype(np.float64)
        weight = np.tile(is_used, (len(penalties), 1))
        table = np.repeat(np.array(penalties), len(parts), axis=0)
        y = np.broadcast_to(self.y, weight.shape)
        return fit_ratio_games(self.keep, y, weight, heads=heads, penalties=table)


def _select_fit(sample: _Sample, heads: int | None) -> tuple[int, tuple[float, float], RatioFit]:
    """Return the heads, the penalties and the fits with the smallest error on held-out masks."""
    # The best penalties of one head, or the next weaker ones, are best for three heads, too. Trying
    # all penalties with one head is a tenth of the work.
    count = heads or 1
    penalties, error, fit = _best_penalties(sample, count, list(_PENALTIES))
    for new_count in range(2, MOST_HEADS + 1) if heads is None else ():
        index = _PENALTIES.index(penalties)
        new_penalties, new_error, new_fit = _best_penalties(
            sample, new_count, list(_PENALTIES[index : index + 2])
        )
        if new_error < error:
            count, penalties, error, fit = new_count, new_penalties, new_error, new_fit
    return count, penalties, fit


def _best_penalties(
    sample: _Sample, heads: int, penalties: list[tuple[float, float]]
) -> tuple[tuple[float, float], float, RatioFit]:
    """Return the best penalties on the selection folds, their error, and their fits."""
    folds = list(range(_SELECTION_FOLDS))
    fit = sample.fit(folds, heads, penalties)
    predicted = fitted_values(fit, sample.keep)
    squares = (sample.y - predicted.reshape(len(penalties), _SELECTION_FOLDS, -1)) ** 2
    is_held_out = sample.part == np.arange(_SELECTION_FOLDS)[:, None]
    errors = (squares * is_held_out).sum(axis=(1, 2))
    best = int(np.argmin(errors))
    rows = slice(best * _SELECTION_FOLDS, (best + 1) * _SELECTION_FOLDS)
    return penalties[best], float(errors[best]), _take(fit, rows)


def _take(fit: RatioFit, rows: slice) -> RatioFit:
    return RatioFit(*(x[rows] for x in fit))


def _join(*fits: RatioFit) -> RatioFit:
    return RatioFit(*map(np.concatenate, zip(*fits, strict=True)))


def _linear_residuals(sample: _Sample, ridge: float) -> PerMask:
    """Return the output of each mask minus the value of the linear model without its part."""
    x, y, residuals = sample.keep, sample.y, np.empty(len(sample.y))
    for part in range(FOLDS):
        used = sample.part != part
        mean_x, mean_y = x[used].mean(axis=0), y[used].mean()
        centered = x[used] - mean_x
        gram = centered.T @ centered + ridge * np.eye(x.shape[1])
        slope = np.linalg.solve(gram, centered.T @ (y[used] - mean_y))
        residuals[~used] = y[~used] - mean_y - (x[~used] - mean_x) @ slope
    return residuals


class WordErrors(NamedTuple):
    """Standard errors, and the largest share of one pair of masks in the variance of a word."""

    stderr: Float[np.ndarray, " d"]
    spike: float


def word_errors(
    held_out: HeldOut,
    values: Float[np.ndarray, " d"],
    part_values: Float[np.ndarray, "FOLDS d"],
    kind: str,
) -> WordErrors:
    r"""Return standard errors of the values of a fitted game as values of the model.

    The unbiased estimate is ``part_values`` plus the contribution of the residuals of each part.
    With e its standard error and δ its distance from ``values``,

    .. math:: \operatorname{stderr}_j^2 = e_j^2 + \tfrac1d \sum_k \delta_k^2:

    the distance of the estimate from the model, and of the game from the estimate.

    Parameters
    ----------
    held_out
        Masks with their residuals.
    values
        Values of the fitted game.
    part_values
        Values of the games without each part of the sample.
    kind
        "shapley", "banzhaf" or "lime".

    Returns
    -------
    WordErrors
        Standard errors, and the largest share of a pair of masks.
    """
    # Subtracting the noise of δ from the second term, or taking both from the spread between the
    # parts, is sharper and covers less: 0.84 to 0.92 on deep games where this has 0.92 or more.
    present, absent = _coefficients(held_out.keep.shape[1], kind)
    spread = PowerSums.zeros(len(values))
    sums = np.zeros_like(part_values)
    for start in range(0, len(held_out.residuals), 2 * _ROWS):
        rows = slice(start, start + 2 * _ROWS)
        keep, part = held_out.keep[rows], held_out.part[rows][::2]
        size = keep.sum(axis=1)[:, None]
        coefficient = np.where(keep, present[size], absent[size])
        contribution = coefficient * held_out.residuals[rows][:, None]
        contribution = contribution.reshape(-1, 2, len(values)).mean(axis=1)
        np.add.at(sums, part, contribution)
        spread = spread.merge(PowerSums.from_contributions(contribution / held_out.draws))
    count = np.bincount(held_out.part[::2], minlength=len(part_values))[:, None]
    estimate = (part_values + sums / np.maximum(count, 1)).mean(axis=0)
    spike = 0.0 if held_out.has_no_residuals else float(spread.largest_share())
    if spike > RARE_EFFECT_SHARE:  # then every word allows for a draw with most of a variance
        spread = spread._replace(largest=np.full_like(spread.largest, spread.largest.max()))
    error = spread.standard_error(held_out.draws, degrees=held_out.draws - 1)
    if held_out.has_no_residuals:
        share = np.linspace(0, 1, len(present))  # share of the masks of a size that keep the word
        typical = np.sqrt(np.mean(share * present**2 + (1 - share) * absent**2))
        effect = held_out.size * typical / held_out.draws
        error = unseen_effect_error(np.full_like(values, effect))
    return WordErrors(np.sqrt(error**2 + np.mean((estimate - values) ** 2)), spike)


def pair_errors(
    held_out: HeldOut, values: PerPair, part_values: Float[np.ndarray, "FOLDS d d"]
) -> PerPair:
    """Return standard errors of Shapley interactions, as :func:`word_errors` does for words."""
    d = len(values)
    coefficients = (d + 1) * shapley_pair_coefficients(d)
    n = len(held_out.residuals)
    spread = pair_influence_sums(
        held_out.keep.astype(np.float64), held_out.residuals / n, coefficients
    )
    contribution, error = spread.first, pair_standard_error(spread, n, d)
    off_diagonal = ~np.eye(d, dtype=bool)
    if held_out.has_no_residuals:
        typical = np.sqrt(np.mean(coefficients**2))
        error = off_diagonal * unseen_effect_error(typical * held_out.size) / n
    distance = (part_values.mean(axis=0) + contribution - values)[off_diagonal]
    return off_diagonal * np.sqrt(error**2 + np.mean(distance**2))


def _coefficients(d: int, kind: str) -> tuple[PerSize, PerSize]:
    """Return κ by the number m of kept words, 0..d, if word j is kept and if it is removed."""
    m = np.arange(d + 1)
    if kind == "shapley":
        factor = (d + 1) / np.maximum(m, 1)
        return factor * (m > 0), -factor[::-1] * (m < d)
    if kind == "banzhaf":
        # (d + 1) C(d, m)/2^d by a recurrence in logarithms: C(d, m) overflows for d ≥ 1030.
        logs = np.concatenate([[0.0], np.cumsum(np.log((d - m[:-1]) / (m[:-1] + 1)))])
        weight = 2 * (d + 1) * np.exp(logs - d * np.log(2))
        return weight, -weight
    design = lime_design(d, bandwidth=0.25)
    present, absent = ((d + 1) * design.weight * x for x in design.coefficient_weights())
    return present[::-1], absent[::-1]  # by the number of kept words, not of removed ones


class _FitData(NamedTuple):
    """Masks, with outputs and weights that differ between the fits."""

    keep: Indicators
    y: PerFit
    weight: PerFit
    penalty: Float[np.ndarray, "B 2"]


class _Point(NamedTuple):
    """Parameters of fits with their values: D and N/D of each head, residuals, and loss."""

    c: Float[np.ndarray, " B"]
    l: PerHead  # noqa: E741
    A: PerHead
    D: Float[np.ndarray, "B H n"]
    ratio: Float[np.ndarray, "B H n"]
    residuals: PerFit
    loss: Float[np.ndarray, " B"]


def fit_ratio_games(
    keep: Indicators, y: PerFit, weight: PerFit, *, heads: int, penalties: Float[np.ndarray, "B 2"]
) -> RatioFit:
    r"""Fit a ratio game with ``heads`` heads to each row of ``y``.

    Each fit minimises, over c, l and A, with u = A e^{−l} and its two ``penalties`` (ρ_l, ρ_u),

    .. math:: \sum_Z w(Z) (y(Z) - g(Z))^2
        + \rho_l \sum_{hj} (l_{hj} - \bar l_h)^2 + \rho_u \sum_{hj} u_{hj}^2.

    ``y`` should have mean 0 and variance 1. The loss is not convex. The result is a minimum near
    the linear fit, the same in every run.
    """
    n, d = keep.shape
    batch_size = max(1, _CELLS // (n * 2 * heads * d))
    fits = []
    for start in range(0, y.shape[0], batch_size):
        rows = slice(start, start + batch_size)
        data = _FitData(keep, y[rows], weight[rows], penalties[rows])
        fits.append(_descend(data, _start(data, heads)))
    return _join(*fits)


def fitted_values(fit: RatioFit, keep: Indicators) -> PerFit:
    """Return g(Z) of every fit for each row Z of ``keep``."""
    _, ratio = _ratios(fit.l, fit.A, keep)
    return fit.c[:, None] + np.sum(ratio, axis=1)


def fitted_game(fit: RatioFit, *, mean: float, scale: float) -> RatioGame:
    """Return ``mean`` + ``scale`` g as a batch of ratio games of one class."""
    heads, d = fit.l.shape[-2:]
    a = np.exp(fit.l)
    constant = (mean + scale * fit.c)[:, None, None]
    # A ratio game is the mean of its heads, and g is their sum.
    A = scale * heads * math.sqrt(d) * fit.A + constant * a
    zeros = np.zeros_like(a[..., 0])
    b = np.ones_like(a)
    return RatioGame(D0=zeros, a=a, b=b, N0=zeros[:, None], A=A[:, None], B=(constant * b)[:, None])


def _ratios(
    l: PerHead,  # noqa: E741
    A: PerHead,
    keep: Indicators,
) -> tuple[Float[np.ndarray, "B H n"], Float[np.ndarray, "B H n"]]:
    """Return D and N/D of each head for each mask."""
    d = keep.shape[1]
    D = np.exp(l) @ keep.T + (d - keep.sum(axis=1))
    return D, math.sqrt(d) * (A @ keep.T) / D


def _evaluate(data: _FitData, l: PerHead, A: PerHead) -> _Point:  # noqa: E741
    """Evaluate log weights and numerators, with the best constant."""
    D, ratio = _ratios(l, A, data.keep)
    difference = data.y - np.sum(ratio, axis=1)
    c = np.sum(data.weight * difference, axis=1) / np.sum(data.weight, axis=1)
    residuals = difference - c[:, None]
    u, spread = A * np.exp(-l), l - np.mean(l, axis=-1, keepdims=True)
    loss = (
        np.sum(data.weight * residuals**2, axis=1)
        + data.penalty[:, 0] * np.sum(spread**2, axis=(1, 2))
        + data.penalty[:, 1] * np.sum(u**2, axis=(1, 2))
    )
    return _Point(c, l, A, D, ratio, residuals, loss)


def _start(data: _FitData, heads: int) -> _Point:
    """Return a start: the linear fit divided among heads with slightly different weights."""
    d = data.keep.shape[1]
    x = data.keep - 0.5
    # All rows are used, also those without weight. A start need not be the best linear fit.
    gram = x.T @ x + _RIDGE * np.eye(d)
    slope = np.linalg.solve(gram, ((data.weight * data.y) @ x).T).T
    # Equal heads would stay equal, because their derivatives are the same.
    rng = np.random.default_rng(0)
    offsets = np.linspace(-1, 1, heads)[:, None] + 0.3 * rng.standard_normal((heads, d))
    log_weights = offsets if heads > 1 else np.zeros((1, d))
    l = log_weights[None] + np.zeros_like(slope)[:, None, :]  # noqa: E741
    A = np.exp(l) * slope[:, None, :] * (math.sqrt(d) / heads)
    return _evaluate(data, l, A)


def _descend(data: _FitData, point: _Point) -> RatioFit:
    """Minimise the loss by Levenberg's steps, with less damping after a step that helped."""
    damping = np.full_like(point.loss, 0.1)
    for _ in range(_STEPS):
        l, A = _take_step(data, point, damping)  # noqa: E741
        new = _evaluate(data, np.clip(l, -_MAX_LOG_WEIGHT, _MAX_LOG_WEIGHT), A)
        # All fits are updated together. A fit whose step does not help keeps its point.
        better = np.isfinite(new.loss) & (new.loss < point.loss)
        gain = np.where(better, point.loss - new.loss, 0.0)
        done = better & (gain <= _SETTLED * point.loss)
        point = _Point(
            *(
                np.where(better.reshape(-1, *(1,) * (a.ndim - 1)), a, b)
                for a, b in zip(new, point, strict=True)
            )
        )
        damping = np.clip(np.where(better, damping / 5, damping * 6), 1e-9, 1e9)
        if np.all(done | (damping >= 1e9)):
            break
    return RatioFit(point.c, point.l, point.A)


def _take_step(
    data: _FitData, point: _Point, damping: Float[np.ndarray, " B"]
) -> tuple[PerHead, PerHead]:
    """Take a step (JᵀWJ + penalties + damping)⁻¹ of the gradient from the point."""
    B, H, d = point.l.shape
    # The unknowns are (l, A), not (l, u). At fixed numerators a weight changes only the
    # denominator. So an exact ratio game needs a dozen steps, where (l, u) needs hundreds.
    J = _derivatives(data, point)
    mean = np.sum(data.weight[..., None] * J, axis=1) / np.sum(data.weight, axis=1)[:, None]
    J = J - mean[:, None, :]  # because the constant follows every step
    JW = (data.weight[..., None] * J).swapaxes(1, 2)
    slope, curve = _penalty_derivatives(data, point)
    downhill = (JW @ point.residuals[..., None])[..., 0] - slope
    curve = JW @ J + curve + damping[:, None, None] * np.eye(2 * H * d)
    step = np.linalg.solve(curve, downhill[..., None]).reshape(B, 2, H, d)
    return point.l + step[:, 0], point.A + step[:, 1]


def _derivatives(data: _FitData, point: _Point) -> Float[np.ndarray, "B n p"]:
    r"""Return ∂g/∂l_j = −Z_j e^{l_j} q/D and ∂g/∂A_j = √d Z_j/D, with q = N/D of the head."""
    B, H, d = point.l.shape
    n = data.keep.shape[0]
    reciprocal = (1 / point.D).swapaxes(1, 2)[..., None]  # B n H 1
    slope = (-point.ratio / point.D).swapaxes(1, 2)[..., None]
    keep = data.keep[None, :, None, :]
    by_weight = (slope * keep) * np.exp(point.l)[:, None, :, :]
    by_numerator = (math.sqrt(d) * reciprocal) * keep
    return np.concatenate([x.reshape(B, n, H * d) for x in (by_weight, by_numerator)], axis=2)


def _penalty_derivatives(
    data: _FitData, point: _Point
) -> tuple[Float[np.ndarray, "B p"], Float[np.ndarray, "B p p"]]:
    """Return slope and curvature of the penalties (Gauss–Newton, halved as in the loss)."""
    B, H, d = point.l.shape
    m = H * d
    l, A = point.l.reshape(B, m), point.A.reshape(B, m)  # noqa: E741
    by_weight, by_value = data.penalty[:, :1], data.penalty[:, 1:]
    inverse_weight = np.exp(-l)
    u = A * inverse_weight
    spread = point.l - np.mean(point.l, axis=-1, keepdims=True)
    slope = [by_weight * spread.reshape(B, m) - by_value * u**2, by_value * u * inverse_weight]
    eye = np.eye(m)
    centered = np.eye(m) - np.kron(np.eye(H), np.full((d, d), 1 / d))

    def diagonal(x: Float[np.ndarray, "B m"]) -> Float[np.ndarray, "B m m"]:
        """Return diagonal matrices."""
        return x[:, None, :] * eye

    ll = by_weight[..., None] * centered + diagonal(by_value * u**2)
    lA = diagonal(-by_value * u * inverse_weight)
    AA = diagonal(by_value * inverse_weight**2)
    return np.concatenate(slope, axis=1), np.block([[ll, lA], [lA, AA]])
