"""Explanations on a terminal of any width and colour, and in a pipe."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import final

import numpy as np
from rich.color import Color
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from limelight.pages.palette import (
    FAINTEST,
    TERMINAL_INK,
    Side,
    largest,
    side,
    strengths,
    terminal_colour,
)
from limelight.pages.pieces import Piece, pieces, shortened, visible
from limelight.pages.wording import (
    aims,
    all_occurrences,
    anchor_sentence,
    notices,
    precision_sentence,
    said,
    written,
)
from limelight.results import Anchor, Comparison, Explanation, Pairs

WHITE = Color.from_rgb(255, 255, 255)
BOXED = 0.25
PAST_WINDOW = Style(dim=True, italic=True)
CUT_MARK = " ⟦not read⟧"
_LABEL = len("second: ")


@final
@dataclass(frozen=True, slots=True)
class Look:
    """What the console can show."""

    colour: bool
    encoding: str

    @property
    def ascii(self) -> bool:
        """Whether symbols beyond ASCII must be avoided."""
        return not self.encoding.lower().startswith("utf")

    def safe(self, text: str) -> str:
        """Return ``text`` with nothing in it that the terminal would obey or cannot encode."""
        shown = visible(text)
        return shown.encode(self.encoding, "replace").decode(self.encoding) if self.ascii else shown


def look_of(console: Console, options: ConsoleOptions) -> Look:
    """Return what ``console`` can show; NO_COLOR and pipes have no colour."""
    colour = console.color_system is not None and not console.no_color
    return Look(colour, options.encoding)


def word_style(hue: Side, strength: float, *, strongest: bool = False) -> Style:
    """Return plain letters, then coloured ones, then white ones on colour, as strength grows."""
    if abs(strength) < FAINTEST:
        return Style.null()
    if abs(strength) < BOXED:
        return Style(color=Color.from_rgb(*TERMINAL_INK[hue]))
    background = Color.from_rgb(*terminal_colour(hue, strength))
    return Style(color=WHITE, bgcolor=background, bold=strongest, underline=strongest)


def coloured_words(explanations: Sequence[Explanation], look: Look) -> list[Text]:
    """Return the text once per explanation; they share its cuts, which are made once."""
    cut = shortened(pieces(explanations[0]))
    return [_words(e, cut, look) for e in explanations]


def _words(e: Explanation, cut: Sequence[Piece], look: Look) -> Text:
    sizes = strengths(e)
    top = int(np.argmax(np.abs(sizes))) if sizes.any() else -1
    text, past = Text(overflow="fold"), False
    for piece in cut:
        if piece.opens:
            text.append("\n" if text else "").append(f"{piece.opens}: ".rjust(_LABEL), "dim")
            continue
        shown = look.safe(re.sub(r"\s+", " ", piece.text))
        if not piece.seen and not past:
            past = True
            text.append(look.safe(" [not read]" if look.ascii else CUT_MARK), PAST_WINDOW)
        if piece.feature is None:
            text.append(shown, PAST_WINDOW if not piece.seen else "")
        elif look.colour:
            size = float(sizes[piece.feature])
            style = word_style(side(e, size), size, strongest=piece.feature == top)
            text.append(shown, style)
        else:
            text.append(_numbered(e, piece.feature, shown, strongest=piece.feature == top))
    return text


def _numbered(e: Explanation, feature: int, shown: str, *, strongest: bool) -> str:
    """Return e.g. ``great[+0.81]``, without signs ``great[0.81]``; faint words stay bare.

    The brackets keep a score from the text around it, which may be "7.75" or a full stop.
    """
    score, peak = float(e.scores[feature]), largest(e)
    if abs(score) < FAINTEST * peak or not peak:
        return shown
    number = written(score if e.signed else abs(score), peak=peak, signed=e.signed, digits=2)
    return f"*{shown}[{number}]*" if strongest else f"{shown}[{number}]"


def legend(explanations: Sequence[Explanation], look: Look) -> Text:
    """Say what colours, signs and marks mean."""
    target, other = look.safe(explanations[0].target), explanations[0].against
    against = "against" if other is None else look.safe(f"for {other}")
    signed, signless = (any(e.signed is kind for e in explanations) for kind in (True, False))
    text = Text(style="dim", overflow="fold")
    if look.colour:
        plain = Style(dim=False)
        if signed:
            text.append(f" for {target} ", word_style("for", 1.0) + plain)
            text.append(" ").append(f" {against} ", word_style("against", 1.0) + plain).append(" ")
        if signless:
            text.append(" size only, no sign ", word_style("neutral", 1.0) + plain).append(" ")
        scale = ", each method on its own scale" if len(explanations) > 1 else ""
        text.append(f"stronger colour: larger score{scale}; ")
        text.append("strongest word", "underline").append(
            "; colours safe for colour-blind readers."
        )
    else:
        text.append(f"[+] for {target}, [-] {against}; " if signed else "")
        text.append("[number] size only, no sign; " if signless else "")
        text.append(f"*strongest word*; bare words are below {FAINTEST:.0%} of it.")
    if any(len(spans) > 1 for spans in explanations[0].spans):
        text.append(f" {all_occurrences(explanations[0])}")
    return text


SHOWN_FEATURES, SHOWN_PAIRS = 10, 5


def feature_table(e: Explanation, look: Look, width: int) -> Table:
    """Return the strongest features with scores, standard errors and bars."""
    order = np.argsort(-np.abs(e.scores), kind="stable")[:SHOWN_FEATURES].tolist()
    names = [_name(e, j, look) for j in order]
    left_out = len(e.features) - len(order)
    rest = Text(look.safe(f"and {left_out} more") if left_out else "", "dim")
    widest = min(max(name.cell_len for name in (*names, rest)), max(8, width // 3))
    table = _plain_table()
    table.add_column("word", overflow="ellipsis", max_width=widest, no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    if e.stderr is not None:
        table.add_column("±", justify="right", no_wrap=True)
    numbers = 20 if e.stderr is not None else 12
    longest = max(4, min(40, width - max(widest, 4) - numbers))
    table.add_column("", no_wrap=True, overflow="crop")
    peak, sizes = largest(e), strengths(e)
    for j, name in zip(order, names, strict=True):
        cells = [name, Text(written(e.scores[j], peak=peak, signed=e.signed))]
        if e.stderr is not None:
            cells.append(Text(written(e.stderr[j], peak=peak, signed=False), "dim"))
        table.add_row(*cells, _bar(e, float(sizes[j]), longest, look))
    if left_out:
        table.add_row(rest)
    return table


def pair_table(e: Explanation, pairs: Pairs, look: Look) -> Table:
    """Return the strongest pairs of features."""
    table = _plain_table()
    table.add_column("pair", overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    if pairs.stderr is not None:
        table.add_column("±", justify="right", no_wrap=True)
    peak = float(np.abs(pairs.scores).max())
    for row in np.argsort(-np.abs(pairs.scores), kind="stable")[:SHOWN_PAIRS]:
        i, j = pairs.features[row].tolist()
        names = _name(e, i, look).append(look.safe(" × ")).append(_name(e, j, look))
        cells = [names, Text(written(pairs.scores[row], peak=peak))]
        if pairs.stderr is not None:
            cells.append(Text(written(pairs.stderr[row], peak=peak, signed=False), "dim"))
        table.add_row(*cells)
    return table


def anchor_line(e: Explanation, anchor: Anchor, look: Look) -> Text:
    """Say which words hold the prediction, and how firmly."""
    return Text(look.safe(anchor_sentence(e, anchor)), overflow="fold")


def _plain_table() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")


def _name(e: Explanation, feature: int, look: Look) -> Text:
    """Return the feature, with its count where it occurs more than once."""
    name = Text(look.safe(e.names[feature]))
    count = len(e.spans[feature])
    return name.append(look.safe(f" ×{count}"), "dim") if count > 1 else name


def _bar(e: Explanation, strength: float, longest: int, look: Look) -> Text:
    cells = abs(strength) * longest
    if look.ascii:
        drawn = ("#" if strength >= 0 else "-") * round(cells)
    else:
        drawn = "━" * int(cells) + ("╸" if cells % 1 >= 0.5 else "")
    if not look.colour:
        return Text(drawn)
    return Text(drawn, Style(color=Color.from_rgb(*TERMINAL_INK[side(e, strength)])))


REFERENCES = ("lime", "shapley", "ig")
TOP = 3


@final
@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two methods: rank correlation, features of opposite sign, features in both top threes.

    The first two are None where they are not defined (constant scores, scores without sign), all
    three where the scores of one method are nothing but rounding.
    """

    first: str
    second: str
    rank_correlation: float | None
    sign_conflicts: int | None
    shared_top: int | None
    top: int

    @property
    def sentence(self) -> str:
        """The same in words."""
        parts = []
        if self.rank_correlation is not None:
            parts.append(f"rank correlation {self.rank_correlation:+.2f}")
        if self.sign_conflicts:
            words = "word" if self.sign_conflicts == 1 else "words"
            parts.append(f"{self.sign_conflicts} {words} of opposite sign")
        if self.shared_top is not None:
            parts.append(f"{self.shared_top} of the top {self.top} shared")
        return ", ".join(parts)


