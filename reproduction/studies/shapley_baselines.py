"""Estimators of Shapley values at equal numbers of model calls, from limelight and other packages.

export PYTHONPATH=benchmarks
python reproduction/studies/shapley_baselines.py                   reads or computes the tables
python reproduction/studies/shapley_baselines.py --packages FOLDER with packages from a folder
python reproduction/studies/shapley_baselines.py --slow             ProxySPEX and SPEX
python reproduction/studies/shapley_baselines.py --long             texts of 40 words

The games are SST-2 sentences under MiniLM and under a small GPT-2, and SICK pairs under a model of
their own. Each has 10 words. The outputs of all 1,024 masks of a text are computed once, so the
values and the best order are exact. Calls are reads of this table. A method that exceeds its budget
stops the program. `value_estimators.py` has the methods and their settings.

* Error: |estimate − values| / |values| (Euclidean norm), the mean over the seeds of a text.
* Share: the place of the order of the estimates between chance (0) and the best order (1), by the
  deletion area. All sets give chance, and dynamic programming over all sets gives the best order.
* Intervals: the studentized bootstrap over texts of `limelight.judging`.

ProxySPEX and SPEX take 10 seconds and more for each estimate. `--slow` compares them with the
default on the first ten texts under MiniLM with one seed, as a family of its own.

`--long` takes the first 40 words of reviews under the shipped classifier and under the paper's
recipe. These have one layer. So their values and chance are computed exactly, although the masks
are too many. There the share is relative to the best order of a beam search of width 5.

The rule, written before any result of this program. Every method is compared with limelight's
default at the same number of calls on the same texts, by two paired differences: the logarithm of
the error, and the share. For each model and each of the two, all methods and all numbers of calls
are one family. Its simultaneous 95 % intervals (max-t) are those of `limelight.judging`. A method
is better than the default at a number of calls if its interval lies on the better side of 0, and
worse if it lies on the other side. Otherwise the two are not distinguished. limelight's default
passes if no method is better in any cell, for the error and for the share.

Before the comparison, every method that claims to converge must reach the exact values of a small
game, with all masks or with 20,000 calls of orders. A method without that claim is listed with the
error that it reaches. Values of permuted features are the negative control, and must fail.
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from beam_search_ceilings import search_by_beam
from ceilings import least_sum
from results import Measure, command_line, report
from reviews import reviews
from samplers import SHARED, column, first_words, units
from value_estimators import (
    ESTIMATORS,
    NOT_INSTALLABLE,
    CountedGame,
    Outputs,
    TabulatedGame,
    missing_packages,
    package_versions,
)

import limelight
from limelight.explainers.batch import prepare_batch
from limelight.explainers.target_game import TargetGame
from limelight.judging.statistics import (
    UNBOUNDED,
    Bootstrap,
    SimultaneousInterval,
    bootstrap_means,
    bootstrap_shares,
)
from limelight.shapes import Bool, Float
from limelight.theory.enumeration import enumerate_masks, shapley_matrix
from limelight.theory.faithfulness import random_removal_mean
from limelight.theory.ratio_game import RatioGame, extract_document, value
from limelight.theory.shapley import shapley
from limelight_reproduction.collapsed_folder import load_collapsed
from limelight_reproduction.setting import BUNDLED_MODEL

WORDS, CALLS, SEEDS = 10, (30, 50, 100, 200, 400), 4
TEXTS, OTHER_TEXTS, SLOW_TEXTS = 24, 16, 10  # of MiniLM, of the other models, of `--slow`
SLOW_CALLS, SMOKE_CALLS = (100, 200, 400), (20, 40)
SLOW = ("proxyspex", "spex")  # seconds for each estimate
REFERENCE = "default"
ROUNDED = 1e-12  # of the values: an error of 0 has no logarithm
MANY_CALLS, EXACT, CONVERGED = (
    20_000,
    1e-6,
    0.05,
)  # the last is for methods that sample with replacement
LONG_WORDS, LONG_TEXTS, LONG_CALLS, LONG_SEEDS = 40, 16, (100, 200, 400, 800, 1600), 2
LABELS = {"minilm": "MiniLM, SST-2", "gpt2": "GPT-2, SST-2", "nli": "MiniLM, SICK pairs"}
LABELS |= {"shipped_long": "shipped model, reviews", "paper_long": "paper's recipe, reviews"}
Tables = Float[np.ndarray, "texts masks"]


class Source(NamedTuple):
    """A model with the texts that it explains."""

    model: Any
    texts: list[Any]


def main() -> None:
    """Compare all installed methods on all models."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--packages", help="a folder of packages that are compared")
    parser.add_argument(
        "--tables", type=Path, default=Path(tempfile.gettempdir()) / "limelight-tables"
    )
    parser.add_argument("--tables-only", action="store_true", help="compute the tables and stop")
    parser.add_argument("--long", action="store_true", help="texts of 40 words")
    parser.add_argument("--slow", action="store_true", help="only ProxySPEX and SPEX")
    arguments = parser.parse_args()
    if arguments.packages:
        sys.path.append(arguments.packages)
    tables = load_tables(arguments.tables, smoke=arguments.smoke)
    if arguments.tables_only:
        for name, outputs in tables:
            print(f"{name}: {outputs.shape}", flush=True)
        return
    missing = missing_packages()
    names = [name for name, estimator in ESTIMATORS.items() if estimator.package not in missing]
    is_slow = arguments.slow
    names = [name for name in names if name == REFERENCE or (name in SLOW) == is_slow]
    measures = list(convergence(names))
    rows, counts = list[dict[str, Any]](), list[str]()
    if arguments.long:
        result, calls, seeds = "shapley_baselines_long", LONG_CALLS, LONG_SEEDS
        sources = long_games(2 if arguments.smoke else LONG_TEXTS)
    else:
        result, calls, seeds = "shapley_baselines", CALLS, SEEDS
        sources = ((name, [*map(judge_table, outputs.astype(float))]) for name, outputs in tables)
    if is_slow:
        result, calls = "shapley_baselines_slow", SLOW_CALLS
        sources = ((name, judges[:SLOW_TEXTS]) for name, judges in islice(sources, 1))
    if arguments.smoke:
        calls, seeds = calls[:1] if arguments.long else SMOKE_CALLS, 1
    for source, judges in sources:
        rows += summarize(source, names, estimate_all(names, judges, calls, seeds))
        counts.append(f"{len(judges)} texts of {LABELS.get(source, source)}")
    report(
        result,
        [*measures, *list_measures(rows)],
        arguments,
        data=", ".join(counts),
        labels={name: ESTIMATORS[name].label for name in names},
        packages=package_versions(),
        missing=missing | NOT_INSTALLABLE,
        cells=rows,
    )


