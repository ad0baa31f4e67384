"""LIME: its limit without sampling, and by regression on the answers of any model."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, cast

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
    refill_implementation,
)
from limelight.explainers.registry import register_method
from limelight.explainers.sample_size import (
    DEFAULT_CALLS,
    CertifyingSettings,
    SampleSize,
    answers_implementation,
    sampled_implementation,
)
from limelight.explainers.target_game import (
    TargetGame,
    exact_attributions,
    fit_masks,
    nonzero_or_none,
    refill_attributions,
)
from limelight.results import Attribution
from limelight.sampling.all_masks import lime_from_all_masks, lime_matrix
from limelight.sampling.masks import MASK_SIZE_POWERS
from limelight.sampling.regression import SELECTIONS, LimeFit, fit_sampled_lime
from limelight.sampling.sample import make_lime_sampler
from limelight.text import pluralize
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.lime import lime
from limelight.theory.lime_fit import lime_fit
from limelight.theory.lime_weights import LimeDesign, lime_design
from limelight.theory.namespace import host_array
from limelight.theory.refilling import refilled_leave_one_out, refilled_lime

_POOR_FIT = 0.5  # below this R² a linear model is no summary of the output
_SINGLE_FEATURE_WARNING = (
    "The text has a single {word}, so its LIME score is the change of the output without it, as "
    "for leave-one-out."
)
_MAX_R2_ERROR = 0.1  # with a larger error R² is meaningless
_MAX_SHRINKAGE = 0.1  # share of a score that a penalty may remove without a warning
# With fewer samples for each feature, a regression wastes samples and overstates its errors.
_SAMPLES_PER_FEATURE = 5
_BANDWIDTH = "ν, the width of the kernel (0.25 in the `lime` package)"
_SIZES = 'how many words a mask removes: "uniform", "balanced" (by √ψ) or "importance" (by ψ)'


def _choose_sample_size(settings: "Lime | LimeSampled") -> SampleSize:
    """Return how many masks a regression needs."""
    return settings.make_sample_size(
        default=lambda d: max(DEFAULT_CALLS, _SAMPLES_PER_FEATURE * d),
        # With a penalty, few masks determine every score.
        minimum=lambda d: _recommended_samples(d) if settings.ridge == 0 else 2,
        fixed_calls=1 if settings.row0 else 2,  # row 0 is the text itself
        # The `lime` package always samples, and `LimeSampled` computes the same as the package.
        enumerates=isinstance(settings, Lime),
    )


def _has_single_feature(settings: "Lime | LimeSampled", d: int) -> bool:
    """Return whether LIME is the line through two texts: with the only feature, and without it.

    With one feature, every sample except the text itself is the same. The `lime` package has the
    text among its samples, so its line passes through both points for every number of samples.
    """
    return d == 1 and isinstance(settings, Lime) and settings.penalty == 0


def _check_sample_count(settings: "Lime | LimeSampled", d: int) -> None:
    """Raise an error before the first model call if the samples cannot determine the scores."""
    if _has_single_feature(settings, d):
        return
    lime_design(d, bandwidth=settings.bandwidth)  # raises an error for settings outside its domain
    sample_size = settings.sample_size
    rows, selected_count = sample_size.final_count(d), min(d, settings.num_features or d)
    if settings.ridge == 0 and not sample_size.covers_all_masks(d) and rows <= selected_count + 1:
        raise _too_few_samples_error(rows, selected_count, d)


def explain_by_regression(settings: "Lime | LimeSampled", batch: Batch) -> Attribution:
    """Score every feature by its coefficient in a weighted linear model of masked texts."""
    game, d = TargetGame(batch, settings.replacement, settings), len(batch.features[0])
    is_random = settings.answers is not None
    if _has_single_feature(settings, d) and is_random:
        attribution = game.make_repeated_attribution(
            enumerate_masks(1),
            np.array([[1.0, -1.0], [0.0, 1.0]]),  # the constant, and the only score
            answers=max(settings.sample_size.repeats(d), 2),  # errors come from their spread
            has_intercept=True,
        )
        return replace(
            attribution, warnings=(_single_feature_warning(batch), *attribution.warnings)
        )
    if _has_single_feature(settings, d):
        empty_value, full_value = game(np.array([[False], [True]]))[:, 0]
        return game.make_attribution(
            np.array([full_value - empty_value]),
            warnings=(_single_feature_warning(batch),),
            intercept=float(empty_value),
            r2=1.0,
        )
    if settings.sample_size.has_time_for_all_masks(d) and is_random:
        return game.make_repeated_attribution(
            enumerate_masks(d),
            lime_matrix(d, bandwidth=settings.bandwidth),
            answers=settings.sample_size.repeats(d),
            has_intercept=True,
        )
    if settings.sample_size.has_time_for_all_masks(d):
        exact_fit = lime_from_all_masks(game, d, bandwidth=settings.bandwidth)
        r2 = float(exact_fit.r2[0])
        return game.make_attribution(
            exact_fit.scores[0],
            warnings=_poor_fit_warning(r2),
            intercept=float(exact_fit.intercept[0]),
            masks=2**d,
            r2=r2,
        )
    sampler = make_lime_sampler(d, bandwidth=settings.bandwidth, sizes=settings.sizes)
    regression = partial(
        fit_sampled_lime,
        ridge=settings.ridge,
        num_features=settings.num_features,
        feature_selection=settings.feature_selection,
        bandwidth=settings.bandwidth,
    )
    fit, tops, sampling_warnings = fit_masks(
        settings, batch, game, sampler, regression, row0=settings.row0
    )
    # The residuals of a fit through all samples are 0, so its standard errors are not finite.
    if not np.isfinite(fit.stderr).all():
        raise _too_few_samples_error(
            fit.samples, int(fit.selected_count[0]), d, advice=", or use a larger bandwidth"
        )
    design = lime_design(d, bandwidth=settings.bandwidth)
    warnings = _fit_warnings(settings, fit, design, batch.features[0].noun)
    return game.make_attribution(
        fit.scores[0],
        nonzero_or_none(fit.stderr[0]),
        warnings=warnings + sampling_warnings,
        intercept=float(fit.intercept[0]),
        draws=fit.draws,
        certain_tops=tops if int(fit.selected_count[0]) == d else None,
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
            f"LIME selected {selected_count} of {design.d} {features}. The other {features} have "
            "the score 0."
        )
    shrinkage = settings.ridge / (settings.ridge + fit.samples * design.V)
    if shrinkage > _MAX_SHRINKAGE:
        warnings.append(
            f"The penalty shrinks the scores by about {shrinkage:.0%}. Raise samples, use a larger "
            "bandwidth, or use a smaller ridge."
        )
    # The variance of random outputs contains their noise, which no model explains.
    warnings += () if settings.answers is not None else _poor_fit_warning(float(fit.r2[0]))
    if fit.samples <= 2 * selected_count:
        warnings.append(
            f"{fit.samples} samples are too few for reliable standard errors of {selected_count} "
            f"{features}. Raise samples."
        )
    return tuple(warnings)


def _too_few_samples_error(
    samples: int, selected_count: int, d: int, advice: str = ""
) -> DomainError:
    """Return the error for samples that do not determine the scores, with further advice."""
    recommended = max(_recommended_samples(d), 2 * samples)
    return DomainError(
        f"{samples} samples do not determine LIME's scores of {selected_count} features. Set "
        f"samples to {recommended} or more{advice}."
    )


def _recommended_samples(d: int) -> int:
    """Return the number of samples that an error message recommends for ``d`` features."""
    return 2 * (d + 1)


def _poor_fit_warning(r2: float, bound: float = 0.0) -> tuple[str, ...]:
    """Return a warning if the R² of the linear model is small, or if its error is large."""
    if bound > _MAX_R2_ERROR:
        return (
            f"The fit of LIME's linear model is unknown (R² = {r2:.2f} ± {bound:.2f}). Interpret "
            "its scores with care.",
        )
    if r2 >= _POOR_FIT:
        return ()
    return (
        f"LIME's linear model explains {max(r2, 0.0):.0%} of the variance of the output (R²). "
        "Interpret its scores with care.",
    )


def _single_feature_warning(batch: Batch) -> str:
    """Return the warning that a text has only one feature."""
    return _SINGLE_FEATURE_WARNING.format(word=batch.features[0].noun)


def _explain_single_feature(settings: "Lime", batch: Batch) -> list[Attribution]:
    """Score the only feature of a text by the change of the output when it is removed."""
    (attribution,) = exact_attributions(
        settings, batch, value=lambda game, **_: leave_one_out(game)
    )
    (base_value,) = batch.base_values
    return [
        replace(
            attribution,
            intercept=base_value,
            warnings=(_single_feature_warning(batch),),
            diagnostics={"r2": 1.0, "r2_bound": 0.0} if settings.fit else {},
        )
    ]


def _explain_by_limit(settings: "Lime", batch: Batch) -> list[Attribution]:
    """Score every feature by LIME without sampling: the limit for many samples."""
    if any(_has_single_feature(settings, len(features)) for features in batch.features):
        if len(batch.features) == 1:
            return _explain_single_feature(settings, batch)
        return [
            attribution
            for single in batch.split()
            for attribution in _explain_by_limit(settings, single)
        ]
    design: dict[str, Any] = {
        "bandwidth": settings.bandwidth,
        "penalty": settings.penalty,
        "rows": settings.rows,
    }
    attributions = exact_attributions(settings, batch, value=lime, **design)
    if not settings.fit:
        return attributions
    fit = lime_fit(batch.ratio_game, **design)
    r2_values, bounds = host_array(fit.r2)[:, 0].tolist(), host_array(fit.bound)[:, 0].tolist()
    return [
        replace(
            attribution,
            warnings=_poor_fit_warning(r2, bound),
            diagnostics={**attribution.diagnostics, "r2": r2, "r2_bound": bound},
        )
        for attribution, r2, bound in zip(attributions, r2_values, bounds, strict=True)
    ]


def _explain_by_refilled_limit(settings: "Lime", batch: Batch) -> list[Attribution]:
    """Score every feature by LIME's limit under random refilling."""
    design = {name: getattr(settings, name) for name in ("bandwidth", "penalty", "rows")}
    attributions = []
    for single in batch.split():
        if not _has_single_feature(settings, len(single.features[0])):
            attributions += refill_attributions(settings, single, value=refilled_lime, **design)
            continue
        (attribution,) = refill_attributions(settings, single, value=refilled_leave_one_out)
        warning = _single_feature_warning(single)
        intercept = cast(float, attribution.base_value)
        attributions.append(replace(attribution, intercept=intercept, warnings=(warning,)))
    return attributions


