"""Terminal view of a sampling plan."""

__all__ = ["draw_plan"]

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from limelight.rendering.terminal import FULL_WIDTH, SHOWN_FEATURES, Look, table_text, terminal_view
from limelight.results.table import Column, Table
from limelight_reproduction.planning.sampling_plan import SamplingPlan

_DEFAULT_SAMPLES = 5000  # of the `lime` package
_PENALTY_RATIO = 1.5  # with more samples than this times those for scatter, name the penalty


def _needed_sentence(plan: SamplingPlan) -> str:
    """Describe the needed samples, their computation, and the effect of the penalty."""
    origin = (
        "computed without sampling"
        if plan.exact
        else f"estimated from a pilot of {plan.pilot:,} samples"
    )
    needed = plan.needed_samples
    without_penalty = replace(plan, ridge=0.0).needed_samples
    sentence = (
        f"LIME needs {needed:,} samples to come within {plan.error:g} of its limit in every "
        f"score, {origin}."
    )
    if needed > _PENALTY_RATIO * without_penalty:
        sentence += (
            f" Its penalty (ridge {plan.ridge:g}) is why: it shrinks the scores of few samples, "
            f"and without it {without_penalty:,} would do."
        )
    return sentence


@terminal_view(FULL_WIDTH)
def draw_plan(plan: SamplingPlan, look: Look) -> Iterator[RenderableType]:
    """Yield the number of samples, then the features that need the most samples."""
    samples = plan.samples
    columns, values = [Column(), Column("samples", ",")], [samples.tolist()]
    if plan.overhead < _DEFAULT_SAMPLES:
        columns.append(Column(f"± with {_DEFAULT_SAMPLES:,}", ".2g"))
        values.append(plan.rmse(_DEFAULT_SAMPLES).tolist())
    order = np.lexsort((-plan.deviation, -samples))[:SHOWN_FEATURES].tolist()
    rows = [(plan.names[j], *(numbers[j] for numbers in values)) for j in order]
    yield look.line(_needed_sentence(plan))
    yield Text()
    yield table_text(Table(columns, rows, left_out=len(samples) - len(rows)), look)
    if plan.warnings:
        yield Text()
        yield from (look.line(warning, "dim") for warning in plan.warnings)
