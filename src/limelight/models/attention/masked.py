"""Games of the attention classifier: thousands of masks in a few matrix products."""

from collections.abc import Callable

import numpy as np

from limelight.models.attention.collapsed import CollapsedInputs
from limelight.models.attention.tables import Tables, predict_logits
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Float, Int
from limelight.text import CLS, UNK
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import denominator_range, extract_document, map_arrays, value

_MAX_TERMS = 1 << 18  # words times positions for which terms are stored
_UNDERFLOW = 1e-250  # smaller denominators have lost digits


def _is_kept(
    keep: Bool[np.ndarray, "n d"], feature: Int[np.ndarray, " T"]
) -> Bool[np.ndarray, "n T"]:
    """Return for each mask and position whether the token is kept.

    ``feature`` is the feature at each position, or -1 for a token that is always kept.
    """
    # The index −1 selects the last column, which is always True.
    return np.concatenate([keep, np.ones((len(keep), 1), bool)], axis=1).take(feature, axis=1)


def replaced_windows(
    keep: Bool[np.ndarray, "n d"],
    ids: Int[np.ndarray, " T_max"],
    position_features: Int[np.ndarray, " T_max"],
    removed: Int[np.ndarray, "*T_max"] | int = UNK,
) -> Int[np.ndarray, "n T_max"]:
    """Replace the tokens of removed features in a window, for every mask.

    Parameters
    ----------
    keep
        The masks.
    ids
        The ids of the window.
    position_features
        The feature at each position, or -1 for a token that is always kept.
    removed
        The id that replaces a token, for all positions or for each.

    Returns
    -------
    The ids of the window under each mask.
    """
    return np.where(_is_kept(keep, position_features), ids, removed)


def deleted_windows(
    keep: Bool[np.ndarray, "n d"],
    ids: Int[np.ndarray, " L"],
    feature_index: Int[np.ndarray, " L"],
    *,
    T_max: int,
) -> Int[np.ndarray, "n T_max"]:
    """Delete the tokens of removed features from a text, for every mask.

    Parameters
    ----------
    keep
        The masks.
    ids
        The ids of the text, without [cls].
    feature_index
        The feature of each token, or -1 for a token that is always kept.
    T_max
        The length of the windows.

    Returns
    -------
    One window per mask: [cls], the kept tokens without gaps, then padding.
    """
    ids, feature_index = np.append(CLS, ids), np.append(-1, feature_index)
    is_kept = _is_kept(keep, feature_index)
    if len(ids) > T_max:  # the model does not read tokens that do not fit
        is_kept &= np.cumsum(is_kept, axis=1, dtype=np.int32) <= T_max
    windows = np.full((len(keep), T_max), UNK, dtype=np.int32)
    # In each row, both sides list the kept tokens in their order.
    is_filled = np.arange(T_max) < np.count_nonzero(is_kept, axis=1)[:, None]
    windows[is_filled] = ids[np.flatnonzero(is_kept) % len(ids)]
    return windows


def make_window_lookup(
    tables: Tables, words: Int[np.ndarray, " L"], *, T: int
) -> Callable[[Int[np.ndarray, "n T"]], Float[np.ndarray, "n C"]] | None:
    """Return a fast function from windows to outputs, for windows that contain only these words.

    It looks up what each word at each position adds to numerator and denominator.

    Parameters
    ----------
    tables
        The tables of the model.
    words
        The ids of the words.
    T
        The length of the windows. The positions behind them are padding.

    Returns
    -------
    The function, or None if its table would be too large.
    """
    (T_max, C, K), used = tables.position_value.shape, np.unique([CLS, UNK, *words])
    if len(used) * T_max > _MAX_TERMS:  # the terms of a novel would take gigabytes
        return None
    row = np.zeros(len(tables.word_logit), np.intp)
    row[used] = np.arange(len(used))
    positions = np.arange(T_max)[:, None]
    logit = tables.logit(used, positions)[..., None, :]
    g = np.exp(logit - logit.max(axis=(0, 1)))
    terms = np.concatenate([g, g * tables.value(used, positions)], axis=-2)
    terms = terms.reshape(T_max, len(used), -1)
    padding = terms[T:, row[UNK]].sum(axis=0)

    def compute_outputs(windows: np.ndarray) -> np.ndarray:
        """Return the outputs for windows by sums of table entries."""
        sums = np.tile(padding, (len(windows), 1))
        # All masks use one small table per position, which stays in the nearest cache.
        for position_terms, rows in zip(terms, row.take(windows.T), strict=False):
            sums += position_terms.take(rows, axis=0)
        parts = sums.reshape(-1, 1 + C, K)
        D, N = parts[:, :1], parts[:, 1:]
        has_underflow = (D < _UNDERFLOW).any(axis=(1, 2))
        f = (N / np.maximum(D, _UNDERFLOW)).mean(axis=-1)
        f[has_underflow] = predict_logits(tables, windows[has_underflow])
        return f

    return compute_outputs


def replacement_game(inputs: CollapsedInputs) -> Game:
    """Return the outputs for the only input as a function of masks.

    A removed token is replaced by UNK, or by the id that the input names for it.
    """
    game = map_arrays(extract_document(inputs.game, 0), host_array)
    can_underflow = denominator_range(game)[0].min() < _UNDERFLOW
    T = 1 + len(inputs.inputs[0].encoding.ids)  # all positions behind are padding, for every mask
    window = inputs.ids[0, :T], inputs.position_features[0, :T], inputs.base_ids[0, :T]

    def compute_outputs(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """Return the outputs for masks; the tables are used if a denominator underflows."""
        f = value(game, keep).T
        if can_underflow:
            # If a word outweighs all others by so much, the terms of a mask without it underflow.
            D = game.D0 + keep @ game.a.T + ~keep @ game.b.T
            has_underflow = (D < _UNDERFLOW).any(axis=1)
            f[has_underflow] = predict_logits(
                inputs.model.tables, replaced_windows(keep[has_underflow], *window)
            )
        return f

    return compute_outputs
