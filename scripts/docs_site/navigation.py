"""What ``docs/index.md`` lists is the navigation of the site: one list, in one place."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
_HEADING = re.compile(r"^## (.+)$", re.M)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)(?:#[\w-]+)?\)")
_ROW = re.compile(r"^\| ([^|]+?) \|(.*)$", re.M)


@dataclass(frozen=True)
class Section:
    """A heading of the index and what stands below it: links, or rows of links with a name."""

    title: str
    entries: tuple[tuple[str, Path], ...]
    groups: tuple[tuple[str, tuple[tuple[str, Path], ...]], ...] = ()

    @property
    def pages(self) -> tuple[Path, ...]:
        """Every page of the section, in order."""
        grouped = (page for _, entries in self.groups for _, page in entries)
        return (*(page for _, page in self.entries), *grouped)


def sections(index: Path = INDEX) -> tuple[Section, ...]:
    """Return the sections of the index, in order; those without links are left out."""
    _, *parts = _HEADING.split(index.read_text("utf-8"))
    found = (
        _section(title, body, index.parent)
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    )
    return tuple(section for section in found if section.pages)


def _section(title: str, body: str, folder: Path) -> Section:
    groups = tuple(
        (name.strip("*`"), links)
        for name, cells in _ROW.findall(body)
        if (links := _links(cells, folder))
    )
    return Section(title, _links(_ROW.sub("", body), folder), groups)


def _links(text: str, folder: Path) -> tuple[tuple[str, Path], ...]:
    return tuple((title, (folder / target).resolve()) for title, target in _LINK.findall(text))


def sources(docs: Path = DOCS) -> set[Path]:
    """Return every page that is written below ``docs``, the index itself left out."""
    return {page.resolve() for page in docs.rglob("*.md")} - {(docs / "index.md").resolve()}
