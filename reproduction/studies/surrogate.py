"""How far a ratio game fitted to a transformer around one text is the transformer.

export PYTHONPATH=benchmarks
python reproduction/studies/surrogate.py --reviews 2      with ../shared/models/minilm-imdb
python reproduction/studies/surrogate.py --device cuda --data carry/reviews.jsonl.gz \
    --model carry/minilm-imdb
python reproduction/studies/surrogate.py --coverage       standard errors, on games of 14 words

For reviews of about 100 words and n masks: R² on masks that nobody has seen, of the best line, of
one head, of three, and of what the masks left out choose; the error of Shapley values against long
runs of permutations, beside permutations with as many calls; how often ±2 standard errors hold.
"""

import argparse
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from coverage_study import (
    FAMILIES,
    WANTED,
    D,
    Family,
    Method,
    exact_values,
    warns_of_rare_effects,
)
from judging import device_of, short_texts
from results import Measure, command_line, report

import limelight
from limelight.sampling.orders import shapley_values_from_orders
from limelight.theory.ratio_game import RatioGame, value
from limelight.theory.shapley import shapley
from limelight_reproduction.studies.fitted_ratio_games import (
    cross_fit_ratio_game,
    draw_paired_masks,
    fit_ratio_games,
    word_errors,
)
from limelight_reproduction.studies.surrogate_values import compute_surrogate_values

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "models" / "minilm-imdb"
SIZES = (200, 500, 1000)
RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
Answer = Callable[[np.ndarray], np.ndarray]
Numbers = dict[str, float]


def main() -> None:
    """Measure reviews one by one, or the coverage of the standard errors."""
    arguments = parsed()
    if arguments.coverage:
        report("surrogate_coverage", [*covered(arguments)], arguments, data="games of 14 words")
        return
    model = limelight.load(arguments.model, device=arguments.device)
    texts = short_texts(arguments)
    found: dict[str, list[float]] = defaultdict(list)
    for i, text in enumerate(texts):
        rng = np.random.default_rng([7, i])
        for name, number in of_review(model, text, rng, arguments).items():
            found[name].append(number)
    words = f"{found['words'][0]:.0f} to {max(found['words']):.0f}"
    name = "surrogate" if device_of(model) == "deep" else f"surrogate_{device_of(model)}"
    measures = [one for n in sizes(arguments) for one in of_size(found, n)]
    data = f"{len(texts)} reviews of {words} words, {arguments.unseen} unseen masks, "
    data += f"{arguments.pairs} pairs of orders for the long runs"
    report(name, measures, arguments, data=data)


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--limit", "--reviews", type=int, default=8, help="measure so many")
    parser.add_argument("--model", type=Path, default=FOLDER, help="a Hugging Face folder")
    parser.add_argument("--device", help='as torch names it, such as "cuda"')
    parser.add_argument("--data", type=Path, help="reviews as .jsonl.gz, where parquet is not read")
    parser.add_argument("--unseen", type=int, default=5000, help="masks that R² is measured on")
    parser.add_argument("--pairs", type=int, default=100, help="of orders, for the long runs")
    parser.add_argument("--coverage", action="store_true", help="of the standard errors instead")
    parser.add_argument("--games", type=int, default=12, help="of each kind, for the coverage")
    return parser.parse_args()


def sizes(arguments: argparse.Namespace) -> tuple[int, ...]:
    """Return the numbers of masks to fit."""
    return (100,) if arguments.smoke else SIZES


def of_review(
    model: limelight.Model, text: str, rng: np.random.Generator, arguments: argparse.Namespace
) -> Numbers:
    """Return what is found for one review, by number of masks."""
    answer, d = log_odds(model, text)
    few = arguments.smoke
    unseen = draw_paired_masks(d, 200 if few else arguments.unseen, rng)
    f = answer(unseen)
    truth = shapley_values_from_orders(
        lambda keep: answer(keep)[:, None], d, rng, pairs=3 if few else arguments.pairs
    )
    keep = draw_paired_masks(d, max(sizes(arguments)), rng)
    y = answer(keep)
    found: Numbers = {"words": d}
    for n in sizes(arguments):
        numbers = of_masks(keep[:n], y[:n], (unseen, f), (truth.values[0], truth.stderr[0]))
        numbers["permutations"] = off(by_orders(answer, d, n, rng) - truth.values[0], truth)
        found |= {f"{name}_{n}": number for name, number in numbers.items()}
        print(d, n, {name: round(number, 3) for name, number in numbers.items()}, flush=True)
    return found


