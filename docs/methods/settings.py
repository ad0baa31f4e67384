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
    """Return what a page says under "Settings": the implementations, and one table of settings."""
    implementations = _described(method)
    lines = [
        f"{number}. {_models(method, implementation)}: {EXACTNESS[implementation.exactness]}."
        for number, implementation in enumerate(implementations, start=1)
    ]
    if len(lines) == 1:
        lines = [lines[0].removeprefix("1. ")]
    if implementations[-1].needs is not None:
        lines += ["", "Other models raise `InputError`."]
    if len(implementations) < len(method.implementations):
        lines += ["", 'With `replacement="refill"`, scores are [exact](../theorems/refilling.md).']
    return "\n".join([*lines, "", *_table(method), ""]) + "\n"


def _described(method: Method) -> list[Implementation]:
    """Return the implementations in the table: refills have the settings of the exact one."""
    return [used for used in method.implementations if used.needs != "refilling"]


def _models(method: Method, implementation: Implementation) -> str:
    if len(method.implementations) == 1 and implementation.needs is None:
        return "Any model"
    models = MODELS[implementation.needs].replace("AttentionClassifier", "`AttentionClassifier`")
    return models[0].upper() + models[1:]


def _table(method: Method) -> list[str]:
    """Return the rows of the table. A default is a dash where the setting does not exist."""
    rows: dict[tuple[str, str], dict[int, str]] = {}
    for column, implementation in enumerate(_described(method)):
        defaults = {**setting_defaults(method), **implementation.defaults}
        for name, meaning in implementation.settings.items():
            rows.setdefault((name, meaning), {})[column] = f"`{defaults[name]!r}`"
    if not rows:
        return ["There are no settings."]
    columns = range(len(_described(method)))
    titles = ["default"] if len(columns) == 1 else [f"({column + 1})" for column in columns]

    def row(name: str, meaning: str, values: dict[int, str]) -> str:
        defaults = " | ".join(values.get(column, "–") for column in columns)
        return f"| `{name}` | {defaults} | {meaning} |"

    return [
        f"| setting | {' | '.join(titles)} | meaning |",
        f"|{' --- |' * (len(titles) + 2)}",
        *(row(name, meaning, values) for (name, meaning), values in rows.items()),
    ]


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
    for page in sorted(HERE.glob("*.md")):
        if page.stem in METHODS:
            page.write_text(page_with_settings(page.stem), "utf-8")
