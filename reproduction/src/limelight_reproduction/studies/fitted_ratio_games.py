"""Ratio games fitted to what a model answers to masks, selected and judged by masks left out."""

import math
from typing import NamedTuple

import numpy as np

from limelight.sampling.masks import Indicators, Masks, PerMask, Rng, draw_masks_by_size
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
from limelight.shapes import Float, Int
from limelight.theory.lime_weights import lime_design
from limelight.theory.ratio_game import RatioGame

PerHead = Float[np.ndarray, "B H d"]  # of each fit and word
PerFit = Float[np.ndarray, "B n"]  # of each mask

FOLDS = 5  # parts of a sample, each left out of a fit
MOST_HEADS = 3
_NO_PART = -1
_LOOKED_AT = 2  # folds that decide on heads and penalties
# (ρ_l, ρ_u), from nearly linear to nearly free. Few masks of a transformer want the second, a
# thousand the third; masks of an exact ratio game the last.
_PENALTIES = ((3.0, 3.0), (0.3, 1.0), (0.03, 1.0), (0.01, 0.1), (1e-5, 1e-6))
_RIDGES = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)  # of the line that LIME would fit
_STILL = 1e-12  # of the largest answer: a standard deviation that is rounding

_STEPS = 20  # of the descent, at most
_SETTLED = 1e-3  # of the loss: what a step gains when little is left to gain
_HEAVIEST = 10.0  # |l|: a word that weighs 22,000 times a removed one is all there is in its head
_CELLS = 2**23  # numbers of derivatives held at a time, 64 MB
_RIDGE = 10.0  # of the line from which all fits start

_ROWS = 1024  # pairs of masks looked at together


class RatioFit(NamedTuple):
    """``B`` fits: constants, log weights and numerators. The value of word j is A_j e^{−l_j} √d."""

    c: Float[np.ndarray, " B"]
    l: PerHead  # noqa: E741  (the letter of attention logits)
    A: PerHead


class HeldOut(NamedTuple):
    """Masks, each followed by its complement, and what is left of the answers to them.

    A mask's answer is compared with the game that was fitted without its ``part`` of the sample.
    """

    keep: Masks
    left: PerMask
    part: Int[np.ndarray, " n"]
    size: float  # how far f is known to move

    @property
    def flat(self) -> bool:
        """Whether nothing is left."""
        return float(np.abs(self.left).max()) <= ROUNDING * self.size

    @property
    def draws(self) -> int:
        """Number of pairs of masks."""
        return len(self.left) // 2


class CrossFit(NamedTuple):
    """The ratio game of a sample, and those of the sample without each of its parts.

    ``games`` is a batch: that of all masks first, then one for each part left out. ``out`` is what
    the latter leave of the answers, ``r2`` how much of the variance they explain, and ``r2_linear``
    what the best linear model explains of the same masks, likewise left out.
    """

    games: RatioGame
    out: HeldOut
    r2: float
    r2_linear: float
    heads: int
    penalties: tuple[float, float]


