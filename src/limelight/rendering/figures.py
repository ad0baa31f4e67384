"""Figures for papers (extra ``plots``). Each function returns a matplotlib ``Figure``."""

__all__ = [
    "attention_figure", "bar_chart", "canvas", "color_map", "colored_sentence",
    "gradient_heatmap", "interaction_heatmap", "save_figure",
]  # fmt: skip

import io
import os
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from limelight.errors import InputError, MissingExtraError
from limelight.files import write_atomically
from limelight.rendering import palette
from limelight.rendering.images import paint_image
from limelight.rendering.palette import (
    color_level,
    color_ramp,
    full_color,
    hex_color,
    relative_scores,
    select_hue,
    strongest_feature,
    strongest_indices,
)
from limelight.rendering.text_parts import TextPart, shorten_unread, split_text, visible_text
from limelight.rendering.wording import (
    COLORS,
    Marks,
    headline,
    hue_meanings,
    prompt_sentence,
    quoted_target,
    scale_note,
    share_interval,
    typeset_sentence,
)
from limelight.results import Comparison, Explanation
from limelight.results.judgment import Judgment
from limelight.shapes import Float
from limelight.text import Image, truncate_line

WIDTH, SIZE, LINE, MARGIN = 540.0, 10.0, 18.0, 8.0  # points: page, letters, line, border
LETTER = 0.602 * SIZE  # width in points of a letter of DejaVu Sans Mono, the font of the words
SCALES = 52.0  # points for the scale of each method, at the right
SMALL, SOFT, INK = 8.0, "#5b6670", hex_color(palette.INK)  # size and colors of the notes
NOTE_LETTERS, NOTE_LINE = 118, 11.0  # headline: letters in a line, and height of a line in points
CUT_MARK = " [not read from here]"


def colored_sentence(
    value: Comparison | Explanation, path: str | os.PathLike[str] | None = None
) -> Any:
    """Return the paper's Figure 1: a paragraph of colored words for each method.

    The figure has a headline, the largest score of each method, and a legend. For an image, each
    method has a colored copy beside the original. With a ``path`` the figure is also saved.
    """
    _require_matplotlib()
    explanations = [value] if isinstance(value, Explanation) else list(value)
    with _ignore_missing_glyphs():
        image = explanations[0].image
        figure = _text_figure(explanations) if image is None else _image_grid(explanations, image)
    if path is not None:
        save_figure(figure, path)
    return figure


