"""Bundle JavaScript modules into one script, so that a page is one file.

In a checkout, scripts are bundled when a page is written. A wheel contains the bundles of
``ENTRIES``. ``hatch_build.py`` loads this file by its path, so it may import only the standard
library. A bundle has no imports, so bundling it again does not change it.
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
_UNSUPPORTED = re.compile(r"^(?:import|export)\b.*$", re.M)


def bundle_module(entry: Path) -> str:
    """Return the module ``entry`` and its imports as one script.

    Each module becomes a function that is called at once, so that names that it does not export
    stay private. Exported names are constants of the script. So two modules must not export the
    same name, and imports have the form ``import { a, b } from "./file.js";`` without new names.
    """
    exports: dict[Path, tuple[str, ...]] = {}
    scripts: list[str] = []
    _add_module(entry.resolve(), exports, scripts, ())
    names = [name for exported_names in exports.values() for name in exported_names]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two modules export {duplicates[0]!r}. Rename one of them.")
    script = "\n".join(scripts)
    if re.search(r"</script|<!--", script, re.I):
        raise ValueError(f"{entry.name} contains text that would end its script element.")
    return script


def _add_module(
    module: Path,
    exports: dict[Path, tuple[str, ...]],
    scripts: list[str],
    importers: tuple[Path, ...],
) -> None:
    """Add ``module`` after all modules that it imports."""
    if module in exports:
        return
    if module in importers:
        raise ValueError(f"{module.name} imports itself through other modules.")
    source = module.read_text("utf-8")
    for names, path in _IMPORT.findall(source):
        imported = (module.parent / path).resolve()
        _add_module(imported, exports, scripts, (*importers, module))
        if unknown := {name.strip() for name in names.split(",")} - {"", *exports[imported]}:
            raise ValueError(f"{imported.name} does not export {sorted(unknown)[0]!r}.")
    body = _IMPORT.sub("", source)
    exported_names = tuple(_EXPORT.findall(body))
    body = _EXPORT.sub("", body)
    if line := _UNSUPPORTED.search(body):
        raise ValueError(f"{module.name} has a line that cannot be bundled: {line.group()}")
    exports[module] = exported_names
    names = ", ".join(exported_names)
    head, tail = (f"const {{ {names} }} = ", f"return {{ {names} }};\n") if names else ("", "")
    scripts.append(f"// {module.name}\n{head}(() => {{\n{body}{tail}}})();\n")
