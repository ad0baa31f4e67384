"""Banzhaf values, pair interactions and ContextCite: what masks by fair coins tell."""

import math
from dataclasses import replace
from functools import partial
from typing import Annotated

import numpy as np

from limelight.errors import DomainError, InputError, TooFewFeaturesError
from limelight.explainers.batch import Batch
from limelight.explainers.method import (
    NotBelow,
    NotNegative,
    OneOf,
    at_least,
    exact_implementation,
    parse_top,
    per_input,
    refill_implementation,
)
from limelight.explainers.registry import register_method
from limelight.explainers.sample_size import (
    END_CALLS,
    MAX_SAMPLES,
    CertifyingSettings,
    SampleSize,
    SamplingSettings,
    answers_implementation,
    fit_sample_size,
    sampled_implementation,
)
from limelight.explainers.target_game import (
    TargetGame,
    exact_attributions,
    few_calls_warning,
    fit_masks,
    nonzero_or_none,
    rare_effect_warning,
    refill_attributions,
)
from limelight.results import Attribution, Pairs
from limelight.sampling.all_masks import (
    banzhaf_values_from_all_masks,
    pair_interactions_from_all_masks,
)
from limelight.sampling.deadline import evaluate_before_deadline
from limelight.sampling.masks import PerMask, draw_coin_masks, text_rng
from limelight.sampling.neighbors import banzhaf_values_from_neighbors
from limelight.sampling.pairs import INDICES, PairSampler, fit_pair_interactions
from limelight.sampling.ranks import normal_quantile
from limelight.sampling.regression import (
    fit_cross_validated_lasso,
    fit_lasso,
    fit_sampled_lime,
)
from limelight.sampling.sample import make_coin_sampler
from limelight.sampling.spread import count_tail_carriers
from limelight.shapes import Bool, Float
from limelight.text import AnswerQuery
from limelight.theory.banzhaf import banzhaf
from limelight.theory.enumeration import banzhaf_matrix, enumerate_masks
from limelight.theory.interactions import banzhaf_interactions, shapley_interactions
from limelight.theory.namespace import host_array
from limelight.theory.refilling import refilled_banzhaf
from limelight.threads import limit_blas_threads


def _check_sample_count(settings: "Banzhaf | Interactions", d: int) -> None:
    """Raise an error before the first model call if the regression has too few masks."""
    sample_size, pairs = settings.sample_size, isinstance(settings, Interactions)
    if pairs and d < 2:
        raise TooFewFeaturesError(f"interactions need at least 2 features, but this text has {d}.")
    if isinstance(settings, Banzhaf) and settings.few_calls is not None:
        return
    masks, needed = sample_size.final_count(d), sample_size.minimum(d)
    if not sample_size.covers_all_masks(d) and masks < needed:
        name = "interactions" if pairs else "Banzhaf values"
        raise DomainError(
            f"{name} of {d} features need at least {needed} samples, not {masks}. Raise samples or "
            "max_samples."
        )


def _fit_mask_count(settings: "Banzhaf", d: int, calls: int) -> "Banzhaf":
    """Return the settings with the masks that a number of calls allows."""
    if calls >= settings.sample_size.minimum_calls(d):
        return fit_sample_size(settings, d, calls)
    return replace(settings, few_calls=calls)


