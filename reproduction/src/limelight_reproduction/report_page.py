"""The report as one page to read, which needs no network."""

__all__ = ["VERDICT_COLUMNS", "Row", "RunState", "report_page", "shown"]

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from limelight.pages.markup import Html, element, raw
from limelight_reproduction.experiment import Experiment, Findings, Table
from limelight_reproduction.results import Results

VERDICT_COLUMNS = ("claim or question", "verdict", "number", "numbers from")
_STYLE = Path(__file__).parent / "report.css"


@final
@dataclass(frozen=True, kw_only=True)
class Row:
    """An experiment, its findings, its figures (name: caption) and where its numbers are from."""

    experiment: Experiment
    findings: Findings
    figures: Mapping[str, str]
    source: str
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
            element("p", state.model),
            element("p", _unfinished(state), class_="unfinished") if _unfinished(state) else raw(),
            element("p", _counted(results), class_="source"),
            element("nav", _verdicts(rows)),
        ),
        element("main", *(_section(row, figures) for row in rows)),
        element(
            "footer",
            _left_out(state),
            "Made by limelight reproduce. This page asks for no network.",
        ),
    )
    page = element("head", head) + element("body", body)
    return f'<!doctype html>\n<html lang="en">{page}</html>\n'


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


def _verdicts(rows: Sequence[Row]) -> Html:
    """Return the claims, each with its verdict, its number, and where that is from."""
    head = element("tr", *(element("th", column, scope="col") for column in VERDICT_COLUMNS))
    lines = [
        element(
            "tr",
            element("td", element("a", one.claim, href=f"#{row.experiment.name}")),
            *(element("td", told) for told in (one.holds, one.number, mark)),
        )
        for row in rows
        for one, mark in zip(row.findings.verdicts, row.marks, strict=True)
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
