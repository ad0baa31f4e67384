"""Draw an image under the colors of its scores, as SVG or as pixels for terminals and figures."""

from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from limelight.errors import MissingExtraError
from limelight.rendering.markup import render_macro
from limelight.rendering.palette import (
    INK,
    LEVELS,
    color_level,
    color_ramp,
    full_color,
    hex_color,
    relative_scores,
    select_hue,
    strongest_feature,
)
from limelight.rendering.wording import format_score, format_stderr, scale_note, typographic_minus
from limelight.results import Explanation
from limelight.shapes import Bool, Int, Num
from limelight.text import Image, read_image

if TYPE_CHECKING:
    from markupsafe import Markup
    from rich.text import Text

    from limelight.results.summary import RunSummary

THUMBNAIL = 160  # pixels of the longer side
CARD = 48  # largest number of columns of an image on a terminal, so that the numbers stay visible
MAX_OPACITY = 0.9  # opacity of the color of the largest score over the pale image
Loop = list[tuple[int | float, int | float]]


def image_html(e: Explanation, image: Image, *, original: bool = True) -> "Markup":
    """Return the image in gray under the colors of its scores, after the ``original`` if requested.

    A page contains the bytes of the image once, in an original. The copies refer to its digest.
    """
    return render_macro("colored_image", image, e.text, _shapes(e, image), original)


def thumbnail(e: Explanation) -> Explanation:
    """Return ``e`` with a small copy of its image, for pages with many images."""
    if e.image is None or e.image.png is None or max(e.image.size) <= THUMBNAIL:
        return e
    small = read_image(b64decode(e.image.png)).png(THUMBNAIL)
    return replace(e, image=replace(e.image, png=b64encode(small).decode()))


def drop_image(e: Explanation) -> Explanation:
    """Return ``e`` without the bytes of its image, for pages whose markup contains them."""
    return e if e.image is None else replace(e, image=replace(e.image, png=None, regions=None))


def draw_images(
    explanations: Sequence[Explanation], image: Image | None, removed: Collection[int] = ()
) -> dict[str, str]:
    """Draw ``image`` for each method, and, under the key "", without the ``removed`` parts.

    Without an image the result is empty.
    """
    if image is None:
        return {}
    by_method = {e.method: str(image_html(e, image, original=False)) for e in explanations}
    return by_method | {"": str(removed_parts_html(image, removed))}


def removed_parts_html(image: Image, removed: Collection[int]) -> "Markup":
    """Return the original image, with the ``removed`` parts covered."""
    regions = outlines(image)
    return render_macro(
        "original",
        image,
        "The image",
        ["".join(map(_svg_path, regions[j])) for j in sorted(removed)],
    )


def color_opacity(strength: float) -> float:
    """Return the opacity of the color of a score, never more than ``MAX_OPACITY``."""
    return MAX_OPACITY * color_level(strength) / LEVELS


def _shapes(e: Explanation, image: Image) -> list[dict[str, Any]]:
    """Return the shape of each feature: its path, color, opacity and tooltip."""
    shapes: list[dict[str, Any]] = []
    for j, (size, loops) in enumerate(
        zip(relative_scores(e).tolist(), outlines(image), strict=True)
    ):
        hue = select_hue(e, size)
        title = f"{e.feature_labels[j]}: {typographic_minus(format_score(e, j))}"
        shape: dict[str, Any] = {
            "path": "".join(map(_svg_path, loops)),
            "hue": hue[0] if color_opacity(size) else "",
        }
        # Transparent shapes have a color too: the fill "none" would receive no pointer events.
        shape |= {
            "fill": full_color(hue),
            "opacity": f"{color_opacity(size):.3g}",
            "is_strongest": j == strongest_feature(e),
        }
        error = f" ± {format_stderr(e, j)}" * (e.stderr is not None)
        shapes.append(shape | {"feature": j, "title": title + error})
    return shapes


def _svg_path(loop: Loop) -> str:
    """Return a closed line as the path of an SVG."""
    return f"M{'L'.join(f'{x:.6g} {y:.6g}' for x, y in loop)}z"


