"""What a run leaves: figures, tables, ``results.json`` and a page to read."""

__all__ = [
    "VERDICT_COLUMNS",
    "WANTS",
    "GrowingReport",
    "Row",
    "csv_text",
    "mark_of",
    "report_page",
    "row_of",
    "rows_of",
    "shown",
    "source_sentence",
]

import base64
import csv
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from limelight.files import write_whole
from limelight.render.figures import DOTS_PER_INCH, save_figure
from limelight.render.markup import Html, element, raw
from limelight_reproduction.experiment import Experiment, Findings, Table
from limelight_reproduction.registry import EXPERIMENTS
from limelight_reproduction.results import Measured, Results, as_json
from limelight_reproduction.setting import Need

VERDICT_COLUMNS = ("claim", "verdict", "number", "numbers from")
_STYLE = Path(__file__).parent / "report.css"


@final
@dataclass(frozen=True, kw_only=True)
class Row:
    """An experiment, its findings, its figures (name: caption) and where its numbers are from."""

    experiment: Experiment
    findings: Findings
    figures: Mapping[str, str]
    source: str
    mark: str
    """Where its numbers are from in a word or two: "measured now", "stored"."""


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
    return Row(
        experiment=experiment,
        findings=experiment.findings(numbers),
        figures=figures,
        source=source_sentence(experiment, parts),
        mark=mark_of(experiment, parts),
    )


def mark_of(experiment: Experiment, parts: Mapping[str, Measured]) -> str:
    """Say in a word or two how many parts were measured here."""
    here = sum(not parts[part.name].stored for part in experiment.parts)
    if here == len(experiment.parts):
        return "measured here"
    return f"{here} of {len(experiment.parts)} parts measured here" if here else "stored"


WANTS: Mapping[Need, str] = {
    "gpu": "a graphics card",
    "sick": "SICK's files in a folder sick",
    "pair-model": "a model of sentence pairs (--pair-model)",
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
    """A report in the folder ``output``, written again as results come in.

    An experiment is drawn again only where its numbers are others than the last time.
    """

    def __init__(self, output: Path) -> None:
        self._output = output
        self._rows: dict[str, tuple[list[Measured], Row]] = {}

    def write(self, results: Results) -> Path:
        """Write everything there is and return the page."""
        figures, tables = self._output / "figures", self._output / "tables"
        for folder in (figures, tables):
            folder.mkdir(parents=True, exist_ok=True)
        rows = [
            self._row(experiment, results[experiment.name], figures, tables)
            for experiment in EXPERIMENTS
            if all(part.name in results.get(experiment.name, {}) for part in experiment.parts)
        ]
        write_whole(self._output / "results.json", as_json(results))
        page = self._output / "report.html"
        write_whole(page, report_page(rows, figures, results))
        return page

    def _row(
        self, experiment: Experiment, parts: Mapping[str, Measured], figures: Path, tables: Path
    ) -> Row:
        now = [parts[part.name] for part in experiment.parts]
        before, row = self._rows.get(experiment.name, (None, None))
        if row is None or before != now:
            row = row_of(experiment, parts, figures)
            if row.findings.table is not None:
                write_whole(tables / f"{experiment.name}.csv", csv_text(row.findings.table))
            self._rows[experiment.name] = (now, row)
        return row


def csv_text(table: Table) -> str:
    """Return a table as CSV with its numbers in full."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows)
    return text.getvalue()


def shown(cell: Any, digits: int) -> str:
    """Return a cell as people read it."""
    if cell is None:
        return "–"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)


def report_page(rows: list[Row], figures: Path, results: Results) -> str:
    """Return one page that needs no network: what the paper shows, what we measured, what it
    means.
    """
    style = _STYLE.read_text("utf-8")
    policy = f"default-src 'none'; style-src '{_digest(style)}'; img-src data:; base-uri 'none'"
    head = raw(
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", "Attention Meets Post-hoc Interpretability, reproduced · limelight"),
        Html(f"<style>{style}</style>"),
    )
    body = raw(
        element(
            "header",
            element("h1", "“Attention Meets Post-hoc Interpretability”, reproduced"),
            element(
                "p",
                "Lopardo, Precioso and Garreau, ICML 2024. On the left what the paper shows, on "
                "the right what we measured, below what we think it means. The authors may see it "
                "differently.",
            ),
            element("p", _counted(results), class_="source"),
            element("nav", _verdicts(rows)),
        ),
        element("main", *(_section(row, figures) for row in rows)),
        element(
            "footer",
            _left_out(rows),
            "Made by limelight reproduce. This page asks for no network.",
        ),
    )
    page = element("head", head) + element("body", body)
    return f'<!doctype html>\n<html lang="en">{page}</html>\n'


def _left_out(rows: Sequence[Row]) -> str:
    """Say which experiments the page lacks."""
    there = {row.experiment.name for row in rows}
    names = [experiment.name for experiment in EXPERIMENTS if experiment.name not in there]
    if not names:
        return ""
    return (
        f"Not on this page: {', '.join(names)}. They were not asked for, or a part of them could "
        "neither be measured here nor taken from stored results. "
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


def _verdicts(rows: Sequence[Row]) -> Html:
    """Return the claims, each with its verdict, its number, and where that is from."""
    head = element("tr", *(element("th", column, scope="col") for column in VERDICT_COLUMNS))
    lines = [
        element(
            "tr",
            element("td", element("a", one.claim, href=f"#{row.experiment.name}")),
            *(element("td", told) for told in (one.holds, one.number, row.mark)),
        )
        for row in rows
        for one in row.findings.verdicts
    ]
    return element(
        "div",
        element("table", element("thead", head), element("tbody", *lines)),
        class_="table",
        tabindex="0",
    )


def _section(row: Row, figures: Path) -> Html:
    paper = element("div", element("h3", "The paper"), element("p", row.experiment.paper))
    sentences = element("ul", *(element("li", told) for told in row.findings.measured))
    ours = element("div", element("h3", "What we measured"), sentences)
    return element(
        "section",
        element("h2", row.experiment.title),
        element("p", row.findings.headline, class_="headline"),
        element("div", paper, ours, class_="sides"),
        *(_figure(figures / f"{name}.svg", caption) for name, caption in row.figures.items()),
        _table(row.findings.table) if row.findings.table else raw(),
        element("p", element("b", "What it means. "), row.findings.meaning, class_="meaning"),
        element("p", row.source, class_="source"),
        id=row.experiment.name,
    )


def _figure(path: Path, caption: str) -> Html:
    data = base64.b64encode(path.read_bytes()).decode()
    image = element("img", src=f"data:image/svg+xml;base64,{data}", alt=caption)
    return element("figure", image, element("figcaption", caption))


def _table(table: Table) -> Html:
    head = element("tr", *(element("th", column, scope="col") for column in table.columns))
    lines = [element("tr", *(_cell(cell, table.digits) for cell in row)) for row in table.rows]
    return element(
        "div",
        element("table", element("thead", head), element("tbody", *lines)),
        class_="table",
        tabindex="0",
    )


def _cell(cell: Any, digits: int) -> Html:
    number = isinstance(cell, int | float)
    return element("td", shown(cell, digits), class_="number" if number else None)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
