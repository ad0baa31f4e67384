"""Render the summary of a run, and the comparison of two runs, on a terminal and as pages."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from limelight.rendering.html import bar_shape, legend_html, words_html
from limelight.rendering.images import average_image, thumbnail
from limelight.rendering.markup import render_page, render_template, table_html
from limelight.rendering.palette import Hue
from limelight.rendering.terminal import FULL_WIDTH, Look, draw_bar, sections_text, terminal_view
from limelight.rendering.text_parts import visible_text
from limelight.rendering.wording import confidence_phrase, format_number, format_share
from limelight.results.explanation import target_name
from limelight.results.summary import RIGHT, RunComparison, RunSummary
from limelight.results.table import Cell, Column, Section, Table
from limelight.text import feature_noun, pluralize

if TYPE_CHECKING:
    from markupsafe import Markup

Record = Mapping[str, Any]  # a row of a table, by the names of its columns
_MAX_WORDS, _MAX_EXAMPLES, _MAX_CHANGES = 10, 3, 12  # rows on a terminal
_NARROW = 60  # columns of a terminal: narrower ones show no intervals and classes
VISIBLE_ROWS = 20  # rows of a table before "Show more" is pressed; hidden rows need no layout
_OPEN_TEXTS = 2  # representative texts that are open at first
_SINGLE = ("single", "texts", "single_low", "single_high")
_SHEETS = ("words.css", "page.css", "summary.css")


@terminal_view()
def summary_text(summary: RunSummary, look: Look) -> Iterator[RenderableType]:
    """Yield the first view of a summary, and the names of the other views."""
    first, *_ = summary.split_views()
    view, *other_views = summary.views.records()
    noun = feature_noun(summary.feature_kind)
    texts = f"{view['texts']:,} text{'s' * (view['texts'] != 1)}"
    yield look.line(
        f"{texts}, {view['label']}: what drives {target_name(view['target'], view['against'])}",
        "bold",
    )
    if view["right"] is not None:
        yield look.line(f"right on {_right_text(view)} of {view['labeled']:,} labeled texts")
    words = f"{view['vocabulary']:,} {pluralize(noun)}"
    note = (
        f"Mean score per {noun} over the texts, with 95% intervals (rare {pluralize(noun)} shrunk)"
    )
    yield look.line(f"{note}. {words}.", "dim")
    yield Text()
    yield from sections_text(_view_sections(first, noun), look)
    if other_views:
        other_names = ", ".join(
            f"{other_view['method']} ({target_name(other_view['target'], other_view['against'])})"
            for other_view in other_views
        )
        yield Text()
        yield look.line(
            f"Other methods in this run: {other_names}. Use --method, or --output page.html.", "dim"
        )
    yield from look.warning_lines(summary.warnings)


def _right_text(record: Record) -> str:
    """Format the share of correct predictions with its interval, or return "" without labels."""
    return "" if record["right"] is None else format_share(*(record[name] for name in RIGHT))


def _word_lists(summary: RunSummary) -> dict[str, list[dict[str, Any]]]:
    """Return the lists of words of a view by title, with the phrases as "Phrases"."""
    (view,) = summary.views.records()
    target, against = view["target"], view["against"]
    titles = {"for": f"For {target}", "phrase": "Phrases"}
    titles["against"] = f"Against {target}" if against is None else f"For {against}"
    titles["size"] = "Largest: the method gives no sign"
    kinds = ("for", "against") if view["signed"] else ("size",)
    groups = summary.words.group_rows("kind")
    return {
        titles[kind]: groups[(kind,)].records() if (kind,) in groups else []
        for kind in (*kinds, "phrase")
    }


def _view_sections(summary: RunSummary, noun: str) -> list[Section]:
    """Return the sections of a view: strongest words, phrases, mistakes, texts and slices."""
    (view,) = summary.views.records()
    lists = {title: words[:_MAX_WORDS] for title, words in _word_lists(summary).items()}
    phrases = lists.pop("Phrases")[: 2 * _MAX_EXAMPLES]
    peak = max((abs(word["shrunken"]) for words in lists.values() for word in words), default=0.0)
    sections = [
        Section(title, tables=[_word_table(words, noun, peak, signed=view["signed"])])
        for title, words in lists.items()
        if words
    ]
    if phrases:
        peak = max(abs(phrase["shrunken"]) for phrase in phrases)
        table = _word_table(phrases, "phrase", peak, signed=view["signed"])
        sections.append(Section("Phrases", tables=[table]))
    differing, mistakes = summary.differing_words.records(), _mistake_table(summary, noun)
    # Without mistakes there is nothing to compare.
    if view["compared"] or mistakes.rows:
        no_difference = f"No {noun}'s mean score differs significantly between right and wrong."
        sentence = no_difference if view["compared"] and not differing else ""
        sentence = sentence if view["compared"] else "Too few mistakes to compare."
        tables = [_right_wrong_table(differing[:_MAX_EXAMPLES], noun), mistakes]
        tables = [table for table in tables if table.rows]
        sections.append(Section("Where the model is wrong", sentence, tables=tables))
    if texts := summary.representatives.records():
        rows = ", ".join(text["id"] for text in texts)
        sentence = f"{rows} cover {texts[-1]['covered']:.1%} of the total importance."
        sections.append(Section("Representative texts", sentence))
    if decisions := decision_sentence(summary):
        sections.append(Section("What would change the predictions", decisions))
    if summary.slices.rows:
        title = f"Slices by {summary.sliced_by}"
        sections.append(Section(title, tables=[_slice_table(summary, noun)]))
    return sections


def decision_sentence(summary: RunSummary) -> str:
    """Say how many texts of a view depend on a single feature, or return "" if it is unknown."""
    noun, records = feature_noun(summary.feature_kind), summary.decisions.records()
    if not records:
        return ""
    (counts,) = records
    share = format_share(*(counts[f"{name}"] for name in _SINGLE))
    texts, robust, unsettled = counts["texts"], counts["robust"], counts["unsettled"]
    sentences = [
        f"{counts['single']:,} of {texts:,} texts depend on a single {noun}: {share}.",
        f"In {robust:,} texts, no removal of {pluralize(noun)} changes the prediction.",
    ]
    if counts["median_size"] is not None:
        median = f"{counts['median_size']:g}"
        removals = f"{median} {noun if median == '1' else pluralize(noun)}"
        sentences.append(f"The median of the smallest removals found is {removals}.")
    if unsettled:
        sentences.append(f"In {unsettled:,} texts, a smaller removal may exist.")
    return " ".join(sentences)


def _word_table(records: Sequence[Record], heading: str, peak: float, *, signed: bool) -> Table:
    """Return a table of the mean scores of words with intervals, numbers of texts and bars."""
    number = partial(format_number, peak=peak, signed=signed)
    rows = []
    for word in records:
        hue: Hue = "neutral" if not signed else "for" if word["shrunken"] >= 0 else "against"
        bar = partial(draw_bar, word["shrunken"] / (peak or 1.0), hue)
        texts = f"{word['texts']:,}{'*' * word['rare']}"
        interval = word["low"], word["high"]
        rows.append((Cell(word["word"], hue), word["mean"], interval, texts, bar))
    columns = (
        Column(heading, max_letters=24),
        Column("mean", number),
        Column("interval", number, "dim", min_width=_NARROW),
        Column("texts", "s", "dim"),
        Column(draw_width=(4, 60)),
    )
    return Table(columns, rows)


def _mistake_table(summary: RunSummary, noun: str) -> Table:
    """Return a table of the wrongly predicted texts with the words behind each mistake."""
    columns = [
        *(Column(name, max_letters=18) for name in ("mistake", "label", "predicted")),
        Column("how sure", min_width=_NARROW),
        Column(pluralize(noun), max_letters=40),
    ]
    rows = [
        (
            *(text[name] for name in ("id", "label", "predicted")),
            confidence_phrase(text["confidence"], margin=text["margin"]),
            ", ".join(text["words"]),
        )
        for text in summary.mistakes.head(_MAX_EXAMPLES).records()
    ]
    return Table(columns, rows)


def _slice_table(summary: RunSummary, noun: str) -> Table:
    """Return a table of the predictions in each slice, with the words whose scores differ there."""
    (view,), slices = summary.views.records(), summary.slices.records()
    labeled = any(part["right"] is not None for part in slices)
    columns = [
        Column(f"by {summary.sliced_by}", max_letters=24),
        Column("texts", ","),
        Column(f"predicted {view['target']}", max_letters=22),
        *[Column("right")] * labeled,
        Column(f"{pluralize(noun)} that score otherwise", min_width=90),
    ]
    words = summary.slice_words.records()
    rows = []
    for part in slices:
        changes = ", ".join(
            f"{word['word']} {word['difference']:+.2f}"
            for word in words
            if word["group"] == part["slice"]
        )
        names = ("predicted", "texts", "predicted_low", "predicted_high")
        share = format_share(*(part[name] for name in names))
        rows.append((part["slice"], part["texts"], share, *[_right_text(part)] * labeled, changes))
    return Table(columns, rows)


@terminal_view()
def run_comparison_text(c: RunComparison, look: Look) -> Iterator[RenderableType]:
    """Yield the words and the texts that changed most between two runs."""
    sections = [
        section._replace(tables=[table.head(_MAX_CHANGES) for table in section.tables])
        for section in _comparison_sections(c)
    ]
    yield from sections_text(sections, look)


def summary_page(summary: RunSummary, *, navigation: "Markup | str" = "") -> str:
    """Return a page with words, phrases, mistakes, representative texts and slices of each view."""
    noun, views = feature_noun(summary.feature_kind), summary.split_views()
    body = render_template(
        "summary.html",
        summary=summary,
        views=views,
        labels=[
            f"{view['label']} · {target_name(view['target'], view['against'])}"
            for view in summary.views.records()
        ],
        visible_rows=VISIBLE_ROWS,
        open_count=_OPEN_TEXTS,
        words=lambda e, **options: words_html(thumbnail(e), **options),
        input_noun="image" if noun in ("patch", "segment") else "text",
        word_lists=_word_lists,
        mean_image=lambda view: average_image(view, _single_words(view)),
        legend=legend_html,
        format_number=format_number,
        confidence_phrase=confidence_phrase,
        bar=_draw_bar,
        largest_end=lambda records: max((max(-x["low"], x["high"]) for x in records), default=0.0),
        target_name=target_name,
        right_share=_right_text,
        differing_table=lambda part: table_html(
            _right_wrong_table(part.differing_words.records(), noun), label="Right and wrong"
        ),
        slice_table=lambda part: table_html(
            _slice_table(part, noun), label=f"Texts by {part.sliced_by}"
        ),
        decisions=decision_sentence,
        noun=noun,
    )
    data = {"views": [_example_rows(part) for part in views]}
    return render_page(
        "What drives the model?",
        body,
        sheets=_SHEETS,
        script="summary.js",
        navigation=navigation,
        data=json.dumps(data, ensure_ascii=False, separators=(",", ":")),
    )


def _example_rows(summary: RunSummary) -> list[Any]:
    """Return the examples of each word: [word, [[id, score, before, match, after], …]]."""
    rows, parts = summary.examples.records(), ("before", "match", "after")
    # Each string is converted once, because ids and matches repeat.
    visible = {
        text: visible_text(text) for row in rows for text in (row["id"], *map(row.get, parts))
    }
    examples: dict[str, list[Any]] = {word: [] for word in _single_words(summary)}
    for row in rows:
        texts = [visible[row[name]] for name in parts]
        score = float(f"{row['score']:.4g}")
        examples[row["word"]].append([visible[row["id"]], score, *texts])
    return [[visible_text(word), word_rows] for word, word_rows in examples.items()]


def _single_words(summary: RunSummary) -> dict[str, dict[str, Any]]:
    """Return the words of a view by name, without its phrases."""
    return {word["word"]: word for word in summary.words.records() if word["kind"] != "phrase"}


def _draw_bar(word: Record, peak: float, signed: bool) -> dict[str, str | bool]:
    """Return a bar of the shrunken mean, with a whisker over its interval.

    Bars of negative means point in the same direction, so lengths are distances from 0.
    """
    mean, ends = word["shrunken"], (word["low"], word["shrunken"], word["high"])
    if mean < 0:
        ends = (-word["high"], -mean, -word["low"])
    low, middle, high = (max(min(x * 96 / max(peak, 1e-300), 100.0), 0.0) for x in ends)
    hue = "n" if not signed else "f" if mean >= 0 else "a"
    return bar_shape(0.0, middle, hue, (low, high))


def _right_wrong_table(records: Sequence[Record], noun: str) -> Table:
    """Return a table of the words whose scores differ between right and wrong predictions."""
    return _group_table((noun, "called", "where right", "where wrong"), records)


def _group_table(heads: Sequence[str], records: Sequence[Record]) -> Table:
    """Return a table of words in two groups of texts, with the difference and its interval."""
    word, group, first, second = heads
    score = "+.3f"
    columns = (
        Column(word, max_letters=18),
        Column(group, max_letters=12, min_width=_NARROW),
        *(Column(name, score) for name in (first, second, "difference")),
        Column("interval", score, min_width=_NARROW),
        Column("texts", ",", min_width=_NARROW),
        Column("p (Holm)", ".2g", min_width=FULL_WIDTH),
    )
    rows = [
        (
            *(row[name] for name in ("word", "group", "first", "second", "difference")),
            (row["low"], row["high"]),
            row["first_texts"]
            if row["first_texts"] == row["second_texts"]
            else f"{row['first_texts']:,} and {row['second_texts']:,}",
            row["p_holm"],
        )
        for row in records
    ]
    return Table(columns, rows)


def _comparison_sections(c: RunComparison) -> list[Section]:
    """Return the sections of a comparison: the runs, and the words and texts that changed most."""
    first, second = c.methods
    share = format_share(c.changed_predictions, c.texts, c.changed_low, c.changed_high)
    sentence = (
        f"{c.texts:,} explanations of the same texts: {first} in “{c.first}”, then {second} in "
        f"“{c.second}”. Predictions that changed: {c.changed_predictions:,}, {share}. Texts in the "
        f"first run only: {c.only_first:,}; in the second only: {c.only_second:,}."
    )
    unit = "Scores are shares of a text's total size, since two methods have no common unit."
    noun = feature_noun(c.feature_kind)
    no_change = f"No {noun}'s score changed significantly, of {c.compared:,} compared."
    changed = [
        word
        | {"group": word["target"], "first_texts": word["texts"], "second_texts": word["texts"]}
        for word in c.words.records()
    ]
    columns = (
        Column("text", max_letters=18),
        Column("for", min_width=_NARROW, max_letters=18),
        Column("change (0 to 1)", ".3f", short_heading="change"),
        Column("first says", max_letters=18),
        Column("second says", max_letters=18),
    )
    names = ("id", "target", "change", "predicted", "other_predicted")
    texts = [[text[name] for name in names] for text in c.changed_texts.records()]
    return [
        Section("The runs", sentence=sentence, note=unit if c.shares else ""),
        Section(
            f"{pluralize(noun).capitalize()} that changed most",
            sentence="" if changed else no_change,
            tables=[_group_table((noun, "for", "first", "second"), changed)] if changed else [],
        ),
        Section("Texts that changed most", tables=[Table(columns, texts)]),
    ]


def run_comparison_page(c: RunComparison) -> str:
    """Return a page with the words and the texts that changed most between two runs."""
    return render_page(
        "What changed between two runs?",
        render_template("sections.html", sections=_comparison_sections(c)),
        sheets=_SHEETS,
        script="summary.js",
        data='{"views":[]}',
    )
