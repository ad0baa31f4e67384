"""Compute how many samples LIME needs on a text, before they are drawn."""

__all__ = ["plan"]

import math
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import numpy as np

from limelight import DomainError, InputError, Model, __version__
from limelight.explainers import (
    MASK_SIZE_POWERS,
    Attribution,
    Batch,
    LimeSampled,
    Range,
    between,
    find_method,
    make_settings,
    read_single_text,
    settings_class,
)
from limelight.models.protocol import has_exact_game
from limelight.request import Request
from limelight.text import UserInput, part_names
from limelight.theory.lime import lime
from limelight.theory.lime_weights import lime_design, size_weight
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import extract_document
from limelight_reproduction.planning.sampling_plan import SamplingPlan
from limelight_reproduction.theory.lime_variance import lime_variance

_CONDITION = (
    "It holds for words that are replaced in place ({}) and a regression on all of them: selecting "
    "words changes the errors."
)
# More pilot samples are useless: a standard error from n samples has relative error 1/√(2n).
_MOST_SAMPLES = 1_000_000


@settings_class
class _Regression(LimeSampled):
    """Settings of ``lime-sampled`` on all words, with the error bound and the pilot samples."""

    error: Annotated[float, Range(lambda x: 0 < x < math.inf, "be positive and finite")]
    pilot: Annotated[int, between(2, _MOST_SAMPLES)]


def plan(
    model: Model,
    text: UserInput,
    *,
    error: float = 0.01,
    bandwidth: float = 0.25,
    ridge: float = 1.0,
    row0: bool = True,
    sizes: str = "uniform",
    pilot: int = 1000,
    seed: int = 0,
    **request: Any,
) -> SamplingPlan:
    """Return how many samples LIME needs on ``text`` to come within ``error`` of its limit.

    The error of a score is its root mean square error. It has two causes: the scatter of the
    samples, and the bias by the penalty ``ridge`` and by ``row0``. If the model has tables and the
    scale is the logit, both are computed exactly, before any sample is drawn. Otherwise both are
    estimated from ``pilot`` samples. The regression is that of ``lime-sampled`` on all words, with
    the same defaults.

    Parameters
    ----------
    model
        The model that is explained.
    text
        One text, or a pair of texts.
    error
        The error that no score may exceed.
    bandwidth
        Width ν of LIME's kernel.
    ridge
        The penalty of the regression.
    row0
        Whether the untouched text is one of the samples.
    sizes
        Distribution of the number of removed words: "uniform" (as in the `lime` package),
        "balanced" or "importance".
    pilot
        Samples from which the errors are estimated if they cannot be computed.
    seed
        Seed of these samples.
    **request
        The keywords of :func:`limelight.explain` that say what is explained: ``target``,
        ``scale``, ``features`` and so on.

    Returns
    -------
    SamplingPlan
        The samples that each feature needs, and the errors for any number of samples.

    Raises
    ------
    InputError
        If a number is outside its range, or the text is not one text.
    DomainError
        If the text has fewer than two features, or no pilot sample changes the output.
    """
    settings = {"bandwidth": bandwidth, "ridge": ridge, "row0": row0, "sizes": sizes, "seed": seed}
    regression: _Regression = make_settings(_Regression, **settings, error=error, pilot=pilot)
    check_size = partial(_check_features, bandwidth=regression.bandwidth)
    batch = read_single_text("plan", model, text, Request(**request), check_size=check_size)
    overhead = _overhead(len(batch.features[0]), regression)
    replacement = batch.model.replacements[0]
    exact = has_exact_game(batch.model, batch.targets.scale, replacement)
    limit = (
        _computed_limit(batch, regression)
        if exact
        else _estimated_limit(batch, regression, overhead)
    )
    # The scores are not computed by enumeration, so they have standard errors.
    assert limit.stderr is not None and limit.intercept is not None  # noqa: S101, PT018
    common = batch.base_fields(0)
    text_facts = ("text", "features", "target", "against", "scale", "model")
    full_value = float(batch.targets.value(batch.outputs)[0])
    return SamplingPlan(
        **{name: common[name] for name in text_facts},
        **{
            name: getattr(regression, name)
            for name in ("error", "bandwidth", "ridge", "row0", "sizes")
        },
        sides=part_names(batch.features[0].spans, common["parts"]),
        deviation=limit.stderr,
        scores=limit.scores,
        full_residual=full_value - limit.intercept - float(np.sum(limit.scores)),
        overhead=overhead,
        pilot=None if exact else regression.pilot,
        replacement=replacement,
        warnings=(*common["warnings"], *limit.warnings, _CONDITION.format(replacement)),
        version=__version__,
    )


def _check_features(d: int, bandwidth: float) -> None:
    """Raise `DomainError` if LIME is not defined for ``d`` features and this bandwidth."""
    lime_design(d, bandwidth=bandwidth)


def _computed_limit(batch: Batch, regression: _Regression) -> Attribution:
    """Return the exact limit of the regression, with √(n Var β̂) for n → ∞ as standard errors."""
    game = extract_document(batch.ratio_game, 0)
    limit = lime(game, bandwidth=regression.bandwidth)
    variance = lime_variance(
        game, bandwidth=regression.bandwidth, power=MASK_SIZE_POWERS[regression.sizes]
    )
    return Attribution(
        scores=host_array(limit.scores)[0],
        intercept=float(limit.intercept[0]),
        stderr=np.sqrt(host_array(variance)[0]),
    )


def _estimated_limit(batch: Batch, regression: _Regression, overhead: int) -> Attribution:
    """Estimate the limit and √(n Var β̂) from pilot samples with robust standard errors."""
    pilot = regression.pilot
    if pilot < 2 * overhead:
        d = len(batch.features[0])
        raise InputError(
            f"a pilot for {d} features needs at least {2 * overhead} samples, not {pilot}."
        )
    settings = replace(regression, samples=pilot, max_samples=pilot, ridge=0.0, row0=False)
    (sampled,) = find_method("lime-sampled").implementations[0].explain(settings, batch)
    if sampled.stderr is None:
        raise DomainError(
            f"the output is the same for all {pilot:,} samples of the pilot, so the plan cannot "
            "estimate its variance. Use a larger pilot."
        )
    return replace(sampled, stderr=sampled.stderr * math.sqrt(pilot - overhead))


def _overhead(d: int, regression: LimeSampled) -> int:
    """Return how many samples the d + 1 coefficients of the regression use up.

    n samples with unequal weights w are worth n E[w]²/E[w²] samples with equal weights.
    """
    psi, power = size_weight(d, regression.bandwidth)[1:], MASK_SIZE_POWERS[regression.sizes]
    # Sizes are drawn from q ∝ ψ^p with weights ψ/q. This form never divides by ψ = 0.
    share = np.sum(psi) ** 2 / (np.sum(psi**power) * np.sum(psi ** (2 - power)))
    return math.ceil((d + 1) / float(share))
