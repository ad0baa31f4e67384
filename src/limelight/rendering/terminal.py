"""Draw explanations on a terminal of any width and color, and in a pipe.

Other views use two functions of this module. :func:`terminal_view` decorates a function that draws
a value on a console with a given :class:`Look`, and :func:`table_text` draws any
``results.table.Table``.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from rich.color import Color
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from limelight.rendering import wording
from limelight.rendering.images import image_cards
from limelight.rendering.palette import (
    FAINTEST,
    TERMINAL_INK,
    Hue,
    largest_score,
    relative_scores,
    select_hue,
    strongest_feature,
    strongest_indices,
    terminal_color,
)
from limelight.rendering.text_parts import (
    TextPart,
    collapse_spaces,
    shorten_unread,
    split_text,
    visible_text,
)
from limelight.results import Comparison, Explanation, SpanExplanations
from limelight.results.table import Cell, Column, Section, Table
from limelight.text import Image, pluralize

if TYPE_CHECKING:  # which a command that explains does without
    from limelight.results.method_table import MethodRow

WHITE = Color.from_rgb(255, 255, 255)
MIN_FILLED = 0.25  # strength from which a word is white on color, not colored
PAST_WINDOW = Style(dim=True, italic=True)
CUT_MARK = " ⟦not read⟧"
NARROW = 72  # columns; on a narrower console, the name of a method is above its words
MAX_WIDTH = 100  # columns of a paragraph; a wider one is hard to read
FULL_WIDTH = 10**6  # columns, more than any terminal has
SHOWN_FEATURES, SHOWN_PAIRS, SHOWN_SPANS = 10, 5, 5
_STYLES = {"bold": "bold", "weak": "bold", "dim": "dim", "ok": "green", "failed": "bold red"}
_LABEL = len("second: ")
_GAP = 2  # letters between two columns
_MIN_LETTERS = 4  # of a text column on a narrow terminal
_MAX_LETTERS = 12  # of a text column without a limit, when the used width is estimated
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Look:
    """The capabilities of the console: whether it has colors, its encoding and its width."""

    color: bool
    encoding: str
    width: int

    @property
    def ascii(self) -> bool:
        """Whether symbols beyond ASCII must be avoided."""
        return not self.encoding.lower().startswith("utf")

    def safe(self, text: str) -> str:
        """Escape the control characters of ``text``, and replace letters that cannot be encoded."""
        visible = visible_text(text)
        return (
            visible.encode(self.encoding, "replace").decode(self.encoding)
            if self.ascii
            else visible
        )

    def line(self, text: str, style: str | Style = "") -> Text:
        """Return ``text`` as a paragraph without control characters."""
        return Text(self.safe(text), style, overflow="fold")

    def ink(self, hue: Hue) -> Style:
        """Return the color of letters and bars that are for or against, or have no sign."""
        return Style(color=Color.from_rgb(*TERMINAL_INK[hue])) if self.color else Style.null()

    def warning_lines(self, warnings: Iterable[str]) -> list[Text]:
        """Return an empty line and a line for each warning; no line without warnings."""
        lines = [self.line(f"Warning: {warning}", "bold") for warning in warnings]
        return [Text(), *lines] if lines else []


@dataclass(frozen=True)
class View(Generic[Value]):
    """A value that is drawn when the console is known, on at most ``max_width`` columns."""

    draw: Callable[[Value, Look], Iterable[RenderableType]]
    max_width: int
    value: Value

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Constrain]:
        # NO_COLOR and pipes have no color.
        color = console.color_system is not None and not console.no_color
        look = Look(color, options.encoding, min(options.max_width, self.max_width))
        yield Constrain(Group(*self.draw(self.value, look)), look.width)


def terminal_view(
    max_width: int = MAX_WIDTH,
) -> Callable[[Callable[[Value, Look], Iterable[RenderableType]]], Callable[[Value], View[Value]]]:
    """Return a decorator for a function that draws a value; it then returns a :class:`View`."""
    return lambda draw: partial(View, draw, max_width)


def table_text(table: Table, look: Look) -> RichTable:
    """Fit a table into the width: texts and headings become narrower, and numbers do not."""
    width = look.width
    columns = [(i, column) for i, column in enumerate(table.columns) if width >= column.min_width]
    headings = {i: look.line(column.short_heading or column.heading) for i, column in columns}
    cells = {
        i: [_cell(row[i], column, look) for row in table.rows]
        for i, column in columns
        if not column.draw_width
    }
    if table.left_out:
        cells[0].append(_crop_lines(look.line(f"and {table.left_out:,} more", "dim"), look))
    widest = {i: max((text.cell_len for text in texts), default=0) for i, texts in cells.items()}
    heading_widths = {
        i: max(map(len, heading.plain.split("\n"))) for i, heading in headings.items()
    }
    max_widths = {
        i: column.max_letters or (width if column.number_format or column.fold else _MAX_LETTERS)
        for i, column in columns
    }
    used_widths = [
        min(max(widest[i], heading_widths[i]), max_widths[i]) + _GAP
        for i, column in columns
        if not column.draw_width
    ]
    # If there is too little room, columns move together and headings break.
    is_crowded = sum(used_widths) > width + _GAP
    free_width = (width - sum(used_widths)) // max(1, len(columns) - len(used_widths))
    rich_table = RichTable(
        title=look.line(table.title, "bold") if table.title else None,
        title_justify="left",
        box=None,
        padding=(0, 1 if is_crowded else _GAP, 0, 0),
        pad_edge=False,
        header_style="dim",
    )
    for i, column in columns:
        if column.draw_width:
            letters = min(max(free_width, column.draw_width[0]), column.draw_width[1])
            cells[i] = [row[i](letters, look) if row[i] else Text() for row in table.rows]
            heading = column.draw_heading(letters, look) if column.draw_heading else headings[i]
            rich_table.add_column(heading, no_wrap=True, overflow="crop")
        elif column.number_format:
            heading = headings[i].plain.replace(" ", "\n") if is_crowded else headings[i]
            rich_table.add_column(heading, justify="right", no_wrap=True)
        else:
            min_width = min(widest[i], _MIN_LETTERS)
            rich_table.add_column(
                _crop_lines(headings[i], look),
                min_width=min_width,
                max_width=column.max_letters or None,
            )
    for row in zip_longest(*(cells[i] for i, _ in columns)):
        rich_table.add_row(*row)
    return rich_table


def sections_text(sections: Iterable[Section], look: Look) -> Iterator[RenderableType]:
    """Yield sections with empty lines between them, and the number of columns without room."""
    hidden_columns = 0
    for i, section in enumerate(sections):
        yield from [Text()] * bool(i)
        yield look.line(section.title, "bold")
        styles = ((section.sentence, ""), (section.note, "dim"))
        yield from (look.line(sentence, style) for sentence, style in styles if sentence)
        for number, table in enumerate(section.tables):
            yield from [Text()] * bool(number or section.sentence or section.note)
            yield table_text(table, look)
            hidden_columns += sum(
                look.width < column.min_width < FULL_WIDTH for column in table.columns
            )
        yield from look.warning_lines(section.warnings)
    if hidden_columns:
        yield Text()
        columns = f"{hidden_columns} column{'s' * (hidden_columns > 1)}"
        yield look.line(f"{columns} hidden. Use --output page.html to see all.", "dim")


@terminal_view(FULL_WIDTH)
def table_view(table: Table, look: Look) -> Iterator[RenderableType]:
    """Return a table that prints itself."""
    yield table_text(table, look)


def _cell(value: Any, column: Column, look: Look) -> Text:
    """Return the text of a cell."""
    value, mark = value if isinstance(value, Cell) else (value, column.mark)
    style = look.ink(mark) if mark in TERMINAL_INK else _STYLES.get(mark, "")
    text = look.line(re.sub(r"\s+", " ", column.cell_text(value)), style)
    return text if column.fold else _crop_lines(text, look)


def _crop_lines(text: Text, look: Look) -> Text:
    """Crop the lines of ``text`` instead of breaking them."""
    text.no_wrap, text.overflow = True, "crop" if look.ascii else "ellipsis"
    return text


def draw_bar(strength: float, hue: Hue, letters: int, look: Look) -> Text:
    """Draw a bar whose length is ``letters`` times the size of ``strength``.

    Parameters
    ----------
    strength
        The score, divided by the largest score.
    hue
        The sign of the score, as a color.
    letters
        The length of the longest bar.
    look
        The colors and symbols of the terminal.

    Returns
    -------
    The bar as colored letters.
    """
    cells = abs(strength) * letters
    if look.ascii:
        bar = ("#" if strength >= 0 else "-") * round(cells)
    else:
        bar = "━" * int(cells) + ("╸" if cells % 1 >= 0.5 else "")
    return Text(bar, look.ink(hue))


@terminal_view()
def explanation_text(e: Explanation, look: Look) -> Iterator[RenderableType]:
    """Yield the colored text, a table of the strongest features, and warnings."""
    yield from _headings([e], e.label, look)
    if e.image is None:
        yield Padding(colored_words([e], look)[0], (0, 0, 0, 2))
    elif look.color and not look.ascii:
        yield _card_columns([e], e.image, look)
    yield Text()
    yield legend_text([e], look)
    yield Text()
    yield table_text(_feature_table(e, look.width), look)
    yield Text()
    yield look.line(wording.precision_sentence(e), "dim")
    if ranks := wording.ranks_sentence(e):
        yield look.line(ranks, "dim")
    if base := wording.base_sentence(e):
        yield look.line(base, "dim")
    if prompt := wording.prompt_sentence(e):
        yield look.line(prompt, "dim")
    if e.intercept is not None:
        yield look.line(f"{e.label} intercept: {e.intercept:+.3f}.", "dim")
    if e.pairs is not None and len(e.pairs.scores):
        yield Text()
        yield table_text(wording.pair_table(e, e.pairs, SHOWN_PAIRS), look)
    if e.anchor is not None:
        yield Text()
        yield look.line(wording.anchor_sentence(e, e.anchor))
    yield from look.warning_lines(wording.merge_warnings([e]))


def explanations_text(explanations: Sequence[Explanation]) -> RenderableType:
    """Return explanations of texts, one after the other."""
    views = [view for e in explanations for view in (explanation_text(e), Text())]
    return Group(*views[:-1])


@terminal_view()
def spans_text(explanations: SpanExplanations, look: Look) -> Iterator[RenderableType]:
    """Yield the text with its spans, and a table of the scores of words for each span."""
    if not len(explanations):
        yield look.line("The model finds no span in this text.")
        return
    first = explanations[0]
    yield look.line(f"{first.label} of {explanations.count_phrase}", "bold")
    yield Padding(_mark_spans(explanations, look), (1, 0, 1, 2))
    yield from _score_tables(
        explanations.explanations, wording.span_labels(explanations, "for {}"), look
    )
    yield Text()
    if sentence := wording.protected_sentence(explanations):
        yield look.line(sentence, "dim")
    yield look.line(wording.precision_sentence(first), "dim")
    if prompt := wording.prompt_sentence(first):
        yield look.line(prompt, "dim")
    yield from look.warning_lines(wording.merge_warnings(explanations))


def _mark_spans(explanations: SpanExplanations, look: Look) -> Text:
    """Put every span of the text in brackets, with its class after it; list an answer's parts."""
    text = Text(overflow="fold")
    for part, number, tag in wording.labeled_parts(explanations):
        if number is not None:
            sentence = f"{chr(10) * bool(number)}{number + 1}. {part.strip()}"
            part = f"[{part}]" if explanations.answer is None else sentence
        text.append(look.safe(part), "bold" * bool(tag))
        text.append(look.safe(f" {tag}" * bool(tag)), "dim")
    return text


