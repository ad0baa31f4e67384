"""Shapley values, exact or sampled, and leave-one-out."""

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Annotated, final

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.explainers.batch import Batch
from limelight.explainers.learned import (
    CombinedScores,
    LearnedMethod,
    combine_scores,
    load_start,
    read_start,
)
from limelight.explainers.method import (
    MEANINGS,
    Cost,
    Implementation,
    NotBelow,
    OneOf,
    Positive,
    Top,
    at_least,
    exact_implementation,
    parse_top,
    per_input,
    refill_implementation,
)
from limelight.explainers.registry import register_method
from limelight.explainers.sample_size import (
    DEFAULT_CALLS,
    END_CALLS,
    SampleSize,
    answers_implementation,
    fit_sample_size,
    sampled_implementation,
)
from limelight.explainers.target_game import (
    TargetGame,
    exact_attributions,
    few_calls_warning,
    nonzero_or_none,
    rare_effect_warning,
    refill_attributions,
)
from limelight.results import Attribution
from limelight.sampling.all_masks import shapley_values_from_all_masks
from limelight.sampling.kernel import minimum_pairs, shapley_values_from_regression
from limelight.sampling.masks import text_rng
from limelight.sampling.orders import (
    MIN_RELIABLE_PAIRS,
    ShapleySample,
    shapley_values_from_orders,
    shapley_values_from_single_order,
)
from limelight.sampling.ranks import (
    ERROR_LEVEL,
    MIN_DRAWS,
    TopSizes,
    certify_tops_by_errors,
)
from limelight.sampling.spread import pooled_error
from limelight.text import pluralize
from limelight.theory.enumeration import enumerate_masks, shapley_matrix
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.namespace import host_array
from limelight.theory.refilling import refilled_leave_one_out, refilled_shapley
from limelight.theory.shapley import shapley

# With 10 pairs, ±2 standard errors held in 0.78 of cases beside a smooth part. The ranking of words
# is good with fewer pairs: on MiniLM 25, 5 and 2 pairs have shares of 0.88, 0.86 and 0.83, where 0
# is a random order and 1 is the order of greedy search.
ENOUGH_PAIRS = 25
MIN_PAIRS = 2  # a single pair has no spread
_LOO_TOLERANCE = 1e-6  # of random refilling; other exact values of leave-one-out need none
_LOO_ANSWERS, _MIN_LOO_ANSWERS = 10, 2  # random outputs for each mask of leave-one-out
SAMPLERS = ("auto", "orders", "regression")
# A regression is the better sampler for at most 30 features and at least d²/2 calls: 6 for each of
# 12 features, 15 for each of 30. For words and MiniLM d²/3 calls would be enough. For a small GPT-2
# orders are as good up to d² calls (20 words). benchmarks/samplers.py measures and checks it.
_MAX_REGRESSION_FEATURES, _SQUARED_FEATURES_PER_CALL = 30, 2


def _prefers_regression(d: int, calls: int) -> bool:
    """Return whether a regression has smaller errors than random orders for ``calls`` calls."""
    return d <= _MAX_REGRESSION_FEATURES and _SQUARED_FEATURES_PER_CALL * calls >= d * d


def _choose_sampler(settings: "Shapley", d: int, calls: int) -> "Shapley":
    """Return the settings with the sampler that is best for a number of calls."""
    if settings.sampler != "auto":
        return settings
    if settings.until is not None or settings.answers is not None:
        return replace(settings, sampler="orders")
    return replace(settings, sampler="regression" if _prefers_regression(d, calls) else "orders")


def fit_pair_count(settings: "Shapley", d: int, calls: int) -> "Shapley":
    """Return settings with the pairs that a number of calls allows, and the calls that remain."""
    if calls < settings.sample_size.minimum_calls(d) and _allows_few_orders(settings):
        if settings.answers is not None:  # a pair has ends of its own
            is_pair = settings.sample_size.fixed_calls + 2 * d * settings.answers <= calls
            return replace(settings, orders=2 if is_pair else 1)
        if d == 1 or calls < 2 * d:
            return replace(settings, orders=1)
        return replace(settings, orders=2, spare=calls - 2 * d)
    settings = _choose_sampler(settings, d, calls)
    settings = fit_sample_size(settings, d, calls, count="pairs")
    is_random = settings.answers is not None
    if settings.sample_size.covers_all_masks(d) or settings.until is not None or is_random:
        return settings
    return replace(settings, spare=max(calls - settings.sample_size.calls(d), 0))


