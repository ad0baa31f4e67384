"""The number of model calls of sampled Shapley values by default: cost and errors.

python benchmarks/default_calls.py               24 sentences, and 24 reviews of at most 40 words
python benchmarks/default_calls.py --words 0     complete reviews, for a GPU
python benchmarks/default_calls.py --rows FILE   store each text, and continue an interrupted run

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

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import limelight
from limelight import Explanation, Model
from limelight.data import read_labeled
from limelight.explainers.batch import prepare_batch
from limelight.explainers.budget import allocate_budget, configure_with_budget
from limelight.explainers.explaining import explain_batch
from measuring import on_cores
from results import Measure, command_line, report

SHARED = Path(__file__).resolve().parents[2] / "shared"
MODEL = SHARED / "models" / "minilm-imdb"
SENTENCES = SHARED / "data" / "sst2" / "dev.parquet"
REVIEWS = SHARED / "data" / "imdb" / "test.parquet"
SEED, TOP = 45, 3
REFERENCE_CALLS = 2_000
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
    parser.add_argument("--rows", type=Path, help="file of the results of each text")
    arguments = parser.parse_args()
    on_cores(1)
    count, words = (2, 8) if arguments.smoke else (arguments.texts, arguments.words)
    reference_calls = 600 if arguments.smoke else REFERENCE_CALLS
    model = limelight.load(MODEL, device=arguments.device)
    texts = {
        "sentences": choose_texts(SENTENCES, count, words=0),
        "reviews": choose_texts(REVIEWS, count, words=words),
    }
    stored = read_rows(arguments.rows)
    rows: dict[str, list[dict[str, Row]]] = {source: [] for source in texts}
    for i in range(count):  # in turn, so that an interrupted run has both
        for source, source_texts in texts.items():
            text = source_texts[i]
            if text not in stored:
                stored[text] = measure_text(model, text, reference_calls)
                write_rows(arguments.rows, text, stored[text])
            rows[source].append(stored[text])
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


def read_rows(path: Path | None) -> dict[str, dict[str, Row]]:
    """Return the stored results of each text; empty without a file."""
    if path is None or not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {text: {name: Row(*row) for name, row in rows.items()} for text, rows in lines}


def write_rows(path: Path | None, text: str, rows: Mapping[str, Row]) -> None:
    """Append the results of a text to a file, if there is one."""
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([text, rows]) + "\n")


def measure_text(model: Model, text: str, reference_calls: int) -> dict[str, Row]:
    """Explain a text with each candidate, and compare the scores with those of a long run."""
    batch = prepare_batch(model, [text])
    d = len(batch.features[0])

    def explain(budget: str, **settings: Any) -> Explanation:
        """Explain the text within a budget."""
        methods, parsed = configure_with_budget(batch.model, "shapley", settings, budget)
        return explain_batch(allocate_budget(parsed, methods, batch)[0], batch)[0]

    start, used = time.perf_counter(), time.process_time()
    explanations = {CURRENT: explain(**CANDIDATES[CURRENT])}  # first, while no outputs are stored
    seconds, processor_seconds = time.perf_counter() - start, time.process_time() - used
    explanations |= {
        name: explain(**options) for name, options in CANDIDATES.items() if name != CURRENT
    }
    reference = explain(f"{reference_calls} calls", seed=1)
    timed_calls = count_calls(explanations[CURRENT], d)
    return {
        name: Row(
            calls=(calls := count_calls(e, d)),
            seconds=seconds * calls / timed_calls,
            processor_seconds=processor_seconds * calls / timed_calls,
            correlation=float(np.corrcoef(ranks(e.scores), ranks(reference.scores))[0, 1]),
            top=len(top_features(e) & top_features(reference)) / TOP,
            stderr=0.0 if e.stderr is None else float(np.median(e.stderr)),
            certain=TOP in (e.certain_tops or ()),
        )
        for name, e in explanations.items()
    }


def count_calls(e: Explanation, d: int) -> int:
    """Return the number of model calls of an explanation by Shapley values of ``d`` features."""
    if "masks" in e.diagnostics:
        return int(e.diagnostics["masks"]) + 1
    if "orders_drawn" in e.diagnostics:
        return 2 + int(e.diagnostics["orders_drawn"]) * (d - 1) + int(e.settings.get("spare", 0))
    per_pair = 2 * (d - 1) if e.diagnostics["sampler"] == "orders" else 2
    return 3 + per_pair * int(e.diagnostics["pairs_drawn"]) + int(e.settings.get("spare", 0))


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
