"""Digests of objects in memory: functions, pipelines, arrays and containers.

Objects are not serialized. Their attributes are visited one by one, so that a digest is the same
in every process.
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

# Attributes with a memory address. Vectorizers store that of their stop words. It differs between
# processes, so that no run of such a pipeline could be resumed.
_ADDRESS_ATTRIBUTES = ("_stop_words_id",)
_VALUE_TYPES = (str, int, float, bytes, list, tuple, set, frozenset, dict, re.Pattern)
# Types of variables that a function may change, such as a cache or a counter.
_STATE_TYPES = (dict, list, set, bytearray, int, float, str, tuple, type(None))
_MUTATORS = frozenset(
    ("append", "add", "update", "setdefault", "extend", "insert", "pop", "popitem", "clear",
     "remove", "discard", "appendleft", "write")
)  # fmt: skip
_CREATION_METHODS = ("__init__", "__new__", "__post_init__", "__setstate__")
# Libraries whose objects do not change when they are used.
_STABLE_LIBRARIES = (
    "builtins", "numpy", "scipy", "sklearn", "pandas", "re", "functools", "datetime", "decimal",
    "fractions", "collections", "enum", "pathlib", "copyreg", "operator", "string", "itertools",
    "types", "typing",
)  # fmt: skip
_SHORT_DIGEST_LENGTH = 8
_MAX_FUNCTION_PARTS = 1_000_000  # visiting them takes about two seconds


class Fingerprint(NamedTuple):
    """The SHA-256 of an object, and the names of its parts that could not be inspected.

    Of ``unchecked_parts`` only the types are part of the digest, so that it does not change with
    their content.
    """

    digest: str
    unchecked_parts: tuple[str, ...] = ()


def object_fingerprint(value: Any) -> str:
    """Return the SHA-256 of a value with everything that it contains.

    An object of an unknown class is represented by its type and its pickled state. A function is
    represented by its code and by the objects of its module that it uses: functions, strings,
    numbers, containers and patterns, but no objects of other classes.
    """
    walk = _Walk()
    walk.add(value, "")
    return walk.digest.hexdigest()


def function_fingerprint(function: Any) -> Fingerprint:
    """Return the fingerprint of everything that the results of a function depend on.

    These are its code, its defaults, the content of its closure, and the objects that it uses in
    its module and in other modules that belong to no library: functions, classes, containers,
    arrays and networks. Variables that the code itself changes, such as a cache or a counter, are
    left out. Otherwise no run could continue after the function was called.
    """
    root = getattr(function, "__func__", function)
    module = getattr(root, "__module__", None) or type(root).__module__
    return _walk_fingerprint(_Walk(follow=True, package=module.partition(".")[0]), function)


def pipeline_fingerprint(pipeline: Any) -> Fingerprint:
    """Return the fingerprint of a pipeline with everything that it contains.

    Objects of any library are represented by their pickled state, and functions as in
    :func:`function_fingerprint`.
    """
    return _walk_fingerprint(_Walk(follow=True, is_pipeline=True), pipeline)


def _walk_fingerprint(walk: "_Walk", value: Any) -> Fingerprint:
    """Return the fingerprint of a value; if the walk fails, only its name is part of it."""
    name = str(getattr(value, "__name__", type(value).__name__))
    try:
        walk.add(value, name)
    # Objects may raise any error, or contain each other without end.
    except Exception:
        return Fingerprint(hashlib.sha256(name.encode()).hexdigest(), (name,))
    return Fingerprint(walk.digest.hexdigest(), tuple(dict.fromkeys(walk.unchecked_parts)))


def model_identity(model: Any) -> dict[str, Any]:
    """Return the named parts of a model's fingerprint, or nothing for a model without them."""
    return dict(getattr(model, "identity", {}))


def unchecked_parts(model: Any) -> tuple[str, ...]:
    """Return the names of objects that a model uses and its fingerprint does not cover."""
    return tuple(getattr(model, "unchecked_parts", ()))


def short_fingerprint(fingerprint: str, size: int = 16) -> str:
    """Return the beginning of a fingerprint; a name before the digest stays complete."""
    name, _, digest = fingerprint.rpartition(" ")
    if not name or not re.fullmatch("[0-9a-f]{64}", digest):
        return fingerprint[:size]
    return f"{name} {digest[:_SHORT_DIGEST_LENGTH]}"


