"""Summaries of a run and comparisons of two runs, as named tables of plain values."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from limelight.results.explanation import target_name
from limelight.results.mixins import HtmlMixin, JsonOutputMixin, TableMixin
from limelight.results.table import Table, plain_table
from limelight.text import truncate_line
from limelight.text.characters import LONE_SURROGATE

VIEW = ("method", "target", "against")  # the columns that name the view of a row
_TESTED = ("first", "first_texts", "second", "second_texts", "difference", "low", "high", "p_holm")
RIGHT = ("right", "labeled", "right_low", "right_high")
# The columns of every table of a summary. docs/reference/formats.md says what each of them means.
COLUMNS = {
    "views": (*VIEW, "label", "signed", "texts", "vocabulary", *RIGHT, "compared"),
    "words": (
        *VIEW, "kind", "word", "texts", "occurrences", "mean", "mean_abs", "positive", "shrunken",
        "low", "high", "rare",
    ),
    "examples": (*VIEW, "word", "row", "id", "score", "before", "match", "after"),
    "mistakes": (
        *VIEW, "row", "id", "predicted", "label", "confidence", "margin", "words", "explanation",
    ),
    "differing_words": (*VIEW, "word", "group", *_TESTED),
    "representatives": (*VIEW, "row", "id", "covered", "explanation"),
    "slices": (
        *VIEW, "slice", "texts", "predicted", "predicted_low", "predicted_high", *RIGHT,
    ),
    "slice_words": (*VIEW, "word", "group", *_TESTED),
    "decisions": (
        *VIEW, "texts", "single", "single_low", "single_high", "robust", "unsettled", "median_size",
    ),
}  # fmt: skip
COMPARISON_COLUMNS = {
    "words": (
        "word", "target", "first", "second", "difference", "low", "high", "p_holm", "texts",
    ),
    "changed_texts": (
        "row", "other_row", "id", "target", "predicted", "other_predicted", "change",
    ),
}  # fmt: skip


def build_table(columns: Iterable[str], records: Iterable[Mapping[str, Any]]) -> Table:
    """Return a table with the values of ``records`` in the given columns."""
    columns = list(columns)
    return plain_table(columns, [[record[name] for name in columns] for record in records])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary(HtmlMixin, TableMixin, JsonOutputMixin):
    """The words and texts that drive a model, as tables. A view is a method and an explained class.

    Every table has the columns ``method``, ``target`` and ``against``, which name the view:
    nothing is averaged over methods or classes.

    * ``views``: how many texts a view has, and how many of their predictions are right.
    * ``words``: the strongest words and phrases with means and intervals; ``kind`` is "for",
      "against", "phrase", or "size" for a method without signs.
    * ``examples``: the texts in which each of these words scores most.
    * ``differing_words``: words whose mean scores differ between right (``first``) and wrong
      (``second``) predictions of the class ``group``.
    * ``mistakes`` and ``representatives``: the most confident mistakes, and the texts that
      together show the words that matter most. ``explanation`` is an ``Explanation``, or None
      where the run stores no texts.
    * ``slices``: how often the class of the view is predicted, and how often that is right, in
      each slice by ``sliced_by``.
    * ``decisions``: how many texts depend on a ``single`` feature, whose removal changes the
      prediction, and how many are ``robust``: no removal changes it. Texts whose smallest removal
      is not known are ``unsettled``. Empty unless the run stores counterfactuals.
    * ``slice_words``: words whose mean scores differ between the slice ``group`` (``second``) and
      all other texts (``first``).
    """

    _terminal = "summary.summary_text"
    _page = "summary.summary_page"

    name: str
    texts: int
    total: int
    failed: int
    classes: tuple[str, ...]
    scale: str
    sliced_by: str | None
    views: Table
    words: Table
    examples: Table
    differing_words: Table
    mistakes: Table
    representatives: Table
    slices: Table
    slice_words: Table
    decisions: Table
    warnings: tuple[str, ...]
    model: str
    version: str
    feature_kind: str = "words"

    def __repr__(self) -> str:
        views = self.views.records()
        targets = [truncate_line(target_name(v["target"], v["against"]), 20) for v in views]
        names = ", ".join(
            f"{view['method']} for {target}" for view, target in zip(views, targets, strict=True)
        )
        return f"<RunSummary of {self.texts:,} texts: {truncate_line(names, 120)}>"

    def split_views(self) -> "list[RunSummary]":
        """Return a summary for each view, with only the rows of that view."""
        tables = {name: getattr(self, name) for name in COLUMNS}
        groups = {name: table.group_rows(*VIEW) for name, table in tables.items()}
        empty = {name: replace(table, rows=()) for name, table in tables.items()}
        return [
            replace(self, **{name: groups[name].get(view, empty[name]) for name in tables})
            for view in groups["views"]
        ]

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the summary as JSON of the schema ``limelight.summary/2``.

        A table is a list of rows. Explanations have their own schema.
        """
        return _encode_tables(self, "limelight.summary/2", indent)

    def _table(self) -> Table:
        """Return the strongest words and phrases. ``Run.words`` has all words."""
        return self.words


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison(HtmlMixin, TableMixin, JsonOutputMixin):
    """The differences of two runs on the texts that both explain.

    * ``words``: words whose mean paired difference is not chance by Holm's test, with their means
      over the texts in which both runs have the word; ``target`` is the explained class.
    * ``changed_texts``: the texts that changed most. ``change`` is Σ|b − a| / (Σ|a| + Σ|b|) over
      the words of a text, from 0 to 1.

    ``shares`` says that scores are shares of a text's total size, as between two methods, whose
    scores have no common unit. ``compared`` words were tested. ``changed_predictions`` counts the
    ``texts`` whose predicted class changed, with the interval of that share; ``only_first`` and
    ``only_second`` count texts that one of the runs alone has.
    """

    _terminal = "summary.run_comparison_text"
    _page = "summary.run_comparison_page"

    first: str
    second: str
    methods: tuple[str, str]
    texts: int
    only_first: int
    only_second: int
    shares: bool
    compared: int
    changed_predictions: int
    changed_low: float
    changed_high: float
    words: Table
    changed_texts: Table
    feature_kind: str = "words"

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the comparison as JSON of the schema ``limelight.run-comparison/1``."""
        return _encode_tables(self, "limelight.run-comparison/1", indent)

    def _table(self) -> Table:
        return self.words


def _encode_tables(result: Any, schema: str, indent: int | None) -> str:
    """Return the fields of a result as JSON, without ``feature_kind`` if features are words."""
    content: dict[str, Any] = {"schema": schema}
    for name in (field.name for field in fields(result)):
        value = getattr(result, name)
        if (name, value) != ("feature_kind", "words"):
            content[name] = value.records() if isinstance(value, Table) else value
    # Explanations are the only values without a form in JSON. They have their own schema.
    text = json.dumps(
        content, ensure_ascii=False, indent=indent, default=lambda e: json.loads(e.to_json())
    )
    # Texts of a run may contain half a character, which no encoder of a file accepts.
    return LONE_SURROGATE.sub("\ufffd", text)
