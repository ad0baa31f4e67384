"""A judgement as HTML: one self-contained page without script, or a fragment for a notebook."""

__all__ = ["judgement_fragment", "judgement_page"]

import base64
import hashlib

from limelight.render.html_plausibility import agreement_section, plausibility_section
from limelight.render.markup import Html, data_block, element, raw, resource
from limelight.render.palette import palette_css
from limelight.results.judgement import Interval, JudgedMethod, Judgement

_LEFT, _RIGHT, _ROW, _WIDTH = 150, 30, 28, 760


def judgement_page(j: Judgement) -> str:
    """Return the figure, the table of methods and the paired differences as one page."""
    style = "\n".join((palette_css(), resource("words.css"), resource("page.css")))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = raw(
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        element("title", "Which explanation may be trusted? · limelight"),
        Html(f"<style>{style}</style>"),
    )
    title = element("h1", "Which explanation may be trusted?")
    body = raw(
        element("header", element("p", "limelight", class_="brand"), title),
        element("main", *_sections(j)),
        element("footer", "Made by limelight. This page holds its own data."),
        data_block("limelight-data", j.to_json()),
    )
    document = element("head", head) + element("body", body)
    return f'<!doctype html>\n<html lang="en" class="limelight">{document}</html>\n'


def judgement_fragment(j: Judgement) -> str:
    """Return the verdict, the figure and the notices for a notebook."""
    style = f"<style>{palette_css()}\n{resource('words.css')}\n{resource('fragment.css')}</style>"
    inside = (element("p", element("b", j.verdict)), _figure(j), _notices(j))
    return element("div", Html(style), *inside, class_="limelight fragment")


def _sections(j: Judgement) -> list[Html]:
    found = [
        _section("Verdict", element("p", j.verdict), _notices(j)),
        _section("From chance to ceiling", _figure(j), element("p", _meaning(j), class_="note")),
        _section("Methods", _method_table(j)),
    ]
    found += [_section("Paired differences", _pair_table(j))] if j.pairs else []
    found += [plausibility_section(j.plausibility)] if j.plausibility else []
    names = [m.method for m in j.ranked()]
    return [*found, agreement_section(names, j.agreement)] if j.agreement else found


def _section(title: str, *content: Html) -> Html:
    return element("section", element("h2", title), *content)


def _notices(j: Judgement) -> Html:
    return element("ul", *(element("li", n) for n in j.notices)) if j.notices else raw()


def _meaning(j: Judgement) -> str:
    ceiling = (
        "what no order of the words exceeds, proven"
        if j.ceiling_kind == "proven"
        else "the best order found, which a better search might exceed"
    )
    said = f"0 is what guessing reaches, 1 is {ceiling}. Intervals are 95 %, over texts."
    return said if j.greedy is None else f"{said} Greedy search has the share {j.greedy:.4f}."


def _figure(j: Judgement) -> Html:
    """Return a dot and its interval per method, as SVG."""
    rows = j.ranked()
    low = min([0.0, *(_ends(m)[0] for m in rows if m.share is not None)])
    height = _ROW * (len(rows) + 1) + 10
    marks = [_line(_x(x, low), 0, _x(x, low), height - _ROW, 0.5) for x in (0.0, 1.0)]
    names = [_words(_x(x, low), height - 10, name, "middle") for x, name in _AXIS]
    return element(
        "svg",
        *marks,
        *names,
        *(_drawn(m, i, low) for i, m in enumerate(rows)),
        viewBox=f"0 0 {_WIDTH} {height}",
        role="img",
        aria_label=j.verdict,
    )


_AXIS = ((0.0, "chance"), (1.0, "ceiling"))


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
    heads = ("method", "share", "insertion", "|change|", "won", "texts", "")
    return _table(
        heads,
        [
            (
                m.method if m.signed else f"{m.method} (no signs)",
                _number(m.share, m.interval),
                _number(m.insertion, m.insertion_interval),
                _number(m.change, m.change_interval),
                "" if m.won is None else f"{m.won:.0%}",
                m.texts,
                m.reason or "",
            )
            for m in j.ranked()
        ],
    )


def _pair_table(j: Judgement) -> Html:
    heads = ("better", "than", "difference", "texts won", "p (Holm)")
    return _table(
        heads,
        [
            (*p.methods, _number(p.difference, p.interval), f"{p.won:.0%}", f"{p.p_holm:.3g}")
            for p in j.pairs
        ],
    )


def _table(heads: tuple[str, ...], rows: list[tuple[object, ...]]) -> Html:
    top = element("thead", element("tr", *(element("th", h, scope="col") for h in heads)))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    table = element("table", top, element("tbody", *body), class_="numbers")
    return element("div", table, class_="wide")


def _number(x: float | None, interval: Interval | None) -> str:
    return "" if x is None else f"{x:.3f}{_bracketed(interval)}"


def _bracketed(interval: Interval | None) -> str:
    return "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
