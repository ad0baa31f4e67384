"""Section 6 and Appendix B.1: the distance from Eq. 19 to LIME, and the causes of the distance."""

__all__ = ["EXPERIMENT"]

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from limelight_reproduction.drawing import BLUE, GREY, INK, VERMILLION, canvas, style_axes
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
    measure_authors_protocol,
    measure_seed,
)
from limelight_reproduction.one_layer.lime_values import SAMPLES
from limelight_reproduction.one_layer.subjects import MODELS, order_paper_first
from limelight_reproduction.setting import PAPER_SEEDS

REPORTED, REPORTED_SD = 0.808, 0.219


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    figure, grid = canvas(8.6, 3.4, columns=2)
    for axes, (part, model_numbers) in zip(grid, order_paper_first(numbers), strict=True):
        distances = [model_numbers["left"][name][0] for name in VALUES]
        positions = np.arange(len(distances))
        widest = max([*distances, REPORTED] if part == "paper" else distances)
        axes.barh(
            positions[:-1],
            distances[:-1],
            color=[VERMILLION, *[BLUE] * (len(distances) - 2)],
            height=0.6,
        )
        for position, distance in zip(positions[:-1], distances[:-1], strict=True):
            axes.text(
                distance + 0.01 * widest, position, f"{distance:.3f}", va="center", fontsize=8,
                color=INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )  # fmt: skip
        axes.set_yticks(positions[:-1], list(VALUES.values())[:-1])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.2 * widest)  # a label outside the limits would squeeze the axes
        if part == "paper":
            axes.axvline(REPORTED, color=GREY, linestyle="--", linewidth=1)
            label = f"the paper's {REPORTED}"
            axes.text(REPORTED - 0.008, 4.45, label, fontsize=7, color=GREY, ha="right")
        title = f"the {MODELS[part]}, {model_numbers['texts']} reviews"
        style_axes(axes, title=title, x="mean L2 distance to LIME")
    grid[1].set_yticklabels([])
    yield (
        "error",
        "Mean distance to one run of LIME as the authors call it. Each bar repairs one thing more "
        "than the bar above it.",
        figure,
    )


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    mean, deviation = numbers["authors"]["protocol"]
    effects = ", ".join(
        f"{label} {share:.0%}" for label, share in _contributions(numbers["paper"]).items()
    )
    columns = ("model", "value", "distance to LIME", "length of the step", "contribution")
    rows = [
        [
            f"the {MODELS[part]}",
            label,
            model_numbers["left"][name][0],
            model_numbers["step"][name][0] if name in STEPS else None,
            model_numbers["share"][name][0] if name in STEPS else None,
        ]
        for part, model_numbers in order_paper_first(numbers)
        for name, label in VALUES.items()
    ]
    return Findings(
        headline=(
            f"By the authors' protocol Eq. 19 is {mean:.3f} ± {deviation:.3f} from LIME (the "
            f"paper: {REPORTED} ± {REPORTED_SD}). Contributions to the distance by ours: {effects}."
        ),
        verdicts=_verdicts(numbers),
        measured=[
            _describe_authors_protocol(numbers["authors"]),
            *_describe_error("paper", numbers["paper"]),
            _describe_seeds(numbers),
            *_describe_error("shipped", numbers["shipped"]),
        ],
        meaning=_meaning(numbers["paper"]),
        table=Table(columns=columns, rows=rows),
    )


def _describe_authors_protocol(numbers: Numbers) -> str:
    """Describe the error by the authors' protocol, its standard error, and the effect of length."""
    mean, deviation = numbers["protocol"]
    error = deviation / numbers["texts"] ** 0.5
    by_length = ", ".join(
        f"{distance:.2f} (T = {tokens:.0f})" for tokens, distance in numbers["quarters"]
    )
    return (
        f"The paper's recipe, by the protocol of the authors' script (texts stripped of all but "
        f"letters and digits and cut at 255 tokens, the logit of “positive”, the mean of {RUNS} "
        f"runs with words deleted, the L2 norm over all words of a text): the mean L2 "
        f"error of Eq. 19 is {mean:.3f} ± {deviation:.3f} over {numbers['texts']:,} test reviews, "
        f"with a standard error of {error:.3f}; LIME's own length is {numbers['norm'][0]:.2f}. In "
        f"the four quarters of the reviews by length, with their median length: {by_length}."
    )


