"""The trial: every text and every method, a few texts at a time."""

__all__ = ["Trial", "search_all"]

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast, final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.explaining import together
from limelight.explainers.question import Question, target_indices
from limelight.explainers.reading import Reading, reading_of
from limelight.explainers.text_game import TextGame
from limelight.judging.candidates import Candidate
from limelight.judging.greedy_search import GreedySearch, searched_together
from limelight.judging.one_text import Hearing
from limelight.judging.scores_of_texts import ScoresOfTexts, scores_of_texts
from limelight.judging.tallies import Tallies
from limelight.judging.text_columns import text_columns
from limelight.judging.text_ground import text_ground
from limelight.judging.time_budget import TimeBudget
from limelight.models import CAPABILITIES, Model, Shuffles, why_not
from limelight.results.judgement import JudgedText
from limelight.sampling.masks import text_rng
from limelight.shapes import Bool, Float

_IN_FLIGHT = 32  # texts that are searched at the same time, where the model has to be asked

# A text under each replacement, or the one row that says why it could not be heard.
Case = list[Hearing] | JudgedText


@final
@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is asked of all texts, checked before any of them is read."""

    model: Model
    candidates: list[Candidate]
    tallies: Tallies  # what is kept of every text beside its areas
    question: Question  # as it is put to the model
    replacements: tuple[str, ...]  # as the methods have it, then a second one, if asked for
    columns: frozenset[str]
    curves: bool
    budget: float | None  # seconds
    seed: int

    def __post_init__(self) -> None:
        classes = self.model.classes
        target_indices(self.question.target, classes, np.zeros((1, len(classes))))
        why = why_not(self.model, "shuffles")
        if "sanity" in self.columns and why is not None:
            raise InputError(f"the column 'sanity' needs {CAPABILITIES['shuffles']}, and {why}.")

    @property
    def in_flight(self) -> int:
        """How many texts are judged together."""
        return max(together(self.model), 1 if self.exact else _IN_FLIGHT)

    @property
    def exact(self) -> bool:
        """Whether areas are sums over tables, so that nothing has to be asked."""
        # The tables' game replaces words the model's own way, and is of its outputs themselves.
        own_way = self.replacements == (self.model.replacements[0],)
        on_probabilities = self.question.scale == "probability"
        return why_not(self.model, "collapses") is None and own_way and not on_probabilities

    @cached_property
    def _twin(self) -> Model | None:
        """The model with shuffled weights, where it is wanted."""
        return cast(Shuffles, self.model).shuffled(self.seed) if "sanity" in self.columns else None

    def judged(self, texts: list[Any]) -> Iterator[list[JudgedText]]:
        """Yield every text as it is judged under each replacement, a few in memory at a time."""
        budget = TimeBudget(self.budget, len(texts))
        size = together(self.model)
        for start in range(0, len(texts), self.in_flight):
            some = texts[start : start + self.in_flight]
            cases: list[Case] = []
            for i in range(0, len(some), size):
                cases += self._cases(some[i : i + size], start + i)
            yield from self._settled(cases, budget)

    def _settled(self, cases: list[Case], budget: TimeBudget) -> Iterator[list[JudgedText]]:
        """Search on all texts together, then judge each."""
        hearings = [one for case in cases if isinstance(case, list) for one in case]
        seconds = budget.seconds(len(cases))
        with budget.spent():  # half of the time is kept for chance, which comes after
            search_all(hearings, None if seconds is None else seconds / 2)
        for case in cases:
            with budget.spent(1):
                if isinstance(case, JudgedText):
                    found = [case] * len(self.replacements)
                else:
                    seconds = budget.seconds()
                    share = None if seconds is None else seconds / len(case)
                    found = [self._text(one, share) for one in case]
            yield found

    def _text(self, hearing: Hearing, seconds: float | None) -> JudgedText:
        try:
            return hearing.text(seconds=seconds, curves=self.curves)
        except InputError as error:
            return JudgedText(id=hearing.number, reason=str(error))

    def _cases(self, texts: Sequence[Any], start: int) -> Iterator[Case]:
        """Read texts together; where one of them cannot be read, each by itself."""
        try:
            found = reading_of(self.model, texts, self.question)
        except InputError as error:
            if len(texts) == 1:
                yield JudgedText(id=start, reason=str(error))
                return
            for i, text in enumerate(texts):
                yield from self._cases([text], start + i)
            return
        targets, two = found.targets, found.outputs.shape[1] == 2
        if self.question.scale == "logit" and self.model.link == "softmax" and two:
            targets = replace(targets, against=1 - targets.index)  # the log-odds of the class
        reading = replace(found, targets=targets)
        again = "stability" in self.columns
        scored = scores_of_texts(self.candidates, reading, again=again, twin=self._twin)
        for i, one in enumerate(reading.apart()):
            self.tallies.see(start + i, one, *scored.given(i))
            yield self._case(start + i, one, i, reading, scored)

    def _case(
        self, number: int, one: Reading, i: int, reading: Reading, scored: ScoresOfTexts
    ) -> Case:
        own = [scores[i] for scores in scored.scores]
        try:
            grounds = [
                text_ground(one, replacement=name, seed=self.seed, among=(reading, i))
                for name in self.replacements
            ]
            columns = text_columns(
                self.columns,
                one,
                grounds[0],
                scored.of_text(i),
                signed=[candidate.signed for candidate in self.candidates],
                replacement=self.replacements[0],
                rng=text_rng(self.seed + 1, one.documents[0].text),
            )
        except InputError as error:
            return JudgedText(id=number, reason=str(error))
        first, *others = (Hearing(number, one, ground, self.candidates, own) for ground in grounds)
        return [replace(first, columns=columns), *others]


def search_all(hearings: list[Hearing], seconds: float | None) -> None:
    """Search on all texts at once, for as long as there is time."""
    going: dict[GreedySearch, Hearing] = {}
    for one in hearings:
        try:
            search = one.search
        except InputError:  # it is said when the text is judged, which asks the same again
            continue
        if search is not None:
            going[search] = one

    def ask(
        some: Sequence[GreedySearch], masks: Sequence[Bool[np.ndarray, "_ _d"]]
    ) -> list[Float[np.ndarray, " _"] | InputError]:
        asked = [(going[search], mask) for search, mask in zip(some, masks, strict=True)]
        games = [(one.ground.asks, mask) for one, mask in asked if one.ground.asks is not None]
        TextGame.ask_ahead([game for game, _ in games], [mask for _, mask in games])
        return [one.answers(mask) for one, mask in asked]

    searched_together(list(going), ask, seconds=seconds)
