"""LIME: its limit without sampling, by regression on the answers of any model, and formulas.

And how many samples a regression needs on a text, before they are drawn.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np

from limelight import __version__
from limelight.errors import DomainError, InputError
from limelight.explainers.budget import DEFAULT_CALLS, Drawing, Draws, by_draws
from limelight.explainers.explaining import one_reading
from limelight.explainers.method import (
    MEANS,
    FiniteNotNegative,
    Method,
    NotNegative,
    OneOf,
    Positive,
    Range,
    Way,
    at_least,
    between,
    by_quadrature,
    made,
    settings_class,
)
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import (
    MEAN_FIELD,
    TargetGame,
    bounded,
    exact_values,
    fitted_masks,
    seen_errors,
)
from limelight.models import Model, resolved_replacement
from limelight.question import Asked, spelled_out
from limelight.results import Finding
from limelight.results.plan import SamplingPlan
from limelight.sampling.all_masks import lime_of_all_masks
from limelight.sampling.masks import SIZES
from limelight.sampling.regression import SELECTIONS, LimeFit, fitted_lime
from limelight.sampling.sample import LimeDraws
from limelight.shapes import Array, Float
from limelight.text import Given, in_units, side_names
from limelight.theory.deletion import lime_under_deletion
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.lime import lime
from limelight.theory.lime_first_order import lime_first_order
from limelight.theory.lime_fit import lime_fit
from limelight.theory.lime_variance import lime_variance
from limelight.theory.lime_weights import LimeDesign, lime_design, size_weight
from limelight.theory.mean_field import lime_mean_field
from limelight.theory.namespace import host_array
from limelight.theory.paper import lime_theorem
from limelight.theory.ratio_game import one_document
from limelight.theory.second_order import lime_distance_bound

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


def _rows(settings: "Lime | LimeSampled") -> Draws:
    """How many rows are drawn for a regression, or all that there are."""
    return settings.drawing(
        usual=lambda d: max(DEFAULT_CALLS, _PER_WORD * d),
        # A penalty determines every score.
        determining=lambda d: _advised(d) if settings.ridge == 0 else 2,
        beside=1 if settings.row0 else 2,  # row 0 is the text itself
        # The package never asks all: its sampling noise is part of what it computes.
        enumerates=isinstance(settings, Lime),
    )


@settings_class
class LimeSampled(Drawing):
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
    sizes: Annotated[str, OneOf(SIZES)] = "uniform"
    draws = property(_rows)


@settings_class
class Lime(Drawing):
    """Settings of LIME: of its exact limit, or of a regression on a model's answers."""

    bandwidth: Annotated[float, Positive] = 0.25
    penalty: Annotated[float, NotNegative] = 0.0
    rows: int | None = None
    per_head: bool = False
    fit: bool = False
    sizes: Annotated[str, OneOf(SIZES)] = "balanced"
    # The regression of which the limit is the limit: without penalty, row 0 or selection.
    ridge: ClassVar[float] = 0.0
    row0: ClassVar[bool] = False
    num_features: ClassVar[int | None] = None
    feature_selection: ClassVar[str] = "none"
    draws = property(_rows)

    def __post_init__(self) -> None:
        if self.replacement == "delete" and (self.per_head or self.fit):
            raise InputError("per_head and fit need replacement 'unk'; got 'delete'.")


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


def _check_enough(settings: Lime | LimeSampled, d: int) -> None:
    """Refuse before any call what cannot end well: rows without weight, or too few of them."""
    if _is_single(settings, d):
        return
    _check_words(d, settings.bandwidth)
    draws = settings.draws
    rows, kept = draws.last(d), min(d, settings.num_features or d)
    if settings.ridge == 0 and not draws.asks_all(d) and rows <= kept + 1:
        raise _undetermined(rows, kept, d)


