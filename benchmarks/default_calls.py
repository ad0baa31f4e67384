"""The number of model calls of sampled Shapley values by default: cost and errors.

python benchmarks/default_calls.py               24 sentences, and 24 reviews of at most 40 words
python benchmarks/default_calls.py --words 0     complete reviews, for a GPU

Candidates are 300, 500 and 1,000 calls, and `until="top 3"` within 1,000 calls. All methods of
`METHODS` with a setting `samples` or `pairs` share the number of calls. The errors are distances
to a run of 3,000 calls with another seed, so that they include the error of this reference.

The rule, written before the results: the default is the candidate that makes the fewest calls for
reviews, among those that lose little against 1,000 calls, on sentences and on reviews:

* the mean rank correlation of the scores with the reference is at most 0.03 lower,
* the mean share of the reference's top 3 among the top 3 is at most 0.05 lower,
* the share of texts whose top 3 are certain is at most 0.10 lower.

If no other candidate does, the default stays at 1,000 calls.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import limelight
from limelight import Explanation, Model
from limelight.data import read_labeled
from measuring import on_cores
from results import Measure, command_line, report

SHARED = Path(__file__).resolve().parents[2] / "shared"
MODEL = SHARED / "models" / "minilm-imdb"
SENTENCES = SHARED / "data" / "sst2" / "dev.parquet"
REVIEWS = SHARED / "data" / "imdb" / "test.parquet"
SEED, TOP = 45, 3
REFERENCE_CALLS = 3_000
CURRENT = "1000"  # the candidate that is the default now
CANDIDATES: dict[str, dict[str, str]] = {
    "300": {"budget": "300 calls"},
    "500": {"budget": "500 calls"},
    CURRENT: {"budget": "1000 calls"},
    "until": {"budget": "1000 calls", "until": f"top {TOP}"},
}
TITLES = {"300": "300 calls", "500": "500 calls", CURRENT: "1,000 calls", "until": "until top 3"}
# Largest loss against the default that the rule allows.
MAX_LOSS = {"correlation": 0.03, "top": 0.05, "certain": 0.10}


class Row(NamedTuple):
    """Cost and errors of a candidate on a text."""

    calls: int
    seconds: float
    processor_seconds: float
    correlation: float
    top: float
    stderr: float
    certain: bool


def main() -> None:
    """Measure all candidates on sentences and reviews, and apply the rule."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--words", type=int, default=40, help="of each review; 0: all")
    parser.add_argument("--device", help="cpu or cuda; by default a GPU if there is one")
    arguments = parser.parse_args()
    on_cores(1)
    count, words = (2, 8) if arguments.smoke else (arguments.texts, arguments.words)
    reference_calls = 600 if arguments.smoke else REFERENCE_CALLS
    model = limelight.load(MODEL, device=arguments.device)
    rows = {
        source: [
            measure_text(model, text, reference_calls)
            for text in choose_texts(path, count, words=words if source == "reviews" else 0)
        ]
        for source, path in (("sentences", SENTENCES), ("reviews", REVIEWS))
    }
    means = {source: mean_rows(rows[source]) for source in rows}
    measures = [
        measure for source in rows for measure in summarize(source, rows[source], means[source])
    ]
    default = choose_default(means)
    measures.append(
        Measure(
            id="default_calls",
            what="calls that the rule chooses",
            value=float(next(iter(CANDIDATES[default]["budget"].split()))),
            unit="calls",
            note=TITLES[default],
        )
    )
    length = f"the first {words} words of each" if words else "complete"
    data = f"{count} SST-2 dev sentences, and {count} IMDB test reviews, {length}, seed {SEED}"
    name = "default_calls" + ("" if words else "_complete")
    report(name, measures, arguments, data=data)


def choose_texts(path: Path, count: int, *, words: int) -> list[str]:
    """Return random texts of a file with at least 6 words, cut to ``words`` words if it is not 0.

    Shorter texts have so few masks that each candidate evaluates all of them.
    """
    texts = [text for text in read_labeled(path).texts if len(text.split()) >= 6]
    order = np.random.default_rng(SEED).permutation(len(texts))[:count]
    return [" ".join(texts[i].split()[: words or None]) for i in order]


def measure_text(model: Model, text: str, reference_calls: int) -> dict[str, Row]:
    """Explain a text with each candidate, and compare the scores with those of a long run."""
    reference = limelight.explain(
        model, text, "shapley", budget=f"{reference_calls} calls", seed=1, progress=False
    )
    rows = dict[str, Row]()
    for name, options in CANDIDATES.items():
        calls = model.engine.items  # the texts that it has read
        start, used = time.perf_counter(), time.process_time()
        e = limelight.explain(model, text, "shapley", progress=False, **options)
        seconds, processor_seconds = time.perf_counter() - start, time.process_time() - used
        rows[name] = Row(
            calls=model.engine.items - calls,
            seconds=seconds,
            processor_seconds=processor_seconds,
            correlation=float(np.corrcoef(ranks(e.scores), ranks(reference.scores))[0, 1]),
            top=len(top_features(e) & top_features(reference)) / TOP,
            stderr=0.0 if e.stderr is None else float(np.median(e.stderr)),
            certain=TOP in (e.certain_tops or ()),
        )
    return rows


def ranks(scores: np.ndarray) -> np.ndarray:
    """Return the rank of each score, from 0."""
    return np.argsort(np.argsort(scores, kind="stable"), kind="stable")


def top_features(e: Explanation) -> set[int]:
    """Return the features with the largest scores in size."""
    return set(np.argsort(-np.abs(e.scores), kind="stable")[:TOP].tolist())


def mean_rows(rows: Sequence[Mapping[str, Row]]) -> dict[str, dict[str, float]]:
    """Return the mean of each field over the texts, for each candidate."""
    return {
        name: {
            field: float(np.mean([getattr(row[name], field) for row in rows]))
            for field in Row._fields
        }
        for name in CANDIDATES
    }


def choose_default(means: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return the candidate that the rule of this module chooses."""
    allowed = [
        name
        for name in CANDIDATES
        if all(
            mean[name][field] >= mean[CURRENT][field] - loss
            for mean in means.values()
            for field, loss in MAX_LOSS.items()
        )
    ]
    return min(allowed, key=lambda name: means["reviews"][name]["calls"])


def summarize(
    source: str, rows: Sequence[Mapping[str, Row]], mean: Mapping[str, Mapping[str, float]]
) -> Iterator[Measure]:
    """Yield the cost and the errors of each candidate."""
    for name, title in TITLES.items():
        for field, what, unit in (
            ("calls", "calls (mean)", "calls"),
            ("seconds", "time on the clock (mean)", "s"),
            ("processor_seconds", "processor time (mean)", "s"),
            ("correlation", "rank correlation with the reference (mean)", ""),
            ("top", "share of the top 3 (mean)", ""),
            ("certain", "share of texts with certain top 3", ""),
        ):
            yield Measure(
                id=f"{source}_{name}_{field}",
                what=f"{source}, {title}: {what}",
                value=round(mean[name][field], 4),
                unit=unit,
            )
        yield Measure(
            id=f"{source}_{name}_stderr",
            what=f"{source}, {title}: median standard error (median)",
            value=round(float(np.median([row[name].stderr for row in rows])), 5),
        )


if __name__ == "__main__":
    main()
