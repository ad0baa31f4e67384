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
# A letter with an index or an exponent, in text that says α_t, v_{h,t} or T_max^{ε−1}.
SYMBOL = re.compile(
    r"(?<![A-Za-zα-ω0-9_`/.\-\\])[A-Za-zα-ωΑ-Ω]"
    r"_(?:\{[^}]*\}|max|att|out|[a-zℓ0-9])(?![A-Za-z0-9])(?:\^(?:\{[^}]*\}|[ε\d])|ᵀ)?"
)
WORD_INDEX = re.compile(r"_(max|att|out)")
DEEP = HERE.parent / "benchmarks/results/judging_cuda_every.json"


def page(rows: list[ReportRow]) -> str:
    """Return the text of the page."""
    text = documentation_page(rows, IMAGES, deep_shares()).replace("e^entropy", "$e^{H}$")
    return f"<!-- generated -->\n\n{typeset(text)}"


def typeset(text: str) -> str:
    """Write symbols with an index or an exponent as TeX, except in code."""
    parts = re.split(r"(`[^`\n]*`)", text)  # every second part is code
    parts[::2] = [SYMBOL.sub(lambda match: f"${_tex(match[0])}$", part) for part in parts[::2]]
    return "".join(parts)


def _tex(symbol: str) -> str:
    symbol = WORD_INDEX.sub(r"_{\\mathrm{\1}}", symbol).replace("−", "-")
    return symbol.replace("ℓ", r"\ell").replace("ᵀ", r"^\top")


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
