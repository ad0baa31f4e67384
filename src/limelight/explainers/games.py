"""From documents to the games that perturbation methods play on them."""

__all__ = ["deletion_game", "ratio_games"]

import numpy as np

from limelight.errors import DomainError
from limelight.explainers.reading import Reading
from limelight.shapes import Float
from limelight.theory.deletion import DeletionGame
from limelight.theory.ratio_game import RatioGame


def ratio_games(reading: Reading, *, every_output: bool = False) -> RatioGame:
    """Return the games of all documents, each feature kept or replaced by UNK at all its places.

    One class axis: the target's logit, or with ``every_output`` the C outputs of the model.
    Documents with fewer features are padded by words that weigh nothing.
    """
    top = np.maximum(reading.logit, reading.base_logit).max(axis=-1, keepdims=True)
    g, g_h = np.exp(reading.logit - top), np.exp(reading.base_logit - top)
    u, u_h = reading.u, reading.base_u
    if not every_output:
        weights = reading.target_weights[:, :, None, None]
        u, u_h = ((weights * x).sum(axis=1, keepdims=True) for x in (u, u_h))
    kept, kept_values = _by_feature(reading, g), _by_feature(reading, g[:, None] * u)
    return RatioGame(
        D0=kept[..., -1],
        a=kept[..., :-1],
        b=_by_feature(reading, g_h)[..., :-1],
        N0=kept_values[..., -1],
        A=kept_values[..., :-1],
        B=_by_feature(reading, g_h[:, None] * u_h)[..., :-1],
        sizes=np.array([len(features) for features in reading.features]),
    )


def _by_feature(
    reading: Reading, x: Float[np.ndarray, "n *heads T_max"]
) -> Float[np.ndarray, "n *heads buckets"]:
    """Sum over the places of each feature; [cls], padding and protected words come last."""
    d = max(map(len, reading.features))
    place = np.where(reading.of_position >= 0, reading.of_position, d)
    lines = x.reshape(len(x), -1, x.shape[-1])
    line = np.arange(lines.shape[0] * lines.shape[1]).reshape(*lines.shape[:2], 1)
    bucket = line * (d + 1) + place[:, None, :]
    sums = np.bincount(bucket.ravel(), weights=lines.ravel(), minlength=line.size * (d + 1))
    return sums.reshape(*x.shape[:-1], d + 1)


def deletion_game(reading: Reading, i: int) -> DeletionGame:
    """Return the game of document ``i`` when removed words vanish and later ones move up."""
    document, model = reading.documents[i], reading.model
    if (why := _inexact(reading, i)) is not None:
        raise DomainError(
            "LIME under deletion is exact for texts that fit the window and repeat no word; in "
            f"this one {why}. Use method 'lime-sampled', or replacement 'unk'."
        )
    d = len(document.ids)
    tables = model.tables
    word, place = document.ids[:, None], 1 + np.arange(d)[None, :]
    logit = tables.word_logit[word] + tables.position_logit[place]
    u = tables.word_value[word] + tables.position_value[place]
    # Per head, as in `ratio_games`: a head far below another must not underflow.
    top = np.maximum(logit.max(axis=(0, 1)), reading.base_logit[i].max(axis=-1))
    target = reading.target_weights[i]
    g = np.exp(np.moveaxis(logit - top, -1, 0))
    padding = np.exp(reading.base_logit[i] - top[:, None])
    padding_gu = padding * np.einsum("c,ckt->kt", target, reading.base_u[i])
    return DeletionGame(
        g=g,
        u=np.einsum("c,tpck->ktp", target, u)[None],
        tail_g=_beside(padding, d),
        tail_gu=_beside(padding_gu, d)[None],
    )


def _inexact(reading: Reading, i: int) -> str | None:
    """Say why positions under deletion depend on more than the number of words kept before."""
    strings = reading.documents[i].tokens.strings
    if reading.documents[i].cut:
        return "the last words were cut off"
    if len(reading.features[i]) == len(strings):
        return None
    repeated = next((s for s in strings if strings.count(s) > 1), None)
    if reading.features[i].kind == "words" and repeated is not None and not reading.protect:
        return f"{repeated!r} repeats"
    return "not every word is a feature of its own"


def _beside(x: Float[np.ndarray, "K T_max"], d: int) -> Float[np.ndarray, "K kept"]:
    """Sums over [cls] and padding when 0, 1, … d words stand between them."""
    behind = np.cumsum(x[:, ::-1], axis=1)[:, ::-1]
    after = np.concatenate([behind[:, 1:], np.zeros((len(x), 1))], axis=1)
    return x[:, :1] + after[:, : d + 1]
