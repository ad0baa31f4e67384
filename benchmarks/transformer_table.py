"""The table of all methods on a deep model: the share that each reaches and what it costs."""

__all__ = ["transformer_table"]

from results import Measure, find_result, measured_with, read_result, stored_measures

_SHARES = "judging_cuda_every"
_TIMES = {
    "seconds, one core": "faithfulness_per_second_deep",
    "seconds, H200": "faithfulness_per_second_cuda",
}


def transformer_table() -> str:
    """Return a row for every method, best first; times that nobody has taken are left open."""
    shares = _measures(_SHARES)
    times = {title: _measures(name) for title, name in _TIMES.items()}
    shown = {title: found for title, found in times.items() if found}
    lines = [
        "| method | share | " + " | ".join(shown) + " |" if shown else "| method | share |",
        "| --- | --- |" + " ---: |" * len(shown),
    ]
    for name, one in sorted(shares.items(), key=lambda item: -item[1].value):
        low, high = one.note.removeprefix("95 % interval ").split(" to ")
        method, _, setting = name.partition(", ")
        cells = [
            f"`{method}`" + (f", `{setting}`" if setting else ""),
            f"{one.value:.2f} [{float(low):.2f}, {float(high):.2f}]".replace("-", "−"),
            *(_seconds(found.get(f"{name} seconds")) for found in shown.values()),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    names = [name for name in (_SHARES, *_TIMES.values()) if find_result(name).exists()]
    return "\n" + "\n".join(lines) + f"\n\n{measured_with(*names)}\n\n"


def _measures(name: str) -> dict[str, Measure]:
    if not find_result(name).exists():
        return {}
    return {one.id: one for one in stored_measures(read_result(name))}


def _seconds(found: Measure | None) -> str:
    if found is None:
        return "–"
    seconds = found.value
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}"
