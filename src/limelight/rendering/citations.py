"""Citations on a terminal, as HTML and as Markdown: an answer with a mark for each source."""

import re
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from limelight.rendering import wording
from limelight.rendering.markup import render_fragment, render_page, render_template, table_html
from limelight.rendering.terminal import Look, terminal_view
from limelight.rendering.text_parts import visible_text
from limelight.results.citations import Citations
from limelight.results.table import Column, Table
from limelight.text import AnswerQuery, pluralize

_NO_SOURCE = "no source"
# Any of them may begin emphasis, a link, a footnote, a table, a formula, HTML or an attribute.
_MARKDOWN = re.compile(r"[\\`*_\[\]{}<>|~^$&#@!]")
# At the start of a line, these begin a list, a heading, a rule or a definition.
_LINE_START = re.compile(r"^([-+=:]|\d{1,9}(?=[.)]))", re.MULTILINE)
_LINK = re.compile(r"(?i)(?<=[a-z]):(?=//)|(?<=www)\.")


def meaning_sentence(c: Citations) -> str:
    """Return a sentence about the cited features and their certainty."""
    first = c.explanations[0]
    sentence = (
        f"Each sentence of the answer cites the {pluralize(first.feature_noun)} whose scores are "
        f"certainly above {c.threshold:g}"
    )
    if not _is_sampled(c):
        return f"{sentence}."
    count = len(c) * len(first)
    return f"{sentence} ({100 * c.confidence:g} % confidence for all {count:,} scores together)."


def _is_sampled(c: Citations) -> bool:
    """Return whether a score has a sampling error."""
    return any(e.stderr is not None and bool(e.stderr.any()) for e in c.explanations)


def number_sources(c: Citations) -> dict[int, int]:
    """Return the footnote number of each cited feature, in the order of the answer."""
    cited = dict.fromkeys(j for features in c.features for j in features)
    return {j: number for number, j in enumerate(cited, start=1)}


def _source_name(c: Citations, feature: int) -> str:
    """Return the id of the document or message of a feature, or "" without parts."""
    return c.explanations[0].part_names[feature]


def citation_table(c: Citations) -> Table:
    """Return the score and the lower limit of each citation."""
    numbers, is_sampled = number_sources(c), _is_sampled(c)
    columns = [
        Column("sentence", "d"),
        Column("source", "s"),
        Column("score", "+.3f"),
        Column("at least", "+.3f"),
    ]
    rows = [
        (i + 1, f"[{numbers[j]}]", float(e.scores[j]), float(c.limits[i, j]))
        for i, (e, features) in enumerate(zip(c.explanations, c.features, strict=True))
        for j in features
    ]
    if not is_sampled:
        return Table(columns[:3], [row[:3] for row in rows])
    return Table(columns, rows)


@terminal_view()
def citations_text(c: Citations, look: Look) -> Iterator[RenderableType]:
    """Yield the answer with its marks, and the sources."""
    numbers = number_sources(c)
    yield look.line(f"Citations of the answer, by {c.explanations[0].label}", "bold")
    yield look.line(meaning_sentence(c), "dim")
    answer = Text(overflow="fold")
    for statement, features in zip(c.statements, c.features, strict=True):
        marks = "".join(f"[{numbers[j]}]" for j in features) or f"({_NO_SOURCE})"
        answer.append(look.safe(statement)).append(f" {marks}\n", "bold" if features else "dim")
    answer.rstrip()
    yield Padding(answer, (1, 0, 1, 2))
    for j, number in numbers.items():
        name = f"{_source_name(c, j)}: " if _source_name(c, j) else ""
        yield look.line(f"[{number}] {name}{c.quote_feature(j)}")
    yield look.line(wording.prompt_sentence(c.explanations[0]), "dim")
    yield from look.warning_lines((*c.warnings, *wording.merge_warnings(c.explanations)))


