"""A growing sample of masks, and what a model answers to them."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.progress import expect_calls
from limelight.sampling.deadline import answers_in_time
from limelight.sampling.masks import (
    SIZES,
    Indicators,
    Masks,
    PerMask,
    Rng,
    balanced_masks,
    lime_masks,
    size_probabilities,
)
from limelight.sampling.spread import heavy_tailed
from limelight.shapes import Bool, Float
from limelight.theory.lime_weights import size_weight

_CHUNK = 1024  # masks at a time: what is held as floats
Answers = Float[np.ndarray, "n m"]  # a row of outputs for every mask
# Any model on one text: masks in (True: the word stays), one row of outputs per mask out.
Game = Callable[[Masks], Answers]
WeightedMasks = tuple[Masks, PerMask]
# Draws a number of masks, each with its weight.
MaskSampler = Callable[[int, Rng], WeightedMasks]


class Chunk(NamedTuple):
    """Some rows of a sample; ``drawn`` is False at the untouched document, which is not random."""

    keep: Indicators
    weight: PerMask
    outputs: Answers
    drawn: Bool[np.ndarray, " n"]


def lime_sampler(d: int, *, bandwidth: float = 0.25, sizes: str = "uniform") -> MaskSampler:
    """Return a sampler of LIME's masks with their weights.

    A mask of s removed words weighs ψ(s)/(d q(s)) where s is drawn with probability q(s): the
    weighted sums have the same expectation whatever ``sizes``, so a ridge penalty means the same.
    """
    if not bandwidth > 0:
        raise InputError(f"bandwidth must be positive; got {bandwidth}.")

    def draw_masks(n: int, rng: Rng) -> WeightedMasks:
        # Stratifying the sizes brought nothing; a fitted ratio game as control variate gained 1.2
        # to 1.6 times, rarely more.
        chances = size_probabilities(d, sizes, bandwidth)
        # Uniform sizes are drawn as whole numbers, which draws other masks than chances 1/d do.
        keep = lime_masks(d, n, rng, probabilities=None if sizes == "uniform" else chances)
        psi, power = size_weight(d, bandwidth)[1:], SIZES[sizes]
        # ψ/(d q) with q ∝ ψ^power, written so that it is never 0/0 where ψ vanishes.
        weight = psi ** (1 - power) * np.mean(psi**power)
        return keep, weight[d - 1 - keep.sum(axis=1)]

    return draw_masks


def coin_sampler(d: int) -> MaskSampler:
    """Return a sampler of masks that keep every word by a fair coin, evenly balanced.

    All of them have the weight 1.
    """
    return lambda n, rng: (balanced_masks(d, n, rng), np.ones(n))


class Sample:
    """Masks, weights and outputs, and the weighted sums over them that a regression needs.

    Masks are stored as bits: n samples take n (d/8 + 8 + 8m) bytes, and the d × d sums grow with
    every chunk, so nothing of the size n × d floats is ever held. Outputs are taken relative to
    the first one: a model that never moves has exactly zero sums.
    """

    def __init__(self, game: Game, sampler: MaskSampler, rng: Rng, *, d: int, row0: bool) -> None:
        self._game, self._sampler, self._rng = game, sampler, rng
        self._rows: list[tuple[np.ndarray, PerMask, Answers]] = []
        self.d, self.row0, self.n = d, row0, 0
        # Asked even where it is not a row: differences from a typical answer keep their digits when
        # all answers share a large offset.
        first = np.ones((1, self.d), bool)
        self.origin: Float[np.ndarray, " m"] = _answer(game, first)[0]
        self.moments = Moments.empty(self.d, len(self.origin))
        self._ends = np.zeros((2, len(self.origin)))  # the least and the largest answer
        if row0:
            self._take(first, np.ones(1), self.origin[None])

    def grow(self, n: int, *, least: int = 0, masks_per_row: int = 1) -> None:
        """Draw until the sample has ``n`` rows, the untouched document included.

        Under a deadline it stops at it, but not before there are ``least`` rows.
        """
        while (missing := n - self.n) > 0:
            # Whole chunks as far as they go: a sample that grows in steps has other draws than one
            # at once only where a step ends inside a chunk.
            keep, weight = self._sampler(min(missing, _CHUNK), self._rng)
            outputs = answers_in_time(
                lambda rows: _answer(self._game, rows),
                keep,
                masks_per_row=masks_per_row,
                least=least - self.n,
            )
            answered = len(outputs)
            if answered:
                self._take(keep[:answered], weight[:answered], outputs)
            if answered < len(keep):
                return

    @property
    def range(self) -> Float[np.ndarray, " m"]:
        """The largest difference between two answers."""
        return self._ends[1] - self._ends[0]

    @property
    def tail(self) -> Float[np.ndarray, " m"]:
        """How many answers carry the variance of all where they are too few, else 0."""
        return heavy_tailed(np.concatenate([outputs for _, _, outputs in self._rows]))

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows again, a few at a time, outputs relative to ``origin``."""
        for i, (bits, weight, outputs) in enumerate(self._rows):
            keep = np.unpackbits(bits, axis=1, count=self.d).astype(np.float64)
            drawn = np.full(len(keep), not (self.row0 and i == 0))
            yield Chunk(keep, weight, outputs, drawn)

    def _take(self, keep: Masks, weight: PerMask, outputs: Answers) -> None:
        relative = outputs - self.origin
        least, most = relative.min(axis=0), relative.max(axis=0)
        self._ends = np.stack([np.minimum(self._ends[0], least), np.maximum(self._ends[1], most)])
        # Bits, not floats: 60,000 masks of 120 words take 1 MB instead of 58.
        self._rows.append((np.packbits(keep, axis=1), weight, relative))
        self.moments = self.moments.plus(keep.astype(np.float64), weight, relative)
        self.n += len(keep)


