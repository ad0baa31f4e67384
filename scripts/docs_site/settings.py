"""Write the settings of zensical, in the format of mkdocs with its material theme."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import limelight
from docs_site.formulas import STYLE_SHEET
from docs_site.navigation import ROOT, Section
from docs_site.staging import placed
from docs_site.versions import VERSIONS

_PALETTE = [
    {
        "media": "(prefers-color-scheme)",
        "toggle": {"icon": "material/brightness-auto", "name": "Switch to light"},
    },
    {
        "media": "(prefers-color-scheme: light)",
        "scheme": "default",
        "toggle": {"icon": "material/brightness-7", "name": "Switch to dark"},
    },
    {
        "media": "(prefers-color-scheme: dark)",
        "scheme": "slate",
        "toggle": {"icon": "material/brightness-4", "name": "Use the system's setting"},
    },
]
_REFERENCE = {
    "show_root_heading": True,
    "show_root_full_path": True,
    "show_source": False,
    "show_bases": False,
    "heading_level": 2,
    "members_order": "source",
    "separate_signature": True,
    "show_signature_annotations": True,
    "filters": ["!^_"],
    "docstring_style": "numpy",
    # Docstrings explain the settings of the methods, which signatures collect as **settings.
    "docstring_options": {"warn_unknown_params": False, "warn_missing_types": False},
    "docstring_section_style": "table",
    "extensions": [str(Path(__file__).with_name("docstrings.py"))],
    "show_overloads": False,  # the last signature has all types
}


def settings(chapters: Iterable[Section]) -> str:
    """Return the settings of a site of ``chapters``, in JSON, which is YAML too.

    It is built from the folder ``pages`` beside them into the folder ``site``.
    """
    return json.dumps(
        {
            "site_name": "limelight",
            "copyright": f'limelight {limelight.__version__}. <a href="{VERSIONS}">Versions</a>',
            "site_description": "Which words drive the prediction of a model, with error estimates",
            "docs_dir": "pages",
            "site_dir": "site",
            # Addresses that name a file work from a disk as well as from a server.
            "use_directory_urls": False,
            "nav": [{"limelight": "index.md"}, *(_chapter(chapter) for chapter in chapters)],
            "theme": {
                "name": "material",
                "font": False,  # fonts of the reader's system: nothing is fetched
                "features": [
                    "content.code.copy",
                    "content.tabs.link",  # the choice of Python or Shell is remembered
                    "navigation.footer",
                    "navigation.indexes",
                    "navigation.prune",
                    "navigation.top",
                    "search.highlight",
                ],
                "palette": _PALETTE,
            },
            "extra": {"generator": False},
            "extra_css": ["site.css", STYLE_SHEET],
            "plugins": [
                "search",
                "offline",  # the search index as a script, which pages on a disk can load
                {
                    "mkdocstrings": {
                        "handlers": {
                            "python": {"paths": [str(ROOT / "src")], "options": _REFERENCE}
                        }
                    }
                },
            ],
            "markdown_extensions": [
                "attr_list",
                "md_in_html",
                "sane_lists",
                "tables",
                {"toc": {"permalink": True}},
                "admonition",
                {"pymdownx.arithmatex": {"generic": True}},
                "pymdownx.details",
                "pymdownx.highlight",
                "pymdownx.superfences",
                {"pymdownx.tabbed": {"alternate_style": True}},
            ],
        },
        indent=2,
    )


def _chapter(section: Section) -> dict[str, Any]:
    groups = ({name: _entries(links)} for name, links in section.groups)
    return {section.title: [*_entries(section.entries), *groups]}


def _entries(links: Iterable[tuple[str, Path]]) -> list[dict[str, str]]:
    return [{title: placed(page).as_posix()} for title, page in links]
