"""Values that a file can hold, in memory and in JSON; their equality, and rows as data frames."""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from limelight.errors import InputError
from limelight.shapes import Float
from limelight.text import one_line


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object in a file of ours; a reader raises an error for a field that it does not know."""


_DEEPEST = 32  # values inside values; a file of brackets must not end in a recursion
# JSON knows no infinity. A text that is spelled like one is wrapped in a file, so that both come
# back as what they were.
_WORDS = {math.inf: "inf", -math.inf: "-inf"}
_NUMBERS = {word: number for number, word in _WORDS.items()}
_TEXT = "text"
_SIMPLE = (bool, int)  # of which nothing can be wrong: most settings are


def plain_value(value: Any, where: str, depth: int = 0) -> Any:
    """Return ``value`` as lists, objects, texts, numbers, true, false and None; refuse the rest."""
    if isinstance(value, np.generic):
        value = value.item()
    if depth > _DEEPEST:
        raise InputError(f"{where} must be nested at most {_DEEPEST} deep; these are deeper.")
    if isinstance(value, Mapping):
        return {
            k if type(k) is str and k.isascii() else _name(k, where): v
            if v is None
            or type(v) in _SIMPLE
            or (type(v) is str and v.isascii())
            or (type(v) is float and v == v)
            else plain_value(v, where, depth + 1)
            for k, v in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain_value(item, where, depth + 1) for item in value]
    if isinstance(value, str):
        return whole_text(value, where)
    if value is not None and not isinstance(value, bool | int | float):
        kind = type(value).__name__
        raise InputError(f"{where} must hold texts, numbers and lists of them; got {kind}.")
    if value != value:
        raise InputError(f"{where} must not hold NaN, which is not a number.")
    return value


def check_schema(content: str | bytes, schema: str, problem: str) -> None:
    """Raise an error that begins with ``problem`` if a JSON object has another schema.

    The version is the part of a schema after its "/". Content that is no JSON object passes.
    """
    try:
        found = msgspec.json.decode(content, type=dict[str, msgspec.Raw]).get("schema")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return
    if found is None:
        raise InputError(f"{problem}: it names no schema.")
    if (name := bytes(found).decode("utf-8", "replace").strip('"')) != schema:
        raise InputError(
            f"{problem} that this version reads: its schema is {one_line(name, 60)!r}, and this "
            f"version reads {schema!r}."
        )


def whole_text(text: str, where: str) -> str:
    """Return ``text`` unless it holds half a character, which no file can."""
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where} must hold whole characters; number {error.start} (counting from 0) of a text "
            "is a lone surrogate."
        ) from None
    return text


def written_value(value: Any) -> Any:
    """Return a plain value as it stands in a file."""
    if isinstance(value, float):
        return _WORDS.get(value, value)
    if isinstance(value, str):
        return {_TEXT: value} if value in _NUMBERS else value
    if isinstance(value, list):
        return [written_value(item) for item in value]
    if isinstance(value, dict):
        found = {name: written_value(item) for name, item in value.items()}
        return {_TEXT: found} if set(found) == {_TEXT} else found
    return value


def read_value(value: Any) -> Any:
    """Return the plain value that :func:`written_value` wrote."""
    if isinstance(value, str):
        return _NUMBERS.get(value, value)
    if isinstance(value, list):
        return [read_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_TEXT}:
        inner = value[_TEXT]
        if isinstance(inner, str):
            return inner
        if isinstance(inner, dict) and set(inner) == {_TEXT}:
            value = inner
    return {name: read_value(item) for name, item in value.items()}


def each_value(how: Callable[[Any], Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values`` in a file, or from one, each by itself."""
    # Not of the whole: a mapping with the one name "text" stands for something else in a file.
    return {name: how(value) for name, value in values.items()}


def _name(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise InputError(f"{where} must be named by texts; got {key!r}.")
    return whole_text(key, where)


def own_numbers(name: str, given: Any, d: int, axes: int = 1) -> Float[np.ndarray, "..."]:
    """Return a frozen copy of one number per feature: freezing must not freeze the caller's."""
    try:
        own = np.array(given, dtype=np.float64)
    except ValueError:  # rows of several lengths
        raise InputError(f"{name} must hold one number per feature ({d}) in each row.") from None
    if own.ndim != axes or own.shape[-1] != d or not len(own) >= axes - 1:
        raise InputError(f"{name} must hold one number per feature ({d}); got {own.shape}.")
    if not np.isfinite(own).all():
        raise InputError(f"{name} must be finite; got {own}.")
    own.setflags(write=False)
    return own


class EqualByFields:
    """A dataclass whose values are equal if their fields are, arrays element by element.

    It has no hash unless it says so itself. A copy passes the same door as the original.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        own = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        # Read-only mappings cannot be pickled.
        plain = {k: dict(v) if isinstance(v, MappingProxyType) else v for k, v in own.items()}
        return partial(type(self), **plain), ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            _equal(getattr(self, one.name), getattr(other, one.name))
            for one in fields(self)  # type: ignore[arg-type]
            if one.compare
        )


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a is not None and b is not None and np.array_equal(a, b)
    return bool(a == b)
