"""What may be handed to somebody else's model as a text."""

__all__ = ["checked_text"]

import re
from typing import Any

from limelight.errors import InputError

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def checked_text(text: Any) -> str:
    """Return ``text`` if it is a string of characters; half a character is not one."""
    if not isinstance(text, str):
        raise InputError(f"a text must be a string; got {type(text).__name__}.")
    if half := _LONE_SURROGATE.search(text):
        raise InputError(
            f"a text must hold whole characters; character {half.start()} (counting from 0) is a "
            "lone surrogate. Replace it: text.encode('utf-8', 'replace').decode()."
        )
    return text
