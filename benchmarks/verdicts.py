"""How often the intervals behind a verdict hold, all at once, where no method is better.

    python benchmarks/verdicts.py

Differences are drawn whose true share is 0: of a single pair of methods, or of all ten pairs of
five that are alike. ``simultaneous`` intervals are what "told apart" rests on; those of each pair
alone are shown beside them, which are not meant to hold together.
"""

import math
from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np

from limelight.judging.statistics import resampled, simultaneous
from results import Measure, command_line, report

TEXTS = (6, 25, 100)
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]  # of mean 0
KINDS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "skewed": lambda rng, shape: np.exp(rng.normal(size=shape)) - math.exp(0.5),
    "heavy tails": lambda rng, shape: rng.standard_t(3, size=shape),
    "ties": lambda rng, shape: rng.normal(size=shape).round(),
    "uneven rooms": lambda rng, shape: rng.normal(size=shape),
}


def main() -> None:
    """Measure every kind of differences."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--repetitions", type=int, default=250)
    arguments = parser.parse_args()
    times = 2 if arguments.smoke else arguments.repetitions
    measures = list(_measures(times))
    report("verdicts", measures, arguments, data=f"{times} repetitions of each row")


def _measures(times: int) -> Iterator[Measure]:
    for kind in KINDS:
        for methods in (2, 5):
            for texts in TEXTS:
                held, alone, none = _held(kind, methods, texts, times)
                pairs = "one pair" if methods == 2 else "ten pairs"
                yield Measure(
                    id=f"{kind.replace(' ', '_')}_{methods}_{texts}",
                    what=f"{kind}, {pairs}, {texts} texts: all intervals hold",
                    value=round(held, 3),
                    at_least=0.9,
                    note=f"those of single pairs {alone:.2f}; no interval at all {none:.2f}",
                )


def _held(kind: str, methods: int, texts: int, times: int) -> tuple[float, float, float]:
    """Return how often all intervals hold 0, those of single pairs do, and there is none."""
    rng, counts = np.random.default_rng([methods, texts, len(kind)]), np.zeros(3)
    for i in range(times):
        columns = KINDS[kind](rng, (texts, 1 if methods == 2 else methods))
        room = np.exp(rng.normal(size=texts)) if kind == "uneven rooms" else np.ones(texts)
        columns *= room[:, None]
        gaps = columns
        if methods > 2:
            both = combinations(range(methods), 2)
            gaps = np.stack([columns[:, a] - columns[:, b] for a, b in both], axis=1)
        known = [one.interval for one in simultaneous(gaps, room, seed=i) if one is not None]
        single = resampled(gaps, room, seed=i)
        ends = [single.interval(c) for c in range(gaps.shape[1])]
        counts += [all(low <= 0 <= high for low, high in x) for x in (known, ends)] + [not known]
    held, alone, none = (counts / times).tolist()
    return held, alone, none


if __name__ == "__main__":
    main()