def regression(settings: Lime | LimeSampled, one: Reading) -> Finding:
    """Score every feature by its coefficient in a weighted linear model of masked texts."""
    game, d = TargetGame(one, settings.replacement), len(one.features[0])
    if _is_single(settings, d):
        without, whole = game(np.array([[False], [True]]))[:, 0]
        return game.found(
            np.array([whole - without]),
            said=(_single_notice(one),),
            intercept=float(without),
            r2=1.0,
        )
    if settings.draws.asks_all_in_time(d):
        found = lime_of_all_masks(game, d, bandwidth=settings.bandwidth)
        r2 = float(found.r2[0])
        intercept = float(found.intercept[0])
        said = _poor_fit(r2)
        return game.found(found.scores[0], said=said, intercept=intercept, masks=2**d, r2=r2)
    drawn = LimeDraws(d=d, bandwidth=settings.bandwidth, sizes=settings.sizes)
    how = partial(
        fitted_lime,
        ridge=settings.ridge,
        num_features=settings.num_features,
        feature_selection=settings.feature_selection,
        bandwidth=settings.bandwidth,
    )
    fit, told = fitted_masks(settings, one, game, drawn, how, row0=settings.row0)
    # A fit that passes through its samples has errors of zero, which are not its error.
    if not np.isfinite(fit.stderr).all():
        raise _undetermined(fit.samples, int(fit.kept[0]), d)
    own = _notices(settings, fit, lime_design(d, bandwidth=settings.bandwidth))
    own = tuple(in_units(said, one.features[0].noun) for said in own)
    return game.found(
        fit.scores[0],
        seen_errors(fit.stderr[0]),
        said=own + told,
        intercept=float(fit.intercept[0]),
        samples_drawn=fit.samples,
        r2=float(fit.r2[0]),
        intercept_stderr=float(fit.intercept_stderr[0]),
        kept=int(fit.kept[0]),
    )


def _notices(settings: Lime | LimeSampled, fit: LimeFit, design: LimeDesign) -> tuple[str, ...]:
    notices = []
    if (kept := int(fit.kept[0])) < design.d:
        notices.append(f"LIME kept {kept} of {design.d} words; the others have no score (0).")
    shrunk = settings.ridge / (settings.ridge + fit.samples * design.V)
    if shrunk > _SHRUNK:
        notices.append(
            f"The samples weigh so little that the penalty takes about {shrunk:.0%} off the "
            "scores; draw more, or use a larger bandwidth or a smaller ridge."
        )
    notices += _poor_fit(float(fit.r2[0]))
    if fit.samples <= 2 * kept:
        notices.append(
            f"{fit.samples} samples are few for {kept} words: do not trust the standard errors."
        )
    return tuple(notices)


def _undetermined(samples: int, kept: int, d: int) -> DomainError:
    return DomainError(
        f"{samples} samples do not determine LIME's scores of {kept} words: set samples to "
        f"{max(_advised(d), 2 * samples)} or more, or use a larger bandwidth."
    )


def _advised(d: int) -> int:
    return 2 * (d + 1)


def _poor_fit(r2: float, bound: float = 0.0) -> tuple[str, ...]:
    """Say that a linear model, whose R² is known within ``bound``, fits badly, or nobody knows."""
    if bound > _UNKNOWN_FIT:
        return (f"How well LIME's linear model fits is not known: R² is {r2:.2f} ± {bound:.2f}.",)
    if r2 >= _POOR_FIT:
        return ()
    return (
        f"LIME's linear model explains {max(r2, 0.0):.0%} of the variation of the output (R²); "
        "read its scores with care.",
    )


def _single_notice(one: Reading) -> str:
    return _SINGLE.format(word=one.features[0].noun)


def _line(settings: Lime, one: Reading) -> list[Finding]:
    """Score the only feature of a text by what the output loses without it."""
    found = exact_values(settings, one, value=lambda game, **_: leave_one_out(game))
    fit = {"r2": 1.0, "r2_bound": 0.0} if settings.fit else {}
    (finding,), (base,) = found, one.base_values
    return [replace(finding, intercept=base, notices=(_single_notice(one),), diagnostics=fit)]


