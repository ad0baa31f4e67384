"""Section 6 and Appendix B.1: how far Eq. 19 is from LIME, and what the distance is made of."""

__all__ = ["EXPERIMENT"]

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from limelight_reproduction.drawing import BLUE, GREY, INK, VERMILLION, canvas, plain
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Part,
    Table,
    Verdict,
)
from limelight_reproduction.one_layer.error_measured import (
    RUNS,
    SHIPPED_EXACT_TEXTS,
    SHIPPED_TEXTS,
    STEPS,
    VALUES,
    measure,
    measure_as_authors,
    measure_seed,
)
from limelight_reproduction.one_layer.lime_values import SAMPLES
from limelight_reproduction.one_layer.subjects import MODELS, paper_first
from limelight_reproduction.setting import PAPER_SEEDS

REPORTED, REPORTED_SD = 0.808, 0.219


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    figure, grid = canvas(8.6, 3.4, columns=2)
    for axes, (part, of) in zip(grid, paper_first(numbers), strict=True):
        left = [of["left"][name][0] for name in VALUES]
        places = np.arange(len(left))
        widest = max([*left, REPORTED] if part == "paper" else left)
        axes.barh(places[:-1], left[:-1], color=[VERMILLION, *[BLUE] * (len(left) - 2)], height=0.6)
        for place, value in zip(places[:-1], left[:-1], strict=True):
            axes.text(
                value + 0.01 * widest, place, f"{value:.3f}", va="center", fontsize=8, color=INK,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )  # fmt: skip
        axes.set_yticks(places[:-1], list(VALUES.values())[:-1])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.2 * widest)  # a mark outside would squeeze the axes to nothing
        if part == "paper":
            axes.axvline(REPORTED, color=GREY, linestyle="--", linewidth=1)
            said = f"the paper's {REPORTED}"
            axes.text(REPORTED - 0.008, 4.45, said, fontsize=7, color=GREY, ha="right")
        title = f"the {MODELS[part]}, {of['texts']} reviews"
        plain(axes, title=title, x="mean L2 distance to LIME")
    grid[1].set_yticklabels([])
    yield (
        "error",
        "Mean distance to one run of LIME as the authors call it. Each bar repairs one thing more "
        "than the bar above it.",
        figure,
    )


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    mean, deviation = numbers["authors"]["protocol"]
    effects = ", ".join(f"{what} {share:.0%}" for what, share in _effects(numbers["paper"]).items())
    columns = ("model", "value", "distance to LIME", "length of the step", "contribution")
    rows = [
        [
            f"the {MODELS[part]}",
            what,
            of["left"][name][0],
            of["step"][name][0] if name in STEPS else None,
            of["share"][name][0] if name in STEPS else None,
        ]
        for part, of in paper_first(numbers)
        for name, what in VALUES.items()
    ]
    return Findings(
        headline=(
            f"By the authors' protocol Eq. 19 is {mean:.3f} ± {deviation:.3f} from LIME (the "
            f"paper: {REPORTED} ± {REPORTED_SD}). Contributions to the distance by ours: {effects}."
        ),
        verdicts=_verdicts(numbers),
        measured=[
            _as_authors(numbers["authors"]),
            *_sentences("paper", numbers["paper"]),
            _over_seeds(numbers),
            *_sentences("shipped", numbers["shipped"]),
        ],
        meaning=_meaning(numbers["paper"]),
        table=Table(columns=columns, rows=rows),
    )


def _as_authors(of: Numbers) -> str:
    """Say what the authors' protocol gives, how sure that is, and whether length matters."""
    mean, deviation = of["protocol"]
    error = deviation / of["texts"] ** 0.5
    by_length = ", ".join(f"{left:.2f} (T = {tokens:.0f})" for tokens, left in of["quarters"])
    return (
        f"The paper's recipe, by the protocol of the authors' script (texts stripped of all but "
        f"letters and digits and cut at 255 tokens, the logit of “positive”, the mean of {RUNS} "
        f"runs with words deleted, the L2 norm over all words of a text): the mean L2 "
        f"error of Eq. 19 is {mean:.3f} ± {deviation:.3f} over {of['texts']:,} test reviews, with "
        f"a standard error of {error:.3f}; LIME's own length is {of['norm'][0]:.2f}. In the four "
        f"quarters of the reviews by length, with their median length: {by_length}."
    )


def _sentences(part: str, of: Numbers) -> Iterator[str]:
    mean, deviation = of["protocol"]
    every = of["every"]
    yield (
        f"The {MODELS[part]}, by our own (texts as they are, one run, words deleted), over "
        f"{of['texts']} reviews: {mean:.3f} ± {deviation:.3f}, and "
        f"{of['protocol_mean_of_runs'][0]:.3f} to the mean of {RUNS} runs; LIME's own length is "
        f"{of['norm'][0]:.2f}."
    )
    yield (
        "Contributions to this error, each step projected on the whole (they add up to 100%, and "
        "steps that lead away from LIME make some negative or more than that; another order would "
        f"divide it differently): {_shares(of)}."
    )
    yield (
        f"Where words are replaced by UNK, as the theory has it, the mean of {RUNS} runs of "
        f"LIME is {of['unk_left'][0]:.3f} from the exact value; the noise of that mean is "
        f"{of['unk_noise'][0]:.3f}."
    )
    yield (
        f"Without sampling, over {every['texts']:,} reviews: Eq. 19 is "
        f"{every['eq19-wide'][0]:.3f} from the limit that it approximates, the corrected form "
        f"{every['first_order-wide'][0]:.3f}."
    )


