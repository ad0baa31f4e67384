"""Attention pooling of any kind as a ratio game: instances, image patches, tokens.

Positions t have weights g_t = e^{ℓ_t} and values u_t. The logits ℓ may come from a scaled dot
product, an additive network or a distance. The output of a head is Σ g u/Σ g, and the output of the
model is the mean over heads. Removing a feature replaces the logits and values of its positions, or
removes the positions. Then the remaining weights are renormalised: b = B = 0.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from limelight import InputError
from limelight.shapes import Array
from limelight.theory.ratio_game import RatioGame, denominator_range
from limelight.theory.table_rounding import ROUNDING, average_error


def pooling_game(
    logit: Array,
    value: Array,
    *,
    removed_logit: Array = None,
    removed_value: Array = None,
    groups: Array = None,
    skip: Array = None,
    removed_skip: Array = None,
) -> RatioGame:
    """Return K heads of attention pooling over T positions as a ratio game for C outputs.

    Parameters
    ----------
    logit
        Logits of the positions, (K, T), or (T,) for one head.
    value
        Values of the positions, (C, K, T), (C, T) or (T,).
    removed_logit, removed_value
        Logits and values of removed positions. Without them removed positions vanish, and the
        attention of the other positions is renormalised.
    groups
        The feature 0, 1, … of every position, negative for positions that always stay. By default
        every position is a feature.
    skip, removed_skip
        Additional contributions of each position to the outputs, if it stays and if it is removed:
        a skip connection or a linear part.

    Returns
    -------
    RatioGame
        The game, with a bound of its rounding error.

    Raises
    ------
    InputError
        If an array has a wrong shape or is not finite, if only one of two related arrays is given,
        or if positions vanish and none always stays.
    """
    ell = _numbers("logit", logit, 2)
    u = _values(value, ell)
    if (removed_logit is None) != (removed_value is None):
        raise InputError("give removed_logit and removed_value together, or leave both out.")
    if skip is None and removed_skip is not None:
        raise InputError(
            "removed_skip needs skip, which is the output of a position that stays. Give both."
        )
    feature_index = _features(groups, ell.shape[1])
    vanishes = removed_logit is None
    if vanishes:
        ell_h, u_h = ell, np.zeros_like(u)
    else:
        ell_h, u_h = _numbers("removed_logit", removed_logit, 2), _values(removed_value, ell)
        if ell_h.shape != ell.shape:
            raise InputError(
                f"removed_logit must have the shape of logit, {ell.shape}, not {ell_h.shape}."
            )
    stays = feature_index < 0
    pick = (feature_index == np.arange(feature_index.max() + 1)[:, None]).T * 1.0
    # The largest logit of each head is subtracted before the exponential. The ratio is the same.
    # The removed logits of positions that always stay are not used.
    ell_h = np.where(stays, ell, ell_h)
    top = np.maximum(ell, ell_h).max(axis=-1, keepdims=True)
    g, g_h = np.exp(ell - top), (not vanishes) * np.exp(ell_h - top)
    if vanishes and not stays.any():
        raise InputError(
            "a game that deletes positions needs a position that always stays. Give one position "
            "the group -1, or give removed_logit and removed_value."
        )
    game = RatioGame(
        D0=g[:, stays].sum(axis=-1),
        a=g @ pick,
        b=g_h @ pick,
        N0=(g * u)[..., stays].sum(axis=-1),
        A=(g * u) @ pick,
        B=(g_h * u_h) @ pick,
    )
    # Differences of logits and exponentials are rounded, and products of small weights and values
    # lose digits.
    logit_error = ROUNDING * np.maximum(top - ell, top - ell_h).max(axis=-1)
    values = np.concatenate([u, u if vanishes else np.where(stays, u, u_h)], axis=-1)
    error = average_error(
        logit_error=logit_error,
        value_error=np.zeros(u.shape[:2]),
        low=values.min(axis=-1),
        high=values.max(axis=-1),
        terms=values.shape[-1],
        smallest=denominator_range(game)[0],
    )
    game = replace(game, error=error)
    return game if skip is None else _with_skip(game, skip, removed_skip, stays, pick)


def _with_skip(
    game: RatioGame, skip: Any, removed: Any, stays: np.ndarray, pick: np.ndarray
) -> RatioGame:
    """Add a linear part to a game, as one more head with D = 1.

    The mean over K + 1 heads must be the old mean plus the part. So the values of the old heads are
    multiplied by (K + 1)/K, and the values of the new head by K + 1.
    """
    C, K = game.N0.shape
    part = _skip_values("skip", skip, (C, len(stays)))
    removed_part = (
        0 * part if removed is None else _skip_values("removed_skip", removed, part.shape)
    )
    factor = (K + 1) / K
    # The rounding error of both states of every position, summed in any order.
    part_error = (np.abs(part) + np.abs(removed_part)).sum(axis=-1)
    part_error = ROUNDING * (2 * len(stays) + 8) * part_error
    assert game.error is not None  # noqa: S101 (`pooling_game` has computed it)

    def join_heads(values: np.ndarray, new_values: np.ndarray) -> np.ndarray:
        """Join the values of the old heads and of the new head."""
        return np.concatenate([factor * values, (K + 1) * new_values[:, None]], axis=1)

    zeros = np.zeros((1, game.d))
    return RatioGame(
        D0=np.concatenate([game.D0, [1.0]]),
        a=np.concatenate([game.a, zeros]),
        b=np.concatenate([game.b, zeros]),
        N0=join_heads(game.N0, part[:, stays].sum(axis=-1)),
        A=join_heads(game.A, part @ pick),
        B=join_heads(game.B, removed_part @ pick),
        error=join_heads((1 + 4 * ROUNDING) * game.error, part_error),
    )


def _skip_values(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the contributions of positions as (C, T); (T,) means the same for every output."""
    array = _numbers(name, values, 2)
    if array.shape not in (shape, (1, shape[1])):
        raise InputError(
            f"{name} must have the axes (C, T) or (T,), here {shape}, not the shape "
            f"{np.shape(values)}."
        )
    return np.broadcast_to(array, shape)


