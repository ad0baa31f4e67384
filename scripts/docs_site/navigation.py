"""The navigation of the site: sections, groups and pages as ``docs/navigation.toml`` lists them."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
NAVIGATION = DOCS / "navigation.toml"


@dataclass(frozen=True)
class Section:
    """A section of the navigation: pages with their titles, and groups of such pages."""

    title: str
    entries: tuple[tuple[str, Path], ...]
    groups: tuple[tuple[str, tuple[tuple[str, Path], ...]], ...] = ()

    @property
    def pages(self) -> tuple[Path, ...]:
        """Every page of the section, in order."""
        grouped = (page for _, entries in self.groups for _, page in entries)
        return (*(page for _, page in self.entries), *grouped)


def read_sections(navigation: Path = NAVIGATION) -> tuple[Section, ...]:
    """Read the sections of the navigation in order."""
    folder = navigation.parent
    sections = tomllib.loads(navigation.read_text("utf-8"))["section"]
    return tuple(
        Section(
            section["title"],
            _read_entries(section.get("pages", ()), folder),
            tuple(
                (group["title"], _read_entries(group["pages"], folder))
                for group in section.get("group", ())
            ),
        )
        for section in sections
    )


def _read_entries(pages: Iterable[Mapping[str, Any]], folder: Path) -> tuple[tuple[str, Path], ...]:
    """Return the title and the file of each page; a page is a table with a single key."""
    return tuple((title, (folder / path).resolve()) for row in pages for title, path in row.items())


def list_pages(docs: Path = DOCS) -> set[Path]:
    """List every page that is written below ``docs``, without the index."""
    return {page.resolve() for page in docs.rglob("*.md")} - {(docs / "index.md").resolve()}
