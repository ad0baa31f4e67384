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
from limelight.rendering.terminal import FULL_WIDTH, Look, sections_text, table_text, terminal_view
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

MAX_CURVES = 1500  # texts with curves: more would make the page too large
_LEVELS = 4000  # between the lowest and the highest point of a text: finer than any screen
_OPENING = 60  # characters of a text in the table
_LEFT, _RIGHT, _ROW, _WIDTH = 170, 40, 28, 600  # sizes of the figure, with letters 13 high
_NARROW = 60  # columns of a terminal: narrower ones show the axis instead of interval numbers
_NARROW_PLAUSIBLE = 72  # columns: narrower terminals show average precision only
_NAME = 16  # letters of a method
_METHOD = Column("method", mark="bold", max_letters=_NAME)
_PLAUSIBLE = {  # measures of plausibility: names on a page and on a terminal
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
    """Yield the verdict, a table with one row per method, and the warnings."""
    yield look.line(j.verdict)
    yield Text()
    yield table_text(_share_table(j), look)
    yield Text()
    yield look.line(_describe_scale(j), "dim")
    yield from look.warning_lines(j.warnings)
    if sections := _sections(j, is_page=False):
        yield Text()
        yield from sections_text(sections, look)


def _share_table(j: Judgment) -> Table:
    """Return a table of the shares, with their position between chance and ceiling."""
    low = lowest_share(j)

    def heading(letters: int, _: Look) -> Text:
        """Return the names of the ends of the axis. "chance" stands above 0."""
        zero = _axis_position(0.0, low, letters)
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
        Column("error within texts", ".1g", min_width=FULL_WIDTH),
        Column("insertion", "z.3f", min_width=FULL_WIDTH),
        Column("|change|", "z.3f", min_width=FULL_WIDTH),
        Column("best on", ".0%", min_width=FULL_WIDTH),
        Column("texts", "d", min_width=FULL_WIDTH),
        Column(min_width=FULL_WIDTH),
    )
    rows = [
        (
            m.method,
            m.share,
            m.interval,
            partial(_draw_axis, m, low),
            _format_sampling_error(m),
            _format_with_interval(m.insertion, m.insertion_interval),
            _format_with_interval(m.change, m.change_interval),
            m.won,
            m.texts,
            m.reason or "no signs" * (not m.signed),
        )
        for m in j.rank_methods()
    ]
    return Table(columns, rows)


def _axis_position(share: float, low: float, letters: int) -> int:
    """Return the letter of an axis at which a share stands."""
    return round((min(share, 1.0) - low) / (1.0 - low) * (letters - 1))


def _draw_axis(m: JudgedMethod, low: float, letters: int, look: Look) -> Text:
    """Draw the share of a method with its interval on an axis of letters."""
    line, dot, mark = ("-", "o", "|") if look.ascii else ("─", "●", "│")
    symbols = [" "] * letters
    symbols[_axis_position(0.0, low, letters)] = symbols[-1] = mark
    if m.share is not None:
        start, end = (_axis_position(x, low, letters) for x in share_interval(m))
        symbols[start : end + 1] = line * (end + 1 - start)
        symbols[_axis_position(m.share, low, letters)] = dot
    return Text("".join(symbols))


def _format_sampling_error(m: JudgedMethod) -> str:
    """Format the part of the error of a share that comes from sampling within texts."""
    if m.share is None:
        return ""
    return "none" if m.sampling is None else f"±{m.sampling:.1g}"


