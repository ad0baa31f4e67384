"""Image classifiers of the transformers library, which read patches of pixels instead of words."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from limelight.errors import InputError
from limelight.models.engine import PendingRows, describe_error
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.forward import Pixels
from limelight.models.hugging_face.gradients import embed_input
from limelight.models.hugging_face.model import HuggingFace
from limelight.models.hugging_face.selfcheck import ExampleIds
from limelight.models.protocol import Capability, Property
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float, Int, Num
from limelight.text import Box, Features, ImageInput, ModelInput, PatchedImage, read_image
from limelight.text.images import blur, grid_boxes
from limelight.threads import cached_property

_DEFAULT_GRID = 7  # patches per side, if the network has no patches of its own
_LIMITATIONS: Mapping[Property, str] = {
    "has_subwords": "an image has no subword tokens",
    "max_tokens": "an image is read as a whole",
    "reads_pairs": "this model reads single images",
}


class _Grid(NamedTuple):
    """The patches into which images are divided.

    ``is_native`` says that the network embeds each patch separately. ``special`` is the number of
    positions before the patches.
    """

    rows: int
    columns: int
    special: int
    is_native: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HuggingFaceImages(HuggingFace):
    """An image classifier of transformers with its processor, which takes the tokenizer's place."""

    # Smaller than for texts, since an image is masked on the device, pixel by pixel.
    positions_per_batch: ClassVar[Mapping[str, int]] = {"cpu": 1024, "cuda": 131_072}

    _default_capabilities: ClassVar[Mapping[Capability, str | None]] = {
        **HuggingFace._default_capabilities,
        "spans": "this model classifies whole images",
        "generation": "this model classifies images",
    }
    has_subwords: ClassVar[bool] = False
    reads_images: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the processor and the number of channels."""
        if not callable(self.tokenizer) or not hasattr(self.tokenizer, "to_dict"):
            raise InputError(
                f"an image classifier needs its processor, not {type(self.tokenizer).__name__}. "
                "Write wrap(model, processor=AutoImageProcessor.from_pretrained(…))."
            )
        if self._channels not in (1, 3):
            raise InputError(
                f"images must have 1 or 3 channels, but {forward.network_name(self.network)} "
                f"reads {self._channels}."
            )

    @property
    def limitations(self) -> Mapping[Property, str]:
        """Return the reasons for the properties that the model lacks."""
        return {**super().limitations, **_LIMITATIONS}

    @property
    def identity(self) -> dict[str, Any]:
        """Return nothing, since the processor defines how an image is read."""
        return {}

    @property
    def _example(self) -> ImageInput:
        """Return a random image, which the check of the network uses."""
        # The image has the size of the configuration, since some processors do not resize.
        side = getattr(self.network.config, "image_size", None) or 2 * _DEFAULT_GRID * 8
        size = (*([side] * 2 if isinstance(side, int) else side), self._channels)
        # The pixels are random, since equal patches would hide differences between positions.
        return read_image(np.random.default_rng(1).integers(0, 256, size, dtype=np.uint8))

    @property
    def _tokens(self) -> dict[str, int]:
        """Return no tokens, since no token replaces a patch."""
        return {}

    @property
    def _example_ids(self) -> ExampleIds:
        """Return a random image and its rotation, with which the network is checked."""
        pixels = self._make_pixels(self._example.pixels)
        return ExampleIds(
            pixels, self._make_pixels(self._example.pixels[::-1, ::-1].copy()), (), pixels, 1
        )

    @property
    def _channels(self) -> int:
        """Return the number of color channels that the network reads."""
        return int(getattr(self.network.config, "num_channels", 3))

    @cached_property
    def _grid(self) -> _Grid:
        """Return the model's patches if it embeds each as a vector and keeps them in all layers.

        Otherwise return a default grid, for example for convolutions, or for windows that are
        merged from layer to layer.
        """
        values = self._process(self._example.pixels)
        try:
            patch_count = len(embed_input(self.network, Pixels(values)))
            with torch.inference_mode(), forward.evaluation_mode(self.network):
                batch = torch.as_tensor(values[None]).to(self.network.device, self.network.dtype)
                # Networks that merge patches have fewer positions in later layers.
                states = self.network(batch, output_hidden_states=True).hidden_states
            patch_size = self.network.config.patch_size
            height, width = (patch_size, patch_size) if isinstance(patch_size, int) else patch_size
            grid = values.shape[1] // height, values.shape[2] // width
            positions = {state.shape[1] for state in states if state.dim() == 3}
            (special,) = {count - patch_count for count in positions}
            if math.prod(grid) == patch_count and special >= 0:
                return _Grid(*grid, special, is_native=True)
        except Exception:  # noqa: S110  (the check of the network reports missing capabilities)
            pass
        return _Grid(_DEFAULT_GRID, _DEFAULT_GRID, 0, is_native=False)

    def read(
        self, text: Any, *, queries: tuple[Any, ...] = (), subwords: bool = False
    ) -> ModelInput:
        """Read an image and divide it into patches.

        ``text`` is an image, or another input of :func:`limelight.text.read_image`.
        """
        if queries or subwords:
            raise InputError(
                "an image has patches, but no spans and no subword tokens. Leave at and "
                "subwords out."
            )
        image = read_image(text)
        frame, (width, height) = self._frame(image), image.size
        warnings = list(self.warnings)
        if self._channels == 1 and image.pixels.shape[2] == 3:
            warnings.append(
                "The model reads gray images, so the colors of this image were removed."
            )
        if (frame[2] - frame[0]) * (frame[3] - frame[1]) < 0.98 * width * height:
            size = f"{frame[2] - frame[0]} × {frame[3] - frame[1]}"
            warnings.append(
                f"The processor of the model cuts a part of {size} pixels out of the image of "
                f"{width} × {height}, and the model sees nothing else."
            )
        patches = PatchedImage(image, grid_boxes(frame, self._grid.rows, self._grid.columns))
        pixels = self._make_pixels(self._convert_channels(image), frame)
        return ModelInput.from_image(
            patches, encoding=pixels, warnings=warnings, is_divisible=not self._grid.is_native
        )

    def read_batch(self, texts: Sequence[Any], *, subwords: bool = False) -> Iterator[ModelInput]:
        """Yield each image as ``read`` returns it."""
        return (self.read(image, subwords=subwords) for image in texts)

    def _convert_channels(self, image: ImageInput) -> Num[np.ndarray, "H W C"]:
        """Return the pixels with as many channels as the model reads."""
        pixels = image.pixels
        if pixels.shape[2] == self._channels:
            return pixels
        if self._channels == 3:
            return np.repeat(pixels, 3, axis=2)
        # Pillow's luma weights give the same pixels as a converted file.
        return np.rint(pixels @ np.array([0.299, 0.587, 0.114]))[:, :, None].astype(np.uint8)

    def _make_pixels(self, pixels: Num[np.ndarray, "H W C"], frame: Box = (0, 0, 0, 0)) -> Pixels:
        """Return the input of the network for an image; ``frame`` is its visible part."""
        patch_count = self._grid.rows * self._grid.columns if self._grid.is_native else 0
        size = max(1, self._grid.special + self._grid.rows * self._grid.columns)
        return Pixels(self._process(pixels), patch_count, self._grid.special, frame, size)

    def _process(
        self, pixels: Num[np.ndarray, "H W C"], **options: Any
    ) -> Float[np.ndarray, "C h w"]:
        """Run the processor on pixels; ``options`` are options of the processor."""
        try:
            # The format is explicit, since a processor would take three rows for channels.
            processed = self.tokenizer(
                pixels, return_tensors="np", input_data_format="channels_last", **options
            )
            return np.asarray(processed["pixel_values"], dtype=np.float32)[0]
        except Exception as error:  # a processor may raise any error
            height, width, _ = pixels.shape
            raise InputError(
                f"the processor of the model fails on an image of {width} × {height} pixels "
                f"({describe_error(error)})."
            ) from error

    def _frame(self, image: ImageInput) -> Box:
        """Return the part of an image that its processor keeps, in pixels of the image.

        An image of the same size, in which one color rises from side to side, is processed. The
        result shows which part was kept, for all ways in which processors resize and crop.
        """
        if (frame := self._frames.get(image.size)) is not None:
            return frame
        edges = []
        for axis, length in enumerate(image.size):
            ramp = np.linspace(0, 255, length)
            shape = (1, length) if axis == 0 else (length, 1)
            gradient = np.broadcast_to(ramp.reshape(*shape, 1), (*image.size[::-1], self._channels))
            options = {"do_rescale": False, "do_normalize": False}
            profile = self._process(np.rint(gradient).astype(np.uint8), **options).mean(
                axis=(0, 1 + axis)
            )
            n = len(profile)
            inner = np.arange(n // 5, n - n // 5)  # borders may be padding
            # A line through many pixels is exact, although resampling has rounded each of them.
            slope, start = np.polyfit(inner, profile[inner] / 255 * (length - 1) + 0.5, 1)
            low, high = start - slope / 2, start + (n - 0.5) * slope
            edges.append((max(0, round(low)), min(length, round(high))))
        (x_start, x_end), (y_start, y_end) = edges
        self._frames[image.size] = (x_start, y_start, x_end, y_end)
        return self._frames[image.size]

    @cached_property
    def _frames(self) -> dict[tuple[int, int], Box]:
        """Return the visible part for each size of images, as far as computed."""
        return {}

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for every image."""
        return self.outputs([self.read(text) for text in texts])

    @property
    def replacements(self) -> tuple[str, ...]:
        """Return the replacements of a removed patch.

        These are the processor's mean color, black, and the blurred patch.
        """
        return ("mean", "black", "blurred")

    def _replaced_pixels(
        self, model_input: ModelInput, replacement: str
    ) -> Float[np.ndarray, "C h w"]:
        """Return an image in which every patch is replaced."""
        pixels = self._convert_channels(model_input.user_input)  # type: ignore[arg-type]
        if replacement == "mean":
            # The processor would round the mean to 8 bits. After normalization it is zero.
            values: Float[np.ndarray, "C h w"] = model_input.encoding.values
            if getattr(self.tokenizer, "do_normalize", False):
                return np.zeros_like(values)
            mean = np.ravel(getattr(self.tokenizer, "image_mean", None) or 0.5)
            if not getattr(self.tokenizer, "do_rescale", True):
                mean = 255 * mean
            return np.zeros_like(values) + mean[:, None, None].astype(values.dtype)
        return self._process(blur(pixels) if replacement == "blurred" else np.zeros_like(pixels))

    def _patch_map(self, model_input: ModelInput) -> Int[np.ndarray, "h w"]:
        """Return the index of the patch at every pixel that the network sees."""
        patches, frame = model_input.image, model_input.encoding.frame
        (_, height, width), (rows, columns) = model_input.encoding.values.shape, self._grid[:2]
        if patches is None or patches.boxes == grid_boxes(frame, rows, columns):
            y, x = np.arange(height) * rows // height, np.arange(width) * columns // width
            return y[:, None] * columns + x
        x_start, y_start, x_end, y_end = frame
        y = y_start + ((np.arange(height) + 0.5) * (y_end - y_start) / height).astype(int)
        x = x_start + ((np.arange(width) + 0.5) * (x_end - x_start) / width).astype(int)
        return patches.token_map()[y[:, None], x]

    def _feature_map(self, model_input: ModelInput, features: Features) -> Int[np.ndarray, "h w"]:
        """Return the feature at every pixel, -1 for pixels without a feature."""
        return np.append(features.feature_index, -1)[self._patch_map(model_input)]

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return the outputs as a function of masks; pixels of removed patches are replaced."""
        self._forward_pass.refresh()
        device, feature = self.network.device, self._feature_map(model_input, features)
        values = torch.as_tensor(model_input.encoding.values).to(device)
        replaced = torch.as_tensor(self._replaced_pixels(model_input, replacement)).to(device)
        index = torch.as_tensor(feature).to(device)

        def start_masks(keep: Bool[np.ndarray, "n d"]) -> PendingRows:
            """Start to compute the outputs for some masks."""
            # Masking happens on the device, since a mask is a thousandth of an image.
            always = np.ones((len(keep), 1), bool)
            is_kept = torch.as_tensor(np.concatenate([keep, always], axis=1)).to(device)
            images = torch.where(is_kept[:, index][:, None], values, replaced)
            return self._forward_pass.start(images)

        return lambda keep: self.engine.compute_rows(
            np.full(len(keep), model_input.encoding.size), lambda rows: start_masks(keep[rows])
        )

    def token_positions(self, model_input: ModelInput) -> Int[np.ndarray, " T"]:
        """Return the patch at every position of the network, -1 at special positions.

        The middle of a position decides which patch it belongs to.
        """
        tokens, (rows, columns, special, _) = self._patch_map(model_input), self._grid
        y = ((np.arange(rows) + 0.5) * len(tokens) / rows).astype(int)
        x = ((np.arange(columns) + 0.5) * tokens.shape[1] / columns).astype(int)
        return np.concatenate([np.full(special, -1), tokens[y[:, None], x].ravel()])

    def _baseline_rows(
        self, model_input: ModelInput, features: Features, replacement: str
    ) -> list[Pixels]:
        """Return the image with the patches of ``features`` replaced, as the only row."""
        pixels, is_kept = model_input.encoding, self._feature_map(model_input, features) < 0
        values = np.where(is_kept, pixels.values, self._replaced_pixels(model_input, replacement))
        return [Pixels(values, pixels.patches, pixels.special)]

    def _describe_row(self, _: Any) -> str:
        """Return how an error describes a row of pixels."""
        return "of an image"
