"""A judgement on a terminal: a dot and its interval for every method, from chance to ceiling."""

from collections.abc import Iterator
from functools import partial

from rich.console import RenderableType
from rich.text import Text

from limelight.pages.terminal import Look, View, table_text
from limelight.pages.wording import lowest_share, share_ends
from limelight.results.judgement import (
    JudgedMethod,
    Judgement,
    MethodAgreement,
    Plausibility,
    PlausibleMethod,
    shown_end,
)
from limelight.results.judgement_json import described_column
from limelight.results.table import Column, Table
from limelight.text import plural

_NARROW = 60  # columns, below which the numbers of the interval give way to the axis
_NARROW_PLAUSIBLE = 72  # columns, below which average precision stands alone
_NAME = 16  # letters of a method
_GAP = 2  # letters between columns
_LONGEST = 10  # letters of the heading of another measure
_RANK = len("-0.12")  # letters of a rank correlation


def judgement_text(judgement: Judgement) -> RenderableType:
    """Return the verdict, one row per method, and what the reader must know."""
    return View(partial(_judgement, judgement))


def _judgement(j: Judgement, look: Look, width: int) -> Iterator[RenderableType]:
    yield look.line(j.verdict)
    yield Text()
    yield table_text(_shares(j), look, width)
    yield Text()
    yield look.line(_meaning(j), "dim")
    if (measures := _measures(j, width)) is not None:
        yield Text()
        yield table_text(measures, look, width)
    yield from look.notices(j.notices)
    if j.plausibility is not None:
        yield Text()
        yield look.line(j.plausibility.verdict)
        yield Text()
        yield table_text(_plausibility(j.plausibility), look, width)
        yield from look.notices(j.plausibility.notices)
    if j.agreement is not None:
        yield Text()
        yield from _agreement(j, j.agreement, look, width)


def _meaning(j: Judgement) -> str:
    ceiling = "the proven ceiling" if j.ceiling_kind == "proven" else "the best order found"
    said = f"0 is chance, 1 is {ceiling}; intervals are 95 % over texts."
    return said if j.greedy is None else f"{said} Greedy search reaches {j.greedy:.3f}."


def _names(heading: str = "method") -> Column:
    return Column(heading, mark="bold", widest=_NAME)


def _shares(j: Judgement) -> Table:
    """Return the share of each method, and where it lies between chance and ceiling."""
    low = lowest_share(j)

    def heading(letters: int, _: Look) -> Text:
        """Return the names of the ends; chance stands where 0 is."""
        zero = _place(0.0, low, letters)
        room = letters - zero - len(j.ceiling_name)
        ends = "chance".ljust(room) + j.ceiling_name if room > len("chance") else "chance"
        return Text(" " * zero + ends)

    columns = (
        _names(),
        Column("share", ".3f", missing="–"),
        Column("interval", lambda x: shown_end(x).replace("−", "-"), wide=_NARROW),
        Column(room=(8, 1000), axis=heading),
    )
    rows = [(m.method, m.share, m.interval, partial(_axis, m, low)) for m in j.ranked()]
    return Table(columns, rows)


def _place(share: float, low: float, letters: int) -> int:
    return round((min(share, 1.0) - low) / (1.0 - low) * (letters - 1))


def _axis(m: JudgedMethod, low: float, letters: int, look: Look) -> Text:
    line, dot, mark = ("-", "o", "|") if look.ascii else ("─", "●", "│")
    drawn = [" "] * letters
    drawn[_place(0.0, low, letters)] = drawn[-1] = mark
    if m.share is not None:
        start, end = (_place(x, low, letters) for x in share_ends(m))
        drawn[start : end + 1] = line * (end + 1 - start)
        drawn[_place(m.share, low, letters)] = dot
    return Text("".join(drawn))


def _measures(j: Judgement, width: int) -> Table | None:
    """Return the other measures, as many as there is room for; the page has all."""
    columns: dict[str, dict[str, float | None]] = {}  # heading, then method
    if j.second is not None:
        heading = f"by {j.second.settings.get('replacement', 'second')}"
        columns[heading] = {m.method: m.share for m in j.second.methods}
    for m in j.methods:
        for column in m.columns:
            heading = described_column(column.name).short
            columns.setdefault(heading, {})[m.method] = column.value
    left, heads = width - min(max(len(m.method) for m in j.methods), _NAME), []
    for heading in columns:
        left -= _GAP + max(min(len(heading), _LONGEST), len("-0.123"))
        if left < 0:
            break
        heads.append(heading)
    if not heads:
        return None
    numbers = [Column(heading[:_LONGEST], ".3f", missing="–") for heading in heads]
    rows = [(m.method, *(columns[heading].get(m.method) for heading in heads)) for m in j.ranked()]
    return Table((_names(), *numbers), rows)


def _plausibility(found: Plausibility) -> Table:
    """Return one row per method and per reference."""
    more = [
        Column(heading, ".3f", wide=_NARROW_PLAUSIBLE)
        for heading in ("above chance", "R-prec", "token F1", "IOU F1")
    ]
    several = (*found.ranked(), *found.references)
    rows = [
        (m.method, m.precision, _above(m), m.r_precision, m.token_f1, m.iou_f1) for m in several
    ]
    return Table((_names("plausibility"), Column("AP", ".3f"), *more), rows)


def _above(m: PlausibleMethod) -> str | None:
    if m.method == "chance" or m.above is None:
        return None
    interval = "" if m.above_interval is None else " [{:.3f}, {:.3f}]".format(*m.above_interval)
    return f"{m.above:.3f}{interval}"


def _agreement(
    j: Judgement, found: MethodAgreement, look: Look, width: int
) -> Iterator[RenderableType]:
    """Yield the rank correlations of methods as a matrix; what has no room there is left out."""
    names = [m.method for m in j.ranked()]
    longest = min(_NAME, max(len(look.safe(name)) for name in names)) + len("10 ")
    shown = names[: max(1, (width - longest) // (_RANK + _GAP))]
    pairs = {frozenset(one.methods): one.rank for one in (*found.pairs, *found.again)}
    rows = [
        (f"{i} {one}", *(pairs.get(frozenset((one, other))) for other in shown))
        for i, one in enumerate(names, 1)
    ]
    numbers = [Column(str(i), ".2f") for i in range(1, len(shown) + 1)]
    yield table_text(
        Table((Column("agreement", mark="bold", widest=longest), *numbers), rows), look, width
    )
    again = "; on the diagonal a sampled method with another seed" if found.again else ""
    left = len(names) - len(shown)
    more = f" {left} columns have no room here; the page has them." if left else ""
    yield look.line(f"Rank correlations of the {plural(j.noun)}{again}.{more}", "dim")
