"""The trial: every text and every method, then what follows over the texts."""

__all__ = ["judge"]

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, final

import numpy as np

from limelight import __version__
from limelight.errors import InputError
from limelight.explainers.progress import Progress
from limelight.explainers.reading import Reading, read
from limelight.explainers.readings import listed, together
from limelight.explainers.target_game import TargetGame
from limelight.explainers.targets import explained_scale, target_indices
from limelight.judging.asked_ground import AskedGround
from limelight.judging.candidates import Candidate, Scored, candidates_of
from limelight.judging.grounds import Areas, Ground, Level
from limelight.judging.over_texts import greedy_row, method_rows, pair_rows
from limelight.judging.proven_ground import ProvenGround
from limelight.judging.tied_words import tied, tied_groups
from limelight.judging.verdict import judging_notices, verdict
from limelight.models import Model, checked_model, resolved_replacement
from limelight.results.judgement import JudgedText, Judgement, Measure
from limelight.sampling.streams import text_rng
from limelight.theory.namespace import host_array
from limelight.theory.per_document import one_document
from limelight.theory.ratio_game import RatioGame

_NOTHING = 1e-9  # of the explained number: less room than this is rounding


def judge(
    model: Any,
    texts: Any,
    methods: Any = None,
    *,
    target: str | int = "predicted",
    scale: str = "logit",
    replacement: str = "auto",
    budget: int | float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **settings: Any,
) -> Judgement:
    """Return how faithful methods are to ``model`` on ``texts``, between chance and ceiling.

    Words are removed in the order of a method's scores; the area above the falling output is
    compared with that of guessing and with the best there can be, on the same text.

    Parameters
    ----------
    model
        What :func:`limelight.load` or :func:`limelight.wrap` returns.
    texts
        A list of texts.
    methods
        Names, settings objects, functions ``(model, text) -> scores`` of the words, files of stored
        explanations (JSON), or a mapping from names to any of them; by default what ``compare``
        shows, or on deep models those that were found faithful.
    target
        The class whose output is judged, by default the predicted one of each text.
    scale
        "logit": the log-odds of the class where there are two outputs, else its own output; or
        "probability", which is sampled on every model.
    replacement
        What stands for a removed word, in the curves and in the methods that remove words.
    budget
        Seconds for the search of good orders and for chance, over all texts, on models that have to
        be asked; None lets both come to their end, the search with about d²/2 calls for d words.
    seed
        Of all that is drawn: random orders, resampled texts, and the methods that sample.
    progress
        Called with (texts done, texts in all).
    settings
        Settings of the methods that have them.
    """
    trial = _Trial(checked_model(model), target, scale, replacement, budget, seed)
    candidates = candidates_of(model, methods, settings, seed=seed, replacement=trial.replacement)
    given = listed(texts)
    if not given:
        raise InputError("judge needs at least one text; got none.")
    judged: list[JudgedText] = []
    for text in trial.judged(given, candidates):
        judged.append(text)
        if progress is not None:
            progress(len(judged), len(given))
    return trial.judgement(candidates, judged, settings)


