"""LIME: its limit without sampling, by regression on the answers of any model, and formulas."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, final

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.explainers.budget import DEFAULT_CALLS, Draws, calls_of_draws, counted_draws
from limelight.explainers.method import (
    FiniteNotNegative,
    Method,
    NotBelow,
    NotNegative,
    OneOf,
    Positive,
    Way,
    at_least,
    each,
    settings_class,
)
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import (
    TargetGame,
    head_scores,
    mean_field_findings,
    unseen_effects,
)
from limelight.models import why_not
from limelight.results import Finding
from limelight.sampling.all_masks import lime_of_all_masks
from limelight.sampling.fits import SELECTIONS, LimeFit, fitted_lime
from limelight.sampling.masks import SIZES, text_rng
from limelight.sampling.sample import LimeDraws, Sample, until
from limelight.shapes import Array, Float
from limelight.theory.deletion import lime_under_deletion
from limelight.theory.lime import lime
from limelight.theory.lime_first_order import first_order_bound, lime_first_order
from limelight.theory.lime_fit import lime_fit
from limelight.theory.lime_weights import LimeDesign, lime_design
from limelight.theory.mean_field import lime_mean_field, lime_mean_field_bound
from limelight.theory.namespace import host_array
from limelight.theory.paper import lime_theorem, lime_theorem_bound
from limelight.theory.per_document import of_documents

_POOR_FIT = 0.5  # R², below which a linear model is no summary of the output
_UNKNOWN_FIT = 0.1  # an error of R² beyond which it says nothing
_SHRUNK = 0.1  # of a score, that a penalty may take off it without a word
_PER_WORD = 5  # with fewer, one regression on all words wastes samples and overstates its errors


_BANDWIDTH = "ν, the width of the kernel; 0.25 is the `lime` package's"
_REPLACEMENT = "what stands for a removed word"
_SIZES = 'how many words a mask removes: "uniform", "balanced" (by √ψ) or "importance" (by ψ)'
_UNTIL = "keep drawing until no standard error exceeds it; None: stop at `samples`"


@final
@settings_class
class LimeSampled:
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
    replacement: str = "auto"
    sizes: Annotated[str, OneOf(SIZES)] = "uniform"
    seed: Annotated[int, at_least(0)] = 0
    tolerance: Annotated[float | None, Positive] = None
    max_samples: Annotated[int, at_least(2), NotBelow("samples")] = 500_000

    @property
    def draws(self) -> Draws:
        """How many rows are drawn; never all, because this is the package's, noise included."""
        return _rows(self, ridge=self.ridge, row0=self.row0, enumerates=False)


@final
@settings_class
class Lime:
    """Settings of LIME: of its exact limit, or of a regression on a model's answers."""

    bandwidth: Annotated[float, Positive] = 0.25
    penalty: Annotated[float, NotNegative] = 0.0
    rows: int | None = None
    tolerance: Annotated[float | None, Positive] = None
    replacement: str = "auto"
    per_head: bool = False
    fit: bool = False
    samples: Annotated[int | None, at_least(2)] = None
    sizes: Annotated[str, OneOf(SIZES)] = "balanced"
    seed: Annotated[int, at_least(0)] = 0
    max_samples: Annotated[int, at_least(2), NotBelow("samples")] = 500_000

    def __post_init__(self) -> None:
        if self.replacement == "delete" and (self.per_head or self.fit):
            raise InputError("per_head and fit need replacement 'unk'; got 'delete'.")

    @property
    def regression(self) -> LimeSampled:
        """The regression without penalty, row 0 or selection: what the limit is the limit of."""
        return LimeSampled(
            samples=self.samples,
            bandwidth=self.bandwidth,
            ridge=0.0,
            row0=False,
            feature_selection="none",
            replacement=self.replacement,
            sizes=self.sizes,
            seed=self.seed,
            tolerance=self.tolerance,
            max_samples=self.max_samples,
        )

    @property
    def draws(self) -> Draws:
        """How many rows are drawn, or all: there is then no sampling error."""
        return _rows(self, ridge=0.0, row0=False, enumerates=True)

    @property
    def design(self) -> dict[str, Any]:
        """What the limit is taken of."""
        return {"bandwidth": self.bandwidth, "penalty": self.penalty, "rows": self.rows}

    @property
    def limit(self) -> dict[str, Any]:
        """What the limit is taken of, and how closely it is computed."""
        return {**self.design, "tolerance": self.tolerance}


