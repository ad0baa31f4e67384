"""Summaries of runs as JSON and CSV."""

__all__ = ["summary_to_csv", "summary_to_json"]

import json
from dataclasses import fields, is_dataclass
from typing import Any

from limelight.results.explanation import Explanation
from limelight.results.run_summary import RunSummary, SummarizedView, SummarizedWord
from limelight.results.table import csv_line
from limelight.text.characters import LONE_SURROGATE

_NUMBERS = (
    "texts", "occurrences", "mean", "mean_abs", "positive", "shrunken", "low", "high", "rare",
)  # fmt: skip
_HEAD = ("method", "target", "against", "kind", "word", *_NUMBERS)


def summary_to_json(summary: RunSummary, *, indent: int | None = None) -> str:
    """Return the summary as JSON; explanations in it have their own schema."""
    content = {"schema": "limelight.summary/1"} | _plain(summary)
    return LONE_SURROGATE.sub("\ufffd", json.dumps(content, ensure_ascii=False, indent=indent))


def _plain(value: Any) -> Any:
    if isinstance(value, Explanation):
        return json.loads(value.to_json())
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def summary_to_csv(summary: RunSummary) -> str:
    """Return a header and one line per view and word or phrase."""
    lines = [csv_line(_HEAD)]
    for view in summary.views:
        for kind, several in (
            ("for", view.supporting), ("against", view.opposing), ("phrase", view.phrases)
        ):  # fmt: skip
            lines += [csv_line(_cells(view, kind, one)) for one in several]
    return "".join(lines)


def _cells(view: SummarizedView, kind: str, word: SummarizedWord) -> list[Any]:
    numbers = [getattr(word, name) for name in _NUMBERS]
    kind = kind if view.signed else "size" if kind == "for" else kind
    return [view.method, view.target, view.against or "", kind, word.word, *numbers]
