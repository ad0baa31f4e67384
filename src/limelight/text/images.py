"""Images: reading them, their patches and segments, and the copy that a result stores.

This module imports only NumPy. Pillow, from the extra ``images``, is imported when a file is read
or written.
"""

import hashlib
import re
import warnings as python_warnings
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, Protocol, final, runtime_checkable

import numpy as np

from limelight.errors import InputError, MissingExtraError
from limelight.shapes import Int, Num
from limelight.text.characters import truncate_line
from limelight.text.splitters import call_splitter
from limelight.threads import cached_property

Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels
Labels = Int[np.ndarray, "H W"]
ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")
LONGEST = 448  # pixels of the longer side of a stored image
MAX_SEGMENTS = 255  # a pixel of the stored map has 8 bits
_GRID = re.compile(r"([1-9]\d{0,3}) ?[x×] ?([1-9]\d{0,3}) patches")
_ADDRESS = re.compile(r"data:image/[\w*+.-]+(?:;name=(?P<name>[^;,]+))?;base64,")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# The only formats that Pillow may try, whatever the name of a file. For EPS it would start
# Ghostscript, and its readers of rare formats have had security faults.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
# The name of an image that has none. It seeds random draws: another word changes sampled scores.
UNNAMED = "picture"
# The bit depths of cameras. An array of 16 bits does not say how many bits the camera used, so the
# smallest depth that holds its numbers is taken.
_DEPTHS = (8, 10, 12, 14, 16)


