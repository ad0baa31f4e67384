"""HTML by templates: whatever comes from outside is escaped, and hidden characters are shown."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limelight.rendering.bundle import bundle_module
from limelight.rendering.palette import palette_css
from limelight.rendering.text_parts import visible_text
from limelight.rendering.wording import format_percent, typeset_sentence, typographic_minus
from limelight.results.table import Cell, Column, Table
from limelight.text import pluralize

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_HERE = Path(__file__).parent


@cache
def _templates() -> "Environment":
    # Imported here: who prints to a terminal alone needs no templates.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: object) -> str:
        return value if isinstance(value, Markup) else visible_text(str(value))

    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,  # of every value that a template prints, so that no template can forget it
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "thousands": "{:,}".format,
        "minus": typographic_minus,
        "printed": typeset_sentence,
        "plural": pluralize,
    }
    found.filters["signed"] = lambda x: typographic_minus(f"{x:+.3f}")
    found.globals |= {"percent": format_percent, "table_html": table_html}
    return found


def render_template(template: str | Path, **values: Any) -> "Markup":
    """Return a template of that name, or in that file, filled with values."""
    from markupsafe import Markup

    found = (
        _templates().get_template(template)
        if isinstance(template, str)
        else _templates().from_string(template.read_text("utf-8"))
    )
    return Markup(found.render(**values))  # noqa: S704  escaped there


def render_macro(name: str, *values: Any, **named: Any) -> "Markup":
    """Return one macro of ``parts.html``, filled."""
    macro = getattr(_templates().get_template("parts.html").module, name)
    found: Markup = macro(*values, **named)
    return found


def table_html(table: Table, *, label: str = "", kind: str = "numbers") -> "Markup":
    """Return any table; its title is the caption, and what stands first in a row names the row.

    With a ``label`` it scrolls sideways, by the keyboard too.
    """
    shown = [(i, column) for i, column in enumerate(table.columns) if not column.draw_width]
    rows = [[_cell(row[i], column) for i, column in shown] for row in table.rows]
    heads = [column.heading for _, column in shown]
    return render_macro("table", table.title, heads, rows, table.left_out, label, kind)


def _cell(value: object, column: Column) -> tuple[list[str], str, bool]:
    """Return what a cell says, its class, and whether it is words of a text, which stay apart."""
    value, mark = value if isinstance(value, Cell) else (value, column.mark)
    said = column.cell_text(value)
    if column.number_format:
        said = typographic_minus(said)
    shade = {"dim": "note", "bold": ""}.get(mark, mark)
    return (said.split(" × ") if column.is_user_text else [said]), shade, column.is_user_text


def data_block(identifier: str, json: str) -> "Markup":
    """Return JSON as a script element that no text inside it can end."""
    from markupsafe import Markup

    safe = json.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    block = f'<script type="application/json" id="{identifier}">{safe}</script>'
    return Markup(block)  # noqa: S704


def style_sheet(*sheets: str | Path, over_inline: bool = False) -> str:
    """Return the colors and the ``sheets``, names in ``elements/`` or paths, as one sheet."""
    contents = [(_HERE / "elements" / name).read_text("utf-8") for name in sheets]
    return "\n".join((palette_css(over_inline=over_inline), *contents))


def render_fragment(template: str, **values: Any) -> str:
    """Return a piece of a page: no script, styles that touch nothing else.

    The colors of words stand in their own styles too, so they survive where the sheet is dropped.
    """
    from markupsafe import Markup

    style = style_sheet("words.css", "fragment.css", over_inline=True)
    return str(render_template(template, style=Markup(style), **values).strip())  # noqa: S704


def render_page(
    title: str,
    body: "Markup",
    *,
    sheets: Sequence[str | Path],
    script: str | Path,
    data: str,
    by: str = "",
    navigation: "Markup | str" = "",
) -> str:
    """Return the page; ``data`` is JSON for the shipped ``script``, ``sheets`` its styles.

    Both are names in ``elements/``, or paths; a script may import modules, which become part of it.
    ``by`` follows the title in the name of the window. Its policy lets only these styles and this
    script run, by their digests. ``navigation`` ends the header: the way to other pages, where there are
    any.
    """
    from markupsafe import Markup

    style = style_sheet(*sheets)
    program = "\n".join(bundle_module(_HERE / "elements" / name) for name in (script, "theme.js"))
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(program)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}"><style>{style}</style>'
    page = render_template(
        "page.html",
        title=title,
        window=f"{title} {by}" if by else title,
        head=Markup(head),  # noqa: S704  our own files
        navigation=navigation,
        body=body,
        footer="Made by limelight. This page holds its own data and needs no network.",
        data=data_block("limelight-data", data),
        program=Markup(f'<script type="module">{program}</script>'),  # noqa: S704
    )
    return str(page)  # not markup, to which nobody could add a string of theirs


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
