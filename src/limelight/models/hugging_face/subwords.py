"""A text as a Hugging Face model reads it: subwords of its tokenizer, grouped into words.

A text is read at once or in windows. With removed words it becomes rows of ids, and a game.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, final

import numpy as np
from transformers import PreTrainedTokenizerFast

from limelight.errors import InputError
from limelight.models.engine import Engine, PendingRows, describe_error
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.forward import MASKED_OUT, ForwardPass
from limelight.shapes import Bool, Float, Int
from limelight.text import (
    SIDES,
    Features,
    ModelInput,
    Span,
    SpanQuery,
    Tokens,
    UserInput,
    join_pair,
    sentence_spans,
    side_index,
    splits_character,
    truncate_line,
    validate_text_or_pair,
)
from limelight.text.characters import is_unspaced_script
from limelight.threads import cached_property

_LAST_ASCII = 127
_UNLIMITED = 10**30  # the limit that transformers stores if none was set
_MASKS_PER_PART, _MASKS_PER_GPU_CALL = 1024, 16_384
# Texts that are tokenized and read together. Arrays over all their characters take some memory.
_TEXTS_PER_PART, _CHARACTERS_PER_PART = 256, 1 << 20
_NO_LIMIT = 1 << 62  # the limit of a text that is split into windows later
# Keys of configurations for the number of trained positions.
_LENGTH_KEYS = ("max_position_embeddings", "max_seq_len")
# Names of classes that are about two texts.
_PAIR_CLASSES = ("entailment", "contradiction", "not_entailment", "paraphrase", "equivalent")


@final
@dataclass(frozen=True, eq=False)
class Subwords:
    """The input of the model: subwords of the whole text, also beyond the maximum length.

    Attributes
    ----------
    ids
        Token ids.
    token
        Index of each subword's word in ``strings``, -1 for special subwords.
    side
        0 for subwords of a text, 0 or 1 for subwords of a pair, and -1 for special subwords.
    strings
        The words.
    side_of_word
        ``side`` for each of ``strings``.
    room
        Maximum number of subwords that are not special.
    is_pair
        Whether the input is a pair of texts.
    segment
        1 + the token type of each subword, or 0 if the tokenizer gives no types.
    mark
        Marks of the subwords of a query (see ``tags`` and ``language_models``), 0 elsewhere.
    """

    ids: Int[np.ndarray, " L"]
    token: Int[np.ndarray, " L"]
    side: Int[np.ndarray, " L"]
    strings: tuple[str, ...]
    side_of_word: tuple[int, ...]
    room: int
    is_pair: bool = False
    segment: Int[np.ndarray, " L"] | Literal[0] = 0
    mark: Int[np.ndarray, " L"] | Literal[0] = 0

    @cached_property
    def row(self) -> Int[np.ndarray, " L"]:
        """Return the ids, packed with their segments and marks."""
        return forward.pack_rows(self.ids, self.segment, self.mark)

    @cached_property
    def text_slice(self) -> slice:
        """Return the slice of the text between the special subwords around it."""
        positions = np.flatnonzero(self.side >= 0).tolist() or [len(self.ids), len(self.ids) - 1]
        return slice(positions[0], positions[-1] + 1)

    @property
    def read_row(self) -> Int[np.ndarray, " T"]:
        """Return the packed ids that the model reads if nothing is removed."""
        return self.row[self.read_indices] if self.cut_count else self.row

    @cached_property
    def read_word_count(self) -> int:
        """Return how many of ``strings`` are read if nothing is removed.

        A word counts as read if its first subwords are read.
        """
        if not self.cut_count:
            return len(self.strings)
        return 1 + int(self.token[self.read_indices].max(initial=-1))

    @cached_property
    def cut_count(self) -> int:
        """Return how many subwords of the text are cut off."""
        if len(self.ids) <= self.room:
            return 0
        return max(0, int(self._side_lengths.sum()) - self.room)

    @cached_property
    def read_indices(self) -> Int[np.ndarray, " T"]:
        """Return the indices of the subwords that the model reads if nothing is removed."""
        if not self.cut_count:
            return np.arange(len(self.ids))
        return np.flatnonzero(self.select_fitting(np.ones((1, len(self.ids)), bool))[0])

    def select_fitting(self, present: Bool[np.ndarray, "n L"]) -> Bool[np.ndarray, "n L"]:
        """Select those of the ``present`` subwords that fit: special ones, and the first of a text.

        Each text of a pair keeps its first subwords, as many as :func:`allocate_room` returns.
        """
        if not self.cut_count:
            return present
        counts = np.stack([present[:, is_side].sum(axis=1) for is_side in self._side_masks], axis=1)
        room = allocate_room(counts, self.room)
        fits = present.copy()
        for is_side, max_count in zip(self._side_masks, room.T, strict=True):
            # Removed words leave room for words beyond the limit.
            fits[:, is_side] &= np.cumsum(present[:, is_side], axis=1) <= max_count[:, None]
        return fits

    @property
    def read_counts(self) -> tuple[tuple[int, int], ...]:
        """Return how many subwords of each text are read, and how many it has."""
        read = allocate_room(self._side_lengths[None], self.room)[0]
        return tuple(zip(map(int, read), map(int, self._side_lengths), strict=True))

    @cached_property
    def _side_masks(self) -> tuple[Bool[np.ndarray, " L"], ...]:
        """Return for each text which subwords belong to it."""
        return tuple(self.side == number for number in range(1 + self.is_pair))

    @property
    def _side_lengths(self) -> Int[np.ndarray, " sides"]:
        """Return the number of subwords of each text."""
        return np.array([np.count_nonzero(is_side) for is_side in self._side_masks])


def allocate_room(lengths: Int[np.ndarray, "n sides"], room: int) -> Int[np.ndarray, "n sides"]:
    """Return how many subwords of each text are read if ``room`` subwords fit.

    In a pair, the longer text is first cut down to the length of the shorter one. Then both are cut
    to one half, and the longer text gets the larger half. Tokenizers call this rule
    "longest_first".
    """
    room = min(room, int(lengths.sum(axis=1).max(initial=0)))  # without a limit, room is 10³⁰
    if lengths.shape[1] == 1:
        return np.minimum(lengths, room)
    short = np.minimum(lengths.min(axis=1), room // 2)
    long = np.minimum(lengths.max(axis=1), room - short)
    is_first_longer = lengths[:, 0] > lengths[:, 1]
    return np.stack(
        [np.where(is_first_longer, long, short), np.where(is_first_longer, short, long)], axis=1
    )


def input_windows(model_input: ModelInput) -> tuple[Any, ...]:
    """Return the subwords of each window of a text, or of the one text that was read at once."""
    return model_input.encoding if model_input.windows is not None else (model_input.encoding,)


def input_rows(model_input: ModelInput) -> list[Any]:
    """Return the rows that the model reads if nothing is removed; for an image, its pixels."""
    if model_input.image is not None:
        return [model_input.encoding]
    return [subwords.read_row for subwords in input_windows(model_input)]


def subword_features(subwords: Subwords, features: Features) -> Int[np.ndarray, " L"]:
    """Return the feature of every subword, -1 for subwords that are never removed.

    A word beyond the maximum length belongs to the feature with the same string, if there is one.
    In a pair, that word must be in the same text.
    """
    words = list(zip(subwords.side_of_word, subwords.strings, strict=True))
    # Words that are read come first among ``strings``, so features belong to the first strings.
    count = len(features.feature_index)
    feature_of_word = dict(zip(words[:count], features.feature_index.tolist(), strict=True))
    unread_features = [
        feature_of_word.get(word, -1) if features.kind == "words" else -1 for word in words[count:]
    ]
    token_features = np.array([*features.feature_index, *unread_features, -1], dtype=np.int64)
    return token_features[subwords.token]


def make_model_input(
    tokenizer: Any,
    user_input: UserInput,
    subwords: Subwords,
    spans: Sequence[Span],
    *,
    classes: tuple[str, ...] = (),
    truncation_advice: str = "",
) -> ModelInput:
    """Return the model input of a text that was split into subwords.

    Parameters
    ----------
    tokenizer
        The tokenizer of the model.
    user_input
        A text or a pair.
    subwords
        Subwords of the text.
    spans
        Spans of its words.
    classes
        Names of the classes. A warning is added if they are about two texts and one text was given.
    truncation_advice
        End of the warning about a text that was cut.

    Returns
    -------
    The input, with its tokens, subwords and warnings.

    Raises
    ------
    InputError
        If the model reads no word of a text.
    """
    text, parts = join_pair(user_input)
    count = subwords.read_word_count
    if not parts and not count:
        raise InputError("the text has no words. Give at least one word.")
    for number, name in enumerate(SIDES[: len(parts)]):
        if number not in subwords.side_of_word[:count]:
            raise InputError(
                f"the {name} text of the pair has no words that the model reads. Give it at least "
                "one."
            )
    is_cut = False
    if subwords.cut_count:
        read_count, total_count = subwords.read_counts[-1]
        is_cut = read_count < total_count
    return ModelInput(
        text,
        Tokens(subwords.strings[:count], tuple(spans[:count])),
        # The position where reading ends. A cut first text is only reported in a warning.
        cutoff=spans[count - 1][1] if is_cut else None,
        warnings=tuple(_reading_warnings(subwords, tokenizer, classes, truncation_advice)),
        encoding=subwords,
        parts=parts,
    )


def _reading_warnings(
    subwords: Subwords, tokenizer: Any, classes: tuple[str, ...], truncation_advice: str
) -> Iterator[str]:
    """Yield warnings about how the text was read."""
    if subwords.cut_count and subwords.is_pair:
        (first_read, first_total), (second_read, second_total) = subwords.read_counts
        yield (
            f"The pair has {first_total + second_total} tokens, and the model reads "
            f"{subwords.room}: {first_read} of {first_total} of the first text and {second_read} "
            f"of {second_total} of the second. The longer text is cut first."
        )
    elif subwords.cut_count:
        ((_, total),) = subwords.read_counts
        yield (
            f"The text has {total} tokens. The model reads the first {subwords.room}, and the "
            f"last {subwords.cut_count} were cut off.{truncation_advice}"
        )
    is_unknown = subwords.ids == tokenizer.unk_token_id  # False if unk_token_id is None
    if np.any(is_unknown):  # most texts have no unknown tokens
        read_indices = subwords.read_indices[subwords.token[subwords.read_indices] >= 0]
        unknown_count = int(np.count_nonzero(is_unknown[read_indices]))
        if unknown_count:
            yield (
                f"{unknown_count} of {len(read_indices)} tokens are not in the vocabulary. The "
                f"model reads {tokenizer.unk_token} instead."
            )
    # Only the names of its classes show that a model was trained on pairs.
    pair_classes = [name for name in classes if name.lower() in _PAIR_CLASSES]
    if not subwords.is_pair and pair_classes:
        yield (
            f"The model got one text, but its class {pair_classes[0]!r} describes a pair. If it "
            "was trained on pairs, give (first, second)."
        )
    if subwords.is_pair:
        is_boundary = (subwords.side[:-1] == 0) & (subwords.side[1:] == 1)
        if is_boundary.any() and not np.ptp(subwords.segment):
            yield (
                "The tokenizer puts nothing between the two texts of a pair, so the model reads "
                "them as one text."
            )


def read_subwords(
    tokenizer: Any, user_input: UserInput, *, limit: int, per_subword: bool = False
) -> tuple[Subwords, list[Span]]:
    """Tokenize a text or a pair, and return all its subwords and the span of every word.

    Words that the model reads come first, in the order of the text, then the words that are cut
    off.

    Parameters
    ----------
    tokenizer
        The tokenizer of the model.
    user_input
        A text or a pair.
    limit
        Maximum number of subwords that the model reads.
    per_subword
        Return the spans of subwords instead of words.

    Returns
    -------
    The subwords, and the span of each word.
    """
    (subwords_and_spans,) = read_texts(
        tokenizer, [user_input], limit=limit, per_subword=per_subword
    )
    return subwords_and_spans


def read_texts(
    tokenizer: Any, texts: Sequence[UserInput], *, limit: int, per_subword: bool = False
) -> list[tuple[Subwords, list[Span]]]:
    """Tokenize texts, and return the subwords of each text and the spans of its words.

    All texts are read together, because a call of NumPy takes longer than its work for one text.

    Parameters
    ----------
    tokenizer
        The tokenizer of the model.
    texts
        Single texts, or pairs.
    limit
        Maximum number of subwords that the model reads.
    per_subword
        Return the spans of subwords instead of words.

    Returns
    -------
    The subwords of each text, and the spans of its words, as :func:`read_subwords` returns them.
    """
    strings_and_parts = [join_pair(validate_text_or_pair(text)) for text in texts]
    is_pair = bool(strings_and_parts[0][1])
    encodings = encode_texts(tokenizer, texts)
    # The tokenizer does not truncate, because words beyond the limit move up if others are deleted.
    id_lists = [encoding.ids for encoding in encodings]
    ids = np.array(list(chain.from_iterable(id_lists)), dtype=np.int64)
    word = _join_indices([encoding.word_ids for encoding in encodings])
    edges = np.cumsum([0, *map(len, id_lists)])
    owner = np.repeat(np.arange(len(texts)), np.diff(edges))
    if is_pair:
        side = _join_indices([encoding.sequence_ids for encoding in encodings])
    else:  # a text extends from its first to its last word
        position, word_positions = np.arange(len(ids)), np.flatnonzero(word >= 0)
        counts = np.searchsorted(word_positions, edges)  # of subwords with words before each text
        word_positions = np.append(word_positions, len(ids))
        first = word_positions[counts[:-1]]
        last = np.where(counts[1:] > counts[:-1], word_positions[counts[1:] - 1], -1)
        side = np.where((first[owner] <= position) & (position <= last[owner]), 0, -1)
    # A newline separates the texts, as it separates the texts of a pair.
    lengths = [len(string) + 1 for string, _ in strings_and_parts]
    text_starts = np.cumsum([0, *lengths[:-1]])
    side_starts = np.array(
        [[part.span[0] for part in parts] or [0] for _, parts in strings_and_parts]
    )
    offsets = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
    subword_spans = np.array(list(offsets), dtype=np.int64).reshape(-1, 2)
    text_start = text_starts[owner]
    side_number = np.maximum(side, 0)
    subword_spans += (text_start + side_starts[owner, side_number])[:, None]
    token, spans = number_tokens(
        word,
        owner * 2 + side_number,
        subword_spans,
        "\n".join(string for string, _ in strings_and_parts),
        text_start=text_start,
        per_subword=per_subword,
    )
    token_edges = np.searchsorted(spans[:, 0], np.append(text_starts, sum(lengths)))
    token = np.where(token < 0, -1, token - token_edges[owner])
    spans -= np.repeat(text_starts, np.diff(token_edges))[:, None]
    segment = None
    if has_token_types(tokenizer):
        types = chain.from_iterable(encoding.type_ids for encoding in encodings)
        segment = 1 + np.array(list(types), dtype=np.int64)
    special_counts = np.bincount(owner[side < 0], minlength=len(texts)).tolist()
    is_lowercase = ignores_case(tokenizer)  # "Good" and "good", which the model cannot distinguish
    span_starts, span_ends = spans.T.tolist()
    results = []
    for i, (text, parts) in enumerate(strings_and_parts):
        subword_slice = slice(edges[i], edges[i + 1])
        token_slice = slice(token_edges[i], token_edges[i + 1])
        text_spans = list(zip(span_starts[token_slice], span_ends[token_slice], strict=True))
        is_sliced_lowercase = is_lowercase and text.isascii()  # each letter keeps its position
        source = text.lower() if is_sliced_lowercase else text
        strings = tuple([source[start:end] for start, end in text_spans])
        if is_lowercase and not is_sliced_lowercase:
            strings = tuple(map(str.lower, strings))
        side_of_word = (0,) * len(text_spans)
        if parts:
            side_of_word = tuple(side_index(start, parts) for start, _ in text_spans)
        subwords = Subwords(
            ids[subword_slice],
            token[subword_slice],
            side[subword_slice],
            strings=strings,
            side_of_word=side_of_word,
            room=max(limit - special_counts[i], 0),
            is_pair=bool(parts),
            segment=0 if segment is None else segment[subword_slice],
        )
        results.append(_order_by_reading(subwords, text_spans) if parts else (subwords, text_spans))
    return results


def split_texts(texts: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Split inputs into parts that :func:`read_texts` can read together, of texts or of pairs.

    Inputs of other types have parts of their own.
    """
    start, part_length = 0, 0
    kinds = [type(text) for text in texts]
    for i, text in enumerate(texts):
        sides = text if isinstance(text, tuple) else (text,)
        length = sum(len(side) for side in sides if isinstance(side, str))
        if i > start and (
            kinds[i] is not kinds[start]
            or kinds[i] not in (str, tuple)
            or i - start == _TEXTS_PER_PART
            or part_length + length > _CHARACTERS_PER_PART
        ):
            yield texts[start:i]
            start, part_length = i, 0
        part_length += length
    if len(texts):
        yield texts[start:]


