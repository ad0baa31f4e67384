"""Orders or a regression: which sampler comes closer to Shapley values, and at how many calls.

python benchmarks/samplers.py                                  games that a processor can afford
python benchmarks/samplers.py --gpu --device cuda --model carry/minilm-imdb --data FILE
python benchmarks/samplers.py --long --device cuda --model carry/minilm-imdb --data FILE
python benchmarks/samplers.py --packages FOLDER                with shapiq from a folder of packages

Errors are ‖estimate − truth‖/‖truth‖, truth by all masks, by a closed form, or (``--gpu``, above 16
units) by 100,000 calls of orders. Shares are of the way from a random order of the units to greedy
deletion. Calls are 2, 4, 10 and 50 for each unit.

How it is judged, written before the results of this script. Games that set the rule: words of SST-2
under MiniLM and under a small GPT-2, sentences of IMDB under MiniLM, and seven synthetic kinds; the
shipped classifier is shown, but its values are exact and nobody samples it. `shapley` takes the
regression of d ≤ 30 units from d²/2 calls on. Games that check it: pairs of SICK under a model of
their own, and AG News under a pipeline of scikit-learn. The rule stands if on them the geometric
mean of the errors of the regression over those of orders is below 1 where it takes the regression,
and ±2 standard errors hold in 0.93 of all such cases.

``--long`` compares zoom with other ways to a long document on reviews of more than 600 words, by
the share of the units that zoom chose: its words and sentences. Wanted: 0.8 of the share of plain
Shapley values at a fifth of their calls.
"""

import gzip
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import coverage_study
import limelight
from limelight.explainers.reading import read
from limelight.explainers.target_game import TargetGame
from limelight.sampling.all_masks import shapley_of_all_masks
from limelight.sampling.kernel import fewest_pairs, regression_shapley
from limelight.sampling.orders import permutation_shapley
from limelight.theory.enumeration import all_keeps
from results import Measure, command_line, report

SHARED = Path(__file__).resolve().parents[2] / "shared"
EACH = (2, 4, 10, 50)
FEW, SQUARE = 30, 2  # the rule of `shapley`: so many units, and d²/2 calls
TRUTH = 100_000
SEEDS = 2
Asked = Callable[[np.ndarray], np.ndarray]  # masks in, the explained number of each out
Found = tuple[np.ndarray, np.ndarray | None]


class Game(NamedTuple):
    """A text under a model: what it answers, and its Shapley values."""

    source: str
    checks: bool
    f: Asked
    truth: np.ndarray


