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
    on_both_models,
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
Length = int | float


def measure(_setting: Setting, model: AttentionClassifier) -> Numbers:
    """Return the sizes that the model's own weights and configuration have."""
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
    for name, said in MODELS.items():
        yield (
            f"figure-2-{name}",
            f"From a text to its outputs: the {said} as its configuration describes it.",
            diagram(numbers[name]),
        )


def diagram(n: Numbers) -> Any:
    """Return boxes from left to right: text, embedding, one head of K, and the mean of heads."""
    figure, axes = canvas(9.6, 3.9)
    axes.set(xlim=(0, 96), ylim=(0, 39))
    axes.set_axis_off()
    _input(axes, n)
    _head(axes, n)
    _output(axes, n)
    return figure


def _input(axes: Any, n: Numbers) -> None:
    scale = "" if n["position_scale"] == 1 else f"{n['position_scale']:g} × "
    _box(axes, 1, 14, 11, 11, "text", f"[cls], words,\npadding\n{n['T_max']} positions", GREY)
    _box(axes, 16, 22, 15, 9, "word embedding", f"{n['V']:,} × {n['d_e']}", BLUE)
    _box(
        axes,
        16,
        8,
        15,
        9,
        "position",
        f"{scale}sines, base {n['position_base']:g}\nnot trained",
        BLUE,
    )
    _arrow(axes, (12, 21), (16, 26))
    _arrow(axes, (12, 18), (16, 13))
    _sign(axes, 35, 19.5, "+")
    _arrow(axes, (31, 26), (34, 20.6))
    _arrow(axes, (31, 13), (34, 18.4))
    axes.text(36, 12.4, f"$e$\n{n['T_max']} × {n['d_e']}", fontsize=7, ha="center", va="center")


def _head(axes: Any, n: Numbers) -> None:
    """Draw head 1 in front of the others."""
    from matplotlib.patches import FancyBboxPatch

    behind = min(n["K"] - 1, 2)
    for step in range(behind, -1, -1):
        corner, area = (40 + 0.9 * step, 3.2 + 0.9 * step), (37.6, 31)
        style = "round,pad=0,rounding_size=1"
        axes.add_patch(FancyBboxPatch(corner, *area, boxstyle=style, fc="white", ec=GREY, lw=0.9))
    axes.text(41.2, 32.2, f"each of {n['K']} heads", fontsize=8.5, color=INK, weight="bold")
    rows = {"query of [cls]": (24, "d_att"), "keys": (14.5, "d_att"), "values": (5, "d_out")}
    for name, (y, size) in rows.items():
        letter = name[0]
        detail = f"${letter} = W_{letter}\\, e$\n{n[size]} × {n['d_e']}"
        _box(axes, 42, y, 12, 7, name, detail, ORANGE)
    for y in (27.5, 18, 8.5):
        _arrow(axes, (36.1, 19.5), (42, y))
    _box(
        axes,
        58,
        17,
        8.6,
        12,
        "attention",
        f"softmax of\n$q \\cdot k / \\sqrt{{{n['d_att']}}}$",
        GREEN,
    )
    _box(axes, 58, 4.5, 8.6, 8, "average", "$\\sum_t \\alpha_t v_t$", GREEN)
    _box(axes, 69.4, 4.5, 7, 8, "linear", f"$W_\\ell$\n{n['C']} × {n['d_out']}", PURPLE)
    _arrow(axes, (54, 27.5), (58, 25))
    _arrow(axes, (54, 18), (58, 21))
    _arrow(axes, (54, 8.5), (58, 8.5))
    _arrow(axes, (62.3, 17), (62.3, 12.5))
    _arrow(axes, (66.6, 8.5), (69.4, 8.5))


def _output(axes: Any, n: Numbers) -> None:
    classes = [name.replace("$", r"\$") for name in n["classes"]]
    rule = f"$f > 0$: {classes[-1]}" if n["C"] == 1 else "the largest wins:\n" + "\n".join(classes)
    _box(axes, 83, 4.5, 11.6, 8, "mean of heads", f"$f$, {n['C']} output{'s' * (n['C'] > 1)}", GREY)
    _arrow(axes, (76.4, 8.5), (83, 8.5))
    _arrow(axes, (88.8, 12.5), (88.8, 17))
    _box(axes, 83, 17, 11.6, 9 if n["C"] == 1 else 10, "class", rule, GREY)


def _box(
    axes: Any, x: Length, y: Length, width: Length, height: Length, name: str, detail: str, hue: str
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


def _sign(axes: Any, x: Length, y: Length, text: str) -> None:
    axes.plot([x], [y], "o", markersize=13, markerfacecolor="white", markeredgecolor=INK)
    axes.text(x, y, text, fontsize=10, ha="center", va="center_baseline", color=INK)


def _arrow(axes: Any, start: tuple[Length, Length], end: tuple[Length, Length]) -> None:
    style = {"arrowstyle": "-|>", "color": INK, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=style)


def findings(numbers: Mapping[str, Numbers]) -> Findings:
    """Say which sizes the models have, and what differs between them."""
    measured = [
        f"{said.capitalize()}: {n['K']} heads with d_e = {n['d_e']}, d_att = {n['d_att']}, "
        f"d_out = {n['d_out']} on a window of {n['T_max']} positions; {n['parameters']:,} trained "
        f"numbers, of which {n['word_parameters'] / n['parameters']:.1%} are word embeddings; "
        f"{n['C']} output{'s' * (n['C'] > 1)} for {len(n['classes'])} classes."
        for said, n in ((said, numbers[name]) for name, said in MODELS.items())
    ]
    same = [k for k in _LETTERS if numbers["shipped"][k] == numbers["paper"][k]]
    other = [k for k in _LETTERS if k not in same]
    rows = [[k, _LETTERS[k], *(numbers[name][k] for name in MODELS)] for k in _LETTERS]
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
            f"Both models are the architecture of the paper with the same {', '.join(same)}"
            + (f"; they differ in {' and '.join(other)}." if other else ".")
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
    parts=on_both_models(measure, reads=()),
    figures=figures,
    findings=findings,
)
