"""Describe and draw the two solutions of the Histogram task."""

__all__ = ["EXPERIMENT"]

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from limelight.rendering.figures import color_map
from limelight_reproduction.drawing import BLUE, INK, VERMILLION, canvas, style_axes
from limelight_reproduction.experiment import Experiment, Findings, Numbers, Part, Table, Verdict
from limelight_reproduction.histogram.task import WORD, count_occurrences, letter_numbers
from limelight_reproduction.setting import Setting

# Minimum ratio of attention to the same letter over attention to others that we call semantic.
_SEMANTIC = 10.0
_SOLUTIONS = ("positional", "semantic")
_COLUMNS = ("accuracy", "loss", "gradient", "over words", "over places", "same letter")


def _measure(setting: Setting) -> Numbers:
    from limelight_reproduction.histogram.solutions_measured import measure  # needs torch

    return measure(setting)


def _select_copies(part: Numbers, state: str, column: str, kind: str) -> np.ndarray:
    """Return a column of numbers for the copies with one kind of start."""
    rows = [i for i, copy_kind in enumerate(part["kinds"]) if copy_kind == kind]
    return np.array(part[state][column], dtype=np.float64)[rows]


def findings(numbers: Mapping[str, Numbers]) -> Findings:
    """Describe the solutions after training, and list every copy in a table."""
    part = numbers["trained"]
    positional_accuracy, semantic_accuracy = (
        _select_copies(part, "found", "accuracy", kind).min() for kind in _SOLUTIONS
    )
    positional_ratio, semantic_ratio = (
        _select_copies(part, "found", "same letter", kind) for kind in _SOLUTIONS
    )
    return Findings(
        headline=(
            f"Nearly even attention (to an equal letter {positional_ratio.max():.1f} times as much "
            f"as to another) counts {positional_accuracy:.1%} of the letters right, attention to "
            f"equal letters ({semantic_ratio.min():,.0f} times) {semantic_accuracy:.1%}: two "
            "solutions of one network."
        ),
        verdicts=[
            Verdict(
                claim="One task, two solutions, one with uninformative attention (the talk)",
                holds="holds"
                if positional_ratio.max() < _SEMANTIC <= semantic_ratio.min()
                else "not in this run",
                number=f"{positional_accuracy:.1%} and {semantic_accuracy:.1%} right",
            )
        ],
        measured=[
            _describe_warm_up(part),
            *(_describe_starts(part, kind) for kind in _SOLUTIONS),
            _describe_stability(part),
            _describe_barrier(part),
            _describe_ordinary_starts(part),
            _describe_example(part),
        ],
        meaning=_meaning(part),
        table=_table(part),
    )


def _meaning(part: Numbers) -> str:
    semantic = np.array([kind == "semantic" for kind in part["kinds"]])
    is_solution = np.array([kind in _SOLUTIONS for kind in part["kinds"]])
    stays = all(
        ((np.array(part[state]["same letter"]) >= _SEMANTIC) == semantic)[is_solution].all()
        for state in ("found", "back")
    )
    if not stays:
        return (
            "Not every start keeps its kind of attention in this run, so it does not show two "
            "solutions that training does not leave."
        )
    return (
        "Both solutions count. In one the attention of every place is spread almost evenly "
        "whatever the word, and the perceptron reads the count from the average; in the other a "
        "letter attends to its own kind. The same architecture, data and task, and in both a low "
        "loss: that a model counts well does not say what its attention means. Both begin with "
        "attention that can see only positions or only letters, and are then trained with nothing "
        "held. The positional solution drifts a little towards letters then, so its attention is "
        "nearly, not exactly, the same for every word. A hill on the straight line alone would be "
        "weak evidence, since equal networks with their units in another order have one too; the "
        "control is that copies kicked and trained on keep their kind, and that no such hill lies "
        "on the way to them."
    )


def _describe_warm_up(part: Numbers) -> str:
    over_words, over_places, accuracy = (
        _select_copies(part, "warm", name, "positional")
        for name in ("over words", "over places", "accuracy")
    )
    return (
        f"After the first {part['warm_up']} steps, in which positional attention cannot see "
        "letters, it is the same for every word (standard deviation at most "
        f"{over_words.max():.0e}) and nearly the same for every place ({over_places.max():.4f} at "
        f"most), and {_describe_range(accuracy, '.1%')} of the letters of new words are counted "
        "right."
    )


def _describe_starts(part: Numbers, kind: str) -> str:
    ratio = _select_copies(part, "found", "same letter", kind)
    count = np.count_nonzero((ratio >= _SEMANTIC) == (kind == "semantic"))
    accuracy, over_words = (
        _select_copies(part, "found", name, kind) for name in ("accuracy", "over words")
    )
    return (
        f"From {kind} starts, {part['steps']} steps, the last "
        f"{part['steps'] - part['warm_up']} with nothing held: {count} of {len(ratio)} end with "
        f"{kind} attention. They get {_describe_range(accuracy, '.1%')} of the letters of new "
        f"words right. An entry of the attention varies over words by a standard deviation of "
        f"{_describe_range(over_words, '.3f')} (even attention is {1 / len(WORD):g}); a letter "
        f"attends to its own kind {_describe_range(ratio, ',.1f')} times as much as to others."
    )


def _describe_range(values: np.ndarray, form: str) -> str:
    low, high = format(values.min(), form), format(values.max(), form)
    return low if low == high else f"{low}–{high}"


