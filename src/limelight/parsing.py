"""Files of others, read with care: of a known size, from a file, and not too deep."""

__all__ = ["Readable", "bounded_bytes", "bounded_json", "read_at_most"]

import json
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from limelight.errors import InputError

_PART = 1 << 22  # bytes


@runtime_checkable
class Readable(Protocol):
    """What bytes can be read from: a file, a pipe, an archive."""

    def read(self, size: int, /) -> bytes:
        """Return ``size`` bytes at most, none at the end."""
        ...


def bounded_bytes(path: Path, most: int) -> bytes:
    """Return what the file at ``path`` holds; refuse devices and pipes, and more than ``most``."""
    # Asked before opening: a pipe that nobody writes to would be waited for, /dev/zero never ends.
    if path.exists() and not path.is_file():
        raise InputError(f"'{path}' must be a file; it is a folder, a device or a pipe.")
    with path.open("rb") as file:
        return read_at_most(file, most, f"'{path}'")


def read_at_most(file: Readable, most: int, name: str) -> bytes:
    """Return what is left of ``file``, called ``name``; refuse more than ``most`` bytes."""
    parts, size = [], 0
    while part := file.read(_PART):  # not all at once: read(n) may reserve n bytes for one
        size += len(part)
        if size > most:
            raise InputError(f"{name} must have at most {most:,} bytes; it has more.")
        parts.append(part)
    return b"".join(parts)


def bounded_json(content: bytes | str, name: str) -> Any:
    """Return the JSON value that ``content``, called ``name``, spells out."""
    try:
        return json.loads(content)
    except RecursionError:
        raise InputError(f"{name} is nested too deep.") from None
    except ValueError as error:
        raise InputError(f"{name} is not JSON ({error}).") from None
