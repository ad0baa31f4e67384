"""Exact LIME of every review of IMDB's test set.

    python benchmarks/corpus.py                                    the public API, NumPy, two cores
    python benchmarks/corpus.py --device cuda --data test.jsonl.gz    the same theory on a GPU

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
from typing import Any, NamedTuple

import numpy as np

from limelight.models import load
from limelight.models.attention import AttentionClassifier, padded_ids
from limelight.text import UNK, token_strings
from limelight.theory.lime import lime
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
    measures = list(on_torch(model, texts, device=arguments.device, batch=arguments.batch))
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
    parser.add_argument("--batch", type=int, default=500, help="documents at a time on a device")
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
    """Documents sorted by their number d of distinct words."""

    ids: np.ndarray  # n T_max
    word: np.ndarray  # n T_max: which distinct word stands there, -1 at [cls] and padding
    sizes: np.ndarray  # n: d


def tokenised(model: AttentionClassifier, texts: list[str]) -> Corpus:
    """Return the corpus as arrays; texts of one distinct word, which have no LIME, are left out."""
    rows, words = [], []
    for text in texts:
        strings = token_strings(text)[: model.T_max - 1]
        number: dict[str, int] = {}
        words.append(np.array([number.setdefault(s, len(number)) for s in strings]))
        rows.append(model.vocabulary.encode(strings))
    sizes = np.array([1 + int(word.max(initial=-1)) for word in words])
    order = [i for i in np.argsort(sizes, kind="stable") if sizes[i] > 1]
    places = np.full((len(order), model.T_max), -1)
    for line, i in zip(places, order, strict=True):
        line[1 : 1 + len(words[i])] = words[i]
    return Corpus(padded_ids([rows[i] for i in order], T_max=model.T_max), places, sizes[order])


def on_torch(
    model: AttentionClassifier, texts: list[str], *, device: str, batch: int
) -> Iterator[Measure]:
    """The theory on torch tensors in float64, batch by batch, shortest documents first."""
    start = time.perf_counter()
    corpus = tokenised(model, texts)
    reading = time.perf_counter() - start
    n = len(corpus.sizes)
    print(f"{n:,} documents read in {reading:.1f} s", flush=True)
    yield Measure(
        id="corpus_reading", what="tokenising, one core", value=reading, unit="s",
        note="not counted below",
    )  # fmt: skip
    tables = torch_tables(model, device)
    for tolerance in (1e-6, 1e-9):
        few = slice(0, n, max(1, n // 20))  # starts the device; nodes for most d are still to come
        _explained(corpus, tables, device, batch, tolerance, few)
        start = time.perf_counter()
        scores, bounds = _explained(corpus, tables, device, batch, tolerance, slice(0, n))
        taken = time.perf_counter() - start
        start = time.perf_counter()
        _explained(corpus, tables, device, batch, tolerance, slice(0, n))
        again = time.perf_counter() - start
        print(f"tolerance {tolerance:.0e}: {taken:.2f} s, again {again:.2f} s", flush=True)
        yield Measure(
            id=f"corpus_seconds_{tolerance:.0e}",
            what=f"{n:,} exact LIME explanations on {device}, tolerance {tolerance:.0e}",
            value=taken,
            best=again,
            unit="s",
            below=8 if device.startswith("cuda") else None,
            note=f"float64, batches of {batch}; the first time with quadrature nodes, then again",
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


class TorchTables(NamedTuple):
    """The model on a device, its single output or the difference of its two."""

    word_logit: Any  # V K
    word_value: Any  # V K
    position_logit: Any  # T_max K
    position_value: Any  # T_max K


def torch_tables(model: AttentionClassifier, device: str) -> TorchTables:
    """Return the tables of the logit of the last class on a device."""
    import torch

    tables = model.tables
    arrays = (
        tables.word_logit,
        tables.word_value[:, -1],
        tables.position_logit,
        tables.position_value[:, -1],
    )
    return TorchTables(*(torch.from_numpy(np.ascontiguousarray(x)).to(device) for x in arrays))


def _explained(
    corpus: Corpus, tables: TorchTables, device: str, batch: int, tolerance: float, some: slice
) -> tuple[list[np.ndarray], list[float]]:
    """Return scores and bounds of some documents, each on the host."""
    ids, word, sizes = corpus.ids[some], corpus.word[some], corpus.sizes[some]
    scores: list[np.ndarray] = []
    bounds: list[float] = []
    # The longest first: the device's memory then never has to grow.
    for first in reversed(range(0, len(ids), batch)):
        rows = slice(first, first + batch)
        games = torch_games(tables, ids[rows], word[rows], sizes[rows], device=device)
        found = lime(games, tolerance=tolerance)
        beta = found.scores[:, 0].cpu().numpy()
        scores = [row[:d] for row, d in zip(beta, sizes[rows], strict=True)] + scores
        bounds = found.bound[:, 0].tolist() + bounds
        print(f"\r{len(scores):,} of {len(ids):,}", end="", flush=True)
    print()
    return scores, bounds


def torch_games(
    tables: TorchTables, ids: np.ndarray, word: np.ndarray, sizes: np.ndarray, *, device: str
) -> RatioGame:
    """Return the games of some documents, each word kept or replaced by UNK at all its places."""
    import torch

    d = int(sizes.max())
    at, rows = (torch.from_numpy(x).to(device).long() for x in (word, ids))
    place = torch.where(at >= 0, at, d)
    unk = torch.where(at >= 0, UNK, rows)
    logit, base = (tables.word_logit[x] + tables.position_logit for x in (rows, unk))
    top = torch.maximum(logit, base).amax(dim=1, keepdim=True)
    g, g_h = torch.exp(logit - top), torch.exp(base - top)
    u, u_h = (tables.word_value[x] + tables.position_value for x in (rows, unk))
    every = torch.stack([g, g_h, g * u, g_h * u_h], dim=1)  # n 4 T_max K
    sums = torch.zeros(len(ids), 4, d + 1, every.shape[-1], dtype=every.dtype, device=device)
    sums.scatter_add_(2, place[:, None, :, None].expand_as(every), every)
    sums = sums.transpose(2, 3).contiguous()
    a, b, A, B = sums.unbind(dim=1)
    return RatioGame(
        D0=a[..., -1],
        a=a[..., :-1],
        b=b[..., :-1],
        N0=A[:, None, :, -1],
        A=A[:, None, :, :-1],
        B=B[:, None, :, :-1],
        sizes=torch.from_numpy(sizes).to(device),
    )


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
    tables, d, K = model.tables, int(corpus.sizes[i]), model.tables.word_logit.shape[1]
    a, b, A, B = np.zeros((4, K, d))
    D0, N0 = np.zeros((2, K))
    for t, (token, j) in enumerate(zip(corpus.ids[i], corpus.word[i], strict=True)):
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
