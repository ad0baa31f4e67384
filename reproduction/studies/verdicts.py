"""How often the intervals of a judgment hold: of one share, and of all differences at once.

    python reproduction/studies/verdicts.py

Shares: the shipped model is judged on 872 sentences of SST-2 and 500 reviews of IMDB, by seven
methods and three measures. Each of these shares is the truth, and sets of 12, 30 and 60 of its
texts are drawn, 1,000 times. Four synthetic kinds of skewed shares stand beside them, and the
percentiles of drawn shares beside the intervals. interval_candidates.py compares more kinds.

Differences: they are drawn with a true share of 0, of a single pair of methods, or of all ten pairs
of five that are alike. ``simultaneous`` intervals are what "told apart" rests on. Those of each
pair alone are shown beside them, which are not meant to hold together.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from results import Measure, command_line, report

import limelight
from limelight.judging.statistics import DRAWS, bootstrap_shares

TEXTS = (10, 25, 100)
SHARE_TEXTS = (12, 30, 60)
TOGETHER = 20  # samples of texts
METHODS = ("ig", "shapley", "loo", "gxi", "alpha-avg", "g-l1", "g-avg")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]  # of mean 0
KINDS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "skewed": lambda rng, shape: np.exp(rng.normal(size=shape)) - math.exp(0.5),
    "heavy tails": lambda rng, shape: rng.standard_t(3, size=shape),
    "ties": lambda rng, shape: rng.normal(size=shape).round(),
    "uneven rooms": lambda rng, shape: rng.normal(size=shape),
}


class Population(NamedTuple):
    """Texts of which samples are drawn: a column of gains per method, and what could be gained."""

    gain: np.ndarray
    room: np.ndarray


def main() -> None:
    """Measure the intervals of shares, then those of every kind of differences."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--repetitions", type=int, default=250)
    parser.add_argument("--share-repetitions", type=int, default=1000)
    arguments = parser.parse_args()
    times, share_times = arguments.repetitions, arguments.share_repetitions
    if arguments.smoke:
        times = share_times = 2
    populations = {"synthetic": synthetic_populations()}
    if SHARED.exists():
        populations["real"] = real_populations(smoke=arguments.smoke)
    else:
        print(f"There is no data at '{SHARED}'; only synthetic shares are measured.")
    measures = [
        *(
            row
            for kind, own in populations.items()
            for row in _share_measures(kind, own, share_times)
        ),
        *_measures(times),
    ]
    data = f"{times} repetitions of each row of differences, {share_times} of each share"
    report("verdicts", measures, arguments, data=data)


def real_populations(*, smoke: bool) -> dict[str, Population]:
    """Judge the shipped model on sentences and on reviews; a population per set and measure."""
    import pyarrow.parquet as parquet

    model, populations = limelight.load(), {}
    files = {"SST-2": ("sst2/dev.parquet", 1), "IMDB": ("imdb/test.parquet", 50)}
    for name, (file, step) in files.items():
        texts = parquet.read_table(SHARED / file, columns=["text"])["text"].to_pylist()
        texts = texts[:: step * 30 if smoke else step]
        judgment = limelight.judge(model, texts, list(METHODS), columns=[], curves=False)
        for measure in ("deletion", "insertion", "change"):
            rows = [getattr(text, measure) for text in judgment.texts_with_room]
            gain = np.array(
                [[row.areas.get(m, math.nan) - row.chance for m in METHODS] for row in rows]
            )
            room = np.array([max(row.ceiling - row.chance, 0.0) for row in rows])
            # |change| is reported of methods without signs only.
            columns = [measure != "change" or not judgment[m].signed for m in METHODS]
            populations[f"{name}, {measure}"] = Population(gain[:, columns], room)
    return populations


def synthetic_populations() -> dict[str, Population]:
    """Return shares with a long tail, in two heaps, and with rooms that the share depends on."""
    rng, n = np.random.default_rng(1), 20_000
    room = np.exp(rng.normal(size=n))
    shares = {
        "lognormal gap": 1 - 0.3 * np.exp(rng.normal(size=n) - 0.5),
        "exponential gap": 1 - rng.exponential(0.2, size=n),
        "two heaps": rng.beta(0.5, 0.5, size=n),
    }
    populations = {name: Population(share[:, None], np.ones(n)) for name, share in shares.items()}
    larger_in_larger_rooms = np.tanh(np.log(room) + 0.3 * rng.normal(size=n))
    populations["rooms"] = Population((larger_in_larger_rooms * room)[:, None], room)
    return populations


def _share_measures(
    kind: str, populations: Mapping[str, Population], times: int
) -> Iterator[Measure]:
    for texts in SHARE_TEXTS:
        rows = [
            _share_coverage(population, texts, times, seed=i)
            for i, population in enumerate(populations.values())
        ]
        holds, percentiles = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        yield Measure(
            id=f"share_{kind}_{texts}",
            what=f"one {kind} share, {texts} texts: its interval holds",
            value=round(float(holds.mean()), 3),
            at_least=0.93 if kind == "real" and texts >= 30 else None,
            note=f"{holds.min():.3f} to {holds.max():.3f} of {len(holds)} shares; percentiles "
            f"{percentiles.mean():.3f}, {percentiles.min():.3f} to {percentiles.max():.3f}",
        )


def _share_coverage(
    population: Population, texts: int, times: int, *, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return how often the interval of each column holds, and how often percentiles do."""
    truth = population.gain.sum(axis=0) / population.room.sum()
    rng, holds = np.random.default_rng([seed, texts]), np.zeros((2, len(truth)))
    for start in range(0, times, TOGETHER):
        count = min(TOGETHER, times - start)
        # Samples of texts side by side: only which of their texts are drawn again is the same.
        rows = rng.integers(len(population.room), size=(texts, count))
        room = population.room[rows]
        weights = rng.multinomial(texts, np.full(texts, 1 / texts), size=DRAWS)
        rooms = weights @ room
        for c, share in enumerate(truth):
            gain = population.gain[rows, c]
            result = bootstrap_shares(gain, room, seed=start)
            studentized = np.transpose([result.interval(i) for i in range(count)])
            percentiles = np.quantile((weights @ gain) / rooms, [0.025, 0.975], axis=0)
            for k, (low, high) in enumerate((studentized, percentiles)):
                holds[k, c] += np.count_nonzero((low <= share) & (share <= high))
    return holds[0] / times, holds[1] / times


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
        result = bootstrap_shares(gaps, room, seed=i)
        together = [one.interval for one in result.simultaneous_intervals() if one is not None]
        ends = [result.interval(c) for c in result.tested_columns().tolist()]
        holds = [all(low <= 0 <= high for low, high in x) for x in (together, ends)]
        counts += [*holds, not together]
    held, alone, none = (counts / times).tolist()
    return held, alone, none


if __name__ == "__main__":
    main()