def _explain_with_few_calls(settings: "Banzhaf", batch: Batch) -> Attribution:
    """Score every feature from fewer calls than the regression needs, without standard errors."""
    game, d = TargetGame(batch, settings.replacement, settings), len(batch.features[0])
    rng = text_rng(settings.seed, batch.inputs[0].text)
    mask_count = (settings.few_calls or 0) - _FIXED_CALLS - END_CALLS * game.is_random
    mask_count //= settings.answers or 1
    center_count = mask_count // (d + 1)
    explains_answer = any(isinstance(query, AnswerQuery) for query in batch.inputs[0].queries)
    # An answer depends on few documents. With 60 documents and 128 calls, the LDS of a LASSO was
    # 0.77, and that of the neighbors of two masks 0.62. Neighbors need more calls than features
    # (benchmarks/documents.py). Without joint effects, they give exact scores of classifiers.
    if center_count and not explains_answer:
        draws = "one random mask" if center_count == 1 else f"{center_count} random masks"
        scores = banzhaf_values_from_neighbors(game, d, rng, masks=center_count)[0]
    else:
        keep = draw_coin_masks(d, max(mask_count, _MIN_LASSO_MASKS), rng)
        values = evaluate_before_deadline(game, keep, minimum_rows=_MIN_LASSO_MASKS)
        draws = f"a LASSO of {len(values)} random masks"
        scores = fit_cross_validated_lasso(keep[: len(values)], values[:, 0])
    noun = batch.features[0].noun
    warning = few_calls_warning(
        draws,
        noun,
        enough_calls=1 + replace(settings, few_calls=None).sample_size.minimum_calls(d),
    )
    warnings = (warning, *settings.sample_size.stopping_warnings(mask_count, 0.0, (), d))
    if not scores.any():
        warnings += (f"Every score is 0, because no {noun} predicts the output. Raise the budget.",)
    attribution = game.make_attribution(scores, warnings=warnings, masks_drawn=mask_count)
    return replace(attribution, has_unknown_errors=True)


