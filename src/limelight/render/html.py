"""Explanations as HTML: one self-contained page, or a fragment for other pages."""

__all__ = [
    "comparison_fragment",
    "comparison_page",
    "explanation_fragment",
    "explanation_page",
    "explanations_fragment",
]

from collections.abc import Sequence
from dataclasses import replace

from limelight.render.coloured_pieces import writable
from limelight.render.html_attention import attention_section
from limelight.render.html_disagreement import disagreement_section
from limelight.render.html_sections import (
    all_scores,
    notice_list,
    overview,
    panel,
    prediction,
    score_table,
    settings,
    tabs,
)
from limelight.render.html_words import legend, unread, words
from limelight.render.markup import Html, element, raw, resource
from limelight.render.page_shell import whole_page
from limelight.render.palette import palette_css
from limelight.render.wording import aims, precision_sentence, said
from limelight.results import Comparison, Explanation

FRAGMENT_FEATURES = 8
FRAGMENT_TEXTS = 20


def explanation_page(e: Explanation) -> str:
    """Return one explanation as a page that needs no network."""
    e = _writable(e)
    main = [
        _section("The model says", prediction(e), notice_list([e])),
        _section(f"What {e.label} says", legend([e]), panel(0, e, tabbed=False)),
        _not_read(e),
        _folded("Every score", all_scores([e])),
        _folded("Settings", settings([e])),
    ]
    return _page(e, e.label, main, e.to_json())


def comparison_page(c: Comparison) -> str:
    """Return a comparison as a page that needs no network."""
    c = replace(c, explanations=tuple(map(_writable, c)))
    several = c.explanations
    panels = [panel(j, e, tabbed=True) for j, e in enumerate(several)]
    main = [
        _section("The model says", prediction(several[0]), notice_list(several, c.notices)),
        _section("Every method, side by side", overview(several)),
        _section("One method, closer", tabs(several), *panels, identifier="closer"),
        _section("Where the methods disagree", disagreement_section(c)) if several[1:] else raw(),
        _section("What the heads attend to", attention_section(c)) if _has_heads(c) else raw(),
        _not_read(several[0]),
        _folded("Every score", all_scores(several)),
        _folded("Settings", settings(several)),
    ]
    return _page(several[0], f"{len(several)} methods", main, c.to_json())


def explanation_fragment(e: Explanation) -> str:
    """Return an explanation for a notebook, an app or a mail: :func:`_fragment`."""
    return _fragment(
        _model_says(e),
        element("p", element("b", e.label), f" for {e.aim}. {precision_sentence(e)}"),
        element("p", words(e, titles=True, inline=True), class_="words", dir="auto"),
        legend([e]),
        score_table(e, FRAGMENT_FEATURES),
        notice_list([e]),
    )


def explanations_fragment(several: Sequence[Explanation]) -> str:
    """Return explanations of several texts for a notebook: the words of each, and its prediction.

    A page of thousands would freeze the notebook, so only the first ones are shown.
    """
    shown = several[:FRAGMENT_TEXTS]
    cards = [
        element(
            "li",
            _model_says(e, _for_and_against(e)),
            element("p", words(e, titles=True, inline=True), class_="words", dir="auto"),
            notice_list([e]),
        )
        for e in shown
    ]
    left = len(several) - len(shown)
    return _fragment(
        element("p", _heading(several)),
        legend(shown[:1]) if shown else raw(),
        element("ol", *cards, start=0),
        element("p", f"and {left} more texts", class_="note") if left else raw(),
    )


def _for_and_against(e: Explanation) -> str:
    if e.against is None:
        return f" Words for and against {e.target}:"
    return f" Words for {e.target} and for {e.against}:"


def _heading(several: Sequence[Explanation]) -> str:
    count = len(several)
    methods = " and ".join(dict.fromkeys(e.label for e in several))
    if count < 2:
        return f"{methods} of one text." if count else "No explanations."
    return f"{methods} of {count} texts, each on a scale of its own."


def _model_says(e: Explanation, then: str = "") -> Html:
    name, how_sure = said(e)
    return element("p", "The model says ", element("b", name), how_sure, then)


def comparison_fragment(c: Comparison) -> str:
    """Return a comparison for the same places: every method, then where they disagree."""
    parts = [_model_says(c.explanations[0]), overview(c.explanations, titles=True)]
    if len(c.explanations) > 1:
        parts.append(disagreement_section(c, matrix=False))
    return _fragment(*parts, notice_list(c.explanations, c.notices))


def _fragment(*content: Html) -> str:
    """Return a piece of a page: no script, styles that touch nothing else.

    The colours of words stand in their own styles too, so they survive where the sheet is dropped.
    """
    palette = palette_css(over_inline=True)
    style = f"<style>{palette}\n{resource('words.css')}\n{resource('fragment.css')}</style>"
    return element("div", Html(style), *content, class_="limelight fragment")


def _section(title: str, *content: Html, identifier: str | None = None) -> Html:
    return element("section", element("h2", title), *content, id=identifier)


def _folded(title: str, *content: Html) -> Html:
    return element("details", element("summary", title), *content)


def _not_read(e: Explanation) -> Html:
    rest = unread(e)
    return _folded("What the model did not read", rest) if rest else raw()


def _page(e: Explanation, by: str, main: Sequence[Html], json: str) -> str:
    return whole_page(
        f"What speaks for {aims(e)}?",
        main,
        sheets=("words.css", "page.css"),
        script="page.js",
        data=json,
        by=by,
        images=True,
    )


def _writable(e: Explanation) -> Explanation:
    """Replace lone surrogates, which no file and no JSON can hold."""
    return replace(e, text=writable(e.text), features=tuple(map(writable, e.features)))


def _has_heads(c: Comparison) -> bool:
    return c.attention is not None and c.attention.size > 0
