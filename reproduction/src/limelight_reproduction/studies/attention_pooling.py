"""Attention pooling of any kind as a ratio game: instances, image patches, tokens.

Positions t have weights g_t = e^{ℓ_t}, whatever made the logits ℓ (a scaled dot product, an
additive network, a distance), and values u_t; a head's output is Σ g u/Σ g, and the model's the
mean over heads. Removing a feature replaces the logits and values of its positions by others, or
takes the positions out, so that the rest is renormalised: b = B = 0.
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

    ``logit`` is (K, T), or (T,) for one head; ``value`` (C, K, T), (C, T) or (T,). A removed
    position takes ``removed_logit`` and ``removed_value``; with neither it vanishes, and attention
    is renormalised over what is left. ``groups`` gives the feature 0, 1, … of every position, -1
    where it always stays; None: every position is a feature. ``skip`` is what each position adds to
    the output besides (``removed_skip`` where it is removed): a skip connection, a linear part.
    Domain: some position always stays, or none vanishes; finite numbers.
    """
    ell = _numbers("logit", logit, 2)
    u = _values(value, ell)
    if (removed_logit is None) != (removed_value is None):
        raise InputError("give removed_logit and removed_value together, or neither.")
    if skip is None and removed_skip is not None:
        raise InputError("give skip beside removed_skip: it says what a position adds if it stays.")
    of_feature = _features(groups, ell.shape[1])
    if removed_logit is None:
        ell_h, u_h, there = ell, np.zeros_like(u), 0.0
    else:
        ell_h, u_h, there = (
            _numbers("removed_logit", removed_logit, 2),
            _values(removed_value, ell),
            1.0,
        )
        if ell_h.shape != ell.shape:
            raise InputError(
                f"removed_logit must have the shape of logit, {ell.shape}; got {ell_h.shape}."
            )
    stays, pick = of_feature < 0, (of_feature == np.arange(of_feature.max() + 1)[:, None]).T * 1.0
    # The largest logit of each head is taken off before the exponential: a ratio does not notice.
    # What a position that stays would have if it were removed is never met.
    ell_h = np.where(stays, ell, ell_h)
    top = np.maximum(ell, ell_h).max(axis=-1, keepdims=True)
    g, g_h = np.exp(ell - top), there * np.exp(ell_h - top)
    if removed_logit is None and not stays.any():
        raise InputError(
            "a game in which removed positions vanish needs a position that always stays; give one "
            "the group -1, or say what replaces a removed position."
        )
    game = RatioGame(
        D0=g[:, stays].sum(axis=-1),
        a=g @ pick,
        b=g_h @ pick,
        N0=(g * u)[..., stays].sum(axis=-1),
        A=(g * u) @ pick,
        B=(g_h * u_h) @ pick,
    )
    # Differences of logits are rounded, exponentials are, and products of small weights and values
    # lose digits.
    apart = ROUNDING * np.maximum(top - ell, top - ell_h).max(axis=-1)
    met = np.concatenate([u, np.where(stays, u, u_h) if there else u], axis=-1)
    none = np.zeros(u.shape[:2])
    error = average_error(
        logit_error=apart,
        value_error=none,
        low=met.min(axis=-1),
        high=met.max(axis=-1),
        terms=met.shape[-1],
        smallest=denominator_range(game)[0],
    )
    game = replace(game, error=error)
    return game if skip is None else _with_skip(game, skip, removed_skip, stays, pick)


def _with_skip(
    game: RatioGame, skip: Any, removed: Any, stays: np.ndarray, pick: np.ndarray
) -> RatioGame:
    """The game with a linear part: one more head with D = 1, beside which the others count more.

    For the mean over K + 1 heads to be the old one plus the part, the values of the old heads are
    multiplied by (K + 1)/K and its own by K + 1.
    """
    C, K = game.N0.shape
    kept = _part("skip", skip, (C, len(stays)))
    gone = 0 * kept if removed is None else _part("removed_skip", removed, kept.shape)
    more = (K + 1) / K
    # Both states of every position, added up in any order.
    added = ROUNDING * (2 * len(stays) + 8) * (np.abs(kept) + np.abs(gone)).sum(axis=-1)
    assert game.error is not None  # noqa: S101 (`pooling_game` has put it there)

    def joined(values: np.ndarray, part: np.ndarray) -> np.ndarray:
        return np.concatenate([more * values, (K + 1) * part[:, None]], axis=1)

    none = np.zeros((1, game.d))
    return RatioGame(
        D0=np.concatenate([game.D0, [1.0]]),
        a=np.concatenate([game.a, none]),
        b=np.concatenate([game.b, none]),
        N0=joined(game.N0, kept[:, stays].sum(axis=-1)),
        A=joined(game.A, kept @ pick),
        B=joined(game.B, gone @ pick),
        error=joined((1 + 4 * ROUNDING) * game.error, added),
    )


def _part(name: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
    """What positions add to the outputs, (C, T); one axis is (T,), the same for every output."""
    array = _numbers(name, given, 2)
    if array.shape not in (shape, (1, shape[1])):
        raise InputError(
            f"{name} must have the axes (C, T) or (T,), here {shape}; got shape {np.shape(given)}."
        )
    return np.broadcast_to(array, shape)


def _numbers(name: str, given: Any, axes: int) -> np.ndarray:
    """``given`` in double precision with ``axes`` axes, new ones in front."""
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers; got {given!r:.80}.") from None
    if not 1 <= array.ndim <= axes or 0 in array.shape:
        raise InputError(f"{name} must have 1 to {axes} axes, none empty; got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite; got NaN or infinite values.")
    return array.reshape((1,) * (axes - array.ndim) + array.shape)


def _values(value: Any, logit: np.ndarray) -> np.ndarray:
    """Values as (C, K, T); two axes are (C, T), the same for every head."""
    array = _numbers("value", value, 3)
    if np.ndim(value) == 2:
        array = array.swapaxes(0, 1)
    if array.shape[1] not in (1, len(logit)) or array.shape[2] != logit.shape[1]:
        raise InputError(
            f"value must have the axes (C, K, T) beside {len(logit)} heads and {logit.shape[1]} "
            f"positions; got shape {np.shape(value)}."
        )
    return np.broadcast_to(array, (array.shape[0], *logit.shape))


def _features(groups: Any, T: int) -> np.ndarray:
    """The feature of every position, each of 0..d−1 somewhere."""
    if groups is None:
        return np.arange(T)
    array = np.asarray(groups)
    if array.shape != (T,) or array.dtype.kind not in "iu":
        raise InputError(f"groups must be {T} whole numbers, one per position.")
    named = np.unique(array[array >= 0])
    if not len(named) or named[-1] != len(named) - 1:
        raise InputError(
            "groups must number the features 0, 1, … without a gap; "
            f"got {', '.join(map(str, named[:5].tolist())) or 'none'}. Negative ones always stay."
        )
    return array
