"""The scores of each attention head alone, as a shaded table."""

__all__ = ["head_table"]

import numpy as np

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
    head = [element("th", "word", scope="col")]
    head += [element("th", f"head {k + 1}", scope="col") for k in range(len(e.heads))]
    rows = []
    for j in order:
        cells = [_cell(e, float(score), peak) for score in e.heads[:, j]]
        rows.append(element("tr", element("th", element("bdi", e.names[j]), scope="row"), *cells))
    table = element(
        "table",
        element("caption", f"{e.label} of each head alone"),
        element("thead", element("tr", *head)),
        element("tbody", *rows),
        class_="numbers matrix",
    )
    wide = element(
        "div", table, class_="wide", tabindex=0, role="region", aria_label="Head by head"
    )
    return element("details", element("summary", "Head by head"), wide)


def _cell(e: Explanation, score: float, peak: float) -> Html:
    step = level(score / peak) if peak else 0
    shade = f"{side(e, score)[0]}{step}" if step else None
    number = written(score if e.signed else abs(score), peak=peak, signed=e.signed)
    return element("td", minus(number), class_=shade)