def _limit(settings: Lime, reading: Reading) -> list[Finding]:
    """Score every feature by the coefficient to which LIME converges."""
    in_place = settings.replacement == reading.model.replacements[0]
    if in_place and any(_is_single(settings, len(features)) for features in reading.features):
        if len(reading.features) == 1:
            return _line(settings, reading)
        return [finding for one in reading.apart() for finding in _limit(settings, one)]
    design: dict[str, Any] = {
        "bandwidth": settings.bandwidth,
        "penalty": settings.penalty,
        "rows": settings.rows,
    }
    if not in_place:  # words vanish, later ones move up
        findings, design["tolerance"] = [], settings.tolerance
        for i in range(len(reading.documents)):
            game = reading.collapsed.deletion_game(i, reading.target_weights)
            one = lime_under_deletion(game, **design)
            findings.append(
                Finding(
                    scores=one.scores[0],
                    bound=float(one.bound[0]),
                    intercept=float(one.intercept[0]),
                    diagnostics={"intercept_bound": float(one.intercept_bound[0])},
                )
            )
        return findings
    found = exact_values(settings, reading, value=lime, **design)
    if not settings.fit:
        return found
    fit = lime_fit(reading.ratio_game, **design)
    quality = zip(
        host_array(fit.r2)[:, 0].tolist(), host_array(fit.bound)[:, 0].tolist(), strict=True
    )
    return [
        replace(
            one,
            notices=_poor_fit(r2, bound),
            diagnostics={**one.diagnostics, "r2": r2, "r2_bound": bound},
        )
        for one, (r2, bound) in zip(found, quality, strict=True)
    ]


def _check_several(reading: Reading) -> None:
    """Refuse texts of one feature, for which formulas that come close to LIME are not defined."""
    if any(len(features) < 2 for features in reading.features):
        raise DomainError("a formula for LIME needs at least 2 words, unlike 'lime' itself.")


@settings_class
class LimeTheorem:
    """Settings of Eq. 19 as printed: which LIME its bound is about, not its scores."""

    bandwidth: Annotated[float, Positive] = 0.25
    penalty: Annotated[float, NotNegative] = 0.0


@settings_class
class LimeFirstOrder(LimeTheorem):
    """Settings of the corrected first order: which LIME its bound is about, not its scores."""


@settings_class
class LimeMeanField:
    """Settings of mean-field LIME."""

    bandwidth: Annotated[float, Positive] = 0.25


def _first_order(
    settings: LimeTheorem, reading: Reading, *, formula: Callable[..., Float[Array, "B 1 d"]]
) -> list[Finding]:
    """Score every feature by a first-order formula, with its proven distance to LIME."""
    _check_several(reading)
    scores, nu, penalty = formula(reading.ratio_game), settings.bandwidth, settings.penalty
    bounds = lime_distance_bound(scores, reading.ratio_game, bandwidth=nu, penalty=penalty)
    said = (
        "A first-order formula: the bound is on its distance to the limit of LIME at bandwidth "
        f"{nu:g} and penalty {penalty:g}."
    )
    return bounded(reading, scores, bounds, said)


def _mean_field(settings: LimeMeanField, reading: Reading) -> list[Finding]:
    game, nu = reading.ratio_game, settings.bandwidth
    _check_several(reading)
    said = MEAN_FIELD.format(f"the limit of LIME at bandwidth {nu:g}")
    scores = lime_mean_field(game, bandwidth=nu)
    return bounded(reading, scores, lime_distance_bound(scores, game, bandwidth=nu), said)


def _formula(explain: Callable[..., list[Finding]], **meant: str) -> tuple[Way]:
    return (Way(needs="tables", exactness="exact", explain=explain, settings=meant, logits=True),)


_MEANT = {
    "bandwidth": "ν of the LIME that the bound is about",
    "penalty": "the ridge penalty of that LIME",
}

_HOLDS = (
    "It holds for words that are replaced in place ({}) and a regression on all of them: selecting "
    "words changes the errors."
)
_MOST = 1_000_000  # samples: a standard error from n of them is itself known to about 1/√(2n)


