"""One text as a game: which words stay, and what the model answers."""

__all__ = ["TextGame"]

from typing import Any, final

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.sampling import Game, answered
from limelight.shapes import Bool, Float
from limelight.text import Features, one_line

_REMEMBERED = 50_000  # answers, a few hundred bytes each
_REMEMBERED_OUTPUTS = 8_000_000  # in all of them, 8 bytes each: there may be many classes


@final
class TextGame:
    """The outputs of a model on one text as a function of which features stay.

    Masks (n, d) in, True where a feature stays; outputs (n, C) out. Where asking the model is
    costly, answers are remembered, so that all classes and all methods share the same calls.

    A model may refuse a text of which nothing is left. It then has no ``nothing``, and the mean of
    its answers to each feature alone stands in for the answer, so that values which need one, such
    as Shapley's, stay defined; ``stood_in`` counts how often.
    """

    def __init__(self, ask: Game, features: Features, replacement: str, *, remember: bool) -> None:
        self._ask, self._remember = ask, remember
        self.features, self.replacement = features.strings, replacement
        self.stood_in = 0
        self._known: dict[bytes, Float[np.ndarray, " C"]] = {}
        self._instead: Float[np.ndarray, " C"] | None = None
        self._tried = False
        self._nothing_kept = np.packbits(np.zeros((1, len(self)), bool), axis=1).tobytes()

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        words = one_line(", ".join(self.features), 80)
        return f"<TextGame of {len(self)} features, removed by {self.replacement!r}: {words}>"

    def __call__(self, keep: Any) -> Float[np.ndarray, "n C"]:
        """Return the model's outputs for each mask."""
        masks = np.asarray(keep)
        if masks.ndim != 2 or masks.shape[1] != len(self) or masks.dtype.kind not in "bui":
            raise InputError(
                f"a game of {len(self)} features takes masks of shape (n, {len(self)}), true where "
                f"a feature stays; got {masks.dtype} of shape {masks.shape}."
            )
        masks = masks.astype(bool)
        if not self._remember:
            return self._ask(masks)
        empty = np.logical_not(masks.any(axis=1))
        if self._instead is None or not empty.any():
            try:
                return self._answers(masks)
            except Exception:  # somebody's function may raise anything it likes
                if not empty.any() or not self.refuses_nothing:
                    raise
        return self._around_nothing(masks, empty)

    @property
    def refuses_nothing(self) -> bool:
        """Whether the model has no answer to the text of which every feature is removed."""
        if self._remember and not self._tried:  # tables have an answer to everything
            try:
                if self._nothing_kept not in self._known:
                    self._answers(np.zeros((1, len(self)), bool))
            except Exception as error:
                self._instead = self._mean_of_single_features(error)
            self._tried = True
        return self._instead is not None

    @property
    def nothing(self) -> Float[np.ndarray, " C"] | None:
        """The outputs with every feature removed; None where the model refuses that text."""
        asked_before = self._nothing_kept in self._known
        if self.refuses_nothing:
            return None
        if not asked_before and self._nothing_kept in self._known:
            return self._known[self._nothing_kept]  # it was asked a moment ago, and counted
        return self(np.zeros((1, len(self)), bool))[0]

    def _mean_of_single_features(self, error: Exception) -> Float[np.ndarray, " C"]:
        if len(self) == 1:
            raise DomainError(
                "the model refuses a text without words, and this text has a single feature, so "
                f"removing it cannot be explained (the model said: {one_line(str(error), 100)})."
            ) from None
        return self._answers(np.eye(len(self), dtype=bool)).mean(axis=0)

    def _around_nothing(
        self, masks: Bool[np.ndarray, "n d"], empty: Bool[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n C"]:
        outputs = np.tile(np.asarray(self._instead), (len(masks), 1))
        if not empty.all():
            outputs[~empty] = self._answers(masks[~empty])
        self.stood_in += int(empty.sum())
        answered(int(empty.sum()))
        return outputs

    def _answers(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """Ask what is not known yet."""
        known = self._known
        keys = [bits.tobytes() for bits in np.packbits(masks, axis=1)]
        new = {key: i for i, key in enumerate(keys) if key not in known}
        answered(len(keys) - len(new))
        if not new:
            return np.array([known[key] for key in keys])
        found = dict(zip(new, self._ask(masks[list(new.values())]), strict=True))
        answers = np.array([found[key] if key in found else known[key] for key in keys])
        if len(known) < min(_REMEMBERED, _REMEMBERED_OUTPUTS // answers.shape[1]):
            known.update(found)
        return answers