def load_tables(folder: Path, *, smoke: bool) -> Iterator[tuple[str, Tables]]:
    """Yield the outputs of all masks of every text, from stored tables if they exist."""
    sources = smoke_sources() if smoke else transformer_sources()
    for name, source in sources:
        cache = None if smoke else folder / f"{name}-{source.model.fingerprint[:16]}"
        yield name, np.stack([load_table(cache, source.model, text) for text in source.texts])


def load_table(cache: Path | None, model: Any, text: Any) -> Float[np.ndarray, " n"]:
    """Return the outputs of all masks of a text, which are stored in a folder."""
    if cache is None:
        return tabulate_text(model, text)
    path = cache / f"{hashlib.sha256(repr(text).encode()).hexdigest()[:16]}.npy"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        table = tabulate_text(model, text)
        unfinished = path.with_suffix(f".{os.getpid()}.npy")
        np.save(unfinished, table)
        unfinished.replace(path)  # another process must not read a part of a file
    return np.asarray(np.load(path))


def tabulate_text(model: Any, text: Any) -> Float[np.ndarray, " n"]:
    """Return the explained number of the predicted class for every mask."""
    batch = prepare_batch(model, [text], target="predicted")
    game, keep = TargetGame(batch, "auto"), enumerate_masks(len(batch.features[0]))
    parts = np.array_split(keep, max(1, len(keep) // 256))
    return np.concatenate([game(part)[:, 0] for part in parts])


def smoke_sources() -> Iterator[tuple[str, Source]]:
    """Yield short sentences under the shipped classifier."""
    model = limelight.load()
    words = " ".join(reviews(model, count=20).texts).split()
    texts = (" ".join(words[i : i + 6]) for i in range(0, len(words), 6))
    fitting = (text for text in texts if units(model, text) == 6)
    yield "shipped", Source(model, list(islice(fitting, 12)))


def transformer_sources() -> Iterator[tuple[str, Source]]:
    """Yield three transformers, each with texts of ten words."""
    models = SHARED / "models"
    sentences = column("sst2/dev.parquet", "text")
    pairs = column("sick/test.parquet", "sentence_a", "sentence_b")
    minilm = limelight.load(str(models / "minilm-imdb"))
    yield "minilm", Source(minilm, select_texts(minilm, sentences, TEXTS))
    gpt2 = limelight.load(
        str(models / "gpt2-mini-imdb"),
        template="{text} this film is",
        labels={"negative": "bad", "positive": "good"},
    )
    yield "gpt2", Source(gpt2, select_texts(gpt2, sentences, OTHER_TEXTS))
    nli = limelight.load(str(models / "minilm-sick-nli"))
    yield "nli", Source(nli, select_texts(nli, pairs, OTHER_TEXTS))


def select_texts(model: Any, texts: list[Any], count: int) -> list[Any]:
    """Return the first texts of ten words."""
    return list(islice((text for text in texts if units(model, text) == WORDS), count))


class Judge(NamedTuple):
    """A game with its exact values, and the deletion areas that its orders are judged by."""

    outputs: Outputs
    truth: Float[np.ndarray, " d"]
    chance: float
    best: float

    @property
    def room(self) -> float:
        """The distance from chance to the best order."""
        return self.best - self.chance

    def error(self, values: Float[np.ndarray, " d"]) -> float:
        """Return |estimate − values| / |values|."""
        return float(np.linalg.norm(values - self.truth) / np.linalg.norm(self.truth))

    def gain(self, values: Float[np.ndarray, " d"]) -> float:
        """Return the deletion area of the order of the estimates, above chance."""
        rank = np.argsort(np.argsort(-values, kind="stable"))
        curve = self.outputs(rank >= np.arange(len(values) + 1)[:, None])
        return float(curve[0] - curve[1:].mean() - self.chance)


def judge_table(table: Float[np.ndarray, " n"]) -> Judge:
    """Return the judge of a game whose outputs for all masks are known."""
    game = TabulatedGame(table)
    removed = game.d - enumerate_masks(game.d).sum(axis=1)
    means = [table[removed == k].mean() for k in range(1, game.d + 1)]
    return Judge(
        outputs=game.outputs,
        truth=shapley_matrix(game.d).T @ table,
        chance=table[-1] - float(np.mean(means)),
        best=table[-1] - least_sum(table, game.d) / game.d,
    )


def judge_ratio_game(game: RatioGame) -> Judge:
    """Return the judge of a ratio game. Its best order is that of a beam search."""

    def outputs(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return np.asarray(value(game, keep)[0])

    full = float(outputs(np.ones((1, game.d), bool))[0])
    return Judge(
        outputs=outputs,
        truth=np.asarray(shapley(game, tolerance=1e-9).scores)[0],
        chance=full - float(random_removal_mean(game).value),
        best=search_by_beam(outputs, game.d, 5)[0],
    )


def long_games(count: int) -> Iterator[tuple[str, list[Judge]]]:
    """Yield the first words of reviews under two classifiers of one layer."""
    shipped = limelight.load()
    texts = [text for text in reviews(shipped).texts if units(shipped, text) > LONG_WORDS]
    for name, model in (("shipped_long", shipped), ("paper_long", load_collapsed(BUNDLED_MODEL))):
        judges = []
        for text in texts[:count]:
            batch = prepare_batch(model, [first_words(model, text, LONG_WORDS)], target="predicted")
            judges.append(judge_ratio_game(extract_document(batch.ratio_game, 0)))
        yield name, judges


class Cells(NamedTuple):
    """Errors and gains of every text, method and number of calls, NaN where a method cannot run."""

    error: Float[np.ndarray, "texts methods sizes"]
    gain: Float[np.ndarray, "texts methods sizes"]
    room: Float[np.ndarray, " texts"]
    used: Float[np.ndarray, "methods sizes"]
    calls: tuple[int, ...]


def estimate_all(
    names: list[str], judges: Sequence[Judge], calls: tuple[int, ...], seeds: int
) -> Cells:
    """Run every method on every text, with every number of calls and every seed."""
    error, gain, used = np.full((3, len(judges), len(names), len(calls)), np.nan)
    room = np.zeros(len(judges))
    for t, judge in enumerate(judges):
        room[t] = judge.room
        for m, name in enumerate(names):
            for c, budget in enumerate(calls):
                rows = []
                for seed in range(1 if name in SLOW else seeds):
                    game = CountedGame(judge.outputs, len(judge.truth), budget=budget)
                    values = ESTIMATORS[name].estimate(game, budget, 1000 * t + seed)
                    if values is not None:
                        rows.append((judge.error(values), judge.gain(values), game.calls))
                if rows:
                    error[t, m, c], gain[t, m, c], used[t, m, c] = np.mean(rows, axis=0)
        print(f"text {t + 1} of {len(judges)}", flush=True)
    return Cells(error, gain, room, np.nanmean(used, axis=0), calls)


def summarize(source: str, names: list[str], cells: Cells) -> Iterator[dict[str, Any]]:
    """Yield a row for every method and number of calls: error, share, and their differences."""
    columns = [(m, c) for m in range(len(names)) for c in range(len(cells.calls))]
    columns = [(m, c) for m, c in columns if np.isfinite(cells.error[:, m, c]).all()]
    methods, sizes = np.transpose(columns)
    errors, gains = cells.error[:, methods, sizes], cells.gain[:, methods, sizes]
    reference = names.index(REFERENCE)
    rivals = [i for i, (m, _) in enumerate(columns) if m != reference]
    base = [columns.index((reference, columns[i][1])) for i in rivals]
    log_errors = np.log(np.maximum(errors, ROUNDED))
    gaps = gains[:, rivals] - gains[:, base]
    means = bootstrap_means(errors, seed=0, limits=(0.0, np.inf))
    shares = bootstrap_shares(gains, cells.room, seed=0)
    error_gaps = bootstrap_means(log_errors[:, rivals] - log_errors[:, base], seed=1)
    share_gaps = bootstrap_shares(gaps, cells.room, seed=1, limits=UNBOUNDED)
    error_intervals = error_gaps.simultaneous_intervals()
    share_intervals = share_gaps.simultaneous_intervals()
    for i, (m, c) in enumerate(columns):
        row = {
            "source": source,
            "method": names[m],
            "calls": cells.calls[c],
            "used": round(float(cells.used[m, c]), 1),
            "error": float(means.share[i]),
            "error_median": float(np.median(errors[:, i])),
            "error_interval": means.estimate(i)[1],
            "share": float(shares.share[i]),
            "share_interval": shares.estimate(i)[1],
        }
        if m != reference:
            k = rivals.index(i)
            row |= describe_difference("error", error_gaps, error_intervals, k)
            row |= describe_difference("share", share_gaps, share_intervals, k)
        yield row


def describe_difference(
    kind: str, gaps: Bootstrap, intervals: list[SimultaneousInterval | None], k: int
) -> dict[str, Any]:
    """Return a difference from limelight's default, its simultaneous interval and the verdict."""
    simultaneous = intervals[k]
    if simultaneous is None:  # too few texts differ
        return {f"{kind}_difference": float(gaps.share[k]), f"{kind}_verdict": "not tested"}
    low, high = simultaneous.interval
    sign = 1 if kind == "share" else -1
    verdict = "better" if sign * low > 0 and sign * high > 0 else "worse"
    return {
        f"{kind}_difference": float(gaps.share[k]),
        f"{kind}_difference_interval": (low, high),
        f"{kind}_p": simultaneous.p,
        f"{kind}_verdict": verdict if low > 0 or high < 0 else "not distinguished",
    }


def list_measures(rows: list[dict[str, Any]]) -> Iterator[Measure]:
    """Yield the error and the share of every cell, and the verdicts of every model."""
    for row in rows:
        label = LABELS.get(row["source"], row["source"])
        what = f"{label}, {ESTIMATORS[row['method']].label}, {row['calls']:,} calls"
        share = f"share {row['share']:.4f} {format_interval(row['share_interval'])}"
        yield Measure(
            id=f"{row['source']}_{row['method']}_{row['calls']}",
            what=f"{what}: error of the values",
            value=row["error"],
            note=f"{format_interval(row['error_interval'])}, median {row['error_median']:.4f}; "
            f"{share}; {row['used']:g} calls used",
        )
    for source in dict.fromkeys(row["source"] for row in rows):
        label = LABELS.get(source, source)
        compared = [row for row in rows if row["source"] == source and "error_verdict" in row]
        for kind in ("error", "share"):
            cells: dict[str, list[str]] = {}
            for row in compared:
                cell = f"{row['method']} {row['calls']}"
                cells.setdefault(row[f"{kind}_verdict"], []).append(cell)
            counts = [f"{verdict}: {', '.join(names)}" for verdict, names in sorted(cells.items())]
            yield Measure(
                id=f"{source}_{kind}_better",
                what=f"{label}: cells of {len(compared)} in which a method has a better {kind} "
                "than limelight's default",
                value=len(cells.get("better", [])),
                below=1,
                note="; ".join(counts),
            )
            yield Measure(
                id=f"{source}_{kind}_worse",
                what=f"{label}: cells of {len(compared)} in which a method has a worse {kind} "
                "than limelight's default",
                value=len(cells.get("worse", [])),
            )


def format_interval(interval: tuple[float, float] | None) -> str:
    """Return an interval in brackets."""
    return "[no interval]" if interval is None else f"[{interval[0]:.4f}, {interval[1]:.4f}]"


def convergence(names: list[str]) -> Iterator[Measure]:
    """Yield the error of every method with all masks, or with very many calls, of a small game."""
    d = 8
    rng = np.random.default_rng(0)
    keep = enumerate_masks(d)
    table = np.tanh(keep @ rng.normal(size=d)) + 0.5 * keep[:, 0] * keep[:, 1] * keep[:, 2]
    judge = judge_table(table)
    for name in names:
        estimator = ESTIMATORS[name]
        error = np.inf
        for calls in (len(table), MANY_CALLS):
            values = estimator.estimate(TabulatedGame(table), calls, 0)
            if values is not None:
                error = min(error, judge.error(values))
            if error < EXACT:
                break
        yield Measure(
            id=f"converges_{name}",
            what=f"{estimator.label}: error with very many calls of a game of {d} features",
            value=error,
            below=CONVERGED if estimator.converges else None,
            note=f"at {calls:,} calls",
        )
    rolled = judge.error(np.roll(judge.truth, 1))
    what = "negative control: error of the exact values of other features"
    yield Measure(id="converges_control", what=what, value=rolled, at_least=10 * CONVERGED)


if __name__ == "__main__":
    main()