def _view(c: Citations) -> dict[str, Any]:
    """Return the statements and sources for a template."""
    numbers = number_sources(c)
    statements = [
        {
            "text": text,
            "marks": [
                {"number": numbers[j], "title": f"score {e.scores[j]:+.3f}"} for j in features
            ],
        }
        for text, e, features in zip(c.statements, c.explanations, c.features, strict=True)
    ]
    sources = [
        # Elements of an ordered list, which number themselves.
        {"name": _source_name(c, j), "quote": c.quote_feature(j, 200)}
        for j in numbers
    ]
    return {"statements": statements, "sources": sources}


def citations_page(c: Citations) -> str:
    """Return citations as a self-contained page."""
    first = c.explanations[0]
    query = first.query if isinstance(first.query, AnswerQuery) else None
    prompt = query.prompt if query is not None else ""
    settings = {
        "question": "" if query is None else query.question,
        "prompt": prompt or first.text,
        "method": first.label,
        "replacement": first.settings.get("replacement", ""),
        "confidence": f"{c.confidence:g}",
        "threshold": f"{c.threshold:g}",
        "model": first.model,
        "version": first.version,
    }
    body = render_template(
        "citations.html",
        meaning=meaning_sentence(c),
        view=_view(c),
        warnings=(*c.warnings, *wording.merge_warnings(c.explanations)),
        scores=table_html(citation_table(c)) if any(c.features) else "",
        settings=[(name, value) for name, value in settings.items() if value],
    )
    return render_page(
        f"Which {pluralize(first.feature_noun)} support which sentence of the answer?",
        body,
        sheets=("words.css", "page.css"),
        script="theme.js",
        data=c.to_json(),
    )


def citations_fragment(c: Citations) -> str:
    """Return citations for a notebook, an app or a mail."""
    return render_fragment(
        "citations_fragment.html",
        meaning=meaning_sentence(c),
        prompt=wording.prompt_sentence(c.explanations[0]),
        view=_view(c),
        warnings=(*c.warnings, *wording.merge_warnings(c.explanations)),
    )


def citations_markdown(c: Citations) -> str:
    """Return the answer as Markdown with a footnote for each cited feature."""
    numbers, answer = number_sources(c), list[str]()
    for e, features in zip(c.explanations, c.features, strict=True):
        query = e.query
        if not isinstance(query, AnswerQuery):  # checked by Citations
            continue
        text = query.text[query.start : query.end]
        gap = text[len(text.rstrip()) :] if text.strip() else text
        marks = "".join(f"[^{numbers[j]}]" for j in features) or "[^none]"
        # A line end or an empty line between two sentences stays.
        space = "\n\n" if gap.count("\n") > 1 else "\n" if "\n" in gap else " " if gap else ""
        answer.append(f"{escape_markdown(text.strip())}{marks}{space}" if text.strip() else "")
    notes = [
        f"[^{number}]: " + _footnote(_source_name(c, j), c.quote_feature(j))
        for j, number in numbers.items()
    ]
    if not all(c.features):
        notes.append("[^none]: No source is certain.")
    return "".join(answer).strip() + "\n\n" + "\n".join(notes) + "\n"


def _footnote(name: str, quote: str) -> str:
    """Return the text of a footnote: the id of a source and its beginning in quotes."""
    prefix = f"{escape_markdown(' '.join(name.split()))}: " if name else ""
    return f"{prefix}“{escape_markdown(quote)}”"


def escape_markdown(text: str) -> str:
    """Return a text that Markdown shows as it is, without HTML, links or control characters."""
    lines = [line.strip() for line in visible_text(text).replace("\t", " ").split("\n")]
    escaped = _MARKDOWN.sub(r"\\\g<0>", "\n".join(lines))
    escaped = _LINE_START.sub(_escape_line_start, escaped)
    return _LINK.sub(r"\\\g<0>", escaped)


def _escape_line_start(match: re.Match[str]) -> str:
    """Escape a character that begins a list, or the full stop after a number."""
    start = match.group()
    return f"{start}\\" if start.isdigit() else f"\\{start}"
