"""The tables about human rationales (ERASER) on the results page, from the stored results."""

__all__ = ["eraser_tables"]

from collections.abc import Sequence
from typing import Any

from results import measured_with, read_result

SAME = 0.995  # rank correlation of methods that stand together
NAMES = {
    "chance": "*chance*",
    "rationale": "*the rationale itself*",
    "annotators": "*annotators against each other*",
}


def eraser_tables(model: str) -> str:
    """Return the tables of one model: faithfulness and plausibility, then rank correlations."""
    name = f"eraser_{model}"
    result = read_result(name)
    judged, values = result["judged"], {m["id"]: m["value"] for m in result["measures"]}
    plausible = judged["plausible"]
    circumstances = (
        f"{result['data']}. {plausible['texts']} of {judged['texts']} have marked words that the "
        f"model reads. They have {plausible['words']:.0f} occurrences of words in the mean, and "
        f"{plausible['marked']:.0%} of these are marked. The model is right on "
        f"{values[f'{name}_accuracy']:.0%} of the "
        f"reviews.{_time(result, values[f'{name}_seconds'])}"
    )
    agreement = "Rank correlations of the methods. The diagonal compares two seeds of a method."
    parts = [circumstances, _methods(judged), agreement, _agreement(judged), measured_with(name)]
    return "\n\n".join(parts)


def _time(found: dict[str, Any], seconds: float) -> str:
    """Say how long a GPU took. The clock of a shared processor says little."""
    return f" {seconds:.0f} s on {found['device']}." if "device" in found else ""


def _methods(judged: dict[str, Any]) -> str:
    faithful = {one["method"]: one for one in judged["faithful"]}
    plausible = judged["plausible"]
    kind = "ceiling" if judged["ceiling"] == "proven" else "best found"
    heads = (f"share of the {kind}", "average precision", "above chance", "model right")
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
        _number(one, "above_chance", "above_chance_interval"),
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
    pairs = [*judged["agreement"]["pairs"], *judged["agreement"]["reseeded_pairs"]]
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
