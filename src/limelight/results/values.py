"""Values that a file can hold: in memory, in JSON, and their equality."""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Float

_MAX_DEPTH = 32  # values inside values; a file of brackets must not end in a recursion
# JSON has no infinity. A text that is spelled like one is wrapped in a file, so that texts and
# infinities both come back as they were.
_WORDS = {math.inf: "inf", -math.inf: "-inf"}
_NUMBERS = {word: number for number, word in _WORDS.items()}
_TEXT = "text"
_ALWAYS_VALID_TYPES = (bool, int)  # the types of most settings


def plain_value(value: Any, owner: str, depth: int = 0) -> Any:
    """Convert a value to lists, dictionaries, texts, numbers, booleans and None.

    Raise an InputError, which names the ``owner`` of the value, for any other type, for NaN and
    for a text with a lone surrogate.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if depth > _MAX_DEPTH:
        raise InputError(f"{owner} must be nested at most {_MAX_DEPTH} levels deep.")
    if isinstance(value, Mapping):
        return {
            k if type(k) is str and k.isascii() else _check_key(k, owner): v
            if v is None
            or type(v) in _ALWAYS_VALID_TYPES
            or (type(v) is str and v.isascii())
            or (type(v) is float and v == v)
            else plain_value(v, owner, depth + 1)
            for k, v in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain_value(element, owner, depth + 1) for element in value]
    if isinstance(value, str):
        return require_whole_characters(value, owner)
    if value is not None and not isinstance(value, bool | int | float):
        kind = type(value).__name__
        raise InputError(f"{owner} must contain texts, numbers and lists of them, not {kind}.")
    if value != value:
        raise InputError(f"{owner} must not contain NaN.")
    return value


def require_whole_characters(text: str, owner: str) -> str:
    """Return ``text`` unchanged, or raise an InputError if it has a lone surrogate.

    No file can hold half a character. The message names the ``owner`` of the text.
    """
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{owner} must have no lone surrogates, but character {error.start} (counting from 0) "
            "of a text is one."
        ) from None
    return text


def encode_value(value: Any) -> Any:
    """Return a plain value in the form that a file has, the inverse of :func:`decode_value`."""
    if isinstance(value, float):
        return _WORDS.get(value, value)
    if isinstance(value, str):
        return {_TEXT: value} if value in _NUMBERS else value
    if isinstance(value, list):
        return [encode_value(element) for element in value]
    if isinstance(value, dict):
        encoded = {name: encode_value(element) for name, element in value.items()}
        return {_TEXT: encoded} if set(encoded) == {_TEXT} else encoded
    return value


def decode_value(value: Any) -> Any:
    """Return the plain value that :func:`encode_value` wrote."""
    if isinstance(value, str):
        return _NUMBERS.get(value, value)
    if isinstance(value, list):
        return [decode_value(element) for element in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_TEXT}:
        inner = value[_TEXT]
        if isinstance(inner, str):
            return inner
        if isinstance(inner, dict) and set(inner) == {_TEXT}:
            value = inner
    return {name: decode_value(element) for name, element in value.items()}


def map_values(convert: Callable[[Any], Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Apply ``convert`` to each value of a mapping."""
    # Not to the mapping itself: one with the only name "text" has another meaning in a file.
    return {name: convert(value) for name, value in values.items()}


def _check_key(key: Any, owner: str) -> str:
    """Return a key of a mapping after checking that it is a valid string."""
    if not isinstance(key, str):
        raise InputError(f"{owner} must have texts as names, not {key!r}.")
    return require_whole_characters(key, owner)


def frozen_array(name: str, values: Any, d: int, axes: int = 1) -> Float[np.ndarray, "..."]:
    """Copy one finite number per feature into a read-only array.

    Parameters
    ----------
    name
        The values as an error message calls them.
    values
        Numbers, or rows of numbers. The caller's array stays writable.
    d
        Number of features: the length of the last axis.
    axes
        Number of axes.

    Returns
    -------
    The read-only copy.

    Raises
    ------
    InputError
        If the shape is another or a number is not finite.
    """
    try:
        array = np.array(values, dtype=np.float64)
    except ValueError:  # rows of several lengths
        raise InputError(f"{name} must have one number per feature ({d}) in each row.") from None
    if array.ndim != axes or array.shape[-1] != d or not len(array) >= axes - 1:
        raise InputError(
            f"{name} must have one number per feature ({d}), not the shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, not {array}.")
    array.setflags(write=False)
    return array


class EqualByFields:
    """A dataclass whose values are equal if their fields are, arrays element by element.

    A subclass has no hash unless it defines one. A copy or an unpickled value is constructed anew,
    so it passes the checks of the original.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        # Read-only mappings cannot be pickled.
        plain = {k: dict(v) if isinstance(v, MappingProxyType) else v for k, v in values.items()}
        return partial(type(self), **plain), ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            _are_equal(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)  # type: ignore[arg-type]
            if field.compare
        )


def _are_equal(a: Any, b: Any) -> bool:
    """Return whether two values are equal, also if they are arrays."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a is not None and b is not None and np.array_equal(a, b)
    return bool(a == b)
