"""LIME's game when removed words vanish and later ones move up, from a model's tables."""

__all__ = ["deletion_game"]

import numpy as np

from limelight.errors import DomainError
from limelight.models.attention.documents import encoded
from limelight.models.attention.table_errors import Doubts
from limelight.models.attention.tables import Tables
from limelight.shapes import Float
from limelight.text import Document, Features
from limelight.theory.deletion import DeletionGame


def deletion_game(
    document: Document,
    features: Features,
    tables: Tables,
    *,
    base_logit: Float[np.ndarray, "K T_max"],
    base_u: Float[np.ndarray, "C K T_max"],
    weights: Float[np.ndarray, " C"],
    doubts: Doubts,
) -> DeletionGame:
    """Return the game of one document; ``base_`` is its window with every word removed."""
    if (why := _inexact(document, features)) is not None:
        raise DomainError(
            "LIME under deletion is exact for texts that fit the window and repeat no word; in "
            f"this one {why}. Use method 'lime-sampled', or replacement 'unk'."
        )
    ids = encoded(document).ids
    d = len(ids)
    word, place = ids[:, None], 1 + np.arange(d)[None, :]
    logit = tables.logit_at(word, place)
    u = tables.word_value[word] + tables.position_value[place]
    # Per head, as in other games: a head far below another must not underflow.
    top = np.maximum(logit.max(axis=(0, 1)), base_logit.max(axis=-1))
    g = np.exp(np.moveaxis(logit - top, -1, 0))
    padding = np.exp(base_logit - top[:, None])
    padding_gu = padding * np.einsum("c,ckt->kt", weights, base_u)
    tail_g = _beside(padding, d)
    error = doubts.of_outputs(tail_g.min(axis=-1)[None])[0]
    return DeletionGame(
        g=g,
        u=np.einsum("c,tpck->ktp", weights, u)[None],
        tail_g=tail_g,
        tail_gu=_beside(padding_gu, d)[None],
        error=np.abs(weights[None]) @ error,
    )


def _inexact(document: Document, features: Features) -> str | None:
    """Say why positions under deletion depend on more than the number of words kept before."""
    strings = document.tokens.strings
    if document.cut is not None:
        return "the last words were cut off"
    if len(features) == len(strings):
        return None
    repeated = next((s for s in strings if strings.count(s) > 1), None)
    if features.unit == "words" and repeated is not None and (features.of_token >= 0).all():
        return f"{repeated!r} repeats"
    return "not every word is a feature of its own"


def _beside(x: Float[np.ndarray, "K T_max"], d: int) -> Float[np.ndarray, "K kept"]:
    """Sums over [cls] and padding when 0, 1, … d words stand between them."""
    behind = np.cumsum(x[:, ::-1], axis=1)[:, ::-1]
    after = np.concatenate([behind[:, 1:], np.zeros((len(x), 1))], axis=1)
    return x[:, :1] + after[:, : d + 1]
