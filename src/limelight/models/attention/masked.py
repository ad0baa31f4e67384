"""The attention classifier as a game: thousands of masks in a few matrix products."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from limelight.models.attention.collapsed import CollapsedDocuments
from limelight.models.attention.tables import Tables, in_chunks, predicted_logits
from limelight.shapes import Bool, Float, Int
from limelight.text import CLS, UNK, Document, Features, Vocabulary


def replaced_windows(
    keep: Bool[np.ndarray, "n d"],
    ids: Int[np.ndarray, " T_max"],
    of_position: Int[np.ndarray, " T_max"],
    removed: Int[np.ndarray, "*T_max"] | int = UNK,
) -> Int[np.ndarray, "n T_max"]:
    """Return ``ids`` with ``removed`` at places of removed features; -1 marks places that stay."""
    # At −1 a place finds the last column: what belongs to no feature is never removed.
    stays = np.concatenate([keep, np.ones((len(keep), 1), bool)], axis=1)
    return np.where(stays[:, of_position], ids, removed)


def deleted_windows(
    keep: Bool[np.ndarray, "n d"],
    ids: Int[np.ndarray, " L"],
    of_token: Int[np.ndarray, " L"],
    *,
    T_max: int,
) -> Int[np.ndarray, "n T_max"]:
    """Return [cls], then the tokens ``ids`` whose feature stays, moved together, then padding."""
    stays = np.concatenate([keep, np.ones((len(keep), 1), bool)], axis=1)[:, of_token]
    place = np.cumsum(stays, axis=1)
    rows, tokens = np.nonzero(stays & (place < T_max))
    windows = np.full((len(keep), T_max), UNK, dtype=np.int32)
    windows[:, 0] = CLS
    windows[rows, place[rows, tokens]] = ids[tokens]
    return windows


_UNDERFLOW = 1e-250  # a denominator below has lost digits; such rows take the long way
_PAIRS = 1 << 18  # words times places whose terms are kept; beyond, masks take the long way too
_CHUNK = 1024  # masks whose sums are held at a time: they stay inside the cache


@dataclass(frozen=True, eq=False)
class ReplacementScorer:
    """f of the only document, every removed word replaced by UNK in place, or what stands there."""

    document: CollapsedDocuments

    @cached_property
    def _sums(self) -> tuple[Float[np.ndarray, " sums"], Float[np.ndarray, "both sums"]]:
        """D_0 and N_0; and a and A of every word, then b and B of every word.

        D, a and b are of every head, N, A and B of every class and head (THEORY.md, section 3).
        """
        one = self.document
        both = np.concatenate([one.ids, one.base_ids])
        # Of every place with its word (row 0), and with what stands there instead (row 1).
        terms = _terms(one.model.tables, both, np.arange(both.shape[1]))
        of_feature = one.of_position == np.arange(len(one.features[0]))[:, None]
        words = np.concatenate(list(of_feature.astype(float) @ terms))
        return terms[0, one.of_position[0] < 0].sum(axis=0), words

    def __call__(self, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """Return the model's outputs for each mask.

        Kept and removed words are summed apart, so that nothing large is added and taken away
        again: D_0 + Σb + Z(a − b) loses all digits where one b outweighs everything else.
        """
        fixed, words = self._sums
        sums = fixed + np.concatenate([keep, ~keep], axis=1).astype(float) @ words
        return _ratio(sums, self.document.model.tables, lambda lost: self.windows(keep[lost]))

    def windows(self, keep: Bool[np.ndarray, "n d"]) -> Int[np.ndarray, "n T_max"]:
        """Return what the model reads under each mask."""
        one = self.document
        return replaced_windows(keep, one.ids[0], one.of_position[0], one.base_ids[0])


@dataclass(frozen=True, eq=False)
class DeletionScorer:
    """f with every removed word taken out.

    Later words move left, and words that had been cut off move into the window.
    ``ids`` are all tokens of the text, beyond the window too; ``of_token`` the feature of each, -1
    where nothing is removed.
    """

    tables: Tables
    ids: Int[np.ndarray, " L"]
    of_token: Int[np.ndarray, " L"]

    def __call__(self, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """Return the model's outputs for each mask."""
        return in_chunks(self._outputs, keep, _CHUNK, C=self.tables.word_value.shape[1])

    def windows(self, keep: Bool[np.ndarray, "n d"]) -> Int[np.ndarray, "n T_max"]:
        """Return what the model reads under each mask."""
        T_max = len(self.tables.position_logit)
        return deleted_windows(keep, self.ids, self.of_token, T_max=T_max)

    def _outputs(self, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """f = N/D, both summed token by token: where a token stands depends on the mask alone."""
        T_max, everywhere = len(self.tables.position_logit), np.ones(len(keep), bool)
        words, rows = self._words
        # Terms of a novel would take gigabytes.
        if len(words) * T_max > _PAIRS:
            return predicted_logits(self.tables, self.windows(keep))
        # One small table per token, looked up for all masks, stays in the nearest cache; looking
        # words up window by window took two to four times as long.
        cls, unk = self._terms[rows[:2]]
        place, sums = np.ones(len(keep), np.intp), np.tile(cls[0], (len(keep), 1))
        at_place = np.zeros((T_max + 1, sums.shape[1]))  # the last row: removed, or cut off
        for row, feature in zip(rows[2:], self.of_token, strict=True):
            stays = keep[:, feature] if feature >= 0 else everywhere
            at_place[:-1] = self._terms[row]
            sums += at_place.take(np.where(stays, place, T_max), axis=0)
            # All places beyond the window are one, in which nothing is read.
            place = np.minimum(place + stays, T_max)
        at_place[:-1] = np.cumsum(unk[::-1], axis=0)[::-1]
        sums += at_place[place]  # padding from there to the end of the window
        return _ratio(sums, self.tables, lambda lost: self.windows(keep[lost]))

    @cached_property
    def _words(self) -> tuple[Int[np.ndarray, " W"], Int[np.ndarray, " rows"]]:
        """All words that may stand somewhere; and which of them [cls], UNK and the tokens are."""
        words, rows = np.unique([CLS, UNK, *self.ids], return_inverse=True)
        return words, rows

    @cached_property
    def _terms(self) -> Float[np.ndarray, "W T_max sums"]:
        """g and g·u of each of these words at each place."""
        return _terms(
            self.tables, self._words[0][:, None], np.arange(len(self.tables.position_logit))
        )


def _terms(
    tables: Tables, words: Int[np.ndarray, "n #T"], places: Int[np.ndarray, " T"]
) -> Float[np.ndarray, "n T sums"]:
    """g and g·u of words at places, g being 1 at most in every head."""
    # One largest logit for all words and places of a head: sums of kept and of removed words must
    # be in the same units.
    logit = tables.logit(words, places)
    g = np.exp(logit - logit.max(axis=(0, 1)))[:, :, None]
    terms = np.concatenate([g, g * tables.value(words, places)], axis=2)
    return terms.reshape(*g.shape[:2], -1)


def _ratio(
    sums: Float[np.ndarray, "n sums"],
    tables: Tables,
    windows: Callable[[Bool[np.ndarray, " n"]], Int[np.ndarray, "lost T_max"]],
) -> Float[np.ndarray, "n C"]:
    """Mean over heads of N/D; rows where a denominator underflowed are predicted from scratch."""
    _, C, K = tables.word_value.shape
    parts = sums.reshape(-1, 1 + C, K)
    D, N = parts[:, :1], parts[:, 1:]
    lost = np.min(parts[:, 0], axis=1) < _UNDERFLOW
    # Rows that are lost divide by 1, for NumPy would warn of 0/0; they are replaced below.
    f = (N / np.where(D < _UNDERFLOW, 1.0, D)).mean(axis=-1)
    if lost.any():
        f[lost] = predicted_logits(tables, windows(lost))
    return f


def deletion_scorer(
    tables: Tables, vocabulary: Vocabulary, document: Document, features: Features
) -> DeletionScorer:
    """Return the game in which removed words vanish; words beyond the window go with a feature."""
    ids, beyond, _ = document.input
    # A feature of words is all their occurrences, those that the model does not read too: with the
    # others gone they move into the window.
    row = {string: j for j, string in enumerate(features.strings)}
    later = [row.get(string, -1) if features.unit == "words" else -1 for string in beyond]
    of_token = np.array([*features.of_token, *later])
    return DeletionScorer(tables, np.concatenate([ids, vocabulary.encode(beyond)]), of_token)