def by_orders(f: Asked, d: int, calls: int, seed: int) -> Found | None:
    """Pairs of orders, and a stretch of one with what is left."""
    each, inner = 2 * (d - 1), calls - 2
    if inner < each:
        return None
    rng = np.random.default_rng(seed)
    one = permutation_shapley(_column(f), d, rng, pairs=inner // each, spare=inner % each)
    return one.values[0], one.stderr[0]


def by_regression(f: Asked, d: int, calls: int, seed: int) -> Found | None:
    """Pairs of masks."""
    pairs = (calls - 2) // 2
    if pairs < fewest_pairs(d):
        return None
    one = regression_shapley(_column(f), d, np.random.default_rng(seed), pairs=pairs)
    return one.values[0], one.stderr[0]


def by_lasso(f: Asked, d: int, calls: int, seed: int) -> Found | None:
    """ContextCite's: masks by fair coins, answers and masks standardised, a penalty of 0.01."""
    try:
        from sklearn.linear_model import Lasso
    except ImportError:
        return None
    keep = np.random.default_rng(seed).random((calls, d)) < 0.5
    y = f(keep)
    sd, sx = max(y.std(), 1e-12), np.maximum(keep.std(axis=0), 1e-12)
    slope = Lasso(alpha=0.01).fit((keep - keep.mean(axis=0)) / sx, (y - y.mean()) / sd).coef_
    return slope * sd / sx, None


def by_shapiq(name: str) -> Callable[[Asked, int, int, int], Found | None]:
    """One of shapiq's, where it is installed."""

    def estimate(f: Asked, d: int, calls: int, seed: int) -> Found | None:
        try:
            import shapiq
        except ImportError:
            return None
        own = {"n": d, "random_state": seed}
        own |= {"pairing_trick": True} if name == "KernelSHAP" else {}
        found = getattr(shapiq.approximator, name)(**own).approximate(
            calls, lambda x: f(np.atleast_2d(x) > 0)
        )
        return np.array([found[(j,)] for j in range(d)]), None

    return estimate


ESTIMATORS = {
    "orders": by_orders,
    "regression": by_regression,
    "LASSO": by_lasso,
    "shapiq KernelSHAP": by_shapiq("KernelSHAP"),
    "shapiq permutations": by_shapiq("PermutationSamplingSV"),
    "shapiq SVARM": by_shapiq("SVARM"),
}


def _column(f: Asked) -> Callable[[np.ndarray], np.ndarray]:
    return lambda keep: f(keep)[:, None]


def share(f: Asked, d: int) -> Callable[[np.ndarray], float]:
    """Return how far an order of the units comes from chance to greedy deletion."""
    whole = f(np.ones((1, d), bool))[0] - f(np.zeros((1, d), bool))[0]
    sign = 1.0 if whole >= 0 else -1.0

    def areas(orders: np.ndarray) -> np.ndarray:
        gone = np.argsort(orders, axis=1)[:, None, :] < np.arange(1, d)[None, :, None]
        return sign * f(~gone.reshape(-1, d)).reshape(len(orders), d - 1).mean(axis=1)

    rng, left, best = np.random.default_rng(0), list(range(d)), []
    chance = areas(np.argsort(rng.random((20, d)), axis=1)).mean()
    while left:
        masks = np.zeros((len(left), d), bool)
        masks[:, left] = True
        masks[np.arange(len(left)), left] = False
        best.append(left.pop(int(np.argmin(sign * f(masks)))))
    most = chance - areas(np.array([best]))[0]
    if most < 1e-9 * max(abs(chance), 1e-9):  # all orders are alike
        return lambda _: math.nan
    return lambda own: float((chance - areas(np.argsort(-sign * own)[None])[0]) / most)


def asked(source: str, model: Any, text: Any, *, checks: bool = False, **own: Any) -> Game:
    """A text whose masks are few enough to ask all of them."""
    one = read(model, [text], **own)
    game, d = TargetGame(one, "auto"), len(one.features[0])
    table = game(all_keeps(d))[:, 0]

    def f(keep: np.ndarray) -> np.ndarray:
        return table[keep @ (1 << np.arange(d))]

    return Game(source, checks, f, shapley_of_all_masks(_column(f), d)[0])


def of_size(model: Any, texts: Any, d: int, count: int, **own: Any) -> Iterator[Any]:
    """The first texts of so many units."""
    fitting = (text for text in texts if len(read(model, [text], **own).features[0]) == d)
    return islice(fitting, count)


def column(name: str, *columns: str) -> list[Any]:
    """A column of shared data, or pairs of two."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(SHARED / "data" / name)
    found = [table[column].to_pylist() for column in columns]
    return found[0] if len(found) == 1 else list(zip(*found, strict=True))


def synthetic(*, smoke: bool) -> Iterator[Game]:
    """Kinds of games of `coverage_study.py`, whose values are known at any number of words."""
    for name, (_, draw) in coverage_study.HELD_OUT.items():
        sizes = (6, 12, 16, 30, 60) if name in ("product", "heavy") else (16, 30, 60)
        for d in sizes[:1] if smoke else sizes:
            truth = draw(np.random.default_rng([d, 5]), d)
            yield Game("synthetic", False, truth.f, truth.shapley)


def shipped(*, smoke: bool) -> Iterator[Game]:
    """The shipped classifier, whose values are exact."""
    model = limelight.load()
    texts = column("imdb/test.parquet", "text")
    rng = np.random.default_rng(0)
    for d in (16,) if smoke else (16, 30, 60, 120):
        for _ in range(2):  # the first words of some review
            words, text = set[str](), []
            for word in texts[rng.integers(len(texts))].split():
                text.append(word)
                words = set(read(model, [" ".join(text)]).features[0].strings)
                if len(words) >= d:
                    break
            if len(words) == d:
                one = read(model, [" ".join(text)])
                game = TargetGame(one, "auto")
                truth = limelight.explain(model, " ".join(text), "shapley").scores
                yield Game("shipped, words", False, lambda k, g=game: g(k)[:, 0], truth)


def affordable(*, smoke: bool) -> Iterator[Game]:
    """Everything that a processor answers in a few minutes."""
    yield from synthetic(smoke=smoke)
    yield from shipped(smoke=smoke)
    if smoke:
        return
    minilm = limelight.load(str(SHARED / "models" / "minilm-imdb"))
    gpt2 = limelight.load(
        str(SHARED / "models" / "gpt2-mini-imdb"),
        template="{text} this film is",
        labels={"negative": "bad", "positive": "good"},
    )
    nli = limelight.load(str(SHARED / "models" / "minilm-sick-nli"))
    sst2 = column("sst2/dev.parquet", "text")
    for d, count in ((6, 3), (12, 2)):
        for name, model in (("MiniLM, words", minilm), ("GPT-2, words", gpt2)):
            for text in of_size(model, sst2, d, count):
                yield asked(name, model, text)
        for pair in of_size(nli, column("sick/test.parquet", "sentence_a", "sentence_b"), d, count):
            yield asked("SICK pairs, words", nli, pair, checks=True)
    news = news_model()
    for text in column("ag_news/test.parquet", "text")[100:104]:
        for d in (6, 12):
            yield asked("AG News, words", news, " ".join(text.split()[:d]), checks=True)
    short = [text for text in column("imdb/test.parquet", "text") if len(text) < 600]
    for d in (6, 9):
        for text in of_size(minilm, short, d, 2, features="sentences"):
            yield asked("MiniLM, sentences", minilm, text, features="sentences")


def news_model() -> Any:
    """A pipeline of scikit-learn as a function, which is asked like any other."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    data = column("ag_news/train_10k.parquet", "text", "label")
    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10))
    model.fit([text for text, _ in data], [label for _, label in data])
    names = ["World", "Sports", "Business", "Sci/Tech"]
    return limelight.wrap(lambda texts: model.predict_proba(texts), classes=names)


