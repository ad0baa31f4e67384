"""Features, pairs and anchors as terminal tables."""

__all__ = ["anchor_line", "feature_table", "pair_table"]

import numpy as np
from rich.color import Color
from rich.style import Style
from rich.table import Table
from rich.text import Text

from limelight.render.palette import TERMINAL_INK, largest, side, strengths
from limelight.render.terminal_words import Look
from limelight.render.wording import anchor_sentence, written
from limelight.results import Anchor, Explanation, Pairs

SHOWN_FEATURES, SHOWN_PAIRS = 10, 5


def feature_table(e: Explanation, look: Look, width: int) -> Table:
    """Return the strongest features with scores, standard errors and bars."""
    order = np.argsort(-np.abs(e.scores), kind="stable")[:SHOWN_FEATURES].tolist()
    names = [_name(e, j, look) for j in order]
    left_out = len(e.features) - len(order)
    rest = Text(look.safe(f"and {left_out} more") if left_out else "", "dim")
    widest = min(max(name.cell_len for name in (*names, rest)), max(8, width // 3))
    table = _plain_table()
    table.add_column("word", overflow="ellipsis", max_width=widest, no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    if e.stderr is not None:
        table.add_column("±", justify="right", no_wrap=True)
    numbers = 20 if e.stderr is not None else 12
    longest = max(4, min(40, width - max(widest, 4) - numbers))
    table.add_column("", no_wrap=True, overflow="crop")
    peak, sizes = largest(e), strengths(e)
    for j, name in zip(order, names, strict=True):
        cells = [name, Text(written(e.scores[j], peak=peak, signed=e.signed))]
        if e.stderr is not None:
            cells.append(Text(written(e.stderr[j], peak=peak, signed=False), "dim"))
        table.add_row(*cells, _bar(e, float(sizes[j]), longest, look))
    if left_out:
        table.add_row(rest)
    return table


def pair_table(e: Explanation, pairs: Pairs, look: Look) -> Table:
    """Return the strongest pairs of features."""
    table = _plain_table()
    table.add_column("pair", overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    if pairs.stderr is not None:
        table.add_column("±", justify="right", no_wrap=True)
    peak = float(np.abs(pairs.scores).max())
    for row in np.argsort(-np.abs(pairs.scores), kind="stable")[:SHOWN_PAIRS]:
        i, j = pairs.features[row].tolist()
        names = _name(e, i, look).append(look.safe(" × ")).append(_name(e, j, look))
        cells = [names, Text(written(pairs.scores[row], peak=peak))]
        if pairs.stderr is not None:
            cells.append(Text(written(pairs.stderr[row], peak=peak, signed=False), "dim"))
        table.add_row(*cells)
    return table


def anchor_line(e: Explanation, anchor: Anchor, look: Look) -> Text:
    """Say which words hold the prediction, and how firmly."""
    return Text(look.safe(anchor_sentence(e, anchor)), overflow="fold")


def _plain_table() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")


def _name(e: Explanation, feature: int, look: Look) -> Text:
    """Return the feature, with its count where it occurs more than once."""
    name = Text(look.safe(e.names[feature]))
    count = len(e.spans[feature])
    return name.append(look.safe(f" ×{count}"), "dim") if count > 1 else name


def _bar(e: Explanation, strength: float, longest: int, look: Look) -> Text:
    cells = abs(strength) * longest
    if look.ascii:
        drawn = ("#" if strength >= 0 else "-") * round(cells)
    else:
        drawn = "━" * int(cells) + ("╸" if cells % 1 >= 0.5 else "")
    if not look.colour:
        return Text(drawn)
    return Text(drawn, Style(color=Color.from_rgb(*TERMINAL_INK[side(e, strength)])))
