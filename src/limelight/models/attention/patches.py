"""The paper's classifier over patches: an image is a text whose words are never met again.

A patch is embedded by a small network, for itself, in the place of a row of the vocabulary. For the
images at hand those rows are made (``with_patches``); from there on nothing differs from texts.
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

_CHUNK = 256  # images at a time: their patches' rows of tables stay a few megabytes
_MOST = 1 << 17  # pixels of a patch, and patches of an image
# Made of the vocabulary.
_OF_WORDS = ("tables", "table_errors", "_factored_tables", "device_tables", "_without_exact_games")
REMOVALS = ("mean", "black", "blurred")
_GREY = (0.299, 0.587, 0.114)  # of red, green and blue in gray, as Pillow and television have it

Patches = Num[np.ndarray, "T p"]  # of one image, row by row, in bytes or from 0 to 1


@dataclass(frozen=True, kw_only=True, eq=False)
class PatchClassifier(AttentionClassifier):
    r"""The same heads over the patches of an image, each embedded by one hidden layer.

    .. math:: e(x) = e_{UNK} + W_o \big(\mathrm{relu}(W_i (x - m) + b) - \mathrm{relu}(b)\big)

    with x the pixels of the patch from 0 to 1 and m the mean patch of the training images, so
    that the mean patch is UNK: a removed patch becomes it, or black, or what is left of the patch
    when the image is blurred (``removal``; exact methods know this one, sampled ones all three).
    """

    patch_mean: np.ndarray  # p
    patch_in: np.ndarray  # d_h p
    patch_bias: np.ndarray  # d_h
    patch_out: np.ndarray  # d_e d_h, or K·d_e d_h
    position_table: np.ndarray | None = None  # T_max d_e, learned; sines and cosines where None
    patch_size: tuple[int, int]  # height and width in pixels
    grid: tuple[int, int]  # rows and columns of patches
    channels: int = 1
    removal: str = "mean"
    tokenizer: str = "patches"
    reads_images: ClassVar[bool] = True
    limitations: ClassVar[Mapping[Property, str]] = MappingProxyType(
        {
            **LIMITATIONS,
            "has_subwords": "the paper's classifier reads whole patches",
            "reads_pairs": "the paper's classifier reads one image",
        }
    )

    def __post_init__(self) -> None:
        shape, found = (*self.grid, *self.patch_size, self.channels), np.shape(self.patch_mean)
        # With limits, for a folder may come from anybody: sizes are multiplied before arrays are.
        sound = len(shape) == 5 and all(type(n) is int and 1 <= n <= _MOST for n in shape)
        patches, pixels = (prod(shape[:2]), prod(shape[2:])) if sound else (_MOST, _MOST)
        fits = max(patches + 1, pixels) <= _MOST and (self.T_max, found) == (1 + patches, (pixels,))
        if not fits or self.channels not in (1, 3):
            raise InputError(
                "patches must have a size and stand in a grid, two whole numbers from 1 each, in 1 "
                "or 3 channels; T_max must be one more than there are of them, and patch_mean as "
                f"long as one; got {self.patch_size}, {self.grid}, {self.channels} channels, T_max "
                f"{self.T_max} and {found}."
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
        """Width and height of the images it was made for; others are brought to this size."""
        return self.grid[1] * self.patch_size[1], self.grid[0] * self.patch_size[0]

    @property
    def replacements(self) -> tuple[str, ...]:  # type: ignore[override]
        """What may stand for a removed patch, first what exact methods put there."""
        return (self.removal, *(name for name in REMOVALS if name != self.removal))

    def with_removal(self, removal: str) -> "PatchClassifier":
        """Return the model for which a removed patch becomes "mean", "black" or "blurred"."""
        return replace(self, removal=removal)

    @property
    def config(self) -> dict[str, Any]:
        """Settings of the classifier, and how an image is cut into patches."""
        patches = {"size": self.patch_size, "grid": self.grid, "channels": self.channels}
        said = {name: list(x) if isinstance(x, tuple) else x for name, x in patches.items()}
        return {**super().config, "patches": {**said, "removal": self.removal}}

    def _position_array(
        self, of_positions: Callable[..., np.ndarray]
    ) -> Float[np.ndarray, "T_max d_e"]:
        if self.position_table is None:
            return super()._position_array(of_positions)
        table = self.position_table.astype(np.float64)
        # Learned numbers are what they are, without an error.
        return table if of_positions is sinusoidal_positions else np.zeros_like(table)

    def read(self, text: Any, *, subwords: bool = False) -> ModelInput:
        """Return an image as this model sees it: brought to its size, and cut into patches."""
        if subwords:
            raise InputError(f"{self.limitations['has_subwords']}; leave subwords out.")
        image = read_image(text)
        rows, columns = self.grid
        cut = PatchedImage(image, grid_boxes((0, 0, *image.size), rows, columns))
        (width, height), (wide, high) = self.image_size, image.size
        said = f"The image has {wide} × {high} pixels and is read at {width} × {height}."
        warnings = () if (wide, high) == (width, height) else (said,)
        pixels = resize_pixels(image.pixels, self.image_size, self.channels)
        return ModelInput.from_image(cut, warnings=warnings, encoding=pixels)

    def outputs(self, inputs: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
        """Return the C outputs of the model for images that it has read."""

        def outputs(some: Sequence[ModelInput]) -> Float[np.ndarray, "n C"]:
            seen, encoded = self.with_patches(some)
            return seen.logits_of_ids([model_input.encoding.ids for model_input in encoded])

        return compute_in_chunks(outputs, inputs, _CHUNK, C=self.sizes["C"])

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return the outputs as a function of which features stay: a few matrix products."""
        return replacement_game(self.compute_tables([model_input], [features], replacement))

    def compute_tables(
        self,
        inputs: Sequence[ModelInput],
        features: Sequence[Features],
        removal: str | None = None,
    ) -> CollapsedInputs:
        """Return images as the arrays that exact methods need."""
        seen, encoded = self.with_patches(inputs, removal)
        return CollapsedInputs(model=seen, inputs=encoded, features=tuple(features))

    def with_patches(
        self, inputs: Sequence[ModelInput], removal: str | None = None
    ) -> tuple["PatchClassifier", tuple[ModelInput, ...]]:
        """Return the model with the patches of some images as its words, and these as their rows.

        Rows after [cls] and UNK: the patches of one image after those of another, then, unless a
        removed patch becomes UNK, what each of them becomes.
        """
        removal = removal or self.removal
        n, T = len(inputs), self.T_max - 1
        # Segments cut through patches, and a patch is removed as a whole or not at all.
        for model_input in inputs:
            if model_input.image is None or len(model_input.tokens) != T:
                raise InputError(
                    "the paper's classifier loses whole patches of its own; explain 'patches', a "
                    "coarser grid of them, or groups of them."
                )
        pixels = [model_input.encoding for model_input in inputs]
        if removal != "mean":
            pixels += [_removed(one, removal, self.patch_size) for one in pixels]
        rows, errors = self.embed_patches(np.concatenate([cut(one, self.grid) for one in pixels]))
        # In double precision like the rows beside them, which were computed so.
        specials = self.embedding.astype(np.float64)
        # No copy by `replace`: it would check all weights again, and lose what is known of them.
        _ = self.directions, self.position_errors  # known before, and not anew for every image
        seen = object.__new__(PatchClassifier)
        known = {name: x for name, x in vars(self).items() if name not in _OF_WORDS}
        known["embedding"] = np.concatenate([specials, rows])
        known["embedding_error"] = np.concatenate([np.zeros_like(specials), errors])
        vars(seen).update(known)
        ids = (len(specials) + np.arange(len(rows), dtype=np.int32)).reshape(-1, T)
        removed = [None] * n if removal == "mean" else ids[n:]
        return seen, tuple(
            replace(model_input, encoding=EncodedTokens(own, (), gone))
            for model_input, own, gone in zip(inputs, ids, removed, strict=False)
        )

    def embed_patches(self, patches: Patches) -> tuple[Float[np.ndarray, "n d_e"], ...]:
        """Return patches embedded, without their positions, and what rounding may have moved."""
        network = (self.patch_mean, self.patch_in, self.patch_bias, self.patch_out)
        m, W_i, b, W_o = (x.astype(np.float64) for x in network)
        seen = patches / 255.0 if patches.dtype == np.uint8 else patches.astype(np.float64)
        x = seen - m
        h = x @ W_i.T + b
        # Two roundings before the product: of the division by 255, and of the difference.
        h_error = product_error(x, W_i.T, x_error=ROUNDING * (seen + np.abs(x)))
        r = np.maximum(h, 0) - np.maximum(b, 0)  # relu carries errors on at most as they are
        r_error = h_error + ROUNDING * (np.abs(h) + np.abs(r))
        e = r @ W_o.T + self.embedding[UNK]
        return e, product_error(r, W_o.T, x_error=r_error) + ROUNDING * np.abs(e)


