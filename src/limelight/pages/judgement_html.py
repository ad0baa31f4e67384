"""A judgement as HTML: one self-contained page, or a fragment for a notebook."""

import base64
import json
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from limelight.pages.markup import Section, fragment, plain_table, rendered, whole_page
from limelight.pages.pieces import visible
from limelight.pages.wording import lowest_share, minus, share_ends
from limelight.results.judgement import (
    Interval,
    JudgedMethod,
    JudgedPair,
    JudgedText,
    Judgement,
    MethodAgreement,
    Plausibility,
    RemovalCurve,
)
from limelight.results.judgement_json import described_column
from limelight.text import in_units, one_line, plural

if TYPE_CHECKING:
    from markupsafe import Markup

CURVES_SHOWN = 1500  # texts; curves of more would make the page too heavy to send
_LEVELS = 4000  # between the lowest and the highest point of a text: finer than any screen
_OPENING = 60  # characters of a text that the table shows
_LEFT, _RIGHT, _ROW, _WIDTH = 170, 40, 28, 600  # of the figure, whose letters are 13 high
_REFERENCES = {
    "chance": "guessing",
    "rationale": "the rationale itself, as scores",
    "annotators": "annotators against each other",
}
_AGREEMENTS = {
    "rank": "Rank correlation of the words (Spearman's; by size where a method has no signs)",
    "sign": "Words with the same sign",
    "top": "Strongest words that both name",
}


def judgement_page(j: Judgement, *, above: "Markup | str" = "") -> str:
    """Return the figure, the tables and the texts with their curves as one page."""
    body = rendered(
        "judgement.html",
        judgement=j,
        figure=_figure(j),
        meaning=_meaning(j),
        sections=_sections(j),
        curves=any(text.curves for text in j.texts),
        most=CURVES_SHOWN if len(j.texts) > CURVES_SHOWN else 0,
    )
    return whole_page(
        "Which explanation may be trusted?",
        body,
        sheets=("words.css", "page.css", "elements.css", "judgement.css"),
        script="judgement.js",
        above=above,
        data=_page_data(j),
    )


def judgement_fragment(j: Judgement) -> str:
    """Return the verdict, the figure and the notices for a notebook."""
    return fragment("judgement_fragment.html", judgement=j, figure=_figure(j))


def _page_data(j: Judgement) -> str:
    """Return what the script needs, as JSON; numbers with as many digits as a reader sees."""
    judged = [(i, text) for i, text in enumerate(j.texts) if text.deletion is not None]
    known = {
        "methods": [visible(m.method) for m in j.methods],
        "shared": [m.share is not None for m in j.methods],
        "ceiling": j.ceiling_name,
        "units": plural(j.noun),
        "texts": [_row(text) for _, text in judged],
        "lost": [[t.id, visible(t.reason or "")] for t in j.texts if t.deletion is None],
        "curves": [_packed(text) if i < CURVES_SHOWN else None for i, text in judged],
    }
    return json.dumps(known, ensure_ascii=False, separators=(",", ":"))


def _row(text: JudgedText) -> dict[str, Any]:
    measure = text.deletion
    assert measure is not None  # noqa: S101  only judged texts come here
    room = measure.ceiling - measure.chance
    return {
        "id": text.id,
        "opening": visible(" ".join(text.words[:12]))[:_OPENING],
        "words": text.d,
        "class": visible(text.target),
        "output": _short(text.full),
        "chance": _short(measure.chance),
        "ceiling": _short(measure.ceiling),
        "shares": [
            None if area is None or room <= 0 else _short((area - measure.chance) / room)
            for area in measure.areas
        ],
    }


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


def _meaning(j: Judgement) -> str:
    ceiling = (
        f"what no order of the {plural(j.noun)} exceeds, proven"
        if j.ceiling_kind == "proven"
        else "the best order found, which a better search might exceed"
    )
    said = f"0 is what guessing reaches, 1 is {ceiling}. Intervals are 95 %, over texts."
    if j.greedy is None:
        return said
    return f"{said} Greedy search has the share {_number(j.greedy, j.greedy_interval, digits=4)}."


def _figure(j: Judgement) -> dict[str, Any]:
    """Return where a dot and its interval stand for each method, between chance and ceiling."""
    rows, low = j.ranked(), lowest_share(j)

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
                "name": one_line(m.method, 16),
                "y": _ROW * i + 18,
                "dot": "" if m.share is None else x(m.share),
                "from": x(share_ends(m)[0]),
                "to": x(share_ends(m)[1]),
                "hint": "" if m.share is None else f"{m.method}: {_number(m.share, m.interval)}",
            }
            for i, m in enumerate(rows)
        ],
    }


def _sections(j: Judgement) -> list[Section]:
    found = [Section("Methods", tables=[("", _method_table(j))])]
    if any(m.columns for m in j.methods):
        found.append(_measures(j))
    if j.second is not None:
        title = "Words replaced in another way"
        found.append(Section(title, tables=[("", _second_table(j, j.second, title))]))
    if j.pairs:
        tables = [("", _pair_table("better", "difference", j.pairs))]
        found.append(Section("Paired differences", note=_of_pairs(j.pairs), tables=tables))
    if j.plausibility is not None:
        found.append(_plausibility(j.plausibility))
    if j.agreement is not None:
        found.append(_agreement(j, j.agreement))
    return [_of_units(one, j.noun) for one in found]


