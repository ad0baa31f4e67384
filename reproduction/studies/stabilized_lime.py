"""S-LIME next to the law of LIME: the samples that each wants, and how stable the top words are.

export PYTHONPATH=benchmarks
python reproduction/studies/stabilized_lime.py

S-LIME (Zhou, Hooker and Wang, "S-LIME: Stabilized-LIME for Model Explanation", KDD 2021) draws
samples, selects words by the path of the lasso, and tests at each step whether a new sample of the
same size would select the same word. If a test fails, it draws as many samples as the test wants,
up to a maximum. This is our implementation of the published test, with the published defaults:
1,000 samples at first, 10,000 at most, level 0.05, tolerance 0.001. Masks and weights are those of
the `lime` package for texts. The PyPI package `slime` is another program.

The law of LIME (docs/theorems/lime-variance.md) gives the limit β and σ²/n, the variance of each
coefficient, before any sample is drawn. Two samples of size n agree on the top k words at a level
of 0.05 if n ≥ 2 z² (σ_k + σ_{k+1})² / (|β_k| − |β_{k+1}|)², where z is the normal quantile. The
largest n over the pairs of a selected and a rejected word is the plan. The sum of the standard
deviations bounds that of a difference, whatever the correlation is. S-LIME asks for the words in
their order. The plan for the order also has the pairs of selected words. The law needs a game whose
exact limit is known. S-LIME needs only samples.

The games are short sentences under the shipped model and under the paper's recipe. Their limits are
known: the law gives β, and all masks give the path of the lasso.

The rule, written before any result of this program. The words of a method are called stable if two
runs select the same top three words with probability 0.95 or more, in the mean over the texts. The
plan runs LIME with its n, or with the maximum of S-LIME if n is larger. Controls: with 50 samples,
LIME must not be stable, and on all masks our steps must be those of scikit-learn's path.

A plan of fewer than 50 samples runs with 50, because the law is for many samples. The runs with the
plan for the order came after the first results, and no verdict depends on them.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from typing import Any, NamedTuple

import numpy as np
from results import Measure, command_line, report
from reviews import reviews
from scipy.stats import norm
from sklearn.linear_model import lars_path

import limelight
from limelight.explainers import prepare_batch
from limelight.sampling.masks import draw_lime_masks
from limelight.shapes import Bool, Float
from limelight.text import token_strings
from limelight.theory.enumeration import enumerate_masks, lime_mask_weights
from limelight.theory.lime import lime
from limelight.theory.lime_weights import size_weight
from limelight.theory.ratio_game import RatioGame, extract_document, value
from limelight_reproduction.collapsed_folder import load_collapsed
from limelight_reproduction.setting import BUNDLED_MODEL
from limelight_reproduction.theory.lime_variance import lime_variance

TOP, LEVEL, TOLERANCE = 3, 0.05, 1e-3
FIRST, MOST, CONTROL = 1000, 10_000, 50  # samples
SHORTEST, LONGEST = 6, 12  # words
STABLE = 0.95
MAX_ROUNDS = 50
Words = tuple[int, ...]  # in their order


class Sample(NamedTuple):
    """Masks with their outputs and weights."""

    keep: Bool[np.ndarray, "n d"]
    outputs: Float[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]


class Selection(NamedTuple):
    """The words that S-LIME selects, its samples of all rounds and those of the last round."""

    words: Words
    samples: int
    last: int


class Row(NamedTuple):
    """The results of one text. The ``agreement`` of a method is that of pairs of its runs."""

    plan: float
    order_plan: float
    samples: float
    last: float
    stopped: float
    agreement: dict[str, float]
    order_agreement: dict[str, float]
    exact: dict[str, float]
    has_same_path: bool


def main() -> None:
    """Run S-LIME and the plan on two models."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--texts", type=int, default=40, help="of each model")
    parser.add_argument("--runs", type=int, default=20, help="of each text")
    arguments = parser.parse_args()
    count, runs = (2, 4) if arguments.smoke else (arguments.texts, arguments.runs)
    models = {
        "shipped": ("shipped model", limelight.load()),
        "paper": ("paper's recipe", load_collapsed(BUNDLED_MODEL)),
    }
    measures = []
    for name, (label, model) in models.items():
        rows = []
        for number, game in enumerate(extract_games(model, count)):
            rows.append(compare(game, runs, seed=number))
            print(name, number, f"{rows[-1].plan:,.0f} {rows[-1].samples:,.0f}", flush=True)
        measures += summarize(name, label, rows)
    report("stabilized_lime", measures, arguments, data=f"{count} sentences, {runs} runs each")


def extract_games(model: Any, count: int) -> Iterator[RatioGame]:
    """Yield the games of short sentences of reviews."""
    texts = reviews(limelight.load()).texts
    sentences = (s for text in texts for s in re.split(r"(?<=[.!?])\s+", text))
    fitting = (s for s in sentences if SHORTEST <= len(set(token_strings(s))) <= LONGEST)
    for sentence in islice(fitting, count):
        batch = prepare_batch(model, [sentence], target="predicted")
        yield extract_document(batch.ratio_game, 0)


