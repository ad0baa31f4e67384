"""The attention classifier as a game: thousands of masks in a few matrix products."""

from collections.abc import Callable

import numpy as np

from limelight.models.attention.collapsed import CollapsedDocuments
from limelight.models.attention.tables import Tables, predicted_logits
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float, Int
from limelight.text import CLS, UNK
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import denominator_range, mapped, one_document, value

_PAIRS = 1 << 18  # words times places whose terms are kept
_UNDERFLOW = 1e-250  # a denominator below has lost digits


def _stays(
    keep: Bool[np.ndarray, "n d"], feature: Int[np.ndarray, " T"]
) -> Bool[np.ndarray, "n T"]:
    """Return whether what stands at each place stays, the places being those of a feature or -1."""
    # At −1 a place finds the last column: what belongs to no feature is never removed.
    return np.concatenate([keep, np.ones((len(keep), 1), bool)], axis=1).take(feature, axis=1)


def replaced_windows(
    keep: Bool[np.ndarray, "n d"],
    ids: Int[np.ndarray, " T_max"],
    of_position: Int[np.ndarray, " T_max"],
    removed: Int[np.ndarray, "*T_max"] | int = UNK,
) -> Int[np.ndarray, "n T_max"]:
    """Return ``ids`` with ``removed`` at places of removed features; -1 marks places that stay."""
    return np.where(_stays(keep, of_position), ids, removed)


def deleted_windows(
    keep: Bool[np.ndarray, "n d"],
    ids: Int[np.ndarray, " L"],
    of_token: Int[np.ndarray, " L"],
    *,
    T_max: int,
) -> Int[np.ndarray, "n T_max"]:
    """Return [cls], then the tokens ``ids`` whose feature stays, moved together, then padding."""
    ids, of_token = np.append(CLS, ids), np.append(-1, of_token)
    stays = _stays(keep, of_token)
    if len(ids) > T_max:  # what does not fit is not read
        stays &= np.cumsum(stays, axis=1, dtype=np.int32) <= T_max
    windows = np.full((len(keep), T_max), UNK, dtype=np.int32)
    # Row by row, both sides list the tokens that stay in their order.
    filled = np.arange(T_max) < np.count_nonzero(stays, axis=1)[:, None]
    windows[filled] = ids[np.flatnonzero(stays) % len(ids)]
    return windows


def looked_up(
    tables: Tables, words: Int[np.ndarray, " L"], *, T: int
) -> Callable[[Int[np.ndarray, "n T"]], Float[np.ndarray, "n C"]] | None:
    """Return f of windows of these ``words`` by what each adds at each place; None if too many."""
    (T_max, C, K), used = tables.position_value.shape, np.unique([CLS, UNK, *words])
    if len(used) * T_max > _PAIRS:  # of a novel they would take gigabytes
        return None
    row = np.zeros(len(tables.word_logit), np.intp)
    row[used] = np.arange(len(used))
    places = np.arange(T_max)[:, None]
    logit = tables.logit(used, places)[..., None, :]
    g = np.exp(logit - logit.max(axis=(0, 1)))
    terms = np.concatenate([g, g * tables.value(used, places)], axis=-2)
    terms = terms.reshape(T_max, len(used), -1)
    behind = terms[T:, row[UNK]].sum(axis=0)

    def outputs(windows: np.ndarray) -> np.ndarray:
        sums = np.tile(behind, (len(windows), 1))
        # One small table per place, which all masks look up, stays in the nearest cache.
        for here, rows in zip(terms, row.take(windows.T), strict=False):
            sums += here.take(rows, axis=0)
        parts = sums.reshape(-1, 1 + C, K)
        D, N = parts[:, :1], parts[:, 1:]
        lost = (D < _UNDERFLOW).any(axis=(1, 2))
        f = (N / np.maximum(D, _UNDERFLOW)).mean(axis=-1)
        f[lost] = predicted_logits(tables, windows[lost])
        return f

    return outputs


def replacement_game(one: CollapsedDocuments) -> Game:
    """Return f of the only document, with UNK for every removed word, or what stands there."""
    game = mapped(one_document(one.game, 0), host_array)
    peaked = denominator_range(game)[0].min() < _UNDERFLOW
    T = 1 + len(one.inputs[0].input.ids)  # behind is padding, whatever the mask
    window = one.ids[0, :T], one.of_position[0, :T], one.base_ids[0, :T]

    def outputs(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        f = value(game, keep).T
        if peaked:
            # Where a word outweighs all others by so much, masks may leave nothing that counts.
            D = game.D0 + keep @ game.a.T + ~keep @ game.b.T
            lost = (D < _UNDERFLOW).any(axis=1)
            f[lost] = predicted_logits(one.model.tables, replaced_windows(keep[lost], *window))
        return f

    return outputs
