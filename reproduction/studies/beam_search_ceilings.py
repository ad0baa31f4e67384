"""The limits of NAOPC by beam search, beside greedy search, the best order and the proven ceiling.

export PYTHONPATH=benchmarks
python reproduction/studies/beam_search_ceilings.py

NAOPC (Edin et al., "Normalized AOPC", ACL 2025) divides the deletion area of an order by the range
between an upper and a lower limit. It finds the limits by a search over all orders, or by a beam
search of width 5. The beam search here follows its published code: it extends orders by one word,
keeps those with the largest sums, and calls the model once for each set of words.

The games are short sentences and reviews under the shipped model and under the paper's recipe, and
random games of one, two and six heads. All limits are shares: 0 is chance, and 1 is the proven
ceiling for the upper limit, or the proven floor for the lower limit. Dynamic programming over all
sets finds the best and the worst order of short texts.

The rule, written before any result of this program. For each kind of game, a beam search is called
sufficient if it attains the best order on 95 % of the short texts, within 1e-9 of the distance from
chance to the ceiling. The ceiling is called tight if the best order has a median share of at least
0.95 of it. Controls: no beam search exceeds the ceiling, a beam of width 1 attains the area of
greedy search, and a beam that holds all orders of five words attains the best order.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from ceilings import LONGEST, SHORTEST, least_sum
from results import Measure, command_line, report
from reviews import reviews

import limelight
from limelight.explainers import prepare_batch
from limelight.shapes import Bool, Float
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
from limelight_reproduction.collapsed_folder import load_collapsed
from limelight_reproduction.setting import BUNDLED_MODEL

WIDTHS = (1, 5, 50)
HEADS = (1, 2, 6)
LONG_WORDS = 60  # of random games
ATTAINED, SUFFICIENT, TIGHT = 1e-9, 0.95, 0.95
Game = Callable[[Bool[np.ndarray, "n d"]], Float[np.ndarray, " n"]]


class Limits(NamedTuple):
    """Shares of the ceiling, calls and processor times of one game. ``best`` is NaN if unknown."""

    words: int
    best: float
    greedy: float
    beams: list[float]
    lower_best: float
    lower_beams: list[float]
    calls: list[int]
    beam_seconds: list[float]
    greedy_seconds: float
    ceiling_seconds: float


def main() -> None:
    """Compare the limits of all kinds of games."""
    arguments = command_line(__doc__ or "").parse_args()
    short_count, long_count = (4, 1) if arguments.smoke else (200, 20)
    kinds = dict(list_games(short_count, long_count))
    measures = [*controls()]
    for name, (label, games) in kinds.items():
        limits = [compare_limits(game) for game in games]
        measures += summarize(name, label, limits)
        print(f"{name}: {len(limits)} games", flush=True)
    data = f"{short_count} short and {long_count} long games of each kind"
    report("beam_search_ceilings", measures, arguments, data=data)


def search_by_beam(game: Game, d: int, width: int, *, sign: int = 1) -> tuple[float, int]:
    """Return the largest (or smallest) deletion area that a beam search finds, and its calls.

    Parameters
    ----------
    game
        The outputs for masks.
    d
        Number of words.
    width
        Number of orders that are kept at each step.
    sign
        1 for the upper limit, and −1 for the lower limit.

    Returns
    -------
    The deletion area, and the number of masks that the search evaluates.
    """
    (full,) = game(np.ones((1, d), bool))
    keep, total, calls = np.ones((1, d), bool), np.zeros(1), 1
    for _ in range(d):
        order, word = np.nonzero(keep)
        extended = keep[order]
        extended[np.arange(len(word)), word] = False
        packed = np.packbits(extended, axis=1)
        _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        outputs = game(extended[first])
        calls += len(first)
        sums = total[order] + sign * (full - outputs[which.ravel()])
        best = np.argsort(-sums, kind="stable")[:width]
        keep, total = extended[best], sums[best]
    return sign * float(total[0]) / d, calls


def compare_limits(ratio_game: RatioGame) -> Limits:
    """Compare the limits of one game."""
    d = ratio_game.d

    def game(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return np.asarray(value(ratio_game, keep)[0])

    (full,) = game(np.ones((1, d), bool))
    start = time.process_time()
    extremes = size_extremes(ratio_game)
    ceiling_seconds = time.process_time() - start
    ceiling, floor = full - float(extremes.low.mean()), full - float(extremes.high.mean())
    chance = full - float(random_removal_mean(ratio_game).value)
    start = time.process_time()
    order = greedy_order(ratio_game)
    greedy_seconds = time.process_time() - start
    greedy = float(deletion_area(deletion_curves(ratio_game, order[None]))[0])
    best = worst = np.nan
    if d <= LONGEST:
        outputs = game(enumerate_masks(d))
        best = full - least_sum(outputs, d) / d
        worst = full + least_sum(-outputs, d) / d
    beams, lower_beams, calls, seconds = [], [], [], []
    for width in WIDTHS:
        start = time.process_time()
        area, count = search_by_beam(game, d, width)
        seconds.append(time.process_time() - start)
        beams.append((area - chance) / (ceiling - chance))
        calls.append(count)
        lower_area, _ = search_by_beam(game, d, width, sign=-1)
        lower_beams.append((lower_area - chance) / (floor - chance))
    return Limits(
        words=d,
        best=(best - chance) / (ceiling - chance),
        greedy=(greedy - chance) / (ceiling - chance),
        beams=beams,
        lower_best=(worst - chance) / (floor - chance),
        lower_beams=lower_beams,
        calls=calls,
        beam_seconds=seconds,
        greedy_seconds=greedy_seconds,
        ceiling_seconds=ceiling_seconds,
    )


def summarize(name: str, label: str, limits: Sequence[Limits]) -> Iterator[Measure]:
    """Yield shares, calls and times of one kind of games."""
    best = np.array([row.best for row in limits])
    greedy = np.array([row.greedy for row in limits])
    beams = np.array([row.beams for row in limits])
    lower_beams = np.array([row.lower_beams for row in limits])
    words = np.median([row.words for row in limits])
    is_short = bool(np.isfinite(best).all())
    if is_short:
        lower_best = np.array([row.lower_best for row in limits])
        yield Measure(
            id=f"{name}_best",
            what=f"{label}: share of the best order, median",
            value=float(np.median(best)),
            at_least=TIGHT,
            note=f"smallest {best.min():.4f}; {len(limits)} games, {words:g} words",
        )
        yield Measure(
            id=f"{name}_lower_best",
            what=f"{label}: share of the worst order, of the distance to the floor, median",
            value=float(np.median(lower_best)),
        )
        yield Measure(
            id=f"{name}_greedy_attained",
            what=f"{label}: games on which greedy search attains the best order",
            value=float(np.mean(best - greedy <= ATTAINED)),
        )
    yield Measure(
        id=f"{name}_greedy",
        what=f"{label}: share of greedy search, median",
        value=float(np.median(greedy)),
        note=f"{len(limits)} games, {words:g} words",
    )
    for i, width in enumerate(WIDTHS):
        what = f"{label}: beam search of width {width}"
        yield Measure(
            id=f"{name}_beam_{width}",
            what=f"{what}: share, median",
            value=float(np.median(beams[:, i])),
            note=f"lower limit {np.median(lower_beams[:, i]):.4f} of the distance to the floor",
        )
        if is_short:
            yield Measure(
                id=f"{name}_beam_{width}_attained",
                what=f"{what}: games on which it attains the best order",
                value=float(np.mean(best - beams[:, i] <= ATTAINED)),
                at_least=SUFFICIENT,
                note=f"largest gap {np.max(best - beams[:, i]):.4f}",
            )
        yield Measure(
            id=f"{name}_beam_{width}_calls",
            what=f"{what}: calls, median",
            value=float(np.median([row.calls[i] for row in limits])),
        )
        seconds = [row.beam_seconds[i] for row in limits]
        yield _measure_time(f"{name}_beam_{width}_ms", f"{what}: processor time", seconds)
    greedy_times = [row.greedy_seconds for row in limits]
    yield _measure_time(
        f"{name}_greedy_ms", f"{label}: greedy search: processor time", greedy_times
    )
    times = [row.ceiling_seconds for row in limits]
    yield _measure_time(f"{name}_ceiling_ms", f"{label}: proven ceiling: processor time", times)
    above = max(float(beams.max()), float(lower_beams.max())) - 1
    yield Measure(
        id=f"{name}_above",
        what=f"{label}: beam search above the ceiling or below the floor, at most",
        value=max(above, 0.0),
        below=ATTAINED,
    )
    yield Measure(
        id=f"{name}_one",
        what=f"{label}: share of a beam of width 1 less that of greedy search, at most",
        value=float(np.abs(beams[:, 0] - greedy).max()),
        below=ATTAINED,
    )


def _measure_time(id: str, what: str, seconds: Sequence[float]) -> Measure:
    return Measure(id=id, what=what, value=1000 * float(np.median(seconds)), unit="ms")


def controls() -> Iterator[Measure]:
    """Yield the gaps of a beam that holds all orders of five words, and of the narrowest beam."""
    gaps = [find_gaps(np.random.default_rng(seed).normal(size=2**5)) for seed in range(20)]
    complete, narrow = np.max(gaps, axis=0)
    what = "random tables of five words: best order less a beam of all orders, at most"
    yield Measure(id="control_all", what=what, value=float(complete), below=ATTAINED)
    what = "random tables of five words: best order less a beam of width 1, at most"
    yield Measure(id="control_narrow", what=what, value=float(narrow), at_least=0.01)


def find_gaps(table: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """Return the best area of five words less that of a beam of all orders, and of width 1."""

    def game(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return np.asarray(table[keep @ (1 << np.arange(5))])

    best = table[-1] - least_sum(table, 5) / 5
    return abs(best - search_by_beam(game, 5, 120)[0]), best - search_by_beam(game, 5, 1)[0]


def list_games(
    short_count: int, long_count: int
) -> Iterator[tuple[str, tuple[str, Iterator[RatioGame]]]]:
    """Yield the name, the label and the games of each kind."""
    models = {
        "shipped": ("shipped model", limelight.load()),
        "paper": ("paper's recipe", load_collapsed(BUNDLED_MODEL)),
    }
    for name, (label, model) in models.items():
        texts = reviews(models["shipped"][1]).texts
        sentences = (s for text in texts for s in re.split(r"(?<=[.!?])\s+", text))
        fitting = (s for s in sentences if SHORTEST <= len(set(token_strings(s))) <= LONGEST)
        short_games = extract_games(model, fitting, short_count)
        yield f"{name}_short", (f"sentences, {label}", short_games)
        yield f"{name}_long", (f"reviews, {label}", extract_games(model, texts, long_count))
    for heads in HEADS:
        noun = "head" if heads == 1 else "heads"
        short_games = draw_games(heads, short_count)
        yield f"random_{heads}_short", (f"random games, {heads} {noun}", short_games)
        long_games = draw_games(heads, long_count, words=LONG_WORDS)
        label = f"random games of {LONG_WORDS} words, {heads} {noun}"
        yield f"random_{heads}_long", (label, long_games)


def draw_games(heads: int, count: int, *, words: int | None = None) -> Iterator[RatioGame]:
    """Yield games whose heads are independent of each other, of few words or of a given number."""
    rng = np.random.default_rng([heads, words or 0])
    for _ in range(count):
        d = words or int(rng.integers(SHORTEST, LONGEST + 1))
        yield draw_game(rng, heads, d)


def extract_games(model: Any, texts: Any, count: int) -> Iterator[RatioGame]:
    """Yield the games of the first texts."""
    for text in islice(texts, count):
        batch = prepare_batch(model, [text], target="predicted")
        yield extract_document(batch.ratio_game, 0)


def draw_game(rng: np.random.Generator, heads: int, d: int) -> RatioGame:
    """Draw a game whose heads are independent of each other."""
    a, b = np.exp(rng.normal(size=(2, heads, d)))
    return RatioGame(
        D0=np.exp(rng.normal(size=heads)),
        a=a,
        b=b,
        N0=rng.normal(size=(1, heads)),
        A=(a * rng.normal(size=(heads, d)))[None],
        B=(b * rng.normal(size=(heads, d)))[None],
    )


if __name__ == "__main__":
    main()
