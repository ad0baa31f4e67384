"""An image in the place of a text: its pixels, the patches it is cut into, what a result keeps.

NumPy alone is imported here; Pillow, of the extra ``images``, is when a file is read or written.
"""

import hashlib
import re
import warnings
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
from limelight.text.characters import one_line
from limelight.text.units import cut_by
from limelight.threads import cached_property

Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels
Labels = Int[np.ndarray, "H W"]
ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")
LONGEST = 448  # pixels of the longer side of what a result stores
SEGMENTS = 255  # at most: what a pixel of the stored map can tell apart
_GRID = re.compile(r"([1-9]\d{0,3}) ?[x×] ?([1-9]\d{0,3}) patches")
_ADDRESS = re.compile(r"data:image/[\w*+.-]+(?:;name=(?P<name>[^;,]+))?;base64,")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Pillow is told to try these and no others, whatever a file is called: for EPS it would start
# Ghostscript, and readers of rare formats are where its own faults lie.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
# The name of an image that has none. It seeds random draws: another word changes sampled scores.
UNNAMED = "picture"
# Of an array of 16 bits nobody knows how many the camera used: the fewest that hold its numbers.
_DEPTHS = (8, 10, 12, 14, 16)


@final
@dataclass(frozen=True, eq=False)
class ImageInput:
    """Pixels of 8 bits, gray or in red, green and blue; ``notices`` say what was done to them."""

    pixels: Num[np.ndarray, "H W C"]
    name: str = UNNAMED
    notices: tuple[str, ...] = ()

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
        """What tells these pixels from others: 12 digits of SHA-256 over shape and bytes."""
        shape = repr(self.pixels.shape).encode()
        return hashlib.sha256(shape + self.pixels.tobytes()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """What stands for the image where a text would: its name, size and digest."""
        return f"{self.name} ({self.size[0]} × {self.size[1]}, {self.digest})"

    def png(self, longest: int = LONGEST) -> bytes:
        """Return a PNG file, the longer side of at most so many pixels."""
        return _png(self.pixels, longest)


@runtime_checkable
class _Pillow(Protocol):
    def getexif(self) -> Any: ...


# What is read as an image, beside strings, which are paths.
ImageLike = ImageInput | np.ndarray | Path | bytes | Mapping[str, Any] | _Pillow


def has_ending(path: Path) -> bool:
    """Whether a path ends as that of an image does."""
    return path.name.lower().endswith(ENDINGS)


def is_address(text: str) -> bool:
    """Whether ``text`` holds the bytes of an image, as a browser writes them."""
    return _ADDRESS.match(text) is not None


def read_image(given: Any, name: str | None = None) -> ImageInput:
    """Read an array, a Pillow image, a path or the bytes of a file; an `ImageInput` stays as it is.

    Hugging Face's ``{"bytes", "path"}`` is one too. What a camera turned is turned back, and what
    is transparent lies on white, with a notice; numbers from 0 to 1 become 8 bits, and so do 16
    bits, by the bit depth (8, 10, 12, 14 or 16) that their largest number needs.
    """
    if isinstance(given, ImageInput):
        return given
    if isinstance(given, Mapping):
        path = given.get("path")
        own = Path(path).name if isinstance(path, str) and path else None
        inner = given.get("bytes") or path
        if not isinstance(inner, str | bytes):
            raise InputError("an image in a table has its 'bytes' or a 'path'; this one has none.")
        return read_image(inner, name or own)
    if isinstance(given, str) and (found := _ADDRESS.match(given)):
        return read_image(_decoded(given[found.end() :]), name or found["name"])
    if isinstance(given, str | Path):
        return _read(Path(given), name or Path(given).name)
    if isinstance(given, bytes):
        return _opened(BytesIO(given), name or UNNAMED)
    if is_pillow(given):
        own = name or Path(getattr(given, "filename", "")).name or UNNAMED
        return _opened(given, own)
    if not hasattr(given, "__array__"):
        raise InputError(
            "an image must be an array, a Pillow image, a path or the bytes of a file; got "
            f"{type(given).__name__}."
        )
    return _of_array(np.asarray(given), name or UNNAMED)


def is_pillow(given: Any) -> bool:
    """Whether ``given`` is a Pillow image, which is not imported for that."""
    return type(given).__module__.startswith("PIL.")


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("images need the package Pillow", "images") from None
    return Image


def _read(path: Path, name: str) -> ImageInput:
    try:
        there = path.is_file()
    except (OSError, ValueError):  # a text of some length is no name of a file
        there = False
    if not there:
        raise InputError(
            f"an image must be a file, which {one_line(str(path), 200)!r} is not; an address of "
            "the web is not read: download it."
        )
    return _opened(path, name)


def _opened(file: Any, name: str) -> ImageInput:
    Image = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            if is_pillow(file):  # somebody else's, to be closed by them; its file is read only now
                return _of_pillow(file, name)
            with Image.open(file, formats=FORMATS) as image:
                return _of_pillow(image, name)
    except InputError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        most = Image.MAX_IMAGE_PIXELS
        raise InputError(f"an image may have {most:,} pixels at most; {name!r} has more.") from None
    except Exception as error:  # a broken file raises almost anything
        unknown = type(error).__name__ == "UnidentifiedImageError"  # which names an object of ours
        why = "it is none" if unknown else one_line(str(error), 120).rstrip(".")
        raise InputError(
            f"{name!r} cannot be read as an image in PNG, JPEG, GIF, BMP, WebP or TIFF: {why}."
        ) from error


def _of_pillow(image: Any, name: str) -> ImageInput:
    from PIL import ImageOps

    if (frames := getattr(image, "n_frames", 1)) > 1:
        raise InputError(
            f"an image file must hold one frame; {name!r} has {frames}, as an animation has. "
            "Save one frame as a file."
        )
    image = ImageOps.exif_transpose(image)
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        numbers = np.asarray(image)
        # Pillow's own mode for 16 bits has had 32 in some versions.
        fits = image.mode != "F" and numbers.min() >= 0 and numbers.max() <= 65535
        return _of_array(numbers.astype(np.uint16) if fits else numbers, name)
    if image.has_transparency_data:
        return _of_array(np.asarray(image.convert("RGBA")), name)
    return _of_array(np.asarray(image.convert("L" if image.mode in ("1", "L") else "RGB")), name)


def _of_array(array: np.ndarray, name: str) -> ImageInput:
    pixels = array[:, :, None] if array.ndim == 2 else array
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4):
        advice = " Several images are a list: list(array)." * (pixels.ndim == 4)
        if pixels.ndim == 3 and pixels.shape[0] in (1, 3, 4):
            advice = " Channels go last: np.moveaxis(array, 0, -1)."
        raise InputError(
            "the array of an image has height, width and 1, 3 or 4 channels (gray, colors, "
            f"colors with transparency), in this order; got the shape {array.shape}.{advice}"
        )
    height, width, channels = pixels.shape
    if min(height, width) < 2:
        raise InputError(
            f"an image needs at least 2 × 2 pixels, or there is nothing to compare; {name!r} has "
            f"{width} × {height}."
        )
    pixels, notices = _in_bytes(pixels, name)
    if channels == 4:
        alpha, pixels = pixels[:, :, 3:] / 255, pixels[:, :, :3]
        if alpha.min() < 1:
            notices += ("The image is transparent in parts, which were laid on white.",)
            pixels = np.rint(pixels * alpha + 255 * (1 - alpha)).astype(np.uint8)
    pixels = np.array(pixels)  # a copy: freezing must not freeze the caller's
    pixels.setflags(write=False)
    # A name stands in lines, files and pages: on one line, and in characters that can be written.
    said = one_line(name.encode(errors="replace").decode(), 200)
    return ImageInput(pixels, said or UNNAMED, notices)


