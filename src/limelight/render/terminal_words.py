"""The words of a text on a terminal: coloured, or with signs and numbers where colour is off."""

__all__ = ["Look", "coloured_words", "legend", "look_of", "word_style"]

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from rich.color import Color
from rich.console import Console, ConsoleOptions
from rich.style import Style
from rich.text import Text

from limelight.render.coloured_pieces import Piece, pieces, shortened, visible
from limelight.render.palette import (
    FAINTEST,
    TERMINAL_INK,
    Side,
    largest,
    side,
    strengths,
    terminal_colour,
)
from limelight.render.wording import all_occurrences, written
from limelight.results import Explanation

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