class Moments(NamedTuple):
    """Σw, Σwx, Σwxxᵀ, Σwy, Σwxy and Σwy² over the rows of a sample."""

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

    def plus(self, x: Indicators, weight: PerMask, y: Answers) -> "Moments":
        """Return the sums with some more rows."""
        own, of_x = float(weight.sum()), weight[:, None] * x
        more = own, of_x.sum(axis=0), of_x.T @ x, weight @ y, of_x.T @ y, weight @ y**2
        return Moments(*(old + new for old, new in zip(self, more, strict=True)))

    def centered(self) -> "Moments":
        """Return the same sums about the weighted means; ``x`` and ``y`` become those means."""
        # Differences of sums, which would cancel for data with a large mean: masks are 0 or 1, and
        # outputs are relative to one of them. Rounding may still leave Σwy² at −1e-17.
        x, y = self.x / self.weight, self.y / self.weight
        return Moments(
            self.weight,
            x,
            self.xx - np.outer(self.x, x),
            y,
            self.xy - np.outer(self.x, y),
            np.maximum(self.yy - self.y * y, 0.0),
        )


def until(
    sample: Sample,
    fit: Callable[[Sample], Any],
    *,
    start: int,
    least: int = 0,
    masks_per_row: int = 1,
    tolerance: float | None = None,
    most: int,
) -> Any:
    """Grow ``sample`` to ``start`` rows, then on until no ``stderr`` of its fit is too large.

    A deadline ends it earlier, with ``least`` rows or more.

    Errors fall like 1/√n, which says how many rows to draw next: at most four times as many as
    there are, so a lucky or unlucky start misleads little. Stops at ``most`` rows. Returns the fit.
    """
    sample.grow(start, least=least, masks_per_row=masks_per_row)
    found = fit(sample)
    if tolerance is None:
        return found
    while (worst := float(found.stderr.max())) > tolerance and sample.n < most:
        # 5 % more than 1/√n asks for, so that one more round is mostly enough.
        factor = min(1.05 * (worst / tolerance) ** 2, 4.0)
        wanted = min(math.ceil(sample.n * factor), most)
        expect_calls(wanted - sample.n)
        sample.grow(wanted, masks_per_row=masks_per_row)
        found = fit(sample)
    return found


def _answer(game: Game, keep: Masks) -> Answers:
    outputs = game(keep)
    if outputs.shape[:1] != keep.shape[:1] or outputs.ndim != 2 or not np.isfinite(outputs).all():
        raise InputError(
            f"a model must answer {len(keep)} masks with {len(keep)} rows of finite numbers; "
            f"got shape {outputs.shape}, {np.count_nonzero(~np.isfinite(outputs))} not finite."
        )
    return outputs