def _rows(settings: Lime | LimeSampled, *, ridge: float, row0: bool, enumerates: bool) -> Draws:
    return Draws(
        count=settings.samples,
        most=settings.max_samples,
        tolerance=settings.tolerance,
        usual=lambda d: max(DEFAULT_CALLS, _PER_WORD * d),
        fewest=2,
        # A penalty determines every score.
        determining=lambda d: _advised(d) if ridge == 0 else 2,
        beside=1 if row0 else 2,  # row 0 is the text itself
        enumerates=enumerates,
    )


def _parts(settings: Lime | LimeSampled) -> tuple[LimeSampled, Draws]:
    """Return how masks are fitted, and how many."""
    own = settings if isinstance(settings, LimeSampled) else settings.regression
    return own, settings.draws


def _check_enough(settings: Lime | LimeSampled, d: int) -> None:
    """Refuse before any call what cannot end well: rows without weight, or too few of them."""
    own, draws = _parts(settings)
    if d > 1:
        lime_design(d, bandwidth=own.bandwidth)
    rows, kept = draws.last(d), d if own.num_features is None else min(d, own.num_features)
    if own.ridge == 0 and not draws.asks_all(d) and rows <= kept + 1:
        raise _undetermined(rows, kept, d)


def regression(settings: Lime | LimeSampled, one: Reading) -> Finding:
    """Score every feature by its coefficient in a weighted linear model of masked texts."""
    d, (own, draws) = len(one.features[0]), _parts(settings)
    if d < 2:
        raise DomainError(
            f"LIME needs at least 2 distinct words; this text has {d}. Use {_instead(one)}."
        )
    _check_enough(settings, d)
    game = TargetGame(one, own.replacement)
    if draws.asks_all(d):
        found = lime_of_all_masks(game, d, bandwidth=own.bandwidth)
        r2 = float(found.r2[0])
        return game.of_all_masks(
            found.scores[0], intercept=float(found.intercept[0]), said=_poor_fit(r2), r2=r2
        )
    drawn = LimeDraws(d=d, bandwidth=own.bandwidth, sizes=own.sizes)
    sample = Sample(game, drawn, text_rng(own.seed, one.documents[0].text), row0=own.row0)
    fit = until(
        sample,
        partial(
            fitted_lime,
            ridge=own.ridge,
            num_features=own.num_features,
            feature_selection=own.feature_selection,
            known_range=game.known_range,
        ),
        start=draws.first(d),
        tolerance=own.tolerance,
        most=own.max_samples,
    )
    _check_determined(own, fit, d)
    return Finding(
        scores=fit.scores[0],
        stderr=fit.stderr[0],
        base_value=game.base_value,
        intercept=float(fit.intercept[0]),
        notices=(
            _notices(own, fit, lime_design(d, bandwidth=own.bandwidth))
            + draws.unmet(fit.samples, float(fit.stderr.max()))
            + unseen_effects(
                flat=bool(fit.flat[0]),
                spike=float(fit.spike[0]),
                size=max(game.known_range, float(sample.range[0])),
                draws=fit.samples,
                same="fit one linear model",
                what="masks",
            )
            + game.notices
        ),
        diagnostics={
            "samples_drawn": fit.samples,
            "r2": float(fit.r2[0]),
            "intercept_stderr": float(fit.intercept_stderr[0]),
            "kept": int(fit.kept[0]),
        },
    )


def _check_determined(settings: LimeSampled, fit: LimeFit, d: int) -> None:
    """Refuse a fit that passes through its samples: its errors would be zero, not its error."""
    if np.isfinite(fit.stderr).all():
        return
    kept = int(fit.kept[0])
    if fit.samples <= _advised(d):
        raise _undetermined(fit.samples, kept, d)
    raise DomainError(
        f"bandwidth {settings.bandwidth} leaves nearly all weight on a few of {fit.samples} "
        f"samples, which do not determine the scores of {kept} words; use a larger one."
    )


def _notices(settings: LimeSampled, fit: LimeFit, design: LimeDesign) -> tuple[str, ...]:
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
        f"LIME needs more samples than words; {samples} samples do not determine the scores of "
        f"{kept} words. Set samples to {_advised(d)} or more."
    )


def _advised(d: int) -> int:
    return 2 * (d + 1)


