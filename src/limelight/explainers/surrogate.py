"""A ratio game fitted to a model around one text: its values, and how far it is the model."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated, Any, Unpack

import numpy as np

from limelight.errors import DomainError
from limelight.explainers.banzhaf import of_words, strongest
from limelight.explainers.explaining import one_reading
from limelight.explainers.method import (
    ConfiguredMethod,
    OneOf,
    at_least,
    between,
)
from limelight.explainers.reading import Reading
from limelight.explainers.registry import METHODS, register_method
from limelight.explainers.sample_size import SampleSize, sampled_implementation
from limelight.explainers.target_game import TargetGame, rare_effect_warning
from limelight.models import Model, checked_model
from limelight.models.text_game import checked_masks
from limelight.question import Asked, spelled_out
from limelight.results import Finding
from limelight.sampling.deadline import answers_in_time
from limelight.sampling.masks import text_rng
from limelight.sampling.ratio_games import (
    CrossFits,
    cross_fits,
    pair_errors,
    paired_masks,
    word_errors,
)
from limelight.shapes import Bool, Float
from limelight.text import Given, one_line
from limelight.theory.banzhaf import banzhaf
from limelight.theory.interactions import shapley_interactions
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame, value
from limelight.theory.shapley import shapley

FEWEST_MASKS = 100  # masks: a fifth of them are left out at a time
MOST_MASKS = 100_000  # masks: a fit holds all of them, and a few thousand say all that it can use
_POOR = 0.5  # of the variance: a game that explains less is another game
_ALIKE = 0.001  # of the variance: two fits that differ by less explain the same
_MANY_HEADS = 8


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
        return value(self, checked_masks(keep, self.d)).T


_TOLERANCE = 1e-6  # of the range of f: far below any standard error
_OWN = 1e-4  # seconds of a core that fitting takes for each mask and word
_VALUES: dict[str, Callable[[RatioGame], Any]] = {
    "shapley": partial(shapley, tolerance=_TOLERANCE),
    "lime": partial(lime, tolerance=_TOLERANCE),
    "banzhaf": partial(banzhaf, tolerance=_TOLERANCE),
    "interactions": partial(shapley_interactions, tolerance=_TOLERANCE),
}


def _check_enough(_: "Surrogate", d: int) -> None:
    """Refuse before any call a text in which nothing can be weighed against anything."""
    if d < 2:
        raise DomainError(f"a surrogate needs at least 2 words; this text has {d}.")


def _fitted(one: Reading, settings: "Surrogate") -> tuple[SurrogateGame, CrossFits, TargetGame]:
    """Ask about random masks of the one document, and fit a ratio game to the answers.

    Beside it come the fits that its errors are computed from, and who was asked.
    """
    game, d = TargetGame(one, settings.replacement), len(one.features[0])
    rng = text_rng(settings.seed, one.documents[0].text)
    pairs = paired_masks(d, settings.sample_size.initial_count(d), rng).reshape(-1, 2, d)

    def answers_to(pairs: Bool[np.ndarray, "n two d"]) -> Float[np.ndarray, "n two"]:
        return game(pairs.reshape(-1, d)).reshape(-1, 2)

    least = settings.sample_size.minimum(d) // 2
    answers = answers_in_time(answers_to, pairs, masks_per_row=2, least=least).ravel()
    keep = pairs.reshape(-1, d)[: len(answers)]
    found = cross_fits(keep, answers, heads=settings.heads, known_range=game.known_range)
    parts: dict[str, Any] = {one.name: getattr(found.games, one.name) for one in fields(RatioGame)}
    whole = {name: x[0, ...] if np.ndim(x) else x for name, x in parts.items()}  # of all folds
    surrogate = SurrogateGame(
        **whole,
        features=one.features[0].strings,
        r2=found.r2,
        r2_linear=found.r2_linear,
        penalties=found.penalties,
        calls=len(keep),
        notices=_fidelity(found) + game.notices,
    )
    return surrogate, found, game


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


def _by_surrogate(settings: "Surrogate", one: Reading) -> Finding:
    """Score every feature by the exact values of a ratio game fitted to random masks."""
    fit, found, game = _fitted(one, settings)
    exact, out = _VALUES[settings.values](found.games), found.out
    own, *of_parts = exact.scores[:, 0]
    scored: dict[str, Any]
    if settings.values == "interactions":
        stderr, spike = pair_errors(out, own, np.stack(of_parts)), 0.0
        # Scores of words are sizes: | |Î| − |I| | is at most |Î − I|, whatever the signs.
        scored = {"scores": of_words(own), "stderr": of_words(stderr), "signed": False}
        scored["pairs"] = strongest(own, stderr, settings.top)
    else:
        stderr, spike = word_errors(out, own, np.stack(of_parts), settings.values)
        scored = {"scores": own, "stderr": stderr, "signed": True}
        if settings.values == "lime":
            scored["intercept"] = float(exact.intercept[0, 0])
    unseen = rare_effect_warning(flat=out.flat, spike=spike, size=out.size, draws=out.draws)
    return Finding(
        **scored,
        base_value=game.base_value,
        notices=fit.notices + unseen,
        diagnostics={
            "r2": fit.r2,
            "r2_linear": fit.r2_linear,
            "fitted_heads": fit.heads,
            "penalties": list(fit.penalties),
            "samples_drawn": fit.calls,
        },
    )


@register_method(
    id="surrogate",
    label="Surrogate",
    formula="values of c + Σ_h N_h(Z)/D_h(Z), fitted to f(Z) on random masks Z",
    sees="what the model does when many words go at once, as far as R² on masks left out says",
    blind="what no ratio of sums over words can do, such as one word reversing another",
    cost="one call of the model per sample, and seconds to fit",
    implementations=(
        sampled_implementation(
            _by_surrogate,
            {
                "values": 'which values of the fitted game: "shapley", "lime", "banzhaf" or '
                '"interactions"',
                "samples": "masks to draw, in pairs of opposites; None: ten for each word, at "
                "least 1000",
                "heads": "ratios to add up; None: one to three, by masks left out",
                "top": "pairs to keep, strongest first, of interactions; None: all d(d−1)/2",
            },
            max_count=MOST_MASKS,
            overhead=_OWN,
            check=_check_enough,
        ),
    ),
)
class Surrogate:
    """Settings of the surrogate: which of its values, and how it is fitted."""

    values: Annotated[str, OneOf(_VALUES)] = "shapley"
    samples: Annotated[int | None, between(FEWEST_MASKS, MOST_MASKS)] = None
    heads: Annotated[int | None, between(1, _MANY_HEADS)] = None
    top: Annotated[int | None, at_least(1)] = 100
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0

    @property
    def sample_size(self) -> SampleSize:
        """How many masks are drawn, in pairs of opposites."""
        return SampleSize(
            count=self.samples,
            default=lambda d: max(1000, 10 * d),
            minimum=lambda _: FEWEST_MASKS,
            enumerates=False,
        )


@spelled_out()
def surrogate(
    model: Model,
    text: Given,
    *,
    replacement: str = "auto",
    samples: int | None = None,
    heads: int | None = None,
    seed: int = 0,
    **asked: Unpack[Asked],
) -> SurrogateGame:
    """Return a ratio game fitted to what ``model`` answers when words of ``text`` are removed.

    It is taken wherever a ratio game is: by the exact values of :mod:`limelight.theory`, their
    curves and ceilings, and as a game of masks. How far it is the model, its ``r2`` says, beside
    the ``r2_linear`` of LIME's kind of model on the same masks, which neither had seen.

    ``samples`` masks are asked (None: ten for each word, at least 1,000), half of them the
    complements of the others; ``heads`` None takes one to three, by the error on masks left out.
    The other arguments are those of :func:`limelight.explain`.
    """
    method = METHODS["surrogate"]
    given = {"samples": samples, "heads": heads, "seed": seed, "replacement": replacement}
    settings: Surrogate = ConfiguredMethod.create(method, checked_model(model), given).settings
    feasible = partial(_check_enough, settings)
    reading = one_reading("surrogate", model, text, asked, feasible=feasible)
    return _fitted(reading, settings)[0]
