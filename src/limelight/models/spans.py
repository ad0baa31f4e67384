"""Functions that find spans, and spaCy pipelines: the score of each tag at a span of a text."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.engine import Engine, call_function, quote_text
from limelight.models.functions import Function, split_segments, wrap_function
from limelight.models.protocol import NO_SPAN_ERROR, Property, log_odds
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float
from limelight.text import Features, ModelInput, Span, SpanQuery, truncate_line
from limelight.threads import cached_property

_OUTSIDE_TAG = "O"
# A tagger does not return tags of which it is less sure, so a score of 0 is no probability. The
# log-odds of 0, however they are bounded, must not outweigh those of the spans that it returns.
_MIN_SCORE = 1e-3
_CLIPPING_WARNING = (
    f"Scores of spans are explained as log-odds, limited to {_MIN_SCORE} to {1 - _MIN_SCORE}. A "
    f"tag that is not found counts as {_MIN_SCORE}."
)
_ENTITY_COMPONENTS = ("ner", "entity", "ruler")  # parts of spaCy's pipelines that name entities


class SpanFunction(Function):
    """A function from texts to lists of (start, end, tag, score); see :func:`limelight.wrap`.

    The score of a tag at a span is the largest score of a returned span that covers it and has
    that tag, or 0 if there is none. The score of "O" is 1 minus the largest score of all tags. By
    default the log-odds of the score are explained, with scores clipped to 0.001 and 0.999. With
    ``scale="score"`` the score itself is explained. The classes are "O" and the tags.
    """

    _spans_limitation = None
    is_exclusive = True

    @property
    def limitations(self) -> Mapping[Property, str]:
        """Why the function lacks a property."""
        return {**super().limitations, "reads_pairs": "this function takes single texts"}

    def with_classes(self, names: Collection[Any]) -> "SpanFunction":  # noqa: ARG002
        """Return the same function: its classes are all the tags that it has."""
        return self

    def spans(self, text: Any, *, first_subwords: bool = False) -> tuple[SpanQuery, ...]:
        """Return the spans that the function finds, in the order of the text."""
        super().read(text)  # raises an error if the argument is not a text
        # A span of spaces only is empty without them.
        spans = [span for span in self._call_function([text])[0] if span.start < span.end]
        spans.sort(key=lambda span: (span.start, span.end, span.tag, span.score))
        return tuple(replace(span, first_subwords=first_subwords) for span in spans)

    def read(
        self, text: Any, *, queries: tuple[SpanQuery, ...] = (), subwords: bool = False
    ) -> ModelInput:
        """Return the words of a text, split where a queried span begins or ends."""
        model_input = super().read(text, subwords=subwords)
        # In "Acme's" a function may find "Acme".
        edges = {edge for query in queries for edge in (query.start, query.end)}
        model_input = model_input.split_words(edges)
        for query in queries:
            query.token_indices(model_input.tokens.spans, model_input.text)
        warnings = (_CLIPPING_WARNING,) if queries and self.link != "none" else ()
        return replace(model_input, warnings=warnings, queries=queries)

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Raise an error for texts without queries, as ``outputs`` does."""
        return self.outputs([self.read(text) for text in texts])

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return the scores at the queried spans of each text, or their log-odds."""
        if not inputs:
            return np.empty((0, len(self.classes)))
        if not all(model_input.queries for model_input in inputs):
            raise InputError(NO_SPAN_ERROR)
        spans = [
            tuple((query.start, query.end) for query in model_input.queries)
            for model_input in inputs
        ]
        texts = [model_input.text for model_input in inputs]
        return self._engine(list(zip(texts, spans, strict=True)))

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return a function from masks to the scores at the queried spans of the masked text."""
        spans, text = model_input.tokens.spans, model_input.text
        query_words = [query.token_indices(spans, text) for query in model_input.queries]
        (segments,) = split_segments(model_input, features)
        mask = self.mask if replacement == "mask" else None
        if replacement == "delete" and any(
            features.feature_index[i] >= 0 for words in query_words for i in words
        ):
            raise InputError(
                "protect_span=False removes the words of the span, but 'delete' puts nothing in "
                "their place. Wrap the function with mask=, or protect the span."
            )

        def masked_text(keep: Bool[np.ndarray, " d"]) -> tuple[str, tuple[Span, ...]]:
            """Return the text without the removed features, and the queried spans in it."""
            strings = segments.replace_words(keep, mask)
            # Word i follows i + 1 gaps and i words.
            edges = [0, *accumulate(map(len, strings))]
            spans = ((edges[2 * words[0] + 1], edges[2 * words[-1] + 2]) for words in query_words)
            return "".join(strings), tuple(spans)

        return lambda keep: self._engine([masked_text(row) for row in keep])

    @cached_property
    def _engine(self) -> Engine:
        """Calls the function in batches, and returns the scores at the queried spans."""
        # The cost of a text inside a function is unknown, so the size of a batch is not limited.
        return Engine(self._score_spans, size=lambda pair: len(pair[0]), max_items=self.batch_size)

    def _score_spans(self, texts: list[Any]) -> Float[np.ndarray, "n C"]:
        """Return the scores of all classes at the spans that come with each text."""
        found_spans = self._call_function([text for text, _ in texts])
        rows = [
            [score for span in spans for score in self._class_scores(span, candidates)]
            for candidates, (_, spans) in zip(found_spans, texts, strict=True)
        ]
        scores = np.array(rows, dtype=np.float64)
        if self.link == "none":
            return scores
        return log_odds(scores.clip(_MIN_SCORE, 1 - _MIN_SCORE))

    def _class_scores(self, span: Span, candidates: Sequence[SpanQuery]) -> list[float]:
        """Return the score of each class at a span, given the spans that the function found."""
        # A span that covers only a part says nothing about the other part.
        best: dict[str | None, float] = dict.fromkeys(self.classes, 0.0)
        for candidate in candidates:
            is_cover = candidate.start <= span[0] and span[1] <= candidate.end
            if is_cover and candidate.tag != _OUTSIDE_TAG:
                best[candidate.tag] = max(best[candidate.tag], candidate.score)
        return list((best | {_OUTSIDE_TAG: 1.0 - max(best.values())}).values())

    def _call_function(self, texts: list[str]) -> list[list[SpanQuery]]:
        """Return the spans that the function finds in each text, after checking them."""
        # The function gets its own list, because it may change it.
        spans_by_text = call_function(
            lambda batch: list(self.function(list(batch))),
            texts,
            who="the function",
            item_text=str,
            advice=" Set batch_size=1.",
        )
        if len(spans_by_text) != len(texts):
            raise InputError(
                f"the function must return one list of spans per text, but for {len(texts)} texts "
                f"it returned {len(spans_by_text)} lists."
            )
        return [
            [self._parse_span(span, text) for span in (spans if np.iterable(spans) else [spans])]
            for spans, text in zip(spans_by_text, texts, strict=True)
        ]

    def _parse_span(self, span: Any, text: str) -> SpanQuery:
        """Return a span without the spaces around it, after checking its offsets, tag and score."""
        match span:
            case (
                int() | np.integer() as start,
                int() | np.integer() as end,
                str(tag),
                int() | float() | np.floating() as score,
            ) if 0 <= start < end <= len(text) and 0 <= score <= 1:
                if tag in self.classes:
                    # With the spaces around it, the same words would be two different spans.
                    words = text[start:end]
                    first = int(start) + len(words) - len(words.lstrip())
                    return SpanQuery(first, first + len(words.strip()), tag=tag, score=float(score))
                tags = ", ".join(self.classes[1:])
                raise InputError(
                    f"the function returns the tag {tag!r}, but its tags are {tags}. Name all of "
                    "them in tags=[…]."
                )
        raise InputError(
            "a span must be (start, end, tag, score) inside its text with a score from 0 to 1, "
            f"but for the text {quote_text(text)} the function returned "
            f"{truncate_line(repr(span), 80)}."
        )