def has_token_types(tokenizer: Any) -> bool:
    """Tell whether the tokenizer returns token types for the network."""
    return "token_type_ids" in tokenizer.model_input_names


def _join_indices(indices: Sequence[Sequence[int | None]]) -> Int[np.ndarray, " L"]:
    """Return lists of indices as one array with -1 for None."""
    # NumPy reads None as NaN, which takes half as long as a comparison in Python.
    numbers = np.array(list(chain.from_iterable(indices)), dtype=np.float64)
    return np.where(np.isnan(numbers), -1, numbers).astype(np.int64)


def _order_by_reading(subwords: Subwords, spans: list[Span]) -> tuple[Subwords, list[Span]]:
    """Renumber the words of a pair, so that words that are read precede those that are cut off."""
    if not subwords.cut_count:
        return subwords, spans
    read_words = set(subwords.token[subwords.read_indices].tolist())
    order = sorted(range(len(spans)), key=lambda word: (word not in read_words, word))
    new_index = np.append(np.argsort(np.array(order, dtype=np.int64)), -1)
    renumbered = replace(
        subwords,
        token=new_index[subwords.token],
        strings=tuple(subwords.strings[word] for word in order),
        side_of_word=tuple(subwords.side_of_word[word] for word in order),
    )
    return renumbered, [spans[word] for word in order]


