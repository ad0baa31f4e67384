"""A judgement on a terminal: a dot and its interval for every method, from chance to ceiling."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from limelight.pages.terminal import Look, View
from limelight.results.judgement import (
    AgreeingPair,
    Interval,
    JudgedMethod,
    Judgement,
    MethodAgreement,
    Plausibility,
    PlausibleMethod,
)
from limelight.results.judgement_json import described_column

_NARROW_PLAUSIBLE = 72  # columns, below which average precision stands alone
_CELL = 6  # columns that a number of the matrix takes


def plausibility_lines(found: Plausibility, look: Look, width: int) -> list[RenderableType]:
    """Return the sentence, one row per method and reference, and the notices."""
    wide = width >= _NARROW_PLAUSIBLE
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


_NARROW = 60  # columns, below which the numbers of the interval give way to the axis
_COLUMN = 11  # cells of one of the other measures


def judgement_text(judgement: Judgement) -> RenderableType:
    """Return the verdict, one row per method, and what the reader must know."""
    return View(partial(_judgement, judgement))


def _judgement(j: Judgement, look: Look, width: int) -> Iterator[RenderableType]:
    yield look.line(j.verdict)
    yield Text()
    yield _rows(j, look, width)
    yield Text()
    yield look.line(_greedy(j), "dim")
    yield from _measures(j, look, width)
    yield from look.notices(j.notices)
    yield from _beside(j, look, width)


def _beside(j: Judgement, look: Look, width: int) -> list[RenderableType]:
    """Return what else the scores say: whether methods agree, whether people would."""
    parts = []
    if j.plausibility is not None:
        parts.append(plausibility_lines(j.plausibility, look, width))
    if j.agreement is not None:
        names = [m.method for m in j.ranked()]
        parts.append(agreement_lines(names, j.agreement, look, width))
    return [line for part in parts for line in (Text(), *part)]


def _greedy(j: Judgement) -> str:
    ceiling = "the proven ceiling" if j.ceiling_kind == "proven" else "the best order found"
    said = f"0 is chance, 1 is {ceiling}; intervals are 95 % over texts."
    return said if j.greedy is None else f"{said} Greedy search reaches {j.greedy:.3f}."


def _rows(j: Judgement, look: Look, width: int) -> Table:
    names = max(len(look.safe(m.method)) for m in j.methods)
    wide = width >= _NARROW
    cells = max(8, width - min(names, 16) - (26 if wide else 9))
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(
        "method", no_wrap=True, max_width=16, overflow="crop" if look.ascii else "ellipsis"
    )
    table.add_column("share", justify="right", no_wrap=True)
    if wide:
        table.add_column("interval", no_wrap=True)
    low = min([0.0, *(_ends(m)[0] for m in j.methods if m.share is not None)])
    table.add_column(Text(_axis_names(low, cells, j.ceiling_name)), no_wrap=True)
    for m in j.ranked():
        share = look.safe("–") if m.share is None else f"{m.share:.3f}"
        interval = "" if m.interval is None else "[{:.3f}, {:.3f}]".format(*m.interval)
        axis = Text(_axis(m, low, cells, look))
        row = [Text(look.safe(m.method), "bold"), Text(share)]
        table.add_row(*row, *([Text(interval)] if wide else []), axis)
    return table


def _measures(j: Judgement, look: Look, width: int) -> list[RenderableType]:
    """Return the other measures as a table, as many as there is room for; the page has all."""
    names = list(dict.fromkeys(column.name for m in j.methods for column in m.columns))
    heads = [described_column(name).short for name in names]
    columns = [[_value(m, name) for m in j.ranked()] for name in names]
    if j.second is not None:
        others = {m.method: m.share for m in j.second.methods}
        heads.insert(0, f"by {j.second.settings.get('replacement', 'second')}")
        columns.insert(0, [others[m.method] for m in j.ranked()])
    fitting = max(0, (width - min(max(len(m.method) for m in j.methods), 16) - 1) // _COLUMN)
    if not heads or not fitting:
        return []
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    overflow: Literal["crop", "ellipsis"] = "crop" if look.ascii else "ellipsis"
    table.add_column("method", no_wrap=True, max_width=16, overflow=overflow)
    for head in heads[:fitting]:
        table.add_column(look.safe(head[: _COLUMN - 1]), justify="right", no_wrap=True)
    for i, m in enumerate(j.ranked()):
        cells = [column[i] for column in columns[:fitting]]
        shown = [look.safe("–") if cell is None else f"{cell:.3f}" for cell in cells]
        table.add_row(Text(look.safe(m.method), "bold"), *map(Text, shown))
    return [Text(), table]


def _value(m: JudgedMethod, name: str) -> float | None:
    return next((column.value for column in m.columns if column.name == name), None)


def _ends(m: JudgedMethod) -> Interval:
    share = m.share or 0.0
    return m.interval or (share, share)


def _axis_names(low: float, cells: int, top: str) -> str:
    """Return the names of the ends; chance stands where 0 is."""
    zero = _place(0.0, low, cells)
    room = cells - zero - len(top)
    return " " * zero + ("chance".ljust(room) + top if room > len("chance") else "chance")


def _place(share: float, low: float, cells: int) -> int:
    return round((min(share, 1.0) - low) / (1.0 - low) * (cells - 1))


def _axis(m: JudgedMethod, low: float, cells: int, look: Look) -> str:
    line, dot, mark = ("-", "o", "|") if look.ascii else ("─", "●", "│")
    drawn = [" "] * cells
    drawn[_place(0.0, low, cells)] = drawn[-1] = mark
    if m.share is None:
        return "".join(drawn)
    start, end = (_place(x, low, cells) for x in _ends(m))
    drawn[start : end + 1] = line * (end + 1 - start)
    drawn[_place(m.share, low, cells)] = dot
    return "".join(drawn)
