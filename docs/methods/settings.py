"""Write the settings of every method into its page, as the registry has them.

python docs/methods/settings.py
"""

import re
from pathlib import Path

from limelight.explainers import METHODS
from limelight.explainers.method import Implementation, Method, setting_defaults
from limelight.pages.wording import EXACTNESS, MODELS

HERE = Path(__file__).parent
SECTION = re.compile(r"(?<=^## Settings\n)(.*?)(?=^## )", re.MULTILINE | re.DOTALL)


def section(method: Method) -> str:
    """Return what a page says under "Settings": one table for each way to compute the method."""
    parts = [_section(method, used) for used in method.implementations]
    if method.implementations[-1].needs is not None:
        parts.append("Any other model is refused, in a sentence that says why.\n")
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


if __name__ == "__main__":
    for name in METHODS:
        (HERE / f"{name}.md").write_text(page_with_settings(name), "utf-8")
