"""One text as a game: which words stay, and what the model answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.models.engine import joint_answers, out_of_memory
from limelight.progress import count_calls, track_calls
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float
from limelight.text import Features, one_line
from limelight.threads import cached_property

_REMEMBERED = 50_000  # answers, a few hundred bytes each
_REMEMBERED_OUTPUTS = 8_000_000  # in all of them, 8 bytes each: there may be many classes
_MOST = 0.5  # of the words, to which a model that only wants words answers one by one
NO_BASE = "The model refuses the text without its words, so there is no base value"


def checked_masks(keep: Any, d: int) -> Bool[np.ndarray, "n d"]:
    """Return masks of ``d`` features, whatever stands for true and false."""
    masks = np.asarray(keep)
    if masks.ndim != 2 or masks.shape[1] != d or masks.dtype.kind not in "bui":
        raise InputError(
            f"a game of {d} features takes masks of shape (n, {d}), true where "
            f"a feature stays; got {masks.dtype} of shape {masks.shape}."
        )
    return masks.astype(bool)


class TextGame:
    """The outputs of a model on one text as a function of which features stay.

    Masks (n, d) in, True where a feature stays; outputs (n, C) out. Where asking the model is
    costly, answers are remembered, so that all classes and all methods share the same calls.

    A model may refuse a text of which nothing is left, or nothing that it calls a word: a lone
    colon, say. It then has no ``nothing``, and the mean of its answers to each word alone stands in
    for every such mask, so that values which need one, such as Shapley's, stay defined;
    ``stood_in`` counts how often.
    """

    def __init__(self, ask: Game, features: Features, replacement: str, *, remember: bool) -> None:
        self._ask, self._remember = ask, remember
        self.features, self.replacement = features.strings, replacement
        self.stood_in = 0
        self._known: dict[bytes, Float[np.ndarray, " C"]] = {}
        self._said: Exception | None = None  # by the model, when it last refused

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        words = one_line(", ".join(self.features), 80)
        return f"<TextGame of {len(self)} features, removed by {self.replacement!r}: {words}>"

    def __call__(self, keep: Any) -> Float[np.ndarray, "n C"]:
        """Return the model's outputs for each mask."""
        masks = checked_masks(keep, len(self))
        # An answer to no masks must have C columns, which only an answer tells.
        if not self._remember or not len(masks):  # tables have an answer to everything
            return self._ask(masks) if len(masks) else self(self._whole)[:0]
        if not self.refuses_nothing or masks.any(axis=1).all():
            try:
                return self._answers(masks)
            except Exception as error:
                if not _refusal(error) or not self.refuses_nothing:
                    raise
        return self._around_refusals(masks)

    @cached_property
    def refuses_nothing(self) -> bool:
        """Whether the model has no answer to the text of which every feature is removed.

        It is asked before all else, where it spoils no other answers, beside the whole text: both
        are wanted by nearly every method, and on a graphics card two cost what one does.
        """
        nothing = ~self._whole
        ends = np.concatenate([nothing, self._whole])
        return self._remember and self._refuses(ends) and self._refuses(nothing)

    @property
    def nothing(self) -> Float[np.ndarray, " C"] | None:
        """The outputs with every feature removed; None where the model refuses that text."""
        return None if self.refuses_nothing else self(~self._whole)[0]

    @property
    def is_constant(self) -> bool:
        """Whether several masks were answered so far, and all of them by the same numbers."""
        first, *others = self._known.values() or [np.empty(0)]
        return bool(others) and all((first == answer).all() for answer in others)

    @property
    def _whole(self) -> Bool[np.ndarray, "1 d"]:
        return np.ones((1, len(self)), bool)

    def _refuses(self, masks: Bool[np.ndarray, "n d"]) -> bool:
        """Ask about a mask or two. A fault of memory or of the network is not a refusal."""
        try:
            with track_calls(None):  # a call of our own, which nobody waits for
                self._answers(masks)
        except Exception as error:
            if not _refusal(error):
                raise
            self._said = error
            return True
        return False

    @cached_property
    def _answered_alone(self) -> Bool[np.ndarray, " d"]:
        """Which features the model answers to by themselves."""
        # One by one: asked together, one refusal would be taken for all.
        alone = np.eye(len(self), dtype=bool)
        return np.array([not self._refuses(mask[None]) for mask in alone])

    @cached_property
    def _instead(self) -> Float[np.ndarray, " C"]:
        """What stands for the answer to a text of which nothing is left."""
        # A lone word has nothing beside it whose answer could stand in.
        if len(self) == 1 or not self._answered_alone.any():
            raise DomainError(
                "the model refuses a text without words, and this text has no two words of which "
                "one could stay while the other goes, so removing words cannot be explained."
            )
        if self._said is not None and self._answered_alone.mean() < _MOST:
            raise self._said  # a model that says no to most words has something else to say
        return self._answers(np.eye(len(self), dtype=bool)[self._answered_alone]).mean(axis=0)

    def _around_refusals(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """Answer the masks that keep a word which the model knows; the mean stands for the rest."""
        refused = ~(masks & self._answered_alone).any(axis=1)
        outputs = np.tile(self._instead, (len(masks), 1))
        if not refused.all():
            outputs[~refused] = self._answers(masks[~refused])
        count = int(np.count_nonzero(refused))
        self.stood_in += count
        count_calls(count)
        return outputs

    def _new(self, masks: Bool[np.ndarray, "n d"]) -> tuple[list[bytes], dict[bytes, int]]:
        """What masks are remembered by, and of those that are not known yet the row of each."""
        # As bits: 50,000 masks of 300 words are 2 megabytes, and 15 as booleans.
        keys = [bits.tobytes() for bits in np.packbits(masks, axis=1)]
        return keys, {key: i for i, key in enumerate(keys) if key not in self._known}

    def _answers(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """Ask what is not known yet."""
        keys, new = self._new(masks)
        count_calls(len(keys) - len(new))
        found: dict[bytes, Float[np.ndarray, " C"]] = {}
        if new:
            asked = np.asarray(self._ask(masks[list(new.values())]))
            # A NaN would be remembered, and spoil everything that is estimated later.
            if not np.isfinite(asked).all():
                raise InputError("the model answers with numbers that are not finite.")
            found = dict(zip(new, asked, strict=True))
            self._note(found)
        # From what was found first: there may have been no room to remember it.
        return np.array([found[key] if key in found else self._known[key] for key in keys])

    def _note(self, found: dict[bytes, Float[np.ndarray, " C"]]) -> None:
        """Remember answers as long as there is room."""
        # What came first stays: the ends and the words alone, for which every method asks.
        outputs = len(next(iter(found.values())))
        room = min(_REMEMBERED, _REMEMBERED_OUTPUTS // outputs) - len(self._known)
        self._known.update(list(found.items())[: max(room, 0)])

    @staticmethod
    def ask_ahead(games: "Sequence[TextGame]", masks: Sequence[Bool[np.ndarray, "_ _d"]]) -> None:
        """Ask what several texts are about to be asked in one question, and remember the answers.

        Nothing happens where their model does not take texts together, or refuses: each text is
        then asked by itself, and an error is about that text.
        """
        new = [game._new(keep)[1] for game, keep in zip(games, masks, strict=True)]
        going = [g for g, rows in enumerate(new) if rows and games[g]._remember]
        if len(going) < 2:
            return
        keeps = [masks[g][list(new[g].values())] for g in going]
        try:
            answers = joint_answers([games[g]._ask for g in going], keeps)
        # Asked ahead by our own choice: whatever is wrong shows again when it is really asked.
        except InputError:
            return
        for g, found in zip(going, answers or [], strict=answers is not None):
            # Else the text is asked again by itself, and the error names it.
            if np.isfinite(found).all():
                games[g]._note(dict(zip(new[g], found, strict=True)))


def _refusal(error: Exception) -> bool:
    """Whether a model says no to a text, and not that a machine or a network failed it."""
    cause = error.__cause__ or error  # of an error that names the text
    return not isinstance(cause, OSError) and not out_of_memory(error)
