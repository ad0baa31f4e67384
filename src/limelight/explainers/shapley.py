"""Shapley values, exact or sampled, and leave-one-out."""

import math
from dataclasses import replace
from functools import partial
from typing import Annotated, final

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.explainers.batch import Batch
from limelight.explainers.learned import PREFIX, LearnedMethod, LearnedScores
from limelight.explainers.method import (
    MEANINGS,
    Cost,
    Implementation,
    NotBelow,
    OneOf,
    Positive,
    at_least,
    exact_implementation,
    per_input,
)
from limelight.explainers.registry import register_method
from limelight.explainers.sample_size import (
    DEFAULT_CALLS,
    SampleSize,
    fit_sample_size,
    sampled_implementation,
)
from limelight.explainers.target_game import (
    TargetGame,
    exact_attributions,
    nonzero_or_none,
    rare_effect_warning,
)
from limelight.models import resolve_replacement
from limelight.results import Attribution
from limelight.sampling.all_masks import shapley_values_from_all_masks
from limelight.sampling.kernel import minimum_pairs, shapley_values_from_regression
from limelight.sampling.masks import text_rng
from limelight.sampling.orders import (
    MIN_RELIABLE_PAIRS,
    ShapleySample,
    shapley_values_from_orders,
)
from limelight.sampling.spread import half_t_quantile
from limelight.text import pluralize
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.namespace import host_array
from limelight.theory.shapley import shapley

# Pairs: with 10, ±2 standard errors held in 0.78 of cases beside a smooth part. Orders of words are
# good sooner: on MiniLM 25, 5 and 2 pairs reach 0.88, 0.86 and 0.83 of the way from a random order
# to that of greedy search.
ENOUGH_PAIRS = 25
MIN_PAIRS = 2  # one pair has no spread
# SampleSize that what a learned method knows of their spread counts for, beside those of the text.
_KNOWN_DRAWS = 8
_WIDENED: list[float] = np.geomspace(1.0, 1e6, 121).tolist()
SAMPLERS = ("auto", "orders", "regression")
# A regression is the better sampler of at most so many units, from d²/2 calls on: 6 for each of 12,
# 15 for each of 30. On words under MiniLM d²/3 would do, under a small GPT-2 orders are as good to
# d² (20 words); benchmarks/samplers.py measures and checks it.
_FEW_UNITS, _SHARE_OF_SQUARE = 30, 2


def _few_units(d: int, calls: int) -> bool:
    return d <= _FEW_UNITS and _SHARE_OF_SQUARE * calls >= d * d


def _with_sampler(settings: "Shapley", d: int, calls: int) -> "Shapley":
    """Return the settings with the sampler that is best for so many calls."""
    if settings.sampler != "auto":
        return settings
    return replace(settings, sampler="regression" if _few_units(d, calls) else "orders")


def fit_pair_count(settings: "Shapley", d: int, calls: int) -> "Shapley":
    """Return the settings with the pairs that so many calls allow, and the calls that remain."""
    settings = _with_sampler(settings, d, calls)
    settings = fit_sample_size(settings, d, calls, count="pairs")
    if settings.sample_size.covers_all_masks(d):
        return settings
    return replace(settings, spare=max(calls - settings.sample_size.calls(d), 0))


def _check_pairs(settings: "Shapley", d: int) -> None:
    """Refuse before any call a regression that has too little to go by."""
    if not settings.uses_regression(d):
        return
    sample_size, least = settings.sample_size, minimum_pairs(d)
    pairs = sample_size.initial_count(d)
    if pairs < least and not sample_size.covers_all_masks(d):
        raise DomainError(
            f"a regression on {d} features needs at least {least} pairs of masks; got "
            f"{pairs}. Set pairs to {least} or more, or leave the sampler out."
        )


