"""What an explanation scores: words, positions, or units of any size, and units inside others."""

from bisect import bisect_right
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from limelight.errors import InputError, nearest
from limelight.shapes import Int
from limelight.text.characters import few_names
from limelight.text.images import PatchedImage, around, grid_boxes, grid_of, segments, slic_segments
from limelight.text.inputs import SIDES, ModelInput, side_at
from limelight.text.tokens import Span
from limelight.text.units import CUTTERS, Cutter, called, checked_spans, cutter_name

FEATURES = ("words", "positions", *CUTTERS)
IMAGE_FEATURES = ("patches", "7 × 7 patches", "segments")  # or any other grid
ALL_FEATURES = (*FEATURES, "tokens", *IMAGE_FEATURES)  # of some model
Unit = str | Sequence[int] | Sequence[Span] | np.ndarray | Cutter
_Named = tuple[tuple[str, ...], tuple[tuple[Span, ...], ...]]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Feature strings, every place of each in the text, and the feature of each token.

    ``unit`` says what they are, ``of_token`` is -1 at tokens that are not features and stay as they
    are, and ``notices`` are what a reader must know of how the text was cut.
    """

    unit: str
    strings: tuple[str, ...]
    spans: tuple[tuple[Span, ...], ...]
    of_token: Int[np.ndarray, " T"]
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.strings)

    @property
    def noun(self) -> str:
        """What one of them is called."""
        return name_of_one(self.unit)

    def of_result(self, model_input: ModelInput) -> dict[str, Any]:
        """Return the fields of an explanation that say what was scored, and where it stands."""
        cut = model_input.image
        where = {} if cut is None else {"image": cut.stored_image(self.of_token, len(self))}
        return {"features": self.strings, "spans": self.spans, **where}


class Nested(NamedTuple):
    """Units inside others: the inner ones cut where outer ones end, and where each part belongs.

    A word that stands in three sentences is three ``parts``; ``inner`` is the number of the word
    and ``outer`` that of the sentence of each. What lies in no outer unit has a number of its own,
    after those of the others.
    """

    parts: Features
    inner: Int[np.ndarray, " n"]
    outer: Int[np.ndarray, " n"]


def nested(inner: Features, outer: Features) -> Nested:
    """Return which unit of ``outer`` each of ``inner`` lies in, for two cuts of one document."""
    scored = inner.of_token >= 0
    lies = np.where(outer.of_token < 0, len(outer) + inner.of_token, outer.of_token)[scored]
    beyond = lies >= len(outer)
    lies[beyond] = len(outer) + np.unique(lies[beyond], return_inverse=True)[1]
    pairs, place = np.unique([inner.of_token[scored], lies], axis=1, return_inverse=True)
    part = np.full(len(scored), -1)
    part[scored] = place.ravel()
    spans = tuple(
        tuple(span for span in inner.spans[j] if _holds(outer, k, span))
        for j, k in pairs.T.tolist()
    )
    strings = tuple(inner.strings[j] for j in pairs[0])
    return Nested(Features(inner.unit, strings, spans, part), *pairs)


def _holds(outer: Features, k: int, span: Span) -> bool:
    """Whether a place lies in the outer unit ``k``, or in none where there is no such unit."""
    if k < len(outer):
        return any(a <= span[0] < b for a, b in outer.spans[k])
    return not any(a <= span[0] < b for places in outer.spans for a, b in places)


def features_of(
    model_input: ModelInput,
    unit: Unit = "words",
    *,
    protect: Collection[str] = (),
    side: str | None = None,
    protect_asked: bool = False,
) -> Features:
    """Return what is scored: one of ``FEATURES``, spans, a cutter's units, or groups of tokens.

    "words" takes all occurrences of a token string together, "positions" every token by itself.
    Other units go by place: "sentences", "paragraphs", "lines", a list of (start, end), or what a
    function from the text to such a list finds; what lies between them stays. A sequence of
    integers gives the group of every token inside the window; a negative one leaves its token as it
    is. Features come in the order of their first occurrence. Strings outside the vocabulary stay
    distinct, although the model sees UNK for each.

    Of a pair, a word that stands on both sides is two features: what it does for the model differs
    from one to the other. With ``side``, "first" or "second", only words of that side are scored.
    With ``protect_asked`` the words that are asked about stay, and what they do is not scored.

    Of an image: "patches" as the model reads them, "7 × 7 patches" or another grid, "segments", a
    function from the pixels to a label for each, or groups of patches.
    """
    name, parts, strings = unit_name(unit), model_input.parts, model_input.tokens.strings
    sides = [side_at(start, parts) if parts else 0 for start, _ in model_input.tokens.spans]
    places: Any = None  # of units that go by place
    notices: tuple[str, ...] = ()
    groups: list[Hashable] = list(range(len(strings)))
    if model_input.image is not None:
        groups = _patch_groups(model_input, model_input.image, unit)
    elif (cut := unit_spans(model_input, unit)) is not None:
        places, groups = _joined_units(model_input.tokens.spans, cut)
        notices = _joined_notice(model_input.text, cut, places)
    elif not isinstance(unit, str):
        groups = _own_groups(unit, len(strings))
    elif unit == "words":
        groups = list(zip(sides, strings, strict=True))
    if side is not None:
        if not parts:
            raise InputError(
                f"side {side!r} is about a pair of texts, and this is a single text; leave it out."
            )
        chosen = SIDES.index(side)
        groups = [g if own == chosen else None for g, own in zip(groups, sides, strict=True)]
    if protect:
        groups = [None if s in protect else g for s, g in zip(strings, groups, strict=True)]
    if protect_asked:
        for place in model_input.asked:
            for i in place.tokens(model_input.tokens.spans, model_input.text):
                groups[i] = None
    row: dict[Hashable, int] = {}
    of_token = [-1 if g is None else row.setdefault(g, len(row)) for g in groups]
    if not row:
        asked = "; protect_span=False scores those that are asked about" * bool(model_input.asked)
        raise InputError(
            f"there is nothing to explain: no {name_of_one(name)} of this text is left that the "
            f"model reads and that is not protected{asked}."
        )
    if model_input.image is not None:
        return Features(name, tuple(map(str, row)), ((),) * len(row), np.array(of_token))
    if name in ("words", "positions"):
        return Features(name, *_named_tokens(model_input, of_token, len(row)), np.array(of_token))
    units = None if places is None else [places[g] for g in row]
    named = _named_runs(model_input, of_token, len(row), units)
    return Features(name, *named, np.array(of_token), notices)


def plural(noun: str) -> str:
    """Return what several units are called: "words", "patches"."""
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


def unit_name(unit: Any) -> str:
    """Return what a result calls its units: a name of ours, or a cutter as module:name."""
    if isinstance(unit, str):
        grid = None if unit in FEATURES else grid_of(unit)
        return unit if grid is None else f"{grid[0]} × {grid[1]} patches"
    if callable(unit):
        return cutter_name(unit)
    first: Any = next(iter(unit), None) if hasattr(unit, "__iter__") else None
    # A row of an array has __index__ too.
    return "groups" if hasattr(first, "__index__") and not np.ndim(first) else "spans"


def name_of_one(unit: str) -> str:
    """Return what one of several units is called: "sentence", or "part" of somebody's own."""
    if unit in ("words", "positions"):
        return "word"
    if unit == "patches" or grid_of(unit) is not None:
        return "patch"
    if unit == "segments":
        return "segment"
    return unit.removesuffix("s") if unit in (*CUTTERS, "tokens") else "part"