def _explain_by_masks(settings: "Banzhaf", batch: Batch) -> Attribution:
    """Score every feature by its Banzhaf value, a regression of outputs on random masks."""
    if settings.few_calls is not None:
        return _explain_with_few_calls(settings, batch)
    game, d = TargetGame(batch, settings.replacement, settings), len(batch.features[0])
    if settings.sample_size.has_time_for_all_masks(d):
        if settings.answers is not None:
            return game.make_repeated_attribution(
                enumerate_masks(d), banzhaf_matrix(d), answers=settings.sample_size.repeats(d)
            )
        return game.make_attribution(banzhaf_values_from_all_masks(game, d)[0], masks=2**d)

    # The slope of least squares on masks from fair coins is the Banzhaf value. Half the difference
    # of a mask and its complement has the same slope, because the joint effects of an even number
    # of words cancel. With equal calls and 14 words, the variance was 35 to 3,600 times smaller
    # than that of E[f | kept] − E[f | removed] on smooth games, and 1.2 times on rare effects.
    def half_difference(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
        """Return half of f(S) − f(complement of S) for each mask."""
        values = game(np.concatenate([keep, ~keep]))
        return (values[: len(keep)] - values[len(keep) :]) / 2

    regression = partial(fit_sampled_lime, ridge=0.0)
    fit, tops, warnings = fit_masks(
        settings, batch, game, make_coin_sampler(d), regression, paired_game=half_difference
    )
    mask_count = 2 * fit.samples
    if not np.isfinite(fit.stderr).all():  # a score that a single mask determines has no error
        raise DomainError(
            f"{mask_count} samples do not determine the Banzhaf values of {d} features. Set "
            f"samples to {2 * mask_count}."
        )
    errors = nonzero_or_none(fit.stderr[0])
    return game.make_attribution(
        fit.scores[0],
        errors,
        warnings=warnings,
        draws=fit.draws,
        certain_tops=tops,
        samples_drawn=mask_count,
    )


_EXACT = {"shapley": shapley_interactions, "banzhaf": banzhaf_interactions}
_OVERHEAD = 1e-6  # seconds for each mask and feature, because each mask counts for every pair


def _explain_pairs_exactly(settings: "Interactions", batch: Batch) -> Attribution:
    """Score every pair of features by their exact interaction, from the exact game."""
    tolerance = settings.tolerance or 1e-6
    with limit_blas_threads():
        interactions = _EXACT[settings.index](batch.ratio_game, tolerance=tolerance)
    matrix, bounds = host_array(interactions.scores)[0, 0], host_array(interactions.bound)
    return Attribution(
        scores=mean_interaction_sizes(matrix),
        bound=float(bounds[0, 0]),
        pairs=select_strongest_pairs(matrix, None, settings.top),
    )


def _explain_pairs_by_masks(settings: "Interactions", batch: Batch) -> Attribution:
    """Score every pair of features by their interaction, estimated from random masks."""
    game, d = TargetGame(batch, settings.replacement), len(batch.features[0])
    if settings.sample_size.has_time_for_all_masks(d):
        (matrix,) = pair_interactions_from_all_masks(game, d, index=settings.index)
        pairs = select_strongest_pairs(matrix, None, settings.top)
        return game.make_attribution(mean_interaction_sizes(matrix), pairs=pairs, masks=2**d)
    sampler = PairSampler(d, settings.index)
    regression = partial(fit_pair_interactions, sampler=sampler)
    fit, _, warnings = fit_masks(settings, batch, game, sampler, regression)
    # If no pair interacts, no score exceeds this limit in 95 % of samples (Bonferroni).
    pair_count = d * (d - 1) // 2
    limit = normal_quantile(1 - 0.025 / pair_count)
    significant_count = int((np.abs(fit.scores[0]) > limit * fit.stderr[0]).sum()) // 2
    if not significant_count:
        warnings += (
            f"None of the {pair_count:,} pairs has an interaction that differs significantly from "
            "0. Raise samples.",
        )
    return game.make_attribution(
        mean_interaction_sizes(fit.scores[0]),
        # Scores are sizes, and | |Î| − |I| | is at most |Î − I| for all signs.
        nonzero_or_none(mean_interaction_sizes(fit.stderr[0])),
        warnings=warnings,
        pairs=select_strongest_pairs(fit.scores[0], nonzero_or_none(fit.stderr[0]), settings.top),
        samples_drawn=fit.samples,
        significant_pairs=significant_count,
    )


def mean_interaction_sizes(pairs: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " d"]:
    """Return the mean size of each feature's interactions."""
    return np.abs(pairs).sum(axis=1) / (len(pairs) - 1)


def select_strongest_pairs(
    matrix: Float[np.ndarray, "d d"], stderr: Float[np.ndarray, "d d"] | None, top: int | None
) -> Pairs:
    """Return the pairs of largest size, strongest first.

    Errors of R selected pairs out of P are multiplied by the ratio of the normal quantiles at
    0.05 R/P and at 0.05 (Benjamini and Yekutieli, 2005). Their theorem needs estimates that are
    independent or positively dependent. Pairs of one regression need not be. A benchmark measures
    that twice the errors hold for 95 % of the selected pairs
    (``benchmarks/coverage_study.py --pairs``).
    """
    rows, columns = np.triu_indices(len(matrix), k=1)
    order = np.argsort(-np.abs(matrix[rows, columns]), kind="stable")[:top]
    i, j = rows[order], columns[order]
    if stderr is not None:
        # The largest of many scores are also large by chance. Without this factor, ±2 errors held
        # for 0.55 of the 100 largest of 3,160 pairs.
        selected = normal_quantile(1 - 0.025 * len(order) / len(rows))
        stderr = selected / normal_quantile(0.975) * stderr[i, j]
    return Pairs(features=np.stack([i, j], axis=1), scores=matrix[i, j], stderr=stderr)


def _explain_by_lasso(settings: "ContextCite", batch: Batch) -> Attribution:
    """Score every feature by a LASSO of the log-odds of the answer on random masks."""
    game, d = TargetGame(batch, settings.replacement), len(batch.features[0])
    keep = draw_coin_masks(d, settings.samples, text_rng(settings.seed, batch.inputs[0].text))
    values = evaluate_before_deadline(game, keep, minimum_rows=settings.sample_size.minimum(d))
    keep = keep[: len(values)]
    index = batch.targets.query_index
    queries = batch.inputs[0].queries[index : index + 1]
    answer = next((query for query in queries if isinstance(query, AnswerQuery)), None)
    token_count = 1 if answer is None else answer.length
    # The mean over the tokens of an answer is explained as their sum, divided by this number.
    divisor = token_count if answer is not None and answer.per_token else 1

    def fitted_numbers(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return the numbers that the regression fits."""
        return values if answer is None else _log_odds(values * divisor)

    y = fitted_numbers(values[:, 0])
    known_range = game.known_range
    if answer is not None and game.base_value is not None:
        known_range = float(np.ptp(fitted_numbers(np.array([game.full_value, game.base_value]))))
    # The paper divides the log-odds by the number of tokens, and multiplies the scores by it. This
    # has the effect of a penalty that is larger by this factor.
    fit = fit_lasso(keep, y, penalty=settings.penalty * token_count, known_range=known_range)
    size = max(known_range, float(np.ptp(y))) / divisor
    rare_effects = rare_effect_warning(
        has_no_spread=fit.has_no_spread,
        largest_share=fit.largest_share,
        possible_effect=size,
        sample_count=len(keep),
        tail_carriers=float(count_tail_carriers(y[:, None])[0]),
        part_count=fit.part_count,
    )
    return game.make_attribution(
        fit.coefficients / divisor,
        nonzero_or_none(fit.stderr / divisor),
        warnings=_zero_score_warnings(fit.coefficients, y, game) + rare_effects,
        intercept=fit.intercept / divisor,
        samples_drawn=len(keep),
        kept=int(np.count_nonzero(fit.coefficients)),
    )


def _log_odds(log_p: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return log p − log(1 − p) from log p."""
    # The log-odds of p = 1 are infinite. Single precision has no value between this and 1.
    log_p = np.minimum(log_p, -np.finfo(np.float32).eps)
    return log_p - np.log(-np.expm1(log_p))


def _zero_score_warnings(
    scores: Float[np.ndarray, " d"], y: PerMask, game: TargetGame
) -> tuple[str, ...]:
    """Warn if every score is 0 although removing features changes the output."""
    if scores.any():
        return ()
    if np.ptp(y) > _SINGLE_PRECISION * np.abs(y).max():
        return (
            "Every score is 0 although the output varies, because the penalty exceeds every single "
            "effect. Set a lower penalty, or use 'interactions' if features act only together.",
        )
    base, full = game.base_value, game.full_value
    if base is not None and not math.isclose(base, full, rel_tol=_SINGLE_PRECISION):
        return (
            f"Every score is 0, but the output is {full:.3g} for the text and {base:.3g} without "
            "it. Raise samples, or use 'shapley', which explains the difference.",
        )
    return ()


_SINGLE_PRECISION = 1e-6  # relative rounding error of an output
_MAX_ABLATIONS = 100_000  # bounds the memory of the LASSO, which stores all masks
_FIXED_CALLS = 3  # of Banzhaf values: for the text itself and for no words
_MIN_LASSO_MASKS = 8  # a mask for each fold of the cross-validation
_INDEX = 'weights of the sets S: "shapley" or "banzhaf"'
_TOP = "number of pairs to keep, strongest first. None: all d(d−1)/2"


_SAMPLED_BANZHAF = sampled_implementation(
    _explain_by_masks,
    {
        "samples": "number of masks, in pairs of complements. None: ten per word, at least 1,000. "
        "If a text has no more masks, or at most 1,024, all are evaluated",
        "few_calls": "number of calls of a small budget. Then there are no standard errors",
    },
    fit=_fit_mask_count,
    summary="one model call per sample",
    check=_check_sample_count,
    certifies=True,
)
_SAMPLED_BANZHAF = replace(
    _SAMPLED_BANZHAF,
    cost=replace(
        _SAMPLED_BANZHAF.cost,
        settings=(*_SAMPLED_BANZHAF.cost.settings, "few_calls"),
        minimum=lambda settings, d: min(
            settings.sample_size.minimum_calls(d), settings.few_sample_size.minimum_calls(d)
        ),
    ),
    hidden_settings=("few_calls",),
)


@register_method(
    id="banzhaf",
    label="Banzhaf",
    formula="E[f | word kept] − E[f | word removed], each other word kept with probability ½",
    sees="the mean effect of a word over all sets of other words, with equal weights",
    blind="sets far from half of the text, and scores do not add up to f",
    cost="milliseconds, exact to quadrature precision with a bound",
    implementations=(
        exact_implementation(partial(exact_attributions, value=banzhaf), ("tolerance", "per_head")),
        refill_implementation(partial(refill_attributions, value=refilled_banzhaf)),
        answers_implementation(_SAMPLED_BANZHAF),
        _SAMPLED_BANZHAF,
    ),
)
class Banzhaf(CertifyingSettings):
    """Settings of Banzhaf values: of a quadrature, or of random masks."""

    per_head: bool = False
    samples: Annotated[int | None, at_least(4)] = None
    max_samples: Annotated[int, at_least(4), NotBelow("samples")] = 500_000
    few_calls: Annotated[int | None, at_least(_MIN_LASSO_MASKS + _FIXED_CALLS)] = None
    answers: Annotated[int | None, at_least(1)] = None

    def __post_init__(self) -> None:
        if self.few_calls is not None and (self.samples or self.tolerance):
            raise InputError(
                "few_calls does not go with samples or tolerance. Leave few_calls out."
            )

    @property
    def sample_size(self) -> SampleSize:
        """The number of masks. A row of the regression is a pair of masks."""
        if self.few_calls is not None:
            return self.few_sample_size
        # With 1.75 balanced rows for each word and the intercept, no slope depended on a single
        # row in 1,500 samples each of 11 and of 15 words. For 15 words 1.5 rows were enough.
        return self.make_sample_size(
            default=lambda d: max(1000, 10 * d),
            minimum=lambda d: 2 * math.ceil(1.75 * (d + 1)),
            fixed_calls=_FIXED_CALLS,
        )

    @property
    def few_sample_size(self) -> SampleSize:
        """The number of calls of a small budget."""
        extra_calls = 0 if self.answers is None else END_CALLS
        return SampleSize(
            count=self.few_calls,
            max_count=self.few_calls or MAX_SAMPLES,
            top=parse_top(self.until),
            minimum=lambda _: (self.answers or 1) * _MIN_LASSO_MASKS + _FIXED_CALLS + extra_calls,
            fixed_calls=0,
            enumerates=False,
        )


@register_method(
    id="interactions",
    label="Interactions",
    formula="mean of f(S∪ij) − f(S∪i) − f(S∪j) + f(S) over sets S",
    sees="which words need or replace each other",
    blind="what a word does alone (its score is the mean size of its interactions)",
    cost="O(d²) per node, exact to quadrature precision with a bound",
    signed=False,
    implementations=(
        exact_implementation(
            per_input(_explain_pairs_exactly), ("index", "tolerance", "top"), index=_INDEX, top=_TOP
        ),
        sampled_implementation(
            _explain_pairs_by_masks,
            {
                "index": _INDEX,
                "top": _TOP,
                "samples": "number of masks. None: ten per word, at least 2,000. If a text has "
                "no more masks, or at most 1,024, all are evaluated",
            },
            overhead=_OVERHEAD,
            summary="one model call per sample, used for every pair",
            check=_check_sample_count,
        ),
    ),
)
class Interactions(SamplingSettings):
    """Settings of pair interactions: of a quadrature, or of random masks."""

    index: Annotated[str, OneOf(INDICES)] = "shapley"
    top: Annotated[int | None, at_least(1)] = 100

    @property
    def sample_size(self) -> SampleSize:
        """The number of masks."""
        return self.make_sample_size(
            default=lambda d: max(2000, 10 * d), minimum=lambda d: 2 * (d + 1)
        )


@register_method(
    id="context-cite",
    label="ContextCite",
    formula="LASSO regression of the log-odds of the answer on random masks",
    sees="the few parts that a language model needs for its answer",
    blind="effects that the penalty shrinks: small ones become 0, large ones too small",
    cost="64 model calls",
    implementations=(
        sampled_implementation(
            _explain_by_lasso,
            {
                "samples": "number of masks",
                "penalty": "penalty of the LASSO per token of the answer, for standardized masks",
            },
            max_count=_MAX_ABLATIONS,
            summary="one model call per sample",
        ),
    ),
)
class ContextCite:
    """Settings of ContextCite. The defaults are those of Cohen-Wang et al. (2024)."""

    samples: Annotated[int, at_least(4)] = 64
    penalty: Annotated[float, NotNegative] = 0.01
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0

    @property
    def sample_size(self) -> SampleSize:
        """The number of masks. They are always drawn at random, as in the paper."""
        return SampleSize(count=self.samples, enumerates=False)  # a penalty determines every score
