"""Explanations on a terminal of any width and colour, and in a pipe."""

__all__ = ["comparison_text", "explanation_text", "explanations_text"]

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from limelight.render.disagreement import (
    Disagreement,
    against_reference,
    reference,
    strongest_disagreements,
    unranked,
)
from limelight.render.palette import largest
from limelight.render.terminal_tables import anchor_line, feature_table, pair_table
from limelight.render.terminal_words import Look, coloured_words, legend, look_of
from limelight.render.wording import aims, notices, precision_sentence, said, written
from limelight.results import Comparison, Explanation

NARROW = 72  # below, a method's name stands above its words, not beside them
MEASURE = 100  # a paragraph wider than this is hard to read


def explanation_text(e: Explanation) -> RenderableType:
    """Return the coloured text, its strongest features, and what the reader must know."""
    return _ExplanationView(e)


def explanations_text(several: Sequence[Explanation]) -> RenderableType:
    """Return explanations of several texts, one after the other."""
    views = [part for e in several for part in (_ExplanationView(e), Text())]
    return Group(*views[:-1])


def comparison_text(c: Comparison) -> RenderableType:
    """Return the paper's Figure 1: one line per method, then where they disagree."""
    return _ComparisonView(c)


@final
@dataclass(frozen=True)
class _ExplanationView:
    explanation: Explanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Group]:
        e, look = self.explanation, look_of(console, options)
        width = min(options.max_width, MEASURE)
        parts: list[RenderableType] = [
            _title(look, e.label, e),
            _prediction(e, look),
            Text(),
            Padding(coloured_words([e], look)[0], (0, 0, 0, 2)),
            Text(),
            legend([e], look),
            Text(),
            feature_table(e, look, width),
            *_asides(e, look),
            *_notices([e], look),
        ]
        yield Group(*(_bounded(part, width) for part in parts))


@final
@dataclass(frozen=True)
class _ComparisonView:
    comparison: Comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Group]:
        c, look = self.comparison, look_of(console, options)
        first, width = c.explanations[0], options.max_width
        lines = _stacked(c, look) if width < NARROW else _side_by_side(c, look)
        yield Group(
            _title(look, f"{len(c.explanations)} methods", first),
            _prediction(first, look),
            Text(),
            lines,
            Text(),
            *(_bounded(part, min(width, MEASURE)) for part in _below(c, look)),
        )


def _below(c: Comparison, look: Look) -> list[RenderableType]:
    parts: list[RenderableType] = [legend(c.explanations, look)]
    if len(c.explanations) > 1:
        parts += [Text(), _disagreement_table(c, look)]
        if sentence := unranked(c):
            parts.append(Text(look.safe(sentence), overflow="fold"))
        parts += _worst_pairs(c, look)
    return [*parts, *_notices(c.explanations, look, c.notices)]


def _bounded(part: RenderableType, width: int) -> RenderableType:
    """Keep a part within ``width`` columns, whatever the console offers."""
    grid = Table.grid()
    grid.add_column(max_width=width, overflow="fold")
    grid.add_row(part)
    return grid


def _title(look: Look, what: str, e: Explanation) -> Text:
    return Text.assemble(
        (look.safe(what), "bold"), " for ", (look.safe(aims(e)), "bold"), overflow="fold"
    )


def _prediction(e: Explanation, look: Look) -> Text:
    """Return e.g. "The model says positive (77.4 %, logit +1.234)."."""
    name, how_sure = said(e)
    line = Text("The model says ", overflow="fold")
    line.append(look.safe(name), "bold")
    return line.append(look.safe(how_sure))


def _asides(e: Explanation, look: Look) -> list[RenderableType]:
    """Return everything an explanation says besides its scores."""
    lines = [Text(precision_sentence(e), "dim")]
    if e.base_value is not None:
        lines.append(Text(f"With every word removed the model says {e.base_value:+.3f}.", "dim"))
    if e.intercept is not None:
        lines.append(Text(f"Intercept {e.intercept:+.3f}.", "dim"))
    extra: list[RenderableType] = []
    if e.pairs is not None and len(e.pairs.scores):
        extra += [Text(), pair_table(e, e.pairs, look)]
    if e.anchor is not None:
        extra += [Text(), anchor_line(e, e.anchor, look)]
    return [Text(), *lines, *extra]


def _notices(
    explanations: tuple[Explanation, ...] | list[Explanation], look: Look, more: Sequence[str] = ()
) -> list[Text]:
    found = [*more, *notices(explanations)]
    marked = [Text(look.safe(f"! {notice}"), "bold", overflow="fold") for notice in found]
    return [Text(), *marked] if marked else []


def _scale(e: Explanation, look: Look) -> Text:
    """Say which score has the full colour."""
    if not (peak := largest(e)):
        return Text("all scores 0", "dim")
    sign = "±" if e.signed else "0…"
    return Text(look.safe(f"{sign}{written(peak, peak=peak, signed=False)}"), "dim")


def _side_by_side(c: Comparison, look: Look) -> Table:
    grid = Table(
        box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=True, header_style="dim"
    )
    grid.add_column("method", no_wrap=True, max_width=18, overflow="ellipsis")
    grid.add_column("words", overflow="fold", ratio=1)
    grid.add_column("full colour" if look.colour else "largest", no_wrap=True, justify="right")
    long = len(c.text) > 2 * MEASURE
    for e, words in zip(c, coloured_words(c.explanations, look), strict=True):
        grid.add_row(Text(look.safe(e.label), "bold"), words, _scale(e, look))
        if long:
            grid.add_row()
    return grid


def _stacked(c: Comparison, look: Look) -> Group:
    lines: list[RenderableType] = []
    for e, words in zip(c, coloured_words(c.explanations, look), strict=True):
        head = (
            Text(look.safe(e.label), "bold", overflow="fold").append("  ").append(_scale(e, look))
        )
        lines += [head, Padding(words, (0, 0, 1, 2))]
    return Group(*lines)


def _disagreement_table(c: Comparison, look: Look) -> Table:
    held_against = look.safe(c.explanations[reference(c)].label)
    table = Table(
        title=Text(f"Where they disagree with {held_against}", "bold"),
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        header_style="dim",
    )
    table.add_column("method", overflow="ellipsis", max_width=18)
    table.add_column("rank\ncorr.", justify="right")
    table.add_column("sign\nclashes", justify="right")
    table.add_column("top 3\nshared", justify="right")
    for row in against_reference(c):
        table.add_row(Text(look.safe(row.first)), *_cells(row, look))
    return table


def _cells(row: Disagreement, look: Look) -> tuple[Text, Text, Text]:
    none = look.safe("–")
    ranks, signs = row.rank_correlation, row.sign_conflicts
    weak = ranks is not None and ranks < 0.5
    shared = none if row.shared_top is None else f"{row.shared_top} of {row.top}"
    return (
        Text(none if ranks is None else f"{ranks:+.2f}", "bold" if weak else ""),
        Text(none if signs is None else str(signs), "bold" if signs else ""),
        Text(shared, "bold" if row.shared_top == 0 else ""),
    )


def _worst_pairs(c: Comparison, look: Look) -> list[Text]:
    pairs = strongest_disagreements(c)
    if len(c.explanations) < 3 or not pairs:
        return []
    lines = [Text(), Text("Furthest apart", "bold")]
    for pair in pairs:
        names = look.safe(f"{pair.first} and {pair.second}: ")
        lines.append(Text(f"{names}{pair.sentence}", overflow="fold"))
    return lines