def is_unit(unit: Any) -> bool:
    """Whether units are no pieces of a tokenizer: of a name of ours, or anybody's own."""
    if not isinstance(unit, str):  # groups may come as an array
        return True
    return unit in FEATURES or _is_image_unit(unit)


def _is_image_unit(unit: str) -> bool:
    return unit in IMAGE_FEATURES or grid_of(unit) is not None


def unit_spans(model_input: ModelInput, unit: Any) -> Any:
    """Return where units stand that go by place; None for those that are sets of tokens.

    Of an image it is the same, cut anew; :func:`limelight.models.protocol.cut_finer` takes both.
    """
    if model_input.image is not None:
        return _cut_anew(model_input, model_input.image, unit)
    if isinstance(unit, str):
        if unit in ("words", "positions"):
            return None
        if unit not in CUTTERS:
            if _is_image_unit(unit):
                raise InputError(f"features {unit!r} are parts of an image, and this is a text.")
            raise InputError(nearest("features", unit, FEATURES))
        unit = CUTTERS[unit]
    elif not callable(unit):
        if not isinstance(unit, Sequence | np.ndarray) or not len(unit):
            raise InputError(
                f"features must be one of {', '.join(FEATURES)}, a list of (start, end), a "
                f"function that returns one, or one whole number per token; got {unit!r}."
            )
        whole = unit_name(unit) == "groups"
        return None if whole else checked_spans(unit, model_input.text, "features")
    name = cutter_name(unit)
    return [
        (first + start, first + end)  # of a pair each text by itself: no unit goes on in the other
        for first, last in model_input.parts or [(0, len(model_input.text))]
        for start, end in called(unit, model_input.text[first:last], name)
    ]


def _cut_anew(model_input: ModelInput, cut: PatchedImage, unit: Any) -> PatchedImage | None:
    """Return the image in other parts than the model's own, None where those are grouped."""
    if not isinstance(unit, str):
        return segments(unit, cut.source, cutter_name(unit)) if callable(unit) else None
    if unit == "segments":
        return segments(slic_segments, cut.source, unit)
    if (grid := grid_of(unit)) is None or not model_input.divisible:
        return None
    seen = around(cut.boxes)  # a processor may cut off the rest
    return PatchedImage(cut.source, grid_boxes(seen, *grid))