def _describe_error(part: str, numbers: Numbers) -> Iterator[str]:
    """Describe the error of one model by our own protocol and by exact values."""
    mean, deviation = numbers["protocol"]
    exact_numbers = numbers["every"]
    yield (
        f"The {MODELS[part]}, by our own (texts as they are, one run, words deleted), over "
        f"{numbers['texts']} reviews: {mean:.3f} ± {deviation:.3f}, and "
        f"{numbers['protocol_mean_of_runs'][0]:.3f} to the mean of {RUNS} runs; LIME's own length "
        f"is {numbers['norm'][0]:.2f}."
    )
    yield (
        "Contributions to this error, each step projected on the whole (they add up to 100%, and "
        "steps that lead away from LIME make some negative or more than that; another order would "
        f"divide it differently): {_describe_contributions(numbers)}."
    )
    yield (
        f"Where words are replaced by UNK, as the theory has it, the mean of {RUNS} runs of "
        f"LIME is {numbers['unk_left'][0]:.3f} from the exact value; the noise of that mean is "
        f"{numbers['unk_noise'][0]:.3f}."
    )
    yield (
        f"Without sampling, over {exact_numbers['texts']:,} reviews: Eq. 19 is "
        f"{exact_numbers['eq19-wide'][0]:.3f} from the limit that it approximates, the corrected "
        f"form {exact_numbers['first_order-wide'][0]:.3f}."
    )


def _verdicts(numbers: Mapping[str, Numbers]) -> list[Verdict]:
    paper, (mean, deviation) = numbers["paper"], numbers["authors"]["protocol"]
    holds = abs(mean - REPORTED) < 2 * _seed_deviation(numbers)
    printed, exact = paper["left"]["eq19"][0], paper["left"]["exact"][0]
    return [
        Verdict(
            claim=f"Eq. 19 is {REPORTED} ± {REPORTED_SD} from LIME over the test set (Section 6)",
            holds="reproduced" if holds else "not reproduced",
            number=f"{mean:.3f} ± {deviation:.3f}; between trainings it varies by "
            f"{_seed_deviation(numbers):.2f}",
        ),
        Verdict(
            claim="Is that distance the approximation's alone? (our question)",
            holds="no: deletion and bandwidth are part of it",
            number=f"{printed:.3f} for Eq. 19, still {exact:.3f} for the exact value",
            parts=("paper",),
        ),
    ]


def _seed_deviation(numbers: Mapping[str, Numbers]) -> float:
    """Return the standard deviation of the mean error between trainings."""
    seed_means = [numbers[f"seed-{seed}"]["protocol"][0] for seed in PAPER_SEEDS]
    return float(np.std(seed_means, ddof=1))


def _describe_seeds(numbers: Mapping[str, Numbers]) -> str:
    """Describe how the mean error depends on the seed of the training."""
    seed_means = sorted(numbers[f"seed-{seed}"]["protocol"][0] for seed in PAPER_SEEDS)
    position = "lies among them" if seed_means[0] <= REPORTED <= seed_means[-1] else "lies outside"
    deviations = abs(numbers["authors"]["protocol"][0] - REPORTED) / _seed_deviation(numbers)
    return (
        f"Over {len(seed_means)} seeds of the recipe the mean by our own protocol is "
        f"{', '.join(f'{mean:.3f}' for mean in seed_means)}, with a standard deviation of "
        f"{_seed_deviation(numbers):.3f} between trainings; the reported {REPORTED} {position}, "
        f"and what our model gives by the authors' protocol is {deviations:.1f} such deviations "
        "from it, well within what another training of the same recipe changes."
    )


def _contributions(numbers: Numbers) -> dict[str, float]:
    """Return the contributions of four effects. The slips are part of the first order."""
    share = {name: values[0] for name, values in numbers["share"].items()}
    return {
        "the first order with its two slips": share["first_order"] + share["wide"],
        "the bandwidth": share["exact"],
        "deletion": share["delete"],
        "sampling noise": share["lime"],
    }


def _describe_contributions(numbers: Numbers) -> str:
    slips, first_order = numbers["share"]["first_order"][0], numbers["share"]["wide"][0]
    parts = [f"{label} {share:.0%}" for label, share in _contributions(numbers).items()]
    parts[0] += f" (the slips {slips:.0%}, the first order {first_order:.0%})"
    return ", ".join(parts)


def _meaning(numbers: Numbers) -> str:
    effects = _contributions(numbers)
    largest = max(effects, key=lambda name: effects[name])
    correction_helps = numbers["left"]["first_order"][0] < numbers["left"]["eq19"][0]
    printed, corrected = (numbers["every"][f"{name}-wide"][0] for name in ("eq19", "first_order"))
    slips = (
        "Correcting the two slips brings it closer to LIME."
        if correction_helps
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
                setting.shipped_model,
                sampled_texts=SHIPPED_TEXTS,
                exact_texts=SHIPPED_EXACT_TEXTS,
            ),
            stages=2,
            version=3,
        ),
        Part(
            name="paper",
            measure=lambda setting: measure(setting, setting.recipe_model),
            stages=2,
            version=3,
        ),
        # Version 1 used a model of the recipe that is not stored with the package.
        Part(name="authors", measure=measure_authors_protocol, version=2),
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
