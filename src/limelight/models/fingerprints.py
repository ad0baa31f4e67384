"""Digests of objects in memory, from all that they hold: functions, pipelines, arrays, tables.

Nothing is serialized: attributes are walked through. A digest is the same in every process.
"""

import copyreg
import dis
import hashlib
import inspect
import json
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

# Where in memory something is: vectorizers remember their stop words by that, and it differs from
# one process to the next, so that no run of such a pipeline could be resumed.
_PLACES = ("_stop_words_id",)
_TABLES = (str, int, float, bytes, list, tuple, set, frozenset, dict, re.Pattern)
_CHANGING = (dict, list, set, bytearray, int, float, str, tuple, type(None))
_MUTATORS = frozenset(
    ("append", "add", "update", "setdefault", "extend", "insert", "pop", "popitem", "clear",
     "remove", "discard", "appendleft", "write")
)  # fmt: skip
_AT_THE_START = ("__init__", "__new__", "__post_init__", "__setstate__")
# Libraries whose objects hold what they answer by, and nothing that changes when they are used.
_STEADY = ("builtins", "numpy", "scipy", "sklearn", "pandas", "re", "functools", "datetime",
           "decimal", "fractions", "collections", "enum", "pathlib", "copyreg", "operator",
           "string", "itertools", "types", "typing")  # fmt: skip
_DIGEST_SHOWN = 8  # characters
_MOST_PARTS = 1_000_000  # of a function: about two seconds


class Fingerprint(NamedTuple):
    """The SHA-256 of an object, and the names of what is part of it but could not be looked into.

    ``unchecked_parts`` parts count by their types alone, so that a change of them goes unnoticed.
    """

    digest: str
    unchecked_parts: tuple[str, ...] = ()


def object_fingerprint(thing: Any) -> str:
    """Return the SHA-256 of everything that ``thing`` holds: settings, arrays, words, functions.

    An object of no known kind counts by its type and by the state that it shows. A function counts
    with what it uses of its module: other functions, and tables of words, numbers and patterns, but
    no objects of other kinds.
    """
    walk = _Walk()
    walk.add(thing, "")
    return walk.digest.hexdigest()


def function_fingerprint(function: Any) -> Fingerprint:
    """Return the SHA-256 of what a function answers by, and what of it could not be looked into.

    That is its code with that of functions inside it, its defaults, what its closure holds, and
    what it uses of its module and of other modules that belong to no library: functions, classes,
    tables, arrays, networks. What the code itself changes, such as a cache or a counter, is left
    out, or no run could continue after the function was called.
    """
    root = getattr(function, "__func__", function)
    module = getattr(root, "__module__", None) or type(root).__module__
    return _walked(_Walk(follow=True, package=module.partition(".")[0]), function)


def pipeline_fingerprint(pipeline: Any) -> Fingerprint:
    """Return the SHA-256 of all that a pipeline holds, and what of it could not be looked into.

    Objects of any library count by the state that they show; functions count as those of
    :func:`function_fingerprint`.
    """
    return _walked(_Walk(follow=True, of_pipeline=True), pipeline)


def _walked(walk: "_Walk", thing: Any) -> Fingerprint:
    name = str(getattr(thing, "__name__", type(thing).__name__))
    try:
        walk.add(thing, name)
    # Objects of others may raise anything, or hold one another without end.
    except Exception:
        return Fingerprint(hashlib.sha256(name.encode()).hexdigest(), (name,))
    return Fingerprint(walk.digest.hexdigest(), tuple(dict.fromkeys(walk.unchecked_parts)))


def model_identity(model: Any) -> dict[str, Any]:
    """Return the named parts of a model's fingerprint; a model need not have any."""
    return dict(getattr(model, "identity", {}))


def unchecked_parts(model: Any) -> tuple[str, ...]:
    """Return the names of what a model uses and its fingerprint does not cover."""
    return tuple(getattr(model, "unchecked_parts", ()))


def short_fingerprint(fingerprint: str, size: int = 16) -> str:
    """Return the beginning of a fingerprint; where a name stands before a digest, some of both."""
    name, _, digest = fingerprint.rpartition(" ")
    if not name or not re.fullmatch("[0-9a-f]{64}", digest):
        return fingerprint[:size]
    return f"{name} {digest[:_DIGEST_SHOWN]}"


