"""LIME's linear model of a sample as in the `lime` package, and the LASSO, with standard errors.

Features are selected, then a weighted ridge regression fits them. The standard errors assume no
model of the noise.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError, unknown_name_message
from limelight.sampling.masks import Indicators, Masks, PerMask
from limelight.sampling.ranks import MAX_DRAWS, TopSizes, certify_tops
from limelight.sampling.sample import Chunk, Moments, Outputs, Sample
from limelight.sampling.spread import PowerSums, r_squared, unseen_effect_error
from limelight.shapes import Bool, Float, Int
from limelight.theory.lime_shift import lime_shift

_SINGULAR = 1e-12
_WELL_CONDITIONED = 1e8  # largest condition number of a matrix that is surely regular
# A row with less freedom than this, 1 − leverage, is fitted exactly for every output.
_MIN_FREEDOM = 1e-6

SELECTIONS = ("auto", "forward_selection", "highest_weights", "none")
_MAX_FORWARD_COUNT = 6  # "auto" uses forward selection for at most this many features


def select_features(
    centered: Moments, column: int, *, count: int | None, method: str = "auto"
) -> tuple[int, ...]:
    """Select at most ``count`` features for one output; None selects all of them.

    Parameters
    ----------
    centered
        Sums over the sample about the means.
    column
        Number of the output.
    count
        Number of features to select.
    method
        "forward_selection", "highest_weights" or "none". "auto" is forward selection for up to 6
        features, and the highest weights for more.

    Returns
    -------
    The indices of the features.

    Raises
    ------
    InputError
        If the method of selection is unknown.
    """
    if method not in SELECTIONS:
        raise InputError(unknown_name_message("feature_selection", method, SELECTIONS))
    d = len(centered.x)
    if method == "none" or count is None or count >= d:
        return tuple(range(d))
    if method == "forward_selection" or (method == "auto" and count <= _MAX_FORWARD_COUNT):
        return forward_selection(centered.xx, centered.xy[:, column], count)
    return highest_weights(centered, column, count)


def forward_selection(
    xx: Float[np.ndarray, "d d"], xy: Float[np.ndarray, " d"], count: int
) -> tuple[int, ...]:
    """Select ``count`` features one by one, each time the one that raises R² most.

    The gain of a feature is (Σ x̃ỹ)²/Σx̃² after the selected features are swept out of x and y.
    """
    # The package fits a new regression for every candidate. Sweeping the selected feature out of
    # the sums gives the gains of all others in O(d²), with the same selection.
    xx, xy = xx.copy(), xy.copy()
    spread = np.diag(xx).copy()
    selected: list[int] = []
    for _ in range(count):
        variance = np.diag(xx)
        is_independent = variance > 1e-12 * spread  # others are combinations of selected features
        gain = np.where(is_independent, xy**2 / np.where(is_independent, variance, 1.0), 0.0)
        gain[selected] = -1.0  # below the 0 of combinations, so that ``count`` features are found
        best = int(np.argmax(gain))
        selected.append(best)
        if is_independent[best]:
            share = xx[:, best] / xx[best, best]
            xy -= share * xy[best]
            xx -= np.outer(share, xx[best])
    return tuple(selected)


def highest_weights(centered: Moments, column: int, count: int) -> tuple[int, ...]:
    """Select the features with the largest |β| of a ridge regression with penalty 0.01 on all."""
    # The package ranks coefficient × row 0, which is the same order, because row 0 has every
    # feature. Its sort is stable too, so ties have the same result.
    beta = (_ridge_inverse(centered.xx, 0.01) @ centered.xy)[:, column]
    return tuple(map(int, np.argsort(-np.abs(beta), kind="stable")[:count]))


class LimeFit(NamedTuple):
    """Coefficients of every feature for each output; features that were not selected have 0 ± 0.

    Standard errors are those of the final regression and ignore the selection. ``has_no_spread``
    says whether the fit is perfect. ``largest_share`` is the largest share of one row in the spread
    of the coefficient that moved farthest. ``draws`` are nearly independent draws of the
    coefficients of the first output, whose means they are: one for each group of random rows.
    ``shift`` are bounds on how far the penalty moves these coefficients.
    """

    scores: Float[np.ndarray, "m d"]
    stderr: Float[np.ndarray, "m d"]
    intercept: Float[np.ndarray, " m"]
    intercept_stderr: Float[np.ndarray, " m"]
    r2: Float[np.ndarray, " m"]
    has_no_spread: Bool[np.ndarray, " m"]
    largest_share: Float[np.ndarray, " m"]
    selected_count: Int[np.ndarray, " m"]
    draws: Float[np.ndarray, "G d"]
    shift: Float[np.ndarray, " d"]
    samples: int

    def certify_tops(self, level: float, *, first: int | None = None) -> TopSizes:
        """Return every K whose top set of the first output is certain at an error level."""
        # The selection of features looked at all rows.
        if self.selected_count[0] < len(self.shift) or not np.isfinite(self.draws).all():
            return ()
        return certify_tops(
            self.draws,
            scores=self.scores[0],
            level=level,
            first=first,
            # If the fit is perfect, the standard errors allow for unseen rows.
            slack=self.shift + 2 * self.stderr[0] * self.has_no_spread[0],
        )


def fit_sampled_lime(
    sample: Sample,
    *,
    ridge: float = 1.0,
    num_features: int | None = None,
    feature_selection: str = "auto",
    known_range: float = 0.0,
    bandwidth: float | None = None,
) -> LimeFit:
    """Compute the coefficients as the `lime` package does from the same rows.

    Parameters
    ----------
    sample
        Masks with their weights and outputs.
    ridge
        Penalty of the regression.
    num_features
        Number of features to select; None selects all.
    feature_selection
        How to select them (:func:`select_features`).
    known_range
        How far the output is known to move.
    bandwidth
        Kernel width with which the masks were drawn. Standard errors are then errors about LIME's
        limit, √(error² + shift²), because the penalty and row 0 shift the coefficients away from it
        (:func:`lime_shift`). None gives the errors about the penalized limit.

    Returns
    -------
    The coefficients with their standard errors, for each output.
    """
    centered = sample.moments.center()
    columns: dict[tuple[int, ...], list[int]] = {}
    for column in range(len(sample.reference_output)):
        selected = select_features(centered, column, count=num_features, method=feature_selection)
        columns.setdefault(selected, []).append(column)
    parts = []
    for features, outputs in columns.items():
        fit = _fit_ridge(sample, features, outputs, ridge=ridge, known_range=known_range)
        if bandwidth is not None and sample.d > 1 and (ridge or sample.row0):
            shifts = _limit_shifts(sample, fit, features, outputs, ridge, bandwidth)
            fit.stderr[:, features] = np.hypot(fit.stderr[:, features], shifts)
            fit.shift[list(features)] = shifts[0]
        parts.append(fit)
    if len(parts) == 1:
        return parts[0]
    column_order = np.argsort([column for outputs in columns.values() for column in outputs])
    *arrays, _, _, _ = zip(*parts, strict=True)
    merged: list[Any] = [np.concatenate(array)[column_order] for array in arrays]
    # The first part has the first output.
    merged += [parts[0].draws, parts[0].shift, sample.n]
    return LimeFit(*merged)


def _limit_shifts(
    sample: Sample,
    fit: LimeFit,
    features: Sequence[int],
    outputs: Sequence[int],
    ridge: float,
    bandwidth: float,
) -> Float[np.ndarray, "m k"]:
    """Return bounds on how far the penalty and row 0 shift the coefficients of each output."""
    scores = fit.scores[:, features]
    residual = sample.reference_output[outputs] - (fit.intercept + scores.sum(axis=1))
    settings: dict[str, Any] = {"samples": sample.n, "bandwidth": bandwidth, "words": sample.d}
    settings |= {"ridge": ridge, "row0": sample.row0}
    return np.stack(
        [
            lime_shift(output_scores, output_residual, **settings).magnitude
            for output_scores, output_residual in zip(scores, residual.tolist(), strict=True)
        ]
    )


def _fit_ridge(
    sample: Sample,
    features: Sequence[int],
    outputs: Sequence[int],
    *,
    ridge: float,
    known_range: float,
) -> LimeFit:
    r"""Minimize Σ w (y − b − β·x)² + ρ‖β‖² over the rows, as sklearn's ``Ridge`` with weights.

    The intercept is not penalized: β = H X̃ᵀWỹ, H = (X̃ᵀWX̃ + ρI)⁻¹ with X̃ and ỹ centered. With e the
    residual of each row if it is left out of the fit (e/(1 − h), known as HC3), the sandwich is

    .. math:: \operatorname{var} β_j = \sum_i (H w_i \tilde x_i e_i)_j^2,

    over the random rows only, because the untouched text is the same in every sample. ``stderr`` is
    the root of it, widened for few rows and rare effects (:meth:`PowerSums.standard_error`). If the
    fit is perfect, the error allows for three unseen rows that are off by ``known_range``, or by
    the largest difference between two outputs if that is more. Errors are infinite if a random row
    has leverage 1, and therefore no residual, or if the solution is not unique.
    """
    # HC3 and not HC0: the fit bends towards every row, so with a few samples per feature the
    # residuals are too small by the factor 1 − h. There is no noise model, because the variation
    # between masks is the nonlinear part of f, which depends on the number of removed features.
    # XᵀWX is that of the sample, although that of all masks is known in closed form: its errors are
    # correlated with those of XᵀWy and cancel them. With the known matrix β was 20 to 300 times
    # worse.
    centered, columns = sample.moments.center(), list(features)
    inverse = _ridge_inverse(centered.xx[np.ix_(columns, columns)], ridge)
    mean_x, mean_y = centered.x[columns], centered.y[outputs]
    beta = inverse @ centered.xy[np.ix_(columns, outputs)]
    sums = _ResidualSums.empty(len(outputs), len(columns))
    groups = _GroupedInfluence(sample.n - sample.row0, len(columns))
    # Residuals need β, hence a second pass over the rows. The influence of a row is w e H x̃ on the
    # slopes and w e (1/Σw − x̄ᵀH x̃) on the intercept.
    for chunk in sample.chunks():
        x = chunk.keep[:, columns] - mean_x
        spread = x @ inverse
        leverage = chunk.weight * (1 / centered.weight + (spread * x).sum(axis=1))
        residual = chunk.outputs[:, outputs] - mean_y - x @ beta
        shift = 1 / centered.weight - spread @ mean_x
        sums = sums.add_chunk(chunk, residual, leverage, np.column_stack([spread, shift]))
        groups.add_rows(chunk, residual[:, 0], leverage, spread)
    allowed_effect = np.maximum(known_range, sample.output_range[outputs])
    errors, has_no_spread = sums.standard_errors(sample.n - sample.row0, allowed_effect, ridge)
    slopes = PowerSums(*(x[:, :-1] for x in sums.influence))
    scores, stderr = np.zeros((2, len(outputs), sample.d))
    scores[:, columns], stderr[:, columns] = beta.T, errors[:, :-1]
    draws = np.zeros((len(groups.sums), sample.d))
    draws[:, columns] = groups.draws(beta[:, 0]) if np.isfinite(errors).all() else np.nan
    return LimeFit(
        scores=scores,
        stderr=stderr,
        intercept=sample.reference_output[outputs] + mean_y - mean_x @ beta,
        intercept_stderr=errors[:, -1],
        r2=r_squared(sums.squared_residual, centered.yy[outputs]),
        has_no_spread=has_no_spread,
        largest_share=np.where(has_no_spread, 0.0, slopes.largest_share()),
        selected_count=np.full(len(outputs), len(columns)),
        draws=draws,
        shift=np.zeros(sample.d),
        samples=sample.n,
    )


class _GroupedInfluence:
    """Sums of the influences of random rows on the slopes, for groups of consecutive rows.

    Rows that do not fill a group are left out.
    """

    def __init__(self, rows: int, k: int) -> None:
        self._rows, self._size = rows, max(1, -(-rows // MAX_DRAWS))
        self.sums: Float[np.ndarray, "G k"] = np.zeros((rows // self._size, k))
        self._added = 0

    def add_rows(
        self, chunk: Chunk, residual: PerMask, leverage: PerMask, spread: Float[np.ndarray, "n k"]
    ) -> None:
        """Add the rows of a chunk with their residuals, as :meth:`_ResidualSums.add_chunk` does."""
        is_random = chunk.is_random
        factor = chunk.weight / np.maximum(1 - leverage, _MIN_FREEDOM) * residual
        group = (self._added + np.arange(np.count_nonzero(is_random))) // self._size
        self._added += len(group)
        is_full = group < len(self.sums)
        influence = (factor[:, None] * spread)[is_random][is_full]
        if len(influence):
            first = int(group[0])
            starts = np.searchsorted(group[is_full], np.arange(first, int(group[is_full][-1]) + 1))
            self.sums[first : first + len(starts)] += np.add.reduceat(influence, starts, axis=0)

    def draws(self, slopes: Float[np.ndarray, " k"]) -> Float[np.ndarray, "G k"]:
        """Return the slopes that each group stands for, whose means are ``slopes``."""
        # An influence is that on a mean over all rows, so a group counts as many times as it would
        # take to fill them.
        deviations = self.sums * (self._rows / self._size)
        return slopes + deviations - deviations.mean(axis=0, keepdims=True)


def leave_one_out_residuals(sample: Sample) -> Iterator[tuple[Indicators, Outputs]]:
    """Yield masks with their residuals e/(1 − h) from the line that is fitted to the other rows."""
    centered = sample.moments.center()
    inverse = _ridge_inverse(centered.xx, 0.0)
    beta = inverse @ centered.xy
    for chunk in sample.chunks():
        x = chunk.keep - centered.x
        leverage = chunk.weight * (1 / centered.weight + ((x @ inverse) * x).sum(axis=1))
        residual = chunk.outputs - centered.y - x @ beta
        yield chunk.keep, residual / np.maximum(1 - leverage, _MIN_FREEDOM)[:, None]


class _ResidualSums(NamedTuple):
    """Sums over rows and their residuals: the influence on β and, last, on the intercept.

    ``max_influence`` is the largest influence per unit of a residual. ``squared_residual`` is
    Σ w e², ``total_leverage`` the sum of the leverages h of the rows, and ``min_freedom`` the
    smallest 1 − h of a random row.
    """

    influence: PowerSums
    max_influence: Float[np.ndarray, " k"]
    squared_residual: Float[np.ndarray, " m"]
    total_leverage: float = 0.0
    min_freedom: float = np.inf

    @staticmethod
    def empty(m: int, k: int) -> "_ResidualSums":
        """Return the sums over no rows, for ``m`` outputs and ``k`` features."""
        return _ResidualSums(PowerSums.zeros(m, k + 1), np.zeros(k + 1), np.zeros(m))

    def add_chunk(
        self, chunk: Chunk, residual: Outputs, leverage: PerMask, spread: Float[np.ndarray, "n k"]
    ) -> "_ResidualSums":
        """Return the sums with the rows of a chunk."""
        freedom = 1 - leverage
        # Kept away from 0, so that nothing is divided by it. Such errors become infinite below.
        factor = chunk.weight / np.maximum(freedom, _MIN_FREEDOM) * chunk.is_random
        error, size = factor[:, None] * residual, np.abs(spread)
        # Squares of squares: a general power costs ten times as much.
        squares = error**2, spread**2
        first, second = error.T @ spread, squares[0].T @ squares[1]
        fourth = (squares[0] ** 2).T @ squares[1] ** 2
        largest = [(np.abs(column)[:, None] * size).max(axis=0) for column in error.T]
        random_freedom = np.min(freedom, where=chunk.is_random, initial=np.inf)
        return _ResidualSums(
            self.influence.merge(PowerSums(first, second, fourth, np.stack(largest))),
            np.maximum(self.max_influence, (factor[:, None] * size).max(axis=0)),
            self.squared_residual + chunk.weight @ residual**2,
            self.total_leverage + float(leverage.sum()),
            min(self.min_freedom, float(random_freedom)),
        )

    def standard_errors(
        self, draws: int, allowed_effect: Float[np.ndarray, " m"], ridge: float
    ) -> tuple[Float[np.ndarray, "m k"], Bool[np.ndarray, " m"]]:
        """Return the standard errors, and the outputs whose fit is perfect."""
        # The influences of a plain fit add up to 0. With a penalty, without row 0 or after
        # e/(1 − h) they do not, and their sum in every sample is not noise.
        errors, has_no_spread = self.influence.standard_error_or_unseen(
            allowed_effect[:, None] * self.max_influence,
            draws,
            degrees=draws - len(self.max_influence),
        )
        return errors if self._has_errors(ridge) else np.inf + errors, has_no_spread

    def _has_errors(self, ridge: float) -> bool:
        """Return whether the rows determine the standard errors.

        Without a penalty the leverages add up to the number of coefficients that the rows
        determine, including the intercept.
        """
        # That number is an integer, so half of one separates "all" from "one fewer" in spite of
        # rounding.
        coefficients = len(self.max_influence)
        is_unique = ridge > 0 or self.total_leverage > coefficients - 0.5
        return self.min_freedom > _MIN_FREEDOM and is_unique


def _ridge_inverse(xx: Float[np.ndarray, "k k"], ridge: float) -> Float[np.ndarray, "k k"]:
    """Return the inverse of xx + ρI, or the pseudoinverse if the penalty is negligible."""
    # Normal equations square the condition number of X. QR would not, but needs all rows as floats
    # at once. There is room: the limit of xx has the condition 24 for 100 words at ν = 0.25.
    penalized = xx + ridge * np.eye(len(xx))
    # A pseudoinverse takes five times as long, or ten with many threads.
    with contextlib.suppress(np.linalg.LinAlgError):
        inverse = np.linalg.inv(penalized)
        condition = np.linalg.norm(penalized, np.inf) * np.linalg.norm(inverse, np.inf)
        if ridge > _SINGULAR * np.trace(xx) or condition < _WELL_CONDITIONED:
            return inverse
    return np.linalg.pinv(penalized, rcond=_SINGULAR, hermitian=True)


class LassoFit(NamedTuple):
    """Coefficients of a LASSO with their standard errors.

    ``has_no_spread`` says whether every slope stays the same when rows are left out. ``part_count``
    is the number of parts of the rows that the jackknife leaves out in turn. ``largest_share`` is
    the largest share of a part in the spread of the slope that moved farthest.
    """

    coefficients: Float[np.ndarray, " d"]
    stderr: Float[np.ndarray, " d"]
    intercept: float
    has_no_spread: bool
    largest_share: float
    part_count: int


_MAX_PARTS = 32  # parts of the rows, each left out once for the standard errors
_MAX_ITERATIONS, _CONVERGENCE = 1000, 1e-9
_CONSTANT = 1e-6  # share of the error for unseen rows; the slopes are accurate to about 1e-9


def fit_lasso(keep: Masks, y: PerMask, *, penalty: float, known_range: float = 0.0) -> LassoFit:
    r"""Minimize :math:`\frac{1}{2n} \sum (y - b - w \cdot z)^2 + \lambda \|w\|_1` over the rows.

    z are the standardized columns of ``keep``. The coefficients are those of the unscaled columns,
    w/σ. scikit-learn's ``StandardScaler`` and ``Lasso`` give the same minimum, to 1e-4.

    Standard errors are about the expectation of the LASSO, so they ignore its shrinkage. They are a
    jackknife of the slopes before the penalty is subtracted: the rows are divided into up to 32
    parts, each of which is left out once. Subtracting the penalty never moves two slopes further
    apart. A feature that the LASSO keeps in all parts therefore has the error of its coefficient,
    and a feature that it drops has an error that is large enough and not 0. If no slope moves, the
    error allows for three unseen rows. They are off by ``known_range``, or by the largest
    difference in ``y`` if that is more. A feature that is in all rows or in none may have an effect
    of that size.

    Parameters
    ----------
    keep
        Masks of the rows.
    y
        Output of each row.
    penalty
        λ of the objective.
    known_range
        How far the output is known to move.

    Returns
    -------
    The coefficients, in units of the features themselves.
    """
    n, origin = len(y), float(y[0])
    y = y - origin  # numbers that are all the same become 0, without a rounding error
    parts = np.arange(n) % min(n, _MAX_PARTS)
    part_count = int(parts.max()) + 1
    # A row of weights for each regression: all rows, and all but one part.
    weight = np.concatenate([np.ones((1, n)), parts != np.arange(part_count)[:, None]])
    weight = weight / weight.sum(axis=1, keepdims=True)
    x = keep.astype(np.float64)
    mean, mean_y = weight @ x, weight @ y
    gram = np.stack([(x * row[:, None]).T @ x for row in weight]) - mean[:, :, None] * mean[:, None]
    scale = np.sqrt(np.maximum(np.diagonal(gram, axis1=1, axis2=2), 0.0))
    scale = np.where(scale > _SINGULAR, scale, 1.0)
    slope = ((weight * y) @ x - mean * mean_y[:, None]) / scale
    gram /= scale[:, :, None] * scale[:, None]
    coefficients, penalties = np.zeros_like(slope), np.zeros_like(slope)
    for _ in range(_MAX_ITERATIONS):
        previous = coefficients.copy()
        for j in range(x.shape[1]):
            variance = gram[:, j, j]
            fitted = (gram[:, j] * coefficients).sum(axis=1)
            partial_slope = slope[:, j] - fitted + variance * coefficients[:, j]
            penalties[:, j] = np.clip(partial_slope, -penalty, penalty)
            shrunk = (partial_slope - penalties[:, j]) / np.where(variance > 0, variance, 1.0)
            coefficients[:, j] = np.where(variance > _SINGULAR, shrunk, 0.0)
        largest = max(1.0, float(np.abs(coefficients).max()))
        if np.abs(coefficients - previous).max() <= _CONVERGENCE * largest:
            break
    coefficients /= scale
    slopes = coefficients[1:] + penalties[1:] / scale[0]
    deviations = math.sqrt((part_count - 1) / part_count) * (slopes - slopes.mean(axis=0))
    spread = PowerSums.from_contributions(deviations)
    allowed_effect = max(known_range, float(np.ptp(y)))
    unseen_errors = unseen_effect_error(allowed_effect / (n * scale[0]))
    is_constant = spread.largest <= _CONSTANT * unseen_errors
    sampled_errors = spread.standard_error(part_count, degrees=part_count - 1)
    stderr = np.where(is_constant, unseen_errors, sampled_errors)
    # The mean of y differs by at most twice this between rows with and without the feature.
    stderr = np.where(np.ptp(x, axis=0) > 0, stderr, allowed_effect / 2)
    return LassoFit(
        coefficients=coefficients[0],
        stderr=stderr,
        intercept=float(origin + mean_y[0] - coefficients[0] @ mean[0]),
        has_no_spread=bool(is_constant.all()),
        largest_share=0.0 if is_constant.all() else float(spread.largest_share()),
        part_count=part_count,
    )


_FOLDS = 8  # of the cross-validation
# Penalties in the order in which they are fitted. With 1, every coefficient is 0.
_PENALTY_SHARES = np.logspace(0, -2.5, 16)
_MAX_PATH_SWEEPS, _PATH_CONVERGENCE = 80, 1e-4
_MAX_LASSO_FEATURES = 1000  # bounds the memory of a matrix for each fold


def fit_cross_validated_lasso(keep: Masks, y: PerMask) -> Float[np.ndarray, " d"]:
    r"""Return the coefficients of a LASSO whose penalty has the least error on rows left out.

    The objective is :math:`\frac{1}{2n} \sum (y - b - w \cdot x)^2 + \lambda \|w\|_1`. The columns
    are those of ``keep``, not standardized. The rows are divided into eight folds. If there are
    more than 1,000 columns, those with the smallest covariance with ``y`` get the coefficient 0.

    Parameters
    ----------
    keep
        Masks of the rows, at least eight.
    y
        Output of each row.
    """
    x, y = keep - keep.mean(axis=0), y - y.mean()
    columns = np.argsort(-np.abs(x.T @ y), kind="stable")[:_MAX_LASSO_FEATURES]
    x, fold = x[:, columns], np.arange(len(y)) % _FOLDS
    weight = np.concatenate([fold != np.arange(_FOLDS)[:, None], np.ones((1, len(y)), bool)])
    weight = weight / weight.sum(axis=1, keepdims=True)
    gram = np.stack([(x * row[:, None]).T @ x for row in weight])
    slope = (weight * y) @ x
    penalties = np.abs(slope[-1]).max(initial=0.0) * _PENALTY_SHARES
    paths = np.zeros((len(penalties), *slope.shape))
    coefficients = np.zeros_like(slope)
    for path, penalty in zip(paths, penalties, strict=True):
        coefficients = _descend(gram, slope, coefficients, penalty)
        path[:] = coefficients
    residuals = y - np.einsum("pnd,nd->pn", paths[:, fold], x)
    best = int(np.argmin((residuals**2).sum(axis=1)))
    scores = np.zeros(keep.shape[1])
    scores[columns] = paths[best, -1]
    return scores + 0.0  # without -0.0


def _descend(
    gram: Float[np.ndarray, "B d d"],
    slope: Float[np.ndarray, "B d"],
    start: Float[np.ndarray, "B d"],
    penalty: float,
) -> Float[np.ndarray, "B d"]:
    """Minimize the objectives of several LASSOs with one penalty by coordinate descent."""
    coefficients, variance = start.copy(), np.diagonal(gram, axis1=1, axis2=2)
    divisor = np.where(variance > _SINGULAR, variance, np.inf)
    for _ in range(_MAX_PATH_SWEEPS):
        previous = coefficients.copy()
        for j in range(slope.shape[1]):
            fitted = (gram[:, j] * coefficients).sum(axis=1)
            partial_slope = slope[:, j] - fitted + variance[:, j] * coefficients[:, j]
            shrunk = np.sign(partial_slope) * np.maximum(np.abs(partial_slope) - penalty, 0.0)
            coefficients[:, j] = shrunk / divisor[:, j]
        if np.abs(coefficients - previous).max() <= _PATH_CONVERGENCE * np.abs(coefficients).max():
            break
    return coefficients
