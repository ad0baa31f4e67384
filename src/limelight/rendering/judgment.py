"""A judgment on a terminal, as a page and in a notebook: methods from chance to ceiling."""

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from limelight.rendering.markup import render_fragment, render_page, render_template
from limelight.rendering.terminal import ALL, Look, sections_text, table_text, terminal_view
from limelight.rendering.text_parts import visible_text
from limelight.rendering.wording import lowest_share, share_interval, typographic_minus
from limelight.results.judgment import (
    COLUMNS,
    TIE_ORDERS,
    Interval,
    JudgedMethod,
    JudgedPair,
    JudgedText,
    Judgment,
    Measure,
    MeasureDescription,
    MethodAgreement,
    MethodPlausibility,
    Plausibility,
    RemovalCurve,
    format_interval_end,
)
from limelight.results.table import Column, Section, Table
from limelight.text import pluralize, truncate_line

if TYPE_CHECKING:
    from markupsafe import Markup

CURVES_SHOWN = 1500  # texts; curves of more would make the page too heavy to send
_LEVELS = 4000  # between the lowest and the highest point of a text: finer than any screen
_OPENING = 60  # characters of a text that the table shows
_LEFT, _RIGHT, _ROW, _WIDTH = 170, 40, 28, 600  # of the figure, whose letters are 13 high
_NARROW = 60  # columns of a terminal, below which the numbers of the interval give way to the axis
_NARROW_PLAUSIBLE = 72  # columns, below which average precision stands alone
_NAME = 16  # letters of a method
_METHOD = Column("method", mark="bold", max_letters=_NAME)
_PLAUSIBLE = {  # what is measured of a method, as a page and a terminal name it
    "precision": ("average precision", "AP"),
    "above_chance": ("above chance", "above chance"),
    "r_precision": ("R-precision", "R-prec"),
    "token_f1": ("token F1", "token F1"),
    "iou_f1": ("IOU F1", "IOU F1"),
}
_AGREEMENTS = {
    "rank": "Rank correlation of the {words} (Spearman's; by size where a method has no signs)",
    "sign": "{words} with the same sign",
    "top": "Strongest {words} that both name",
}


@terminal_view()
def judgment_text(j: Judgment, look: Look) -> Iterator[RenderableType]:
    """Yield the verdict, one row per method, and what the reader must know."""
    yield look.line(j.verdict)
    yield Text()
    yield table_text(_methods(j), look)
    yield Text()
    yield look.line(_meaning(j), "dim")
    yield from look.warnings(j.warnings)
    if beside := _sections(j, whole=False):
        yield Text()
        yield from sections_text(beside, look)


def _methods(j: Judgment) -> Table:
    """Return the share of each method, where it lies between chance and ceiling, and the rest."""
    low = lowest_share(j)

    def heading(letters: int, _: Look) -> Text:
        """Return the names of the ends; chance stands where 0 is."""
        zero = _place(0.0, low, letters)
        room = letters - zero - len(j.ceiling_name)
        ends = "chance".ljust(room) + j.ceiling_name if room > len("chance") else "chance"
        return Text(" " * zero + ends)

    columns = (
        _METHOD,
        Column("share", "z.3f", missing="–"),
        Column(
            "interval",
            lambda x: format_interval_end(x).replace("−", "-"),
            missing="–",
            min_width=_NARROW,
        ),
        Column(draw_width=(8, 1000), draw_heading=heading),
        Column("error within texts", ".1g", min_width=ALL),
        Column("insertion", "z.3f", min_width=ALL),
        Column("|change|", "z.3f", min_width=ALL),
        Column("won", ".0%", min_width=ALL),
        Column("texts", "d", min_width=ALL),
        Column(min_width=ALL),
    )
    rows = [
        (
            m.method,
            m.share,
            m.interval,
            partial(_axis, m, low),
            _error(m),
            _with_interval(m.insertion, m.insertion_interval),
            _with_interval(m.change, m.change_interval),
            m.won,
            m.texts,
            m.reason or "no signs" * (not m.signed),
        )
        for m in j.rank_methods()
    ]
    return Table(columns, rows)


def _place(share: float, low: float, letters: int) -> int:
    return round((min(share, 1.0) - low) / (1.0 - low) * (letters - 1))


