"""The paper's classifier over the patches of images.

A small network embeds each patch. Its result takes the place of a row of the vocabulary. For some
images, ``with_patches`` appends these rows to the vocabulary. Everything else is the same as for
texts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from limelight.errors import InputError, MissingExtraError, unknown_name_message
from limelight.models.attention.classifier import LIMITATIONS, AttentionClassifier
from limelight.models.attention.collapsed import CollapsedInputs
from limelight.models.attention.inputs import EncodedTokens
from limelight.models.attention.masked import replacement_game
from limelight.models.attention.tables import compute_in_chunks, sinusoidal_positions
from limelight.models.protocol import Property
from limelight.sampling.sample import Game
from limelight.shapes import Float, Num
from limelight.text import UNK, Features, ModelInput, PatchedImage, abbreviate_names, read_image
from limelight.text.images import grid_boxes
from limelight.theory.table_rounding import ROUNDING, product_error

_CHUNK = 256  # images at a time, so that the tables of their patches have a few megabytes
_MAX_SIZE = 1 << 17  # pixels of a patch, and patches of an image
# Cached values that depend on the vocabulary.
_VOCABULARY_MEMBERS = (
    "word_rows",
    "tables",
    "table_errors",
    "_factored_tables",
    "device_tables",
    "_inexact_model",
)
REMOVALS = ("mean", "black", "blurred")
_GRAY_WEIGHTS = (0.299, 0.587, 0.114)  # of red, green and blue, as in Pillow and television

Patches = Num[np.ndarray, "T p"]  # of one image, row by row, in bytes or from 0 to 1


@dataclass(frozen=True, kw_only=True, eq=False)
class PatchClassifier(AttentionClassifier):
    r"""The same heads over the patches of an image, each embedded by one hidden layer.

    .. math:: e(x) = e_{UNK} + W_o \big(\mathrm{relu}(W_i (x - m) + b) - \mathrm{relu}(b)\big)

    where x contains the pixels of the patch, from 0 to 1, and m is the mean patch of the training
    images. The embedding of the mean patch is therefore UNK. ``removal`` names the replacement of
    a removed patch in exact methods: the mean patch, a black patch, or the same patch of the
    blurred image. Sampled methods can use all three.
    """

    patch_mean: np.ndarray  # p
    patch_in: np.ndarray  # d_h p
    patch_bias: np.ndarray  # d_h
    patch_out: np.ndarray  # d_e d_h, or K·d_e d_h
    position_table: np.ndarray | None = None  # T_max d_e, learned; sines and cosines if None
    patch_size: tuple[int, int]  # height and width in pixels
    grid: tuple[int, int]  # rows and columns of patches
    channels: int = 1
    removal: str = "mean"
    tokenizer: str = "patches"
    reads_images: ClassVar[bool] = True
    limitations: ClassVar[Mapping[Property, str]] = MappingProxyType(
        {
            **LIMITATIONS,
            "has_subwords": "AttentionClassifier reads whole patches",
            "reads_pairs": "this AttentionClassifier reads single images",
        }
    )

    def __post_init__(self) -> None:
        shape = (*self.grid, *self.patch_size, self.channels)
        mean_shape = np.shape(self.patch_mean)
        # A folder may come from anybody, so the sizes are checked before arrays are multiplied.
        is_sound = len(shape) == 5 and all(type(n) is int and 1 <= n <= _MAX_SIZE for n in shape)
        patches, pixels = (prod(shape[:2]), prod(shape[2:])) if is_sound else (_MAX_SIZE, _MAX_SIZE)
        is_small = max(patches + 1, pixels) <= _MAX_SIZE
        fits_weights = (self.T_max, mean_shape) == (1 + patches, (pixels,))
        if not is_small or not fits_weights or self.channels not in (1, 3):
            raise InputError(
                "patch_size and grid must be two positive whole numbers each, with 1 or 3 "
                f"channels and a matching T_max and patch_mean, not {self.patch_size}, "
                f"{self.grid}, {self.channels}, {self.T_max} and {mean_shape}."
            )
        if self.removal not in REMOVALS:
            raise InputError(unknown_name_message("removal", self.removal, REMOVALS))
        super().__post_init__()

    def __repr__(self) -> str:
        rows, columns = self.grid
        width, height = self.image_size
        return (
            f"<PatchClassifier {abbreviate_names(self.classes)}: {self.sizes['K']} heads, {rows} × "
            f"{columns} patches of images of {width} × {height}; {self.fingerprint[:8]}>"
        )

    @property
    def image_size(self) -> tuple[int, int]:
        """The width and height to which every image is resized."""
        return self.grid[1] * self.patch_size[1], self.grid[0] * self.patch_size[0]

    @property
    def replacements(self) -> tuple[str, ...]:  # type: ignore[override]
        """The replacements of a removed patch; exact methods use the first one."""
        return (self.removal, *(name for name in REMOVALS if name != self.removal))

    def with_removal(self, removal: str) -> "PatchClassifier":
        """Return the model with another replacement of patches: "mean", "black" or "blurred"."""
        return replace(self, removal=removal)

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the classifier, the split of images into patches included."""
        patches = {"size": self.patch_size, "grid": self.grid, "channels": self.channels}
        values = {name: list(x) if isinstance(x, tuple) else x for name, x in patches.items()}
        return {**super().config, "patches": {**values, "removal": self.removal}}

    def _position_array(
        self, function: Callable[..., np.ndarray]
    ) -> Float[np.ndarray, "T_max d_e"]:
        """Return the learned positions or their errors, if the classifier learned them."""
        if self.position_table is None:
            return super()._position_array(function)
        table = self.position_table.astype(np.float64)
        # Learned numbers are not computed, so they have no rounding error.
        return table if function is sinusoidal_positions else np.zeros_like(table)

    def read(self, text: Any, *, subwords: bool = False) -> ModelInput:
        """Return an image as this model reads it: resized and split into patches."""
        if subwords:
            raise InputError(f"{self.limitations['has_subwords']}. Leave subwords out.")
        image = read_image(text)
        rows, columns = self.grid
        patches = PatchedImage(image, grid_boxes((0, 0, *image.size), rows, columns))
        (width, height), (wide, high) = self.image_size, image.size
        warning = f"The image has {wide} × {high} pixels and is read at {width} × {height}."
        warnings = () if (wide, high) == (width, height) else (warning,)
        pixels = resize_pixels(image.pixels, self.image_size, self.channels)
        return ModelInput.from_image(patches, warnings=warnings, encoding=pixels)

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return the C outputs of the model for images that it has read."""

        def predict_chunk(chunk: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
            """Return the outputs for some of the images."""
            model, encoded_inputs = self.with_patches(chunk)
            return model.logits_of_ids([encoded.encoding.ids for encoded in encoded_inputs])

        return compute_in_chunks(predict_chunk, inputs, _CHUNK, C=self.sizes["C"])

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return the outputs for an image as a function of masks."""
        return replacement_game(self.compute_tables([model_input], [features], replacement))

    def compute_tables(
        self,
        inputs: Sequence[ModelInput],
        features: Sequence[Features],
        removal: str | None = None,
    ) -> CollapsedInputs:
        """Return the arrays that exact methods need for these images.

        Parameters
        ----------
        inputs
            The images.
        features
            The features of each image.
        removal
            The replacement of a removed patch, by default that of the model.
        """
        model, encoded_inputs = self.with_patches(inputs, removal)
        return CollapsedInputs(model=model, inputs=encoded_inputs, features=tuple(features))

    def with_patches(
        self, inputs: Sequence[ModelInput], removal: str | None = None
    ) -> tuple["PatchClassifier", tuple[ModelInput, ...]]:
        """Return the model with the patches of some images as its words, and the encoded images.

        The rows of the vocabulary after [cls] and UNK are the patches of all images in turn. If
        removed patches do not become UNK, the replacement of each patch follows.

        Parameters
        ----------
        inputs
            The images.
        removal
            The replacement of a removed patch, by default that of the model.

        Raises
        ------
        InputError
            If an image was split into segments, which do not consist of whole patches.
        """
        removal = removal or self.removal
        n, T = len(inputs), self.T_max - 1
        # Segments divide patches, and a patch can only be removed as a whole.
        for model_input in inputs:
            if model_input.image is None or len(model_input.tokens) != T:
                raise InputError(
                    "an AttentionClassifier can only remove whole patches. Use "
                    "features='patches', a coarser grid, or groups of patches."
                )
        pixels = [model_input.encoding for model_input in inputs]
        if removal != "mean":
            pixels += [_replacement_pixels(array, removal, self.patch_size) for array in pixels]
        patches = np.concatenate([split_patches(array, self.grid) for array in pixels])
        rows, errors = self.embed_patches(patches)
        # In double precision, like the embeddings of the patches.
        specials = self.embedding.astype(np.float64)
        # Computed once before copying, and not again for every image.
        _ = self.directions, self.position_errors
        # `replace` would check all weights again, and drop all cached values.
        model = object.__new__(PatchClassifier)
        members = {name: x for name, x in vars(self).items() if name not in _VOCABULARY_MEMBERS}
        members["embedding"] = np.concatenate([specials, rows])
        members["embedding_error"] = np.concatenate([np.zeros_like(specials), errors])
        vars(model).update(members)
        ids = (len(specials) + np.arange(len(rows), dtype=np.int32)).reshape(-1, T)
        removed_ids = [None] * n if removal == "mean" else ids[n:]
        return model, tuple(
            replace(model_input, encoding=EncodedTokens(patch_ids, (), removed))
            for model_input, patch_ids, removed in zip(inputs, ids, removed_ids, strict=False)
        )

    def embed_patches(self, patches: Patches) -> tuple[Float[np.ndarray, "n d_e"], ...]:
        """Return the embeddings of patches without positions, and bounds of rounding errors."""
        network = (self.patch_mean, self.patch_in, self.patch_bias, self.patch_out)
        m, W_i, b, W_o = (x.astype(np.float64) for x in network)
        pixels = patches / 255.0 if patches.dtype == np.uint8 else patches.astype(np.float64)
        x = pixels - m
        h = x @ W_i.T + b
        # Two roundings before the product: that of the division by 255, and of the difference.
        h_error = product_error(x, W_i.T, x_error=ROUNDING * (pixels + np.abs(x)))
        r = np.maximum(h, 0) - np.maximum(b, 0)  # relu does not increase errors
        r_error = h_error + ROUNDING * (np.abs(h) + np.abs(r))
        e = r @ W_o.T + self.embedding[UNK]
        return e, product_error(r, W_o.T, x_error=r_error) + ROUNDING * np.abs(e)


