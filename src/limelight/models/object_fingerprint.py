"""What tells one fitted object from another: a digest of all that it holds."""

__all__ = ["object_fingerprint"]

import hashlib
from collections.abc import Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np


def object_fingerprint(thing: Any) -> str:
    """Return the SHA-256 of everything that ``thing`` holds: settings, arrays, words, functions.

    Nothing is serialised: the attributes are walked through, and an object of no known kind counts
    by its type and by the state that it shows.
    """
    digest = hashlib.sha256()
    _add(digest, thing, [])
    return digest.hexdigest()


def _add(digest: Any, thing: Any, path: list[int]) -> None:
    digest.update(f"<{type(thing).__module__}.{type(thing).__qualname__}>".encode())
    if id(thing) in path:  # it holds itself
        return
    path.append(id(thing))
    match thing:
        case None | bool() | int() | float() | complex() | str() | np.generic():
            digest.update(repr(thing).encode("utf-8", "surrogatepass"))
        case bytes() | bytearray():
            digest.update(thing)
        case np.ndarray() if thing.dtype.hasobject:
            _add(digest, thing.tolist(), path)
        case np.ndarray():
            digest.update(f"{thing.dtype.descr}{thing.shape}".encode())
            digest.update(np.ascontiguousarray(thing).tobytes())
        case _:
            for part in _parts(thing):
                _add(digest, part, path)
    digest.update(b">")
    path.pop()


def _parts(thing: Any) -> list[Any]:
    """Return what a container, a function or an object consists of, in an order of its own."""
    match thing:
        case Mapping():
            by_key = sorted(thing.items(), key=lambda item: repr(item[0]))
            return [part for item in by_key for part in item]
        case set() | frozenset():
            return sorted(thing, key=repr)
        case list() | tuple():
            return list(thing)
        case CodeType():
            return [thing.co_code, thing.co_consts, thing.co_names]
        case MethodType():
            return [thing.__func__, thing.__self__]
        case FunctionType():
            cells = [cell.cell_contents for cell in thing.__closure__ or ()]
            return [thing.__code__, thing.__defaults__, cells]
        case BuiltinFunctionType() | type():
            return [thing.__module__, thing.__qualname__]
    return [_state(thing)]


def _state(thing: Any) -> Any:
    """Return the state that an object shows, such as its attributes or, of a compiled one, arrays.

    A class may refuse, and one without a state counts by its type.
    """
    try:
        return thing.__getstate__()
    except Exception:
        return None