def compare(game: RatioGame, runs: int, *, seed: int) -> Row:
    """Run both methods on one text."""
    rng = np.random.default_rng([5, seed])
    limit = np.asarray(lime(game, tolerance=1e-9).scores)[0]
    plan, order_plan = plan_samples(limit, np.sqrt(np.asarray(lime_variance(game))[0]))
    planned, order_planned = (
        int(np.clip(np.ceil(count), CONTROL, MOST)) for count in (plan, order_plan)
    )
    selections = [stabilize(game, rng) for _ in range(runs)]
    words = {
        "slime": [selection.words for selection in selections],
        "plan": [top_words(fit(draw(game, planned, rng))) for _ in range(runs)],
        "order": [top_words(fit(draw(game, order_planned, rng))) for _ in range(runs)],
        "lime": [top_words(fit(draw(game, FIRST, rng))) for _ in range(runs)],
        "control": [top_words(fit(draw(game, CONTROL, rng))) for _ in range(runs)],
    }
    full_sample = draw_all(game)
    path_limit, _, _ = select_words(full_sample)
    _, active, _ = lars_path(*center(full_sample), method="lasso")
    limits = dict.fromkeys(words, top_words(limit)) | {"slime": path_limit}
    sets = {name: [frozenset(selected) for selected in runs] for name, runs in words.items()}
    return Row(
        plan=plan,
        order_plan=order_plan,
        samples=float(np.mean([selection.samples for selection in selections])),
        last=float(np.mean([selection.last for selection in selections])),
        stopped=float(np.mean([selection.last < MOST for selection in selections])),
        agreement={name: agreement(selected) for name, selected in sets.items()},
        order_agreement={name: agreement(selected) for name, selected in words.items()},
        exact={
            name: float(np.mean([selected == frozenset(limits[name]) for selected in sets[name]]))
            for name in sets
        },
        has_same_path=tuple(active[:TOP]) == path_limit,
    )


def plan_samples(
    limit: Float[np.ndarray, " d"], sigma: Float[np.ndarray, " d"]
) -> tuple[float, float]:
    """Return the samples with which two runs agree on the top words, and also on their order."""
    order = np.argsort(-np.abs(limit), kind="stable")
    size, spread = np.abs(limit)[order], sigma[order]
    with np.errstate(divide="ignore"):
        ratio = (spread[:, None] + spread) / (size[:, None] - size)
    wanted = 2 * (norm.ppf(1 - LEVEL) * ratio) ** 2
    is_above = np.arange(len(order))[:, None] < np.arange(len(order))
    top_rows = wanted[:TOP]
    return float(top_rows[:, TOP:].max()), float(top_rows[is_above[:TOP]].max())


def draw(game: RatioGame, count: int, rng: np.random.Generator) -> Sample:
    """Draw masks, their outputs and their weights."""
    keep = draw_lime_masks(game.d, count, rng)
    weight = size_weight(game.d, 0.25)[game.d - keep.sum(axis=1)]
    return Sample(keep, np.asarray(value(game, keep)[0]), weight)


def draw_all(game: RatioGame) -> Sample:
    """Return all masks. Their weights contain their probabilities."""
    keep = enumerate_masks(game.d)
    weight = lime_mask_weights(game.d) * len(keep)
    return Sample(keep, np.asarray(value(game, keep)[0]), weight)


def fit(sample: Sample) -> Float[np.ndarray, " d"]:
    """Return the coefficients of LIME without a penalty."""
    centered, outputs = center(sample)
    return np.asarray(np.linalg.lstsq(centered, outputs, rcond=None)[0])


def center(sample: Sample) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """Return masks and outputs less their means, times the roots of the weights."""
    root = np.sqrt(sample.weight)
    keep = sample.keep - np.average(sample.keep, axis=0, weights=sample.weight)
    outputs = sample.outputs - np.average(sample.outputs, weights=sample.weight)
    return keep * root[:, None], outputs * root


def top_words(scores: Float[np.ndarray, " d"]) -> Words:
    """Return the words with the largest scores."""
    return tuple(np.argsort(-np.abs(scores), kind="stable")[:TOP].tolist())


def stabilize(game: RatioGame, rng: np.random.Generator) -> Selection:
    """Run S-LIME: draw a larger sample until no test fails, or until it is the largest."""
    count, total = FIRST, 0
    for _ in range(MAX_ROUNDS):
        words, has_failed, wanted = select_words(draw(game, count, rng))
        total += count
        if not has_failed or count == MOST:
            return Selection(words, total, count)
        count = int(np.clip(np.ceil(wanted), count + 1, MOST))
    raise RuntimeError(f"S-LIME does not stop after {MAX_ROUNDS} rounds.")


