"""How much shares, comments and heads change with the seed of the training.

The rules for the verdicts were written before the measurement.

*Claims.* The comments of Sections 4 and 5 are decided by the rule of the experiment ``comments``,
for every training. A claim depends on the seed of a recipe if not all trainings of this recipe have
the same verdict.

*Order.* Two methods change places with the seed of a recipe if the sign of the difference of their
shares is not the same for all its trainings.

*Heads.* The heads of a training look at different places if two of them put at least 25 % of their
attention in different places, as in Figure 3.

*Error.* The interval over reviews of a single training is enough for a number if the standard
deviation over trainings is at most its standard error over reviews (the mean over the trainings).
"""

__all__ = ["EXPERIMENT", "SeedSummary", "summarize_seeds"]

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, final

import numpy as np

from limelight_reproduction.drawing import GREY, canvas, style_axes
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Part,
    Table,
    Verdict,
)
from limelight_reproduction.intervals import Interval, format_interval, training_interval
from limelight_reproduction.one_layer.claims import CLAIMS, HOLDS, Claim
from limelight_reproduction.one_layer.figure_3 import DIFFERENT
from limelight_reproduction.one_layer.subjects import COLORS
from limelight_reproduction.questions.seeds_measured import (
    ACCURACY,
    HEADS,
    ROOM,
    SHARES,
    measure,
)
from limelight_reproduction.setting import PAPER_SEEDS

RECIPES = {"paper": "paper's recipe", "shipped": "recipe of the shipped model"}
VALUES = ACCURACY | SHARES | ROOM | HEADS
_Z = 1.96  # half of a 95 % interval, in standard errors
# The standard error of a median of n normal values with interquartile range q is about 0.93 q/√n.
_MEDIAN_ERROR = 0.93


@final
@dataclass(frozen=True, kw_only=True)
class SeedSummary:
    """A number over the trainings of a recipe."""

    mean: float
    deviation: float
    """Standard deviation over the trainings."""
    low: float
    high: float
    text_error: float
    """Standard error over reviews of one training, as the mean over the trainings."""
    interval: Interval
    """The mean with its 95 % interval over trainings and reviews."""

    @property
    def is_text_error_enough(self) -> bool:
        """Whether the trainings differ at most as much as the error over reviews."""
        return self.deviation <= self.text_error


def summarize_seeds(intervals: Sequence[Interval]) -> SeedSummary:
    """Summarize a number of several trainings, each with its 95 % interval over reviews."""
    values = [value for value, _, _ in intervals]
    text_error = float(np.mean([(high - low) / (2 * _Z) for _, low, high in intervals]))
    return SeedSummary(
        mean=float(np.mean(values)),
        deviation=float(np.std(values, ddof=1)),
        low=min(values),
        high=max(values),
        text_error=text_error,
        interval=training_interval(values, text_error),
    )


def _trainings(numbers: Mapping[str, Numbers], recipe: str) -> list[Numbers]:
    """Return the numbers of all trainings of a recipe, by seed."""
    return [numbers[f"{recipe}-{seed}"] for seed in PAPER_SEEDS]


def _summary(numbers: Mapping[str, Numbers], recipe: str, name: str) -> SeedSummary:
    return summarize_seeds([part["values"][name] for part in _trainings(numbers, recipe)])


def _statistic_summary(numbers: Mapping[str, Numbers], recipe: str, key: str) -> SeedSummary:
    """Summarize the median over reviews of a statistic of the comments."""
    intervals = []
    for part in _trainings(numbers, recipe):
        low, middle, high = part["comments"]["spread"][key]
        half = _Z * _MEDIAN_ERROR * (high - low) / part["comments"]["documents"] ** 0.5
        intervals.append([middle, middle - half, middle + half])
    return summarize_seeds(intervals)


def _count_verdicts(numbers: Mapping[str, Numbers], recipe: str, claim: Claim) -> Counter[str]:
    """Count the verdicts on a claim over the trainings of a recipe."""
    return Counter(claim.verdict(part["comments"]) for part in _trainings(numbers, recipe))


def _changing_claims(numbers: Mapping[str, Numbers], recipe: str) -> list[Claim]:
    """Return the claims whose verdict depends on the seed of a recipe."""
    return [claim for claim in CLAIMS if len(_count_verdicts(numbers, recipe, claim)) > 1]


def _changing_pairs(numbers: Mapping[str, Numbers], recipe: str) -> list[tuple[str, str]]:
    """Return the pairs of methods that change places with the seed of a recipe."""
    trainings = [part["values"] for part in _trainings(numbers, recipe)]
    return [
        (first, second)
        for first, second in combinations(SHARES, 2)
        if len({np.sign(values[first][0] - values[second][0]) for values in trainings}) > 1
    ]


