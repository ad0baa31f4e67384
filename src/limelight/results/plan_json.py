"""Sampling plans as JSON, read strictly."""

__all__ = ["PlanRecord", "plan_from_json", "plan_to_json"]

import math
from typing import Literal

import msgspec
import numpy as np

from limelight.errors import InputError
from limelight.results.sampling_plan import SamplingPlan


class PlannedFeature(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One feature of a plan; ``samples`` follows from the rest and is there for readers.

    Only features of a pair have a ``side``.
    """

    text: str
    score: float
    deviation: float
    samples: int
    side: Literal["", "first", "second"] = ""


class PlanRecord(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What ``SamplingPlan.to_json`` writes."""

    schema: Literal["limelight.plan/1"]
    text: str
    target: str
    against: str | None
    scale: str
    error: float
    needed: int
    overhead: int
    left: float
    pilot: int | None
    bandwidth: float | Literal["inf"]
    ridge: float
    row0: bool
    sizes: str
    replacement: str
    features: list[PlannedFeature]
    notices: list[str]
    model: str
    version: str


_SAME = ("text", "target", "against", "scale", "error", "overhead", "left", "pilot")
_ALSO = ("ridge", "row0", "sizes", "replacement", "model", "version")


def plan_to_json(plan: SamplingPlan, *, indent: int | None = None) -> str:
    """Return ``plan`` as JSON."""
    record = PlanRecord(
        schema="limelight.plan/1",
        **{name: getattr(plan, name) for name in (*_SAME, *_ALSO)},
        needed=plan.needed,
        bandwidth="inf" if plan.bandwidth == math.inf else plan.bandwidth,
        features=[
            PlannedFeature(text=feature, **row)
            for feature, row in ((row.pop("feature"), row) for row in plan.rows())
        ],
        notices=list(plan.notices),
    )
    content = msgspec.json.encode(record)
    return (content if indent is None else msgspec.json.format(content, indent=indent)).decode()


def plan_from_json(content: str | bytes) -> SamplingPlan:
    """Return the plan that :func:`plan_to_json` wrote."""
    try:
        record = msgspec.json.decode(content, type=PlanRecord)
    except RecursionError:
        raise InputError("this is not a limelight plan: it is nested too deep.") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InputError(f"this is not a limelight plan: {error}.") from None
    return SamplingPlan(
        **{name: getattr(record, name) for name in (*_SAME, *_ALSO)},
        bandwidth=float(record.bandwidth),
        features=tuple(row.text for row in record.features),
        sides=tuple(row.side for row in record.features),
        deviation=np.array([row.deviation for row in record.features], dtype=np.float64),
        scores=np.array([row.score for row in record.features], dtype=np.float64),
        notices=tuple(record.notices),
    )
