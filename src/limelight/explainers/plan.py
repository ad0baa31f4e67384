"""How many samples LIME needs on a text, before they are drawn."""

import math
from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from limelight import __version__
from limelight.errors import DomainError, InputError, nearest
from limelight.explainers.explaining import one_reading
from limelight.explainers.lime import Regression
from limelight.explainers.method import setting_value
from limelight.explainers.question import Question
from limelight.explainers.reading import Reading
from limelight.models import Model, resolved_replacement
from limelight.results.plan import SamplingPlan
from limelight.sampling.masks import SIZES
from limelight.shapes import Float
from limelight.text import Given, side_names
from limelight.theory.lime import lime
from limelight.theory.lime_variance import lime_variance
from limelight.theory.lime_weights import lime_design, size_weight
from limelight.theory.namespace import host_array
from limelight.theory.per_document import one_document

_HOLDS = (
    "It holds for words that are replaced in place ({}) and a regression on all of them: selecting "
    "words changes the errors."
)
_MOST = 1_000_000  # samples: a standard error from n of them is itself known to about 1/√(2n)


def plan(
    model: Model,
    text: Given,
    *,
    error: float = 0.01,
    target: str | int | None = None,
    against: str | int | None = None,
    features: str | Sequence[int] = "words",
    scale: str = "logit",
    protect: Collection[str] = (),
    side: str | None = None,
    window: str | int | None = None,
    bandwidth: float = 0.25,
    ridge: float = 1.0,
    row0: bool = True,
    sizes: str = "uniform",
    pilot: int = 1000,
    seed: int = 0,
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
    error, bandwidth, ridge = (
        setting_value(name, float, value)
        for name, value in (("error", error), ("bandwidth", bandwidth), ("ridge", ridge))
    )
    row0 = setting_value("row0", bool, row0)
    pilot, seed = setting_value("pilot", int, pilot), setting_value("seed", int, seed)
    _check(error, bandwidth, ridge, sizes, pilot)
    question = Question(
        target=target,
        against=against,
        features=features,
        scale=scale,
        protect=protect,
        side=side,
        window=window,
    )
    feasible = partial(_check_words, bandwidth=bandwidth)
    reading = one_reading(model, text, question, about="a plan", feasible=feasible)
    exact = reading.collapses and reading.targets.scale == "logit"
    replacement = resolved_replacement(reading.model, "auto")
    found = (
        _computed(reading, bandwidth, sizes)
        if exact
        else _piloted(reading, bandwidth, sizes, pilot, seed)
    )
    whole = float(reading.targets.value(reading.outputs)[0])
    return SamplingPlan(
        text=reading.documents[0].text,
        features=reading.features[0].strings,
        sides=side_names(reading.features[0].spans, reading.documents[0].parts),
        deviation=found.deviation,
        scores=found.scores,
        left=whole - found.intercept - float(np.sum(found.scores)),
        error=error,
        overhead=_overhead(len(reading.features[0]), bandwidth, sizes),
        pilot=None if exact else pilot,
        target=reading.targets.names()[0],
        against=reading.targets.names_against()[0],
        scale=reading.targets.scale,
        bandwidth=bandwidth,
        ridge=ridge,
        row0=row0,
        sizes=sizes,
        replacement=replacement,
        notices=(*reading.notices(0), *found.notices, _HOLDS.format(replacement)),
        model=reading.model.fingerprint,
        version=__version__,
    )


class _Limit(NamedTuple):
    """Where the regression goes, and √(n Var β̂) of every word on the way, n → ∞."""

    scores: Float[np.ndarray, " d"]
    intercept: float
    deviation: Float[np.ndarray, " d"]
    notices: tuple[str, ...] = ()


def _check(error: float, bandwidth: float, ridge: float, sizes: str, pilot: int) -> None:
    if not 0 < error < math.inf:
        raise InputError(f"error must be positive and finite; got {error}.")
    if not bandwidth > 0:
        raise InputError(f"bandwidth must be positive; got {bandwidth}.")
    if not 0 <= ridge < math.inf:
        raise InputError(f"ridge must be finite and not negative; got {ridge}.")
    if sizes not in SIZES:
        raise InputError(nearest("sizes", sizes, SIZES))
    if pilot > _MOST:
        raise InputError(
            f"a pilot has at most {_MOST:,} samples, which tell the standard errors to about 0.1%; "
            f"got {pilot:,}."
        )


def _check_words(d: int, bandwidth: float) -> None:
    if d < 2:
        raise DomainError(f"LIME needs at least 2 distinct words; this text has {d}.")
    lime_design(d, bandwidth=bandwidth)


def _computed(reading: Reading, bandwidth: float, sizes: str) -> _Limit:
    """Return what is known without sampling."""
    game = one_document(reading.ratio_game, 0)
    limit = lime(game, bandwidth=bandwidth)
    variance = lime_variance(game, bandwidth=bandwidth, power=SIZES[sizes])
    return _Limit(
        scores=host_array(limit.scores)[0],
        intercept=float(limit.intercept[0]),
        deviation=np.sqrt(host_array(variance)[0]),
    )


def _piloted(reading: Reading, bandwidth: float, sizes: str, pilot: int, seed: int) -> _Limit:
    """Return what some samples tell, with their robust standard errors."""
    d = len(reading.features[0])
    overhead = _overhead(d, bandwidth, sizes)
    if pilot < 2 * overhead:
        raise InputError(
            f"a pilot for {d} features needs at least {2 * overhead} samples; got {pilot}."
        )
    regression = Regression(
        samples=pilot,
        bandwidth=bandwidth,
        ridge=0.0,
        row0=False,
        num_features=None,
        feature_selection="none",
        replacement="auto",
        sizes=sizes,
        seed=seed,
        tolerance=None,
        max_samples=pilot,
        enumerates=False,
    )
    found = regression.found_in(reading)
    # Nothing is enumerated, so there are standard errors.
    assert found.stderr is not None and found.intercept is not None  # noqa: S101, PT018
    return _Limit(
        scores=found.scores,
        intercept=found.intercept,
        deviation=found.stderr * math.sqrt(pilot - overhead),
        notices=found.notices,
    )


def _overhead(d: int, bandwidth: float, sizes: str) -> int:
    """What a regression on d words costs: (d + 1) samples of mean weight.

    n samples of uneven weights w count as n E[w]²/E[w²] even ones.
    """
    psi = size_weight(d, bandwidth)[1:]
    drawn = psi ** SIZES[sizes]
    drawn = drawn / np.sum(drawn)
    weight = psi / drawn
    share = float(drawn @ weight) ** 2 / float(drawn @ weight**2)
    return math.ceil((d + 1) / share)
