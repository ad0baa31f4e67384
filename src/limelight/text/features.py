"""What an explanation scores: words, positions, sentences, or any groups of tokens."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, final

import numpy as np

from limelight.errors import InputError, nearest
from limelight.shapes import Int
from limelight.text.document import SIDES, Document, side_at
from limelight.text.tokens import Span

FEATURES = ("words", "positions", "sentences")
_STOPS = frozenset(".!?")
_Named = tuple[tuple[str, ...], tuple[tuple[Span, ...], ...]]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Feature strings, every place of each in the text, and the feature of each token.

    ``of_token`` is -1 at tokens that are not features and stay as they are.
    """

    unit: str
    strings: tuple[str, ...]
    spans: tuple[tuple[Span, ...], ...]
    of_token: Int[np.ndarray, " T"]

    def __len__(self) -> int:
        return len(self.strings)


def features_of(
    document: Document,
    unit: str | Sequence[int] = "words",
    *,
    protect: Collection[str] = (),
    side: str | None = None,
    protect_asked: bool = False,
) -> Features:
    """Return what is scored: "words", "positions", "sentences", or groups of the caller's own.

    "words" takes all occurrences of a token string together, "positions" every token by itself,
    "sentences" what lies between full stops. A sequence of integers gives the group of every token
    inside the window; a negative one leaves its token as it is. Features come in the order of
    their first occurrence. Strings outside the vocabulary stay distinct, although the model sees
    UNK for each.

    Of a pair, a word that stands on both sides is two features: what it does for the model differs
    from one to the other. With ``side``, "first" or "second", only words of that side are scored.
    With ``protect_asked`` the words that are asked about stay, and what they do is not scored.
    """
    parts = document.parts
    sides = [side_at(start, parts) if parts else 0 for start, _ in document.tokens.spans]
    groups = _groups(document, unit, sides)
    if side is not None:
        chosen = _chosen_side(document, side)
        groups = [g if own == chosen else None for g, own in zip(groups, sides, strict=True)]
    if protect:
        strings = document.tokens.strings
        groups = [None if s in protect else g for s, g in zip(strings, groups, strict=True)]
    if protect_asked:
        for place in document.asked:
            for i in place.tokens(document.tokens.spans, document.text):
                groups[i] = None
    row: dict[Hashable, int] = {}
    of_token = [-1 if g is None else row.setdefault(g, len(row)) for g in groups]
    if not row:
        asked = "; protect_span=False explains the words that are asked about too" * protect_asked
        raise InputError(
            f"every word of the text is protected; leave at least one to explain{asked}."
        )
    name = unit if isinstance(unit, str) else "groups"
    named = _named_tokens if name in ("words", "positions") else _named_runs
    strings, spans = named(document, of_token, len(row))
    return Features(name, strings, spans, np.array(of_token))


def _chosen_side(document: Document, side: str) -> int:
    if not document.parts:
        raise InputError(
            f"side {side!r} is about a pair of texts, and this is a single text; leave it out."
        )
    return SIDES.index(side)


def _groups(document: Document, unit: str | Sequence[int], sides: Sequence[int]) -> list[Hashable]:
    """Return what each token belongs to; None where it belongs to nothing that is scored."""
    strings = document.tokens.strings
    if not isinstance(unit, str):
        return _own_groups(unit, len(strings))
    if unit == "words":
        return list(zip(sides, strings, strict=True))
    if unit == "positions":
        return list(range(len(strings)))
    if unit == "sentences":
        # A model may not read full stops, which then stand between its tokens.
        between = [document.text[b:c] for (_, b), (c, _) in pairwise(document.tokens.spans)]
        ends = [
            (s in _STOPS and t not in _STOPS) or not _STOPS.isdisjoint(gap)
            for (s, t), gap in zip(pairwise((*strings, "")), (*between, ""), strict=True)
        ]
        turns = [end or a != b for end, (a, b) in zip(ends[:-1], pairwise(sides), strict=True)]
        return [0, *accumulate(turns)]
    raise InputError(nearest("features", unit, FEATURES))


def _own_groups(groups: Any, tokens: int) -> list[Hashable]:
    """Return the caller's own groups: whole numbers, of which a negative one is not a group."""
    if not hasattr(groups, "__len__") or not all(hasattr(one, "__index__") for one in groups):
        raise InputError(
            f"features must be one of {', '.join(FEATURES)}, or one whole number per token; "
            f"got {groups!r}."
        )
    if len(groups) != tokens:
        raise InputError(
            f"features must give one group per token; the text has {tokens} tokens in the "
            f"window; got {len(groups)} groups."
        )
    return [None if int(group) < 0 else int(group) for group in groups]


def _named_tokens(document: Document, of_token: list[int], d: int) -> _Named:
    """Name every feature by its token, and list each occurrence."""
    strings = [""] * d
    places: list[list[Span]] = [[] for _ in range(d)]
    for j, string, span in zip(
        of_token, document.tokens.strings, document.tokens.spans, strict=True
    ):
        if j >= 0:
            strings[j] = string
            places[j].append(span)
    return tuple(strings), tuple(map(tuple, places))


def _named_runs(document: Document, of_token: list[int], d: int) -> _Named:
    """Name every feature by the stretches of text it covers."""
    places: list[list[Span]] = [[] for _ in range(d)]
    before = -1, 0
    for j, (start, end) in zip(of_token, document.tokens.spans, strict=True):
        side = side_at(start, document.parts)
        if j >= 0:
            run = places[j]
            if (j, side) == before:
                start = run.pop()[0]
            run.append((start, end))
        before = j, side
    strings = [" … ".join(document.text[a:b] for a, b in runs) for runs in places]
    return tuple(strings), tuple(map(tuple, places))
