"""Functions that find spans, spaCy's pipelines among them: a score of a tag at a place."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.engine import Engine, answers_of, short
from limelight.models.functions import Function, log_odds, segments, wrapped_function
from limelight.models.protocol import NO_PLACE, Property
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float
from limelight.text import Features, ModelInput, Place, Span, one_line
from limelight.threads import cached_property

_OUTSIDE = "O"
# A tagger keeps what it is less sure of to itself, so 0 is no probability: its log-odds, however
# they are bounded, must not outweigh all that is found.
_LEAST = 1e-3
_HELD = (
    f"Scores of spans are explained as log-odds, held between {_LEAST} and {1 - _LEAST}: "
    f"{_LEAST} stands for a tag that is not found."
)
_ENTITIES = ("ner", "entity", "ruler")  # parts of spaCy's pipelines that name entities


class SpanFunction(Function):
    """A function from texts to lists of (start, end, tag, score); see :func:`limelight.wrap`.

    The score of a tag at a place is the largest of the spans of that tag which cover it, 0 where
    there is none; that of "O" is 1 less the largest of all. What is explained is its log-odds, the
    score held between 0.001 and 0.999, or with ``scale="score"`` the score itself. The classes are
    "O" and the tags.
    """

    _spans_limitation = None
    is_exclusive = True

    @property
    def limitations(self) -> Mapping[Property, str]:
        """Why the function lacks a property."""
        return {**super().limitations, "reads_pairs": "a function of spans reads one text"}

    def with_classes(self, names: Collection[Any]) -> "SpanFunction":  # noqa: ARG002
        """Return the same: its classes are all the tags it has."""
        return self

    def spans(self, text: Any, *, first_pieces: bool = False) -> tuple[Place, ...]:
        """Return the spans that the function finds, in the order of the text."""
        super().read(text)  # which refuses what is no text
        # Of a span of spaces nothing is left.
        found = [one for one in self._found([text])[0] if one.start < one.end]
        found.sort(key=lambda one: (one.start, one.end, one.tag, one.score))
        return tuple(replace(one, first_pieces=first_pieces) for one in found)

    def read(self, text: Any, *, asked: tuple[Place, ...] = (), pieces: bool = False) -> ModelInput:
        """Return the words of a text as they are written, cut where a place begins or ends."""
        model_input = super().read(text, pieces=pieces)
        # Of "Acme's" a function may find "Acme".
        model_input = model_input.cut_at({edge for one in asked for edge in (one.start, one.end)})
        for place in asked:
            place.tokens(model_input.tokens.spans, model_input.text)
        notices = (_HELD,) if asked and self.link != "none" else ()
        return replace(model_input, notices=notices, asked=asked)

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Refuse, as ``outputs`` does, texts of which no place is asked about."""
        return self.outputs([self.read(text) for text in texts])

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return the scores at the places of each text, as log-odds unless they are scores."""
        if not inputs:
            return np.empty((0, len(self.classes)))
        if not all(model_input.asked for model_input in inputs):
            raise InputError(NO_PLACE)
        places = [tuple((one.start, one.end) for one in each.asked) for each in inputs]
        return self._engine([(one.text, at) for one, at in zip(inputs, places, strict=True)])

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return the scores for each mask, at the places as they stand in what is left."""
        spans, text = model_input.tokens.spans, model_input.text
        asked = [place.tokens(spans, text) for place in model_input.asked]
        (whole,), mask = (
            segments(model_input, features),
            self.mask if replacement == "mask" else None,
        )
        if replacement == "delete" and any(features.of_token[i] >= 0 for own in asked for i in own):
            raise InputError(
                "with protect_span=False the words that are asked about are removed, and 'delete' "
                "leaves nothing in their place; wrap the function with mask=, or protect the span."
            )

        def item(keep: Bool[np.ndarray, " d"]) -> tuple[str, tuple[Span, ...]]:
            left = whole.without(keep, mask)  # word i stands after i + 1 gaps and i words
            edges = [0, *accumulate(map(len, left))]
            places = ((edges[2 * own[0] + 1], edges[2 * own[-1] + 2]) for own in asked)
            return "".join(left), tuple(places)

        return lambda keep: self._engine([item(row) for row in keep])

    @cached_property
    def _engine(self) -> Engine:
        # Nobody knows what a text costs in there, so there is no budget.
        return Engine(self._answer, size=lambda item: len(item[0]), most=self.batch_size)

    def _answer(self, items: list[Any]) -> Float[np.ndarray, "n C"]:
        found = self._found([text for text, _ in items])
        rows = [
            [score for place in places for score in self._at(place, spans)]
            for spans, (_, places) in zip(found, items, strict=True)
        ]
        scores = np.array(rows, dtype=np.float64)
        return scores if self.link == "none" else log_odds(scores.clip(_LEAST, 1 - _LEAST))

    def _at(self, place: Span, spans: Sequence[Place]) -> list[float]:
        # A span that covers only part of a place says nothing about the rest of it.
        best: dict[str | None, float] = dict.fromkeys(self.classes, 0.0)
        for one in spans:
            if one.start <= place[0] and place[1] <= one.end and one.tag != _OUTSIDE:
                best[one.tag] = max(best[one.tag], one.score)
        return list((best | {_OUTSIDE: 1.0 - max(best.values())}).values())

    def _found(self, texts: list[str]) -> list[list[Place]]:
        # A list of its own: the function may change it.
        answers = answers_of(
            lambda some: list(self.function(list(some))),
            texts,
            who="the function",
            shown=str,
            advice=" Set batch_size=1.",
        )
        if len(answers) != len(texts):
            raise InputError(
                "the function must return one list of spans per text; it got "
                f"{len(texts)} texts and returned {len(answers)} lists."
            )
        return [
            [self._placed(one, text) for one in (spans if np.iterable(spans) else [spans])]
            for spans, text in zip(answers, texts, strict=True)
        ]

    def _placed(self, span: Any, text: str) -> Place:
        match span:
            case (
                int() | np.integer() as start,
                int() | np.integer() as end,
                str(tag),
                int() | float() | np.floating() as score,
            ) if 0 <= start < end <= len(text) and 0 <= score <= 1:
                if tag in self.classes:
                    # Without the space around it, or one span would be two places.
                    words = text[start:end]
                    first = int(start) + len(words) - len(words.lstrip())
                    return Place(first, first + len(words.strip()), tag=tag, score=float(score))
                known = ", ".join(self.classes[1:])
                raise InputError(
                    f"the function returns the tag {tag!r}, which is none of its tags ({known}); "
                    "name all of them in tags=[…]."
                )
        raise InputError(
            "a span must be (start, end, tag, score), inside its text and with a score from 0 to 1;"
            f" for the text {short(text)} the function returned {one_line(repr(span), 80)}."
        )


