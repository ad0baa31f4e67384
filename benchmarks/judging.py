"""Judging: how long it takes, and what is found.

python benchmarks/judging.py                               1,000 reviews under the shipped model
python benchmarks/judging.py --model FOLDER --reviews 20   reviews of about 100 words under a
                                                           Hugging Face model (result: judging_deep)
python benchmarks/judging.py --model FOLDER --every        every method, some at several costs, with
                                                           their shares (judging_deep_every)
python benchmarks/judging.py --every                       the same of the shipped model, on the
                                                           same reviews (judging_every)

Where there is a graphics card a Hugging Face model uses it, and the result is called judging_cuda.
"""

import argparse
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import limelight
from limelight import Judgment, Model
from limelight.explainers import Lime, Lrp, Shapley
from limelight.models import load
from limelight.text import token_strings
from measuring import peak_memory
from results import Measure, command_line, report

METHODS = ("ig", "shapley", "lime", "loo", "gxi", "alpha-avg", "g-l1", "g-avg")
EVERY = {
    "shapley, pairs=25": Shapley(pairs=25),
    "shapley, pairs=5": Shapley(pairs=5),
    "shapley, pairs=2": Shapley(pairs=2),
    "lime, samples=1000": Lime(samples=1000),
    "lime, samples=400": Lime(samples=400),
    "lrp, steps=20": Lrp(steps=20),
    "lrp": "lrp",
    "ig": "ig",
    "loo": "loo",
    "banzhaf": "banzhaf",
    "lime-sampled": "lime-sampled",
    "interactions": "interactions",
    "anchors": "anchors",
    "generic-attention": "generic-attention",
    "alpha-avg": "alpha-avg",
    "alpha-max": "alpha-max",
    "alpha-grad": "alpha-grad",
    "rollout": "rollout",
    "flow": "flow",
    "g-l1": "g-l1",
    "g-l2": "g-l2",
    "g-avg": "g-avg",
    "gxi": "gxi",
}
WORDS = 100


def main() -> None:
    """Judge reviews, print the shares and report the time."""
    arguments = parsed()
    deep = arguments.model is not None
    model = limelight.load(arguments.model, device=arguments.device) if deep else load()
    texts = short_texts(arguments) if deep or arguments.every else spread_texts(arguments)
    settings = asked(arguments) if deep or arguments.every else {}
    start, used = time.perf_counter(), time.process_time()
    methods: Any = list(METHODS)
    if arguments.every:
        methods = chosen_of(arguments) if deep else shipped_methods(model)
    found = limelight.judge(model, texts, methods, **settings)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    for line in shares(found):
        print(line)
    if arguments.judgment is not None:
        arguments.judgment.write_text(found.to_json() + "\n", encoding="utf-8")
    measures = measured(found, seconds, used, below=60 * len(texts) / (100 if deep else 1000))
    name = "judging" if not deep else f"judging_{device_of(model)}"
    if arguments.every:
        name, measures = f"{name}_every", [*each_share(found)]
    settings_note = ", ".join(f"{name} {value}" for name, value in settings.items())
    report(
        name,
        measures,
        arguments,
        data=f"{len(texts)} reviews{settings_note and ', '}{settings_note}",
    )


