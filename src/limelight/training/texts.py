"""Prepare labeled texts or images for training: vocabulary, split and encoded rows."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from sys import intern
from typing import Any

import numpy as np

from limelight.data.labeled import LabeledTexts
from limelight.errors import InputError
from limelight.models.attention import padded_ids
from limelight.shapes import Int
from limelight.text import Vocabulary, token_strings
from limelight.training.images import TrainingImages, cut_training_images
from limelight.training.recipe import Recipe

# The numbers of the random streams, one for each use of randomness; see make_generator.
SPLIT, WEIGHTS, ORDER, NOISE = range(4)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedTexts:
    """Texts as rows of [cls], words and padding, with their labels."""

    ids: Int[np.ndarray, "n T_max"]
    labels: Int[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, index: Int[np.ndarray, " m"]) -> "EncodedTexts":
        """Return the texts at ``index``."""
        return EncodedTexts(self.ids[index], self.labels[index])


@dataclass(frozen=True, slots=True, eq=False)
class PreparedData:
    """Encoded texts to train and to validate on, and an entry about them for the model's record.

    With ``images`` the words are patches, and no patch occurs twice.
    """

    vocabulary: Vocabulary
    classes: tuple[str, ...]
    training: EncodedTexts
    validation: EncodedTexts | None
    record: dict[str, Any]
    images: TrainingImages | None = None

    @property
    def T_max(self) -> int:
        """The size of the window: that of the recipe, or less if it is fitted to the texts."""
        return self.training.ids.shape[1]

    def outputs(self, recipe: Recipe) -> int:
        """Return the number of outputs C: one per class, or a single one for two classes."""
        return 1 if recipe.single_output and len(self.classes) == 2 else len(self.classes)


def prepare(
    data: LabeledTexts,
    recipe: Recipe,
    *,
    validation: LabeledTexts | None = None,
    seed: int = 0,
) -> PreparedData:
    """Encode labeled texts or images, and hold some of them out.

    The vocabulary is counted on all of ``data``, as in the paper.

    Parameters
    ----------
    data
        The texts to train on.
    recipe
        The settings of the training.
    validation
        The texts to validate on. Without them the recipe's share of ``data`` is held out after a
        shuffle.
    seed
        The seed of the shuffle.

    Returns
    -------
    The encoded texts and the vocabulary.

    Raises
    ------
    InputError
        If there are too few rows or classes, or if a row is a pair or has no words.
    """
    n, names = len(data), data.class_names
    for data_set in (data, validation):
        if data_set is not None and not len(data_set):
            raise InputError(f"{data_set.source} has no rows. Give labeled texts.")
    present = np.unique(data.labels)
    if len(present) < 2:
        raise InputError(
            f"all rows of {data.source} have the label {names[present[0]]!r}, but training needs "
            "at least two classes."
        )
    data_sets = [data] if validation is None else [data, validation.with_classes(names)]
    if (images := cut_training_images(data_sets, recipe.grid)) is not None:
        vocabulary, T_max, rows = Vocabulary.from_counts({}), 1 + recipe.grid**2, images.patch_ids()
    else:
        # Interned: a word that occurs a thousand times is one string.
        words = [
            [intern(word) for word in text_words]
            for data_set in data_sets
            for text_words in _words(data_set)
        ]
        counts = Counter(chain.from_iterable(words[:n]))
        common = {word: count for word, count in counts.items() if count >= recipe.min_count}
        vocabulary = Vocabulary.from_counts(common, size=recipe.vocabulary_size)
        rows = [vocabulary.encode(text_words) for text_words in words]
        longest = 1 + max(map(len, words[:n]))
        T_max = min(recipe.T_max, longest) if recipe.fitted_window else recipe.T_max
    encoded = EncodedTexts(
        padded_ids(rows, T_max=T_max), np.concatenate([data_set.labels for data_set in data_sets])
    )
    training_rows, held_out = np.arange(n), np.arange(n, len(rows))
    if validation is None and recipe.validation:
        order = make_generator(seed, SPLIT).permutation(n)
        count = round(recipe.validation * n)
        if not 0 < count < n:
            raise InputError(
                f"a share of {recipe.validation} of {n} rows leaves no row to train or none to "
                "validate on. Change validation, or give more rows."
            )
        held_out, training_rows = order[:count], order[count:]
    if not len(held_out) and recipe.patience is not None:
        raise InputError(
            "without held-out texts, training needs a number of epochs. Set epochs, or hold "
            "texts out."
        )
    training = encoded.rows(training_rows)
    if recipe.tails:
        long = [i for i in np.sort(training_rows) if len(rows[i]) >= T_max]
        ends = padded_ids([rows[i][-(T_max - 1) :] for i in long], T_max=T_max)
        training = EncodedTexts(
            np.concatenate([training.ids, ends]),
            np.concatenate([training.labels, data.labels[long]]),
        )
    source = "held out" if validation is None else validation.source
    record = {
        "data": data.source,
        "data_sha256": data.digest,
        "training_rows": len(training_rows),
        "validation": source if len(held_out) else None,
        "validation_rows": len(held_out),
    }
    validation_rows = encoded.rows(held_out) if len(held_out) else None
    return PreparedData(vocabulary, names, training, validation_rows, record, images)


def encode_texts(data: LabeledTexts, vocabulary: Vocabulary, *, T_max: int) -> EncodedTexts:
    """Encode texts with an existing vocabulary."""
    rows = [vocabulary.encode(words[: T_max - 1]) for words in _words(data)]
    return EncodedTexts(padded_ids(rows, T_max=T_max), data.labels)


def _words(data: LabeledTexts) -> Iterator[list[str]]:
    """Yield the words of every text."""
    for row, text in enumerate(data.texts, start=1):
        if not isinstance(text, str):
            raise InputError(
                f"{data.source} contains pairs of texts, but the classifier learns from single "
                "texts."
            )
        if not (words := token_strings(text)):
            raise InputError(
                f"row {row} of {data.source} has a text without words. Remove the row."
            )
        yield words


def make_generator(seed: int, stream: int, number: int = 0) -> np.random.Generator:
    """Create the random generator for a seed, a purpose (``stream``) and an epoch or step.

    Every epoch and step creates its own generator from the seed, so a run that continues from a
    checkpoint has no generator state to restore.
    """
    return np.random.default_rng([seed, stream, number])