def _in_bytes(pixels: np.ndarray, name: str) -> tuple[Num[np.ndarray, "H W C"], tuple[str, ...]]:
    """Return pixels of 8 bits, and a warning if their bit depth had to be guessed."""
    if pixels.dtype == np.uint8:
        return pixels, ()
    whole = pixels.dtype.kind in "ui"
    if pixels.dtype.kind not in "buif" or not np.isfinite(pixels).all():
        raise InputError(f"pixels must be finite numbers; those of {name!r} are not.")
    low, high = pixels.min(), pixels.max()
    notices: tuple[str, ...] = ()
    if pixels.dtype == np.uint16:
        depth = bit_depth(pixels)
        most = (1 << depth) - 1
        if depth < 16:
            notices = (
                f"The pixels have 16 bits and go up to {high:,}, so they were read as {depth} "
                "bits. If they are a dark image of 16 bits, divide them by 65535.",
            )
    else:
        most = 255 if whole else 1
    if low < 0 or high > most:
        advice = "Give the image as it is before a processor normalizes it."
        if whole and low >= 0 and high <= 65535:
            advice = "If they have 16 bits, give array.astype(np.uint16)."
        elif not whole and low >= 0 and high <= 255:
            advice = "If they go up to 255, give array / 255."
        raise InputError(
            f"{'whole' if whole else 'float'} pixels must lie between 0 and {most}; those of "
            f"{name!r} go from {low:.4g} to {high:.4g}. {advice}"
        )
    return np.rint(pixels * (255 / most)).astype(np.uint8), notices


