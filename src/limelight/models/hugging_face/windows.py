"""Long texts under a Hugging Face model: the mean of its outputs over windows of the text."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.hugging_face.gradients import one_by_one
from limelight.models.hugging_face.model import HuggingFace
from limelight.models.hugging_face.pieces import Pieces, document_of, pieces_in, pieces_of
from limelight.models.protocol import (
    Attended,
    Capability,
    Differentiated,
    Points,
    Slopes,
    TimesInput,
    Weigh,
    class_probabilities,
)
from limelight.sampling.sample import Game, in_parts
from limelight.shapes import Bool, Float, Int
from limelight.text import Document, Features, Span, Windows, sentence_spans

_ENDLESS = 1 << 62  # what limits a text that is cut later


def windowed(model: HuggingFace, window: Any) -> "Windowed":
    """Return ``model`` for whole texts.

    ``window`` is "auto", as many tokens as the model reads, or a smaller number of them.
    """
    size = model.limit if window == "auto" else window
    whole = isinstance(size, int) and not isinstance(size, bool)
    if not whole or not 1 <= size <= model.limit:
        raise InputError(
            f"window must be 'auto' or a number of tokens up to {model.limit}, all that this "
            f"model reads; got {window!r}."
        )
    return Windowed(inner=model, size=size)


def _of_inner(name: str) -> Any:
    """Return a property of windows that is that of the model which reads them."""
    return property(lambda windows: getattr(windows.inner, name))


@dataclass(frozen=True, kw_only=True, eq=False)
class Windowed:
    r"""The classifier :math:`f(x) = \frac1W \sum_w g(x_w)` of a text cut into W windows.

    Windows adjoin, each word belongs to one, and where they end does not depend on which words
    are removed: f is a function of the whole text, and every method explains that one function.
    """

    inner: HuggingFace
    size: int  # pieces in a window at most, special ones included

    def __repr__(self) -> str:
        return f"<Windowed {self.inner!r}, {self.size} tokens at a time>"

    # Windows are a setting of the explanation, and not another model; probabilities are those of
    # the mean of the outputs, not means of their own.
    classes, numbers, link, fingerprint, replacements, withdrawn = map(
        _of_inner, ("classes", "numbers", "link", "fingerprint", "replacements", "withdrawn")
    )

    @property
    def capabilities(self) -> Mapping[Capability, str | None]:
        """Those of the model, except that it has its windows already."""
        done = "this one reads its texts in windows already"
        whole = "a pair is read whole, not in windows; leave window out"
        own: dict[Capability, str | None] = {
            "cuts": done,
            "pairs": whole,
            "signals": "a word is seen in its own window alone; leave window out",
        }
        return MappingProxyType({**self.inner.capabilities, **own})

    def shuffled(self, seed: int) -> "Windowed":
        """Return the same windows under the model with shuffled weights."""
        return replace(self, inner=self.inner.shuffled(seed))

    def read(self, text: str, *, pieces: bool = False) -> Document:
        """Return all of ``text``, and its windows with the model's outputs there."""
        whole = document_of(self.inner.tokenizer, text, limit=_ENDLESS, apart=pieces)
        self.inner.check_ids(pieces_in(whole).ids)
        windows = tuple(
            Document(text, whole.tokens, input=part)
            for part in _parts(pieces_in(whole), self._ends(text, whole, apart=pieces), self.size)
        )
        several: tuple[str, ...] = ()
        if len(windows) > 1:
            several = (
                f"The text was read in {len(windows)} windows; what is explained is the mean of "
                "the model's outputs over them.",
            )
        found = Windows(
            self.size,
            tuple(_span(whole, pieces_in(window)) for window in windows),
            self.inner.outputs(windows),
        )
        return Document(
            text,
            whole.tokens,
            notices=several + whole.notices + self.inner.check.notices,
            input=windows,
            windows=found,
        )

    def _ends(self, text: str, whole: Document, *, apart: bool) -> list[int]:
        """Where windows end, in pieces of the text; words are whole whatever is explained."""
        pieces, spans = pieces_in(whole), list(whole.tokens.spans)
        if apart:
            pieces, spans = pieces_of(self.inner.tokenizer, text, limit=_ENDLESS)
        inner = pieces.token[pieces.before : len(pieces.token) - pieces.after]
        room = self.size - pieces.before - pieces.after
        if room < 1:
            least = pieces.before + pieces.after + 1
            raise InputError(f"a window must have at least {least} tokens; got {self.size}.")
        last = np.flatnonzero(np.diff(inner, append=-2))  # the last piece of every word
        starts = [start for start, _ in spans]
        stops = {bisect_left(starts, end) - 1 for _, end in sentence_spans(text)}
        return window_ends(
            len(inner),
            room,
            words=[int(i) + 1 for i in last],
            sentences=[int(i) + 1 for i in last if inner[i] in stops],
        )

    def outputs(self, documents: Sequence[Document]) -> Float[np.ndarray, "n C"]:
        """Return the mean of the outputs over the windows of every text; reading found them."""
        if not documents:
            return self.inner.outputs([])
        return np.array([_mean_output(document) for document in documents])

    def logits(self, texts: Sequence[str]) -> Float[np.ndarray, "n C"]:
        """Return the mean of the outputs over the windows of every text."""
        return self.outputs([self.read(text) for text in texts])

    def predict_proba(self, texts: Sequence[str]) -> Float[np.ndarray, "n classes"]:
        """Return the probability of every class for every text."""
        return class_probabilities(self.logits(texts), self.link)

    def game(self, document: Document, features: Features, replacement: str) -> Game:
        """Return the mean over windows for each mask."""
        games = [self.inner.game(part, features, replacement) for part in _windows(document)]

        def mean(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
            with in_parts(len(games)):
                return np.mean([game(keep) for game in games], axis=0)

        return mean

    def places(self, document: Document) -> Int[np.ndarray, " T"]:
        """Return the token at every position of all windows, one after the other."""
        return np.concatenate([self.inner.places(part) for part in _windows(document)])

    def attended(self, document: Document, weigh: Weigh | None = None) -> Iterator[Attended]:
        """Yield the attention within each window, with ``weigh`` also ∂F/∂α."""
        windows = _windows(document)
        share = None if weigh is None else weigh(_mean_output(document)[None]) / len(windows)
        for part in windows:
            yield from self.inner.attended(part, None if share is None else lambda _: share)

    def embedded(
        self, document: Document, features: Features | None = None, replacement: str = ""
    ) -> Float[np.ndarray, "T d_e"]:
        """Return the embedded pieces of all windows, those of ``features`` replaced."""
        found = [self.inner.embedded(part, features, replacement) for part in _windows(document)]
        return np.concatenate(found)

    def differentiated(self, document: Document, points: Points, weigh: Slopes) -> Differentiated:
        """Return the gradient of the explained number at embedded ``points``."""
        return self._of_windows(self.inner.differentiated, document, points, weigh)

    def frozen_gradient(self, document: Document, points: Points, weigh: Slopes) -> Differentiated:
        """Return the gradient at embedded ``points`` of the network with frozen weights."""
        return self._of_windows(self.inner.frozen_gradient, document, points, weigh)

    @property
    def together(self) -> int:
        """One text at a time: its windows are many already."""
        return 1

    def frozen_times_input(
        self, documents: Sequence[Document], weights: Float[np.ndarray, "n C"]
    ) -> TimesInput:
        """Return the gradient of the network with frozen weights times its embedded input."""
        return one_by_one(self, documents, weights)

    def _of_windows(
        self,
        gradient: Callable[..., Differentiated],
        document: Document,
        points: Points,
        weigh: Slopes,
    ) -> Differentiated:
        """Return the gradients of all windows, one after the other.

        ∂F/∂g_w = weigh(f)/W needs f, so all outputs come first, then one window after the other:
        the graphs of all at once may not fit.
        """
        lengths = [len(pieces_in(part).ids) for part in _windows(document)]
        split = np.split(points, np.cumsum(lengths)[:-1], axis=1)
        parts = list(zip(_windows(document), split, strict=True))
        outputs = np.mean([self.inner.outputs_at(part, here) for part, here in parts], axis=0)
        weights = (weigh(outputs) if callable(weigh) else weigh) / len(parts)
        found = [gradient(part, here, weights) for part, here in parts]
        return Differentiated(
            np.concatenate([one.gradient for one in found], axis=1),
            np.mean([one.outputs for one in found], axis=0),
        )


def window_ends(
    total: int, room: int, *, words: Collection[int], sentences: Collection[int]
) -> list[int]:
    """Return the ends of windows of at most ``room`` pieces that together hold all ``total``.

    ``words`` and ``sentences`` are the numbers of pieces before their ends. Windows are made
    alike: of the sentence ends in the second half of what fits, the one nearest to an equal share
    of the rest is taken, else such a word end, else the last piece that fits.
    """
    ends, start = [], 0
    while (rest := total - start) > room:
        # An equal share of what is left: a full window and a rest of three words would give those
        # three as much say as all the others.
        share = start + rest / -(-rest // room)
        half, most = start + room // 2, start + room
        for choices in (sentences, words):
            if inside := [end for end in choices if half < end <= most]:
                start = min(inside, key=lambda end: abs(end - share))
                break
        else:
            start = most
        ends.append(start)
    return [*ends, total]


def _windows(document: Document) -> tuple[Document, ...]:
    """Return the windows of a text, each a document of its own."""
    found: tuple[Document, ...] = document.input
    return found


def _mean_output(document: Document) -> Float[np.ndarray, " C"]:
    if document.windows is None:
        raise TypeError("this document was not read in windows")
    return document.windows.outputs.mean(axis=0)


def _span(whole: Document, window: Pieces) -> Span | None:
    """Return the first and last character of the words of a window."""
    inside = window.token[window.inside]
    words = inside[inside >= 0]
    spans = whole.tokens.spans
    return (spans[words[0]][0], spans[words[-1]][1]) if len(words) else None


def _parts(pieces: Pieces, ends: Sequence[int], size: int) -> list[Pieces]:
    """Return the pieces of each window between the special pieces of the whole."""
    end_of_text = len(pieces.ids) - pieces.after
    room = size - pieces.before - pieces.after
    starts = [0, *ends[:-1]]

    def between(x: Int[np.ndarray, " L"], start: int, end: int) -> Int[np.ndarray, " T"]:
        inside = x[pieces.before : end_of_text][start:end]
        return np.concatenate([x[: pieces.before], inside, x[end_of_text:]])

    return [
        replace(
            pieces,
            ids=between(pieces.ids, start, end),
            token=between(pieces.token, start, end),
            room=room,
        )
        for start, end in zip(starts, ends, strict=True)
    ]
