"""What a benchmark found: measures with targets, as JSON and as a table."""

__all__ = [
    "RESULTS",
    "Measure",
    "cold",
    "command_line",
    "machine",
    "markdown",
    "report",
    "versions",
]

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from measuring import Usage

RESULTS = Path(__file__).parent / "results"
_PACKAGES = (
    "limelight",
    "numpy",
    "torch",
    "transformers",
    "captum",
    "lime",
    "shap",
    "scikit-learn",
)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One number. ``value`` is the median of the repeats and ``best`` their best, if there are
    several; ``at_least`` or ``below`` is what was wanted of ``value``.
    """

    id: str
    what: str
    value: float
    unit: str = ""
    best: float | None = None
    at_least: float | None = None
    below: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the value is what was wanted; None where nothing was."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.below is None else self.value < self.below


def cold(id: str, what: str, runs: Sequence[Usage], **wanted: float) -> Iterator[Measure]:
    """The time of whole processes on the clock, which a target is about, and of the processor.

    On a machine busy with other work only the second says much about the program.
    """
    clock, own = ([1000 * run[i] for run in runs] for i in (0, 1))
    named = {f"{id}": (clock, "on the clock", wanted), f"{id}_processor": (own, "processor", {})}
    for key, (times, kind, target) in named.items():
        label = f"{what}, {kind}"
        yield Measure(id=key, what=label, value=median(times), best=min(times), unit="ms", **target)


def command_line(about: str) -> argparse.ArgumentParser:
    """Return the arguments that every benchmark has."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--smoke", action="store_true", help="run everything once on tiny inputs")
    parser.add_argument("--output", type=Path, help="JSON file (default: benchmarks/results)")
    return parser


def report(
    name: str, measures: Sequence[Measure], arguments: argparse.Namespace, **context: Any
) -> None:
    """Print the measures, and write them with machine, date and versions."""
    found = {
        "benchmark": name,
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "smoke": arguments.smoke,
        "machine": machine(),
        "versions": versions(),
        **context,
        "measures": [{**asdict(measure), "met": measure.met} for measure in measures],
    }
    _show(found)
    output = arguments.output or (None if arguments.smoke else RESULTS / f"{name}.json")
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """Return processor, cores and how busy they are."""
    model = platform.processor()
    if (cpuinfo := Path("/proc/cpuinfo")).exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((line.split(": ")[1] for line in lines if "model name" in line), model)
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "load": round(os.getloadavg()[0], 2),
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that are measured or compared."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


_HEAD = ("", "median", "best", "unit", "wanted", "met", "")


def _cells(measure: dict[str, Any]) -> list[str]:
    low, high = measure["at_least"], measure["below"]
    wanted = f"≥ {_number(low)}" if low is not None else ""
    wanted = f"< {_number(high)}" if high is not None else wanted
    met = {None: "", True: "yes", False: "NO"}[measure["met"]]
    best = "" if measure["best"] is None else _number(measure["best"])
    value = _number(measure["value"])
    return [measure["what"], value, best, measure["unit"], wanted, met, measure["note"]]


def _number(x: float) -> str:
    if x == 0 or 1e-3 <= abs(x) < 1e7:
        return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"
    return f"{x:.1e}"


def markdown(found: dict[str, Any]) -> str:
    """Return the table of a JSON file as Markdown."""
    rows = [list(_HEAD), ["---", "---:", "---:", "---", "---:", "---", "---"]]
    rows += [_cells(measure) for measure in found["measures"]]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _show(found: dict[str, Any]) -> None:
    rows = [_cells(measure) for measure in found["measures"]]
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:  # a bare machine
        for row in rows:
            print("  ".join(cell for cell in row if cell))
        return
    table = Table(title=f"{found['benchmark']}, {found['machine']['cpu']}", title_justify="left")
    for i, title in enumerate(_HEAD):
        table.add_column(title, justify="right" if i in (1, 2, 4) else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console()
    if not console.is_terminal:
        console.width = 160
    console.print(table)
