"""Rows as a pandas data frame, where pandas is installed."""

__all__ = ["data_frame"]

from collections.abc import Mapping, Sequence
from typing import Any

from limelight.errors import InputError


def data_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> Any:
    """Return ``rows`` as a data frame; without pandas, say what to install."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError("to_frame needs pandas; run: pip install pandas.") from None
    return pd.DataFrame(list(rows), columns=None if columns is None else list(columns))
