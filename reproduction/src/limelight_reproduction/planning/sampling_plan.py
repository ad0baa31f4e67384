"""Sampling plans: LIME's errors by the number of samples, before any sample is drawn."""

__all__ = ["SamplingPlan"]

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from limelight import InputError
from limelight.errors import unknown_name_message
from limelight.explainers import MASK_SIZE_POWERS
from limelight.results.codec import decode_record, encode_record
from limelight.results.mixins import TableMixin
from limelight.results.table import Table, plain_table
from limelight.results.values import EqualByFields, frozen_array
from limelight.shapes import Float, Int
from limelight.text import SIDES, append_parts, truncate_line
from limelight.theory.lime_shift import LimeShift, lime_shift, shift_scatter

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = ("feature", "score", "deviation", "samples", "side")
_MAX_SAMPLES = 2**62  # more than anybody draws; the count for a tiny error fits into an int64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SamplingPlan(EqualByFields, TableMixin):
    """The samples that each word needs until LIME is within ``error`` of its limit.

    A regression on n samples has two errors. First, it scatters: the standard error of feature j is
    ``deviation[j]`` / √(n − ``overhead``). Second, the penalty ``ridge`` and ``row0`` cause a
    :meth:`bias`. They add a little scatter too, which :meth:`stderr` includes.
    """

    text: str
    features: tuple[str, ...]
    sides: tuple[str, ...] = ()
    """The text of a pair to which each feature belongs; "" for a single text."""
    deviation: Float[np.ndarray, " d"]
    """The limit of √n times the standard error of each score."""
    scores: Float[np.ndarray, " d"]
    """The limits of the scores."""
    full_residual: float
    """The model's output for the full text minus the intercept and the sum of the scores."""
    error: float
    overhead: int
    """Number of samples that the d + 1 coefficients of the regression use up."""
    pilot: int | None = None
    """Number of samples for the estimates; None if all numbers are computed exactly."""
    target: str
    against: str | None = None
    scale: str = "logit"
    bandwidth: float = 0.25
    ridge: float = 1.0
    row0: bool = True
    sizes: str = "uniform"
    replacement: str = "unk"
    warnings: tuple[str, ...] = ()
    model: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.error < math.inf:
            raise InputError(f"error must be positive and finite, not {self.error}.")
        if self.sizes not in MASK_SIZE_POWERS:
            raise InputError(unknown_name_message("sizes", self.sizes, MASK_SIZE_POWERS))
        if not 1 <= self.overhead <= _MAX_SAMPLES // 4:
            raise InputError(
                "overhead must be a number of samples, not "
                f"{truncate_line(str(self.overhead), 30)}."
            )
        d = len(self.features)
        if not d:
            raise InputError("a plan needs at least one feature.")
        for name in ("deviation", "scores"):
            object.__setattr__(self, name, frozen_array(name, getattr(self, name), d))
        if (self.deviation < 0).any():
            raise InputError("a deviation must not be negative.")
        sides = self.sides or ("",) * d
        if len(sides) != d or not (set(sides) <= set(SIDES) or set(sides) == {""}):
            raise InputError(
                f"sides must be {' or '.join(map(repr, SIDES))} for each of the {d} features of a "
                f"pair, not {self.sides}."
            )
        object.__setattr__(self, "sides", sides)
        # Checked here, so that the search in `samples` ends within its range.
        if (self._total_error(np.full(d, _MAX_SAMPLES)) > self.error).any():
            raise InputError(
                f"an error of {self.error:g} needs more than {_MAX_SAMPLES:.1e} samples. Set a "
                "larger error, or another ridge or bandwidth."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features; those of a pair include the text to which they belong."""
        return append_parts(self.features, self.sides)

    @property
    def exact(self) -> bool:
        """Whether the errors are computed exactly instead of estimated from a pilot."""
        return self.pilot is None

    @property
    def samples(self) -> Int[np.ndarray, " d"]:
        """The number of samples with which each feature is within ``error``.

        It is at least twice the ``overhead``, because fewer samples do not determine a regression
        on all features. The effects of the penalty and of row 0 are added as absolute values, even
        if they cancel in :meth:`rmse`.
        """
        # Bisection, because scatter, penalty and row 0 decrease with n at different rates and
        # their sum has no inverse.
        lower = np.full(len(self.features), 2 * self.overhead, dtype=np.int64)
        upper = np.full_like(lower, _MAX_SAMPLES)
        is_enough = self._total_error(lower) <= self.error
        upper[is_enough] = lower[is_enough]
        while (unfinished := upper - lower > 1).any():
            middle = lower + (upper - lower) // 2
            is_enough = self._total_error(middle) <= self.error
            upper = np.where(unfinished & is_enough, middle, upper)
            lower = np.where(unfinished & ~is_enough, middle, lower)
        return upper

    def _total_error(self, samples: Int[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """Return the root of the squared scatter plus the squared sum of the absolute biases."""
        scatter = self.deviation + self._added_scatter(samples)
        return np.hypot(scatter / np.sqrt(samples - self.overhead), self._shift(samples).magnitude)

    def _shift(self, samples: int | Int[np.ndarray, " d"]) -> LimeShift:
        """Return the shift of the scores by the penalty and by row 0."""
        return lime_shift(
            self.scores, self.full_residual, samples=samples, **self._shift_settings()
        )

    def _added_scatter(self, samples: int | Int[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """Return the scatter that the penalty and row 0 add."""
        settings = self._shift_settings() | {"power": MASK_SIZE_POWERS[self.sizes]}
        return shift_scatter(self.scores, self.full_residual, samples=samples, **settings)

    def _shift_settings(self) -> dict[str, Any]:
        return {"bandwidth": self.bandwidth, "ridge": self.ridge, "row0": self.row0}

    @property
    def needed_samples(self) -> int:
        """The number of samples with which all features are within ``error``."""
        return int(self.samples.max())

    def stderr(self, samples: int) -> Float[np.ndarray, " d"]:
        """Return LIME's standard errors with ``samples`` samples."""
        _check_count(samples)
        if samples <= self.overhead:
            raise InputError(
                f"samples must exceed {self.overhead}, the minimum for {len(self.features)} "
                f"features, not {samples}."
            )
        scatter = np.hypot(self.deviation, self._added_scatter(samples))
        return scatter / math.sqrt(samples - self.overhead)

    def bias(self, samples: int) -> Float[np.ndarray, " d"]:
        """Return the bias of LIME's scores by the penalty and by row 0 with ``samples`` samples."""
        _check_count(samples)
        return self._shift(samples).total

    def rmse(self, samples: int) -> Float[np.ndarray, " d"]:
        """Return the root mean square error of LIME's scores with ``samples`` samples."""
        return np.hypot(self.stderr(samples), self.bias(samples))

    def __repr__(self) -> str:
        origin = "exact" if self.exact else f"from a pilot of {self.pilot}"
        return (
            f"<SamplingPlan for {truncate_line(self.text, 40)!r}: {self.needed_samples} samples "
            f"for an error of {self.error:g}, {origin}>"
        )

    def __rich__(self) -> "RenderableType":
        from limelight_reproduction.planning.plan_view import draw_plan  # needs rich

        return draw_plan(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the plan as JSON, without loss of precision."""
        return encode_record(PlanRecord.from_result(self), indent)

    @classmethod
    def from_json(cls, content: str | bytes) -> "SamplingPlan":
        """Read a plan from the output of :meth:`to_json`."""
        record: PlanRecord = decode_record(content, PlanRecord)
        return record.to_result()

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per feature, in the order of the text."""
        numbers = (self.scores.tolist(), self.deviation.tolist(), self.samples.tolist())
        columns = (self.features, *numbers, self.sides)
        return [dict(zip(_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]

    def _table(self) -> Table:
        return plain_table(_COLUMNS, [list(row.values()) for row in self.rows()])


def _check_count(samples: int) -> None:
    """Raise `InputError` if ``samples`` is not a usable number of samples."""
    if not samples >= 1:
        raise InputError(f"samples must be at least 1, not {samples}.")
    if samples > _MAX_SAMPLES:
        raise InputError(f"samples must be at most {_MAX_SAMPLES:.1e}.")


# A file with an unknown key is rejected, because the key may change the meaning of other keys.
class PlannedFeature(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One feature in the JSON of a plan.

    ``samples`` follows from the other numbers and is written for readers. Only features of a pair
    have a ``side``.
    """

    text: str
    score: float
    deviation: float
    samples: int
    side: Literal["", "first", "second"] = ""


class PlanRecord(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The JSON object that ``SamplingPlan.to_json`` writes."""

    schema: Literal["limelight.plan/1"]
    text: str
    target: str
    against: str | None
    scale: str
    error: float
    needed_samples: int = msgspec.field(name="needed")
    overhead: int
    full_residual: float = msgspec.field(name="left")
    pilot: int | None
    bandwidth: float | Literal["inf"]
    ridge: float
    row0: bool
    sizes: str
    replacement: str
    features: list[PlannedFeature]
    warnings: tuple[str, ...]
    model: str
    version: str

    @classmethod
    def from_result(cls, plan: SamplingPlan) -> "PlanRecord":
        """Return the JSON record of a plan."""
        fields = {name: getattr(plan, name) for name in cls.__struct_fields__ if name != "schema"}
        fields["bandwidth"] = "inf" if plan.bandwidth == math.inf else plan.bandwidth
        fields["features"] = [PlannedFeature(text=row.pop("feature"), **row) for row in plan.rows()]
        return cls(schema="limelight.plan/1", **fields)

    def to_result(self) -> SamplingPlan:
        """Return the plan of this JSON record."""
        fields = msgspec.structs.asdict(self)
        del fields["schema"], fields["needed_samples"]
        rows = fields.pop("features")
        return SamplingPlan(
            **fields | {"bandwidth": float(self.bandwidth)},
            features=tuple(row.text for row in rows),
            sides=tuple(row.side for row in rows),
            deviation=np.array([row.deviation for row in rows], dtype=np.float64),
            scores=np.array([row.score for row in rows], dtype=np.float64),
        )
