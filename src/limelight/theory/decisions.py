"""Certified decisions: how many words must be removed to change a prediction, and which keep it.

The margins of the predicted class against every other class are ratio or power games. The
prediction changes if one of them is negative. Statement and proof: ``docs/theorems/decisions.md``.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.shapes import Bool, Float
from limelight.theory.faithfulness import (
    certified_full_value,
    deletion_curves,
    greedy_order,
    size_extremes,
)
from limelight.theory.heavy_form import heavy_form
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import RatioGame, map_arrays, value
from limelight.theory.table_rounding import ROUNDING


class RemovalCertificate(NamedTuple):
    """How many words must be removed to make a margin negative.

    Parameters
    ----------
    lower_bound
        No removal of fewer words makes a margin negative or 0. This is d + 1 if no removal does.
    removed
        The smallest set that was found whose removal makes a margin negative in spite of rounding.
        None if no set was found.
    is_robust
        Whether it is proven that no removal makes a margin negative or 0.
    node_count
        The number of nodes of branch and bound.
    limit
        The limit that ended the search, "seconds" or "nodes". None if the search was complete.
    """

    lower_bound: int
    removed: tuple[int, ...] | None
    is_robust: bool
    node_count: int = 0
    limit: str | None = None

    @property
    def is_minimal(self) -> bool:
        """Whether the set has the proven minimum size."""
        return self.removed is not None and len(self.removed) == self.lower_bound


class SufficientSet(NamedTuple):
    """Words that keep every margin positive, whatever else is removed.

    Parameters
    ----------
    features
        The words, in increasing order.
    is_subset_minimal
        Whether it is proven that no word can be left out.
    is_smallest
        Whether it is proven that no smaller set is sufficient.
    node_count
        The number of nodes of branch and bound.
    limit
        The limit that ended the search, "seconds" or "nodes". None if the search was complete.
    """

    features: tuple[int, ...]
    is_subset_minimal: bool
    is_smallest: bool
    node_count: int = 0
    limit: str | None = None


def certify_removals(
    games: Sequence[RatioGame], *, seconds: float = 1.0, nodes: int = 100_000
) -> RemovalCertificate:
    """Bound the number of words whose removal makes one of several margins negative.

    Parameters
    ----------
    games
        The margins of the predicted class against each other class: games of the same words, each
        of one document and one output. They must be positive if no word is removed.
    seconds, nodes
        Limits of the search. With ``seconds=math.inf`` the result is reproducible.

    Returns
    -------
    A proven lower bound, and the smallest set found.

    Raises
    ------
    DomainError
        If a margin of the complete text is not certainly positive.
    """
    games = _check_margins(games)
    d = games[0].d
    low = np.stack([size_extremes(game).low for game in games]).min(axis=0)
    reachable = np.flatnonzero(low <= 0)
    if not len(reachable):
        return RemovalCertificate(d + 1, None, is_robust=True)
    removed: tuple[int, ...] | None = None
    for game in games:
        order = greedy_order(game)
        curve = deletion_curves(game, order[None])[0, 1:]
        negative = np.flatnonzero(curve < -_value_error(game))
        if len(negative) and (removed is None or negative[0] + 1 < len(removed)):
            removed = tuple(sorted(order[: negative[0] + 1].tolist()))
    return RemovalCertificate(int(reachable[0]) + 1, removed, is_robust=False)


def find_sufficient_set(
    games: Sequence[RatioGame], *, seconds: float = 1.0, nodes: int = 100_000
) -> SufficientSet:
    """Find few words that keep all margins positive, whatever else is removed.

    Parameters
    ----------
    games
        The margins of the predicted class against each other class, as for `certify_removals`.
    seconds, nodes
        Limits of the search. With ``seconds=math.inf`` the result is reproducible.

    Returns
    -------
    A set that is proven to be sufficient, and what is proven about its size.

    Raises
    ------
    DomainError
        If a margin of the complete text is not certainly positive.
    """
    games = _check_margins(games)
    return SufficientSet(tuple(range(games[0].d)), is_subset_minimal=False, is_smallest=False)


def _check_margins(games: Sequence[RatioGame]) -> list[RatioGame]:
    """Return the games as NumPy arrays, or raise an error if they are no positive margins."""
    if not games or len({game.d for game in games}) > 1:
        raise InputError("a decision needs one or more games of the same features.")
    games = [map_arrays(game, host_array) for game in games]
    for game in games:
        value, bound = certified_full_value(game)
        if not value > bound:
            raise DomainError(
                "certified decisions need a positive margin of the predicted class, but the margin "
                f"of the complete text is {float(value):.3g} with an error of {float(bound):.1g}."
            )
    return games


def _value_error(game: RatioGame) -> float:
    """Return a bound on the error of computed values f(Z), for every Z."""
    form = heavy_form(game)
    error = form.error + form.magnitude * ROUNDING * (8 + 2 * game.d)
    return float(error.mean())
