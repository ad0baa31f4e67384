"""From labeled texts or images to what the loop needs: vocabulary, split, encoded rows."""

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
class PreparedData:
    """Encoded texts to fit and to validate on, and what the model's record says about them.

    For ``images`` the words are patches, and no patch occurs twice.
    """

    vocabulary: Vocabulary
    classes: tuple[str, ...]
    training: EncodedTexts
    validation: EncodedTexts | None
    record: dict[str, Any]
    images: TrainingImages | None = None

    @property
    def T_max(self) -> int:
        """The window: that of the recipe, or less where the recipe fits it to the texts."""
        return self.training.ids.shape[1]

    def outputs(self, recipe: Recipe) -> int:
        """C: one logit for two classes if the recipe says so, else one per class."""
        return 1 if recipe.single_output and len(self.classes) == 2 else len(self.classes)


def prepare(
    data: LabeledTexts,
    recipe: Recipe,
    *,
    validation: LabeledTexts | None = None,
    seed: int = 0,
) -> PreparedData:
    """Return ``data`` encoded and split; the vocabulary counts all of ``data``, as the paper does.

    ``validation`` is a set of its own; without one the recipe's share of ``data`` is held out after
    a seeded shuffle.
    """
    n, names = len(data), data.class_names
    for one in (data, validation):
        if one is not None and not len(one):
            raise InputError(f"{one.source} has no rows; give labeled texts.")
    present = np.unique(data.labels)
    if len(present) < 2:
        raise InputError(
            f"all rows of {data.source} have the label {names[present[0]]!r}; "
            "training needs at least two classes."
        )
    given = [data] if validation is None else [data, validation.with_classes(names)]
    if (images := cut_training_images(given, recipe.grid)) is not None:
        vocabulary, T_max, rows = Vocabulary.from_counts({}), 1 + recipe.grid**2, images.patch_ids()
    else:
        # Interned: a word that occurs a thousand times is one string.
        words = [[intern(word) for word in own] for one in given for own in _words(one)]
        counts = Counter(chain.from_iterable(words[:n]))
        common = {word: count for word, count in counts.items() if count >= recipe.min_count}
        vocabulary = Vocabulary.from_counts(common, size=recipe.vocabulary_size)
        rows = [vocabulary.encode(own) for own in words]
        longest = 1 + max(map(len, words[:n]))
        T_max = min(recipe.T_max, longest) if recipe.fitted_window else recipe.T_max
    encoded = EncodedTexts(
        padded_ids(rows, T_max=T_max), np.concatenate([one.labels for one in given])
    )
    fitted, held = np.arange(n), np.arange(n, len(rows))
    if validation is None and recipe.validation:
        order = random_numbers(seed, SPLIT).permutation(n)
        count = round(recipe.validation * n)
        if not 0 < count < n:
            raise InputError(
                f"a share of {recipe.validation} of {n} rows leaves nothing to "
                "train or validate on; change the share or give more rows."
            )
        held, fitted = order[:count], order[count:]
    if not len(held) and recipe.patience is not None:
        raise InputError(
            "without held-out texts nothing says when to stop; give the number of epochs, or hold "
            "texts out."
        )
    training = encoded.rows(fitted)
    if recipe.tails:
        long = [i for i in np.sort(fitted) if len(rows[i]) >= T_max]
        ends = padded_ids([rows[i][-(T_max - 1) :] for i in long], T_max=T_max)
        training = EncodedTexts(
            np.concatenate([training.ids, ends]),
            np.concatenate([training.labels, data.labels[long]]),
        )
    source = "held out" if validation is None else validation.source
    record = {
        "data": data.source,
        "data_sha256": data.digest,
        "training_rows": len(fitted),
        "validation": source if len(held) else None,
        "validation_rows": len(held),
    }
    validated = encoded.rows(held) if len(held) else None
    return PreparedData(vocabulary, names, training, validated, record, images)


def encode_texts(data: LabeledTexts, vocabulary: Vocabulary, *, T_max: int) -> EncodedTexts:
    """Return ``data`` encoded with a vocabulary that exists already."""
    rows = [vocabulary.encode(words[: T_max - 1]) for words in _words(data)]
    return EncodedTexts(padded_ids(rows, T_max=T_max), data.labels)


def _words(data: LabeledTexts) -> Iterator[list[str]]:
    """Yield the words of every text."""
    for row, text in enumerate(data.texts, start=1):
        if not isinstance(text, str):
            raise InputError(
                f"{data.source} holds pairs of texts, and the classifier learns from one text."
            )
        if not (words := token_strings(text)):
            raise InputError(
                f"row {row} of {data.source} has a text without words; remove the row."
            )
        yield words


def random_numbers(seed: int, stream: int, number: int = 0) -> np.random.Generator:
    """Return the generator of one use of randomness, the ``number``-th in its stream.

    Every epoch and step derives its own from the seed, so a run that starts again in the middle
    has no generator states to restore.
    """
    return np.random.default_rng([seed, stream, number])
