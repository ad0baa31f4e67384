"""How many samples LIME needs: its errors before any sample is drawn."""

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
from limelight.text import SIDES, append_sides, truncate_line
from limelight.theory.lime_shift import LimeShift, lime_shift, shift_scatter

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = ("feature", "score", "deviation", "samples", "side")
_BEYOND = 2**62  # samples: nobody draws them; a whole number must hold what a tiny error asks for


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SamplingPlan(EqualByFields, TableMixin):
    """Samples that bring LIME on one text within ``error`` of its limit, word by word.

    Two things keep a regression on n samples from it. It scatters: the standard error of feature j
    is ``deviation[j]`` / √(n − ``overhead``), where ``deviation`` is the limit of √n times it and
    ``overhead`` what a regression of so many words costs, (d + 1) samples of mean weight. And its
    penalty, ``ridge``, and ``row0``, the untouched text among the samples, hold it back by
    :meth:`bias`, which follows from the limit's ``scores`` and from ``left``, what they leave over
    of the whole text; what is held back scatters too, and :meth:`stderr` counts it. ``pilot`` is
    None where all this was computed without sampling, else the number of samples from which it was
    estimated. ``sides`` are those of an explanation: the text of a pair in which each feature
    stands, "" where there is one text.
    """

    text: str
    features: tuple[str, ...]
    sides: tuple[str, ...] = ()
    deviation: Float[np.ndarray, " d"]
    scores: Float[np.ndarray, " d"]
    left: float
    error: float
    overhead: int
    pilot: int | None = None
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
            raise InputError(f"error must be positive and finite; got {self.error}.")
        if self.sizes not in MASK_SIZE_POWERS:
            raise InputError(unknown_name_message("sizes", self.sizes, MASK_SIZE_POWERS))
        if not 1 <= self.overhead <= _BEYOND // 4:
            raise InputError(
                f"overhead must be a number of samples; got {truncate_line(str(self.overhead), 30)}."
            )
        d = len(self.features)
        if not d:
            raise InputError("a plan needs at least one feature; got none.")
        for name in ("deviation", "scores"):
            object.__setattr__(self, name, frozen_array(name, getattr(self, name), d))
        if (self.deviation < 0).any():
            raise InputError("a deviation must not be negative.")
        sides = self.sides or ("",) * d
        if len(sides) != d or not (set(sides) <= set(SIDES) or set(sides) == {""}):
            raise InputError(
                f"sides must be {' or '.join(map(repr, SIDES))} for each of the {d} "
                f"features of a pair; got {self.sides}."
            )
        object.__setattr__(self, "sides", sides)
        # Refused here, so that the search for a number of samples ends inside its range.
        if (self._reach(np.full(d, _BEYOND)) > self.error).any():
            raise InputError(
                f"more than {_BEYOND:.1e} samples would be needed for an error of {self.error:g}; "
                "ask for a larger one, or for another ridge or bandwidth."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The features as a reader can tell them apart: those of a pair with their side."""
        return append_sides(self.features, self.sides)

    @property
    def exact(self) -> bool:
        """Whether the errors were computed, not estimated from a pilot."""
        return self.pilot is None

    @property
    def samples(self) -> Int[np.ndarray, " d"]:
        """The number of samples with which each feature is within ``error``, by :meth:`rmse`.

        At least twice the ``overhead``: fewer do not determine a regression on all features. What
        the penalty and row 0 do is counted in full, to the scatter too, even where one thing
        happens to undo another.
        """
        # By halving: scatter, penalty and row 0 fall with n at rates of their own, and their sum
        # has no inverse.
        few = np.full(len(self.features), 2 * self.overhead, dtype=np.int64)
        many = np.full_like(few, _BEYOND)
        enough = self._reach(few) <= self.error
        many[enough] = few[enough]
        while (apart := many - few > 1).any():
            middle = few + (many - few) // 2
            enough = self._reach(middle) <= self.error
            many = np.where(apart & enough, middle, many)
            few = np.where(apart & ~enough, middle, few)
        return many

    def _reach(self, samples: Int[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        scatter = self.deviation + self._more_scatter(samples)
        return np.hypot(scatter / np.sqrt(samples - self.overhead), self._shift(samples).magnitude)

    def _shift(self, samples: int | Int[np.ndarray, " d"]) -> LimeShift:
        """What penalty and row 0 do to the scores with that many samples."""
        return lime_shift(self.scores, self.left, samples=samples, **self._pull())

    def _more_scatter(self, samples: int | Int[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """What they add to the scatter."""
        how = self._pull() | {"power": MASK_SIZE_POWERS[self.sizes]}
        return shift_scatter(self.scores, self.left, samples=samples, **how)

    def _pull(self) -> dict[str, Any]:
        return {"bandwidth": self.bandwidth, "ridge": self.ridge, "row0": self.row0}

    @property
    def needed(self) -> int:
        """The number of samples with which every feature is within ``error``."""
        return int(self.samples.max())

    def stderr(self, samples: int) -> Float[np.ndarray, " d"]:
        """Return the standard errors of LIME with that many samples."""
        _check_count(samples)
        if samples <= self.overhead:
            raise InputError(
                f"samples must exceed {self.overhead}, which the regression of "
                f"{len(self.features)} features takes; got {samples}."
            )
        scatter = np.hypot(self.deviation, self._more_scatter(samples))
        return scatter / math.sqrt(samples - self.overhead)

    def bias(self, samples: int) -> Float[np.ndarray, " d"]:
        """Return what penalty and row 0 add to the scores of LIME with that many samples."""
        _check_count(samples)
        return self._shift(samples).total

    def rmse(self, samples: int) -> Float[np.ndarray, " d"]:
        """Return the root mean square distance of LIME with that many samples to its limit."""
        return np.hypot(self.stderr(samples), self.bias(samples))

    def __repr__(self) -> str:
        how = "exact" if self.exact else f"from a pilot of {self.pilot}"
        return (
            f"<SamplingPlan for {truncate_line(self.text, 40)!r}: {self.needed} samples for an "
            f"error of {self.error:g}, {how}>"
        )

    def __rich__(self) -> "RenderableType":
        from limelight_reproduction.planning.plan_view import draw_plan  # needs rich

        return draw_plan(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the plan as JSON, without loss."""
        return encode_record(PlanRecord.from_result(self), indent)

    @classmethod
    def from_json(cls, content: str | bytes) -> "SamplingPlan":
        """Return the plan that :meth:`to_json` wrote."""
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
    if not samples >= 1:
        raise InputError(f"samples must be at least 1; got {samples}.")
    if samples > _BEYOND:
        raise InputError(f"samples must be at most {_BEYOND:.1e}, which nobody draws.")


# A key that nobody knows may change what the others mean: such a file is refused, not half read.
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
    warnings: tuple[str, ...]
    model: str
    version: str

    @classmethod
    def from_result(cls, plan: SamplingPlan) -> "PlanRecord":
        """Return the record of a plan."""
        own = {name: getattr(plan, name) for name in cls.__struct_fields__ if name != "schema"}
        own["bandwidth"] = "inf" if plan.bandwidth == math.inf else plan.bandwidth
        own["features"] = [PlannedFeature(text=row.pop("feature"), **row) for row in plan.rows()]
        return cls(schema="limelight.plan/1", **own)

    def to_result(self) -> SamplingPlan:
        """Return the plan of this record."""
        own = msgspec.structs.asdict(self)
        del own["schema"], own["needed"]
        rows = own.pop("features")
        return SamplingPlan(
            **own | {"bandwidth": float(self.bandwidth)},
            features=tuple(row.text for row in rows),
            sides=tuple(row.side for row in rows),
            deviation=np.array([row.deviation for row in rows], dtype=np.float64),
            scores=np.array([row.score for row in rows], dtype=np.float64),
        )