def draw_paired_masks(d: int, n: int, rng: Rng) -> Masks:
    """Return ``n`` masks, each followed by its complement; sizes uniform on 0..d. Even n."""
    masks = draw_masks_by_size(d, rng.integers(0, d + 1, n // 2), rng)
    return np.stack([masks, ~masks], axis=1).reshape(-1, d)


def cross_fit_ratio_game(
    keep: Masks, f: PerMask, *, heads: int | None = None, known_range: float = 0.0
) -> CrossFit:
    """Return the ratio game that suits ``f`` best; ``heads`` None: as many as masks left out want.

    Pairs of masks stay together when parts are left out, because a game that has seen a mask knows
    something about its complement. ``known_range`` is how far f is known to move, if it is more
    than it does here.
    """
    mean, scale = float(f.mean()), float(f.std())
    if scale <= _STILL * float(np.abs(f).max(initial=0.0)):
        scale = 1.0  # the model never moves: any scale will do
    part = np.arange(len(f)) // 2 % FOLDS
    sample = _Sample(keep.astype(np.float64), (f - mean) / scale, part)
    count, penalties, found = _selected(sample, heads)
    # The parts that chose heads and penalties were left out of fits already: only the others
    # remain.
    rest = sample.fitted([*range(_LOOKED_AT, FOLDS), _NO_PART], count, [penalties])
    fit = _joined(_take(rest, slice(-1, None)), found, _take(rest, slice(0, -1)))
    # What the fit without a mask's part leaves of its answer.
    left = sample.y - fitted_values(fit, sample.keep)[1:][part, np.arange(len(part))]
    total = (sample.y**2).sum()

    def r2(left: PerMask) -> float:
        return float(r_squared((left**2).sum(), total))

    return CrossFit(
        games=fitted_game(fit, mean=mean, scale=scale),
        out=HeldOut(keep, scale * left, part, max(known_range, float(np.ptp(f)))),
        r2=r2(left),
        r2_linear=max(r2(_line_left(sample, ridge)) for ridge in _RIDGES),
        heads=count,
        penalties=penalties,
    )


class _Sample(NamedTuple):
    """Masks, their answers (mean 0, variance 1), and the part of the sample that each is in."""

    keep: Indicators
    y: PerMask
    part: Int[np.ndarray, " n"]

    def fitted(
        self, without: list[int], heads: int, penalties: list[tuple[float, float]]
    ) -> RatioFit:
        """Fit the sample without each of these parts, with each of the penalties."""
        seen = np.stack([self.part != one for one in without]).astype(np.float64)
        weight = np.tile(seen, (len(penalties), 1))
        table = np.repeat(np.array(penalties), len(without), axis=0)
        y = np.broadcast_to(self.y, weight.shape)
        return fit_ratio_games(self.keep, y, weight, heads=heads, penalties=table)


def _selected(sample: _Sample, heads: int | None) -> tuple[int, tuple[float, float], RatioFit]:
    """Return heads, penalties and the first fits of the game that masks left out like best."""
    # Penalties that suit one head suit three, or the next weaker ones do: trying all of them with
    # one head is a tenth of the work.
    count = heads or 1
    penalties, error, fit = _best(sample, count, list(_PENALTIES))
    for more in range(2, MOST_HEADS + 1) if heads is None else ():
        at = _PENALTIES.index(penalties)
        weaker, other, refit = _best(sample, more, list(_PENALTIES[at : at + 2]))
        if other < error:
            count, penalties, error, fit = more, weaker, other, refit
    return count, penalties, fit


def _best(
    sample: _Sample, heads: int, penalties: list[tuple[float, float]]
) -> tuple[tuple[float, float], float, RatioFit]:
    looked_at = list(range(_LOOKED_AT))
    fit = sample.fitted(looked_at, heads, penalties)
    predicted = fitted_values(fit, sample.keep)
    square = (sample.y - predicted.reshape(len(penalties), _LOOKED_AT, -1)) ** 2
    out = sample.part == np.arange(_LOOKED_AT)[:, None]
    errors = (square * out).sum(axis=(1, 2))
    best = int(np.argmin(errors))
    some = slice(best * _LOOKED_AT, (best + 1) * _LOOKED_AT)
    return penalties[best], float(errors[best]), _take(fit, some)


def _take(fit: RatioFit, some: slice) -> RatioFit:
    return RatioFit(*(x[some] for x in fit))


def _joined(*fits: RatioFit) -> RatioFit:
    return RatioFit(*map(np.concatenate, zip(*fits, strict=True)))


def _line_left(sample: _Sample, ridge: float) -> PerMask:
    """What the linear model without a mask's part leaves of its answer."""
    x, y, left = sample.keep, sample.y, np.empty(len(sample.y))
    for one in range(FOLDS):
        seen = sample.part != one
        mean_x, mean_y = x[seen].mean(axis=0), y[seen].mean()
        centered = x[seen] - mean_x
        gram = centered.T @ centered + ridge * np.eye(x.shape[1])
        slope = np.linalg.solve(gram, centered.T @ (y[seen] - mean_y))
        left[~seen] = y[~seen] - mean_y - (x[~seen] - mean_x) @ slope
    return left


class WordErrors(NamedTuple):
    """Standard errors, and the share of one pair of masks in the spread of what moved farthest."""

    stderr: Float[np.ndarray, " d"]
    spike: float


def word_errors(
    out: HeldOut, own: Float[np.ndarray, " d"], of_parts: Float[np.ndarray, "FOLDS d"], value: str
) -> WordErrors:
    r"""Return standard errors of the values ``own`` of a fitted game as values of the model.

    With e the standard error of the unbiased estimate (``of_parts``, the values of the games
    without each part, plus what masks of that part add), and δ its distance from ``own``,

    .. math:: \operatorname{stderr}_j^2 = e_j^2 + \tfrac1d \sum_k \delta_k^2:

    how far the estimate may lie from the model, and the game from the estimate.
    """
    # Subtracting the noise of δ from the second term, or taking both from the spread between the
    # parts, is sharper and covers less: 0.84 to 0.92 on deep games where this has 0.92 or more.
    kept, removed = _coefficients(out.keep.shape[1], value)
    spread = PowerSums.zeros(len(own))
    sums = np.zeros_like(of_parts)
    for start in range(0, len(out.left), 2 * _ROWS):
        some = slice(start, start + 2 * _ROWS)
        keep, part = out.keep[some], out.part[some][::2]
        size = keep.sum(axis=1)[:, None]
        share = np.where(keep, kept[size], removed[size]) * out.left[some][:, None]
        share = share.reshape(-1, 2, len(own)).mean(axis=1)
        np.add.at(sums, part, share)
        spread = spread.merge(PowerSums.from_contributions(share / out.draws))
    count = np.bincount(out.part[::2], minlength=len(of_parts))[:, None]
    estimate = (of_parts + sums / np.maximum(count, 1)).mean(axis=0)
    spike = 0.0 if out.flat else float(spread.largest_share())
    if spike > RARE_EFFECT_SHARE:  # every word's error allows for a draw that is most of a spread
        spread = spread._replace(largest=np.full_like(spread.largest, spread.largest.max()))
    error = spread.standard_error(out.draws, degrees=out.draws - 1)
    if out.flat:
        share = np.linspace(0, 1, len(kept))  # of the masks of a size, those that keep the word
        typical = np.sqrt(np.mean(share * kept**2 + (1 - share) * removed**2))
        error = unseen_effect_error(np.full_like(own, out.size * typical / out.draws))
    return WordErrors(np.sqrt(error**2 + np.mean((estimate - own) ** 2)), spike)


def pair_errors(out: HeldOut, own: PerPair, of_parts: Float[np.ndarray, "FOLDS d d"]) -> PerPair:
    """Return standard errors of Shapley interactions, as :func:`word_errors` has those of words."""
    d = len(own)
    shares = (d + 1) * shapley_pair_coefficients(d)
    n = len(out.left)
    spread = pair_influence_sums(out.keep.astype(np.float64), out.left / n, shares)
    added, error = spread.first, pair_standard_error(spread, n, d)
    off = ~np.eye(d, dtype=bool)
    if out.flat:
        error = off * unseen_effect_error(np.sqrt(np.mean(shares**2)) * out.size)
        error = error / len(out.left)
    distance = (of_parts.mean(axis=0) + added - own)[off]
    return off * np.sqrt(error**2 + np.mean(distance**2))


def _coefficients(d: int, value: str) -> tuple[PerSize, PerSize]:
    """κ by the number m of words kept, 0..d: where word j is kept, and where it is removed."""
    m = np.arange(d + 1)
    if value == "shapley":
        over = (d + 1) / np.maximum(m, 1)
        return over * (m > 0), -over[::-1] * (m < d)
    if value == "banzhaf":
        # (d + 1) C(d, m)/2^d by a recurrence in logarithms: C(d, m) overflows from d = 1030 on.
        logs = np.concatenate([[0.0], np.cumsum(np.log((d - m[:-1]) / (m[:-1] + 1)))])
        weight = 2 * (d + 1) * np.exp(logs - d * np.log(2))
        return weight, -weight
    design = lime_design(d, bandwidth=0.25)
    kept, removed = ((d + 1) * design.weight * x for x in design.coefficient_weights())
    return kept[::-1], removed[::-1]  # by the number of words kept, not removed


class _Rows(NamedTuple):
    """Masks with their answers and weights, which differ between the fits."""

    keep: Indicators
    y: PerFit
    weight: PerFit
    penalty: Float[np.ndarray, "B 2"]


class _Point(NamedTuple):
    """A fit with what it makes of the masks: D and N/D of each head, and what is left of y."""

    c: Float[np.ndarray, " B"]
    l: PerHead  # noqa: E741
    A: PerHead
    D: Float[np.ndarray, "B H n"]
    ratio: Float[np.ndarray, "B H n"]
    left: PerFit
    loss: Float[np.ndarray, " B"]


def fit_ratio_games(
    keep: Indicators, y: PerFit, weight: PerFit, *, heads: int, penalties: Float[np.ndarray, "B 2"]
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
    parts = []
    for start in range(0, y.shape[0], at_a_time):
        some = slice(start, start + at_a_time)
        rows = _Rows(keep, y[some], weight[some], penalties[some])
        parts.append(_descended(rows, _start(rows, heads)))
    return _joined(*parts)


def fitted_values(fit: RatioFit, keep: Indicators) -> PerFit:
    """g(Z) of every fit for each row Z of ``keep``."""
    _, ratio = _ratios(fit.l, fit.A, keep)
    return fit.c[:, None] + np.sum(ratio, axis=1)


def fitted_game(fit: RatioFit, *, mean: float, scale: float) -> RatioGame:
    """Return ``mean`` + ``scale`` g as a batch of ratio games of one class."""
    heads, d = fit.l.shape[-2:]
    a = np.exp(fit.l)
    constant = (mean + scale * fit.c)[:, None, None]
    # The value of a ratio game is the mean of its heads, g the sum of them.
    A = scale * heads * math.sqrt(d) * fit.A + constant * a
    none = np.zeros_like(a[..., 0])
    b = np.ones_like(a)
    return RatioGame(D0=none, a=a, b=b, N0=none[:, None], A=A[:, None], B=(constant * b)[:, None])


def _ratios(
    l: PerHead,  # noqa: E741
    A: PerHead,
    keep: Indicators,
) -> tuple[Float[np.ndarray, "B H n"], Float[np.ndarray, "B H n"]]:
    """D and N/D of each head for each mask."""
    d = keep.shape[1]
    D = np.exp(l) @ keep.T + (d - keep.sum(axis=1))
    return D, math.sqrt(d) * (A @ keep.T) / D


def _point(rows: _Rows, l: PerHead, A: PerHead) -> _Point:  # noqa: E741
    """What weights and numerators make of the rows, with the constant that suits them best."""
    D, ratio = _ratios(l, A, rows.keep)
    rest = rows.y - np.sum(ratio, axis=1)
    c = np.sum(rows.weight * rest, axis=1) / np.sum(rows.weight, axis=1)
    left = rest - c[:, None]
    u, spread = A * np.exp(-l), l - np.mean(l, axis=-1, keepdims=True)
    loss = (
        np.sum(rows.weight * left**2, axis=1)
        + rows.penalty[:, 0] * np.sum(spread**2, axis=(1, 2))
        + rows.penalty[:, 1] * np.sum(u**2, axis=(1, 2))
    )
    return _Point(c, l, A, D, ratio, left, loss)


def _start(rows: _Rows, heads: int) -> _Point:
    """The linear fit shared out among the heads, whose weights differ a little from the start."""
    d = rows.keep.shape[1]
    x = rows.keep - 0.5
    # Of all rows, though some weigh nothing: a place to start from need not be the best line.
    gram = x.T @ x + _RIDGE * np.eye(d)
    slope = np.linalg.solve(gram, ((rows.weight * rows.y) @ x).T).T
    # Heads that start alike stay alike: their derivatives are the same.
    rng = np.random.default_rng(0)
    apart = np.linspace(-1, 1, heads)[:, None] + 0.3 * rng.standard_normal((heads, d))
    first = apart if heads > 1 else np.zeros((1, d))
    l = first[None] + np.zeros_like(slope)[:, None, :]  # noqa: E741
    A = np.exp(l) * slope[:, None, :] * (math.sqrt(d) / heads)
    return _point(rows, l, A)


def _descended(rows: _Rows, point: _Point) -> RatioFit:
    """Levenberg's steps: damped less after one that helped, and more after one that did not."""
    damping = np.full_like(point.loss, 0.1)
    for _ in range(_STEPS):
        l, A = _stepped(rows, point, damping)  # noqa: E741
        new = _point(rows, np.clip(l, -_HEAVIEST, _HEAVIEST), A)
        # Fits go on side by side: one that steps badly keeps its point and is damped, the others
        # move.
        better = np.isfinite(new.loss) & (new.loss < point.loss)
        gained = np.where(better, point.loss - new.loss, 0.0)
        done = better & (gained <= _SETTLED * point.loss)
        both = zip(new, point, strict=True)  # each fit's new point where that is better
        point = _Point(*(np.where(better.reshape(-1, *(1,) * (a.ndim - 1)), a, b) for a, b in both))
        damping = np.clip(np.where(better, damping / 5, damping * 6), 1e-9, 1e9)
        if np.all(done | (damping >= 1e9)):
            break
    return RatioFit(point.c, point.l, point.A)


def _stepped(
    rows: _Rows, point: _Point, damping: Float[np.ndarray, " B"]
) -> tuple[PerHead, PerHead]:
    """Log weights and numerators after a step (JᵀWJ + penalties + damping)⁻¹ of the gradient."""
    B, H, d = point.l.shape
    # In (l, A), not in (l, u): at fixed numerators a weight acts on the denominator alone, and an
    # exact ratio game is met in a dozen steps where values as unknowns need hundreds.
    J = _derivatives(rows, point)
    mean = np.sum(rows.weight[..., None] * J, axis=1) / np.sum(rows.weight, axis=1)[:, None]
    J = J - mean[:, None, :]  # the constant follows every step
    JW = (rows.weight[..., None] * J).swapaxes(1, 2)
    slope, curve = _penalised(rows, point)
    downhill = (JW @ point.left[..., None])[..., 0] - slope
    curve = JW @ J + curve + damping[:, None, None] * np.eye(2 * H * d)
    step = np.linalg.solve(curve, downhill[..., None]).reshape(B, 2, H, d)
    return point.l + step[:, 0], point.A + step[:, 1]


def _derivatives(rows: _Rows, point: _Point) -> Float[np.ndarray, "B n p"]:
    r"""∂g/∂l_j = −Z_j e^{l_j} q/D and ∂g/∂A_j = √d Z_j/D, with q = N/D of the head."""
    B, H, d = point.l.shape
    n = rows.keep.shape[0]
    over = (1 / point.D).swapaxes(1, 2)[..., None]  # B n H 1
    slope = (-point.ratio / point.D).swapaxes(1, 2)[..., None]
    keep = rows.keep[None, :, None, :]
    by_weight = (slope * keep) * np.exp(point.l)[:, None, :, :]
    by_numerator = (math.sqrt(d) * over) * keep
    return np.concatenate([x.reshape(B, n, H * d) for x in (by_weight, by_numerator)], axis=2)


def _penalised(
    rows: _Rows, point: _Point
) -> tuple[Float[np.ndarray, "B p"], Float[np.ndarray, "B p p"]]:
    """Slope and curvature (Gauss–Newton's, halved like the rest) of the penalties."""
    B, H, d = point.l.shape
    m = H * d
    l, A = point.l.reshape(B, m), point.A.reshape(B, m)  # noqa: E741
    by_weight, by_value = rows.penalty[:, :1], rows.penalty[:, 1:]
    over = np.exp(-l)
    u = A * over
    spread = point.l - np.mean(point.l, axis=-1, keepdims=True)
    slope = [by_weight * spread.reshape(B, m) - by_value * u**2, by_value * u * over]
    eye = np.eye(m)
    centered = np.eye(m) - np.kron(np.eye(H), np.full((d, d), 1 / d))

    def diagonal(x: Float[np.ndarray, "B m"]) -> Float[np.ndarray, "B m m"]:
        return x[:, None, :] * eye

    ll = by_weight[..., None] * centered + diagonal(by_value * u**2)
    lA = diagonal(-by_value * u * over)
    AA = diagonal(by_value * over**2)
    return np.concatenate(slope, axis=1), np.block([[ll, lA], [lA, AA]])
