"""What drives a model, from a stored run: the tables of docs/how-to/summaries.md.

limelight explain-data ../shared/data/imdb/test.parquet --labels negative,positive \\
    --method lime --output runs/imdb
python benchmarks/drives.py shipped --run runs/imdb

Then `python benchmarks/tables.py` writes the page.
"""

__all__ = ["drives_table", "stored_words"]

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from results import RESULTS, STAMP, measured_with, read_result, write_result

LEAST = 10  # texts that a word of the table must be in
TOP = 8  # words on either side
# Words that the page speaks of.
SPOKEN = {
    "shipped": ("edie", "seagal", "mst3k"),
    "minilm": ("7", "1", "edie", "seagal", "mst3k", "vampire", "vampires"),
}


def main() -> None:
    """Look at a run and store its strongest words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=sorted(SPOKEN))
    parser.add_argument("--run", type=Path, required=True, help="a finished run of one method")
    parser.add_argument("--output", type=Path, help="JSON file (default: benchmarks/results)")
    given = parser.parse_args()
    found = {
        "benchmark": f"drives_{given.model}",
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "smoke": False,
        "stamp": STAMP,
        **measured(given.run, SPOKEN[given.model]),
    }
    path = given.output or RESULTS / f"drives_{given.model}.json"
    write_result(path, found)


def measured(path: Path, spoken: tuple[str, ...]) -> dict[str, Any]:
    """Return the strongest words of the first method and those that the page speaks of."""
    import limelight

    run = limelight.Run(path)
    if run.record.version != limelight.__version__:
        sys.exit(
            f"'{path}' was made with limelight {run.record.version}, and this is "
            f"{limelight.__version__}; make it again."
        )
    summary = run.summary(run.methods[0], by=None, top=1, representatives=1)
    (view,) = summary.views.records()
    words = run.words().to_pylist()  # strongest first
    common = [one for one in words if one["texts"] >= LEAST]
    return {
        "method": run.methods[0],
        "texts": len(run),
        "right": None
        if view["right"] is None
        else [view["right"] / view["labeled"], view["right_low"], view["right_high"]],
        "for": [_row(one) for one in common if one["low"] > 0][:TOP],
        "against": [_row(one) for one in common if one["high"] < 0][:TOP],
        "spoken": {one["word"]: _row(one) for one in words if one["word"] in spoken},
    }


def _row(one: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: round(one[name], 6) for name in ("mean", "low", "high")}
    return {"word": one["word"], **numbers, "texts": one["texts"]}


def stored_words(model: str) -> dict[str, Any]:
    """Return what was stored for ``model``."""
    return read_result(f"drives_{model}")


def drives_table(model: str) -> str:
    """Return how often the model is right, and its strongest words on either side."""
    found = stored_words(model)
    share, low, high = (100 * x for x in found["right"])
    lines = [
        "| for positive | mean | interval | texts | against | mean | interval | texts |",
        "| --- | ---: | --- | ---: | --- | ---: | --- | ---: |",
        *(
            f"| {_cells(one)} | {_cells(other)} |"
            for one, other in zip(found["for"], found["against"], strict=True)
        ),
    ]
    said = (
        f"The model is right on {share:.1f} % [{low:.1f}, {high:.1f}] of {found['texts']:,} "
        f"reviews. Words of at least {LEAST} texts, by strength (`benchmarks/drives.py`). "
        + measured_with(f"drives_{model}")
    )
    return f"\n{said}\n\n" + "\n".join(lines) + "\n\n"


def _cells(one: dict[str, Any]) -> str:
    word = one["word"].replace("*", r"\*").replace("|", r"\|")
    low, high = (f"{x:.2f}".replace("-", "−") for x in (one["low"], one["high"]))
    mean = f"{one['mean']:+.2f}".replace("-", "−")
    return f"{word} | {mean} | {low} to {high} | {one['texts']:,}"


if __name__ == "__main__":
    main()