def span_function(function: Any, tags: Any, **given: Any) -> Function:
    """Return a function of spans as a model; what is ``given`` are options of ``wrap``."""
    if isinstance(tags, str) or not hasattr(tags, "__len__") or not len(tags):
        raise InputError(f"tags must be a list of names, one or more; got {tags!r}.")
    if (scale := given.get("scale", "probability")) not in ("probability", "score"):
        raise InputError(f"the scores of spans are a 'probability' or 'score'; got {scale!r}.")
    if given.get("pairs"):
        raise InputError("a function of spans takes one text at a time; leave pairs out.")
    classes = (_OUTSIDE, *(str(tag) for tag in tags if tag != _OUTSIDE))
    return wrapped_function(function, SpanFunction, **given | {"classes": classes})


def from_spacy(pipeline: Any, tags: Any = None, **given: Any) -> Function:
    """Return a pipeline whose documents have ``ents``; their score is 1, for spaCy has none."""
    if tags is None:
        parts = pipeline.pipe_labels.items()
        named = [own for name, own in parts if any(part in name for part in _ENTITIES)]
        tags = list(dict.fromkeys(label for labels in named for label in labels))
        if not tags:
            raise InputError("this pipeline has no part that names entities; give tags=[…].")

    def spans(texts: list[str]) -> list[list[tuple[int, int, str, float]]]:
        return [
            [(one.start_char, one.end_char, one.label_, 1.0) for one in pipeline(text).ents]
            for text in texts
        ]

    meta = getattr(pipeline, "meta", {})
    name = " ".join(["spacy", *(str(meta[k]) for k in ("lang", "name", "version") if k in meta)])
    # Log-odds of scores that are all 1 would say no more, in larger numbers.
    return span_function(spans, tags, **{"scale": "score", "name": name} | given)