def encode_texts(tokenizer: Any, texts: Sequence[UserInput]) -> list[Any]:
    """Tokenize texts, which are all single texts or all pairs, in one call of the tokenizer.

    The call may fail because of one of the texts. The error names it if it is the only one.
    """
    sides = [text if isinstance(text, tuple) else (text,) for text in texts]
    try:
        with forward.preserve_tokenizer(tokenizer):
            columns = [list(column) for column in zip(*sides, strict=True)]
            if _is_plain_tokenizer(tokenizer):
                return _encode_columns(tokenizer, columns)
            options = {"return_offsets_mapping": True, "truncation": False, "verbose": False}
            return list(tokenizer(*columns, **options).encodings)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic of the tokenizers library is not an Exception
        text = truncate_line(" ".join(map(str, sides[0])), 80)
        raise InputError(
            f"the tokenizer fails on the text {text!r} ({describe_error(error)})."
        ) from error


# What transformers calls when it tokenizes texts. A tokenizer that defines one of these itself, or
# that switches between languages, may do more than its backend.
_CALLED_NAMES = (
    "__call__",
    "_batch_encode_plus",
    "_encode_plus",
    "_convert_encoding",
    "_get_padding_truncation_strategies",
    "_switch_to_input_mode",
    "backend_tokenizer",
    "set_truncation_and_padding",
)