def _describe_stability(part: Numbers) -> str:
    before = np.array(part["begun"]["gradient"])
    after = np.array(part["found"]["gradient"])
    ratio = np.array(part["back"]["same letter"])
    changed_count = np.count_nonzero(
        (ratio >= _SEMANTIC) != (np.array(part["found"]["same letter"]) >= _SEMANTIC)
    )
    return (
        f"The gradient over all training words has fallen from {_describe_range(before, '.1f')} to "
        f"{_describe_range(after, '.3f')}. Kicked by noise of {part['kick']:.0%} of the weights "
        f"and trained on, {changed_count} of {len(ratio)} change their kind of attention."
    )


def _describe_barrier(part: Numbers) -> str:
    losses = part["along"]
    maxima = {name: max(losses[name]) for name in ("between", *_SOLUTIONS)}
    ends = losses["between"][0], losses["between"][-1]
    return (
        f"On the straight line from the positional to the semantic solution the loss rises from "
        f"{ends[0]:.3f} to {maxima['between']:.1f} and falls to {ends[1]:.3f}; on the line to "
        f"itself kicked and trained on it is at most {maxima['positional']:.3f} (positional) and "
        f"{maxima['semantic']:.3f} (semantic)."
    )


def _describe_ordinary_starts(part: Numbers) -> str:
    ratio = _select_copies(part, "found", "same letter", "ordinary")
    return (
        f"From ordinary random starts {np.count_nonzero(ratio >= _SEMANTIC)} of {len(ratio)} end "
        f"with semantic attention ({_describe_range(ratio, ',.1f')} times; "
        f"{_describe_range(_select_copies(part, 'found', 'accuracy', 'ordinary'), '.1%')} right)."
    )


def _describe_example(part: Numbers) -> str:
    answers = [
        f"{' '.join(map(str, part['example'][kind]['counts']))} ({kind})" for kind in _SOLUTIONS
    ]
    correct_counts = " ".join(map(str, count_occurrences(letter_numbers(WORD)).tolist()))
    return f"{WORD} is counted {' and '.join(answers)}; right is {correct_counts}."


def _table(part: Numbers) -> Table:
    rows = [
        [kind, *(part["found"][column][i] for column in _COLUMNS)]
        for i, kind in enumerate(part["kinds"])
    ]
    columns = (
        "start",
        "accuracy",
        "loss",
        "gradient norm",
        "deviation over words",
        "deviation over places",
        "same letter / other",
    )
    return Table(columns=columns, rows=rows)


def figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    """Draw the attention of both solutions, and the loss on the lines between them."""
    part = numbers["trained"]
    yield (
        "histogram-attention",
        f"Attention in either solution: on {WORD}, on average over random words, and its "
        "standard deviation over them.",
        _draw_attention(part),
    )
    yield (
        "histogram-way",
        "The loss on the straight line from the positional solution to the semantic one, and from "
        "either to where it comes back after a kick.",
        _draw_lines(part),
    )


def _draw_attention(part: Numbers) -> Any:
    figure, grid = canvas(8.4, 5.6, rows=2, columns=3)
    for row, kind in zip(grid, _SOLUTIONS, strict=True):
        images = {
            f"{kind}: {WORD}": part["example"][kind]["attention"],
            f"{kind}: mean over words": part["patterns"][kind]["mean"],
            f"{kind}: deviation over words": part["patterns"][kind]["deviation"],
        }
        for axes, (title, attention) in zip(row, images.items(), strict=True):
            image = axes.imshow(attention, cmap=color_map("neutral"), vmin=0, vmax=0.6)
            style_axes(axes, title=title)
        _label_letters(row[0])
        for axes in row[1:]:
            axes.set_xticks(range(0, len(WORD), 3), range(1, len(WORD) + 1, 3))
            axes.set_yticks(range(0, len(WORD), 3), range(1, len(WORD) + 1, 3))
    bar = figure.colorbar(image, ax=grid, shrink=0.6, extend="max")
    bar.ax.tick_params(labelsize=8)
    bar.set_label("attention, or its deviation", fontsize=9)
    return figure


def _label_letters(axes: Any) -> None:
    axes.set_xticks(range(len(WORD)), WORD)
    axes.set_yticks(range(len(WORD)), WORD)
    axes.set_ylabel("attends", fontsize=9)
    axes.set_xlabel("is attended to", fontsize=9)


def _draw_lines(part: Numbers) -> Any:
    figure, axes = canvas(6.0, 3.4)
    losses = part["along"]
    for name, label, color, dashes in (
        ("between", "positional to semantic", INK, "-"),
        ("positional", "positional to itself, kicked", BLUE, "--"),
        ("semantic", "semantic to itself, kicked", VERMILLION, ":"),
    ):
        axes.plot(losses["share"], losses[name], color=color, linestyle=dashes, label=label)
    axes.set_yscale("log")
    axes.legend(fontsize=8, frameon=False)
    style_axes(axes, x="way from one end to the other", y="cross-entropy on training words")
    return figure


EXPERIMENT = Experiment(
    name="histogram",
    title="The Histogram task: two solutions, one with uninformative attention",
    paper=(
        "The authors' talk shows two very different local minima of a one-layer model with tied "
        "weights that counts letters, after Cui et al. (2024); in one the attention pattern is "
        "uninformative."
    ),
    parts=(Part(name="trained", measure=_measure, reads=()),),
    figures=figures,
    findings=findings,
)
