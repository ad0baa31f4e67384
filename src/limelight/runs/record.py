"""``run.json``: what a run is about, so that only the same question may go on with it."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from limelight.data.columns import DataRecord
from limelight.errors import InputError
from limelight.files import bounded_bytes, write_whole
from limelight.models.protocol import Link
from limelight.question import Question
from limelight.text import unit_name

_MOST_BYTES = 1 << 28  # a data set may have many files
_SHOWN = 16  # characters of a fingerprint
# Versions whose scores agree where nothing is drawn and the model's fingerprint is the same; of
# shards that 0.3 adds to a run of 0.2, some bounds are tighter. Drawn values differ at one seed.
_AGREEING = ("0.2.", "0.3.")


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    """The model; ``source`` is where it was loaded from, null for one that was in memory."""

    fingerprint: str
    classes: list[str]
    link: Link
    source: str | None


@dataclass(frozen=True, kw_only=True)
class MethodRecord:
    """A method with the settings that this model uses."""

    id: str
    label: str
    signed: bool
    settings: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ShardPlan:
    """``texts`` consecutive texts to a shard, the last one may have fewer."""

    texts: int
    count: int


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What ``run.json`` holds. Nothing in it depends on when, where or how the run is done."""

    schema: Literal["limelight.run/1"]
    version: str
    model: ModelRecord
    methods: list[MethodRecord]
    question: Question
    data: DataRecord
    shards: ShardPlan
    budget: str | None = None  # calls of the model that all methods together may spend on a text
    cutter: str | None = None  # the fingerprint of a function that cuts texts: what it does
    writing: dict[str, Any] | None = None  # how the model writes, where answers are not given
    sha256: str | None = None  # of all the rest, as it was written; runs of 0.2 have none

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
        # Twice: as what it should be, and as what is written, of which nothing may be passed over.
        record = msgspec.json.decode(content, type=RunRecord)
        _check_known(written := msgspec.json.decode(content), _fields(record), "$")
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
    except RecursionError:
        raise InputError(f"'{path}' is not a limelight run: it is nested too deep.") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InputError(f"'{path}' is not a limelight run: {error}.") from None


def _check_known(given: Any, read: Any, at: str) -> None:
    """Refuse fields that were not read: msgspec lets them pass where records are dataclasses."""
    if isinstance(given, list):
        for i, pair in enumerate(zip(given, read, strict=True)):
            _check_known(*pair, f"{at}[{i}]")
    elif isinstance(given, dict):
        for name, value in given.items():
            if name not in read:
                raise msgspec.ValidationError(f"Object contains unknown field `{name}` - at `{at}`")
            _check_known(value, read[name], f"{at}.{name}")


def write_record(path: Path, record: RunRecord) -> None:
    """Write ``record``, whole or not at all."""
    written = _fields(record)
    # Runs of 0.2 do not say so; of a record that was read, msgspec leaves out what was not there.
    if record.data.labels is None:
        written["data"].pop("labels", None)
    if record.data.columns.at is None:
        written["data"]["columns"].pop("at", None)
    for name in ("cutter", "writing"):
        if written.get(name) is None:
            written.pop(name, None)
    written["sha256"] = _digest(written)
    write_whole(path, msgspec.json.format(msgspec.json.encode(written), indent=1) + b"\n")


def _digest(written: dict[str, Any]) -> str:
    """Return the SHA-256 of a plan without its own, however its fields are laid out in a file."""
    rest = {name: value for name, value in written.items() if name != "sha256"}
    # Sorted, so that whoever lays the file out anew does not change it.
    return hashlib.sha256(msgspec.json.encode(rest, order="sorted")).hexdigest()


def differences(old: RunRecord, new: RunRecord) -> Iterator[str]:
    """Yield what keeps ``new`` from going on with ``old``, as clauses; the first may be all.

    Files are compared by their bytes and models by their fingerprints: both may have moved.
    """
    agree = all(one.version.startswith(_AGREEING) for one in (old, new))
    drawn = any("seed" in method.settings for method in old.methods)
    if old.version != new.version and (drawn or not agree):
        yield f"it was begun with limelight {old.version}, and this is {new.version}"
    if old.model.fingerprint != new.model.fingerprint:
        ours, theirs = (one.model.fingerprint[:_SHOWN] for one in (old, new))
        yield f"it is about another model ({ours}…, not {theirs}…)"
    if (had := _ids(old)) != (asked_for := _ids(new)):
        yield f"its methods are {', '.join(had)}, not {', '.join(asked_for)}"
    # Of equal length: other methods have been yielded before, and the first difference is enough.
    for mine, other in zip(old.methods, new.methods, strict=True):
        yield from _unequal("the {} of " + mine.id, mine.settings, other.settings)
    # Made anew, an older question has the defaults of what could not be asked then.
    asked = ({**_fields(replace(one.question)), "budget": one.budget} for one in (old, new))
    yield from _unequal("its {}", *asked)
    if old.cutter != new.cutter:
        yield f"its cutter, {unit_name(new.question.features)}, has changed since"
    yield from _other_data(old.data, new.data)
    yield from _unequal("its {}", old.writing or {}, new.writing or {})
    if old.shards != new.shards:
        yield f"its shards have {old.shards.texts} texts, not {new.shards.texts}"


def _other_data(old: DataRecord, new: DataRecord) -> Iterator[str]:
    if len(old.files) != len(new.files):
        yield f"its data are {len(old.files)} files, not {len(new.files)}"
    for mine, other in zip(old.files, new.files, strict=False):
        if (mine.bytes, mine.sha256) != (other.bytes, other.sha256):
            yield f"its data were '{mine.path}' with other contents than '{other.path}' has now"
    yield from _unequal("its column for {}", _fields(old.columns), _fields(new.columns))
    yield from _unequal("its map of {}", {"labels": old.labels}, {"labels": new.labels})
    # Not by the limits: 100 of 100 rows are all of them.
    if old.rows != new.rows:
        ours, theirs = (
            "all rows" if n is None else "the first row" if n == 1 else f"the first {n:,} rows"
            for n in (old.limit, new.limit)
        )
        yield f"it is about {ours} of its data, not {theirs}"
    if old.texts_kept != new.texts_kept:
        kept = {True: "it stores the texts", False: "it stores no texts"}
        yield f"{kept[old.texts_kept]}, and now {kept[new.texts_kept].removeprefix('it ')}"


def _unequal(what: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    # A field that one of them lacks is None there: older plans have fewer.
    for name in old | new:
        if old.get(name) != new.get(name):
            yield f"{what.format(name)} is {old.get(name)!r}, not {new.get(name)!r}"


def _fields(record: Any) -> dict[str, Any]:
    """Return the fields as they are written; a cutter is known by where it is defined."""
    written = msgspec.json.encode(record, enc_hook=unit_name)
    return msgspec.json.decode(written, type=dict[str, Any])


def _ids(record: RunRecord) -> list[str]:
    return [method.id for method in record.methods]
