"""Explanations as HTML: one self-contained page, or a fragment for other pages.

A page contains the explanations as JSON, and its custom elements draw them. This module renders the
parts that need no script: the words for readers without scripts, tables, legends, and fragments.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

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
from limelight.results.explanation import TextFeatures
from limelight.results.table import Cell, Column, Table, plain_table
from limelight.shapes import Float
from limelight.text import SIDES, AnswerQuery, pluralize

if TYPE_CHECKING:
    from markupsafe import Markup

    from limelight.results.method_table import MethodRow

SHOWN_FEATURES = 20
FRAGMENT_FEATURES = 8
FRAGMENT_TEXTS = 20
SHOWN_WORDS = 12  # words in the table of pairs
SHOWN_PAIRS = 12
LONG = 300  # characters from which a text is set in a smaller font below each method
CELLS = 128  # largest number of rows of an attention matrix: more make the page large, not clearer


def words_html(
    e: Explanation, *, titles: bool = False, inline: bool = False, original: bool = True
) -> "Markup":
    """Return the text with one ``span`` per feature, whose class is its color.

    Only the beginning of the text after the model's window is shown. An image is drawn under the
    colors of its scores.

    Parameters
    ----------
    e
        The explanation.
    titles
        Whether each word has its score as a tooltip, for pages without scripts.
    inline
        Whether each word has its color as an inline style too, for mail programs and other readers
        that drop style sheets.
    original
        Whether the original image is shown beside the colored image.

    Returns
    -------
    The markup.
    """
    if e.image is not None:
        return image_html(e, e.image, original=original)
    sizes, strongest = relative_scores(e), strongest_feature(e)

    def describe_word(feature: int) -> WordElement:
        """Return the color of a feature by its score."""
        hue, step = select_hue(e, sizes[feature]), color_level(sizes[feature])
        shade = f"{hue[0]}{step}" if step else ""
        return WordElement(
            classes=(shade, "top" if feature == strongest else ""),
            style=inline_style(hue, step) if inline else "",
            title=wording.format_score(e, feature) if titles else "",
        )

    return text_html(e, describe_word)


class WordElement(NamedTuple):
    """The look of a feature in a text: its kind, the names of its classes, its style and title."""

    classes: tuple[str, ...]
    style: str
    title: str = ""
    kind: str = "word"


def text_html(e: TextFeatures, describe_word: Callable[[int], WordElement]) -> "Markup":
    """Return a text with one element per feature, as ``describe_word`` describes each feature."""
    elements: list[dict[str, Any]] = []
    parts = shorten_unread(split_text(e))
    has_prompt = any(part.role not in SIDES for part in e.parts)
    for part, sides in zip(parts, free_sides(parts), strict=True):
        if part.label:
            elements.append({"kind": "side", "text": part.label})
        elif part.feature is None:
            if part.text.strip() or not e.has_block_features:
                kind = "prompt" if has_prompt else ""
                elements.append({"kind": kind if part.is_read else "unread", "text": part.text})
        else:
            word = describe_word(part.feature)
            classes = ("w", "b" if e.has_block_features else sides, *word.classes)
            element = {"kind": word.kind, "text": part.text, "feature": part.feature}
            element["classes"] = " ".join(filter(None, classes))
            elements.append(element | {"title": word.title, "style": word.style})
    return render_macro("words", elements)


def free_sides(parts: Sequence[TextPart]) -> list[str]:
    """Return the sides on which each part has room for its color: "s" for start, "e" for end.

    The color of a word is a little wider than the word. It may cover a space beside it, but not the
    neighboring letter, as between a word and its comma.
    """
    texts = [" ", *(part.text or " " for part in parts), " "]
    return [
        " ".join(
            name
            for name, has_space in (
                ("s", previous_text[-1:].isspace()),
                ("e", next_text[:1].isspace()),
            )
            if has_space
        )
        for previous_text, next_text in zip(texts[:-2], texts[2:], strict=True)
    ]


def legend_html(explanations: Sequence[Explanation]) -> "Markup":
    """Return the legend of the colors."""
    first = explanations[0]
    meanings = wording.hue_meanings(explanations)
    keys = [(hue[0], meaning) for hue, meaning in meanings.items()]
    note = "Darker: larger score."
    if len(explanations) > 1:
        explained_noun = "span" if first.query != explanations[1].query else "method"
        scale_position = (
            f": the number after its {pluralize(first.feature_noun)} is the darkest color"
        )
        if explained_noun == "span" and isinstance(first.query, AnswerQuery):
            # The page of an answer has no numbers after the words.
            explained_noun, scale_position = "sentence of the answer", ""
        note += f" Each {explained_noun} has its own scale{scale_position}."
    if any(len(spans) > 1 for spans in first.spans):
        note += f" {wording.occurrences_sentence(first)}"
    has_unread, is_image = (
        any(not part.is_read for part in split_text(first)),
        first.image is not None,
    )
    note += " Under the colors the image is gray." * is_image
    return render_macro("legend", keys, has_unread, note, first.feature_noun, is_image)


def bar_shape(
    zero: float, end: float, hue: str, ends: Sequence[float] = ()
) -> dict[str, str | bool]:
    """Compute the shape of a bar on a width of 100, with a whisker between ``ends``.

    Parameters
    ----------
    zero
        The position of the score 0, from 0 to 100.
    end
        The position of the score.
    hue
        The color of the bar.
    ends
        The positions of the ends of the whisker. Without ends, there is no whisker.

    Returns
    -------
    Positions and color by name, for the template.
    """
    low, high = (f"{x:.2f}" for x in ends or (0, 0))
    whisker = f"M{low} 6H{high}M{low} 4v4M{high} 4v4" if ends else ""
    x, width = f"{min(zero, end):.2f}", f"{abs(end - zero):.2f}"
    return {"x": x, "width": width, "hue": hue[0], "whisker": whisker, "zero": zero > 0}


def score_table_html(e: Explanation, count: int = SHOWN_FEATURES) -> "Markup":
    """Return a table of the strongest features with their scores, errors and bars."""
    error = 0.0 if e.stderr is None else e.stderr
    largest = float((np.abs(e.scores) + error).max(initial=0.0)) or 1.0
    rows = [
        {
            "feature": j,
            "name": e.feature_labels[j],
            "count": len(e.spans[j]),
            "score": wording.typographic_minus(wording.format_score(e, j)),
            "error": wording.format_stderr(e, j),
            "bar": _score_bar(e, j, largest),
        }
        for j in strongest_indices(e.scores, count)
    ]
    is_shortened = len(rows) < len(e.features)
    nouns = pluralize(e.feature_noun)
    caption = (
        f"The {len(rows)} strongest of {len(e.features)} {nouns}"
        if is_shortened
        else f"All {nouns}"
    )
    return render_macro(
        "score_table", f"{caption}, {e.label}", e.stderr is not None, rows, e.feature_noun
    )


def _score_bar(e: Explanation, j: int, largest: float) -> dict[str, str | bool]:
    """Return a bar from zero, with a whisker of one standard error to each side."""
    zero, unit = (50.0, 50 / largest) if e.signed else (0.0, 100 / largest)
    score = float(e.scores[j]) if e.signed else abs(float(e.scores[j]))
    errors = () if e.stderr is None else (-float(e.stderr[j]), float(e.stderr[j]))
    ends = [zero + (score + error) * unit for error in errors]
    return bar_shape(zero, zero + score * unit, select_hue(e, score), ends)


def _colored_cell(value: float | None, strength: float, hues: str = "fa") -> Cell:
    """Return a cell with a colored background.

    ``hues`` are the letters of the hues for positive and negative strengths.
    """
    step = color_level(strength)
    return Cell(value, f"{hues[strength < 0]}{step}" if step else "")


def head_tables(explanations: Sequence[Explanation]) -> "list[Markup]":
    """Return a table of the scores of each head for each explanation that has them.

    All heads share one scale.
    """
    return [_head_table(e, e.heads) for e in explanations if e.heads is not None]


def _head_table(e: Explanation, heads: Float[np.ndarray, "K d"]) -> "Markup":
    """Return a table of the strongest features with a colored score of each head."""
    sizes, hues = (heads, "fa") if e.signed else (np.abs(heads), "nn")
    peak = float(np.abs(heads).max(initial=0.0))
    number = partial(wording.format_number, peak=peak, signed=e.signed)
    rows = [
        (
            e.feature_labels[j],
            *(_colored_cell(x, x / (peak or 1.0), hues) for x in sizes[:, j].tolist()),
        )
        for j in strongest_indices(e.scores, SHOWN_FEATURES)
    ]
    columns = [Column(f"head {k + 1}", number) for k in range(len(heads))]
    title = f"{e.label} of each head alone"
    table = Table([Column(e.feature_noun, is_user_text=True), *columns], rows, title)
    return table_html(table, label="Head by head", kind="numbers matrix")


def _pair_tables(e: Explanation) -> "list[Markup]":
    """Return a matrix of the words of the strongest pairs, and a list of these pairs."""
    pairs = e.pairs
    if pairs is None or not len(pairs.scores):
        return []
    strongest = pairs.features[strongest_indices(pairs.scores, len(pairs.scores))].ravel().tolist()
    features = sorted(list(dict.fromkeys(strongest))[:SHOWN_WORDS])
    scores = dict(zip(map(frozenset, pairs.features.tolist()), pairs.scores.tolist(), strict=True))
    peak = float(np.abs(pairs.scores).max())
    number = partial(wording.format_number, peak=peak)

    def cell(i: int, j: int) -> Cell:
        """Return the cell of a pair of words."""
        score = scores.get(frozenset((i, j)))  # None also for a word and itself
        return _colored_cell(score, (score or 0.0) / (peak or 1.0))

    matrix = Table(
        [Column(is_user_text=True), *(Column(e.feature_labels[j], number) for j in features)],
        [(e.feature_labels[i], *(cell(i, j) for j in features)) for i in features],
        f"What two {pluralize(e.feature_noun)} do together beyond what each does alone",
    )
    pair_list = wording.pair_table(e, pairs, SHOWN_PAIRS)
    return [
        table_html(matrix, label="Pairs", kind="numbers matrix"),
        table_html(replace(pair_list, title=f"The strongest pairs, {e.label}")),
    ]


def _all_scores(explanations: Sequence[Explanation]) -> "Markup":
    """Return the scores of all methods as one table."""
    labels = [e.label for e in explanations]
    table = wording.score_table(explanations, labels, range(len(explanations[0])), digits=4)
    title = f"Every score, in the order of the {wording.input_noun(explanations[0])}"
    return table_html(replace(table, title=title), label="All scores")


def disagreement_section(c: Comparison, *, matrix: bool = True) -> "Markup":
    """Return the agreement of all methods with the reference method and with each other.

    ``matrix`` adds the rank correlations of all pairs.
    """
    has_three = len(c.explanations) > 2
    return render_macro(
        "disagreement",
        table_html(wording.disagreement_table(c, "Compared with")),
        wording.unranked_sentence(c),
        wording.least_similar_pairs(c) if has_three else [],
        _correlations(c) if matrix and has_three else "",
    )


def _correlations(c: Comparison) -> "Markup":
    """Return the rank correlations of all pairs. A deeper color means closer agreement."""
    table = Table(
        [Column(), *(Column(e.label, "+.2f", missing="–") for e in c)],
        [
            (e.label, *(_colored_cell(x, (x or 0.0) * 0.8, "na") for x in line))
            for e, line in zip(c, c.agreement.rank_correlation, strict=True)
        ],
        "Rank correlation of the sizes of the scores, every pair of methods",
    )
    return table_html(table, label="Rank correlations of all pairs", kind="numbers matrix")


def attention_data(c: Comparison) -> dict[str, Any] | None:
    """Return the attention matrices for ``<limelight-attention>``, or None if there are none."""
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
    """Encode the attention of one head as small numbers, with its largest weight."""
    peak, strongest = float(matrix.max()) or 1.0, int(matrix[0].argmax())
    cells = np.round(np.sqrt(max_pool(matrix, block) / peak) * 255).astype(np.uint8)
    content = base64.b64encode(cells.tobytes()).decode()
    weight = float(matrix[0][strongest])
    return {"peak": peak, "strongest": strongest, "weight": weight, "cells": content}


def max_pool(matrix: Float[np.ndarray, "T T"], block: int) -> Float[np.ndarray, "S S"]:
    """Return the largest value of each square of ``block`` × ``block`` values."""
    T = len(matrix)
    padded = np.pad(matrix, (0, -T % block))
    size = len(padded) // block
    return padded.reshape(size, block, size, block).max(axis=(1, 3))


def _settings(explanations: Sequence[Explanation]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the settings and diagnostics of the explanations, first those that all share."""
    settings = [settings_with_facts(e) | dict(e.diagnostics) for e in explanations]
    shared = {
        key: value
        for key, value in settings[0].items()
        if all(key in values and values[key] == value for values in settings)
    }
    groups = [("All methods" if len(explanations) > 1 else explanations[0].label, shared)]
    for e, values in zip(explanations, settings, strict=True) if len(explanations) > 1 else ():
        differing = {key: value for key, value in values.items() if key not in shared}
        groups.append((e.label, {"method": e.method, **differing}))

    def format_setting(value: object) -> str:
        """Return a setting as text."""
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return [
        (name, [(key, format_setting(value)) for key, value in values.items()])
        for name, values in groups
    ]


