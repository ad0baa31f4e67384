"""What else could stand for a transformer around one text: lines, pairs, boosting, SLALOM.

export PYTHONPATH=benchmarks
python reproduction/studies/surrogate_rivals.py --model ../shared/models/minilm-imdb --reviews 2
python reproduction/studies/surrogate_rivals.py --device cuda --data carry/reviews.jsonl.gz \
    --sentences carry/sst2.jsonl.gz --model carry/minilm-imdb --reviews 24

Every kind of model is fitted to the same n masks of a text and the transformer's answers to them,
and judged by R² on masks that none of them has seen. Each has its settings chosen in one way: by
the least error on the same two fifths of the masks, left out in turn; then it is fitted to all.

* a line: ridge regression, six penalties.
* all pairs: ridge regression on the words and all products of two of them, six penalties times
  four weights of the pairs.
* boosting: scikit-learn's trees of depth 2, 3 and 5, as many of up to 400 as masks left out want.
* SLALOM (Leemann et al., TMLR 2025): Σ Z_j e^{s_j} v_j/Σ Z_j e^{s_j}, a softmax of the words that
  are there. Fitted by L-BFGS without a penalty, as published, or with one of our own where the
  masks left out prefer it; the empty text, of which it says nothing, gets a number of its own.
* a ratio game, fitted by `limelight_reproduction.studies.fitted_ratio_games`.

Words are masked, and in a second run deleted, which is what SLALOM is made for.

The rule, written before any number was seen: the ratio game is called as good as a rival where the
95 % bootstrap interval of the median difference of R² (same texts, same masks) lies above −0.01,
better where it lies above 0, worse where it lies below 0, and else nothing is said.
"""

import argparse
import gzip
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from judging import device_of, short_texts
from results import Measure, command_line, report

import limelight
from limelight.text import token_strings
from limelight.theory.ratio_game import value
from limelight_reproduction.studies.fitted_ratio_games import (
    cross_fit_ratio_game,
    draw_paired_masks,
)

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "models" / "minilm-imdb"
SIZES = (200, 1000)
LENGTHS = (10, 14)  # words of a sentence
RIDGES = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)
WEIGHTS = (0.1, 0.3, 1.0, 3.0)  # of all pairs beside all words
DEPTHS, TREES, RATE = (2, 3, 5), 400, 0.05
SOFTMAX = ((0.0, 0.0), (1e-4, 1e-4), (1e-3, 1e-3), (1e-2, 1e-2), (0.1, 0.1))
HEAVIEST = 10.0  # |s|, as in our own fits
PARTS, LOOKED_AT = 5, 2
NAMES = {
    "line": "a line",
    "pairs": "all pairs",
    "boosting": "boosting",
    "slalom": "SLALOM",
    "ratio_game": "the ratio game",
}
Fitted = Callable[[np.ndarray], np.ndarray]
Fits = Callable[[np.ndarray, np.ndarray, np.ndarray], list[np.ndarray]]


class Asked(NamedTuple):
    """One text: masks and answers to fit, and others to judge by."""

    kind: str
    keep: np.ndarray
    y: np.ndarray
    unseen: np.ndarray
    f: np.ndarray


def main() -> None:
    """Ask the model about every text, fit everything, and report."""
    arguments = parsed()
    model = limelight.load(arguments.model, device=arguments.device)
    asked = [*questions(model, arguments)]
    sizes = (60,) if arguments.smoke else SIZES
    work = [(one._replace(keep=one.keep[:n], y=one.y[:n]), n) for one in asked for n in sizes]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        rows = [*pool.map(judged, [one for one, _ in work])]
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for (one, n), row in zip(work, rows, strict=True):
        print(one.kind, one.keep.shape[1], n, {k: round(v, 3) for k, v in row.items()}, flush=True)
        found.setdefault((one.kind, n), []).append(row)
    name = "surrogate_rivals"
    name += "" if device_of(model) == "deep" else f"_{device_of(model)}"
    data = ", ".join(described(asked)) + f"; {len(asked[0].f)} unseen masks of a review"
    report(name, [*measures(found)], arguments, data=data)


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--limit", "--reviews", type=int, default=8, help="of each kind of text")
    parser.add_argument("--model", type=Path, default=FOLDER, help="a Hugging Face folder")
    parser.add_argument("--device", help='as torch names it, such as "cuda"')
    parser.add_argument("--data", type=Path, help="reviews as .jsonl.gz, where parquet is not read")
    parser.add_argument("--sentences", type=Path, help="short texts as .jsonl.gz")
    parser.add_argument("--unseen", type=int, default=4000, help="masks that R² is measured on")
    return parser.parse_args()


