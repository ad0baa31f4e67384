"""Faithfulness per second: the share of every method against the time it takes for a text.

python benchmarks/faithfulness_per_second.py --model FOLDER
    times of a few reviews; shares of ours as `judging.py --every` stored them
python benchmarks/faithfulness_per_second.py --model FOLDER --judge
    all shares in this run, those of captum, lime, shap and shapiq included where they are installed

Everybody explains the log-odds of the predicted class of the same reviews, about 100 words each,
whose removed words become [MASK]. Times are of one text at a time, after a short text that is not
counted, the median over the reviews: the clock's on a graphics card, else of the processor on one
thread, where methods that ask more than about 1,000 texts are left out unless --slow. --figure FILE
draws both.
"""

import importlib.util
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import limelight
from judging import EVERY, device_of, parser_of, short_texts
from limelight.models.hugging_face.model import HuggingFace
from results import Measure, read_result, report, stored_measures
from transformer_rivals import LogOdds, rivals

SHARES = "judging_cuda_every"
SLOW = ("shapley, pairs=25", "lime-sampled", "interactions", "anchors")
SMOKE = ("shapley, pairs=2", "lrp")
_LETTER, _HEIGHT, _POINT = 0.026, 0.026, 0.0031  # decades, shares, shares: of labels as drawn here
_DOT = 0.02  # decades: half a point
SHORT = "a short text , to begin with ."


def main() -> None:
    """Time every method, find its share, and report both."""
    arguments = parsed()
    model = limelight.load(arguments.model, device=arguments.device)
    device, texts = device_of(model), short_texts(arguments)
    left_out = SLOW if device == "deep" and not arguments.slow else ()
    own = {name: method for name, method in EVERY.items() if name not in left_out}
    if arguments.smoke:
        own = {name: own[name] for name in SMOKE}
    works = {name: partial(explained, model, method) for name, method in own.items()}
    others = {}
    if arguments.judge:  # nobody has stored the shares of others
        others = others_of(model, samples=100 if arguments.smoke else 1000)
    clock = time.process_time if device == "deep" else time.perf_counter
    taken = times({**works, **others}, texts[: arguments.timed], clock)
    shares = judged(model, texts, own, others, arguments) if arguments.judge else stored()
    measures = list(measured(taken, shares))
    if arguments.figure is not None:
        draw(measures, arguments.figure)
    report(
        f"faithfulness_per_second_{device}",
        measures,
        arguments,
        data=f"{min(arguments.timed, len(texts))} reviews timed; shares "
        + (f"of {len(texts)} reviews in this run" if arguments.judge else f"from {SHARES}.json"),
    )


def parsed() -> Any:
    """Return the arguments: those of judging, and more."""
    parser = parser_of(__doc__ or "")
    parser.add_argument("--judge", action="store_true", help="find the shares in this run")
    parser.add_argument("--slow", action="store_true", help="leave nothing out on a processor")
    parser.add_argument("--timed", type=int, default=5, help="reviews whose time is taken")
    parser.add_argument("--figure", type=Path, help="also draw shares against times (.svg)")
    return parser.parse_args()


def explained(model: HuggingFace, method: Any, text: str) -> None:
    """Explain one text as somebody would who asks for nothing else."""
    limelight.explain(model, text, method, target="predicted")


def others_of(model: HuggingFace, *, samples: int) -> dict[str, Any]:
    """Return what other packages do, by name; those that are not installed are left out."""
    ask = LogOdds(model, batch=64 if model.network.device.type == "cpu" else 512)
    packages = ("captum", "lime", "shap", "shapiq")
    there = {name for name in packages if importlib.util.find_spec(name) is not None}
    return {
        f"{name}, samples={samples}": partial(scores, ask, samples)
        for name, scores in rivals().items()
        if name.split()[0] in there
    }


