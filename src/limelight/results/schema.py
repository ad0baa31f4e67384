"""Objects in JSON files, and the schemas that the files name."""

import msgspec

from limelight.errors import InputError
from limelight.text import truncate_line


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object in a JSON file of this library. Reading an unknown field raises an error."""


def check_schema(content: str | bytes, schema: str, problem: str) -> None:
    """Raise an error that begins with ``problem`` if a JSON object has another schema.

    The version is the part of a schema after its "/". Content that is no JSON object passes.
    """
    try:
        raw_name = msgspec.json.decode(content, type=dict[str, msgspec.Raw]).get("schema")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return
    if raw_name is None:
        raise InputError(f"{problem}: it has no schema.")
    if (name := bytes(raw_name).decode("utf-8", "replace").strip('"')) != schema:
        raise InputError(
            f"{problem} that this version reads. Its schema is {truncate_line(name, 60)!r}, not "
            f"{schema!r}."
        )
