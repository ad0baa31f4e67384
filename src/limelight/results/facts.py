"""Facts that a JSON file keeps among its settings, where schema 1 has always had them.

In memory an explanation has three fields: what was asked, what was found, and what is always so
of model and method. The files of version 0.1 put all of it under "settings", so there the facts
stay, under the names they had; what was found has a key of its own since 0.2.
"""

__all__ = ["facts_of", "settings_with_facts"]

from typing import Any

import msgspec

from limelight.errors import InputError
from limelight.results.explanation import Explanation

# Field of an explanation, its name among the settings of a file, and what the file holds there.
_FACTS: tuple[tuple[str, str, Any], ...] = (
    ("label", "label", str),
    ("signed", "signed", bool),
    ("classes", "classes", tuple[str, ...]),
    ("scale", "output", str),
    ("link", "link", str),
    ("cut", "cut_at", int | None),
    ("model", "model", str),
    ("version", "version", str),
)
# What 0.1 found and wrote among the settings.
_FOUND = frozenset(
    (
        "completeness_gap",
        "holds",
        "intercept_stderr",
        "kept",
        "masks",
        "nodes",
        "pairs_drawn",
        "precision_by",
        "r2",
        "r2_bound",
        "samples_drawn",
        "search_samples",
        "windows",
        "windows_combined",
    )
)


def settings_with_facts(e: Explanation) -> dict[str, Any]:
    """Return the settings of a file: the facts first, then what was asked."""
    facts = {name: getattr(e, field) for field, name, _ in _FACTS}
    facts["classes"] = list(e.classes)
    if taken := (facts.keys() | _FOUND) & e.settings.keys():
        raise InputError(f"a setting cannot be called {min(taken)!r}: in a file that is another.")
    return facts | dict(e.settings)


def facts_of(settings: dict[str, Any], diagnostics: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an explanation that a file's settings and diagnostics stand for."""
    rest = dict(settings)
    facts = {f: _typed(name, rest.pop(name), kind) for f, name, kind in _FACTS if name in rest}
    found = {name: rest.pop(name) for name in _FOUND if name in rest}
    return {**facts, "settings": rest, "diagnostics": found | diagnostics}


def _typed(name: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"the setting {name!r} of this file cannot be used: {error}.") from None