def on_a_card(model: Any, texts: list[str], *, smoke: bool) -> Iterator[Game]:
    """Words and sentences under MiniLM, truth by all masks of 16 units or by 100,000 calls."""
    calls = 2000 if smoke else TRUTH
    sizes = ((8, 1),) if smoke else ((16, 3), (20, 3), (30, 3), (60, 2), (120, 2))
    for d, count in sizes:
        for text in islice((t for t in texts if len(t.split()) > 2 * d), count):
            words = 1
            while len(read(model, [cut := " ".join(text.split()[:words])]).features[0]) < d:
                words += 1
            yield known("MiniLM, words", model, cut, calls)
    if not smoke:
        own = {"features": "sentences"}
        for text in of_size(model, [t for t in texts if len(t) < 2000], 16, 3, **own):
            yield known("MiniLM, sentences", model, text, calls, **own)


def known(source: str, model: Any, text: str, calls: int, **own: Any) -> Game:
    """A text whose values so many calls tell."""
    one = read(model, [text], **own)
    game, d = TargetGame(one, "auto"), len(one.features[0])
    if 2**d <= calls:
        return asked(source, model, text, **own)
    pairs = calls // (2 * (d - 1))
    truth = permutation_shapley(game, d, np.random.default_rng(10**6), pairs=pairs).values[0]
    return Game(source, False, lambda keep: game(keep)[:, 0], truth)


