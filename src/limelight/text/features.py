"""Features of an input: the words, positions, sentences or patches that get a score."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast, final

import numpy as np

from limelight.errors import InputError, unknown_name_message
from limelight.shapes import Int
from limelight.text.characters import abbreviate_names
from limelight.text.conversations import PART_FEATURES, Conversation, part_index
from limelight.text.images import (
    PatchedImage,
    bounding_box,
    grid_boxes,
    parse_grid,
    segment_image,
    slic_segments,
)
from limelight.text.inputs import SIDES, ModelInput, side_index
from limelight.text.queries import SpanQuery
from limelight.text.spans import (
    DeferredSpans,
    FeatureSpans,
    SpansField,
    accept_deferred_spans,
    stored_spans,
)
from limelight.text.splitters import (
    SPLITTERS,
    Splitter,
    run_splitter,
    splitter_name,
    validate_spans,
)
from limelight.text.tokens import Span

FEATURES = ("words", "positions", *SPLITTERS)
IMAGE_FEATURES = ("patches", "7 × 7 patches", "segments")  # or any other grid
ALL_FEATURES = (*FEATURES, "tokens", *PART_FEATURES, *IMAGE_FEATURES)  # of some model
# The argument `features=` of the user: a name, a group per token, spans, or a splitter.
FeatureSpec = str | Sequence[int] | Sequence[Span] | np.ndarray | Splitter
_NamesAndSpans = tuple[tuple[str, ...], FeatureSpans]


@final
@accept_deferred_spans
@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """The features of one input.

    Parameters
    ----------
    kind
        The kind of the features, such as "words" or "sentences"; see `feature_kind`.
    strings
        The text of each feature.
    spans
        The spans of all occurrences of each feature.
    feature_index
        For each token the index of its feature. It is -1 for a token that belongs to no feature
        and is never removed.
    warnings
        What a reader of the scores must know about the split into features.
    """

    kind: str
    strings: tuple[str, ...]
    spans: SpansField
    feature_index: Int[np.ndarray, " T"]
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.strings)

    @property
    def noun(self) -> str:
        """The noun for one feature, such as "word"."""
        return feature_noun(self.kind)

    def finer_features_advice(self, *, has_subwords: bool = False) -> str:
        """Return advice that leads to more features: other features, or a longer text."""
        if _is_image_kind(self.kind):
            return "Use smaller patches, such as grid=4."
        if self.kind not in ("words", "positions", "tokens"):
            return "Use smaller features, such as features='words'."
        if self.kind == "words" and np.count_nonzero(self.feature_index >= 0) > 1:
            return "Use features='positions', or give a longer text."
        if self.kind != "tokens" and has_subwords:
            return "Give a longer text, or use features='tokens'."
        return "Give a longer text."

    def result_fields(self, model_input: ModelInput) -> dict[str, Any]:
        """Return the fields of an `Explanation` that describe these features.

        The spans may be deferred. Read them from the features.
        """
        image = model_input.image
        fields = {"features": self.strings, "spans": stored_spans(self)}
        if image is None:
            return fields
        return {**fields, "image": image.stored_image(self.feature_index, len(self))}


class NestedFeatures(NamedTuple):
    """Inner features, such as words, divided at the borders of outer features, such as sentences.

    A word that occurs in three sentences has three ``parts``. For each part, ``inner`` is the index
    of the word and ``outer`` is the index of the sentence. Parts outside all outer features get
    indices after those of the outer features.
    """

    parts: Features
    inner: Int[np.ndarray, " n"]
    outer: Int[np.ndarray, " n"]


def nest_features(inner: Features, outer: Features) -> NestedFeatures:
    """Divide the inner features of an input at the borders of its outer features."""
    is_scored = inner.feature_index >= 0
    outer_index = np.where(
        outer.feature_index < 0, len(outer) + inner.feature_index, outer.feature_index
    )[is_scored]
    is_outside = outer_index >= len(outer)
    outer_index[is_outside] = (
        len(outer) + np.unique(outer_index[is_outside], return_inverse=True)[1]
    )
    pairs, pair_index = np.unique(
        [inner.feature_index[is_scored], outer_index], axis=1, return_inverse=True
    )
    part_index = np.full(len(is_scored), -1)
    part_index[is_scored] = pair_index.ravel()
    spans = tuple(
        tuple(span for span in inner.spans[j] if _contains_span(outer, k, span))
        for j, k in pairs.T.tolist()
    )
    strings = tuple(inner.strings[j] for j in pairs[0])
    return NestedFeatures(Features(inner.kind, strings, spans, part_index), *pairs)


def _contains_span(outer: Features, k: int, span: Span) -> bool:
    """Return whether a span lies in the outer feature ``k``.

    If there is no feature ``k``, return whether the span lies outside all outer features.
    """
    if k < len(outer):
        return any(a <= span[0] < b for a, b in outer.spans[k])
    return not any(a <= span[0] < b for spans in outer.spans for a, b in spans)


def find_phrase(model_input: ModelInput, phrase: str) -> set[int]:
    """Return the indices of the tokens of all occurrences of a phrase, in upper or lower case.

    White space may differ. An occurrence begins and ends where tokens do, and lies in one text of a
    pair.
    """
    if not (words := phrase.split()):
        return set()
    spans = model_input.tokens.spans
    starts = [start for start, _ in spans]
    pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
    indices = set[int]()
    for match in pattern.finditer(model_input.text):
        start, end = match.span()
        tokens = [
            i
            for i in range(bisect_left(starts, start), bisect_left(starts, end))
            if spans[i][1] > spans[i][0]
        ]
        is_aligned = (
            bool(tokens)
            and spans[tokens[0]][0] == start
            and max(spans[i][1] for i in tokens) == end
        )
        borders = [part.span[0] for part in model_input.parts[1:]]
        if is_aligned and not any(start < border < end for border in borders):
            indices.update(tokens)
    return indices


def build_features(
    model_input: ModelInput,
    spec: FeatureSpec = "words",
    *,
    protect: Collection[str | int] = (),
    side: str | None = None,
    protect_query: bool = False,
) -> Features:
    """Split an input into features.

    Features come in the order of their first occurrence. Strings outside the vocabulary of a model
    stay distinct, although the model reads UNK for each of them.

    Parameters
    ----------
    model_input
        The text, pair or image as a model reads it.
    spec
        For a text: "words" (all occurrences of a token string together), "positions" (every token
        alone), "sentences", "paragraphs", "lines", "documents", "messages", "steps" (the sentences
        of a model's reasoning), "auto" (see `default_features`), a list of spans (start, end), a
        splitter, or one integer per token. Tokens with the same integer form one feature, and a
        negative integer means no feature. Text between spans belongs to no feature.

        For an image: "patches" as the model reads them, "7 × 7 patches" or another grid,
        "segments", a function from the pixels to a label for each pixel, or one integer per patch.
    protect
        Strings of tokens, or indices of tokens, that belong to no feature.
    side
        "first" or "second": only tokens of this text of a pair belong to features. A word that
        occurs in both texts of a pair is always two features, because its effects differ.
    protect_query
        Whether the tokens of the queries belong to no feature.

    Returns
    -------
    Features
        At least one feature.

    Raises
    ------
    InputError
        If no feature remains, or if ``spec`` or ``side`` does not fit the input.
    """
    spec = default_features(model_input) if isinstance(spec, str) and spec == "auto" else spec
    kind, parts, strings = feature_kind(spec), model_input.parts, model_input.tokens.strings
    sides = [side_index(start, parts) for start, _ in model_input.tokens.spans] if parts else []
    merged: Any = None  # the spans of features that a splitter or a list of spans defines
    warnings: tuple[str, ...] = ()
    groups: Sequence[Any] = range(len(strings))  # None for a token without a feature
    if model_input.image is not None:
        groups = _group_patches(model_input, model_input.image, spec)
    elif isinstance(spec, str) and spec in ("documents", "messages"):
        check_part_kind(model_input, spec)
        groups = [
            None if index < 0 else index
            for start, _ in model_input.tokens.spans
            for index in [part_index(start, parts)]
        ]
    elif (spans := split_input(model_input, spec)) is not None:
        merged, groups = _merge_spans(model_input.tokens.spans, spans)
        warnings = _merge_warning(model_input.text, spans, merged)
    elif not isinstance(spec, str):
        groups = _validate_groups(spec, len(strings))
    elif spec == "words":
        groups = list(zip(sides, strings, strict=True)) if parts else strings
    if model_input.source is not None and kind in ("words", "positions"):
        groups = [group if model_input.is_word(i) else None for i, group in enumerate(groups)]
    if side is not None:
        if not parts or model_input.source is not None:
            raise InputError(
                f"side={side!r} needs a pair of texts, but this is a single text. Leave side out."
            )
        side_number = SIDES.index(side)
        groups = [
            group if number == side_number else None
            for group, number in zip(groups, sides, strict=True)
        ]
    if protect:
        groups = [
            None if string in protect or i in protect else group
            for i, (string, group) in enumerate(zip(strings, groups, strict=True))
        ]
    if protect_query and model_input.queries:
        groups = list(groups)
        for query in model_input.queries:
            for i in query.token_indices(model_input.tokens.spans, model_input.text):
                groups[i] = None
    scored_groups = dict.fromkeys(groups)
    scored_groups.pop(None, None)
    d = len(scored_groups)
    index_of_group: dict[Any, int] = dict(zip(scored_groups, range(d), strict=True))
    index_of_group[None] = -1
    # `map` and `fromiter` take half the time of comprehensions and of `np.array`.
    feature_index = np.fromiter(map(index_of_group.__getitem__, groups), int, len(groups))
    if not d:
        advice = " Use protect_span=False (--no-protect-span) to score the words of the span."
        advice *= any(isinstance(query, SpanQuery) for query in model_input.queries)
        raise InputError(
            f"the model reads no unprotected {feature_noun(kind)} of this text, so there is "
            f"nothing to explain.{advice}"
        )
    if model_input.image is not None:
        names = tuple(map(str, scored_groups))
        return Features(kind, names, ((),) * d, feature_index)
    if kind in ("documents", "messages"):
        scored_parts = [parts[group] for group in scored_groups]
        names = tuple(part.id for part in scored_parts)
        spans_of_parts = tuple((part.content,) for part in scored_parts)
        return Features(kind, names, spans_of_parts, feature_index)
    if kind in ("words", "positions"):
        names = _token_names(scored_groups, strings, kind=kind, has_parts=bool(parts))
        end = len(model_input.text)
        deferred: Any = DeferredSpans(model_input.tokens, feature_index, count=d, end=end)
        return Features(kind, names, deferred, feature_index)
    limits = None if merged is None else [merged[group] for group in scored_groups]
    names_and_spans = _collect_runs(model_input, feature_index, d, limits)
    return Features(kind, *names_and_spans, feature_index, warnings)


def default_features(model_input: ModelInput) -> str:
    """Return the default features of an input with an answer: its parts, or sentences."""
    return model_input.part_kind or "sentences"


def check_part_kind(model_input: ModelInput, spec: str) -> None:
    """Raise `InputError` unless the parts of an input are those that ``spec`` names."""
    if model_input.part_kind == spec:
        return
    needs = {
        "documents": "documents=, a list of texts next to the question",
        "messages": "a list of messages without documents",
        "steps": "messages that end with the reasoning and the answer of the assistant",
    }
    raise InputError(f"features={spec!r} needs {needs[spec]}.")


def pluralize(noun: str) -> str:
    """Return the plural of a noun for features: "words", "patches"."""
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


def feature_kind(spec: Any) -> str:
    """Return the kind of the features that ``spec`` defines, as results store it.

    It is a name of this package ("words", "7 × 7 patches"), "groups", "spans", or the splitter as
    "module:name".
    """
    if isinstance(spec, str):
        grid = None if spec in FEATURES else parse_grid(spec)
        return spec if grid is None else f"{grid[0]} × {grid[1]} patches"
    if callable(spec):
        return splitter_name(spec)
    first: Any = next(iter(spec), None) if hasattr(spec, "__iter__") else None
    # A row of an array has __index__ too.
    return "groups" if hasattr(first, "__index__") and not np.ndim(first) else "spans"


def feature_noun(kind: str) -> str:
    """Return the noun for one feature of a kind: "sentence", or "part" for spans and splitters."""
    if kind in ("words", "positions"):
        return "word"
    if kind == "patches" or parse_grid(kind) is not None:
        return "patch"
    if kind == "segments":
        return "segment"
    is_noun = kind in (*SPLITTERS, *PART_FEATURES, "tokens")
    return kind.removesuffix("s") if is_noun else "part"


def is_feature_spec(value: Any) -> bool:
    """Return whether ``value`` defines features of any model.

    The string "tokens" does not, because the tokens depend on the tokenizer of a model. Every
    value that is not a string does; `build_features` checks it later.
    """
    if not isinstance(value, str):  # groups may come as an array
        return True
    return value in (*FEATURES, *PART_FEATURES, "auto") or _is_image_kind(value)


def _is_image_kind(kind: str) -> bool:
    """Return whether the name of a kind of features is one for images."""
    return kind in IMAGE_FEATURES or parse_grid(kind) is not None


def split_input(model_input: ModelInput, spec: Any) -> Any:
    """Split a text into the spans that ``spec`` defines, or an image into new patches.

    :func:`limelight.models.queries.refine_tokens` accepts both results.

    Returns
    -------
    list of Span, PatchedImage or None
        None if the features are sets of the tokens or patches that the model reads already.
    """
    if model_input.image is not None:
        return _split_image(model_input, model_input.image, spec)
    if isinstance(spec, str):
        spec = default_features(model_input) if spec == "auto" else spec
        if spec in ("words", "positions", "documents", "messages"):
            return None
        if spec == "steps":
            check_part_kind(model_input, spec)
            first = model_input.parts[0].content[0]
            steps = cast(Conversation, model_input.source).steps
            return [(first + start, first + end) for start, end in steps]
        if spec not in SPLITTERS:
            if _is_image_kind(spec):
                raise InputError(
                    f"features {spec!r} are parts of an image, but this is a text. Choose "
                    f"from: {', '.join(FEATURES)}."
                )
            raise InputError(unknown_name_message("features", spec, FEATURES))
        spec = SPLITTERS[spec]
    elif not callable(spec):
        if not isinstance(spec, Sequence | np.ndarray) or not len(spec):
            raise InputError(
                f"features must be one of {', '.join(FEATURES)}, a list of (start, end), a "
                f"function that returns one, or one whole number per token, not {spec!r}."
            )
        are_groups = feature_kind(spec) == "groups"
        return None if are_groups else validate_spans(spec, model_input.text, "features")
    name = splitter_name(spec)
    contents = [part.content for part in model_input.parts] or [(0, len(model_input.text))]
    return [
        (first + start, first + end)  # the parts of an input are split separately
        for first, last in contents
        for start, end in run_splitter(spec, model_input.text[first:last], name)
    ]


def _split_image(model_input: ModelInput, image: PatchedImage, spec: Any) -> PatchedImage | None:
    """Split an image into new patches; return None if ``spec`` groups the patches of the model."""
    if not isinstance(spec, str):
        return segment_image(spec, image.source, splitter_name(spec)) if callable(spec) else None
    if spec == "segments":
        return segment_image(slic_segments, image.source, spec)
    if (grid := parse_grid(spec)) is None or not model_input.is_divisible:
        return None
    frame = bounding_box(image.boxes)  # a processor may crop the image
    return PatchedImage(image.source, grid_boxes(frame, *grid))


def _group_patches(model_input: ModelInput, image: PatchedImage, spec: Any) -> list[Hashable]:
    """Return for each patch the name of its feature, or None."""
    names = model_input.tokens.strings
    if not isinstance(spec, str) and not callable(spec):
        groups = _validate_groups(spec, len(names))
        return [None if group is None else f"group {group}" for group in groups]
    if not isinstance(spec, str) or spec in ("patches", "positions", "segments"):
        return list(names)
    if (grid := parse_grid(spec)) is None:
        if spec in FEATURES:
            raise InputError(
                f"features {spec!r} are parts of a text, but this is an image. Choose from: "
                f"{', '.join(IMAGE_FEATURES)}."
            )
        raise InputError(unknown_name_message("features", spec, IMAGE_FEATURES))
    shape = [len({box[side] for box in image.boxes}) for side in (1, 0)]  # rows, columns
    if any(wanted > available for wanted, available in zip(grid, shape, strict=True)):
        raise InputError(
            f"the model reads {shape[0]} × {shape[1]} patches, so a grid of {grid[0]} × {grid[1]} "
            "is too fine. Use a coarser grid."
        )
    # The center of each patch chooses its cell. Pixels are not used, so that images of all sizes
    # are grouped in the same way.
    cells = list[Hashable]()
    for k in range(len(names)):
        sizes = zip(divmod(k, shape[1]), grid, shape, strict=True)
        row, column = ((2 * i + 1) * wanted // (2 * available) for i, wanted, available in sizes)
        cells.append(f"row {row + 1}, column {column + 1}")
    return cells


def _merge_spans(tokens: Sequence[Span], spans: list[Span]) -> tuple[list[Span], list[Hashable]]:
    """Merge spans that share a token; return the merged spans and the index of each token's span.

    A token is removed as a whole, so two spans that share a token can only be removed together.
    """
    ends, label = [end for _, end in spans], list(range(len(spans)))
    first_span = [bisect_right(ends, start) for start, _ in tokens]
    for i, (_, end) in zip(first_span, tokens, strict=True):
        j = i + 1
        while j < len(spans) and spans[j][0] < end:
            label[j] = label[j - 1]
            j += 1
    merged: dict[int, Span] = {}
    for old, (start, end) in zip(label, spans, strict=True):
        merged[old] = (merged.get(old, (start, end))[0], end)
    number = {old: new for new, old in enumerate(merged)}
    groups: list[Hashable] = [
        number[label[i]] if i < len(spans) and spans[i][0] < end else None
        for i, (_, end) in zip(first_span, tokens, strict=True)
    ]
    return list(merged.values()), groups


def _merge_warning(text: str, spans: list[Span], merged: list[Span]) -> tuple[str, ...]:
    """Return a warning if spans were merged because they share a token, else an empty tuple."""
    if len(merged) == len(spans):
        return ()
    first = next(text[a:b] for a, b in merged if (a, b) not in spans)
    return (
        f"The model reads some units as one token, such as {abbreviate_names([first])!r}. The "
        f"{len(spans)} units have {len(merged)} scores.",
    )


def _validate_groups(groups: Any, count: int) -> list[Hashable]:
    """Return the user's group of each of ``count`` tokens; negative integers become None."""
    if not all(hasattr(group, "__index__") for group in groups):
        raise InputError(f"groups of tokens must be whole numbers, not {groups!r}.")
    if len(groups) != count:
        raise InputError(
            f"features must have one group per token of the window ({count}), not {len(groups)}."
        )
    return [None if int(group) < 0 else int(group) for group in groups]


def _token_names(
    groups: Iterable[Any], strings: tuple[str, ...], *, kind: str, has_parts: bool
) -> tuple[str, ...]:
    """Return the name of each feature of the kind "words" or "positions": its token.

    Parameters
    ----------
    groups
        The group of tokens that is the feature, for each feature.
    strings
        The tokens.
    kind
        "words" or "positions".
    has_parts
        Whether groups of words are pairs of the number of a text and a token.
    """
    if kind == "positions":
        return tuple(strings[i] for i in groups)
    return tuple(string for _, string in groups) if has_parts else tuple(groups)


def _collect_runs(
    model_input: ModelInput,
    feature_index: Int[np.ndarray, " T"],
    d: int,
    limits: Sequence[Span] | None,
) -> _NamesAndSpans:
    """Collect the runs of adjacent tokens of each of ``d`` features, and name it by their text.

    If ``limits`` has a span for each feature, a run includes the characters around its tokens up
    to these limits.
    """
    runs: list[list[Span]] = [[] for _ in range(d)]
    previous, spans = (-1, 0), model_input.tokens.spans
    next_starts = [*(start for start, _ in spans[1:]), model_input.cutoff or len(model_input.text)]
    previous_end = 0  # of the token before
    for j, (start, end), next_start in zip(feature_index.tolist(), spans, next_starts, strict=True):
        side, token_end = side_index(start, model_input.parts), end
        if j >= 0:
            if limits is not None:  # characters outside all tokens belong to the span around them
                start = min(start, max(previous_end, limits[j][0]))
                end = max(end, min(next_start, limits[j][1]))
            if (j, side) == previous:
                start = runs[j].pop()[0]
            runs[j].append((start, end))
        previous, previous_end = (j, side), token_end
    strings = [" … ".join(model_input.text[a:b] for a, b in spans_j) for spans_j in runs]
    return tuple(strings), tuple(map(tuple, runs))
