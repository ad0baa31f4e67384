"""Agreement of two answers: a number that says how similar a new answer is to an earlier one."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from limelight.errors import InputError, short_repr
from limelight.models.fingerprints import function_fingerprint
from limelight.text import truncate_line
from limelight.text.characters import is_unspaced_script

Comparison = Callable[[str], float]  # from a new answer to its agreement with an earlier one
_ADVICE = (
    "agreement must be 'exact', a list of labels, a regular expression such as '/Answer: (.*)/', "
    "or a function of two answers"
)


@final
@dataclass(frozen=True)
class AgreementRule:
    """A rule that compares a new answer with an earlier one.

    Parameters
    ----------
    name
        The rule in a few words, for results.
    identity
        A string that differs between rules.
    read
        Returns the part of an answer that counts, or None if the answer does not have it.
    compare
        The function of the user, which compares complete answers. None compares what ``read``
        returns.
    """

    name: str
    identity: str
    read: Callable[[str], str | None] = str.strip
    compare: Callable[[str, str], Any] | None = None

    def to_answer(self, reference: str) -> Comparison:
        """Return the function from a new answer to its agreement with ``reference``.

        Raises
        ------
        InputError
            If the reference has no label, or does not match the regular expression.
        """
        if (compare := self.compare) is not None:
            return lambda answer: _read_number(compare(reference, answer))
        if (expected := self.read(reference)) is None:
            raise InputError(
                f"the answer {truncate_line(reference, 80)!r} has nothing that agreement="
                f"{truncate_line(self.name, 60)} compares. Give answer='…', or change agreement."
            )
        return lambda answer: float(self.read(answer) == expected)


def _read_number(number: Any) -> float:
    """Convert the result of the user's function to a finite float."""
    try:
        value = float(number)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            f"the function of agreement= must return a finite number, not {short_repr(number)}."
        )
    return value


def parse_agreement(agreement: Any) -> AgreementRule:
    """Return the rule that the user describes.

    Parameters
    ----------
    agreement
        "exact", a list of labels, a compiled regular expression or its pattern as a string "/…/",
        or a function from two answers to a number.

    Raises
    ------
    InputError
        If it is none of these.
    """
    if isinstance(agreement, str):
        if agreement == "exact":
            return AgreementRule("exact", "exact")
        if len(agreement) > 2 and agreement[0] == agreement[-1] == "/":
            try:
                agreement = re.compile(agreement[1:-1])
            except (re.error, OverflowError, RecursionError) as error:
                raise InputError(
                    f"agreement is no regular expression ({error}). Check {agreement!r}."
                ) from None
        else:
            raise InputError(f"{_ADVICE}, not {short_repr(agreement)}.")
    if isinstance(agreement, re.Pattern):
        return _compare_matches(agreement)
    if isinstance(agreement, list | tuple):
        return _compare_labels(agreement)
    if callable(agreement):
        name = getattr(agreement, "__qualname__", type(agreement).__qualname__)
        digest = function_fingerprint(agreement).digest
        return AgreementRule(name, f"{name} {digest}", compare=agreement)
    raise InputError(f"{_ADVICE}, not {short_repr(agreement)}.")


def _compare_matches(pattern: re.Pattern[str]) -> AgreementRule:
    """Return the rule that compares the text that a regular expression finds."""
    if not isinstance(pattern.pattern, str):
        raise InputError("agreement must be a regular expression for texts, not for bytes.")

    def find_text(answer: str) -> str | None:
        """Return the first group, or the match if there is no group."""
        match = pattern.search(answer)
        return None if match is None else match[min(pattern.groups, 1)]

    name = f"/{pattern.pattern}/"
    return AgreementRule(name, f"{name} {pattern.flags}", find_text)


def _compare_labels(labels: Sequence[Any]) -> AgreementRule:
    """Return the rule that compares the labels that occur first in two answers."""
    names = [label.strip() if isinstance(label, str) else "" for label in labels]
    lower = [name.lower() for name in names]
    if len(names) < 2 or not all(names) or len(set(lower)) != len(lower):
        raise InputError(
            f"the labels of agreement= must be two or more different words, not {labels!r}."
        )
    # The longest first, so that "not spam" is not read as "spam" where both begin.
    choices = "|".join(map(_label_pattern, sorted(names, key=len, reverse=True)))
    pattern = re.compile(choices, re.IGNORECASE)

    def find_label(answer: str) -> str | None:
        """Return the label that occurs first in an answer."""
        match = pattern.search(answer)
        return None if match is None else match[0].lower()

    return AgreementRule(f"labels {', '.join(names)}", repr(lower), find_label)


def _label_pattern(label: str) -> str:
    """Return the pattern of a label that is no part of a longer word."""
    # Chinese, Thai and other scripts have no spaces between words, so any character may follow.
    start = "" if is_unspaced_script(label[0]) else r"(?<!\w)"
    end = "" if is_unspaced_script(label[-1]) else r"(?!\w)"
    return f"{start}{re.escape(label)}{end}"
