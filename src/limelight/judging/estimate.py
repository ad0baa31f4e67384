"""How often a model will be asked, and how long that takes: said before, and as it goes on."""

import contextlib
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.explainers.batch import Batch, reading_of
from limelight.judging.removals import EVERY_WORD, STEPS, read_at
from limelight.judging.texts import Outcome, Setup
from limelight.models import Model
from limelight.models.text_game import TextGame
from limelight.progress import Estimate, ProgressCallback, ProgressTracker
from limelight.request import Request

_TRIED = 8  # texts, whose numbers of words stand for all
_QUESTIONS = 32  # asked to see how long one takes
_GRAIN = 1e-6  # seconds that a clock may not see
_ORDERS = 48  # that chance takes, as a rule
_SETS = 256  # of words, which additivity and lds ask about


def estimated(setup: Setup, texts: list[Any]) -> Estimate | None:
    """Return what judging ``texts`` will take, from a few of them; None where nothing is asked."""
    if setup.has_exact_game and not any(one.asks and one.asks(10) for one in setup.candidates):
        return None
    tried = list(tried_readings(setup.model, texts, setup.request))
    if not tried:
        return None
    counts = [_questions(setup, len(one.features[0])) for one in tried]
    needed, search = (np.mean(counts, axis=0) * len(texts)).tolist()
    # Of one text: asking a few of each would cost what the estimate is there to spare.
    cost = seconds_of_one(tried[0].game(setup.replacements[0]))
    if setup.budget is not None:  # it ends the search, and nothing else
        search = min(search, setup.budget / cost)
    return Estimate.from_calls(round(needed + search), (needed + search) * cost)


def tried_readings(model: Model, texts: list[Any], request: Request) -> Iterator[Batch]:
    """Yield a few of the texts, evenly spread; one that cannot be read will be a row of its own."""
    for place in np.unique(np.linspace(0, len(texts) - 1, _TRIED).round().astype(int)):
        with contextlib.suppress(InputError):
            yield reading_of(model, [texts[place]], request)


def seconds_of_one(game: TextGame) -> float:
    """Return how long a question takes, from a few that are asked together."""
    rng, d = np.random.default_rng(0), len(game)
    game(rng.random((2, d)) < 0.5)  # the first question of all pays for what is set up
    # Of all sizes: masks that delete words make short texts, which are cheaper.
    masks = rng.random((_QUESTIONS, d)) < rng.random((_QUESTIONS, 1))
    start = time.perf_counter()
    game(masks)
    return max(time.perf_counter() - start, _GRAIN) / _QUESTIONS


def _questions(setup: Setup, d: int) -> tuple[int, int]:
    """Return how often the model must be asked about ``d`` words, and how often to search."""
    explained = sum(
        one.asks(d) * (1 + ("stability" in setup.columns and one.again is not None))
        for one in setup.candidates
        if one.asks is not None
    )
    curves = len(setup.replacements) if not setup.has_exact_game else 0
    needed = (1 + ("sanity" in setup.columns)) * explained
    needed += _SETS * len({"additivity", "lds"} & setup.columns) + d * ("loo_tau" in setup.columns)
    # At most ten sets of words of each method, each once without them and once without the others.
    needed += 20 * len(setup.candidates) * len({"eraser", "ferret"} & setup.columns)
    needed += 3 * len(setup.candidates) * ("top_drop" in setup.columns)
    # Twice: an order removes words strongest first, and weakest first for insertion.
    needed += curves * 2 * len(setup.candidates) * len(read_at(d))  # the curves of the methods
    most = 2 ** min(d, 60)  # answers are remembered, and there are no more of them
    needed = min(needed, most)
    # Chance, and greedy search, which asks about every word that is left.
    steps = d if d <= EVERY_WORD else STEPS
    search = (2 + _ORDERS) * len(read_at(d)) + (d + 1) * steps // 2
    return needed, min(curves * search, most - needed)


def track_outcomes(setup: Setup, texts: list[Any], callback: ProgressCallback) -> list[Outcome]:
    """Judge the texts, and report parts of them to ``callback``."""
    outcomes, judged = setup.outcomes(texts), list[Outcome]()
    calls = 0.0  # where areas are sums, texts are too quick for parts
    if not setup.has_exact_game:
        tried = tried_readings(setup.model, texts, setup.request)
        counts = [sum(_questions(setup, len(batch.features[0]))) for batch in tried]
        calls = float(np.mean(counts or [1]))
    # The expected calls may be too few, and a bar that runs backwards tells nobody anything.
    tracker = ProgressTracker(callback, total=len(texts), estimated=True)
    for start in range(0, len(texts), setup.in_flight):
        together = min(setup.in_flight, len(texts) - start)
        with tracker.track(start, texts=together, calls=calls * together):
            for outcome in islice(outcomes, together):
                judged.append(outcome)
                tracker.report(len(judged))
    return judged
