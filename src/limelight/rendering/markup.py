"""Render HTML templates. Values are escaped, and control characters are replaced by symbols."""

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
    """Load the templates."""
    # Imported here because terminal output needs no templates.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def escape_controls(value: object) -> str:
        """Replace the control characters of a printed value."""
        return value if isinstance(value, Markup) else visible_text(str(value))

    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=escape_controls,  # called for each printed value, so no template can forget it
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "thousands": "{:,}".format,
        "minus": typographic_minus,
        "typeset": typeset_sentence,
        "plural": pluralize,
    }
    environment.filters["signed"] = lambda x: typographic_minus(f"{x:+.3f}")
    environment.globals |= {"percent": format_percent, "table_html": table_html}
    return environment


def render_template(template: str | Path, **values: Any) -> "Markup":
    """Fill a template with values.

    ``template`` is the path of a file or a name in ``templates/``.
    """
    from markupsafe import Markup

    compiled = (
        _templates().get_template(template)
        if isinstance(template, str)
        else _templates().from_string(template.read_text("utf-8"))
    )
    return Markup(compiled.render(**values))  # noqa: S704  the template has escaped the values


def render_macro(name: str, *values: Any, **options: Any) -> "Markup":
    """Call one macro of ``parts.html``."""
    macro = getattr(_templates().get_template("parts.html").module, name)
    markup: Markup = macro(*values, **options)
    return markup


def table_html(table: Table, *, label: str = "", kind: str = "numbers") -> "Markup":
    """Render a table as HTML, with its title as the caption and row headings in the first column.

    A table with a ``label``, which screen readers announce, gets a frame that scrolls sideways.
    ``kind`` is the CSS class of the table.
    """
    columns = [(i, column) for i, column in enumerate(table.columns) if not column.draw_width]
    rows = [[_cell(row[i], column) for i, column in columns] for row in table.rows]
    heads = [column.heading for _, column in columns]
    return render_macro("table", table.title, heads, rows, table.left_out, label, kind)


def _cell(value: object, column: Column) -> tuple[list[str], str, bool]:
    """Return the texts in a cell, its CSS class, and whether the texts come from the user."""
    value, mark = value if isinstance(value, Cell) else (value, column.mark)
    text = column.cell_text(value)
    if column.number_format:
        text = typographic_minus(text)
    shade = {"dim": "note", "bold": ""}.get(mark, mark)
    return (text.split(" × ") if column.is_user_text else [text]), shade, column.is_user_text


def data_block(identifier: str, json: str) -> "Markup":
    """Return JSON as a script element. Characters that could end the element are escaped."""
    from markupsafe import Markup

    safe = json.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    block = f'<script type="application/json" id="{identifier}">{safe}</script>'
    return Markup(block)  # noqa: S704


def style_sheet(*sheets: str | Path, over_inline: bool = False) -> str:
    """Return the CSS of the palette and of ``sheets``: names in ``elements/``, or paths."""
    contents = [(_HERE / "elements" / name).read_text("utf-8") for name in sheets]
    return "\n".join((palette_css(over_inline=over_inline), *contents))


def render_fragment(template: str, **values: Any) -> str:
    """Render a fragment of a page. It has no script, and its styles affect nothing else.

    The colors of words are inline styles too, so they remain if a reader drops the style sheet.
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
    subtitle: str = "",
    navigation: "Markup | str" = "",
) -> str:
    """Render a self-contained page.

    The security policy of the page allows only its own styles and its own script, by their digests.

    Parameters
    ----------
    title
        The main heading.
    body
        The content below the heading.
    sheets
        Style sheets: names in ``elements/`` or paths.
    script
        The script: a name in ``elements/`` or a path. Modules that it imports are included.
    data
        JSON that the script reads.
    subtitle
        Words that follow the title in the name of the window.
    navigation
        Links to other pages, at the end of the header.

    Returns
    -------
    The HTML of the page.
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
        window=f"{title} {subtitle}" if subtitle else title,
        head=Markup(head),  # noqa: S704  our own files
        navigation=navigation,
        body=body,
        footer="Made by limelight. This page holds its own data and needs no network.",
        data=data_block("limelight-data", data),
        program=Markup(f'<script type="module">{program}</script>'),  # noqa: S704
    )
    return str(page)  # not Markup, which would escape any string that a caller appends


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