_SAMPLED_LIME = sampled_implementation(
    explain_by_regression,
    {
        "samples": "number of masks. None: five per word, at least 1,000. If a text has "
        "no more masks, or at most 1,024, all are evaluated",
        "bandwidth": _BANDWIDTH,
        "replacement": MEANINGS["replacement"],
        "sizes": _SIZES,
    },
    summary="one model call per sample",
    check=_check_sample_count,
    certifies=True,
)


@register_method(
    id="lime",
    label="LIME",
    formula="weighted least squares of f on kept words, in the limit of all samples",
    sees="the linear trend of f around the text, words removed at random",
    blind="effects that are not linear. Scores depend on the bandwidth",
    cost="milliseconds, exact to quadrature precision with a bound",
    implementations=(
        exact_implementation(
            _explain_by_limit,
            ("bandwidth", "penalty", "rows", "tolerance", "replacement", "per_head", "fit"),
            bandwidth=_BANDWIDTH,
            penalty="the ridge penalty per sample",
            rows="number of samples to which the full text is added, as in `lime`",
            replacement="the replacement. Only the default and 'refill' have exact scores",
            fit="also compute the R² of the linear fit, which takes longer",
        ),
        refill_implementation(
            _explain_by_refilled_limit,
            ("bandwidth", "penalty", "rows", "tolerance", "per_head"),
            bandwidth=_BANDWIDTH,
            penalty="the ridge penalty per sample",
            rows="number of samples to which the full text is added, as in `lime`",
            replacement="the replacement. Only the default and 'refill' have exact scores",
        ),
        answers_implementation(_SAMPLED_LIME),
        _SAMPLED_LIME,
    ),
)
class Lime(CertifyingSettings):
    """Settings of LIME: of its exact limit, or of a regression on the model's outputs."""

    bandwidth: Annotated[float, Positive] = 0.25
    penalty: Annotated[float, NotNegative] = 0.0
    rows: int | None = None
    per_head: bool = False
    fit: bool = False
    answers: Annotated[int | None, at_least(1)] = None
    sizes: Annotated[str, OneOf(MASK_SIZE_POWERS)] = "balanced"
    # The exact limit belongs to a regression without penalty, row 0 or selection.
    ridge: ClassVar[float] = 0.0
    row0: ClassVar[bool] = False
    num_features: ClassVar[int | None] = None
    feature_selection: ClassVar[str] = "none"
    sample_size = property(_choose_sample_size)


