"""The sections of a page: prediction, methods, scores, settings."""

__all__ = [
    "all_scores",
    "notice_list",
    "overview",
    "panel",
    "prediction",
    "score_table",
    "settings",
    "tabs",
]

import json
from collections.abc import Sequence

import numpy as np

from limelight.render.html_heads import head_table
from limelight.render.html_pairs import anchor_note, pair_section
from limelight.render.html_tables import headed_table, scrolling
from limelight.render.html_words import legend, scale_note, words
from limelight.render.markup import Html, element, escaped, raw
from limelight.render.palette import largest
from limelight.render.wording import (
    Outcome,
    minus,
    notices,
    outcomes,
    percent,
    precision_sentence,
    written,
)
from limelight.results import Explanation
from limelight.results.codec import settings_with_facts

SHOWN_FEATURES = 20


def prediction(e: Explanation) -> Html:
    """Return what the model says, class by class, and which class is explained."""
    rows = [
        element(
            "div",
            element("dt", outcome.name),
            element("dd", *_sure(outcome)),
            raw() if outcome.probability is None else _meter(outcome.probability),
            class_="outcome chosen" if outcome.chosen else "outcome",
        )
        for outcome in outcomes(e)
    ]
    less = () if e.against is None else (" less that of ", element("b", e.against))
    facts = [element("p", f"Explained: the {e.scale} of ", element("b", e.target), *less, ".")]
    if e.base_value is not None:
        facts.append(element("p", f"With every word removed: {minus(f'{e.base_value:+.3f}')}."))
    return element(
        "div", element("dl", *rows), element("div", *facts, class_="note"), class_="says"
    )


def _sure(outcome: Outcome) -> list[Html]:
    """Return the probability with the logit beside it, or the score that there is instead."""
    number = "" if outcome.logit is None else minus(f"{outcome.logit:+.3f}")
    if outcome.probability is None:
        return [element("b", number)]
    beside = f" logit {number}" if number else ""
    return [element("b", percent(outcome.probability)), element("span", beside, class_="note")]


def _meter(share: float) -> Html:
    drawn = element(
        "svg",
        element("rect", width=f"{100 * share:.2f}", height="4", rx="0"),
        viewBox="0 0 100 4",
        preserveAspectRatio="none",
    )
    return element("dd", drawn, class_="meter", aria_hidden="true")


def notice_list(explanations: Sequence[Explanation], more: Sequence[str] = ()) -> Html:
    """Return what the reader must know, or nothing."""
    found = [*more, *notices(explanations)]
    if not found:
        return raw()
    rows = [element("li", notice) for notice in found]
    return element("ul", *rows, class_="notices", role="note", aria_label="Notices")


def overview(explanations: Sequence[Explanation], *, titles: bool = False) -> Html:
    """Return the paper's Figure 1: every method one row, its scale at the end."""
    rows = []
    for j, e in enumerate(explanations):
        name = element("span", e.label) if titles else _chooser(j, e)
        coloured = words(e, titles=titles, inline=titles)
        text = element("p", coloured, class_="words", dir="auto", data_m=j)
        scale = element("span", scale_note(e), class_="scale", title="score drawn in full colour")
        rows.append(element("div", element("h3", name), text, scale, class_="method"))
    size = "overview long" if len(explanations[0].text) > 300 else "overview"
    return raw(element("div", *rows, class_=size), legend(explanations))


def _chooser(index: int, e: Explanation) -> Html:
    return element("button", e.label, type="button", data_choose=index, title="look closer")


def tabs(explanations: Sequence[Explanation]) -> Html:
    """Return one tab per method."""
    buttons = [
        element(
            "button",
            e.label,
            type="button",
            role="tab",
            id=f"tab-{j}",
            aria_controls=f"panel-{j}",
            aria_selected="false" if j else "true",
            tabindex=-1 if j else 0,
        )
        for j, e in enumerate(explanations)
    ]
    return element("div", *buttons, role="tablist", aria_label="Method", class_="tabs")


def panel(index: int, e: Explanation, *, tabbed: bool) -> Html:
    """Return one method in full: its text, its strongest features, how far to trust them."""
    about = precision_sentence(e)
    group = {"role": "group", "aria_label": f"The text and its scores, {e.label}"}
    text = element(
        "div", words(e), class_="words reading", dir="auto", data_m=index, data_walk=True, **group
    )
    named = {"role": "tabpanel", "aria_labelledby": f"tab-{index}"} if tabbed else {}
    return element(
        "div",
        text,
        element("p", "Point at a word, or tab here and use the arrow keys.", class_="readout"),
        element("h3", e.label, " ", element("span", about, class_="note"), class_="about"),
        anchor_note(e),
        score_table(e),
        pair_section(e),
        head_table(e),
        class_="panel",
        id=f"panel-{index}",
        **named,
    )