def _is_plain_tokenizer(tokenizer: Any) -> bool:
    """Tell whether a tokenizer only calls its backend, as the fast tokenizers of transformers do.

    A new version of transformers may call other methods. Then it counts as not plain.
    """
    kind, plain = type(tokenizer), PreTrainedTokenizerFast
    return (
        isinstance(tokenizer, plain)
        and hasattr(plain, "_encode_plus")
        and all(getattr(kind, name, None) is getattr(plain, name, None) for name in _CALLED_NAMES)
        and vars(tokenizer).keys().isdisjoint(_CALLED_NAMES)
    )


def _encode_columns(tokenizer: Any, columns: list[list[str]]) -> list[Any]:
    """Tokenize texts, or the first and the second texts of pairs, with the backend.

    This is what a call of the tokenizer without truncation and padding does. The call would also
    convert every result to lists, which takes as long as the backend.
    """
    backend = tokenizer.backend_tokenizer
    if backend.truncation is not None:
        backend.no_truncation()
    if backend.padding is not None:
        backend.no_padding()
    if backend.encode_special_tokens != tokenizer.split_special_tokens:
        backend.encode_special_tokens = tokenizer.split_special_tokens
    texts = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    return list(backend.encode_batch(texts, add_special_tokens=True))


def ignores_case(tokenizer: Any) -> bool:
    """Tell whether the tokenizer lowercases texts."""
    # The normalizer is tried out, since normalizers can be chained and have any name.
    normalizer = getattr(tokenizer.backend_tokenizer, "normalizer", None)
    return normalizer is not None and normalizer.normalize_str("AbC") == "abc"


