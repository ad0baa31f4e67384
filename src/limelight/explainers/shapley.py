"""Shapley values and their kin: Owen values of words inside sentences, and leave-one-out."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, cast, final

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.explainers.budget import DEFAULT_CALLS, Draws, by_draws
from limelight.explainers.method import (
    MEANS,
    Counted,
    Method,
    NotBelow,
    OneOf,
    Positive,
    Share,
    Way,
    at_least,
    by_quadrature,
    each,
    settings_class,
)
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import (
    MEAN_FIELD,
    TargetGame,
    bounded,
    exact_values,
    seen_errors,
    unseen_effects,
)
from limelight.results import Finding
from limelight.sampling.all_masks import shapley_of_all_masks
from limelight.sampling.kernel import fewest_pairs, regression_shapley
from limelight.sampling.masks import text_rng
from limelight.sampling.orders import FEWEST, ShapleySample, permutation_shapley
from limelight.shapes import Float, Int
from limelight.text import Features, features_of, nested, one_line
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.mean_field import shapley_mean_field, shapley_mean_field_bound
from limelight.theory.namespace import host_array
from limelight.theory.owen import owen
from limelight.theory.ratio_game import one_document
from limelight.theory.shapley import shapley

# Pairs: with 10, ±2 standard errors held in 0.78 of cases beside a smooth part. Orders of words are
# good sooner: on MiniLM 25, 5 and 2 pairs reach 0.88, 0.86 and 0.83 of the way from a random order
# to that of greedy search.
_ENOUGH = 25
_FEWEST = 2  # one pair has no spread
SAMPLERS = ("auto", "orders", "regression")
# Units of a text up to which a regression is the better sampler: fixed by benchmarks/samplers.py
# on words and sentences of three models, and checked on two others.
_FEW_UNITS = 20


@final
@settings_class
class Shapley:
    """Settings of Shapley values: of a quadrature, or of random orders or masks of the words."""

    tolerance: Annotated[float | None, Positive] = None
    per_head: bool = False
    pairs: Annotated[int | None, at_least(_FEWEST)] = None
    max_pairs: Annotated[int, at_least(_FEWEST), NotBelow("pairs")] = 10_000
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0
    spare: Annotated[int, at_least(0)] = 0
    sampler: Annotated[str, OneOf(SAMPLERS)] = "auto"

    def __post_init__(self) -> None:
        if self.tolerance is not None and self.sampler == "regression":
            raise InputError(
                "a tolerance is met by drawing more orders; leave the sampler 'regression' out, or "
                "set pairs instead of the tolerance."
            )
        if self.tolerance is not None and self.max_pairs < FEWEST:
            raise InputError(
                f"max_pairs must be at least {FEWEST} with a tolerance, because fewer pairs do "
                f"not show their spread; got {self.max_pairs}."
            )

    def by_regression(self, d: int) -> bool:
        """Whether pairs are of a mask and its complement, not of an order and its reverse."""
        if self.sampler != "auto":
            return self.sampler == "regression"
        # A number of pairs has always been one of orders, and a tolerance is met by adding some.
        return d <= _FEW_UNITS and self.pairs is None and self.tolerance is None

    @property
    def draws(self) -> Draws:
        """How many pairs are drawn: all orders begin and end with the same two masks."""

        def fewest(d: int) -> int:
            return fewest_pairs(d) if self.by_regression(d) else _FEWEST

        def each(d: int) -> int:
            return 2 if self.by_regression(d) else 2 * max(d - 1, 1)

        return Draws(
            count=self.pairs,
            most=self.max_pairs,
            tolerance=self.tolerance,
            usual=lambda d: max((DEFAULT_CALLS - 2) // each(d), fewest(d)),
            fewest=_FEWEST,
            determining=fewest,
            each=each,
            shared=2,
            beside=0,
            kind="pairs of orders",
            limit="max_pairs",
        )


def _with_sampler(settings: Shapley, d: int) -> Shapley:
    """Return the settings with the sampler that they stand for: pairs are to be counted."""
    return replace(settings, sampler="regression" if settings.by_regression(d) else "orders")


def _check_pairs(settings: Shapley, d: int) -> None:
    """Refuse before any call a regression that has too little to go by."""
    draws, least = settings.draws, fewest_pairs(d)
    if settings.by_regression(d) and draws.first(d) < least and not draws.asks_all(d):
        raise DomainError(
            f"a regression on {d} words needs at least {least} pairs of masks; got "
            f"{draws.first(d)}. Set pairs to {least} or more, or leave the sampler out."
        )


def _sampled(settings: Shapley, one: Reading) -> Finding:
    """Score every feature by what it adds to the words before it, or by a regression on masks."""
    game, d, draws = TargetGame(one, settings.replacement), len(one.features[0]), settings.draws
    if draws.asks_all(d):
        return game.of_all_masks(shapley_of_all_masks(game, d)[0])
    _check_pairs(settings, d)
    rng, regressed = text_rng(settings.seed, one.documents[0].text), settings.by_regression(d)
    if regressed:
        found = regression_shapley(game, d, rng, pairs=draws.first(d), known_range=game.known_range)
    else:
        found = permutation_shapley(
            game,
            d,
            rng,
            pairs=draws.first(d),
            tolerance=settings.tolerance,
            most=settings.max_pairs,
            known_range=game.known_range,
            spare=settings.spare,
        )
    return Finding(
        scores=found.values[0],
        # Two words have one pair of orders, whose mean is exact.
        stderr=seen_errors(found.stderr[0]) if d > 2 else found.stderr[0],
        base_value=game.base_value,
        notices=_of_pairs(settings, found, d) + game.notices,
        diagnostics={
            "pairs_drawn": found.pairs,
            "sampler": "regression" if regressed else "orders",
        },
    )


def _of_pairs(settings: Shapley, found: ShapleySample, d: int) -> tuple[str, ...]:
    few: tuple[str, ...] = ()
    regressed = settings.by_regression(d)
    # An order of two words and its reverse are all orders.
    if not regressed and found.pairs < _ENOUGH and d > 2:
        few = (
            f"Good for which words matter and which way they pull: {found.pairs} pairs of orders "
            f"rank words nearly as well as {_ENOUGH} do. For the size of a single score and its "
            f"standard error set pairs to {_ENOUGH} or more, since what shows in few orders only "
            "may not have come up yet.",
        )
    return (
        few
        + settings.draws.unmet(found.pairs, float(found.stderr.max()))
        + unseen_effects(
            flat=bool(found.flat[0]) and d > 2,
            spike=float(found.spike[0]),
            size=float(found.size[0]),
            draws=found.pairs,
            same="fit one linear model" if regressed else "give the same scores",
            what="pairs of masks" if regressed else "pairs of orders",
            tail=float(found.tail[0]),
        )
    )


_SHOWN = 8  # sentences


@final
@settings_class
class Owen:
    """Settings of Owen values."""

    # Here, because a text's share of it is what the quadrature sees.
    tolerance: Annotated[float | None, Share] = None


def _in_sentences(settings: Owen, one: Reading) -> Finding:
    """Score every feature by its Owen value; one that spans sentences is a player in each."""
    (document,), (features,) = one.documents, one.features
    sentences = features_of(document, "sentences")
    parts, feature, sentence = nested(features, sentences)
    refined = replace(one, features=(parts,), shared=type(one.shared)())
    several = np.bincount(feature, minlength=len(features))
    # A score is the sum of that many values at most, and so is its error.
    tolerance = cast(float, settings.tolerance) / int(several.max())
    found = owen(one_document(refined.ratio_game, 0), sentence, tolerance=tolerance)
    values = host_array(found.scores)[0]
    scores = np.bincount(feature, values, minlength=len(features))
    totals = np.bincount(sentence, values, minlength=len(sentences))[: len(sentences)]
    return Finding(
        scores=scores,
        bound=float(found.bound[0]) * int(several.max()),
        notices=_notices(features, several, sentences, totals),
        diagnostics={"sentences": _totals(sentences, totals, sentence)},
    )


def _totals(
    sentences: Features, totals: Float[np.ndarray, " n"], present: Int[np.ndarray, " parts"]
) -> list[dict[str, Any]]:
    """The sentences that hold something scored, each with the sum of its scores."""
    return [
        {
            "text": sentences.strings[i],
            "span": [sentences.spans[i][0][0], sentences.spans[i][-1][1]],
            "score": float(totals[i]),
        }
        for i in np.unique(present[present < len(sentences)]).tolist()
    ]


def _notices(
    features: Features,
    several: Int[np.ndarray, " d"],
    sentences: Features,
    totals: Float[np.ndarray, " n"],
) -> tuple[str, ...]:
    notices = []
    if shared := [features.strings[j] for j in np.flatnonzero(several > 1)]:
        count = "1 feature occurs" if len(shared) == 1 else f"{len(shared)} features occur"
        notices.append(
            f"{count} in several sentences ({one_line(', '.join(shared), 60)}): each sentence's "
            "share is a player of its own, and the score is the sum of them."
        )
    if len(sentences) > 1:
        order = np.argsort(-np.abs(totals), kind="stable")[:_SHOWN].tolist()
        shown = [f"{totals[i]:+.3g} {one_line(sentences.strings[i], 30)!r}" for i in order]
        rest = ["…"] if len(sentences) > _SHOWN else []
        notices.append(f"Sentences, strongest first: {', '.join(shown + rest)}.")
    return tuple(notices)


_ROUNDING = 2.0**-52


@final
@settings_class
class Loo:
    """Settings of leave-one-out."""

    replacement: str = "auto"


def _loo_from_game(_: Loo, reading: Reading) -> list[Finding]:
    """Score every feature by what the explained output loses without it, in closed form."""
    targets, outputs = reading.targets, reading.outputs
    loss = leave_one_out(reading.games)
    without = np.moveaxis(outputs[..., None] - host_array(loss.scores), -1, 0)
    scores = targets.value(outputs) - targets.value(without)
    # A logit is a sum of outputs, and so is its error; taking a loss off an output and back costs a
    # few roundings of it.
    off = host_array(loss.bound) + 8 * _ROUNDING * np.abs(outputs)
    bounds = (np.abs(reading.target_weights) * off).sum(axis=-1)
    return [
        Finding(
            scores=scores[: len(features), i],
            bound=float(bounds[i]) if targets.scale != "probability" else None,
        )
        for i, features in enumerate(reading.features)
    ]


def _loo_by_asking(settings: Loo, one: Reading) -> Finding:
    """Score every feature by what the explained output loses without it."""
    game, d = TargetGame(one, settings.replacement), len(one.features[0])
    masks = np.concatenate([np.ones((1, d), bool), ~np.eye(d, dtype=bool)])
    (whole, *without) = game(masks)[:, 0]
    return Finding(
        scores=whole - np.array(without), base_value=game.base_value, notices=game.notices
    )


@final
@settings_class
class ShapleyMeanField:
    """Settings of mean-field Shapley values: none."""


def _mean_field(_: ShapleyMeanField, reading: Reading) -> list[Finding]:
    scores, bounds = (f(reading.ratio_game) for f in (shapley_mean_field, shapley_mean_field_bound))
    return bounded(reading, scores, bounds, MEAN_FIELD.format("the Shapley value"))


ROWS = (
    Method(
        id="shapley-mean-field",
        label="Shapley (mean field)",
        formula="(A_j − B_j) ∫₀¹dx/D̄ − (a_j − b_j) ∫₀¹N̄ dx/D̄²",
        sees="Shapley values where no word holds most of the attention; adds up to f − f(all UNK)",
        blind="which texts a word is kept in: each is taken for the mean text of its size",
        cost="one forward pass, O(d log d)",
        settings=ShapleyMeanField,
        ways=(Way(needs="collapses", exactness="exact", explain=_mean_field, logits=True),),
    ),
    Method(
        id="loo",
        label="LOO",
        formula="f(text) − f(text without the word)",
        sees="what really happens when one word is replaced by UNK",
        blind="words that stand in for each other: each alone seems not to matter",
        cost="one forward pass, O(d)",
        settings=Loo,
        ways=(
            Way(needs="games", exactness="bound", explain=_loo_from_game),
            Way(
                needs=None,
                exactness="exact",
                explain=each(_loo_by_asking),
                settings={"replacement": MEANS["replacement"]},
                calls=lambda _, d: d + 2,
                counted=Counted(lambda _, d: d + 2),
                cost="one call of the model per word",
            ),
        ),
    ),
    Method(
        id="shapley",
        label="Shapley",
        formula="∫₀¹ (E_p[f | word kept] − E_p[f | word removed]) dp",
        sees="the word's mean effect over all sets of other words; adds up to f − f(all UNK)",
        blind="which other words it needs (see interactions)",
        cost="milliseconds, exact to quadrature precision with a bound",
        settings=Shapley,
        ways=(
            by_quadrature(partial(exact_values, value=shapley), ("tolerance", "per_head")),
            by_draws(
                _sampled,
                {
                    "sampler": "'orders' of the words, 'regression' on masks, or 'auto': a "
                    f"regression for at most {_FEW_UNITS} words, where it comes closer, and orders "
                    "for more, or if pairs or a tolerance is set",
                    "pairs": "pairs of a random order and its reverse, 2 (d − 1) calls each, or of "
                    "a random mask and its complement, 2 calls each; None: as many as "
                    f"{DEFAULT_CALLS:,} calls allow, at least 2. If all 2^d masks take no more "
                    "calls, or at most 1,024, they are asked instead",
                    "spare": "calls that are too few for a pair, spent on a stretch of one; what a "
                    "budget leaves over",
                },
                count="pairs",
                spare="spare",
                choose=_with_sampler,
                feasible=_check_pairs,
                cost="2 (d − 1) calls of the model for each pair of orders of d words, 2 for each "
                "pair of masks",
            ),
        ),
    ),
    Method(
        id="owen",
        label="Owen",
        formula="∫₀¹∫₀¹ (E[f | word kept] − E[f | word removed]) dq dp, other sentences there with "
        "1 − p as wholes, other words of the sentence with 1 − q",
        sees="the word's mean effect inside its sentence; sentence totals are Shapley values of "
        "sentences, and all add up to f − f(all UNK)",
        blind="parts of other sentences: they come and go as wholes",
        cost="milliseconds, exact to quadrature precision with a bound",
        settings=Owen,
        ways=(by_quadrature(each(_in_sentences)),),
    ),
)
