"""How often a model will be asked, and how long that takes: said before, and as it goes on."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.explainers.explaining import Progress
from limelight.explainers.reading import Reading, reading_of
from limelight.explainers.text_game import TextGame
from limelight.judging.areas import read_at
from limelight.judging.orders import EVERY_WORD, STEPS
from limelight.judging.trial import Trial
from limelight.results.judgement import JudgedText
from limelight.sampling import watched

_TRIED = 8  # texts, whose numbers of words stand for all
_QUESTIONS = 32  # asked to see how long one takes
_GRAIN = 1e-6  # seconds that a clock may not see
_ORDERS = 48  # that chance takes, as a rule
_SETS = 256  # of words, which additivity asks about


class Foreseen(NamedTuple):
    """Questions to the model, and seconds; a text under one mask is one question."""

    questions: int
    seconds: float

    def __str__(self) -> str:
        return f"about {_rounded(self.questions)} questions to the model, {_long(self.seconds)}"


def foreseen(trial: Trial, texts: list[Any]) -> Foreseen | None:
    """Return what judging ``texts`` will take, from a few of them; None where nothing is asked."""
    if trial.exact and not any(one.asks and one.asks(10) for one in trial.candidates):
        return None
    tried = list(_tried(trial, texts))
    if not tried:
        return None
    sizes = [len(one.features[0]) for one in tried]
    counts = np.mean([_questions(trial, d) for d in sizes], axis=0) * len(texts)
    needed, search = counts.tolist()
    cost = _seconds_of_one(tried[0].game(trial.replacements[0]))
    if trial.budget is not None:  # it ends the search, and nothing else
        search = min(search, trial.budget / cost)
    return Foreseen(round(needed + search), (needed + search) * cost)


def _tried(trial: Trial, texts: list[Any]) -> Iterator[Reading]:
    """Yield a few of the texts, evenly spread; one that cannot be read will be a row of its own."""
    for place in np.unique(np.linspace(0, len(texts) - 1, _TRIED).round().astype(int)):
        with contextlib.suppress(InputError):
            yield reading_of(trial.model, [texts[place]], trial.question)


def _seconds_of_one(game: TextGame) -> float:
    rng, d = np.random.default_rng(0), len(game)
    game(rng.random((2, d)) < 0.5)  # the first question of all pays for what is set up
    masks = rng.random((_QUESTIONS, d)) < rng.random((_QUESTIONS, 1))
    start = time.perf_counter()
    game(masks)
    return max(time.perf_counter() - start, _GRAIN) / _QUESTIONS


def _questions(trial: Trial, d: int) -> tuple[int, int]:
    """Return how often the model must be asked about ``d`` words, and how often to search."""
    explained = sum(
        one.asks(d) * (1 + ("stability" in trial.columns and one.again is not None))
        for one in trial.candidates
        if one.asks is not None
    )
    grounds = len(trial.replacements) if not trial.exact else 0
    needed = (1 + ("sanity" in trial.columns)) * explained
    needed += (_SETS if "additivity" in trial.columns else 0) + d * ("loo_tau" in trial.columns)
    needed += 20 * len(trial.candidates) * len({"eraser", "ferret"} & trial.columns)
    needed += grounds * 2 * len(trial.candidates) * len(read_at(d))  # the curves of the methods
    most = 2 ** min(d, 60)  # answers are remembered, and there are no more of them
    needed = min(needed, most)
    return needed, min(grounds * _search(d), most - needed)


def _search(d: int) -> int:
    """Return how often greedy search and chance ask about ``d`` words."""
    steps = d if d <= EVERY_WORD else STEPS
    return (2 + _ORDERS) * len(read_at(d)) + (d + 1) * steps // 2


def metered_trial(
    trial: Trial, texts: list[Any], progress: Progress | None
) -> Iterator[list[JudgedText]]:
    """Yield the texts as they are judged; ``progress`` hears of parts of those in flight."""
    meter = None if progress is None else _Meter(progress, trial, texts)
    judged = trial.judged(texts)
    done = 0
    while True:
        with watched(meter) if meter is not None else contextlib.nullcontext():
            found = next(judged, None)
        if found is None:
            return
        done += 1
        if meter is not None:
            meter.finished(done)
        yield found


class _Meter:
    """Turns answers into the number of texts done."""

    def __init__(self, progress: Progress, trial: Trial, texts: list[Any]) -> None:
        self._progress, self._trial, self._total = progress, trial, len(texts)
        self._done, self._answers, self._said = 0, 0.0, 0.0
        sizes = [] if trial.exact else [len(one.features[0]) for one in _tried(trial, texts)]
        self._of_a_text = (
            float(np.mean([sum(_questions(trial, d)) for d in sizes])) if sizes else 1.0
        )

    def expect(self, masks: int | float) -> None:
        """Hear that more will be asked; what a text takes in all is known from those before."""

    def answered(self, masks: int | float) -> None:
        self._answers += masks
        flight = min(self._trial.in_flight, self._total - self._done)
        if not self._trial.exact and flight > 0:
            share = min(self._answers / (self._of_a_text * flight), 0.99)
            self._say(self._done + flight * share)

    def finished(self, done: int) -> None:
        """Hear that a text is done."""
        if done % self._trial.in_flight == 0 or done == self._total:
            self._done, self._answers = done, 0.0
        self._say(done)

    def _say(self, done: int | float) -> None:
        if done >= self._said:  # a bar never runs backwards
            self._said = float(done)
            self._progress(done, self._total)


def _rounded(count: int) -> str:
    """Return a number with two digits that count: 610,000 for 613,482."""
    digits = max(len(str(count)) - 2, 0)
    return f"{round(count, -digits):,}"


def _long(seconds: float) -> str:
    """Return a length of time in the unit that one would say."""
    for unit, size in (("hour", 3600.0), ("minute", 60.0)):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.0f} {unit}s"
    return f"about {max(round(seconds), 1)} second{'s' * (round(seconds) > 1)}"
