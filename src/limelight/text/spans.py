"""Spans of features, which are found when they are first read."""

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Int
from limelight.text.tokens import Span, Tokens

FeatureSpans = tuple[tuple[Span, ...], ...]


@final
class DeferredSpans:
    """The spans of the occurrences of each feature, which are found when they are first read.

    The spans of tokens that a model has passed are checked at once, so that the error names the
    text. Many scores are read without their spans. For a review of 200 words, finding, checking and
    freeing them takes half of the time that Python needs for an exact explanation, and the tuples
    take 30 kB.

    Parameters
    ----------
    tokens
        The tokens of a text.
    feature_index
        For each token the index of its feature, or -1.
    count
        The number of features.
    end
        The number of characters of the text.
    """

    __slots__ = ("_count", "_end", "_feature_index", "_span_source", "_spans", "_strings")

    def __init__(
        self, tokens: Tokens, feature_index: Int[np.ndarray, " T"], *, count: int, end: int
    ) -> None:
        # Not the tokens: another object takes further time in each garbage collection.
        self._strings, self._span_source = tokens.strings, tokens.span_source
        self._feature_index, self._count, self._end = feature_index, count, end
        self._spans: FeatureSpans | None = None
        if not isinstance(tokens.span_source, str):
            if len(tokens.span_source) != len(tokens.strings):
                raise InputError(
                    f"each token must have a span, but {len(tokens.strings)} tokens have "
                    f"{len(tokens.span_source)} spans."
                )
            check_spans((tokens.span_source,), end)

    def __len__(self) -> int:
        return self._count

    def find(self) -> FeatureSpans:
        """Return the spans, which are found once, after a check that they lie in the text."""
        if self._spans is None:
            tokens = Tokens(self._strings, self._span_source)
            spans = group_spans(tokens.spans, self._feature_index, self._count)
            check_spans(spans, self._end)
            self._strings, self._span_source = (), ()
            self._spans = spans
        return self._spans


if TYPE_CHECKING:
    SpansField = FeatureSpans  # what readers of a field that accepts deferred spans get
else:
    SpansField = FeatureSpans | DeferredSpans  # what such a field accepts


def group_spans(
    tokens: tuple[Span, ...], feature_index: Int[np.ndarray, " T"], count: int
) -> FeatureSpans:
    """Return for each of ``count`` features the spans of its tokens."""
    groups: list[list[Span]] = [[] for _ in range(count)]
    for j, span in zip(feature_index.tolist(), tokens, strict=True):
        if j >= 0:
            groups[j].append(span)
    return tuple(map(tuple, groups))


@lru_cache(maxsize=16)  # several methods explain the same words of the same text
def check_spans(spans: FeatureSpans, end: int) -> None:
    """Raise `InputError` unless every span lies inside a text of ``end`` characters."""
    for start, stop in chain.from_iterable(spans):
        if not 0 <= start <= stop <= end:
            raise InputError(
                f"spans must be (start, end) inside the text of {end} characters, not "
                f"{(start, stop)}."
            )


class _SpansDescriptor:
    """Access to a field ``spans`` that finds deferred spans when it is read."""

    def __init__(self, slot: Any) -> None:
        self.slot = slot

    def __get__(self, owner: Any, owner_type: Any = None) -> Any:
        if owner is None:
            return self
        spans = self.slot.__get__(owner)
        if isinstance(spans, DeferredSpans):
            spans = spans.find()
            self.slot.__set__(owner, spans)
        return spans

    def __set__(self, owner: Any, spans: Any) -> None:
        self.slot.__set__(owner, spans)


_Class = TypeVar("_Class", bound=type[Any])


def accept_deferred_spans(cls: _Class) -> _Class:
    """Let a dataclass with slots take `DeferredSpans` for its field ``spans``.

    Readers of the field get tuples.
    """
    descriptor: Any = _SpansDescriptor(vars(cls)["spans"])
    setattr(cls, "spans", descriptor)  # noqa: B010  (mypy knows the field as a tuple)
    return cls


def stored_spans(result: Any) -> Any:
    """Return the field ``spans`` of a dataclass with slots as it is stored, without a search."""
    descriptor = type(result).spans
    is_deferrable = isinstance(descriptor, _SpansDescriptor)
    return descriptor.slot.__get__(result) if is_deferrable else result.spans
