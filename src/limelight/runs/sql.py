"""A run as tables of DuckDB, which reads only the files of the shards.

Users query two views (:meth:`limelight.Run.sql`): ``texts``, one row per text, and ``words``, one
row per text, method, class and word. This package also uses:

* ``stored``: the rows of the shards, ``n`` numbers them in their order. Columns of the data are not
  among them, so that none is taken for one of ours.
* ``rows``: those without an error. ``named`` are the words, with the name of their column in a run
  over pairs, whose second text begins at ``second``; ``predicted`` and ``labeled`` are numbers of
  classes, −1 for none; ``wrong`` is 0 where they agree, 1 where they do not, 2 where no label is
  known. ``view`` is a number for the method and the classes it holds against one another.
* ``entries``: one row per row and word, with the word's score there and the times it occurs.

One thread computes: of several, sums would be in another order and end in other digits each time.
"""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from limelight.errors import InputError, MissingExtraError
from limelight.runs.record import RunRecord
from limelight.runs.rows import COUNTERFACTUAL, shard_columns, stored_names
from limelight.text import truncate_line
from limelight.text.characters import LONE_SURROGATE

try:
    import duckdb
except ImportError:
    raise MissingExtraError("summaries and queries of a run need DuckDB", "data") from None

if TYPE_CHECKING:
    from limelight.runs.run import Run

_SETTINGS = {
    "threads": 1,
    "memory_limit": "1200MB",  # what does not fit goes to a temporary folder
    "enable_external_file_cache": False,  # the system has one
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # else a query could name the caller's variables
}
MARK = ": "  # between the name of a column and a word, in runs over pairs
_ENTRY = 1 << 20  # more than the words of any text: entries are numbered in their order
_TEXT_COLUMNS = ("row", "id", "text_hash", "text", "label", "predicted", "confidence", "error")


class Database:
    """A DuckDB connection with the tables of one run or of two runs."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, texts: str) -> None:
        # The statement that makes the view ``texts``: all columns of the data are in it, so it is
        # made for those alone who may ask for them.
        self._connection, self._texts = connection, texts

    def table(self, query: str) -> pa.Table:
        """Run ``query`` and return the result as an Arrow table."""
        return self._connection.sql(query).to_arrow_table()

    def columns(self, query: str) -> dict[str, Any]:
        """Run ``query`` and return its columns as NumPy arrays by name."""
        table = self.table(query)
        return {name: table[name].to_numpy() for name in table.column_names}

    def execute(self, statement: str) -> None:
        """Run a statement without a result, such as CREATE TABLE."""
        self._connection.execute(statement)

    def add_table(self, name: str, table: pa.Table) -> None:
        """Copy an Arrow table into DuckDB, which plans queries by the size of its own tables."""
        self._connection.register("arrow_table", table)
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM arrow_table")
        self._connection.unregister("arrow_table")

    def run_query(self, query: Any) -> pa.Table:
        """Run a user's query; anything but a single SELECT raises an error."""
        if not isinstance(query, str) or LONE_SURROGATE.search(query):
            raise InputError(f"a query must be SQL text, not {truncate_line(repr(query), 40)}.")
        self.execute(self._texts)
        try:
            # DuckDB would run several statements in one call, also ones that write files.
            kinds = [statement.type for statement in self._connection.extract_statements(query)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise InputError("a query on a run must be a single SELECT statement.")
            return self.table(query)
        except duckdb.Error as error:
            raise InputError(f"the query failed: {_error_sentence(error)}.") from None


@contextlib.contextmanager
def open_database(run: "Run", **other_runs: "Run") -> Iterator[Database]:
    """Open the tables of ``run``; those of ``other_runs`` are in schemas with their names."""
    runs = {"main": run} | other_runs
    paths = {name: [str(path) for path in opened_run.paths] for name, opened_run in runs.items()}
    # What does not fit into memory goes to a folder that ends with the connection.
    with (
        tempfile.TemporaryDirectory(prefix="limelight-") as folder,
        duckdb.connect(":memory:", config=_SETTINGS | {"temp_directory": folder}) as connection,
        _report_errors(runs.values()),
    ):
        connection.execute("SET enable_progress_bar = false")  # else it writes on standard output
        # In this order: nobody can allow more paths once access is off and settings are locked.
        connection.execute(
            f"SET allowed_paths = {sql_literal([p for s in paths.values() for p in s])}"
        )
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        for name, opened_run in reversed(runs.items()):  # "main" is in use from then on
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}; USE {name}")
            # A folder called "label=1" is no column: the rows have one of their own.
            source = f"read_parquet({sql_literal(paths[name])}, hive_partitioning = false)"
            # A list of no files is an error to DuckDB, and a run may have no shard yet.
            if not paths[name]:
                source = f"empty_{name}"
                columns = shard_columns(opened_run.record)
                connection.register(source, pa.schema(columns).empty_table())
            # DuckDB's own list of column names takes quadratic time in their number.
            names = list(shard_columns(opened_run.record))
            if paths[name]:
                names = pq.read_schema(paths[name][0]).names
            labels = connection.execute(
                f"SELECT DISTINCT label FROM {source} WHERE label IS NOT NULL"
            ).fetchall()
            # There are few labels, and the rules to match them exist once, in Python.
            classes = {label: opened_run.labels.number(label) for (label,) in labels}
            *views, texts = _view_statements(opened_run.record, source, names, classes)
            for statement in views:
                connection.execute(statement)
        yield Database(connection, texts)


