"""What may be handed to a model as a text: a string, or a tuple of two that belong together."""

__all__ = ["check_listed", "checked_given", "checked_text", "document_by"]

from typing import Any

from limelight.errors import InputError, about_text
from limelight.models.protocol import CAPABILITIES, Model, why_not
from limelight.text import Document, Given
from limelight.text.characters import LONE_SURROGATE


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


def checked_given(given: Any) -> Given:
    """Return ``given`` if it is a text or a pair of them; any other tuple is refused."""
    if not isinstance(given, tuple):
        return checked_text(given)
    if len(given) != 2 or not all(isinstance(side, str) for side in given):
        kinds = ", ".join(type(one).__name__ for one in given[:3]) + ", …" * (len(given) > 3)
        raise InputError(
            f"a tuple is a pair of two texts; got a tuple of {len(given)} ({kinds}). Several texts "
            "must be a list: write [...]."
        )
    return checked_text(given[0]), checked_text(given[1])


def check_listed(texts: Any) -> None:
    """Refuse one string for a list of texts, and by its number what is neither text nor pair."""
    if isinstance(texts, str):
        raise InputError("logits takes a list of texts; got one string. Write [text].")
    for i, text in enumerate(texts):
        if not isinstance(text, str | tuple):
            raise InputError(f"text {i} must be a string; got {type(text).__name__}.")
        with about_text(i if len(texts) > 1 else None):
            checked_given(text)


def document_by(model: Model, given: Any, *, pieces: bool = False) -> Document:
    """Return a text or a pair as ``model`` reads it; refuse a pair where it reads single texts."""
    if isinstance(given, tuple):
        checked_given(given)
        if (why := why_not(model, "pairs")) is not None:
            raise InputError(f"a pair of texts needs {CAPABILITIES['pairs']}, and {why}.")
    return model.read(given, pieces=pieces)
