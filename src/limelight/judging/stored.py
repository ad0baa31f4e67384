"""Explanations that were stored: JSON files, as ``explain`` and ``compare`` write them."""

__all__ = ["is_stored", "stored_explanations"]

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from limelight.errors import InputError
from limelight.results import Comparison, Explanation

_SUFFIXES = (".json", ".jsonl")


def is_stored(one: Any) -> bool:
    """Return whether ``one`` is a file of explanations, or a list of them."""
    if isinstance(one, str):
        return one.endswith(_SUFFIXES)
    if isinstance(one, Explanation | Comparison | os.PathLike):
        return True
    return isinstance(one, Sequence) and all(isinstance(e, Explanation | Comparison) for e in one)


def stored_explanations(one: Any) -> dict[str, dict[str, Explanation]]:
    """Return the explanations by method, then by text."""
    if isinstance(one, str | os.PathLike):
        path = Path(one)
        found = _of_file(path)
    else:
        found = _apart([one] if isinstance(one, Explanation | Comparison) else one)
    by_method: dict[str, dict[str, Explanation]] = {}
    for e in found:
        by_method.setdefault(e.method, {})[e.text] = e
    if not by_method:
        raise InputError("there are no stored explanations in what was given.")
    return by_method


def _of_file(path: Path) -> list[Explanation]:
    content = path.read_text("utf-8")
    try:
        json.loads(content)
        records = [content]
    except ValueError:  # one object per line
        records = [line for line in content.splitlines() if line.strip()]
    return _apart(map(_read, records))


def _read(record: str) -> Explanation | Comparison:
    compared = '"limelight.comparison/1"' in record[:200]
    return Comparison.from_json(record) if compared else Explanation.from_json(record)


def _apart(several: Iterable[Explanation | Comparison]) -> list[Explanation]:
    return [e for one in several for e in (one if isinstance(one, Comparison) else [one])]
