"""``limelight methods``."""

__all__ = ["methods"]

import json
from typing import Any, Literal

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from limelight.cli.console import output_console
from limelight.explainers import METHODS, Method, find_method, settings_of


def methods(*names: str, format: Literal["terminal", "json"] = "terminal") -> None:
    """List the methods: what each computes, what it sees and what it cannot see.

    Parameters
    ----------
    names
        Show only these.
    format
        A list for people, or one JSON object per line for programs.
    """
    rows = [find_method(name) for name in names] or list(METHODS.values())
    if format == "json":
        for row in rows:
            print(json.dumps(_record(row), ensure_ascii=False))
        return
    output_console().print(Group(*map(_entry, rows)))


def _record(row: Method) -> dict[str, Any]:
    fields = ("id", "label", "formula", "sees", "blind", "cost", "signed")
    return {name: getattr(row, name) for name in fields} | {"settings": dict(settings_of(row))}


def _entry(row: Method) -> RenderableType:
    title = Text.assemble(
        (row.id, "bold"), f"  {row.label}  ", ("" if row.signed else "no sign", "dim")
    )
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("computes", Text(row.formula))
    table.add_row("sees", Text(row.sees))
    table.add_row("cannot see", Text(row.blind))
    table.add_row("cost", Text(row.cost))
    if settings := settings_of(row):
        table.add_row("settings", Text(", ".join(f"{k}={v}" for k, v in settings.items())))
    return Group(title, Padding(table, (0, 0, 1, 2)))