@final
@dataclass(frozen=True)
class _Trial:
    model: Model
    target: str | int
    scale: str
    replacement: str
    budget: int | float | None
    seed: int

    def __post_init__(self) -> None:
        # What is wrong with the question is said before any text is read.
        object.__setattr__(self, "scale", explained_scale(self.scale, self.model.link))
        name = resolved_replacement(self.model, self.replacement)
        object.__setattr__(self, "replacement", name)
        target_indices(self.target, self.model.classes, np.zeros((1, len(self.model.classes))))
        if self.budget is not None and self.budget < 0:
            raise InputError(f"budget is a number of seconds, at least 0; got {self.budget}.")

    def judged(self, texts: list[Any], candidates: list[Candidate]) -> Iterator[JudgedText]:
        """Yield the texts as they are judged, a few in memory at a time."""
        size, clock = together(self.model), _Clock(self.budget, len(texts))
        for start in range(0, len(texts), size):
            for part in self._readings(texts[start : start + size], start):
                if isinstance(part, JudgedText):
                    yield part
                    continue
                number, reading = part
                scored = [one.scores(reading) for one in candidates]
                for i, one in enumerate(reading.apart()):
                    yield self._text(number + i, one, i, reading, candidates, scored, clock)

    def _readings(
        self, texts: Sequence[Any], start: int
    ) -> Iterator[tuple[int, Reading] | JudgedText]:
        """Read texts together; where one of them cannot be read, each by itself."""
        try:
            found = read(self.model, texts, target=self.target, scale=self.scale)
        except InputError as error:
            if len(texts) == 1:
                yield JudgedText(id=start, reason=str(error))
                return
            for i, text in enumerate(texts):
                yield from self._readings([text], start + i)
            return
        contrast = self.scale == "logit" and self.model.link == "softmax"
        yield start, replace(found, targets=replace(found.targets, contrast=contrast))

    def _text(
        self,
        number: int,
        one: Reading,
        i: int,
        reading: Reading,
        candidates: list[Candidate],
        scored: list[list[Scored]],
        clock: "_Clock",
    ) -> JudgedText:
        try:
            ground = self._ground(one, i, reading)
            own = [scores[i] for scores in scored]
            return _judged_text(number, one, ground, candidates, own, clock)
        except InputError as error:
            return JudgedText(id=number, reason=str(error))

    def _ground(self, one: Reading, i: int, reading: Reading) -> Ground:
        rng = text_rng(self.seed, one.documents[0].text)
        # The tables' game replaces words the model's own way, and is of its outputs themselves.
        own_way = self.replacement == self.model.replacements[0]
        if reading.collapses and own_way and self.scale != "probability":
            return ProvenGround(_on_host(one_document(reading.ratio_game, i)), rng)
        full = float(one.targets.value(one.outputs)[0])
        return AskedGround(TargetGame(one, self.replacement), len(one.features[0]), full, rng)

    def judgement(
        self, candidates: list[Candidate], texts: list[JudgedText], settings: dict[str, Any]
    ) -> Judgement:
        """Return what follows over the texts."""
        room = [text for text in texts if text.has_room]
        methods = method_rows(candidates, room, seed=self.seed)
        pairs = pair_rows(candidates, room, seed=self.seed) if room else []
        greedy, interval = greedy_row(room, seed=self.seed)
        kind = "proven" if all(text.ceiling_kind == "proven" for text in room) else "best found"
        return Judgement(
            texts=tuple(texts),
            methods=tuple(methods),
            pairs=tuple(pairs),
            greedy=greedy,
            greedy_interval=interval,
            verdict=verdict(methods, pairs, texts=len(room), kind=kind),
            notices=judging_notices(methods, texts),
            settings={
                "target": self.target,
                "scale": self.scale,
                "replacement": self.replacement,
                "budget": self.budget,
                "seed": self.seed,
                **settings,
            },
            model=self.model.fingerprint,
            version=__version__,
        )


@final
class _Clock:
    """Deals the budget out: each text gets its share of what is left."""

    def __init__(self, budget: int | float | None, texts: int) -> None:
        self._left, self._texts = budget, texts

    def seconds(self) -> float | None:
        """Return the time for the next text."""
        return None if self._left is None else self._left / max(self._texts, 1)

    def spent(self, seconds: float) -> None:
        """Hear what a text took."""
        self._texts -= 1
        if self._left is not None:
            self._left = max(0.0, self._left - seconds)


def _judged_text(
    number: int,
    one: Reading,
    ground: Ground,
    candidates: list[Candidate],
    scored: list[Scored],
    clock: _Clock,
) -> JudgedText:
    groups = [
        None if isinstance(scores, str) else tied_groups(scores, signed=candidate.signed)
        for candidate, scores in zip(candidates, scored, strict=True)
    ]
    areas = [None if own is None else ground.areas(own) for own in groups]
    unsigned = any(a and not c.signed for a, c in zip(areas, candidates, strict=True))
    known = [(g, a) for g, a in zip(groups, areas, strict=True) if g is not None and a is not None]
    start = time.monotonic()
    frame = ground.frame(known, change=unsigned, seconds=clock.seconds())
    clock.spent(time.monotonic() - start)
    return JudgedText(
        id=number,
        d=ground.d,
        target=one.targets.names()[0],
        full=ground.full,
        ceiling_kind=frame.kind,
        greedy=frame.greedy,
        has_room=_has_room(frame.deletion, ground.full),
        deletion=_measure(frame.deletion, "deletion", areas),
        insertion=_measure(frame.insertion, "insertion", areas),
        change=None if frame.change is None else _measure(frame.change, "change", areas),
        ties=tuple(0 if own is None else tied(own) for own in groups),
        notices=ground.notices,
        reasons=tuple(scores if isinstance(scores, str) else None for scores in scored),
    )


def _has_room(level: Level, full: float) -> bool:
    room = level.ceiling - level.chance
    return room > max(_NOTHING * (1 + abs(full)), 2 * (level.stderr or 0.0))


def _measure(level: Level, name: str, areas: list[Areas | None]) -> Measure:
    return Measure(
        chance=level.chance,
        stderr=level.stderr,
        ceiling=level.ceiling,
        areas=tuple(None if own is None else float(getattr(own, name)) for own in areas),
    )


def _on_host(game: RatioGame) -> RatioGame:
    """Return the game as NumPy arrays: orders are sorted and drawn here."""
    parts = {one.name: getattr(game, one.name) for one in fields(game)}
    return RatioGame(**{name: None if x is None else host_array(x) for name, x in parts.items()})
