"""LIME: its limit without sampling, and by regression on the answers of any model."""

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np

from limelight.errors import DomainError, InputError, nearest
from limelight.explainers.budget import DEFAULT_CALLS
from limelight.explainers.method import Counted, Method, Way
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import TargetGame, head_scores, need_logit, unseen_effects
from limelight.models import why_not
from limelight.results import Finding
from limelight.sampling import (
    SELECTIONS,
    LimeDraws,
    LimeFit,
    Sample,
    affordable,
    fitted_lime,
    lime_of_all_masks,
    text_rng,
    until,
)
from limelight.sampling.masks import SIZES
from limelight.theory.deletion import lime_under_deletion
from limelight.theory.lime import lime
from limelight.theory.lime_fit import lime_fit
from limelight.theory.lime_weights import LimeDesign, lime_design
from limelight.theory.namespace import host_array

_POOR = 0.5
_SHRUNK = 0.1
_PER_WORD = 5  # with fewer, one regression on all words wastes samples and overstates its errors


@final
@dataclass(frozen=True, kw_only=True)
class Regression:
    """How masks are drawn and fitted.

    ``samples`` rows (None: five for each word, at least 1000, at most ``max_samples``), of which
    the first is the untouched text if ``row0``; ``ridge`` is the penalty; ``num_features`` words
    are kept (None: all), by ``feature_selection``. The number of removed words is drawn in
    proportion to a power of its weight, ``sizes`` being "uniform" (0), "balanced" (½) or
    "importance" (1): the limit is the same, and which has the smallest error depends on the model
    (on the IMDB classifier "importance" costs 1.4 times the samples). With a ``tolerance``,
    sampling goes on until no standard error exceeds it or ``max_samples`` are drawn. With
    ``enumerates`` all 2^d masks are asked if they are no more than the samples, or at most 1,024:
    there is then no sampling error, and neither penalty nor row 0 nor selection.
    """

    samples: int | None
    bandwidth: float
    ridge: float
    row0: bool
    num_features: int | None
    feature_selection: str
    replacement: str
    sizes: str
    seed: int
    tolerance: float | None
    max_samples: int
    enumerates: bool

    def __post_init__(self) -> None:
        for name, least in (("samples", 2), ("max_samples", 2), ("num_features", 1), ("seed", 0)):
            if (value := getattr(self, name)) is not None and value < least:
                raise InputError(f"{name} must be at least {least}; got {value}.")
        for name in ("bandwidth", "tolerance"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise InputError(f"{name} must be positive; got {value}.")
        if not 0 <= self.ridge < np.inf:
            raise InputError(f"ridge must be finite and not negative; got {self.ridge}.")
        if self.samples is not None and self.max_samples < self.samples:
            raise InputError(
                f"max_samples must be at least samples ({self.samples}); got {self.max_samples}."
            )
        for name, known in (("feature_selection", SELECTIONS), ("sizes", SIZES)):
            if getattr(self, name) not in known:
                raise InputError(nearest(name, getattr(self, name), known))

    def calls(self, d: int) -> int:
        """Return how many masks of ``d`` features the model is asked, at least."""
        return 1 + 2**d if self._asks_all(d) else self.drawn_at_first(d) + 2 - self.row0

    def fewest_calls(self, d: int) -> int:
        """Return the calls below which the scores of ``d`` features are not surely determined."""
        sampled = (_advised(d) if self.ridge == 0 else 2) + 2 - self.row0
        return min(1 + 2**d, sampled) if self.enumerates else sampled

    def samples_in(self, calls: int, d: int) -> int:
        """Return how many samples ``calls`` allow; all masks are asked if they are no more."""
        all_masks = 2**d if self.enumerates and 1 + 2**d <= calls else 2
        return max(calls - 2 + self.row0, all_masks)

    def check_enough(self, d: int) -> None:
        """Refuse before any call what cannot end well: rows without weight, or too few of them."""
        if d > 1:
            lime_design(d, bandwidth=self.bandwidth)
        rows = self.drawn_at_first(d) if self.tolerance is None else self.max_samples
        kept = d if self.num_features is None else min(d, self.num_features)
        if self.ridge == 0 and not self._asks_all(d) and rows <= kept + 1:
            raise _undetermined(rows, kept, d)

    def _asks_all(self, d: int) -> bool:
        few = affordable(d, self.drawn_at_first(d)) and 2**d <= self.max_samples
        return self.enumerates and few

    def drawn_at_first(self, d: int) -> int:
        """Return how many rows are drawn for ``d`` features before a tolerance is looked at."""
        if self.samples is not None:
            return self.samples
        return min(max(DEFAULT_CALLS, _PER_WORD * d), self.max_samples)

    def found_in(self, one: Reading) -> Finding:
        """Score every feature by its coefficient in a weighted linear model of masked texts."""
        d = len(one.features[0])
        if d < 2:
            raise DomainError(
                f"LIME needs at least 2 distinct words; this text has {d}. Use {_instead(one)}."
            )
        self.check_enough(d)
        game = TargetGame(one, self.replacement)
        if self._asks_all(d):
            return self._enumerated(game, d)
        draws = LimeDraws(d=d, bandwidth=self.bandwidth, sizes=self.sizes)
        rng = text_rng(self.seed, one.documents[0].text)
        sample = Sample(game, draws, rng, row0=self.row0)
        fit = until(
            sample,
            partial(
                fitted_lime,
                ridge=self.ridge,
                num_features=self.num_features,
                feature_selection=self.feature_selection,
                known_range=game.known_range,
            ),
            start=self.drawn_at_first(d),
            tolerance=self.tolerance,
            most=self.max_samples,
        )
        self._check_determined(fit, d)
        return Finding(
            scores=fit.scores[0],
            stderr=fit.stderr[0],
            base_value=game.base_value,
            intercept=float(fit.intercept[0]),
            notices=(
                self._notices(fit, lime_design(d, bandwidth=self.bandwidth))
                + _unseen(fit, max(game.known_range, float(sample.range[0])))
                + game.notices
            ),
            diagnostics={
                "samples_drawn": fit.samples,
                "r2": float(fit.r2[0]),
                "intercept_stderr": float(fit.intercept_stderr[0]),
                "kept": int(fit.kept[0]),
            },
        )

    def _enumerated(self, game: TargetGame, d: int) -> Finding:
        found = lime_of_all_masks(game, d, bandwidth=self.bandwidth)
        r2 = float(found.r2[0])
        return Finding(
            scores=found.scores[0],
            base_value=game.base_value,
            intercept=float(found.intercept[0]),
            notices=_poor_fit(r2) + game.notices,
            diagnostics={"masks": 2**d, "r2": r2},
        )

    def _check_determined(self, fit: LimeFit, d: int) -> None:
        """Refuse a fit that passes through its samples: its errors would be zero, not its error."""
        if np.isfinite(fit.stderr).all():
            return
        kept = int(fit.kept[0])
        if fit.samples <= _advised(d):
            raise _undetermined(fit.samples, kept, d)
        raise DomainError(
            f"bandwidth {self.bandwidth} leaves nearly all weight on a few of {fit.samples} "
            f"samples, which do not determine the scores of {kept} words; use a larger one."
        )

    def _notices(self, fit: LimeFit, design: LimeDesign) -> tuple[str, ...]:
        notices = []
        if (kept := int(fit.kept[0])) < design.d:
            notices.append(f"LIME kept {kept} of {design.d} words; the others have no score (0).")
        shrunk = self.ridge / (self.ridge + fit.samples * design.V)
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
        worst = float(fit.stderr.max())
        if self.tolerance is not None and worst > self.tolerance:
            notices.append(
                f"After {fit.samples} samples the largest standard error is {worst:.2g}, "
                f"above the tolerance {self.tolerance:.2g}; raise max_samples."
            )
        return tuple(notices)


def _unseen(fit: LimeFit, size: float) -> tuple[str, ...]:
    return unseen_effects(
        flat=bool(fit.flat[0]),
        spike=float(fit.spike[0]),
        size=size,
        draws=fit.samples,
        same="fit one linear model",
        what="masks",
    )


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
    return (poor,) if r2 < _POOR else ()


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
