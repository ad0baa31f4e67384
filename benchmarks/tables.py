"""Write tables of README.md and of docs/ from the JSON files: their numbers are those measured.

python benchmarks/tables.py            write
python benchmarks/tables.py --check    fail where the page and the files differ
"""

import argparse
import re
import sys
from pathlib import Path

from cluster_cost import cost_table
from drives import drives_table
from results import RESULTS, markdown, measured_with, read_result
from transformer_table import transformer_table

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "benchmarks" / "README.md"
STANDARD_ERRORS = DOCS / "standard-errors.md"
DATASETS = DOCS / "datasets.md"
CHOOSING = DOCS / "choosing.md"
LEARNED = DOCS / "methods" / "learned.md"
COEFFICIENTS = DOCS / "coefficients.md"
# Under a table that is written by hand: the results that its numbers come from.
MEASURED = re.compile(r"(<!-- measured: ([\w ]+) -->\n).*?(<!-- end of measured -->\n)", re.DOTALL)
ORDER = (
    "prediction",
    "gradients",
    "perturbation",
    "corpus",
    "corpus_cuda",
    "datasets",
    "summaries",
    "walk",
    "transformer_corpus_cuda",
    "serving",
    "judging",
    "judging_every",
    "judging_deep",
    "judging_cuda",
    "judging_cuda_every",
    "faithfulness_per_second_deep",
    "faithfulness_per_second_cuda",
    "ceilings",
    "linear",
    "linear_coefficients",
    "live",
    "huggingface",
    "huggingface_cuda",
    "model_speed",
    "model_speed_cuda",
    "coverage",
    "coverage_held_out",
    "coverage_pairs",
    "coverage_triples",
    "coverage_context_cite",
    "coverage_owen",
    "coverage_owen_cuda",
    "verdicts",
    "interval_candidates",
    "patches",
    "images",
    "extreme_games",
    "samplers",
    "samplers_cuda",
    "samplers_few",
    "answers",
    "answers_rivals",
    "long_documents_cuda",
    "lime_law",
    "learning",
    "learned_errors",
    "tags",
)
GAMES = {
    "smooth": "smooth",
    "peaked": "peaked",
    "rare": "rare effect",
    "smooth_rare": "smooth and rare",
    "zero_one": "0 or 1",
}


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for path, table, name in _tables():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        page = path.read_text(encoding="utf-8")
        head, rest = page.split(start)
        _, tail = rest.split(end)
        _write_page(path, page, head + start + table + end + tail, check=check)
    for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))):
        page = path.read_text(encoding="utf-8")
        _write_page(path, page, MEASURED.sub(_measured_block, page), check=check)


def _write_page(path: Path, page: str, new: str, *, check: bool) -> None:
    if new != page and check:
        sys.exit(f"{path.name} is not what its results say; run benchmarks/tables.py.")
    if new != page:
        path.write_text(new, encoding="utf-8")


def _measured_block(match: re.Match[str]) -> str:
    return f"{match[1]}\n{measured_with(*match[2].split())}\n\n{match[3]}"


def _tables() -> tuple[tuple[Path, str, str], ...]:
    """Return every table with its page and the name of the marks around it."""
    return (
        (README, sections(), "results"),
        (STANDARD_ERRORS, coverage_table(), "results"),
        (DATASETS, cost_table(), "results"),
        (CHOOSING, transformer_table(), "transformer"),
        (COEFFICIENTS, coefficient_table(), "results"),
        (LEARNED, learned_errors_table(), "learned errors"),
        (DATASETS, drives_table("shipped"), "shipped model"),
        (DATASETS, drives_table("minilm"), "MiniLM"),
    )


def sections() -> str:
    """Return one section per result file."""
    texts = []
    for name in ORDER:
        if (RESULTS / f"{name}.json").exists():
            found = read_result(name)
            texts.append(f"\n## {name}\n\n{_circumstances(found)}\n\n{markdown(found)}\n\n")
    return "".join(texts)


def coverage_table() -> str:
    """Return the share of ±2 standard errors that held, by method and kind of game."""
    found = read_result("coverage")
    rows: dict[str, dict[str, str]] = {}
    for measure in found["measures"]:
        method, game = measure["what"].split(": ")
        held, notices, _ = (float(part.split()[-1]) for part in measure["note"].split("; "))
        rows.setdefault(method, {})[game] = _cell(held, notices, measure["value"])
    lines = [
        f"| | {' | '.join(GAMES.values())} |",
        "| --- |" + " --- |" * len(GAMES),
        *(
            f"| {name} | {' | '.join(row[g] for g in GAMES.values())} |"
            for name, row in rows.items()
        ),
    ]
    return "\n" + "\n".join(lines) + f"\n\n{measured_with('coverage')}\n\n"


def coefficient_table() -> str:
    """Return what coefficient × value says beside exact values, one column for each data set."""
    found = read_result("linear_coefficients")
    rows: dict[str, list[str]] = {}
    columns: dict[str, str] = {}
    for measure in found["measures"]:
        title, what = measure["what"].split(": ", 1)
        columns[title] = measure["note"]
        rows.setdefault(what, []).append(f"{measure['value']:.3f}".replace("-", "−"))
    lines = [
        f"| | {' | '.join(columns)} |",
        "| --- |" + " ---: |" * len(columns),
        f"| texts | {' | '.join(columns.values())} |",
        *(f"| {what} | {' | '.join(cells)} |" for what, cells in rows.items()),
    ]
    return (
        "\n" + "\n".join(lines) + f"\n\n{found['data']}. {measured_with('linear_coefficients')}\n\n"
    )


def learned_errors_table() -> str:
    """Return how often ±2 standard errors of learned methods held, by model, texts and pairs."""
    found = read_result("learned_errors")
    rows: dict[str, list[str]] = {}
    pairs = dict.fromkeys(
        measure["what"].split(", ")[2].split(":")[0] for measure in found["measures"]
    )
    for measure in found["measures"]:
        row = ", ".join(measure["what"].split(", ")[:2])
        worst, wide = (part.split() for part in measure["note"].split("; "))
        cell = f"{measure['value']:.3f} ({worst[0]} at worst; {wide[2]} times)"
        rows.setdefault(row, []).append(cell)
    lines = [
        f"| ±2 standard errors hold | {' | '.join(pairs)} |",
        "| --- |" + " ---: |" * len(pairs),
        *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()),
    ]
    measured = measured_with("learned_errors")
    return "\n" + "\n".join(lines) + f"\n\n{found['data'].capitalize()}. {measured}\n\n"


def _cell(held: float, notices: float, either: float) -> str:
    """Return the share that held and, where notices came, how often, and what held or had one."""
    if notices < 0.005:
        return f"{held:.2f}"
    return f"{held:.2f} ({either:.2f}; {notices:.0%})"


def _circumstances(found: dict) -> str:
    machine, when = found["machine"], found["date"][:16].replace("T", " ")
    parts = [
        f"`{found['command']}`, {when} UTC",
        *([found["device"]] if "device" in found else []),
        f"{machine['cpu']}, {machine['cores']} cores"
        + (f", load {load} when it ended" if (load := machine["load"]) is not None else ""),
        found["data"],
        ", ".join(f"{name} {version}" for name, version in found["versions"].items()),
    ]
    return ". ".join(parts) + f". {measured_with(found['benchmark'])}"


if __name__ == "__main__":
    main()
