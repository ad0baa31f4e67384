"""What the two solutions of the Histogram task look like, in words and figures."""

__all__ = ["EXPERIMENT"]

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from limelight.rendering.figures import color_map
from limelight_reproduction.drawing import BLUE, INK, VERMILLION, canvas, plain
from limelight_reproduction.experiment import Experiment, Findings, Numbers, Part, Table, Verdict
from limelight_reproduction.histogram.task import WORD, letters_of, occurrences
from limelight_reproduction.setting import Setting

# Attention to places with the same letter over that to others, from which it counts as semantic.
_SEMANTIC = 10.0
_SHOWN = ("positional", "semantic")
_COLUMNS = ("accuracy", "loss", "gradient", "over words", "over places", "same letter")


def _measured(setting: Setting) -> Numbers:
    from limelight_reproduction.histogram.solutions_measured import measured  # needs torch

    return measured(setting)


def _of(part: Numbers, state: str, column: str, kind: str) -> np.ndarray:
    rows = [i for i, one in enumerate(part["kinds"]) if one == kind]
    return np.array(part[state][column], dtype=np.float64)[rows]


def findings(numbers: Mapping[str, Numbers]) -> Findings:
    """Return where training ended, in words, and every copy in a table."""
    part = numbers["trained"]
    positional, semantic = (_of(part, "found", "accuracy", kind).min() for kind in _SHOWN)
    even, own = (_of(part, "found", "same letter", kind) for kind in _SHOWN)
    return Findings(
        headline=(
            f"Nearly even attention (to an equal letter {even.max():.1f} times as much as to "
            f"another) counts {positional:.1%} of the letters right, attention to equal letters "
            f"({own.min():,.0f} times) {semantic:.1%}: two solutions of one network."
        ),
        verdicts=[
            Verdict(
                claim="One task, two solutions, one with uninformative attention (the talk)",
                holds="holds" if even.max() < _SEMANTIC <= own.min() else "not in this run",
                number=f"{positional:.1%} and {semantic:.1%} right",
            )
        ],
        measured=[
            _blind(part),
            *(_ended(part, kind) for kind in _SHOWN),
            _still(part),
            _barrier(part),
            _ordinary(part),
            _word(part),
        ],
        meaning=_meaning(part),
        table=_table(part),
    )


def _meaning(part: Numbers) -> str:
    semantic = np.array([kind == "semantic" for kind in part["kinds"]])
    shown = np.array([kind in _SHOWN for kind in part["kinds"]])
    kept = all(
        ((np.array(part[state]["same letter"]) >= _SEMANTIC) == semantic)[shown].all()
        for state in ("found", "back")
    )
    if not kept:
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


def _blind(part: Numbers) -> str:
    over, places, accuracy = (
        _of(part, "warm", name, "positional") for name in ("over words", "over places", "accuracy")
    )
    return (
        f"After the first {part['warm_up']} steps, in which positional attention cannot see "
        f"letters, it is the same for every word (standard deviation at most {over.max():.0e}) and "
        f"nearly the same for every place ({places.max():.4f} at most), and "
        f"{_range(accuracy, '.1%')} of the letters of new words are counted right."
    )


def _ended(part: Numbers, kind: str) -> str:
    ratio = _of(part, "found", "same letter", kind)
    kept = np.count_nonzero((ratio >= _SEMANTIC) == (kind == "semantic"))
    accuracy, over = (_of(part, "found", name, kind) for name in ("accuracy", "over words"))
    return (
        f"From {kind} starts, {part['steps']} steps, the last "
        f"{part['steps'] - part['warm_up']} with nothing held: {kept} of {len(ratio)} end with "
        f"{kind} attention. They get {_range(accuracy, '.1%')} of the letters of new words right. "
        f"An entry of the attention varies over words by a standard deviation of "
        f"{_range(over, '.3f')} (even attention is {1 / len(WORD):g}); a letter attends to its "
        f"own kind {_range(ratio, ',.1f')} times as much as to others."
    )


def _range(values: np.ndarray, form: str) -> str:
    low, high = format(values.min(), form), format(values.max(), form)
    return low if low == high else f"{low}–{high}"


def _still(part: Numbers) -> str:
    before = np.array(part["begun"]["gradient"])
    after = np.array(part["found"]["gradient"])
    ratio = np.array(part["back"]["same letter"])
    changed = np.count_nonzero(
        (ratio >= _SEMANTIC) != (np.array(part["found"]["same letter"]) >= _SEMANTIC)
    )
    return (
        f"The gradient over all training words has fallen from {_range(before, '.1f')} to "
        f"{_range(after, '.3f')}. Kicked by noise of {part['kick']:.0%} of the weights and trained "
        f"on, {changed} of {len(ratio)} change their kind of attention."
    )


