"""Figures for papers (extra ``plots``); each function returns a matplotlib ``Figure``."""

__all__ = [
    "attention_figure",
    "bar_chart",
    "canvas",
    "colour_map",
    "coloured_sentence",
    "gradient_heatmap",
    "interaction_heatmap",
    "save_figure",
]

import io
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from limelight.errors import InputError, MissingExtraError
from limelight.files import write_whole
from limelight.render.coloured_pieces import visible
from limelight.render.palette import hex_colour, ramp, side, strengths
from limelight.render.sentence_figure import drawn_sentences, explained
from limelight.results import Comparison, Explanation
from limelight.shapes import Float

SUFFIXES = (".png", ".svg", ".pdf")
SHOWN_TOKENS = 60  # names of more tokens than this cannot be read
DOTS_PER_INCH = 200


def coloured_sentence(
    value: Comparison | Explanation, path: str | os.PathLike[str] | None = None
) -> Any:
    """Return the paper's Figure 1: every method one line of coloured words."""
    _need_matplotlib()
    explanations = [value] if isinstance(value, Explanation) else list(value)
    with _missing_glyphs():
        figure = drawn_sentences(explanations)
    if path is not None:
        save_figure(figure, path)
    return figure


def bar_chart(e: Explanation, k: int = 20) -> Any:
    """Return the ``k`` strongest features as bars, with one standard error where there is one."""
    if k < 1:
        raise InputError(f"a bar chart needs at least one bar; got k={k}.")
    order = np.argsort(-np.abs(e.scores), kind="stable")[:k]
    figure, axes = canvas(6.0, 0.6 + 0.26 * len(order))
    colours = [hex_colour(ramp(side(e, size))[-1]) for size in strengths(e)[order]]
    error = None if e.stderr is None else e.stderr[order]
    places = np.arange(len(order))
    axes.barh(places, e.scores[order], xerr=error, color=colours, height=0.7, ecolor="#1c2126")
    _name_ticks(axes.yaxis, places, [_shown(e.names[j]) for j in order])
    axes.invert_yaxis()
    axes.axvline(0, color="#5b6670", linewidth=0.8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"{e.label}: {explained(e)}", parse_math=False)
    return figure


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
        image = axes.imshow(attention[head], cmap=colour_map("neutral"), vmin=0)
        figure.colorbar(image, ax=axes, shrink=0.75)
        axes.set_title(f"head {head + 1}", fontsize=9)
        _name_tokens(axes.xaxis, tokens, rotation=90)
        _name_tokens(axes.yaxis, tokens)
    return figure


def gradient_heatmap(
    gradient: Float[np.ndarray, "T d_e"] | Mapping[str, Float[np.ndarray, "T d_e"]],
    tokens: Sequence[str],
) -> Any:
    """Return gradients as heat maps on one scale; several labelled ones stand side by side."""
    matrices = dict(gradient) if isinstance(gradient, Mapping) else {"": gradient}
    if not matrices:
        raise InputError("a gradient heat map needs at least one matrix; got none.")
    for matrix in matrices.values():
        _check_tokens(tokens, len(matrix))
    peak = max(float(np.abs(matrix).max(initial=0.0)) for matrix in matrices.values()) or 1.0
    height = max(1.6, 0.24 * min(len(tokens), SHOWN_TOKENS))
    figure, grid = canvas(4.6 * len(matrices) + 0.8, height + 0.9, columns=len(matrices))
    for axes, (name, matrix) in zip(np.atleast_1d(grid), matrices.items(), strict=True):
        image = axes.imshow(matrix, aspect="auto", cmap=colour_map("signed"), vmin=-peak, vmax=peak)
        axes.set_title(name, fontsize=9, parse_math=False)
        axes.set_xlabel("embedding dimension")
        _name_tokens(axes.yaxis, tokens)
    figure.colorbar(image, ax=list(np.atleast_1d(grid)), shrink=0.9)
    return figure


