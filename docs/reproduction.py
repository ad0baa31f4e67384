"""Write docs/reproduction.md and its figures from the stored results.

python docs/reproduction.py
"""

import json
import re
from pathlib import Path

from limelight_reproduction.markdown import documentation_page
from limelight_reproduction.report import ReportRow, build_rows
from limelight_reproduction.results import load_stored_results
from limelight_reproduction.trust import DeepShares

HERE = Path(__file__).parent
PAGE, IMAGES = HERE / "reproduction.md", "images/reproduction"
DEEP = HERE.parent / "benchmarks/results/judging_cuda_every.json"


def page(rows: list[ReportRow]) -> str:
    """Return the text of the page."""
    return f"<!-- generated -->\n\n{documentation_page(rows, IMAGES, deep_shares())}"


def deep_shares() -> DeepShares:
    """Read the shares of attention and Shapley values on MiniLM from a benchmark."""
    measures = json.loads(DEEP.read_text("utf-8"))["measures"]
    by_id = {measure["id"]: measure for measure in measures}

    def share(name: str) -> tuple[float, float, float]:
        low, high = re.findall(r"interval (\S+) to (\S+)", by_id[name]["note"])[0]
        return by_id[name]["value"], float(low), float(high)

    return DeepShares(attention=share("alpha-avg"), shapley=share("shapley, pairs=25"))


def main() -> None:
    """Write the page and its figures."""
    (HERE / IMAGES).mkdir(parents=True, exist_ok=True)
    rows = list(build_rows(load_stored_results(), HERE / IMAGES, suffixes=(".png",), dpi=110))
    PAGE.write_text(page(rows), "utf-8")


if __name__ == "__main__":
    main()
