"""Errors that users can cause and fix. A message has one or two sentences."""

import contextlib
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator
from numbers import Integral
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Characters that control a terminal (ESC moves its cursor and more), characters that reorder the
# letters around them, and halves of characters, which no file can contain.
CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape_controls(sentence: str) -> str:
    r"""Replace control characters by visible escapes such as ``\x1b``."""
    return CONTROL_CHARACTERS.sub(lambda match: repr(match.group())[1:-1], sentence)


class InputError(ValueError):
    """An argument is invalid; the message describes the problem and its solution.

    If ``is_text_specific`` is true, the error is about one text, and other texts may be fine. A
    message may contain names and texts from files, so its control characters are replaced.
    """

    is_text_specific = False

    def __str__(self) -> str:
        return escape_controls(super().__str__())


class DomainError(InputError):
    """A theorem or method is not defined for an input; the message names the hypothesis."""


class TooFewFeaturesError(DomainError):
    """An input has too few features for a method."""


# The package is on no index yet.
INSTALL_EXTRA = 'pip install ".[{}]"'
IN_REPRODUCTION = (
    "{} is in limelight-reproduction, which is not installed. In a checkout of limelight, run: "
    "pip install ./reproduction."
)


class MissingExtraError(InputError):
    """An optional dependency is not installed; the message says how to install it.

    If the dependency needs torch, the message also says how to install torch for CPUs only.
    """

    def __init__(self, need: str, extra: str) -> None:
        message = f"{need}. In a checkout of limelight, run: {INSTALL_EXTRA.format(extra)}."
        if extra in ("hf", "train"):
            message += (
                " Without a GPU, add --extra-index-url https://download.pytorch.org/whl/cpu, "
                "because torch for GPUs takes 6 GB."
            )
        super().__init__(message)


@contextlib.contextmanager
def add_text_number(number: int | None) -> Iterator[None]:
    """Add the number of a text to errors of the block; None adds no number."""
    try:
        yield
    except InputError as error:
        error.is_text_specific = True
        if number is not None:
            error.args = (f"text {number} (counting from 0): {error}",)
        raise


def read_all(values: Iterable[Any], name: str) -> list[Any]:
    """Return the values of an iterable; raise `InputError` if it fails before its end.

    Parameters
    ----------
    values
        A list, or a generator of the user, which may raise any error.
    name
        Name of the values in the message, such as "methods".
    """
    read_values: list[Any] = []
    try:
        read_values.extend(values)  # values before an error stay in the list
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(
            f"{name} could not be read: their generator raised {type(error).__name__} ({error}) "
            f"after {len(read_values):,} values. Pass a list."
        ) from error
    return read_values


def check_count(name: str, value: object) -> int:
    """Return a count as an ``int``; raise `InputError` if it is no positive whole number."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError(f"{name} must be a positive whole number, not {value!r}.")
    return int(value)


def short_repr(value: object) -> str:
    """Return ``repr(value)``, or the number of digits if it is a very long number."""
    if isinstance(value, int) and (bits := value.bit_length()) > 200:
        return f"a number of about {math.ceil(bits * math.log10(2)):,} digits"
    return repr(value)


def unknown_name_message(kind: str, name: object, choices: Iterable[str]) -> str:
    """Return the message for an unknown name: the most similar name, and then all choices."""
    names = list(choices)
    if not names:
        return f"unknown {kind}: {name!r}. Leave it out, because there are none to choose from."
    match = similar_name(str(name), names)
    guess = f"Did you mean {match!r}? " if match else ""
    return f"unknown {kind}: {name!r}. {guess}Choose from: {', '.join(names)}."


def similar_name(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is most similar to a name, or None if none is similar."""
    import difflib  # here, because only wrong names need it

    return next(iter(difflib.get_close_matches(name, list(choices), n=1)), None)


def unknown_keyword_message(function: Callable[..., Any], name: str, match: str) -> str:
    """Return the message for a mistyped keyword of a function."""
    return f"unknown keyword of {function.__name__}: {name!r}. Did you mean {match!r}?"


def suggest_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function raise an `InputError` with a suggestion for a mistyped keyword."""
    names = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked_function(*args: P.args, **keywords: P.kwargs) -> R:
        for name in keywords:
            if name not in names and (match := similar_name(name, names)):
                raise InputError(unknown_keyword_message(function, name, match))
        return function(*args, **keywords)

    return checked_function
