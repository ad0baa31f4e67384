"""Orders or a regression: which sampler comes closer to Shapley values, and at how many calls.

python benchmarks/samplers.py                                  games that a processor can afford
python benchmarks/samplers.py --gpu --device cuda --model carry/minilm-imdb --data FILE
python benchmarks/samplers.py --long --device cuda --model carry/minilm-imdb --data FILE
python benchmarks/samplers.py --packages FOLDER                with shapiq from a folder of packages
python benchmarks/samplers.py --tables TABLES --device cuda --models carry --data FILE
python benchmarks/samplers.py --few TABLES                     16 units, what those tables say

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

``--long`` compares zoom with other ways to a long document on reviews of more than 600 words, and
on documents of 3,000 words made of several reviews, by the share of the units that zoom chose: its
words and sentences. Wanted: 0.8 of the share of plain Shapley values at a fifth of their calls.

``--tables`` asks all 65,536 masks of games of 16 units: words and sentences of IMDB under MiniLM
and a small GPT-2, the 16 sentences before the one that GPT-2 goes on with (its log-probability, as
of an answer), and pairs of SICK under a model of their own; those whose models are there. ``--few``
reads them and compares the samplers at 32 to 256 calls, exactly. Written before its result:
`shapley` regresses from d²/k calls on, k the largest of 2, 3, 4 at which, on MiniLM and on GPT-2
alike, the regression has the smaller error and a share that is not smaller for certain (a paired
interval of 95 % over texts). On SICK, which has no part in that, the same must then hold.
"""

import gzip
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import compress, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import coverage_study
import limelight
from limelight.explainers.batch import prepare_batch
from limelight.explainers.target_game import TargetGame
from limelight.sampling.all_masks import shapley_values_from_all_masks
from limelight.sampling.kernel import minimum_pairs, shapley_values_from_regression
from limelight.sampling.orders import shapley_values_from_orders
from limelight.text import build_features, sentence_spans
from limelight.theory.enumeration import enumerate_masks
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
    one = shapley_values_from_orders(
        _column(f), d, rng, pairs=inner // each, spare_calls=inner % each
    )
    return one.values[0], one.stderr[0]


def uses_regression(f: Asked, d: int, calls: int, seed: int) -> Found | None:
    """Pairs of masks."""
    pairs = (calls - 2) // 2
    if pairs < minimum_pairs(d):
        return None
    one = shapley_values_from_regression(_column(f), d, np.random.default_rng(seed), pairs=pairs)
    return one.values[0], one.stderr[0]


def by_lasso(f: Asked, d: int, calls: int, seed: int) -> Found | None:
    """ContextCite's: masks by fair coins, answers and masks standardised, a penalty of 0.01."""
    keep = np.random.default_rng(seed).random((calls, d)) < 0.5
    y = f(keep)
    sd, sx = max(y.std(), 1e-12), np.maximum(keep.std(axis=0), 1e-12)
    x, left, slope = (keep - keep.mean(axis=0)) / sx, (y - y.mean()) / sd, np.zeros(d)
    for _ in range(1000):  # one slope after the other, the others being as they are
        before = slope.copy()
        for j in range(d):
            left += slope[j] * x[:, j]
            alone = x[:, j] @ left / calls
            slope[j] = math.copysign(max(abs(alone) - 0.01, 0.0), alone)
            left -= slope[j] * x[:, j]
        if np.abs(slope - before).max() < 1e-6:
            break
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
    "regression": uses_regression,
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
    one = prepare_batch(model, [text], **own)
    game, d = TargetGame(one, "auto"), len(one.features[0])
    f = looked_up(game(enumerate_masks(d))[:, 0])
    return Game(source, checks, f, shapley_values_from_all_masks(_column(f), d)[0])


def looked_up(table: np.ndarray) -> Asked:
    """The game whose answers to all masks are known."""
    return lambda keep: table[keep @ (1 << np.arange(keep.shape[1]))]


def of_size(model: Any, texts: Any, d: int, count: int, **own: Any) -> Iterator[Any]:
    """The first texts of so many units."""
    return islice((text for text in texts if units(model, text, **own) == d), count)


