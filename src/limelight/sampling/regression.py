"""Weighted ridge regression on a sample, with standard errors that trust no noise model."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from limelight.sampling.sample import Chunk, Moments, Sample
from limelight.sampling.spread import Spread, explained, unseen_error
from limelight.shapes import Bool, Float

_SINGULAR = 1e-12
_ROUNDING = 1e-9  # of what one mask could do: residuals below this are those of a perfect fit
_ALONE = 1e-6  # a row that leaves less than this of itself free is met by the fit, whatever it says


class RidgeFit(NamedTuple):
    """Coefficients of the chosen features for each output, and how far sampling moved them.

    ``flat`` says that the fit is perfect, ``spike`` is the largest share of one row in the spread
    of the coefficient that moved farthest.
    """

    coefficients: Float[np.ndarray, "m k"]
    stderr: Float[np.ndarray, "m k"]
    intercept: Float[np.ndarray, " m"]
    intercept_stderr: Float[np.ndarray, " m"]
    r2: Float[np.ndarray, " m"]
    flat: Bool[np.ndarray, " m"]
    spike: Float[np.ndarray, " m"]


def ridge_coefficients(
    centred: Moments, *, ridge: float, features: Sequence[int] | None = None
) -> Float[np.ndarray, "k m"]:
    """Return β = (X̃ᵀWX̃ + ρI)⁻¹ X̃ᵀWỹ, with X̃, ỹ centred: the intercept goes unpenalised."""
    # XᵀWX of the sample itself, although that of all masks is known in closed form: its errors go
    # with those of XᵀWy and cancel them. With the known matrix β was 20 to 300 times worse.
    rows = list(range(len(centred.x)) if features is None else features)
    return _inverse(centred.xx[np.ix_(rows, rows)], ridge) @ centred.xy[rows]


def ridge_fit(
    sample: Sample,
    *,
    ridge: float = 1.0,
    features: Sequence[int] | None = None,
    columns: Sequence[int] | None = None,
    known_range: float = 0.0,
) -> RidgeFit:
    r"""Minimise Σ w (y − b − β·x)² + ρ‖β‖² over the rows; sklearn's ``Ridge`` with weights.

    With H the inverse above, x̃ centred and e the residual that each row would leave if it were not
    in the sample (e/(1 − h), known as HC3), the sandwich is

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
    rows = list(range(sample.d) if features is None else features)
    outputs = list(range(len(sample.origin)) if columns is None else columns)
    centred = sample.moments.centred()
    inverse = _inverse(centred.xx[np.ix_(rows, rows)], ridge)
    mean_x, mean_y = centred.x[rows], centred.y[outputs]
    beta = inverse @ centred.xy[np.ix_(rows, outputs)]
    rests = _Rests.none(len(outputs), len(rows))
    # A second pass over the rows: residuals need β. A row's influence is w e H x̃ on the slopes
    # and w e (1/Σw − x̄ᵀH x̃) on the intercept.
    for chunk in sample.chunks():
        x = chunk.keep[:, rows] - mean_x
        spread = x @ inverse
        leverage = chunk.weight * (1 / centred.weight + (spread * x).sum(axis=1))
        residual = chunk.outputs[:, outputs] - mean_y - x @ beta
        shift = 1 / centred.weight - spread @ mean_x
        rests = rests.plus(chunk, residual, leverage, np.column_stack([spread, shift]))
    size = np.maximum(known_range, sample.range[outputs])
    errors, flat = rests.errors(sample.n - sample.row0, size, ridge)
    slopes = Spread(*(x[:, :-1] for x in rests.influence))
    return RidgeFit(
        coefficients=beta.T,
        stderr=errors[:, :-1],
        intercept=sample.origin[outputs] + mean_y - mean_x @ beta,
        intercept_stderr=errors[:, -1],
        r2=explained(rests.left, centred.yy[outputs]),
        flat=flat,
        spike=np.where(flat, 0.0, slopes.spike()),
    )


def left_out_residuals(
    sample: Sample,
) -> Iterator[tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n m"]]]:
    """Yield masks with what f does there beyond the line fitted to the other rows, e/(1 − h)."""
    centred = sample.moments.centred()
    inverse = _inverse(centred.xx, 0.0)
    beta = inverse @ centred.xy
    for chunk in sample.chunks():
        x = chunk.keep - centred.x
        leverage = chunk.weight * (1 / centred.weight + ((x @ inverse) * x).sum(axis=1))
        residual = chunk.outputs - centred.y - x @ beta
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
        self,
        chunk: Chunk,
        residual: Float[np.ndarray, "n m"],
        leverage: Float[np.ndarray, " n"],
        spread: Float[np.ndarray, "n k"],
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
        unseen = unseen_error(size[:, None] * self.reach)
        flat = np.asarray(np.all(self.influence.largest <= _ROUNDING * unseen, axis=1))
        # The influences of a plain fit add up to 0. With a penalty, without row 0 or after
        # e/(1 − h) they do not, and what they add up to in every sample is not noise.
        seen = self.influence.error(draws, degrees=draws - len(self.reach))
        unknown = 0.0 if self._determined(ridge) else np.inf
        return unknown + np.where(flat[:, None], unseen, seen), flat

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
    """Coefficients of a LASSO, and how far they move when a part of the rows is left out."""

    coefficients: Float[np.ndarray, " d"]
    stderr: Float[np.ndarray, " d"]
    intercept: float


_PARTS = 32  # of the rows, each left out once for the standard errors
_STEPS, _CONVERGED = 1000, 1e-9


def lasso_fit(
    keep: Bool[np.ndarray, "n d"], y: Float[np.ndarray, " n"], *, penalty: float
) -> LassoFit:
    r"""Minimise :math:`\frac{1}{2n} \sum (y - b - w \cdot z)^2 + \lambda \|w\|_1` over the rows.

    z are the columns of ``keep``, standardised; the coefficients are those of the columns as they
    are, w/σ. scikit-learn's ``StandardScaler`` and ``Lasso`` minimise the same, to 1e-4. Standard
    errors are the jackknife's: the rows fall into up to 32 parts, each of which is left out in
    turn. They are about the LASSO's own expectation, and not about what it shrinks.
    """
    n = len(y)
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
    found = np.zeros_like(slope)
    for _ in range(_STEPS):
        before = found.copy()
        for j in range(x.shape[1]):
            own = gram[:, j, j]
            left = slope[:, j] - (gram[:, j] * found).sum(axis=1) + own * found[:, j]
            shrunk = np.sign(left) * np.maximum(np.abs(left) - penalty, 0.0)
            found[:, j] = np.where(own > _SINGULAR, shrunk / np.where(own > 0, own, 1.0), 0.0)
        if np.abs(found - before).max() <= _CONVERGED * max(1.0, float(np.abs(found).max())):
            break
    found /= scale
    moved = found[1:] - found[1:].mean(axis=0)
    return LassoFit(
        coefficients=found[0],
        stderr=np.sqrt((count - 1) / count * (moved**2).sum(axis=0)),
        intercept=float(mean_y[0] - found[0] @ mean[0]),
    )
