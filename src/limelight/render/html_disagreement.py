"""Where methods disagree, as HTML tables."""

__all__ = ["disagreement_section"]

from limelight.render.disagreement import (
    Disagreement,
    against_reference,
    reference,
    strongest_disagreements,
    unranked,
)
from limelight.render.html_tables import headed_table, scrolling
from limelight.render.markup import Html, element, raw
from limelight.render.palette import level
from limelight.render.wording import minus
from limelight.results import Comparison


def disagreement_section(c: Comparison, *, matrix: bool = True) -> Html:
    """Return the table against the reference, the worst pairs, and all rank correlations."""
    pairs = strongest_disagreements(c)
    rows = [
        element("li", element("b", f"{pair.first} and {pair.second}"), f": {minus(pair.sentence)}.")
        for pair in pairs
    ]
    worst = raw(element("h3", "Furthest apart"), element("ul", *rows, class_="apart"))
    sentence = unranked(c)
    table = raw(_table(c), element("p", sentence, class_="note") if sentence else raw())
    parts = [table, worst if rows and len(c.explanations) > 2 else raw()]
    columns = element("div", *(element("div", part) for part in parts), class_="columns")
    return raw(columns, _matrix(c) if matrix and len(c.explanations) > 2 else raw())


def _table(c: Comparison) -> Html:
    held_against = c.explanations[reference(c)].label
    head = ("method", "rank correlation", "opposite signs", "top words shared")
    return headed_table(
        head, map(_row, against_reference(c)), caption=f"Held against {held_against}"
    )


def _row(row: Disagreement) -> Html:
    ranks, signs = row.rank_correlation, row.sign_conflicts
    shared = "–" if row.shared_top is None else f"{row.shared_top} of {row.top}"
    return element(
        "tr",
        element("th", row.first, scope="row"),
        element("td", _number(ranks), class_="weak" if ranks is not None and ranks < 0.5 else None),
        element("td", "–" if signs is None else signs, class_="weak" if signs else None),
        element("td", shared, class_="weak" if row.shared_top == 0 else None),
    )


def _matrix(c: Comparison) -> Html:
    """Return the rank correlation of every pair; deeper colour, closer agreement."""
    names = [e.label for e in c]
    rows = []
    for name, line in zip(names, c.agreement.rank_correlation, strict=True):
        cells = [element("td", _number(value), class_=_shade(value)) for value in line]
        rows.append(element("tr", element("th", name, scope="row"), *cells))
    caption = "Rank correlation of the sizes of the scores, every pair of methods"
    table = headed_table(("", *names), rows, caption=caption, class_="numbers matrix")
    return scrolling(table, "Rank correlations of all pairs")


def _shade(value: float | None) -> str | None:
    if value is None or not (step := level(value * 0.8)):
        return None
    return f"n{step}" if value > 0 else f"a{step}"


def _number(value: float | None) -> str:
    return "–" if value is None else minus(f"{value:+.2f}")
