"""``limelight check``."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from limelight.cases.case_file import read_case_file
from limelight.cases.check_cases import CheckResult, check_cases, load_case_model
from limelight.cases.reports import (
    results_json,
    results_junit,
    results_table,
    summarize_results,
)
from limelight.cli.console import error_console, output_console, print_results, write_strings
from limelight.cli.groups import INPUT, MODEL, OUTPUT
from limelight.errors import InputError
from limelight.files import is_device
from limelight.rendering.terminal import table_view

_FORMATS = {".xml": "junit", ".json": "json", ".jsonl": "json", ".txt": "terminal"}


def check(
    file: Annotated[Path, Parameter(group=INPUT)],
    /,
    *,
    model: Annotated[str | None, Parameter(group=MODEL)] = None,
    device: Annotated[str | None, Parameter(group=MODEL)] = None,
    format: Annotated[Literal["terminal", "json", "junit"] | None, Parameter(group=OUTPUT)] = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], group=OUTPUT)] = None,
) -> int:
    """Check a model against the requirements of a file, as a test in a build.

    The exit code is 0 if everything holds, 1 if a check fails, and 2 if the file is wrong or a
    check cannot be computed.

    Parameters
    ----------
    file
        A TOML file with the model, the texts, and what must hold for each text.
    model
        Check this model instead of the one in the file.
    device
        Device to compute on, such as "cpu" or "cuda".
    format
        Format of the results: "terminal" (a table), "json" (one object per line) or "junit" (XML
        for build servers). Default: the ending of the output file, otherwise "terminal".
    output
        Write the results to this file too, as .xml (JUnit), .json, .jsonl or .txt.
    """
    form = _select_format(format, output)
    case_file = read_case_file(file)
    results: list[CheckResult] = []
    with error_console().status("checking"):
        loaded_model = load_case_model(case_file, model=model, device=device)
        results.extend(check_cases(case_file, loaded_model))
    table, summary = table_view(results_table(results)), summarize_results(results)
    content = {"json": results_json(results), "junit": results_junit(results, file)}.get(form)
    if output is not None and content is None:
        print_results([table, summary], output)
    elif content is not None:
        write_strings([content], output)
    if output is not None or content is None:
        output_console().print(table, "", summary, sep="\n")
    outcomes = {result.outcome for result in results}
    return 2 if "error" in outcomes else 1 if "failed" in outcomes else 0


def _select_format(format: str | None, output: Path | None) -> str:
    """Return the format, or else the one that the ending of the output file implies."""
    if format is not None:
        return format
    if output is None or is_device(output):
        return "terminal"
    ending = output.suffix.lower()
    if ending not in _FORMATS:
        raise InputError(
            f"the name of an output file must end in {', '.join(_FORMATS)}, not '{output}'. "
            "Change it, or add --format."
        )
    return _FORMATS[ending]