def explanation_page(e: Explanation) -> str:
    """Return one explanation as a self-contained page."""
    e = replace_explanation_surrogates(e)
    data = drop_image(e).to_json()
    return _explanations_page(
        [e], data, subtitle=e.label, has_tabs=False, messages=wording.merge_warnings([e])
    )


def comparison_page(c: Comparison) -> str:
    """Return a comparison as a self-contained page."""
    c = replace(c, explanations=tuple(map(replace_explanation_surrogates, c)))
    return _explanations_page(
        c.explanations,
        replace(c, explanations=tuple(map(drop_image, c))).to_json(),
        subtitle=f"{len(c.explanations)} methods",
        has_tabs=True,
        messages=[*c.warnings, *wording.merge_warnings(c)],
        disagreement=disagreement_section(c) if len(c.explanations) > 1 else "",
        attention=attention_data(c),
    )


def _explanations_page(
    explanations: Sequence[Explanation], data: str, *, subtitle: str, **values: Any
) -> str:
    """Render explanations of one input as a self-contained page."""
    first, outcomes = explanations[0], wording.reader_outcomes(explanations[0])
    title = f"Why {wording.quoted_target(first)}{wording.query_phrase(first)}?"
    if isinstance(first.query, AnswerQuery):
        verb = "made the model write" if first.query.is_generated else "support the answer"
        title = f"Which {pluralize(first.feature_noun)} {verb}{wording.query_phrase(first)}?"
    unread = first.text[first.explained_end :]
    view = {
        "outcomes": [outcome._asdict() for outcome in outcomes],
        "attention": values.get("attention"),
    }
    body = render_template(
        "explanations.html",
        **{"disagreement": "", "attention": None, "spans": (), "answer": None} | values,
        explanations=explanations,
        first=first,
        outcomes=outcomes,
        unread=unread if len(unread) > MAX_UNREAD_LETTERS else "",
        all_scores=_all_scores(explanations),
        settings=_settings(explanations),
        view=data_block("limelight-view", json.dumps(view)),
        **_TEMPLATE_FUNCTIONS,
    )
    return render_page(
        values.get("title", title),
        body,
        sheets=("words.css", "page.css", "elements.css"),
        script="page.js",
        data=data,
        subtitle=subtitle,
    )


