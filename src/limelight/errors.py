"""Errors a user can cause and mend. Each message is one sentence, sometimes two."""

__all__ = ["DomainError", "InputError", "MissingExtraError", "nearest"]

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """What the caller handed over cannot be used; the message says what to do instead."""


class DomainError(InputError):
    """A theorem or method is not defined for this input; the message names the hypothesis."""


class MissingExtraError(InputError):
    """An optional dependency is not installed; the message names the extra that brings it."""

    def __init__(self, need: str, extra: str) -> None:
        super().__init__(f'{need}; run: pip install "limelight[{extra}]".')


def nearest(kind: str, name: str, choices: Iterable[str]) -> str:
    """Sentence for an unknown ``name``: the nearest guess, then every choice."""
    known = list(choices)
    near = difflib.get_close_matches(name, known, n=1)
    guess = f"Did you mean {near[0]!r}? " if near else ""
    return f"no {kind} {name!r}. {guess}Choose from: {', '.join(known)}."