def _text_figure(explanations: Sequence[Explanation]) -> Any:
    """Draw the text once for each method, with words colored by their scores."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    indent = MARGIN + max(cell_len(e.label) for e in explanations) * LETTER + 14
    letter_runs = list(
        _layout_letters(shorten_unread(split_text(explanations[0]), CUT_MARK), indent)
    )
    block_height = max((y for _, y, _, _ in letter_runs), default=0.0) + LINE
    gap = 3.0 if block_height <= LINE else 10.0
    headline_lines = _wrap_headline(explanations, "words", NOTE_LETTERS)
    top_margin = MARGIN + len(headline_lines) * NOTE_LINE + LINE
    height = len(explanations) * (block_height + gap) - gap + top_margin + MARGIN + LINE
    figure = Figure(figsize=(WIDTH / 72, height / 72))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    for row, line in enumerate(headline_lines):
        _write_note(axes, MARGIN, MARGIN + (row + 0.5) * NOTE_LINE, line)
    _write_note(axes, MARGIN, top_margin - LINE / 2, target_sentence(explanations[0]))
    _write_note(axes, WIDTH - MARGIN, top_margin - LINE / 2, "full color", ha="right")
    for row, e in enumerate(explanations):
        top = top_margin + row * (block_height + gap)
        _write_text(axes, MARGIN, top + LINE / 2, e.label, weight="bold")
        _paint_words(axes, e, letter_runs, top)
        _write_note(axes, WIDTH - MARGIN, top + LINE / 2, scale_note(e), ha="right")
    _legend(figure, explanations, Line2D([], [], color=INK, lw=1.1), "lower left")
    return figure


def _image_grid(explanations: Sequence[Explanation], image: Image) -> Any:
    """Return the image and, for each method, a pale copy under the colors of the scores."""
    from matplotlib.patches import Patch

    columns = min(4, len(explanations) + 1)
    rows, (width, height) = -(-(len(explanations) + 1) // columns), image.size
    image_width = 7.2 / columns
    headline_lines = _wrap_headline(explanations, "words", int(17 * columns * image_width))
    figure, grid = canvas(
        7.2,
        rows * (image_width * height / width + 0.3) + 0.6,
        rows=rows,
        columns=columns,
        square=True,
    )
    name = truncate_line(visible_text(explanations[0].text), int(15 * image_width))
    grid[0].set_title(name, fontsize=SMALL, parse_math=False)
    for axes in grid:
        axes.set_axis_off()
    for axes, e in zip(grid[1:], explanations, strict=False):
        axes.set_title(f"{e.label}  {scale_note(e)}", fontsize=SMALL + 1, parse_math=False)
    paint_image(grid, explanations, image)
    _legend(figure, explanations, Patch(fc="none", ec=INK), "outside lower left")
    _add_headline(figure, headline_lines)
    return figure


def _wrap_headline(
    explanations: Sequence[Explanation], marked_noun: str, line_width: int
) -> list[str]:
    """Return the headline of a figure in at most four lines."""
    marks: Marks = {hue: mark.format(marked_noun) for hue, mark in COLORS.items()}
    words = f"{''.join(headline(explanations, marks))} {prompt_sentence(explanations[0])}"
    sentence = visible_text(typeset_sentence(words.strip()))
    return textwrap.wrap(sentence, line_width, max_lines=4, placeholder=" …")


def _add_headline(figure: Any, lines: Sequence[str]) -> None:
    """Write a headline of small gray lines above a figure."""
    style = {"fontsize": SMALL, "color": SOFT, "x": 0.01, "ha": "left", "parse_math": False}
    figure.suptitle("\n".join(lines), **style)


def target_sentence(e: Explanation) -> str:
    """Name the class and the scale of the scores."""
    return f"the {e.scale} of {truncate_line(visible_text(quoted_target(e)), 60)}"


def _legend(figure: Any, explanations: Sequence[Explanation], mark: Any, location: str) -> None:
    """Add a legend of the colors and of the ``mark`` of the strongest feature."""
    from matplotlib.patches import Patch

    meanings = {
        full_color(hue): truncate_line(visible_text(s), 30)
        for hue, s in hue_meanings(explanations).items()
    }
    keys = [Patch(fc=color, label=meaning) for color, meaning in meanings.items()]
    mark.set_label(f"strongest {explanations[0].feature_noun}")
    style = {"ncols": 4, "fontsize": SMALL, "labelcolor": SOFT, "frameon": False}
    figure.legend(handles=[*keys, mark], loc=location, **style)


def _write_note(axes: Any, x: float, y: float, text: str, **style: Any) -> None:
    """Write a note about the figure in the color :data:`SOFT`, unlike the explained text."""
    _write_text(axes, x, y, text, fontsize=SMALL, color=SOFT, **style)


def _layout_letters(
    parts: Sequence[TextPart], indent: float
) -> Iterator[tuple[float, float, str, TextPart]]:
    """Yield runs of letters with their positions in points, in lines that break at spaces."""
    text = Text()
    for number, part in enumerate(parts):
        text.append("\n" if part.label and text else "")
        visible = f"{part.label}: " if part.label else visible_text(re.sub(r"\s+", " ", part.text))
        text.append(visible, str(number))
    line_width = int((WIDTH - MARGIN - SCALES - indent) / LETTER)
    for row, line in enumerate(text.wrap(Console(), line_width)):
        for start, end, styled in line.spans:
            x = indent + cell_len(line.plain[:start]) * LETTER
            yield x, row * LINE, line.plain[start:end], parts[int(str(styled))]


def _paint_words(
    axes: Any, e: Explanation, letter_runs: Sequence[tuple[float, float, str, TextPart]], top: float
) -> None:
    """Draw letters and the colored boxes behind words, from height ``top`` downwards."""
    from matplotlib.patches import FancyBboxPatch

    sizes, strongest = relative_scores(e), strongest_feature(e)
    for x, y, letters, part in letter_runs:
        middle, width = top + y + LINE / 2, cell_len(letters) * LETTER
        if part.feature is not None and (step := color_level(float(sizes[part.feature]))):
            color = hex_color(color_ramp(select_hue(e, float(sizes[part.feature])))[step])
            box, style = (x, middle - LINE * 0.38), "round,pad=0,rounding_size=2.5"
            axes.add_patch(FancyBboxPatch(box, width, LINE * 0.76, boxstyle=style, fc=color, lw=0))
        is_read = part.is_read and not part.label
        _write_text(axes, x, middle, letters, color=INK if is_read else "#a0a8b0")
        if part.feature == strongest:
            underline = middle + SIZE * 0.55
            axes.plot([x, x + width], [underline, underline], color=INK, linewidth=1.1)


def _write_text(axes: Any, x: float, y: float, text: str, **style: Any) -> None:
    """Write a text at a point of the axes."""
    style = {"fontsize": SIZE, "va": "center_baseline", "parse_math": False} | style
    style |= {"family": "monospace"} if style["fontsize"] == SIZE else {}
    axes.text(x, y, text, **style)


SUFFIXES = (".png", ".svg", ".pdf")
MAX_TOKEN_NAMES = 60  # more names than this are not legible
DOTS_PER_INCH = 200


def bar_chart(e: Explanation, k: int = 20) -> Any:
    """Draw the ``k`` strongest features as bars, with one standard error for sampled scores."""
    if k < 1:
        raise InputError(f"a bar chart needs at least one bar, not k={k}.")
    order = strongest_indices(e.scores, k)
    headline_lines = _wrap_headline([e], "bars", 92)
    figure, axes = canvas(6.0, 0.7 + 0.26 * len(order) + 0.14 * len(headline_lines))
    colors = [hex_color(color_ramp(select_hue(e, size))[-1]) for size in relative_scores(e)[order]]
    error = None if e.stderr is None else e.stderr[order]
    axes.barh(range(len(order)), e.scores[order], xerr=error, color=colors, height=0.7, ecolor=INK)
    _name_ticks(axes.yaxis, [e.feature_labels[j] for j in order])
    axes.axvline(0, color=SOFT, linewidth=0.8)
    _format_rows(axes)
    whiskers = "" if error is None else " (whiskers: ± one standard error)"
    axes.set_xlabel(f"{e.label}: {target_sentence(e)}{whiskers}", parse_math=False)
    _add_headline(figure, headline_lines)
    return figure


def explanation_figure(e: Explanation) -> Any:
    """Return the usual figure of an explanation: bars, a colored image, or a heat map of pairs."""
    if e.pairs is not None:
        return interaction_heatmap(e)
    return bar_chart(e) if e.image is None else colored_sentence(e)


def attention_figure(attention: Float[np.ndarray, "K T T"], tokens: Sequence[str]) -> Any:
    """Return the paper's Figure 3: the attention matrix of each head, [cls] first."""
    heads, T, _ = attention.shape
    _check_tokens(tokens, T)
    columns = min(heads, 3)
    rows = -(-heads // columns)
    figure, grid = canvas(3.2 * columns, 3.2 * rows, rows=rows, columns=columns, square=True)
    for head, axes in enumerate(grid):
        if head >= heads:
            axes.set_axis_off()
            continue
        image = axes.imshow(attention[head], cmap=color_map("neutral"), vmin=0)
        figure.colorbar(image, ax=axes, shrink=0.75)
        axes.set_title(f"head {head + 1}", fontsize=9)
        _name_tokens(axes.xaxis, tokens, rotation=90)
        _name_tokens(axes.yaxis, tokens)
    return figure


def gradient_heatmap(
    gradient: Float[np.ndarray, "T d_e"] | Mapping[str, Float[np.ndarray, "T d_e"]],
    tokens: Sequence[str],
) -> Any:
    """Return one or more labeled gradients as heat maps side by side, on one scale."""
    matrices = dict(gradient) if isinstance(gradient, Mapping) else {"": gradient}
    if not matrices:
        raise InputError("a gradient heat map needs at least one matrix.")
    for matrix in matrices.values():
        _check_tokens(tokens, len(matrix))
    peak = max(float(np.abs(matrix).max(initial=0.0)) for matrix in matrices.values()) or 1.0
    height = max(1.6, 0.24 * min(len(tokens), MAX_TOKEN_NAMES))
    figure, grid = canvas(4.6 * len(matrices) + 0.8, height + 0.9, columns=len(matrices))
    for axes, (name, matrix) in zip(np.atleast_1d(grid), matrices.items(), strict=True):
        image = _heat_map(axes, matrix, peak, aspect="auto")
        axes.set_title(name, fontsize=9, parse_math=False)
        axes.set_xlabel("embedding dimension")
        _name_tokens(axes.yaxis, tokens)
    figure.colorbar(image, ax=list(np.atleast_1d(grid)), shrink=0.9)
    return figure


def interaction_heatmap(e: Explanation) -> Any:
    """Return the scores of pairs of the strongest features as a symmetric heat map."""
    if e.pairs is None or not len(e.pairs.scores):
        raise InputError(f"method {e.method!r} has no scores of pairs. Use method 'interactions'.")
    matrix = np.zeros((len(e.features), len(e.features)))
    i, j = e.pairs.features.T
    matrix[i, j] = matrix[j, i] = e.pairs.scores
    peaks = np.abs(matrix).max(axis=1)
    features = sorted(k for k in strongest_indices(peaks, 30) if peaks[k])
    submatrix, names = matrix[np.ix_(features, features)], [e.feature_labels[k] for k in features]
    size = 2.2 + 0.26 * len(features)
    figure, axes = canvas(size + 0.8, size)
    peak = float(np.abs(e.pairs.scores).max()) or 1.0
    image = _heat_map(axes, submatrix, peak)
    figure.colorbar(image, ax=axes, shrink=0.8)
    _name_tokens(axes.xaxis, names, rotation=90)
    _name_tokens(axes.yaxis, names)
    axes.set_title(f"{e.label}: {target_sentence(e)}", fontsize=9, parse_math=False)
    return figure


def save_figure(figure: Any, path: str | os.PathLike[str], *, dpi: int = DOTS_PER_INCH) -> None:
    """Write a figure atomically as PNG, SVG or PDF, depending on the suffix of ``path``."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"the name of a figure must end in {', '.join(SUFFIXES)}, not {str(path)!r}."
        )
    content = io.BytesIO()
    with _ignore_missing_glyphs():
        figure.savefig(content, format=suffix[1:], dpi=dpi)
    write_atomically(path, content.getvalue())


def _require_matplotlib() -> None:
    """Raise an error that names the extra to install if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtraError("figures need matplotlib", "plots") from None


def canvas(
    width: float, height: float, *, rows: int = 1, columns: int = 1, square: bool = False
) -> tuple[Any, Any]:
    """Return a new figure and its axes, a grid of ``rows`` and ``columns``.

    The figure is not registered in pyplot, which would keep it in memory.

    Parameters
    ----------
    width, height
        The size in inches.
    rows, columns
        The grid of axes.
    square
        Whether to return the axes as a flat array, and not in the shape of the grid.

    Returns
    -------
    The figure, and its axes.
    """
    _require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=not square)
    return figure, axes.ravel() if square else axes


