"""A run that is stored in a folder: its texts, its explanations, its table."""

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from limelight.data.labels import ClassLabels, Labels
from limelight.errors import InputError, unknown_name_message
from limelight.files import (
    atomic_file,
    can_lock,
    lock,
    open_file,
    remove_abandoned_parts,
    unlock,
    write_atomically,
)
from limelight.results import Explanation
from limelight.results.explanation import explanations_csv
from limelight.results.shap_values import explanations_to_shap
from limelight.results.summary import RunComparison, RunSummary
from limelight.runs.record import (
    RunRecord,
    find_differences,
    plan_identity,
    read_record,
    write_record,
)
from limelight.runs.rows import (
    COUNTERFACTUAL,
    check_shard,
    check_shard_file,
    explanation_from_row,
    stamp_shard,
    stored_names,
    text_hash,
)
from limelight.text import UserInput, join_pair, truncate_line

_PLAN, _SHARDS, _LOCK = "run.json", "shards", ".lock"
# Not every name: files of a system, and parts of a write that was cut short, are none of ours.
_SHARD_FILE = re.compile(r"(\d{5,18})\.parquet", re.ASCII)


class RunFolder:
    """The folder to which a job writes a run; :class:`limelight.Run` reads it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._identity = ""  # of the run, which its shards carry

    def begin(self, record: RunRecord) -> None:
        """Prepare the folder for the run ``record``: write the plan, or check the stored one."""
        remove_abandoned_parts(self.path)
        remove_abandoned_parts(self.path / _SHARDS)
        if (plan := self.path / _PLAN).exists():
            if (clause := next(find_differences(read_record(plan), record), None)) is not None:
                raise InputError(
                    f"'{self.path}' contains another run: {clause}. Choose another folder, or use "
                    "the version, model, data and options of that run."
                )
        # A mistyped folder with other files must not be changed.
        elif any(file.name != _LOCK for file in self.path.iterdir()):
            raise InputError(f"'{self.path}' contains other files. Choose a new or empty folder.")
        else:
            write_record(plan, record)
        self._identity = plan_identity(plan)
        check_shard_folder(self.path)
        (self.path / _SHARDS).mkdir(exist_ok=True)

    @contextlib.contextmanager
    def lock_folder(self) -> Iterator[None]:
        """Keep other processes from writing to the folder; the lock ends with the process."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not can_lock():  # Windows: shards are still whole, and written by replacement
            yield
            return
        with self._lock_file() as file:
            # The system's lock, not the file: a killed process takes its lock with it.
            if lock(file.fileno()) is False:
                file.seek(0)
                raise InputError(
                    f"another process ({file.read(40) or 'unknown'}) is writing to '{self.path}'. "
                    "Wait until it ends, or stop it."
                )
            file.truncate(0)
            file.write(f"process {os.getpid()}")
            file.flush()
            try:
                yield
            finally:
                file.truncate(0)
                unlock(file.fileno())

    def _lock_file(self) -> TextIO:
        """Open the lock file, and never a link, pipe or folder in its place."""
        path = self.path / _LOCK
        wanted = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        with contextlib.suppress(OSError):  # of a folder, a link, a pipe without a reader
            handle = os.open(path, wanted, 0o666)
            if stat.S_ISREG(os.fstat(handle).st_mode):
                return os.fdopen(handle, "a+")
            os.close(handle)
        if path.is_file() or not os.path.lexists(path):  # a folder that cannot be written to
            return path.open("a+")
        raise InputError(f"'{path}' must be a file. Remove the link, pipe or folder at this path.")

    def write(self, number: int, content: bytes) -> None:
        """Write a shard completely or not at all."""
        path = _shard_path(self.path, number)
        with contextlib.suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                raise InputError(f"'{path}' must be a file, not a folder. Remove it.")
            # Not through a link, nor into a pipe, which might wait for ever.
            if not stat.S_ISREG(mode):
                path.unlink()
        write_atomically(path, stamp_shard(content, self._identity, number))


def _shard_path(folder: Path, number: int) -> Path:
    """Return the path of a shard, which may not exist."""
    return folder / _SHARDS / f"{number:05d}.parquet"


