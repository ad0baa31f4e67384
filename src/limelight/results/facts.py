"""Facts that a JSON file keeps among its settings, where schema 1 has always had them.

In memory an explanation has three fields: what was asked, what was found, and what is always so
of model and method. The files of version 0.1 put all of it under "settings", so there the facts
stay, under the names they had; what was found has a key of its own since 0.2.
"""

__all__ = ["facts_of", "settings_with_facts"]

from collections.abc import Callable
from typing import Any

from limelight.results.explanation import Explanation

# Field of an explanation, its name among the settings of a file, and how the file's value is read.
_FACTS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("label", "label", str),
    ("signed", "signed", bool),
    ("classes", "classes", lambda names: tuple(map(str, names))),
    ("scale", "output", str),
    ("link", "link", str),
    ("cut", "cut_at", lambda end: None if end is None else int(end)),
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
    return facts | dict(e.settings)


def facts_of(settings: dict[str, Any], diagnostics: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an explanation that a file's settings and diagnostics stand for."""
    rest = dict(settings)
    facts = {field: read(rest.pop(name)) for field, name, read in _FACTS if name in rest}
    found = {name: rest.pop(name) for name in _FOUND if name in rest}
    return {**facts, "settings": rest, "diagnostics": found | diagnostics}
