"""``run.json``: what a run is about, so that only the same question may go on with it."""

import hashlib
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from limelight.data.columns import DataRecord
from limelight.errors import InputError
from limelight.files import bounded_bytes, write_whole
from limelight.models.fingerprints import short_fingerprint
from limelight.models.protocol import Link
from limelight.question import Question
from limelight.results.values import Record, check_schema
from limelight.text import unit_name

SCHEMA: Final = "limelight.run/2"
_MOST_BYTES = 1 << 28  # a data set may have many files
# A run without random samples may continue under any of these versions: they compute the same
# scores.
_AGREEING = ("0.4.",)


class ModelRecord(Record, frozen=True, kw_only=True):
    """The model; ``source`` is where it was loaded from, null for one that was in memory."""

    fingerprint: str
    classes: list[str]
    link: Link
    source: str | None
    identity: dict[str, Any]  # named parts of the fingerprint


class MethodRecord(Record, frozen=True, kw_only=True):
    """A method with the settings that this model uses."""

    id: str
    label: str
    signed: bool
    settings: dict[str, Any]


class ShardPlan(Record, frozen=True, kw_only=True):
    """``texts`` consecutive texts to a shard, the last one may have fewer."""

    texts: int
    count: int


class RunRecord(Record, frozen=True, kw_only=True):
    """What ``run.json`` holds. Nothing in it depends on when, where or how the run is done."""

    schema: Literal["limelight.run/2"]
    version: str
    model: ModelRecord
    methods: list[MethodRecord]
    question: Question
    data: DataRecord
    shards: ShardPlan
    budget: str | None = None  # calls of the model that all methods together may spend on a text
    cutter: str | None = None  # the fingerprint of a function that cuts texts: what it does
    writing: dict[str, Any] | None = None  # how the model writes, where answers are not given
    sha256: str | None = None  # of all the rest; None where somebody has changed the plan

    @property
    def targets_per_text(self) -> int:
        """How many classes are explained of every text."""
        return len(self.model.classes) if self.question.all_classes else 1

    @property
    def rows_per_text(self) -> int:
        """One row for every method and explained class, the same for all texts."""
        return len(self.methods) * self.targets_per_text

    def texts_of(self, shard: int) -> range:
        """Return the numbers of the texts in a shard."""
        first = shard * self.shards.texts
        return range(first, min(first + self.shards.texts, self.data.rows))


