"""A sampling plan and the list of methods on a terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from limelight.pages.markup import table_html
from limelight.pages.terminal import ALL, Look, on_terminal, table_text
from limelight.results.method_table import MethodRow, WayRow
from limelight.results.plan import SamplingPlan
from limelight.results.table import Column, Table, plain_rows

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


@on_terminal(ALL)
def plan_text(plan: SamplingPlan, look: Look) -> Iterator[RenderableType]:
    """Yield the number of samples, then the features that need the most."""
    samples = plan.samples
    columns, values = [Column(), Column("samples", ",")], [samples.tolist()]
    if plan.overhead < _USUAL:
        columns.append(Column(f"± with {_USUAL:,}", ".2g"))
        values.append(plan.rmse(_USUAL).tolist())
    order = np.lexsort((-plan.deviation, -samples))[:_SHOWN].tolist()
    rows = [(plan.names[j], *(numbers[j] for numbers in values)) for j in order]
    yield look.line(plan_sentence(plan))
    yield Text()
    yield table_text(Table(columns, rows, left_out=len(samples) - len(rows)), look)
    if plan.notices:
        yield Text()
        yield from (look.line(notice, "dim") for notice in plan.notices)


EXACTNESS = {
    "bound": "exact, with a proven bound",
    "exact": "as defined, without sampling",
    "estimated": "by quadrature, its error estimated",
    "fitted": "fitted to sampled values, with standard errors",
    "sampled": "sampled, with standard errors",
}
MODELS = {
    "signals": "transformers that show their states",
    "collapses": "the paper's classifier",
    "games": "the paper's classifier and linear models of counted words",
    "attends": "models that show their attention",
    "relays": "models that mix tokens by attention alone",
    "differentiates": "models with gradients",
    "freezes": "networks whose weights can be frozen",
    None: "any other model",
}


@on_terminal(ALL)
def method_list(rows: Sequence[MethodRow], look: Look) -> Iterator[RenderableType]:
    """Yield what each method computes, sees and cannot see, with its settings."""
    for row in rows:
        title = look.line(row.id, "bold").append(look.safe(f"  {row.label}  "), "not bold")
        yield title.append("" if row.signed else "no sign", "not bold dim")
        yield Padding(_facts(row, look), (0, 0, 1, 2))


def method_html(rows: Sequence[MethodRow]) -> str:
    """Return the methods as an HTML table."""
    names = ("method", "computes", "sees", "cannot see", "how", "settings")
    cells = []
    for row in rows:
        settings = dict.fromkeys(s.name for way in row.ways for s in way.settings)
        how = row.refused or "; ".join(_how(way, several=len(row.ways) > 1) for way in row.ways)
        called = f"{row.id} {row.label}"
        cells.append((called, row.formula, row.sees, row.blind, how, ", ".join(settings)))
    return table_html(plain_rows(names, cells))


def _facts(row: MethodRow, look: Look) -> RichTable:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    facts = {"computes": row.formula, "sees": row.sees, "cannot see": row.blind, "cost": row.cost}
    for name, fact in facts.items():
        grid.add_row(name, look.line(fact))
    for way in row.ways:
        grid.add_row("how", look.line(_how(way, several=len(row.ways) > 1)))
        for one in way.settings:
            setting = look.line(f"{one.name}={one.default}", "bold")
            grid.add_row("", setting.append(look.safe(f"  {one.meaning}"), "not bold"))
    if row.refused is not None:
        grid.add_row("not here", look.line(row.refused))
    return grid


def _how(way: WayRow, *, several: bool) -> str:
    exactness = EXACTNESS[way.exactness]
    return f"{MODELS[way.needs]}: {exactness}" if several or way.needs else exactness
