"""Faithful and plausible: all methods on ERASER's movie reviews, whose rationales people marked.

python benchmarks/eraser.py                                     the shipped model, 199 reviews
python benchmarks/eraser.py --model FOLDER --name minilm --limit 50 --device cuda
python benchmarks/eraser.py --pack movies.jsonl.gz              the reviews, for a bare machine
python benchmarks/eraser_page.py                                docs/eraser.md, from the results
"""

import argparse
import gzip
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import limelight
from limelight import Judgement
from limelight.datasets import read_rationales
from limelight.datasets.texts_of_file import texts_of_file
from limelight.models import load
from measuring import peak_memory
from results import Measure, command_line, report

MOVIES = Path(__file__).resolve().parents[2] / "shared/data/eraser_movies/test.parquet"
NOT_ORDERS = ("anchors", "interactions")  # rules and pairs: they do not rank words
STAND_IN = (  # where the reviews are absent: runs, and says nothing
    ("a dull plot and fine actors .", [[2, 6]]),
    ("what a great , great film this is !", [[7, 20]]),
    ("nothing happens , slowly .", [[0, 15]]),
)


def main() -> None:
    """Judge the reviews, and store the rows of the tables."""
    arguments = _arguments()
    texts, rationales, labels = reviews(arguments)
    if arguments.pack:
        pack(arguments.pack, texts, rationales, labels)
        return
    model = load(arguments.model, device=arguments.device)
    methods = arguments.methods.split(",") if arguments.methods else usable(model)
    settings = dict(one.split("=") for one in arguments.set)
    start = time.perf_counter()
    found = limelight.judge(
        model,
        texts,
        methods,
        rationales=rationales,
        budget=arguments.budget,
        progress=lambda done, total: print(f"{done}/{total}", end="\r", flush=True),
        **{name: int(value) for name, value in settings.items()},
    )
    seconds = time.perf_counter() - start
    print(found.verdict, found.plausibility.verdict if found.plausibility else "", sep="\n")
    name = f"eraser_{arguments.name}"
    measures = [
        Measure(id=f"{name}_seconds", what=f"{len(texts)} reviews", value=seconds, unit="s"),
        Measure(id=f"{name}_memory", what="peak memory", value=peak_memory(), unit="MB"),
        Measure(id=f"{name}_accuracy", what="accuracy", value=accuracy(model, texts, labels)),
    ]
    context = {"device": arguments.device} if arguments.device else {}
    rows = summary(found)
    report(name, measures, arguments, data=f"{len(texts)} reviews", judged=rows, **context)


def _arguments() -> argparse.Namespace:
    parser = command_line(__doc__ or "")
    parser.add_argument("--data", type=Path, default=MOVIES, help=".parquet, or what --pack wrote")
    parser.add_argument("--pack", type=Path, help="write the reviews as .jsonl.gz, and stop")
    parser.add_argument("--model", type=Path, help="folder; by default the shipped model")
    parser.add_argument("--name", default="shipped", help="results/eraser_NAME.json")
    parser.add_argument("--device", help='such as "cuda"')
    parser.add_argument("--limit", type=int, help="so many reviews, spread evenly; by default all")
    parser.add_argument("--methods", help="with commas; by default all that the model allows")
    parser.add_argument("--budget", type=float, help="seconds for the search of good orders")
    parser.add_argument("--set", action="append", default=[], help="setting of methods, name=value")
    return parser.parse_args()


def reviews(arguments: argparse.Namespace) -> tuple[list[str], list[Any], list[str]]:
    """Return texts, rationales in characters, and labels; a few stand-ins for a smoke run."""
    if arguments.smoke and arguments.data == MOVIES:
        texts, rationales = map(list, zip(*STAND_IN, strict=True))
        return texts, rationales, ["NEG", "POS", "NEG"]
    found = read_rationales(arguments.data, limit=arguments.limit)
    labels = texts_of_file(arguments.data, "label", limit=arguments.limit)
    return found.texts, found.rationales, labels


def pack(path: Path, texts: list[str], rationales: list[Any], labels: list[str]) -> None:
    """Write what a machine without pyarrow can read."""
    rows = zip(texts, rationales, labels, strict=True)
    lines = [json.dumps({"text": t, "rationales": r, "label": y}) + "\n" for t, r, y in rows]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(lines)


def usable(model: Any) -> list[str]:
    """Return all methods that the model allows and that rank words."""
    allowed = [row.id for row in limelight.methods(model) if row.refused is None]
    return [name for name in allowed if name not in NOT_ORDERS]


def accuracy(model: Any, texts: list[str], labels: list[str]) -> float:
    """Return how often the last class is predicted where the label is POS, and not elsewhere."""
    documents = [model.read(text) for text in texts]
    outputs = np.concatenate([model.outputs([document]) for document in documents])
    positive = outputs[:, -1] > (outputs[:, 0] if outputs.shape[1] > 1 else 0)
    return float(np.mean(positive == (np.array(labels) == "POS")))


def summary(found: Judgement) -> dict[str, Any]:
    """Return all that is said over the texts, and nothing of each."""
    plausible, agreement = found.plausibility, found.agreement
    assert plausible is not None
    assert agreement is not None
    cut = [text.words for text in plausible.texts if text.reason is None]
    return {
        "verdict": found.verdict,
        "notices": list(found.notices),
        "ceiling": found.ceiling_kind,
        "greedy": found.greedy,
        "texts": len(found.judged),
        "faithful": [asdict(one) for one in found.ranked()],
        "plausible": {
            "verdict": plausible.verdict,
            "notices": list(plausible.notices),
            "share": plausible.share,
            "texts": len(cut),
            "words": float(np.mean(cut)) if cut else 0.0,
            "marked": float(np.mean([t.marked for t in plausible.texts if t.reason is None])),
            "methods": [asdict(one) for one in plausible.ranked()],
            "references": [asdict(one) for one in plausible.references],
        },
        "agreement": asdict(agreement),
    }


if __name__ == "__main__":
    main()
