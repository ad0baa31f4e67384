"""The texts of a judgement on its page: a table to sort, and the curves of any of them.

What the page shows of a text is packed by itself and unpacked on a click, so that a thousand texts
weigh a few megabytes and nothing waits for them.
"""

__all__ = ["CURVES_SHOWN", "judged_texts_section", "page_data"]

import base64
import json
import zlib
from typing import Any

import numpy as np

from limelight.render.coloured_pieces import visible
from limelight.render.markup import Html, element, raw
from limelight.results.judgement import JudgedText, Judgement, RemovalCurve

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