@final
@dataclass(frozen=True, eq=False)
class ImageInput:
    """An image: 8-bit pixels, gray or red, green and blue, and warnings about their conversion."""

    pixels: Num[np.ndarray, "H W C"]
    name: str = UNNAMED
    warnings: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ImageInput) and self.label == other.label

    def __hash__(self) -> int:
        return hash(self.label)

    def __repr__(self) -> str:
        return f"<ImageInput {self.label}>"

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.pixels.shape[1], self.pixels.shape[0]

    @cached_property
    def digest(self) -> str:
        """The first 12 digits of the SHA-256 of shape and pixels, which identify the image."""
        shape = repr(self.pixels.shape).encode()
        return hashlib.sha256(shape + self.pixels.tobytes()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """The name, size and digest of the image, which results use as its text."""
        return f"{self.name} ({self.size[0]} × {self.size[1]}, {self.digest})"

    def png(self, longest: int = LONGEST) -> bytes:
        """Return a PNG file whose longer side has at most ``longest`` pixels."""
        return _encode_png(self.pixels, longest)


@runtime_checkable
class _PillowImage(Protocol):
    """An image of Pillow."""

    def getexif(self) -> Any:
        """Return the metadata of the image."""


# Types that are read as images. Strings are paths of images too, in the place of images.
ImageLike = ImageInput | np.ndarray | Path | bytes | Mapping[str, Any] | _PillowImage


def has_ending(path: Path) -> bool:
    """Return whether a path has the extension of an image."""
    return path.name.lower().endswith(ENDINGS)


def is_address(text: str) -> bool:
    """Return whether ``text`` is a data URL of an image."""
    return _ADDRESS.match(text) is not None


def read_image(image: Any, name: str | None = None) -> ImageInput:
    """Read an image.

    A rotation that the camera has recorded is applied. Transparent parts are laid on white, with a
    warning. Numbers from 0 to 1 are converted to 8 bits. 16-bit numbers are converted by the bit
    depth (8, 10, 12, 14 or 16) that the largest number needs.

    Parameters
    ----------
    image
        An array, an image of Pillow, a path, the bytes of a file, a data URL, a mapping with
        "bytes" or "path" (as in data sets of Hugging Face), or an `ImageInput`, which is returned
        unchanged.
    name
        The name of the image. By default, it is that of the file.

    Raises
    ------
    InputError
        If this is no image that can be read.
    """
    if isinstance(image, ImageInput):
        return image
    if isinstance(image, Mapping):
        path = image.get("path")
        file_name = Path(path).name if isinstance(path, str) and path else None
        content = image.get("bytes") or path
        if not isinstance(content, str | bytes):
            raise InputError(
                "an image in a table must have 'bytes' or a 'path', but this one has neither."
            )
        return read_image(content, name or file_name)
    if isinstance(image, str) and (match := _ADDRESS.match(image)):
        return read_image(_decode_base64(image[match.end() :]), name or match["name"])
    if isinstance(image, str | Path):
        return _read_file(Path(image), name or Path(image).name)
    if isinstance(image, bytes):
        return _open_image(BytesIO(image), name or UNNAMED)
    if is_pillow(image):
        return _open_image(image, name or Path(getattr(image, "filename", "")).name or UNNAMED)
    if not hasattr(image, "__array__"):
        raise InputError(
            "an image must be an array, a Pillow image, a path or the bytes of a file, not "
            f"{type(image).__name__}."
        )
    return _convert_array(np.asarray(image), name or UNNAMED)


def is_pillow(value: Any) -> bool:
    """Return whether ``value`` is an image of Pillow, without importing Pillow."""
    return type(value).__module__.startswith("PIL.")


def _import_pillow() -> Any:
    """Import the module ``PIL.Image``."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("images need the package Pillow", "images") from None
    return Image


def _read_file(path: Path, name: str) -> ImageInput:
    """Read the image at ``path``."""
    try:
        exists = path.is_file()
    except (OSError, ValueError):  # the string is no file name, such as a long text
        exists = False
    if not exists:
        raise InputError(
            f"an image must be the path of a file, but {truncate_line(str(path), 200)!r} is no "
            "file. Download images from the web first."
        )
    return _open_image(path, name)


def _open_image(file: Any, name: str) -> ImageInput:
    """Read an image from a path, an open file or an image of Pillow."""
    Image = _import_pillow()
    try:
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("error", Image.DecompressionBombWarning)
            if is_pillow(file):  # the caller closes it; Pillow reads its file only now
                return _convert_pillow(file, name)
            with Image.open(file, formats=FORMATS) as image:
                return _convert_pillow(image, name)
    except InputError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        most = Image.MAX_IMAGE_PIXELS
        raise InputError(
            f"an image must have at most {most:,} pixels, but {name!r} has more. Make it smaller."
        ) from None
    except Exception as error:  # a broken file raises almost any error
        # The message of this error shows an object of this module instead of the file.
        is_unknown = type(error).__name__ == "UnidentifiedImageError"
        why = "" if is_unknown else f" ({truncate_line(str(error), 120).rstrip('.')})"
        raise InputError(
            f"{name!r} cannot be read as an image in PNG, JPEG, GIF, BMP, WebP or TIFF{why}."
        ) from error


def _convert_pillow(image: Any, name: str) -> ImageInput:
    """Convert an image of Pillow."""
    from PIL import ImageOps

    if (frames := getattr(image, "n_frames", 1)) > 1:
        raise InputError(
            f"an image file must have one frame, but {name!r} has {frames}. Save one frame as a "
            "file."
        )
    image = ImageOps.exif_transpose(image)
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        numbers = np.asarray(image)
        # Pillow's own mode for 16 bits has had 32 in some versions.
        fits = image.mode != "F" and numbers.min() >= 0 and numbers.max() <= 65535
        return _convert_array(numbers.astype(np.uint16) if fits else numbers, name)
    if image.has_transparency_data:
        return _convert_array(np.asarray(image.convert("RGBA")), name)
    mode = "L" if image.mode in ("1", "L") else "RGB"
    return _convert_array(np.asarray(image.convert(mode)), name)


def _convert_array(array: np.ndarray, name: str) -> ImageInput:
    """Convert an array of height, width and perhaps channels."""
    pixels = array[:, :, None] if array.ndim == 2 else array
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4):
        advice = " Pass several images as a list: list(array)." * (pixels.ndim == 4)
        if pixels.ndim == 3 and pixels.shape[0] in (1, 3, 4):
            advice = " Move the channels to the end: np.moveaxis(array, 0, -1)."
        raise InputError(
            "an image must have the shape (height, width) or (height, width, channels) with 1, 3 "
            f"or 4 channels, not {array.shape}.{advice}"
        )
    height, width, channels = pixels.shape
    if min(height, width) < 2:
        raise InputError(
            f"an image must have at least 2 × 2 pixels, but {name!r} has {width} × {height}."
        )
    pixels, warnings = _convert_bits(pixels, name)
    if channels == 4:
        alpha, pixels = pixels[:, :, 3:] / 255, pixels[:, :, :3]
        if alpha.min() < 1:
            warnings += ("The image is transparent in parts, which were laid on white.",)
            pixels = np.rint(pixels * alpha + 255 * (1 - alpha)).astype(np.uint8)
    pixels = np.array(pixels)  # a copy, because the array of the caller must stay writable
    pixels.setflags(write=False)
    # Lines, files and pages contain the name: it needs one line of characters that can be encoded.
    safe_name = truncate_line(name.encode(errors="replace").decode(), 200)
    return ImageInput(pixels, safe_name or UNNAMED, warnings)


def _convert_bits(
    pixels: np.ndarray, name: str
) -> tuple[Num[np.ndarray, "H W C"], tuple[str, ...]]:
    """Convert pixels to 8 bits; return them with a warning if their bit depth was guessed."""
    if pixels.dtype == np.uint8:
        return pixels, ()
    is_integer = pixels.dtype.kind in "ui"
    if pixels.dtype.kind not in "buif" or not np.isfinite(pixels).all():
        raise InputError(f"pixels must be finite numbers, but those of {name!r} are not.")
    low, high = pixels.min(), pixels.max()
    warnings: tuple[str, ...] = ()
    if pixels.dtype == np.uint16:
        depth = bit_depth(pixels)
        most = (1 << depth) - 1
        if depth < 16:
            warnings = (
                f"The pixels have 16 bits and go up to {high:,}, so they were read as {depth} "
                "bits. If they are a dark image of 16 bits, divide them by 65535.",
            )
    else:
        most = 255 if is_integer else 1
    if low < 0 or high > most:
        advice = "Give the image as it is before a processor normalizes it."
        if is_integer and low >= 0 and high <= 65535:
            advice = "If they have 16 bits, give array.astype(np.uint16)."
        elif not is_integer and low >= 0 and high <= 255:
            advice = "If they go up to 255, give array / 255."
        raise InputError(
            f"{'whole' if is_integer else 'float'} pixels must be between 0 and {most}, but those "
            f"of {name!r} are between {low:.4g} and {high:.4g}. {advice}"
        )
    return np.rint(pixels * (255 / most)).astype(np.uint8), warnings


def bit_depth(pixels: Num[np.ndarray, "..."]) -> int:
    """Return the fewest bits, as cameras have them, that hold all pixels of a 16-bit array."""
    high = pixels.max(initial=0)
    return next(bits for bits in _DEPTHS if high < 1 << bits)


def blur(pixels: Num[np.ndarray, "H W C"]) -> Num[np.ndarray, "H W C"]:
    """Blur an image with a normal filter of a sixteenth of the longer side."""
    from PIL import ImageFilter

    is_gray = pixels.shape[2] == 1
    image = _import_pillow().fromarray(pixels[:, :, 0] if is_gray else pixels)
    blurred_pixels = np.asarray(image.filter(ImageFilter.GaussianBlur(max(image.size) / 16)))
    return blurred_pixels[:, :, None] if is_gray else blurred_pixels


def _encode_png(pixels: np.ndarray, longest: int, *, smooth: bool = True) -> bytes:
    """Return a PNG file whose longer side has at most ``longest`` pixels."""
    Image = _import_pillow()
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[-1] == 1 else pixels)
    if (scale := longest / max(image.size)) < 1:
        size = tuple(max(1, round(side * scale)) for side in image.size)
        image = image.resize(size, Image.Resampling.LANCZOS if smooth else Image.Resampling.NEAREST)
    file = BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


@final
@dataclass(frozen=True, kw_only=True)
class Image:
    """The image of an explanation, as results store it.

    Parameters
    ----------
    digest
        The digest of the explained image.
    size
        The width and height of the explained image, in pixels.
    boxes
        The bounding box of each feature, in these pixels.
    png
        A small copy of the image as base64.
    regions
        A PNG file of the size of ``png``, as base64, if a feature does not fill its box. A pixel of
        feature k has the value k, counted from 1. Other pixels have the value 0.
    """

    digest: str
    size: tuple[int, int]
    boxes: tuple[Box, ...]
    png: str | None = None
    regions: str | None = None

    def check(self, features: int) -> None:
        """Raise `InputError` unless there is a valid box for each of ``features`` features.

        Pages show the stored files, so anything but a PNG file is an error too.
        """
        if len(self.boxes) != features:
            raise InputError(
                f"features and boxes must have the same length, not {features} and "
                f"{len(self.boxes)}."
            )
        width, height = self.size
        for left, top, right, bottom in self.boxes:
            if not (0 <= left < right <= width and 0 <= top < bottom <= height):
                raise InputError(
                    f"boxes must be (left, top, right, bottom) inside the image of {width} × "
                    f"{height} pixels, not {(left, top, right, bottom)}."
                )
        if not re.fullmatch("[0-9a-f]{12}", self.digest):
            raise InputError(f"the digest of an image must be 12 digits, not {self.digest!r}.")
        for name in ("png", "regions"):
            if (content := getattr(self, name)) is not None:
                _check_png(content, name)


@lru_cache(maxsize=16)  # several methods explain one image
def _check_png(content: str, name: str) -> None:
    """Raise `InputError` if ``content`` is no PNG file in base64."""
    if not _decode_base64(content).startswith(_SIGNATURE):
        raise InputError(f"{name} of an image must be a PNG file in base64.")


def _decode_base64(content: str) -> bytes:
    """Return the bytes of a base64 string, or no bytes if it is malformed."""
    try:
        return b64decode(content, validate=True)
    except ValueError:
        return b""  # no image


class PatchedImage(NamedTuple):
    """An image divided into tokens, which are patches of a grid or segments.

    ``boxes`` has the bounding box of each token. ``regions`` has the index of the token at every
    pixel, and -1 at pixels that belong to none. It is None if each token fills its box.
    """

    source: ImageInput
    boxes: tuple[Box, ...]
    regions: Labels | None = None

    def token_map(self) -> Labels:
        """Return the index of the token at every pixel, -1 for none."""
        if self.regions is not None:
            return self.regions
        token_map = np.full(self.source.pixels.shape[:2], -1)
        for token, (left, top, right, bottom) in enumerate(self.boxes):
            token_map[top:bottom, left:right] = token
        return token_map

    def token_names(self) -> tuple[str, ...]:
        """Return the names of the tokens: "row 1, column 1" in a grid, or "segment 1"."""
        if self.regions is not None:
            return tuple(f"segment {k + 1}" for k in range(len(self.boxes)))
        columns = len({left for left, _, _, _ in self.boxes})
        cells = (divmod(k, columns) for k in range(len(self.boxes)))
        return tuple(f"row {row + 1}, column {column + 1}" for row, column in cells)

    def stored_image(self, feature_index: Int[np.ndarray, " T"], features: int) -> Image:
        """Return the image that a result stores.

        Parameters
        ----------
        feature_index
            The index of the feature of each token, -1 for none.
        features
            The number of features.
        """
        width, height = self.source.size
        boxes_of_features = [
            [self.boxes[t] for t in np.flatnonzero(feature_index == j)] for j in range(features)
        ]
        boxes = tuple(bounding_box(boxes) for boxes in boxes_of_features)
        are_filled = all(
            _area(box) == sum(map(_area, boxes))
            for box, boxes in zip(boxes, boxes_of_features, strict=True)
        )
        regions = None
        if self.regions is not None or not are_filled:
            number = np.append(feature_index, -1)[self.token_map()] + 1
            _check_segment_count(features)
            content = _encode_png(number.astype(np.uint8)[:, :, None], LONGEST, smooth=False)
            regions = b64encode(content).decode()
        return Image(
            digest=self.source.digest,
            size=(width, height),
            boxes=boxes,
            png=_thumbnail(self.source),
            regions=regions,
        )


def _check_segment_count(segments: int) -> None:
    """Raise `InputError` if an image has more segments than a result can store."""
    if segments > MAX_SEGMENTS:
        raise InputError(f"an image must have at most {MAX_SEGMENTS} segments, not {segments}.")


@lru_cache(maxsize=8)
def _thumbnail(image: ImageInput) -> str:
    """Encode a small copy of an image as a PNG file in base64."""
    return b64encode(image.png()).decode()


def _area(box: Box) -> int:
    """Return the number of pixels of a box."""
    return (box[2] - box[0]) * (box[3] - box[1])


def bounding_box(boxes: Sequence[Box]) -> Box:
    """Return the smallest box that contains all ``boxes``."""
    left, top, right, bottom = zip(*boxes, strict=True)
    return min(left), min(top), max(right), max(bottom)


def parse_grid(kind: str) -> tuple[int, int] | None:
    """Return rows and columns of a name such as "7 × 7 patches", or None for another name."""
    match = _GRID.fullmatch(kind)
    return None if match is None else (int(match[1]), int(match[2]))


def grid_boxes(frame: Box, rows: int, columns: int) -> tuple[Box, ...]:
    """Divide the part ``frame`` of an image into boxes of whole pixels, row by row."""
    left, top, right, bottom = frame
    if rows > bottom - top or columns > right - left:
        raise InputError(
            f"a grid of {rows} × {columns} patches needs at least as many pixels, but the image "
            f"has {bottom - top} × {right - left} (rows × columns)."
        )
    x = np.rint(np.linspace(left, right, columns + 1)).astype(int).tolist()
    y = np.rint(np.linspace(top, bottom, rows + 1)).astype(int).tolist()
    return tuple((x[j], y[i], x[j + 1], y[i + 1]) for i in range(rows) for j in range(columns))


def slic_segments(pixels: Num[np.ndarray, "H W C"]) -> Labels:
    """Divide an image into about fifty segments with SLIC; return the label of each pixel.

    This needs the package scikit-image.
    """
    try:
        from skimage.segmentation import slic
    except ImportError:
        raise InputError(
            "segments need scikit-image. Run: pip install scikit-image, or pass a function from "
            "the pixels to a label for each pixel as features."
        ) from None
    # Gray images get three equal channels, so that SLIC measures brightness from 0 to 100, as for
    # colors. One channel would range from 0 to 1, where distances dominate and segments become
    # squares.
    colors = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels
    return np.asarray(slic(colors, 50))


def segment_image(
    splitter: Callable[[np.ndarray], Any], image: ImageInput, name: str
) -> PatchedImage:
    """Divide an image into segments.

    Parameters
    ----------
    splitter
        A function from the pixels to an integer label for each pixel. Pixels with the same label
        form a segment. A negative label means no segment.
    image
        The image.
    name
        The name of the splitter, for error messages.

    Raises
    ------
    InputError
        If the splitter fails or returns no such labels, or if there are too many segments.
    """
    values = call_splitter(lambda pixels: np.asarray(splitter(pixels)), image.pixels, name)
    shape = image.pixels.shape[:2]
    if values.shape != shape or values.dtype.kind not in "bui" or not (values >= 0).any():
        raise InputError(
            f"the splitter {name} must return a whole number from 0 for each of the {shape[0]} × "
            f"{shape[1]} pixels, not {values.dtype} of shape {values.shape}."
        )
    is_segment = values >= 0
    labels = np.full(shape, -1)
    labels[is_segment] = np.unique(values[is_segment], return_inverse=True)[1]
    _check_segment_count(int(labels.max()) + 1)  # now, before the scores are computed
    boxes = []
    for k in range(labels.max() + 1):
        y, x = np.nonzero(labels == k)
        boxes.append((int(x.min()), int(y.min()), int(x.max()) + 1, int(y.max()) + 1))
    return PatchedImage(image, tuple(boxes), labels)
