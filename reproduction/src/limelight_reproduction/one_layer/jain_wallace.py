"""Jain and Wallace's two tests on the paper's classifier, the second one solved exactly."""

__all__ = ["EXPERIMENT"]

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from limelight import methods
from limelight_reproduction.drawing import BLUE, GREY, INK, VERMILLION, canvas, style_axes
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Table,
    Verdict,
    parts_for_both_models,
)
from limelight_reproduction.one_layer.jain_wallace_measured import MEASURES, measure
from limelight_reproduction.one_layer.subjects import MODELS

_LN2 = math.log(2)
_LABELS = {
    "gxi": "|G×I|",
    "g-l1": "G-l1",
    "loo": "|leave-one-out|",
}
_REPLACED = 0.99  # minimum total variation of attention that counts as replaced
_AGREE = 0.5  # minimum median τ that we call agreement
_FAR = 0.9  # minimum share of ln 2 at which attention counts as free


def _column(part: Numbers, group: str, name: str) -> np.ndarray:
    return np.array(part[group][name], dtype=np.float64)


def findings(numbers: Mapping[str, Numbers]) -> Findings:
    """Describe the results of both tests, and list the correlations in a table."""
    sentences = [
        sentence
        for name, label in MODELS.items()
        for sentence in (
            _describe_correlations(numbers[name], label),
            _describe_replacement(numbers[name], label),
            _describe_shuffles(numbers[name], label),
        )
    ]
    replaced_share = np.mean(_column(numbers["paper"], "replaced", "variation") >= _REPLACED)
    tau = np.median(_column(numbers["paper"], "correlations", "loo tau"))
    return Findings(
        headline=(
            f"Kendall's τ of attention and |leave-one-out| is {tau:.2f} in the median review, and "
            f"in {replaced_share:.0%} of the reviews {_REPLACED:.0%} or more of the attention can "
            "be replaced without any change of the prediction, by an exact solution."
        ),
        verdicts=[
            Verdict(
                claim="Attention correlates with leave-one-out (Jain and Wallace's first test)",
                holds="holds" if tau >= _AGREE else "does not hold",
                number=f"Kendall's τ {tau:.2f} in the median review",
                parts=("paper",),
            ),
            Verdict(
                claim="Other attention gives other predictions (their second test)",
                holds="does not hold" if replaced_share >= 0.5 else "holds",
                number=f"in {replaced_share:.0%} of the reviews {_REPLACED:.0%} of the attention "
                "can be replaced and the prediction stays",
                parts=("paper",),
            ),
        ],
        measured=sentences,
        meaning=_meaning(numbers),
        table=_table(numbers),
    )


def _meaning(numbers: Mapping[str, Numbers]) -> str:
    parts = [numbers[name] for name in MODELS]
    tau = min(
        np.median(_column(part, "correlations", f"{method} tau"))
        for part in parts
        for method in MEASURES
    )
    divergence = min(np.median(_column(part, "replaced", "jsd")) for part in parts)
    first = (
        "With one layer the first test finds agreement, unlike on the recurrent networks it was "
        "made for: Theorem 4.1 has α_t as a factor of the gradient, so their ranks go together."
        if tau >= _AGREE
        else "With one layer, too, the first test does not find agreement everywhere."
    )
    second = (
        "Attention does not pass the second test"
        if divergence >= _FAR * _LN2
        else "In the second test attention is held to some degree"
    )
    return (
        f"{first} Rank is not sign: α-avg cannot say which way a word pulls. {second}, and here by "
        "a theorem instead of a search: a head's output is linear in its attention, so the weights "
        "farthest away that leave it as it is are on two words at most. Each head's output is held "
        "separately; letting heads trade with one another could only go farther, up to the "
        "distance reached without any constraint. The objection of Wiegreffe and Pinter stands: "
        "the model computes attention from the words and could not produce these weights itself, "
        "so the test shows that the prediction does not pin attention down, not that attention "
        "means nothing. In the text-only test [cls] and padding keep their attention; the window "
        "test moves theirs too."
    )


def _describe_correlations(part: Numbers, label: str) -> str:
    descriptions = []
    for method in MEASURES:
        tau, p_values = (
            _column(part, "correlations", f"{method} {statistic}") for statistic in ("tau", "p")
        )
        share = np.mean((p_values < 0.05) & (tau > 0))
        descriptions.append(
            f"{np.median(tau):.2f} with {_LABELS[method]} (significant in {share:.0%})"
        )
    return (
        f"{label.capitalize()}, {part['texts']} test reviews, token by token: the median Kendall "
        f"τ of α-avg is {'; '.join(descriptions)}."
    )


def _describe_replacement(part: Numbers, label: str) -> str:
    columns = {name: _column(part, "replaced", name) for name in part["replaced"]}
    share = np.mean(columns["variation"] >= _REPLACED)
    return (
        f"{label.capitalize()}: with every head's output unchanged, attention over the words can "
        f"be moved by a Jensen–Shannon divergence of {np.median(columns['jsd']):.3f} (median over "
        f"reviews of the mean over heads; {columns['jsd'].min():.3f} at least; nothing is farther "
        f"than ln 2 = {_LN2:.3f}, and {np.median(columns['jsd unconstrained']):.3f} is reached "
        f"with any output; over the whole window {np.median(columns['jsd window']):.3f}). In "
        f"{share:.0%} of the reviews {_REPLACED:.0%} of it or more can be replaced (total "
        f"variation, mean over heads). The log-odds move by {columns['moved'].max():.0e} at most, "
        f"α-avg itself by {np.median(columns['jsd of alpha-avg']):.3f}, and in "
        f"{1 - columns['top kept'].mean():.0%} its strongest word changes."
    )


