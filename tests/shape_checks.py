"""Shapes and types are checked at the first call of a function in a test, not at all of them.

And that in the first five tests of a file that call it. A function that is wrong about a shape is
wrong in one of those, of some hundred files. Checking a million calls more, and compiling the
checks of an inner function each time it is defined, took two thirds of the time of the tests; two
calls more took a fifth of what was left, and all tests of a file a tenth. Importing this module,
before any module of limelight, is enough; ``begin_test`` counts anew.

A function without shapes is checked by the type checker itself, which takes a tenth of the time and
half of it to compile: jaxtyping binds arguments, keeps sizes of axes and checks the arguments once
more with what is returned.
"""

import functools
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import ForwardRef, get_args

import jaxtyping
from jaxtyping import AbstractArray, _decorator

_TESTS = 5
_all_checked = jaxtyping.jaxtyped
_called: set[int] = set()
_tests: Counter[int] = Counter()  # of this file, in which each function was checked
_file: Path | None = None
_is_enabled = True


@contextmanager
def no_type_checks():
    """Call functions without type checks in a block, as users do, who can pass wrong types."""
    global _is_enabled
    _is_enabled = False
    try:
        yield
    finally:
        _is_enabled = True


def begin_test(file):
    """Check the next call of every function that few tests of ``file`` have called before."""
    global _file
    if file != _file:
        _file = file
        _tests.clear()
    _called.clear()
    _called.update(code for code, tests in _tests.items() if tests >= _TESTS)


def check_first_call(*given, typechecker):
    """Return what jaxtyping makes of a function, but let it check the first call only."""
    if not given or not isinstance(given[0], FunctionType):
        # A class, a property and the like come back here with the functions that they are made of.
        return _all_checked(*given, typechecker=typechecker)
    (function,) = given
    code = id(function.__code__)  # shared by an inner function and those that were defined before
    checked = None

    @functools.wraps(function)
    def first_call_checked(*args, **kwargs):
        nonlocal checked
        if not _is_enabled or code in _called:
            return function(*args, **kwargs)
        _called.add(code)
        _tests[code] += 1
        if checked is None:
            shaped = any(map(_is_shaped, function.__annotations__.values()))
            check = functools.partial(_all_checked, typechecker=typechecker)
            checked = (check if shaped else typechecker)(function)
        return checked(*args, **kwargs)

    return first_call_checked


def _is_shaped(hint):
    """Say whether a shape is part of a type; of a name that jaxtyping would look up, it may be."""
    if isinstance(hint, list):  # the arguments of a Callable
        return any(map(_is_shaped, hint))
    named = isinstance(hint, str | ForwardRef)
    array = isinstance(hint, type) and not get_args(hint) and issubclass(hint, AbstractArray)
    return named or array or any(map(_is_shaped, get_args(hint)))


jaxtyping.jaxtyped = _decorator.jaxtyped = check_first_call
