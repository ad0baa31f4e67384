"""Whether something is a model: what it must have, and whether it has what it claims."""

__all__ = ["checked_model"]

from collections.abc import Mapping
from typing import Any

from limelight.errors import InputError, nearest
from limelight.models.collapsing import Collapses
from limelight.models.protocol import (
    CAPABILITIES,
    Attends,
    Cuts,
    Differentiates,
    Freezes,
    Model,
    Shuffles,
)

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