class _Walk:
    """A walk through an object. With ``follow``, also through all that its functions use.

    What a function uses may change when it is used, so that an object of an unknown library counts
    by its type there. In a pipeline, which is fitted once, it counts by its state. What belongs to
    ``package`` is followed, although it may be installed.
    """

    def __init__(
        self, *, follow: bool = False, of_pipeline: bool = False, package: str = ""
    ) -> None:
        self.digest, self.unchecked_parts, self._follow = hashlib.sha256(), list[str](), follow
        self._of_pipeline, self._functions = of_pipeline, 0  # functions around what is looked at
        self._path, self._count = list[int](), 0
        self._package = "" if package in (*_STEADY, *sys.stdlib_module_names) else package
        self._seen = dict[int, Any]()  # functions and classes, which count once

    def add(self, thing: Any, name: str) -> None:
        """Add ``thing``, which is called ``name``."""
        # With types and marked ends: [1, [2]] and [[1], 2] hold the same numbers.
        kind = type(thing)
        self.digest.update(f"<{kind.__module__}.{kind.__qualname__}>".encode())
        if id(thing) in self._path:  # it holds itself
            return
        self._count += 1
        if self._follow and not self._of_pipeline and self._count > _MOST_PARTS:
            self.unchecked_parts += [name] if self._count == _MOST_PARTS + 1 else []
            return
        self._path.append(id(thing))
        match thing:
            case None | bool() | int() | float() | complex() | str() | np.generic():
                self.digest.update(repr(thing).encode("utf-8", "surrogatepass"))
            case bytes() | bytearray():
                self.digest.update(thing)
            # Its bytes would be addresses.
            case np.ndarray() if thing.dtype.hasobject:
                self.add(thing.tolist(), name)
            case np.ndarray():
                self.digest.update(f"{thing.dtype.descr}{thing.shape}".encode())
                self.digest.update(np.ascontiguousarray(thing).tobytes())
            case _:
                is_function = isinstance(thing, FunctionType)
                self._functions += is_function
                for part, called in self._parts(thing, name):
                    self.add(part, called)
                self._functions -= is_function
        self.digest.update(b">")
        self._path.pop()

    def _parts(self, thing: Any, name: str) -> Iterable[tuple[Any, str]]:
        """Return what a container, a function or an object consists of, in an order of its own."""
        match thing:
            case Mapping():
                by_key = sorted(thing.items(), key=lambda entry: repr(entry[0]))
                pairs = (pair for pair in by_key if pair[0] not in _PLACES)
                return ((part, name) for pair in pairs for part in pair)
            case set() | frozenset():
                # Strings in a set come in another order in every process.
                return ((part, name) for part in sorted(thing, key=repr))
            case list() | tuple():
                return ((part, name) for part in thing)
            case CodeType():
                # Not its file and line: a function that was moved is still the same.
                return ((part, name) for part in (thing.co_code, thing.co_consts, thing.co_names))
            # A bound method answers by the object that it belongs to.
            case MethodType():
                return [(thing.__func__, thing.__name__), (thing.__self__, name)]
            # What a closure holds changes its answers as much as its code does.
            case FunctionType() if not self._follow or not self._is_library(thing.__module__ or ""):
                return self._of_function(thing)
            case type() if self._follow and not self._is_library(thing.__module__):
                return self._of_class(thing)
            case BuiltinFunctionType() | FunctionType() | type():
                return [(part, name) for part in (thing.__module__, thing.__qualname__)]
        if not self._follow:
            return self._of_object(thing, name)
        try:
            return self._of_followed(thing, name)
        except Exception:  # attributes of somebody's class may raise anything
            self.unchecked_parts.append(name)
            return []

    def _of_function(self, function: FunctionType) -> Iterable[tuple[Any, str]]:
        if self._follow and self._is_seen(function):
            return []
        code, changed = function.__code__, frozenset[str]()
        if self._follow:
            changed = frozenset(_changed_names(code))
        cells: dict[str, Any] = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                cells[name] = cell.cell_contents
            except ValueError:  # it is bound later
                cells[name] = None
        used = self._used(function) if self._follow else _found(function)
        for names in (cells, used):
            for name in sorted(names.keys() & changed):
                if isinstance(names[name], _CHANGING):
                    names[name] = None
                    self.unchecked_parts.append(name)
        parts: list[tuple[Any, str]] = [(code, function.__name__)]
        parts += [(value, function.__name__) for value in (function.__defaults__,)]
        parts.append((function.__kwdefaults__, function.__name__))
        parts += [(value, name) for name, value in cells.items()]
        parts += [part for name, value in used.items() for part in ((name, name), (value, name))]
        wrapped = getattr(function, "__wrapped__", None)  # of a decorator
        return [*parts, (wrapped, function.__name__)] if wrapped is not None else parts

    def _used(self, function: FunctionType) -> dict[str, Any]:
        """Return what a function uses of its own module, and of others that are no library."""
        names, values = list(dict.fromkeys(_names(function.__code__))), function.__globals__
        used = {name: values[name] for name in names if name in values}
        for name, module in list(used.items()):
            if isinstance(module, ModuleType):
                del used[name]
                if not self._is_library(module.__name__):
                    inside = {other: getattr(module, other, None) for other in names}
                    used |= {f"{name}.{other}": x for other, x in inside.items() if x is not None}
        return {name: x for name, x in used.items() if not self._is_of_library(x)}

    def _of_class(self, kind: type) -> Iterable[tuple[Any, str]]:
        """Return the code of a class, and what its methods use."""
        parts: list[tuple[Any, str]] = [(kind.__qualname__, kind.__name__)]
        if self._is_seen(kind):
            return parts
        for base in kind.__mro__:
            if self._is_library(base.__module__):
                parts.append((f"{base.__module__}.{base.__qualname__}", kind.__name__))
                continue
            for name, value in sorted(vars(base).items()):
                value = getattr(value, "__func__", value)
                value = getattr(value, "fget", value) or getattr(value, "func", value)
                if isinstance(value, (FunctionType, *_TABLES)) and name not in _OF_CLASSES:
                    parts += [(name, name), (value, name)]
        return parts

    def _of_followed(self, thing: Any, name: str) -> Iterable[tuple[Any, str]]:
        """Return what an object answers by; one that nobody can look into is unchecked_parts."""
        kind = type(thing)
        if isinstance(thing, ModuleType):
            self.unchecked_parts += [] if self._is_library(thing.__name__) else [name]
            return [(thing.__name__, name)]
        if hasattr(kind, "capabilities") and hasattr(kind, "fingerprint"):  # a model of limelight
            return [(str(thing.fingerprint), name)]
        if (wrapped := getattr(thing, "__wrapped__", None)) is not None:  # of functools' caches
            return [(wrapped, name)]
        if callable(state := getattr(thing, "state_dict", None)) and hasattr(thing, "modules"):
            config: Any = getattr(thing, "config", None)
            said = config.to_dict() if hasattr(config, "to_dict") else {}
            said = {key: x for key, x in said.items() if key not in _OF_LIBRARIES}
            parts = [
                _ADDRESS.sub("", repr(thing)),
                json.dumps(said, sort_keys=True, default=str),
                dict(state()),
            ]
            return [(part, name) for part in parts]
        if hasattr(thing, "detach") and hasattr(thing, "cpu"):  # a tensor of torch
            array = thing.detach().cpu()
            whole = array.double() if str(array.dtype).endswith("bfloat16") else array
            return [(str(array.dtype), name), (whole.numpy(), name)]
        if (backend := getattr(thing, "backend_tokenizer", None)) is not None:
            # Every call sets how texts are padded and cut.
            settings = json.loads(backend.to_str()) | {"truncation": None, "padding": None}
            limit = getattr(thing, "model_max_length", None)
            return [(json.dumps(settings, sort_keys=True), name), (limit, name)]
        if not self._is_library(kind.__module__):
            return self._of_own_object(thing, name)
        # A generator of random numbers has another state whenever it was used.
        steady = kind.__module__.partition(".")[0] in _STEADY and "random" not in kind.__module__
        if steady or (self._of_pipeline and not self._functions):
            return self._of_object(thing, name)
        self.unchecked_parts.append(name)
        return []

    def _of_own_object(self, thing: Any, name: str) -> Iterable[tuple[Any, str]]:
        """Return the class of an object that belongs to no library, and its attributes."""
        kind = type(thing)
        methods = [m for base in kind.__mro__ for m in vars(base).values()]
        codes = [
            one.__code__
            for one in (getattr(method, "__func__", method) for method in methods)
            if isinstance(one, FunctionType) and one.__name__ not in _AT_THE_START
        ]
        changed = {called for code in codes for called in _changed_names(code)}
        slots = [s for base in kind.__mro__ for s in _listed(vars(base).get("__slots__", ()))]
        held = {s: getattr(thing, s, None) for s in slots} | dict(getattr(thing, "__dict__", {}))
        parts: list[tuple[Any, str]] = [(kind, kind.__name__)]
        for called, value in sorted(held.items()):
            if called in changed and isinstance(value, _CHANGING):
                self.unchecked_parts.append(called)
                value = None
            parts += [(called, called), (value, called)]
        if not held and isinstance(thing, Sequence | Mapping):
            self.unchecked_parts.append(name)
        return parts

    def _of_object(self, thing: Any, name: str) -> Iterable[tuple[Any, str]]:
        try:  # what it would be made of again: attributes, of a compiled one arrays
            reduced: Any = copyreg.dispatch_table.get(type(thing))
            made = thing.__reduce_ex__(2) if reduced is None else reduced(thing)
            parts = [made] if isinstance(made, str) else list(made[1:3])
        except Exception:  # a class may refuse, and counts by its type
            self.unchecked_parts.append(name or type(thing).__name__)
            parts = [None]
        return [(part, name) for part in parts]

    def _is_of_library(self, thing: Any) -> bool:
        """Whether a function or class comes from a library, where it goes by its name."""
        if not (inspect.isroutine(thing) or isinstance(thing, type)):
            return False
        return self._is_library(getattr(thing, "__module__", None) or "builtins")

    def _is_library(self, module: str) -> bool:
        own = bool(self._package) and str(module).partition(".")[0] == self._package
        return not own and _is_library(module)

    def _is_seen(self, thing: Any) -> bool:
        """Whether a function or class was met before; else note that it is met now."""
        if id(thing) in self._seen:
            return True
        self._seen[id(thing)] = thing
        return False