def select_words(sample: Sample) -> tuple[Words, bool, float]:
    """Return the first words of the path of the lasso, and the result of the tests.

    Returns
    -------
    The words, whether a test fails, and the number of samples that the tests want.
    """
    x, y = center(sample)
    n, d = x.shape
    _, _, path = lars_path(x, y, method="lasso")
    selected, has_failed, wanted = list[int](), False, float(n)
    step = 0
    while len(selected) < min(TOP, d) and step < path.shape[1]:
        active = set(np.flatnonzero(path[:, step]).tolist()) | set(selected)
        inactive = np.array([j for j in range(d) if j not in active])
        residual = y - x @ path[:, step]
        covariance = x[:, inactive].T @ residual / n
        first, *runners_up = np.argsort(-np.abs(covariance), kind="stable").tolist()
        if runners_up:
            signs = np.sign(covariance[[first, runners_up[0]]])
            products = x[:, inactive[[first, runners_up[0]]]] * residual[:, None] * signs
            difference = float(np.abs(covariance[first]) - np.abs(covariance[runners_up[0]]))
            # The factor of 2 is for two samples that must agree.
            error = np.sqrt(2 * np.var(products[:, 0] - products[:, 1], ddof=1) / n)
            threshold = norm.ppf(1 - LEVEL) * error
            if difference - threshold < -TOLERANCE:
                has_failed = True
                wanted = max(wanted, n * (threshold / max(difference, 1e-12)) ** 2)
        selected.append(int(inactive[first]))
        step += 1
    return tuple(selected), has_failed, wanted


def agreement(sets: Sequence[Words | frozenset[int]]) -> float:
    """Return the share of pairs of runs that select the same words."""
    return float(np.mean([a == b for a, b in combinations(sets, 2)]))


def summarize(name: str, label: str, rows: Sequence[Row]) -> Iterator[Measure]:
    """Yield samples, agreement and exactness of each method."""
    plans = np.array([row.plan for row in rows])
    yield Measure(
        id=f"{name}_plan_samples",
        what=f"{label}: samples that the law wants for the top {TOP} words, median",
        value=float(np.median(plans)),
        note=f"quartiles {np.quantile(plans, 0.25):,.0f} and {np.quantile(plans, 0.75):,.0f}; "
        f"more than {MOST:,} on {np.mean(plans > MOST):.0%} of {len(plans)} texts",
    )
    yield Measure(
        id=f"{name}_plan_over",
        what=f"{label}: texts for which the law wants more than {MOST:,} samples",
        value=float(np.mean(plans > MOST)),
    )
    order_plans = np.array([row.order_plan for row in rows])
    yield Measure(
        id=f"{name}_order_plan_samples",
        what=f"{label}: samples that the law wants for the order of the top {TOP} words, median",
        value=float(np.median(order_plans)),
        note=f"more than {MOST:,} on {np.mean(order_plans > MOST):.0%} of the texts",
    )
    yield Measure(
        id=f"{name}_path",
        what=f"{label}: texts on which our steps on all masks are those of scikit-learn's path",
        value=float(np.mean([row.has_same_path for row in rows])),
        at_least=1.0,
    )
    samples, last = (np.array([getattr(row, key) for row in rows]) for key in ("samples", "last"))
    yield Measure(
        id=f"{name}_slime_samples",
        what=f"{label}: samples that S-LIME draws, all rounds, median",
        value=float(np.median(samples)),
        note=f"last round {np.median(last):,.0f}",
    )
    yield Measure(
        id=f"{name}_slime_stopped",
        what=f"{label}: runs of S-LIME that stop before {MOST:,} samples",
        value=float(np.mean([row.stopped for row in rows])),
    )
    labels = {
        "slime": "S-LIME",
        "plan": f"LIME with the samples of the law, at most {MOST:,}",
        "order": f"LIME with the samples of the law for the order, at most {MOST:,}",
        "lime": f"LIME with {FIRST:,} samples",
        "control": f"LIME with {CONTROL} samples",
    }
    for method, what in labels.items():
        target: dict[str, float] = {"at_least": STABLE} if method in ("slime", "plan") else {}
        target |= {"below": STABLE} if method == "control" else {}
        yield Measure(
            id=f"{name}_{method}_agreement",
            what=f"{label}, {what}: pairs of runs with the same top {TOP} words",
            value=float(np.mean([row.agreement[method] for row in rows])),
            **target,
        )
        yield Measure(
            id=f"{name}_{method}_order",
            what=f"{label}, {what}: pairs of runs with the same top {TOP} words in the same order",
            value=float(np.mean([row.order_agreement[method] for row in rows])),
        )
        yield Measure(
            id=f"{name}_{method}_exact",
            what=f"{label}, {what}: runs with the top {TOP} words of the limit",
            value=float(np.mean([row.exact[method] for row in rows])),
        )
    possible = [row for row in rows if row.plan <= MOST]
    if possible:
        yield Measure(
            id=f"{name}_plan_possible_agreement",
            what=f"{label}, LIME with the samples of the law, texts that need at most {MOST:,}: "
            f"pairs of runs with the same top {TOP} words",
            value=float(np.mean([row.agreement["plan"] for row in possible])),
            at_least=STABLE,
            note=f"S-LIME on these texts {np.mean([r.agreement['slime'] for r in possible]):.4f}; "
            f"{len(possible)} texts, median plan {np.median([r.plan for r in possible]):,.0f}, "
            f"median S-LIME {np.median([r.samples for r in possible]):,.0f}",
        )


if __name__ == "__main__":
    main()
