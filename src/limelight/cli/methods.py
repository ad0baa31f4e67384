"""``limelight methods`` and ``limelight verify``."""

import json
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from limelight import verification
from limelight.cli.console import error_console, output_console, print_stderr
from limelight.cli.groups import INPUT
from limelight.cli.options import Format, ModelOptions, Seed
from limelight.explainers.registry import METHODS, method_table
from limelight.rendering.terminal import table_view
from limelight.results.table import Cell, Column, Table
from limelight.verification import Check


def methods(
    *names: Annotated[str, Parameter(group=INPUT)],
    model: ModelOptions = ModelOptions(),  # noqa: B008  (it is frozen)
    format: Format = "terminal",
) -> None:
    """List the methods, with the definition, the limits and the settings of each.

    With --model, the list also shows how each method is computed for the model.

    Parameters
    ----------
    names
        Show only these methods.
    """
    table = method_table(None if model.model is None else model.load(), *names)
    for sentence in METHODS.load_errors.values():
        print_stderr(sentence)
    if format == "json":
        for row in table:
            print(json.dumps(row.to_dict(), ensure_ascii=False))
        return
    output_console().print(table)


TEXT = (
    "The plot is predictable, but the acting is superb. I did not expect to like it, and for the "
    "first half hour I did not; then the story finds its feet and never lets go."
)


def verify(
    *,
    model: ModelOptions = ModelOptions(),  # noqa: B008
    text: Annotated[str, Parameter(group=INPUT, show_default=False)] = TEXT,
    seed: Seed = 0,
    format: Format = "terminal",
) -> int:
    """Check every method on a model and a text against a reference implementation.

    If a check fails, the exit code is 1.

    Parameters
    ----------
    text
        Text to check on. Default: a short review.
    """
    checks: list[Check] = []
    with error_console().status("checking"):
        for check in verification.verify(model.load(), text, seed=seed):
            checks.append(check)
            if format == "json":
                print(json.dumps(asdict(check) | {"passed": check.passed}))
    if format == "terminal":
        output_console().print(table_view(_check_table(checks)))
    return 0 if all(check.passed for check in checks) else 1


def _check_table(checks: list[Check]) -> Table:
    """Return a table of the checks of methods, with their errors and the allowed errors."""
    columns = (
        Column("method", fold=True),
        Column("against", fold=True),
        Column("error", "s"),
        Column("allowed", ".1e"),
        Column(),
    )
    rows = [
        (
            check.method,
            check.against,
            f"{check.error:.1e} {check.unit or ''}".rstrip(),
            check.allowed,
            Cell("ok", "ok") if check.passed else Cell("FAILED", "failed"),
        )
        for check in checks
    ]
    return Table(columns, rows)
