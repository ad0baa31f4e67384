"""LIME: its limit without sampling, and by regression on the answers of any model."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from limelight.errors import DomainError
from limelight.explainers.batch import Batch
from limelight.explainers.method import (
    MEANINGS,
    FiniteNotNegative,
    NotNegative,
    OneOf,
    Positive,
    at_least,
    exact_implementation,
)
from limelight.explainers.registry import register_method
from limelight.explainers.sample_size import (
    DEFAULT_CALLS,
    SampleSize,
    SamplingSettings,
    sampled_implementation,
)
from limelight.explainers.target_game import (
    TargetGame,
    exact_attributions,
    fit_masks,
    nonzero_or_none,
)
from limelight.results import Attribution
from limelight.sampling.all_masks import lime_from_all_masks
from limelight.sampling.masks import MASK_SIZE_POWERS
from limelight.sampling.regression import SELECTIONS, LimeFit, fit_sampled_lime
from limelight.sampling.sample import make_lime_sampler
from limelight.text import pluralize
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.lime import lime
from limelight.theory.lime_fit import lime_fit
from limelight.theory.lime_weights import LimeDesign, lime_design
from limelight.theory.namespace import host_array

_POOR_FIT = 0.5  # R², below which a linear model is no summary of the output
_SINGLE = (
    "LIME of a single {word} is the line through the text with and without it: the score is what "
    "the output loses, as for leave-one-out."
)
_UNKNOWN_FIT = 0.1  # an error of R² beyond which it says nothing
_SHRUNK = 0.1  # of a score, that a penalty may take off it without a word
_PER_WORD = 5  # with fewer, one regression on all words wastes samples and overstates its errors
_BANDWIDTH = "ν, the width of the kernel; 0.25 is the `lime` package's"
_SIZES = 'how many words a mask removes: "uniform", "balanced" (by √ψ) or "importance" (by ψ)'


def _choose_sample_size(settings: "Lime | LimeSampled") -> SampleSize:
    """How many rows are drawn for a regression, or all that there are."""
    return settings.make_sample_size(
        default=lambda d: max(DEFAULT_CALLS, _PER_WORD * d),
        # A penalty determines every score.
        minimum=lambda d: _advised(d) if settings.ridge == 0 else 2,
        fixed_calls=1 if settings.row0 else 2,  # row 0 is the text itself
        # The package never asks all: its sampling noise is part of what it computes.
        enumerates=isinstance(settings, Lime),
    )


def _is_single(settings: "Lime | LimeSampled", d: int) -> bool:
    """Whether LIME is the line through two texts: with the only feature, and without it.

    With one feature every sample but the untouched text is the same. The `lime` package has that
    text among its samples, so that its line passes through both, however many samples there are.
    """
    return d == 1 and isinstance(settings, Lime) and settings.penalty == 0


def _check_words(d: int, bandwidth: float) -> None:
    if d < 2:
        raise DomainError(f"LIME needs at least 2 features; this text has {d}.")
    lime_design(d, bandwidth=bandwidth)


def _check_enough(settings: "Lime | LimeSampled", d: int) -> None:
    """Refuse before any call what cannot end well: rows without weight, or too few of them."""
    if _is_single(settings, d):
        return
    _check_words(d, settings.bandwidth)
    sample_size = settings.sample_size
    rows, kept = sample_size.final_count(d), min(d, settings.num_features or d)
    if settings.ridge == 0 and not sample_size.covers_all_masks(d) and rows <= kept + 1:
        raise _undetermined(rows, kept, d)


def explain_by_regression(settings: "Lime | LimeSampled", one: Batch) -> Attribution:
    """Score every feature by its coefficient in a weighted linear model of masked texts."""
    game, d = TargetGame(one, settings.replacement), len(one.features[0])
    if _is_single(settings, d):
        without, whole = game(np.array([[False], [True]]))[:, 0]
        return game.make_attribution(
            np.array([whole - without]),
            said=(_single_warning(one),),
            intercept=float(without),
            r2=1.0,
        )
    if settings.sample_size.has_time_for_all_masks(d):
        found = lime_from_all_masks(game, d, bandwidth=settings.bandwidth)
        r2 = float(found.r2[0])
        intercept = float(found.intercept[0])
        said = _poor_fit_warning(r2)
        return game.make_attribution(
            found.scores[0], said=said, intercept=intercept, masks=2**d, r2=r2
        )
    sampler = make_lime_sampler(d, bandwidth=settings.bandwidth, sizes=settings.sizes)
    how = partial(
        fit_sampled_lime,
        ridge=settings.ridge,
        num_features=settings.num_features,
        feature_selection=settings.feature_selection,
        bandwidth=settings.bandwidth,
    )
    fit, told = fit_masks(settings, one, game, sampler, how, row0=settings.row0)
    # A fit that passes through its samples has errors of zero, which are not its error.
    if not np.isfinite(fit.stderr).all():
        raise _undetermined(fit.samples, int(fit.selected_count[0]), d)
    design = lime_design(d, bandwidth=settings.bandwidth)
    warnings = _fit_warnings(settings, fit, design, one.features[0].noun)
    return game.make_attribution(
        fit.scores[0],
        nonzero_or_none(fit.stderr[0]),
        said=warnings + told,
        intercept=float(fit.intercept[0]),
        samples_drawn=fit.samples,
        r2=float(fit.r2[0]),
        intercept_stderr=float(fit.intercept_stderr[0]),
        kept=int(fit.selected_count[0]),
    )


def _fit_warnings(
    settings: "Lime | LimeSampled", fit: LimeFit, design: LimeDesign, noun: str
) -> tuple[str, ...]:
    """Return warnings about a regression on samples; ``noun`` names a feature."""
    warnings, features = [], pluralize(noun)
    if (selected_count := int(fit.selected_count[0])) < design.d:
        warnings.append(
            f"LIME kept {selected_count} of {design.d} {features}; the others have no score (0)."
        )
    shrunk = settings.ridge / (settings.ridge + fit.samples * design.V)
    if shrunk > _SHRUNK:
        warnings.append(
            f"The samples weigh so little that the penalty takes about {shrunk:.0%} off the "
            "scores; draw more, or use a larger bandwidth or a smaller ridge."
        )
    warnings += _poor_fit_warning(float(fit.r2[0]))
    if fit.samples <= 2 * selected_count:
        warnings.append(
            f"{fit.samples} samples are few for {selected_count} {features}: do not trust the standard "
            "errors."
        )
    return tuple(warnings)


def _undetermined(samples: int, selected_count: int, d: int) -> DomainError:
    return DomainError(
        f"{samples} samples do not determine LIME's scores of {selected_count} features: set samples to "
        f"{max(_advised(d), 2 * samples)} or more, or use a larger bandwidth."
    )


def _advised(d: int) -> int:
    return 2 * (d + 1)


def _poor_fit_warning(r2: float, bound: float = 0.0) -> tuple[str, ...]:
    """Say that a linear model, whose R² is known within ``bound``, fits badly, or nobody knows."""
    if bound > _UNKNOWN_FIT:
        return (f"How well LIME's linear model fits is not known: R² is {r2:.2f} ± {bound:.2f}.",)
    if r2 >= _POOR_FIT:
        return ()
    return (
        f"LIME's linear model explains {max(r2, 0.0):.0%} of the variation of the output (R²); "
        "read its scores with care.",
    )


def _single_warning(one: Batch) -> str:
    return _SINGLE.format(word=one.features[0].noun)


def _line(settings: "Lime", one: Batch) -> list[Attribution]:
    """Score the only feature of a text by what the output loses without it."""
    found = exact_attributions(settings, one, value=lambda game, **_: leave_one_out(game))
    fit = {"r2": 1.0, "r2_bound": 0.0} if settings.fit else {}
    (finding,), (base,) = found, one.base_values
    return [replace(finding, intercept=base, warnings=(_single_warning(one),), diagnostics=fit)]


def _limit(settings: "Lime", batch: Batch) -> list[Attribution]:
    """Score every feature by the coefficient to which LIME converges."""
    if any(_is_single(settings, len(features)) for features in batch.features):
        if len(batch.features) == 1:
            return _line(settings, batch)
        return [finding for one in batch.split() for finding in _limit(settings, one)]
    design: dict[str, Any] = {
        "bandwidth": settings.bandwidth,
        "penalty": settings.penalty,
        "rows": settings.rows,
    }
    found = exact_attributions(settings, batch, value=lime, **design)
    if not settings.fit:
        return found
    fit = lime_fit(batch.ratio_game, **design)
    quality = zip(
        host_array(fit.r2)[:, 0].tolist(), host_array(fit.bound)[:, 0].tolist(), strict=True
    )
    return [
        replace(
            one,
            warnings=_poor_fit_warning(r2, bound),
            diagnostics={**one.diagnostics, "r2": r2, "r2_bound": bound},
        )
        for one, (r2, bound) in zip(found, quality, strict=True)
    ]


@register_method(
    id="lime",
    label="LIME",
    formula="weighted least squares of f on kept words, in the limit of all samples",
    sees="the linear trend of f around the text, words removed at random",
    blind="what is not linear; depends on the bandwidth",
    cost="milliseconds, exact to quadrature precision with a bound",
    implementations=(
        exact_implementation(
            _limit,
            ("bandwidth", "penalty", "rows", "tolerance", "replacement", "per_head", "fit"),
            bandwidth=_BANDWIDTH,
            penalty="the ridge penalty per sample",
            rows="add the untouched text to that many samples, as `lime` does",
            replacement="what stands for a removed word; any but the model's own is sampled",
            fit="also compute the R² of the linear fit, which takes longer",
        ),
        sampled_implementation(
            explain_by_regression,
            {
                "samples": "masks to draw; None: five for each word, at least 1000. If there "
                "are no more than that, or at most 1,024, all 2^d are asked instead",
                "bandwidth": _BANDWIDTH,
                "replacement": MEANINGS["replacement"],
                "sizes": _SIZES,
            },
            summary="one call of the model per sample",
            check=_check_enough,
        ),
    ),
)
class Lime(SamplingSettings):
    """Settings of LIME: of its exact limit, or of a regression on a model's answers."""

    bandwidth: Annotated[float, Positive] = 0.25
    penalty: Annotated[float, NotNegative] = 0.0
    rows: int | None = None
    per_head: bool = False
    fit: bool = False
    sizes: Annotated[str, OneOf(MASK_SIZE_POWERS)] = "balanced"
    # The regression of which the limit is the limit: without penalty, row 0 or selection.
    ridge: ClassVar[float] = 0.0
    row0: ClassVar[bool] = False
    num_features: ClassVar[int | None] = None
    feature_selection: ClassVar[str] = "none"
    sample_size = property(_choose_sample_size)


