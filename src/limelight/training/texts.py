"""From labelled texts or pictures to what the loop needs: vocabulary, split, encoded rows."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from limelight.data.labelled import LabelledTexts
from limelight.errors import InputError
from limelight.models.attention import padded_ids
from limelight.models.attention.patches import cut, fitted_pixels
from limelight.shapes import Float, Int, Num
from limelight.text import Given, Picture, Vocabulary, is_picture, token_strings
from limelight.training.recipe import Recipe

# Each use of randomness has a stream of its own, numbered; see random_numbers.
SPLIT, WEIGHTS, ORDER, NOISE = range(4)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedTexts:
    """One row per text: [cls], words, padding; and its label."""

    ids: Int[np.ndarray, "n T_max"]
    labels: Int[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, index: Int[np.ndarray, " m"]) -> "EncodedTexts":
        """Return the texts at ``index``."""
        return EncodedTexts(self.ids[index], self.labels[index])


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Texts as the model sees them, and the ends of those that do not fit its window.

    ``tail_of`` is the row of the text that each tail ends.
    """

    heads: EncodedTexts
    tails: EncodedTexts
    tail_of: Int[np.ndarray, " m"]

    @property
    def T_max(self) -> int:
        """How many tokens the model reads, [cls] among them."""
        return self.heads.ids.shape[1]

    def part(self, index: Int[np.ndarray, " m"], *, tails: bool) -> EncodedTexts:
        """Return the texts at ``index``, with ``tails`` also the ends of those among them."""
        heads = self.heads.rows(index)
        if not tails:
            return heads
        ends = self.tails.rows(np.flatnonzero(np.isin(self.tail_of, index)))
        return EncodedTexts(
            np.concatenate([heads.ids, ends.ids]), np.concatenate([heads.labels, ends.labels])
        )