def _axis(m: JudgedMethod, low: float, letters: int, look: Look) -> Text:
    line, dot, mark = ("-", "o", "|") if look.ascii else ("─", "●", "│")
    drawn = [" "] * letters
    drawn[_place(0.0, low, letters)] = drawn[-1] = mark
    if m.share is not None:
        start, end = (_place(x, low, letters) for x in share_interval(m))
        drawn[start : end + 1] = line * (end + 1 - start)
        drawn[_place(m.share, low, letters)] = dot
    return Text("".join(drawn))


def _error(m: JudgedMethod) -> str:
    """Return what sampling within texts adds to the error of a share."""
    if m.share is None:
        return ""
    return "none" if m.sampling is None else f"±{m.sampling:.1g}"


def judgment_page(j: Judgment, *, navigation: "Markup | str" = "") -> str:
    """Return the figure, the tables and the texts with their curves as one page."""
    body = render_template(
        "judgment.html",
        judgment=j,
        figure=_figure(j),
        meaning=_meaning(j),
        sections=_sections(j, whole=True),
        curves=any(text.curves for text in j.texts),
        most=CURVES_SHOWN if len(j.texts) > CURVES_SHOWN else 0,
    )
    return render_page(
        "Which explanation may be trusted?",
        body,
        sheets=("words.css", "page.css", "elements.css", "judgment.css"),
        script="judgment.js",
        navigation=navigation,
        data=_page_data(j),
    )


def judgment_fragment(j: Judgment) -> str:
    """Return the verdict, the figure and the warnings for a notebook."""
    return render_fragment("judgment_fragment.html", judgment=j, figure=_figure(j))


def _page_data(j: Judgment) -> str:
    """Return what the script needs, as JSON; numbers with as many digits as a reader sees."""
    names = [m.method for m in j.methods]
    judged = [(i, text, m) for i, text in enumerate(j.texts) if (m := text.deletion) is not None]
    known = {
        "methods": list(map(visible_text, names)),
        "shared": [m.share is not None for m in j.methods],
        "ceiling": j.ceiling_name,
        "units": pluralize(j.feature_noun),
        "texts": [_row(text, measure, names) for _, text, measure in judged],
        "lost": [[t.id, visible_text(t.reason or "")] for t in j.texts if t.deletion is None],
        "curves": [_packed(text, names) if i < CURVES_SHOWN else None for i, text, _ in judged],
    }
    return json.dumps(known, ensure_ascii=False, separators=(",", ":"))


def _row(text: JudgedText, measure: Measure, names: Sequence[str]) -> dict[str, Any]:
    room = measure.ceiling - measure.chance
    return {
        "id": text.id,
        "opening": visible_text(" ".join(text.words[:12]))[:_OPENING],
        "words": text.d,
        "class": visible_text(text.target),
        "output": _short(text.full),
        "chance": _short(measure.chance),
        "ceiling": _short(measure.ceiling),
        "shares": [
            None if area is None or room <= 0 else _short((area - measure.chance) / room)
            for area in map(measure.areas.get, names)
        ],
    }


def _short(x: float) -> float:
    """Return ``x`` with five digits: what nobody can read need not be sent."""
    return float(f"{x:.5g}")


def _packed(text: JudgedText, names: Sequence[str]) -> str | None:
    """Return words, orders and curves as deflated JSON in base64; None where there are none."""
    if not (known := list(text.curves.values())):
        return None
    points = np.concatenate([curve.points for curve in known])
    low, high = float(points.min()), float(points.max())
    unit = (high - low) / _LEVELS or 1.0

    def gaps(values: Any) -> list[int]:
        """Return whole numbers as steps from one to the next: small ones pack well."""
        return np.diff(np.asarray(values), prepend=0).tolist()

    def steps(curve: RemovalCurve) -> list[int]:
        return gaps(np.rint((curve.points - low) / unit).astype(int))

    record = {
        "words": [visible_text(word) for word in text.words],
        "low": low,
        "unit": unit,
        "removed": gaps(known[0].removed_counts),
        "curves": [c and [c.words.tolist(), steps(c)] for c in map(text.curves.get, names)],
    }
    content = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.b64encode(zlib.compress(content)).decode()


def _meaning(j: Judgment) -> str:
    limit = f"what no order of the {pluralize(j.feature_noun)} exceeds"
    ceiling = {
        "proven": f"{limit}, proven",
        "checked": f"{limit}, checked on each text and not proven",
    }.get(j.ceiling_kind, "the best order found, which a better search might exceed")
    said = f"0 is what guessing reaches, 1 is {ceiling}. {_of_intervals(j.has_intervals)}".strip()
    if j.greedy is None:
        return said
    reached = _with_interval(j.greedy, j.greedy_interval, digits=4)
    return f"{said} Greedy search has the share {reached}."


