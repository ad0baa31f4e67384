"""Image classifiers of the transformers library: patches of pixels in the place of words."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from limelight.errors import InputError
from limelight.models.engine import said
from limelight.models.hugging_face import forward
from limelight.models.hugging_face.forward import Pixels
from limelight.models.hugging_face.gradients import embedded
from limelight.models.hugging_face.model import HuggingFace
from limelight.models.hugging_face.selfcheck import ExampleIds
from limelight.models.protocol import Capability, Property
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float, Int, Num
from limelight.text import Box, Features, ImageInput, ModelInput, PatchedImage, read_image
from limelight.text.images import blurred, grid_boxes
from limelight.threads import cached_property

_GRID = 7  # patches a side, of a network that shows none of its own
_LIMITATIONS: Mapping[Property, str] = {
    "has_subwords": "an image has no pieces of words",
    "max_tokens": "an image is read whole",
    "reads_pairs": "this one reads one image",
}


class _Grid(NamedTuple):
    """The patches that a network reads; ``own`` where it embeds each of them by itself."""

    rows: int
    columns: int
    special: int
    own: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HuggingFaceImages(HuggingFace):
    """An image classifier with its processor, which stands where others have a tokenizer."""

    # Half as many as of texts: an image is masked on the device, pixel by pixel.
    positions: ClassVar[Mapping[str, int]] = {"cpu": 1024, "cuda": 131_072}

    _usual_capabilities: ClassVar[Mapping[Capability, str | None]] = {
        **HuggingFace._usual_capabilities,
        "spans": "this one classifies whole images",
        "generation": "this one classifies images and writes nothing",
        "exact_game": "the layers of a deep network mix its patches",
    }
    has_subwords: ClassVar[bool] = False
    reads_images: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not callable(self.tokenizer) or not hasattr(self.tokenizer, "to_dict"):
            raise InputError(
                "an image classifier comes with its processor: wrap(model, processor="
                f"AutoImageProcessor.from_pretrained(…)); got {type(self.tokenizer).__name__}."
            )
        if self._channels not in (1, 3):
            raise InputError(
                f"images have 1 or 3 channels; {forward.network_name(self.network)} reads "
                f"{self._channels}."
            )

    @property
    def limitations(self) -> Mapping[Property, str]:
        """Why the model lacks a property."""
        return {**super().limitations, **_LIMITATIONS}

    @property
    def identity(self) -> dict[str, Any]:
        """Nothing: the processor says all about how an image is read."""
        return {}

    @property
    def _example(self) -> ImageInput:
        # Of the size that the network names: a processor need not bring images to it.
        side = getattr(self.network.config, "image_size", None) or 2 * _GRID * 8
        size = (*([side] * 2 if isinstance(side, int) else side), self._channels)
        # At random: equal patches would hide what a network does with them.
        return read_image(np.random.default_rng(1).integers(0, 256, size, dtype=np.uint8))

    @property
    def _tokens(self) -> dict[str, int]:
        return {}  # no token stands for a patch

    @property
    def _example_ids(self) -> ExampleIds:
        one = self._pixels(self._example.pixels)
        return ExampleIds(one, self._pixels(self._example.pixels[::-1, ::-1].copy()), (), one, 1)

    @property
    def _channels(self) -> int:
        return int(getattr(self.network.config, "num_channels", 3))

    @cached_property
    def _grid(self) -> _Grid:
        """The model's own patches, where it embeds each as a vector and keeps them in all layers.

        Else a grid of ours: of a convolution, or of windows that are merged from layer to layer.
        """
        values = self._values(self._example.pixels)
        try:
            rows = len(embedded(self.network, Pixels(values)))
            with torch.inference_mode(), forward.restoring(self.network):
                given = torch.as_tensor(values[None]).to(self.network.device, self.network.dtype)
                # Networks that merge patches from layer to layer show fewer positions later on.
                states = self.network(given, output_hidden_states=True).hidden_states
            side = self.network.config.patch_size
            high, wide = (side, side) if isinstance(side, int) else side
            grid = values.shape[1] // high, values.shape[2] // wide
            positions = {one.shape[1] for one in states if one.dim() == 3}
            (special,) = {count - rows for count in positions}
            if math.prod(grid) == rows and special >= 0:
                return _Grid(*grid, special, own=True)
        except Exception:  # noqa: S110  (whatever it is, its check says what the network lacks)
            pass
        return _Grid(_GRID, _GRID, 0, own=False)

    def read(self, text: Any, *, asked: tuple[Any, ...] = (), pieces: bool = False) -> ModelInput:
        """Return an image, or what :func:`limelight.text.read_image` takes, in its patches."""
        if asked or pieces:
            raise InputError("an image has patches, and neither places nor pieces of words.")
        image = read_image(text)
        frame, (width, height) = self._frame(image), image.size
        notices = list(self.notices)
        if self._channels == 1 and image.pixels.shape[2] == 3:
            notices.append("The model reads gray images; the colors were taken out of this one.")
        if (frame[2] - frame[0]) * (frame[3] - frame[1]) < 0.98 * width * height:
            seen = f"{frame[2] - frame[0]} × {frame[3] - frame[1]}"
            notices.append(
                f"The processor of the model cuts a part of {seen} pixels out of the image of "
                f"{width} × {height}, and the model sees nothing else."
            )
        cut = PatchedImage(image, grid_boxes(frame, self._grid.rows, self._grid.columns))
        pixels = self._pixels(self._in_channels(image), frame)
        return ModelInput.from_image(
            cut, input=pixels, notices=notices, divisible=not self._grid.own
        )

    def read_together(self, texts: Sequence[Any], *, pieces: bool = False) -> Iterator[ModelInput]:
        """Yield what ``read`` returns of each image."""
        return (self.read(one, pieces=pieces) for one in texts)

    def _in_channels(self, image: ImageInput) -> Num[np.ndarray, "H W C"]:
        """Return the pixels in as many channels as the model reads."""
        pixels = image.pixels
        if pixels.shape[2] == self._channels:
            return pixels
        if self._channels == 3:
            return np.repeat(pixels, 3, axis=2)
        # Luma as Pillow has it, so that it is the same as of a file that was converted.
        return np.rint(pixels @ np.array([0.299, 0.587, 0.114]))[:, :, None].astype(np.uint8)

    def _pixels(self, pixels: Num[np.ndarray, "H W C"], frame: Box = (0, 0, 0, 0)) -> Pixels:
        patches = self._grid.rows * self._grid.columns if self._grid.own else 0
        size = max(1, self._grid.special + self._grid.rows * self._grid.columns)
        return Pixels(self._values(pixels), patches, self._grid.special, frame, size)

    def _values(self, pixels: Num[np.ndarray, "H W C"], **how: Any) -> Float[np.ndarray, "C h w"]:
        """Return what the processor makes of the pixels."""
        try:
            # The format is said: of three rows of pixels a processor would guess that they are
            # colors.
            found = self.tokenizer(
                pixels, return_tensors="np", input_data_format="channels_last", **how
            )
            return np.asarray(found["pixel_values"], dtype=np.float32)[0]
        except Exception as error:  # of any kind: it is somebody else's processor
            high, wide, _ = pixels.shape
            raise InputError(
                f"the processor of the model fails on an image of {wide} × {high} pixels "
                f"({said(error)})."
            ) from error

    def _frame(self, image: ImageInput) -> Box:
        """Return the part of an image that its processor leaves, in pixels of the image.

        An image of the same size, in which one color rises from side to side, goes through it:
        processors resize and cut in many ways, and what comes out shows where it was.
        """
        if (known := self._frames.get(image.size)) is not None:
            return known
        edges = []
        for axis, length in enumerate(image.size):
            ramp = np.linspace(0, 255, length)
            shape = (1, length) if axis == 0 else (length, 1)
            rising = np.broadcast_to(ramp.reshape(*shape, 1), (*image.size[::-1], self._channels))
            plain = {"do_rescale": False, "do_normalize": False}
            found = self._values(np.rint(rising).astype(np.uint8), **plain).mean(axis=(0, 1 + axis))
            n = len(found)
            inner = np.arange(n // 5, n - n // 5)  # borders may be filled up
            # A line through many pixels, each of which resampling has rounded.
            slope, start = np.polyfit(inner, found[inner] / 255 * (length - 1) + 0.5, 1)
            low, high = start - slope / 2, start + (n - 0.5) * slope
            edges.append((max(0, round(low)), min(length, round(high))))
        (left, right), (top, bottom) = edges
        self._frames[image.size] = (left, top, right, bottom)
        return self._frames[image.size]

    @cached_property
    def _frames(self) -> dict[tuple[int, int], Box]:
        return {}

    def logits(self, texts: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for every image."""
        return self.outputs([self.read(one) for one in texts])

    @property
    def replacements(self) -> tuple[str, ...]:
        """What may stand for a removed patch: the processor's mean color, black, a blurred one."""
        return ("mean", "black", "blurred")

    def _gone(self, model_input: ModelInput, replacement: str) -> Float[np.ndarray, "C h w"]:
        """Return the image of which every patch is removed."""
        pixels = self._in_channels(model_input.given)  # type: ignore[arg-type]
        if replacement == "mean":
            # By the processor it would be rounded to a color of 8 bits; normalized it is zero.
            whole: Float[np.ndarray, "C h w"] = model_input.input.values
            if getattr(self.tokenizer, "do_normalize", False):
                return np.zeros_like(whole)
            mean = np.ravel(getattr(self.tokenizer, "image_mean", None) or 0.5)
            if not getattr(self.tokenizer, "do_rescale", True):
                mean = 255 * mean
            return np.zeros_like(whole) + mean[:, None, None].astype(whole.dtype)
        return self._values(blurred(pixels) if replacement == "blurred" else np.zeros_like(pixels))

    def _token_at(self, model_input: ModelInput) -> Int[np.ndarray, "h w"]:
        """Return the token at every pixel that the network sees."""
        cut, frame = model_input.image, model_input.input.frame
        (_, high, wide), (rows, columns) = model_input.input.values.shape, self._grid[:2]
        if cut is None or cut.boxes == grid_boxes(frame, rows, columns):
            y, x = np.arange(high) * rows // high, np.arange(wide) * columns // wide
            return y[:, None] * columns + x
        left, top, right, bottom = frame
        y = top + ((np.arange(high) + 0.5) * (bottom - top) / high).astype(int)
        x = left + ((np.arange(wide) + 0.5) * (right - left) / wide).astype(int)
        return cut.labels()[y[:, None], x]

    def _features(self, model_input: ModelInput, features: Features) -> Int[np.ndarray, "h w"]:
        return np.append(features.of_token, -1)[self._token_at(model_input)]

    def game(self, model_input: ModelInput, features: Features, replacement: str) -> Game:
        """Return the outputs for each mask; pixels of removed patches are replaced."""
        self._forward.renew()
        device, feature = self.network.device, self._features(model_input, features)
        whole = torch.as_tensor(model_input.input.values).to(device)
        gone = torch.as_tensor(self._gone(model_input, replacement)).to(device)
        place = torch.as_tensor(feature).to(device)

        def asked(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
            # Masked on the device: a mask is a thousandth of an image.
            always = np.ones((len(keep), 1), bool)
            stays = torch.as_tensor(np.concatenate([keep, always], axis=1)).to(device)[:, place]
            return self._forward(torch.where(stays[:, None], whole, gone))

        return lambda keep: self.engine.rows(
            np.full(len(keep), model_input.input.size), lambda some: asked(keep[some])
        )

    def token_positions(self, model_input: ModelInput) -> Int[np.ndarray, " T"]:
        """Return the token at every position of the input, by the middle of its patch."""
        tokens, (rows, columns, special, _) = self._token_at(model_input), self._grid
        y = ((np.arange(rows) + 0.5) * len(tokens) / rows).astype(int)
        x = ((np.arange(columns) + 0.5) * tokens.shape[1] / columns).astype(int)
        return np.concatenate([np.full(special, -1), tokens[y[:, None], x].ravel()])

    def _moved(self, model_input: ModelInput, features: Features, replacement: str) -> list[Pixels]:
        own, stays = model_input.input, self._features(model_input, features) < 0
        values = np.where(stays, own.values, self._gone(model_input, replacement))
        return [Pixels(values, own.patches, own.special)]

    def _shown(self, _: Any) -> str:
        return "of an image"