def _of_units(section: Section, noun: str) -> Section:
    """Return the section with its own sentences about the units that were judged."""
    return section._replace(
        title=in_units(section.title, noun),
        note=in_units(section.note, noun),
        meanings=[(name, in_units(meaning, noun)) for name, meaning in section.meanings],
    )


def _method_table(j: Judgement) -> "Markup":
    heads = ("method", "share", "error within texts", "insertion", "|change|", "won", "texts", "")
    rows = [
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
    ]
    return plain_table(heads, rows, label="Methods")


def _error(m: JudgedMethod) -> str:
    """Return what sampling within texts adds to the error of a share."""
    if m.share is None:
        return ""
    return "none" if m.sampling is None else f"±{m.sampling:.1g}"


def _measures(j: Judgement) -> Section:
    """Return the columns beside the share, and what each of them means."""
    names = list(dict.fromkeys(column.name for m in j.methods for column in m.columns))
    described = [described_column(name) for name in names]
    rows = []
    for m in j.ranked():
        if m.share is not None:
            own = {one.name: _number(one.value, one.interval) for one in m.columns}
            rows.append((m.method, *(own.get(name, "–") for name in names)))
    heads = ("method", *(f"{one.label} ({one.better} is better)" for one in described))
    meanings = [(one.label, f"{one.means} {one.flaw}".strip()) for one in described]
    grid = plain_table(heads, rows, label="Other measures")
    return Section("Other measures", tables=[("", grid)], meanings=meanings)


def _second_table(j: Judgement, second: Judgement, label: str) -> "Markup":
    names = [str(one.settings.get("replacement", "")) for one in (j, second)]
    others = {m.method: m for m in second.methods}
    rows = [
        (m.method, *(_number(one.share, one.interval) for one in (m, others[m.method])))
        for m in j.ranked()
    ]
    return plain_table(("method", *(f"share with {name!r}" for name in names)), rows, label=label)


def _of_pairs(pairs: Sequence[JudgedPair]) -> str:
    if all(p.simultaneous is None for p in pairs):
        return ""
    return (
        "Intervals and p-values hold for all pairs at once, and are of one test: 0 lies outside "
        "exactly where p is below 0.05."
    )


def _pair_table(better: str, difference: str, pairs: Sequence[JudgedPair]) -> "Markup":
    """Return the differences with the interval and the p of one test; 0.2 stored two."""
    stored = all(p.simultaneous is None for p in pairs)
    rows = [
        (
            *p.methods,
            _number(p.difference, p.interval if stored else p.simultaneous),
            f"{p.won:.0%}",
            "" if (value := p.p_holm if stored else p.p_simultaneous) is None else f"{value:.3g}",
        )
        for p in pairs
    ]
    heads = (better, "than", difference, "texts won", "p (Holm)" if stored else "p (all pairs)")
    return plain_table(heads, rows, label="Paired differences")


def _plausibility(found: Plausibility) -> Section:
    """Return the sentence, one row per method and reference, and the paired differences."""
    heads = (
        "", "average precision", "above chance", "R-precision", "token F1", "IOU F1", "texts",
    )  # fmt: skip
    rows = [
        (
            _REFERENCES.get(m.method, m.method),
            _number(m.precision, m.precision_interval),
            "" if m.method == "chance" else _number(m.above, m.above_interval),
            _number(m.r_precision, m.r_precision_interval),
            _number(m.token_f1, m.token_f1_interval),
            _number(m.iou_f1, m.iou_f1_interval),
            m.texts,
        )
        for m in (*found.ranked(), *found.references)
    ]
    pairs = _pair_table("more plausible", "average precision", found.pairs)
    return Section(
        "Plausibility: would people mark the same words?",
        said=found.verdict,
        notices=found.notices,
        note="Chance is exact, over all orders of the words. People mark "
        f"{found.share:.0%} of a text; F1 takes that part of it, strongest words first, as ERASER "
        f"does. Intervals are 95 %, over texts. {_of_pairs(found.pairs)}".rstrip(),
        tables=[("", plain_table(heads, rows, label="Plausibility"))],
        folded=[("Paired differences", pairs)] if found.pairs else [],
    )


def _agreement(j: Judgement, found: MethodAgreement) -> Section:
    """Return one table per measure, methods by methods."""
    names = [m.method for m in j.ranked()]
    pairs = {frozenset(one.methods): one for one in (*found.pairs, *found.again)}
    note = (
        "On the diagonal stands what a method that samples shares with itself under another seed: "
        "two methods cannot be told apart where they agree as much as that."
    )

    def cell(one: str, other: str, measure: str) -> str:
        pair = pairs.get(frozenset((one, other)))
        value = None if pair is None else getattr(pair, measure)
        return "" if value is None else f"{value:.2f}"

    tables = []
    for measure, title in _AGREEMENTS.items():
        guessed = measure == "top" and found.chance is not None
        rows = [(one, *(cell(one, other, measure) for other in names)) for one in names]
        title = in_units(title, j.noun)
        shown = f"{title} (guesses share {found.chance:.2f})" if guessed else title
        tables.append((shown, plain_table(("", *names), rows, label=title)))
    return Section("Do the methods agree?", note=note if found.again else "", tables=tables)


def _number(x: float | None, interval: Interval | None, *, digits: int = 3) -> str:
    if x is None:
        return ""
    ends = "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
    return minus(f"{x:.{digits}f}{ends}")