def _describe_shuffles(part: Numbers, label: str) -> str:
    change = _column(part, "replaced", "shuffled")
    return (
        f"{label.capitalize()}: shuffling the words' attention {part['permutations']} times moves "
        f"the probability by {np.median(change):.2f} (median over reviews of the median; "
        f"quartiles {np.quantile(change, 0.25):.2f} and {np.quantile(change, 0.75):.2f}); by less "
        f"than 0.05 in {np.mean(change < 0.05):.0%} of the reviews."
    )


def _table(numbers: Mapping[str, Numbers]) -> Table:
    rows, labels = [], {row.id: row.label for row in methods()}
    for name, label in MODELS.items():
        for method in MEASURES:
            tau, rho, p_values = (
                _column(numbers[name], "correlations", f"{method} {statistic}")
                for statistic in ("tau", "rho", "p")
            )
            low, middle, high = np.quantile(tau, [0.25, 0.5, 0.75])
            significant = float(np.mean((p_values < 0.05) & (tau > 0)))
            rows.append([label, labels[method], middle, low, high, np.median(rho), significant])
    columns = (
        "model",
        "α-avg against",
        "Kendall τ, median",
        "lower quartile",
        "upper quartile",
        "Spearman ρ, median",
        "share with τ > 0 at 5 %",
    )
    return Table(columns=columns, rows=rows)


def figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    """Draw the correlations, the counterfactual attention and the shuffles."""
    yield (
        "jain-wallace-correlations",
        "Kendall's τ between α-avg and three measures of importance, over test reviews.",
        _draw_correlations(numbers),
    )
    yield (
        "jain-wallace-counterfactual",
        "How far attention can be moved without moving the prediction, and one sentence before "
        "and after.",
        _draw_counterfactuals(numbers),
    )
    yield (
        "jain-wallace-shuffled",
        "What shuffling the words' attention does to the prediction, one dot per review.",
        _draw_shuffles(numbers),
    )


def _draw_correlations(numbers: Mapping[str, Numbers]) -> Any:
    figure, grid = canvas(7.5, 4.2, rows=2, columns=3)
    bins = np.linspace(-0.2, 1, 49)
    for row, (name, label) in zip(grid, MODELS.items(), strict=True):
        for axes, method in zip(row, MEASURES, strict=True):
            tau = _column(numbers[name], "correlations", f"{method} tau")
            axes.hist(tau, bins=bins, color=BLUE)
            axes.axvline(np.median(tau), color=INK, linewidth=1, linestyle="--")
            axes.axvline(0, color=GREY, linewidth=0.8)
            style_axes(axes, title=f"{_LABELS[method]}, {label}")
            axes.set_xlim(bins[0], bins[-1])
    for axes in grid[-1]:
        axes.set_xlabel("Kendall's τ with α-avg", fontsize=9)
    for axes in grid[:, 0]:
        axes.set_ylabel("reviews", fontsize=9)
    return figure


def _draw_counterfactuals(numbers: Mapping[str, Numbers]) -> Any:
    figure, grid = canvas(8.5, 6.4, rows=2, columns=2)
    for (histogram, example), (name, label) in zip(grid, MODELS.items(), strict=True):
        part = numbers[name]
        for column, color, series in (
            ("jsd", BLUE, "heads, their mean"),
            ("jsd of alpha-avg", VERMILLION, "α-avg, moved along"),
        ):
            divergences = _column(part, "replaced", column)
            histogram.hist(
                divergences,
                bins=np.linspace(0, 0.7, 57),
                histtype="step",
                color=color,
                label=series,
            )
        histogram.axvline(_LN2, color=INK, linewidth=1, linestyle="--", label="ln 2, the largest")
        histogram.legend(fontsize=8, frameon=False, loc="upper left")
        style_axes(
            histogram, title=f"{label}: same prediction", x="JSD from the attention", y="reviews"
        )
        _draw_example(example, part["example"], label)
    return figure


def _draw_example(axes: Any, example: Numbers, label: str) -> None:
    """Draw attention per word, before replacement to the left and after it to the right of zero."""
    positions = np.arange(len(example["words"]))
    axes.barh(positions, -np.array(example["before"]), color=BLUE, label="the model's")
    axes.barh(positions, example["after"], color=VERMILLION, label="replaced")
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(positions, example["words"])
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    limit = 1.08 * max(example["before"] + example["after"])
    axes.set_xlim(-limit, limit)
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    style_axes(axes, title=f"{label}: p = {example['probability']:.3f} both times", x="α-avg")
    axes.tick_params(axis="y", labelsize=7)


def _draw_shuffles(numbers: Mapping[str, Numbers]) -> Any:
    figure, grid = canvas(7.5, 3.2, columns=2)
    for axes, (name, label) in zip(grid, MODELS.items(), strict=True):
        largest, change = (_column(numbers[name], "replaced", k) for k in ("largest", "shuffled"))
        axes.scatter(largest, change, s=9, color=BLUE, alpha=0.5, linewidths=0)
        style_axes(axes, title=label, x="largest α-avg in the review")
        axes.set_xlim(0, None)
        axes.set_ylim(0, 1)
    grid[0].set_ylabel("median |change of probability|", fontsize=9)
    return figure


EXPERIMENT = Experiment(
    name="jain-wallace",
    title="Is attention explanation? Jain and Wallace's two tests",
    paper=(
        "Section 1.1 recalls two properties that Jain and Wallace (2019) ask of attention as an "
        "explanation, and did not find: it should correlate with gradients and leave-one-out, "
        "and other attention should give other predictions."
    ),
    parts=parts_for_both_models(measure),
    figures=figures,
    findings=findings,
)