def read_record(path: Path) -> RunRecord:
    """Return what the file at ``path`` says; refuse what is not a run of this library."""
    content = bounded_bytes(path, _MOST_BYTES)
    try:
        record = msgspec.json.decode(content, type=RunRecord)
        written = msgspec.json.decode(content)
        # Of a question, a dataclass, msgspec would pass over what it does not know.
        if unknown := written["question"].keys() - {one.name for one in fields(Question)}:
            raise msgspec.ValidationError(
                f"Object contains unknown field `{min(unknown)}` - at `$.question`"
            )
        # Rows are found by these names: of two that are the same, one would be lost.
        for what, given in (("classes", record.model.classes), ("methods", _ids(record))):
            if not given or len(set(given)) < len(given):
                named = ", ".join(map(repr, given)) or "none"
                raise msgspec.ValidationError(
                    f"its {what} must have different names; they are {named}"
                )
        rows, size = record.data.rows, record.shards.texts
        # A plan that does not add up would leave texts out without a word.
        if size < 1 or rows < 1 or record.shards.count != -(-rows // size):
            raise msgspec.ValidationError(
                f"{record.shards.count} shards of {size} texts are not its {rows} texts"
            )
        # A hand that edits the plan makes shards of two questions look like one.
        if record.sha256 not in (None, _digest(written)):
            raise msgspec.ValidationError(
                "it has changed since it was written (its sha256 is another); put back the one "
                "that was, or take its sha256 out if the change is yours"
            )
        return record
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        check_schema(content, SCHEMA, f"'{path}' is not a limelight run")
        raise InputError(f"'{path}' is not a limelight run: {error}.") from None


def plan_identity(path: Path) -> str:
    """Return the SHA-256 of what the plan at ``path`` asks, which the shards of the run carry.

    Not of the version, nor of where model and data were: the same rows come from anywhere. It is
    made of the plan as it was written, so that newer versions find the same one.
    """
    written = msgspec.json.decode(bounded_bytes(path, _MOST_BYTES))
    model, data = dict(written["model"], source=None), dict(written["data"])
    data["files"] = [dict(file, path=None) for file in data["files"]]
    return _digest({**written, "version": None, "model": model, "data": data})


def write_record(path: Path, record: RunRecord) -> None:
    """Write ``record``, whole or not at all."""
    written = msgspec.to_builtins(record, enc_hook=unit_name)
    # What does not apply to this run is left out.
    data = written["data"]
    for part, name in (
        (data, "labels"), (data["columns"], "at"), (written, "cutter"), (written, "writing")
    ):  # fmt: skip
        if part[name] is None:
            del part[name]
    written["sha256"] = _digest(written)
    write_whole(path, msgspec.json.format(msgspec.json.encode(written), indent=1) + b"\n")


def _digest(written: dict[str, Any]) -> str:
    """Return the SHA-256 of a plan without its own, however its fields are laid out in a file."""
    rest = {name: value for name, value in written.items() if name != "sha256"}
    # Sorted, so that whoever lays the file out anew does not change it.
    return hashlib.sha256(msgspec.json.encode(rest, order="sorted")).hexdigest()


def differences(old: RunRecord, new: RunRecord) -> Iterator[str]:
    """Yield what keeps ``new`` from going on with ``old``, as clauses; the first may be all."""
    agree = all(one.version.startswith(_AGREEING) for one in (old, new))
    drawn = any("seed" in method.settings for method in old.methods)
    if old.version != new.version and (drawn or not agree):
        yield f"it was begun with limelight {old.version}, and this is {new.version}"
    had, asked = _compared(old), _compared(new)
    # A field that one of them lacks is None there: older plans have fewer.
    for name in had | asked:
        if (old_value := had.get(name)) != (new_value := asked.get(name)):
            shown = [_beginning(value) for value in (old_value, new_value)]
            old_shown, new_shown = shown if shown[0] != shown[1] else (old_value, new_value)
            yield f"its {name} is {old_shown!r}, not {new_shown!r}"


def _beginning(value: Any) -> Any:
    """Return a value for people: of a digest the first characters."""
    return short_fingerprint(value) if isinstance(value, str) and len(value) >= 64 else value


def _compared(record: RunRecord) -> dict[str, Any]:
    """Return what must be the same for a run to go on, each by a name that people know.

    Files are compared by their bytes and models by their fingerprints: both may have moved.
    """
    data = record.data
    settings = {
        f"{name} of {one.id}": value
        for one in record.methods
        for name, value in one.settings.items()
    }
    columns = msgspec.to_builtins(data.columns)
    return {
        # What has a name before the fingerprint, which covers it too.
        "list of classes": record.model.classes,
        **{f"{name} of the model": value for name, value in record.model.identity.items()},
        "link": record.model.link,
        "model (by fingerprint)": record.model.fingerprint,
        "list of methods": ", ".join(_ids(record)),
        # Made anew, an older question has the defaults of what could not be asked then. Before the
        # settings, of which another question may have others.
        **msgspec.to_builtins(replace(record.question), enc_hook=unit_name),
        **settings,
        "budget": record.budget,
        "cutter (by fingerprint)": record.cutter,
        **{f"column for {name}": column for name, column in columns.items()},
        **{f"file {i} (by SHA-256)": one.sha256 for i, one in enumerate(data.files)},
        "map of labels": data.labels,
        # Not the limit: 100 of 100 rows are all of them.
        "number of rows": data.rows,
        "texts_kept": data.texts_kept,
        **(record.writing or {}),
        "shard_texts": record.shards.texts,
    }


def _ids(record: RunRecord) -> list[str]:
    return [method.id for method in record.methods]
