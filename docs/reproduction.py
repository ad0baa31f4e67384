"""Write docs/reproduction.md, its figures and the table of Theorem 5.1 from the stored results.

python docs/reproduction.py
"""

import json
import re
from pathlib import Path

from limelight_reproduction.markdown import documentation_page, repairs_table
from limelight_reproduction.report import ReportRow, build_rows
from limelight_reproduction.results import load_stored_results
from limelight_reproduction.trust import DeepShares

HERE = Path(__file__).parent
PAGE, IMAGES = HERE / "reproduction.md", "images/reproduction"
THEOREM = HERE / "theorems" / "lime-theorem.md"
DEEP = HERE.parent / "benchmarks/results/judging_cuda_every.json"
MARKS = re.compile(r"(<!-- from results\.json -->\n).*?(<!-- end -->)", re.DOTALL)


def page(rows: list[ReportRow]) -> str:
    """Return the text of the page."""
    return f"<!-- generated -->\n\n{documentation_page(rows, IMAGES, deep_shares())}"


def deep_shares() -> DeepShares:
    """Return what `benchmarks/judging.py` found on MiniLM."""
    found = json.loads(DEEP.read_text("utf-8"))
    of = {measure["id"]: measure for measure in found["measures"]}

    def share(name: str) -> tuple[float, float, float]:
        low, high = re.findall(r"interval (\S+) to (\S+)", of[name]["note"])[0]
        return of[name]["value"], float(low), float(high)

    return DeepShares(attention=share("alpha-avg"), shapley=share("shapley, pairs=25"))


def theorem() -> str:
    """Return the page of Theorem 5.1 with its table between the marks."""
    return _marked(THEOREM, f"\n{repairs_table()}\n")


def _marked(page: Path, lines: str) -> str:
    return MARKS.sub(lambda found: f"{found[1]}{lines}\n{found[2]}", page.read_text("utf-8"))


def main() -> None:
    """Write everything."""
    (HERE / IMAGES).mkdir(parents=True, exist_ok=True)
    rows = list(build_rows(load_stored_results(), HERE / IMAGES, suffixes=(".png",), dpi=110))
    PAGE.write_text(page(rows), "utf-8")
    THEOREM.write_text(theorem(), "utf-8")


if __name__ == "__main__":
    main()