def explain_by_sampling(settings: "Shapley", one: Batch) -> Attribution:
    """Score every feature by what it adds to the words before it, or by a regression on masks."""
    game, d = TargetGame(one, settings.replacement), len(one.features[0])
    sample_size = settings.sample_size
    start = _start(settings, one)
    if sample_size.has_time_for_all_masks(d):
        return game.make_attribution(shapley_values_from_all_masks(game, d)[0], masks=2**d)
    rng, regressed = text_rng(settings.seed, one.inputs[0].text), settings.uses_regression(d)
    pairs = sample_size.initial_count(d)
    if regressed:
        found = shapley_values_from_regression(
            game, d, rng, pairs=pairs, known_range=game.known_range
        )
    else:
        found = shapley_values_from_orders(
            game,
            d,
            rng,
            pairs=pairs,
            tolerance=settings.tolerance,
            max_pairs=settings.max_pairs,
            known_range=game.known_range,
            spare_calls=settings.spare,
        )
    warnings = pair_warnings(settings, found, d, one.features[0].noun)
    drawn = game.make_attribution(
        found.values[0],
        # Two words have one pair of orders, whose mean is exact.
        nonzero_or_none(found.stderr[0]) if d > 2 else found.stderr[0],
        said=warnings,
        pairs_drawn=found.pairs,
        sampler="regression" if regressed else "orders",
    )
    return drawn if start is None or d < 3 else _combine_scores(start, found, regressed, drawn)


def _start(settings: "Shapley", one: Batch) -> LearnedScores | None:
    """Return what a learned method says of the text; refuse what it has not learned about."""
    if not isinstance(settings.start, LearnedMethod):
        return None
    if one.targets.scale == "probability":
        raise InputError(
            "a learned method knows logits only; ask for the logit, or leave start out."
        )
    usual = resolve_replacement(one.model, "auto")
    if settings.replacement != usual:
        raise InputError(
            f"a learned method knows what removing a word does if {usual!r} stands for it; leave "
            f"replacement out, or start. Got {settings.replacement!r}."
        )
    start = settings.start.starts(one)[0]
    if np.isnan(start.draw).any():
        raise InputError(
            "this method was learned from stored values that were not drawn by orders of words, "
            "so it does not know how far off a pair of orders is; learn from texts, or leave start "
            "out."
        )
    return start


def _combine_scores(
    start: LearnedScores, found: ShapleySample, regressed: bool, drawn: Attribution
) -> Attribution:
    """Return the mean of learned and drawn scores, each by its squared error, word by word.

    The squared error of one pair of orders is what the learned method has seen on other texts; of
    several, the text's own spread counts as so many draws more. Where the learned scores are
    farther from the drawn ones than both errors allow, over all words, theirs are widened: the text
    is unlike those they were learned from. Last, what scores lack of f(all) − f(none), which the
    drawn ones add up to, goes to each by its squared error; in the distance that weighs words by
    these, the truth is then nearer.
    """
    values, square = found.values[0], found.sampled_variance[0]
    if not regressed:
        n = found.draw_counts
        known = _KNOWN_DRAWS + n - 1.0
        square = (_KNOWN_DRAWS * start.draw**2 / n + (n - 1) * square) / known
        square = square * half_t_quantile(known) ** 2  # it is an estimate itself
    apart, own = (start.values - values) ** 2, start.stderr**2
    fits = (x for x in _WIDENED if np.mean(apart / (x * own + square)) <= 1)
    widened = next(fits, _WIDENED[-1])
    weight = square / (widened * own + square)
    scores, variance = weight * start.values + (1 - weight) * values, (1 - weight) * square
    scores = scores + variance / variance.sum() * (values.sum() - scores.sum())
    # Of variances: from twice the error on it is worth a word.
    far = f", whose errors are taken {widened**0.5:.1f} times as large here" if widened > 4 else ""
    return replace(
        drawn,
        scores=scores,
        stderr=np.sqrt(variance),
        warnings=(
            f"Scores are means of those of the learned method{far} and of those that were drawn, "
            "each weighed by its squared error; the drawn ones alone, which have no bias, are in "
            "the diagnostics as 'unbiased'.",
            *start.warnings,
            *drawn.warnings,
        ),
        diagnostics={
            **drawn.diagnostics,
            "unbiased": values.tolist(),
            "unbiased_stderr": np.sqrt(square).tolist(),
            "learned_share": float(weight.mean()),
            "learned_widened": widened,
        },
    )