def _patch_groups(model_input: ModelInput, cut: PatchedImage, unit: Any) -> list[Hashable]:
    """Return what each patch belongs to, by name."""
    names, own = model_input.tokens.strings, list[Hashable]()
    if not isinstance(unit, str) and not callable(unit):
        groups = _own_groups(unit, len(names))
        return [None if group is None else f"group {group}" for group in groups]
    if not isinstance(unit, str) or unit in ("patches", "positions", "segments"):
        return list(names)
    if (grid := grid_of(unit)) is None:
        raise InputError(
            f"features {unit!r} are parts of a text, and this is an image. "
            + nearest("features", unit, IMAGE_FEATURES)
        )
    sizes = [len({box[side] for box in cut.boxes}) for side in (1, 0)]
    if any(asked > there for asked, there in zip(grid, sizes, strict=True)):
        raise InputError(
            f"the model reads {sizes[0]} × {sizes[1]} patches, which can be joined and not cut; "
            f"got a grid of {grid[0]} × {grid[1]}."
        )
    # By number and not by pixel: images of all sizes are joined alike.
    for k in range(len(names)):
        at = zip(divmod(k, sizes[1]), grid, sizes, strict=True)
        row, column = ((2 * i + 1) * asked // (2 * there) for i, asked, there in at)
        own.append(f"row {row + 1}, column {column + 1}")
    return own


def _joined_units(tokens: Sequence[Span], cut: list[Span]) -> tuple[list[Span], list[Hashable]]:
    """Return the units, those that share a token as one, and the unit of every token."""
    # A model loses whole tokens: two units of which one token has a part go together.
    ends, label = [end for _, end in cut], list(range(len(cut)))
    first = [bisect_right(ends, start) for start, _ in tokens]
    for i, (_, end) in zip(first, tokens, strict=True):
        j = i + 1
        while j < len(cut) and cut[j][0] < end:
            label[j] = label[j - 1]
            j += 1
    whole: dict[int, Span] = {}
    for old, (start, end) in zip(label, cut, strict=True):
        whole[old] = (whole.get(old, (start, end))[0], end)
    number = {old: new for new, old in enumerate(whole)}
    groups: list[Hashable] = [
        number[label[i]] if i < len(cut) and cut[i][0] < end else None
        for i, (_, end) in zip(first, tokens, strict=True)
    ]
    return list(whole.values()), groups


def _joined_notice(text: str, cut: list[Span], whole: list[Span]) -> tuple[str, ...]:
    if len(whole) == len(cut):
        return ()
    first = next(text[a:b] for a, b in whole if (a, b) not in cut)
    return (
        f"{len(cut)} units are {len(whole)} to this model, which reads some of them as one token, "
        f"such as {few_names([first])!r}; what it cannot lose apart has one score.",
    )


def _own_groups(groups: Any, tokens: int) -> list[Hashable]:
    """Return the caller's own groups: whole numbers, of which a negative one is not a group."""
    if not all(hasattr(one, "__index__") for one in groups):
        raise InputError(f"groups of tokens must be whole numbers; got {groups!r}.")
    if len(groups) != tokens:
        raise InputError(
            f"features must give one group per token; the text has {tokens} tokens in the "
            f"window; got {len(groups)} groups."
        )
    return [None if int(group) < 0 else int(group) for group in groups]


def _named_tokens(model_input: ModelInput, of_token: list[int], d: int) -> _Named:
    """Name every feature by its token, and list each occurrence."""
    strings = [""] * d
    places: list[list[Span]] = [[] for _ in range(d)]
    for j, string, span in zip(
        of_token, model_input.tokens.strings, model_input.tokens.spans, strict=True
    ):
        if j >= 0:
            strings[j] = string
            places[j].append(span)
    return tuple(strings), tuple(map(tuple, places))


def _named_runs(
    model_input: ModelInput, of_token: list[int], d: int, units: Sequence[Span] | None
) -> _Named:
    """Name every feature by the stretches of text it covers, up to the ends of its unit."""
    places: list[list[Span]] = [[] for _ in range(d)]
    before, spans = (-1, 0), model_input.tokens.spans
    ends = [*(start for start, _ in spans[1:]), model_input.cut or len(model_input.text)]
    last = 0  # where the token before ends
    for j, (start, end), then in zip(of_token, spans, ends, strict=True):
        side, edge = side_at(start, model_input.parts), end
        if j >= 0:
            run = places[j]
            if units is not None:  # signs that are no tokens belong to the unit around them
                start = min(start, max(last, units[j][0]))
                end = max(end, min(then, units[j][1]))
            if (j, side) == before:
                start = run.pop()[0]
            run.append((start, end))
        before, last = (j, side), edge
    strings = [" … ".join(model_input.text[a:b] for a, b in runs) for runs in places]
    return tuple(strings), tuple(map(tuple, places))
