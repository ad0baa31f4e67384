"""Weighted ridge regression on a sample, with standard errors that trust no noise model."""

__all__ = ["RidgeFit", "ridge_coefficients", "ridge_fit"]

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from limelight.sampling.sample import Chunk, Moments, Sample
from limelight.shapes import Float

_SINGULAR = 1e-12
_ALONE = 1e-6  # a row that leaves less than this of itself free is met by the fit, whatever it says


class RidgeFit(NamedTuple):
    """Coefficients of the chosen features for each output, and how far sampling moved them."""

    coefficients: Float[np.ndarray, "m k"]
    stderr: Float[np.ndarray, "m k"]
    intercept: Float[np.ndarray, " m"]
    intercept_stderr: Float[np.ndarray, " m"]
    r2: Float[np.ndarray, " m"]


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
) -> RidgeFit:
    r"""Minimise Σ w (y − b − β·x)² + ρ‖β‖² over the rows; sklearn's ``Ridge`` with weights.

    With H the inverse above, x̃ centred and e the residual that each row would leave if it were not
    in the sample (e/(1 − h), known as HC3), the sandwich is

    .. math:: \operatorname{var} β_j = \sum_i (H w_i \tilde x_i e_i)_j^2,

    over the drawn rows only: the untouched document is the same in every sample. Errors are
    infinite where a drawn row has leverage 1, and so no residual, or the solution is not unique.
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
    sums = _Squares.zero(len(outputs), len(rows))
    # A second pass over the rows: residuals need β. A row's influence is w e H x̃ on the slopes
    # and w e (1/Σw − x̄ᵀH x̃) on the intercept.
    for chunk in sample.chunks():
        x = chunk.keep[:, rows] - mean_x
        spread = x @ inverse
        leverage = chunk.weight * (1 / centred.weight + (spread * x).sum(axis=1))
        residual = chunk.outputs[:, outputs] - mean_y - x @ beta
        shift = 1 / centred.weight - spread @ mean_x
        sums = sums.plus(chunk, residual, leverage, spread, shift)
    draws = sample.n - sample.row0
    unknown = 0.0 if sums.determined(ridge) else np.inf
    return RidgeFit(
        coefficients=beta.T,
        stderr=unknown + _deviation(sums.first, sums.second, draws),
        intercept=sample.origin[outputs] + mean_y - mean_x @ beta,
        intercept_stderr=unknown + _deviation(sums.shift_first, sums.shift_second, draws),
        r2=_explained(sums.left, centred.yy[outputs]),
    )


class _Squares(NamedTuple):
    """Sums over rows of each row's influence on β and on the intercept, and of its square.

    ``leverage`` is the sum of the rows' leverages, ``free`` the least 1 − h of a drawn row.
    """

    first: Float[np.ndarray, "m k"]
    second: Float[np.ndarray, "m k"]
    shift_first: Float[np.ndarray, " m"]
    shift_second: Float[np.ndarray, " m"]
    left: Float[np.ndarray, " m"]
    leverage: float = 0.0
    free: float = np.inf

    @staticmethod
    def zero(m: int, k: int) -> "_Squares":
        return _Squares(np.zeros((m, k)), np.zeros((m, k)), np.zeros(m), np.zeros(m), np.zeros(m))

    def plus(
        self,
        chunk: Chunk,
        residual: Float[np.ndarray, "n m"],
        leverage: Float[np.ndarray, " n"],
        spread: Float[np.ndarray, "n k"],
        shift: Float[np.ndarray, " n"],
    ) -> "_Squares":
        free = 1 - leverage
        # Held away from 0 so that nothing is divided by it; such errors become infinite below.
        pull = chunk.weight / np.maximum(free, _ALONE) * chunk.drawn
        error = pull[:, None] * residual
        squared = error**2
        return _Squares(
            self.first + error.T @ spread,
            self.second + squared.T @ spread**2,
            self.shift_first + error.T @ shift,
            self.shift_second + squared.T @ shift**2,
            self.left + chunk.weight @ residual**2,
            self.leverage + float(leverage.sum()),
            min(self.free, float(np.min(free, where=chunk.drawn, initial=np.inf))),
        )

    def determined(self, ridge: float) -> bool:
        """Whether the rows say how far the fit could be off.

        Without a penalty the leverages add up to the number of coefficients that the rows
        determine, the intercept among them.
        """
        # That number is whole, so half of one tells "all" from "one fewer" whatever the rounding.
        everything = self.first.shape[1] + 1
        return self.free > _ALONE and (ridge > 0 or self.leverage > everything - 0.5)


def _explained(
    left: Float[np.ndarray, " m"], total: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    """R², which is 1 where there was nothing to explain."""
    return np.where(total > 0, 1 - left / np.where(total > 0, total, 1.0), 1.0)


def _deviation(
    first: Float[np.ndarray, "*k"], second: Float[np.ndarray, "*k"], draws: int
) -> Float[np.ndarray, "*k"]:
    """Standard deviation of a sum of ``draws`` independent terms."""
    # The influences of a plain fit add up to 0. With a penalty, without row 0 or after e/(1 − h)
    # they do not, and what they add up to in every sample is not noise.
    return np.sqrt(np.maximum(second - first**2 / max(draws, 1), 0.0))


def _inverse(xx: Float[np.ndarray, "k k"], ridge: float) -> Float[np.ndarray, "k k"]:
    """Inverse of xx + ρI; without a penalty to speak of, the one of least norm."""
    # Normal equations square the condition number of X; QR would not, but needs all rows as floats
    # at once. There is room: the limit of xx has the condition 24 for 100 words at ν = 0.25.
    penalised = xx + ridge * np.eye(len(xx))
    if ridge > _SINGULAR * np.trace(xx):
        return np.linalg.inv(penalised)
    return np.linalg.pinv(penalised, rcond=_SINGULAR, hermitian=True)
