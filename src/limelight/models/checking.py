"""Whether something is a model, and whether something may be handed to it as a text."""

from collections.abc import Mapping
from typing import Any

from limelight.errors import InputError, about_text, nearest
from limelight.models.protocol import (
    CAPABILITIES,
    Attends,
    Collapses,
    Cuts,
    Differentiates,
    Freezes,
    Model,
    Shuffles,
    why_not,
)
from limelight.text import Document, Given
from limelight.text.characters import LONE_SURROGATE

_MEMBERS = tuple(name for name in vars(Model) if not name.startswith("_"))
# The methods that a capability brings, by name.
_BROUGHT = {
    capability: tuple(name for name in vars(protocol) if not name.startswith("_"))
    for capability, protocol in (
        ("attends", Attends),
        ("relays", Attends),
        ("differentiates", Differentiates),
        ("freezes", Freezes),
        ("collapses", Collapses),
        ("cuts", Cuts),
        ("shuffles", Shuffles),
    )
}


def checked_model(model: Any) -> Model:
    """Return ``model`` if it is one; otherwise an error says what it lacks."""
    # Looked up without being computed: a fingerprint reads every weight.
    family, own = type(model), getattr(model, "__dict__", {})
    missing = [name for name in _MEMBERS if not hasattr(family, name) and name not in own]
    if len(missing) == len(_MEMBERS) or "game" in missing:
        raise InputError(
            "a model is what limelight.load or limelight.wrap returns; got "
            f"{type(model).__name__}. Write limelight.wrap(…)."
        )
    if missing:
        raise InputError(
            f"{type(model).__name__} is not a model yet; it lacks {', '.join(missing)}."
        )
    _check_capabilities(model, own)
    if not model.replacements:
        raise InputError("a model needs a replacement at least, such as 'delete'; it names none.")
    if len(set(model.classes)) != len(model.classes):
        raise InputError(f"class names must differ; got {list(model.classes)}.")
    checked: Model = model
    return checked


def _check_capabilities(model: Any, own: Mapping[str, Any]) -> None:
    """A capability that a model claims must be there: its methods, by name."""
    for name, why in model.capabilities.items():
        if name not in CAPABILITIES:
            raise InputError(nearest("capability", name, CAPABILITIES))
        needed = _BROUGHT.get(name, ()) if why is None else ()
        lacking = [one for one in needed if not hasattr(type(model), one) and one not in own]
        if lacking:
            raise InputError(
                f"{type(model).__name__} says that it {name}, but lacks {', '.join(lacking)}."
            )


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


def checked_text_or_pair(given: Any) -> Given:
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
            checked_text_or_pair(text)


def document_by(model: Model, given: Any, *, pieces: bool = False) -> Document:
    """Return a text or a pair as ``model`` reads it; refuse a pair where it reads single texts."""
    if isinstance(given, tuple):
        checked_text_or_pair(given)
        if (why := why_not(model, "pairs")) is not None:
            raise InputError(f"a pair of texts needs {CAPABILITIES['pairs']}, and {why}.")
    return model.read(given, pieces=pieces)