_IS_VISIBLE = np.array([not chr(code).isspace() for code in range(128)])  # of ASCII


def _find_visible(text: str) -> Bool[np.ndarray, " _"]:
    """Return which characters of a text are no white space, and False behind the last one."""
    is_visible = np.zeros(len(text) + 1, bool)
    if text.isascii():
        is_visible[:-1] = _IS_VISIBLE[np.frombuffer(text.encode(), np.uint8)]
        return is_visible
    # Characters of ASCII are looked up, since `numpy.char.isspace` takes 20 times as long.
    code_points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    is_visible[:-1] = _IS_VISIBLE[np.minimum(code_points, _LAST_ASCII)]
    non_ascii = np.flatnonzero(code_points > _LAST_ASCII)
    is_visible[non_ascii] = ~np.char.isspace(code_points[non_ascii].view("<U1"))
    return is_visible


def number_tokens(
    word: Int[np.ndarray, " L"],
    side: Int[np.ndarray, " L"],
    subword_spans: Int[np.ndarray, "L 2"],
    text: str,
    *,
    text_start: Int[np.ndarray, " L"] | Literal[0] = 0,
    per_subword: bool,
) -> tuple[Int[np.ndarray, " L"], Int[np.ndarray, "n 2"]]:
    """Number the visible words, or the visible subwords, and compute their spans.

    A subword that is only white space belongs to its word if that has other subwords, otherwise to
    no word. Subwords of the same character, such as the bytes of an emoji or its skin tone, count
    as one, since a page cannot show them separately.

    Parameters
    ----------
    word
        Index of each subword's word according to the tokenizer, -1 for special subwords.
    side
        Number of the text to which each subword belongs, in increasing order. The texts of a pair
        have different numbers.
    subword_spans
        First character of each subword, and the character after its last one.
    text
        The text, or several texts that are joined by newlines.
    text_start
        First character of the text of each subword. The texts of a pair count as one text.
    per_subword
        Number subwords instead of words.

    Returns
    -------
    The number of each subword's token, -1 if it has none, and the spans of the tokens.
    """
    is_visible = _find_visible(text)
    # Byte-level tokenizers include the white space before a word in its first subword.
    visible = np.concatenate([[-1], np.flatnonzero(is_visible), [len(text)]])
    visible_count = np.cumsum(np.append(False, is_visible))  # before each character
    start, end = subword_spans.T
    start = np.minimum(visible[visible_count[start] + 1], end)
    end = np.maximum(visible[visible_count[end]] + 1, start)
    is_shown = (word >= 0) & (start < end)
    first, last = start[is_shown], end[is_shown]
    shown_start = text_start if isinstance(text_start, int) else text_start[is_shown]
    previous_end = np.maximum.accumulate(np.append(0, last))[:-1]  # end of all earlier subwords
    previous_end = np.maximum(previous_end, shown_start)
    # Some tokenizers take a whole text for one word. Then white space separates words.
    break_count = np.cumsum(np.append(False, is_visible[:-1] & ~is_visible[1:]))[start]
    is_inside_character = np.zeros(len(first), bool)
    if not text.isascii():
        code_points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        non_ascii = np.flatnonzero(code_points[first] > _LAST_ASCII)  # others start a character
        is_inside_character[non_ascii] = [
            splits_character(text, index) for index in first[non_ascii].tolist()
        ]
        # In scripts without spaces, only the subwords separate words.
        is_unspaced = np.zeros(len(text), bool)
        non_ascii = np.flatnonzero(code_points > _LAST_ASCII)
        is_unspaced[non_ascii] = [is_unspaced_script(text[index]) for index in non_ascii.tolist()]
        is_break = np.zeros(len(word), int)
        is_break[is_shown] = (
            (first >= previous_end)
            & (previous_end > shown_start)
            & ~is_inside_character
            & (is_unspaced[first] | is_unspaced[previous_end - 1])
        )
        break_count = break_count + np.cumsum(is_break)
    continues_character = is_inside_character & (first == previous_end)
    token = np.full(len(word), -1)
    if per_subword:
        token[is_shown] = np.cumsum(~continues_character & (first >= previous_end)) - 1
    elif len(first):
        # Neither number decreases from left to right, so subwords with equal sums have equal texts
        # and breaks.
        key = ((np.maximum(side, 0) + break_count) << 31) + word
        shown_key = key[is_shown]
        is_first = np.append(True, shown_key[1:] != shown_key[:-1])
        is_sorted = bool((shown_key[1:] >= shown_key[:-1]).all())
        words = first_index = np.zeros(0, np.int64)
        if not is_sorted:
            words, first_index = np.unique(shown_key, return_index=True)
            is_first[:] = False
            is_first[first_index] = True
        number = np.cumsum(is_first & ~continues_character) - 1
        is_hidden = (word >= 0) & ~is_shown
        if is_sorted:
            token[is_shown] = number
        if not is_sorted or is_hidden.any():
            if is_sorted:
                words, first_index = shown_key[is_first], np.flatnonzero(is_first)
            index = np.minimum(np.searchsorted(words, key), len(words) - 1)
            is_word = (word >= 0) & (words[index] == key)
            token = np.where(is_word, number[first_index][index], -1)
    ends = np.zeros((1 + token.max(initial=-1), 2), int)
    ends[:, 0] = len(text)
    np.minimum.at(ends[:, 0], token[is_shown], first)
    np.maximum.at(ends[:, 1], token[is_shown], last)
    return token, ends