def log_odds(model: limelight.Model, text: str) -> tuple[Answer, int]:
    """Return the log-odds of the second class against the first as a function of the masks."""
    game = limelight.game(model, text)

    def answer(keep: np.ndarray) -> np.ndarray:
        outputs = game(keep)
        return outputs[:, -1] - (outputs[:, 0] if outputs.shape[1] > 1 else 0.0)

    return answer, len(game)


def of_masks(
    keep: np.ndarray,
    y: np.ndarray,
    unseen: tuple[np.ndarray, np.ndarray],
    truth: tuple[np.ndarray, np.ndarray],
) -> Numbers:
    """Return R² on unseen masks of several fits, and the errors of the chosen one's values."""
    start = time.process_time()
    chosen = cross_fit_ratio_game(keep, y)
    own, *of_parts = shapley(chosen.games).scores[:, 0]
    stderr = word_errors(chosen.held_out, own, np.stack(of_parts), "shapley").stderr
    seconds = time.process_time() - start
    error = own - truth[0]
    return {
        "linear": max(explained(line(keep, y, ridge, unseen[0]), unseen[1]) for ridge in RIDGES),
        "one_head": of_game(cross_fit_ratio_game(keep, y, heads=1).games, unseen),
        "three_heads": of_game(cross_fit_ratio_game(keep, y, heads=3).games, unseen),
        "chosen": of_game(chosen.games, unseen),
        "heads": chosen.heads,
        "left_out": chosen.r2,
        "left_out_linear": chosen.r2_linear,
        "surrogate": math.sqrt(max(np.mean(error**2) - np.mean(truth[1] ** 2), 0.0)),
        "stderr": math.sqrt(np.mean(stderr**2)),
        "held": float(np.mean(np.abs(error) <= 2 * np.hypot(stderr, truth[1]))),
        "all_seconds": seconds,
        "fit_seconds": one_fit(keep, y),
    }


def off(error: np.ndarray, truth: object) -> float:
    """Return the root of the mean square of an error, less that of the long run itself."""
    return math.sqrt(max(np.mean(error**2) - np.mean(truth.stderr**2), 0.0))  # type: ignore[attr-defined]


