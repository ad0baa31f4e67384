"""Plausibility and agreement of methods on a terminal, after what is faithful."""

__all__ = ["agreement_lines", "plausibility_lines"]

from collections.abc import Sequence
from typing import Literal

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from limelight.render.terminal_words import Look
from limelight.results.judgement import AgreeingPair, MethodAgreement, Plausibility, PlausibleMethod

_NARROW = 72  # columns, below which average precision stands alone
_CELL = 6  # columns that a number of the matrix takes


def plausibility_lines(found: Plausibility, look: Look, width: int) -> list[RenderableType]:
    """Return the sentence, one row per method and reference, and the notices."""
    wide = width >= _NARROW
    table = _plain()
    table.add_column("plausibility", no_wrap=True, max_width=16, overflow=_overflow(look))
    table.add_column("AP", justify="right", no_wrap=True)
    if wide:
        for head in ("above chance", "R-prec", "token F1", "IOU F1"):
            table.add_column(head, justify="right", no_wrap=True)
    for one in (*found.ranked(), *found.references):
        table.add_row(*_cells(one, look)[: None if wide else 2])
    notices = [Text(look.safe(f"! {n}"), "bold", overflow="fold") for n in found.notices]
    return [Text(look.safe(found.verdict), overflow="fold"), Text(), table, *notices]


def _cells(one: PlausibleMethod, look: Look) -> list[Text]:
    low, high = one.above_interval or (None, None)
    interval = "" if low is None else f" [{low:.3f}, {high:.3f}]"
    above = "" if one.method == "chance" else f"{_number(one.above)}{interval}"
    numbers = [one.r_precision, one.token_f1, one.iou_f1]
    return [
        Text(look.safe(one.method), "bold"),
        Text(_number(one.precision)),
        Text(above),
        *(Text(_number(x)) for x in numbers),
    ]


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:.3f}"


def agreement_lines(
    names: Sequence[str], found: MethodAgreement, look: Look, width: int
) -> list[RenderableType]:
    """Return the rank correlations of methods as a matrix; what has no room there is left out."""
    longest = min(16, max(len(look.safe(name)) for name in names))
    room = max(1, (width - longest - 5) // _CELL)
    shown = names[:room]
    pairs = {frozenset(one.methods): one for one in (*found.pairs, *found.again)}
    table = _plain()
    table.add_column("agreement", no_wrap=True, max_width=longest + 4, overflow=_overflow(look))
    for i in range(len(shown)):
        table.add_column(str(i + 1), justify="right", no_wrap=True)
    for i, one in enumerate(names):
        numbers = [_rank(pairs.get(frozenset((one, other)))) for other in shown]
        table.add_row(Text(look.safe(f"{i + 1} {one}"), "bold"), *numbers)
    again = "; on the diagonal a sampled method with another seed" if found.again else ""
    said = f"Rank correlations of the words{again}."
    left = len(names) - len(shown)
    more = f" {left} columns have no room here; the page has them." if left else ""
    return [table, Text(look.safe(said + more), "dim", overflow="fold")]


def _rank(pair: AgreeingPair | None) -> str:
    return "" if pair is None or pair.rank is None else f"{pair.rank:.2f}"


def _plain() -> Table:
    return Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")


def _overflow(look: Look) -> Literal["crop", "ellipsis"]:
    return "crop" if look.ascii else "ellipsis"