@register_method(
    id="lime-sampled",
    label="LIME (sampled)",
    formula="weighted ridge regression of f on n random masks of words",
    sees="many masks of words, with UNK or deletion, for logits or probabilities",
    blind="interactions of words. Standard errors show the sampling noise",
    cost="one model call per sample (on the tables, 5,000 in tens of milliseconds)",
    implementations=(
        sampled_implementation(
            explain_by_regression,
            {
                "samples": "number of masks. None: five per word, at least 1,000",
                "bandwidth": _BANDWIDTH,
                "ridge": "the penalty of the fit",
                "row0": "whether the first sample is the full text",
                "num_features": "number of words to select. None: all",
                "feature_selection": "how the words are selected, as in `lime`",
                "replacement": MEANINGS["replacement"],
                "sizes": _SIZES,
            },
            check=_check_sample_count,
            certifies=True,
        ),
    ),
)
class LimeSampled(CertifyingSettings):
    """Settings of LIME as the `lime` package computes it; the defaults are that package's.

    Parameters
    ----------
    samples
        Number of masked texts. None means five for each word, at least 1000, and at most
        ``max_samples``.
    row0
        Whether the first masked text is the text itself.
    ridge
        The penalty of the regression.
    num_features
        Number of words that get a score, selected by ``feature_selection``. None means all.
    sizes
        The distribution of the number of removed words: proportional to its weight to the power
        0 ("uniform"), ½ ("balanced") or 1 ("importance"). The limit is the same. The model
        decides which has the smallest error: on the IMDB classifier "importance" needs 1.4 times
        the samples.
    tolerance
        Sampling goes on until no standard error exceeds it, or until ``max_samples`` are drawn.
    """

    samples: Annotated[int | None, at_least(2)] = 5000
    bandwidth: Annotated[float, Positive] = 0.25
    ridge: Annotated[float, FiniteNotNegative] = 1.0
    row0: bool = True
    num_features: Annotated[int | None, at_least(1)] = None
    feature_selection: Annotated[str, OneOf(SELECTIONS)] = "auto"
    sizes: Annotated[str, OneOf(MASK_SIZE_POWERS)] = "uniform"
    answers: ClassVar[int | None] = None
    sample_size = property(_choose_sample_size)
