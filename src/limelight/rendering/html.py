"""Explanations as HTML: one self-contained page, or a fragment for other pages.

A page holds the explanations as JSON, and its elements draw them; what needs no script is drawn
here, once: the words where no script runs, tables, legends, and the fragments.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from limelight.rendering import wording
from limelight.rendering.images import drop_image, image_html
from limelight.rendering.markup import (
    data_block,
    render_fragment,
    render_macro,
    render_page,
    render_template,
    table_html,
)
from limelight.rendering.palette import (
    color_level,
    inline_style,
    relative_scores,
    select_hue,
    strongest_feature,
    strongest_indices,
)
from limelight.rendering.text_parts import (
    MAX_UNREAD_LETTERS,
    TextPart,
    model_tokens,
    replace_explanation_surrogates,
    replace_surrogates,
    shorten_unread,
    split_text,
)
from limelight.results import Comparison, Explanation, SpanExplanations
from limelight.results.codec import settings_with_facts
from limelight.results.table import Cell, Column, Table, plain_table
from limelight.shapes import Float
from limelight.text import AnswerQuery, pluralize

if TYPE_CHECKING:
    from markupsafe import Markup

    from limelight.results.method_table import MethodRow

SHOWN_FEATURES = 20
FRAGMENT_FEATURES = 8
FRAGMENT_TEXTS = 20
SHOWN_WORDS = 12  # in the table of pairs
SHOWN_PAIRS = 12
LONG = 300  # characters of a text that is set smaller where every method shows it
CELLS = 128  # a finer image than this is only bytes


def words_html(
    e: Explanation, *, titles: bool = False, inline: bool = False, original: bool = True
) -> "Markup":
    """Return the text with one ``span`` per feature; its class is its color.

    ``titles`` adds the score as a tooltip, for places where no script can, and ``inline`` the light
    color as a style of its own, for places that drop style sheets, as mail programs do.
    Of the text past the window only the beginning is shown. An image is drawn with its scores over
    it, and ``original`` puts it beside them as it is.
    """
    if e.image is not None:
        return image_html(e, e.image, original=original)
    sizes, top = relative_scores(e), strongest_feature(e)
    found: list[dict[str, Any]] = []
    cut = shorten_unread(split_text(e))
    for piece, room in zip(cut, _room(cut), strict=True):
        if piece.opens:
            found.append({"kind": "side", "text": piece.opens})
        elif piece.feature is None:
            if piece.text.strip() or not e.has_block_features:
                found.append({"kind": "" if piece.seen else "cut", "text": piece.text})
        else:
            j = piece.feature
            hue, step = select_hue(e, sizes[j]), color_level(sizes[j])
            shade = f"{hue[0]}{step}" if step else ""
            drawn = ("w", "b" if e.has_block_features else room, shade, "top" if j == top else "")
            word = {"kind": "word", "text": piece.text, "feature": j}
            word["classes"] = " ".join(filter(None, drawn))
            word["title"] = wording.format_score(e, j) if titles else ""
            found.append(word | {"style": inline_style(hue, step) if inline else ""})
    return render_macro("words", found)


def _room(cut: Sequence[TextPart]) -> list[str]:
    """Return on which sides a piece has room for its tint: "s" its start, "e" its end.

    A tint that reaches out covers what is there, so it may where there is a space, and never over
    the last letter of a word that a comma follows.
    """
    around = [" ", *(piece.text or " " for piece in cut), " "]
    return [
        " ".join(
            name
            for name, free in (("s", before[-1:].isspace()), ("e", after[:1].isspace()))
            if free
        )
        for before, after in zip(around[:-2], around[2:], strict=True)
    ]


def legend_html(explanations: Sequence[Explanation]) -> "Markup":
    """Say what the colors mean; they are told apart by color-blind readers too."""
    first = explanations[0]
    known = wording.hue_meanings(explanations)
    keys = [(hue[0], meaning) for hue, meaning in known.items()]
    note = "Deeper color, larger score. The colors are safe for color-blind readers."
    if len(explanations) > 1:
        each = "span" if first.query != explanations[1].query else "method"
        after = f": the number after its {pluralize(first.feature_noun)} is the deepest color"
        if each == "span" and isinstance(first.query, AnswerQuery):  # whose numbers stand below
            each, after = "sentence of the answer", ""
        note += f" Each {each} has its own scale{after}."
    if any(len(spans) > 1 for spans in first.spans):
        note += f" {wording.occurrences_sentence(first)}"
    cut, is_image = any(not piece.seen for piece in split_text(first)), first.image is not None
    note += " Under the colors the image is gray." * is_image
    return render_macro("legend", keys, cut, note, first.feature_noun, is_image)


def bar_shape(
    zero: float, end: float, hue: str, ends: Sequence[float] = ()
) -> dict[str, str | bool]:
    """Return a bar on a width of 100, and a whisker between its ``ends``."""
    low, high = (f"{x:.2f}" for x in ends or (0, 0))
    whisker = f"M{low} 6H{high}M{low} 4v4M{high} 4v4" if ends else ""
    x, width = f"{min(zero, end):.2f}", f"{abs(end - zero):.2f}"
    return {"x": x, "width": width, "hue": hue[0], "whisker": whisker, "zero": zero > 0}


def score_table_html(e: Explanation, count: int = SHOWN_FEATURES) -> "Markup":
    """Return the strongest features with their scores, errors and bars."""
    error = 0.0 if e.stderr is None else e.stderr
    reach = float((np.abs(e.scores) + error).max(initial=0.0)) or 1.0
    rows = [
        {
            "feature": j,
            "name": e.feature_labels[j],
            "count": len(e.spans[j]),
            "score": wording.typographic_minus(wording.format_score(e, j)),
            "error": wording.format_stderr(e, j),
            "bar": _bar(e, j, reach),
        }
        for j in strongest_indices(e.scores, count)
    ]
    few = len(rows) < len(e.features)
    several = pluralize(e.feature_noun)
    caption = (
        f"The {len(rows)} strongest of {len(e.features)} {several}" if few else f"All {several}"
    )
    return render_macro(
        "score_table", f"{caption}, {e.label}", e.stderr is not None, rows, e.feature_noun
    )


def _bar(e: Explanation, j: int, reach: float) -> dict[str, str | bool]:
    """Return a bar from zero, with a whisker of one standard error each implementation."""
    zero, unit = (50.0, 50 / reach) if e.signed else (0.0, 100 / reach)
    score = float(e.scores[j]) if e.signed else abs(float(e.scores[j]))
    errors = () if e.stderr is None else (-float(e.stderr[j]), float(e.stderr[j]))
    ends = [zero + (score + error) * unit for error in errors]
    return bar_shape(zero, zero + score * unit, select_hue(e, score), ends)


def _shaded(value: float | None, strength: float, hues: str = "fa") -> Cell:
    """Return a number under a color; ``hues`` are those of strengths above 0 and below."""
    step = color_level(strength)
    return Cell(value, f"{hues[strength < 0]}{step}" if step else "")


def head_tables(explanations: Sequence[Explanation]) -> "list[Markup]":
    """Return the strongest features head by head, all heads on one scale, where they are known."""
    return [_head_table(e, e.heads) for e in explanations if e.heads is not None]


def _head_table(e: Explanation, heads: Float[np.ndarray, "K d"]) -> "Markup":
    sizes, hues = (heads, "fa") if e.signed else (np.abs(heads), "nn")
    peak = float(np.abs(heads).max(initial=0.0))
    number = partial(wording.format_number, peak=peak, signed=e.signed)
    rows = [
        (e.feature_labels[j], *(_shaded(x, x / (peak or 1.0), hues) for x in sizes[:, j].tolist()))
        for j in strongest_indices(e.scores, SHOWN_FEATURES)
    ]
    columns = [Column(f"head {k + 1}", number) for k in range(len(heads))]
    title = f"{e.label} of each head alone"
    table = Table([Column(e.feature_noun, is_user_text=True), *columns], rows, title)
    return table_html(table, label="Head by head", kind="numbers matrix")


def _pair_tables(e: Explanation) -> "list[Markup]":
    """Return the words of the strongest pairs against each other, then the strongest pairs."""
    pairs = e.pairs
    if pairs is None or not len(pairs.scores):
        return []
    strong = pairs.features[strongest_indices(pairs.scores, len(pairs.scores))].ravel().tolist()
    shown = sorted(list(dict.fromkeys(strong))[:SHOWN_WORDS])
    scores = dict(zip(map(frozenset, pairs.features.tolist()), pairs.scores.tolist(), strict=True))
    peak = float(np.abs(pairs.scores).max())
    number = partial(wording.format_number, peak=peak)

    def cell(i: int, j: int) -> Cell:
        score = scores.get(frozenset((i, j)))  # None also of a word with itself
        return _shaded(score, (score or 0.0) / (peak or 1.0))

    matrix = Table(
        [Column(is_user_text=True), *(Column(e.feature_labels[j], number) for j in shown)],
        [(e.feature_labels[i], *(cell(i, j) for j in shown)) for i in shown],
        f"What two {pluralize(e.feature_noun)} do together beyond what each does alone",
    )
    listed = wording.pair_table(e, pairs, SHOWN_PAIRS)
    return [
        table_html(matrix, label="Pairs", kind="numbers matrix"),
        table_html(replace(listed, title=f"The strongest pairs, {e.label}")),
    ]


def _all_scores(several: Sequence[Explanation]) -> "Markup":
    """Return every score of every method as one table: the page in text."""
    labels = [e.label for e in several]
    table = wording.score_table(several, labels, range(len(several[0])), digits=4)
    title = f"Every score, in the order of the {wording.input_noun(several[0])}"
    return table_html(replace(table, title=title), label="All scores")


def disagreement_section(c: Comparison, *, matrix: bool = True) -> "Markup":
    """Return the table against the reference, the worst pairs, and all rank correlations."""
    many = len(c.explanations) > 2
    return render_macro(
        "disagreement",
        table_html(wording.disagreement_table(c, "Held against")),
        wording.unranked_sentence(c),
        wording.least_similar_pairs(c) if many else [],
        _correlations(c) if matrix and many else "",
    )


def _correlations(c: Comparison) -> "Markup":
    """Return the rank correlation of every pair; deeper color, closer agreement."""
    table = Table(
        [Column(), *(Column(e.label, "+.2f", missing="–") for e in c)],
        [
            (e.label, *(_shaded(x, (x or 0.0) * 0.8, "na") for x in line))
            for e, line in zip(c, c.agreement.rank_correlation, strict=True)
        ],
        "Rank correlation of the sizes of the scores, every pair of methods",
    )
    return table_html(table, label="Rank correlations of all pairs", kind="numbers matrix")


def attention_data(c: Comparison) -> dict[str, Any] | None:
    """Return the matrix of each head, where they are known, as ``<limelight-attention>`` has it."""
    matrices = c.attention
    if matrices is None or not matrices.size:
        return None
    T = matrices.shape[-1]
    block = -(-T // CELLS)
    tokens = (model_tokens(c.explanations[0]) + ["·"] * T)[:T]
    heads = [_head_data(matrix, block) for matrix in matrices]
    return {
        "tokens": [replace_surrogates(token) for token in tokens],
        "block": block,
        "heads": heads,
    }


def _head_data(matrix: Float[np.ndarray, "T T"], block: int) -> dict[str, Any]:
    peak, most = float(matrix.max()) or 1.0, int(matrix[0].argmax())
    cells = np.round(np.sqrt(max_pool(matrix, block) / peak) * 255).astype(np.uint8)
    content = base64.b64encode(cells.tobytes()).decode()
    return {"peak": peak, "most": most, "weight": float(matrix[0][most]), "cells": content}


def max_pool(matrix: Float[np.ndarray, "T T"], block: int) -> Float[np.ndarray, "S S"]:
    """Return the largest value of every ``block`` × ``block`` square."""
    T = len(matrix)
    padded = np.pad(matrix, (0, -T % block))
    size = len(padded) // block
    return padded.reshape(size, block, size, block).max(axis=(1, 3))


def _settings(explanations: Sequence[Explanation]) -> list[tuple[str, list[tuple[str, str]]]]:
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

    def said(value: object) -> str:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return [(name, [(key, said(value)) for key, value in one.items()]) for name, one in groups]


def explanation_page(e: Explanation) -> str:
    """Return one explanation as a page that needs no network."""
    e = replace_explanation_surrogates(e)
    data = drop_image(e).to_json()
    return _page([e], data, by=e.label, several=False, told=wording.merge_warnings([e]))


def comparison_page(c: Comparison) -> str:
    """Return a comparison as a page that needs no network."""
    c = replace(c, explanations=tuple(map(replace_explanation_surrogates, c)))
    return _page(
        c.explanations,
        replace(c, explanations=tuple(map(drop_image, c))).to_json(),
        by=f"{len(c.explanations)} methods",
        several=True,
        told=[*c.warnings, *wording.merge_warnings(c)],
        disagreement=disagreement_section(c) if len(c.explanations) > 1 else "",
        attention=attention_data(c),
    )


def _page(found: Sequence[Explanation], data: str, *, by: str, **shown: Any) -> str:
    first, known = found[0], wording.reader_outcomes(found[0])
    title = f"What speaks for {wording.quoted_target(first)}{wording.query_phrase(first)}?"
    if isinstance(first.query, AnswerQuery):
        made = "made the model write" if first.query.is_generated else "speak for the answer"
        title = f"Which {pluralize(first.feature_noun)} {made}{wording.query_phrase(first)}?"
    rest = first.text[first.explained_end :]
    view = {"outcomes": [one._asdict() for one in known], "attention": shown.get("attention")}
    body = render_template(
        "explanations.html",
        **{"disagreement": "", "attention": None, "spans": (), "answer": None} | shown,
        explanations=found,
        first=first,
        outcomes=known,
        unread=rest if len(rest) > MAX_UNREAD_LETTERS else "",
        every=_all_scores(found),
        settings=_settings(found),
        view=data_block("limelight-view", json.dumps(view)),
        **_CALLED,
    )
    return render_page(
        shown.get("title", title),
        body,
        sheets=("words.css", "page.css", "elements.css"),
        script="page.js",
        data=data,
        by=by,
    )


# What the templates of this module call with an explanation, or with several.
_CALLED: dict[str, Any] = {
    "words": words_html,
    "thing": wording.input_noun,
    "legend": legend_html,
    "score_table": score_table_html,
    "pair_tables": _pair_tables,
    "head_tables": head_tables,
    "scale_note": wording.scale_note,
    "precision": wording.precision_sentence,
    "anchor_sentence": wording.anchor_sentence,
    "opening": wording.headline,
    "base_sentence": wording.base_sentence,
    "warnings": wording.merge_warnings,
    "LONG": LONG,
}


def spans_page(found: SpanExplanations) -> str:
    """Return a text whose spans can be chosen, and what each word does for each of them."""
    if not len(found):
        said = "The model finds no span in this text."
        body = render_template("message.html", title=said, sentence=found.text, trouble=False)
        return render_page(said, body, sheets=("page.css",), script="theme.js", data="{}")
    # Of answers, the opening says it.
    protected = "" if found.answer else wording.protected_sentence(found)
    # Each is called by its span: the method is the same for all.
    named = zip(found, wording.span_labels(found), strict=True)
    several = [replace_explanation_surrogates(replace(e, label=label)) for e, label in named]
    stored = [msgspec.Raw(e.to_json().encode()) for e in several]
    return _page(
        several,
        msgspec.json.encode({"explanations": stored}).decode(),
        by=found.count_phrase,
        several=True,
        told=wording.merge_warnings(several),
        spans=list(wording.labeled_parts(found)),
        answer=found.answer,
        protected=f"Scores by {found[0].label}. {protected}",
        title="What speaks for each span?"
        if found.answer is None
        else f"Which {pluralize(found[0].feature_noun)} carried which sentence of the answer?",
    )


def spans_fragment(found: SpanExplanations) -> str:
    """Return the words of every span, colored, for a notebook."""
    return explanations_fragment(found.explanations, of=found.count_phrase)


def explanation_fragment(e: Explanation) -> str:
    """Return an explanation for a notebook, an app or a mail."""
    return render_fragment("explanation_fragment.html", e=e, most=FRAGMENT_FEATURES, **_CALLED)


def explanations_fragment(several: Sequence[Explanation], *, of: str = "") -> str:
    """Return explanations of several texts for a notebook: the words of each, and its prediction.

    A page of thousands would freeze the notebook, so only the first ones are shown.
    """
    methods = " and ".join(dict.fromkeys(e.label for e in several))
    of = of or (f"{len(several)} texts" if len(several) > 1 else "one text")
    heading = f"{methods} of {of}{', each on a scale of its own' * (len(several) > 1)}."
    heading = heading if several else "No explanations."
    shown = several[:FRAGMENT_TEXTS]
    left = len(several) - len(shown)
    values = {"heading": heading, "shown": shown, "left": left}
    return render_fragment("explanations_fragment.html", **values, **_CALLED)


def comparison_fragment(c: Comparison) -> str:
    """Return a comparison for the same places: every method, then where they disagree."""
    apart = disagreement_section(c, matrix=False) if len(c.explanations) > 1 else ""
    return render_fragment("comparison_fragment.html", c=c, disagreement=apart, **_CALLED)


def method_table_html(rows: Sequence["MethodRow"]) -> str:
    """Return the methods as an HTML table."""
    names = ("method", "computes", "sees", "cannot see", "how", "settings")
    cells = []
    for row in rows:
        settings = dict.fromkeys(
            s.name for implementation in row.implementations for s in implementation.settings
        )
        how = row.reason_unavailable or "; ".join(
            wording.describe_implementation(
                implementation, has_alternatives=len(row.implementations) > 1
            )
            for implementation in row.implementations
        )
        called = f"{row.id} {row.label}"
        cells.append((called, row.formula, row.sees, row.blind, how, ", ".join(settings)))
    return table_html(plain_table(names, cells))