def _count_different_heads(numbers: Mapping[str, Numbers], recipe: str) -> int:
    """Count the trainings whose heads look at different places."""
    distances = [part["values"]["distance"][0] for part in _trainings(numbers, recipe)]
    return sum(distance >= DIFFERENT for distance in distances)


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    figure, grid = canvas(8.6, 3.0, columns=2)
    positions = np.arange(len(SHARES))
    for axes, (recipe, label) in zip(grid, RECIPES.items(), strict=True):
        trainings = _trainings(numbers, recipe)
        shifts = np.linspace(-0.25, 0.25, len(trainings))
        for part, shift in zip(trainings, shifts, strict=True):
            intervals = [part["values"][name] for name in SHARES]
            values, low, high = np.transpose(intervals)
            axes.vlines(positions + shift, low, high, color=COLORS[recipe], alpha=0.5, linewidth=1)
            axes.plot(positions + shift, values, "o", color=COLORS[recipe], markersize=3.5)
        means = [_summary(numbers, recipe, name).mean for name in SHARES]
        axes.hlines(means, positions - 0.34, positions + 0.34, color=GREY, linewidth=1)
        axes.set_xticks(
            positions, [name.replace(" ", "\n") for name in SHARES.values()], fontsize=8
        )
        axes.set_ylim(0, 1.03)
        style_axes(axes, title=label, y="share (0 chance, 1 ceiling)")
    yield (
        "seeds",
        "Shares of seven trainings of each recipe, with 95 % intervals over reviews. The grey line "
        "is the mean over the trainings.",
        figure,
    )


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    part = numbers["paper-0"]
    return Findings(
        headline=(
            f"Over {len(PAPER_SEEDS)} seeds the share of α-avg is {_mean_and_deviation(numbers)}. "
            f"{_describe_changing_claims(numbers)}"
        ),
        verdicts=_verdicts(numbers),
        measured=[
            f"Each of the two recipes was trained with {len(PAPER_SEEDS)} seeds. Accuracy is "
            f"measured on {part['test']:,} test reviews, shares and heads on {part['texts']}, and "
            f"the comments on {part['comments']['documents']}, the same for every training. "
            "Intervals contain the error over trainings and over reviews.",
            *(_describe_recipe(numbers, recipe) for recipe in RECIPES),
            *(_describe_claim(numbers, claim) for claim in CLAIMS),
            "Rules: a claim depends on the seed if the trainings of a recipe have different "
            "verdicts. Two methods change places if the sign of the difference of their shares "
            "is not that of all trainings. The interval over reviews is enough if the standard "
            "deviation over seeds is at most the standard error over reviews. Heads look at "
            f"different places from {DIFFERENT:.0%} of their attention on.",
        ],
        meaning=_meaning(numbers),
        table=_table(numbers),
    )


def _mean_and_deviation(numbers: Mapping[str, Numbers], name: str = "alpha-avg") -> str:
    """Describe mean and standard deviation of a number for both recipes."""
    summaries = {recipe: _summary(numbers, recipe, name) for recipe in RECIPES}
    return " and ".join(
        f"{summary.mean:.3f} ± {summary.deviation:.3f} ({RECIPES[recipe]})"
        for recipe, summary in summaries.items()
    )


def _describe_changing_claims(numbers: Mapping[str, Numbers]) -> str:
    counts = [
        f"{len(_changing_claims(numbers, recipe))} ({label})" for recipe, label in RECIPES.items()
    ]
    return f"Of {len(CLAIMS)} claims in words, {' and '.join(counts)} depend on the seed."


def _verdicts(numbers: Mapping[str, Numbers]) -> list[Verdict]:
    claims = {recipe: _changing_claims(numbers, recipe) for recipe in RECIPES}
    pairs = {recipe: _changing_pairs(numbers, recipe) for recipe in RECIPES}
    heads = {recipe: _count_different_heads(numbers, recipe) for recipe in RECIPES}
    enough = {
        recipe: [name for name in SHARES if _summary(numbers, recipe, name).is_text_error_enough]
        for recipe in RECIPES
    }
    seeds = len(PAPER_SEEDS)
    return [
        Verdict(
            claim="Do the comments of Sections 4 and 5 depend on the seed? (our question)",
            holds=_yes_or_no(claims),
            number="; ".join(
                f"{RECIPES[recipe]}: {len(changing)} of {len(CLAIMS)} claims"
                for recipe, changing in claims.items()
            ),
        ),
        Verdict(
            claim="Do methods change places with the seed, by their shares? (our question)",
            holds=_yes_or_no(pairs),
            number="; ".join(
                f"{RECIPES[recipe]}: {_join_pairs(changing)}" for recipe, changing in pairs.items()
            ),
        ),
        Verdict(
            claim="Each head looks at other parts of the document, with every seed (Figure 3)",
            holds="; ".join(
                f"{RECIPES[recipe]}: {count} of {seeds} seeds" for recipe, count in heads.items()
            ),
            number="share of attention in different places "
            + _mean_and_deviation(numbers, "distance"),
        ),
        Verdict(
            claim="Is the interval over reviews of a single training enough? (our question)",
            holds=_yes_or_no(
                {recipe: len(names) == len(SHARES) for recipe, names in enough.items()}
            ),
            number="; ".join(
                f"{RECIPES[recipe]}: for {len(names)} of {len(SHARES)} shares"
                for recipe, names in enough.items()
            ),
        ),
    ]


