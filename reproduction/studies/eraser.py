"""Faithful and plausible: all methods on ERASER's movie reviews, whose rationales people marked.

python reproduction/studies/eraser.py  the shipped model, 199 reviews
python reproduction/studies/eraser.py --model FOLDER --name minilm --limit 50 --device cuda
python reproduction/studies/eraser.py --pack movies.jsonl.gz  the reviews, for a bare machine
python benchmarks/eraser_page.py                                print the tables of the results
"""

import argparse
import gzip
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from measuring import peak_memory
from results import Measure, command_line, report

import limelight
from limelight import Judgment
from limelight.data import read_rationales, read_texts
from limelight.models import load

MOVIES = Path(__file__).resolve().parents[3] / "shared/data/eraser_movies/test.parquet"
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
        columns=["stability"],
        curves=False,
        budget=arguments.budget,
        progress=lambda done, total: print(f"{done}/{total}", end="\r", flush=True),
        **{name: int(value) for name, value in settings.items()},
    )
    seconds = time.perf_counter() - start
    print(found.verdict, found.plausibility.verdict if found.plausibility else "", sep="\n")
    name = f"eraser_{arguments.name}"
    right = [
        (t.target == model.classes[-1]) == (y == "POS")
        for t, y in zip(found.texts, labels, strict=True)
    ]
    measures = [
        Measure(id=f"{name}_seconds", what=f"{len(texts)} reviews", value=seconds, unit="s"),
        Measure(id=f"{name}_memory", what="peak memory", value=peak_memory(), unit="MB"),
        Measure(id=f"{name}_accuracy", what="accuracy", value=float(np.mean(right))),
    ]
    context = {"device": arguments.device} if arguments.device else {}
    rows = summary(found, np.array(right))
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
    labels = read_texts(arguments.data, text_column="label", limit=arguments.limit)
    return found.texts, found.rationales, labels


def pack(path: Path, texts: list[str], rationales: list[Any], labels: list[str]) -> None:
    """Write what a machine without pyarrow can read."""
    rows = zip(texts, rationales, labels, strict=True)
    lines = [json.dumps({"text": t, "rationales": r, "label": y}) + "\n" for t, r, y in rows]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(lines)


def usable(model: Any) -> list[str]:
    """Return all methods that the model allows and that rank words."""
    allowed = [row.id for row in limelight.methods(model) if row.reason_unavailable is None]
    return [name for name in allowed if name not in NOT_ORDERS]


def above_guessing(found: Judgment, chosen: Any) -> dict[str, float | None]:
    """Return the mean of average precision less chance over some texts, by method."""
    assert found.plausibility is not None
    rows = [
        [np.nan if x is None else x - (one.precision.chance or 0.0) for x in one.precision.methods]
        for one, wanted in zip(found.plausibility.texts, chosen, strict=True)
        if wanted and one.precision is not None
    ]
    means = np.nanmean(rows, axis=0) if rows else [None] * len(found.methods)
    names = [one.method for one in found.methods]
    return {n: None if x is None else float(x) for n, x in zip(names, means, strict=True)}


def summary(found: Judgment, right: Any) -> dict[str, Any]:
    """Return all that is said over the texts, and nothing of each."""
    plausible, agreement = found.plausibility, found.agreement
    assert plausible is not None
    assert agreement is not None
    cut = [text.words for text in plausible.texts if text.reason is None]
    return {
        "verdict": found.verdict,
        "warnings": list(found.warnings),
        "ceiling": found.ceiling_kind,
        "greedy": found.greedy,
        "texts": len(found.texts_with_room),
        "faithful": [_row(one) for one in found.rank_methods()],
        "plausible": {
            "verdict": plausible.verdict,
            "warnings": list(plausible.warnings),
            "share": plausible.share,
            "texts": len(cut),
            "words": float(np.mean(cut)) if cut else 0.0,
            "marked": float(np.mean([t.marked for t in plausible.texts if t.reason is None])),
            "methods": [_row(one) for one in plausible.rank_methods()],
            "above_where_right": above_guessing(found, right),
            "above_where_wrong": above_guessing(found, ~right),
            "references": [_row(one) for one in plausible.references],
        },
        "agreement": {
            "pairs": [_measures(one) for one in agreement.pairs],
            "reseeded_pairs": [_measures(one) for one in agreement.reseeded_pairs],
        },
    }


def _row(one: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if name != "columns"}


def _measures(pair: Any) -> dict[str, Any]:
    """Return what two methods share, on one line of the file for each measure."""
    names = ("rank", "sign", "top")
    found = {name: getattr(pair, name) for name in names}
    known = {name: None if x is None else round(x, 6) for name, x in found.items()}
    return {"methods": " ".join(pair.methods), **known}


if __name__ == "__main__":
    main()
