"""A sampling plan on a terminal."""

__all__ = ["plan_sentence", "plan_text"]

from dataclasses import replace

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from limelight.render.coloured_pieces import visible
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
