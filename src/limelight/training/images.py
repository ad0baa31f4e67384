"""Train on images: their patches take the place of words.

The rest of the package reads rows of numbers. A row represents a word or a patch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from limelight.data.labeled import LabeledTexts
from limelight.errors import InputError
from limelight.models.attention import PatchClassifier
from limelight.models.attention.patches import resize_pixels, split_patches
from limelight.models.attention.weights import PATCHES
from limelight.shapes import Array, Float, Int, Num
from limelight.text import CLS, UNK, ImageInput, is_image
from limelight.training.module import AttentionModule, dropout_mask, keep_probability
from limelight.training.recipe import Recipe

_MOST_SIDE = 16  # pixels of a patch that is cut of a large image


@dataclass(frozen=True, slots=True, eq=False)
class TrainingImages:
    """The patches of all images, one per row, and the fields of `PatchClassifier` that cut them.

    The first two rows stand for [cls] and UNK.
    """

    patches: Num[np.ndarray, "rows p"]
    mean: Float[np.ndarray, " p"]
    cut: dict[str, Any]

    def patch_ids(self) -> list[Int[np.ndarray, " T"]]:
        """Return the rows of each image's patches."""
        rows, columns = self.cut["grid"]
        return list(np.arange(2, len(self.patches)).reshape(-1, rows * columns))


def has_images(data: LabeledTexts) -> bool:
    """Return whether any row of ``data`` is an image."""
    return any(isinstance(row, ImageInput) for row in data.texts)


def cut_training_images(data_sets: Sequence[LabeledTexts], grid: int) -> TrainingImages | None:
    """Cut the images of the training set and then those of the validation set into patches.

    All are resized to the first image, in patches of equal size. They become gray if all are gray.
    Returns None if the training set has texts.
    """
    training = data_sets[0]
    if not has_images(training):
        if any(isinstance(row, str) and is_image(row) for row in training.texts):
            raise InputError(
                f"{training.source} contains images. Give it with --images (images=True)."
            )
        return None
    images: list[ImageInput] = []
    for data in data_sets:
        for row, image in enumerate(data.texts, start=1):
            if not isinstance(image, ImageInput):
                raise InputError(
                    f"row {row} of {data.source} is a text among images. Remove the row."
                )
            images.append(image)
    height, width, _ = images[0].pixels.shape
    smallest = min((image.size for image in images), key=min)
    if grid > min(smallest):
        raise InputError(
            f"a grid of {grid} × {grid} patches needs at least as many pixels, but an image has "
            f"{smallest[0]} × {smallest[1]}. Set a smaller grid (--set grid=…)."
        )
    high, wide = (min(_MOST_SIDE, max(1, round(side / grid))) for side in (height, width))
    channels = max(image.pixels.shape[2] for image in images)
    patches = np.zeros((2 + len(images) * grid**2, high * wide * channels), dtype=np.uint8)
    for rows, image in zip(patches[2:].reshape(len(images), grid**2, -1), images, strict=True):
        pixels = resize_pixels(image.pixels, (grid * wide, grid * high), channels)
        rows[:] = split_patches(pixels, (grid, grid))
    # In float32, as the weights are, by whole numbers: the same on any machine.
    n = len(data_sets[0]) * grid**2
    mean = patches[2 : 2 + n].sum(axis=0, dtype=np.int64) / (255 * n)
    fields = {"patch_size": (high, wide), "grid": (grid, grid), "channels": channels}
    return TrainingImages(patches, mean.astype(np.float32), fields)


def initial_patch_weights(
    images: TrainingImages | None, recipe: Recipe, *, wide: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw the weights that embed a patch, before the first step; none for texts.

    Parameters
    ----------
    images
        The patches to train on, whose mean is one of the weights.
    recipe
        The number of hidden units, and whether positions are learned.
    wide
        The length of an embedding.
    rng
        The generator of all initial weights.

    Returns
    -------
    The weights by name, and no weights for texts.
    """
    if images is None:
        return {}
    p, d_h = len(images.mean), recipe.hidden
    weights = {
        # Pixels from 0 to 1 vary by a third or so: twice what inputs of variance 1 would take.
        "patch_in": rng.uniform(-1, 1, (d_h, p)) * np.sqrt(24 / p),
        "patch_bias": rng.uniform(-1, 1, d_h) / 6,
        "patch_out": rng.uniform(-1, 1, (wide, d_h)) * np.sqrt(3 / d_h),
        "patch_mean": images.mean,
    }
    if recipe.learned_positions:
        weights["position_table"] = rng.standard_normal((1 + recipe.grid**2, wide))
    return weights


class PatchModule(AttentionModule):
    """The attention classifier over patches: ``ids`` are rows of the patches of all ``images``.

    Without learned positions in the weights, the positions are sines and cosines.
    """

    def __init__(
        self,
        weights: Mapping[str, Array],
        images: TrainingImages,
        **options: Any,
    ) -> None:
        super().__init__(weights, **options)
        for name in PATCHES[1:-1]:
            setattr(self, name, nn.Parameter(weights[name].clone()))
        self.cut = images.cut
        self.register_buffer("patches", torch.from_numpy(images.patches))
        self.register_buffer("patch_mean", weights["patch_mean"])
        if "position_table" in weights:
            del self._buffers["positions"]  # the sines and cosines
            self.register_parameter("positions", nn.Parameter(weights["position_table"].clone()))

    def _build_classifier(self, **fields: Any) -> PatchClassifier:
        """Build the classifier from its fields."""
        learned = {"position_table": fields.pop("positions")} if "positions" in fields else {}
        mean = self.patch_mean.cpu().numpy()
        return PatchClassifier(**fields, **learned, **self.cut, patch_mean=mean)

    def forward(
        self,
        ids: Int[Array, "B T"],
        *,
        dropout: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> Float[Array, "B C"]:
        """Return f of every image.

        Parameters
        ----------
        ids
            The rows of each image's patches, after [cls].
        dropout
            The probability of zeroing an entry of the vector that a patch adds to UNK.
        rng
            Draws the entries.
        """
        rows = ids[:, 1:]
        x = self.patches[rows].to(self.embedding) / 255 - self.patch_mean
        x = x.masked_fill((rows == UNK).unsqueeze(-1), 0.0)  # the mean patch
        hidden = F.relu(F.linear(x, self.patch_in, self.patch_bias)) - F.relu(self.patch_bias)
        added = F.linear(hidden, self.patch_out)
        if dropout and rng is not None:
            mask = dropout_mask(tuple(added.shape), dropout, rng=rng, device=ids.device)
            added = added * mask / keep_probability(dropout)
        cls_row, directions = self.embedding[CLS], self._directions(self.embedding[CLS])
        # Project first, then add: an embedding has at least as many numbers as its projections.
        first = (cls_row @ directions).expand(len(ids), 1, -1)
        projections = torch.cat([first, (added + self.embedding[UNK]) @ directions], dim=1)
        return self._attend(projections + self.positions @ directions, cls_row)


def make_module(
    weights: Mapping[str, Array], images: TrainingImages | None, **options: Any
) -> AttentionModule:
    """Build a module with these weights: over the patches of ``images``, or over words."""
    if images is None:
        return AttentionModule(weights, **options)
    return PatchModule(weights, images, **options)