def units(model: Any, text: Any, features: str = "words") -> int:
    """How many units a text has, without asking the model about it."""
    return len(build_features(model.read(text), features))


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
                words = set(prepare_batch(model, [" ".join(text)]).features[0].strings)
                if len(words) >= d:
                    break
            if len(words) == d:
                one = prepare_batch(model, [" ".join(text)])
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
            yield known("MiniLM, words", model, first_words(model, text, d), calls)
    if not smoke:
        own = {"features": "sentences"}
        for text in of_size(model, [t for t in texts if len(t) < 2000], 16, 3, **own):
            yield known("MiniLM, sentences", model, text, calls, **own)


def first_words(model: Any, text: str, d: int) -> str:
    """The beginning of a text that has so many words to the model, or a few more."""
    words, count = text.split(), d - d // 4
    while count < len(words) and units(model, " ".join(words[:count])) < d:
        count += 1
    return " ".join(words[:count])


def known(source: str, model: Any, text: str, calls: int, **own: Any) -> Game:
    """A text whose values so many calls tell."""
    one = prepare_batch(model, [text], **own)
    game, d = TargetGame(one, "auto"), len(one.features[0])
    if 2**d <= calls:
        return asked(source, model, text, **own)
    pairs = calls // (2 * (d - 1))
    truth = shapley_values_from_orders(game, d, np.random.default_rng(10**6), pairs=pairs).values[0]
    return Game(source, False, lambda keep: game(keep)[:, 0], truth)


FEW_UNITS = 16
FEW_CALLS = (32, 48, 64, 85, 128, 256)


def table_games(
    models: Path, texts: list[str], device: str | None, *, smoke: bool
) -> Iterator[tuple[str, Iterator[np.ndarray]]]:
    """Sources of games of 16 units, each with what answers all masks of its texts."""
    where = {"device": device} if device else {}
    d, count = (6, 1) if smoke else (FEW_UNITS, 12)
    short = [text for text in texts if len(text) < (300 if smoke else 1200)]
    own = {"features": "sentences"}
    as_classifier = {
        "template": "{text} this film is",
        "labels": {"negative": "bad", "positive": "good"},
    }
    for name, folder, loaded in (
        ("MiniLM", models / "minilm-imdb", {}),
        ("GPT-2", models / "gpt2-mini-imdb", as_classifier),
    ):
        if not folder.exists():
            continue
        model = limelight.load(str(folder), **where, **loaded)
        words = of_size(model, (first_words(model, text, d) for text in texts), d, count)
        yield f"{name}, words", (all_answers(model, text) for text in words)
        sentences = of_size(model, short, d, count, **own)
        yield f"{name}, sentences", (all_answers(model, text, **own) for text in sentences)
        if loaded:
            yield f"{name}, answers", continued(str(folder), device or "cpu", short, d, count)
    if (models / "minilm-sick-nli").exists():
        nli = limelight.load(str(models / "minilm-sick-nli"), **where)
        pairs = [(one["first"], one["second"]) for one in rows_of(models / "sick.jsonl.gz")]
        yield "SICK, words", (all_answers(nli, pair) for pair in of_size(nli, pairs, d, count))


def all_answers(model: Any, text: Any, **own: Any) -> np.ndarray:
    """What the explained number is under every mask."""
    one = prepare_batch(model, [text], **own)
    game, keep = TargetGame(one, "auto"), enumerate_masks(len(one.features[0]))
    return np.concatenate([game(part)[:, 0] for part in np.array_split(keep, 16)])