def _allows_few_orders(settings: "Shapley") -> bool:
    """Return whether a small budget may be spent on a single order, or a single pair of orders."""
    return settings.start is None and settings.sampler != "regression"


def _minimum_calls(settings: "Shapley", d: int) -> int:
    """Return the smallest number of calls that explains ``d`` features: those of one order."""
    calls = settings.sample_size.minimum_calls(d)
    single_order = d + 1
    if settings.answers is not None:
        single_order = settings.answers * single_order + END_CALLS
    return min(calls, single_order) if _allows_few_orders(settings) else calls


def _explain_by_few_orders(settings: "Shapley", batch: Batch) -> Attribution:
    """Score every feature by a single order, or by a single pair of orders and a part of a pair.

    The features of a pair share one standard error, and those of a single order have none.
    """
    game, d = TargetGame(batch, settings.replacement, settings), len(batch.features[0])
    rng = text_rng(settings.seed, batch.inputs[0].text)
    is_pair = settings.orders == 2
    if is_pair:
        values = shapley_values_from_orders(
            game,
            d,
            rng,
            pairs=1,
            known_range=game.known_range,
            spare_calls=settings.spare,
            has_random_outputs=game.is_random,
        ).values[0]
    else:
        values = shapley_values_from_single_order(game, d, rng)[0]
    if d == settings.orders and not game.is_random:  # these are all orders
        return game.make_attribution(values, np.zeros(d), orders_drawn=settings.orders)
    warning = few_calls_warning(
        "one pair of orders" if is_pair else "one order",
        batch.features[0].noun,
        enough_calls=1 + replace(settings, orders=None, spare=0).sample_size.minimum_calls(d),
        has_error=is_pair,
    )
    unmet_rules = settings.sample_size.stopping_warnings(settings.orders or 0, 0.0, (), d)
    attribution = game.make_attribution(
        values,
        pooled_error(values, known_range=game.known_range) if is_pair else None,
        warnings=(warning, *unmet_rules),
        orders_drawn=settings.orders,
    )
    return replace(attribution, has_unknown_errors=not is_pair, certain_tops=())


def _check_pairs(settings: "Shapley", d: int) -> None:
    """Raise an error before the first model call if a regression has too few pairs."""
    if not settings.uses_regression(d):
        return
    sample_size, minimum = settings.sample_size, minimum_pairs(d)
    pairs = sample_size.initial_count(d)
    if pairs < minimum and not sample_size.covers_all_masks(d):
        raise DomainError(
            f"a regression on {d} features needs at least {minimum} pairs of masks, not {pairs}. "
            f"Set pairs to {minimum} or more, or leave sampler out."
        )


def explain_by_sampling(
    settings: "Shapley", batch: Batch, *, budget_calls: int | None = None
) -> Attribution:
    """Score every feature by its Shapley value, from random orders or from a regression on masks.

    If the sample size covers all masks, the values are exact. ``budget_calls`` is the budget that a
    warning about few pairs of orders recommends, if it differs from that of ``Shapley``.
    """
    if settings.orders is not None:
        return _explain_by_few_orders(settings, batch)
    game, d = TargetGame(batch, settings.replacement, settings), len(batch.features[0])
    sample_size = settings.sample_size
    learned_scores = read_start(settings, batch)
    if sample_size.has_time_for_all_masks(d):
        if settings.answers is not None:
            return game.make_repeated_attribution(
                enumerate_masks(d), shapley_matrix(d), answers=sample_size.repeats(d)
            )
        return game.make_attribution(shapley_values_from_all_masks(game, d)[0], masks=2**d)
    rng = text_rng(settings.seed, batch.inputs[0].text)
    uses_regression = settings.uses_regression(d)
    pairs = sample_size.initial_count(d)
    stopping = sample_size.stopping_rule()

    def combine(sample: ShapleySample) -> CombinedScores | None:
        """Return the combination of the sample with the learned scores, if there are any."""
        if learned_scores is None or d < 3:
            return None
        pairs = None if uses_regression else sample.draw_counts
        values, variance = sample.values[0], sample.sampled_variance[0]
        return combine_scores(learned_scores, values, variance, pairs=pairs)

    def certify(sample: ShapleySample, level: float) -> TopSizes:
        """Return the sizes of the certain top sets at an error level."""
        combined = combine(sample)
        if combined is None:
            return sample.certify_tops(level, first=sample_size.top)
        return certify_tops_by_errors(combined.scores, combined.stderr, level=level)

    if uses_regression:
        sample = shapley_values_from_regression(
            game, d, rng, pairs=pairs, known_range=game.known_range
        )
    else:
        sample = shapley_values_from_orders(
            game,
            d,
            rng,
            pairs=pairs,
            stopping=stopping,
            certify=None if learned_scores is None else certify,
            known_range=game.known_range,
            spare_calls=settings.spare,
            has_random_outputs=settings.answers is not None,
        )
    tops = certify(sample, ERROR_LEVEL if stopping is None else stopping.level(sample.looks))
    attribution = game.make_attribution(
        sample.values[0],
        # Two words have one pair of orders, whose mean is exact.
        nonzero_or_none(sample.stderr[0]) if d > 2 or game.is_random else sample.stderr[0],
        warnings=pair_warnings(
            settings, sample, d, batch.features[0].noun, budget_calls=budget_calls, tops=tops
        ),
        draws=sample.draws,
        certain_tops=tops,
        pairs_drawn=sample.pairs,
        sampler="regression" if uses_regression else "orders",
    )
    combined = combine(sample)
    return attribution if combined is None else combined.replace_scores(attribution)