def _of_intervals(shown: bool) -> str:
    return "Intervals are 95 %, over texts." if shown else ""


def _figure(j: Judgment) -> dict[str, Any]:
    """Return where a dot and its interval stand for each method, between chance and ceiling."""
    rows, low = j.rank_methods(), lowest_share(j)

    def x(share: float) -> str:
        place = (min(share, 1.0) - low) / (1.0 - low)
        return f"{_LEFT + place * (_WIDTH - _LEFT - _RIGHT):.1f}"

    return {
        "width": _WIDTH,
        "height": _ROW * (len(rows) + 1) + 10,
        "row": _ROW,
        "left": _LEFT,
        "ends": [(x(0.0), "chance"), (x(1.0), j.ceiling_name)],
        "rows": [
            {
                "name": truncate_line(m.method, 16),
                "y": _ROW * i + 18,
                "dot": "" if m.share is None else x(m.share),
                "from": x(share_interval(m)[0]),
                "to": x(share_interval(m)[1]),
                "hint": ""
                if m.share is None
                else f"{m.method}: {typographic_minus(_with_interval(m.share, m.interval))}",
            }
            for i, m in enumerate(rows)
        ],
    }


def _sections(j: Judgment, *, whole: bool) -> list[Section]:
    """Return what stands beside the shares; a terminal shows less of it, and no intervals."""
    found = [Section("Methods", tables=[_methods(j)])] if whole else []
    if j.second is not None or any(m.columns for m in j.methods):
        found.append(_measures(j, intervals=whole))
    if whole and j.pairs:
        tables = [_pair_table("better", "difference", j.pairs)]
        found.append(Section("Paired differences", note=_of_pairs(j.pairs), tables=tables))
    if j.plausibility is not None:
        found.append(_plausibility(j.plausibility, pluralize(j.feature_noun), whole=whole))
    if j.agreement is not None:
        found.append(_agreement(j, j.agreement, list(_AGREEMENTS) if whole else ["rank"]))
    return found


def _while_room(first: int, columns: Iterable[Column], widest: str) -> Iterator[Column]:
    """Yield columns of numbers; a terminal shows as many as have room beside ``first`` letters."""
    for column in columns:
        first += max(len(column.short_heading), len(widest)) + 2
        yield replace(column, min_width=first)


def _measures(j: Judgment, *, intervals: bool) -> Section:
    """Return the columns beside the share, and what each of them means."""
    # One that a newer version wrote has its name alone.
    named = {
        one.name: COLUMNS.get(one.name) or MeasureDescription(one.name, one.name, "")
        for m in j.methods
        for one in m.columns
    }
    found: dict[str, dict[str, tuple[float | None, Interval | None]]] = {
        m.method: {one.name: (one.value, one.interval) for one in m.columns} for m in j.methods
    }
    if j.second is not None:
        stand_in = j.second.settings.get("replacement", "second")
        means = "The share where removed {words} are replaced in this way."
        named = {
            "": MeasureDescription(f"share with {stand_in!r}", f"by {stand_in}", means)
        } | named
        for m in j.second.methods:
            found[m.method][""] = m.share, m.interval

    def cell(method: str, name: str) -> str | None:
        value, interval = found[method].get(name, (None, None))
        return _with_interval(value, interval if intervals else None) or None

    columns = [
        Column(
            f"{one.label} ({one.better} is better)",
            "z.3f",
            short_heading=one.short_label[:10],
            missing="–",
        )
        for one in named.values()
    ]
    longest = min(max(len(m.method) for m in j.methods), _NAME)
    rows = [(m.method, *(cell(m.method, name) for name in named)) for m in j.rank_methods()]
    table = Table([_METHOD, *_while_room(longest, columns, "-0.123")], rows)
    meanings = [
        (column.label, column.meaning.format(word=j.feature_noun, words=pluralize(j.feature_noun)))
        for column in named.values()
    ]
    return Section("Other measures", tables=[table], meanings=meanings)


def _of_pairs(pairs: Sequence[JudgedPair]) -> str:
    if all(p.simultaneous is None for p in pairs):
        return ""
    return (
        "Intervals and p-values hold for all pairs at once, and are of one test: 0 lies outside "
        "exactly where p is below 0.05."
    )


