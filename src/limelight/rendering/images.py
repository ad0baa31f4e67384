"""An image under the colors of its scores: as SVG, and as pixels for terminals and figures."""

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
CARD = 48  # columns of an image on a terminal at most: more say little, and scroll the numbers away
COVER = 0.9  # of an image, which is pale there, under the largest score
Loop = list[tuple[int | float, int | float]]


def image_html(e: Explanation, image: Image, *, original: bool = True) -> "Markup":
    """Return the image in gray under its colors, the ``original`` before it.

    A page holds the bytes once, in an original; all others refer to it by its digest.
    """
    return render_macro("colored_image", image, e.text, _shapes(e, image), original)


def thumbnail(e: Explanation) -> Explanation:
    """Return ``e`` with a small copy of its image, for pages that show many."""
    if e.image is None or e.image.png is None or max(e.image.size) <= THUMBNAIL:
        return e
    small = read_image(b64decode(e.image.png)).png(THUMBNAIL)
    return replace(e, image=replace(e.image, png=b64encode(small).decode()))


def drop_image(e: Explanation) -> Explanation:
    """Return ``e`` without the bytes of its image, where its markup has them."""
    return e if e.image is None else replace(e, image=replace(e.image, png=None, regions=None))


def draw_images(
    explanations: Sequence[Explanation], image: Image | None, gone: Collection[int] = ()
) -> dict[str, str]:
    """Draw ``image`` as the reports do: by method, and as it is without parts under "".

    Return nothing for a text.
    """
    if image is None:
        return {}
    by_method = {e.method: str(image_html(e, image, original=False)) for e in explanations}
    return by_method | {"": str(removed_parts_html(image, gone))}


def removed_parts_html(image: Image, gone: Collection[int]) -> "Markup":
    """Return the original, and over it the parts that are ``gone``."""
    found = outlines(image)
    return render_macro(
        "original", image, "The image", ["".join(map(_path, found[j])) for j in sorted(gone)]
    )


def color_opacity(strength: float) -> float:
    """Return how much of an image the full color of a score hides: it must stay visible."""
    return COVER * color_level(strength) / LEVELS


def _shapes(e: Explanation, image: Image) -> list[dict[str, Any]]:
    """Return the part of the image that each feature is: its path, color, and what it says."""
    found: list[dict[str, Any]] = []
    for j, (size, loops) in enumerate(
        zip(relative_scores(e).tolist(), outlines(image), strict=True)
    ):
        hue, title = (
            select_hue(e, size),
            f"{e.feature_labels[j]}: {typographic_minus(format_score(e, j))}",
        )
        drawn: dict[str, Any] = {
            "path": "".join(map(_path, loops)),
            "hue": hue[0] if color_opacity(size) else "",
        }
        # A color also where it covers nothing: "none" hears no pointer.
        drawn |= {
            "fill": full_color(hue),
            "cover": f"{color_opacity(size):.3g}",
            "top": j == strongest_feature(e),
        }
        error = f" ± {format_stderr(e, j)}" * (e.stderr is not None)
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


def resize_pixels(image: Image, width: int, height: int) -> Num[np.ndarray, "h w 3"]:
    """Return the image in so many colors, each the mean of what it covers; else plain gray."""
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


def pixel_features(image: Image, width: int, height: int) -> Int[np.ndarray, "h w"]:
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


def to_gray(pixels: Num[np.ndarray, "h w 3"]) -> Num[np.ndarray, "h w 3"]:
    """Return the brightness of every pixel, in which no hue is taken for a score."""
    return np.repeat(pixels @ np.array([0.299, 0.587, 0.114])[:, None], 3, axis=2)


def tint_image(e: Explanation, image: Image, width: int, height: int) -> Num[np.ndarray, "h w 3"]:
    """Return the image, pale and gray, under the colors of its scores in so many pixels."""
    sizes = [*relative_scores(e).tolist(), 0.0]  # the last one is of pixels that are no feature's
    at = pixel_features(image, width, height)
    colors = np.array([color_ramp(select_hue(e, size))[-1] for size in sizes])[at]
    covered = np.array([color_opacity(size) for size in sizes])[at][:, :, None]
    pale = 128 + to_gray(resize_pixels(image, width, height)) / 2
    return pale + (colors - pale) * covered


def image_cards(
    explanations: Sequence[Explanation], image: Image, width: int
) -> tuple[int, list[tuple[str, "Text"]]]:
    """Return the columns of a card on a terminal, and the cards: the image, then every method.

    Two pixels are one letter, its upper and its lower half.
    """
    wide, high = image.size
    columns = min(wide * max(1, CARD // 2 // wide), width, CARD)
    rows = 2 * max(1, round(columns * high / wide / 2))
    cards = [(explanations[0].text, _letters(resize_pixels(image, columns, rows)))]
    for e in explanations:
        label = f"{e.label}  {scale_note(e)}"
        cards.append((label, _letters(tint_image(e, image, columns, rows))))
    return columns, cards


def _letters(pixels: Num[np.ndarray, "h w 3"]) -> "Text":
    """Return two rows of pixels as one line of letters."""
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
    """Paint the image on the first of matplotlib's axes, and its scores on the others."""
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
    """Return the mean score of every patch as if of one image; None of texts and of segments.

    ``words`` are the patches of the summary by name. A patch that is in no list has no mean that is
    known to differ from 0, and stays plain.
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
