"""Figure 2: the architecture, drawn from the configuration of a model."""

__all__ = ["EXPERIMENT"]

from collections.abc import Iterator, Mapping
from typing import Any

from limelight import AttentionClassifier
from limelight_reproduction.drawing import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, canvas
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Table,
    Verdict,
    parts_for_both_models,
)
from limelight_reproduction.one_layer.subjects import MODELS
from limelight_reproduction.setting import Setting

_TRAINED = ("embedding", "W_q", "W_k", "W_v", "W_l")
_LETTERS = {
    "V": "words of the vocabulary, [cls] and UNK included",
    "T_max": "positions of the window",
    "d_e": "size of an embedding",
    "K": "heads",
    "d_att": "size of keys and queries",
    "d_out": "size of values",
    "C": "outputs",
}
Coordinate = int | float


def measure(_setting: Setting, model: AttentionClassifier) -> Numbers:
    """Return the sizes of the model and the number of its trained parameters."""
    return {
        **model.sizes,
        "classes": list(model.classes),
        "position_base": model.position_base,
        "position_scale": model.position_scale,
        "parameters": sum(getattr(model, name).size for name in _TRAINED),
        "word_parameters": model.embedding.size,
    }


def figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    """Draw the architecture of each model."""
    for name, label in MODELS.items():
        yield (
            f"figure-2-{name}",
            f"From a text to its outputs: the {label} as its configuration describes it.",
            diagram(numbers[name]),
        )


def diagram(sizes: Numbers) -> Any:
    """Draw boxes from left to right: text, embedding, one of K heads, and the mean of the heads."""
    figure, axes = canvas(9.6, 3.9)
    axes.set(xlim=(0, 96), ylim=(0, 39))
    axes.set_axis_off()
    _draw_input(axes, sizes)
    _draw_head(axes, sizes)
    _draw_output(axes, sizes)
    return figure


def _draw_input(axes: Any, sizes: Numbers) -> None:
    scale = "" if sizes["position_scale"] == 1 else f"{sizes['position_scale']:g} × "
    _draw_box(
        axes, 1, 14, 11, 11, "text", f"[cls], words,\npadding\n{sizes['T_max']} positions", GREY
    )
    _draw_box(axes, 16, 22, 15, 9, "word embedding", f"{sizes['V']:,} × {sizes['d_e']}", BLUE)
    _draw_box(
        axes,
        16,
        8,
        15,
        9,
        "position",
        f"{scale}sines, base {sizes['position_base']:g}\nnot trained",
        BLUE,
    )
    _draw_arrow(axes, (12, 21), (16, 26))
    _draw_arrow(axes, (12, 18), (16, 13))
    _draw_sign(axes, 35, 19.5, "+")
    _draw_arrow(axes, (31, 26), (34, 20.6))
    _draw_arrow(axes, (31, 13), (34, 18.4))
    axes.text(
        36, 12.4, f"$e$\n{sizes['T_max']} × {sizes['d_e']}", fontsize=7, ha="center", va="center"
    )


def _draw_head(axes: Any, sizes: Numbers) -> None:
    """Draw head 1 in front of the others."""
    from matplotlib.patches import FancyBboxPatch

    behind = min(sizes["K"] - 1, 2)
    for step in range(behind, -1, -1):
        corner, area = (40 + 0.9 * step, 3.2 + 0.9 * step), (37.6, 31)
        style = "round,pad=0,rounding_size=1"
        axes.add_patch(FancyBboxPatch(corner, *area, boxstyle=style, fc="white", ec=GREY, lw=0.9))
    axes.text(41.2, 32.2, f"each of {sizes['K']} heads", fontsize=8.5, color=INK, weight="bold")
    rows = {"query of [cls]": (24, "d_att"), "keys": (14.5, "d_att"), "values": (5, "d_out")}
    for name, (y, size) in rows.items():
        letter = name[0]
        detail = f"${letter} = W_{letter}\\, e$\n{sizes[size]} × {sizes['d_e']}"
        _draw_box(axes, 42, y, 12, 7, name, detail, ORANGE)
    for y in (27.5, 18, 8.5):
        _draw_arrow(axes, (36.1, 19.5), (42, y))
    _draw_box(
        axes,
        58,
        17,
        8.6,
        12,
        "attention",
        f"softmax of\n$q \\cdot k / \\sqrt{{{sizes['d_att']}}}$",
        GREEN,
    )
    _draw_box(axes, 58, 4.5, 8.6, 8, "average", "$\\sum_t \\alpha_t v_t$", GREEN)
    _draw_box(
        axes, 69.4, 4.5, 7, 8, "linear", f"$W_\\ell$\n{sizes['C']} × {sizes['d_out']}", PURPLE
    )
    _draw_arrow(axes, (54, 27.5), (58, 25))
    _draw_arrow(axes, (54, 18), (58, 21))
    _draw_arrow(axes, (54, 8.5), (58, 8.5))
    _draw_arrow(axes, (62.3, 17), (62.3, 12.5))
    _draw_arrow(axes, (66.6, 8.5), (69.4, 8.5))


