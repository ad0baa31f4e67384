"""The scores of each attention head alone, as a shaded table."""

__all__ = ["head_table"]

import numpy as np

from limelight.render.html_tables import headed_table, scrolling
from limelight.render.markup import Html, element
from limelight.render.palette import level, side
from limelight.render.wording import minus, written
from limelight.results import Explanation

SHOWN_FEATURES = 20


def head_table(e: Explanation) -> Html:
    """Return the strongest features head by head, all heads on one scale."""
    if e.heads is None:
        return Html("")
    order = np.argsort(-np.abs(e.scores), kind="stable")[:SHOWN_FEATURES].tolist()
    peak = float(np.abs(e.heads).max(initial=0.0))
    head = ["word", *(f"head {k + 1}" for k in range(len(e.heads)))]
    rows = []
    for j in order:
        cells = [_cell(e, float(score), peak) for score in e.heads[:, j]]
        rows.append(element("tr", element("th", element("bdi", e.names[j]), scope="row"), *cells))
    caption = f"{e.label} of each head alone"
    table = headed_table(head, rows, caption=caption, class_="numbers matrix")
    return element("details", element("summary", "Head by head"), scrolling(table, "Head by head"))


def _cell(e: Explanation, score: float, peak: float) -> Html:
    step = level(score / peak) if peak else 0
    shade = f"{side(e, score)[0]}{step}" if step else None
    number = written(score if e.signed else abs(score), peak=peak, signed=e.signed)
    return element("td", minus(number), class_=shade)