@contextlib.contextmanager
def _report_errors(runs: Iterable["Run"]) -> Iterator[None]:
    """Replace errors of DuckDB by an `InputError`, which names a damaged shard if there is one."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException) as error:
        for run in runs:
            run.check_shards()  # names the damaged one, if that is the cause
        raise InputError(f"the run cannot be read: {_error_sentence(error)}.") from None


def _error_sentence(error: Exception) -> str:
    """Return DuckDB's error message without the error's name and the position in the query."""
    (message, *_) = str(error).strip().split("\n")
    return truncate_line(message.partition(": ")[2] or message, 300).rstrip(".!?")


def sql_literal(value: Any) -> str:
    """Format a string, a number, or a list of them as an SQL literal."""
    if isinstance(value, str):
        # Names of classes and columns are the user's: they may hold quotes.
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(sql_literal, value)) + "]"
    return repr(value)


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _index_sql(names: Sequence[str], column: str) -> str:
    """Return SQL for the index of ``column`` in ``names``, from 0; NULL if it is not there."""
    return f"(nullif(list_position({sql_literal(names)}::VARCHAR[], {column}), 0) - 1)"


def predicted_sql(classes: int) -> str:
    """Return SQL for the number of the predicted class.

    A single output belongs to the last class and is compared with 0.
    """
    single_class = "0" if classes == 1 else f"(prediction[1] > 0)::INTEGER + {classes - 2}"
    # The first of equal outputs, like NumPy's argmax.
    return f"""CASE len(prediction) WHEN 0 THEN -1 WHEN 1 THEN {single_class}
        ELSE list_position(prediction, list_max(prediction)) - 1
            + greatest({classes} - len(prediction), 0) END"""


def confidence_sql(link: str) -> str:
    """Return SQL for the confidence: the probability of the predicted class with this ``link``.

    For a model without probabilities it is the margin between the two largest outputs.
    """
    largest = "list_max(prediction)::DOUBLE"
    single_output = "1 / (1 + exp(-abs(prediction[1]::DOUBLE)))"
    # Less the largest: exp of a large output is infinite.
    several_outputs = (
        f"1 / list_sum(list_transform(prediction, lambda x: exp(x::DOUBLE - {largest})))"
    )
    if link == "none":
        single_output, several_outputs = (
            "abs(prediction[1]::DOUBLE)",
            f"{largest} - list_reverse_sort(prediction)[2]",
        )
    elif link in ("sigmoid", "ovr"):  # each of several classes has a probability of its own
        several_outputs = f"0.5 * (1 + tanh({largest} / 2))"
        if link == "ovr":
            ratio = f"(1 + exp(-{largest})) / (1 + exp(-x::DOUBLE))"
            several_outputs = f"1 / list_sum(list_transform(prediction, lambda x: {ratio}))"
    return f"""CASE len(prediction) WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN {single_output}
        ELSE {several_outputs} END"""


def entries_sql(record: RunRecord, rows: str = "rows", *, extra_columns: str = "") -> str:
    """Return SQL for a row per word of each of ``rows``, with optional ``extra_columns``.

    Join and filter ``rows`` before this, because there are many words per row.
    """
    # Unnested side by side, not joined by place: the lists of a row have one length.
    word_rows = f"""SELECT n, row, view, method, target, against, predicted, wrong {extra_columns},
        generate_subscripts(named, 1) AS place, unnest(named) AS word,
        unnest(scores)::DOUBLE AS score, greatest(len(unnest(starts)), 1) AS times FROM {rows}"""
    if record.request.features != "words":  # others may name the same word twice in a text
        word_rows = f"""SELECT * EXCLUDE (place, score, times), min(place) AS place,
            sum(score) AS score, sum(times)::BIGINT AS times FROM ({word_rows}) GROUP BY ALL"""
    return f"SELECT *, n * {_ENTRY} + place AS entry FROM ({word_rows})"


def _view_statements(
    record: RunRecord, source: str, names: Sequence[str], class_of: Mapping[str, int | None]
) -> Iterator[str]:
    """Yield the statements that create the views; the view ``texts`` is the last.

    Parameters
    ----------
    record
        The plan of the run.
    source
        The SQL of the rows of all shards.
    names
        The columns of ``source``.
    class_of
        The number of the class of each label; None for a label without a class.
    """
    classes, data = record.model.classes, record.data.columns
    predicted_index, confidence_column = (
        predicted_sql(len(classes)),
        confidence_sql(record.model.link),
    )
    method = _index_sql([record_method.id for record_method in record.methods], "method")
    target_index = _index_sql(classes, "target")
    stored_columns = list(shard_columns(record))
    # The order of the rows is computed: a query must not rely on the order of reading files.
    yield f"""CREATE VIEW stored AS SELECT {", ".join(map(_quote_name, stored_columns))},
        row * {record.rows_per_text} + {method} * {record.targets_per_text}
            + {target_index if record.request.all_classes else 0} AS n FROM {source}"""
    named_words, second = "features", "NULL::UINTEGER"
    if data.pair is not None:
        sides = [sql_literal(name + MARK) for name in data.texts]
        side = f"CASE WHEN starts[i][1] >= parts[2].span[1] THEN {sides[1]} ELSE {sides[0]} END"
        named_words, second = (
            f"list_transform(features, lambda w, i: {side} || w)",
            "parts[2].span[1]",
        )
    matched = {label: number for label, number in class_of.items() if number is not None}
    place = f"list_position({sql_literal(list(matched))}::VARCHAR[], label)"
    # Two lists and a position: a CASE of a thousand labels would be read for every row.
    label = f"coalesce(({sql_literal(list(matched.values()))}::INTEGER[])[{place}], -1)"
    against = f"coalesce({_index_sql(classes, 'against')}, {len(classes)})"
    yield f"""CREATE VIEW rows AS SELECT *,
            CASE WHEN labeled < 0 THEN 2 ELSE (predicted <> labeled)::INTEGER END AS wrong
        FROM (SELECT *, {named_words} AS named, {second} AS second, {label} AS labeled,
            ({method} * {len(classes)} + coalesce({target_index}, 0)) * {len(classes) + 1}
                + {against} AS view,
            {predicted_index} AS predicted, {confidence_column} AS confidence
        FROM stored WHERE error IS NULL)"""
    yield f"CREATE VIEW entries AS {entries_sql(record)}"
    yield """CREATE VIEW words AS SELECT row, method, target, against, word, score,
        times AS occurrences FROM entries"""
    # DuckDB takes "Text" for "text": columns of the data are known by their places in a shard.
    # Two that differ by case only would be one to it.
    carried = stored_names(record.data.columns.carried)
    text_names = [*_TEXT_COLUMNS, *[COUNTERFACTUAL] * bool(record.counterfactual)]
    view_names = stored_names(carried, reserved=text_names, key=str.lower)
    places = [f"carried{i}" for i in range(len(names) - len(stored_columns))]
    carried_columns = "".join(
        f", {place_name} AS {_quote_name(new)}"
        for place_name, new in zip(places, view_names, strict=False)
    )
    computed = {
        "predicted": f"({sql_literal(classes)}::VARCHAR[])[{predicted_index} + 1]",
        "confidence": confidence_column,
    }
    text_columns = ", ".join(f"{computed.get(name, name)} AS {name}" for name in text_names)
    # One row per text: if every class is explained, a text has a row for each class.
    first = f"AND target = {sql_literal(classes[0])}" if record.request.all_classes else ""
    yield f"""CREATE VIEW texts AS SELECT {text_columns} {carried_columns}
        FROM {source} AS shard({", ".join(map(_quote_name, stored_columns + places))})
        WHERE method = {sql_literal(record.methods[0].id)} {first}"""
