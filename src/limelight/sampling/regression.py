"""LIME's linear model of a sample, by the `lime` package's rules, with errors of no noise model.

Words are selected, then a weighted ridge regression fits them; beside it the LASSO.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError, nearest
from limelight.sampling.masks import Indicators, Masks, PerMask
from limelight.sampling.sample import Answers, Chunk, Moments, Sample
from limelight.sampling.spread import Spread, explained, unseen_error
from limelight.shapes import Bool, Float, Int
from limelight.theory.lime_shift import lime_shift

_SINGULAR = 1e-12
_ALONE = 1e-6  # a row that leaves less than this of itself free is met by the fit, whatever it says

SELECTIONS = ("auto", "forward_selection", "highest_weights", "none")
_FEW = 6  # up to here "auto" selects forward


def selected(
    centered: Moments, column: int, *, count: int | None, method: str = "auto"
) -> tuple[int, ...]:
    """Return the features to keep for output ``column``, at most ``count`` (None: all of them).

    "auto" is forward selection for up to 6 features and the highest weights beyond.
    """
    if method not in SELECTIONS:
        raise InputError(nearest("feature_selection", method, SELECTIONS))
    d = len(centered.x)
    if method == "none" or count is None or count >= d:
        return tuple(range(d))
    if method == "forward_selection" or (method == "auto" and count <= _FEW):
        return forward_selection(centered.xx, centered.xy[:, column], count)
    return highest_weights(centered, column, count)


def forward_selection(
    xx: Float[np.ndarray, "d d"], xy: Float[np.ndarray, " d"], count: int
) -> tuple[int, ...]:
    """Return ``count`` features, each the one that raises R² of least squares most.

    A feature's gain is (Σ x̃ỹ)²/Σx̃² once what the chosen ones explain is swept out of both.
    """
    # The package fits a new regression for every candidate. Sweeping the chosen feature out of the
    # sums gives the gains of all others in O(d²), with the same choices.
    xx, xy = xx.copy(), xy.copy()
    spread = np.diag(xx).copy()
    chosen: list[int] = []
    for _ in range(count):
        left = np.diag(xx)
        alive = left > 1e-12 * spread  # the others are combinations of the chosen
        gain = np.where(alive, xy**2 / np.where(alive, left, 1.0), 0.0)
        gain[chosen] = -1.0  # below the 0 of combinations, so that ``count`` are found in any case
        best = int(np.argmax(gain))
        chosen.append(best)
        if alive[best]:
            share = xx[:, best] / xx[best, best]
            xy -= share * xy[best]
            xx -= np.outer(share, xx[best])
    return tuple(chosen)


def highest_weights(centered: Moments, column: int, count: int) -> tuple[int, ...]:
    """Return the features with the largest |β| of a ridge regression with penalty 0.01 on all."""
    # The package ranks coefficient × row 0, where every word is present: the same order. Its sort
    # is stable too, so ties fall alike.
    beta = (_inverse(centered.xx, 0.01) @ centered.xy)[:, column]
    return tuple(map(int, np.argsort(-np.abs(beta), kind="stable")[:count]))


class LimeFit(NamedTuple):
    """One coefficient per word and output; words that were not kept have 0 with error 0.

    Standard errors are those of the final regression: they take the selection as given. ``flat``
    says that the fit is perfect, ``spike`` is the largest share of one row in the spread of the
    coefficient that moved farthest.
    """

    scores: Float[np.ndarray, "m d"]
    stderr: Float[np.ndarray, "m d"]
    intercept: Float[np.ndarray, " m"]
    intercept_stderr: Float[np.ndarray, " m"]
    r2: Float[np.ndarray, " m"]
    flat: Bool[np.ndarray, " m"]
    spike: Float[np.ndarray, " m"]
    kept: Int[np.ndarray, " m"]
    samples: int


def fitted_lime(
    sample: Sample,
    *,
    ridge: float = 1.0,
    num_features: int | None = None,
    feature_selection: str = "auto",
    known_range: float = 0.0,
    bandwidth: float | None = None,
) -> LimeFit:
    """Return the coefficients as the `lime` package computes them from the same rows.

    ``known_range`` is how far the output can move, as far as anybody knows. With the ``bandwidth``
    of the draws standard errors are about LIME's limit, √(error² + shift²): what a penalty and row
    0 shift (`lime_shift`) is part of the distance to it. None: about the penalised limit.
    """
    centered = sample.moments.centered()
    columns: dict[tuple[int, ...], list[int]] = {}
    for column in range(len(sample.origin)):
        chosen = selected(centered, column, count=num_features, method=feature_selection)
        columns.setdefault(chosen, []).append(column)
    parts = []
    for features, outputs in columns.items():
        fit = _ridge_fit(sample, features, outputs, ridge=ridge, known_range=known_range)
        if bandwidth is not None and sample.d > 1 and (ridge or sample.row0):
            fit.stderr[:, features] = np.hypot(
                fit.stderr[:, features], _shifts(sample, fit, features, outputs, ridge, bandwidth)
            )
        parts.append(fit)
    if len(parts) == 1:
        return parts[0]
    back = np.argsort([column for outputs in columns.values() for column in outputs])
    *arrays, _ = zip(*parts, strict=True)
    joined: list[Any] = [*(np.concatenate(array)[back] for array in arrays), sample.n]
    return LimeFit(*joined)


def _shifts(
    sample: Sample,
    fit: LimeFit,
    features: Sequence[int],
    outputs: Sequence[int],
    ridge: float,
    bandwidth: float,
) -> Float[np.ndarray, "m k"]:
    """How far penalty and row 0 shift the coefficients of each output, as the fit itself tells."""
    found = fit.scores[:, features]
    left = sample.origin[outputs] - (fit.intercept + found.sum(axis=1))
    settings: dict[str, Any] = {"samples": sample.n, "bandwidth": bandwidth, "words": sample.d}
    both = zip(found, left.tolist(), strict=True)
    settings |= {"ridge": ridge, "row0": sample.row0}
    return np.stack([lime_shift(*one, **settings).most for one in both])


def _ridge_fit(
    sample: Sample,
    features: Sequence[int],
    outputs: Sequence[int],
    *,
    ridge: float,
    known_range: float,
) -> LimeFit:
    r"""Minimise Σ w (y − b − β·x)² + ρ‖β‖² over the rows; sklearn's ``Ridge`` with weights.

    The intercept goes unpenalised: β = H X̃ᵀWỹ, H = (X̃ᵀWX̃ + ρI)⁻¹ with X̃ and ỹ centered. With e the
    residual that each row would leave if it were not in the sample (e/(1 − h), known as HC3), the
    sandwich is

    .. math:: \operatorname{var} β_j = \sum_i (H w_i \tilde x_i e_i)_j^2,

    over the drawn rows only: the untouched document is the same in every sample. ``stderr`` is the
    root of it, widened for few rows and rare effects (:meth:`Spread.error`). Where the fit is
    perfect, three unseen rows are allowed for that are off by ``known_range``, or by the largest
    difference between two answers if that is more. Errors are infinite where a drawn row has
    leverage 1, and so no residual, or the solution is not unique.
    """
    # HC3 and not HC0: the fit bends towards every row, so with a few samples per word the residuals
    # themselves are too small, by 1 − h. No noise model: what varies between masks is what f does
    # beyond the line, and it depends on how many words are gone.
    # XᵀWX of the sample itself, although that of all masks is known in closed form: its errors go
    # with those of XᵀWy and cancel them. With the known matrix β was 20 to 300 times worse.
    centered, words = sample.moments.centered(), list(features)
    inverse = _inverse(centered.xx[np.ix_(words, words)], ridge)
    mean_x, mean_y = centered.x[words], centered.y[outputs]
    beta = inverse @ centered.xy[np.ix_(words, outputs)]
    rests = _Rests.none(len(outputs), len(words))
    # A second pass over the rows: residuals need β. A row's influence is w e H x̃ on the slopes
    # and w e (1/Σw − x̄ᵀH x̃) on the intercept.
    for chunk in sample.chunks():
        x = chunk.keep[:, words] - mean_x
        spread = x @ inverse
        leverage = chunk.weight * (1 / centered.weight + (spread * x).sum(axis=1))
        residual = chunk.outputs[:, outputs] - mean_y - x @ beta
        shift = 1 / centered.weight - spread @ mean_x
        rests = rests.plus(chunk, residual, leverage, np.column_stack([spread, shift]))
    size = np.maximum(known_range, sample.range[outputs])
    errors, flat = rests.errors(sample.n - sample.row0, size, ridge)
    slopes = Spread(*(x[:, :-1] for x in rests.influence))
    scores, stderr = np.zeros((2, len(outputs), sample.d))
    scores[:, words], stderr[:, words] = beta.T, errors[:, :-1]
    return LimeFit(
        scores=scores,
        stderr=stderr,
        intercept=sample.origin[outputs] + mean_y - mean_x @ beta,
        intercept_stderr=errors[:, -1],
        r2=explained(rests.left, centered.yy[outputs]),
        flat=flat,
        spike=np.where(flat, 0.0, slopes.spike()),
        kept=np.full(len(outputs), len(words)),
        samples=sample.n,
    )


def left_out_residuals(sample: Sample) -> Iterator[tuple[Indicators, Answers]]:
    """Yield masks with what f does there beyond the line fitted to the other rows, e/(1 − h)."""
    centered = sample.moments.centered()
    inverse = _inverse(centered.xx, 0.0)
    beta = inverse @ centered.xy
    for chunk in sample.chunks():
        x = chunk.keep - centered.x
        leverage = chunk.weight * (1 / centered.weight + ((x @ inverse) * x).sum(axis=1))
        residual = chunk.outputs - centered.y - x @ beta
        yield chunk.keep, residual / np.maximum(1 - leverage, _ALONE)[:, None]


class _Rests(NamedTuple):
    """What the rows leave: their influence on β and the intercept, the last column.

    ``reach`` is the largest influence for each unit of a residual, ``left`` Σ w e², ``leverage``
    the sum of the rows' leverages, ``free`` the least 1 − h of a drawn row.
    """

    influence: Spread
    reach: Float[np.ndarray, " k"]
    left: Float[np.ndarray, " m"]
    leverage: float = 0.0
    free: float = np.inf

    @staticmethod
    def none(m: int, k: int) -> "_Rests":
        return _Rests(Spread.zero(m, k + 1), np.zeros(k + 1), np.zeros(m))

    def plus(
        self, chunk: Chunk, residual: Answers, leverage: PerMask, spread: Float[np.ndarray, "n k"]
    ) -> "_Rests":
        free = 1 - leverage
        # Held away from 0 so that nothing is divided by it; such errors become infinite below.
        pull = chunk.weight / np.maximum(free, _ALONE) * chunk.drawn
        error, size = pull[:, None] * residual, np.abs(spread)
        # Squares of squares: a general power costs ten times as much.
        squares = error**2, spread**2
        first, second = error.T @ spread, squares[0].T @ squares[1]
        fourth = (squares[0] ** 2).T @ squares[1] ** 2
        largest = [(np.abs(column)[:, None] * size).max(axis=0) for column in error.T]
        return _Rests(
            self.influence.plus(Spread(first, second, fourth, np.stack(largest))),
            np.maximum(self.reach, (pull[:, None] * size).max(axis=0)),
            self.left + chunk.weight @ residual**2,
            self.leverage + float(leverage.sum()),
            min(self.free, float(np.min(free, where=chunk.drawn, initial=np.inf))),
        )

    def errors(
        self, draws: int, size: Float[np.ndarray, " m"], ridge: float
    ) -> tuple[Float[np.ndarray, "m k"], Bool[np.ndarray, " m"]]:
        """Return the standard errors, and for which outputs the fit is perfect."""
        # The influences of a plain fit add up to 0. With a penalty, without row 0 or after
        # e/(1 − h) they do not, and what they add up to in every sample is not noise.
        errors, flat = self.influence.or_unseen(
            size[:, None] * self.reach, draws, degrees=draws - len(self.reach)
        )
        return errors if self._determined(ridge) else np.inf + errors, flat

    def _determined(self, ridge: float) -> bool:
        """Whether the rows say how far the fit could be off.

        Without a penalty the leverages add up to the number of coefficients that the rows
        determine, the intercept among them.
        """
        # That number is whole, so half of one tells "all" from "one fewer" whatever the rounding.
        everything = len(self.reach)
        return self.free > _ALONE and (ridge > 0 or self.leverage > everything - 0.5)


def _inverse(xx: Float[np.ndarray, "k k"], ridge: float) -> Float[np.ndarray, "k k"]:
    """Inverse of xx + ρI; without a penalty to speak of, the one of least norm."""
    # Normal equations square the condition number of X; QR would not, but needs all rows as floats
    # at once. There is room: the limit of xx has the condition 24 for 100 words at ν = 0.25.
    penalised = xx + ridge * np.eye(len(xx))
    if ridge > _SINGULAR * np.trace(xx):
        return np.linalg.inv(penalised)
    return np.linalg.pinv(penalised, rcond=_SINGULAR, hermitian=True)


class LassoFit(NamedTuple):
    """Coefficients of a LASSO with their standard errors.

    ``flat`` says that no slope depends on which rows are left out. ``parts`` is how many parts of
    the rows the jackknife leaves out, ``spike`` the largest share of a part in the spread of the
    slope that moved farthest.
    """

    coefficients: Float[np.ndarray, " d"]
    stderr: Float[np.ndarray, " d"]
    intercept: float
    flat: bool
    spike: float
    parts: int


_PARTS = 32  # of the rows, each left out once for the standard errors
_STEPS, _CONVERGED = 1000, 1e-9
_CONSTANT = 1e-6  # of the error for unseen rows: the slopes themselves are known to about 1e-9


def lasso_fit(keep: Masks, y: PerMask, *, penalty: float, known_range: float = 0.0) -> LassoFit:
    r"""Minimise :math:`\frac{1}{2n} \sum (y - b - w \cdot z)^2 + \lambda \|w\|_1` over the rows.

    z are the columns of ``keep``, standardised; the coefficients are those of the columns as they
    are, w/σ. scikit-learn's ``StandardScaler`` and ``Lasso`` minimise the same, to 1e-4.

    Standard errors are about the LASSO's own expectation, and not about what it shrinks. They are
    a jackknife of the slopes before the penalty is subtracted: the rows fall into up to 32 parts,
    each of which is left out once. Subtracting the penalty never moves two slopes further apart.
    A feature that the LASSO keeps in all parts therefore has the error of its coefficient, and a
    feature that it drops has an error that is large enough and not 0. Where no slope moves, three
    unseen rows are allowed for. They are off by ``known_range``, or by the largest difference in
    ``y`` if that is more. A feature that is in all rows or in none may be worth that much.
    """
    n, origin = len(y), float(y[0])
    y = y - origin  # numbers that are all the same become 0, without a rounding error
    parts = np.arange(n) % min(n, _PARTS)
    count = int(parts.max()) + 1
    # A row of weights for each regression: all rows, and all but one part.
    weight = np.concatenate([np.ones((1, n)), parts != np.arange(count)[:, None]])
    weight = weight / weight.sum(axis=1, keepdims=True)
    x = keep.astype(np.float64)
    mean, mean_y = weight @ x, weight @ y
    gram = np.stack([(x * own[:, None]).T @ x for own in weight]) - mean[:, :, None] * mean[:, None]
    scale = np.sqrt(np.maximum(np.diagonal(gram, axis1=1, axis2=2), 0.0))
    scale = np.where(scale > _SINGULAR, scale, 1.0)
    slope = ((weight * y) @ x - mean * mean_y[:, None]) / scale
    gram /= scale[:, :, None] * scale[:, None]
    found, penalties = np.zeros_like(slope), np.zeros_like(slope)
    for _ in range(_STEPS):
        before = found.copy()
        for j in range(x.shape[1]):
            own = gram[:, j, j]
            left = slope[:, j] - (gram[:, j] * found).sum(axis=1) + own * found[:, j]
            penalties[:, j] = np.clip(left, -penalty, penalty)
            found[:, j] = np.where(
                own > _SINGULAR, (left - penalties[:, j]) / np.where(own > 0, own, 1.0), 0.0
            )
        if np.abs(found - before).max() <= _CONVERGED * max(1.0, float(np.abs(found).max())):
            break
    found /= scale
    slopes = found[1:] + penalties[1:] / scale[0]
    spread = Spread.of(math.sqrt((count - 1) / count) * (slopes - slopes.mean(axis=0)))
    size = max(known_range, float(np.ptp(y)))
    unseen_errors = unseen_error(size / (n * scale[0]))
    is_constant = spread.largest <= _CONSTANT * unseen_errors
    stderr = np.where(is_constant, unseen_errors, spread.error(count, degrees=count - 1))
    # Twice this is as far as the mean of y may differ between rows with and without the feature.
    stderr = np.where(np.ptp(x, axis=0) > 0, stderr, size / 2)
    return LassoFit(
        coefficients=found[0],
        stderr=stderr,
        intercept=float(origin + mean_y[0] - found[0] @ mean[0]),
        flat=bool(is_constant.all()),
        spike=0.0 if is_constant.all() else float(spread.spike()),
        parts=count,
    )