@lru_cache(maxsize=8)  # several methods explain one image
def outlines(image: Image) -> Sequence[Sequence[Loop]]:
    """Return the closed lines around every feature, in pixels of the image."""
    if image.regions is None:
        return [[[(a, b), (c, b), (c, d), (a, d)]] for a, b, c, d in image.boxes]
    regions = _decode_pixels(image.regions)
    if regions is None:
        return outlines(Image(digest=image.digest, size=image.size, boxes=image.boxes))
    scale = image.size[0] / regions.shape[1], image.size[1] / regions.shape[0]
    return [_loops(regions[:, :, 0] == k + 1, scale) for k in range(len(image.boxes))]


def _loops(inside: Bool[np.ndarray, "h w"], scale: tuple[float, float]) -> list[Loop]:
    """Return closed lines from corner to corner around the pixels that are ``inside``."""
    padded, next_corners = np.pad(inside, 1), dict[tuple[int, int], list[tuple[int, int]]]()
    # Each edge has the inside on its right, so that the edges join to closed lines.
    for dx, dy, (a, b), (c, d) in (
        (0, -1, (0, 0), (1, 0)),
        (1, 0, (1, 0), (1, 1)),
        (0, 1, (1, 1), (0, 1)),
        (-1, 0, (0, 1), (0, 0)),
    ):
        neighbor = np.roll(padded, (-dy, -dx), (0, 1))[1:-1, 1:-1]
        for y, x in np.argwhere(inside & ~neighbor).tolist():
            next_corners.setdefault((x + a, y + b), []).append((x + c, y + d))
    loops = []
    while next_corners:
        position, corners = next(iter(next_corners)), []
        while position in next_corners:
            corners.append(position)
            position = next_corners[position].pop()
            if not next_corners[corners[-1]]:
                del next_corners[corners[-1]]
        turns = zip(corners[-1:] + corners[:-1], corners, corners[1:] + corners[:1], strict=True)
        corner_points = [p for (x0, y0), p, (x1, y1) in turns if x0 != x1 and y0 != y1]
        loops.append([(x * scale[0], y * scale[1]) for x, y in corner_points])
    return loops


def _decode_pixels(png: str) -> Num[np.ndarray, "h w C"] | None:
    """Return the pixels of a stored file, or None if Pillow is not installed."""
    try:
        return read_image(b64decode(png)).pixels
    except MissingExtraError:
        return None


def resize_pixels(image: Image, width: int, height: int) -> Num[np.ndarray, "h w 3"]:
    """Resize the image by averaging its pixels. Return plain gray if its bytes are unavailable."""
    pixels = None if image.png is None else _decode_pixels(image.png)
    if pixels is None:
        return np.full((height, width, 3), 200.0)
    rows, columns = (
        np.linspace(0, n, m + 1).astype(int)
        for n, m in zip(pixels.shape, (height, width), strict=False)
    )
    # If the image is smaller, pixels repeat: ``reduceat`` takes the first value of an empty range.
    sums = np.add.reduceat(np.add.reduceat(pixels.astype(float), rows[:-1], 0), columns[:-1], 1)
    counts = np.maximum(np.diff(rows), 1)[:, None] * np.maximum(np.diff(columns), 1)
    return np.broadcast_to(sums / counts[:, :, None], (height, width, 3))


def pixel_features(image: Image, width: int, height: int) -> Int[np.ndarray, "h w"]:
    """Return the index of the feature at the center of each resized pixel; -1 if there is none."""
    regions = None if image.regions is None else _decode_pixels(image.regions)
    if regions is None:
        regions = np.zeros((image.size[1], image.size[0], 1))
        for j, (x0, y0, x1, y1) in enumerate(image.boxes):
            regions[y0:y1, x0:x1] = j + 1
    rows, columns = (
        ((np.arange(n) + 0.5) * m / n).astype(int)
        for n, m in zip((height, width), regions.shape, strict=False)
    )
    return regions[np.ix_(rows, columns)][:, :, 0].astype(int) - 1


def to_gray(pixels: Num[np.ndarray, "h w 3"]) -> Num[np.ndarray, "h w 3"]:
    """Return the image in gray, so that its colors are not mistaken for scores."""
    return np.repeat(pixels @ np.array([0.299, 0.587, 0.114])[:, None], 3, axis=2)