def continued(folder: str, device: str, texts: list[str], d: int, count: int) -> Iterator[Any]:
    """Log-probabilities of a sentence after the sentences before it, those that are kept."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    read_as = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).to(device).eval().float()

    def found() -> Iterator[np.ndarray]:
        for text in texts:
            cut = sentence_spans(text)
            ids = [read_as(text[a:b], add_special_tokens=False)["input_ids"] for a, b in cut]
            *context, answer = ids[: d + 1]
            if len(ids) <= d or sum(map(len, context)) + len(answer) > 250 or len(answer) < 4:
                continue
            rows = []
            for keep in np.array_split(enumerate_masks(d), max(2**d // 512, 1)):
                # The answer's first token is asked for too, after whatever stands before it.
                before = [sum(compress(context, row), [101]) for row in keep]
                width = max(map(len, before)) + len(answer)
                padded = torch.tensor(
                    [x + answer + [0] * (width - len(x) - len(answer)) for x in before]
                )
                with torch.no_grad():
                    logs = torch.log_softmax(model(padded.to(device)).logits.float(), dim=-1)
                place = torch.tensor([range(len(x) - 1, len(x) - 1 + len(answer)) for x in before])
                token = torch.tensor(answer).expand(len(before), -1)
                own = logs[torch.arange(len(before))[:, None], place, token]
                rows.append(own.sum(dim=1).double().cpu().numpy())
            yield np.concatenate(rows)

    return islice(found(), count)


def few_units(folder: Path, *, seeds: int) -> Iterator[Measure]:
    """Errors and shares of the samplers on tables of games, and the differences of their shares."""
    sums: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    names = ("orders", "regression", "LASSO")
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as stored:
            source, tables = str(stored["source"]), stored["tables"]
        d = int(math.log2(tables.shape[1]))
        cells = {(calls, name): [] for calls in FEW_CALLS for name in names}
        for f in map(looked_up, tables.astype(float)):
            truth, reached = shapley_values_from_all_masks(_column(f), d)[0], share(f, d)
            size = float(np.linalg.norm(truth))
            for (calls, name), cell in cells.items():
                own = [ESTIMATORS[name](f, d, calls, seed) for seed in range(seeds)]
                rows = [(np.linalg.norm(x[0] - truth) / size, reached(x[0])) for x in own if x]
                cell.append(np.mean(rows, axis=0) if rows else np.full(2, math.nan))
        for calls in FEW_CALLS:
            by = {name: np.array(cells[calls, name]) for name in names}
            apart = by["regression"] - by["orders"]
            kind = source.partition(",")[0]
            ratio = np.log(by["regression"][:, 0] / by["orders"][:, 0])
            lasso = by["regression"][:, 1] - by["LASSO"][:, 1]
            sums.setdefault((kind, calls), []).extend(zip(ratio, apart[:, 1], lasso, strict=True))
            said = [f"{x} {m[:, 0].mean():.3f} / {m[:, 1].mean():.3f}" for x, m in by.items()]
            if np.isnan(ratio).any():  # too few calls for one of the two
                continue
            yield Measure(
                id=f"{source}_{calls}",
                what=f"{source}: {d} units, {calls} calls, error of the regression over orders'",
                value=round(math.exp(float(ratio.mean())), 3),
                note=f"error / share: {', '.join(said)}",
            )
    for (kind, calls), rows in sums.items():
        ratio, better, lasso = np.array(rows).T
        if np.isnan(better).any():
            continue
        off = 1.96 * better.std(ddof=1) / len(better) ** 0.5
        yield Measure(
            id=f"{kind}_{calls}",
            what=f"{kind}, {len(rows)} texts, {calls} calls: share of the regression less orders'",
            value=round(float(better.mean()), 3),
            note=f"[{better.mean() - off:.3f}, {better.mean() + off:.3f}]; errors "
            f"{math.exp(ratio.mean()):.3f} of orders'; share less LASSO's {lasso.mean():.3f}",
        )


Cells = dict[tuple[str, bool, int, int], dict[str, list[tuple[float, float, float]]]]


def cells_of(games: Iterator[Game], *, seeds: int) -> Cells:
    """Error, share and what ±2 hold of every estimator, by source, checking, units and calls."""
    cells: Cells = {}
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
    return cells


def measured(cells: Cells) -> Iterator[Measure]:
    """Mean errors and shares of every cell; then the rule."""
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
    """Zoom, plain Shapley values, LIME on sentences and leave-one-out on long documents."""
    yield from compared("reviews", model, texts[: 1 if smoke else 20])
    if not smoke:
        yield from compared("3,000 words", model, joined(texts[20:]))


def joined(texts: list[str], words: int = 3000, count: int = 5) -> list[str]:
    """Documents of so many words and more, each of several reviews, a paragraph each."""
    found, parts = list[str](), list[str]()
    for text in texts:
        parts.append(text)
        if sum(len(part.split()) for part in parts) >= words:
            found.append("\n\n".join(parts))
            parts = []
    return found[:count]


def compared(what: str, model: Any, texts: list[str]) -> Iterator[Measure]:
    """Calls, seconds and shares of every way to these documents."""
    rows: dict[str, list[tuple[float, float, float]]] = {}
    own = {"window": "auto"}
    for text in texts:
        zoom = timed(model, text, "zoom", **own)
        spans = [places[0] for places in zoom[0].spans]
        one = prepare_batch(model, [text], features=spans, **own)
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
            id=f"{what}_{name}",
            what=f"{what}, {name}: share by the units of zoom",
            value=round(float(reach), 3),
            at_least=round(0.8 * float(means["shapley"][0]), 3) if name == "zoom" else None,
            note=f"{calls:,.0f} calls, {seconds:.1f} s a review",
        )
    fifth = float(means["zoom"][1] / means["shapley"][1])
    label = f"{what}: calls of zoom over those of plain Shapley values"
    yield Measure(id=f"{what}_calls", what=label, value=round(fifth, 3), below=0.2)


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
    return [row["text"] for row in rows_of(path)]


def rows_of(path: Path) -> list[dict[str, str]]:
    """Rows of a .jsonl or .jsonl.gz."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as rows:
        return [json.loads(row) for row in rows]


