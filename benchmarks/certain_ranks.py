"""How often a certificate of the strongest features is wrong, and how many calls it takes.

python benchmarks/certain_ranks.py                  games, reviews and the shipped model
python benchmarks/certain_ranks.py --minilm         only MiniLM, with and without a learned start

Games have 12 features, so that all 4,096 masks give the exact values. Every run draws a new game
and certifies it. A certificate is wrong if a feature inside a certified set is not larger in size
than a feature outside. So a set that cuts a tie is wrong, too. A run is wrong if any of its
certificates is.

The rule, written before the results: in every cell, at most 5 % of 400 runs are wrong. There is one
exception: "rare beside smooth", in which no draw needs to show the rare effect. Its cells are
reported without a target, as in `coverage_study.py`. MiniLM gives cells of 5 sentences of 10 words,
with 80 seeds each.

Cells are Shapley values by 10, 25 and 100 pairs of orders, and until the top 3 are certain (at most
160 pairs), Shapley values by a regression on masks, Banzhaf values and LIME, each by 128 and 1,000
calls.

Rates on reviews are those of 60 random test reviews of IMDB on the shipped model. Calls until the
top 1, 3 and 5 are certain count the model calls of Shapley values. They end after 640 pairs on the
shipped model, and after 2,000 calls on MiniLM.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import limelight
from limelight.data import read_labeled
from limelight.explainers import Shapley
from limelight.explainers.batch import prepare_batch
from limelight.explainers.shapley import explain_by_sampling
from limelight.sampling.all_masks import (
    banzhaf_values_from_all_masks,
    lime_from_all_masks,
    shapley_values_from_all_masks,
)
from limelight.sampling.anchors import clopper_pearson_interval
from limelight.sampling.kernel import shapley_values_from_regression
from limelight.sampling.orders import shapley_values_from_orders
from limelight.sampling.ranks import ERROR_LEVEL, certify_tops, look_level
from limelight.sampling.regression import fit_sampled_lime
from limelight.sampling.sample import Game, Sample, make_coin_sampler, make_lime_sampler
from limelight.sampling.stopping import StoppingRule
from limelight.theory.enumeration import enumerate_masks
from results import Measure, command_line, report
from reviews import reviews

SHARED = Path(__file__).resolve().parents[2] / "shared"
D = 12
KEEP = enumerate_masks(D)
BITS = 1 << np.arange(D)
Table = np.ndarray  # f of every mask
Rng = np.random.Generator
RUNS, REVIEWS = 400, 60
MAX_WRONG = 0.05
PAIRS, REVIEW_PAIRS, CALLS = (10, 25, 100), (5, 10, 25, 100), (128, 1000)
TOPS = (1, 3, 5)
UNTIL_PAIRS, SHIPPED_PAIRS, MINILM_CALLS = 160, 640, 2_000
HIDDEN = "rare beside smooth"


def ratio(rng: Rng, weight: np.ndarray) -> Table:
    """Return a weighted mean over the words, as attention computes it."""
    value = 5 * rng.standard_normal(D)
    return (KEEP @ (weight * value)) / (KEEP @ weight + (~KEEP).sum(axis=1))


def conjunction(rng: Rng, count: int = 3) -> Table:
    """Return 1 where ``count`` words are all present."""
    return KEEP[:, rng.choice(D, count, replace=False)].all(axis=1).astype(float)


def rare(rng: Rng) -> Table:
    """Return 1 for one pattern of 3 to 8 words, present and absent."""
    words = rng.choice(D, rng.integers(3, 9), replace=False)
    return (KEEP[:, words] == (rng.random(len(words)) < 0.6)).all(axis=1).astype(float)


def linear(rng: Rng) -> Table:
    """Return a sum over the words."""
    return KEEP @ rng.standard_normal(D)


def peaked(rng: Rng) -> Table:
    """Return a weighted mean in which two words have nearly all weight."""
    weight = np.exp(0.5 * rng.standard_normal(D))
    weight[rng.choice(D, 2, replace=False)] *= np.exp(4)
    return ratio(rng, weight)


def near_ties(rng: Rng) -> Table:
    """Return a game whose sizes come in pairs that differ by 0.1 %, beside a smooth part."""
    slope = rng.standard_normal(D)
    order = np.argsort(-np.abs(slope))
    slope[order[1::2]] = slope[order[::2]] * (1 - 1e-3) * rng.choice([-1, 1], D // 2)
    return KEEP @ slope + 1.5 * np.tanh(linear(rng))


def threshold(rng: Rng) -> Table:
    """Return whether a sum over the words passes a threshold."""
    slope = rng.standard_normal(D)
    return (KEEP @ slope > slope.sum() * rng.random()).astype(float)


def gate(rng: Rng) -> Table:
    """Return a sum over words that two other words let through."""
    slope, keys = rng.standard_normal(D), rng.choice(D, 2, replace=False)
    return KEEP[:, keys].all(axis=1) * (KEEP @ slope)


def sparse(rng: Rng) -> Table:
    """Return a game of three words with an interaction."""
    words = KEEP[:, rng.choice(D, 3, replace=False)]
    return np.tanh(words @ (2 * rng.standard_normal(3))) + rng.standard_normal() * (
        words[:, 0] & words[:, 1]
    )


def pairs_of_words(rng: Rng) -> Table:
    """Return effects of all pairs of words."""
    effects = np.triu(rng.standard_normal((D, D)), 1)
    return np.einsum("ni,ij,nj->n", KEEP.astype(float), effects, KEEP.astype(float))


def triples(rng: Rng) -> Table:
    """Return effects of 30 triples of words."""
    return np.sum([rng.standard_normal() * conjunction(rng) for _ in range(30)], axis=0)


KINDS: dict[str, Callable[[Rng], Table]] = {
    "additive": linear,
    "ratio": lambda rng: ratio(rng, np.exp(0.7 * rng.standard_normal(D))),
    "peaked ratio": peaked,
    "AND of 3": conjunction,
    "AND beside a sum": lambda rng: conjunction(rng) + 0.3 * linear(rng),
    "parity": lambda rng: (
        KEEP[:, rng.choice(D, rng.integers(2, 5), replace=False)].sum(axis=1) % 2.0
    ),
    "rare effect": rare,
    "rare beside a sum": lambda rng: 0.1 * linear(rng) + rare(rng),
    "0 or 1": threshold,
    "saturating": lambda rng: np.tanh(1.5 * linear(rng)),
    "heavy tails": lambda rng: np.exp(linear(rng)),
    "max": lambda rng: np.where(KEEP, rng.exponential(1, D), 0.0).max(axis=1),
    "gate": gate,
    "ties": lambda _: np.tanh(KEEP[:, :6].sum(axis=1) - 0.5 * KEEP[:, 6:].sum(axis=1) + 0.3),
    "near ties": near_ties,
    "sparse": sparse,
    "pairs of words": pairs_of_words,
    "triples": triples,
    HIDDEN: lambda rng: 0.2 * ratio(rng, np.exp(0.7 * rng.standard_normal(D))) + rare(rng),
}


class Certificate(NamedTuple):
    """Certified sizes of top sets, with the scores that rank the features."""

    tops: tuple[int, ...]
    scores: np.ndarray

    def is_wrong(self, exact: np.ndarray) -> bool:
        """Return whether a certified set does not have the largest exact values."""
        order, sizes = np.argsort(-np.abs(self.scores), kind="stable"), np.abs(exact)
        return any(
            sizes[order[:k]].min() <= sizes[order[k:]].max() + 1e-12 * sizes.max()
            for k in self.tops
        )


def certify_orders(game: Game, d: int, rng: Rng, count: int) -> Certificate:
    """Certify Shapley values by pairs of orders."""
    sample = shapley_values_from_orders(game, d, rng, pairs=count)
    return Certificate(sample.certify_tops(ERROR_LEVEL), sample.values[0])


def certify_until(game: Game, d: int, rng: Rng, top: int) -> Certificate:
    """Certify Shapley values with looks at a growing sample."""
    stopping = StoppingRule(max_count=UNTIL_PAIRS, top=top)
    sample = shapley_values_from_orders(game, d, rng, pairs=1, stopping=stopping)
    tops = sample.certify_tops(look_level(sample.looks), first=top)
    return Certificate(tops, sample.values[0])


def certify_kernel(game: Game, d: int, rng: Rng, calls: int) -> Certificate:
    """Certify Shapley values by a regression on pairs of masks."""
    sample = shapley_values_from_regression(game, d, rng, pairs=calls // 2)
    return Certificate(sample.certify_tops(ERROR_LEVEL), sample.values[0])


def certify_banzhaf(game: Game, d: int, rng: Rng, calls: int) -> Certificate:
    """Certify Banzhaf values by a regression on pairs of masks."""

    def half_difference(keep: np.ndarray) -> np.ndarray:
        return (game(keep) - game(~keep)) / 2

    sample = Sample(half_difference, make_coin_sampler(d), rng, d=d, row0=False)
    return certify_fit(game, sample, calls // 2)


def certify_lime(game: Game, d: int, rng: Rng, calls: int) -> Certificate:
    """Certify LIME by a regression on masks."""
    sample = Sample(game, make_lime_sampler(d, sizes="balanced"), rng, d=d, row0=False)
    return certify_fit(game, sample, calls)


def certify_fit(game: Game, sample: Sample, rows: int) -> Certificate:
    """Fit a sample of masks, and certify the slopes."""
    sample.grow(rows)
    ends = game(np.repeat([[False], [True]], sample.d, axis=1))
    fit = fit_sampled_lime(sample, ridge=0.0, known_range=float(abs(ends[1] - ends[0])[0]))
    return Certificate(fit.certify_tops(ERROR_LEVEL), fit.scores[0])


Certify = Callable[[Game, int, Rng, int], Certificate]
Exact = Callable[[Game, int], np.ndarray]
METHODS: dict[str, tuple[str, Certify, Exact, tuple[int, ...]]] = {
    "orders": (
        "shapley, {} pairs of orders",
        certify_orders,
        lambda game, d: shapley_values_from_all_masks(game, d)[0],
        PAIRS,
    ),
    "until": (
        "shapley until the top {} are certain",
        certify_until,
        lambda game, d: shapley_values_from_all_masks(game, d)[0],
        (3,),
    ),
    "kernel": (
        "shapley by regression, {:,} calls",
        certify_kernel,
        lambda game, d: shapley_values_from_all_masks(game, d)[0],
        CALLS,
    ),
    "banzhaf": (
        "banzhaf, {:,} calls",
        certify_banzhaf,
        lambda game, d: banzhaf_values_from_all_masks(game, d)[0],
        CALLS,
    ),
    "lime": (
        "lime, {:,} calls",
        certify_lime,
        lambda game, d: lime_from_all_masks(game, d).scores[0],
        CALLS,
    ),
}


def table_game(table: Table) -> Game:
    """Return the game with these outputs for the rows of ``enumerate_masks``."""
    bits = 1 << np.arange(len(table).bit_length() - 1)
    return lambda keep: table[keep @ bits][:, None]


def coverage_cells(
    kind: str, draw: Callable[[int], Table], runs: int, methods: tuple[str, ...] = tuple(METHODS)
) -> Iterator[Measure]:
    """Yield the share of wrong runs for each method and sample size on games of a kind."""
    for name in methods:
        title, certify, exact, counts = METHODS[name]
        for count in counts:
            wrong = certain = 0
            for run in range(runs):
                table = draw(run)
                game, d = table_game(table), len(table).bit_length() - 1
                rng = np.random.default_rng([run, count, 43])
                certificate = certify(game, d, rng, count)
                wrong += bool(certificate.tops) and certificate.is_wrong(exact(game, d))
                certain += bool(certificate.tops)
            high = clopper_pearson_interval(wrong, runs, delta=0.05)[1]
            target = {} if kind == HIDDEN else {"below": MAX_WRONG + 1e-9}
            yield Measure(
                id=f"{name}_{count}_{kind.replace(' ', '_')}",
                what=f"{title.format(count)}: {kind}",
                value=round(wrong / runs, 4),
                unit="wrong",
                note=f"of {runs} runs, at most {high:.3f}; certified in {certain / runs:.2f}",
                **target,
            )


def game_measures(runs: int) -> Iterator[Measure]:
    """Yield the cells of all kinds of games."""
    for number, (kind, draw) in enumerate(KINDS.items()):
        yield from coverage_cells(
            kind, lambda run, draw=draw, n=number: draw(np.random.default_rng([run, n])), runs
        )


def review_draws(count: int) -> Iterator[tuple[np.ndarray, np.ndarray, Game]]:
    """Yield 100 draws, the exact values and the game of random reviews on the shipped model."""
    model = limelight.load()
    texts = reviews(model).texts
    chosen = np.random.default_rng(0).choice(len(texts), count, replace=False)
    for number, i in enumerate(chosen.tolist()):
        exact = limelight.explain(model, texts[i], "shapley").scores
        output_game = limelight.game(model, texts[i])

        def game(keep: np.ndarray, output_game: Game = output_game) -> np.ndarray:
            return np.asarray(output_game(keep)).reshape(len(keep), 1)

        rng = np.random.default_rng(number)
        sample = shapley_values_from_orders(game, len(exact), rng, pairs=max(REVIEW_PAIRS))
        yield sample.draws, exact, game


def review_measures(count: int) -> Iterator[Measure]:
    """Yield rates of certified top sets, and calls until they are certain, on reviews."""
    rows = list(review_draws(count))
    wrong = 0
    for pairs in REVIEW_PAIRS:
        tried, free = [], []
        for draws, exact, _ in rows:
            for certificates, first in ((tried, 3), (free, None)):
                scores = draws[:pairs].mean(axis=0)
                tops = certify_tops(draws[:pairs], first=first)
                wrong += Certificate(tops, scores).is_wrong(exact)
                certificates.append(tops)
        for id, what, value in (
            ("top3", "the top 3, asked for", np.mean([3 in tops for tops in tried])),
            ("top3_unasked", "the top 3", np.mean([3 in tops for tops in free])),
            ("largest", "a set of 3 or more", np.mean([max(t, default=0) >= 3 for t in free])),
        ):
            yield Measure(
                id=f"reviews_{id}_{pairs}",
                what=f"{count} reviews, {pairs} pairs: certified {what}",
                value=round(float(value), 3),
            )
    yield Measure(
        id="reviews_wrong",
        what="reviews: wrong certificates",
        value=wrong,
        note=f"of {2 * len(REVIEW_PAIRS) * count} runs",
    )
    for top in TOPS:
        calls = []
        for number, (_, exact, game) in enumerate(rows):
            stopping = StoppingRule(max_count=SHIPPED_PAIRS, top=top)
            rng, d = np.random.default_rng([number, top]), len(exact)
            sample = shapley_values_from_orders(game, d, rng, pairs=1, stopping=stopping)
            tops = sample.certify_tops(look_level(sample.looks), first=top)
            calls.append(2 + 2 * (d - 1) * sample.pairs if top in tops else np.inf)
        yield calls_measure(f"shipped_{top}", f"shipped model, reviews: top {top}", calls)


def calls_measure(id: str, what: str, calls: list[float]) -> Measure:
    """Return the median of the calls until a top set is certain, and how often it is."""
    reached = np.isfinite(calls)
    # The median counts texts that did not get there as the largest ones.
    middle = float(np.sort(calls)[(len(calls) - 1) // 2])
    return Measure(
        id=f"calls_{id}",
        what=f"calls until certain, {what}",
        value=middle if np.isfinite(middle) else -1.0,
        unit="calls",
        note=f"certain for {reached.sum()} of {len(calls)} texts; −1: fewer than half",
    )


def sentences(low: int, high: int, count: int, *, skip: int = 0) -> list[str]:
    """Return sentences of SST-2 with ``low`` to ``high`` different words."""
    texts = read_labeled(SHARED / "data" / "sst2" / "dev.parquet").texts
    fitting = [text for text in texts if low <= len(set(text.lower().split())) <= high]
    return fitting[skip : skip + count]


def minilm_measures(*, smoke: bool) -> Iterator[Measure]:
    """Yield cells of MiniLM's games, and its calls until the top features are certain."""
    model = limelight.load(str(SHARED / "models" / "minilm-imdb"))
    seeds, games = (2, 1) if smoke else (80, 5)
    tables = []
    for text in sentences(10, 10, games):
        game = limelight.game(model, text)
        masks = enumerate_masks(len(limelight.explain(model, text, "loo")))
        tables.append(np.diff(np.asarray(game(masks)), axis=1)[:, 0])  # the log-odds
    yield from coverage_cells(
        "MiniLM", lambda run: tables[run % games], seeds * games, ("orders", "until")
    )
    texts = sentences(14, 18, 2 if smoke else 6)
    learned = limelight.learn(
        model, sentences(6, 18, 20 if smoke else 50, skip=40), pairs=2, judged=0
    )
    # A batch stores outputs, so that all rows of the table share the calls of a text.
    batches = [prepare_batch(model, [text]) for text in texts]
    for top in TOPS:
        for start, method in (("", None), (" with a learned start", learned)):
            calls = []
            for batch in batches:
                calls_per_pair = 2 * (len(batch.features[0]) - 1)
                settings = Shapley(
                    until=f"top {top}",
                    max_pairs=MINILM_CALLS // calls_per_pair,
                    start=method,
                    replacement=model.replacements[0],
                )
                attribution = explain_by_sampling(settings, batch)
                pairs = attribution.diagnostics["pairs_drawn"]
                certain = top in (attribution.certain_tops or ())
                calls.append(3 + calls_per_pair * pairs if certain else np.inf)
            yield calls_measure(
                f"minilm_{top}{'_learned' * bool(start)}",
                f"MiniLM, sentences{start}: top {top}",
                calls,
            )


def main() -> None:
    """Run the benchmark."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--minilm", action="store_true", help="only the measures of MiniLM")
    arguments = parser.parse_args()
    smoke = arguments.smoke
    if arguments.minilm:
        measures = list(minilm_measures(smoke=smoke))
        name, data = "certain_ranks_minilm", "SST-2 dev sentences"
    else:
        measures = list(game_measures(2 if smoke else RUNS))
        cells = [measure for measure in measures if measure.below is not None]
        worst = max(cells, key=lambda measure: measure.value)
        share = float(np.mean([bool(measure.met) for measure in cells]))
        measures.append(
            Measure(
                id="cells",
                what="share of the cells with at most 5 % wrong runs",
                value=share,
                at_least=1.0,
                note=f"{len(cells)} cells; most: {worst.value} ({worst.what})",
            )
        )
        measures += review_measures(2 if smoke else REVIEWS)
        name, data = "certain_ranks", f"{len(KINDS)} kinds of games; {REVIEWS} IMDB test reviews"
    report(name, measures, arguments, data=data)


if __name__ == "__main__":
    main()
