"""What a run leaves: figures, tables, ``results.json`` and a page to read."""

__all__ = ["Row", "csv_text", "report_page", "rows_of", "shown", "source_sentence", "write_report"]

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

_STYLE = Path(__file__).parent / "report.css"


@final
@dataclass(frozen=True, kw_only=True)
class Row:
    """An experiment, its findings, its figures (name: caption) and where its numbers are from."""

    experiment: Experiment
    findings: Findings
    figures: Mapping[str, str]
    source: str


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
        if any(part.name not in parts for part in experiment.parts):
            continue
        numbers = {part.name: parts[part.name].numbers for part in experiment.parts}
        figures = {}
        for name, caption, figure in experiment.figures(numbers) if experiment.figures else ():
            figures[name] = caption
            if folder is not None:
                for suffix in suffixes:
                    save_figure(figure, folder / f"{name}{suffix}", dpi=dpi)
        yield Row(
            experiment=experiment,
            findings=experiment.findings(numbers),
            figures=figures,
            source=source_sentence(experiment, parts),
        )


_WANTS = {"paper": "the paper's model", "gpu": "a graphics card"}


def source_sentence(experiment: Experiment, parts: Mapping[str, Measured]) -> str:
    """Say which parts were measured here and how, and which come from the stored results."""
    here: dict[str, list[str]] = {}
    carried: dict[str, list[str]] = {}
    for part in experiment.parts:
        one = parts[part.name]
        if one.stored:
            why = f"needs {_WANTS[part.needs]}" if part.needs else "not asked for here"
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


def write_report(output: Path, results: Results) -> Path:
    """Write everything under ``output`` and return the page."""
    figures, tables = output / "figures", output / "tables"
    for folder in (figures, tables):
        folder.mkdir(parents=True, exist_ok=True)
    rows = list(rows_of(results, figures))
    for row in rows:
        if row.findings.table is not None:
            write_whole(tables / f"{row.experiment.name}.csv", csv_text(row.findings.table))
    write_whole(output / "results.json", as_json(results))
    page = output / "report.html"
    write_whole(page, report_page(rows, figures))
    return page


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


def report_page(rows: list[Row], figures: Path) -> str:
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
            element("nav", element("dl", *(part for row in rows for part in _entry(row)))),
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


def _entry(row: Row) -> tuple[Html, Html]:
    """Return a line of the summary: the title, which leads to the section, and the finding."""
    link = element("a", row.experiment.title, href=f"#{row.experiment.name}")
    return element("dt", link), element("dd", row.findings.headline)


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
