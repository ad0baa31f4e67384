"""``limelight summarize``."""

__all__ = ["summarize"]

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limelight.cli.result import FIGURES, chosen_format, show, write
from limelight.errors import InputError
from limelight.results.summary import RunDifference, RunSummary


def summarize(
    run: Path,
    *,
    method: Annotated[str | None, Parameter(name=["--method", "-m"])] = None,
    by: str = "length",
    top: int = 20,
    representatives: int = 8,
    against: Path | None = None,
    format: str | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
) -> None:
    """Say what drives a model over a whole data set: words, mistakes, slices.

    Parameters
    ----------
    run
        Folder of a run, which "limelight explain --data … --output FOLDER" wrote.
    method
        Show only this method of the run; by default each has its own view.
    by
        What the texts are sliced by: "length", "label", a column that was carried along, or "none".
        By a column of times, slices show drift.
    top
        Words on either side, phrases and mistakes that are shown.
    representatives
        Representative texts that are picked.
    against
        Folder of another run: show what differs from it instead.
    format
        "terminal", "json", "csv" or "html"; by default what the name of the output file says.
    output
        Write to this file instead of standard output.
    """
    from limelight.runs import Run

    form = chosen_format(format, output)
    if form in FIGURES:
        raise InputError(f"a summary is written as terminal, json, csv or html; got {form}.")
    opened = Run(run)
    found: RunSummary | RunDifference
    if against is not None:
        found = opened.against(Run(against), method)
    else:
        found = opened.summary(
            method, by=None if by == "none" else by, top=top, representatives=representatives
        )
    match form:
        case "json":
            write([found.to_json() + "\n"], output)
        case "csv":
            write([found.to_csv()], output)
        case "html":
            write([found.as_html()], output)
        case _:
            show([found], output)
