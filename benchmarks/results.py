"""What a benchmark found: measures with targets, as JSON and as a table."""

__all__ = [
    "RESULTS",
    "STAMP",
    "Measure",
    "cold",
    "command_line",
    "find_result",
    "machine",
    "markdown",
    "measured_with",
    "read_result",
    "report",
    "stored_arguments",
    "stored_measures",
    "versions",
    "write_result",
]

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from limelight.provenance import describe_stamps, source_stamp
from measuring import Usage

RESULTS = Path(__file__).parent / "results"
STUDIES = Path(__file__).parents[1] / "reproduction" / "studies" / "results"
STAMP = source_stamp()  # of the code that was loaded: it may be edited while a benchmark runs
_PACKAGES = (
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
    several; ``at_least`` or ``below`` is what was wanted of ``value``. ``stamp`` is that of the
    earlier run that measured it; None for a number of this run. ``sampler`` is the digest of the
    sampler whose coverage it is; None for another kind of number.
    """

    id: str
    what: str
    value: float
    unit: str = ""
    best: float | None = None
    at_least: float | None = None
    below: float | None = None
    note: str = ""
    stamp: Mapping[str, str] | None = None
    sampler: str | None = None

    @property
    def met(self) -> bool | None:
        """Whether the value is what was wanted; None where nothing was."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.below is None else self.value < self.below

    def as_row(self) -> dict[str, Any]:
        """Return what a result file holds."""
        row = {**asdict(self), "met": self.met}
        return {k: v for k, v in row.items() if v is not None or k not in ("stamp", "sampler")}


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
    parser.add_argument(
        "--output", type=Path, help="JSON file (default: in results beside the program)"
    )
    return parser


def report(
    name: str, measures: Sequence[Measure], arguments: argparse.Namespace, **context: Any
) -> None:
    """Print the measures, and write them with the stamp of this run, machine, date and versions.

    A measure of an earlier run keeps the stamp of that run.
    """
    found = {
        "benchmark": name,
        "command": " ".join(["python", *stored_arguments(sys.argv)]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "smoke": arguments.smoke,
        "stamp": STAMP,
        "machine": machine(),
        "versions": versions(),
        **context,
        "measures": [measure.as_row() for measure in measures],
    }
    _show(found)
    results = Path(sys.argv[0]).resolve().parent / "results"
    output = arguments.output or (None if arguments.smoke else results / f"{name}.json")
    if output is not None:
        write_result(output, found)


def stored_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of a command without its output and without the folders of a machine."""
    skips_next = False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if skips_next or name == "--output":
            skips_next = argument == "--output"
        elif Path(value if equals else argument).is_absolute():
            yield f"{name}={Path(value).name}" if equals else Path(argument).name
        else:
            yield argument


def write_result(path: Path, found: Mapping[str, Any]) -> None:
    """Write a result as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def find_result(name: str) -> Path:
    """Return the file of a stored result of a benchmark or a study."""
    study = STUDIES / f"{name}.json"
    return study if study.exists() else RESULTS / f"{name}.json"


def read_result(name: str) -> dict[str, Any]:
    """Return the stored result of a benchmark or a study."""
    content: dict[str, Any] = json.loads(find_result(name).read_text(encoding="utf-8"))
    return content


def stored_measures(found: Mapping[str, Any]) -> list[Measure]:
    """Return the measures of a result, each with the stamp of the run that measured it."""
    rows = [{"stamp": found["stamp"], **row} for row in found.get("measures", [])]
    return [Measure(**{key: row[key] for key in row if key != "met"}) for row in rows]


def measured_with(*names: str) -> str:
    """Say with which versions and commits the stored results ``names`` were measured."""
    stamps = []
    for found in map(read_result, names):
        stamps += [row.stamp or found["stamp"] for row in stored_measures(found)] or [
            found["stamp"]
        ]
    return describe_stamps(stamps)


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
    """Return the versions of Python and of the packages that limelight uses or is compared with."""
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
    """Return the measures of a result as a table in Markdown: what, value and target."""
    rows = ["| measure | value | target |", "| --- | ---: | ---: |"]
    for what, value, _, unit, target, met, _ in map(_cells, found["measures"]):
        missed = ", missed" if met == "NO" else ""
        rows.append(f"| {what} | {value}{f' {unit}' if unit else ''} | {target}{missed} |")
    return "\n".join(rows)


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
