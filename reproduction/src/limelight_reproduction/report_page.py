"""The report as one page to read, which needs no network."""

__all__ = ["VERDICT_COLUMNS", "Row", "RunState", "report_page", "shown"]

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from markupsafe import Markup

from limelight.rendering.markup import render_template
from limelight_reproduction.experiment import Experiment, Findings
from limelight_reproduction.results import Results

VERDICT_COLUMNS = ("claim or question", "verdict", "number", "numbers from")
_HERE = Path(__file__).parent


@final
@dataclass(frozen=True, kw_only=True)
class Row:
    """An experiment, its findings, its figures (name: caption) and where its numbers are from."""

    experiment: Experiment
    findings: Findings
    figures: Mapping[str, str]
    source: str
    stamp: str
    """The versions and commits of limelight that measured it, in a sentence."""
    marks: Sequence[str]
    """Of every verdict, in a few words, where its numbers are from: "measured here", "stored"."""


@final
@dataclass(frozen=True, kw_only=True)
class RunState:
    """Of which model a report speaks, which experiments it lacks, and how far its run is."""

    model: str
    """The model of the paper's recipe in a sentence."""
    lacks: Sequence[str]
    done: int
    wanted: int
    """Parts that were asked for, of which ``done`` are there or known to be missing."""


def shown(cell: Any, digits: int) -> str:
    """Return a cell as people read it."""
    if cell is None:
        return "–"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)


def report_page(rows: list[Row], figures: Path, results: Results, state: RunState) -> str:
    """Return one page that needs no network: what the paper shows, what we measured, what it
    means.
    """
    style = (_HERE / "report.css").read_text("utf-8")
    policy = f"default-src 'none'; style-src '{_digest(style)}'; img-src data:; base-uri 'none'"
    page = render_template(
        _HERE / "report.html",
        policy=Markup(policy),  # noqa: S704
        style=Markup(style),  # noqa: S704  our own file
        model=state.model,
        unfinished=_unfinished(state),
        counted=_counted(results),
        columns=VERDICT_COLUMNS,
        rows=[_section(row, figures) for row in rows],
        left_out=_left_out(state),
    )
    return str(page)


def _left_out(state: RunState) -> str:
    """Say which experiments the page lacks."""
    if not state.lacks:
        return ""
    why = "could neither be measured here nor taken from stored results"
    if state.done < state.wanted:
        why = f"is still to come, or {why}"
    return (
        f"Not on this page: {', '.join(state.lacks)}. They were not asked for, or a part of them "
        f"{why}. "
    )


def _unfinished(state: RunState) -> str:
    """Say how far the run is, "" where it is at its end."""
    if state.done == state.wanted:
        return ""
    return (
        f"This run is not finished: {state.done} of {state.wanted} parts so far. If it was "
        "stopped, the same command goes on from here."
    )


def _counted(results: Results) -> str:
    """Say how many parts were measured here, and which are stored."""
    every = [(name, one.stored) for name, parts in results.items() for one in parts.values()]
    names = dict.fromkeys(name for name, carried in every if carried)
    carried = sum(stored for _, stored in every)
    told = f"Parts measured here: {len(every) - carried} of {len(every)}."
    if carried:
        told += f" The other {carried} are those of a stored full run: in {', '.join(names)}."
    return told


def _section(row: Row, figures: Path) -> dict[str, Any]:
    """Return what the template shows of an experiment."""
    table = row.findings.table
    return {
        "name": row.experiment.name,
        "title": row.experiment.title,
        "paper": row.experiment.paper,
        "findings": row.findings,
        "verdicts": list(zip(row.findings.verdicts, row.marks, strict=True)),
        "figures": [
            (_address(figures / f"{name}.svg"), caption) for name, caption in row.figures.items()
        ],
        "table": table,
        "lines": [] if table is None else [[_cell(x, table.digits) for x in r] for r in table.rows],
        "source": f"{row.source} {row.stamp}",
    }


def _cell(value: Any, digits: int) -> tuple[str, bool]:
    """Return a cell as people read it, and whether it is a number."""
    return shown(value, digits), isinstance(value, int | float)


def _address(path: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