def judgment_page(j: Judgment, *, navigation: "Markup | str" = "") -> str:
    """Return a page with the figure, the tables and the texts with their curves."""
    body = render_template(
        "judgment.html",
        judgment=j,
        figure=_figure(j),
        meaning=_describe_scale(j),
        sections=_sections(j, is_page=True),
        curves=any(text.curves for text in j.texts),
        max_curves=MAX_CURVES if len(j.texts) > MAX_CURVES else 0,
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
    """Return the data of the page as JSON. Numbers are rounded to save space."""
    names = [m.method for m in j.methods]
    judged = [(i, text, m) for i, text in enumerate(j.texts) if (m := text.deletion) is not None]
    data = {
        "methods": list(map(visible_text, names)),
        "has_share": [m.share is not None for m in j.methods],
        "ceiling": j.ceiling_name,
        "units": pluralize(j.feature_noun),
        "texts": [_text_row(text, measure, names) for _, text, measure in judged],
        "not_judged": [[t.id, visible_text(t.reason or "")] for t in j.texts if t.deletion is None],
        "curves": [
            _compress_curves(text, names) if i < MAX_CURVES else None for i, text, _ in judged
        ],
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _text_row(text: JudgedText, measure: Measure, names: Sequence[str]) -> dict[str, Any]:
    """Return the results for one text by name, for the page."""
    room = measure.ceiling - measure.chance
    return {
        "id": text.id,
        "opening": visible_text(" ".join(text.words[:12]))[:_OPENING],
        "words": text.d,
        "class": visible_text(text.target),
        "output": _round_number(text.full),
        "chance": _round_number(measure.chance),
        "ceiling": _round_number(measure.ceiling),
        "shares": [
            None if area is None or room <= 0 else _round_number((area - measure.chance) / room)
            for area in map(measure.areas.get, names)
        ],
    }


def _round_number(x: float) -> float:
    """Round ``x`` to five digits, more than a page shows."""
    return float(f"{x:.5g}")


def _compress_curves(text: JudgedText, names: Sequence[str]) -> str | None:
    """Return words, orders and curves as deflated JSON in base64, or None without curves."""
    if not (curves := list(text.curves.values())):
        return None
    points = np.concatenate([curve.points for curve in curves])
    low, high = float(points.min()), float(points.max())
    unit = (high - low) / _LEVELS or 1.0

    def differences(values: Any) -> list[int]:
        """Return the differences of consecutive integers, which are small and compress well."""
        return np.diff(np.asarray(values), prepend=0).tolist()

    def encode_points(curve: RemovalCurve) -> list[int]:
        """Return the differences of the points of a curve, in units of its resolution."""
        return differences(np.rint((curve.points - low) / unit).astype(int))

    record = {
        "words": [visible_text(word) for word in text.words],
        "low": low,
        "unit": unit,
        "removed": differences(curves[0].removed_counts),
        "curves": [c and [c.words.tolist(), encode_points(c)] for c in map(text.curves.get, names)],
    }
    content = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.b64encode(zlib.compress(content)).decode()


def _describe_scale(j: Judgment) -> str:
    """Explain the shares 0 and 1 and the intervals."""
    limit = f"a limit for every order of the {pluralize(j.feature_noun)}"
    ceiling = {
        "proven": f"{limit} (proven)",
        "checked": f"{limit} (checked on each text, not proven)",
    }.get(j.ceiling_kind, "the best order found, which a better search might exceed")
    sentence = f"0 is a random order. 1 is {ceiling}. {_interval_note(j.has_intervals)}".strip()
    if j.greedy is None:
        return sentence
    share = _format_with_interval(j.greedy, j.greedy_interval, digits=4)
    return f"{sentence} Greedy search reaches {share}."


def _interval_note(has_intervals: bool) -> str:
    """Return a sentence about the intervals, or "" without any."""
    return "Lines show 95% confidence intervals over texts." if has_intervals else ""


def _figure(j: Judgment) -> dict[str, Any]:
    """Return the positions of the dot and the interval of each method in the figure."""
    rows, low = j.rank_methods(), lowest_share(j)

    def x(share: float) -> str:
        """Return the horizontal position of a share."""
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
                else f"{m.method}: {typographic_minus(_format_with_interval(m.share, m.interval))}",
            }
            for i, m in enumerate(rows)
        ],
    }


def _sections(j: Judgment, *, is_page: bool) -> list[Section]:
    """Return the sections besides the shares. A terminal shows fewer, without intervals."""
    sections = [Section("Methods", tables=[_share_table(j)])] if is_page else []
    if j.second is not None or any(m.columns for m in j.methods):
        sections.append(_measures(j, intervals=is_page))
    if is_page and j.pairs:
        tables = [_pair_table("better", "difference", j.pairs)]
        sections.append(Section("Paired differences", note=_pair_note(j.pairs), tables=tables))
    if j.plausibility is not None:
        sections.append(_plausibility(j.plausibility, pluralize(j.feature_noun), is_page=is_page))
    if j.agreement is not None:
        sections.append(_agreement(j, j.agreement, list(_AGREEMENTS) if is_page else ["rank"]))
    return sections


def _fit_columns(first: int, columns: Iterable[Column], widest: str) -> Iterator[Column]:
    """Yield the columns with the terminal width that each needs, after ``first`` letters."""
    for column in columns:
        first += max(len(column.short_heading), len(widest)) + 2
        yield replace(column, min_width=first)


def _measures(j: Judgment, *, intervals: bool) -> Section:
    """Return the section of the other measures, with their meanings."""
    # A measure that a newer version wrote has only its name.
    descriptions = {
        column.name: COLUMNS.get(column.name) or MeasureDescription(column.name, column.name, "")
        for m in j.methods
        for column in m.columns
    }
    cells: dict[str, dict[str, tuple[float | None, Interval | None]]] = {
        m.method: {column.name: (column.value, column.interval) for column in m.columns}
        for m in j.methods
    }
    if j.second is not None:
        replacement = j.second.settings.get("replacement", "second")
        meaning = "The share where removed {words} are replaced in this way."
        descriptions = {
            "": MeasureDescription(f"share with {replacement!r}", f"by {replacement}", meaning)
        } | descriptions
        for m in j.second.methods:
            cells[m.method][""] = m.share, m.interval

    def cell(method: str, name: str) -> str | None:
        """Return the text of a cell, None without a value."""
        value, interval = cells[method].get(name, (None, None))
        return _format_with_interval(value, interval if intervals else None) or None

    columns = [
        Column(
            f"{column.label} ({column.better} is better)",
            "z.3f",
            short_heading=column.short_label[:10],
            missing="–",
        )
        for column in descriptions.values()
    ]
    longest = min(max(len(m.method) for m in j.methods), _NAME)
    rows = [(m.method, *(cell(m.method, name) for name in descriptions)) for m in j.rank_methods()]
    table = Table([_METHOD, *_fit_columns(longest, columns, "-0.123")], rows)
    meanings = [
        (column.label, column.meaning.format(word=j.feature_noun, words=pluralize(j.feature_noun)))
        for column in descriptions.values()
    ]
    return Section("Other measures", tables=[table], meanings=meanings)