def color_map(kind: str) -> Any:
    """Return the color map for scores without signs ("neutral") or with signs ("signed")."""
    from matplotlib.colors import LinearSegmentedColormap

    if kind == "neutral":
        colors = [hex_color(palette.PAPER["light"]), "#7e8ae0", "#232c7a"]
    else:
        against, paper, best = (
            color_ramp("against")[-1],
            palette.PAPER["light"],
            color_ramp("for")[-1],
        )
        colors = [hex_color(color) for color in (against, paper, best)]
    return LinearSegmentedColormap.from_list(f"limelight-{kind}", colors)


def _name_tokens(axis: Any, tokens: Sequence[str], rotation: int = 0) -> None:
    """Label an axis with the tokens, or with every n-th token if there are too many to read."""
    step = -(-len(tokens) // MAX_TOKEN_NAMES)
    _name_ticks(axis, tokens[::step], step, rotation=rotation, fontsize=7)


def _name_ticks(axis: Any, names: Sequence[str], step: int = 1, **style: Any) -> None:
    """Put ticks on an axis, ``step`` units apart, and label them with ``names``."""
    labels = [truncate_line(visible_text(name), 24) for name in names]
    axis.set_ticks(np.arange(len(labels)) * step, labels=labels, parse_math=False, **style)


def _format_rows(axes: Any) -> None:
    """Order rows from top to bottom, and remove ticks and border lines."""
    axes.invert_yaxis()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _heat_map(axes: Any, matrix: Float[np.ndarray, "n m"], peak: float, **style: Any) -> Any:
    """Draw signed values, white at 0 and full color at ``peak``."""
    return axes.imshow(matrix, cmap=color_map("signed"), vmin=-peak, vmax=peak, **style)


def _check_tokens(tokens: Sequence[str], T: int) -> None:
    """Raise `InputError` unless there is one token for each row."""
    if len(tokens) != T:
        raise InputError(f"tokens and rows must have the same length, not {len(tokens)} and {T}.")


@contextmanager
def _ignore_missing_glyphs() -> Iterator[None]:
    """Suppress the warnings of matplotlib about letters that its font lacks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*[Gg]lyph .* missing")
        warnings.filterwarnings("ignore", message="(?s).*Matplotlib currently does not support")
        yield


def judgment_figure(j: Judgment) -> Any:
    """Return the share of every method with its interval, from chance to ceiling."""
    rows = j.rank_methods()
    figure, axes = canvas(6.0, 0.9 + 0.28 * len(rows))
    for x in (0.0, 1.0):
        axes.axvline(x, color=SOFT, linewidth=0.8)
    for y, m in enumerate(rows):
        if m.share is None:
            axes.text(0.02, y, "not judged", va="center", color=SOFT, fontsize=8)
            continue
        axes.plot(share_interval(m), [y, y], color=INK, linewidth=1.6, solid_capstyle="butt")
        axes.plot([m.share], [y], "o", color=INK, markersize=5)
    _name_ticks(axes.yaxis, [m.method for m in rows])
    _format_rows(axes)
    ceiling = {"proven": "the proven ceiling", "checked": "the checked ceiling"}.get(
        j.ceiling_kind, "the best order found"
    )
    intervals = "lines are 95% intervals" if j.has_intervals else "too few for intervals"
    note = f"{len(j.texts_with_room)} texts, {intervals}"
    axes.set_xlabel(f"share: 0 is chance, 1 is {ceiling} ({note})")
    return figure