def by_orders(answer: Answer, d: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return Shapley values by permutations with about n calls."""
    pairs = max(1, round(n / (2 * (d - 1))))
    return shapley_values_from_orders(
        lambda keep: answer(keep)[:, None], d, rng, pairs=pairs
    ).values[0]


def one_fit(keep: np.ndarray, y: np.ndarray) -> float:
    """Return the processor time of one fit of three heads."""
    start = time.process_time()
    scaled = ((y - y.mean()) / y.std())[None]
    penalties = np.array([[0.03, 1.0]])
    fit_ratio_games(keep.astype(float), scaled, np.ones_like(scaled), heads=3, penalties=penalties)
    return time.process_time() - start


def of_game(games: RatioGame, unseen: tuple[np.ndarray, np.ndarray]) -> float:
    """Return R² of the first of several games on unseen masks."""
    return explained(value(games, unseen[0])[0, 0], unseen[1])


def line(keep: np.ndarray, y: np.ndarray, ridge: float, unseen: np.ndarray) -> np.ndarray:
    """Return what a linear model fitted to masks says of others."""
    mean_x, mean_y = keep.mean(axis=0), y.mean()
    x = keep - mean_x
    slope = np.linalg.solve(x.T @ x + ridge * np.eye(x.shape[1]), x.T @ (y - mean_y))
    return mean_y + (unseen - mean_x) @ slope


def explained(said: np.ndarray, f: np.ndarray) -> float:
    """Return R²."""
    return 1 - float(np.mean((f - said) ** 2) / f.var())


def of_size(found: dict[str, list[float]], n: int) -> Iterator[Measure]:
    """Yield the medians over reviews for n masks; the long runs' own error is taken off."""

    def median(name: str) -> float:
        return statistics.median(found[f"{name}_{n}"])

    for name, what in (
        ("linear", "the best line"),
        ("one_head", "one head"),
        ("three_heads", "three heads"),
        ("chosen", "heads chosen on masks left out"),
    ):
        yield Measure(id=f"r2_{name}_{n}", what=f"n = {n}: R², {what}", value=median(name))
    gain = statistics.median(
        a - b for a, b in zip(found[f"chosen_{n}"], found[f"linear_{n}"], strict=True)
    )
    wanted = {"at_least": 0.05} if n == max(SIZES) else {}
    yield Measure(id=f"gain_{n}", what=f"n = {n}: R² above the line's", value=gain, **wanted)
    said = median("left_out") - median("chosen")
    yield Measure(id=f"said_{n}", what=f"n = {n}: R² that it says, less R²", value=said)
    for name in ("permutations", "surrogate"):
        what = f"n = {n}: error of Shapley values, {name}"
        yield Measure(id=f"error_{name}_{n}", what=what, value=median(name))
    note = f"rms stderr {median('stderr'):.3f}"
    held = statistics.mean(found[f"held_{n}"])
    yield Measure(id=f"held_{n}", what=f"n = {n}: within ±2 stderr", value=held, note=note)
    for name, below in (("fit", 2.0), ("all", 15.0)):
        target = {"below": below} if n == max(SIZES) else {}
        what = f"n = {n}: one fit of three heads" if name == "fit" else f"n = {n}: all fits, errors"
        seconds = median(f"{name}_seconds")
        yield Measure(id=f"{name}_seconds_{n}", what=what, value=seconds, unit="s", **target)


def covered(arguments: argparse.Namespace) -> Iterator[Measure]:
    """Yield how often ±2 standard errors hold exact values of games of 14 words."""
    games, seeds = (1, 1) if arguments.smoke else (arguments.games, 2)
    for samples in (300,) if arguments.smoke else (300, 1000):
        for kind in ("shapley", "lime", "banzhaf", "interactions"):
            for name, family in FAMILIES.items():
                runs = np.array(
                    [
                        run_coverage(family, kind, samples, number, 1000 * number + seed)
                        for number in range(games)
                        for seed in range(seeds)
                    ]
                )
                coverage, has_warning, error, width = runs.mean(axis=0)
                ratio = math.sqrt(width / max(error, 1e-300))
                promised = samples >= 1000 and not family.hidden
                yield Measure(
                    id=f"surrogate_{samples}_{kind}_{name}",
                    what=f"{kind}, samples {samples}: {family.what}",
                    value=round(float(coverage), 3),
                    at_least=WANTED if promised else None,
                    note=f"warnings {has_warning:.2f}; standard error over error {ratio:.2f}",
                )


def run_coverage(
    family: Family, kind: str, samples: int, number: int, seed: int
) -> tuple[float, bool, float, float]:
    """Return coverage, whether rare effects are warned of, mean squared error and variance."""
    table = family.draw(np.random.default_rng([number, 7]))
    keep = draw_paired_masks(D, samples, np.random.default_rng(seed))
    outputs = table[keep @ (1 << np.arange(D))]
    known_range = 1.0 if family.probability else abs(float(table[-1] - table[0]))
    found = compute_surrogate_values(
        cross_fit_ratio_game(keep, outputs, known_range=known_range), kind
    )
    place = np.triu_indices(D, 1) if kind == "interactions" else slice(None)
    error = (found.scores - exact_values(Method(kind, {}), table))[place]
    stderr = found.stderr[place]
    is_inside = np.abs(error) <= 2 * stderr + 1e-9
    has_warning = warns_of_rare_effects(found.warnings)
    return float(is_inside.mean()), has_warning, float(np.mean(error**2)), float(np.mean(stderr**2))


if __name__ == "__main__":
    main()