def _verdicts(numbers: Mapping[str, Numbers]) -> list[Verdict]:
    of, (mean, deviation) = numbers["paper"], numbers["authors"]["protocol"]
    holds = abs(mean - REPORTED) < 2 * _between_seeds(numbers)
    printed, exact = of["left"]["eq19"][0], of["left"]["exact"][0]
    return [
        Verdict(
            claim=f"Eq. 19 is {REPORTED} ± {REPORTED_SD} from LIME over the test set (Section 6)",
            holds="reproduced" if holds else "not reproduced",
            number=f"{mean:.3f} ± {deviation:.3f}; between trainings it varies by "
            f"{_between_seeds(numbers):.2f}",
        ),
        Verdict(
            claim="Is that distance the approximation's alone? (our question)",
            holds="no: deletion and bandwidth are part of it",
            number=f"{printed:.3f} for Eq. 19, still {exact:.3f} for the exact value",
            parts=("paper",),
        ),
    ]


def _between_seeds(numbers: Mapping[str, Numbers]) -> float:
    """Return the standard deviation of the mean error between trainings."""
    means = [numbers[f"seed-{seed}"]["protocol"][0] for seed in PAPER_SEEDS]
    return float(np.std(means, ddof=1))


def _over_seeds(numbers: Mapping[str, Numbers]) -> str:
    """Say how far the mean error depends on the seed with which the recipe was trained."""
    means = sorted(numbers[f"seed-{seed}"]["protocol"][0] for seed in PAPER_SEEDS)
    inside = "lies among them" if means[0] <= REPORTED <= means[-1] else "lies outside"
    away = abs(numbers["authors"]["protocol"][0] - REPORTED) / _between_seeds(numbers)
    return (
        f"Over {len(means)} seeds of the recipe the mean by our own protocol is "
        f"{', '.join(f'{mean:.3f}' for mean in means)}, with a standard deviation of "
        f"{_between_seeds(numbers):.3f} between trainings; the reported {REPORTED} {inside}, and "
        f"what our model gives by the authors' protocol is {away:.1f} such deviations from it, "
        "well within what another training of the same recipe changes."
    )


def _effects(of: Numbers) -> dict[str, float]:
    """Return the contributions of four effects; the slips belong to the first order."""
    share = {name: values[0] for name, values in of["share"].items()}
    return {
        "the first order with its two slips": share["first_order"] + share["wide"],
        "the bandwidth": share["exact"],
        "deletion": share["delete"],
        "sampling noise": share["lime"],
    }


def _shares(of: Numbers) -> str:
    slips, rest = of["share"]["first_order"][0], of["share"]["wide"][0]
    told = [f"{what} {share:.0%}" for what, share in _effects(of).items()]
    told[0] += f" (the slips {slips:.0%}, the first order {rest:.0%})"
    return ", ".join(told)


def _meaning(of: Numbers) -> str:
    effects = _effects(of)
    largest = max(effects, key=lambda name: effects[name])
    helps = of["left"]["first_order"][0] < of["left"]["eq19"][0]
    printed, corrected = (of["every"][f"{name}-wide"][0] for name in ("eq19", "first_order"))
    slips = (
        "Correcting the two slips brings it closer to LIME."
        if helps
        else "Correcting the two slips alone brings it no closer to LIME: "
        f"from its own limit Eq. 19 is {printed:.3f} away and the corrected form "
        f"{corrected:.3f}. On weights trained as in the paper a first order is too coarse either "
        "way."
    )
    return (
        "The published number is not one error but several. The package deletes words where the "
        "theory replaces them; it weighs samples with bandwidth 0.25 where the theory lets it "
        "grow; Eq. 19 is a first order with a factor 3/2 where we find 1, and without centring; "
        f"and {SAMPLES:,} samples leave noise. The largest contribution is that of {largest} "
        f"({effects[largest]:.0%}). {slips} The exact value needs no such approximation, and what "
        "then remains is deletion and noise."
    )


EXPERIMENT = Experiment(
    name="error",
    title="Section 6 and Appendix B.1: the error of Theorem 5.1",
    paper=(
        "Over the test set, the L2 distance between LIME's weights (the official package, default "
        f"parameters) and Eq. 19 is {REPORTED} on average, with standard deviation {REPORTED_SD}."
    ),
    parts=(
        Part(
            name="shipped",
            measure=lambda setting: measure(
                setting,
                setting.shipped,
                sampled_texts=SHIPPED_TEXTS,
                exact_texts=SHIPPED_EXACT_TEXTS,
            ),
            stages=2,
            version=3,
        ),
        Part(
            name="paper",
            measure=lambda setting: measure(setting, setting.paper),
            stages=2,
            version=3,
        ),
        # Version 1 was on a model of the recipe that was not carried along.
        Part(name="authors", measure=measure_as_authors, version=2),
        *(
            Part(
                name=f"seed-{seed}",
                measure=partial(measure_seed, seed=seed),
                needs=("gpu",),
                reads=("imdb train", "imdb test"),
                stages=2,
            )
            for seed in PAPER_SEEDS
        ),
    ),
    findings=_findings,
    figures=_figures,
)