def check_shard_folder(folder: Path) -> None:
    """Raise an error if the path of the shards exists and is not a folder."""
    if os.path.lexists(shards := folder / _SHARDS) and not shards.is_dir():
        raise InputError(f"'{shards}' must be a folder. Remove the file at this path.")


_TEXT_COLUMNS = ("row", "id", "text_hash", "text", "label")


class Run:
    """The explanations that ``limelight explain-data`` has stored in a folder.

    There is one row for every text, method and explained class, in the order of the data. Only
    the plan is kept in memory. A run that is not finished has the rows of its finished shards.
    ``labels`` maps labels of the data to classes, as in :func:`limelight.explain_data`.
    """

    def __init__(self, path: str | os.PathLike[str], *, labels: Labels | None = None) -> None:
        self.path = Path(path)
        if not (plan := self.path / _PLAN).is_file():
            raise InputError(
                f"there is no run at '{self.path}' (it has no {_PLAN}). Check the path."
            )
        self.record: RunRecord = read_record(plan)
        # A plan that was changed by hand on purpose, and has no digest, is believed.
        self._identity = None if self.record.sha256 is None else plan_identity(plan)
        self.labels = ClassLabels(self.record.model.classes, labels)
        # What the files of shards looked like when their contents were those that were written.
        self._checked: dict[int, tuple[int, ...]] = {}
        self._schema: pa.Schema | None = None
        self._latest: tuple[int, pa.Table] | None = None  # texts are often looked at in order

    def __repr__(self) -> str:
        methods = ", ".join(self.methods)
        stored, total = len(self), self.total
        texts = f"{stored:,} texts" if stored == total else f"{stored:,} of {total:,} texts"
        failed = self.failed
        failures = f", {failed:,} row{'s' * (failed > 1)} failed" if failed else ""
        return f"<Run '{self.path}': {texts}, {methods}{failures}>"

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in the order of the rows of a text."""
        return tuple(method.id for method in self.record.methods)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the model."""
        return tuple(self.record.model.classes)

    @property
    def scale(self) -> str:
        """The scale of the explained output: "logit", "probability" or "score"."""
        return self.record.request.scale

    @property
    def total(self) -> int:
        """The number of texts in the data, explained or not."""
        return self.record.data.rows

    @property
    def finished(self) -> bool:
        """Whether every shard is stored."""
        return len(self.shards) == self.record.shards.count

    @property
    def shards(self) -> list[int]:
        """The numbers of the stored shards, in order."""
        check_shard_folder(self.path)
        with contextlib.suppress(FileNotFoundError):
            files = (file.name for file in (self.path / _SHARDS).iterdir())
            matches = (_SHARD_FILE.fullmatch(name) for name in files)
            # Sorted as numbers: the hundred-thousandth has a digit more.
            numbers = sorted(int(match[1]) for match in matches if match)
            return [number for number in numbers if number < self.record.shards.count]
        return []

    @property
    def paths(self) -> list[Path]:
        """The files of the stored shards; a damaged one raises an error."""
        return [self._checked_path(number) for number in self.shards]

    @property
    def failed(self) -> int:
        """The number of rows that hold an error."""
        return sum(len(table) - table["error"].null_count for table in self.tables(["error"]))

    @property
    def dataset(self) -> ds.Dataset:
        """All rows as a PyArrow data set, which PyArrow and DuckDB query without loading it."""
        paths = [str(path) for path in self.paths]
        if not paths:
            raise InputError(f"'{self.path}' has no finished shard yet. Start the run again.")
        with self._report_damage(self.shards[0]):
            return ds.dataset(paths, format="parquet")

    def __len__(self) -> int:
        """Return the number of texts that are stored."""
        return sum(len(self.record.text_numbers(number)) for number in self.shards)

    def __iter__(self) -> Iterator[Explanation]:
        """Yield every explanation in the order of the data, a shard in memory at a time."""
        for _, e in self._numbered_explanations():
            yield e

    def _numbered_explanations(self) -> Iterator[tuple[int, Explanation]]:
        """Yield the row of the text and the explanation, in the order of the data."""
        for table in self.tables():
            for row in _rows(table):
                if row["error"] is None:
                    yield row["row"], self._build_explanation(row, None)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Write the score of every feature of every text as CSV.

        Parameters
        ----------
        path
            The file to write. None returns the rows as a text.

        Returns
        -------
        The rows, or None if they were written to a file. They have the columns of
        :meth:`limelight.Explanation.to_csv`, and ``text_number`` is the row of the text. Failed
        texts have no rows.

        Raises
        ------
        InputError
            If the run stores no texts.
        """
        parts = explanations_csv(self._numbered_explanations())
        if path is None:
            return "".join(parts)
        with atomic_file(path) as file:  # a shard in memory at a time
            file.writelines(part.encode("utf-8", "replace") for part in parts)
        return None

    def tables(
        self, columns: Sequence[str] | None = None, *, shards: Sequence[int] | None = None
    ) -> Iterator[pa.Table]:
        """Yield the rows of each shard as a table, in order.

        By default the tables have all ``columns``, and all ``shards`` (numbers) are read. A shard
        that is damaged or belongs to another run raises an error.
        """
        names = None if columns is None else list(columns)
        for number in self.shards if shards is None else shards:
            with (
                self._report_damage(number),
                pq.ParquetFile(self._checked_path(number), page_checksum_verification=True) as file,
            ):
                table = file.read(columns=names)
            yield table

    def _checked_path(self, number: int) -> Path:
        """Return the path of a shard after checking that its bytes are those that were written.

        DuckDB and Arrow read the file later and cannot detect a damaged number.
        """
        path = _shard_path(self.path, number)
        with self._report_damage(number):
            # Looked at before it is opened: a pipe would be waited for, a device may never end.
            if not stat.S_ISREG((status := path.lstat()).st_mode):
                raise pa.ArrowInvalid("it is a link, a pipe, a device or a folder, not a file")
            # Once for each state of a file: queries open shards again and again.
            state = status.st_ino, status.st_size, status.st_mtime_ns
            if self._checked.get(number) != state:
                with open_file(path) as file:
                    check_shard_file(file, status.st_size)
                    file.seek(0)
                    content = file.read(status.st_size)
                self._check_schema(check_shard(content, self.record, number, self._identity))
                self._checked[number] = state
        return path

    def _check_schema(self, schema: pa.Schema) -> None:
        """Raise an error if the column types of a shard differ from those of the first one read."""
        first = self._schema = self._schema or schema
        for name in first.names:
            if name in schema.names and first.field(name).type != schema.field(name).type:
                raise pa.ArrowInvalid(
                    f"its column {name!r} has the type {schema.field(name).type}, but "
                    f"{first.field(name).type} in another shard"
                )

    @contextlib.contextmanager
    def _report_damage(self, number: int) -> Iterator[None]:
        """Replace errors of a damaged shard by an `InputError` that names the shard."""
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            # A missing file is not damaged, and its error names the file.
            if isinstance(error, FileNotFoundError):
                raise
            (reason, *_) = str(error).splitlines() or [type(error).__name__]
            raise InputError(
                f"'{_shard_path(self.path, number)}' is damaged ({reason.rstrip('.')}). Start the "
                "run again to compute only this shard again."
            ) from None

    def texts(self) -> pa.Table:
        """Return one row per text: number, id, hash, text, label, columns carried along.

        With ``counterfactual=True`` it also has the counterfactual of each text.
        """
        rows_per_text = self.record.rows_per_text
        carried = stored_names(self.record.data.columns.carried)
        names = [*_TEXT_COLUMNS, *[COUNTERFACTUAL] * bool(self.record.counterfactual), *carried]
        # These columns are the same in all rows of a text.
        parts = [
            table.take(list(range(0, len(table), rows_per_text))) for table in self.tables(names)
        ]
        return pa.concat_tables(parts) if parts else pa.table({name: [] for name in names})

    def sql(self, query: Any) -> pa.Table:  # Any: another type raises InputError
        """Run one SELECT in DuckDB's SQL on the views ``texts`` and ``words`` of this run.

        ``texts`` has one row per text. Its columns are row, id, text_hash, text, label, predicted
        (the class), confidence, error, and all columns of the data that the run stores. If the run
        has several methods, error is that of the first. If a column of the data has one of these
        names, in upper or lower case, its name is data.NAME.

        ``words`` has one row per text, method, explained class and word. Its columns are row,
        method, target, against, word, score (the sum over all occurrences) and occurrences.

        The query can read no other files.
        """
        from limelight.runs.sql import open_database

        with open_database(self) as tables:
            return tables.run_query(query)

    def check_shards(self) -> None:
        """Read all shards and raise an error for a damaged one."""
        for _ in self.tables():
            pass

    def errors(self) -> pa.Table:
        """Return the failed rows: number, id, method, target and error message."""
        names = ["row", "id", "method", "target", "error"]
        failed = [table.filter(table["error"].is_valid()) for table in self.tables(names)]
        return pa.concat_tables(failed) if failed else pa.table({name: [] for name in names})

    def words(
        self, method: str | None = None, *, target: str | None = None, sort: str = "strength"
    ) -> pa.Table:
        """Return one row per word and explained class: texts, occurrences, means, intervals.

        ``method`` is by default the first. Each class has its own rows; ``target`` selects one
        class. ``sort`` is "strength" (how far the interval is from 0), "mean", "mean_abs", "total",
        "texts", "occurrences" or "word". Words of fewer than five texts are marked ``rare``.
        """
        from limelight.runs.words import list_words

        return list_words(self, method or self.methods[0], target=target, sort=sort)

    def summary(
        self,
        method: str | None = None,
        *,
        by: str | None = "length",
        top: int = 20,
        representatives: int = 8,
    ) -> RunSummary:
        """Summarize the run: words, phrases, mistakes, representative texts and slices.

        Parameters
        ----------
        method
            The only method to summarize. None summarizes all methods.
        by
            The slices: "length", "label", a stored column of the data, or None for no slices. If
            the data have a column "length", write "built-in length" for the number of features.
        top
            The maximal number of words on each side, of phrases and of mistakes.
        representatives
            The number of representative texts.

        Returns
        -------
        The summary, which prints and saves tables.
        """
        from limelight.runs.summary import summarize_run

        return summarize_run(self, method=method, by=by, top=top, representatives=representatives)

    def mistakes(self, method: str | None = None, *, count: int = 100) -> pa.Table:
        """Return the wrongly predicted texts of highest confidence; the data must have labels.

        ``words`` are the words with the strongest scores for the wrong class. For a method
        without signs, they are the words with the largest scores.
        """
        from limelight.runs.summary import list_mistakes

        return list_mistakes(self, method or self.methods[0], count=count)

    def representative(self, method: str | None = None, *, count: int = 8) -> pa.Table:
        """Pick texts that together contain the most important words, by submodular pick.

        ``covered`` is the share of importance covered after each text. No other choice of as many
        of the candidate texts covers more than 1/(1 − 1/e) times as much.
        """
        from limelight.runs.summary import list_representatives

        return list_representatives(self, method or self.methods[0], count=count)

    def slices(self, by: str = "length", method: str | None = None) -> pa.Table:
        """Return one row per slice and class: numbers of texts, predictions and right ones.

        ``by`` is the same as in :meth:`summary`.
        """
        from limelight.runs.summary import list_slices

        return list_slices(self, by, method or self.methods[0])

    def compare(
        self, other: "Run", method: str | None = None, *, other_method: str | None = None
    ) -> RunComparison:
        """Compare this run with ``other``: the words and texts that changed most.

        Texts are matched by their hash. Compare two models, two methods, or data before and after
        a change. ``other_method`` is by default ``method`` if the other run has it, else its
        first method.
        """
        from limelight.runs.comparison import compare_runs

        return compare_runs(self, other, method or self.methods[0], other_method)

    def explanation(
        self,
        row: int | None = None,
        method: str | None = None,
        *,
        id: str | int | None = None,
        target: str | None = None,
        text: UserInput | None = None,
    ) -> Explanation:
        """Return the stored explanation of one text, selected by its row or its id.

        Parameters
        ----------
        row
            The number of the text in the data, counting from 0.
        method
            The method. None selects the first method of the run.
        id
            The id of the text, instead of ``row``.
        target
            The explained class, if the run explains several classes. None selects the first.
        text
            The text itself, if the run stores no texts.

        Returns
        -------
        The explanation.

        Raises
        ------
        InputError
            If no single text, method or class is selected, if the text is not explained, or if
            ``text`` is another text.
        """
        if (row is None) == (id is None):
            raise InputError("explanation needs either a row or an id. Pass one of them.")
        if id is not None:
            row = self._find_row(id)
        # NumPy's whole numbers are fine, and True is no number of a text.
        is_integer = hasattr(row, "__index__") and not isinstance(row, bool)
        if row is None or not is_integer or not 0 <= row < self.total:
            raise InputError(f"row must be a number from 0 to {self.total - 1}, not {row!r}.")
        method = self.methods[0] if method is None else method
        if method not in self.methods:
            raise InputError(unknown_name_message("method of this run", method, self.methods))
        number = row // self.record.shards.texts
        if number not in self.shards:
            raise InputError(f"text {row} is not explained yet. Start the run again to continue.")
        rows_per_text = self.record.rows_per_text
        first = (row - self.record.text_numbers(number)[0]) * rows_per_text
        if self._latest is None or self._latest[0] != number:
            (table,) = self.tables(shards=[number])
            self._latest = number, table
        rows = _rows(self._latest[1].slice(first, rows_per_text))
        # In the order of the rows: without a target the first class that was explained.
        rows_by_target = {
            row_values["target"]: row_values
            for row_values in rows
            if row_values["method"] == method
        }
        if target is not None and target not in rows_by_target:
            raise InputError(
                unknown_name_message("explained class", target, map(str, rows_by_target))
            )
        stored = (
            rows_by_target[target] if target is not None else next(iter(rows_by_target.values()))
        )
        if stored["error"] is not None:
            raise InputError(f"text {row} (counting from 0) was not explained: {stored['error']}")
        return self._build_explanation(stored, text)

    def to_shap(self, method: str | None = None, *, target: str | None = None) -> Any:
        """Return the explanations of one method as a ``shap.Explanation``, a row for each.

        Parameters
        ----------
        method
            The method. None selects the first method of the run.
        target
            The explained class, if the run explains several classes. None selects all.

        Returns
        -------
        The rows in the order of the data, as :meth:`limelight.Explanation.to_shap` describes.
        Failed texts have no row.

        Raises
        ------
        InputError
            If shap is not installed, or if no explanation is selected.
        """
        method = self.methods[0] if method is None else method
        if method not in self.methods:
            raise InputError(unknown_name_message("method of this run", method, self.methods))
        return explanations_to_shap(
            e for e in self if e.method == method and target in (None, e.target)
        )

    def _find_row(self, text_id: str | int) -> int:
        """Return the row of the only text with an id; raise `InputError` otherwise."""
        rows = set[int]()
        for table in self.tables(["row", "id"]):
            selected = table.filter(pc.equal(table["id"], str(text_id)))
            rows.update(selected["row"].to_pylist())
        if len(rows) > 1:
            raise InputError(
                f"{len(rows)} texts have the id {text_id!r}, such as rows {min(rows)} and "
                f"{max(rows)}. Pass the row of one."
            )
        if not rows:
            advice = "" if self.finished else " Start the run again to explain all texts."
            raise InputError(f"no explained text has the id {text_id!r}.{advice}")
        return rows.pop()

    def _build_explanation(self, row: dict[str, Any], text_input: UserInput | None) -> Explanation:
        """Build the explanation in a row, after checking that the text is the explained one."""
        text = row["text"] if text_input is None else join_pair(text_input)[0]
        if text is None:
            raise InputError("this run stores no texts. Give the text with text=.")
        # Scores belong to character positions: on another text they would be wrong.
        if text_input is not None and text_hash(text) != row["text_hash"]:
            raise InputError(
                f"text must be text {row['row']} of the run (counting from 0), but it differs. "
                "Give the text that was explained."
            )
        return self.explanation_of_row(row, text)

    def explanation_of_row(self, row: Mapping[str, Any], text: str) -> Explanation:
        """Return the explanation of ``text`` that a row stores; a damaged row raises an error."""
        with self._report_damage(row["row"] // self.record.shards.texts):
            try:
                return explanation_from_row(row, self.record, text=text)
            # A damaged file can hold any values that fit into its columns.
            except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
                raise pa.ArrowInvalid(truncate_line(str(error), 200)) from None


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as dictionaries, a few at a time."""
    for batch in table.to_batches(max_chunksize=64):  # Python objects of a few rows at a time
        yield from batch.to_pylist()
