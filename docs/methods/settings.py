"""Write the settings of every method into its page, and as keywords for type checkers.

python docs/methods/settings.py
"""

import re
from pathlib import Path
from typing import get_args, get_type_hints

from limelight import setting_keywords
from limelight.explainers import METHODS
from limelight.explainers.method import Implementation, Method, setting_defaults
from limelight.rendering.wording import EXACTNESS, MODELS

HERE = Path(__file__).parent
SECTION = re.compile(r"(?<=^## Settings\n)(.*?)(?=^## )", re.MULTILINE | re.DOTALL)


def section(method: Method) -> str:
    """Return what a page says under "Settings": one table for each way to compute the method."""
    parts = [_section(method, used) for used in method.implementations]
    if method.implementations[-1].needs is not None:
        parts.append("Other models raise `InputError`.\n")
    return "\n".join(parts) + "\n"


def _section(method: Method, implementation: Implementation) -> str:
    single = len(method.implementations) == 1 and implementation.needs is None
    models = "any model" if single else MODELS[implementation.needs]
    title = f"On {models} ({EXACTNESS[implementation.exactness]})"
    if not implementation.settings:
        return f"{title}: none.\n"
    defaults = {**setting_defaults(method), **implementation.defaults}
    rows = [
        f"| `{name}` | `{defaults[name]!r}` | {means} |"
        for name, means in implementation.settings.items()
    ]
    return "\n".join(
        [f"{title}:\n", "| setting | default | meaning |", "| --- | --- | --- |", *rows, ""]
    )


def page_with_settings(name: str) -> str:
    """Return the page of a method with its settings brought up to date."""
    text = (HERE / f"{name}.md").read_text("utf-8")
    return SECTION.sub(lambda _: f"\n{section(METHODS[name])}", text)


KEYWORDS = Path(setting_keywords.__file__)
_FUNCTION_KEYWORDS = ("replacement", "seed")  # explicit keywords of explain, judge and others
_TYPES = (bool, int, float, str, type(None))


def keywords_module() -> str:
    """Return the module that names the settings of limelight's methods for type checkers."""
    types: dict[str, set[type]] = {}
    for method in METHODS.values():
        if method.settings.__module__.startswith("limelight.explainers."):
            hints = get_type_hints(method.settings)
            for name in setting_defaults(method):
                types.setdefault(name, set()).update(get_args(hints[name]) or {hints[name]})
    lines = [
        f"    {name}: {_annotation(types[name])}\n"
        for name in sorted(types)
        if name not in _FUNCTION_KEYWORDS
    ]
    return re.sub(
        r'(?<=^class MethodSettings\()(.*?""")\n\n(?:    \w+: [^\n]*\n)*',
        lambda match: f"{match[1]}\n\n{''.join(lines)}",
        KEYWORDS.read_text("utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )


def _annotation(types: set[type]) -> str:
    """Return the types of a setting as an annotation: Any for classes of limelight."""
    if not types <= set(_TYPES):
        return "Any"
    ordered = sorted(types, key=_TYPES.index)
    return " | ".join("None" if kind is type(None) else kind.__name__ for kind in ordered)


if __name__ == "__main__":
    KEYWORDS.write_text(keywords_module(), "utf-8")
    for name in METHODS:
        (HERE / f"{name}.md").write_text(page_with_settings(name), "utf-8")
