"""Compute the data of the pages about a run: a table of all texts, one text, and the summary."""

import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

import msgspec
import numpy as np

from limelight.errors import InputError, escape_controls
from limelight.rendering.text_parts import replace_explanation_surrogates, visible_text
from limelight.serving.texts import explanation_data, opening_parts
from limelight.shapes import Float
from limelight.text import feature_kind, feature_noun

if TYPE_CHECKING:
    import pyarrow as pa

    from limelight.results.summary import RunSummary
    from limelight.runs import Run


T = TypeVar("T")
_MAX_FAILURES = 1000  # failed rows that the page lists
_SECONDS_TO_STOP = 20.0  # for a computation without steps


class _StoppedError(BaseException):
    """Ends a computation whose result is no longer needed."""


class BackgroundValue(Generic[T]):
    """A value that a thread computes after the first call of :meth:`poll`.

    ``progress`` grows from 0 to 1 during the computation. ``error`` is its error message, if any.
    """

    def __init__(self, compute: Callable[[Callable[[float], None]], T]) -> None:
        self._compute, self._lock = compute, threading.Lock()
        self._thread: threading.Thread | None = None
        self._values, self._is_stopping = list[T](), False
        self.progress, self.error = 0.0, ""

    def poll(self) -> T | None:
        """Return the value, or None while it is computed. The first call starts the computation."""
        if self.error:  # before the thread starts, so that the first call never fails
            raise InputError(self.error)
        with self._lock:
            if self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(
                    target=self._compute_value, name="limelight-prepare", daemon=True
                )
                self._thread.start()
        return self._values[0] if self._values else None

    def stop(self) -> None:
        """Stop the computation and wait until its thread ends, at most for some seconds.

        A program crashes if it ends while one of its threads runs inside a database.
        """
        with self._lock:
            self._is_stopping = True
        if self._thread is not None:
            self._thread.join(_SECONDS_TO_STOP)

    def _compute_value(self) -> None:
        """Compute the value in a thread, and store the value or the error."""
        try:
            self._values.append(self._compute(self._report_progress))
        except _StoppedError:
            pass
        except (InputError, OSError) as error:
            self.error = escape_controls(str(error))
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self.error = escape_controls(
                f"this could not be computed: {type(error).__name__}: {error}"
            )

    def _report_progress(self, progress: float) -> None:
        """Store the progress; end the thread if it was stopped."""
        if self._is_stopping:
            raise _StoppedError
        self.progress = progress


@final
class RunViews:
    """The data of the pages about a run. Threads compute its columns and its summary once."""

    def __init__(self, run: "Run") -> None:
        from limelight.runs.columns import text_columns

        self._run = run
        self.columns: BackgroundValue[pa.Table] = BackgroundValue(
            lambda report_progress: text_columns(run, report_progress)
        )
        self.summary: BackgroundValue[RunSummary] = BackgroundValue(lambda _: run.summary())
        self._table: msgspec.Raw | None = None

    def stop(self) -> None:
        """Stop the computations."""
        self.columns.stop()
        self.summary.stop()

    def table(self) -> msgspec.Raw | None:
        """Return the table of all texts as JSON, or None while the run is read."""
        if self._table is None and (columns := self.columns.poll()) is not None:
            self._table = msgspec.Raw(msgspec.json.encode(self._table_data(columns)))
        return self._table

    def _table_data(self, columns: "pa.Table") -> dict[str, Any]:
        """Return the columns and the facts about the run that the page of texts needs."""
        run, lists = self._run, dict[str, list[Any]]()
        for name in columns.column_names:
            values = columns[name]
            if name in ("id", "opening", "label_text"):
                lists[name] = [text and visible_text(text) for text in values.to_pylist()]
            else:  # NumPy makes lists of millions of numbers much faster than Arrow
                numbers = values.to_numpy()
                lists[name] = (
                    _rounded_list(numbers) if numbers.dtype.kind == "f" else numbers.tolist()
                )
        failures = run.errors().slice(0, _MAX_FAILURES).to_pylist() if run.failed else []
        return {
            "name": visible_text(str(run.path)),
            "classes": [visible_text(name) for name in run.classes],
            "methods": [method.label for method in run.record.methods],
            "has_texts": run.record.data.store_texts,
            "noun": feature_noun(feature_kind(run.record.request.features)),
            "total": run.total,
            "is_probability": run.record.model.link != "none",
            "columns": lists,
            "failures": [
                {
                    "row": failure["row"],
                    "id": visible_text(str(failure["id"])),
                    "error": visible_text(failure["error"]),
                }
                for failure in failures
            ],
        }

    def find_word(self, word: str) -> list[int]:
        """Return the positions, in the table, of the texts that contain a word."""
        columns = self.columns.poll()
        if columns is None:
            raise InputError("the run is still being read. Try again in a moment.")
        from limelight.runs.columns import find_texts

        return np.flatnonzero(np.isin(columns["row"], find_texts(self._run, word))).tolist()

    def text(self, row: int) -> dict[str, Any]:
        """Return the explanations of one text by all methods of the run."""
        explanations = [
            replace_explanation_surrogates(self._run.explanation(row, method))
            for method in self._run.methods
        ]
        return {
            "row": row,
            "opening": opening_parts(explanations),
            **explanation_data(explanations),
        }


def _rounded_list(values: Float[np.ndarray, " n"]) -> list[float | None]:
    """Return numbers with four decimals, which keeps the answer small, and None for NaN."""
    return [None if x != x else x for x in np.round(values, 4).tolist()]