class _Walk:
    """A walk through a value and its parts, which adds them to a digest.

    Parameters
    ----------
    follow
        Visit all objects that functions use, too. An object of an unknown library may change when
        it is used, so that only its type is added.
    is_pipeline
        The value is a pipeline, whose objects do not change after training. The state of objects
        of any library is added.
    package
        Name of a package that is visited although it may be an installed library.
    """

    def __init__(
        self, *, follow: bool = False, is_pipeline: bool = False, package: str = ""
    ) -> None:
        self.digest, self.unchecked_parts, self._follow = hashlib.sha256(), list[str](), follow
        self._is_pipeline, self._function_depth = is_pipeline, 0
        self._path, self._count = list[int](), 0
        is_stable = package in (*_STABLE_LIBRARIES, *sys.stdlib_module_names)
        self._package = "" if is_stable else package
        self._visited = dict[int, Any]()  # functions and classes, which are added once

    def add(self, value: Any, name: str) -> None:
        """Add a value with the given name to the digest."""
        # Types and the ends of containers are added, to distinguish [1, [2]] from [[1], 2].
        value_type = type(value)
        self.digest.update(f"<{value_type.__module__}.{value_type.__qualname__}>".encode())
        if id(value) in self._path:  # it contains itself
            return
        self._count += 1
        if self._follow and not self._is_pipeline and self._count > _MAX_FUNCTION_PARTS:
            self.unchecked_parts += [name] if self._count == _MAX_FUNCTION_PARTS + 1 else []
            return
        self._path.append(id(value))
        match value:
            case None | bool() | int() | float() | complex() | str() | np.generic():
                self.digest.update(repr(value).encode("utf-8", "surrogatepass"))
            case bytes() | bytearray():
                self.digest.update(value)
            # The bytes of an array of objects are addresses.
            case np.ndarray() if value.dtype.hasobject:
                self.add(value.tolist(), name)
            case np.ndarray():
                self.digest.update(f"{value.dtype.descr}{value.shape}".encode())
                self.digest.update(np.ascontiguousarray(value).tobytes())
            case _:
                is_function = isinstance(value, FunctionType)
                self._function_depth += is_function
                for part, part_name in self._parts(value, name):
                    self.add(part, part_name)
                self._function_depth -= is_function
        self.digest.update(b">")
        self._path.pop()

    def _parts(self, value: Any, name: str) -> Iterable[tuple[Any, str]]:
        """Return the parts of a container, a function or an object, each with a name.

        The order of the parts is the same in every process.
        """
        match value:
            case Mapping():
                by_key = sorted(value.items(), key=lambda pair: repr(pair[0]))
                pairs = (pair for pair in by_key if pair[0] not in _ADDRESS_ATTRIBUTES)
                return ((part, name) for pair in pairs for part in pair)
            case set() | frozenset():
                # The order of strings in a set differs between processes.
                return ((part, name) for part in sorted(value, key=repr))
            case list() | tuple():
                return ((part, name) for part in value)
            case CodeType():
                # Not its file and line, which change if the function is moved.
                return ((part, name) for part in (value.co_code, value.co_consts, value.co_names))
            # The results of a bound method depend on its object.
            case MethodType():
                return [(value.__func__, value.__name__), (value.__self__, name)]
            # The results of a closure depend on its variables as well as on its code.
            case FunctionType() if not self._follow or not self._is_library(value.__module__ or ""):
                return self._function_parts(value)
            case type() if self._follow and not self._is_library(value.__module__):
                return self._class_parts(value)
            case BuiltinFunctionType() | FunctionType() | type():
                return [(part, name) for part in (value.__module__, value.__qualname__)]
        if not self._follow:
            return self._state_parts(value, name)
        try:
            return self._object_parts(value, name)
        except Exception:  # attributes of a user's class may raise any error
            self.unchecked_parts.append(name)
            return []

    def _function_parts(self, function: FunctionType) -> Iterable[tuple[Any, str]]:
        """Return the code of a function, its defaults, and the objects that it uses."""
        if self._follow and self._visit(function):
            return []
        code, changed_names = function.__code__, frozenset[str]()
        if self._follow:
            changed_names = frozenset(_changed_names(code))
        cells: dict[str, Any] = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                cells[name] = cell.cell_contents
            except ValueError:  # it is assigned later
                cells[name] = None
        used_objects = self._used_objects(function) if self._follow else _used_values(function)
        for variables in (cells, used_objects):
            for name in sorted(variables.keys() & changed_names):
                if isinstance(variables[name], _STATE_TYPES):
                    variables[name] = None
                    self.unchecked_parts.append(name)
        parts: list[tuple[Any, str]] = [(code, function.__name__)]
        parts += [(value, function.__name__) for value in (function.__defaults__,)]
        parts.append((function.__kwdefaults__, function.__name__))
        parts += [(value, name) for name, value in cells.items()]
        for name, value in used_objects.items():
            parts += [(name, name), (value, name)]
        wrapped = getattr(function, "__wrapped__", None)  # by a decorator
        return [*parts, (wrapped, function.__name__)] if wrapped is not None else parts

    def _used_objects(self, function: FunctionType) -> dict[str, Any]:
        """Return the objects that a function uses in its module and in others of the user."""
        names = list(dict.fromkeys(_names(function.__code__)))
        variables = function.__globals__
        objects = {name: variables[name] for name in names if name in variables}
        for name, module in list(objects.items()):
            if isinstance(module, ModuleType):
                del objects[name]
                if not self._is_library(module.__name__):
                    members = {member: getattr(module, member, None) for member in names}
                    objects |= {
                        f"{name}.{member}": x for member, x in members.items() if x is not None
                    }
        return {name: x for name, x in objects.items() if not self._is_library_code(x)}

    def _class_parts(self, user_class: type) -> Iterable[tuple[Any, str]]:
        """Return the code and the values of a class, and the names of its library bases."""
        parts: list[tuple[Any, str]] = [(user_class.__qualname__, user_class.__name__)]
        if self._visit(user_class):
            return parts
        for base in user_class.__mro__:
            if self._is_library(base.__module__):
                parts.append((f"{base.__module__}.{base.__qualname__}", user_class.__name__))
                continue
            for name, value in sorted(vars(base).items()):
                value = getattr(value, "__func__", value)
                value = getattr(value, "fget", value) or getattr(value, "func", value)
                if isinstance(value, (FunctionType, *_VALUE_TYPES)) and name not in _CLASS_MEMBERS:
                    parts += [(name, name), (value, name)]
        return parts

    def _object_parts(self, value: Any, name: str) -> Iterable[tuple[Any, str]]:
        """Return the parts of an object; one that cannot be inspected is an unchecked part."""
        value_class = type(value)
        if isinstance(value, ModuleType):
            self.unchecked_parts += [] if self._is_library(value.__name__) else [name]
            return [(value.__name__, name)]
        # A model of limelight.
        if hasattr(value_class, "capabilities") and hasattr(value_class, "fingerprint"):
            return [(str(value.fingerprint), name)]
        if (wrapped := getattr(value, "__wrapped__", None)) is not None:  # by functools.cache
            return [(wrapped, name)]
        if callable(state := getattr(value, "state_dict", None)) and hasattr(value, "modules"):
            config: Any = getattr(value, "config", None)
            settings = config.to_dict() if hasattr(config, "to_dict") else {}
            settings = {key: x for key, x in settings.items() if key not in _LIBRARY_SETTINGS}
            parts = [
                _ADDRESS.sub("", repr(value)),
                json.dumps(settings, sort_keys=True, default=str),
                dict(state()),
            ]
            return [(part, name) for part in parts]
        if hasattr(value, "detach") and hasattr(value, "cpu"):  # a tensor of torch
            tensor = value.detach().cpu()
            # NumPy has no bfloat16.
            is_bfloat16 = str(tensor.dtype).endswith("bfloat16")
            array = (tensor.double() if is_bfloat16 else tensor).numpy()
            return [(str(tensor.dtype), name), (array, name)]
        if (backend := getattr(value, "backend_tokenizer", None)) is not None:
            # Every call of a tokenizer sets its padding and truncation.
            settings = json.loads(backend.to_str()) | {"truncation": None, "padding": None}
            limit = getattr(value, "model_max_length", None)
            return [(json.dumps(settings, sort_keys=True), name), (limit, name)]
        if not self._is_library(value_class.__module__):
            return self._user_object_parts(value, name)
        # The state of a generator of random numbers changes with every use.
        library = value_class.__module__.partition(".")[0]
        is_stable = library in _STABLE_LIBRARIES and "random" not in value_class.__module__
        if is_stable or (self._is_pipeline and not self._function_depth):
            return self._state_parts(value, name)
        self.unchecked_parts.append(name)
        return []

    def _user_object_parts(self, value: Any, name: str) -> Iterable[tuple[Any, str]]:
        """Return the class of an object that belongs to no library, and its attributes."""
        value_class = type(value)
        members = [x for base in value_class.__mro__ for x in vars(base).values()]
        codes = [
            function.__code__
            for function in (getattr(member, "__func__", member) for member in members)
            if isinstance(function, FunctionType) and function.__name__ not in _CREATION_METHODS
        ]
        changed_names = {changed for code in codes for changed in _changed_names(code)}
        slots = [
            slot
            for base in value_class.__mro__
            for slot in _slot_names(vars(base).get("__slots__", ()))
        ]
        attributes = {slot: getattr(value, slot, None) for slot in slots}
        attributes |= dict(getattr(value, "__dict__", {}))
        parts: list[tuple[Any, str]] = [(value_class, value_class.__name__)]
        for attribute_name, attribute in sorted(attributes.items()):
            if attribute_name in changed_names and isinstance(attribute, _STATE_TYPES):
                self.unchecked_parts.append(attribute_name)
                attribute = None
            parts += [(attribute_name, attribute_name), (attribute, attribute_name)]
        if not attributes and isinstance(value, Sequence | Mapping):
            self.unchecked_parts.append(name)
        return parts

    def _state_parts(self, value: Any, name: str) -> Iterable[tuple[Any, str]]:
        """Return the pickled state of an object: attributes, or arrays of a compiled class."""
        try:
            reduce: Any = copyreg.dispatch_table.get(type(value))
            state = value.__reduce_ex__(2) if reduce is None else reduce(value)
            parts = [state] if isinstance(state, str) else list(state[1:3])
        except Exception:  # some classes cannot be pickled, and only their type is added
            self.unchecked_parts.append(name or type(value).__name__)
            parts = [None]
        return [(part, name) for part in parts]

    def _is_library_code(self, value: Any) -> bool:
        """Tell whether a value is a function or class of a library, whose name is sufficient."""
        if not (inspect.isroutine(value) or isinstance(value, type)):
            return False
        return self._is_library(getattr(value, "__module__", None) or "builtins")

    def _is_library(self, module: str) -> bool:
        """Tell whether a module belongs to a library other than the visited package."""
        in_package = bool(self._package) and str(module).partition(".")[0] == self._package
        return not in_package and _is_library(module)

    def _visit(self, value: Any) -> bool:
        """Mark a function or class as visited; return whether it was visited before."""
        if id(value) in self._visited:
            return True
        self._visited[id(value)] = value
        return False