def _score_tables(
    explanations: Sequence[Explanation], labels: Sequence[str], look: Look
) -> Iterator[RenderableType]:
    """Yield tables of the strongest features and their scores, as many side by side as fit."""
    column_width = 12 if explanations[0].stderr is None else 20
    # 14 columns remain for the words.
    block_size = min(max((look.width - 14) // column_width, 1), SHOWN_SPANS)
    for start in range(0, len(explanations), block_size):
        block = slice(start, start + block_size)
        yield from [Text()] * bool(start)
        yield table_text(_score_table(explanations[block], labels[block]), look)


def _score_table(explanations: Sequence[Explanation], labels: Sequence[str]) -> Table:
    """Return a table of the strongest features with their score in each explanation."""
    order = strongest_indices(
        np.abs([relative_scores(e) for e in explanations]).max(axis=0), SHOWN_FEATURES
    )
    widest = 60 if explanations[0].has_block_features else 24
    return wording.score_table(explanations, labels, sorted(order), widest=widest)


@terminal_view(FULL_WIDTH)
def comparison_text(c: Comparison, look: Look) -> Iterator[RenderableType]:
    """Yield the colored text by each method, and then a table of disagreements."""
    yield from _headings(c.explanations, f"{len(c)} methods", look)
    if (image := c.explanations[0].image) is None:
        yield from _stack_methods(c, look) if look.width < NARROW else [_side_by_side(c, look)]
    elif look.color and not look.ascii:
        yield _card_columns(c.explanations, image, look)
    elif len(c) > 1:  # without colors there is no image to see
        yield from _score_tables(c.explanations, [e.label for e in c], look)
    yield Text()
    look = replace(look, width=min(look.width, MAX_WIDTH))
    yield Constrain(Group(*_comparison_notes(c, look)), look.width)


def _headings(explanations: Sequence[Explanation], title: str, look: Look) -> Iterator[Text]:
    """Yield the title with the target, and a line with the prediction and the marks of words."""
    target = look.safe(
        wording.quoted_target(explanations[0]) + wording.query_phrase(explanations[0])
    )
    yield Text.assemble((look.safe(title), "bold"), " for ", (target, "bold"))
    before, predicted, after = wording.headline(
        explanations, wording.COLORS if look.color else wording.SIGNS
    )
    hint = wording.target_hint(explanations[0])
    line = look.line(before).append(look.safe(predicted), "bold").append(look.safe(after))
    yield line.append(f" {hint}" * bool(hint))
    yield Text()


def _feature_table(e: Explanation, width: int) -> Table:
    """Return a table of the strongest features with scores, standard errors and bars."""
    order, sizes = strongest_indices(e.scores, SHOWN_FEATURES), relative_scores(e).tolist()
    widest = max(8, width // 3) if e.image is None else 22
    table = wording.score_table([e], ["score"], order, widest=widest)
    bars = [partial(draw_bar, sizes[j], select_hue(e, sizes[j])) for j in order]
    rows = [(*row, bar) for row, bar in zip(table.rows, bars, strict=True)]
    return replace(table, columns=[*table.columns, Column(draw_width=(4, 40))], rows=rows)


def word_style(hue: Hue, strength: float, *, strongest: bool = False) -> Style:
    """Return the style of a word: plain if it is weak, then colored, then white on color."""
    if abs(strength) < FAINTEST:
        return Style.null()
    if abs(strength) < MIN_FILLED:
        return Style(color=Color.from_rgb(*TERMINAL_INK[hue]))
    background = Color.from_rgb(*terminal_color(hue, strength))
    return Style(color=WHITE, bgcolor=background, bold=strongest, underline=strongest)


def colored_words(explanations: Sequence[Explanation], look: Look) -> list[Text]:
    """Color the words of the text by each explanation; the text is split only once."""
    parts = shorten_unread(split_text(explanations[0]), " [not read]" if look.ascii else CUT_MARK)
    return [_color_parts(e, parts, look) for e in explanations]


def _color_parts(e: Explanation, parts: Sequence[TextPart], look: Look) -> Text:
    """Color the parts of a text by their scores, or write scores behind words without colors."""
    sizes, strongest = relative_scores(e), strongest_feature(e)
    text = Text(overflow="fold")
    for part in parts:
        if part.label:
            name = look.safe(collapse_spaces(part.label))  # files and documents may have any name
            text.append("\n" if text else "").append(f"{name}: ".rjust(_LABEL), "dim")
            continue
        visible = look.safe(collapse_spaces(part.text))
        if e.has_block_features and not visible.strip():
            text.append("\n")  # each on its own line
        elif part.feature is None:
            text.append(visible, PAST_WINDOW if not part.is_read else "")
        elif look.color:
            size = float(sizes[part.feature])
            style = word_style(select_hue(e, size), size, strongest=part.feature == strongest)
            text.append(visible, style)
        else:
            text.append(_add_score(e, part.feature, visible, strongest=part.feature == strongest))
    text.rstrip()  # a file ends in a line end
    return text


def _add_score(e: Explanation, feature: int, word: str, *, strongest: bool) -> str:
    """Write the score behind a word: ``great[+0.81]``, or ``great[0.81]`` without signs.

    Words with scores near 0 get no score. The brackets separate the score from the text around it,
    which may be "7.75" or a full stop.
    """
    score, peak = float(e.scores[feature]), largest_score(e)
    if abs(score) < FAINTEST * peak or not peak:
        return word
    number = wording.format_number(
        score if e.signed else abs(score), peak=peak, signed=e.signed, digits=2
    )
    return f"*{word}[{number}]*" if strongest else f"{word}[{number}]"


def _card_columns(explanations: Sequence[Explanation], image: Image, look: Look) -> Padding:
    """Return the image with its scores by each method, as many side by side as fit."""
    columns, cards = image_cards(explanations, image, look.width - _GAP)
    groups = [
        Group(_crop_lines(look.line(label, "bold"), look), pixels, Text())
        for label, pixels in cards
    ]
    return Padding(Columns(groups, width=columns, padding=(0, _GAP)), (0, 0, 0, 2))


def legend_text(explanations: Sequence[Explanation], look: Look) -> Text:
    """Return the legend of colors, signs and marks."""
    meanings = {
        hue: look.safe(meaning) for hue, meaning in wording.hue_meanings(explanations).items()
    }
    if meanings.get("against", "").startswith("against "):
        meanings["against"] = "against"  # it follows "for …", and lines are short
    text, noun = Text(style="dim", overflow="fold"), explanations[0].feature_noun
    has_words = explanations[0].image is None
    if look.color:
        for hue, meaning in meanings.items():
            text.append(f" {meaning} ", word_style(hue, 1.0) + Style(dim=False)).append(" ")
        scale = ", each method on its own scale" if len(explanations) > 1 else ""
        text.append(f"stronger color: larger score{scale}")
        if has_words:
            text.append("; ").append(f"strongest {noun}", "underline")
        text.append(".")
    else:
        marks = {"for": "[+]", "against": "[-]", "neutral": "[number]"}
        signs = {hue: f"{marks[hue]} {meaning}" for hue, meaning in meanings.items()}
        neutral = signs.pop("neutral", "")
        marked = [", ".join(signs.values()), neutral, f"*strongest {noun}*" * has_words]
        text.append(f"{'; '.join(filter(None, marked))}.")
        if has_words:
            text.append(f" {pluralize(noun).capitalize()} without a number score below ")
            text.append(f"{FAINTEST:.0%} of the largest.")
    if any(len(spans) > 1 for spans in explanations[0].spans):
        text.append(f" {wording.occurrences_sentence(explanations[0])}")
    return text


def _side_by_side(c: Comparison, look: Look) -> RichTable:
    """Return a table with a row for each method: its name, the colored text and the scale."""
    grid = RichTable(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column("method", no_wrap=True, max_width=18, overflow="ellipsis")
    grid.add_column(pluralize(c.explanations[0].feature_noun), overflow="fold", ratio=1)
    grid.add_column("scale", no_wrap=True, justify="right")
    is_long = len(c.text) > 2 * MAX_WIDTH
    for e, words in zip(c, colored_words(c.explanations, look), strict=True):
        note = wording.scale_note(e, zero_to="0…")  # the column is taken from the words
        grid.add_row(Text(look.safe(e.label), "bold"), words, look.line(note, "dim"))
        if is_long:
            grid.add_row()
    return grid


def _stack_methods(c: Comparison, look: Look) -> Iterator[RenderableType]:
    """Yield the name of each method, with the colored text below."""
    for e, words in zip(c, colored_words(c.explanations, look), strict=True):
        note = look.safe(wording.scale_note(e, zero_to="0…"))
        yield look.line(e.label, "bold").append(f"  {note}", "not bold dim")
        yield Padding(words, (0, 0, 1, 2))


def _comparison_notes(c: Comparison, look: Look) -> Iterator[RenderableType]:
    """Yield the legend, tables of disagreements, and warnings."""
    yield legend_text(c.explanations, look)
    if prompt := wording.prompt_sentence(c.explanations[0]):
        yield look.line(prompt, "dim")
    if len(c) > 1:
        yield Text()
        yield table_text(wording.disagreement_table(c, "Agreement with"), look)
        if sentence := wording.unranked_sentence(c):
            yield look.line(sentence)
    if len(c) > 2 and (pairs := wording.least_similar_pairs(c)):
        yield Text()
        yield Text("Largest disagreements", "bold")
        yield from (look.line(f"{pair}: {sentence}") for pair, sentence in pairs)
    yield from look.warning_lines([*c.warnings, *wording.merge_warnings(c)])


@terminal_view(FULL_WIDTH)
def method_list(rows: Sequence["MethodRow"], look: Look) -> Iterator[RenderableType]:
    """Yield a description of each method with its settings."""
    for row in rows:
        title = look.line(row.id, "bold").append(look.safe(f"  {row.label}  "), "not bold")
        yield title.append("" if row.signed else "no sign", "not bold dim")
        yield Padding(_describe_method(row, look), (0, 0, 1, 2))


def _describe_method(row: "MethodRow", look: Look) -> RichTable:
    """Return a table about a method: formula, limits, cost, implementations and settings."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    facts = {"computes": row.formula, "sees": row.sees, "cannot see": row.blind, "cost": row.cost}
    for name, fact in facts.items():
        grid.add_row(name, look.line(fact))
    for implementation in row.implementations:
        grid.add_row(
            "how",
            look.line(
                wording.describe_implementation(
                    implementation, has_alternatives=len(row.implementations) > 1
                )
            ),
        )
        for setting in implementation.settings:
            line = look.line(f"{setting.name}={setting.default}", "bold")
            grid.add_row("", line.append(look.safe(f"  {setting.meaning}"), "not bold"))
    if row.reason_unavailable is not None:
        grid.add_row("not here", look.line(row.reason_unavailable))
    return grid