@register_method(
    id="lime-sampled",
    label="LIME (sampled)",
    formula="weighted ridge regression of f on n random masks of words",
    sees="many mixtures of kept and removed words; UNK or deletion, logit or probability",
    blind="interactions of words; it carries sampling noise, shown as standard error",
    cost="one call of the model per sample (on the tables, 5000 in tens of milliseconds)",
    implementations=(
        sampled_implementation(
            explain_by_regression,
            {
                "samples": "masks to draw; None: five for each word, at least 1000",
                "bandwidth": _BANDWIDTH,
                "ridge": "the penalty of the fit",
                "row0": "the first row is the untouched text",
                "num_features": "words to keep; None: all",
                "feature_selection": "how those words are chosen, as in `lime`",
                "replacement": MEANINGS["replacement"],
                "sizes": _SIZES,
            },
            check=_check_enough,
        ),
    ),
)
class LimeSampled(SamplingSettings):
    """Settings of LIME as the `lime` package computes it; the defaults are that package's.

    ``samples`` rows (None: five for each word, at least 1000, at most ``max_samples``), of which
    the first is the untouched text if ``row0``; ``ridge`` is the penalty; ``num_features`` words
    are kept (None: all), by ``feature_selection``. The number of removed words is drawn in
    proportion to a power of its weight, ``sizes`` being "uniform" (0), "balanced" (½) or
    "importance" (1): the limit is the same, and which has the smallest error depends on the model
    (on the IMDB classifier "importance" costs 1.4 times the samples). With a ``tolerance``,
    sampling goes on until no standard error exceeds it or ``max_samples`` are drawn.
    """

    samples: Annotated[int | None, at_least(2)] = 5000
    bandwidth: Annotated[float, Positive] = 0.25
    ridge: Annotated[float, FiniteNotNegative] = 1.0
    row0: bool = True
    num_features: Annotated[int | None, at_least(1)] = None
    feature_selection: Annotated[str, OneOf(SELECTIONS)] = "auto"
    sizes: Annotated[str, OneOf(MASK_SIZE_POWERS)] = "uniform"
    sample_size = property(_choose_sample_size)
