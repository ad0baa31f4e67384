"""Write into the page of every method how faithful it was found to be, as benchmarks stored it.

python docs/methods/shares.py
"""

import json
import re
from pathlib import Path

from limelight.explainers import METHODS
from limelight.explainers.method import Method
from limelight.provenance import describe_stamps

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results"
SHIPPED, DEEP = "judging_every", "judging_cuda_every"  # 110 reviews of about 100 words, the same
START, END = "<!-- shares -->\n", "<!-- end of shares -->\n"
BLOCK = re.compile(re.escape(START) + ".*?" + re.escape(END) + "\n", re.DOTALL)
ABOUT = (
    "Share of the way from a random order of the words to the best one ([judging](../judging.md)), "
    "with its 95 % interval over 110 reviews of about 100 words:"
)


def measured(result: str) -> dict[str, list[tuple[str, str]]]:
    """Return, for each method that was judged, its settings and its share as text."""
    path = RESULTS / f"{result}.json"
    found: dict[str, list[tuple[str, str]]] = {}
    for one in json.loads(path.read_text("utf-8"))["measures"]:
        method, _, setting = one["id"].partition(", ")
        low, high = re.findall(r"-?\d\.\d+", one["note"])
        share = f"{one['value']:.3f} [{low}, {high}]".replace("-", "−")
        found.setdefault(method, []).append((setting, share))
    return found


def block(method: Method) -> str:
    """Return what a page says of the share of its method on the two models."""
    rows = (
        ("the shipped model, one layer", measured(SHIPPED).get(method.id), "not measured"),
        ("MiniLM, six layers", measured(DEEP).get(method.id), _without_layers(method)),
    )
    told = [f"| {model} | {_shares(found) or missing} |" for model, found, missing in rows]
    table = "\n".join(("| model | share |", "| --- | --- |", *told))
    return f"{START}{ABOUT}\n\n{table}\n\n{_measured_with(SHIPPED, DEEP)}\n{END}\n"


def _measured_with(*results: str) -> str:
    """Say with which versions and commits of limelight the results were measured."""
    stamps = []
    for result in results:
        found = json.loads((RESULTS / f"{result}.json").read_text("utf-8"))
        stamps += [measure.get("stamp", found["stamp"]) for measure in found["measures"]]
    return describe_stamps(stamps)


def _shares(found: list[tuple[str, str]] | None) -> str:
    return "; ".join(f"{share} with `{s}`" if s else share for s, share in found or ())


def _without_layers(method: Method) -> str:
    """Say why a deep model has no share: a method may need one that collapses into tables."""
    collapsing = all(used.needs in ("tables", "exact_game") for used in method.implementations)
    return "refused: it is not defined there" if collapsing else "not measured"


def page_with_shares(name: str) -> str:
    """Return the page of a method with its shares brought up to date."""
    text = BLOCK.sub("", (HERE / f"{name}.md").read_text("utf-8"))
    head, oracle, tail = text.partition("## Oracle\n")
    return head + block(METHODS[name]) + oracle + tail


if __name__ == "__main__":
    for name in METHODS:
        (HERE / f"{name}.md").write_text(page_with_shares(name), "utf-8")