# Functions that the templates of this module call with an explanation or a list of explanations.
_TEMPLATE_FUNCTIONS: dict[str, Any] = {
    "words": words_html,
    "input_noun": wording.input_noun,
    "legend": legend_html,
    "score_table": score_table_html,
    "pair_tables": _pair_tables,
    "head_tables": head_tables,
    "scale_note": wording.scale_note,
    "precision": wording.precision_sentence,
    "ranks": wording.ranks_sentence,
    "anchor_sentence": wording.anchor_sentence,
    "headline": wording.headline,
    "base_sentence": wording.base_sentence,
    "prompt_sentence": wording.prompt_sentence,
    "warnings": wording.merge_warnings,
    "LONG": LONG,
}


def spans_page(span_explanations: SpanExplanations) -> str:
    """Return a page with a text whose spans can be selected, and the scores for each span."""
    if not len(span_explanations):
        message = "The model finds no span in this text."
        body = render_template(
            "message.html", title=message, sentence=span_explanations.text, is_error=False
        )
        return render_page(message, body, sheets=("page.css",), script="theme.js", data="{}")
    # The headline of an answer contains this sentence.
    protected = "" if span_explanations.answer else wording.protected_sentence(span_explanations)
    # Each tab is named for its span, because all spans have the same method.
    labels = zip(span_explanations, wording.span_labels(span_explanations), strict=True)
    explanations = [replace_explanation_surrogates(replace(e, label=label)) for e, label in labels]
    records = [msgspec.Raw(e.to_json().encode()) for e in explanations]
    title = "Why each span?"
    if span_explanations.answer is not None:
        nouns = pluralize(explanations[0].feature_noun)
        title = f"Which {nouns} carried which sentence of the answer?"
    return _explanations_page(
        explanations,
        msgspec.json.encode({"explanations": records}).decode(),
        subtitle=span_explanations.count_phrase,
        has_tabs=True,
        messages=wording.merge_warnings(explanations),
        spans=list(wording.labeled_parts(span_explanations)),
        answer=span_explanations.answer,
        protected=f"Scores by {span_explanations[0].label}. {protected}",
        title=title,
    )