def max_input_length(network: Any, tokenizer: Any) -> int:
    """Return how many subwords the model reads, including special ones."""
    tokenizer_limit = tokenizer.model_max_length  # read from a file, so of any type
    if not isinstance(tokenizer_limit, int | float) or not tokenizer_limit >= 1:
        raise InputError(
            "model_max_length of the tokenizer must be a positive number, not "
            f"{truncate_line(repr(tokenizer_limit))}."
        )
    offsets = [  # RoBERTa's positions start after the index of the padding
        module.padding_idx + 1
        for name, module in network.named_modules()
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None
    ]
    # The tokenizer and the network may have different limits. The smallest one counts.
    lengths = [getattr(network.config, name, None) for name in _LENGTH_KEYS]
    offset = max(offsets, default=0)
    limits = [count - offset for count in lengths if isinstance(count, int) and count > 0]
    return min([int(min(tokenizer_limit, _UNLIMITED)), *limits])


def read_windows(
    tokenizer: Any, text: str, size: int, *, per_subword: bool, around: Span | None = None
) -> tuple[ModelInput, tuple[Span | None, ...]]:
    """Tokenize a whole text and split it into windows.

    Each window has the special subwords of the text around it. Windows adjoin, and each word
    belongs to one window. Where windows end does not depend on removed words.

    Parameters
    ----------
    tokenizer
        The tokenizer of the model.
    text
        A single text.
    size
        Maximum number of subwords in a window, including special ones.
    per_subword
        Return subwords instead of words as tokens.
    around
        A span, in characters, for a window with the span in its middle. The text before it and the
        text after it count as a window each, of any size.

    Returns
    -------
    The model input, whose encoding is a tuple with the subwords of each window, and the span of
    each window.

    Raises
    ------
    InputError
        If a window has no room for a token.
    """
    subwords, spans = read_subwords(tokenizer, text, limit=_NO_LIMIT, per_subword=per_subword)
    model_input, word_subwords = make_model_input(tokenizer, text, subwords, spans), subwords
    special_count = int(np.count_nonzero(subwords.side < 0))
    if (room := size - special_count) < 1:
        raise InputError(f"a window must have at least {special_count + 1} tokens, not {size}.")
    if per_subword:  # windows never split a word
        word_subwords, spans = read_subwords(tokenizer, text, limit=_NO_LIMIT)
    word_of_subword = word_subwords.token[word_subwords.text_slice]
    last_subwords = np.flatnonzero(np.diff(word_of_subword, append=-2))
    starts = [start for start, _ in spans]
    word_ends = [int(i) + 1 for i in last_subwords]
    last_words = {bisect_left(starts, stop) - 1 for _, stop in sentence_spans(text)}
    ends = window_ends(
        len(word_of_subword),
        room,
        words=word_ends,
        sentences=[int(i) + 1 for i in last_subwords if word_of_subword[i] in last_words],
    )
    if around is not None:
        inside = [i for i, span in enumerate(spans) if span[0] < around[1] and span[1] > around[0]]
        indices = np.flatnonzero(np.isin(word_of_subword, inside))
        if 0 < len(indices) <= room:
            window = window_around(int(indices[0]), int(indices[-1]) + 1, room, words=word_ends)
            ends = sorted({*window, len(word_of_subword)} - {0})
    window_number = np.full(len(subwords.ids), -1)  # window of each subword, -1 for special ones
    window_number[subwords.text_slice] = np.searchsorted(
        ends, np.arange(len(word_of_subword)), side="right"
    )
    windows = []
    for number in range(len(ends)):
        # Special subwords are in every window, since networks were trained with them.
        is_in_window = (window_number == number) | (window_number < 0)
        columns = {name: getattr(subwords, name)[is_in_window] for name in ("ids", "token", "side")}
        if has_token_types(tokenizer):
            columns["segment"] = np.asarray(subwords.segment)[is_in_window]
        windows.append(replace(subwords, **columns, room=room))
    window_warnings: tuple[str, ...] = ()
    if len(windows) > 1:
        window_warnings = (
            f"The text was read in {len(windows)} windows. The mean of the model's outputs over "
            "them is explained.",
        )
    model_input = replace(
        model_input, encoding=tuple(windows), warnings=window_warnings + model_input.warnings
    )
    return model_input, tuple(_window_span(model_input, window) for window in windows)


