"""The explained number as a function of masks, and helpers of methods that sample or solve it."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from limelight.explainers.batch import Batch
from limelight.explainers.sample_size import PILOT_MASKS
from limelight.models.protocol import MAX_LOG_ODDS
from limelight.models.text_game import NO_BASE_VALUE
from limelight.progress import track_calls
from limelight.results import Attribution, Pairs
from limelight.sampling.all_masks import values_from_repeated_outputs
from limelight.sampling.masks import draw_coin_masks, text_rng
from limelight.sampling.ranks import ERROR_LEVEL, TopSizes, certify_tops_by_errors, group_draws
from limelight.sampling.regression import LimeFit
from limelight.sampling.sample import Game, MaskSampler, Sample, fit_until_stopped
from limelight.sampling.spread import (
    RARE_EFFECT_WARNING_SHARE,
    VarianceComponents,
    estimate_variance_components,
)
from limelight.shapes import Array, Bool, Float
from limelight.text import AnswerQuery, pluralize
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import select_heads
from limelight.threads import cached_property

_REPEAT_TOLERANCE = 0.01  # of the output, or of 1: half precision may differ by this much


class TargetGame:
    """The explained number of one input as a function of masks.

    The game also collects warnings: probabilities of 0 or 1 have no log-odds, the model may give
    another output for the same text, and it may reject the empty text.
    """

    def __init__(self, batch: Batch, replacement: str, settings: Any = None) -> None:
        self.output_game, self._targets = batch.game(replacement), batch.targets
        self.is_random = self.output_game.is_random
        self.masks_per_call = self.output_game.masks_per_call
        self._settings, self._answers = settings, getattr(settings, "answers", None) or 1
        self._text = batch.inputs[0].text
        self._counts_saturated = batch.targets.scale == "logit"
        # Each word changes the log-probability of an answer. It may not change a thresholded
        # output, so only a constant log-probability gets a warning.
        query = next(iter(batch.inputs[0].queries), None)
        self._explains_answer = isinstance(query, AnswerQuery)
        self._output_name = query.output_name if isinstance(query, AnswerQuery) else "output"
        self._compares_answers = isinstance(query, AnswerQuery) and bool(query.agreement)
        self._output_count = self._saturated_count = 0
        self._initial_imputed_count = self.output_game.imputed_count
        self._full_value = float(batch.targets.value(batch.outputs)[0])

    def __call__(self, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
        """Return the explained number for each mask, or the mean of several random ones."""
        if self._answers > 1:
            return self.draw(keep, self._answers).mean(axis=1, keepdims=True)
        return self._target_values(self.output_game(keep))

    def draw(self, keep: Bool[np.ndarray, "n d"], count: int) -> Float[np.ndarray, "n k"]:
        """Return the explained number ``count`` times for each mask."""
        outputs = self.output_game(np.repeat(keep, count, axis=0))
        return self._target_values(outputs).reshape(len(keep), count)

    def make_repeated_attribution(
        self,
        keep: Bool[np.ndarray, "n d"],
        matrix: Float[np.ndarray, "n k"],
        *,
        answers: int,
        has_intercept: bool = False,
    ) -> Attribution:
        """Evaluate each of some masks several times, and return weighted sums as an attribution.

        Parameters
        ----------
        keep
            The masks.
        matrix
            The weight of each mask in each score.
        answers
            Number of random outputs for each mask.
        has_intercept
            Whether the first column of ``matrix`` gives the constant of a linear model.
        """
        if not self.is_random:  # a server with equal answers at temperature 0
            values = matrix.T @ self(keep)[:, 0]
            return self.make_attribution(
                values[has_intercept:],
                intercept=float(values[0]) if has_intercept else None,
                masks=len(keep),
            )
        outputs = self.draw(keep, answers)
        repeated = values_from_repeated_outputs(outputs, matrix, known_range=self.known_range)
        scores, stderr = repeated.values[has_intercept:], repeated.stderr[has_intercept:]
        return self.make_attribution(
            scores,
            stderr,
            intercept=float(repeated.values[0]) if has_intercept else None,
            draws=group_draws(outputs.T @ matrix[:, has_intercept:]),
            certain_tops=certify_tops_by_errors(scores, stderr),
            masks=len(keep),
            **_noise_diagnostics(repeated.components, answers),
        )

    @cached_property
    def base_value(self) -> float | None:
        """The explained number without any feature; None if the model rejects the empty text."""
        outputs = self.output_game.empty_output
        return None if outputs is None else float(self._target_values(outputs[None])[0, 0])

    @property
    def full_value(self) -> float:
        """The explained number with every feature present."""
        return self._full_value

    @property
    def known_range(self) -> float:
        """A range that the explained number is known to span.

        It is 1 for a probability, 2 for a difference of probabilities, at least 1 for an agreement,
        and otherwise the distance of the full value from the base value.
        """
        if self._compares_answers:  # usually by a function from 0 to 1
            return max(1.0, abs(self._full_value))
        if self._targets.scale == "probability":
            return 1.0 if self._targets.against is None else 2.0
        return 0.0 if self.base_value is None else abs(self._full_value - self.base_value)

    def make_attribution(
        self,
        scores: Float[np.ndarray, " d"],
        stderr: Float[np.ndarray, " d"] | None = None,
        *,
        warnings: tuple[str, ...] = (),
        intercept: float | None = None,
        pairs: Pairs | None = None,
        draws: Float[np.ndarray, "G d"] | None = None,
        certain_tops: TopSizes | None = None,
        **diagnostics: Any,
    ) -> Attribution:
        """Return scores as an attribution with the base value and the warnings of this game.

        Parameters
        ----------
        scores
            The scores of the features.
        stderr
            Their standard errors, if they are sampled.
        warnings
            Warnings of the method. The warnings of the game follow them.
        intercept
            The constant of a linear model.
        pairs
            Scores of pairs of features.
        draws
            Independent draws of the scores, if they are sampled.
        certain_tops
            Sizes of the top sets that are certain by the draws.
        **diagnostics
            Numbers for ``Explanation.diagnostics``.

        Returns
        -------
        The attribution, ready to return from a method.
        """
        if self.is_random and "answers" not in diagnostics:
            diagnostics |= self._measure_noise()
        return Attribution(
            scores=scores,
            stderr=stderr,
            base_value=self.base_value,
            intercept=intercept,
            pairs=pairs,
            draws=None if stderr is None else draws,
            certain_tops=None if stderr is None else certain_tops,
            warnings=warnings + self.warnings,
            diagnostics=diagnostics,
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the outputs of the model so far."""
        game, value = self.output_game, self._full_value
        if self.is_random:  # standard errors contain the noise
            return ()
        # Most games have stored this output, and nobody waits for it, so no progress is reported.
        with track_calls(None):
            outputs = game(np.ones((1, len(game)), bool))
        repeated_value = float(self._targets.value(outputs[:, None])[0, 0])
        warnings = tuple[str, ...]()
        if abs(repeated_value - value) > _REPEAT_TOLERANCE * max(1.0, abs(value)):
            warnings += (
                f"The model returned {value:.4g} and {repeated_value:.4g} for the same text, and "
                "standard errors ignore this noise. Switch off randomness in the model, such as "
                "dropout.",
            )
        if self._explains_answer and game.is_constant:
            warnings += (
                f"The {self._output_name} of the answer is the same for every masked text, so no "
                "part of the text has an effect. Check that the model reads the text.",
            )
        if self._saturated_count:
            warnings += (
                f"{self._saturated_count} of {self._output_count} outputs were probabilities of 0 "
                f"or 1, clipped to log-odds of ±{MAX_LOG_ODDS:.1f}, so the size of scores is "
                "unreliable. Use scale='probability', or let the function return logits.",
            )
        if game.rejects_empty:
            is_imputed = game.imputed_count > self._initial_imputed_count
            imputed = " The mean output for single words replaces it."
            warnings += (f"{NO_BASE_VALUE}.{imputed * is_imputed}",)
        return warnings

    def _measure_noise(self) -> dict[str, Any]:
        """Return the variance components of the outputs, from a few masks with two outputs each."""
        settings, d = self._settings, len(self.output_game)
        if settings is None or not settings.sample_size.pilot_calls(d):
            return {"answers": self._answers}
        rng = text_rng(settings.seed, f"pilot {self._text}")
        outputs = self.draw(draw_coin_masks(d, PILOT_MASKS, rng), 2)
        return _noise_diagnostics(estimate_variance_components(outputs), self._answers)

    def _target_values(self, outputs: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n 1"]:
        """Return the explained number for outputs, and count the saturated ones."""
        values = self._targets.value(outputs[:, None])
        self._output_count += len(values)
        if self._counts_saturated:  # a probability of 1 has exactly these log-odds
            self._saturated_count += int(np.count_nonzero(np.abs(values) == MAX_LOG_ODDS))
        return values


def _noise_diagnostics(components: VarianceComponents, answers: int) -> dict[str, Any]:
    """Return the variance components of random outputs as diagnostics.

    Parameters
    ----------
    components
        The variance components.
    answers
        Number of outputs for each mask.
    """
    return {
        "answers": answers,
        "answer_variance": components.within,
        "mask_variance": components.between,
        "best_answers": components.best_repeats(),
    }


def exact_attributions(
    settings: Any, batch: Batch, *, value: Callable[..., Any], **design: Any
) -> list[Attribution]:
    """Score the features of each input by values of its exact game, with a proven bound.

    Parameters
    ----------
    settings
        Settings of a method, with the fields ``tolerance`` and ``per_head``.
    batch
        The inputs. Their model must know the exact games.
    value
        Computes the values of ratio games, such as ``shapley`` of ``limelight.theory``.
    **design
        Other arguments of ``value``.

    Returns
    -------
    One attribution for each input.
    """
    games = batch.ratio_game
    solve = partial(value, tolerance=settings.tolerance, **design)
    solution = solve(games)
    head_scores = None
    if settings.per_head:  # the scores of the model are the means of the scores of each head
        head_solutions = (solve(select_heads(games, slice(i, i + 1))) for i in range(games.K))
        head_scores = np.stack([host_array(head.scores)[:, 0] for head in head_solutions])
    scores, bounds = host_array(solution.scores), host_array(solution.bound)
    # One copy from a device for all inputs: each copy waits for the device.
    intercepts = intercept_bounds = None
    if hasattr(solution, "intercept"):
        intercepts = host_array(solution.intercept)
        intercept_bounds = host_array(solution.intercept_bound)
    attributions = []
    for i, features in enumerate(batch.features):
        d, fields = len(features.strings), dict[str, Any]()
        if intercepts is not None and intercept_bounds is not None:
            fields["intercept"] = float(intercepts[i, 0])
            fields["diagnostics"] = {"intercept_bound": float(intercept_bounds[i, 0])}
        attributions.append(
            Attribution(
                scores=scores[i, 0, :d],
                bound=float(bounds[i, 0]),
                heads=None if head_scores is None else head_scores[:, i, :d],
                **fields,
            )
        )
    return attributions


def refill_attributions(
    settings: Any, batch: Batch, *, value: Callable[..., Any], **design: Any
) -> list[Attribution]:
    """Score the features of each input by values under random refilling, with a proven bound.

    Parameters
    ----------
    settings
        Settings of a method, with the fields ``tolerance`` and ``per_head``.
    batch
        The inputs. Their model must have background texts.
    value
        Computes the values of each head, such as ``refilled_shapley`` of ``limelight.theory``.
    **design
        Other arguments of ``value``.

    Returns
    -------
    One attribution for each input.
    """
    attributions = []
    for single in batch.split():
        game, fields = single.refill_game(), dict[str, Any]()
        heads = value(game, tolerance=settings.tolerance, **design)
        head_scores = np.stack([head.scores[0] for head in heads])
        empty = np.zeros((1, game.d), bool)
        base_value, base_bound = game.value(empty, tolerance=settings.tolerance)
        fields["diagnostics"] = {"base_value_bound": float(base_bound[0])}
        if hasattr(heads[0], "intercept"):
            fields["intercept"] = float(np.mean([head.intercept[0] for head in heads]))
            intercept_bound = float(np.mean([head.intercept_bound[0] for head in heads]))
            fields["diagnostics"]["intercept_bound"] = intercept_bound
        attributions.append(
            Attribution(
                scores=head_scores.mean(axis=0),
                bound=float(np.mean([head.bound[0] for head in heads])),
                heads=head_scores if settings.per_head else None,
                base_value=float(base_value[0, 0]),
                **fields,
            )
        )
    return attributions


def add_bounds(
    batch: Batch,
    scores: Float[Array, "n 1 d"],
    bounds: Float[Array, "n 1"],
    *warnings: str,
) -> list[Attribution]:
    """Return scores of a batch as attributions with proven bounds, without the padding.

    Parameters
    ----------
    batch
        The inputs that were scored.
    scores
        Scores of every input, padded to the largest number of features.
    bounds
        The largest error of any score of an input.
    *warnings
        Warnings for every input.

    Returns
    -------
    One attribution for each input.
    """
    rows = zip(batch.features, host_array(scores), host_array(bounds)[:, 0].tolist(), strict=True)
    return [
        Attribution(scores=row[0, : len(features.strings)], bound=bound, warnings=warnings)
        for features, row, bound in rows
    ]


def rare_effect_warning(
    *,
    has_no_spread: bool,
    largest_share: float,
    possible_effect: float,
    sample_count: int,
    tail_carriers: float = 0.0,
    part_count: int | None = None,
) -> tuple[str, ...]:
    """Return a warning if standard errors may be too small because an effect is rare.

    Parameters
    ----------
    has_no_spread
        Whether all samples agree.
    largest_share
        The largest share of one sample in the spread of a score, or of one of the parts.
    possible_effect
        The effect that the standard errors allow for if all samples agree.
    sample_count
        Number of samples.
    tail_carriers
        Number of outputs that carry most of the variance, if they are too few; otherwise 0.
    part_count
        Number of parts that a jackknife leaves out in turn.

    Returns
    -------
    One warning, or an empty tuple.
    """
    if has_no_spread:
        allowed = f"The standard errors allow for an effect of {possible_effect:.3g}."
        if possible_effect == 0:
            allowed = "There are no standard errors, because the output has not changed yet."
        return (
            f"All {sample_count:,} samples agree, so effects that occur in fewer than "
            f"{min(300 / sample_count, 100):.3g} % of samples may be missing. {allowed}",
        )
    if largest_share > RARE_EFFECT_WARNING_SHARE:
        samples = f"{sample_count:,} samples"
        if part_count is not None and part_count < sample_count:
            samples = f"{part_count} parts of the {sample_count:,} samples"
        return (
            f"One of the {samples} determines most of the variance of a score, so rare effects may "
            "be missing and the standard errors too small. Draw more samples.",
        )
    if tail_carriers:
        return (
            f"About {math.ceil(tail_carriers)} outputs determine most of the variance, so larger "
            "outputs may be missing and the standard errors too small. Draw more samples, or "
            "explain the logarithm of the output.",
        )
    return ()


def nonzero_or_none(stderr: Float[np.ndarray, "*d"]) -> Float[np.ndarray, "*d"] | None:
    """Return standard errors, or None if all are 0, because then no sample shows an error."""
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
) -> tuple[Any, TopSizes, tuple[str, ...]]:
    """Sample masks and fit a linear model to them, until a stopping rule or a deadline ends it.

    Parameters
    ----------
    settings
        Settings of a method, with the fields of ``SamplingSettings``.
    batch
        The only input.
    game
        The explained number as a function of masks.
    sampler
        Draws a number of masks with their weights.
    fit
        Returns the model of a ``Sample``, such as ``fit_sampled_lime``.
    paired_game
        Replaces ``game`` by a function that evaluates two masks for each row, such as a mask and
        its complement.
    row0
        Whether the first row is the input with all features.

    Returns
    -------
    The fitted model, the sizes of its certain top sets, and warnings about the stopping rule and
    about rare effects.
    """
    sample_size, d = settings.sample_size, len(game.output_game)
    masks_per_row = 1 if paired_game is None else 2
    rng = text_rng(settings.seed, batch.inputs[0].text)
    sample = Sample(paired_game or game, sampler, rng, d=d, row0=row0)
    stopping = sample_size.stopping_rule(draws_per_count=masks_per_row)

    def certify(linear_model: Any, level: float) -> TopSizes:
        """Return the sizes of the certain top sets of a fitted model."""
        if not isinstance(linear_model, LimeFit):
            return ()
        return linear_model.certify_tops(level, first=sample_size.top)

    linear_model, look = fit_until_stopped(
        sample,
        partial(fit, known_range=game.known_range),
        initial_rows=sample_size.initial_count(d) // masks_per_row,
        minimum_rows=sample_size.minimum(d) // masks_per_row,
        masks_per_row=masks_per_row,
        stopping=stopping,
        certify=certify,
    )
    level = ERROR_LEVEL if stopping is None else stopping.level(look)
    tops = certify(linear_model, level)
    largest_share = 0.0
    if isinstance(linear_model, LimeFit):
        largest_share = float(linear_model.largest_share[0])
    rare_effects = rare_effect_warning(
        has_no_spread=bool(linear_model.has_no_spread[0]),
        largest_share=largest_share,
        possible_effect=max(game.known_range, float(sample.output_range[0])),
        sample_count=linear_model.samples,
        tail_carriers=float(sample.tail_carriers[0]),
    )
    count, largest_error = masks_per_row * linear_model.samples, float(linear_model.stderr.max())
    warnings = sample_size.stopping_warnings(count, largest_error, tops, d)
    return linear_model, tops, warnings + rare_effects


def few_calls_warning(draws: str, noun: str, *, enough_calls: int, has_error: bool = False) -> str:
    """Return the warning that scores from very few calls have no separate errors.

    Parameters
    ----------
    draws
        What the scores come from, such as "one order".
    noun
        The noun for a feature, such as "word".
    enough_calls
        The budget, in calls, that is enough for separate errors.
    has_error
        Whether all features share an error. Otherwise they have none.
    """
    error = (
        f"all {pluralize(noun)} share one rough standard error"
        if has_error
        else ("their errors are unknown")
    )
    return (
        f"Scores come from {draws}, and {error}. For standard errors of each {noun}, use a budget "
        f"of {enough_calls:,} calls."
    )