def score_table(e: Explanation, count: int = SHOWN_FEATURES) -> Html:
    """Return the strongest features with their scores, errors and bars."""
    order = np.argsort(-np.abs(e.scores), kind="stable")[:count].tolist()
    peak = largest(e)
    reach = peak if e.stderr is None else float((np.abs(e.scores) + e.stderr).max(initial=0.0))
    head = ["word", "score", *(["± s.e."] if e.stderr is not None else []), ""]
    rows = [_score_row(e, j, peak, reach) for j in order]
    left = len(e.features) - len(rows)
    caption = f"The {len(rows)} strongest of {len(e.features)} words" if left else "All words"
    return headed_table(head, rows, caption=f"{caption}, {e.label}", class_="scores")


def _score_row(e: Explanation, j: int, peak: float, reach: float) -> Html:
    count = len(e.spans[j])
    times = element("span", f" ×{count}", class_="note") if count > 1 else raw()
    error = None if e.stderr is None else float(e.stderr[j])
    cells = [
        element("th", element("bdi", e.names[j]), times, scope="row"),
        element("td", minus(written(float(e.scores[j]), peak=peak, signed=e.signed))),
    ]
    if error is not None:
        cells.append(element("td", written(error, peak=peak, signed=False), class_="note"))
    bar = _bar(float(e.scores[j]), error, reach or 1.0, signed=e.signed)
    return element("tr", *cells, element("td", bar, class_="bar"), data_f=j)


def _bar(score: float, error: float | None, reach: float, *, signed: bool) -> Html:
    """Return a bar from zero, with a whisker of one standard error each way."""
    zero, unit = (50.0, 50 / reach) if signed else (0.0, 100 / reach)
    end = zero + (score if signed else abs(score)) * unit
    hue = "n" if not signed else "f" if score >= 0 else "a"
    left, width = min(zero, end), abs(end - zero)
    parts = [
        element("rect", x=f"{left:.2f}", y=3, width=f"{width:.2f}", height=6, class_=f"bar-{hue}")
    ]
    if error is not None:
        low, high = end - error * unit, end + error * unit
        lines = f"M{low:.2f} 6H{high:.2f}M{low:.2f} 4v4M{high:.2f} 4v4"
        parts.append(element("path", d=lines, class_="whisker"))
    if signed:
        parts.append(element("path", d="M50 0v12", class_="axis"))
    return element(
        "svg", *parts, viewBox="0 0 100 12", preserveAspectRatio="none", aria_hidden="true"
    )


def all_scores(explanations: Sequence[Explanation]) -> Html:
    """Return every score of every method as one table: the page in text."""
    peaks = [largest(e) for e in explanations]
    head = ("word", *(e.label for e in explanations))
    rows = []
    for j, feature in enumerate(explanations[0].names):
        cells = [
            element("td", minus(written(float(e.scores[j]), peak=peak, signed=e.signed, digits=4)))
            for e, peak in zip(explanations, peaks, strict=True)
        ]
        rows.append(element("tr", element("th", element("bdi", feature), scope="row"), *cells))
    table = headed_table(head, rows, caption="Every score, in the order of the text")
    return scrolling(table, "All scores")


def settings(explanations: Sequence[Explanation]) -> Html:
    """Return how to compute each explanation again, and how it went; what all share once."""
    every = [settings_with_facts(e) | dict(e.diagnostics) for e in explanations]
    shared = {
        key: value
        for key, value in every[0].items()
        if all(key in one and one[key] == value for one in every)
    }
    groups = [("All methods" if len(explanations) > 1 else explanations[0].label, shared)]
    for e, known in zip(explanations, every, strict=True) if len(explanations) > 1 else ():
        own = {key: value for key, value in known.items() if key not in shared}
        groups.append((e.label, {"method": e.method, **own}))
    return raw(*(_setting_group(name, values) for name, values in groups))


def _setting_group(name: str, values: dict[str, object]) -> Html:
    rows = [
        element("div", element("dt", key), element("dd", _setting(value)))
        for key, value in values.items()
    ]
    return raw(element("h3", name), element("dl", *rows, class_="settings"))


def _setting(value: object) -> Html:
    return escaped(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