def bit_depth(pixels: Num[np.ndarray, "..."]) -> int:
    """Return the fewest bits, as cameras have them, that hold all pixels of a 16-bit array."""
    high = pixels.max(initial=0)
    return next(bits for bits in _DEPTHS if high < 1 << bits)


def blurred(pixels: Num[np.ndarray, "H W C"]) -> Num[np.ndarray, "H W C"]:
    """Return the pixels out of focus: a normal filter of a sixteenth of the longer side."""
    from PIL import ImageFilter

    gray = pixels.shape[2] == 1
    image = _pillow().fromarray(pixels[:, :, 0] if gray else pixels)
    found = np.asarray(image.filter(ImageFilter.GaussianBlur(max(image.size) / 16)))
    return found[:, :, None] if gray else found


def _png(pixels: np.ndarray, longest: int, *, smooth: bool = True) -> bytes:
    Image = _pillow()
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
    """The image of an explanation: ``boxes`` of its features, in pixels of the ``size``.

    ``png`` is a small copy, as base64. ``regions`` is set where features are no boxes, and is a PNG
    of the same size as that: k at the pixels of feature k, counting from 1, and 0 elsewhere.
    """

    digest: str
    size: tuple[int, int]
    boxes: tuple[Box, ...]
    png: str | None = None
    regions: str | None = None

    def check(self, features: int) -> None:
        """Refuse boxes that do not fit, and anything but a PNG, which pages show as it is."""
        if len(self.boxes) != features:
            raise InputError(f"got {features} features and {len(self.boxes)} boxes.")
        width, height = self.size
        for left, top, right, bottom in self.boxes:
            if not (0 <= left < right <= width and 0 <= top < bottom <= height):
                raise InputError(
                    "boxes must be (left, top, right, bottom) inside the image of "
                    f"{width} × {height} pixels; got {(left, top, right, bottom)}."
                )
        if not re.fullmatch("[0-9a-f]{12}", self.digest):
            raise InputError(f"the digest of an image has 12 digits; got {self.digest!r}.")
        for name in ("png", "regions"):
            if (stored := getattr(self, name)) is not None:
                _check_png(stored, name)


@lru_cache(maxsize=16)  # several methods explain one image
def _check_png(stored: str, name: str) -> None:
    if not _decoded(stored).startswith(_SIGNATURE):
        raise InputError(f"{name} of an image must be a PNG file in base64; this is none.")


def _decoded(content: str) -> bytes:
    try:
        return b64decode(content, validate=True)
    except ValueError:
        return b""  # which is no image


