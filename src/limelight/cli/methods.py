"""``limelight methods`` and ``limelight verify``."""

import json
from dataclasses import asdict

from limelight import checks
from limelight.checks import Check
from limelight.cli.console import error_console, output_console, tell
from limelight.cli.options import ModelOptions, Seed, TableOrJson
from limelight.explainers.registry import METHODS, method_table
from limelight.pages.terminal import shown_table
from limelight.results.table import Cell, Column, Table


def methods(
    *names: str,
    model: ModelOptions = ModelOptions(),  # noqa: B008  (it is frozen)
    format: TableOrJson = "terminal",
) -> None:
    """List the methods: what each computes, what it sees and what it cannot see.

    With a model, how each is computed for it, with the settings that hold there.

    Parameters
    ----------
    names
        Show only these.
    """
    table = method_table(None if model.model is None else model.load(), *names)
    for sentence in METHODS.broken.values():
        tell(sentence)
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
    text: str = TEXT,
    seed: Seed = 0,
    format: TableOrJson = "terminal",
) -> int:
    """Check every method on this model and text against an oracle that takes another road.

    Exits with 1 if a check fails.

    Parameters
    ----------
    text
        The text to check on; a short review if none is given.
    """
    made: list[Check] = []
    with error_console().status("checking"):
        for check in checks.verify(model.load(), text, seed=seed):
            made.append(check)
            if format == "json":
                print(json.dumps(asdict(check) | {"passed": check.passed}))
    if format == "terminal":
        output_console().print(shown_table(_table(made)))
    return 0 if all(check.passed for check in made) else 1


def _table(made: list[Check]) -> Table:
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
        for check in made
    ]
    return Table(columns, rows)
