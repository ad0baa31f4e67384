"""One text: the areas of every method, and what they lie between."""

__all__ = ["Hearing"]

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.reading import Reading
from limelight.judging.candidates import Candidate, Scored
from limelight.judging.greedy_search import GreedySearch
from limelight.judging.grounds import Areas, Frame, Ground, Judged, Level
from limelight.judging.tied_words import Groups, flat, tied, tied_groups
from limelight.results.judgement import JudgedText, Measure, RemovalCurve, TextColumn
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