def select_window(model_input: ModelInput, window: Subwords) -> ModelInput:
    """Return a window of a text as an input of its own, with the words of the window."""
    words = window.token[window.token >= 0]
    selected = slice(int(words.min()), int(words.max()) + 1) if len(words) else slice(0, 0)
    tokens = model_input.tokens
    return replace(
        model_input,
        tokens=Tokens(tokens.strings[selected], tokens.spans[selected]),
        encoding=replace(
            window,
            token=np.where(window.token < 0, -1, window.token - selected.start),
            strings=window.strings[selected],
            side_of_word=window.side_of_word[selected],
        ),
        warnings=(),
    )


def is_divided(windows: Sequence[ModelInput], query: SpanQuery) -> bool:
    """Return whether a span lies in several windows."""
    return not any(_contains(window, query) for window in windows)


def _contains(window: ModelInput, query: SpanQuery) -> bool:
    """Return whether a window contains a span."""
    spans = window.tokens.spans
    return len(spans) > 0 and spans[0][0] <= query.start and query.end <= spans[-1][1]


def find_window(windows: Sequence[ModelInput], queries: Sequence[SpanQuery]) -> int:
    """Return the number of the window that contains all spans.

    Raises
    ------
    InputError
        If a span is in no window, or if the spans lie in different windows.
    """
    numbers = set[int]()
    for query in queries:
        containing = [number for number, window in enumerate(windows) if _contains(window, query)]
        if not containing:
            description = query.describe(windows[0].text).removeprefix("at ")
            raise InputError(
                f"{description} does not fit into one window. Use a larger window, such as "
                "'auto', or explain a shorter span."
            )
        numbers.update(containing)
    if len(numbers) > 1:
        raise InputError(
            f"the spans lie in {len(numbers)} windows, and only spans of one window can be "
            "explained together. Explain each span with at=."
        )
    return numbers.pop()


def _window_span(model_input: ModelInput, window: Subwords) -> Span | None:
    """Return the first character of a window's words, and the character after the last one."""
    words, spans = window.token[window.token >= 0], model_input.tokens.spans
    return (spans[words[0]][0], spans[words[-1]][1]) if len(words) else None


