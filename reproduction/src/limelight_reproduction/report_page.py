"""The report as one HTML page that needs no network."""

__all__ = ["VERDICT_COLUMNS", "ReportRow", "RunState", "format_cell", "report_page"]

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from markupsafe import Markup

from limelight.rendering.markup import render_template
from limelight_reproduction.experiment import Experiment, Findings, Table
from limelight_reproduction.results import Results

VERDICT_COLUMNS = ("claim or question", "verdict", "number", "numbers from")
_HERE = Path(__file__).parent


@final
@dataclass(frozen=True, kw_only=True)
class ReportRow:
    """An experiment, its findings, its figures (name: caption) and the source of its numbers."""

    experiment: Experiment
    findings: Findings
    figures: Mapping[str, str]
    source: str
    stamp: str
    """A sentence with the versions and commits of limelight that measured the experiment."""
    marks: Sequence[str]
    """The source of each verdict's numbers, for example "measured here" or "stored"."""


@final
@dataclass(frozen=True, kw_only=True)
class RunState:
    """The model of a run, the experiments without results, and the number of finished parts."""

    model: str
    """A sentence about the model of the paper's recipe."""
    missing: Sequence[str]
    done: int
    selected: int
    """Number of selected parts. ``done`` of them are finished or cannot be measured."""


def format_cell(cell: Any, digits: int) -> str:
    """Format a table cell for readers, floats with ``digits`` decimals."""
    if cell is None:
        return "–"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)


def report_page(rows: list[ReportRow], figures: Path, results: Results, state: RunState) -> str:
    """Return the report as an HTML page that contains its style and figures.

    Parameters
    ----------
    rows
        The experiments with results.
    figures
        The folder of the figures.
    results
        All numbers.
    state
        The progress of the run.

    Returns
    -------
    The HTML of the page.
    """
    style = (_HERE / "report.css").read_text("utf-8")
    digest = _style_digest(style)
    policy = f"default-src 'none'; style-src '{digest}'; img-src data:; base-uri 'none'"
    page = render_template(
        _HERE / "report.html",
        policy=Markup(policy),  # noqa: S704
        style=Markup(style),  # noqa: S704  our own file
        model=state.model,
        progress=_progress_sentence(state),
        counts=_count_sentence(results),
        columns=VERDICT_COLUMNS,
        rows=[_template_values(row, figures) for row in rows],
        missing=_missing_sentence(state),
    )
    return str(page)


def _missing_sentence(state: RunState) -> str:
    """Name the experiments that are missing on the page, or return an empty text."""
    if not state.missing:
        return ""
    reason = "could neither be measured here nor taken from stored results"
    if state.done < state.selected:
        reason = f"is still to come, or {reason}"
    return (
        f"Not on this page: {', '.join(state.missing)}. They were not asked for, or a part of them "
        f"{reason}. "
    )


def _progress_sentence(state: RunState) -> str:
    """Say how many parts are finished, or return an empty text after the last part."""
    if state.done == state.selected:
        return ""
    return (
        f"This run is not finished: {state.done} of {state.selected} parts so far. If it was "
        "stopped, the same command goes on from here."
    )


def _count_sentence(results: Results) -> str:
    """Count the parts that were measured here and the parts with stored results."""
    parts = [
        (experiment, result.stored)
        for experiment, by_part in results.items()
        for result in by_part.values()
    ]
    experiments = dict.fromkeys(experiment for experiment, is_stored in parts if is_stored)
    stored = sum(is_stored for _, is_stored in parts)
    sentence = f"Parts measured here: {len(parts) - stored} of {len(parts)}."
    if stored:
        sentence += (
            f" The other {stored} are those of a stored full run: in {', '.join(experiments)}."
        )
    return sentence


def _template_values(row: ReportRow, figures: Path) -> dict[str, Any]:
    """Return the values of an experiment that the HTML template needs."""
    table = row.findings.table
    return {
        "name": row.experiment.name,
        "title": row.experiment.title,
        "paper": row.experiment.paper,
        "findings": row.findings,
        "verdicts": list(zip(row.findings.verdicts, row.marks, strict=True)),
        "figures": [
            (_data_url(figures / f"{name}.svg"), caption) for name, caption in row.figures.items()
        ],
        "table": table,
        "lines": _table_lines(table),
        "source": f"{row.source} {row.stamp}",
    }


def _table_lines(table: Table | None) -> list[list[tuple[str, bool]]]:
    """Format the cells of a table; without a table return no lines."""
    if table is None:
        return []
    return [[_cell(value, table.digits) for value in line] for line in table.rows]


def _cell(value: Any, digits: int) -> tuple[str, bool]:
    """Format a cell for readers, and say whether it is a number."""
    return format_cell(value, digits), isinstance(value, int | float)


def _data_url(path: Path) -> str:
    """Return an SVG file as a data URL."""
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"


def _style_digest(text: str) -> str:
    """Return the SHA-256 of a style sheet in the form of a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