def wrap_span_function(function: Any, tags: Any, **options: Any) -> Function:
    """Return a function that finds spans as a model, with the options of `limelight.wrap`."""
    if isinstance(tags, str) or not hasattr(tags, "__len__") or not len(tags):
        raise InputError(f"tags must be a list of at least one name, not {tags!r}.")
    if (scale := options.get("scale", "probability")) not in ("probability", "score"):
        raise InputError(f"the scale of spans must be 'probability' or 'score', not {scale!r}.")
    if options.get("pairs"):
        raise InputError("a function of spans takes single texts. Leave pairs out.")
    classes = (_OUTSIDE_TAG, *(str(tag) for tag in tags if tag != _OUTSIDE_TAG))
    return wrap_function(function, SpanFunction, **options | {"classes": classes})


def wrap_spacy(pipeline: Any, tags: Any = None, **options: Any) -> Function:
    """Return a spaCy pipeline as a model of its entities, each with the score 1."""
    if tags is None:
        labels_by_component = [
            labels
            for name, labels in pipeline.pipe_labels.items()
            if any(part in name for part in _ENTITY_COMPONENTS)
        ]
        tags = list(dict.fromkeys(label for labels in labels_by_component for label in labels))
        if not tags:
            raise InputError("this pipeline has no component that finds entities. Give tags=[…].")

    def find_entities(texts: list[str]) -> list[list[tuple[int, int, str, float]]]:
        """Return the entities of each text with the score 1."""
        return [
            [
                (entity.start_char, entity.end_char, entity.label_, 1.0)
                for entity in pipeline(text).ents
            ]
            for text in texts
        ]

    meta = getattr(pipeline, "meta", {})
    keys = [key for key in ("lang", "name", "version") if key in meta]
    name = " ".join(["spacy", *(str(meta[key]) for key in keys)])
    # Log-odds of scores that are all 1 would say no more, in larger numbers.
    return wrap_span_function(find_entities, tags, **{"scale": "score", "name": name} | options)
