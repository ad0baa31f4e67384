"""How many samples LIME needs on a text, before they are drawn."""

__all__ = ["plan"]

import math
from collections.abc import Collection, Sequence
from functools import partial

import numpy as np

from limelight import __version__
from limelight.errors import DomainError, InputError, nearest
from limelight.explainers.lime_regression import Regression
from limelight.explainers.method import setting_value
from limelight.explainers.question import Question
from limelight.explainers.reading import Reading
from limelight.explainers.readings import one_reading
from limelight.models import Model, resolved_replacement
from limelight.results.sampling_plan import SamplingPlan
from limelight.sampling.masks import SIZES
from limelight.shapes import Float
from limelight.text import Given
from limelight.theory.lime_variance import lime_variance
from limelight.theory.lime_weights import lime_design, size_weight
from limelight.theory.namespace import host_array
from limelight.theory.per_document import one_document

_HOLDS = (
    "It holds for words that are replaced in place ({}), for a regression on all of them, and for "
    "a penalty that is small beside the samples: selecting words changes the errors."
)
_ALL = "It holds for a regression on all words: selecting some changes the errors."


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
    sizes: str = "uniform",
    pilot: int = 1000,
    seed: int = 0,
) -> SamplingPlan:
    """Return how many samples LIME needs on ``text`` for a standard error of ``error``.

    For a model that collapses into tables, on the logit, the standard errors are computed exactly,
    before any sample is drawn; for any other they are estimated from ``pilot`` samples, drawn with
    ``seed``. The regression is that of ``lime-sampled`` on all words, with ``bandwidth`` ν and with
    ``sizes`` drawn "uniform"ly (the `lime` package), "balanced" or by "importance". The other
    arguments are those of :func:`limelight.explain`.
    """
    for name, kind, value in (
        *(("error", float, error), ("bandwidth", float, bandwidth)),
        *(("pilot", int, pilot), ("seed", int, seed)),
    ):
        setting_value(name, kind, value)
    _check(error, bandwidth, sizes)
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
    deviation, notices = (
        (_computed(reading, bandwidth, sizes), (_HOLDS.format(replacement),))
        if exact
        else _piloted(reading, bandwidth, sizes, pilot, seed)
    )
    return SamplingPlan(
        text=reading.documents[0].text,
        features=reading.features[0].strings,
        deviation=deviation,
        error=error,
        overhead=_overhead(len(reading.features[0]), bandwidth, sizes),
        pilot=None if exact else pilot,
        target=reading.targets.names()[0],
        against=reading.targets.names_against()[0],
        scale=reading.targets.scale,
        bandwidth=bandwidth,
        sizes=sizes,
        replacement=replacement,
        notices=reading.notices(0) + notices,
        model=reading.model.fingerprint,
        version=__version__,
    )


def _check(error: float, bandwidth: float, sizes: str) -> None:
    if not 0 < error < math.inf:
        raise InputError(f"error must be positive and finite; got {error}.")
    if not bandwidth > 0:
        raise InputError(f"bandwidth must be positive; got {bandwidth}.")
    if sizes not in SIZES:
        raise InputError(nearest("sizes", sizes, SIZES))


def _check_words(d: int, bandwidth: float) -> None:
    if d < 2:
        raise DomainError(f"LIME needs at least 2 distinct words; this text has {d}.")
    lime_design(d, bandwidth=bandwidth)


def _computed(reading: Reading, bandwidth: float, sizes: str) -> Float[np.ndarray, " d"]:
    """√(n Var β̂) of every word, n → ∞, without sampling."""
    game = one_document(reading.ratio_game, 0)
    variance = lime_variance(game, bandwidth=bandwidth, power=SIZES[sizes])
    return np.sqrt(host_array(variance)[0])


def _piloted(
    reading: Reading, bandwidth: float, sizes: str, pilot: int, seed: int
) -> tuple[Float[np.ndarray, " d"], tuple[str, ...]]:
    """The same from the robust standard errors of some samples."""
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
    assert found.stderr is not None  # noqa: S101 (nothing is enumerated)
    return found.stderr * math.sqrt(pilot - overhead), (*found.notices, _ALL)


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
