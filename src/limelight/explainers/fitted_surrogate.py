"""A ratio game fitted to a model around one text, and how far it is the model."""

__all__ = [
    "FEWEST_MASKS",
    "MOST_MASKS",
    "SurrogateFit",
    "SurrogateGame",
    "SurrogatePlan",
    "fitted_surrogate",
]

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, final

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import TargetGame
from limelight.sampling import CrossFits, LeftOut, cross_fits, paired_masks, text_rng
from limelight.shapes import Float
from limelight.text import one_line
from limelight.theory.ratio_game import RatioGame, value

FEWEST_MASKS = 100  # masks: a fifth of them are left out at a time
MOST_MASKS = 100_000  # masks: a fit holds all of them, and a few thousand say all that it can use
_POOR = 0.5  # of the variance: a game that explains less is another game
_ALIKE = 0.001  # of the variance: two fits that differ by less explain the same
_MANY_HEADS = 8


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SurrogateGame(RatioGame):
    """A ratio game of one class that stands for a model around one text.

    It is taken wherever a ratio game is, and called with masks (n, d), True where a feature stays,
    it returns numbers (n, 1), as any game does. ``r2`` is the share of the variance of the model's
    answers that it explains on masks left out of the fit, and ``r2_linear`` what the best linear
    model, which is what LIME fits, explains of the same ones. ``penalties`` are those on the
    spread of the log weights and on the values; ``calls`` is how many masks the model was asked.
    """

    features: tuple[str, ...]
    r2: float
    r2_linear: float
    penalties: tuple[float, float]
    calls: int
    notices: tuple[str, ...] = ()

    @property
    def heads(self) -> int:
        """Number of heads, chosen by the masks left out unless it was asked for."""
        return self.K

    def __len__(self) -> int:
        return self.d

    def __repr__(self) -> str:
        words = one_line(", ".join(self.features), 80)
        return (
            f"<SurrogateGame of {len(self)} features in {self.heads} head(s): R² {self.r2:.3f} on "
            f"masks left out, linear {self.r2_linear:.3f}, {self.calls:,} calls: {words}>"
        )

    def __call__(self, keep: Any) -> Float[np.ndarray, "n 1"]:
        """Return the fitted number for each mask."""
        masks = np.asarray(keep)
        if masks.ndim != 2 or masks.shape[1] != self.d or masks.dtype.kind not in "bui":
            raise InputError(
                f"a game of {self.d} features takes masks of shape (n, {self.d}), true where "
                f"a feature stays; got {masks.dtype} of shape {masks.shape}."
            )
        return value(self, masks.astype(bool)).T


@final
@dataclass(frozen=True, kw_only=True)
class SurrogatePlan:
    """How many masks a surrogate is fitted to, and its heads; None leaves them to the text."""

    samples: int | None = None
    heads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.samples is not None and not FEWEST_MASKS <= self.samples <= MOST_MASKS:
            raise InputError(
                f"samples must be between {FEWEST_MASKS} and {MOST_MASKS}; got {self.samples}."
            )
        if self.heads is not None and not 1 <= self.heads <= _MANY_HEADS:
            raise InputError(f"heads must be between 1 and {_MANY_HEADS}; got {self.heads}.")
        if self.seed < 0:
            raise InputError(f"seed must be at least 0; got {self.seed}.")

    def drawn(self, d: int) -> int:
        """Return how many masks of ``d`` features are drawn: ten for each, at least 1,000."""
        wanted = max(1000, 10 * d) if self.samples is None else self.samples
        return wanted + wanted % 2

    @staticmethod
    def check_enough(d: int) -> None:
        """Refuse before any call a text in which nothing can be weighed against anything."""
        if d < 2:
            raise DomainError(f"a surrogate needs at least 2 words; this text has {d}.")


class SurrogateFit(NamedTuple):
    """The game of one text, and what its errors are computed from."""

    game: SurrogateGame
    parts: CrossFits
    out: LeftOut
    base_value: float | None


def fitted_surrogate(one: Reading, plan: SurrogatePlan, replacement: str) -> SurrogateFit:
    """Ask the model about random masks of the one document, and fit a ratio game to its answers."""
    d = len(one.features[0])
    plan.check_enough(d)
    game = TargetGame(one, replacement)
    keep = paired_masks(d, plan.drawn(d), text_rng(plan.seed, one.documents[0].text))
    answers = game(keep)[:, 0]
    found = cross_fits(keep, answers, heads=plan.heads)
    size = max(game.known_range, float(np.ptp(answers)))
    whole = {name: _first(getattr(found.games, name)) for name in _arrays()}
    surrogate = SurrogateGame(
        **whole,
        features=one.features[0].strings,
        r2=found.r2,
        r2_linear=found.r2_linear,
        penalties=found.penalties,
        calls=len(keep),
        notices=_fidelity(found) + game.notices,
    )
    out = LeftOut(keep, found.left, found.part, size)
    return SurrogateFit(surrogate, found, out, game.base_value)


def _arrays() -> list[str]:
    return [field.name for field in fields(RatioGame)]


def _first(x: Any) -> Any:
    return None if x is None else x[0, ...]


def _fidelity(found: CrossFits) -> tuple[str, ...]:
    """Say where the surrogate is not the model, or no better than a linear one."""
    notices = []
    if found.r2 < _POOR:
        notices.append(
            f"The surrogate explains {max(found.r2, 0.0):.0%} of what the model does when words "
            "are removed (R² on masks left out): its scores are those of another game. Draw more "
            "masks, or ask for 'shapley', which asks the model itself."
        )
    if found.r2 < found.r2_linear - _ALIKE:
        notices.append(
            f"The surrogate explains less than a linear model does (R² {found.r2:.3f} against "
            f"{found.r2_linear:.3f} on the same masks left out): LIME is the better fit here."
        )
    return tuple(notices)
