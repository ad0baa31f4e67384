"""Sentences of errors are shown, and never obeyed, wherever they are printed."""

import pickle

import pytest

from limelight.errors import DomainError, InputError, MissingExtraError, escape_controls

CLEARS = "a\x1b[2J\u202eb\x9b\r\ud800"
SEEN = r"a\x1b[2J\u202eb\x9b\r\ud800"


@pytest.mark.parametrize(
    "kind", [InputError, DomainError, lambda message: MissingExtraError(message, "hf")]
)
def test_no_message_holds_what_a_terminal_obeys(kind):
    assert SEEN in str(kind(f"there is no model at '{CLEARS}'"))


def test_letters_line_ends_and_tabs_stay_and_a_copy_says_the_same():
    message = "“é” 中 👍🏽\n\tx"
    assert escape_controls(message) == message
    assert str(pickle.loads(pickle.dumps(InputError(CLEARS)))) == SEEN


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--model", "no\x1b[31m"),
        ("explain", "a", "--no\x1b[31m"),
        ("no\x1b[31m",),
        ("explain", "a", "--method", "no\x1b[31m"),
        ("explain", "a good film", "--output", "/dev/null/\x1b[31m.html"),
    ],
)
def test_no_command_prints_what_a_terminal_obeys(limelight, arguments):
    outcome = limelight(*arguments)
    assert outcome.code == 2
    assert r"\x1b[31m" in outcome.err
    assert "\x1b" not in outcome.err