def questions(model: limelight.Model, arguments: argparse.Namespace) -> Iterator[Asked]:
    """Yield every text with its masks and answers: masked, and deleted."""
    texts = {"reviews": short_texts(arguments), "sentences": sentences(arguments)}
    few = arguments.smoke
    for name, some in texts.items():
        for replacement in ("mask", "delete"):
            for i, text in enumerate(some):
                rng = np.random.default_rng([11, i])
                game = limelight.game(model, text, replacement=replacement)
                d = len(game)
                keep = draw_paired_masks(d, 60 if few else max(SIZES), rng)
                unseen = draw_paired_masks(d, 100 if few else arguments.unseen, rng)
                unseen = unseen[~seen(unseen, keep)]
                outputs = game(np.concatenate([keep, unseen]))
                y = outputs[:, -1] - (outputs[:, 0] if outputs.shape[1] > 1 else 0.0)
                yield Asked(f"{name}_{replacement}", keep, y[: len(keep)], unseen, y[len(keep) :])


def seen(masks: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return which masks are among the known ones: sentences have few."""
    had = {row.tobytes() for row in known}
    return np.array([row.tobytes() in had for row in masks])


def sentences(arguments: argparse.Namespace) -> list[str]:
    """Return sentences of SST-2 of 10 to 14 words, or beginnings of reviews where it is absent."""
    if arguments.sentences is None:
        first = [" ".join(text.split()[: LENGTHS[1] - 2]) for text in short_texts(arguments)]
        return first[: arguments.limit]
    with gzip.open(arguments.sentences, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    near = [text for text in texts if LENGTHS[0] <= len(set(token_strings(text))) <= LENGTHS[1]]
    return near[:: max(len(near) // arguments.limit, 1)][: arguments.limit]


def judged(one: Asked) -> dict[str, float]:
    """Return R² of every kind of model on the masks that none has seen."""
    mean, scale = one.y.mean(), one.y.std() or 1.0
    y, keep = (one.y - mean) / scale, one.keep.astype(float)
    said = {name: chosen(fits, keep, y, one.unseen.astype(float)) for name, fits in KINDS.items()}
    own = value(cross_fit_ratio_game(one.keep, y).games, one.unseen)[0, 0]
    left = (one.f - mean) / scale
    return {
        name: 1 - float(np.mean((left - guess) ** 2) / left.var())
        for name, guess in {**said, "ratio_game": own}.items()
    }


def chosen(fits: Fits, keep: np.ndarray, y: np.ndarray, unseen: np.ndarray) -> np.ndarray:
    """Return what the setting that masks left out like best says of unseen masks."""
    part = np.arange(len(y)) // 2 % PARTS
    errors = np.zeros(1)
    for one in range(LOOKED_AT):
        out = part == one
        guesses = fits(keep[~out], y[~out], keep[out])
        errors = errors + np.array([np.sum((y[out] - guess) ** 2) for guess in guesses])
    return fits(keep, y, unseen)[int(np.argmin(errors))]


def lines(keep: np.ndarray, y: np.ndarray, unseen: np.ndarray) -> list[np.ndarray]:
    """Return what lines with every penalty say."""
    return of_kernels([products(keep, keep)], [products(unseen, keep)], y)


def pairs(keep: np.ndarray, y: np.ndarray, unseen: np.ndarray) -> list[np.ndarray]:
    """Return what words and all pairs of words say, with every weight and penalty."""

    def kernels(x: np.ndarray) -> list[np.ndarray]:
        inner, d = products(x, keep), keep.shape[1]
        return [inner + w * (inner**2 - d) / (d - 1) for w in WEIGHTS]

    return of_kernels(kernels(keep), kernels(unseen), y)


def products(x: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Return inner products of masks written as ±1, in which (x·z)² sums all pairs twice over."""
    return np.asarray((2 * x - 1) @ (2 * keep - 1).T)


def of_kernels(own: list[np.ndarray], other: list[np.ndarray], y: np.ndarray) -> list[np.ndarray]:
    """Return ridge regressions by their kernels, with an intercept that is not penalised."""
    said = []
    for gram, cross in zip(own, other, strict=True):
        values, vectors = np.linalg.eigh(gram)
        ones, turned = vectors.T @ np.ones(len(y)), vectors.T @ y
        for ridge in RIDGES:
            inverse = 1 / (np.maximum(values, 0) + ridge)
            constant = (ones * inverse) @ turned / ((ones * inverse) @ ones)
            said.append(constant + cross @ (vectors @ (inverse * (turned - constant * ones))))
    return said


def boosting(keep: np.ndarray, y: np.ndarray, unseen: np.ndarray) -> list[np.ndarray]:
    """Return what boosted trees of every depth say after 25, 50, … trees."""
    from sklearn.ensemble import GradientBoostingRegressor

    said = []
    for depth in DEPTHS:
        trees = GradientBoostingRegressor(
            n_estimators=TREES, learning_rate=RATE, max_depth=depth, subsample=0.5, random_state=0
        ).fit(keep, y)
        said += [*trees.staged_predict(unseen)][24::25]
    return said


def slaloms(keep: np.ndarray, y: np.ndarray, unseen: np.ndarray) -> list[np.ndarray]:
    """Return what a softmax of the words that are there says, with every penalty."""
    return [slalom(keep, y, penalty)(unseen) for penalty in SOFTMAX]


def slalom(keep: np.ndarray, y: np.ndarray, penalty: tuple[float, float]) -> Fitted:
    """Return SLALOM's function, of which n times the penalty is on (s − mean)² and v²/d."""
    from scipy.optimize import minimize

    d, some = keep.shape[1], keep.any(axis=1)
    x, wanted = keep[some], y[some]
    empty = float(y[~some].mean()) if not some.all() else float(y.mean())

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        s, v = theta[:d], theta[d:]
        alpha = x * np.exp(s)
        alpha /= alpha.sum(axis=1, keepdims=True)
        said = alpha @ v
        left = (said - wanted) / len(wanted)
        slope_s = (left @ alpha) * v - (left * said) @ alpha
        even = s - s.mean()
        total = 0.5 * len(wanted) * (left**2).sum()
        total += 0.5 * (penalty[0] * (even**2).sum() + penalty[1] * (v**2).sum() / d)
        slopes = [slope_s + penalty[0] * even, left @ alpha + penalty[1] * v / d]
        return float(total), np.concatenate(slopes)

    slope = np.linalg.solve(x.T @ x + 10 * np.eye(d), x.T @ wanted)
    bounds = [(-HEAVIEST, HEAVIEST)] * d + [(None, None)] * d
    start = np.concatenate([np.zeros(d), d / 2 * slope])
    options = {"maxiter": 300, "maxfun": 500}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x

    def said(masks: np.ndarray) -> np.ndarray:
        weight = masks * np.exp(found[:d])
        total = weight.sum(axis=1)
        return np.where(total > 0, weight @ found[d:] / np.where(total > 0, total, 1), empty)

    return said


KINDS: dict[str, Fits] = {"line": lines, "pairs": pairs, "boosting": boosting, "slalom": slaloms}


def measures(found: dict[tuple[str, int], list[dict[str, float]]]) -> Iterator[Measure]:
    """Yield medians of R², and of how much more of it the ratio game has on the same text."""
    for (kind, n), rows in found.items():
        text = kind.replace("_mask", ", words masked").replace("_delete", ", words deleted")
        for name, what in NAMES.items():
            low, middle, high = np.quantile([row[name] for row in rows], (0.25, 0.5, 0.75))
            note = f"quartiles {low:.3f} and {high:.3f}"
            id = f"r2_{kind}_{n}_{name}"
            yield Measure(
                id=id, what=f"{text}, n = {n}: R², {what}", value=float(middle), note=note
            )
        for name, what in list(NAMES.items())[:-1]:
            more = np.array([row["ratio_game"] - row[name] for row in rows])
            drawn = np.random.default_rng(0).choice(more, (10_000, len(more)))
            low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
            note = f"95 % {low:.3f} to {high:.3f}; {verdict(low, high)}"
            yield Measure(
                id=f"gain_{kind}_{n}_{name}",
                what=f"{text}, n = {n}: R² of the ratio game above {what}",
                value=float(np.median(more)),
                note=note,
            )


def verdict(low: float, high: float) -> str:
    """Return what may be said of a difference, by the rule above."""
    if low > 0:
        return "better"
    if high < 0:
        return "worse"
    return "as good" if low > -0.01 else "undecided"


def described(asked: list[Asked]) -> Iterator[str]:
    """Yield how many texts of each kind there were, and of how many words."""
    for kind in dict.fromkeys(one.kind for one in asked):
        words = [one.keep.shape[1] for one in asked if one.kind == kind]
        yield f"{len(words)} {kind.replace('_', ', ')} of {min(words)} to {max(words)} words"


if __name__ == "__main__":
    main()
