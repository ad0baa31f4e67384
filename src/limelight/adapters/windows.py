"""Long texts under a Hugging Face model: the mean of its outputs over windows of the text."""

__all__ = ["Windowed", "windowed"]

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, final, runtime_checkable

import numpy as np

from limelight.adapters.model import Attended, DeepModel, Differentiated, Weigh
from limelight.adapters.passage import Passage, Pieces
from limelight.adapters.window_cuts import sentence_ends, window_ends
from limelight.adapters.word_pieces import passage_of, pieces_of
from limelight.errors import InputError
from limelight.model import class_probabilities
from limelight.sampling import Game, in_parts
from limelight.shapes import Bool, Float, Int
from limelight.text import Features


@runtime_checkable
class Limited(DeepModel, Protocol):
    """A deep model that reads so many pieces and no more."""

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, which knows the place of every piece."""

    @property
    def limit(self) -> int:
        """How many pieces the model reads, special ones included."""

    def outputs_of(self, passages: Sequence[Passage]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for texts that were read before."""

    def outputs_at(
        self, passage: Passage, points: Float[np.ndarray, "n T d_e"]
    ) -> Float[np.ndarray, "n C"]:
        """Return the outputs at embedded ``points``."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Windowed:
    r"""The classifier :math:`f(x) = \frac1W \sum_w g(x_w)` of a text cut into W windows.

    Windows adjoin, each word belongs to one, and where they end does not depend on which words
    are removed: f is a function of the whole text, and every method explains that one function.
    """

    sees_inside: ClassVar[bool] = True

    inner: Limited
    size: int  # pieces in a window at most, special ones included

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self.inner.classes

    @property
    def link(self) -> str:
        """How outputs become probabilities: of the mean of the outputs, not a mean of its own."""
        return self.inner.link

    @property
    def fingerprint(self) -> str:
        """That of the model; the windows are a setting of the explanation."""
        return self.inner.fingerprint

    def read(self, text: str, *, pieces: bool = False) -> Passage:
        """Return all of ``text``, and its windows with the model's outputs there."""
        tokenizer = self.inner.tokenizer
        whole = passage_of(tokenizer, text, limit=_ENDLESS, apart=pieces)
        windows = tuple(
            Passage(text, whole.tokens, part)
            for part in _parts(whole.own_pieces, self._ends(text), self.size)
        )
        return Passage(
            text, whole.tokens, _joined(windows), windows, self.inner.outputs_of(windows)
        )

    def _ends(self, text: str) -> list[int]:
        """Where windows end, in pieces of the text; words are whole whatever is explained."""
        pieces, spans = pieces_of(self.inner.tokenizer, text, limit=_ENDLESS)
        inner = pieces.token[pieces.before : len(pieces.token) - pieces.after]
        room = self.size - pieces.before - pieces.after
        if room < 1:
            least = pieces.before + pieces.after + 1
            raise InputError(f"a window has at least {least} tokens; got {self.size}.")
        last = np.flatnonzero(np.diff(inner, append=-2))  # the last piece of every word
        stops = set(sentence_ends(text, spans))
        return window_ends(
            len(inner),
            room,
            words=[int(i) + 1 for i in last],
            sentences=[int(i) + 1 for i in last if inner[i] in stops],
        )

    def logits(self, texts: Sequence[str]) -> Float[np.ndarray, "n C"]:
        """Return the mean of the outputs over the windows of every text."""
        found = [self.read(text).mean_output for text in texts]
        return np.array(found) if found else self.inner.logits([])

    def predict_proba(self, texts: Sequence[str]) -> Float[np.ndarray, "n classes"]:
        """Return the probability of every class for every text."""
        return class_probabilities(self.logits(texts), self.link)

    def replacement(self, name: str) -> str:
        """Return what is put in place of a removed word."""
        return self.inner.replacement(name)

    def game(self, passage: Passage, features: Features, replacement: str) -> Game:
        """Return the mean over windows for each mask."""
        games = [self.inner.game(part, features, replacement) for part in passage.windows]

        def mean(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
            with in_parts(len(games)):
                return np.mean([game(keep) for game in games], axis=0)

        return mean

    def attended(self, passage: Passage, weigh: Weigh | None = None) -> Iterator[Attended]:
        """Yield the attention within each window, with ``weigh`` also ∂F/∂α."""
        share = None if weigh is None else weigh(passage.mean_output[None]) / len(passage.windows)
        given = None if share is None else lambda _: share
        for part in passage.windows:
            yield from self.inner.attended(part, given)

    def embedded(
        self, passage: Passage, features: Features | None = None, replacement: str = "auto"
    ) -> Float[np.ndarray, "T d_e"]:
        """Return the embedded pieces of all windows, those of ``features`` replaced."""
        found = [self.inner.embedded(part, features, replacement) for part in passage.windows]
        return np.concatenate(found)

    def differentiated(
        self,
        passage: Passage,
        points: Float[np.ndarray, "n T d_e"],
        weigh: Weigh | Float[np.ndarray, "n C"],
    ) -> Differentiated:
        """Return the gradient of the explained number at embedded ``points``.

        ∂F/∂g_w = weigh(f)/W needs f, so all outputs come first, then one window after the other:
        the graphs of all at once may not fit.
        """
        lengths = [len(part.own_pieces.ids) for part in passage.windows]
        split = np.split(points, np.cumsum(lengths)[:-1], axis=1)
        parts = list(zip(passage.windows, split, strict=True))
        outputs = np.mean([self.inner.outputs_at(part, here) for part, here in parts], axis=0)
        weights = (weigh(outputs) if callable(weigh) else weigh) / len(parts)
        found = [self.inner.differentiated(part, here, weights) for part, here in parts]
        return Differentiated(np.concatenate([one.gradient for one in found], axis=1), outputs)


_ENDLESS = 1 << 62  # what limits a text that is cut later


def windowed(model: Any, window: Any) -> Any:
    """Return ``model`` as one of whole texts; None leaves it as it is.

    ``window`` is "auto", as many tokens as the model reads, or a smaller number of them.
    """
    if window is None:
        return model
    if not isinstance(model, Limited):
        raise InputError(
            "window cuts texts for Hugging Face models, whose limit is known; "
            f"{_no_limit(model)} Leave window away."
        )
    size = model.limit if window == "auto" else window
    whole = isinstance(size, int) and not isinstance(size, bool)
    if not whole or not 1 <= size <= model.limit:
        raise InputError(
            f"window must be 'auto' or a number of tokens up to {model.limit}, which this model "
            f"reads; got {window!r}."
        )
    return Windowed(inner=model, size=size)


def _no_limit(model: Any) -> str:
    if getattr(model, "sees_inside", None) is None:
        return "the paper's classifier is explained exactly, on the window it was trained for."
    return "a function gets every text whole, and may cut it itself."


def _parts(pieces: Pieces, ends: Sequence[int], size: int) -> list[Pieces]:
    """Return the pieces of each window between the special pieces of the whole."""
    behind = len(pieces.ids) - pieces.after
    room = size - pieces.before - pieces.after
    starts = [0, *ends[:-1]]

    def between(x: Int[np.ndarray, " L"], start: int, end: int) -> Int[np.ndarray, " T"]:
        inside = x[pieces.before : behind][start:end]
        return np.concatenate([x[: pieces.before], inside, x[behind:]])

    return [
        Pieces(
            between(pieces.ids, start, end),
            between(pieces.token, start, end),
            pieces.strings,
            pieces.before,
            pieces.after,
            room,
        )
        for start, end in zip(starts, ends, strict=True)
    ]


def _joined(windows: Sequence[Passage]) -> Pieces:
    """Return the pieces of all windows, one behind the other: what scores of pieces pair with."""
    parts = [part.own_pieces for part in windows]
    ids, token = (
        np.concatenate([getattr(one, name) for one in parts]) for name in ("ids", "token")
    )
    return Pieces(ids, token, parts[0].strings, 0, 0, len(ids))
