"""A judgement as HTML: one self-contained page, or a fragment for a notebook."""

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from limelight.pages.markup import NOTHING, Html, element, plain_table, raw, resource, whole_page
from limelight.pages.palette import palette_css
from limelight.pages.pieces import visible
from limelight.results.judgement import (
    AgreeingPair,
    Interval,
    JudgedMethod,
    JudgedText,
    Judgement,
    MethodAgreement,
    Plausibility,
    PlausibleMethod,
    RemovalCurve,
)
from limelight.results.judgement_json import described_column

CURVES_SHOWN = 1500  # texts; curves of more would make the page too heavy to send
_LEVELS = 4000  # between the lowest and the highest point of a text: finer than any screen
_OPENING = 60  # characters of a text that the table shows


def judged_texts_section(j: Judgement) -> Html:
    """Return the places that the page's script fills: the table, the curves and their controls."""
    lines = [
        element(
            "p",
            f"Every text with what guessing reaches, the {j.ceiling_name}, and the share of each "
            "method. "
            "Press a heading to sort by it, and a text to see how its output falls as words go.",
            class_="note",
        ),
        element("noscript", element("p", "The texts need the script of this page.")),
        _curves_place() if any(text.curves for text in j.texts) else raw(),
        _place("texts", "Texts"),
        element("p", id="pages", class_="tabs", hidden=True),
    ]
    shown = min(len(j.texts), CURVES_SHOWN)
    if shown < len(j.texts):
        lines.append(element("p", f"The first {shown:,} texts have curves here.", class_="note"))
    return raw(*lines)


def _place(name: str, label: str, **attributes: str) -> Html:
    """Return a place for a wide table, which the keyboard scrolls too."""
    region = {"class_": "wide", "tabindex": 0, "role": "region", "aria_label": label}
    return element("div", id=name, **region, **attributes)


def _curves_place() -> Html:
    moving = element(
        "label",
        "Words removed: ",
        element("output", id="removed"),
        element("input", type="range", id="step", min=0, value=0),
        for_="step",  # or it would name the output, which comes first
    )
    return element(
        "div",
        element("h3", id="curve-title"),
        element("div", id="curve-methods", class_="tabs", role="group", aria_label="Methods"),
        element("div", id="curve"),
        moving,
        _place("curve-words", "Words that go", aria_live="polite"),
        id="curves",
        hidden=True,
    )


