"""What may be handed to somebody else's model as a text."""

__all__ = ["checked_text"]

from typing import Any

from limelight.errors import InputError
from limelight.text.surrogates import LONE_SURROGATE


def checked_text(text: Any) -> str:
    """Return ``text`` if it is a string of characters; half a character is not one."""
    if not isinstance(text, str):
        raise InputError(f"a text must be a string; got {type(text).__name__}.")
    if half := LONE_SURROGATE.search(text):
        raise InputError(
            f"a text must hold whole characters; character {half.start()} (counting from 0) is a "
            "lone surrogate. Replace it: text.encode('utf-8', 'replace').decode()."
        )
    return text
