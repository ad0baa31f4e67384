"""Tables of a page: one head, rows, and a place that scrolls where they are too wide."""

__all__ = ["headed_table", "plain_table", "scrolling"]

from collections.abc import Iterable, Sequence

from limelight.render.markup import Html, element, raw


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


def scrolling(table: Html, label: str) -> Html:
    """Return ``table`` where it can be scrolled sideways, by the keyboard too."""
    return element("div", table, class_="wide", tabindex=0, role="region", aria_label=label)