def _numbers(name: str, values: Any, axes: int) -> np.ndarray:
    """Return ``values`` in double precision with ``axes`` axes; new axes come first."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers, not {values!r:.80}.") from None
    if not 1 <= array.ndim <= axes or 0 in array.shape:
        raise InputError(
            f"{name} must have 1 to {axes} axes, none of them empty, not the shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, without NaN and infinite values.")
    return array.reshape((1,) * (axes - array.ndim) + array.shape)


def _values(value: Any, logit: np.ndarray) -> np.ndarray:
    """Return values as (C, K, T); two axes are (C, T), the same for every head."""
    array = _numbers("value", value, 3)
    if np.ndim(value) == 2:
        array = array.swapaxes(0, 1)
    if array.shape[1] not in (1, len(logit)) or array.shape[2] != logit.shape[1]:
        raise InputError(
            f"value must have the axes (C, K, T) with {len(logit)} heads and {logit.shape[1]} "
            f"positions, not the shape {np.shape(value)}."
        )
    return np.broadcast_to(array, (array.shape[0], *logit.shape))


def _features(groups: Any, T: int) -> np.ndarray:
    """Return the feature of every position, and check that no feature is missing."""
    if groups is None:
        return np.arange(T)
    array = np.asarray(groups)
    if array.shape != (T,) or array.dtype.kind not in "iu":
        raise InputError(f"groups must be {T} whole numbers, one per position.")
    features = np.unique(array[array >= 0])
    if not len(features) or features[-1] != len(features) - 1:
        raise InputError(
            "groups must number the features 0, 1, … without a gap, not "
            f"{', '.join(map(str, features[:5].tolist())) or 'none'}. Negative groups always stay."
        )
    return array
