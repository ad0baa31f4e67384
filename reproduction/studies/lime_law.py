"""What runs of LIME with the package's penalty and row 0 scatter around.

python reproduction/studies/lime_law.py

Runs with a penalty of 1 and the untouched text as row 0, as the `lime` package has them, written
here from its description: masks, weights, one ridge regression. For a sentence, a review and a
random game with uneven weights: how often ±2 computed standard errors hold the limit without
penalty, how often they hold the penalised limit, and how the scatter of the runs compares with
σ/√n and with √(σ² + s²)/√n. The normal law has 0.954.

The rule, written before any number was seen: the law of docs/theorems/lime-variance.md is called
met where ±2 standard errors around the penalised limit hold 0.93 or more at 5,000 samples.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from results import Measure, command_line, report

from limelight.sampling.masks import draw_lime_masks
from limelight.theory.lime import lime
from limelight.theory.lime_shift import lime_shift, shift_scatter
from limelight.theory.lime_weights import size_weight
from limelight.theory.ratio_game import RatioGame, value
from limelight_reproduction.theory.lime_variance import lime_variance

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "theorems"))

SIZES = (200, 1000, 5000)
WANTED = 0.93


def main() -> None:
    """Run LIME many times on three games."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--runs", type=int, default=200, help="of each game and size")
    arguments = parser.parse_args()
    from drawn.games import LONG, SHORT, review_game, uneven_game

    games = {
        "sentence": (f"“{SHORT}”", review_game(SHORT)),
        "review": ("a review", review_game(LONG)),
        "uneven": ("a random game, denominators to 1:1,000", uneven_game(1, d=30, ratio=1e3)),
    }
    sizes, runs = ((200,), 20) if arguments.smoke else (SIZES, arguments.runs)
    measures = [
        one
        for name, (what, game) in games.items()
        for n in sizes
        for one in law(name, f"{what}, {game.d} words, n = {n:,}", game, n, runs)
    ]
    report("lime_law", measures, arguments, data=f"{runs} runs of three games")


def law(name: str, what: str, game: RatioGame, n: int, runs: int) -> Iterator[Measure]:
    """Yield coverage and scatter of ``runs`` regressions on n − 1 masks and the untouched text."""
    limit = lime(game, tolerance=1e-9)
    beta, whole = limit.scores[0], float(value(game, np.ones((1, game.d), bool))[0, 0])
    left = whole - float(limit.intercept[0]) - float(beta.sum())
    sigma = np.sqrt(lime_variance(game)[0])
    shift = lime_shift(beta, left, samples=n - 1)
    shift = shift.differences + shift.penalty + shift.row0
    both = np.sqrt(sigma**2 + shift_scatter(beta, left, samples=n - 1) ** 2)
    found = np.stack([regression(game, n - 1, seed) for seed in range(runs)])
    error = np.sqrt(n - 1)

    def held(center: np.ndarray, spread: np.ndarray) -> np.ndarray:
        return np.asarray((np.abs(found - center) <= 2 * spread / error).mean(axis=0))

    plain, penalised = held(beta, sigma), held(beta + shift, both)
    wanted = {"at_least": WANTED} if n == max(SIZES) else {}
    scatter = found.std(axis=0, ddof=1) * error
    of = {
        "held_limit": ("±2σ/√n around the limit hold", plain.mean(), f"word by word {low(plain)}"),
        "held_penalised": (
            "±2√(σ² + s²)/√n around the penalised limit hold",
            penalised.mean(),
            f"word by word {low(penalised)}",
        ),
        "scatter": ("scatter of the runs over √(σ² + s²)/√n", np.median(scatter / both), ""),
        "scatter_sigma": ("scatter of the runs over σ/√n", np.median(scatter / sigma), ""),
    }
    for key, (kind, number, note) in of.items():
        target = wanted if key == "held_penalised" else {}
        id = f"{name}_{n}_{key}"
        yield Measure(id=id, what=f"{what}: {kind}", value=float(number), note=note, **target)


def low(held: np.ndarray) -> str:
    """Return the range of a coverage over the words."""
    return f"{held.min():.3f} to {held.max():.3f}"


def regression(game: RatioGame, n: int, seed: int) -> np.ndarray:
    """Return the coefficients of one run: n masks and row 0, ridge 1, a free intercept."""
    keep = draw_lime_masks(game.d, n, np.random.default_rng([3, seed]))
    keep = np.concatenate([np.ones((1, game.d), bool), keep])
    weight = size_weight(game.d, 0.25)[game.d - keep.sum(axis=1)]
    x = np.column_stack([np.ones(n + 1), keep])
    penalty = np.diag([0.0] + [1.0] * game.d)
    gram = (x.T * weight) @ x + penalty
    return np.asarray(np.linalg.solve(gram, x.T @ (weight * value(game, keep)[0]))[1:])


if __name__ == "__main__":
    main()