def _yes_or_no(answers: Mapping[str, Any]) -> str:
    """Return whether the answer of both recipes is yes, or name the recipe for which it is."""
    recipes = [recipe for recipe, answer in answers.items() if answer]
    if len(recipes) == len(answers):
        return "yes"
    return f"only with the {RECIPES[recipes[0]]}" if recipes else "no"


def _join_pairs(pairs: Sequence[tuple[str, str]]) -> str:
    names = [f"{SHARES[first]} and {SHARES[second]}" for first, second in pairs]
    return ", ".join(names) or "no pair"


def _describe_recipe(numbers: Mapping[str, Numbers], recipe: str) -> str:
    """Describe mean, standard deviation and range of accuracy, shares and heads of a recipe."""
    values = ACCURACY | SHARES | HEADS
    summaries = {label: _summary(numbers, recipe, name) for name, label in values.items()}
    sentences = [
        f"{label} {format_interval(summary.interval, 3)}, standard deviation "
        f"{summary.deviation:.3f}, from {summary.low:.3f} to {summary.high:.3f}"
        for label, summary in summaries.items()
    ]
    return f"The {RECIPES[recipe]}: {'; '.join(sentences)}."


def _describe_claim(numbers: Mapping[str, Numbers], claim: Claim) -> str:
    """Describe for how many seeds of each recipe a claim has which verdict."""
    sentences = []
    for recipe, label in RECIPES.items():
        counts = _count_verdicts(numbers, recipe, claim)
        verdicts = ", ".join(f"{verdict} ({count})" for verdict, count in counts.most_common())
        sentences.append(
            f"With the {label} it holds for {counts[HOLDS]} of {counts.total()} seeds: {verdicts}."
        )
    return f"Section {claim.section}: {claim.statement}. {' '.join(sentences)}"


def _meaning(numbers: Mapping[str, Numbers]) -> str:
    wide = [
        f"{SHARES[name]} ({RECIPES[recipe]})"
        for recipe in RECIPES
        for name in SHARES
        if not _summary(numbers, recipe, name).is_text_error_enough
    ]
    spread = (
        "Shares of these methods differ more between seeds than an interval over reviews says: "
        f"{', '.join(wide)}. An article should give them over several trainings."
        if wide
        else "No share differs more between seeds than an interval over reviews says."
    )
    stable = [
        claim
        for claim in CLAIMS
        if all(_count_verdicts(numbers, recipe, claim)[HOLDS] == len(PAPER_SEEDS)
               for recipe in RECIPES)
    ]  # fmt: skip
    return (
        f"{spread} {len(stable)} of the {len(CLAIMS)} claims hold with every seed of both recipes."
    )


def _table(numbers: Mapping[str, Numbers]) -> Table:
    rows: list[list[Any]] = []
    for recipe, label in RECIPES.items():
        summaries = {name: _summary(numbers, recipe, key) for key, name in VALUES.items()} | {
            f"{claim.section}: {key}": _statistic_summary(numbers, recipe, key)
            for claim in CLAIMS
            for key in claim.statistics
        }
        rows += [
            [label, name, s.mean, s.deviation, s.low, s.high, *s.interval[1:]]
            for name, s in summaries.items()
        ]
    columns = (
        "recipe", "number", "mean over seeds", "standard deviation", "smallest", "largest",
        "95 % from", "95 % to",
    )  # fmt: skip
    return Table(columns=columns, rows=rows)


EXPERIMENT = Experiment(
    name="seeds",
    title="Seven seeds of both recipes",
    paper=(
        "The paper shows one training of its classifier. Its comments, and Figure 3 on the heads, "
        "are about that training."
    ),
    parts=tuple(
        Part(
            name=f"{recipe}-{seed}",
            measure=partial(measure, recipe=recipe, seed=seed),
            needs=("gpu",),
            reads=("imdb train", "imdb test"),
            stages=2,
        )
        for recipe in RECIPES
        for seed in PAPER_SEEDS
    ),
    findings=_findings,
    figures=_figures,
)
