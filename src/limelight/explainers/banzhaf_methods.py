"""Banzhaf values."""

__all__ = ["ROWS", "Banzhaf"]

from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from limelight.explainers.coin_samples import COINS_COUNTED, CoinSamples
from limelight.explainers.exact_games import semivalue
from limelight.explainers.method import Method, Way
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import TargetGame
from limelight.explainers.unseen_effects import unseen_effects
from limelight.results import Finding
from limelight.sampling import CoinDraws, Sample, banzhaf_of_all_masks, fitted_lime, text_rng, until
from limelight.shapes import Bool, Float
from limelight.theory.banzhaf import banzhaf


@final
@dataclass(frozen=True, kw_only=True)
class Banzhaf:
    """Settings of Banzhaf values: of a quadrature, or of random masks."""

    tolerance: float | None = None
    per_head: bool = False
    samples: int | None = None
    max_samples: int = 500_000
    replacement: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        _ = self.plan  # its own checks come before any work

    @property
    def plan(self) -> CoinSamples:
        """How many masks are asked; half as many pairs are the rows of a regression."""
        return CoinSamples(
            samples=self.samples,
            max_samples=self.max_samples,
            tolerance=self.tolerance,
            seed=self.seed,
            least=1000,
            per_word=10,
            rows=2,
            name="Banzhaf values",
        )


def _by_masks(settings: Banzhaf, reading: Reading) -> list[Finding]:
    """Score every feature by the slope of f on random masks, each with its opposite."""
    return [_found_in(settings, one) for one in reading.apart()]


def _found_in(settings: Banzhaf, one: Reading) -> Finding:
    game, d, plan = TargetGame(one, settings.replacement), len(one.features[0]), settings.plan
    if plan.asks_all(d):
        return Finding(
            scores=banzhaf_of_all_masks(game, d)[0],
            base_value=game.base_value,
            notices=game.notices,
            diagnostics={"masks": 2**d},
        )
    plan.check_enough(d)

    # The slope of least squares on masks by fair coins is the Banzhaf value, and half the
    # difference of a mask and its opposite has the same one: what an even number of words do
    # together drops out. With as many calls, at 14 words, the variance was 35 to 3,600 times
    # smaller than that of E[f | kept] − E[f | removed] on smooth games, 1.2 times on rare effects.
    def odd(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
        both = game(np.concatenate([keep, ~keep]))
        return (both[: len(keep)] - both[len(keep) :]) / 2

    sample = Sample(odd, CoinDraws(d), text_rng(settings.seed, one.documents[0].text), row0=False)
    fit = until(
        sample,
        partial(fitted_lime, ridge=0.0, known_range=game.known_range),
        start=plan.drawn_at_first(d) // 2,
        tolerance=settings.tolerance,
        most=settings.max_samples // 2,
    )
    plan.check_determined(d, 2 * fit.samples, fit.stderr)
    return Finding(
        scores=fit.scores[0],
        stderr=fit.stderr[0],
        base_value=game.base_value,
        notices=(
            plan.notices(2 * fit.samples, float(fit.stderr.max()))
            + unseen_effects(
                flat=bool(fit.flat[0]),
                spike=float(fit.spike[0]),
                size=max(game.known_range, float(sample.range[0])),
                draws=fit.samples,
                same="fit one linear model",
                what="pairs of masks",
            )
            + game.notices
        ),
        diagnostics={"samples_drawn": 2 * fit.samples},
    )


ROWS = (
    Method(
        id="banzhaf",
        label="Banzhaf",
        formula="E[f | word kept] − E[f | word removed], the others kept by fair coins",
        sees="the word's mean effect over all sets of other words, all alike",
        blind="sets far from half of the text; does not add up to f",
        cost="milliseconds, exact to quadrature precision with a bound",
        settings=Banzhaf,
        ways=(
            Way(
                needs="collapses",
                exactness="bound",
                explain=partial(semivalue, name="banzhaf", value=banzhaf),
                settings={
                    "tolerance": "largest error of a score, relative to the range of f",
                    "per_head": "also score every head alone",
                },
                defaults={"tolerance": 1e-6},
            ),
            Way(
                needs=None,
                exactness="sampled",
                explain=_by_masks,
                settings={
                    "samples": "masks to draw, in pairs of opposites; None: ten for each word, at "
                    "least 1000. If there are no more than that, or at most 1,024, all 2^d are "
                    "asked instead",
                    "replacement": "what stands for a removed word",
                    "seed": "same seed, same scores",
                    "tolerance": "keep drawing until no standard error exceeds it; None: stop at "
                    "`samples`",
                    "max_samples": "the most masks to draw",
                },
                calls=lambda settings, d: settings.plan.calls(d),
                counted=COINS_COUNTED,
                cost="one call of the model per sample",
                feasible=lambda settings, d: settings.plan.check_enough(d),
            ),
        ),
    ),
)