def _instead(one: Reading) -> str:
    """Say what can explain a text of one word; a model may know pieces of the word."""
    pieces = why_not(one.model, "pieces") is None and one.features[0].unit != "tokens"
    return "'loo', or features='tokens'" if pieces else "'loo'"


def _poor_fit(r2: float) -> tuple[str, ...]:
    poor = (
        f"LIME's linear model explains {max(r2, 0.0):.0%} of the variation of the output (R²); "
        "read its scores with care."
    )
    return (poor,) if r2 < _POOR_FIT else ()


def _limit(settings: Lime, reading: Reading) -> list[Finding]:
    """Score every feature by the coefficient to which LIME converges."""
    reading.need_logit("lime")
    if settings.replacement == "delete":
        return [_limit_deleting(settings, reading, i) for i in range(len(reading.documents))]
    games = reading.ratio_game
    solve = partial(lime, **settings.limit)
    found = lime(games, **settings.limit)
    scores, bounds, intercepts = map(host_array, (found.scores, found.bound, found.intercept))
    heads = head_scores(solve, games) if settings.per_head else None
    fit = lime_fit(games, **settings.design) if settings.fit else None
    quality = None if fit is None else (host_array(fit.r2), host_array(fit.bound))
    return [
        Finding(
            scores=scores[i, 0, : len(features)],
            bound=float(bounds[i, 0]),
            intercept=float(intercepts[i, 0]),
            heads=None if heads is None else heads[:, i, : len(features)],
            **({} if quality is None else _quality(*(float(x[i, 0]) for x in quality))),
        )
        for i, features in enumerate(reading.features)
    ]


def _limit_deleting(settings: Lime, reading: Reading, i: int) -> Finding:
    game = reading.collapsed.deletion_game(i, reading.target_weights)
    found = lime_under_deletion(game, **settings.limit)
    return Finding(
        scores=found.scores[0], bound=float(found.bound[0]), intercept=float(found.intercept[0])
    )


def _quality(r2: float, bound: float) -> dict[str, Any]:
    """R² with its bound, and a warning where the fit is poor or not known."""
    notice = f"LIME's linear model explains {r2:.0%} of the variation: read its scores with care."
    if bound > _UNKNOWN_FIT:
        notice = f"How well LIME's linear model fits is not known: R² is {r2:.2f} ± {bound:.2f}."
    elif r2 >= _POOR_FIT:
        return {"diagnostics": {"r2": r2, "r2_bound": bound}}
    return {"diagnostics": {"r2": r2, "r2_bound": bound}, "notices": (notice,)}


@final
@settings_class
class LimeTheorem:
    """Settings of Eq. 19 as printed: which LIME its bound is about, not its scores."""

    bandwidth: Annotated[float, Positive] = 0.25
    penalty: Annotated[float, NotNegative] = 0.0


@final
@settings_class
class LimeFirstOrder:
    """Settings of the corrected first order: which LIME its bound is about, not its scores."""

    bandwidth: Annotated[float, Positive] = 0.25
    penalty: Annotated[float, NotNegative] = 0.0


@final
@settings_class
class LimeMeanField:
    """Settings of mean-field LIME."""

    bandwidth: Annotated[float, Positive] = 0.25


def _printed(settings: LimeTheorem, reading: Reading) -> list[Finding]:
    """Score every feature by Eq. 19, with its proven distance to LIME."""
    reading.need_logit("lime-theorem")
    scores = lime_theorem(reading.ratio_game)
    return _first_order(settings, reading, scores, lime_theorem_bound)


def _corrected(settings: LimeFirstOrder, reading: Reading) -> list[Finding]:
    """Score every feature by the corrected formula, with its proven distance to LIME."""
    reading.need_logit("lime-first-order")
    scores = lime_first_order(reading.ratio_game)
    return _first_order(settings, reading, scores, first_order_bound)


def _first_order(
    settings: LimeTheorem | LimeFirstOrder,
    reading: Reading,
    scores: Float[Array, "B 1 d"],
    bound_of: Callable[..., Float[Array, "B 1"]],
) -> list[Finding]:
    sizes = list(map(len, reading.features))
    bounds: list[float | None] = [None] * len(sizes)
    # LIME needs two words; a batch may hold a text of one.
    rows = [i for i, d in enumerate(sizes) if d > 1]
    if rows:
        games = of_documents(reading.ratio_game, rows)
        some = bound_of(games, bandwidth=settings.bandwidth, penalty=settings.penalty)
        for i, bound in zip(rows, host_array(some)[:, 0].tolist(), strict=True):
            bounds[i] = bound
    return [
        Finding(scores=row[0, :d], bound=bound, notices=(_distance(settings, bound),))
        for row, d, bound in zip(host_array(scores), sizes, bounds, strict=True)
    ]


