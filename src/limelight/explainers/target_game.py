"""The explained number as a game: asked mask by mask, or a ratio game with exact values."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from limelight.explainers.batch import Batch
from limelight.models.functions import MOST_LOG_ODDS
from limelight.models.text_game import NO_BASE
from limelight.progress import track_calls
from limelight.results import Attribution, Pairs
from limelight.sampling.masks import text_rng
from limelight.sampling.regression import LimeFit
from limelight.sampling.sample import Game, MaskSampler, Sample, until
from limelight.sampling.spread import SPIKE
from limelight.shapes import Array, Bool, Float
from limelight.text import Answer
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import of_heads
from limelight.threads import cached_property

_STEADY = 0.01  # of the answer, or of 1: what half precision may do


class TargetGame:
    """The explained number of one document under each mask.

    The answers are watched: probabilities of 0 or 1 have no log-odds, the untouched text must be
    answered the same way every time, and a text of which nothing is left may be refused.
    """

    def __init__(self, one: Batch, replacement: str) -> None:
        # The game of all outputs, of which this one is about the target's.
        self.of_outputs, self._targets = one.game(replacement), one.targets
        self._watched = one.targets.scale == "logit"
        # Log-probabilities of a language model move with every word, those of a threshold need not.
        self._answers = isinstance(next(iter(one.inputs[0].asked), None), Answer)
        self._asked = self._held = 0
        self._stood_in = self.of_outputs.stood_in
        self._whole = float(one.targets.value(one.outputs)[0])

    def __call__(self, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
        """Return the explained number for each mask."""
        return self._counted(self.of_outputs(keep))

    @cached_property
    def base_value(self) -> float | None:
        """The explained number with every feature removed; None where the model refuses that."""
        nothing = self.of_outputs.nothing
        return None if nothing is None else float(self._counted(nothing[None])[0, 0])

    @property
    def full_value(self) -> float:
        """The explained number with every feature present."""
        return self._whole

    @property
    def known_range(self) -> float:
        """How far the explained number is known to move: for a probability 1, else to its base."""
        if self._targets.scale == "probability":
            return 1.0 if self._targets.against is None else 2.0
        return 0.0 if self.base_value is None else abs(self._whole - self.base_value)

    def found(
        self,
        scores: Float[np.ndarray, " d"],
        stderr: Float[np.ndarray, " d"] | None = None,
        *,
        said: tuple[str, ...] = (),
        intercept: float | None = None,
        pairs: Pairs | None = None,
        **diagnostics: Any,
    ) -> Attribution:
        """Return ``scores`` with the base value and what must be said of the answers so far."""
        return Attribution(
            scores=scores,
            stderr=stderr,
            base_value=self.base_value,
            intercept=intercept,
            pairs=pairs,
            notices=said + self.notices,
            diagnostics=diagnostics,
        )

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader must know about the answers so far."""
        game, whole = self.of_outputs, self._whole
        with track_calls(None):  # mostly known already, and nobody waits for it
            outputs = game(np.ones((1, len(game)), bool))
        again, notices = float(self._targets.value(outputs[:, None])[0, 0]), tuple[str, ...]()
        if abs(again - whole) > _STEADY * max(1.0, abs(whole)):
            notices += (
                f"The model answered the same text with {whole:.4g} and with {again:.4g}: its "
                "answers are partly noise, which no standard error here accounts for. Switch off "
                "whatever is random in it.",
            )
        if self._answers and game.is_constant:
            notices += (
                "The model gave the answer the same log-probability after every version of the "
                "text, so no part of it has an effect. Check that the model reads the text.",
            )
        if self._held:
            notices += (
                f"{self._held} of {self._asked} answers were probabilities of 0 or 1, whose "
                f"log-odds are infinite; ±{MOST_LOG_ODDS:.1f} stands for them, so the size of the "
                "scores means little. Explain scale='probability', or let the function return "
                "logits.",
            )
        if game.refuses_nothing:
            instead = "; the mean of its answers to each word alone stands in for it"
            notices += (f"{NO_BASE}{instead * (game.stood_in > self._stood_in)}.",)
        return notices

    def _counted(self, outputs: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n 1"]:
        found = self._targets.value(outputs[:, None])
        self._asked += len(found)
        if self._watched:  # exactly this number stands for a probability of 1
            self._held += int(np.count_nonzero(np.abs(found) == MOST_LOG_ODDS))
        return found


def exact_values(
    settings: Any, batch: Batch, *, value: Callable[..., Any], **design: Any
) -> list[Attribution]:
    """Score every feature by its value in the ratio game of its text, within a bound."""
    games = batch.ratio_game
    solve = partial(value, tolerance=settings.tolerance, **design)
    found = solve(games)
    heads = None
    if settings.per_head:  # each head's own game, the mean of whose scores is the model's
        alone = (solve(of_heads(games, slice(i, i + 1))).scores for i in range(games.K))
        heads = np.stack([host_array(own)[:, 0] for own in alone])
    scores, bounds = host_array(found.scores), host_array(found.bound)
    findings = []
    for i, features in enumerate(batch.features):
        d, base = len(features.strings), dict[str, Any]()
        if hasattr(found, "intercept"):
            off = {"intercept_bound": float(found.intercept_bound[i, 0])}
            base = {"intercept": float(found.intercept[i, 0]), "diagnostics": off}
        own = None if heads is None else heads[:, i, :d]
        findings.append(
            Attribution(scores=scores[i, 0, :d], bound=float(bounds[i, 0]), heads=own, **base)
        )
    return findings


def add_bounds(
    batch: Batch,
    scores: Float[Array, "n 1 d"],
    bounds: Float[Array, "n 1"],
    *warnings: str,
) -> list[Attribution]:
    """Return the scores of a batch with their proven bounds, without its padding.

    Parameters
    ----------
    reading
        The inputs that were scored.
    scores
        Scores of every input, padded to the largest number of features.
    bounds
        The largest error of any score of an input.
    *warnings
        Warnings for every input.
    """
    rows = zip(batch.features, host_array(scores), host_array(bounds)[:, 0].tolist(), strict=True)
    return [
        Attribution(scores=row[0, : len(features.strings)], bound=bound, notices=warnings)
        for features, row, bound in rows
    ]


def rare_effect_warning(
    *,
    flat: bool,
    spike: float,
    size: float,
    draws: int,
    tail: float = 0.0,
    parts: int | None = None,
) -> tuple[str, ...]:
    """Return a warning if the spread of the samples does not show how far scores may be off.

    Parameters
    ----------
    flat
        Whether all samples agree.
    spike
        The share of one sample in the spread, or of one of the ``parts``.
    size
        The effect that the standard errors allow for if all samples agree.
    draws
        Number of samples.
    tail
        How many outputs carry the variance of all, if they are too few.
    parts
        Number of parts that a jackknife leaves out in turn.
    """
    if flat:
        allowed = f"The standard errors allow for one as large as {size:.3g}."
        if size == 0:
            allowed = "There are no standard errors, since nothing has moved the output so far."
        return (
            f"All {draws:,} draws agree, which is no proof: an effect that shows in fewer than "
            f"{min(300 / draws, 100):.3g} % of all draws may have gone unseen. {allowed}",
        )
    if spike > SPIKE:
        shares = f"{draws:,} draws"
        if parts is not None and parts < draws:
            shares = f"{parts} parts of the {draws:,} draws"
        return (
            f"One of the {shares} makes up most of the spread of a score: effects as rare "
            "as this may have been missed, and the standard errors are then too small. Draw more.",
        )
    if tail:
        return (
            f"The answers have a heavy tail: about {math.ceil(tail)} of them make up their "
            "variance, larger ones may have been missed, and the standard errors are then too "
            "small. Draw more, or explain the logarithm of the output.",
        )
    return ()


def nonzero_or_none(stderr: Float[np.ndarray, "*d"]) -> Float[np.ndarray, "*d"] | None:
    """Return standard errors, or None if all are 0, because then no sample could tell them."""
    return stderr if stderr.any() else None


def fit_masks(
    settings: Any,
    batch: Batch,
    game: TargetGame,
    sampler: MaskSampler,
    fit: Callable[..., Any],
    *,
    paired_game: Game | None = None,
    row0: bool = False,
) -> tuple[Any, tuple[str, ...]]:
    """Fit a linear model to masks, as many as the settings, a tolerance or a deadline allow.

    Parameters
    ----------
    settings
        Settings of a method, with the fields of ``SamplingSettings``.
    reading
        The only input.
    game
        The explained number as a function of masks.
    sampler
        Draws a number of masks with their weights.
    fit
        Returns the model of a ``Sample``, such as ``fitted_lime``.
    paired_game
        Replaces ``game`` by a function that evaluates two masks for each row, such as a mask and
        its complement.
    row0
        Whether the first row is the untouched input.

    Returns
    -------
    The fitted model, and warnings about the tolerance and about rare effects.
    """
    sample_size, d = settings.sample_size, len(game.of_outputs)
    masks_per_row = 1 if paired_game is None else 2
    rng = text_rng(settings.seed, batch.inputs[0].text)
    sample = Sample(paired_game or game, sampler, rng, d=d, row0=row0)
    linear_model = until(
        sample,
        partial(fit, known_range=game.known_range),
        start=sample_size.initial_count(d) // masks_per_row,
        least=sample_size.minimum(d) // masks_per_row,
        masks_per_row=masks_per_row,
        tolerance=settings.tolerance,
        most=settings.max_samples // masks_per_row,
    )
    rare_effects = rare_effect_warning(
        flat=bool(linear_model.flat[0]),
        spike=float(linear_model.spike[0]) if isinstance(linear_model, LimeFit) else 0.0,
        size=max(game.known_range, float(sample.range[0])),
        draws=linear_model.samples,
        tail=float(sample.tail[0]),
    )
    count, largest_error = masks_per_row * linear_model.samples, float(linear_model.stderr.max())
    return linear_model, sample_size.tolerance_warning(count, largest_error) + rare_effects
