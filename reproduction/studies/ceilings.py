"""How tight the proven ceiling is: on texts so short that the best order is known.

python reproduction/studies/ceilings.py
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from results import Measure, command_line, report
from reviews import reviews

from limelight.explainers import prepare_batch
from limelight.models import load
from limelight.shapes import Float
from limelight.text import token_strings
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.faithfulness import (
    deletion_area,
    deletion_curves,
    greedy_order,
    random_removal_mean,
    size_extremes,
)
from limelight.theory.ratio_game import RatioGame, extract_document, value

SHORTEST, LONGEST = 5, 12  # words
HEADS = (1, 2, 6)


class Found(NamedTuple):
    """One text: shares of the best order and of greedy, and what is wrong with the bounds."""

    best: float
    greedy: float
    above: float  # by which the best order passes the ceiling, of its distance to chance
    chance: float  # error of chance against all sets, likewise


def main() -> None:
    """Compare ceilings with the best of all orders."""
    arguments = command_line(__doc__ or "").parse_args()
    count = 4 if arguments.smoke else 200
    kinds = {"shipped": shipped_games(count)}
    kinds |= {f"random_{K}": random_games(K, count) for K in HEADS}
    measures = [one for name, games in kinds.items() for one in measured(name, games)]
    report("ceilings", measures, arguments, data=f"{count} short texts of each kind")


def measured(name: str, games: Iterable[RatioGame]) -> Iterator[Measure]:
    """Yield what was found on the texts of one kind."""
    table = np.array([compared(game) for game in games])
    kind = "sentences, shipped model" if name == "shipped" else f"random games, {name[7:]} head(s)"
    best, greedy = table[:, 0], table[:, 1]
    yield _measure(f"{name}_best", f"{kind}: share of the best order, median", np.median(best))
    yield _measure(f"{name}_worst", f"{kind}: share of the best order, smallest", best.min())
    yield _measure(
        f"{name}_greedy", f"{kind}: share of the greedy order, median", np.median(greedy)
    )
    above = max(float(table[:, 2].max()), 0.0)
    yield _measure(f"{name}_above", f"{kind}: best order above the ceiling, at most", above, 1e-9)
    off = float(table[:, 3].max())
    yield _measure(f"{name}_chance", f"{kind}: chance against all sets, at most", off, 1e-6)


def _measure(id: str, what: str, value: float, below: float | None = None) -> Measure:
    return Measure(id=id, what=what, value=float(value), below=below)


def compared(game: RatioGame) -> Found:
    """Compare ceiling and chance with the best order and with all sets."""
    keep = enumerate_masks(game.d)
    f = value(game, keep)[0]
    full, size = f[-1], game.d - keep.sum(axis=1)
    by_size = [f[size == k].mean() for k in range(1, game.d + 1)]
    chance = full - float(np.mean(by_size))
    best = full - least_sum(f, game.d) / game.d
    ceiling = full - float(size_extremes(game).low.mean())
    greedy = float(deletion_area(deletion_curves(game, greedy_order(game)[None]))[0])
    ours, room = full - float(random_removal_mean(game).value), ceiling - chance
    return Found(
        best=(best - chance) / room,
        greedy=(greedy - chance) / room,
        above=(best - ceiling) / room,
        chance=abs(ours - chance) / room,
    )


def least_sum(f: Float[np.ndarray, " sets"], d: int) -> float:
    """Return the smallest Σ_k f(N without the first k words) of all orders, set by set.

    Row s of ``f`` is the text of the words in the bits of s.
    """
    rows, least = np.arange(2**d), np.zeros(2**d)
    sizes = np.array([int(row).bit_count() for row in rows])
    for k in range(1, d + 1):
        there = rows[sizes == k]
        ways = np.full((d, len(there)), np.inf)
        for j in range(d):
            has = (there >> j) & 1 == 1
            without = there[has] ^ (1 << j)
            ways[j, has] = f[without] + least[without]
        least[there] = ways.min(axis=0)
    return float(least[-1])


def shipped_games(count: int) -> Iterator[RatioGame]:
    """Yield sentences of reviews under the shipped model."""
    model = load()
    sentences = (s for text in reviews(model).texts for s in re.split(r"(?<=[.!?])\s+", text))
    fitting = (s for s in sentences if SHORTEST <= len(set(token_strings(s))) <= LONGEST)
    for sentence, _ in zip(fitting, range(count), strict=False):
        batch = prepare_batch(model, [sentence], target="predicted")
        yield extract_document(batch.ratio_game, 0)


def random_games(K: int, count: int) -> Iterator[RatioGame]:
    """Yield games whose heads have nothing to do with each other."""
    rng = np.random.default_rng(K)
    for _ in range(count):
        d = int(rng.integers(SHORTEST, LONGEST + 1))
        a, b = np.exp(rng.normal(size=(2, K, d)))
        yield RatioGame(
            D0=np.exp(rng.normal(size=K)),
            a=a,
            b=b,
            N0=rng.normal(size=(1, K)),
            A=(a * rng.normal(size=(K, d)))[None],
            B=(b * rng.normal(size=(K, d)))[None],
        )


if __name__ == "__main__":
    main()
