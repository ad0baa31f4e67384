"""The methods as a list for a terminal, or as a table for a notebook."""

__all__ = ["EXACTNESS", "MODELS", "method_html", "method_list"]

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from limelight.render.markup import Html, element
from limelight.results.method_table import MethodRow, SettingRow, WayRow

EXACTNESS = {
    "bound": "exact, with a proven bound",
    "exact": "as defined, without sampling",
    "estimated": "by quadrature, its error estimated",
    "sampled": "sampled, with standard errors",
}
MODELS = {
    "collapses": "the paper's classifier",
    "attends": "models that show their attention",
    "relays": "models that mix tokens by attention alone",
    "differentiates": "models with gradients",
    "freezes": "networks whose weights can be frozen",
    None: "any other model",
}


def method_list(rows: Sequence[MethodRow]) -> RenderableType:
    """Return what each method computes, sees and cannot see, with its settings."""
    return Group(*map(_entry, rows))


def method_html(rows: Sequence[MethodRow]) -> str:
    """Return the methods as an HTML table."""
    names = ("method", "computes", "sees", "cannot see", "how", "settings")
    head = element("tr", *(element("th", name) for name in names))
    return element("table", element("thead", head), element("tbody", *map(_html_row, rows)))


def _html_row(row: MethodRow) -> Html:
    settings = dict.fromkeys(s.name for way in row.ways for s in way.settings)
    how = row.refused or "; ".join(_how(way, several=len(row.ways) > 1) for way in row.ways)
    cells = (row.formula, row.sees, row.blind, how, ", ".join(settings))
    name = element("td", element("b", row.id), f" {row.label}")
    return element("tr", name, *(element("td", cell) for cell in cells))


def _entry(row: MethodRow) -> RenderableType:
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
    for way in row.ways:
        table.add_row("how", Text(_how(way, several=len(row.ways) > 1)))
        for setting in way.settings:
            table.add_row("", _setting(setting))
    if row.refused is not None:
        table.add_row("not here", Text(row.refused))
    return Group(title, Padding(table, (0, 0, 1, 2)))


def _how(way: WayRow, *, several: bool) -> str:
    exactness = EXACTNESS[way.exactness]
    return f"{MODELS[way.needs]}: {exactness}" if several or way.needs else exactness


def _setting(setting: SettingRow) -> Text:
    return Text.assemble((f"{setting.name}={setting.default}", "bold"), f"  {setting.meaning}")
