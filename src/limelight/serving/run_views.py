"""The views of a run: its texts as columns, one text in full, and the summary of all."""

import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

import msgspec
import numpy as np

from limelight.errors import InputError, escape_controls
from limelight.rendering.text_parts import replace_explanation_surrogates, visible_text
from limelight.serving.texts import explanation_data, shown_opening
from limelight.shapes import Float
from limelight.text import feature_kind, feature_noun

if TYPE_CHECKING:
    import pyarrow as pa

    from limelight.results.summary import RunSummary
    from limelight.runs import Run


T = TypeVar("T")
_MOST_FAILED = 1000  # rows that are shown
_SECONDS_TO_STOP = 20.0  # of what has no steps


class _StoppedError(BaseException):
    """Ends a computation that nobody waits for any more."""


class Prepared(Generic[T]):
    """A value that is computed when somebody first asks; ``share`` says how far that is."""

    def __init__(self, compute: Callable[[Callable[[float], None]], T]) -> None:
        self._compute, self._lock = compute, threading.Lock()
        self._thread: threading.Thread | None = None
        self._found, self._stopping = list[T](), False
        self.share, self.failed = 0.0, ""

    def now(self) -> T | None:
        """Return the value if it is there, else None; the first call sets a thread to work."""
        if self.failed:  # asked first, so that the call that starts the thread never fails
            raise InputError(self.failed)
        with self._lock:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(
                    target=self._work, name="limelight-prepare", daemon=True
                )
                self._thread.start()
        return self._found[0] if self._found else None

    def stop(self) -> None:
        """Give up what is not computed yet, and wait for that: at its next step, or for a while.

        A program that ends while a thread of it is inside a database does so with a crash.
        """
        with self._lock:
            self._stopping = True
        if self._thread is not None:
            self._thread.join(_SECONDS_TO_STOP)

    def _work(self) -> None:
        try:
            self._found.append(self._compute(self._report))
        except _StoppedError:
            pass
        except (InputError, OSError) as error:
            self.failed = escape_controls(str(error))
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self.failed = escape_controls(
                f"this could not be computed: {type(error).__name__}: {error}"
            )

    def _report(self, share: float) -> None:
        if self._stopping:
            raise _StoppedError
        self.share = share


@final
class RunViews:
    """What pages ask about a run; columns and summary are computed once, by threads."""

    def __init__(self, run: "Run") -> None:
        from limelight.runs.columns import text_columns

        self._run = run
        self.columns: Prepared[pa.Table] = Prepared(lambda report: text_columns(run, report))
        self.summary: Prepared[RunSummary] = Prepared(lambda _: run.summary())
        self._table: msgspec.Raw | None = None

    def stop(self) -> None:
        """Give up what is being computed."""
        self.columns.stop()
        self.summary.stop()

    def table(self) -> msgspec.Raw | None:
        """Return all texts as columns, in JSON; None while they are being read."""
        if self._table is None and (columns := self.columns.now()) is not None:
            self._table = msgspec.Raw(msgspec.json.encode(self._plain(columns)))
        return self._table

    def _plain(self, columns: "pa.Table") -> dict[str, Any]:
        run, shown = self._run, dict[str, list[Any]]()
        for name in columns.column_names:
            values = columns[name]
            if name in ("id", "opening", "label_text"):
                shown[name] = [text and visible_text(text) for text in values.to_pylist()]
            else:  # by NumPy, which makes lists of millions of numbers much faster than Arrow
                numbers = values.to_numpy()
                shown[name] = _short(numbers) if numbers.dtype.kind == "f" else numbers.tolist()
        failed = run.errors().slice(0, _MOST_FAILED).to_pylist() if run.failed else []
        return {
            "name": visible_text(str(run.path)),
            "classes": [visible_text(name) for name in run.classes],
            "methods": [method.label for method in run.record.methods],
            "has_texts": run.record.data.texts_kept,
            "noun": feature_noun(feature_kind(run.record.request.features)),
            "total": run.total,
            "is_probability": run.record.model.link != "none",
            "columns": shown,
            "unexplained": [
                {
                    "row": one["row"],
                    "id": visible_text(str(one["id"])),
                    "error": visible_text(one["error"]),
                }
                for one in failed
            ],
        }

    def with_word(self, word: str) -> list[int]:
        """Return the places of the texts that have ``word``."""
        columns = self.columns.now()
        if columns is None:
            raise InputError("the run is still being read; ask again in a moment.")
        from limelight.runs.columns import find_texts

        return np.flatnonzero(np.isin(columns["row"], find_texts(self._run, word))).tolist()

    def text(self, row: int) -> dict[str, Any]:
        """Return what every method of the run says about one text."""
        several = [self._run.explanation(row, method) for method in self._run.methods]
        found = [replace_explanation_surrogates(e) for e in several]
        return {
            "row": row,
            "opening": shown_opening(found),
            **explanation_data(found),
        }


def _short(values: Float[np.ndarray, " n"]) -> list[float | None]:
    """Return numbers with four decimals: what nobody can read need not be sent."""
    return [None if x != x else x for x in np.round(values, 4).tolist()]
