"""Banzhaf values, pair interactions and ContextCite: what masks by fair coins tell."""

import math
from functools import partial
from statistics import NormalDist
from typing import Annotated

import numpy as np

from limelight.errors import DomainError
from limelight.explainers.batch import Batch
from limelight.explainers.method import (
    NotBelow,
    NotNegative,
    OneOf,
    at_least,
    exact_implementation,
    per_input,
)
from limelight.explainers.registry import register_method
from limelight.explainers.sample_size import SampleSize, SamplingSettings, sampled_implementation
from limelight.explainers.target_game import (
    TargetGame,
    exact_attributions,
    fit_masks,
    nonzero_or_none,
    rare_effect_warning,
)
from limelight.results import Attribution, Pairs
from limelight.sampling.all_masks import (
    banzhaf_values_from_all_masks,
    pair_interactions_from_all_masks,
)
from limelight.sampling.deadline import evaluate_before_deadline
from limelight.sampling.masks import PerMask, draw_coin_masks, text_rng
from limelight.sampling.pairs import INDICES, PairSampler, fit_pair_interactions
from limelight.sampling.regression import fit_lasso, fit_sampled_lime
from limelight.sampling.sample import make_coin_sampler
from limelight.sampling.spread import count_tail_carriers
from limelight.shapes import Bool, Float
from limelight.text import AnswerQuery
from limelight.theory.banzhaf import banzhaf
from limelight.theory.interactions import banzhaf_interactions, shapley_interactions
from limelight.theory.namespace import host_array


def _check_enough(settings: "Banzhaf | Interactions", d: int) -> None:
    """Refuse before any call what cannot end well: a line through fewer rows than it needs."""
    sample_size, pairs = settings.sample_size, isinstance(settings, Interactions)
    if pairs and d < 2:
        raise DomainError(f"interactions need at least 2 features; this text has {d}.")
    masks, needed = sample_size.final_count(d), sample_size.minimum(d)
    if not sample_size.covers_all_masks(d) and masks < needed:
        name = "interactions" if pairs else "Banzhaf values"
        raise DomainError(f"{name} of {d} features need at least {needed} samples; got {masks}.")


