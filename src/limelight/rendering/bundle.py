"""JavaScript modules as one script, so that a page is one file and a browser asks once.

A checkout bundles when a page is made. A wheel is built with ``ENTRIES`` bundled already
(``hatch_build.py`` loads this file by its path, hence nothing but the standard library here); a
bundle is a module without imports, which bundles to itself.
"""

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
ENTRIES = (
    *(
        PACKAGE / "rendering" / "elements" / f"{name}.js"
        for name in ("page", "judgment", "summary", "theme")
    ),
    *(PACKAGE / "serving" / "page" / f"{name}.js" for name in ("typing", "texts", "waiting")),
    PACKAGE / "live" / "page" / "live.js",
)

_IMPORT = re.compile(r'^import (?:\{([^}]*)\} from )?"(\.{1,2}/[^"]+)";\n', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) ([\w$]+))", re.M)
_OTHER = re.compile(r"^(?:import|export)\b.*$", re.M)


def bundled(entry: Path) -> str:
    """Return the module ``entry`` and all that it imports as one script.

    Every module becomes a function that is called at once, so that what it does not export stays
    its own; what it exports is a constant of the script. Hence two modules must not export the same
    name, and imports are ``import { a, b } from "./file.js";`` with names as they are exported.
    """
    done: dict[Path, tuple[str, ...]] = {}
    parts: list[str] = []
    _add(entry.resolve(), done, parts, ())
    names = [name for exported in done.values() for name in exported]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two modules export {twice[0]!r}; rename one.")
    script = "\n".join(parts)
    if re.search(r"</script|<!--", script, re.I):
        raise ValueError(f"{entry.name} holds what would end its script element.")
    return script


def _add(
    module: Path, done: dict[Path, tuple[str, ...]], parts: list[str], above: tuple[Path, ...]
) -> None:
    """Add ``module`` after all that it imports."""
    if module in done:
        return
    if module in above:
        raise ValueError(f"{module.name} imports itself by way of others.")
    source = module.read_text("utf-8")
    for names, place in _IMPORT.findall(source):
        imported = (module.parent / place).resolve()
        _add(imported, done, parts, (*above, module))
        if unknown := {name.strip() for name in names.split(",")} - {"", *done[imported]}:
            raise ValueError(f"{imported.name} does not export {sorted(unknown)[0]!r}.")
    body = _IMPORT.sub("", source)
    exported = tuple(_EXPORT.findall(body))
    body = _EXPORT.sub("", body)
    if other := _OTHER.search(body):
        raise ValueError(f"{module.name} has a line that cannot be bundled: {other.group()}")
    done[module] = exported
    listed = ", ".join(exported)
    head, tail = (f"const {{ {listed} }} = ", f"return {{ {listed} }};\n") if exported else ("", "")
    parts.append(f"// {module.name}\n{head}(() => {{\n{body}{tail}}})();\n")
