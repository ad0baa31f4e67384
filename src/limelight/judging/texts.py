"""Texts as they are judged: read, scored by every candidate, searched, and put between bounds."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from limelight.errors import InputError
from limelight.explainers.batch import Batch, reading_of
from limelight.explainers.explaining import together
from limelight.judging.candidates import Candidate, ScoredText, scored_texts
from limelight.judging.measures import TextAgreement, text_agreement, text_columns
from limelight.judging.plausibility import Rationales, marked_text
from limelight.judging.removals import (
    ExactRemovals,
    GreedySearch,
    JudgedOrder,
    Removals,
    flat,
    removals_of,
    tied,
    tied_groups,
)
from limelight.models import Capable, Model, class_probabilities, require
from limelight.models.protocol import has_exact_game
from limelight.models.text_game import TextGame
from limelight.request import Request, target_indices
from limelight.results.judgment import JudgedText, MarkedText, Measure, RemovalCurve, TextColumn
from limelight.sampling.masks import text_rng
from limelight.text import side_names, with_sides
from limelight.text.characters import LONE_SURROGATE
from limelight.threads import cached_property

_NOTHING = 1e-9  # of the explained number: less room than this is rounding
_MOST_WORDS = 2**16  # whose places a stored curve can count
_IN_FLIGHT = 32  # texts that are searched at the same time, where the model has to be asked


@dataclass(frozen=True, eq=False)
class SearchedText:
    """A scored text under one way to replace words: the order of each candidate, and a search."""

    scored: ScoredText
    removals: Removals
    columns: dict[str, TextColumn] = field(default_factory=dict)

    @cached_property
    def orders(self) -> list[JudgedOrder]:
        """The order of each candidate that has scores, tied words together."""
        names = [self.scored.candidates[i].name for i, _, _ in self.scored.rows]
        groups = [tied_groups(own, signed=signed) for _, own, signed in self.scored.rows]
        return list(map(JudgedOrder, names, groups, self.removals.areas(groups)))

    @cached_property
    def search(self) -> GreedySearch | ExactRemovals:
        """The search for a good order, to be run before the text is judged, if there is any."""
        return self.removals.search(self.orders)

    def text(self, *, seconds: float, curves: bool) -> JudgedText:
        """Return the text as it was judged; ``seconds`` are those for chance."""
        if self.search.refused is not None:
            raise self.search.refused
        scored, names = self.scored, [one.name for one in self.scored.candidates]
        unsigned = not all(signed for *_, signed in scored.rows)
        found = self.search.levels(change=unsigned, seconds=seconds)
        measures: dict[str, Any] = {}
        for name, (chance, stderr, ceiling) in found.of.items():
            areas = scored.by_name(getattr(own.areas, name) for own in self.orders)
            measures[name] = Measure(chance=chance, stderr=stderr, ceiling=ceiling, areas=areas)
        # A file has those of deletion in the text itself, the first measure that there was.
        deletion = measures.pop("deletion")
        why_none = zip(names, scored.scores, strict=True)
        return JudgedText(
            id=scored.number,
            d=self.removals.d,
            target=scored.one.targets.names()[0],
            full=self.removals.full,
            ceiling_kind=found.ceiling_kind,
            best=found.best,
            greedy=found.greedy,
            has_room=_has_room(deletion, self.removals.full),
            **msgspec.structs.asdict(deletion),
            **measures,
            # 0 also for a method without scores.
            ties=dict.fromkeys(names, 0) | scored.by_name(tied(own.groups) for own in self.orders),
            reasons={name: said for name, said in why_none if isinstance(said, str)},
            notices=self.removals.notices,
            columns=self.columns,
            words=self._words() if curves else (),
            curves=self._curves() if curves else {},
        )

    def _words(self) -> tuple[str, ...]:
        """Return the words as a file can hold them."""
        (features,), (model_input,) = self.scored.one.features, self.scored.one.inputs
        names = features.strings
        if model_input.parts:
            names = with_sides(names, side_names(features.spans, model_input.parts))
        return tuple(LONE_SURROGATE.sub("\ufffd", name) for name in names)

    def _curves(self) -> dict[str, RemovalCurve]:
        """Return the curve of one order of each method: of tied words, the first there is."""
        if not self.orders or self.removals.d > _MOST_WORDS:
            return {}
        drawn = np.array([flat(order.groups) for order in self.orders])
        return self.scored.by_name(map(RemovalCurve.of, drawn, self.removals.curves(drawn)))


def _has_room(found: Measure, full: float) -> bool:
    room = found.ceiling - found.chance
    # Where chance is sampled, room within two of its standard errors may be none at all.
    return room > max(_NOTHING * (1 + abs(full)), 2 * (found.stderr or 0.0))


def search_together(texts: Sequence[SearchedText], seconds: float) -> None:
    """Take the next step of every search, all in one question, as long as there is time."""
    going: list[GreedySearch] = []
    for one in texts:
        # A refusal is said when the text is judged, which asks the same again.
        with suppress(InputError):
            if isinstance(one.search, GreedySearch):
                going.append(one.search)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not (going := [one for one in going if not one.finished and one.refused is None]):
            return
        # One step of all texts is one question: a search asks few masks at a time, too few for a
        # device.
        asked = [search.masks() for search in going]
        TextGame.ask_ahead([search.removals.game.of_outputs for search in going], asked)
        for search, masks in zip(going, asked, strict=True):
            try:
                search.choose(search.removals.values(masks))
            except InputError as error:
                search.refused = error


class Outcome(NamedTuple):
    """What was found on one text: a row under each replacement, and what its scores say beside.

    ``searched`` is the text under each replacement before it is judged; none where it was refused.
    ``marked`` is None where there are no rationales; ``cut`` tells that the model does not read
    the text to its end; ``predicted`` is the number of the class that the model gives it.
    """

    texts: list[JudgedText]
    searched: Sequence[SearchedText] = ()
    agreement: TextAgreement | None = None
    marked: MarkedText | None = None
    cut: bool = False
    predicted: int | None = None


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What is asked of all texts, checked before any of them is read."""

    model: Capable  # with shuffle_weights if there is a column 'sanity'
    candidates: list[Candidate]
    request: Request  # as it is put to the model
    replacements: tuple[str, ...]  # as the methods have it, then a second one, if asked for
    columns: frozenset[str]
    rationales: Rationales | None
    curves: bool
    budget: float | None  # seconds
    seed: int

    def __post_init__(self) -> None:
        classes = self.model.classes
        # A class that the model does not have is refused here, before the first text costs
        # anything.
        target_indices(self.request.target, classes, np.zeros((1, len(classes))))
        if "sanity" in self.columns:
            require(self.model, "shuffle_weights", "the column 'sanity'")

    @property
    def in_flight(self) -> int:
        """How many texts are judged together."""
        # More would hold more answers in memory, and 32 searches fill the batches of a device.
        return max(together(self.model), 1 if self.has_exact_game else _IN_FLIGHT)

    @property
    def has_exact_game(self) -> bool:
        """Whether areas are sums over tables, so that nothing has to be asked."""
        name, *others = self.replacements
        return not others and has_exact_game(self.model, self.request.scale, name)

    @cached_property
    def _twin(self) -> Model | None:
        """The model with shuffled weights, where it is wanted."""
        if "sanity" not in self.columns:
            return None
        return self.model.shuffle_weights(self.seed)

    def outcomes(self, texts: list[Any]) -> Iterator[Outcome]:
        """Yield what is found on every text, a few in memory at a time."""
        # What one text leaves of the time is for those that follow; a budget per text would be lost
        # on short ones.
        left, to_come = math.inf if self.budget is None else self.budget, len(texts)
        size = together(self.model)
        for start in range(0, len(texts), self.in_flight):
            end = min(start + self.in_flight, len(texts))
            prepared = [
                one
                for i in range(start, end, size)
                for one in self._prepared(texts[i : min(i + size, end)], i)
            ]
            begun = time.monotonic()
            every = [one for outcome in prepared for one in outcome.searched]
            # Half of the time is kept for chance, which comes after.
            search_together(every, left * len(prepared) / to_come / 2)
            left -= time.monotonic() - begun
            for outcome in prepared:
                begun = time.monotonic()
                seconds = max(left, 0.0) / to_come / len(self.replacements)
                found = [self._text(one, seconds) for one in outcome.searched]
                left, to_come = left - (time.monotonic() - begun), to_come - 1
                # Answers that a search remembers go with it: 32 texts of them are held at a time,
                # not all.
                yield outcome._replace(texts=found or outcome.texts, searched=())

    def _text(self, one: SearchedText, seconds: float) -> JudgedText:
        try:
            return one.text(seconds=seconds, curves=self.curves)
        except InputError as error:
            return JudgedText(id=one.scored.number, reason=str(error))

    def _refused(self, number: int, error: InputError) -> list[JudgedText]:
        return [JudgedText(id=number, reason=str(error))] * len(self.replacements)

    def _prepared(self, texts: Sequence[Any], start: int) -> Iterator[Outcome]:
        """Read texts together; where one of them cannot be read, each by itself."""
        try:
            # Together where it works: reading is a forward pass, and a text that fails is found
            # afterwards.
            batch = reading_of(self.model, texts, self.request)
        except InputError as error:
            if len(texts) > 1:
                for i, text in enumerate(texts):
                    yield from self._prepared([text], start + i)
                return
            marked = None if self.rationales is None else MarkedText(id=start, reason=str(error))
            yield Outcome(self._refused(start, error), marked=marked)
            return
        again = "stability" in self.columns
        twin = self._twin
        scored = scored_texts(self.candidates, batch, start=start, again=again, twin=twin)
        for i, text in enumerate(scored):
            yield self._of_one(text, among=(batch, i))

    def _of_one(self, text: ScoredText, *, among: tuple[Batch, int]) -> Outcome:
        one = text.one
        outcome = Outcome(
            [],
            agreement=text_agreement(text),
            marked=self.rationales and marked_text(text, self.rationales, seed=self.seed),
            cut=one.inputs[0].cut is not None,
            predicted=int(class_probabilities(one.outputs).argmax()),
        )
        try:
            several = [
                removals_of(one, replacement=name, seed=self.seed, among=among)
                for name in self.replacements
            ]
            columns = text_columns(
                self.columns,
                text,
                several[0],
                replacement=self.replacements[0],
                # Another stream than that of random orders: chance and columns must not share their
                # luck.
                rng=text_rng(self.seed + 1, one.inputs[0].text),
            )
        except InputError as error:
            return outcome._replace(texts=self._refused(text.number, error))
        # Other measures stand beside the share under the first replacement alone.
        found = [
            SearchedText(text, removals, {} if i else columns) for i, removals in enumerate(several)
        ]
        return outcome._replace(searched=found)