def _distance(settings: LimeTheorem | LimeFirstOrder, bound: float | None) -> str:
    """Say what is known of the distance to LIME."""
    if bound is None:
        return "A first-order formula for LIME, which is not defined for a single feature."
    said = f"with a penalty of {settings.penalty:g}" if settings.penalty else "without a penalty"
    return (
        "A first-order formula: the bound is on its distance to the limit of LIME at bandwidth "
        f"{settings.bandwidth:g}, {said}."
    )


def _mean_field(settings: LimeMeanField, reading: Reading) -> list[Finding]:
    reading.need_logit("lime-mean-field")
    game, bandwidth = reading.ratio_game, settings.bandwidth
    return mean_field_findings(
        reading,
        lime_mean_field(game, bandwidth=bandwidth),
        lime_mean_field_bound(game, bandwidth=bandwidth),
        f"the limit of LIME at bandwidth {bandwidth:g}",
    )


_MEANT = {
    "bandwidth": "ν of the LIME that the bound is about",
    "penalty": "the ridge penalty of that LIME",
}

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
            Way(
                needs="collapses",
                exactness="bound",
                explain=_limit,
                settings={
                    "bandwidth": _BANDWIDTH,
                    "penalty": "the ridge penalty per sample",
                    "rows": "add the untouched text to that many samples, as `lime` does",
                    "tolerance": "largest error of a score, relative to the range of f",
                    "replacement": _REPLACEMENT,
                    "per_head": "also score every head alone",
                    "fit": "also compute the R² of the linear fit, which takes longer",
                },
                defaults={"tolerance": 1e-6},
            ),
            Way(
                needs=None,
                exactness="sampled",
                explain=each(regression),
                settings={
                    "samples": "masks to draw; None: five for each word, at least 1000. If there "
                    "are no more than that, or at most 1,024, all 2^d are asked instead",
                    "bandwidth": _BANDWIDTH,
                    "replacement": _REPLACEMENT,
                    "sizes": _SIZES,
                    "seed": "same seed, same scores",
                    "tolerance": _UNTIL,
                    "max_samples": "the most masks to draw",
                },
                calls=calls_of_draws,
                counted=counted_draws(),
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
            Way(
                needs=None,
                exactness="sampled",
                explain=each(regression),
                settings={
                    "samples": "masks to draw; None: five for each word, at least 1000",
                    "bandwidth": _BANDWIDTH,
                    "ridge": "the penalty of the fit",
                    "row0": "the first row is the untouched text",
                    "num_features": "words to keep; None: all",
                    "feature_selection": "how those words are chosen, as in `lime`",
                    "replacement": _REPLACEMENT,
                    "sizes": _SIZES,
                    "seed": "same seed, same scores",
                    "tolerance": _UNTIL,
                    "max_samples": "the most masks to draw",
                },
                calls=calls_of_draws,
                counted=counted_draws(),
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
        ways=(Way(needs="collapses", exactness="exact", explain=_printed, settings=_MEANT),),
    ),
    Method(
        id="lime-first-order",
        label="LIME (1st order)",
        formula="(1/K) Σ_i Σ_t [α_t(u_t − f_i) − α_{h,t}(u_{h,t} − f_i)]",
        sees="LIME where no word holds much of the attention",
        blind="peaked attention, where first order is poor",
        cost="one forward pass",
        settings=LimeFirstOrder,
        ways=(Way(needs="collapses", exactness="exact", explain=_corrected, settings=_MEANT),),
    ),
    Method(
        id="lime-mean-field",
        label="LIME (mean field)",
        formula="(A_j − B_j) ∫κ/D̄ − (a_j − b_j) ∫κN̄/D̄², κ ∝ ψ(x) x(1−x), and a common shift",
        sees="LIME where no word holds most of the attention, for any bandwidth",
        blind="which texts a word is kept in: each is taken for the mean text of its size",
        cost="one forward pass, O(d log d)",
        settings=LimeMeanField,
        ways=(
            Way(
                needs="collapses",
                exactness="exact",
                explain=_mean_field,
                settings={"bandwidth": _BANDWIDTH},
            ),
        ),
    ),
)
