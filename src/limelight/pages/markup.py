"""HTML from values, escaped; tables, scripts in one piece, and the page around them."""

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from pathlib import Path

from limelight.pages.bundle import bundled
from limelight.pages.palette import palette_css
from limelight.pages.pieces import visible
from limelight.results.table import Cell, Column, Table

_PAGE = Path(__file__).parent / "elements"


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


def style_sheet(*sheets: str | Path) -> str:
    """Return the colours and the ``sheets`` as one sheet."""
    return "\n".join((palette_css(), *map(resource, sheets)))


def headed_table(
    heads: Iterable[object],
    rows: Iterable[Html],
    *,
    caption: str | None = None,
    class_: str = "numbers",
) -> Html:
    """Return a table with one row of ``heads``; an empty head is a cell, since it names nothing."""
    top = [
        element("th", head, scope="col") if head != "" else element("td", head) for head in heads
    ]
    title = raw() if caption is None else element("caption", caption)
    return element(
        "table",
        title,
        element("thead", element("tr", *top)),
        element("tbody", *rows),
        class_=class_,
    )


def plain_table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, label: str) -> Html:
    """Return a table, called ``label``, whose first column names its rows."""
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in rest))
        for first, *rest in rows
    ]
    return scrolling(headed_table(heads, body), label)


def table_html(table: Table, *, class_: str = "numbers") -> Html:
    """Return any table; its title is the caption, and what stands first in a row names the row."""
    several = [(i, column) for i, column in enumerate(table.columns) if not column.room]
    rows = [
        element("tr", *(_cell(row[i], column, first=i == 0) for i, column in several))
        for row in table.rows
    ]
    heads = [column.heading for _, column in several]
    caption = table.title or None
    more = element("p", f"and {table.left_out:,} more", class_="note") if table.left_out else raw()
    return raw(headed_table(heads, rows, caption=caption, class_=class_), more)


def _cell(value: object, column: Column, *, first: bool) -> Html:
    value, mark = value if isinstance(value, Cell) else (value, column.mark)
    written = column.text(value)
    shown: object = written.replace("-", "−") if column.number else written
    if column.words:
        shown = element("bdi", shown)
    class_ = {"dim": "note", "bold": None}.get(mark, mark) or None
    return element("th" if first else "td", shown, scope="row" if first else None, class_=class_)


def scrolling(table: Html, label: str) -> Html:
    """Return ``table`` where it can be scrolled sideways, by the keyboard too."""
    return element("div", table, class_="wide", tabindex=0, role="region", aria_label=label)


def whole_page(
    title: str,
    sections: Sequence[Html],
    *,
    sheets: Sequence[str | Path],
    script: str | Path,
    data: str,
    by: str = "",
    images: bool = False,
    above: Html = NOTHING,
) -> str:
    """Return the page; ``data`` is JSON for the shipped ``script``, ``sheets`` its styles.

    Both are names in ``page/``, or paths; a script may import modules, which become part of it.
    ``by`` follows the title in the name of the window. Its policy lets only these styles and this
    script run, by their digests, and with ``images`` pictures that the page itself holds. ``above``
    ends the header: the way to other pages, where there are any.
    """
    style = style_sheet(*sheets)
    program = "\n".join(bundled(resource_path(name)) for name in (script, "theme.js"))
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(program)}'; "
        f"{'img-src data:; ' if images else ''}base-uri 'none'; form-action 'none'"
    )
    head = raw(
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        element("title", f"{title} {by} · limelight" if by else f"{title} · limelight"),
        Html(f"<style>{style}</style>"),
    )
    body = raw(
        element(
            "header",
            element("p", "limelight", class_="brand"),
            element("h1", title),
            element("button", "Dark", type="button", id="theme", hidden=True),
            above,
        ),
        element("main", *sections),
        element("footer", "Made by limelight. This page holds its own data and needs no network."),
        data_block("limelight-data", data),
        Html(f'<script type="module">{program}</script>'),
    )
    document = element("head", head) + element("body", body)
    return f'<!doctype html>\n<html lang="en" class="limelight">{document}</html>\n'


def section(title: str, *content: Html) -> Html:
    """Return a titled section."""
    return element("section", element("h2", title), *content)


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