@spelled_out()
def plan(
    model: Model,
    text: Given,
    *,
    error: float = 0.01,
    bandwidth: float = 0.25,
    ridge: float = 1.0,
    row0: bool = True,
    sizes: str = "uniform",
    pilot: int = 1000,
    seed: int = 0,
    **asked: Unpack[Asked],
) -> SamplingPlan:
    """Return how many samples LIME needs on ``text`` to come within ``error`` of its limit.

    The error of a score is the root of its mean square: what it scatters, and what the penalty
    ``ridge`` and ``row0``, the untouched text among the samples, hold it back. For a model that
    collapses into tables, on the logit, both are computed exactly, before any sample is drawn; for
    any other they are estimated from ``pilot`` samples, drawn with ``seed``. The regression is that
    of ``lime-sampled`` on all words, with ``bandwidth`` ν and with ``sizes`` drawn "uniform"ly (the
    `lime` package), "balanced" or by "importance"; the defaults are its own. The other arguments
    are those of :func:`limelight.explain`.
    """
    settings = {"bandwidth": bandwidth, "ridge": ridge, "row0": row0, "sizes": sizes, "seed": seed}
    planned: _Planned = made(_Planned, **settings, error=error, pilot=pilot)
    feasible = partial(_check_words, bandwidth=planned.bandwidth)
    reading = one_reading("plan", model, text, asked, feasible=feasible)
    overhead, exact = _overhead(len(reading.features[0]), planned), reading.exact
    found = _computed(reading, planned) if exact else _piloted(reading, planned, overhead)
    # Nothing is enumerated, so there are standard errors.
    assert found.stderr is not None and found.intercept is not None  # noqa: S101, PT018
    replacement, common = resolved_replacement(reading.model, "auto"), reading.common(0)
    about = ("text", "features", "target", "against", "scale", "model")
    whole = float(reading.targets.value(reading.outputs)[0])
    return SamplingPlan(
        **{name: common[name] for name in about},
        **{
            name: getattr(planned, name)
            for name in ("error", "bandwidth", "ridge", "row0", "sizes")
        },
        sides=side_names(common["spans"], common["parts"]),
        deviation=found.stderr,
        scores=found.scores,
        left=whole - found.intercept - float(np.sum(found.scores)),
        overhead=overhead,
        pilot=None if exact else planned.pilot,
        replacement=replacement,
        notices=(*common["notices"], *found.notices, _HOLDS.format(replacement)),
        version=__version__,
    )


@settings_class
class _Planned(LimeSampled):
    """How far ``lime-sampled`` on all words may be off, and how many samples may tell that."""

    error: Annotated[float, Range(lambda x: 0 < x < math.inf, "be positive and finite")]
    pilot: Annotated[int, between(2, _MOST)]


def _computed(reading: Reading, planned: _Planned) -> Finding:
    """Return where the regression goes, and √(n Var β̂) of every word on the way, n → ∞."""
    game = one_document(reading.ratio_game, 0)
    limit = lime(game, bandwidth=planned.bandwidth)
    variance = lime_variance(game, bandwidth=planned.bandwidth, power=SIZES[planned.sizes])
    return Finding(
        scores=host_array(limit.scores)[0],
        intercept=float(limit.intercept[0]),
        stderr=np.sqrt(host_array(variance)[0]),
    )


def _piloted(reading: Reading, planned: _Planned, overhead: int) -> Finding:
    """Return what some samples tell of the same, with their robust standard errors."""
    pilot = planned.pilot
    if pilot < 2 * overhead:
        d = len(reading.features[0])
        raise InputError(
            f"a pilot for {d} features needs at least {2 * overhead} samples; got {pilot}."
        )
    limit = replace(planned, samples=pilot, max_samples=pilot, ridge=0.0, row0=False)
    found = regression(limit, reading)
    if found.stderr is None:
        raise DomainError(
            f"all {pilot:,} samples of the pilot were answered alike, which does not tell how many "
            "are needed; draw a larger pilot."
        )
    return replace(found, stderr=found.stderr * math.sqrt(pilot - overhead))