def tint_image(e: Explanation, image: Image, width: int, height: int) -> Num[np.ndarray, "h w 3"]:
    """Return the resized image, pale and gray, under the colors of its scores."""
    sizes = [*relative_scores(e).tolist(), 0.0]  # the last value is for pixels between features
    features = pixel_features(image, width, height)
    colors = np.array([color_ramp(select_hue(e, size))[-1] for size in sizes])[features]
    opacity = np.array([color_opacity(size) for size in sizes])[features][:, :, None]
    background = 128 + to_gray(resize_pixels(image, width, height)) / 2
    return background + (colors - background) * opacity


def image_cards(
    explanations: Sequence[Explanation], image: Image, width: int
) -> tuple[int, list[tuple[str, "Text"]]]:
    """Return the width of a card on a terminal, and the cards: the image, then each method.

    Each letter shows two pixels, in its upper and lower half.
    """
    image_width, image_height = image.size
    columns = min(image_width * max(1, CARD // 2 // image_width), width, CARD)
    rows = 2 * max(1, round(columns * image_height / image_width / 2))
    cards = [(explanations[0].text, _letters(resize_pixels(image, columns, rows)))]
    for e in explanations:
        label = f"{e.label}  {scale_note(e)}"
        cards.append((label, _letters(tint_image(e, image, columns, rows))))
    return columns, cards


def _letters(pixels: Num[np.ndarray, "h w 3"]) -> "Text":
    """Return pixels as lines of letters, two rows of pixels per line."""
    from rich.color import Color
    from rich.style import Style
    from rich.text import Text

    text = Text(no_wrap=True)
    for upper, lower in zip(
        *np.rint(pixels).reshape(-1, 2, *pixels.shape[1:]).swapaxes(0, 1), strict=True
    ):
        text.append("\n" * bool(text))
        for above, below in zip(upper.tolist(), lower.tolist(), strict=True):
            colors = Color.from_rgb(*above), Color.from_rgb(*below)
            text.append("▀", Style(color=colors[0], bgcolor=colors[1]))
    return text


def paint_image(grid: Any, explanations: Sequence[Explanation], image: Image) -> None:
    """Paint the image on the first axes of a matplotlib grid, and its scores on the other axes."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    width, height = image.size
    pixels = resize_pixels(image, width, height) / 255
    frame = {"extent": (0, width, height, 0), "interpolation": "nearest"}
    grid[0].imshow(pixels, **frame)
    for axes, e in zip(grid[1:], explanations, strict=False):
        axes.imshow(0.5 + to_gray(pixels) / 2, **frame)
        sizes, top = relative_scores(e), strongest_feature(e)
        for j, loops in sorted(enumerate(outlines(image)), key=lambda pair: pair[0] == top):
            path = Outline.make_compound_path(
                *(Outline([*loop, loop[0]], closed=True) for loop in loops)
            )
            edge = hex_color(INK) if j == top else (1, 1, 1, 0.5)
            fill = full_color(select_hue(e, sizes[j])), color_opacity(sizes[j])
            style = {"fc": fill, "ec": edge, "lw": 1.4 if j == top else 0.3}
            axes.add_patch(PathPatch(path, **style))


def average_image(
    summary: "RunSummary", words: Mapping[str, Mapping[str, Any]]
) -> Explanation | None:
    """Return the mean scores of all patches as the explanation of one image.

    Return None for texts and for segments, which differ between images. ``words`` are the patches
    of the summary by name. Patches without an entry have no mean that is known to differ from 0.
    """
    texts = summary.representatives.records() + summary.mistakes.records()
    for e in (text["explanation"] for text in texts):
        if e is None or e.image is None or e.image.regions is not None:
            continue
        (view,) = summary.views.records()
        plain = {"mean": 0.0, "low": 0.0, "high": 0.0}
        patches = [words.get(name, plain) for name in e.features]
        return replace(
            e,
            text=f"the mean over {view['texts']:,} images",
            scores=np.array([patch["mean"] for patch in patches]),
            stderr=np.array([(patch["high"] - patch["low"]) / 3.92 for patch in patches]),
            image=replace(e.image, png=None),
        )
    return None
