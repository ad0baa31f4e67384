"""Exact LIME of every review of IMDB's test set.

    python benchmarks/corpus.py                                    the public API, NumPy, two cores
    python benchmarks/corpus.py --device cuda --data test.jsonl.gz    the same on a GPU

The second needs torch, numpy, safetensors and array_api_compat only, with ``src`` on the path.
"""

import argparse
import gzip
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from limelight.models import load
from limelight.models.attention import AttentionClassifier, padded_ids
from limelight.text import UNK, Features, ModelInput, build_features
from limelight.theory.lime import lime
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import RatioGame
from measuring import on_cores, peak_memory
from results import Measure, command_line, report

IMDB = Path(__file__).resolve().parents[2] / "shared" / "data" / "imdb" / "test.parquet"


def main() -> None:
    """Explain a corpus on the chosen device."""
    arguments = parsed()
    if arguments.device == "numpy":
        on_cores(1)  # of linear algebra in each of the threads
    model = load()
    texts = read_texts(arguments.data, model, 40 if arguments.smoke else arguments.limit)
    if arguments.device == "numpy":
        measures = list(by_public_api(model, texts, threads=arguments.threads))
        report("corpus", measures, arguments, data=f"{len(texts)} reviews")
        return
    measures = list(on_device(model.to_device(arguments.device), texts, size=arguments.batch))
    context = {"data": f"{len(texts)} reviews", "device": _device_name(arguments.device)}
    report(f"corpus_{arguments.device}", measures, arguments, **context)


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = command_line(__doc__ or "")
    parser.add_argument(
        "--device", default="numpy", help="numpy (the public API), or a torch device: cpu, cuda"
    )
    parser.add_argument("--data", type=Path, default=IMDB, help=".parquet or .jsonl.gz with texts")
    parser.add_argument("--limit", type=int, help="read only so many reviews")
    parser.add_argument("--threads", type=int, default=2, help="of the public API")
    parser.add_argument("--batch", type=int, default=512, help="documents at a time on a device")
    return parser.parse_args()


def read_texts(path: Path, model: AttentionClassifier, limit: int | None) -> list[str]:
    """Return the texts; .jsonl.gz is read here, for the readers of limelight need more packages."""
    if path.name.endswith(".jsonl.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            return [json.loads(line)["text"] for line in islice(lines, limit)]
    from reviews import reviews

    return reviews(model, count=limit).texts


def by_public_api(
    model: AttentionClassifier, texts: list[str], *, threads: int
) -> Iterator[Measure]:
    """``limelight.explain`` on parts of the corpus, in threads of one process.

    Parts hold texts of like length, since a batch is as wide as its longest text.
    """
    import limelight

    model.logits(texts[:1])
    done: list[int] = []

    def explained(part: list[str]) -> tuple[list[np.ndarray], float]:
        found = limelight.explain(model, part, "lime")
        done.append(len(part))
        print(f"\r{sum(done):,} of {len(texts):,}", end="", flush=True)
        return [e.scores for e in found], max(e.bound or 0.0 for e in found)

    ordered = sorted(texts, key=len)
    parts = [ordered[i : i + 128] for i in range(0, len(ordered), 128)]
    start, used = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(explained, parts))
    taken, used = time.perf_counter() - start, time.process_time() - used
    print()
    scores = [row for rows, _ in found for row in rows]
    count = len(scores)
    share = len(texts) / 25000
    yield Measure(
        id="corpus_seconds",
        what=f"{count:,} exact LIME explanations, limelight.explain, {threads} threads",
        value=taken,
        unit="s",
        below=300 * share,
        note=f"on the clock, tokenising included; processor time {used:.0f} s",
    )
    yield Measure(
        id="corpus_speed", what="explanations per second", value=count / taken, unit="texts/s"
    )
    yield Measure(id="corpus_scores", what="scores in all", value=sum(map(len, scores)))
    yield Measure(
        id="corpus_memory",
        what="peak memory",
        value=peak_memory(),
        unit="MB",
        below=2000,
        note="all scores kept; an Explanation is dropped when its scores are taken",
    )
    yield Measure(
        id="corpus_bound", what="largest bound on an error", value=max(bound for _, bound in found)
    )


class Corpus(NamedTuple):
    """Documents sorted by their number d of distinct words, and their features."""

    inputs: list[ModelInput]
    features: list[Features]

    @property
    def sizes(self) -> list[int]:
        """The number d of every document."""
        return [len(one) for one in self.features]


def read_corpus(model: AttentionClassifier, texts: list[str]) -> Corpus:
    """Return the texts as the model reads them; those of one distinct word have no LIME."""
    inputs = [model.read(text) for text in texts]
    features = [build_features(model_input) for model_input in inputs]
    order = sorted(range(len(texts)), key=lambda i: len(features[i]))
    order = [i for i in order if len(features[i]) > 1]
    return Corpus([inputs[i] for i in order], [features[i] for i in order])


