"""What drives a model over a run, and two runs side by side, as self-contained pages."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from limelight.pages.html import Bar, legend, whisker, words
from limelight.pages.markup import Section, plain_table, rendered, table_html, whole_page
from limelight.pages.pictures import thumbnail
from limelight.pages.pieces import visible
from limelight.pages.wording import minus, part_in_words, slice_table, sureness, written
from limelight.results import Explanation
from limelight.results.summary import (
    DifferingWord,
    RunDifference,
    RunSummary,
    SummarizedView,
    SummarizedWord,
)
from limelight.text import name_of_one, plural

if TYPE_CHECKING:
    from markupsafe import Markup

FIRST = 20  # rows that are seen at once; the others wait for a click, and cost no layout
_OPEN = 2  # representative texts that are unfolded from the start
_SHEETS = ("words.css", "page.css", "summary.css")


def summary_page(summary: RunSummary, *, above: "Markup | str" = "") -> str:
    """Return words, phrases, mistakes, representative texts and slices of every view."""
    noun = name_of_one(summary.units)
    body = rendered(
        "summary.html",
        summary=summary,
        labels=[f"{view.label} · {view.aim}" for view in summary.views],
        first=FIRST,
        opened=_OPEN,
        words=lambda e, **asked: words(thumbnail(e), **asked),
        thing="picture" if noun in ("patch", "segment") else "text",
        mean_map=_mean_map,
        legend=legend,
        written=written,
        sureness=sureness,
        bar=_bar,
        peak_of=_peak,
        share=part_in_words,
        differing=partial(_differing, noun=noun),
        slices=partial(_slices, noun=noun),
        noun=noun,
    )
    data = {"views": [_examples(view) for view in summary.views]}
    return whole_page(
        "What drives the model?",
        body,
        sheets=_SHEETS,
        script="summary.js",
        above=above,
        data=json.dumps(data, ensure_ascii=False, separators=(",", ":")),
    )


def _examples(view: SummarizedView) -> list[Any]:
    """Return what a click on a word shows: [word, [[id, score, before, word, after], …]]."""
    return [
        [
            visible(one.word),
            [
                [
                    visible(e.id),
                    float(f"{e.score:.4g}"),
                    *map(visible, (e.before, e.found, e.after)),
                ]
                for e in one.examples
            ],
        ]
        for one in (*view.supporting, *view.opposing)
    ]


def _mean_map(view: SummarizedView) -> "Explanation | None":
    """Return the mean score of every patch as if of one picture; None of texts and of segments.

    A patch that is in no list has no mean that is known to differ from 0, and stays plain.
    """
    picked = [one.explanation for one in view.representatives]
    for e in (*picked, *(one.explanation for one in view.mistakes)):
        if e is None or e.image is None or e.image.regions is not None:
            continue
        known = {one.word: one for one in (*view.supporting, *view.opposing)}
        found = [known.get(name) for name in e.features]
        return replace(
            e,
            text=f"the mean over {view.texts:,} pictures",
            scores=np.array([0.0 if one is None else one.mean for one in found]),
            stderr=np.array([0.0 if one is None else (one.high - one.low) / 3.92 for one in found]),
            image=replace(e.image, png=None),
        )
    return None


def _peak(found: Sequence[SummarizedWord]) -> float:
    return max((max(abs(one.low), abs(one.high)) for one in found), default=0.0)


def _bar(one: SummarizedWord, peak: float, signed: bool) -> Bar:
    """Return a bar of the shrunken mean, with a whisker over its interval.

    Lengths are distances from 0 on the side of the mean.
    """
    ends = (one.low, one.shrunken, one.high)
    if one.shrunken < 0:
        ends = (-one.high, -one.shrunken, -one.low)
    low, middle, high = (max(min(x * 96 / max(peak, 1e-300), 100.0), 0.0) for x in ends)
    hue = "n" if not signed else "f" if one.shrunken >= 0 else "a"
    return Bar("0", f"{middle:.2f}", hue, whisker(low, high))


def _differing(view: SummarizedView, noun: str) -> "Markup":
    groups = ("where right (texts)", "where wrong (texts)")
    heads = (noun, "called", *groups, "difference", "p (Holm)")
    return _difference_table(heads, view.differing, label="Right and wrong")


def _difference_table(
    heads: Sequence[str], found: Sequence[DifferingWord], *, label: str
) -> "Markup":
    """Return words in two groups of texts, with the difference and its interval."""
    rows = [
        (
            one.word,
            one.group,
            minus(f"{one.first:+.3f} ({one.first_texts:,})"),
            minus(f"{one.second:+.3f} ({one.second_texts:,})"),
            minus(f"{one.difference:+.3f} [{one.low:+.3f}, {one.high:+.3f}]"),
            f"{one.p_holm:.2g}",
        )
        for one in found
    ]
    return plain_table(heads, rows, label=label)


def _slices(view: SummarizedView, noun: str) -> "Markup":
    return table_html(slice_table(view, noun), label=f"Texts by {view.sliced_by}")


def difference_page(d: RunDifference) -> str:
    """Return the words and the texts that changed most."""
    said = (
        f"{d.texts:,} explanations of the same texts: {d.methods[0]} in “{d.first}”, then "
        f"{d.methods[1]} in “{d.second}”. {d.predictions.count:,} predictions changed, "
        f"{part_in_words(d.predictions)}. {d.apart[0]:,} texts are "
        f"only in the first run, {d.apart[1]:,} only in the second."
    )
    unit = "Scores are shares of a text's total size, since two methods have no common unit."
    noun = name_of_one(d.units)
    heads = (noun, "for", "first (texts)", "second (texts)", "difference", "p (Holm)")
    title, other = f"{plural(noun).capitalize()} that changed most", "Texts that changed most"
    none = f"No {noun}'s score changed for certain, of {d.compared:,} compared."
    changed = [
        (t.id, t.target, f"{t.change:.3f}", t.predicted, t.other_predicted) for t in d.changed
    ]
    texts = ("text", "for", "change (0 to 1)", "first says", "second says")
    found = [
        Section("The runs", said=said, note=unit if d.shares else ""),
        Section(title, tables=[("", _difference_table(heads, d.words, label=title))])
        if d.words
        else Section(title, said=none),
        Section(other, tables=[("", plain_table(texts, changed, label=other))]),
    ]
    body = rendered("sections.html", sections=found)
    return whole_page(
        "What changed between two runs?",
        body,
        sheets=_SHEETS,
        script="summary.js",
        data='{"views":[]}',
    )
