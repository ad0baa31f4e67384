"""A text of which words are removed, as rows of ids and as a game."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from limelight.errors import InputError
from limelight.models.engine import Engine
from limelight.models.hugging_face.forward import MASKED_OUT, ForwardPass, is_marked
from limelight.models.hugging_face.pieces import Pieces, feature_of_piece
from limelight.shapes import Bool, Float, Int
from limelight.text import Features


def check_asked_stay(pieces: Pieces, feature: Int[np.ndarray, " L"], replacement: str) -> None:
    """Refuse to take away what is asked about: something must stand there to be asked."""
    if (feature[is_marked(pieces.row)] >= 0).any():
        raise InputError(
            f"with protect_span=False the words that are asked about are removed, and "
            f"{replacement!r} leaves nothing in their place; use replacement='mask' or 'unk', if "
            "the model has one, or protect the span."
        )


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class MaskedText:
    """The outputs for each mask of one text, by rows of ids that are padded on the right.

    ``other`` is the id in the place of every piece of a removed word. Where it is None the pieces
    are taken out, and what lay beyond the window moves up into it; ``nothing`` is then the id that
    stands for a text of no pieces at all.
    """

    engine: Engine
    forward: ForwardPass
    pieces: Pieces
    feature: Int[np.ndarray, " L"]  # of every piece, -1 where nothing is removed
    other: int | None = None
    nothing: int = 0

    def __call__(self, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for each mask."""
        return self.engine.rows(self.sizes(keep), lambda rows: self.forward(self.ids(keep[rows])))

    def sizes(self, keep: Bool[np.ndarray, "n d"]) -> Int[np.ndarray, " n"]:
        """Return how many pieces each mask leaves."""
        if self.other is not None:
            return np.full(len(keep), len(self.pieces.inside))
        return self.pieces.fitting(self._stays(keep)).sum(axis=1)

    def ids(self, keep: Bool[np.ndarray, "n d"]) -> Int[np.ndarray, "n T"]:
        """Return the row of each mask."""
        pieces = self.pieces
        if self.other is not None:
            row, inside = pieces.row[pieces.inside], pieces.inside
            # Its segment stays that of the place; what is masked out has none.
            segment = 0 if self.other == MASKED_OUT else row - pieces.ids[inside]
            return np.where(self._stays(keep, inside), row, self.other + segment)
        left = pieces.fitting(self._stays(keep))
        sizes = left.sum(axis=1)
        # A stable sort moves what is left to the front in its order, for all masks at once.
        order = np.argsort(~left, axis=1, kind="stable")[:, : max(1, int(sizes.max()))]
        ids = np.where(np.arange(order.shape[1]) < sizes[:, None], pieces.row[order], MASKED_OUT)
        # Neither is an answer written after nothing: a token stands where it would begin the row.
        bare = np.flatnonzero((sizes == 0) | is_marked(ids[:, 0]))
        if len(bare):
            ids = np.pad(ids, ((0, 0), (0, 1)), constant_values=MASKED_OUT)
            ids[bare] = np.roll(ids[bare], 1, axis=1)
            ids[bare, 0] = self.nothing
        return ids

    def _stays(
        self, keep: Bool[np.ndarray, "n d"], places: Any = slice(None)
    ) -> Bool[np.ndarray, "n T"]:
        """Which of the pieces stay: those of kept features, and those that belong to none."""
        always = np.ones((len(keep), 1), bool)
        found: np.ndarray = np.concatenate([keep, always], axis=1)[:, self.feature[places]]
        return found

    @property
    def joins(self) -> object:
        """What games that may be asked together have in common: the engine of their model."""
        return self.engine

    @staticmethod
    def joint(
        games: Sequence[Any], masks: Sequence[Bool[np.ndarray, "_ _d"]]
    ) -> list[Float[np.ndarray, "_ C"]]:
        """Return the outputs for the masks of each text, asked as if they were one text's."""
        # Short texts alone would leave a device idle: one batch may hold masks of many.
        sizes = np.concatenate([game.sizes(keep) for game, keep in zip(games, masks, strict=True)])
        counts = [len(keep) for keep in masks]
        owner = np.repeat(np.arange(len(games)), counts)
        starts = np.cumsum([0, *counts[:-1]])

        def answer(places: Int[np.ndarray, " _"]) -> Float[np.ndarray, "_ C"]:
            whose = owner[places]
            rows = [
                (own, games[g].ids(masks[g][places[own] - starts[g]]))
                for g in np.unique(whose)
                for own in [whose == g]
            ]
            ids = np.full((len(places), max(part.shape[1] for _, part in rows)), MASKED_OUT)
            for own, part in rows:
                ids[own, : part.shape[1]] = part
            found: np.ndarray = games[0].forward(ids)
            return found

        return np.split(games[0].engine.rows(sizes, answer), starts[1:])


def replacement_tokens(network: Any, tokenizer: Any) -> dict[str, int]:
    """Return the tokens that may stand in the place of another, by name."""
    pad, unknown = network.config.pad_token_id, tokenizer.unk_token_id
    known = {
        "mask": tokenizer.mask_token_id,
        # Decoders read the last piece that is not padding: one that is both moves the head.
        "unk": None if unknown == pad else unknown,
        "pad": pad,
    }
    return {name: int(token) for name, token in known.items() if token is not None}


def nothing_token(tokenizer: Any) -> int:
    """Return what stands for a text of no pieces at all: the token that begins or ends others."""
    # The padding last: decoders look for the last piece that is not padding.
    choices = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, 0)
    return next(int(token) for token in choices if token is not None)


def ids_moved(
    pieces: Pieces, features: Features, tokens: Mapping[str, int], replacement: str
) -> Int[np.ndarray, " T"]:
    """Return the ids that are read, those of ``features`` moved to the token of that name."""
    if replacement not in tokens:
        named = " or ".join(map(repr, tokens))
        raise InputError(
            "integrated gradients move every word to a token in its own place; "
            + (f"use replacement {named}." if named else "use 'lime' or 'shapley'.")
        )
    feature = feature_of_piece(pieces, features)[pieces.inside]
    return np.where(feature >= 0, tokens[replacement], pieces.ids[pieces.inside])
