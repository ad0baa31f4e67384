"""What a folder of transformers must not hold, seen before that library reads it."""

__all__ = ["check_folder"]

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from limelight.errors import InputError
from limelight.files import bounded_bytes, bounded_json
from limelight.text import one_line

_MOST_JSON = 1 << 28  # bytes: the largest tokenizers have a tenth of that
_MOST, _MOST_LAYERS = 10**8, 10**4  # of anything; of layers, each of which is built by itself


def check_folder(folder: Path) -> None:
    """Refuse files that never end, and sizes that no memory holds."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            continue
        if not path.is_file():
            raise InputError(
                f"'{path}' must be a file; it is a device, a pipe or a link that leads nowhere."
            )
        if path.suffix in (".json", ".txt", ".model") and path.stat().st_size > _MOST_JSON:
            raise InputError(f"'{path}' must have at most {_MOST_JSON:,} bytes; it has more.")
    config = folder / "config.json"
    for name, number in _numbers(bounded_json(bounded_bytes(config, _MOST_JSON), f"'{config}'")):
        most = _MOST_LAYERS if "layer" in name else _MOST
        if number > most:
            raise InputError(
                f"'{config}' must be that of a model; {one_line(name)!r} is above {most:,} there."
            )


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Yield the whole numbers of a configuration, wherever they stand, with their names."""
    inside: list[Any] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = [(name, one) for one in value]
    elif isinstance(value, int) and not isinstance(value, bool):
        yield name, value
    for key, one in inside:
        yield from _numbers(one, str(key))
