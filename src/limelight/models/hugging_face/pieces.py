"""A text as a Hugging Face model reads it: its words by the model's own tokenizer, in pieces."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, final

import numpy as np

from limelight.errors import InputError
from limelight.models.engine import said
from limelight.models.hugging_face.forward import restoring_tokenizer, with_segments
from limelight.shapes import Bool, Float, Int
from limelight.text import (
    SIDES,
    Document,
    Features,
    Given,
    Span,
    Tokens,
    checked_text_or_pair,
    inside_character,
    joined,
    one_line,
    side_at,
)
from limelight.text.characters import unspaced

_ENDLESS = 10**30  # what transformers says where nobody set a limit
# What configurations call the number of places that were trained.
_NAMES = ("max_position_embeddings", "max_seq_len")
# Names of classes that only two texts together can have.
_COMPARED = ("entailment", "contradiction", "not_entailment", "paraphrase", "equivalent")


@final
@dataclass(frozen=True, eq=False)
class Pieces:
    """The model's own input: ids of the whole text, beyond the window too.

    ``token`` is the place of each piece's word among ``strings``, -1 at special pieces. ``room``
    pieces that are not special fit. ``side`` is 0 at the pieces of a text, of a ``pair`` 0 or 1,
    and -1 at special ones; ``side_of_word`` is the same of each of ``strings``. ``segment`` is what
    the tokenizer calls the type of a token of a pair, and ``mark`` is set where a text is asked
    about places: 0 at other pieces (see ``hugging_face.tags``).
    """

    ids: Int[np.ndarray, " L"]
    token: Int[np.ndarray, " L"]
    side: Int[np.ndarray, " L"]
    strings: tuple[str, ...]
    side_of_word: tuple[int, ...]
    room: int
    pair: bool = False
    segment: Int[np.ndarray, " L"] | Literal[0] = 0
    mark: Int[np.ndarray, " L"] | Literal[0] = 0

    @cached_property
    def row(self) -> Int[np.ndarray, " L"]:
        """The ids with their segments and marks, as networks are asked about them."""
        return with_segments(self.ids, self.segment, self.mark)

    @cached_property
    def text(self) -> slice:
        """Where the text stands between the special pieces around it."""
        own = np.flatnonzero(self.side >= 0).tolist() or [len(self.ids), len(self.ids) - 1]
        return slice(own[0], own[-1] + 1)

    @cached_property
    def cut(self) -> int:
        """How many pieces of the text do not fit."""
        return max(0, int(self._lengths.sum()) - self.room)

    @cached_property
    def inside(self) -> Int[np.ndarray, " T"]:
        """Which pieces the model reads when nothing is removed."""
        return np.flatnonzero(self.fitting(np.ones((1, len(self.ids)), bool))[0])

    def fitting(self, left: Bool[np.ndarray, "n L"]) -> Bool[np.ndarray, "n L"]:
        """Return which of the pieces that are ``left`` fit: special ones, and the first of a text.

        Of a pair, each text keeps its first pieces, as many as :func:`rooms` says.
        """
        if not self.cut:
            return left
        counts = np.stack([left[:, own].sum(axis=1) for own in self._sides], axis=1)
        room = rooms(counts, self.room)
        fits = left.copy()
        for own, most in zip(self._sides, room.T, strict=True):
            fits[:, own] &= np.cumsum(left[:, own], axis=1) <= most[:, None]
        return fits

    @property
    def shares(self) -> tuple[tuple[int, int], ...]:
        """Of each text, how many of its pieces are read, and how many there are."""
        read = rooms(self._lengths[None], self.room)[0]
        return tuple(zip(map(int, read), map(int, self._lengths), strict=True))

    @cached_property
    def _sides(self) -> tuple[Bool[np.ndarray, " L"], ...]:
        """Where the pieces of each text stand."""
        return tuple(self.side == number for number in range(1 + self.pair))

    @property
    def _lengths(self) -> Int[np.ndarray, " sides"]:
        return np.array([np.count_nonzero(own) for own in self._sides])


def rooms(lengths: Int[np.ndarray, "n sides"], room: int) -> Int[np.ndarray, "n sides"]:
    """Return how many pieces of each text are read where ``room`` fit.

    Of a pair the longer text is cut first, down to the length of the shorter one, then both to a
    half (the larger half is the longer text's): what tokenizers call "longest_first".
    """
    room = min(room, int(lengths.sum(axis=1).max(initial=0)))  # a model without a limit has 10³⁰
    if lengths.shape[1] == 1:
        return np.minimum(lengths, room)
    first, second = lengths.T
    swapped = first > second
    short, long = np.minimum(first, second), np.maximum(first, second)
    rest = np.maximum(short, room - short)
    both = short + rest > room
    short = np.where(both, room // 2, short)
    long = np.minimum(long, np.where(both, room - room // 2, rest))
    return np.stack([np.where(swapped, long, short), np.where(swapped, short, long)], axis=1)


def pieces_in(document: Document) -> Pieces:
    """Return what a Hugging Face model made of a text."""
    found: Pieces = document.input
    return found


def windows_in(document: Document) -> tuple[Pieces, ...]:
    """Return the same for each window in which a text was read; there may be one alone."""
    return document.input if document.windows is not None else (pieces_in(document),)


def rows_read(document: Document) -> list[Any]:
    """Return the rows that the model reads when nothing is removed, or pixels of a picture."""
    if document.picture is not None:
        return [document.input]
    return [pieces.row[pieces.inside] for pieces in windows_in(document)]


def mean_over_windows(document: Document) -> Float[np.ndarray, "1 C"]:
    """Return the outputs for a text that was read in windows."""
    if document.windows is None:
        raise TypeError("this document was not read in windows")
    return document.windows.outputs.mean(axis=0, keepdims=True)


def ids_read(document: Document) -> Any:
    """Return the row of a text that is read in one window, or pixels of a picture."""
    (row,) = rows_read(document)
    return row


def feature_of_piece(pieces: Pieces, features: Features) -> Int[np.ndarray, " L"]:
    """Return the feature of every piece, -1 where nothing is removed.

    Words beyond the window go with the feature of the same string, if there is one; of a pair, of
    the same string on the same side.
    """
    words = list(zip(pieces.side_of_word, pieces.strings, strict=True))
    # Words that are read come first among ``strings``, so that features pair with their beginning.
    count = len(features.of_token)
    row = dict(zip(words[:count], features.of_token.tolist(), strict=True))
    later = [row.get(word, -1) if features.unit == "words" else -1 for word in words[count:]]
    of_token = np.array([*features.of_token, *later, -1], dtype=np.int64)
    return of_token[pieces.token]


def document_of(
    tokenizer: Any,
    given: Given,
    *,
    limit: int,
    apart: bool,
    classes: tuple[str, ...] = (),
    if_cut: str = "",
    encoding: Any = None,
) -> Document:
    """Return a text in words (what the pre-tokenizer says), or with pieces kept ``apart``.

    A single text is told of where the names of the ``classes`` are about two; ``if_cut`` is
    said of a long one.
    """
    pieces, spans = pieces_of(tokenizer, given, limit=limit, apart=apart, encoding=encoding)
    text, parts = joined(given)
    count = 1 + int(pieces.token[pieces.inside].max(initial=-1))
    if not parts and not count:
        raise InputError("the text has no words; give at least one word.")
    for number, name in enumerate(SIDES[: len(parts)]):
        if number not in pieces.side_of_word[:count]:
            raise InputError(
                f"the {name} text of the pair has no words that the model reads; give it at least "
                "one."
            )
    read, there = pieces.shares[-1]
    return Document(
        text,
        Tokens(pieces.strings[:count], tuple(spans[:count])),
        # Where the reading ends; a first text that was cut is told of in a notice only.
        cut=spans[count - 1][1] if read < there else None,
        notices=tuple(_notices(pieces, tokenizer, classes, if_cut)),
        input=pieces,
        parts=parts,
    )


def _notices(
    pieces: Pieces, tokenizer: Any, classes: tuple[str, ...], if_cut: str
) -> Iterator[str]:
    """Yield what a reader must know about how the text was read."""
    if pieces.cut and pieces.pair:
        (first, of_first), (second, of_second) = pieces.shares
        yield (
            f"The pair has {of_first + of_second} tokens, and the model reads {pieces.room}: the "
            f"first {first} of {of_first} of the first text and {second} of {of_second} of the "
            "second; the longer text is cut first."
        )
    elif pieces.cut:
        ((_, total),) = pieces.shares
        yield (
            f"The text has {total} tokens; the model reads the first {pieces.room}, "
            f"and the last {pieces.cut} were cut off{if_cut}."
        )
    read = pieces.inside[pieces.token[pieces.inside] >= 0]
    unknown = int(np.count_nonzero(pieces.ids[read] == tokenizer.unk_token_id))  # None: none
    if unknown and unknown == len(read):
        yield (
            f"No word of the text is in the model's vocabulary: it sees only {tokenizer.unk_token}."
        )
    elif unknown:
        yield (
            f"{unknown} of {len(read)} tokens are not in the vocabulary; the model sees "
            f"{tokenizer.unk_token}."
        )
    # Nothing but the names of its classes tells that a model was trained on pairs.
    compared = [name for name in classes if name.lower() in _COMPARED]
    if not pieces.pair and compared:
        yield (
            f"This model was given one text, and its class {compared[0]!r} is about two; give it a "
            "pair, (first, second), if it was trained on pairs."
        )
    adjoin = (pieces.side[:-1] == 0) & (pieces.side[1:] == 1)
    if adjoin.any() and not np.any(pieces.segment):
        yield (
            "The tokenizer puts nothing between the two texts of a pair, so the model sees them as "
            "one that goes on."
        )


def pieces_of(
    tokenizer: Any, given: Given, *, limit: int, apart: bool = False, encoding: Any = None
) -> tuple[Pieces, list[Span]]:
    """Return all pieces of a text or a pair, and the place of every word.

    Words that the model reads come first, in the order of the text, then those that are cut off.
    ``encoding`` is what :func:`encodings` found, where several texts were read together.
    """
    text, parts = joined(checked_text_or_pair(given))
    if encoding is None:
        (encoding,) = encodings(tokenizer, [given])
    # Not cut by the tokenizer: when words are deleted, those beyond the window move into it.
    ids, word = np.array(encoding.ids, dtype=np.int64), _numbers(encoding.word_ids)
    if parts:
        side = _numbers(encoding.sequence_ids)
    else:  # all that stands between the first and the last word
        side, own = np.full(len(ids), -1), np.flatnonzero(word >= 0)
        side[own.min(initial=len(ids)) : own.max(initial=-1) + 1] = 0
    starts = np.array([start for start, _ in parts] or [0])
    places = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
    places = places + starts[np.maximum(side, 0)][:, None]
    token, spans = _tokens(word, side, places, text, apart=apart)
    # Words are one feature if the model cannot tell them apart, so "Good" and "good" are here.
    same = str.lower if lowers(tokenizer) else str
    told = bool(parts) and "token_type_ids" in tokenizer.model_input_names  # else it knows of none
    pieces = Pieces(
        ids,
        token,
        side,
        strings=tuple(same(text[start:end]) for start, end in spans),
        side_of_word=tuple(side_at(start, parts) for start, _ in spans),
        room=max(limit - int(np.count_nonzero(side < 0)), 0),
        pair=bool(parts),
        segment=np.array(encoding.type_ids) if told else 0,
    )
    return _read_first(pieces, spans) if parts else (pieces, spans)


def _numbers(given: Sequence[int | None]) -> Int[np.ndarray, " L"]:
    return np.array([-1 if one is None else one for one in given], dtype=np.int64)


def _read_first(pieces: Pieces, spans: list[Span]) -> tuple[Pieces, list[Span]]:
    """Number the words of a pair anew, so that those which are read come before those cut off."""
    if not pieces.cut:
        return pieces, spans
    read = set(pieces.token[pieces.inside].tolist())
    order = sorted(range(len(spans)), key=lambda word: (word not in read, word))
    number = np.append(np.argsort(np.array(order, dtype=np.int64)), -1)
    renumbered = replace(
        pieces,
        token=number[pieces.token],
        strings=tuple(pieces.strings[word] for word in order),
        side_of_word=tuple(pieces.side_of_word[word] for word in order),
    )
    return renumbered, [spans[word] for word in order]


def encodings(tokenizer: Any, several: Sequence[Given]) -> list[Any]:
    """Return what the tokenizer makes of texts, all of them single or pairs, in one call of it.

    It may fail on a text where it reads others; with one text, that is named.
    """
    sides = [one if isinstance(one, tuple) else (one,) for one in several]
    try:
        with restoring_tokenizer(tokenizer):
            columns = [list(column) for column in zip(*sides, strict=True)]
            asked = {"return_offsets_mapping": True, "truncation": False, "verbose": False}
            return list(tokenizer(*columns, **asked).encodings)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic of the library is not an Exception
        text = one_line(" ".join(map(str, sides[0])), 80)
        raise InputError(f"the tokenizer fails on the text {text!r} ({said(error)}).") from error


def lowers(tokenizer: Any) -> bool:
    """Whether upper and lower case are the same to the tokenizer."""
    normalizer = getattr(tokenizer.backend_tokenizer, "normalizer", None)
    return normalizer is not None and normalizer.normalize_str("AbC") == "abc"


def _parted(
    words: Sequence[Hashable | None], places: list[Span], text: str
) -> list[Hashable | None]:
    """Return words that are pieces where a script puts no space between them.

    A tokenizer may call a whole Chinese sentence a word; its pieces are all that tells words apart.
    """
    found, turns, last = list[Hashable | None](), 0, 0
    for word, (start, end) in zip(words, places, strict=True):
        if start < end:
            cut = start >= last > 0 and not inside_character(text, start)
            turns += cut and (unspaced(text[start]) or unspaced(text[last - 1]))
            last = max(last, end)
        found.append(None if word is None else (word, turns))
    return found


def _tokens(
    word: Int[np.ndarray, " L"],
    side: Int[np.ndarray, " L"],
    places: Int[np.ndarray, "L 2"],
    text: str,
    *,
    apart: bool,
) -> tuple[Int[np.ndarray, " L"], list[Span]]:
    """Number the words (or, ``apart``, the pieces) that show in the text, and join their places.

    A piece that is only white space belongs to its word if that has other pieces, else to none.
    Pieces of the same character, such as the bytes of an emoji or its skin tone, are one: a page
    could not show them apart.
    """
    characters = np.frombuffer(text.encode("utf-32-le"), "<U1")
    solid = np.append(~np.char.isspace(characters), False)
    # Byte-level tokenizers include the white space before a word in its first piece.
    known = np.concatenate([[-1], np.flatnonzero(solid), [len(text)]])
    start, end = places.T
    start = np.minimum(known[np.searchsorted(known, start)], end)
    end = np.maximum(known[np.searchsorted(known, end) - 1] + 1, start)
    # Tokenizers without a notion of words call everything one: white space tells them.
    run = np.cumsum(np.append(False, solid[:-1] & ~solid[1:]))
    key = np.where(word < 0, -1, (np.maximum(side, 0) << 62) + (run[start] << 31) + word)
    shown = (key >= 0) & (start < end)
    new = np.diff(key[shown], prepend=-1)
    if not apart and text.isascii() and (new >= 0).all():
        # No character is shared and words come in order: no need to look at one after the other.
        first = np.flatnonzero(new)
        if not len(first):
            return np.full(len(key), -1), []
        ends = (np.minimum.reduceat(start[shown], first), np.maximum.reduceat(end[shown], first))
        known = key[shown][first]
        number = np.minimum(np.searchsorted(known, key), len(known) - 1)
        joined_places = zip(*(x.tolist() for x in ends), strict=True)
        return np.where(known[number] == key, number, -1), list(joined_places)
    listed = list(zip(start.tolist(), end.tolist(), strict=True))
    words: list[Hashable | None] = [None if one < 0 else one for one in key.tolist()]
    if not text.isascii():
        words = _parted(words, listed, text)
    token, spans = np.full(len(words), -1), list[Span]()
    numbers: dict[Hashable, int] = {}
    for i, (one, (a, b)) in enumerate(zip(words, listed, strict=True)):
        if one is None or a == b:
            continue
        end_before = spans[-1][1] if spans else 0
        within = a == end_before and inside_character(text, a)
        shared = within or a < end_before
        j = len(spans) - shared if apart else numbers.setdefault(one, len(spans) - within)
        if j == len(spans):
            spans.append((a, b))
        spans[j] = (min(spans[j][0], a), max(spans[j][1], b))
        token[i] = j
    if not apart:
        token = np.array([-1 if one is None else numbers.get(one, -1) for one in words])
    return token, spans


def longest_input(network: Any, tokenizer: Any) -> int:
    """Return how many pieces the model reads, special ones included."""
    most = tokenizer.model_max_length  # stands in a file and may be anything
    if not isinstance(most, int | float) or not most >= 1:
        raise InputError(
            "model_max_length of the tokenizer must be a positive number; got "
            f"{one_line(repr(most))}."
        )
    offsets = [  # RoBERTa counts its places from after the index of the padding
        module.padding_idx + 1
        for name, module in network.named_modules()
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None
    ]
    trained = [getattr(network.config, name, None) for name in _NAMES]
    first = max(offsets, default=0)
    places = [count - first for count in trained if isinstance(count, int) and count > 0]
    return min([int(min(most, _ENDLESS)), *places])
