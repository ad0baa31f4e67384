"""A run as tables of DuckDB, which reads the shards where they lie and nothing else.

Anybody may ask two views (:meth:`limelight.Run.sql`): ``texts``, one row per text, and ``words``,
one row per text, method, class and word. Below them, for this package:

* ``stored``: the rows of the shards, ``n`` numbers them in their order. Columns of the data are not
  among them, so that none is taken for one of ours.
* ``rows``: those without an error. ``named`` are the words, with the name of their column in a run
  over pairs, whose second text begins at ``second``; ``predicted`` and ``labelled`` are numbers of
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
from limelight.runs.rows import OWN_COLUMNS, stored_names
from limelight.text import one_line
from limelight.text.characters import LONE_SURROGATE

try:
    import duckdb
except ImportError:
    raise MissingExtraError("questions about a whole run need DuckDB", "data") from None

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
_OF_TEXT = ("row", "id", "text_hash", "text", "label", "predicted", "confidence", "error")


class Database:
    """A connection whose tables are those of one run, or of several."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, texts: str) -> None:
        # The statement that makes the view ``texts``: all columns of the data are in it, so it is
        # made for those alone who may ask for them.
        self._connection, self._texts = connection, texts

    def table(self, query: str) -> pa.Table:
        """Return what ``query`` finds."""
        return self._connection.sql(query).to_arrow_table()

    def columns(self, query: str) -> dict[str, Any]:
        """Return what ``query`` finds as NumPy arrays."""
        found = self.table(query)
        return {name: found[name].to_numpy() for name in found.column_names}

    def execute(self, statement: str) -> None:
        """Carry out a statement, such as one that makes a table."""
        self._connection.execute(statement)

    def put(self, name: str, table: pa.Table) -> None:
        """Make a table of one of Arrow's: of its own DuckDB knows the size, and plans by it."""
        self._connection.register("given", table)
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM given")
        self._connection.unregister("given")

    def asked(self, query: Any) -> pa.Table:
        """Return what somebody's ``query`` finds; anything but one SELECT is refused."""
        if not isinstance(query, str) or LONE_SURROGATE.search(query):
            raise InputError(f"a query must be SQL, as text; got {one_line(repr(query), 40)}.")
        self.execute(self._texts)
        try:
            # DuckDB would carry out several statements, and such as write files, at one call.
            kinds = [one.type for one in self._connection.extract_statements(query)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise InputError("a run is asked by one SELECT, and only read.")
            return self.table(query)
        except duckdb.Error as error:
            raise InputError(f"this query has no answer: {_sentence(error)}.") from None


@contextlib.contextmanager
def database(run: "Run", **others: "Run") -> Iterator[Database]:
    """Open the tables of ``run``; those of ``others`` are in schemas of their names."""
    runs = {"main": run} | others
    paths = {name: [str(path) for path in one.paths] for name, one in runs.items()}
    # What does not fit into memory goes to a folder that ends with the connection.
    with (
        tempfile.TemporaryDirectory(prefix="limelight-") as folder,
        duckdb.connect(":memory:", config=_SETTINGS | {"temp_directory": folder}) as connection,
        _one_sentence(runs.values()),
    ):
        connection.execute("SET enable_progress_bar = false")  # else it writes on standard output
        # In this order: nobody can allow more paths once access is off and settings are locked.
        connection.execute(f"SET allowed_paths = {literal([p for s in paths.values() for p in s])}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        for name, one in reversed(runs.items()):  # "main" is in use from then on
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}; USE {name}")
            # A folder called "label=1" is no column: the rows have one of their own.
            source = f"read_parquet({literal(paths[name])}, hive_partitioning = false)"
            # A list of no files is an error to DuckDB, and a run may have no shard yet.
            if not paths[name]:
                source = f"nothing_{name}"
                connection.register(source, pa.schema(OWN_COLUMNS).empty_table())
            # DuckDB's own list of names takes a time that is quadratic in how many there are.
            names = pq.read_schema(paths[name][0]).names if paths[name] else list(OWN_COLUMNS)
            labels = connection.execute(
                f"SELECT DISTINCT label FROM {source} WHERE label IS NOT NULL"
            ).fetchall()
            # Labels are few, and how they are matched is said once, in Python.
            classes = {label: one.labels.number(label) for (label,) in labels}
            *views, texts = _views(one.record, source, names, classes)
            for statement in views:
                connection.execute(statement)
        yield Database(connection, texts)


@contextlib.contextmanager
def _one_sentence(runs: Iterable["Run"]) -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, pa.ArrowException) as error:
        for run in runs:
            run.check_shards()  # names the damaged one, if that is the cause
        raise InputError(f"the run cannot be read: {_sentence(error)}.") from None


def _sentence(error: Exception) -> str:
    """Return what DuckDB says, without the name of its error and the place in the query."""
    (said, *_) = str(error).strip().split("\n")
    return one_line(said.partition(": ")[2] or said, 300).rstrip(".!?")


def literal(value: Any) -> str:
    """Return a string, a number, or a list of them as SQL writes it."""
    if isinstance(value, str):
        # Names of classes and columns are the user's: they may hold quotes.
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(literal, value)) + "]"
    return repr(value)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _number(names: Sequence[str], column: str) -> str:
    """Return the SQL of the place of ``column`` among ``names``, from 0; NULL where it is none."""
    return f"(nullif(list_position({literal(names)}::VARCHAR[], {column}), 0) - 1)"


