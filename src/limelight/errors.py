"""Errors a user can cause and mend. Each message is one sentence, sometimes two."""

import contextlib
import difflib
import math
import re
from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any

# What a terminal would obey (ESC moves its cursor and more), what reorders the letters around it,
# and halves of characters, which no file can hold.
CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape_controls(sentence: str) -> str:
    r"""Return a sentence with what a terminal would obey as ``repr`` writes it: ``\x1b``."""
    return CONTROL_CHARACTERS.sub(lambda found: repr(found.group())[1:-1], sentence)


class InputError(ValueError):
    """What the caller handed over cannot be used; the message says what to do instead.

    ``is_text_specific`` says that one text is at fault: others may be fine. Names and texts of others stand
    in the message, so that nothing in it is ever obeyed by a terminal.
    """

    is_text_specific = False

    def __str__(self) -> str:
        return escape_controls(super().__str__())


class DomainError(InputError):
    """A theorem or method is not defined for this input; the message names the hypothesis."""


# The package is on no index yet.
INSTALL_EXTRA = 'pip install ".[{}]"'
IN_REPRODUCTION = (
    "{} is in limelight-reproduction, which is not installed; in a checkout of limelight, run: "
    "pip install ./reproduction."
)


class MissingExtraError(InputError):
    """An optional dependency is not installed; the message says how to get it from a checkout.

    Where torch comes with it, also without what a GPU needs.
    """

    def __init__(self, need: str, extra: str) -> None:
        said = f"{need}; in a checkout of limelight, run: {INSTALL_EXTRA.format(extra)}."
        if extra in ("hf", "train"):
            said += (
                " Without a GPU, add --extra-index-url https://download.pytorch.org/whl/cpu: torch "
                "is 6 GB with what a GPU needs."
            )
        super().__init__(said)


@contextlib.contextmanager
def add_text_number(number: int | None) -> Iterator[None]:
    """Let errors say which of several texts they are about; None where there is only one."""
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
        What the values are, for the message: "methods".
    """
    read: list[Any] = []
    try:
        read.extend(values)  # what came before an error stays in the list
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(
            f"{name} could not be read: after {len(read):,} values their generator raised "
            f"{type(error).__name__} ({error}). Give a list."
        ) from error
    return read


def check_count(name: str, given: object) -> int:
    """Return a number of things, NumPy's too, of which there must be one at least."""
    if isinstance(given, bool) or not isinstance(given, Integral) or given < 1:
        raise InputError(f"{name} must be a whole number from 1; got {given!r}.")
    return int(given)


def short_repr(value: object) -> str:
    """Return ``repr(value)``; of a whole number too long for a sentence, how long it is."""
    if isinstance(value, int) and (bits := value.bit_length()) > 200:
        return f"a number of about {math.ceil(bits * math.log10(2)):,} digits"
    return repr(value)


def unknown_name_message(kind: str, name: object, choices: Iterable[str]) -> str:
    """Sentence for an unknown ``name``: the nearest guess, then every choice."""
    known = list(choices)
    near = difflib.get_close_matches(str(name), known, n=1)
    guess = f"Did you mean {near[0]!r}? " if near else ""
    return f"no {kind} {name!r}. {guess}Choose from: {', '.join(known)}."
