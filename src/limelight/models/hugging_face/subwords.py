"""A text as a Hugging Face model reads it: its words by the model's own tokenizer, in pieces.

Whole or window by window, and with words removed, as rows of ids and as a game.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np

from limelight.errors import InputError
from limelight.models.engine import Engine, said
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.forward import MASKED_OUT, ForwardPass
from limelight.shapes import Bool, Float, Int
from limelight.text import (
    SIDES,
    Features,
    ModelInput,
    Span,
    Tokens,
    UserInput,
    checked_text_or_pair,
    inside_character,
    join_pair,
    one_line,
    sentence_spans,
    side_at,
)
from limelight.text.characters import is_unspaced_script
from limelight.threads import cached_property

_ENDLESS = 10**30  # what transformers says where nobody set a limit
_WHOLE = 1 << 62  # what limits a text that is cut later
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
    and -1 at special ones; ``side_of_word`` is the same of each of ``strings``. ``segment`` is 1 +
    the type that the tokenizer gives each token, or 0 if it gives none, and ``mark`` is set where a
    text is asked about places: 0 at other pieces (see ``hugging_face.tags``).
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
        return forward.with_segments(self.ids, self.segment, self.mark)

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
            # What is removed leaves room: words beyond the limit are read instead.
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
    short = np.minimum(lengths.min(axis=1), room // 2)
    long = np.minimum(lengths.max(axis=1), room - short)
    swapped = lengths[:, 0] > lengths[:, 1]
    return np.stack([np.where(swapped, long, short), np.where(swapped, short, long)], axis=1)


def windows_in(model_input: ModelInput) -> tuple[Any, ...]:
    """Return the pieces of each window in which a text was read; there may be one alone."""
    return model_input.input if model_input.windows is not None else (model_input.input,)


def rows_read(model_input: ModelInput) -> list[Any]:
    """Return the rows that the model reads when nothing is removed, or pixels of an image."""
    if model_input.image is not None:
        return [model_input.input]
    return [pieces.row[pieces.inside] for pieces in windows_in(model_input)]


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
    given: UserInput,
    pieces: Pieces,
    spans: Sequence[Span],
    *,
    classes: tuple[str, ...] = (),
    if_cut: str = "",
) -> ModelInput:
    """Return a text of which the ``pieces`` and the ``spans`` of its words are known.

    A single text is told of where the names of the ``classes`` are about two; ``if_cut`` is
    said of a long one.
    """
    text, parts = join_pair(given)
    # A word of which the first pieces are read counts as read.
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
    return ModelInput(
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
    if unknown:
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
    if adjoin.any() and not np.ptp(pieces.segment):
        yield (
            "The tokenizer puts nothing between the two texts of a pair, so the model sees them as "
            "one that goes on."
        )


def pieces_of(
    tokenizer: Any, given: UserInput, *, limit: int, apart: bool = False, encoding: Any = None
) -> tuple[Pieces, list[Span]]:
    """Return all pieces of a text or a pair, and the place of every word.

    Words that the model reads come first, in the order of the text, then those that are cut off.
    ``encoding`` is what :func:`encodings` found, where several texts were read together.
    """
    text, parts = join_pair(checked_text_or_pair(given))
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
    pieces = Pieces(
        ids,
        token,
        side,
        strings=tuple(same(text[start:end]) for start, end in spans),
        side_of_word=tuple(side_at(start, parts) for start, _ in spans),
        room=max(limit - int(np.count_nonzero(side < 0)), 0),
        pair=bool(parts),
        segment=np.array(encoding.type_ids) + 1 if names_types(tokenizer) else 0,
    )
    return _read_first(pieces, spans) if parts else (pieces, spans)


def names_types(tokenizer: Any) -> bool:
    """Whether the tokenizer gives networks the type of every token, as transformers passes it."""
    return "token_type_ids" in tokenizer.model_input_names


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


def encodings(tokenizer: Any, several: Sequence[UserInput]) -> list[Any]:
    """Return what the tokenizer makes of texts, all of them single or pairs, in one call of it.

    It may fail on a text where it reads others; with one text, that is named.
    """
    sides = [one if isinstance(one, tuple) else (one,) for one in several]
    try:
        with forward.restoring_tokenizer(tokenizer):
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
    # Tried and not looked up: normalizers may be chained, and named by anybody.
    normalizer = getattr(tokenizer.backend_tokenizer, "normalizer", None)
    return normalizer is not None and normalizer.normalize_str("AbC") == "abc"


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
    shown = (word >= 0) & (start < end)
    first, last = start[shown], end[shown]
    before = np.maximum.accumulate(np.append(0, last))[:-1]  # where the pieces so far end
    # Tokenizers without a notion of words call everything one: white space tells them.
    breaks = np.cumsum(np.append(False, solid[:-1] & ~solid[1:]))[start]
    inside = np.zeros(len(first), bool)
    if not text.isascii():
        inside[:] = [inside_character(text, place) for place in first.tolist()]
        # Nor does a script without spaces have any: its pieces are all that tells words apart.
        bare = np.array([is_unspaced_script(character) for character in text])
        turns = np.zeros(len(word), int)
        turns[shown] = (first >= before) & (before > 0) & ~inside & (bare[first] | bare[before - 1])
        breaks = breaks + np.cumsum(turns)
    within = inside & (first == before)
    token = np.full(len(word), -1)
    if apart:
        token[shown] = np.cumsum(~within & (first >= before)) - 1
    elif len(first):
        key = np.where(word < 0, -1, (np.maximum(side, 0) << 62) + (breaks << 31) + word)
        words, begin = np.unique(key[shown], return_index=True)
        begins = np.isin(np.arange(len(first)), begin)
        number = (np.cumsum(begins & ~within) - 1)[begin]
        place = np.minimum(np.searchsorted(words, key), len(words) - 1)
        token = np.where(words[place] == key, number[place], -1)
    ends = np.zeros((2, 1 + token.max(initial=-1)), int)
    ends[0] = len(text)
    np.minimum.at(ends[0], token[shown], first)
    np.maximum.at(ends[1], token[shown], last)
    return token, list(zip(*ends.tolist(), strict=True))


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
    # Tokenizer and network may name different limits: the least of them can be read.
    trained = [getattr(network.config, name, None) for name in _NAMES]
    first = max(offsets, default=0)
    places = [count - first for count in trained if isinstance(count, int) and count > 0]
    return min([int(min(most, _ENDLESS)), *places])


def in_windows(
    tokenizer: Any, text: str, size: int, *, apart: bool
) -> tuple[ModelInput, tuple[Span | None, ...]]:
    """Return all of a text, its input the pieces of each window, and where these stand in it.

    Each window has the special pieces of the whole around it. Windows adjoin, each word belongs to
    one, and where they end does not depend on which words are removed.
    """
    pieces, spans = pieces_of(tokenizer, text, limit=_WHOLE, apart=apart)
    whole, words = document_of(tokenizer, text, pieces, spans), pieces
    special = int(np.count_nonzero(pieces.side < 0))
    if (room := size - special) < 1:
        raise InputError(f"a window must have at least {special + 1} tokens; got {size}.")
    if apart:  # words are whole whatever is explained
        words, spans = pieces_of(tokenizer, text, limit=_WHOLE)
    inner = words.token[words.text]
    last = np.flatnonzero(np.diff(inner, append=-2))  # the last piece of every word
    starts = [first for first, _ in spans]
    stops = {bisect_left(starts, stop) - 1 for _, stop in sentence_spans(text)}
    ends = window_ends(
        len(inner),
        room,
        words=[int(i) + 1 for i in last],
        sentences=[int(i) + 1 for i in last if inner[i] in stops],
    )
    window = np.full(len(pieces.ids), -1)  # the number of each piece's own
    window[pieces.text] = np.searchsorted(ends, np.arange(len(inner)), side="right")
    parts = []
    for number in range(len(ends)):
        # Special pieces stand in every window: no network was trained without them.
        own = (window == number) | (window < 0)
        some = {name: getattr(pieces, name)[own] for name in ("ids", "token", "side")}
        if names_types(tokenizer):
            some["segment"] = np.asarray(pieces.segment)[own]
        parts.append(replace(pieces, **some, room=room))
    several: tuple[str, ...] = ()
    if len(parts) > 1:
        several = (
            f"The text was read in {len(parts)} windows; what is explained is the mean of "
            "the model's outputs over them.",
        )
    whole = replace(whole, input=tuple(parts), notices=several + whole.notices)
    return whole, tuple(_span(whole, part) for part in parts)


def _span(whole: ModelInput, window: Pieces) -> Span | None:
    """Return the first and last character of the words of a window."""
    words, spans = window.token[window.token >= 0], whole.tokens.spans
    return (spans[words[0]][0], spans[words[-1]][1]) if len(words) else None


def window_ends(
    total: int, room: int, *, words: Collection[int], sentences: Collection[int]
) -> list[int]:
    """Return the ends of windows of at most ``room`` pieces that together hold all ``total``.

    ``words`` and ``sentences`` are the numbers of pieces before their ends. Windows are made
    alike: of the sentence ends in the second half of what fits, the one nearest to an equal share
    of the rest is taken, else such a word end, else the last piece that fits.
    """
    ends, start = [], 0
    while (rest := total - start) > room:
        # An equal share of what is left: a full window and a rest of three words would give those
        # three as much say as all the others.
        share = start + rest / -(-rest // room)
        half, most = start + room // 2, start + room
        for choices in (sentences, words):
            if inside := [end for end in choices if half < end <= most]:
                start = min(inside, key=lambda end: abs(end - share))
                break
        else:
            start = most
        ends.append(start)
    return [*ends, total]


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class MaskedText:
    """The outputs for each mask of one text, by rows of ids that are padded on the right.

    ``other`` is the id in the place of every piece of a removed word. Where it is None the pieces
    are taken out, and what lay beyond the window moves up into it; ``nothing`` is then the id that
    stands for a text of no pieces at all.
    """

    engine: Engine
    forward: ForwardPass
    pieces: Pieces
    feature: Int[np.ndarray, " L"]  # of every piece, -1 where nothing is removed
    other: int | None = None
    nothing: int = 0

    def __call__(self, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for each mask."""
        return self.engine.rows(self.sizes(keep), lambda rows: self.forward(self.ids(keep[rows])))

    def sizes(self, keep: Bool[np.ndarray, "n d"]) -> Int[np.ndarray, " n"]:
        """Return how many pieces each mask leaves."""
        if self.other is not None:
            return np.full(len(keep), len(self.pieces.inside))
        return self.pieces.fitting(self._stays(keep)).sum(axis=1)

    def ids(self, keep: Bool[np.ndarray, "n d"]) -> Int[np.ndarray, "n T"]:
        """Return the row of each mask."""
        pieces = self.pieces
        if self.other is not None:
            row, inside = pieces.row[pieces.inside], pieces.inside
            # Its segment stays that of the place; what is masked out has none.
            segment = 0 if self.other == MASKED_OUT else row - pieces.ids[inside]
            return np.where(self._stays(keep, inside), row, self.other + segment)
        left = pieces.fitting(self._stays(keep))
        sizes = left.sum(axis=1)
        # A stable sort moves what is left to the front in its order, for all masks at once.
        order = np.argsort(~left, axis=1, kind="stable")[:, : max(1, int(sizes.max()))]
        ids = np.where(np.arange(order.shape[1]) < sizes[:, None], pieces.row[order], MASKED_OUT)
        # Neither is an answer written after nothing: a token stands where it would begin the row.
        bare = np.flatnonzero((sizes == 0) | forward.is_marked(ids[:, 0]))
        if len(bare):
            ids = np.pad(ids, ((0, 0), (0, 1)), constant_values=MASKED_OUT)
            ids[bare] = np.roll(ids[bare], 1, axis=1)
            ids[bare, 0] = self.nothing
        return ids

    def _stays(
        self, keep: Bool[np.ndarray, "n d"], places: Any = slice(None)
    ) -> Bool[np.ndarray, "n T"]:
        """Which of the pieces stay: those of kept features, and those that belong to none."""
        always = np.ones((len(keep), 1), bool)
        found: np.ndarray = np.concatenate([keep, always], axis=1)[:, self.feature[places]]
        return found

    @property
    def joins(self) -> object:
        """What games that may be asked together have in common: the engine of their model."""
        return self.engine

    @staticmethod
    def joint(
        games: Sequence[Any], masks: Sequence[Bool[np.ndarray, "_ _d"]]
    ) -> list[Float[np.ndarray, "_ C"]]:
        """Return the outputs for the masks of each text, asked as if they were one text's."""
        # Short texts alone would leave a device idle: one batch may hold masks of many.
        sizes = np.concatenate([game.sizes(keep) for game, keep in zip(games, masks, strict=True)])
        counts = [len(keep) for keep in masks]
        owner = np.repeat(np.arange(len(games)), counts)
        starts = np.cumsum([0, *counts[:-1]])

        def answer(places: Int[np.ndarray, " _"]) -> Float[np.ndarray, "_ C"]:
            whose = owner[places]
            rows = [
                (own, games[g].ids(masks[g][places[own] - starts[g]]))
                for g in np.unique(whose)
                for own in [whose == g]
            ]
            ids = np.full((len(places), max(part.shape[1] for _, part in rows)), MASKED_OUT)
            for own, part in rows:
                ids[own, : part.shape[1]] = part
            found: np.ndarray = games[0].forward(ids)
            return found

        return np.split(games[0].engine.rows(sizes, answer), starts[1:])


def ids_moved(
    pieces: Pieces, features: Features, tokens: Mapping[str, int], replacement: str
) -> Int[np.ndarray, " T"]:
    """Return the ids that are read, those of ``features`` moved to the token of that name."""
    if replacement not in tokens:
        named = " or ".join(map(repr, tokens))
        raise InputError(
            "integrated gradients move every word to a token in its own place; "
            + (f"use replacement {named}." if named else "use 'lime' or 'shapley'.")
        )
    feature = feature_of_piece(pieces, features)[pieces.inside]
    return np.where(feature >= 0, tokens[replacement], pieces.ids[pieces.inside])
