"""The trial: every text and every method, a few texts at a time."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast, final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.explaining import together
from limelight.explainers.reading import Reading, has_exact_game, reading_of
from limelight.explainers.text_game import TextGame
from limelight.judging.agreement import Tallies
from limelight.judging.areas import Areas, Frame, Ground, Judged, Level, text_ground
from limelight.judging.candidates import Candidate, Scored, ScoresOfTexts, scores_of_texts
from limelight.judging.columns import text_columns
from limelight.judging.orders import (
    GreedySearch,
    Groups,
    flat,
    searched_together,
    tied,
    tied_groups,
)
from limelight.models import CAPABILITIES, Model, Shuffles, why_not
from limelight.question import Question, target_indices
from limelight.results.judgement import JudgedText, Measure, RemovalCurve, TextColumn
from limelight.sampling.masks import text_rng
from limelight.shapes import Bool, Float
from limelight.text import side_names, with_sides
from limelight.text.characters import LONE_SURROGATE

_NOTHING = 1e-9  # of the explained number: less room than this is rounding
_MOST_WORDS = 2**16  # whose places a stored curve can count


@final
@dataclass(frozen=True, eq=False)
class Hearing:
    """A text on its ground, with the scores of every candidate, or reasons why there are none."""

    number: int
    one: Reading
    ground: Ground
    candidates: Sequence[Candidate]
    scored: Sequence[Scored]
    columns: tuple[TextColumn, ...] = ()

    @cached_property
    def groups(self) -> list[Groups | None]:
        """The order of each candidate, tied words together; None where it has no scores."""
        return [
            None if isinstance(scores, str) else tied_groups(scores, signed=candidate.signed)
            for candidate, scores in zip(self.candidates, self.scored, strict=True)
        ]

    @cached_property
    def areas(self) -> list[Areas | None]:
        """The areas of each candidate."""
        found = iter(self.ground.areas([own for own in self.groups if own is not None]))
        return [None if own is None else next(found) for own in self.groups]

    @cached_property
    def judged(self) -> list[Judged]:
        """The orders that there are."""
        rows = zip(self.candidates, self.groups, self.areas, strict=True)
        return [
            Judged(candidate.name, groups, areas)
            for candidate, groups, areas in rows
            if groups is not None and areas is not None
        ]

    @cached_property
    def search(self) -> GreedySearch | None:
        """The search for a good order, to be run before the text is judged."""
        return self.ground.search(self.judged)

    def answers(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"] | InputError:
        """Return the answers to a question of the search, or what the model says instead."""
        try:
            return self.ground.values(masks)
        except InputError as error:
            return error

    def text(self, *, seconds: float | None, curves: bool) -> JudgedText:
        """Return the text as it was judged; ``seconds`` are those for chance."""
        if self.search is not None and self.search.refused is not None:
            raise self.search.refused
        unsigned = any(
            areas and not candidate.signed
            for areas, candidate in zip(self.areas, self.candidates, strict=True)
        )
        frame = self.ground.frame(self.judged, self.search, change=unsigned, seconds=seconds)
        (target,) = self.one.targets.names()
        return JudgedText(
            id=self.number,
            d=self.ground.d,
            target=target,
            full=self.ground.full,
            ceiling_kind=frame.kind,
            best=frame.best,
            greedy=frame.greedy,
            has_room=_has_room(frame.deletion, self.ground.full),
            **self._measures(frame),
            ties=tuple(0 if own is None else tied(own) for own in self.groups),
            notices=self.ground.notices,
            reasons=tuple(s if isinstance(s, str) else None for s in self.scored),
            columns=self.columns,
            words=self._words() if curves else (),
            curves=self._curves() if curves else (),
        )

    def _measures(self, frame: Frame) -> dict[str, Any]:
        levels = {
            "deletion": frame.deletion,
            "insertion": frame.insertion,
            "change": frame.change,
        }
        return {
            name: None if level is None else self._measure(level, name)
            for name, level in levels.items()
        }

    def _measure(self, level: Level, name: str) -> Measure:
        return Measure(
            chance=level.chance,
            stderr=level.stderr,
            ceiling=level.ceiling,
            areas=tuple(None if own is None else float(getattr(own, name)) for own in self.areas),
        )

    def _words(self) -> tuple[str, ...]:
        """Return the words as a file can hold them."""
        (features,), (document,) = self.one.features, self.one.documents
        names = with_sides(features.strings, side_names(features.spans, document.parts))
        return tuple(LONE_SURROGATE.sub("\ufffd", name) for name in names)

    def _curves(self) -> tuple[RemovalCurve | None, ...]:
        """Return the curve of one order of each method: of tied words, the first there is."""
        orders = [flat(own) for own in self.groups if own is not None]
        if not orders or self.ground.d > _MOST_WORDS:
            return (None,) * len(self.groups)
        drawn = np.array(orders)
        made = iter(map(RemovalCurve.of, drawn, self.ground.curves(drawn)))
        return tuple(None if own is None else next(made) for own in self.groups)


def _has_room(level: Level, full: float) -> bool:
    room = level.ceiling - level.chance
    return room > max(_NOTHING * (1 + abs(full)), 2 * (level.stderr or 0.0))


@final
class TimeBudget:
    """Deals a budget out: each text gets its share of what is left; None is without end."""

    def __init__(self, budget: int | float | None, texts: int) -> None:
        self._left, self._texts = budget, texts

    def seconds(self, texts: int = 1) -> float | None:
        """Return the time for the next ``texts`` texts."""
        return None if self._left is None else self._left * texts / max(self._texts, texts)

    @contextmanager
    def spent(self, texts: int = 0) -> Iterator[None]:
        """Count the time of a block, after which ``texts`` texts are done."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._texts -= texts
            if self._left is not None:
                self._left = max(0.0, self._left - (time.monotonic() - start))


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
        return own_way and has_exact_game(self.model, self.question.scale)

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