def pair_warnings(
    settings: "Shapley",
    sample: ShapleySample,
    d: int,
    noun: str,
    *,
    budget_calls: int | None = None,
    tops: TopSizes = (),
) -> tuple[str, ...]:
    """Return warnings about pairs of orders.

    Parameters
    ----------
    settings
        Settings of the method.
    sample
        Values from the pairs that were drawn.
    d
        Number of features.
    noun
        The noun for a feature, such as "word".
    budget_calls
        The budget, in calls, that is enough for reliable scores. None: that of ``Shapley``.
    tops
        Sizes of the certain top sets.

    Returns
    -------
    The warnings as sentences.
    """
    warnings, features = tuple[str, ...](), pluralize(noun)
    if budget_calls is None:
        enough_pairs = replace(settings, pairs=ENOUGH_PAIRS, max_pairs=10_000, sampler="orders")
        budget_calls = 3 + ENOUGH_PAIRS * 2 * (d - 1)
        if settings.answers is not None:
            budget_calls = enough_pairs.sample_size.calls(d)
    # For two words, a single pair contains all orders.
    is_incomplete = d > 2 and settings.start is None
    if is_incomplete and not settings.uses_regression(d) and sample.pairs < ENOUGH_PAIRS:
        warnings = (
            f"Scores come from {sample.pairs} pairs of orders: the ranking of {features} is "
            "usable, but sizes and standard errors are rough. For reliable scores, use a budget of "
            f"{budget_calls:,} calls ({ENOUGH_PAIRS} pairs).",
        )
    return (
        warnings
        + settings.sample_size.stopping_warnings(sample.pairs, float(sample.stderr.max()), tops, d)
        + rare_effect_warning(
            has_no_spread=bool(sample.has_no_spread[0]) and is_incomplete,
            largest_share=float(sample.largest_share[0]),
            possible_effect=float(sample.allowed_effect[0]),
            sample_count=sample.pairs,
            tail_carriers=float(sample.tail_carriers[0]),
        )
    )


_ROUNDING = 2.0**-52


def _loo_from_game(_: "Loo", batch: Batch) -> list[Attribution]:
    """Score every feature by the change of the output when it is removed, in closed form."""
    targets, outputs = batch.targets, batch.outputs
    differences = leave_one_out(batch.output_ratio_game)
    masked_outputs = np.moveaxis(outputs[..., None] - host_array(differences.scores), -1, 0)
    scores = targets.value(outputs) - targets.value(masked_outputs)
    # A logit is a weighted sum of outputs, and so is its error. The two subtractions add a few
    # rounding errors of the outputs.
    errors = host_array(differences.bound) + 8 * _ROUNDING * np.abs(outputs)
    bounds = (np.abs(batch.target_gradient) * errors).sum(axis=-1)
    return [
        Attribution(
            scores=scores[: len(features), i],
            bound=float(bounds[i]) if targets.scale != "probability" else None,
        )
        for i, features in enumerate(batch.features)
    ]


