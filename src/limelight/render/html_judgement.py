"""A judgement as HTML: one self-contained page, or a fragment for a notebook."""

__all__ = ["judgement_fragment", "judgement_page"]


from limelight.render.html_judged_texts import judged_texts_section, page_data
from limelight.render.html_plausibility import agreement_section, plausibility_section
from limelight.render.html_tables import plain_table
from limelight.render.markup import NOTHING, Html, element, raw, resource
from limelight.render.page_shell import whole_page
from limelight.render.palette import palette_css
from limelight.results.judgement import Interval, JudgedMethod, Judgement
from limelight.results.judgement_json import described_column

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
