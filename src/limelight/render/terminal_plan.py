"""A sampling plan on a terminal."""

__all__ = ["plan_sentence", "plan_text"]

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from limelight.render.coloured_pieces import visible
from limelight.results.sampling_plan import SamplingPlan

_SHOWN = 10
_USUAL = 5000  # samples of the `lime` package


def plan_sentence(plan: SamplingPlan) -> str:
    """Say how many samples are needed, and how that is known."""
    how = (
        "computed without sampling"
        if plan.exact
        else f"estimated from a pilot of {plan.pilot:,} samples"
    )
    return (
        f"LIME needs {plan.needed:,} samples for a standard error of {plan.error:g} or less on "
        f"every word, {how}."
    )


def plan_text(plan: SamplingPlan) -> RenderableType:
    """Return the number of samples, then the words that need the most."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("word", overflow="ellipsis", no_wrap=True)
    table.add_column("samples", justify="right", no_wrap=True)
    usual = plan.overhead < _USUAL
    if usual:
        table.add_column(f"± with {_USUAL:,}", justify="right", no_wrap=True)
    order = np.argsort(-plan.deviation, kind="stable")[:_SHOWN].tolist()
    for j in order:
        cells = [Text(visible(plan.names[j])), Text(f"{plan.samples[j]:,}")]
        if usual:
            cells.append(Text(f"{plan.stderr(_USUAL)[j]:.2g}"))
        table.add_row(*cells)
    if left_out := len(plan.features) - len(order):
        table.add_row(Text(f"and {left_out} more", "dim"))
    parts: list[RenderableType] = [Text(plan_sentence(plan)), Text(), table]
    if plan.notices:
        parts += [Text(), *(Text(notice, "dim") for notice in plan.notices)]
    return Group(*parts)