def pair_warnings(settings: "Shapley", found: ShapleySample, d: int, noun: str) -> tuple[str, ...]:
    """Return warnings about pairs of orders.

    Parameters
    ----------
    settings
        Settings of the method.
    found
        Values from the pairs that were drawn.
    d
        Number of features.
    noun
        What a feature is called, such as "word".
    """
    few, features = tuple[str, ...](), pluralize(noun)
    regressed = settings.uses_regression(d)
    # An order of two words and its reverse are all orders.
    if not regressed and found.pairs < ENOUGH_PAIRS and d > 2 and settings.start is None:
        few = (
            f"Good for which {features} matter and which way they pull: {found.pairs} pairs of "
            f"orders rank {features} nearly as well as {ENOUGH_PAIRS} do. For the size of a single score "
            f"and its standard error draw {ENOUGH_PAIRS} or more, which take a budget of "
            f"{3 + ENOUGH_PAIRS * 2 * (d - 1):,} calls, since what shows in few orders only may not have "
            "come up yet.",
        )
    return (
        few
        + settings.sample_size.tolerance_warning(found.pairs, float(found.stderr.max()))
        + rare_effect_warning(
            has_no_spread=bool(found.has_no_spread[0]) and d > 2 and settings.start is None,
            largest_share=float(found.largest_share[0]),
            possible_effect=float(found.allowed_effect[0]),
            sample_count=found.pairs,
            tail_carriers=float(found.tail_carriers[0]),
        )
    )


_ROUNDING = 2.0**-52


def _loo_from_game(_: "Loo", batch: Batch) -> list[Attribution]:
    """Score every feature by what the explained output loses without it, in closed form."""
    targets, outputs = batch.targets, batch.outputs
    loss = leave_one_out(batch.output_ratio_game)
    without = np.moveaxis(outputs[..., None] - host_array(loss.scores), -1, 0)
    scores = targets.value(outputs) - targets.value(without)
    # A logit is a sum of outputs, and so is its error; taking a loss off an output and back costs a
    # few roundings of it.
    off = host_array(loss.bound) + 8 * _ROUNDING * np.abs(outputs)
    bounds = (np.abs(batch.target_gradient) * off).sum(axis=-1)
    return [
        Attribution(
            scores=scores[: len(features), i],
            bound=float(bounds[i]) if targets.scale != "probability" else None,
        )
        for i, features in enumerate(batch.features)
    ]


def _loo_by_asking(settings: "Loo", one: Batch) -> Attribution:
    """Score every feature by what the explained output loses without it."""
    game, d = TargetGame(one, settings.replacement), len(one.features[0])
    masks = np.concatenate([np.ones((1, d), bool), ~np.eye(d, dtype=bool)])
    (whole, *without) = game(masks)[:, 0]
    return game.make_attribution(whole - np.array(without))


_SAMPLED = sampled_implementation(
    explain_by_sampling,
    {
        "sampler": "'orders' of the words, 'regression' on masks, or 'auto': a "
        f"regression for at most {_FEW_UNITS} words and at least "
        f"d²/{_SHARE_OF_SQUARE} calls, where it comes closer, and orders for more "
        "words or fewer calls, or if pairs or a tolerance is set",
        "pairs": "pairs of a random order and its reverse, 2 (d − 1) calls each, or of "
        "a random mask and its complement, 2 calls each; None: as many as "
        f"{DEFAULT_CALLS:,} calls allow, at least 2. If all 2^d masks take no more "
        "calls, or at most 1,024, they are asked instead",
        "spare": "calls that are too few for a pair, spent on a stretch of one; what a "
        "budget leaves over",
        "start": "a learned method, or its folder, whose scores are combined with the "
        "drawn ones by the errors of both; then one pair suffices",
    },
    count="pairs",
    fit=fit_pair_count,
    check=_check_pairs,
    summary="2 (d − 1) calls of the model for each pair of orders of d words, 2 for each "
    "pair of masks",
)