def _pair_note(pairs: Sequence[JudgedPair]) -> str:
    """Explain the intervals and p-values of pairs, or return "" without any."""
    if all(p.simultaneous is None for p in pairs):
        return ""
    return "Intervals and p-values hold for all pairs at once."


def _pair_table(better: str, difference: str, pairs: Sequence[JudgedPair]) -> Table:
    """Return a table of paired differences with the interval and the p-value of one test."""
    rows = [
        (
            *p.methods,
            _format_with_interval(p.difference, p.simultaneous),
            p.won,
            p.p_simultaneous,
        )
        for p in pairs
    ]
    columns = (
        Column(better),
        Column("than"),
        Column(difference, "z.3f"),
        Column("better on", ".0%"),
        Column("p (all pairs)", ".3g", missing="–"),
    )
    return Table(columns, rows)


def _plausibility(result: Plausibility, features: str, *, is_page: bool) -> Section:
    """Return the section of plausibility: verdict, one row per method and reference, and pairs."""
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
        """Return the text of a cell."""
        if name == "above_chance" and m.method == "chance":
            return ""
        shows_interval = is_page or name == "above_chance"
        interval = getattr(m, f"{name}_interval") if shows_interval else None
        return _format_with_interval(getattr(m, name), interval)

    rows = [
        (m.method, *(cell(m, name) for name in _PLAUSIBLE), m.texts)
        for m in (*result.rank_methods(), *result.references)
    ]
    pairs = _pair_table("more plausible", "average precision", result.pairs)
    intervals = _interval_note(any(m.precision_interval is not None for m in result.methods))
    pair_note = _pair_note(result.pairs) if is_page else ""
    return Section(
        f"Plausibility: would people mark the same {features}?",
        sentence=result.verdict,
        warnings=result.warnings,
        note=f"{_tie_note(result, features)} “rationale” is the rationale itself "
        "as scores, “annotators” are annotators against each other. People mark "
        f"{result.share:.0%} of a text; F1 takes that part of it, strongest {features} first, "
        f"as ERASER does. {intervals} {pair_note}".rstrip(),
        tables=[Table((_METHOD, *columns, Column("texts", "d", min_width=FULL_WIDTH)), rows)],
        folded=[("Paired differences", pairs)] if result.pairs else [],
    )


def _tie_note(plausibility: Plausibility, features: str) -> str:
    """Say how chance and ties are computed, with the largest standard error."""
    methods = (*plausibility.methods, *plausibility.references)
    errors = [getattr(m, f"{name}_stderr", None) or 0.0 for m in methods for name in _PLAUSIBLE]
    if not any(errors):
        return f"Chance is exact, over all orders of the {features};"
    return (
        f"Chance and ties are means over {TIE_ORDERS} random orders of the tied {features}, with "
        f"standard errors of at most {max(errors):.2g}, which the intervals contain;"
    )


def _agreement(j: Judgment, agreement: MethodAgreement, measures: Sequence[str]) -> Section:
    """Return the section of agreement: one table of all pairs of methods per measure."""
    names = [m.method for m in j.rank_methods()]
    pairs = {
        frozenset(pair.methods): pair for pair in (*agreement.pairs, *agreement.reseeded_pairs)
    }
    note = (
        "The diagonal compares a sampled method with itself under another seed. Two methods that "
        "agree as much as this may differ only by sampling."
    )
    longest = min(max(map(len, names)), _NAME) + len("10 ")
    columns = [
        Column(f"{i} {name}", "z.2f", short_heading=str(i)) for i, name in enumerate(names, 1)
    ]
    heads = [Column(mark="bold", max_letters=longest), *_fit_columns(longest, columns, "-0.12")]
    tables = []
    for measure in measures:
        title = _AGREEMENTS[measure].format(words=pluralize(j.feature_noun))
        title = title[0].upper() + title[1:]
        if measure == "top" and agreement.chance is not None:
            title = f"{title} (guesses share {agreement.chance:.2f})"
        values = {methods: getattr(pair, measure) for methods, pair in pairs.items()}
        rows = [
            (f"{i} {method}", *(values.get(frozenset((method, other))) for other in names))
            for i, method in enumerate(names, 1)
        ]
        tables.append(Table(heads, rows, title))
    return Section(
        "Do the methods agree?", note=note if agreement.reseeded_pairs else "", tables=tables
    )


def _format_with_interval(x: float | None, interval: Interval | None, *, digits: int = 3) -> str:
    """Format a number with its interval; an unknown number gives ""."""
    if x is None:
        return ""
    ends = "" if interval is None else f" [{interval[0]:z.3f}, {interval[1]:z.3f}]"
    return f"{x:z.{digits}f}{ends}"