def split_patches(pixels: Num[np.ndarray, "H W channels"], grid: tuple[int, int]) -> Patches:
    """Return the patches of an image row by row; the pixels of each patch are row by row too."""
    height, width, channels = pixels.shape
    rows, columns = grid
    blocks = pixels.reshape(rows, height // rows, columns, width // columns, channels)
    return blocks.swapaxes(1, 2).reshape(rows * columns, -1)


def resize_pixels(
    pixels: Num[np.ndarray, "H W C"], size: tuple[int, int], channels: int
) -> Num[np.ndarray, "height width channels"]:
    """Return 8-bit pixels in another size (width, height), with 1 channel (gray) or 3."""
    # Channels come first: resizing one of them takes a third of the time for three.
    if pixels.shape[2] > channels:
        pixels = np.rint(pixels @ np.array(_GRAY_WEIGHTS)).astype(np.uint8)[:, :, None]
    if pixels.shape[1::-1] != size:
        try:
            from PIL import Image
        except ImportError:
            raise MissingExtraError("images of another size need Pillow", "images") from None
        image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
        pixels = np.asarray(image.resize(size, Image.Resampling.BOX)).reshape(*size[::-1], -1)
    return np.repeat(pixels, channels, axis=2) if pixels.shape[2] < channels else pixels


def _replacement_pixels(
    pixels: Num[np.ndarray, "H W channels"], removal: str, size: tuple[int, int]
) -> Num[np.ndarray, "H W channels"]:
    """Return the image, in bytes, whose patches replace removed patches."""
    if removal == "black":
        return np.zeros_like(pixels)
    from scipy.ndimage import gaussian_filter

    spread = [side / 2 for side in size]  # so that a patch shows its surroundings
    return np.rint(gaussian_filter(pixels.astype(float), (*spread, 0))).astype(np.uint8)