def _by_masks(settings: "Banzhaf", one: Batch) -> Attribution:
    """Score every feature by the slope of f on random masks, each with its opposite."""
    game, d = TargetGame(one, settings.replacement), len(one.features[0])
    if settings.sample_size.has_time_for_all_masks(d):
        return game.make_attribution(banzhaf_values_from_all_masks(game, d)[0], masks=2**d)

    # The slope of least squares on masks by fair coins is the Banzhaf value, and half the
    # difference of a mask and its opposite has the same one: what an even number of words do
    # together drops out. With as many calls, at 14 words, the variance was 35 to 3,600 times
    # smaller than that of E[f | kept] − E[f | removed] on smooth games, 1.2 times on rare effects.
    def odd(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
        both = game(np.concatenate([keep, ~keep]))
        return (both[: len(keep)] - both[len(keep) :]) / 2

    how = partial(fit_sampled_lime, ridge=0.0)
    fit, said = fit_masks(settings, one, game, make_coin_sampler(d), how, paired_game=odd)
    drawn = 2 * fit.samples
    if not np.isfinite(fit.stderr).all():  # one mask alone decides a score
        raise DomainError(
            f"{drawn} samples do not determine the Banzhaf values of {d} features. Set samples to "
            f"{2 * drawn}."
        )
    errors = nonzero_or_none(fit.stderr[0])
    return game.make_attribution(fit.scores[0], errors, said=said, samples_drawn=drawn)


_EXACT = {"shapley": shapley_interactions, "banzhaf": banzhaf_interactions}
_OWN = 1e-6  # seconds of a core that a mask takes for each word, since every pair is added up


def _exactly(settings: "Interactions", one: Batch) -> Attribution:
    """Score every pair of features by what the two do together beyond what each does alone."""
    found = _EXACT[settings.index](one.ratio_game, tolerance=settings.tolerance or 1e-6)
    matrix, bounds = host_array(found.scores)[0, 0], host_array(found.bound)
    return Attribution(
        scores=of_words(matrix),
        bound=float(bounds[0, 0]),
        pairs=select_strongest_pairs(matrix, None, settings.top),
    )


def _pairs_by_masks(settings: "Interactions", one: Batch) -> Attribution:
    """Score every pair of features by the answers of the model to random masks."""
    game, d = TargetGame(one, settings.replacement), len(one.features[0])
    if settings.sample_size.has_time_for_all_masks(d):
        (matrix,) = pair_interactions_from_all_masks(game, d, index=settings.index)
        pairs = select_strongest_pairs(matrix, None, settings.top)
        return game.make_attribution(of_words(matrix), pairs=pairs, masks=2**d)
    sampler = PairSampler(d, settings.index)
    how = partial(fit_pair_interactions, sampler=sampler)
    fit, said = fit_masks(settings, one, game, sampler, how)
    # So far from 0 no pair lies in 95 % of samples where none interacts (Bonferroni).
    many = d * (d - 1) // 2
    limit = NormalDist().inv_cdf(1 - 0.025 / many)
    told = int((np.abs(fit.scores[0]) > limit * fit.stderr[0]).sum()) // 2
    noise = (
        f"No pair stands out: the strongest of {many:,} would lie as far from 0 by chance alone. "
        "Draw more masks.",
    )
    return game.make_attribution(
        of_words(fit.scores[0]),
        # Scores are sizes: | |Î| − |I| | is at most |Î − I|, whatever the signs.
        nonzero_or_none(of_words(fit.stderr[0])),
        said=said + (() if told else noise),
        pairs=select_strongest_pairs(fit.scores[0], nonzero_or_none(fit.stderr[0]), settings.top),
        samples_drawn=fit.samples,
        pairs_told_from_zero=told,
    )


def of_words(pairs: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " d"]:
    """Return the mean size of each word's interactions."""
    return np.abs(pairs).sum(axis=1) / (len(pairs) - 1)


def select_strongest_pairs(
    matrix: Float[np.ndarray, "d d"], stderr: Float[np.ndarray, "d d"] | None, top: int | None
) -> Pairs:
    """Return the pairs of largest size, strongest first.

    Errors of R selected pairs out of P are multiplied by the ratio of the normal quantiles at
    0.05 R/P and at 0.05 (Benjamini and Yekutieli, 2005). Their theorem needs estimates that are
    independent or positively dependent. Pairs of one regression need not be: that twice the errors
    hold 95 % of the selected pairs is measured (benchmarks/coverage_study.py --pairs).
    """
    rows, columns = np.triu_indices(len(matrix), k=1)
    order = np.argsort(-np.abs(matrix[rows, columns]), kind="stable")[:top]
    i, j, normal = rows[order], columns[order], NormalDist()
    if stderr is not None:
        # The largest of many are large by luck too: without this ±2 held 0.55 of 100 of 3,160.
        selected = normal.inv_cdf(1 - 0.025 * len(order) / len(rows))
        stderr = selected / normal.inv_cdf(0.975) * stderr[i, j]
    return Pairs(features=np.stack([i, j], axis=1), scores=matrix[i, j], stderr=stderr)


def _cited(settings: "ContextCite", one: Batch) -> Attribution:
    """Score every feature by a LASSO of the log-odds of the answer on random masks."""
    game, d = TargetGame(one, settings.replacement), len(one.features[0])
    keep = draw_coin_masks(d, settings.samples, text_rng(settings.seed, one.inputs[0].text))
    answers = evaluate_before_deadline(game, keep, minimum_rows=settings.sample_size.minimum(d))
    keep = keep[: len(answers)]
    part = one.targets.query_index
    queries = one.inputs[0].queries[part : part + 1]
    answer = next((query for query in queries if isinstance(query, AnswerQuery)), None)
    tokens = 1 if answer is None else answer.length
    share = tokens if answer is not None and answer.per_token else 1

    def fitted_numbers(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return values if answer is None else _log_odds(values * share)

    y = fitted_numbers(answers[:, 0])
    known_range = game.known_range
    if answer is not None and game.base_value is not None:
        known_range = float(np.ptp(fitted_numbers(np.array([game.full_value, game.base_value]))))
    # They divide the log-odds by the number of tokens, and multiply the scores by it: as if the
    # penalty were so many times as large. Of a mean over tokens, the sum is fitted and then shared.
    fit = fit_lasso(keep, y, penalty=settings.penalty * tokens, known_range=known_range)
    size = max(known_range, float(np.ptp(y))) / share
    unseen = rare_effect_warning(
        has_no_spread=fit.has_no_spread,
        largest_share=fit.largest_share,
        possible_effect=size,
        sample_count=len(keep),
        tail_carriers=float(count_tail_carriers(y[:, None])[0]),
        part_count=fit.part_count,
    )
    return game.make_attribution(
        fit.coefficients / share,
        nonzero_or_none(fit.stderr / share),
        said=_zero_score_warnings(fit.coefficients, y, game) + unseen,
        intercept=fit.intercept / share,
        samples_drawn=len(keep),
        kept=int(np.count_nonzero(fit.coefficients)),
    )


def _log_odds(log_p: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return log p − log(1 − p) from log p."""
    # A certain answer has no log-odds; single precision knows none above this.
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
            f"Every score is 0, but the output is {full:.3g} for the text and "
            f"{base:.3g} without it. Set samples higher, or use 'shapley', which "
            "explains the difference.",
        )
    return ()


_SINGLE_PRECISION = 1e-6  # of an output: what rounding may change in a network
_MOST_ABLATIONS = 100_000  # masks, all of which a LASSO holds at once
_INDEX = 'how sets S are weighted: "shapley" or "banzhaf"'
_TOP = "pairs to keep, strongest first; None: all d(d−1)/2"


@register_method(
    id="banzhaf",
    label="Banzhaf",
    formula="E[f | word kept] − E[f | word removed], the others kept by fair coins",
    sees="the word's mean effect over all sets of other words, all alike",
    blind="sets far from half of the text; does not add up to f",
    cost="milliseconds, exact to quadrature precision with a bound",
    implementations=(
        exact_implementation(partial(exact_attributions, value=banzhaf), ("tolerance", "per_head")),
        sampled_implementation(
            _by_masks,
            {
                "samples": "masks to draw, in pairs of opposites; None: ten for each word, at "
                "least 1000. If there are no more than that, or at most 1,024, all 2^d are "
                "asked instead"
            },
            summary="one call of the model per sample",
            check=_check_enough,
        ),
    ),
)
class Banzhaf(SamplingSettings):
    """Settings of Banzhaf values: of a quadrature, or of random masks."""

    per_head: bool = False
    samples: Annotated[int | None, at_least(4)] = None
    max_samples: Annotated[int, at_least(4), NotBelow("samples")] = 500_000

    @property
    def sample_size(self) -> SampleSize:
        """How many masks are asked; half as many pairs are the rows of a regression."""
        # With 1.75 balanced rows for each word and the intercept, no slope was left to a single row
        # in 1,500 samples each of 11 and of 15 words. Fewer may do: 1.5 did for 15 words.
        return self.make_sample_size(
            default=lambda d: max(1000, 10 * d),
            minimum=lambda d: 2 * math.ceil(1.75 * (d + 1)),
            fixed_calls=3,
        )


@register_method(
    id="interactions",
    label="Interactions",
    formula="mean of f(S∪ij) − f(S∪i) − f(S∪j) + f(S) over sets S",
    sees="which words need or replace each other",
    blind="what a word does alone; a word's score is the mean size of its interactions",
    cost="O(d²) per node, exact to quadrature precision with a bound",
    signed=False,
    implementations=(
        exact_implementation(
            per_input(_exactly), ("index", "tolerance", "top"), index=_INDEX, top=_TOP
        ),
        sampled_implementation(
            _pairs_by_masks,
            {
                "index": _INDEX,
                "top": _TOP,
                "samples": "masks to draw; None: ten for each word, at least 2000. If there "
                "are no more than that, or at most 1,024, all 2^d are asked instead",
            },
            overhead=_OWN,
            summary="one call of the model per sample, each of which counts for every pair",
            check=_check_enough,
        ),
    ),
)
class Interactions(SamplingSettings):
    """Settings of pair interactions: of a quadrature, or of random masks."""

    index: Annotated[str, OneOf(INDICES)] = "shapley"
    top: Annotated[int | None, at_least(1)] = 100

    @property
    def sample_size(self) -> SampleSize:
        """How many masks are asked."""
        return self.make_sample_size(
            default=lambda d: max(2000, 10 * d), minimum=lambda d: 2 * (d + 1)
        )


@register_method(
    id="context-cite",
    label="ContextCite",
    formula="LASSO of the log-odds of the answer on which parts stay, each by a fair coin",
    sees="the few parts without which a language model would write something else",
    blind="what the penalty shrinks: small effects are 0, large ones too small",
    cost="64 calls of the model",
    implementations=(
        sampled_implementation(
            _cited,
            {
                "samples": "masks to draw",
                "penalty": "of the LASSO, for each token of the answer; masks are standardised",
            },
            max_count=_MOST_ABLATIONS,
            summary="one call of the model per sample",
        ),
    ),
)
class ContextCite:
    """Settings of ContextCite: as many ablations and the penalty of Cohen-Wang et al. (2024)."""

    samples: Annotated[int, at_least(4)] = 64
    penalty: Annotated[float, NotNegative] = 0.01
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0

    @property
    def sample_size(self) -> SampleSize:
        """How many masks are asked; never all of them instead, for the paper draws."""
        return SampleSize(count=self.samples, enumerates=False)  # a penalty determines every score
