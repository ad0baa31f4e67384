"""An image under the colours of its scores: as SVG, and as pixels for terminals and figures."""

from base64 import b64decode, b64encode
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from limelight.errors import MissingExtraError
from limelight.pages.markup import part
from limelight.pages.palette import cover, full_colour, marked, ramp, side, strengths
from limelight.pages.wording import error_text, minus, score_text
from limelight.results import Explanation
from limelight.shapes import Bool, Int, Num
from limelight.text import Image, read_image

if TYPE_CHECKING:
    from markupsafe import Markup

THUMBNAIL = 160  # pixels of the longer side
Loop = list[tuple[int | float, int | float]]


def image_html(e: Explanation, image: Image, *, original: bool = True) -> "Markup":
    """Return the image in grey under its colours, the ``original`` before it.

    A page holds the bytes once, in an original; all others refer to it by its digest.
    """
    return part("coloured_image", image, e.text, _shapes(e, image), original)


def thumbnail(e: Explanation) -> Explanation:
    """Return ``e`` with a small copy of its image, for pages that show many."""
    if e.image is None or e.image.png is None or max(e.image.size) <= THUMBNAIL:
        return e
    small = read_image(b64decode(e.image.png)).png(THUMBNAIL)
    return replace(e, image=replace(e.image, png=b64encode(small).decode()))


def image_without(image: Image, gone: Collection[int]) -> "Markup":
    """Return the original, and over it the parts that are ``gone``."""
    found = outlines(image)
    return part(
        "original", image, "The image", ["".join(map(_path, found[j])) for j in sorted(gone)]
    )


def _shapes(e: Explanation, image: Image) -> list[dict[str, Any]]:
    """Return the part of the image that each feature is: its path, colour, and what it says."""
    found: list[dict[str, Any]] = []
    for j, (size, loops) in enumerate(zip(strengths(e).tolist(), outlines(image), strict=True)):
        hue, title = side(e, size), f"{e.names[j]}: {minus(score_text(e, j))}"
        drawn: dict[str, Any] = {
            "path": "".join(map(_path, loops)),
            "hue": hue[0] if cover(size) else "",
        }
        # A colour also where it covers nothing: "none" hears no pointer.
        drawn |= {"fill": full_colour(hue), "cover": f"{cover(size):.3g}", "top": j == marked(e)}
        error = f" ± {error_text(e, j)}" * (e.stderr is not None)
        found.append(drawn | {"feature": j, "title": title + error})
    return found


def _path(loop: Loop) -> str:
    return f"M{'L'.join(f'{x:.6g} {y:.6g}' for x, y in loop)}z"


@lru_cache(maxsize=8)  # several methods explain one image
def outlines(image: Image) -> Sequence[Sequence[Loop]]:
    """Return the closed lines around every feature, in pixels of the image."""
    if image.regions is None:
        return [[[(a, b), (c, b), (c, d), (a, d)]] for a, b, c, d in image.boxes]
    regions = _decoded(image.regions)
    if regions is None:
        return outlines(Image(digest=image.digest, size=image.size, boxes=image.boxes))
    scale = image.size[0] / regions.shape[1], image.size[1] / regions.shape[0]
    return [_loops(regions[:, :, 0] == k + 1, scale) for k in range(len(image.boxes))]


def _loops(inside: Bool[np.ndarray, "h w"], scale: tuple[float, float]) -> list[Loop]:
    """Return the edges between pixels that are inside and those that are not, corner to corner."""
    around, after = np.pad(inside, 1), dict[tuple[int, int], list[tuple[int, int]]]()
    # An edge lies with the inside at its right hand, so that edges chain to closed lines.
    for dx, dy, (a, b), (c, d) in (
        (0, -1, (0, 0), (1, 0)),
        (1, 0, (1, 0), (1, 1)),
        (0, 1, (1, 1), (0, 1)),
        (-1, 0, (0, 1), (0, 0)),
    ):
        beside = np.roll(around, (-dy, -dx), (0, 1))[1:-1, 1:-1]
        for y, x in np.argwhere(inside & ~beside).tolist():
            after.setdefault((x + a, y + b), []).append((x + c, y + d))
    loops = []
    while after:
        at, corners = next(iter(after)), []
        while at in after:
            corners.append(at)
            at = after[at].pop()
            if not after[corners[-1]]:
                del after[corners[-1]]
        turns = zip(corners[-1:] + corners[:-1], corners, corners[1:] + corners[:1], strict=True)
        kept = [p for (x0, y0), p, (x1, y1) in turns if x0 != x1 and y0 != y1]
        loops.append([(x * scale[0], y * scale[1]) for x, y in kept])
    return loops


def _decoded(png: str) -> Num[np.ndarray, "h w C"] | None:
    """Return the pixels of a stored file; None where Pillow is missing."""
    try:
        return read_image(b64decode(png)).pixels
    except MissingExtraError:
        return None


def pixels_of(image: Image, width: int, height: int) -> Num[np.ndarray, "h w 3"]:
    """Return the image in so many colours, each the mean of what it covers; else plain grey."""
    found = None if image.png is None else _decoded(image.png)
    if found is None:
        return np.full((height, width, 3), 200.0)
    rows, columns = (
        np.linspace(0, n, m + 1).astype(int)
        for n, m in zip(found.shape, (height, width), strict=False)
    )
    # Of a smaller image some pixels are taken twice: an empty range gives its first one.
    summed = np.add.reduceat(np.add.reduceat(found.astype(float), rows[:-1], 0), columns[:-1], 1)
    counts = np.maximum(np.diff(rows), 1)[:, None] * np.maximum(np.diff(columns), 1)
    return np.broadcast_to(summed / counts[:, :, None], (height, width, 3))


def features_of_pixels(image: Image, width: int, height: int) -> Int[np.ndarray, "h w"]:
    """Return which feature stands at the middle of each of so many pixels, -1 where none does."""
    regions = None if image.regions is None else _decoded(image.regions)
    if regions is None:
        regions = np.zeros((image.size[1], image.size[0], 1))
        for j, (left, top, right, bottom) in enumerate(image.boxes):
            regions[top:bottom, left:right] = j + 1
    rows, columns = (
        ((np.arange(n) + 0.5) * m / n).astype(int)
        for n, m in zip((height, width), regions.shape, strict=False)
    )
    return regions[np.ix_(rows, columns)][:, :, 0].astype(int) - 1


def grey(pixels: Num[np.ndarray, "h w 3"]) -> Num[np.ndarray, "h w 3"]:
    """Return the brightness of every pixel, in which no hue is taken for a score."""
    return np.repeat(pixels @ np.array([0.299, 0.587, 0.114])[:, None], 3, axis=2)


def tinted(e: Explanation, image: Image, width: int, height: int) -> Num[np.ndarray, "h w 3"]:
    """Return the image, pale and grey, under the colours of its scores in so many pixels."""
    sizes = [*strengths(e).tolist(), 0.0]  # the last one is of pixels that are no feature's
    at = features_of_pixels(image, width, height)
    colours = np.array([ramp(side(e, size))[-1] for size in sizes])[at]
    covered = np.array([cover(size) for size in sizes])[at][:, :, None]
    pale = 128 + grey(pixels_of(image, width, height)) / 2
    return pale + (colours - pale) * covered