_ADDRESS = re.compile(" at 0x[0-9a-fA-F]+")
_OF_CLASSES = ("__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__")
_OF_LIBRARIES = ("transformers_version", "_name_or_path", "dtype", "torch_dtype")


def _listed(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots)


def _found(function: FunctionType) -> dict[str, Any]:
    """Return what a function uses of its module and would be changed with."""
    # An object of another kind, a language model or a cache of a library, may change whenever it is
    # used, and a run could never go on with it.
    found = {name: function.__globals__.get(name) for name in _names(function.__code__)}
    return {
        name: one
        for name, one in found.items()
        if isinstance(one, _TABLES)
        or (isinstance(one, FunctionType) and one.__module__ == function.__module__)
    }


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _changed_names(code: CodeType) -> Iterator[str]:
    """Yield the names of what the code changes: variables of others, attributes, and containers.

    A container counts as changed where it is named on a line that stores into one: rather too many
    than too few.
    """
    loaded, before, line = list[str](), "", 0
    for step in dis.get_instructions(code):
        if step.starts_line is not None:
            loaded, line = [], line + 1
        name, what = str(step.argval), step.opname
        of_closure = what == "STORE_DEREF" and name in code.co_freevars
        if of_closure or what in ("STORE_GLOBAL", "STORE_ATTR", "DELETE_GLOBAL", "DELETE_ATTR"):
            yield name
        elif what in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            yield from loaded
        elif what.startswith("LOAD_") and what.removeprefix("LOAD_") in _LOADS:
            if name in _MUTATORS and before:
                yield before
            before = name
            loaded.append(name)
            continue
        before = "" if what not in ("PRECALL", "PUSH_NULL", "CACHE") else before
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _changed_names(inner)


_LOADS = ("GLOBAL", "NAME", "DEREF", "ATTR", "METHOD", "CLASSDEREF")


@cache
def _is_library(module: str) -> bool:
    """Whether a module belongs to Python or to an installed package, and not to the user."""
    top = str(module).partition(".")[0]
    if top in ("__main__", "__mp_main__"):
        return False
    if top in sys.stdlib_module_names or top in sys.builtin_module_names or top == "limelight":
        return True
    file = getattr(sys.modules.get(module) or sys.modules.get(top), "__file__", None)
    if file is None:
        return False
    folders = {sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")}
    parents = Path(file).resolve().parents
    return "site-packages" in Path(file).parts or any(
        Path(one).resolve() in parents for one in folders
    )