def spans_fragment(explanations: SpanExplanations) -> str:
    """Return the colored words for each span, for a notebook."""
    return explanations_fragment(explanations.explanations, count_phrase=explanations.count_phrase)


def explanation_fragment(e: Explanation) -> str:
    """Return an explanation for a notebook, an app or a mail."""
    return render_fragment(
        "explanation_fragment.html", e=e, max_features=FRAGMENT_FEATURES, **_TEMPLATE_FUNCTIONS
    )


def explanations_fragment(explanations: Sequence[Explanation], *, count_phrase: str = "") -> str:
    """Return a list of explanations for a notebook, each with its words and its prediction.

    Only the first texts are shown, because thousands of texts would freeze the notebook.
    ``count_phrase`` is the number of texts or spans in words.
    """
    methods = " and ".join(dict.fromkeys(e.label for e in explanations))
    if not count_phrase:
        count_phrase = f"{len(explanations)} texts" if len(explanations) > 1 else "one text"
    heading = (
        f"{methods} of {count_phrase}{', each on a scale of its own' * (len(explanations) > 1)}."
    )
    heading = heading if explanations else "No explanations."
    first_explanations = explanations[:FRAGMENT_TEXTS]
    left_out = len(explanations) - len(first_explanations)
    values = {"heading": heading, "explanations": first_explanations, "left_out": left_out}
    return render_fragment("explanations_fragment.html", **values, **_TEMPLATE_FUNCTIONS)


def comparison_fragment(c: Comparison) -> str:
    """Return a comparison for a notebook, an app or a mail."""
    disagreement = disagreement_section(c, matrix=False) if len(c.explanations) > 1 else ""
    return render_fragment(
        "comparison_fragment.html", c=c, disagreement=disagreement, **_TEMPLATE_FUNCTIONS
    )


def method_table_html(rows: Sequence["MethodRow"]) -> str:
    """Return the methods as an HTML table."""
    names = ("method", "computes", "sees", "cannot see", "how", "settings")
    cells = []
    for row in rows:
        settings = dict.fromkeys(
            s.name for implementation in row.implementations for s in implementation.settings
        )
        description = row.reason_unavailable or "; ".join(
            wording.describe_implementation(
                implementation, has_alternatives=len(row.implementations) > 1
            )
            for implementation in row.implementations
        )
        name = f"{row.id} {row.label}"
        cells.append((name, row.formula, row.sees, row.blind, description, ", ".join(settings)))
    return table_html(plain_table(names, cells))