def interaction_heatmap(e: Explanation) -> Any:
    """Return the scores of pairs of features as a symmetric matrix, strongest features only."""
    if e.pairs is None or not len(e.pairs.scores):
        raise InputError(f"method {e.method!r} gives no pairs; explain with 'interactions'.")
    matrix = np.zeros((len(e.features), len(e.features)))
    i, j = e.pairs.features.T
    matrix[i, j] = matrix[j, i] = e.pairs.scores
    strongest = np.argsort(-np.abs(matrix).max(axis=1), kind="stable")[:30]
    kept = np.sort(strongest[np.abs(matrix).max(axis=1)[strongest] > 0])
    shown, names = matrix[np.ix_(kept, kept)], [e.names[k] for k in kept]
    size = 2.2 + 0.26 * len(kept)
    figure, axes = canvas(size + 0.8, size)
    peak = float(np.abs(e.pairs.scores).max()) or 1.0
    image = axes.imshow(shown, cmap=colour_map("signed"), vmin=-peak, vmax=peak)
    figure.colorbar(image, ax=axes, shrink=0.8)
    _name_tokens(axes.xaxis, names, rotation=90)
    _name_tokens(axes.yaxis, names)
    axes.set_title(f"{e.label}: {explained(e)}", fontsize=9, parse_math=False)
    return figure


def save_figure(figure: Any, path: str | os.PathLike[str], *, dpi: int = DOTS_PER_INCH) -> None:
    """Write a figure as PNG, SVG or PDF, by the suffix of ``path``, whole or not at all."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"a figure is saved as one of {', '.join(SUFFIXES)}; got {str(path)!r}.")
    content = io.BytesIO()
    with _missing_glyphs():
        figure.savefig(content, format=suffix[1:], dpi=dpi)
    write_whole(path, content.getvalue())


def _need_matplotlib() -> None:
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtraError("figures need matplotlib", "plots") from None


def canvas(
    width: float, height: float, *, rows: int = 1, columns: int = 1, square: bool = False
) -> tuple[Any, Any]:
    """Return a figure outside pyplot, which would keep it alive, and its axes."""
    _need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=not square)
    return figure, axes.ravel() if square else axes


def colour_map(kind: str) -> Any:
    """Return the colours of scores without signs ("neutral") or with ("signed")."""
    from matplotlib.colors import LinearSegmentedColormap

    if kind == "neutral":
        colours = [hex_colour(ramp("neutral", "light")[0]), "#7e8ae0", "#232c7a"]
    else:
        colours = [hex_colour(ramp(hue)[-1]) for hue in ("against", "for")]
        colours.insert(1, "#ffffff")
    return LinearSegmentedColormap.from_list(f"limelight-{kind}", colours)


def _name_tokens(axis: Any, tokens: Sequence[str], rotation: int = 0) -> None:
    """Name every token, or every n-th where there are too many to read."""
    step = -(-len(tokens) // SHOWN_TOKENS)
    places = np.arange(0, len(tokens), step)
    _name_ticks(
        axis, places, [_shown(token) for token in tokens[::step]], rotation=rotation, fontsize=7
    )


def _name_ticks(axis: Any, places: Any, names: Sequence[str], **style: Any) -> None:
    axis.set_ticks(places, labels=list(names), parse_math=False, **style)


def _shown(text: str) -> str:
    """Return one short line of ``text``."""
    line = " ".join(visible(text).split())
    return line if len(line) <= 24 else line[:23] + "…"


def _check_tokens(tokens: Sequence[str], T: int) -> None:
    if len(tokens) != T:
        raise InputError(f"got {len(tokens)} tokens for {T} rows; they must pair up.")


@contextmanager
def _missing_glyphs() -> Iterator[None]:
    """Draw letters the font lacks as boxes without a warning for each: any text is allowed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*[Gg]lyph .* missing")
        warnings.filterwarnings("ignore", message="(?s).*Matplotlib currently does not support")
        yield
