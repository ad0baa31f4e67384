"""LIME: its limit without sampling, and by regression on the answers of any model."""

__all__ = ["ROWS", "Lime", "LimeSampled"]

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, final

from limelight.errors import InputError, nearest
from limelight.explainers.exact_games import head_scores, need_logit
from limelight.explainers.lime_regression import Regression
from limelight.explainers.method import Counted, Method, Way
from limelight.explainers.reading import Reading
from limelight.results import Finding
from limelight.sampling.masks import SIZES
from limelight.theory.deletion import lime_under_deletion
from limelight.theory.lime import lime
from limelight.theory.lime_fit import lime_fit
from limelight.theory.namespace import host_array

_POOR_FIT = 0.5
_UNKNOWN_FIT = 0.1  # an error of R² beyond which it says nothing
_BANDWIDTH = "ν, the width of the kernel; 0.25 is the `lime` package's"
_REPLACEMENT = "what stands for a removed word"
_SIZES = 'how many words a mask removes: "uniform", "balanced" (by √ψ) or "importance" (by ψ)'
_UNTIL = "keep drawing until no standard error exceeds it; None: stop at `samples`"


@final
@dataclass(frozen=True, kw_only=True)
class Lime:
    """Settings of LIME: of its exact limit, or of a regression on a model's answers."""

    bandwidth: float = 0.25
    penalty: float = 0.0
    rows: int | None = None
    tolerance: float | None = None
    replacement: str = "auto"
    per_head: bool = False
    fit: bool = False
    samples: int | None = None
    sizes: str = "balanced"
    seed: int = 0
    max_samples: int = 500_000

    def __post_init__(self) -> None:
        if not self.bandwidth > 0:
            raise InputError(f"bandwidth must be positive; got {self.bandwidth}.")
        if not self.penalty >= 0:
            raise InputError(f"penalty must not be negative; got {self.penalty}.")
        if self.replacement == "delete" and (self.per_head or self.fit):
            raise InputError("per_head and fit need replacement 'unk'; got 'delete'.")
        if self.sizes not in SIZES:
            raise InputError(nearest("sizes", self.sizes, SIZES))
        _ = self.regression  # its own checks come before any work

    @property
    def regression(self) -> Regression:
        """The regression without penalty, row 0 or selection: what the limit is the limit of."""
        return Regression(
            samples=self.samples,
            bandwidth=self.bandwidth,
            ridge=0.0,
            row0=False,
            num_features=None,
            feature_selection="none",
            replacement=self.replacement,
            sizes=self.sizes,
            seed=self.seed,
            tolerance=self.tolerance,
            max_samples=self.max_samples,
            enumerates=True,
        )

    @property
    def design(self) -> dict[str, Any]:
        """What the limit is taken of."""
        return {"bandwidth": self.bandwidth, "penalty": self.penalty, "rows": self.rows}

    @property
    def limit(self) -> dict[str, Any]:
        """What the limit is taken of, and how closely it is computed."""
        return {**self.design, "tolerance": self.tolerance}


@final
@dataclass(frozen=True, kw_only=True)
class LimeSampled:
    """Settings of LIME as the `lime` package computes it; the defaults are that package's."""

    samples: int | None = 5000
    bandwidth: float = 0.25
    ridge: float = 1.0
    row0: bool = True
    num_features: int | None = None
    feature_selection: str = "auto"
    replacement: str = "auto"
    sizes: str = "uniform"
    seed: int = 0
    tolerance: float | None = None
    max_samples: int = 500_000

    def __post_init__(self) -> None:
        _ = self.regression  # its own checks come before any work

    @property
    def regression(self) -> Regression:
        """The regression, which never enumerates: it is the package's, noise included."""
        return Regression(**asdict(self), enumerates=False)


def _limit(settings: Lime, reading: Reading) -> list[Finding]:
    """Score every feature by the coefficient to which LIME converges."""
    need_logit(reading, "lime")
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


def _by_asking(settings: Lime | LimeSampled, reading: Reading) -> list[Finding]:
    """Score every feature by a linear fit to the answers of the model."""
    return [settings.regression.found_in(one) for one in reading.apart()]


def _check_enough(settings: Lime | LimeSampled, d: int) -> None:
    settings.regression.check_enough(d)


def _calls(settings: Lime | LimeSampled, d: int) -> int:
    return settings.regression.calls(d)


def _fitted(settings: Lime | LimeSampled, d: int, calls: int) -> Lime | LimeSampled:
    samples = settings.regression.samples_in(calls, d)
    return replace(settings, samples=samples, max_samples=samples)


_COUNTED = Counted(
    lambda settings, d: settings.regression.fewest_calls(d),
    ("samples", "max_samples", "tolerance"),
    _fitted,
)


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
                explain=_by_asking,
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
                calls=_calls,
                counted=_COUNTED,
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
                explain=_by_asking,
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
                calls=_calls,
                counted=_COUNTED,
                feasible=_check_enough,
            ),
        ),
    ),
)