def measured(games: Iterator[Game], *, seeds: int) -> Iterator[Measure]:
    """Errors of every estimator, by source, units and calls; then the rule."""
    cells: dict[tuple[str, bool, int, int], dict[str, list[tuple[float, float, float]]]] = {}
    for game in games:
        d, size = len(game.truth), float(np.linalg.norm(game.truth))
        if size < 1e-9:  # a parity of four words: there is nothing to be relative to
            continue
        reached = share(game.f, d)
        for each in EACH:
            if each * d >= 2**d:
                continue
            cell = cells.setdefault((game.source, game.checks, d, each), {})
            for name, estimate in ESTIMATORS.items():
                for seed in range(seeds):
                    if (found := estimate(game.f, d, each * d, seed)) is None:
                        continue
                    off = found[0] - game.truth
                    held = math.nan
                    if found[1] is not None:
                        held = float(np.mean(np.abs(off) <= 2 * found[1] + 1e-9))
                    error = float(np.linalg.norm(off)) / size
                    cell.setdefault(name, []).append((error, reached(found[0]), held))
    ratios: dict[bool, list[float]] = {True: [], False: []}
    holds: dict[bool, list[float]] = {True: [], False: []}
    for (source, checks, d, each), cell in sorted(cells.items()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of cells without a share or without errors
            means = {name: np.nanmean(np.array(rows), axis=0) for name, rows in cell.items()}
        if "orders" not in means or "regression" not in means:
            continue
        ratio = max(float(means["regression"][0]), 1e-12) / max(float(means["orders"][0]), 1e-12)
        taken = d <= FEW and SQUARE * each * d >= d * d
        if taken and not source.startswith("shipped"):
            ratios[checks].append(ratio)
            holds[checks].append(float(means["regression"][2]))
        said = [f"{name} {x[0]:.3f} / {x[1]:.2f}" for name, x in means.items()]
        yield Measure(
            id=f"{source}_{d}_{each}",
            what=f"{source}: {d} units, {each} d calls{', by regression' if taken else ''}",
            value=round(ratio, 3),
            note=f"error / share: {', '.join(said)}",
        )
    for checks, what in ((False, "that set the rule"), (True, "that check it")):
        if ratios[checks]:
            mean = math.exp(float(np.mean(np.log(ratios[checks]))))
            label = f"geometric mean of the ratios where the rule regresses, games {what}"
            yield Measure(id=f"rule_{checks}", what=label, value=round(mean, 3), below=1.0)
            label = f"±2 standard errors of the regression hold, games {what}"
            held = float(np.mean(holds[checks]))
            yield Measure(id=f"held_{checks}", what=label, value=round(held, 3), at_least=0.93)


def long_documents(model: Any, texts: list[str], *, smoke: bool) -> Iterator[Measure]:
    """Zoom, plain Shapley values, LIME on sentences and leave-one-out on long reviews."""
    rows: dict[str, list[tuple[float, float, float]]] = {}
    own = {"window": "auto"}
    for text in texts[: 1 if smoke else 20]:
        words = len(read(model, [text], features="positions", **own).features[0])
        fifth = 4 * (words - 1) // 5 - 10  # of what two pairs of orders ask, with room for the ends
        zoom = timed(model, text, "zoom", samples=max(fifth, 200) if smoke else fifth, **own)
        spans = [places[0] for places in zoom[0].spans]
        one = read(model, [text], features=spans, **own)
        game = TargetGame(one, "auto")
        reached = share(lambda keep, g=game: g(keep)[:, 0], len(one.features[0]))
        found = {
            "zoom": zoom,
            "shapley": timed(model, text, "shapley", features="positions", pairs=2, **own),
            "lime on sentences": timed(model, text, "lime", features="sentences", **own),
            "loo": timed(model, text, "loo", features="positions", **own),
        }
        for name, (e, calls, seconds) in found.items():
            rows.setdefault(name, []).append((reached(onto(e, spans)), calls, seconds))
    means = {name: np.mean(found, axis=0) for name, found in rows.items()}
    for name, (reach, calls, seconds) in means.items():
        yield Measure(
            id=name,
            what=f"{name}: share by the units of zoom",
            value=round(float(reach), 3),
            at_least=round(0.8 * float(means["shapley"][0]), 3) if name == "zoom" else None,
            note=f"{calls:,.0f} calls, {seconds:.1f} s a review",
        )
    fifth = float(means["zoom"][1] / means["shapley"][1])
    label = "calls of zoom over those of plain Shapley values"
    yield Measure(id="calls", what=label, value=round(fifth, 3), below=0.2)


def timed(model: Any, text: str, method: str, **own: Any) -> tuple[Any, int, float]:
    """An explanation, its calls and its seconds."""
    before, start = model.engine.items, time.perf_counter()
    e = limelight.explain(model, text, method, **own)
    return e, model.engine.items - before, time.perf_counter() - start


def onto(e: Any, units: list[tuple[int, int]]) -> np.ndarray:
    """Scores of units: the sum of those inside, or a part of the score around, by length."""
    scores = np.zeros(len(units))
    for score, places in zip(e.scores, e.spans, strict=True):
        for start, end in places:
            inside = [i for i, (a, b) in enumerate(units) if a < end and start < b]
            lengths = [min(end, units[i][1]) - max(start, units[i][0]) for i in inside]
            for i, length in zip(inside, lengths, strict=True):
                scores[i] += score / len(places) * length / sum(lengths)
    return scores


def lines(path: Path | None) -> list[str]:
    """Texts of a .jsonl or .jsonl.gz, which need no other package; else IMDB's."""
    if path is None:
        return column("imdb/test.parquet", "text")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as rows:
        return [json.loads(row)["text"] for row in rows]


def main() -> None:
    """Measure what a processor can, or what takes a graphics card."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--gpu", action="store_true", help="MiniLM, up to 120 words")
    parser.add_argument("--long", action="store_true", help="zoom on long reviews")
    parser.add_argument("--model", default=str(SHARED / "models" / "minilm-imdb"))
    parser.add_argument("--device", help="where the model is, such as cuda")
    parser.add_argument("--data", type=Path, help=".jsonl or .jsonl.gz with texts")
    parser.add_argument("--packages", help="a folder of packages, where shapiq is")
    arguments = parser.parse_args()
    if arguments.packages:
        sys.path.append(arguments.packages)
    smoke = arguments.smoke
    if not (arguments.gpu or arguments.long):
        measures = list(measured(affordable(smoke=smoke), seeds=1 if smoke else SEEDS))
        report("samplers", measures, arguments, data="texts of SST-2, IMDB, SICK and AG News")
        return
    device = {"device": arguments.device} if arguments.device else {}
    model, texts = limelight.load(arguments.model, **device), lines(arguments.data)
    if arguments.long:
        texts = [text for text in texts if smoke or len(text.split()) > 600]
        name, measures = "long_documents_cuda", list(long_documents(model, texts, smoke=smoke))
    else:
        name = "samplers_cuda"
        measures = list(measured(on_a_card(model, texts, smoke=smoke), seeds=2))
    report(name, measures, arguments, data="reviews of IMDB")


if __name__ == "__main__":
    main()
