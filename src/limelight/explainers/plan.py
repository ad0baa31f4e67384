"""How many samples LIME needs on a text, before they are drawn."""

import math
from dataclasses import replace
from functools import partial
from typing import Annotated, Unpack, final

import numpy as np

from limelight import __version__
from limelight.errors import DomainError, InputError
from limelight.explainers.explaining import one_reading
from limelight.explainers.lime import LimeSampled, regression
from limelight.explainers.method import Range, made, settings_class
from limelight.explainers.reading import Reading
from limelight.models import Model, resolved_replacement
from limelight.question import Asked, question_of, spelled_out
from limelight.results import Finding
from limelight.results.plan import SamplingPlan
from limelight.sampling.masks import SIZES
from limelight.text import Given, side_names
from limelight.theory.lime import lime
from limelight.theory.lime_variance import lime_variance
from limelight.theory.lime_weights import lime_design, size_weight
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import one_document

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
    within: _Within = made(_Within, error=error, pilot=pilot)
    settings = {"bandwidth": bandwidth, "ridge": ridge, "row0": row0, "sizes": sizes, "seed": seed}
    planned: LimeSampled = made(LimeSampled, **settings)
    reading = one_reading(
        model,
        text,
        question_of("plan", asked),
        about="a plan",
        feasible=partial(_check_words, bandwidth=planned.bandwidth),
    )
    overhead, exact = _overhead(len(reading.features[0]), planned), reading.exact
    found = (
        _computed(reading, planned) if exact else _piloted(reading, planned, within.pilot, overhead)
    )
    # Nothing is enumerated, so there are standard errors.
    assert found.stderr is not None and found.intercept is not None  # noqa: S101, PT018
    replacement = resolved_replacement(reading.model, "auto")
    whole = float(reading.targets.value(reading.outputs)[0])
    return SamplingPlan(
        text=reading.documents[0].text,
        features=reading.features[0].strings,
        sides=side_names(reading.features[0].spans, reading.documents[0].parts),
        deviation=found.stderr,
        scores=found.scores,
        left=whole - found.intercept - float(np.sum(found.scores)),
        error=within.error,
        overhead=overhead,
        pilot=None if exact else within.pilot,
        target=reading.targets.names()[0],
        against=reading.targets.names_against()[0],
        scale=reading.targets.scale,
        bandwidth=planned.bandwidth,
        ridge=planned.ridge,
        row0=planned.row0,
        sizes=planned.sizes,
        replacement=replacement,
        notices=(*reading.notices(0), *found.notices, _HOLDS.format(replacement)),
        model=reading.model.fingerprint,
        version=__version__,
    )


@final
@settings_class
class _Within:
    """How far ``lime-sampled`` on all words may be off, and how many samples may tell that."""

    error: Annotated[float, Range(lambda x: 0 < x < math.inf, "be positive and finite")]
    pilot: int

    def __post_init__(self) -> None:
        if self.pilot > _MOST:
            raise InputError(
                f"a pilot has at most {_MOST:,} samples, which tell the standard errors to about "
                f"0.1%; got {self.pilot:,}."
            )


def _check_words(d: int, bandwidth: float) -> None:
    if d < 2:
        raise DomainError(f"LIME needs at least 2 features; this text has {d}.")
    lime_design(d, bandwidth=bandwidth)


def _computed(reading: Reading, planned: LimeSampled) -> Finding:
    """Return where the regression goes, and √(n Var β̂) of every word on the way, n → ∞."""
    game = one_document(reading.ratio_game, 0)
    limit = lime(game, bandwidth=planned.bandwidth)
    variance = lime_variance(game, bandwidth=planned.bandwidth, power=SIZES[planned.sizes])
    return Finding(
        scores=host_array(limit.scores)[0],
        intercept=float(limit.intercept[0]),
        stderr=np.sqrt(host_array(variance)[0]),
    )


def _piloted(reading: Reading, planned: LimeSampled, pilot: int, overhead: int) -> Finding:
    """Return what some samples tell of the same, with their robust standard errors."""
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