def chosen_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the methods of ``--every``, or those of them that ``--methods`` names."""
    names = arguments.methods.split(";") if arguments.methods else list(EVERY)
    return {name: EVERY[name] for name in names}


def shipped_methods(model: Model) -> list[str]:
    """Return every method of the shipped model, which has one way to each and needs no counts."""
    return [row.id for row in limelight.methods(model) if not row.reason_unavailable]


def parser_of(about: str) -> argparse.ArgumentParser:
    """Return the arguments that say what is judged."""
    parser = command_line(about)
    parser.add_argument("--limit", "--reviews", type=int, default=None, help="judge so many")
    parser.add_argument("--model", type=Path, help="folder of a Hugging Face model")
    parser.add_argument("--device", help='as torch names it, such as "cuda"')
    parser.add_argument("--data", type=Path, help="reviews as .jsonl.gz, where parquet is not read")
    parser.add_argument("--budget", type=float, help="seconds for search and chance")
    return parser


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = parser_of(__doc__ or "")
    parser.add_argument("--every", action="store_true", help="every method, at several costs")
    parser.add_argument("--methods", help="some of every method, by name, with semicolons")
    parser.add_argument("--pairs", type=int, default=25, help="of orders, for Shapley values")
    parser.add_argument("--samples", type=int, default=1000, help="of LIME")
    parser.add_argument("--columns", default="", help="other measures, with commas")
    parser.add_argument("--judgment", type=Path, help="also write the judgment, as JSON")
    return parser.parse_args()


def asked(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a deep model's judgment."""
    few = arguments.smoke
    if arguments.every:  # their settings are their own
        return {"budget": 1.0 if few else arguments.budget, "columns": []}
    return {
        "pairs": 2 if few else arguments.pairs,
        "samples": 400 if few else arguments.samples,
        "budget": 1.0 if few else arguments.budget,
        "columns": [name for name in arguments.columns.split(",") if name],
    }


def spread_texts(arguments: argparse.Namespace) -> list[str]:
    """Return reviews from all over the file, which is sorted by class."""
    texts = test_reviews()
    count = 8 if arguments.smoke else min(arguments.limit or 1000, len(texts))
    return texts[:: len(texts) // count][:count]


def short_texts(arguments: argparse.Namespace) -> list[str]:
    """Return reviews of about 100 words, half of them from each end of the file."""
    if arguments.data is None:
        texts = test_reviews()
    else:
        with gzip.open(arguments.data, "rt", encoding="utf-8") as lines:
            texts = [json.loads(line)["text"] for line in lines]
    near = [text for text in texts if abs(len(token_strings(text)) - WORDS) <= WORDS // 10]
    count = 2 if arguments.smoke else min(arguments.limit or 100, len(near))
    return near[:: max(len(near) // count, 1)][:count]


def test_reviews() -> list[str]:
    """Return all test reviews; imported here, since a bare machine cannot read their file."""
    from reviews import reviews

    return reviews(load()).texts


def device_of(model: Model) -> str:
    """Return "cuda" where the network is there, else "deep"."""
    kind = model.network.device.type  # type: ignore[attr-defined]
    return "deep" if kind == "cpu" else str(kind)


def measured(found: Judgment, seconds: float, used: float, *, below: float) -> list[Measure]:
    """Return time, memory, and how near greedy search comes to the ceiling."""
    return [
        Measure(
            id="judging_seconds",
            what=f"{len(found):,} reviews, {len(found.methods)} methods, chance and "
            + found.ceiling_kind
            + (" ceiling" if found.ceiling_kind == "proven" else ""),
            value=seconds,
            unit="s",
            below=below,
            note=f"on the clock, one process; processor time {used:.0f} s",
        ),
        Measure(id="judging_memory", what="peak memory", value=peak_memory(), unit="MB"),
        Measure(
            id="judging_greedy",
            what="share of the greedy order",
            value=found.greedy or 0.0,
        ),
    ]


def each_share(found: Judgment) -> Iterator[Measure]:
    """Yield the share of every method, best first."""
    for m in found.rank_methods():
        if m.share is not None:
            low, high = m.interval or (m.share, m.share)
            note = f"95 % interval {low:.3f} to {high:.3f}"
            yield Measure(id=m.method, what=m.method, value=m.share, note=note)


def shares(found: Judgment) -> Iterator[str]:
    """Yield the rows of the tables of the results page."""
    for m in found.rank_methods():
        if m.share is None or m.insertion is None or m.won is None:
            yield f"| {m.method} | – ({m.reason}) | | |"
            continue
        low, high = m.interval or (m.share, m.share)
        share = f"{m.share:.3f} [{low:.3f}, {high:.3f}]"
        yield f"| {m.method} | {share} | {m.insertion:.3f} | {m.won:.0%} |"
    yield found.verdict
    yield from found.warnings


if __name__ == "__main__":
    main()
