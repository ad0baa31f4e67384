"""What a run leaves: figures, tables, ``results.json`` and a page to read."""

__all__ = [
    "WANTS",
    "GrowingReport",
    "Row",
    "csv_text",
    "mark_of",
    "row_of",
    "rows_of",
    "shown",
    "source_sentence",
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
from limelight_reproduction.report_page import Row, RunState, report_page, shown
from limelight_reproduction.results import Measured, Results, as_json
from limelight_reproduction.setting import Need


def rows_of(
    results: Results,
    folder: Path | None,
    *,
    suffixes: Sequence[str] = (".png", ".svg"),
    dpi: int = DOTS_PER_INCH,
) -> Iterator[Row]:
    """Yield every experiment that has all its parts; figures are drawn into ``folder`` if given."""
    for experiment in EXPERIMENTS:
        parts = results.get(experiment.name, {})
        if all(part.name in parts for part in experiment.parts):
            yield row_of(experiment, parts, folder, suffixes=suffixes, dpi=dpi)


def row_of(
    experiment: Experiment,
    parts: Mapping[str, Measured],
    folder: Path | None,
    *,
    suffixes: Sequence[str] = (".png", ".svg"),
    dpi: int = DOTS_PER_INCH,
) -> Row:
    """Return the row of an experiment that has all its parts, its figures drawn."""
    numbers = {part.name: parts[part.name].numbers for part in experiment.parts}
    figures = {}
    for name, caption, figure in experiment.figures(numbers) if experiment.figures else ():
        figures[name] = caption
        if folder is not None:
            for suffix in suffixes:
                save_figure(figure, folder / f"{name}{suffix}", dpi=dpi)
    findings = experiment.findings(numbers)
    return Row(
        experiment=experiment,
        findings=findings,
        figures=figures,
        source=source_sentence(experiment, parts),
        stamp=describe_stamps(parts[part.name].stamp for part in experiment.parts),
        marks=[mark_of(verdict.parts or list(numbers), parts) for verdict in findings.verdicts],
    )


def mark_of(names: Sequence[str], parts: Mapping[str, Measured]) -> str:
    """Say in a few words where the numbers of the parts ``names`` are from."""
    here = [name for name in names if not parts[name].stored]
    carried = [name for name in names if parts[name].stored]
    if not here or not carried:
        return "measured here" if here else "stored"
    return f"measured here: {_few(here)}; stored: {_few(carried)}"


def _few(names: Sequence[str]) -> str:
    return (
        ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
    )


WANTS: Mapping[Need, str] = {
    "gpu": "a graphics card",
    "sick": "SICK's files in a folder sick",
    "pair-model": "a model of sentence pairs (--pair-model)",
    "pictures": "Fashion-MNIST's files in a folder fashion_mnist",
    "picture-model": "a deep model of pictures (--picture-model)",
}


def source_sentence(experiment: Experiment, parts: Mapping[str, Measured]) -> str:
    """Say which parts were measured here and how, and which come from the stored results."""
    here: dict[str, list[str]] = {}
    carried: dict[str, list[str]] = {}
    for part in experiment.parts:
        one = parts[part.name]
        if one.stored:
            wants = " and ".join(WANTS[need] for need in part.needs)
            why = f"needs {wants}" if wants else "not asked for here"
            carried.setdefault(f"{why}; {one.made_by}", []).append(part.name)
        else:
            run = f"{'quick' if one.quick else 'full'} run, seed {one.seed}"
            here.setdefault(run, []).append(part.name)
    told = [f"Measured here: {_listed(here)}."] if here else []
    if carried:
        told.append(
            f"From the stored results of a full run: {_listed(carried)}; `limelight reproduce "
            f"--only {experiment.name}` makes them again where these needs are met."
        )
    return " ".join(told)


def _listed(groups: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{', '.join(names)} ({what})" for what, names in groups.items())


@final
class GrowingReport:
    """A report in the folder ``output``, written again as results of ``wanted`` parts come in.

    ``model`` says in a sentence which model of the paper's recipe it is about. An experiment is
    drawn again only where its numbers are others than the last time.
    """

    def __init__(self, output: Path, *, model: str, wanted: int) -> None:
        self._output, self._model, self._wanted = output, model, wanted
        self._rows: dict[str, tuple[list[Measured], Row]] = {}

    def write(self, results: Results, *, done: int) -> Path:
        """Write everything there is after ``done`` parts and return the page."""
        figures, tables = self._output / "figures", self._output / "tables"
        for folder in (figures, tables):
            folder.mkdir(parents=True, exist_ok=True)
        rows = [
            self._row(experiment, results[experiment.name], figures, tables)
            for experiment in EXPERIMENTS
            if all(part.name in results.get(experiment.name, {}) for part in experiment.parts)
        ]
        write_atomically(self._output / "results.json", as_json(results))
        page = self._output / "report.html"
        there = {row.experiment.name for row in rows}
        state = RunState(
            model=self._model,
            lacks=[experiment.name for experiment in EXPERIMENTS if experiment.name not in there],
            done=done,
            wanted=self._wanted,
        )
        write_atomically(page, report_page(rows, figures, results, state))
        return page

    def _row(
        self, experiment: Experiment, parts: Mapping[str, Measured], figures: Path, tables: Path
    ) -> Row:
        now = [parts[part.name] for part in experiment.parts]
        before, row = self._rows.get(experiment.name, (None, None))
        if row is None or before != now:
            row = row_of(experiment, parts, figures)
            if row.findings.table is not None:
                write_atomically(tables / f"{experiment.name}.csv", csv_text(row.findings.table))
            self._rows[experiment.name] = (now, row)
        return row


def csv_text(table: Table) -> str:
    """Return a table as CSV with its numbers in full."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows)
    return text.getvalue()