def _overhead(d: int, planned: LimeSampled) -> int:
    """What a regression on d words costs: (d + 1) samples of mean weight.

    n samples of uneven weights w count as n E[w]²/E[w²] even ones.
    """
    psi, power = size_weight(d, planned.bandwidth)[1:], SIZES[planned.sizes]
    # Drawn by q ∝ ψ^p with weights ψ/q; nothing is divided where ψ vanishes.
    share = np.sum(psi) ** 2 / (np.sum(psi**power) * np.sum(psi ** (2 - power)))
    return math.ceil((d + 1) / float(share))


ROWS = (
    Method(
        id="lime",
        label="LIME",
        formula="weighted least squares of f on kept words, in the limit of all samples",
        sees="the linear trend of f around the text, words removed at random",
        blind="what is not linear; depends on the bandwidth",
        cost="milliseconds, exact to quadrature precision with a bound",
        settings=Lime,
        ways=(
            by_quadrature(
                _limit,
                ("bandwidth", "penalty", "rows", "tolerance", "replacement", "per_head", "fit"),
                bandwidth=_BANDWIDTH,
                penalty="the ridge penalty per sample",
                rows="add the untouched text to that many samples, as `lime` does",
                fit="also compute the R² of the linear fit, which takes longer",
            ),
            by_draws(
                regression,
                {
                    "samples": "masks to draw; None: five for each word, at least 1000. If there "
                    "are no more than that, or at most 1,024, all 2^d are asked instead",
                    "bandwidth": _BANDWIDTH,
                    "replacement": MEANS["replacement"],
                    "sizes": _SIZES,
                },
                cost="one call of the model per sample",
                feasible=_check_enough,
            ),
        ),
    ),
    Method(
        id="lime-sampled",
        label="LIME (sampled)",
        formula="weighted ridge regression of f on n random masks of words",
        sees="many mixtures of kept and removed words; UNK or deletion, logit or probability",
        blind="interactions of words; it carries sampling noise, shown as standard error",
        cost="one call of the model per sample (on the tables, 5000 in tens of milliseconds)",
        settings=LimeSampled,
        ways=(
            by_draws(
                regression,
                {
                    "samples": "masks to draw; None: five for each word, at least 1000",
                    "bandwidth": _BANDWIDTH,
                    "ridge": "the penalty of the fit",
                    "row0": "the first row is the untouched text",
                    "num_features": "words to keep; None: all",
                    "feature_selection": "how those words are chosen, as in `lime`",
                    "replacement": MEANS["replacement"],
                    "sizes": _SIZES,
                },
                feasible=_check_enough,
            ),
        ),
    ),
    Method(
        id="lime-theorem",
        label="LIME (Eq. 19)",
        formula="(3/2K) Σ_i Σ_t W_ℓ(α_t v_t − α_{h,t} v_{h,t}), as printed in Theorem 5.1",
        sees="attention × value against the same for UNK",
        blind="the common denominator; the constant 3/2 and the centring are off",
        cost="one forward pass",
        settings=LimeTheorem,
        ways=_formula(partial(_first_order, formula=lime_theorem), **_MEANT),
    ),
    Method(
        id="lime-first-order",
        label="LIME (1st order)",
        formula="(1/K) Σ_i [A_j − B_j − f_i (a_j − b_j)]/D_i, f_i and D_i of the full text",
        sees="LIME where no word holds much of the attention",
        blind="peaked attention, where first order is poor",
        cost="one forward pass",
        settings=LimeFirstOrder,
        ways=_formula(partial(_first_order, formula=lime_first_order), **_MEANT),
    ),
    Method(
        id="lime-mean-field",
        label="LIME (mean field)",
        formula="(A_j − B_j) ∫κ/D̄ − (a_j − b_j) ∫κN̄/D̄², κ ∝ ψ(x) x(1−x), and a common shift",
        sees="LIME where no word holds most of the attention, for any bandwidth",
        blind="which texts a word is kept in: each is taken for the mean text of its size",
        cost="one forward pass, O(d log d)",
        settings=LimeMeanField,
        ways=_formula(_mean_field, bandwidth=_BANDWIDTH),
    ),
)
