"""HTML from values: everything that came from outside is escaped here."""

__all__ = [
    "NOTHING",
    "Html",
    "data_block",
    "element",
    "escaped",
    "raw",
    "resource",
    "resource_path",
]

import html
from pathlib import Path

from limelight.render.coloured_pieces import visible

_PAGE = Path(__file__).parent / "page"


class Html(str):
    """Text that is markup already and must not be escaped again."""

    __slots__ = ()


NOTHING = Html("")


def escaped(content: object) -> Html:
    """Return ``content`` as HTML: markup as it is, anything else escaped and made visible."""
    return content if isinstance(content, Html) else Html(html.escape(visible(str(content))))


def raw(*parts: Html) -> Html:
    """Join pieces of markup."""
    return Html("".join(parts))


def element(tag: str, *content: object, **attributes: object) -> Html:
    """Return ``<tag …>content</tag>``; attributes that are None or False are left out.

    A trailing underscore avoids Python's keywords (``class_``), the others become hyphens.
    """
    parts = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        parts.append(key if value is True else f'{key}="{escaped(value)}"')
    inside = "".join(escaped(part) for part in content)
    return Html(f"<{' '.join(parts)}>{inside}</{tag}>")


def data_block(identifier: str, json: str) -> Html:
    """Return JSON as a script element that no text inside it can end."""
    safe = json.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Html(f'<script type="application/json" id="{identifier}">{safe}</script>')


def resource(name: str | Path) -> str:
    """Return a style sheet or script that is shipped with the package."""
    return resource_path(name).read_text(encoding="utf-8")


def resource_path(name: str | Path) -> Path:
    """Return where it is; a path that is absolute stays as it is."""
    return _PAGE / name
