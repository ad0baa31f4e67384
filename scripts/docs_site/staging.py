"""The pages as zensical reads them: a folder with every page, and no link that leads out of it."""

import os.path
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from docs_site.navigation import DOCS, INDEX, ROOT

_TARGET = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_FENCE = re.compile(r"^(```.*?^```\n)", re.M | re.S)


def placed(source: Path) -> Path:
    """Return where a file stands in the site: at its place below ``docs``, or under ``project``."""
    if source.is_relative_to(DOCS):
        return source.relative_to(DOCS)
    path = Path("project") / source.relative_to(ROOT)
    # A README would become the index of its folder, and lose its name in the address.
    return path.with_name("overview.md") if path.name == "README.md" else path


def stage(folder: Path, pages: Iterator[Path]) -> None:
    """Copy ``pages``, the index and all that they show into ``folder``, links turned inwards."""
    waiting, done = [INDEX, *pages], set[Path]()
    while waiting:
        source = waiting.pop()
        if source in done:
            continue
        done.add(source)
        target = folder / placed(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix != ".md":
            shutil.copyfile(source, target)
            continue
        text, met = rewritten(source)
        target.write_text(text, "utf-8")
        waiting += met


def rewritten(source: Path) -> tuple[str, list[Path]]:
    """Return a page with links between the places in the site, and the files that it links to."""
    met: list[Path] = []

    def inwards(found: re.Match[str]) -> str:
        before, target, after = found.groups()
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        file = (source.parent / target).resolve()
        if file == ROOT / "README.md":
            file = INDEX
        if not file.is_file():
            raise SystemExit(f"{source.relative_to(ROOT)} links to {target}, which is not a file.")
        met.append(file)
        return f"{before}{os.path.relpath(placed(file), placed(source).parent)}{after}"

    # Links inside of code are text; every second part is a fenced block.
    parts = _FENCE.split(source.read_text("utf-8"))
    parts[::2] = [_TARGET.sub(inwards, part) for part in parts[::2]]
    return "".join(parts), met
