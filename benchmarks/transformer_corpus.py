"""Thousands of reviews explained with a Hugging Face model, from texts to scores.

python benchmarks/transformer_corpus.py --reviews 100                        on one core
python benchmarks/transformer_corpus.py --data carry/test.jsonl.gz --model carry/minilm-imdb

The second is for a graphics card, where it needs torch and transformers, and the result is called
transformer_corpus_cuda. Texts go to ``limelight.explain`` a thousand at a time, as a run does it;
the storing of a run is measured by datasets.py.
"""

import gzip
import json
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch

import limelight
from huggingface import FOLDER
from limelight.models.protocol import Model
from measuring import on_cores
from results import Measure, command_line, report

SHARD = 1000
PAIRS = 5
FEWER = 10  # one review in ten for the method that asks a thousand times


def main() -> None:
    """Explain the reviews by one backward pass each, and some of them by Shapley values."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--model", default=FOLDER, help="a Hugging Face folder")
    parser.add_argument("--data", type=Path, help=".jsonl.gz with texts")
    parser.add_argument("--reviews", type=int, default=10_000)
    arguments = parser.parse_args()
    cuda = torch.cuda.is_available()
    if not cuda:
        on_cores(1)
        torch.set_num_threads(1)
    texts = read(arguments.data, 20 if arguments.smoke else arguments.reviews)
    model = limelight.load(str(arguments.model))
    measures = list(compared(model, texts, wanted=cuda))
    report(
        "transformer_corpus_cuda" if cuda else "transformer_corpus",
        measures,
        arguments,
        data=f"{len(texts):,} reviews of IMDB",
        **({"device": torch.cuda.get_device_name()} if cuda else {}),
    )


def read(path: Path | None, count: int) -> list[str]:
    """Return reviews as they are, long ones included; .jsonl.gz needs no other package."""
    if path is not None:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            return [json.loads(line)["text"] for line in islice(lines, count)]
    from reviews import reviews

    return list(reviews(limelight.load(), count=count).texts)


def compared(model: Model, texts: list[str], *, wanted: bool) -> Iterator[Measure]:
    """Seconds and texts per second of ``lrp`` and of ``shapley``."""
    limelight.explain(model, texts[:2], "lrp")  # what is made on first use
    seconds = explained(model, texts, "lrp")
    yield Measure(
        id="lrp_seconds",
        what=f"{len(texts):,} reviews by lrp",
        value=seconds,
        unit="s",
        below=120 * len(texts) / 10_000 if wanted else 0.3 * len(texts),
        note="tokenising and an Explanation for each text included",
    )
    yield Measure(id="lrp_speed", what="lrp", value=len(texts) / seconds, unit="reviews/s")
    some = texts[:: FEWER * 10 if not wanted else FEWER]
    limelight.explain(model, some[0], "shapley", pairs=2)
    before = model.engine.items  # type: ignore[attr-defined]
    seconds = explained(model, some, "shapley", pairs=PAIRS)
    asked = model.engine.items - before  # type: ignore[attr-defined]
    yield Measure(
        id="shapley_speed",
        what=f"shapley with {PAIRS} pairs, {len(some):,} reviews",
        value=len(some) / seconds,
        unit="reviews/s",
        note=f"{asked / seconds:,.0f} masked texts/s",
    )


def explained(model: Model, texts: list[str], method: str, **settings: int) -> float:
    """Return the seconds that all texts take, a shard at a time."""
    start = time.perf_counter()
    for first in range(0, len(texts), SHARD):
        limelight.explain(model, texts[first : first + SHARD], method, **settings)  # type: ignore[arg-type]
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