def main() -> None:
    """Measure what a processor can, or what takes a graphics card."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--gpu", action="store_true", help="MiniLM, up to 120 words")
    parser.add_argument("--long", action="store_true", help="zoom on long reviews")
    parser.add_argument("--tables", type=Path, help="folder for all masks of games of 16 units")
    parser.add_argument("--models", type=Path, default=SHARED / "models", help="with --tables")
    parser.add_argument("--few", type=Path, help="folder of such tables, to compare samplers on")
    parser.add_argument("--model", default=str(SHARED / "models" / "minilm-imdb"))
    parser.add_argument("--device", help="where the model is, such as cuda")
    parser.add_argument("--data", type=Path, help=".jsonl or .jsonl.gz with texts")
    parser.add_argument("--packages", help="a folder of packages, where shapiq is")
    arguments = parser.parse_args()
    if arguments.packages:
        sys.path.append(arguments.packages)
    smoke = arguments.smoke
    if arguments.tables:
        arguments.tables.mkdir(parents=True, exist_ok=True)
        texts = lines(arguments.data)
        sources = table_games(arguments.models, texts, arguments.device, smoke=smoke)
        for source, games in sources:
            start, found = time.perf_counter(), np.array([*games], np.float32)
            name = source.lower().replace(", ", "_")
            np.savez(arguments.tables / f"{name}.npz", source=source, tables=found)
            print(f"{source}: {found.shape} in {time.perf_counter() - start:.0f} s", flush=True)
        return
    if arguments.few:
        measures = list(few_units(arguments.few, seeds=8))
        report("samplers_few", measures, arguments, data="texts of IMDB and pairs of SICK")
        return
    if not (arguments.gpu or arguments.long):
        measures = list(measured(cells_of(affordable(smoke=smoke), seeds=1 if smoke else SEEDS)))
        report("samplers", measures, arguments, data="texts of SST-2, IMDB, SICK and AG News")
        return
    device = {"device": arguments.device} if arguments.device else {}
    model, texts = limelight.load(arguments.model, **device), lines(arguments.data)
    if arguments.long:
        texts = [text for text in texts if smoke or len(text.split()) > 600]
        name, measures = "long_documents_cuda", list(long_documents(model, texts, smoke=smoke))
    else:
        name = "samplers_cuda"
        measures = list(measured(cells_of(on_a_card(model, texts, smoke=smoke), seeds=2)))
    report(name, measures, arguments, data="reviews of IMDB")


if __name__ == "__main__":
    main()
