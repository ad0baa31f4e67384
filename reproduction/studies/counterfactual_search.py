"""Counterfactuals of a transformer: sizes with few calls, beside greedy search without a limit.

python reproduction/studies/counterfactual_search.py  40 reviews of at most 80 words
python reproduction/studies/counterfactual_search.py --words 0 --device cuda  complete, on a GPU
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measuring import on_cores
from results import Measure, command_line, report

import limelight
from limelight import Counterfactual, Model
from limelight.data import read_labeled
from limelight.models.text_game import TextGame

SHARED = Path(__file__).resolve().parents[3] / "shared"
MODEL, DATA = SHARED / "models" / "minilm-imdb", SHARED / "data" / "imdb" / "test.parquet"
SEED = 43
BUDGETS = (200, 1000)


class GreedySet(NamedTuple):
    """The set that greedy search found, and its cost."""

    size: int | None
    calls: int
    seconds: float


class Row(NamedTuple):
    """The results for one review."""

    d: int
    searched: dict[int, Counterfactual]
    seconds: dict[int, float]
    greedy: GreedySet


def main() -> None:
    """Search the counterfactuals of reviews with two budgets and with greedy search."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--words", type=int, default=80, help="of each review; 0: all")
    parser.add_argument("--device", help="cpu or cuda; by default a GPU if there is one")
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parser.parse_args()
    on_cores(1)
    count, words = (2, 12) if arguments.smoke else (arguments.texts, arguments.words)
    model = limelight.load(arguments.model, device=arguments.device)
    labeled = read_labeled(arguments.data, labels=model.classes)
    order = np.random.default_rng(SEED).permutation(len(labeled.texts))[:count]
    texts = [shorten(labeled.texts[i], words) for i in order]
    rows = [measure(model, text) for text in texts]
    length = f"the first {words} words of each" if words else "complete"
    data = f"{count} IMDB test reviews, {length}, seed {SEED}"
    name = "counterfactual_search" + (f"_{words}" if words else "")
    name += "_cuda" if arguments.device == "cuda" else ""
    report(name, list(summarize(rows)), arguments, data=data)


def shorten(text: str, words: int) -> str:
    """Return the first words of a text, or the text if ``words`` is 0."""
    return " ".join(text.split()[:words]) if words else text


def measure(model: Model, text: str) -> Row:
    """Search the counterfactual of a review with each budget, and greedily without a limit."""
    searched, seconds = dict[int, Counterfactual](), dict[int, float]()
    for calls in BUDGETS:
        start = time.perf_counter()
        searched[calls] = limelight.counterfactual(model, text, budget=f"{calls} calls")
        seconds[calls] = time.perf_counter() - start
    game = limelight.game(model, text)
    return Row(len(game), searched, seconds, find_greedily(game))


def find_greedily(game: TextGame) -> GreedySet:
    """Remove the word whose removal lowers the margin most, until the class changes.

    Then put words back, in the order of their removal, as long as the class stays changed.
    """
    start, d, calls = time.perf_counter(), len(game), 1
    full = game(np.ones((1, d), bool))
    predicted = predict(full)[0]
    removed, remaining = list[int](), list(range(d))
    while remaining:
        masks = removal_masks(d, [[*removed, j] for j in remaining])
        outputs = game(masks)
        calls += len(masks)
        margins = class_margins(outputs, predicted)
        best = int(margins.argmin())
        removed.append(remaining.pop(best))
        if predict(outputs)[best] != predicted:
            break
    else:
        return GreedySet(None, calls, time.perf_counter() - start)
    for j in removed.copy():
        smaller = [k for k in removed if k != j]
        calls += 1
        if smaller and predict(game(removal_masks(d, [smaller])))[0] != predicted:
            removed = smaller
    return GreedySet(len(removed), calls, time.perf_counter() - start)


def removal_masks(d: int, sets: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the masks that remove these sets."""
    masks = np.ones((len(sets), d), bool)
    for row, removed in zip(masks, sets, strict=True):
        row[list(removed)] = False
    return masks


def predict(outputs: np.ndarray) -> np.ndarray:
    """Return the predicted class of each row; a single output is compared with 0."""
    return (outputs[:, 0] > 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(axis=1)


def class_margins(outputs: np.ndarray, predicted: int) -> np.ndarray:
    """Return the output of the predicted class minus the largest of the others."""
    if outputs.shape[1] == 1:
        return outputs[:, 0] if predicted else -outputs[:, 0]
    return outputs[:, predicted] - np.delete(outputs, predicted, axis=1).max(axis=1)


def summarize(rows: Sequence[Row]) -> Iterator[Measure]:
    """Yield the sizes, and how they compare with those of greedy search."""
    yield Measure(id="words", what="words of a review (median)", value=median(r.d for r in rows))
    greedy = [row.greedy for row in rows]
    yield from summarize_sizes("greedy", "greedy search", [g.size for g in greedy])
    yield Measure(
        id="greedy.calls",
        what="calls, greedy search (median)",
        value=median(g.calls for g in greedy),
    )
    yield Measure(
        id="greedy.seconds", what="seconds, greedy search (median)",
        value=median(g.seconds for g in greedy), unit="s",
    )  # fmt: skip
    for calls in BUDGETS:
        results = [row.searched[calls] for row in rows]
        name, title = str(calls), f"{calls:,} calls"
        yield from summarize_sizes(name, title, [c.size for c in results])
        pairs = [
            (c.size, g.size)
            for c, g in zip(results, greedy, strict=True)
            if c.size is not None and g.size is not None
        ]
        for id, what, chosen in (
            ("smaller", "smaller than greedy search", [a < b for a, b in pairs]),
            ("equal", "as small as greedy search", [a == b for a, b in pairs]),
            ("larger", "larger than greedy search", [a > b for a, b in pairs]),
            ("minimal", "no smaller set exists", [c.is_minimal for c in results]),
        ):
            value = float(np.mean(chosen)) if chosen else 0.0
            yield Measure(id=f"{name}.{id}", what=f"{what}, {title}", value=value)
        yield Measure(
            id=f"{name}.seconds", what=f"seconds, {title} (median)",
            value=median(row.seconds[calls] for row in rows), unit="s",
        )  # fmt: skip


def summarize_sizes(id: str, title: str, sizes: Sequence[int | None]) -> Iterator[Measure]:
    """Yield the share of reviews with a set, and the median and the mean size of the sets."""
    known = [size for size in sizes if size is not None]
    share = len(known) / len(sizes)
    yield Measure(id=f"{id}.found", what=f"reviews with a set, {title}", value=share)
    if known:
        yield Measure(id=f"{id}.size", what=f"size, {title} (median)", value=median(known))
        yield Measure(id=f"{id}.mean", what=f"size, {title} (mean)", value=float(np.mean(known)))


def median(values: Iterator[float] | Sequence[float]) -> float:
    """Return the median."""
    return float(np.median(list(values)))


if __name__ == "__main__":
    main()