def _draw_output(axes: Any, sizes: Numbers) -> None:
    classes = [name.replace("$", r"\$") for name in sizes["classes"]]
    rule = (
        f"$f > 0$: {classes[-1]}" if sizes["C"] == 1 else "the largest wins:\n" + "\n".join(classes)
    )
    _draw_box(
        axes,
        83,
        4.5,
        11.6,
        8,
        "mean of heads",
        f"$f$, {sizes['C']} output{'s' * (sizes['C'] > 1)}",
        GREY,
    )
    _draw_arrow(axes, (76.4, 8.5), (83, 8.5))
    _draw_arrow(axes, (88.8, 12.5), (88.8, 17))
    _draw_box(axes, 83, 17, 11.6, 9 if sizes["C"] == 1 else 10, "class", rule, GREY)


def _draw_box(
    axes: Any,
    x: Coordinate,
    y: Coordinate,
    width: Coordinate,
    height: Coordinate,
    name: str,
    detail: str,
    hue: str,
) -> None:
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.7"
    for face, edge, alpha in ((hue, "none", 0.14), ("none", hue, 1.0)):
        axes.add_patch(
            FancyBboxPatch(
                (x, y), width, height, boxstyle=style, fc=face, ec=edge, lw=1.1, alpha=alpha
            )
        )
    middle, lines = x + width / 2, detail.count("\n") + 1
    top = y + height / 2 + 0.3 + 0.62 * lines
    axes.text(middle, top, name, fontsize=8, weight="bold", ha="center", va="center", color=INK)
    axes.text(middle, top - 1.2, detail, fontsize=7, ha="center", va="top", color=INK)


def _draw_sign(axes: Any, x: Coordinate, y: Coordinate, text: str) -> None:
    axes.plot([x], [y], "o", markersize=13, markerfacecolor="white", markeredgecolor=INK)
    axes.text(x, y, text, fontsize=10, ha="center", va="center_baseline", color=INK)


def _draw_arrow(
    axes: Any, start: tuple[Coordinate, Coordinate], end: tuple[Coordinate, Coordinate]
) -> None:
    style = {"arrowstyle": "-|>", "color": INK, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=style)


def findings(numbers: Mapping[str, Numbers]) -> Findings:
    """Describe the sizes of the models and their differences."""
    measured = [
        f"{label.capitalize()}: {sizes['K']} heads with d_e = {sizes['d_e']}, d_att = "
        f"{sizes['d_att']}, d_out = {sizes['d_out']} on a window of {sizes['T_max']} positions; "
        f"{sizes['parameters']:,} trained numbers, of which "
        f"{sizes['word_parameters'] / sizes['parameters']:.1%} are word embeddings; {sizes['C']} "
        f"output{'s' * (sizes['C'] > 1)} for {len(sizes['classes'])} classes."
        for label, sizes in ((label, numbers[name]) for name, label in MODELS.items())
    ]
    equal_sizes = [
        letter for letter in _LETTERS if numbers["shipped"][letter] == numbers["paper"][letter]
    ]
    different_sizes = [letter for letter in _LETTERS if letter not in equal_sizes]
    rows = [
        [letter, _LETTERS[letter], *(numbers[name][letter] for name in MODELS)]
        for letter in _LETTERS
    ]
    return Findings(
        headline=(
            f"The same architecture twice, with {numbers['paper']['parameters']:,} and "
            f"{numbers['shipped']['parameters']:,} trained numbers."
        ),
        verdicts=[
            Verdict(
                claim="The architecture of Section 2 and the sizes of Appendix F",
                holds="built",
                number=f"{numbers['paper']['parameters']:,} trained numbers",
            )
        ],
        measured=measured,
        meaning=(
            f"Both models are the architecture of the paper with the same {', '.join(equal_sizes)}"
            + (f"; they differ in {' and '.join(different_sizes)}." if different_sizes else ".")
            + " Nothing after the softmax is non-linear and the query of [cls] is the same for "
            "every text, which is why explanations can be exact."
        ),
        table=Table(columns=["letter", "meaning", *MODELS.values()], rows=rows, digits=0),
    )


EXPERIMENT = Experiment(
    name="figure-2",
    title="Figure 2: the architecture",
    paper=(
        "One layer: embeddings with positions, K heads of keys, queries and values, attention of "
        "[CLS], a linear map of each head, and the mean of the heads."
    ),
    parts=parts_for_both_models(measure, reads=()),
    figures=figures,
    findings=findings,
)