def window_ends(
    total: int, room: int, *, words: Collection[int], sentences: Collection[int]
) -> list[int]:
    """Return the ends of windows of at most ``room`` subwords.

    Windows get similar sizes. A window ends at the sentence end that is nearest to an equal share
    of the remaining text, if one is in the second half of the room. Otherwise it ends at such a
    word end, or at the last subword that fits.

    Parameters
    ----------
    total
        Number of subwords of the text.
    room
        Maximum number of subwords of a window.
    words
        Numbers of subwords before the ends of words.
    sentences
        Numbers of subwords before the ends of sentences.

    Returns
    -------
    The index behind the last subword of each window.
    """
    ends, start = [], 0
    while (remaining := total - start) > room:
        # A full window and a remainder of three words would give these words as much weight as all
        # others together. So the target is an equal share of the remaining text.
        share = start + remaining / -(-remaining // room)
        earliest, latest = start + room // 2, start + room
        for choices in (sentences, words):
            if possible_ends := [end for end in choices if earliest < end <= latest]:
                start = min(possible_ends, key=lambda end: abs(end - share))
                break
        else:
            start = latest
        ends.append(start)
    return [*ends, total]


def window_around(first: int, last: int, room: int, *, words: Sequence[int]) -> tuple[int, int]:
    """Return the window of complete words with a span in its middle.

    Near an end of the text, the window has more subwords on the other side.

    Parameters
    ----------
    first, last
        The first subword of the span, and the subword after the last one, at most ``room`` later.
    room
        Maximum number of subwords of a window.
    words
        The subword after the end of each word, in increasing order.

    Returns
    -------
    The first subword of the window, and the subword after the last one.
    """
    before = (room - (last - first)) // 2
    earliest = min(max(first - before, 0), max(words[-1] - room, 0))
    start = min(word for word in (0, *words) if word >= earliest)
    return start, max(word for word in words if word <= start + room)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class MaskedText:
    """The outputs of a model as a function of masks of one text, computed from padded rows of ids.

    ``replacement_id`` takes the position of every subword of a removed word. If it is None, the
    subwords are taken out, and words beyond the maximum length move up. ``empty_id`` is then the
    only token of an empty text.
    """

    engine: Engine
    forward: ForwardPass
    subwords: Subwords
    feature: Int[np.ndarray, " L"]  # of every subword, -1 if it is never removed
    replacement_id: int | None = None
    empty_id: int = 0

    def __call__(self, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for each mask."""
        return self.engine.compute_rows(
            self.sizes(keep), lambda rows: self.forward.start(self.ids(keep[rows]))
        )

    def sizes(self, keep: Bool[np.ndarray, "n d"]) -> Int[np.ndarray, " n"]:
        """Return the number of subwords in the row of each mask."""
        if self.replacement_id is not None:
            return np.full(len(keep), len(self.subwords.read_indices))
        # In parts, because a number for each mask and subword of a long text takes gigabytes.
        parts = [keep[i : i + _MASKS_PER_PART] for i in range(0, len(keep), _MASKS_PER_PART)]
        counts = [
            self.subwords.select_fitting(self._kept_subwords(part)).sum(axis=1) for part in parts
        ]
        return np.concatenate([np.empty(0, int), *counts])

    def ids(self, keep: Bool[np.ndarray, "n d"]) -> Int[np.ndarray, "n T"]:
        """Return the padded rows of all masks."""
        subwords = self.subwords
        if self.replacement_id is not None:
            row, indices = subwords.row[subwords.read_indices], subwords.read_indices
            # The replacement has the segment of its position. Masked-out subwords have none.
            segment = 0 if self.replacement_id == MASKED_OUT else row - subwords.ids[indices]
            return np.where(self._kept_subwords(keep, indices), row, self.replacement_id + segment)
        is_read = subwords.select_fitting(self._kept_subwords(keep))
        sizes = is_read.sum(axis=1)
        # A stable sort moves the remaining subwords of all masks to the front, in their order.
        order = np.argsort(~is_read, axis=1, kind="stable")[:, : max(1, int(sizes.max()))]
        ids = np.where(np.arange(order.shape[1]) < sizes[:, None], subwords.row[order], MASKED_OUT)
        # An empty text gets one token, and so does an answer that would otherwise start the row.
        rows_without_start = np.flatnonzero((sizes == 0) | forward.is_marked(ids[:, 0]))
        if len(rows_without_start):
            ids = np.pad(ids, ((0, 0), (0, 1)), constant_values=MASKED_OUT)
            ids[rows_without_start] = np.roll(ids[rows_without_start], 1, axis=1)
            ids[rows_without_start, 0] = self.empty_id
        return ids

    def _kept_subwords(
        self, keep: Bool[np.ndarray, "n d"], indices: Any = slice(None)
    ) -> Bool[np.ndarray, "n T"]:
        """Return which subwords stay: those of kept features, and those without a feature."""
        always = np.ones((len(keep), 1), bool)
        is_kept: np.ndarray = np.concatenate([keep, always], axis=1)[:, self.feature[indices]]
        return is_kept

    @property
    def masks_per_call(self) -> int:
        """Return how many masks are best evaluated in a call, many on a GPU."""
        return _MASKS_PER_GPU_CALL if self.forward.network.device.type == "cuda" else 1024

    @property
    def join_key(self) -> object:
        """Return the engine, which games that can be computed together have in common."""
        return self.engine

    @staticmethod
    def joint_call(
        games: Sequence[Any], masks: Sequence[Bool[np.ndarray, "_ _d"]]
    ) -> list[Float[np.ndarray, "_ C"]]:
        """Return the outputs for the masks of several texts, computed in common batches."""
        # A batch may contain masks of many texts, since short texts would not use a GPU fully.
        sizes = np.concatenate([game.sizes(keep) for game, keep in zip(games, masks, strict=True)])
        counts = [len(keep) for keep in masks]
        game_index = np.repeat(np.arange(len(games)), counts)
        starts = np.cumsum([0, *counts[:-1]])

        def start_batch(indices: Int[np.ndarray, " _"]) -> PendingRows:
            """Start to compute the outputs for some rows of all games."""
            games_of_rows = game_index[indices]
            rows = [
                (is_game, games[g].ids(masks[g][indices[is_game] - starts[g]]))
                for g in np.unique(games_of_rows)
                for is_game in [games_of_rows == g]
            ]
            ids = np.full(
                (len(indices), max(game_ids.shape[1] for _, game_ids in rows)), MASKED_OUT
            )
            for is_game, game_ids in rows:
                ids[is_game, : game_ids.shape[1]] = game_ids
            pending: PendingRows = games[0].forward.start(ids)
            return pending

        return np.split(games[0].engine.compute_rows(sizes, start_batch), starts[1:])


def baseline_ids(
    subwords: Subwords, features: Features, tokens: Mapping[str, int], replacement: str
) -> Int[np.ndarray, " T"]:
    """Return the ids that the model reads, with those of ``features`` replaced.

    Parameters
    ----------
    subwords
        Subwords of a text.
    features
        Features to replace.
    tokens
        Ids of replacements, by name.
    replacement
        Name of the replacement.

    Returns
    -------
    One id for each subword that the model reads.

    Raises
    ------
    InputError
        If the replacement is not a token.
    """
    if replacement not in tokens:
        names = " or ".join(map(repr, tokens))
        raise InputError(
            "integrated gradients replace each word by a token. "
            + (f"Use replacement {names}." if names else "Use 'lime' or 'shapley'.")
        )
    feature = subword_features(subwords, features)[subwords.read_indices]
    return np.where(feature >= 0, tokens[replacement], subwords.ids[subwords.read_indices])
