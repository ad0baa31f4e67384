"""The summary of a large run of made-up texts: seconds and peak memory.

    python benchmarks/summaries.py --texts 100000
    python benchmarks/summaries.py --texts 1000000                      minutes, and 2 GB of disk
    python benchmarks/summaries.py --texts 25000 --against OTHER/src    another version, in turn

Words come by Zipf's law, about a hundred to a text, and score by chance around a value of their
own; the model is the shipped one in name only. Each summary is made by a process of its own.
"""

import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

import limelight
from limelight.runs import Run
from limelight.runs.rows import SHARD_COLUMNS, shard_bytes
from limelight.runs.run import RunFolder
from measuring import process
from results import Measure, command_line, report

_SHARD, _WORDS, _LENGTH = 1000, 200_000, 100
_MOST_MB = 2000


def main() -> None:
    """Make a run and measure its summary."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--texts", type=int, default=25_000)
    parser.add_argument("--methods", default="lime", help="separated by commas")
    parser.add_argument("--against", type=Path, help="the src folder of another version")
    arguments = parser.parse_args()
    texts = 300 if arguments.smoke else arguments.texts
    with tempfile.TemporaryDirectory() as folder:
        run = made_up_run(Path(folder), texts, tuple(arguments.methods.split(",")))
        measures = summarized(run, texts)
        if arguments.against is not None:
            measures += summarized(run, texts, "_other", arguments.against)
    report("summaries", measures, arguments, data=f"{texts:,} made-up texts")


def summarized(run: Run, texts: int, name: str = "", source: Path | None = None) -> list[Measure]:
    """Measure a summary by this version, or by the one at ``source``."""
    before = os.environ.get("PYTHONPATH")
    if source is not None:
        os.environ["PYTHONPATH"] = str(source)
    try:
        program = (
            f"import time, limelight; t = time.perf_counter(); limelight.Run({str(run.path)!r})"
        )
        program += ".summary(); print(time.perf_counter() - t)"
        usage = process([sys.executable, "-c", program])
    finally:
        os.environ.pop("PYTHONPATH", None) if before is None else os.environ.update(
            PYTHONPATH=before
        )
    which = "another version" if source else "this version"
    return [
        Measure(
            id=f"summary_seconds{name}",
            what=f"summary of {texts:,} texts, {which}",
            value=float(usage.output.splitlines()[-1]),
            unit="s",
            note=f"on the clock; {usage.cpu_seconds:.1f} s of processor, start included",
        ),
        Measure(
            id=f"summary_memory{name}",
            what=f"peak memory of that process, {which}",
            value=usage.peak_mb,
            unit="MB",
            below=None if source else _MOST_MB,
        ),
    ]


def made_up_run(folder: Path, texts: int, methods: tuple[str, ...], *, seed: int = 0) -> Run:
    """Return a run of so many texts; its shards are written here, without a model."""
    rng = np.random.default_rng(seed)
    data = {"text": ["a good film"] * 2, "label": ["positive", "negative"]}
    few = limelight.explain_data(limelight.load(), data, list(methods), output=folder / "few")
    (file,) = few.record.data.files
    record = replace(
        few.record,
        data=replace(few.record.data, files=[replace(file, rows=texts)]),
        shards=replace(few.record.shards, texts=_SHARD, count=-(-texts // _SHARD)),
    )
    place = RunFolder(folder / "run")
    place.path.mkdir()
    names = np.array([f"w{i}" for i in range(_WORDS)], dtype=object)
    effect = rng.normal(0, 0.05, _WORDS) * (rng.random(_WORDS) < 0.3)
    chance = 1 / (np.arange(_WORDS) + 3.0)
    with place.lock_folder():
        place.begin(record)
        for number in range(record.shards.count):
            part = record.text_numbers(number)
            rows = _shard(rng, part, record, names, effect, np.cumsum(chance / chance.sum()))
            place.write(number, shard_bytes(rows))
    return Run(place.path)


def _shard(
    rng: np.random.Generator, part: range, record: Any, names: Any, effect: Any, edges: Any
) -> pa.Table:
    n, words = len(part), len(names)
    sizes = np.clip(rng.lognormal(np.log(_LENGTH), 0.5, n).astype(int), 5, 10 * _LENGTH)
    token = np.minimum(np.searchsorted(edges, rng.random(sizes.sum())), words - 1)
    at, first = np.repeat(np.arange(n), sizes), np.cumsum(sizes) - sizes
    width = np.array([len(name) for name in names[token]])
    start = np.cumsum(width + 1) - width - 1
    start -= start[first][at]
    # Features come in the order in which their words first stand in the text.
    key, once, inverse, times = np.unique(
        at * words + token, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(once)
    by_feature = np.argsort(np.argsort(order)[inverse], kind="stable")
    key, times = key[order], times[order]
    own = np.bincount(key // words, minlength=n)
    score = effect[key % words]
    logit = np.bincount(key // words, weights=score, minlength=n)
    label = (logit + rng.normal(0, 0.3, n) > 0).astype(int)
    text = [" ".join(names[token[a : a + size]]) for a, size in zip(first, sizes, strict=True)]
    inner = SHARD_COLUMNS["starts"].value_type
    starts, ends = (
        _lists(_lists(pa.array(x[by_feature].astype(np.uint32)), times, inner), own, "starts")
        for x in (start, start + width)
    )
    shared = {
        "row": np.arange(part.start, part.stop),
        "id": [f"t{row}" for row in part],
        "text_hash": [hashlib.sha256(one.encode()).hexdigest()[:32] for one in text],
        "text": text,
        "label": [record.model.classes[k] for k in label],
        "target": [record.model.classes[-1]] * n,
        "prediction": [[-x / 2, x / 2] for x in logit.tolist()],
        "base_value": [0.0] * n,
        "starts": starts,
        "ends": ends,
        "features": _lists(pa.array(names[key % words], pa.string()), own, "features"),
        "warnings": [[]] * n,
        "settings": ["{}"] * n,
    }
    tables = []
    for method in record.methods:
        noisy = (score + rng.normal(0, 0.02, len(score))).astype(np.float32)
        columns = shared | {
            "method": [method.id] * n,
            "scores": _lists(pa.array(noisy), own, "scores"),
        }
        arrays = {name: columns.get(name, [None] * n) for name in SHARD_COLUMNS}
        tables.append(
            pa.table(
                {
                    name: one if isinstance(one, pa.Array) else pa.array(one, SHARD_COLUMNS[name])
                    for name, one in arrays.items()
                }
            )
        )
    text_by_text = np.arange(n * len(tables)).reshape(len(tables), n).T.ravel()
    return pa.concat_tables(tables).take(pa.array(text_by_text)).combine_chunks()


def _lists(flat: pa.Array, sizes: Any, kind: str | pa.DataType) -> pa.Array:
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    of = SHARD_COLUMNS[kind] if isinstance(kind, str) else kind
    return pa.ListArray.from_arrays(offsets, flat, type=of)


if __name__ == "__main__":
    main()