def predicted(classes: int) -> str:
    """Return the SQL of the predicted class; a single output is that of the last, against 0."""
    of_one = "0" if classes == 1 else f"(prediction[1] > 0)::INTEGER + {classes - 2}"
    # Of equal outputs the first, as NumPy's argmax takes it.
    return f"""CASE len(prediction) WHEN 0 THEN -1 WHEN 1 THEN {of_one}
        ELSE list_position(prediction, list_max(prediction)) - 1
            + greatest({classes} - len(prediction), 0) END"""


def confidence(link: str) -> str:
    """Return the SQL of how sure the model is: the probability of the predicted class by ``link``.

    For a model without probabilities it is the margin: how far the output lies above the next.
    """
    first = "list_max(prediction)::DOUBLE"
    one = "1 / (1 + exp(-abs(prediction[1]::DOUBLE)))"
    # Less the largest: exp of a large output is infinite.
    several = f"1 / list_sum(list_transform(prediction, lambda x: exp(x::DOUBLE - {first})))"
    if link == "none":
        one, several = "abs(prediction[1]::DOUBLE)", f"{first} - list_reverse_sort(prediction)[2]"
    elif link in ("sigmoid", "ovr"):  # each of several classes has a probability of its own
        several = f"0.5 * (1 + tanh({first} / 2))"
        if link == "ovr":
            each = f"(1 + exp(-{first})) / (1 + exp(-x::DOUBLE))"
            several = f"1 / list_sum(list_transform(prediction, lambda x: {each}))"
    return f"CASE len(prediction) WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN {one} ELSE {several} END"


def entries(record: RunRecord, rows: str = "rows", *, more: str = "") -> str:
    """Return the SQL of one row per row and word of ``rows``, which may have ``more`` columns.

    What is to be joined to rows, or left out of them, is better so before there is one per word.
    """
    # Unnested side by side, not joined by place: the lists of a row have one length.
    found = f"""SELECT n, row, view, method, target, against, predicted, wrong {more},
        generate_subscripts(named, 1) AS place, unnest(named) AS word,
        unnest(scores)::DOUBLE AS score, greatest(len(unnest(starts)), 1) AS times FROM {rows}"""
    if record.question.features != "words":  # others may name the same word twice in a text
        found = f"""SELECT * EXCLUDE (place, score, times), min(place) AS place,
            sum(score) AS score, sum(times)::BIGINT AS times FROM ({found}) GROUP BY ALL"""
    return f"SELECT *, n * {_ENTRY} + place AS entry FROM ({found})"


def _views(
    record: RunRecord, source: str, names: Sequence[str], class_of: Mapping[str, int | None]
) -> Iterator[str]:
    """Yield the statements that make the views, that of ``texts`` last.

    ``names`` are the columns of ``source``, ``class_of`` is the number of the class that a label
    names.
    """
    classes, data = record.model.classes, record.data.columns
    called, sure = predicted(len(classes)), confidence(record.model.link)
    method = _number([one.id for one in record.methods], "method")
    aim = _number(classes, "target")
    own = list(OWN_COLUMNS)
    # Their order in a shard, computed: a query must not rely on that in which files are read.
    yield f"""CREATE VIEW stored AS SELECT {", ".join(map(_quoted, own))},
        row * {record.rows_per_text} + {method} * {record.targets_per_text}
            + {aim if record.question.all_classes else 0} AS n FROM {source}"""
    named, second = "features", "NULL::UINTEGER"
    if data.pair is not None:
        sides = [literal(name + MARK) for name in data.texts]
        side = f"CASE WHEN starts[i][1] >= parts[2][1] THEN {sides[1]} ELSE {sides[0]} END"
        named, second = f"list_transform(features, lambda w, i: {side} || w)", "parts[2][1]"
    known = {label: number for label, number in class_of.items() if number is not None}
    place = f"list_position({literal(list(known))}::VARCHAR[], label)"
    # Two lists and a position: a CASE of a thousand labels would be read for every row.
    label = f"coalesce(({literal(list(known.values()))}::INTEGER[])[{place}], -1)"
    against = f"coalesce({_number(classes, 'against')}, {len(classes)})"
    yield f"""CREATE VIEW rows AS SELECT *,
            CASE WHEN labelled < 0 THEN 2 ELSE (predicted <> labelled)::INTEGER END AS wrong
        FROM (SELECT *, {named} AS named, {second} AS second, {label} AS labelled,
            ({method} * {len(classes)} + coalesce({aim}, 0)) * {len(classes) + 1} + {against}
                AS view,
            {called} AS predicted, {sure} AS confidence
        FROM stored WHERE error IS NULL)"""
    yield f"CREATE VIEW entries AS {entries(record)}"
    yield """CREATE VIEW words AS SELECT row, method, target, against, word, score,
        times AS occurrences FROM entries"""
    # DuckDB takes "Text" for "text": columns of the data are known by their places in a shard.
    # Two that differ by case only would be one to it.
    carried = stored_names(record.data.columns.carried)
    shown = stored_names(carried, taken=_OF_TEXT, key=str.lower)
    places = [f"carried{i}" for i in range(len(names) - len(own))]
    more = "".join(f", {at} AS {_quoted(new)}" for at, new in zip(places, shown, strict=False))
    made = {"predicted": f"({literal(classes)}::VARCHAR[])[{called} + 1]", "confidence": sure}
    kept = ", ".join(f"{made.get(name, name)} AS {name}" for name in _OF_TEXT)
    # A text once: where every class is explained it has a row for each.
    first = f"AND target = {literal(classes[0])}" if record.question.all_classes else ""
    yield f"""CREATE VIEW texts AS SELECT {kept} {more}
        FROM {source} AS shard({", ".join(map(_quoted, own + places))})
        WHERE method = {literal(record.methods[0].id)} {first}"""
