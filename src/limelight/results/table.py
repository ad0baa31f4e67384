"""Explanations as rows: CSV text and pandas frames."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from limelight.results.explanation import Explanation
from limelight.results.values import data_frame

_RUN = ("=", "+", "-", "@", "\t", "\r")  # what begins a formula in a spreadsheet
CSV_COLUMNS = (
    "document", "method", "target", "feature", "score", "stderr", "bound", "spans", "side",
)  # fmt: skip


def explanation_rows(explanation: Explanation, document: int = 0) -> list[dict[str, Any]]:
    """Return one row per feature, in the order of the text."""
    e = explanation
    stderr = [None] * len(e.features) if e.stderr is None else e.stderr.tolist()
    return [
        {
            "document": document,
            "method": e.method,
            "target": e.aim,
            "feature": feature,
            "score": score,
            "stderr": error,
            "bound": e.bound,
            "spans": " ".join(f"{start}:{end}" for start, end in spans),
            "side": side,
        }
        for feature, spans, score, error, side in zip(
            e.features, e.spans, e.scores.tolist(), stderr, e.sides, strict=True
        )
    ]


def explanations_csv(explanations: Iterable[tuple[int, Explanation]]) -> Iterator[str]:
    """Yield CSV text, a header and one row per feature of each (document, explanation).

    It comes in parts, as the explanations do, and nothing comes before the first of them.
    """
    for number, (document, explanation) in enumerate(explanations):
        rows = [list(row.values()) for row in explanation_rows(explanation, document)]
        header = [] if number else [CSV_COLUMNS]
        yield "".join(map(csv_line, [*header, *rows]))


def csv_line(cells: Sequence[Any]) -> str:
    """Return one line of CSV."""
    part = io.StringIO()
    # The csv module quotes a carriage return only if its own lines end in one.
    csv.writer(part, lineterminator="\r\n").writerow(map(_unrun, cells))
    return part.getvalue().removesuffix("\r\n") + "\n"


def _unrun(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would run as a formula, not show."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_RUN) else cell


def frame_of(explanations: Iterable[Explanation]) -> Any:
    """Return a pandas data frame with one row per feature of each explanation of one text."""
    rows = [row for explanation in explanations for row in explanation_rows(explanation)]
    return data_frame(rows, CSV_COLUMNS)