@final
@register_method(
    id="loo",
    label="LOO",
    formula="f(text) − f(text without the word)",
    sees="what really happens when one word is replaced by UNK",
    blind="words that stand in for each other: each alone seems not to matter",
    cost="one forward pass, O(d)",
    implementations=(
        Implementation(needs="exact_game", exactness="bound", explain=_loo_from_game),
        Implementation(
            exactness="exact",
            explain=per_input(_loo_by_asking),
            settings={"replacement": MEANINGS["replacement"]},
            cost=Cost(
                calls=lambda _, d: d + 2,
                minimum=lambda _, d: d + 2,
                summary="one call of the model per word",
            ),
        ),
    ),
)
class Loo:
    """Settings of leave-one-out."""

    replacement: str = "auto"


@final
@register_method(
    id="shapley",
    label="Shapley",
    formula="∫₀¹ (E_p[f | word kept] − E_p[f | word removed]) dp",
    sees="the word's mean effect over all sets of other words; adds up to how far all words "
    "together move the output",
    blind="which other words it needs (see interactions)",
    cost="milliseconds, exact to quadrature precision with a bound",
    implementations=(
        exact_implementation(partial(exact_attributions, value=shapley), ("tolerance", "per_head")),
        replace(
            _SAMPLED,
            cost=replace(_SAMPLED.cost, settings=(*_SAMPLED.cost.settings, "spare")),
            hidden_settings=("spare", "start"),
        ),
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

    def __post_init__(self) -> None:
        if isinstance(self.start, str):
            try:
                learned = LearnedMethod.load(self.start.removeprefix(PREFIX))
            except InputError as error:
                raise InputError(f"the setting 'start' must be a learned method: {error}") from None
            object.__setattr__(self, "start", learned)
        for name in ("pairs", "max_pairs") if self.start is None else ():
            if getattr(self, name) == 1:
                raise InputError(
                    f"{name} must be at least {MIN_PAIRS}, since one pair has no spread, unless "
                    "a learned method is the start; got 1."
                )
        if self.tolerance is not None and self.sampler == "regression":
            raise InputError(
                "a tolerance is met by drawing more orders; leave the sampler 'regression' out, or "
                "set pairs instead of the tolerance."
            )
        if self.tolerance is not None and self.max_pairs < MIN_RELIABLE_PAIRS:
            raise InputError(
                f"max_pairs must be at least {MIN_RELIABLE_PAIRS} with a tolerance, because fewer pairs do "
                f"not show their spread; got {self.max_pairs}."
            )

    def uses_regression(self, d: int) -> bool:
        """Whether pairs are of a mask and its complement, not of an order and its reverse."""
        if self.sampler != "auto":
            return self.sampler == "regression"
        # A number of pairs has always been one of orders, and a tolerance is met by adding some.
        return self.pairs is None and self.tolerance is None and _few_units(d, DEFAULT_CALLS)

    @property
    def sample_size(self) -> SampleSize:
        """How many pairs are drawn: all orders begin and end with the same two masks."""

        least = MIN_PAIRS if self.start is None else 1

        def fewest(d: int) -> int:
            if not self.uses_regression(d):
                return least
            if self.sampler == "regression":
                return minimum_pairs(d)
            # What either of the two takes, in pairs of masks.
            enough = math.ceil(d * d / (2 * _SHARE_OF_SQUARE)) - 1
            return min(max(minimum_pairs(d), enough), least * (d - 1))

        def calls_per_sample(d: int) -> int:
            return 2 if self.uses_regression(d) else 2 * max(d - 1, 1)

        return SampleSize(
            count=self.pairs,
            max_count=self.max_pairs,
            tolerance=self.tolerance,
            default=lambda d: (DEFAULT_CALLS - 2) // calls_per_sample(d),
            minimum=fewest,
            calls_per_sample=calls_per_sample,
        )