@dataclass(frozen=True, slots=True, eq=False)
class Patched:
    """The patches of all pictures, by the rows that stand for them, and how they were cut."""

    rows: Num[np.ndarray, "rows p"]
    mean: Float[np.ndarray, " p"]
    cut: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Encoded texts to fit and to validate on, and what the model's record says about them.

    Of pictures the words are ``patches``, none of which is met twice.
    """

    vocabulary: Vocabulary
    classes: tuple[str, ...]
    training: EncodedTexts
    validation: EncodedTexts | None
    record: dict[str, Any]
    patches: Patched | None = None

    @property
    def T_max(self) -> int:
        """The window: that of the recipe, or less where the recipe fits it to the texts."""
        return self.training.ids.shape[1]

    def outputs(self, recipe: Recipe) -> int:
        """C: one logit for two classes if the recipe says so, else one per class."""
        return 1 if recipe.single_output and len(self.classes) == 2 else len(self.classes)


def prepare(
    data: LabelledTexts,
    recipe: Recipe,
    *,
    validation: LabelledTexts | int | float | None = None,
    seed: int = 0,
) -> Prepared:
    """Return ``data`` encoded and split; the vocabulary counts all of ``data``, as the paper does.

    ``validation`` is a set of its own, or the share of ``data`` to hold out (0 for none) after a
    seeded shuffle; the recipe's share if it is ``None``.
    """
    if isinstance(validation, int | float):
        recipe = replace(recipe, validation=float(validation))
    _check_classes(data)
    held: EncodedTexts | None = None
    validated: LabelledTexts | None = None
    patches: Patched | None = None
    if isinstance(validation, LabelledTexts):
        if not len(validation):
            raise InputError(f"{validation.source} has no rows; validation needs labelled texts.")
        validated = validation.in_classes(data.class_names)
    if any(isinstance(one, str) and is_picture(one) for one in data.texts):
        raise InputError(f"{data.source} holds pictures; give it by --images (images=True).")
    if of_pictures(data):
        vocabulary = Vocabulary.from_counts({})
        corpus, held, patches = _patched(data, validated, recipe.grid)
    else:
        vocabulary, corpus = training_vocabulary(
            data,
            T_max=recipe.T_max,
            fitted=recipe.fitted_window,
            size=recipe.vocabulary_size,
            min_count=recipe.min_count,
        )
        if validated is not None:
            held = encode_texts(validated, vocabulary, T_max=corpus.T_max)
    fitted = np.arange(len(data))
    if validated is None and recipe.validation:
        order = random_numbers(seed, SPLIT).permutation(len(data))
        count = round(recipe.validation * len(data))
        if not 0 < count < len(data):
            raise InputError(
                f"a share of {recipe.validation} of {len(data)} rows leaves nothing to "
                "train or validate on; change the share or give more rows."
            )
        held, fitted = corpus.heads.rows(order[:count]), order[count:]
    if held is None and recipe.patience is not None:
        raise InputError(
            "without held-out texts nothing says when to stop; give the number of epochs, or hold "
            "texts out."
        )
    record = {
        "data": data.source,
        "data_sha256": data.digest,
        "training_rows": len(fitted),
        "validation": validation.source if isinstance(validation, LabelledTexts) else "held out",
        "validation_rows": 0 if held is None else len(held),
    }
    if held is None:
        record["validation"] = None
    encoded = corpus.part(fitted, tails=recipe.tails)
    return Prepared(vocabulary, data.class_names, encoded, held, record, patches)


def of_pictures(data: LabelledTexts) -> bool:
    """Whether pictures are learned from."""
    return any(isinstance(one, Picture) for one in data.texts)


_MOST_SIDE = 16  # pixels of a patch that is cut of a large picture


def _patched(
    data: LabelledTexts, validated: LabelledTexts | None, grid: int
) -> tuple[Corpus, EncodedTexts | None, Patched]:
    """Return pictures as rows of patches, those for validation after the others.

    All are brought to the size of the first one, in whole patches, and to gray if all are gray.
    """
    pictures = [
        _picture(one, i, given.source)
        for given in (data, validated)
        if given is not None
        for i, one in enumerate(given.texts)
    ]
    height, width, _ = pictures[0].pixels.shape
    if grid > min(least := min((one.size for one in pictures), key=min)):
        raise InputError(
            f"a grid of {grid} × {grid} patches needs as many pixels at least, and a picture has "
            f"{least[0]} × {least[1]}; set a smaller grid (--set grid=…)."
        )
    size = tuple(min(_MOST_SIDE, max(1, round(side / grid))) for side in (height, width))
    channels = max(one.pixels.shape[2] for one in pictures)
    whole, T = (grid * size[1], grid * size[0]), grid * grid
    rows = np.zeros((2 + len(pictures) * T, size[0] * size[1] * channels), dtype=np.uint8)
    for i, one in enumerate(pictures):
        pixels = fitted_pixels(one.pixels, whole, channels)
        rows[2 + i * T : 2 + (i + 1) * T] = cut(pixels, (grid, grid))
    ids = padded_ids(list((2 + np.arange(len(rows) - 2)).reshape(-1, T)), T_max=1 + T)
    n, nothing = len(data), EncodedTexts(ids[:0], data.labels[:0])
    # In float32, as the weights are, by whole numbers: the same on any machine.
    mean = rows[2 : 2 + n * T].sum(axis=0, dtype=np.int64) / (255 * n * T)
    patched = Patched(
        rows,
        mean.astype(np.float32),
        {"patch_size": size, "grid": (grid, grid), "channels": channels},
    )
    corpus = Corpus(EncodedTexts(ids[:n], data.labels), nothing, np.arange(0))
    held = None if validated is None else EncodedTexts(ids[n:], validated.labels)
    return corpus, held, patched


def _picture(one: Given, row: int, source: str) -> Picture:
    if not isinstance(one, Picture):
        raise InputError(f"row {row + 1} of {source} is a text among pictures; remove the row.")
    return one


def _check_classes(data: LabelledTexts) -> None:
    if not len(data):
        raise InputError(f"{data.source} has no rows; training needs labelled texts.")
    present = np.unique(data.labels)
    if len(present) < 2:
        raise InputError(
            f"all rows of {data.source} have the label {data.class_names[present[0]]!r}; "
            "training needs at least two classes."
        )


def training_vocabulary(
    data: LabelledTexts, *, T_max: int, fitted: bool, size: int | None, min_count: int
) -> tuple[Vocabulary, Corpus]:
    """Return the vocabulary of all words of ``data``, and ``data`` encoded with it.

    ``fitted``: the window is no longer than the longest text needs.
    """
    counts: Counter[str] = Counter()
    number: dict[str, int] = {}  # of each word, in the order of first appearance
    rows = []
    for i, text in enumerate(data.texts):
        strings = _words(text, i, data.source)
        counts.update(strings)
        rows.append(np.array([number.setdefault(w, len(number)) for w in strings], dtype=np.int32))
    common = {word: count for word, count in counts.items() if count >= min_count}
    vocabulary = Vocabulary.from_counts(common, size=size)
    row_of_number = vocabulary.encode(number)
    if fitted:
        T_max = min(T_max, 1 + max(map(len, rows)))
    return vocabulary, _corpus([row_of_number[row] for row in rows], data.labels, T_max)


def _corpus(rows: list[np.ndarray], labels: Int[np.ndarray, " n"], T_max: int) -> Corpus:
    tail_of = np.flatnonzero([len(row) >= T_max for row in rows])
    ends = [rows[i][-(T_max - 1) :] for i in tail_of]
    return Corpus(
        heads=EncodedTexts(padded_ids(rows, T_max=T_max), labels),
        tails=EncodedTexts(padded_ids(ends, T_max=T_max), labels[tail_of]),
        tail_of=tail_of,
    )


def encode_texts(data: LabelledTexts, vocabulary: Vocabulary, *, T_max: int) -> EncodedTexts:
    """Return ``data`` encoded with a vocabulary that exists already."""
    rows = [
        vocabulary.encode(_words(text, i, data.source)[: T_max - 1])
        for i, text in enumerate(data.texts)
    ]
    return EncodedTexts(padded_ids(rows, T_max=T_max), data.labels)


def _words(text: Given, row: int, source: str) -> list[str]:
    if not isinstance(text, str):
        raise InputError(f"{source} holds pairs of texts, and the classifier learns from one text.")
    strings = token_strings(text)
    if not strings:
        raise InputError(f"row {row + 1} of {source} has a text without words; remove the row.")
    return strings


def random_numbers(seed: int, stream: int, number: int = 0) -> np.random.Generator:
    """Return the generator of one use of randomness, the ``number``-th in its stream.

    Every epoch and step derives its own from the seed, so a run that starts again in the middle
    has no generator states to restore.
    """
    return np.random.default_rng([seed, stream, number])
