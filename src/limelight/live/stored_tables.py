"""A model's tables in the precision of a page, and what storing them so may cost."""

import base64
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from limelight.errors import InputError
from limelight.models.attention import AttentionClassifier, Tables
from limelight.models.attention.hidden_units import UnitTables
from limelight.shapes import Float

Precision = Literal["float32", "float16"]


@dataclass(frozen=True, slots=True, eq=False)
class StoredTables:
    """The tables as a page has them: those of words rounded, those of positions in full.

    A rounded number x̂ is within ``unit`` |x̂| + ``least`` of what it was. ``logit_error`` and
    ``value_error`` bound the errors of the tables before rounding. The first ``attended`` heads are
    heads of attention, and ``offset`` is what of the values is read of no embedding.
    """

    tables: Tables
    precision: Precision
    unit: float
    least: float
    logit_error: Float[np.ndarray, " K"]
    value_error: Float[np.ndarray, "C K"]
    offset: Float[np.ndarray, "C K"]
    attended: int

    def packed(self) -> dict[str, Any]:
        """Return it as JSON: arrays little-endian in base64; errors that are not known are null."""
        tables, short = self.tables, self.precision
        arrays = {
            "wordLogit": _array(tables.word_logit, short),
            "wordValue": _array(tables.word_value, short),
            "positionLogit": _array(tables.position_logit, "float64"),
            "positionValue": _array(tables.position_value, "float64"),
        }
        units = tables.units
        if units is not None:
            arrays["wordGiven"] = _array(units.word, short)
            arrays["positionGiven"] = _array(units.position, "float64")
        return {
            "K": tables.word_logit.shape[1],
            "attended": self.attended,
            "offset": self.offset.ravel().tolist(),
            "units": None if units is None else _units(units),
            "tables": arrays,
            "rounding": {"unit": self.unit, "least": self.least},
            "own": {"logit": _known(self.logit_error), "value": _known(self.value_error)},
        }


def stored_tables(model: AttentionClassifier, precision: Precision = "float32") -> StoredTables:
    """Return the tables of ``model`` with those of its words rounded to ``precision``."""
    # Positions are few: in full they cost 30 kB and no error.
    tables, errors, limits = model.tables, model.table_errors, np.finfo(precision)
    units = tables.units
    words = [tables.word_logit, tables.word_value, *([] if units is None else [units.word])]
    if max(float(np.abs(table).max()) for table in words) > float(limits.max):
        raise InputError(
            f"the tables of this model hold numbers beyond the largest of {precision}, "
            f"{float(limits.max):.3g}; no page can carry them in that precision."
        )
    logit, value, *given = (table.astype(precision).astype(np.float64) for table in words)
    return StoredTables(
        tables=replace(
            tables,
            word_logit=logit,
            word_value=value,
            units=None if units is None else replace(units, word=given[0]),
        ),
        precision=precision,
        unit=float(limits.eps) / 2,
        least=float(limits.smallest_subnormal) / 2,
        logit_error=errors.word_logit.max(axis=0) + errors.position_logit,
        value_error=errors.word_value.max(axis=0) + errors.position_value,
        offset=model.directions.offset,
        attended=model.sizes["K"],
    )


def _units(units: UnitTables) -> dict[str, Any]:
    return {
        "size": units.weight.shape[1],
        "weight": units.weight.ravel().tolist(),
        "offset": units.offset.ravel().tolist(),
    }


def _array(table: np.ndarray, dtype: str) -> dict[str, str]:
    content = np.ascontiguousarray(table, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()
    return {"dtype": dtype, "base64": base64.b64encode(content).decode("ascii")}


def _known(error: np.ndarray) -> list[float | None]:
    return [float(one) if np.isfinite(one) else None for one in error.ravel()]
