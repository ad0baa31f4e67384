"""The files of the page: its own, and the elements that it shares with the reports."""

__all__ = ["page_files"]

from functools import cache
from pathlib import Path

from limelight.pages.markup import resource
from limelight.pages.palette import palette_css

_OWN = Path(__file__).parent / "page"
_SHEETS = ("words.css", "page.css", "elements/elements.css")


@cache
def page_files() -> dict[str, tuple[str, bytes]]:
    """Return the type and content of every file by its place in the page's address."""
    elements = Path(__file__).parents[1] / "render" / "page" / "elements"
    scripts = {f"elements/{path.name}": path for path in elements.glob("*.js")}
    scripts |= {path.name: path for path in _OWN.glob("*.js")}
    found = {
        f"page/{name}": ("text/javascript", path.read_bytes()) for name, path in scripts.items()
    }
    found["page/theme.js"] = ("text/javascript", resource("theme.js").encode())
    style = [palette_css(), *map(resource, _SHEETS), (_OWN / "serving.css").read_text("utf-8")]
    found["page/style.css"] = ("text/css", "\n".join(style).encode())
    return found