def on_device(model: AttentionClassifier, texts: list[str], *, size: int) -> Iterator[Measure]:
    """``limelight.load(device=…)``: what the device does for each batch, then the public verb."""
    import limelight

    start = time.perf_counter()
    corpus = read_corpus(model, texts)
    batch = time.perf_counter() - start
    n = len(corpus.inputs)
    print(f"{n:,} documents read in {batch:.1f} s", flush=True)
    yield Measure(
        id="corpus_reading", what="tokenising, one core", value=batch, unit="s",
        note="not counted in the next rows",
    )  # fmt: skip
    for tolerance in (1e-6, 1e-9):
        few = slice(0, n, max(1, n // 20))  # starts the device; nodes for most d are still to come
        _explained(model, corpus, size, tolerance, few)
        start = time.perf_counter()
        scores, bounds = _explained(model, corpus, size, tolerance, slice(0, n))
        taken = time.perf_counter() - start
        start = time.perf_counter()
        _explained(model, corpus, size, tolerance, slice(0, n))
        again = time.perf_counter() - start
        print(f"tolerance {tolerance:.0e}: {taken:.2f} s, again {again:.2f} s", flush=True)
        yield Measure(
            id=f"corpus_seconds_{tolerance:.0e}",
            what=f"{n:,} exact LIME explanations on {model.device}, tolerance {tolerance:.0e}",
            value=taken,
            best=again,
            unit="s",
            below=8 if str(model.device).startswith("cuda") else None,
            note=f"float64, batches of {size}; the first time with quadrature nodes, then again",
        )
        yield Measure(
            id=f"corpus_bound_{tolerance:.0e}",
            what="largest bound on an error",
            value=float(max(bounds)),
        )
        off, allowed = checked(model, corpus, scores, bounds, tolerance)
        yield Measure(
            id=f"corpus_difference_{tolerance:.0e}",
            what="20 documents against NumPy: largest difference over the sum of both bounds",
            value=off,
            below=1,
            note=f"largest sum of bounds {allowed:.1g}",
        )
    start = time.perf_counter()
    found = limelight.explain(model, [one.text for one in corpus.inputs], "lime")
    whole = time.perf_counter() - start
    yield Measure(
        id="corpus_explain_seconds",
        what=f"{len(found):,} explanations by limelight.explain, from texts to values",
        value=whole,
        unit="s",
        note="tokenising on one core and an Explanation for each text included",
    )


def _explained(
    model: AttentionClassifier, corpus: Corpus, size: int, tolerance: float, some: slice
) -> tuple[list[np.ndarray], list[float]]:
    """Return scores and bounds of some documents, each on the host."""
    inputs, features = corpus.inputs[some], corpus.features[some]
    scores: list[np.ndarray] = []
    bounds: list[float] = []
    # The longest first: the device's memory then never has to grow.
    for first in reversed(range(0, len(inputs), size)):
        rows = slice(first, first + size)
        found = lime(model.compute_tables(inputs[rows], features[rows]).game, tolerance=tolerance)
        beta, bound = host_array(found.scores[:, -1]), host_array(found.bound[:, -1])
        sizes = map(len, features[rows])
        scores = [row[:d] for row, d in zip(beta, sizes, strict=True)] + scores
        bounds = bound.tolist() + bounds
        print(f"\r{len(scores):,} of {len(inputs):,}", end="", flush=True)
    print()
    return scores, bounds


def checked(
    model: AttentionClassifier,
    corpus: Corpus,
    scores: list[np.ndarray],
    bounds: list[float],
    tolerance: float,
) -> tuple[float, float]:
    """Return the largest |difference| over the sum of both bounds, and the largest such sum.

    20 documents are computed again, one by one, in NumPy, their games by loops over positions.
    """
    worst = most = 0.0
    for i in np.linspace(0, len(scores) - 1, min(20, len(scores)), dtype=int):
        found = lime(numpy_game(model, corpus, int(i)), tolerance=tolerance)
        allowed = float(found.bound[0]) + bounds[i]
        off = float(np.abs(found.scores[0] - scores[i]).max())
        worst, most = max(worst, off / allowed), max(most, allowed)
    return worst, most


def numpy_game(model: AttentionClassifier, corpus: Corpus, i: int) -> RatioGame:
    """Return the game of one document by its definition, position after position."""
    tables, K = model.tables, model.tables.word_logit.shape[1]
    features, tokens = corpus.features[i], corpus.inputs[i].encoding.ids
    a, b, A, B = np.zeros((4, K, len(features)))
    D0, N0 = np.zeros((2, K))
    ids = padded_ids([tokens], T_max=model.T_max)[0]
    word = np.full(model.T_max, -1)
    word[1 : 1 + len(tokens)] = features.feature_index
    for t, (token, j) in enumerate(zip(ids, word, strict=True)):
        g = np.exp(tables.word_logit[token] + tables.position_logit[t])
        gu = g * (tables.word_value[token, -1] + tables.position_value[t, -1])
        if j < 0:
            D0, N0 = D0 + g, N0 + gu
            continue
        g_h = np.exp(tables.word_logit[UNK] + tables.position_logit[t])
        gu_h = g_h * (tables.word_value[UNK, -1] + tables.position_value[t, -1])
        a[:, j] += g
        b[:, j] += g_h
        A[:, j] += gu
        B[:, j] += gu_h
    return RatioGame(D0=D0, a=a, b=b, N0=N0[None], A=A[None], B=B[None])


def _device_name(device: str) -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


if __name__ == "__main__":
    main()
