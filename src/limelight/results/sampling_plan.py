"""How many samples LIME needs: its standard errors before any sample is drawn."""

__all__ = ["SamplingPlan"]

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from limelight.errors import InputError
from limelight.results.data_frame import data_frame
from limelight.results.equality import equal_fields
from limelight.shapes import Float, Int
from limelight.text import SIDES, one_line, with_sides

if TYPE_CHECKING:
    from rich.console import RenderableType

PLAN_COLUMNS = ("feature", "deviation", "samples", "side")


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SamplingPlan:
    """Samples that bring the standard error of LIME on one text down to ``error``, word by word.

    With n samples the standard error of feature j is ``deviation[j]`` / √(n − ``overhead``):
    ``deviation`` is the limit of √n times it, and ``overhead`` what a regression of so many words
    costs, (d + 1) samples of mean weight. ``pilot`` is None where the deviations were computed
    without sampling, else the number of samples from which they were estimated. ``sides`` are those
    of an explanation: the text of a pair in which each feature stands, "" where there is one text.
    """

    text: str
    features: tuple[str, ...]
    sides: tuple[str, ...] = ()
    deviation: Float[np.ndarray, " d"]
    error: float
    overhead: int
    pilot: int | None = None
    target: str
    against: str | None = None
    scale: str = "logit"
    bandwidth: float = 0.25
    sizes: str = "uniform"
    replacement: str = "unk"
    notices: tuple[str, ...] = ()
    model: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.error < math.inf:
            raise InputError(f"error must be positive and finite; got {self.error}.")
        own = np.array(self.deviation, dtype=np.float64)
        if own.shape != (len(self.features),) or not len(own):
            raise InputError(
                f"deviation must hold one number per feature ({len(self.features)}); "
                f"got shape {own.shape}."
            )
        if not (np.isfinite(own) & (own >= 0)).all():
            raise InputError("a deviation must be finite and not negative.")
        sides = self.sides or ("",) * len(own)
        if len(sides) != len(own) or not (set(sides) <= set(SIDES) or set(sides) == {""}):
            raise InputError(
                f"sides must be {' or '.join(map(repr, SIDES))} for each of the {len(own)} "
                f"features of a pair; got {self.sides}."
            )
        object.__setattr__(self, "sides", sides)
        own.setflags(write=False)
        object.__setattr__(self, "deviation", own)

    def __eq__(self, other: object) -> bool:
        return equal_fields(self, other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def names(self) -> tuple[str, ...]:
        """The features as a reader can tell them apart: those of a pair with their side."""
        return with_sides(self.features, self.sides)

    @property
    def exact(self) -> bool:
        """Whether the deviations were computed, not estimated from a pilot."""
        return self.pilot is None

    @property
    def samples(self) -> Int[np.ndarray, " d"]:
        """The number of samples with which each feature's standard error is ``error``.

        At least twice the ``overhead``: fewer do not determine a regression on all features.
        """
        # Beyond 2⁶² nobody samples; a whole number must hold it all the same.
        wanted = np.minimum(np.ceil((self.deviation / self.error) ** 2), 2.0**62)
        return np.maximum(wanted.astype(np.int64), self.overhead) + self.overhead

    @property
    def needed(self) -> int:
        """The number of samples with which no standard error exceeds ``error``."""
        return int(self.samples.max())

    def stderr(self, samples: int) -> Float[np.ndarray, " d"]:
        """Return the standard errors of LIME with that many samples."""
        if samples <= self.overhead:
            raise InputError(
                f"samples must exceed {self.overhead}, which the regression of "
                f"{len(self.features)} features takes; got {samples}."
            )
        return self.deviation / math.sqrt(samples - self.overhead)

    def __repr__(self) -> str:
        how = "exact" if self.exact else f"from a pilot of {self.pilot}"
        return (
            f"<SamplingPlan for {one_line(self.text, 40)!r}: {self.needed} samples for a standard "
            f"error of {self.error:g}, {how}>"
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per feature, in the order of the text."""
        columns = (self.features, self.deviation.tolist(), self.samples.tolist(), self.sides)
        return [dict(zip(PLAN_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per feature."""
        return data_frame(self.rows(), PLAN_COLUMNS)

    def to_csv(self) -> str:
        """Return the rows as CSV with a header."""
        from limelight.results.table import csv_line

        rows = [list(row.values()) for row in self.rows()]
        return "".join(map(csv_line, [PLAN_COLUMNS, *rows]))

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the plan as JSON, without loss."""
        from limelight.results.plan_json import plan_to_json

        return plan_to_json(self, indent=indent)

    @staticmethod
    def from_json(content: str | bytes) -> "SamplingPlan":
        """Return the plan that :meth:`to_json` wrote."""
        from limelight.results.plan_json import plan_from_json

        return plan_from_json(content)

    def __rich__(self) -> "RenderableType":
        from limelight.render.terminal_plan import plan_text

        return plan_text(self)
