"""Which ratio game suits a sample: heads and penalties by what they make of masks left out."""

__all__ = ["FOLDS", "MOST_HEADS", "CrossFits", "cross_fits", "paired_masks"]

from typing import NamedTuple

import numpy as np

from limelight.sampling.masks import sized_masks
from limelight.sampling.ratio_fit import RatioFit, fitted_game, fitted_ratios, fitted_values
from limelight.shapes import Array, Bool, Float, Int
from limelight.theory.namespace import array_like, array_namespace, host_array
from limelight.theory.ratio_game import RatioGame

FOLDS = 5
_NO_PART = -1
_LOOKED_AT = 2  # folds that decide on heads and penalties
MOST_HEADS = 3
# (ρ_l, ρ_u), from nearly linear to nearly free. Few masks of a transformer want the second, a
# thousand the third; masks of an exact ratio game the last.
_PENALTIES = ((3.0, 3.0), (0.3, 1.0), (0.03, 1.0), (0.01, 0.1), (1e-5, 1e-6))
_RIDGES = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)  # of the line that LIME would fit
_STILL = 1e-12  # of the largest answer: a standard deviation that is rounding


class CrossFits(NamedTuple):
    """The ratio game of a sample, and those of the sample without each of its parts.

    ``games`` is a batch: that of all masks first, then one for each part left out. ``left`` is what
    the game without a mask's ``part`` leaves of the answer to it, ``r2`` how much of the variance
    that explains, and ``r2_linear`` what the best linear model explains of the same masks, likewise
    left out.
    """

    games: RatioGame
    left: Float[np.ndarray, " n"]
    part: Int[np.ndarray, " n"]
    r2: float
    r2_linear: float
    heads: int
    penalties: tuple[float, float]


def paired_masks(d: int, n: int, rng: np.random.Generator) -> Bool[np.ndarray, "n d"]:
    """Return ``n`` masks, each followed by its complement; sizes uniform on 0..d. Even n."""
    masks = sized_masks(d, rng.integers(0, d + 1, n // 2), rng)
    return np.stack([masks, ~masks], axis=1).reshape(-1, d)


def cross_fits(
    keep: Bool[np.ndarray, "n d"],
    f: Float[np.ndarray, " n"],
    *,
    heads: int | None = None,
    like: Array | None = None,
) -> CrossFits:
    """Return the ratio game that suits ``f`` best; ``heads`` None: as many as masks left out want.

    Pairs of masks stay together when parts are left out, because a game that has seen a mask knows
    something about its complement. Computed by the array library of ``like``, on its device.
    """
    mean, scale = float(f.mean()), float(f.std())
    if scale <= _STILL * float(np.abs(f).max(initial=0.0)):
        scale = 1.0  # the model never moves: any scale will do
    part = np.arange(len(f)) // 2 % FOLDS
    sample = _Sample.of(keep, (f - mean) / scale, part, np.zeros(1) if like is None else like)
    count, penalties, found = _selected(sample, heads)
    rest = sample.fitted([*range(_LOOKED_AT, FOLDS), _NO_PART], count, [penalties])
    fit = _joined(_take(rest, -1), found, _take(rest, slice(0, -1)))
    predicted = host_array(fitted_values(fit, sample.keep))[1:]
    left = sample.left_out(predicted)
    return CrossFits(
        games=fitted_game(fit, mean=mean, scale=scale),
        left=scale * left,
        part=part,
        r2=_explained(left, sample.answers),
        r2_linear=max(_explained(_line_left(sample, ridge), sample.answers) for ridge in _RIDGES),
        heads=count,
        penalties=penalties,
    )


class _Sample(NamedTuple):
    """Masks, their answers (mean 0, variance 1), and the part of the sample that each is in."""

    keep: Float[Array, "n d"]
    y: Float[Array, " n"]
    part: Int[np.ndarray, " n"]
    answers: Float[np.ndarray, " n"]

    @staticmethod
    def of(
        keep: Bool[np.ndarray, "n d"],
        y: Float[np.ndarray, " n"],
        part: Int[np.ndarray, " n"],
        like: Array,
    ) -> "_Sample":
        return _Sample(array_like(keep.astype(np.float64), like), array_like(y, like), part, y)

    def fitted(
        self, without: list[int], heads: int, penalties: list[tuple[float, float]]
    ) -> RatioFit:
        """Fit the sample without each of these parts, with each of the penalties."""
        seen = np.stack([self.part != one for one in without]).astype(np.float64)
        weight = np.tile(seen, (len(penalties), 1))
        table = np.repeat(np.array(penalties), len(without), axis=0)
        xp = array_namespace(self.keep)
        return fitted_ratios(
            self.keep,
            xp.broadcast_to(self.y, (len(weight), len(self.part))),
            array_like(weight, self.keep),
            heads=heads,
            penalties=array_like(table, self.keep),
        )

    def left_out(self, predicted: Float[np.ndarray, "FOLDS n"]) -> Float[np.ndarray, " n"]:
        """What the fit without a mask's part leaves of its answer."""
        return self.answers - predicted[self.part, np.arange(len(self.part))]


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
    predicted = host_array(fitted_values(fit, sample.keep))
    square = (sample.answers - predicted.reshape(len(penalties), _LOOKED_AT, -1)) ** 2
    out = sample.part == np.arange(_LOOKED_AT)[:, None]
    errors = (square * out).sum(axis=(1, 2))
    best = int(np.argmin(errors))
    some = slice(best * _LOOKED_AT, (best + 1) * _LOOKED_AT)
    return penalties[best], float(errors[best]), _take(fit, some)


def _take(fit: RatioFit, some: int | slice) -> RatioFit:
    """Some of the fits, always as several."""
    chosen = slice(some, None) if isinstance(some, int) else some
    return RatioFit(*(x[chosen, ...] for x in fit))


def _joined(*fits: RatioFit) -> RatioFit:
    xp = array_namespace(fits[0].c)
    return RatioFit(*(xp.concat(list(parts), axis=0) for parts in zip(*fits, strict=True)))


def _line_left(sample: _Sample, ridge: float) -> Float[np.ndarray, " n"]:
    """What the linear model without a mask's part leaves of its answer."""
    x, y, left = host_array(sample.keep), sample.answers, np.empty(len(sample.answers))
    for one in range(FOLDS):
        seen = sample.part != one
        mean_x, mean_y = x[seen].mean(axis=0), y[seen].mean()
        centred = x[seen] - mean_x
        gram = centred.T @ centred + ridge * np.eye(x.shape[1])
        slope = np.linalg.solve(gram, centred.T @ (y[seen] - mean_y))
        left[~seen] = y[~seen] - mean_y - (x[~seen] - mean_x) @ slope
    return left


def _explained(left: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> float:
    """R², which is 1 where there was nothing to explain."""
    total = float((y**2).sum())
    return 1 - float((left**2).sum()) / total if total > 0 else 1.0