def page_data(j: Judgement) -> str:
    """Return what the script needs, as JSON; numbers with as many digits as a reader sees."""
    return json.dumps(
        {
            "methods": [visible(m.method) for m in j.methods],
            "shared": [m.share is not None for m in j.methods],
            "kind": j.ceiling_kind,
            "texts": [_row(text) for text in j.texts],
            "curves": [_packed(text) for text in j.texts[:CURVES_SHOWN]],
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _row(text: JudgedText) -> list[Any]:
    """Number, opening, words, class, f, chance, ceiling, areas; or number and reason."""
    measure = text.deletion
    if measure is None:
        return [text.id, visible(text.reason or "")]
    opening = visible(" ".join(text.words[:12]))[:_OPENING]
    areas = [None if area is None else _short(area) for area in measure.areas]
    levels = (text.full, measure.chance, measure.ceiling)
    return [text.id, opening, text.d, visible(text.target), *map(_short, levels), areas]


def _short(x: float) -> float:
    """Return ``x`` with five digits: what nobody can read need not be sent."""
    return float(f"{x:.5g}")


def _packed(text: JudgedText) -> str | None:
    """Return words, orders and curves as deflated JSON in base64; None where there are none."""
    known = [curve for curve in text.curves if curve is not None]
    if not known:
        return None
    points = np.concatenate([curve.points for curve in known])
    low, high = float(points.min()), float(points.max())
    unit = (high - low) / _LEVELS or 1.0
    record = {
        "words": [visible(word) for word in text.words],
        "low": low,
        "unit": unit,
        "removed": _gaps(known[0].removed),
        "curves": [None if c is None else _rounded(c, low, unit) for c in text.curves],
    }
    content = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.b64encode(zlib.compress(content)).decode()


def _rounded(curve: RemovalCurve, low: float, unit: float) -> list[list[int]]:
    """The order, and the curve in whole steps from point to point: small numbers pack well."""
    levels = np.rint((curve.points - low) / unit).astype(int)
    return [curve.words.tolist(), _gaps(levels)]


def _gaps(values: Any) -> list[int]:
    return np.diff(np.asarray(values), prepend=0).tolist()


_MEASURES = {
    "rank": "Rank correlation of the words (Spearman's; by size where a method has no signs)",
    "sign": "Words with the same sign",
    "top": "Strongest words that both name",
}


def plausibility_section(found: Plausibility) -> Html:
    """Return the sentence, one row per method and reference, and the paired differences."""
    notices = [element("li", notice) for notice in found.notices]
    return element(
        "section",
        element("h2", "Plausibility: would people mark the same words?"),
        element("p", found.verdict),
        element("ul", *notices) if notices else raw(),
        plain_table(
            _HEADS, map(_plausible_row, (*found.ranked(), *found.references)), label="Plausibility"
        ),
        element("p", _plausible_meaning(found), class_="note"),
        _pairs(found),
    )


_HEADS = ("", "average precision", "above chance", "R-precision", "token F1", "IOU F1", "texts")
_NAMES = {
    "chance": "guessing",
    "rationale": "the rationale itself, as scores of words",
    "annotators": "annotators against each other",
}


def _plausible_row(m: PlausibleMethod) -> tuple[object, ...]:
    return (
        _NAMES.get(m.method, m.method),
        _plausible_number(m.precision, m.precision_interval),
        "" if m.method == "chance" else _plausible_number(m.above, m.above_interval),
        _plausible_number(m.r_precision, m.r_precision_interval),
        _plausible_number(m.token_f1, m.token_f1_interval),
        _plausible_number(m.iou_f1, m.iou_f1_interval),
        m.texts,
    )


def _plausible_meaning(found: Plausibility) -> str:
    return (
        "Chance is exact, over all orders of the words. People mark "
        f"{found.share:.0%} of a text; F1 takes that part of it, strongest words first, as ERASER "
        "does. Intervals are 95 %, over texts."
    )


def _pairs(found: Plausibility) -> Html:
    if not found.pairs:
        return raw()
    rows = [
        (*p.methods, _plausible_number(p.difference, p.interval), f"{p.won:.0%}", f"{p.p_holm:.3g}")
        for p in found.pairs
    ]
    heads = ("more plausible", "than", "average precision", "texts won", "p (Holm)")
    table = plain_table(heads, rows, label="Paired differences")
    return element("details", element("summary", "Paired differences"), table)


def agreement_section(names: Sequence[str], found: MethodAgreement) -> Html:
    """Return one table per measure, methods by methods."""
    pairs = {frozenset(one.methods): one for one in (*found.pairs, *found.again)}
    said = (
        "On the diagonal stands what a method that samples shares with itself under another seed: "
        "two methods cannot be told apart where they agree as much as that."
    )
    chance = "" if found.chance is None else f" (guesses share {found.chance:.2f})"
    tables = [
        raw(
            element("h3", f"{title}{chance if name == 'top' else ''}"),
            plain_table(
                ("", *names), [_agreeing(name, one, names, pairs) for one in names], label=title
            ),
        )
        for name, title in _MEASURES.items()
    ]
    note = element("p", said, class_="note") if found.again else raw()
    return element("section", element("h2", "Do the methods agree?"), note, *tables)


def _agreeing(
    measure: str, one: str, names: Sequence[str], pairs: dict[frozenset[str], AgreeingPair]
) -> tuple[object, ...]:
    found = [pairs.get(frozenset((one, other))) for other in names]
    values = [None if pair is None else getattr(pair, measure) for pair in found]
    return (one, *("" if value is None else f"{value:.2f}" for value in values))


def _plausible_number(x: float | None, interval: Interval | None) -> str:
    if x is None:
        return ""
    return f"{x:.3f}" if interval is None else f"{x:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"


_LEFT, _RIGHT, _ROW, _WIDTH = 150, 30, 28, 760


def judgement_page(j: Judgement, *, above: Html = NOTHING) -> str:
    """Return the figure, the tables and the texts with their curves as one page."""
    return whole_page(
        "Which explanation may be trusted?",
        _sections(j),
        sheets=("words.css", "page.css", "judgement.css"),
        script="judgement.js",
        above=above,
        data=page_data(j),
    )


def judgement_fragment(j: Judgement) -> str:
    """Return the verdict, the figure and the notices for a notebook."""
    style = f"<style>{palette_css()}\n{resource('words.css')}\n{resource('fragment.css')}</style>"
    inside = (element("p", element("b", j.verdict)), _figure(j), _notices(j))
    return element("div", Html(style), *inside, class_="limelight fragment")


def _sections(j: Judgement) -> list[Html]:
    found = [
        _section("Verdict", element("p", j.verdict), _notices(j)),
        _section(
            f"From chance to the {j.ceiling_name}",
            _figure(j),
            element("p", _meaning(j), class_="note"),
        ),
        _section("Methods", _method_table(j)),
    ]
    if any(m.columns for m in j.methods):
        found.append(_section("Other measures", *_measure_table(j)))
    if j.second is not None:
        found.append(_section("Words replaced in another way", _second_table(j, j.second)))
    if j.pairs:
        found.append(_section("Paired differences", _pair_table(j)))
    if j.plausibility is not None:
        found.append(plausibility_section(j.plausibility))
    if j.agreement is not None:
        found.append(agreement_section([m.method for m in j.ranked()], j.agreement))
    return [*found, _section("Texts", judged_texts_section(j))]


def _section(title: str, *content: Html) -> Html:
    return element("section", element("h2", title), *content)


def _notices(j: Judgement) -> Html:
    if not j.notices:
        return raw()
    return element("ul", *(element("li", n) for n in j.notices), class_="notices")


def _meaning(j: Judgement) -> str:
    ceiling = (
        "what no order of the words exceeds, proven"
        if j.ceiling_kind == "proven"
        else "the best order found, which a better search might exceed"
    )
    said = f"0 is what guessing reaches, 1 is {ceiling}. Intervals are 95 %, over texts."
    if j.greedy is None:
        return said
    return f"{said} Greedy search has the share {j.greedy:.4f}{_bracketed(j.greedy_interval)}."


def _figure(j: Judgement) -> Html:
    """Return a dot and its interval per method, as SVG."""
    rows = j.ranked()
    low = min([0.0, *(_ends(m)[0] for m in rows if m.share is not None)])
    height = _ROW * (len(rows) + 1) + 10
    marks = [_line(_x(x, low), 0, _x(x, low), height - _ROW, 0.5) for x in (0.0, 1.0)]
    ends = ((0.0, "chance"), (1.0, j.ceiling_name))
    names = [_words(_x(x, low), height - 10, name, "middle") for x, name in ends]
    return element(
        "svg",
        *marks,
        *names,
        *(_drawn(m, i, low) for i, m in enumerate(rows)),
        viewBox=f"0 0 {_WIDTH} {height}",
        role="img",
        aria_label=j.verdict,
    )


def _drawn(m: JudgedMethod, i: int, low: float) -> Html:
    y = _ROW * i + 18
    name = _words(_LEFT - 12, y + 4, m.method[:20], "end")
    if m.share is None:
        return raw(name, _words(_LEFT, y + 4, "not judged", "start"))
    start, end = (_x(x, low) for x in _ends(m))
    x = _x(m.share, low)
    dot = element("circle", cx=f"{x:.1f}", cy=y, r=5, fill="currentColor")
    hint = element("title", f"{m.method}: {m.share:.3f}{_bracketed(m.interval)}")
    return element("g", hint, name, _line(start, y, end, y, 2), dot)


def _ends(m: JudgedMethod) -> Interval:
    return m.interval or (m.share or 0.0, m.share or 0.0)


def _x(share: float, low: float) -> float:
    return _LEFT + (min(share, 1.0) - low) / (1.0 - low) * (_WIDTH - _LEFT - _RIGHT)


def _line(x1: float, y1: int | float, x2: float, y2: int | float, width: int | float) -> Html:
    places = {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}
    return element("line", stroke="currentColor", stroke_width=width, **places)


def _words(x: int | float, y: int | float, words: str, anchor: str) -> Html:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
    return element("text", words, fill="currentColor", text_anchor=anchor, font_size=13, **place)


def _method_table(j: Judgement) -> Html:
    heads = ("method", "share", "error within texts", "insertion", "|change|", "won", "texts", "")
    return plain_table(
        heads,
        [
            (
                m.method if m.signed else f"{m.method} (no signs)",
                _number(m.share, m.interval),
                _error(m),
                _number(m.insertion, m.insertion_interval),
                _number(m.change, m.change_interval),
                "" if m.won is None else f"{m.won:.0%}",
                m.texts,
                m.reason or "",
            )
            for m in j.ranked()
        ],
        label="Methods",
    )


def _error(m: JudgedMethod) -> str:
    """Return what sampling within texts adds to the error of a share."""
    if m.share is None:
        return ""
    return "none" if m.sampling is None else f"±{m.sampling:.1g}"


def _measure_table(j: Judgement) -> tuple[Html, Html]:
    """Return the columns beside the share, and what each of them means."""
    names = list(dict.fromkeys(column.name for m in j.methods for column in m.columns))
    described = [described_column(name) for name in names]
    rows = [
        (m.method, *(_cell(m, name) for name in names)) for m in j.ranked() if m.share is not None
    ]
    heads = ("method", *(f"{one.label} ({_arrow(one.better)})" for one in described))
    meanings = [
        part
        for one in described
        for part in (element("dt", one.label), element("dd", f"{one.means} {one.flaw}".strip()))
    ]
    told = element(
        "details",
        element("summary", "What these mean"),
        element("dl", *meanings, class_="measures"),
    )
    return plain_table(heads, rows, label="Other measures"), told


def _arrow(better: str) -> str:
    return "larger is better" if better == "larger" else "smaller is better"


def _cell(m: JudgedMethod, name: str) -> str:
    column = next((one for one in m.columns if one.name == name), None)
    return "–" if column is None else _number(column.value, column.interval)


def _second_table(j: Judgement, second: Judgement) -> Html:
    names = [str(one.settings.get("replacement", "")) for one in (j, second)]
    heads = ("method", *(f"share with {name!r}" for name in names))
    others = {m.method: m for m in second.methods}
    return plain_table(
        heads,
        [
            (
                m.method,
                _number(m.share, m.interval),
                _number(others[m.method].share, others[m.method].interval),
            )
            for m in j.ranked()
        ],
        label="Words replaced in another way",
    )


def _pair_table(j: Judgement) -> Html:
    heads = ("better", "than", "difference", "texts won", "p (Holm)")
    return plain_table(
        heads,
        [
            (*p.methods, _number(p.difference, p.interval), f"{p.won:.0%}", f"{p.p_holm:.3g}")
            for p in j.pairs
        ],
        label="Paired differences",
    )


def _number(x: float | None, interval: Interval | None) -> str:
    return "" if x is None else f"{x:.3f}{_bracketed(interval)}".replace("-", "−")


def _bracketed(interval: Interval | None) -> str:
    return "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