def _barrier(part: Numbers) -> str:
    along = part["along"]
    tops = {name: max(along[name]) for name in ("between", *_SHOWN)}
    ends = along["between"][0], along["between"][-1]
    return (
        f"On the straight line from the positional to the semantic solution the loss rises from "
        f"{ends[0]:.3f} to {tops['between']:.1f} and falls to {ends[1]:.3f}; on the line to "
        f"itself kicked and trained on it is at most {tops['positional']:.3f} (positional) and "
        f"{tops['semantic']:.3f} (semantic)."
    )


def _ordinary(part: Numbers) -> str:
    ratio = _of(part, "found", "same letter", "ordinary")
    return (
        f"From ordinary random starts {np.count_nonzero(ratio >= _SEMANTIC)} of {len(ratio)} end "
        f"with semantic attention ({_range(ratio, ',.1f')} times; "
        f"{_range(_of(part, 'found', 'accuracy', 'ordinary'), '.1%')} right)."
    )


def _word(part: Numbers) -> str:
    said = [f"{' '.join(map(str, part['example'][kind]['counts']))} ({kind})" for kind in _SHOWN]
    wanted = " ".join(map(str, occurrences(letters_of(WORD)).tolist()))
    return f"{WORD} is counted {' and '.join(said)}; right is {wanted}."


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
    """Yield the attention of both solutions, and the way from one to the other."""
    part = numbers["trained"]
    yield (
        "histogram-attention",
        f"Attention in either solution: on {WORD}, on average over random words, and its "
        "standard deviation over them.",
        _attention_figure(part),
    )
    yield (
        "histogram-way",
        "The loss on the straight line from the positional solution to the semantic one, and from "
        "either to where it comes back after a kick.",
        _way_figure(part),
    )


def _attention_figure(part: Numbers) -> Any:
    figure, axes = canvas(8.4, 5.6, rows=2, columns=3)
    for row, kind in zip(axes, _SHOWN, strict=True):
        shown = {
            f"{kind}: {WORD}": part["example"][kind]["attention"],
            f"{kind}: mean over words": part["patterns"][kind]["mean"],
            f"{kind}: deviation over words": part["patterns"][kind]["deviation"],
        }
        for one, (title, entries) in zip(row, shown.items(), strict=True):
            image = one.imshow(entries, cmap=color_map("neutral"), vmin=0, vmax=0.6)
            plain(one, title=title)
        _named(row[0])
        for one in row[1:]:
            one.set_xticks(range(0, len(WORD), 3), range(1, len(WORD) + 1, 3))
            one.set_yticks(range(0, len(WORD), 3), range(1, len(WORD) + 1, 3))
    bar = figure.colorbar(image, ax=axes, shrink=0.6, extend="max")
    bar.ax.tick_params(labelsize=8)
    bar.set_label("attention, or its deviation", fontsize=9)
    return figure


def _named(axes: Any) -> None:
    axes.set_xticks(range(len(WORD)), WORD)
    axes.set_yticks(range(len(WORD)), WORD)
    axes.set_ylabel("attends", fontsize=9)
    axes.set_xlabel("is attended to", fontsize=9)


def _way_figure(part: Numbers) -> Any:
    figure, axes = canvas(6.0, 3.4)
    along = part["along"]
    for name, label, color, dashes in (
        ("between", "positional to semantic", INK, "-"),
        ("positional", "positional to itself, kicked", BLUE, "--"),
        ("semantic", "semantic to itself, kicked", VERMILLION, ":"),
    ):
        axes.plot(along["share"], along[name], color=color, linestyle=dashes, label=label)
    axes.set_yscale("log")
    axes.legend(fontsize=8, frameon=False)
    plain(axes, x="way from one end to the other", y="cross-entropy on training words")
    return figure


EXPERIMENT = Experiment(
    name="histogram",
    title="The Histogram task: two solutions, one with uninformative attention",
    paper=(
        "The authors' talk shows two very different local minima of a one-layer model with tied "
        "weights that counts letters, after Cui et al. (2024); in one the attention pattern is "
        "uninformative."
    ),
    parts=(Part(name="trained", measure=_measured, reads=()),),
    figures=figures,
    findings=findings,
)