def _loo_from_calls(settings: "Loo", batch: Batch) -> Attribution:
    """Score every feature by the change of the output when it is removed."""
    game, d = TargetGame(batch, settings.replacement, settings), len(batch.features[0])
    masks = np.concatenate([np.ones((1, d), bool), ~np.eye(d, dtype=bool)])
    if settings.answers is not None:
        matrix = np.concatenate([np.ones((1, d)), -np.eye(d)])
        return game.make_repeated_attribution(masks, matrix, answers=settings.answers)
    full_value, *masked_values = game(masks)[:, 0]
    return game.make_attribution(full_value - np.array(masked_values))


def _fit_answers(settings: "Loo", d: int, calls: int) -> "Loo":
    """Return the settings with the answers for each masked text that a number of calls allows."""
    return replace(settings, answers=max((calls - END_CALLS) // (d + 1), _MIN_LOO_ANSWERS))


def _loo_from_refills(_: "Loo", batch: Batch) -> list[Attribution]:
    """Score every feature by the change of the mean output when it is refilled."""
    settings = SimpleNamespace(tolerance=_LOO_TOLERANCE, per_head=False)
    return refill_attributions(settings, batch, value=refilled_leave_one_out)


_SAMPLED = sampled_implementation(
    explain_by_sampling,
    {
        "sampler": "'orders' of words, 'regression' on masks, or 'auto'. "
        f"The default uses a regression for at most {_MAX_REGRESSION_FEATURES} words and at least "
        f"d²/{_SQUARED_FEATURES_PER_CALL} calls, unless pairs or tolerance is set",
        "pairs": "number of pairs: an order and its reverse, 2 (d − 1) calls each, or a mask and "
        f"its complement, 2 calls each. None: as many as {DEFAULT_CALLS:,} calls allow, at least "
        "2. If a text has no more masks than calls, or at most 1,024, all are evaluated",
        "spare": "remaining calls of a budget, for a part of a pair",
        "orders": "number of orders that a small budget allows: 1, or 2 for a pair. All words of "
        "a pair share one rough standard error, and a single order has none",
        "start": "a learned method, or its folder. Its scores are combined with sampled scores, "
        "and one pair is enough",
    },
    count="pairs",
    fit=fit_pair_count,
    check=_check_pairs,
    summary="2 (d − 1) model calls per pair of orders of d words, or 2 per pair of masks",
    certifies=True,
)
_SAMPLED = replace(
    _SAMPLED,
    cost=replace(
        _SAMPLED.cost,
        settings=(*_SAMPLED.cost.settings, "spare", "orders"),
        minimum=_minimum_calls,
    ),
    hidden_settings=("spare", "start", "orders"),
)


@final
@register_method(
    id="loo",
    label="LOO",
    formula="f(text) − f(text without the word)",
    sees="the effect of replacing one word by UNK",
    blind="words that can replace each other, because each alone has little effect",
    cost="one forward pass, O(d)",
    implementations=(
        Implementation(needs="exact_game", exactness="bound", explain=_loo_from_game),
        replace(refill_implementation(_loo_from_refills, ()), defaults={}),
        Implementation(
            needs="agreement",
            exactness="sampled",
            explain=per_input(_loo_from_calls),
            settings={
                "replacement": MEANINGS["replacement"],
                "answers": "number of answers for each masked text",
            },
            defaults={"answers": _LOO_ANSWERS},
            cost=Cost(
                calls=lambda settings, d: (d + 1) * settings.answers + END_CALLS,
                minimum=lambda _, d: (d + 1) * _MIN_LOO_ANSWERS + END_CALLS,
                settings=("answers",),
                fit=_fit_answers,
                summary="ten model calls per word",
            ),
        ),
        Implementation(
            exactness="exact",
            explain=per_input(_loo_from_calls),
            settings={"replacement": MEANINGS["replacement"]},
            cost=Cost(
                calls=lambda _, d: d + 2,
                minimum=lambda _, d: d + 2,
                summary="one model call per word",
            ),
        ),
    ),
)
class Loo:
    """Settings of leave-one-out. ``answers`` is for models with random outputs."""

    replacement: str = "auto"
    answers: Annotated[int | None, at_least(_MIN_LOO_ANSWERS)] = None


@final
@register_method(
    id="shapley",
    label="Shapley",
    formula="∫₀¹ (E_p[f | word kept] − E_p[f | word removed]) dp",
    sees="the mean effect of a word over all sets of other words. Scores add up to the effect of "
    "all words",
    blind="which other words it needs (see interactions)",
    cost="milliseconds, exact to quadrature precision with a bound",
    implementations=(
        exact_implementation(partial(exact_attributions, value=shapley), ("tolerance", "per_head")),
        refill_implementation(partial(refill_attributions, value=refilled_shapley)),
        answers_implementation(_SAMPLED),
        _SAMPLED,
    ),
)
class Shapley:
    """Settings of Shapley values: of a quadrature, or of random orders or masks of the words."""

    tolerance: Annotated[float | None, Positive] = None
    per_head: bool = False
    pairs: Annotated[int | None, at_least(1)] = None
    max_pairs: Annotated[int, at_least(1), NotBelow("pairs")] = 10_000
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0
    spare: Annotated[int, at_least(0)] = 0
    sampler: Annotated[str, OneOf(SAMPLERS)] = "auto"
    start: LearnedMethod | str | None = None
    until: Annotated[str | None, Top] = None
    orders: Annotated[int | None, at_least(1)] = None
    answers: Annotated[int | None, at_least(1)] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", load_start(self.start))
        for name in ("pairs", "max_pairs") if self.start is None else ():
            if getattr(self, name) == 1:
                raise InputError(
                    f"{name} must be at least {MIN_PAIRS}, not 1, because one pair has no standard "
                    "error. With a learned start, 1 is enough."
                )
        if self.orders is not None and (self.orders > 2 or self.pairs or self.tolerance):
            raise InputError(
                f"orders must be 1 or 2, without pairs and tolerance; got {self.orders}. For more "
                "orders, set pairs instead."
            )
        if self.answers is not None and self.sampler == "regression":
            raise InputError(
                "sampler='regression' needs outputs that are not random. Leave sampler out."
            )
        rules = {"tolerance": self.tolerance, "until": self.until}
        rule = next((name for name, value in rules.items() if value is not None), None)
        if rule is not None and self.sampler == "regression":
            raise InputError(
                f"{rule} needs the sampler 'orders', not 'regression'. Leave sampler out, or set "
                f"pairs instead of {rule}."
            )
        if self.tolerance is not None and self.max_pairs < MIN_RELIABLE_PAIRS:
            raise InputError(
                f"max_pairs must be at least {MIN_RELIABLE_PAIRS} with tolerance, not "
                f"{self.max_pairs}, because fewer pairs have no reliable standard errors."
            )

    def uses_regression(self, d: int) -> bool:
        """Return whether pairs are masks with their complements, not orders with their reverses."""
        if self.sampler != "auto":
            return self.sampler == "regression"
        # A regression uses the outputs without and with all words for every pair.
        if self.orders is not None or self.answers is not None:
            return False
        # A number of pairs always meant orders, and stopping rules are met by drawing more orders.
        if self.pairs is not None or self.tolerance is not None or self.until is not None:
            return False
        return _prefers_regression(d, DEFAULT_CALLS)

    @property
    def sample_size(self) -> SampleSize:
        """The number of pairs, or that of orders if there are at most two."""
        is_random = self.answers is not None
        if self.orders is not None:
            return SampleSize(
                count=self.orders,
                max_count=self.orders,
                top=parse_top(self.until),
                minimum=lambda _: 1,
                calls_per_sample=lambda d: d if is_random else d - 1,
                fixed_calls=2 + self.spare,
                enumerates=False,
            ).with_answers(self.answers)
        minimum_orders = MIN_PAIRS if self.start is None else 1

        def minimum(d: int) -> int:
            """Return the minimum number of samples for d features."""
            if not self.uses_regression(d):
                return minimum_orders
            if self.sampler == "regression":
                return minimum_pairs(d)
            # The cheaper sampler counts. Both costs are in pairs of masks.
            preferred_pairs = math.ceil(d * d / (2 * _SQUARED_FEATURES_PER_CALL)) - 1
            return min(max(minimum_pairs(d), preferred_pairs), minimum_orders * (d - 1))

        def calls_per_sample(d: int) -> int:
            """Return the model calls of a sample for d features."""
            if is_random:  # each pair has ends of its own
                return 2 * d
            return 2 if self.uses_regression(d) else 2 * max(d - 1, 1)

        return SampleSize(
            count=self.pairs,
            max_count=self.max_pairs,
            tolerance=self.tolerance,
            top=parse_top(self.until),
            min_draws=MIN_DRAWS if self.start is None else 1,
            default=lambda d: (DEFAULT_CALLS - 2) // calls_per_sample(d),
            minimum=minimum,
            calls_per_sample=calls_per_sample,
        ).with_answers(self.answers)
