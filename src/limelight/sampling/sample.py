"""A growing sample of masks and the model outputs for them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.progress import expect_calls
from limelight.sampling.deadline import evaluate_before_deadline, has_deadline
from limelight.sampling.masks import (
    MASK_SIZE_POWERS,
    Indicators,
    Masks,
    PerMask,
    draw_balanced_masks,
    draw_lime_masks,
    removed_count_probabilities,
)
from limelight.sampling.ranks import TopSizes
from limelight.sampling.spread import count_tail_carriers
from limelight.sampling.stopping import StoppingRule
from limelight.shapes import Bool, Float, Rng
from limelight.theory.lime_weights import size_weight
from limelight.threads import limit_blas_threads

_CHUNK = 1024  # masks that are drawn, stored and added to the sums together
# Numbers of a part of the masks as floats, 256 kB, and its smallest number of masks. Parts that fit
# into the cache make a regression on 110 words twice as fast.
_PART_CELLS, _MIN_PART_ROWS = 2**15, 64
Outputs = Float[np.ndarray, "n m"]  # a row of outputs for every mask
# Any model on one text: it maps masks (True: the feature stays) to one row of outputs per mask.
Game = Callable[[Masks], Outputs]
WeightedMasks = tuple[Masks, PerMask]
# Draws a number of masks, each with its weight.
MaskSampler = Callable[[int, Rng], WeightedMasks]


def count_masks_per_call(game: Game) -> int:
    """Return the number of masks that a game evaluates best together, 1,024 by default.

    A game on a GPU has more as its attribute ``masks_per_call``, since the GPU would be idle
    between calls. Other games would need much memory, and would report no progress for a while.
    """
    return int(getattr(game, "masks_per_call", _CHUNK))


class Chunk(NamedTuple):
    """Rows of a sample; ``is_random`` is False for the untouched text."""

    keep: Indicators
    weight: PerMask
    outputs: Outputs
    is_random: Bool[np.ndarray, " n"]


def make_lime_sampler(d: int, *, bandwidth: float = 0.25, sizes: str = "uniform") -> MaskSampler:
    """Return a function that draws masks, and their weights in LIME's regression.

    A mask without s features is drawn with probability q(s) and has the weight ψ(s)/(d q(s)), where
    ψ is LIME's kernel. Then weighted sums, and the effect of a penalty, do not depend on ``sizes``
    on average.
    """
    if not bandwidth > 0:
        raise InputError(f"bandwidth must be positive, not {bandwidth}.")

    def draw_masks(n: int, rng: Rng) -> WeightedMasks:
        """Return ``n`` masks and the weight of each."""
        # Stratifying the sizes brought nothing. A fitted ratio game as control variate gained a
        # factor of 1.2 to 1.6, rarely more.
        probabilities = removed_count_probabilities(d, sizes, bandwidth)
        # Uniform sizes are drawn as integers, which gives other masks than probabilities 1/d do.
        size_law = None if sizes == "uniform" else probabilities
        keep = draw_lime_masks(d, n, rng, probabilities=size_law)
        psi, power = size_weight(d, bandwidth)[1:], MASK_SIZE_POWERS[sizes]
        # ψ/(d q) with q ∝ ψ^power, written so that it is never 0/0 if ψ vanishes.
        weight = psi ** (1 - power) * np.mean(psi**power)
        return keep, weight[d - 1 - keep.sum(axis=1)]

    return draw_masks


def make_coin_sampler(d: int) -> MaskSampler:
    """Return a function that draws balanced masks by fair coins, all of weight 1."""
    return lambda n, rng: (draw_balanced_masks(d, n, rng), np.ones(n))


class Sample:
    """Masks, weights and outputs, and the weighted sums over them that a regression needs.

    Masks are stored as bits: n samples take n (d/8 + 8 + 8m) bytes. The d × d sums grow with every
    chunk, so no array of n × d floats is ever held. Outputs are relative to that of the untouched
    text: a model whose output is constant has exactly zero sums.
    """

    def __init__(self, game: Game, sampler: MaskSampler, rng: Rng, *, d: int, row0: bool) -> None:
        self._game, self._sampler, self._rng = game, sampler, rng
        self._rows: list[tuple[np.ndarray, PerMask, Outputs]] = []
        self.d, self.row0, self.n = d, row0, 0
        # The untouched text is evaluated even if it is not a row. Differences from a typical output
        # keep their digits if all outputs share a large offset.
        full_mask = np.ones((1, self.d), bool)
        self.reference_output: Float[np.ndarray, " m"] = _evaluate(game, full_mask)[0]
        self.moments = Moments.empty(self.d, len(self.reference_output))
        self._extremes = np.zeros((2, len(self.reference_output)))  # smallest and largest output
        if row0:
            self._add_rows(full_mask, np.ones(1), self.reference_output[None])

    def grow(self, row_count: int, *, minimum_rows: int = 0, masks_per_row: int = 1) -> None:
        """Draw masks until the sample has ``row_count`` rows, including the untouched text.

        A deadline ends the sample earlier, but not before it has ``minimum_rows``.
        """
        # A deadline may end the sample, so no more masks are drawn than can be evaluated soon.
        call_size = _CHUNK if has_deadline() else max(count_masks_per_call(self._game), _CHUNK)
        while (missing := row_count - self.n) > 0:
            # Complete chunks are drawn while possible. A sample that grows in steps differs from
            # one that is drawn at once only if a step ends inside a chunk.
            starts = range(0, min(missing, call_size), _CHUNK)
            chunks = [self._sampler(min(missing - start, _CHUNK), self._rng) for start in starts]
            keep, weight = (np.concatenate(arrays) for arrays in zip(*chunks, strict=True))
            outputs = evaluate_before_deadline(
                lambda rows: _evaluate(self._game, rows),
                keep,
                masks_per_row=masks_per_row,
                minimum_rows=minimum_rows - self.n,
            )
            for start in range(0, len(outputs), _CHUNK):
                rows = slice(start, min(start + _CHUNK, len(outputs)))
                self._add_rows(keep[rows], weight[rows], outputs[rows])
            if len(outputs) < len(keep):
                return

    @property
    def output_range(self) -> Float[np.ndarray, " m"]:
        """Return the largest difference between two outputs."""
        return self._extremes[1] - self._extremes[0]

    @property
    def tail_carriers(self) -> Float[np.ndarray, " m"]:
        """Return how many outputs carry the variance of all if they are too few, or else 0."""
        return count_tail_carriers(np.concatenate([outputs for _, _, outputs in self._rows]))

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows in chunks, with outputs relative to ``reference_output``."""
        for i, (bits, weight, outputs) in enumerate(self._rows):
            size = max(_PART_CELLS // max(self.d, 1), _MIN_PART_ROWS)
            for start in range(0, len(bits), size):
                part = slice(start, start + size)
                keep = np.unpackbits(bits[part], axis=1, count=self.d).astype(np.float64)
                is_random = np.full(len(keep), not (self.row0 and i == 0))
                yield Chunk(keep, weight[part], outputs[part], is_random)

    def _add_rows(self, keep: Masks, weight: PerMask, outputs: Outputs) -> None:
        """Store masks with their weights and outputs, and add them to the sums."""
        relative = outputs - self.reference_output
        low = np.minimum(self._extremes[0], relative.min(axis=0))
        high = np.maximum(self._extremes[1], relative.max(axis=0))
        self._extremes = np.stack([low, high])
        # Bits, not floats: 60,000 masks of 120 words take 1 MB instead of 58.
        self._rows.append((np.packbits(keep, axis=1), weight, relative))
        with limit_blas_threads():
            self.moments = self.moments.add_rows(keep.astype(np.float64), weight, relative)
        self.n += len(keep)


class Moments(NamedTuple):
    """Sums over the rows of a sample: Σw, Σwx, Σwxxᵀ, Σwy, Σwxy and Σwy²."""

    weight: float
    x: Float[np.ndarray, " d"]
    xx: Float[np.ndarray, "d d"]
    y: Float[np.ndarray, " m"]
    xy: Float[np.ndarray, "d m"]
    yy: Float[np.ndarray, " m"]

    @staticmethod
    def empty(d: int, m: int) -> "Moments":
        """Return the sums over no rows."""
        zeros = np.zeros
        return Moments(0.0, zeros(d), zeros((d, d)), zeros(m), zeros((d, m)), zeros(m))

    def add_rows(self, x: Indicators, weight: PerMask, y: Outputs) -> "Moments":
        """Return the sums with more rows."""
        wx = weight[:, None] * x
        sums = float(weight.sum()), wx.sum(axis=0), wx.T @ x, weight @ y, wx.T @ y, weight @ y**2
        return Moments(*(old + new for old, new in zip(self, sums, strict=True)))

    def center(self) -> "Moments":
        """Return the same sums about the weighted means; ``x`` and ``y`` become those means."""
        # Differences of sums cancel for data with a large mean. Here masks are 0 or 1, and outputs
        # are relative to one of them. Rounding may still leave Σwy² at −1e-17.
        x, y = self.x / self.weight, self.y / self.weight
        return Moments(
            self.weight,
            x,
            self.xx - np.outer(self.x, x),
            y,
            self.xy - np.outer(self.x, y),
            np.maximum(self.yy - self.y * y, 0.0),
        )


def fit_until_stopped(
    sample: Sample,
    fit: Callable[[Sample], Any],
    *,
    initial_rows: int,
    minimum_rows: int = 0,
    masks_per_row: int = 1,
    stopping: StoppingRule | None = None,
    certify: Callable[[Any, float], TopSizes] = lambda *_: (),
) -> tuple[Any, int]:
    """Grow a sample and fit a model to it until a stopping rule is met.

    Parameters
    ----------
    sample
        The sample, which grows.
    fit
        Returns a fitted model with a ``stderr``.
    initial_rows
        Rows to draw before the first fit.
    minimum_rows
        Rows to draw even if a deadline has passed.
    masks_per_row
        Masks that the model evaluates for each row.
    stopping
        The rule, in rows. None stops at ``initial_rows``.
    certify
        Returns the sizes of the certain top sets of a fitted model at an error level.

    Returns
    -------
    The last fitted model, and how often the rule was checked.
    """

    def fit_sample() -> Any:
        """Fit the model to the sample as it is now."""
        with limit_blas_threads():
            return fit(sample)

    sample.grow(initial_rows, minimum_rows=minimum_rows, masks_per_row=masks_per_row)
    fitted_model, target_rows, look = fit_sample(), initial_rows, 1
    # With fewer rows than planned, a deadline has passed.
    while stopping is not None and target_rows <= sample.n < stopping.max_count:
        worst = float(fitted_model.stderr.max())
        if stopping.is_met(worst, sample.d, partial(certify, fitted_model), look=look):
            break
        target_rows = stopping.next_count(sample.n, worst)
        expect_calls(target_rows - sample.n)
        sample.grow(target_rows, masks_per_row=masks_per_row)
        fitted_model, look = fit_sample(), look + 1
    return fitted_model, look


def _evaluate(game: Game, keep: Masks) -> Outputs:
    """Return the outputs for masks, checked to be one row of finite numbers per mask."""
    outputs = game(keep)
    n = len(keep)
    if outputs.shape[:1] != (n,) or outputs.ndim != 2:
        raise InputError(
            f"a model must return {n} rows of numbers for {n} masks, not the shape {outputs.shape}."
        )
    if invalid_count := int(np.count_nonzero(~np.isfinite(outputs))):
        raise InputError(
            f"a model must return finite numbers, not {invalid_count} infinite or NaN of "
            f"{outputs.size}."
        )
    return outputs
