"""The output of a run: figures, tables, ``results.json`` and a report page."""

__all__ = [
    "NEED_LABELS",
    "GrowingReport",
    "ReportRow",
    "build_row",
    "build_rows",
    "describe_sources",
    "format_cell",
    "source_sentence",
    "table_to_csv",
]

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import final

from limelight.files import write_atomically
from limelight.provenance import describe_stamps
from limelight.rendering.figures import DOTS_PER_INCH, save_figure
from limelight_reproduction.experiment import Experiment, Table
from limelight_reproduction.registry import EXPERIMENTS
from limelight_reproduction.report_page import ReportRow, RunState, format_cell, report_page
from limelight_reproduction.results import PartResult, Results, results_to_json
from limelight_reproduction.setting import Need


def build_rows(
    results: Results,
    folder: Path | None,
    *,
    suffixes: Sequence[str] = (".png", ".svg"),
    dpi: int = DOTS_PER_INCH,
) -> Iterator[ReportRow]:
    """Yield a row for every experiment with complete results, and save its figures in ``folder``.

    Without a folder no figure is saved.
    """
    for experiment in EXPERIMENTS:
        parts = results.get(experiment.name, {})
        if all(part.name in parts for part in experiment.parts):
            yield build_row(experiment, parts, folder, suffixes=suffixes, dpi=dpi)


def build_row(
    experiment: Experiment,
    parts: Mapping[str, PartResult],
    folder: Path | None,
    *,
    suffixes: Sequence[str] = (".png", ".svg"),
    dpi: int = DOTS_PER_INCH,
) -> ReportRow:
    """Build the row of an experiment with complete results, and save its figures in ``folder``.

    Parameters
    ----------
    experiment
        The experiment.
    parts
        The results of all its parts, by name.
    folder
        Folder for the figures. With None they are not saved.
    suffixes
        File formats of the figures.
    dpi
        Resolution of bitmap figures.

    Returns
    -------
    The row of the report.
    """
    numbers = {part.name: parts[part.name].numbers for part in experiment.parts}
    figures = {}
    for name, caption, figure in experiment.figures(numbers) if experiment.figures else ():
        figures[name] = caption
        if folder is not None:
            for suffix in suffixes:
                save_figure(figure, folder / f"{name}{suffix}", dpi=dpi)
    findings = experiment.findings(numbers)
    return ReportRow(
        experiment=experiment,
        findings=findings,
        figures=figures,
        source=source_sentence(experiment, parts),
        stamp=describe_stamps(parts[part.name].stamp for part in experiment.parts),
        marks=[
            describe_sources(verdict.parts or list(numbers), parts) for verdict in findings.verdicts
        ],
    )


def describe_sources(names: Sequence[str], parts: Mapping[str, PartResult]) -> str:
    """Describe whether the numbers of the parts ``names`` were measured here or are stored."""
    measured = [name for name in names if not parts[name].stored]
    stored = [name for name in names if parts[name].stored]
    if not measured or not stored:
        return "measured here" if measured else "stored"
    return f"measured here: {_shorten_list(measured)}; stored: {_shorten_list(stored)}"


def _shorten_list(names: Sequence[str]) -> str:
    """Join names, but show only two of them and a count if there are more than three."""
    if len(names) <= 3:
        return ", ".join(names)
    return f"{', '.join(names[:2])} and {len(names) - 2} more"


NEED_LABELS: Mapping[Need, str] = {
    "gpu": "a GPU",
    "sick": "SICK's files in a folder sick",
    "pair-model": "a model of sentence pairs (--pair-model)",
    "images": "Fashion-MNIST's files in a folder fashion_mnist",
    "image-model": "a deep model of images (--image-model)",
    "text-model": "a deep classifier of film reviews (--text-model)",
}


def source_sentence(experiment: Experiment, parts: Mapping[str, PartResult]) -> str:
    """Describe for all parts how they were measured here, or why their stored results are used."""
    measured: dict[str, list[str]] = {}
    stored: dict[str, list[str]] = {}
    for part in experiment.parts:
        result = parts[part.name]
        if result.stored:
            needs = " and ".join(NEED_LABELS[need] for need in part.needs)
            reason = f"needs {needs}" if needs else "not asked for here"
            stored.setdefault(f"{reason}; {result.made_by}", []).append(part.name)
        else:
            run = f"{'quick' if result.quick else 'full'} run, seed {result.seed}"
            measured.setdefault(run, []).append(part.name)
    sentences = [f"Measured here: {_join_groups(measured)}."] if measured else []
    if stored:
        sentences.append(
            f"From the stored results of a full run: {_join_groups(stored)}; `limelight reproduce "
            f"--only {experiment.name}` makes them again where these needs are met."
        )
    return " ".join(sentences)


def _join_groups(groups: Mapping[str, Sequence[str]]) -> str:
    """Join groups of names, each with its description in parentheses."""
    return "; ".join(f"{', '.join(names)} ({label})" for label, names in groups.items())


@final
class GrowingReport:
    """A report in the folder ``output`` that is written again when new results arrive.

    ``model`` is a sentence about the model of the paper's recipe, and ``selected`` the number of
    parts of the run. The figures of an experiment are drawn again only if its numbers changed.
    """

    def __init__(self, output: Path, *, model: str, selected: int) -> None:
        self._output, self._model, self._selected = output, model, selected
        self._rows: dict[str, tuple[list[PartResult], ReportRow]] = {}

    def write(self, results: Results, *, done: int) -> Path:
        """Write the report after ``done`` parts and return the path of its page."""
        figures, tables = self._output / "figures", self._output / "tables"
        for folder in (figures, tables):
            folder.mkdir(parents=True, exist_ok=True)
        rows = [
            self._build_row(experiment, results[experiment.name], figures, tables)
            for experiment in EXPERIMENTS
            if all(part.name in results.get(experiment.name, {}) for part in experiment.parts)
        ]
        write_atomically(self._output / "results.json", results_to_json(results))
        page = self._output / "report.html"
        complete = {row.experiment.name for row in rows}
        missing = [experiment.name for experiment in EXPERIMENTS if experiment.name not in complete]
        state = RunState(model=self._model, missing=missing, done=done, selected=self._selected)
        write_atomically(page, report_page(rows, figures, results, state))
        return page

    def _build_row(
        self, experiment: Experiment, parts: Mapping[str, PartResult], figures: Path, tables: Path
    ) -> ReportRow:
        """Return the row of the last report if its numbers are unchanged, else build it again."""
        part_results = [parts[part.name] for part in experiment.parts]
        last_results, row = self._rows.get(experiment.name, (None, None))
        if row is None or last_results != part_results:
            row = build_row(experiment, parts, figures)
            if row.findings.table is not None:
                table_path = tables / f"{experiment.name}.csv"
                write_atomically(table_path, table_to_csv(row.findings.table))
            self._rows[experiment.name] = (part_results, row)
        return row


def table_to_csv(table: Table) -> str:
    """Return a table as CSV with unrounded numbers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows)
    return text.getvalue()