def cut(pixels: Num[np.ndarray, "H W channels"], grid: tuple[int, int]) -> Patches:
    """Return the patches of an image row by row, the pixels of each row by row."""
    height, width, channels = pixels.shape
    rows, columns = grid
    apart = pixels.reshape(rows, height // rows, columns, width // columns, channels)
    return apart.swapaxes(1, 2).reshape(rows * columns, -1)


def resize_pixels(
    pixels: Num[np.ndarray, "H W C"], size: tuple[int, int], channels: int
) -> Num[np.ndarray, "height width channels"]:
    """Return 8-bit pixels in another size (width, height), and gray or in colors."""
    # First, for resizing one channel costs a third of three.
    if pixels.shape[2] > channels:
        pixels = np.rint(pixels @ np.array(_GREY)).astype(np.uint8)[:, :, None]
    if pixels.shape[1::-1] != size:
        try:
            from PIL import Image
        except ImportError:
            raise MissingExtraError("images of another size need Pillow", "images") from None
        image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
        pixels = np.asarray(image.resize(size, Image.Resampling.BOX)).reshape(*size[::-1], -1)
    return np.repeat(pixels, channels, axis=2) if pixels.shape[2] < channels else pixels


def _removed(
    pixels: Num[np.ndarray, "H W channels"], removal: str, size: tuple[int, int]
) -> Num[np.ndarray, "H W channels"]:
    """Return the image whose patches stand for removed ones, in bytes."""
    if removal == "black":
        return np.zeros_like(pixels)
    from scipy.ndimage import gaussian_filter

    spread = [side / 2 for side in size]  # what is seen of a patch is what lies around it
    return np.rint(gaussian_filter(pixels.astype(float), (*spread, 0))).astype(np.uint8)
