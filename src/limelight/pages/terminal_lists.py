"""A sampling plan and the list of methods on a terminal."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from limelight.pages.markup import Grid, part
from limelight.pages.pieces import visible
from limelight.results.method_table import MethodRow, SettingRow, WayRow
from limelight.results.plan import SamplingPlan

_SHOWN = 10
_USUAL = 5000  # samples of the `lime` package
_MANY = 1.5  # times the samples that scatter alone asks for: what is then said of the penalty


def plan_sentence(plan: SamplingPlan) -> str:
    """Say how many samples are needed, how that is known, and whether the penalty is why."""
    how = (
        "computed without sampling"
        if plan.exact
        else f"estimated from a pilot of {plan.pilot:,} samples"
    )
    needed, without = plan.needed, replace(plan, ridge=0.0).needed
    sentence = (
        f"LIME needs {needed:,} samples to come within {plan.error:g} of its limit in every "
        f"score, {how}."
    )
    if needed > _MANY * without:
        sentence += (
            f" Its penalty (ridge {plan.ridge:g}) is why: it shrinks the scores of few samples, "
            f"and without it {without:,} would do."
        )
    return sentence


def plan_text(plan: SamplingPlan) -> RenderableType:
    """Return the number of samples, then the features that need the most."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("")  # the one that gives way on a narrow terminal
    samples = plan.samples
    columns = {"samples": [f"{n:,}" for n in samples]}
    if plan.overhead < _USUAL:
        columns[f"± with {_USUAL:,}"] = [f"{x:.2g}" for x in plan.rmse(_USUAL)]
    for title in columns:
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    order = np.lexsort((-plan.deviation, -samples))[:_SHOWN].tolist()
    for j in order:
        name = Text(visible(plan.names[j]), no_wrap=True, overflow="ellipsis")
        table.add_row(name, *(cells[j] for cells in columns.values()))
    if left_out := len(plan.features) - len(order):
        table.add_row(Text(f"and {left_out} more", "dim"))
    parts: list[RenderableType] = [Text(plan_sentence(plan)), Text(), table]
    if plan.notices:
        parts += [Text(), *(Text(notice, "dim") for notice in plan.notices)]
    return Group(*parts)


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
    heads = ("method", "computes", "sees", "cannot see", "how", "settings")
    table = []
    for row in rows:
        settings = dict.fromkeys(s.name for way in row.ways for s in way.settings)
        how = row.refused or "; ".join(_how(way, several=len(row.ways) > 1) for way in row.ways)
        cells = (row.formula, row.sees, row.blind, how, ", ".join(settings))
        table.append((f"{row.id} {row.label}", *cells))
    return str(part("table", Grid(heads, table)))


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
