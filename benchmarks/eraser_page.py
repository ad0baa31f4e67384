"""Write the ERASER tables of docs/judging.md from the result files: its numbers were measured.

python benchmarks/eraser_page.py            write
python benchmarks/eraser_page.py --check    fail where the page and the files differ
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from results import RESULTS, measured_with, read_result

PAGE = Path(__file__).resolve().parents[1] / "docs" / "judging.md"
BLOCK = re.compile(r"(<!-- (eraser_\w+) -->\n).*?(<!-- end -->\n)", re.S)
SAME = 0.995  # rank correlation of methods that stand together
NAMES = {
    "chance": "*guessing*",
    "rationale": "*the rationale itself*",
    "annotators": "*annotators against each other*",
}


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    page = PAGE.read_text(encoding="utf-8")
    new = BLOCK.sub(lambda m: m[1] + section(m[2]) + m[3], page)
    if not parser.parse_args().check:
        PAGE.write_text(new, encoding="utf-8")
    elif new != page:
        sys.exit("docs/judging.md is not what its results say; run benchmarks/eraser_page.py.")


def section(name: str) -> str:
    """Return what is said of one model, or that nothing was measured."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return f"\nThere is no `benchmarks/results/{name}.json` yet.\n\n"
    found = read_result(name)
    judged, values = found["judged"], {m["id"]: m["value"] for m in found["measures"]}
    plausible = judged["plausible"]
    circumstances = (
        f"`{found['command']}`: {found['data']}, of which {judged['texts']} can tell methods "
        f"apart and {plausible['texts']} have marked words that the model reads "
        f"({plausible['words']:.0f} occurrences in the mean, {plausible['marked']:.0%} of them "
        f"marked). The model is right on {values[f'{name}_accuracy']:.0%} of the "
        f"reviews.{_time(found, values[f'{name}_seconds'])} {measured_with(name)}"
    )
    parts = [circumstances, judged["verdict"], plausible["verdict"], _methods(judged)]
    return "\n" + "\n\n".join([*parts, _agreement(judged)]) + "\n\n"


def _time(found: dict[str, Any], seconds: float) -> str:
    """Say how long a graphics card took; a shared processor's clock says little."""
    return f" {seconds:.0f} s on {found['device']}." if "device" in found else ""


def _methods(judged: dict[str, Any]) -> str:
    faithful = {one["method"]: one for one in judged["faithful"]}
    plausible = judged["plausible"]
    kind = "ceiling" if judged["ceiling"] == "proven" else "best found"
    heads = (f"share of the {kind}", "average precision", "above guessing", "model right")
    rows = [["", *heads, "model wrong", "R-precision", "token F1", "IOU F1"], ["---"] * 9]
    by_name = {one["method"]: one for one in plausible["methods"]}
    for name, one in faithful.items():
        precision, above, *others = _plausible(by_name[name])
        apart = [_number(plausible[f"above_where_{kind}"], name) for kind in ("right", "wrong")]
        share = _number(one, "share", "interval")
        rows.append([name, share, precision, above, *apart, *others])
    for one in plausible["references"]:
        precision, above, *others = _plausible(one)
        above = "" if one["method"] == "chance" else above
        rows.append([NAMES[one["method"]], "", precision, above, "", "", *others])
    return _table(rows)


def _plausible(one: dict[str, Any]) -> list[str]:
    return [
        _number(one, "precision"),
        _number(one, "above", "above_interval"),
        _number(one, "r_precision"),
        _number(one, "token_f1"),
        _number(one, "iou_f1"),
    ]


def _number(one: dict[str, Any], name: str, interval: str = "") -> str:
    if one[name] is None:
        return "–"
    ends = one.get(interval)
    bracket = "" if ends is None else f" [{ends[0]:.3f}, {ends[1]:.3f}]"
    return f"{one[name]:.3f}{bracket}".replace("-", "−")


def _agreement(judged: dict[str, Any]) -> str:
    """Return the rank correlations of methods; on the diagonal those with another seed.

    Methods that order words as another does stand with it in one row.
    """
    pairs = [*judged["agreement"]["pairs"], *judged["agreement"]["again"]]
    rank = {frozenset(one["methods"].split()): one["rank"] for one in pairs}
    groups: dict[str, list[str]] = {}
    for one in (one["method"] for one in judged["faithful"]):
        same = [g for g in groups if (rank.get(frozenset((one, g))) or 0) >= SAME]
        groups.setdefault(same[0] if same else one, []).append(one)
    names = list(groups)
    rows = [["", *names], ["---"] * (len(names) + 1)]
    for one in names:
        found = [rank.get(frozenset((one, other))) for other in names]
        rows.append(
            [
                ", ".join(groups[one]),
                *("" if x is None else f"{x:.2f}".replace("-", "−") for x in found),
            ]
        )
    return _table(rows)


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    main()