def _pair_table(better: str, difference: str, pairs: Sequence[JudgedPair]) -> Table:
    """Return the differences with the interval and the p of one test."""
    rows = [
        (
            *p.methods,
            _with_interval(p.difference, p.simultaneous),
            p.won,
            p.p_simultaneous,
        )
        for p in pairs
    ]
    columns = (
        Column(better),
        Column("than"),
        Column(difference, "z.3f"),
        Column("texts won", ".0%"),
        Column("p (all pairs)", ".3g", missing="–"),
    )
    return Table(columns, rows)


def _plausibility(found: Plausibility, features: str, *, whole: bool) -> Section:
    """Return the sentence, one row per method and reference, and the paired differences."""
    columns = [
        Column(
            heading,
            "z.3f",
            short_heading=short,
            min_width=_NARROW_PLAUSIBLE if name != "precision" else 0,
        )
        for name, (heading, short) in _PLAUSIBLE.items()
    ]

    def cell(m: MethodPlausibility, name: str) -> str:
        if name == "above_chance" and m.method == "chance":
            return ""
        shown = whole or name == "above_chance"
        return _with_interval(getattr(m, name), getattr(m, f"{name}_interval") if shown else None)

    rows = [
        (m.method, *(cell(m, name) for name in _PLAUSIBLE), m.texts)
        for m in (*found.rank_methods(), *found.references)
    ]
    pairs = _pair_table("more plausible", "average precision", found.pairs)
    shown = any(m.precision_interval is not None for m in found.methods)
    return Section(
        f"Plausibility: would people mark the same {features}?",
        sentence=found.verdict,
        warnings=found.warnings,
        note=f"{_of_ties(found, features)} “rationale” is the rationale itself "
        "as scores, “annotators” are annotators against each other. People mark "
        f"{found.share:.0%} of a text; F1 takes that part of it, strongest {features} first, as "
        f"ERASER does. {_of_intervals(shown)} {_of_pairs(found.pairs) * whole}".rstrip(),
        tables=[Table((_METHOD, *columns, Column("texts", "d", min_width=ALL)), rows)],
        folded=[("Paired differences", pairs)] if found.pairs else [],
    )


def _of_ties(found: Plausibility, features: str) -> str:
    """Say how chance and tied words are computed, and the largest error that follows."""
    methods = (*found.methods, *found.references)
    errors = [getattr(m, f"{name}_stderr", None) or 0.0 for m in methods for name in _PLAUSIBLE]
    if not any(errors):
        return f"Chance is exact, over all orders of the {features};"
    return (
        f"Chance and ties are means over {TIE_ORDERS} random orders of the tied {features}, with "
        f"standard errors of at most {max(errors):.2g}, which the intervals contain;"
    )


def _agreement(j: Judgment, found: MethodAgreement, measures: Sequence[str]) -> Section:
    """Return one table per measure, methods by methods."""
    names = [m.method for m in j.rank_methods()]
    pairs = {frozenset(one.methods): one for one in (*found.pairs, *found.reseeded_pairs)}
    note = (
        "On the diagonal stands what a method that samples shares with itself under another seed: "
        "two methods cannot be told apart where they agree as much as that."
    )
    longest = min(max(map(len, names)), _NAME) + len("10 ")
    columns = [
        Column(f"{i} {name}", "z.2f", short_heading=str(i)) for i, name in enumerate(names, 1)
    ]
    heads = [Column(mark="bold", max_letters=longest), *_while_room(longest, columns, "-0.12")]
    tables = []
    for measure in measures:
        title = _AGREEMENTS[measure].format(words=pluralize(j.feature_noun))
        title = title[0].upper() + title[1:]
        if measure == "top" and found.chance is not None:
            title = f"{title} (guesses share {found.chance:.2f})"
        known = {both: getattr(pair, measure) for both, pair in pairs.items()}
        rows = [
            (f"{i} {one}", *(known.get(frozenset((one, other))) for other in names))
            for i, one in enumerate(names, 1)
        ]
        tables.append(Table(heads, rows, title))
    return Section(
        "Do the methods agree?", note=note if found.reseeded_pairs else "", tables=tables
    )


def _with_interval(x: float | None, interval: Interval | None, *, digits: int = 3) -> str:
    if x is None:
        return ""
    ends = "" if interval is None else f" [{interval[0]:z.3f}, {interval[1]:z.3f}]"
    return f"{x:z.{digits}f}{ends}"