_ADDRESS = re.compile(" at 0x[0-9a-fA-F]+")
# Members of a class that do not change its results.
_CLASS_MEMBERS = (
    *("__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__"),
)
_LIBRARY_SETTINGS = ("transformers_version", "_name_or_path", "dtype", "torch_dtype")


def _slot_names(slots: Any) -> list[str]:
    """Return ``__slots__``, which may be a single name, as a list."""
    return [slots] if isinstance(slots, str) else list(slots)


def _used_values(function: FunctionType) -> dict[str, Any]:
    """Return the values and functions that a function uses in its module."""
    # An object of another class, such as a language model or a cache, may change with every use.
    # A run could then never continue.
    variables = {name: function.__globals__.get(name) for name in _names(function.__code__)}
    return {
        name: value
        for name, value in variables.items()
        if isinstance(value, _VALUE_TYPES)
        or (isinstance(value, FunctionType) and value.__module__ == function.__module__)
    }


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names in the code of a function and of functions inside it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _changed_names(code: CodeType) -> Iterator[str]:
    """Yield the names that the code changes: variables of closures, globals and attributes.

    All containers on a line that stores into a container count as changed. Some of them may not
    change, but none is missed.
    """
    line_names, previous_name = list[str](), ""
    for instruction in dis.get_instructions(code):
        if instruction.starts_line is not None:
            line_names = []
        name, operation = str(instruction.argval), instruction.opname
        stores_closure = operation == "STORE_DEREF" and name in code.co_freevars
        if stores_closure or operation in _STORES:
            yield name
        elif operation in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            yield from line_names
        elif operation.startswith("LOAD_") and operation.removeprefix("LOAD_") in _LOADS:
            if name in _MUTATORS and previous_name:
                yield previous_name
            previous_name = name
            line_names.append(name)
            continue
        if operation not in ("PRECALL", "PUSH_NULL", "CACHE"):
            previous_name = ""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _changed_names(inner)


_STORES = ("STORE_GLOBAL", "STORE_ATTR", "DELETE_GLOBAL", "DELETE_ATTR")
_LOADS = ("GLOBAL", "NAME", "DEREF", "ATTR", "METHOD", "CLASSDEREF")


@cache
def _is_library(module: str) -> bool:
    """Tell whether a module belongs to Python or to an installed package."""
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
        Path(folder).resolve() in parents for folder in folders
    )