def reference(c: Comparison) -> int:
    """Return the method that the others are held against.

    LIME, Shapley or integrated gradients, which add up to something; else the first with signs.
    """
    methods, noise = [e.method for e in c], c.agreement.noise
    with_signs = [j for j, e in enumerate(c) if e.signed and e.method not in noise]
    known = [methods.index(name) for name in REFERENCES if name in methods and name not in noise]
    return next(iter(known + with_signs), 0)


def against_reference(c: Comparison) -> list[Disagreement]:
    """Return one row per method but the reference, in the order of the comparison."""
    chosen = reference(c)
    return [_row(c, i, chosen) for i in range(len(c.explanations)) if i != chosen]


def unranked(c: Comparison) -> str | None:
    """Say which methods take no part, because their scores are nothing but rounding."""
    labels = [e.label for e in c if e.method in c.agreement.noise]
    if not labels:
        return None
    peak = max(float(abs(e.scores).max()) for e in c if e.method in c.agreement.noise)
    return (
        f"Not ranked: {', '.join(labels)}. No score there is larger than {peak:.0e}, which is "
        "rounding, and an order of rounding errors says nothing."
    )


def strongest_disagreements(c: Comparison, count: int = 3) -> list[Disagreement]:
    """Return the pairs of lowest rank correlation; ties go to the more sign conflicts."""
    rows = [_row(c, i, j) for i, j in combinations(range(len(c.explanations)), 2)]
    known = [row for row in rows if row.rank_correlation is not None]
    known.sort(key=lambda row: (row.rank_correlation, -(row.sign_conflicts or 0)))
    return known[:count]


def _row(c: Comparison, i: int, j: int) -> Disagreement:
    a, features = c.agreement, c.explanations[0].features
    return Disagreement(
        c.explanations[i].label,
        c.explanations[j].label,
        a.rank_correlation[i][j],
        a.sign_conflicts[i][j],
        a.top3_overlap[i][j],
        min(TOP, len(features)),
    )


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
