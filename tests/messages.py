"""Tables of wrong calls: each package has one in its ``test_messages.py``."""

import re
from collections.abc import Mapping

import pytest


def exactly(message: str) -> str:
    """Return a pattern that only this message matches."""
    return f"^{re.escape(message)}$"


def wrong_calls(tables: Mapping[type[Exception], Mapping[str, str]]) -> pytest.MarkDecorator:
    """Run a test on each call. A table has the pattern of the message of each call."""
    rows = [
        pytest.param(call, error, message, id=call)
        for error, messages in tables.items()
        for call, message in messages.items()
    ]
    return pytest.mark.parametrize(("call", "error", "message"), rows)
