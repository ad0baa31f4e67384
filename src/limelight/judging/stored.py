"""Explanations that were stored: JSON files, lists, or anything that finds them by text."""

__all__ = ["Stored", "is_stored", "stored_explanations"]

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from limelight.errors import InputError
from limelight.results import Comparison, Explanation
from limelight.text import Document

_SUFFIXES = (".json", ".jsonl")
_NONE = "there are no stored explanations in what was given."


def is_stored(one: Any) -> bool:
    """Return whether ``one`` is a file of explanations, or holds them."""
    if isinstance(one, str):
        return one.endswith(_SUFFIXES)
    return isinstance(one, Explanation | Comparison | os.PathLike | Iterable)


class Stored(NamedTuple):
    """Explanations by one method; ``of`` finds those of a text, of one class or of several."""

    signed: bool
    of: Callable[[Document], Sequence[Explanation]]


def stored_explanations(one: Any) -> dict[str, Stored]:
    """Return the explanations by method.

    A mapping from texts to explanations is kept as it is, of one method: it may read them from a
    disk when they are asked for. Anything else that yields explanations is read to its end.
    """
    if isinstance(one, Mapping):
        first = next(iter(one.values()), None)
        if not isinstance(first, Explanation):
            raise InputError(_NONE if first is None else _not_explanations(first))
        return {first.method: Stored(first.signed, _looked_up(one))}
    found = _of_file(Path(one)) if isinstance(one, str | os.PathLike) else _apart(_each(one))
    by_method: dict[str, list[Explanation]] = {}
    for e in found:
        by_method.setdefault(e.method, []).append(e)
    if not by_method:
        raise InputError(_NONE)
    return {name: Stored(own[0].signed, _by_text(own)) for name, own in by_method.items()}


def _looked_up(one: Mapping[Any, Any]) -> Callable[[Document], Sequence[Explanation]]:
    def of(document: Document) -> Sequence[Explanation]:
        e = one.get(document.text)
        e = one.get(document.given) if e is None else e
        return () if e is None else (e,)

    return of


def _by_text(several: Iterable[Explanation]) -> Callable[[Document], Sequence[Explanation]]:
    found: dict[str, list[Explanation]] = {}
    for e in several:
        found.setdefault(e.text, []).append(e)
    return lambda document: found.get(document.text, ())


def _each(one: Any) -> Iterable[Any]:
    return [one] if isinstance(one, Explanation | Comparison) else one


def _not_explanations(first: Any) -> str:
    return (
        "stored explanations are a JSON file, a list of explanations, or a mapping from texts to "
        f"them; got {type(first).__name__}."
    )


def _of_file(path: Path) -> list[Explanation]:
    if path.is_dir():
        raise InputError(
            f"stored explanations are a JSON file, and '{path}' is a folder; give a run as "
            "limelight.Run(folder)."
        )
    try:
        content = path.read_text("utf-8")
    except FileNotFoundError:
        raise InputError(f"there are no explanations at '{path}'; check the path.") from None
    except UnicodeDecodeError:
        raise InputError(f"'{path}' is not a JSON file of explanations.") from None
    try:
        json.loads(content)
        records = [content]
    except ValueError:  # one object per line
        records = [line for line in content.splitlines() if line.strip()]
    return _apart(map(_read, records))


def _read(record: str) -> Explanation | Comparison:
    compared = '"limelight.comparison/1"' in record[:200]
    return Comparison.from_json(record) if compared else Explanation.from_json(record)


def _apart(several: Iterable[Any]) -> list[Explanation]:
    found: list[Explanation] = []
    for one in several:
        if not isinstance(one, Explanation | Comparison):
            raise InputError(_not_explanations(one))
        found += one if isinstance(one, Comparison) else [one]
    return found