def times(
    works: Mapping[str, Callable[[str], Any]], texts: list[str], clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Return how long each takes for each text, in turn, so that a busy machine slows all alike."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work(SHORT)
    for text in texts:
        for name, work in works.items():
            start = clock()
            work(text)
            found[name].append(clock() - start)
    return found


def judged(
    model: HuggingFace,
    texts: list[str],
    own: Mapping[str, Any],
    others: Mapping[str, Any],
    arguments: Any,
) -> dict[str, Measure]:
    """Return the shares of everybody, on the same reviews."""

    def on_trial(work: Callable[[str], np.ndarray]) -> Callable[[Any, str], np.ndarray]:
        def scores(model: HuggingFace, text: str) -> np.ndarray:
            return work(text) * (1 if model.predict_proba([text])[0, -1] > 0.5 else -1)

        return scores

    methods = {**own, **{name: on_trial(work) for name, work in others.items()}}
    budget = 1.0 if arguments.smoke else arguments.budget
    found = limelight.judge(model, texts, methods, columns=[], curves=False, budget=budget)
    shares = {}
    for one in found.rank_methods():
        if one.share is not None:
            low, high = one.interval or (one.share, one.share)
            note = f"95 % interval {low:.3f} to {high:.3f}"
            shares[one.method] = Measure(id=one.method, what="", value=one.share, note=note)
    return shares


def stored() -> dict[str, Measure]:
    """Return the shares that were stored with the same settings."""
    return {one.id: one for one in stored_measures(read_result(SHARES))}


def measured(taken: Mapping[str, list[float]], shares: Mapping[str, Measure]) -> Iterator[Measure]:
    """Yield the time of everybody, fastest first, each with its share if it is known."""
    for name, seconds in sorted(taken.items(), key=lambda item: statistics.median(item[1])):
        yield Measure(
            id=f"{name} seconds",
            what=f"{name}, a text of 100 words",
            value=statistics.median(seconds),
            best=min(seconds),
            unit="s",
        )
        if name in shares:
            yield replace(shares[name], what=f"{name}, share")


def draw(measures: list[Measure], path: Path) -> None:
    """Draw the share of everybody against its time."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams |= {"svg.hashsalt": "limelight", "svg.fonttype": "none"}
    from matplotlib import pyplot as plt

    value = {one.id: one.value for one in measures}
    names = sorted((name for name in value if f"{name} seconds" in value), key=value.__getitem__)
    figure, axes = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
    axes.set(xscale="log", xlabel="seconds for a text", ylabel="share (0: chance, 1: best found)")
    axes.margins(x=0.25, y=0.1)
    points = [(math.log10(value[f"{name} seconds"]), value[name]) for name in names]
    taken = [(x - _DOT, x + _DOT, y - _DOT / 2, y + _DOT / 2) for x, y in points]
    for name in names:
        ours, at = name in EVERY, (value[f"{name} seconds"], value[name])
        axes.plot(*at, "o" if ours else "s", color="#1f6f8b" if ours else "#b5651d", ms=5)
        dx, dy = free_place(name, math.log10(at[0]), at[1], taken)
        side = "left" if dx > 0 else "right"
        axes.annotate(
            name, at, (dx, dy), textcoords="offset points", ha=side, va="center", fontsize=7
        )
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axhline(0, color="0.7", lw=0.8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def free_place(
    name: str, x: float, y: float, taken: list[tuple[float, float, float, float]]
) -> tuple[float, float]:
    """Return where the label of a point goes, in points from it: the first place that is free.

    ``taken`` holds the boxes of points and labels, in decades and shares, and gains this one.
    """
    width = _LETTER * len(name)
    tries = [(dx, dy) for dy in (0, 8, -8, 16, -16, 24, -24) for dx in (5, -5)]
    for dx, dy in tries:
        left, low = x + 2 * _DOT if dx > 0 else x - 2 * _DOT - width, y + dy * _POINT - _HEIGHT / 2
        box = (left, left + width, low, low + _HEIGHT)
        if all(box[1] < a or b < box[0] or box[3] < c or d < box[2] for a, b, c, d in taken):
            break
    taken.append(box)
    return dx, dy


if __name__ == "__main__":
    main()