class PatchedImage(NamedTuple):
    """An image cut into tokens: a box for each, or ``regions``, the token at every pixel.

    A token whose number is -1 is none; regions are None where the boxes say everything.
    """

    source: ImageInput
    boxes: tuple[Box, ...]
    regions: Labels | None = None

    def labels(self) -> Labels:
        """Return the token at every pixel, -1 where there is none."""
        if self.regions is not None:
            return self.regions
        found = np.full(self.source.pixels.shape[:2], -1)
        for token, (left, top, right, bottom) in enumerate(self.boxes):
            found[top:bottom, left:right] = token
        return found

    def names(self) -> tuple[str, ...]:
        """Return what the tokens are called: by row and column of a grid, or segments by number."""
        if self.regions is not None:
            return tuple(f"segment {k + 1}" for k in range(len(self.boxes)))
        columns = len({left for left, _, _, _ in self.boxes})
        cells = (divmod(k, columns) for k in range(len(self.boxes)))
        return tuple(f"row {row + 1}, column {column + 1}" for row, column in cells)

    def stored_image(self, of_token: Int[np.ndarray, " T"], features: int) -> Image:
        """Return what a result keeps of the image, for features that are sets of tokens."""
        width, height = self.source.size
        own = [[self.boxes[t] for t in np.flatnonzero(of_token == j)] for j in range(features)]
        boxes = tuple(around(some) for some in own)
        filled = all(_area(b) == sum(map(_area, some)) for b, some in zip(boxes, own, strict=True))
        regions = None
        if self.regions is not None or not filled:
            number = np.append(of_token, -1)[self.labels()] + 1
            _check_number(features)
            drawn = _png(number.astype(np.uint8)[:, :, None], LONGEST, smooth=False)
            regions = b64encode(drawn).decode()
        return Image(
            digest=self.source.digest,
            size=(width, height),
            boxes=boxes,
            png=_stored(self.source),
            regions=regions,
        )


def _check_number(segments: int) -> None:
    if segments > SEGMENTS:
        raise InputError(
            f"an image may be cut into {SEGMENTS} segments at most; these are {segments}."
        )


@lru_cache(maxsize=8)
def _stored(image: ImageInput) -> str:
    return b64encode(image.png()).decode()


def _area(box: Box) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])


def around(boxes: Sequence[Box]) -> Box:
    """Return the smallest box that holds all of them."""
    left, top, right, bottom = zip(*boxes, strict=True)
    return min(left), min(top), max(right), max(bottom)


def grid_of(unit: str) -> tuple[int, int] | None:
    """Return rows and columns of "7 × 7 patches", None for another unit."""
    found = _GRID.fullmatch(unit)
    return None if found is None else (int(found[1]), int(found[2]))


def grid_boxes(within: Box, rows: int, columns: int) -> tuple[Box, ...]:
    """Return the boxes of a grid over a part of an image, row by row, in whole pixels."""
    left, top, right, bottom = within
    if rows > bottom - top or columns > right - left:
        raise InputError(
            f"a grid of {rows} × {columns} patches needs as many pixels at least; the image has "
            f"{bottom - top} × {right - left} of them (rows × columns)."
        )
    x = np.rint(np.linspace(left, right, columns + 1)).astype(int).tolist()
    y = np.rint(np.linspace(top, bottom, rows + 1)).astype(int).tolist()
    return tuple((x[j], y[i], x[j + 1], y[i + 1]) for i in range(rows) for j in range(columns))


def slic_segments(pixels: Num[np.ndarray, "H W C"]) -> Labels:
    """Return about fifty segments of an image by SLIC, of the package scikit-image."""
    try:
        from skimage.segmentation import slic
    except ImportError:
        raise InputError(
            "segments need the package scikit-image (pip install scikit-image), or a function of "
            "your own from the pixels to a label for each: features=function."
        ) from None
    # Gray as three equal channels: SLIC then measures brightness from 0 to 100, as for colors. Of
    # one channel it is from 0 to 1, distances outweigh it, and the segments become squares.
    colors = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels
    return np.asarray(slic(colors, 50))


def segments(cutter: Callable[[np.ndarray], Any], image: ImageInput, name: str) -> PatchedImage:
    """Return an image cut by somebody's function from pixels to labels; negative ones stay."""
    found = cut_by(lambda pixels: np.asarray(cutter(pixels)), image.pixels, name)
    shape = image.pixels.shape[:2]
    if found.shape != shape or found.dtype.kind not in "bui" or not (found >= 0).any():
        raise InputError(
            f"the cutter {name} must give a whole number from 0 for every pixel, {shape[0]} × "
            f"{shape[1]} of them; got {found.dtype} of the shape {found.shape}."
        )
    own = found >= 0
    labels = np.full(shape, -1)
    labels[own] = np.unique(found[own], return_inverse=True)[1]
    _check_number(int(labels.max()) + 1)  # now, and not when all is computed
    boxes = []
    for k in range(labels.max() + 1):
        y, x = np.nonzero(labels == k)
        boxes.append((int(x.min()), int(y.min()), int(x.max()) + 1, int(y.max()) + 1))
    return PatchedImage(image, tuple(boxes), labels)
