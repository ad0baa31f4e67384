"""``run.json``: the plan of a run, so that only the same request can continue it."""

import hashlib
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from limelight.data.columns import DataRecord
from limelight.errors import InputError
from limelight.files import read_bounded_bytes, write_atomically
from limelight.models.fingerprints import short_fingerprint
from limelight.models.protocol import Link
from limelight.request import Request
from limelight.results.schema import Record, check_schema
from limelight.text import feature_kind

SCHEMA: Final = "limelight.run/2"
_MAX_BYTES = 1 << 28  # a data set may have many files
# A run without random samples may continue under any of these versions: they compute the same
# scores.
_COMPATIBLE_VERSIONS = ("0.4.",)


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
    """The content of ``run.json``. It does not depend on when, where or how the run is computed."""

    schema: Literal["limelight.run/2"]
    version: str
    model: ModelRecord
    methods: list[MethodRecord]
    request: Request
    data: DataRecord
    shards: ShardPlan
    budget: str | None = None  # calls of the model that all methods together may spend on a text
    splitter: str | None = None  # fingerprint of a function that splits texts into features
    generation: dict[str, Any] | None = None  # how the model writes the answers, unless given
    counterfactual: bool | None = None  # whether rows have counterfactuals; None: they have none
    sha256: str | None = None  # of all other fields; None if a user has removed it to edit the plan

    @property
    def targets_per_text(self) -> int:
        """The number of classes that are explained for every text."""
        return len(self.model.classes) if self.request.all_classes else 1

    @property
    def rows_per_text(self) -> int:
        """One row for every method and explained class, the same for all texts."""
        return len(self.methods) * self.targets_per_text

    def text_numbers(self, shard: int) -> range:
        """Return the numbers of the texts in a shard."""
        first = shard * self.shards.texts
        return range(first, min(first + self.shards.texts, self.data.rows))


def read_record(path: Path) -> RunRecord:
    """Read the plan of a run.

    Raises
    ------
    InputError
        If the file is not a plan of this library.
    """
    content = read_bounded_bytes(path, _MAX_BYTES)
    try:
        record = msgspec.json.decode(content, type=RunRecord)
        plan = msgspec.json.decode(content)
        # ``Request`` is a dataclass. msgspec ignores unknown fields of dataclasses.
        if unknown := plan["request"].keys() - {field.name for field in fields(Request)}:
            raise msgspec.ValidationError(
                f"Object contains unknown field `{min(unknown)}` - at `$.request`"
            )
        # Rows are found by these names. Two equal names would hide rows.
        for noun, names in (("classes", record.model.classes), ("methods", _ids(record))):
            if not names or len(set(names)) < len(names):
                name_list = ", ".join(map(repr, names)) or "none"
                raise msgspec.ValidationError(
                    f"its {noun} must have different names, not {name_list}"
                )
        rows, size = record.data.rows, record.shards.texts
        # An inconsistent plan would leave texts out without a warning.
        if size < 1 or rows < 1 or record.shards.count != -(-rows // size):
            raise msgspec.ValidationError(
                f"its {record.shards.count} shards of {size} texts do not fit its {rows} texts"
            )
        # In an edited plan, shards of two requests would look like shards of one.
        if record.sha256 not in (None, _digest(plan)):
            raise msgspec.ValidationError(
                "its contents do not match its sha256. Restore the file, or remove the sha256 if "
                "you edited the file"
            )
        return record
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        check_schema(content, SCHEMA, f"'{path}' is not a limelight run")
        raise InputError(f"'{path}' is not a limelight run: {error}.") from None


def plan_identity(path: Path) -> str:
    """Return the SHA-256 of the plan at ``path``, which every shard of the run contains.

    It does not cover the version and the paths of model and data, because they do not change the
    rows. It is computed from the plan as it was written, so newer versions find the same value.
    """
    plan = msgspec.json.decode(read_bounded_bytes(path, _MAX_BYTES))
    model, data = dict(plan["model"], source=None), dict(plan["data"])
    data["files"] = [dict(file, path=None) for file in data["files"]]
    return _digest({**plan, "version": None, "model": model, "data": data})


def write_record(path: Path, record: RunRecord) -> None:
    """Write ``record`` to a file atomically."""
    plan = msgspec.to_builtins(record, enc_hook=feature_kind)
    # Fields that do not apply to this run are left out.
    data = plan["data"]
    for part, name in (
        (data, "labels"), (data["columns"], "at"),
        (data["columns"], "documents"), (data["columns"], "messages"), (plan, "splitter"),
        (plan, "generation"), (plan, "counterfactual"),
    ):  # fmt: skip
        if part[name] is None:
            del part[name]
    plan["sha256"] = _digest(plan)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")


def _digest(plan: dict[str, Any]) -> str:
    """Return the SHA-256 of a plan without its field ``sha256``, for any order of its fields."""
    content = {name: value for name, value in plan.items() if name != "sha256"}
    # Sorted, so that formatting the file does not change it.
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def find_differences(old: RunRecord, new: RunRecord) -> Iterator[str]:
    """Yield the reasons, as clauses, why run ``new`` cannot continue run ``old``."""
    versions_agree = all(record.version.startswith(_COMPATIBLE_VERSIONS) for record in (old, new))
    is_sampled = any("seed" in method.settings for method in old.methods)
    if old.version != new.version and (is_sampled or not versions_agree):
        yield f"its version of limelight is {old.version}, not {new.version}"
    old_values, new_values = _identity_values(old), _identity_values(new)
    # A missing field is None: older plans have fewer fields.
    for name in old_values | new_values:
        if (old_value := old_values.get(name)) != (new_value := new_values.get(name)):
            short_values = [_shorten_digest(value) for value in (old_value, new_value)]
            old_short, new_short = (
                short_values if short_values[0] != short_values[1] else (old_value, new_value)
            )
            yield f"its {name} is {old_short!r}, not {new_short!r}"


def _shorten_digest(value: Any) -> Any:
    """Shorten a value for a message if it is a digest."""
    return short_fingerprint(value) if isinstance(value, str) and len(value) >= 64 else value


def _identity_values(record: RunRecord) -> dict[str, Any]:
    """Return the values that two plans must share, by names for messages.

    Files are compared by their bytes and models by their fingerprints: both may have moved.
    """
    data = record.data
    settings = {
        f"{name} of {part.id}": value
        for part in record.methods
        for name, value in part.settings.items()
    }
    columns = msgspec.to_builtins(data.columns)
    return {
        # Named parts of the model come before the fingerprint, which covers them too.
        "list of classes": record.model.classes,
        **{f"{name} of the model": value for name, value in record.model.identity.items()},
        "link": record.model.link,
        "model (by fingerprint)": record.model.fingerprint,
        "list of methods": ", ".join(_ids(record)),
        # ``replace`` fills the options that older plans lack with their defaults. Before the
        # settings, which may depend on these options.
        **msgspec.to_builtins(replace(record.request), enc_hook=feature_kind),
        **settings,
        "budget": record.budget,
        "splitter (by fingerprint)": record.splitter,
        **{f"column for {name}": column for name, column in columns.items()},
        **{f"file {i} (by SHA-256)": part.sha256 for i, part in enumerate(data.files)},
        "map of labels": data.labels,
        # Not the limit: a limit of 100 leaves out nothing of 100 rows.
        "number of rows": data.rows,
        "store_texts": data.store_texts,
        "counterfactual": bool(record.counterfactual),
        **(record.generation or {}),
        "shard_texts": record.shards.texts,
    }


def _ids(record: RunRecord) -> list[str]:
    return [method.id for method in record.methods]
